"""Dual encoders of images and texts (CLIP, SigLIP, ALIGN, FLAVA, BLIP and the others that are known as encoders).

The contrastive loss is over the whole batch, also where several processes hold a part of it each. Images whose captions
are equal are positives together, unless ``equal="apart"`` keeps to the letter of CLIP, where each image has one. A
model with a bias of its logits (SigLIP) learns by the sigmoid loss it was made with (Zhai et al., ICCV 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hf.checkpoint import image_processor, stock_model, tokenizer
from equipoise.models.hf.families import EncoderFamily, TokenIds, context_length, family_of
from equipoise.models.images import processed
from equipoise.models.runtime import quiet
from equipoise.train.processes import Processes
from equipoise.train.rows import TrainingRows
from equipoise.train.task import Inputs, Row, drawn_texts, fresh_model, save_stock

_LARGEST_SCALE = 100.0
"""CLIP's limit of the temperature."""


class ClipTask:
    """Trains a dual encoder on images and their captions."""

    name = "clip"
    looks = True

    def __init__(
        self,
        caption: str = "caption",
        loss: Literal["auto", "contrastive", "sigmoid"] = "auto",
        equal: Literal["together", "apart"] = "together",
    ) -> None:
        """``caption`` names the column of texts; of a column of lists, one text is drawn by the step."""
        self.caption, self.form, self.equal = caption, loss, equal
        self.columns: tuple[str, ...] = (caption,)

    def options(self) -> dict[str, Any]:
        """The keywords that make such a task again."""
        return {"caption": self.caption, "loss": self.form, "equal": self.equal}

    def open(self, checkpoint: Checkpoint, rows: TrainingRows, *, fresh: bool = False) -> Any:
        """The dual encoder in ``checkpoint``."""
        how = family_of(checkpoint)
        if not isinstance(how, EncoderFamily) or how.build:
            raise InputError(f"{checkpoint.folder}: not a dual encoder of transformers, so it learns no pairs of them")
        checkpoint.needs_images()
        checkpoint.needs_texts()
        self.how = how
        with quiet():
            self.processor = image_processor(checkpoint)
            self.words = how.tokenizer(tokenizer(checkpoint))
            model = stock_model(checkpoint, how.model_class, attention=how.attention)
            model = fresh_model(model) if fresh else model
        self.tokens = TokenIds(
            self.words, context_length(self.words, model.config, how.context), how.padding, how.masked
        )
        if self.form == "auto":
            self.form = "sigmoid" if getattr(model, "logit_bias", None) is not None else "contrastive"
        if self.form == "sigmoid" and getattr(model, "logit_bias", None) is None:
            raise InputError(f"{checkpoint.folder}: its logits have no bias, which the sigmoid loss needs")
        return model

    def inputs(self, rows: Sequence[Row], step: int) -> Inputs:
        """Pixels, tokens, and a number for each caption that is equal for equal captions."""
        texts = drawn_texts(rows, self.caption, step)
        return {
            "images": processed(self.processor, [row["image"] for row in rows]),
            "texts": self.tokens(texts),
            "codes": codes_of(texts),
        }

    def loss(self, model: Any, inputs: Inputs, processes: Processes) -> Any:
        """The contrastive or sigmoid loss of the batch."""
        images, texts = self.vectors(model, inputs)
        return self.pair_loss(model, images, texts, inputs["codes"], processes)

    def vectors(self, model: Any, inputs: Inputs) -> tuple[Any, Any]:
        """(n, d) unit vectors of the images and of the texts."""
        from torch.nn.functional import normalize

        images = normalize(self.how.images(model, inputs["images"]).float(), dim=-1)
        return images, normalize(self.how.texts(model, inputs["texts"]).float(), dim=-1)

    def pair_loss(self, model: Any, images: Any, texts: Any, codes: Any, processes: Processes) -> Any:
        """The loss of pairs whose vectors are known."""
        import torch

        scale = self.scale(model)
        if self.equal == "apart":
            start = processes.first_row(len(images))
            codes = torch.arange(start, start + len(images), device=images.device)
        if self.form == "sigmoid":
            return sigmoid_loss(images, texts, codes, scale, model.logit_bias, processes)
        return contrastive_loss(images, texts, codes, scale, processes)

    def scale(self, model: Any) -> Any:
        """What cosines are multiplied with; learnt where the family learns it."""
        if hasattr(model, "temperature"):
            return 1 / model.temperature
        if hasattr(model, "logit_scale"):
            return model.logit_scale.exp().clamp(max=_LARGEST_SCALE)
        return self.how.scale(model)

    def save(self, model: Any, folder: Path) -> None:
        """Weights, settings, tokenizer and image processor."""
        save_stock(model, folder, self.words, self.processor)


def codes_of(texts: Sequence[str]) -> Any:
    """(n,) a number for each text, equal for equal texts in every process."""
    import hashlib

    import torch

    digests = [hashlib.sha256(text.encode()).digest()[:7] for text in texts]
    return torch.tensor([int.from_bytes(digest, "big") for digest in digests])


def contrastive_loss(images: Any, texts: Any, codes: Any, scale: Any, processes: Processes) -> Any:
    """The symmetric cross-entropy of (n, d) unit vectors of pairs; pairs with equal ``codes`` (n,) are one another's.

    >>> import torch
    >>> same = torch.eye(2)
    >>> round(float(contrastive_loss(same, same, torch.tensor([0, 1]), 1.0, Processes())), 4)  # ln(1 + 1/e)
    0.3133
    """
    all_images, all_texts = processes.gathered(images), processes.gathered(texts)
    all_codes = processes.gathered(codes)
    wanted = (codes[:, None] == all_codes[None, :]).float()
    wanted = wanted / wanted.sum(dim=1, keepdim=True)
    by_image = -(wanted * (scale * images @ all_texts.T).log_softmax(dim=1)).sum()
    by_text = -(wanted * (scale * texts @ all_images.T).log_softmax(dim=1)).sum()
    return (by_image + by_text) / (2 * len(all_codes))


def sigmoid_loss(images: Any, texts: Any, codes: Any, scale: Any, bias: Any, processes: Processes) -> Any:
    """The pairwise sigmoid loss (Zhai et al., ICCV 2023): every image with every text is a decision of its own.

    >>> import torch
    >>> one = torch.ones(1, 1)
    >>> round(float(sigmoid_loss(one, one, torch.tensor([0]), 1.0, 0.0, Processes())), 4)  # ln(1 + 1/e)
    0.3133
    """
    from torch.nn.functional import logsigmoid

    all_texts, all_codes = processes.gathered(texts), processes.gathered(codes)
    signs = 2 * (codes[:, None] == all_codes[None, :]).float() - 1
    return -logsigmoid(signs * (scale * images @ all_texts.T + bias)).sum() / len(all_codes)
