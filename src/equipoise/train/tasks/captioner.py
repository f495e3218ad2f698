"""Captioners: a vision encoder with a text decoder, ClipCap's prefix for GPT-2 (Mokady et al., 2021), and BLIP-2.

Of BLIP-2 the image encoder and the querying transformer learn and the language model stays as it is, as where it was
fine-tuned on captions (Li et al., ICML 2023).

``loss=equalizer`` adds the losses of the Gender Equalizer (Burns et al., ECCV 2018), for tables that say where people
are (:mod:`equipoise.train.losses.equalizer`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint, open_checkpoint
from equipoise.models.hf.captioners import mapper, stock_processor
from equipoise.models.hf.checkpoint import image_processor, stock_model, tokenizer, without_padding
from equipoise.models.images import processed
from equipoise.models.runtime import quiet
from equipoise.text import Lexicon
from equipoise.train.losses.equalizer import WEIGHTS, Equalizer, group_tokens, without_people
from equipoise.train.processes import Processes
from equipoise.train.rows import TrainingRows
from equipoise.train.task import (
    IGNORED,
    Inputs,
    Row,
    drawn_texts,
    fresh_model,
    mean_cross_entropy,
    padded_tokens,
    save_stock,
)

_FORMS = ("vision-encoder-decoder", "clipcap", "blip-2")


class CaptionerTask:
    """Trains a captioner on images and their captions, by the cross-entropy of the next token."""

    name = "captioner"
    looks = True

    def __init__(
        self,
        caption: str = "caption",
        tokens: int = 64,
        *,
        loss: Literal["plain", "equalizer"] = "plain",
        weights: Sequence[float] = WEIGHTS,
        lexicon: str = "equipoise",
        people: str = "people",
    ) -> None:
        """``caption`` names the column of texts; of a column of lists, one is drawn by the step. Texts longer than
        ``tokens`` are cut.

        ``loss`` is ``plain`` or ``equalizer``, whose ``weights`` are those of confusion, of confidence and of pictures
        without people; ``lexicon`` has the words of the groups, ``people`` is the column that says where people are.
        """
        if tokens < 2:
            raise InputError(f"tokens = {tokens}: a caption has at least 2, its beginning and its end")
        if loss not in ("plain", "equalizer"):
            raise InputError(f"loss = {loss!r}: a captioner learns by plain or by equalizer")
        if len(weights) != len(WEIGHTS) or min(weights) < 0:
            raise InputError(
                f"weights = {list(weights)}: give three, none below 0: of confusion, of confidence and of pictures "
                "without people"
            )
        self.caption, self.length, self.form = caption, tokens, loss
        self.weights = (float(weights[0]), float(weights[1]), float(weights[2]))
        self.lexicon, self.people = lexicon, people
        usual = (self.weights, lexicon, people) == (WEIGHTS, "equipoise", "people")
        if loss == "plain" and not usual:
            raise InputError("weights, lexicon and people are options of loss=equalizer; leave them out")
        self.columns: tuple[str, ...] = (caption, people) if loss == "equalizer" else (caption,)

    def options(self) -> dict[str, Any]:
        """The keywords that make such a task again."""
        plain: dict[str, Any] = {"caption": self.caption, "tokens": self.length}
        if self.form == "plain":
            return plain
        more = {"weights": list(self.weights), "lexicon": self.lexicon, "people": self.people}
        return plain | {"loss": self.form} | more

    def open(self, checkpoint: Checkpoint, rows: TrainingRows, *, fresh: bool = False) -> Any:
        """The captioner in ``checkpoint``: a vision-encoder-decoder, a ClipCap folder or a BLIP-2."""
        if checkpoint.model_type not in _FORMS:
            raise InputError(
                f"{checkpoint.folder}: a {checkpoint.model_type!r} model; captioners that are trained here are of the "
                f"forms {', '.join(_FORMS[:-1])} and {_FORMS[-1]}"
            )
        self.is_prefix, self.is_blip = checkpoint.model_type == "clipcap", checkpoint.model_type == "blip-2"
        openers = {"clipcap": self._opened_clipcap, "blip-2": self._opened_blip}
        model = openers.get(checkpoint.model_type, self._opened_stock)(checkpoint, fresh)
        if self.form == "equalizer":
            self.equalizer = Equalizer(group_tokens(self.words, Lexicon.load(self.lexicon)), self.weights)
        return model

    def _opened_stock(self, checkpoint: Checkpoint, fresh: bool) -> Any:
        """A vision encoder with a text decoder."""
        with quiet():
            self.processor, self.words = image_processor(checkpoint), tokenizer(checkpoint)
            model = stock_model(checkpoint, "VisionEncoderDecoderModel")
            model = fresh_model(model) if fresh else model
        positions = getattr(model.config.decoder, "max_position_embeddings", None)
        self.length = min(self.length, positions or self.length)
        self.start = model.generation_config.decoder_start_token_id or model.config.decoder_start_token_id
        self.end = model.generation_config.eos_token_id or self.words.eos_token_id
        if self.start is None or self.end is None:
            raise InputError(f"{checkpoint.folder}: says no token that a caption starts and ends with")
        return model

    def _opened_blip(self, checkpoint: Checkpoint, fresh: bool) -> Any:
        """A BLIP-2 whose language model is a decoder, and stays as it is."""
        with quiet():
            self.whole_processor = stock_processor(checkpoint)
            self.processor, self.words = self.whole_processor.image_processor, self.whole_processor.tokenizer
            model = stock_model(checkpoint, "Blip2ForConditionalGeneration")
            model = fresh_model(model) if fresh else model
        if not model.config.use_decoder_only_language_model:
            raise InputError(
                f"{checkpoint.folder}: a BLIP-2 with a {model.config.text_config.model_type!r}; those with a decoder, "
                "such as OPT, are trained here"
            )
        model.language_model.requires_grad_(False)
        text = model.config.text_config
        self.length = min(self.length, (text.max_position_embeddings or self.length) - model.config.num_query_tokens)
        self.start = text.bos_token_id if text.bos_token_id is not None else self.words.bos_token_id
        self.end = model.generation_config.eos_token_id or text.eos_token_id or self.words.eos_token_id
        if self.start is None or self.end is None or self.length < 2:
            raise InputError(f"{checkpoint.folder}: says no token that a caption starts and ends with, or no length")
        return model

    def inputs(self, rows: Sequence[Row], step: int) -> Inputs:
        """Pixels, and the tokens of each caption between its start and its end."""
        pixels = processed(self.processor, [row["image"] for row in rows])["pixel_values"]
        inputs = {"pixels": pixels, **self.token_inputs(drawn_texts(rows, self.caption, step))}
        return inputs | self._hidden(rows) if self.form == "equalizer" else inputs

    def token_inputs(self, texts: Sequence[str]) -> Inputs:
        """(n, length) tokens of each caption between its start and its end, and which are there."""
        if self.is_prefix:
            texts = [text if text.endswith(self.stop) else text + self.stop for text in texts]
        pad = self.end if isinstance(self.end, int) else self.end[0]
        return padded_tokens([self._ids(text) for text in texts], pad)

    def _hidden(self, rows: Sequence[Row]) -> dict[str, Any]:
        """Pixels of the pictures without their people, and in which of them there was anybody."""
        import torch

        mean = getattr(self.processor, "image_mean", None) or (0.0, 0.0, 0.0)
        colour = (round(255 * mean[0]), round(255 * mean[1]), round(255 * mean[2]))
        painted = [without_people(row["image"], row[self.people], colour) for row in rows]
        shown = [image or row["image"] for image, row in zip(painted, rows, strict=True)]
        peopled = torch.tensor([image is not None for image in painted])
        return {"hidden": processed(self.processor, shown)["pixel_values"], "peopled": peopled}

    def loss(self, model: Any, inputs: Inputs, processes: Processes) -> Any:
        """The cross-entropy of each next token, averaged over the tokens of the whole batch, or the Equalizer's."""
        tokens, there = inputs["tokens"], inputs["there"]
        logits = self.logits(model, inputs)
        wanted, there_too = (tokens, there) if self.is_prefix else (tokens[:, 1:], there[:, 1:])
        if self.form == "equalizer":
            hidden = self.logits(model, {**inputs, "pixels": inputs["hidden"]})
            return self.equalizer.loss(logits, hidden, wanted, there_too, inputs["peopled"], processes)
        return mean_cross_entropy(logits, wanted.masked_fill(there_too == 0, IGNORED), processes)

    def logits(self, model: Any, inputs: Inputs) -> Any:
        """(n, t, vocabulary) what is expected at every place of the caption after its start."""
        pixels, tokens, there = inputs["pixels"], inputs["tokens"], inputs["there"]
        if self.is_prefix:
            return self._prefix_logits(model, pixels, tokens, there)
        if self.is_blip:
            return _blip_logits(model, pixels, tokens[:, :-1], there[:, :-1])
        known, mask = tokens[:, :-1], there[:, :-1]
        return model(pixel_values=pixels, decoder_input_ids=known, decoder_attention_mask=mask).logits

    def save(self, model: Any, folder: Path) -> None:
        """What :class:`~equipoise.models.hf.captioners.HuggingFaceCaptioner` opens."""
        if self.is_blip:
            without_padding(self.words)
            save_stock(model, folder, self.whole_processor)
            return
        if not self.is_prefix:
            save_stock(model, folder, self.words, self.processor)
            return
        from safetensors.torch import save_file

        save_stock(model["clip"], folder / "clip", self.processor)
        save_stock(model["gpt2"], folder / "gpt2", self.words)
        weights = {name: value.detach().contiguous() for name, value in model["mapper"].state_dict().items()}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(self.settings, indent=2) + "\n", encoding="utf-8")

    def _ids(self, text: str) -> list[int]:
        ids = self.words(text, add_special_tokens=False)["input_ids"]
        if self.is_prefix:
            return list(ids[: self.length])
        end = self.end if isinstance(self.end, int) else self.end[0]
        return [self.start, *ids[: self.length - 2], end]

    def _opened_clipcap(self, checkpoint: Checkpoint, fresh: bool) -> Any:
        """CLIP's image encoder, which stays as it is, the mapper, and GPT-2."""
        import torch
        from safetensors.torch import load_file

        clip, gpt = (open_checkpoint(checkpoint.folder / part) for part in ("clip", "gpt2"))
        with quiet():
            self.processor, self.words = image_processor(clip), tokenizer(gpt)
            eyes = stock_model(clip, "CLIPVisionModelWithProjection").requires_grad_(False)
            tongue = stock_model(gpt, "GPT2LMHeadModel")
            network = mapper(load_file(checkpoint.weights[0]), tongue.config.n_embd)
        if fresh:
            torch.manual_seed(0)
            for module in network.modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()
        self.settings = dict(checkpoint.config)
        self.unit, self.stop = bool(self.settings.get("normalize")), str(self.settings.get("stop", "."))
        self.end = tongue.config.eos_token_id
        return torch.nn.ModuleDict({"clip": eyes, "mapper": network, "gpt2": tongue})

    def _prefix_logits(self, model: Any, pixels: Any, tokens: Any, there: Any) -> Any:
        """(n, length, vocabulary) what GPT-2 expects at every place of the caption, behind the prefix."""
        import torch
        from torch.nn.functional import normalize

        with torch.no_grad():
            vectors = model["clip"](pixel_values=pixels).image_embeds
        prefix = model["mapper"](normalize(vectors, dim=-1) if self.unit else vectors)
        known = model["gpt2"].transformer.wte(tokens)
        mask = torch.cat([there.new_ones(prefix.shape[:2]), there], dim=1)
        logits = model["gpt2"](inputs_embeds=torch.cat([prefix, known], dim=1), attention_mask=mask).logits
        return logits[:, prefix.shape[1] - 1 : -1]


def _blip_logits(model: Any, pixels: Any, tokens: Any, there: Any) -> Any:
    """(n, t, vocabulary) what the language model expects behind every token; the image's tokens stand before them."""
    import torch

    seen = tokens.new_full((len(tokens), model.config.num_query_tokens), model.config.image_token_id)
    ids, mask = torch.cat([seen, tokens], dim=1), torch.cat([torch.ones_like(seen), there], dim=1)
    return model(pixel_values=pixels, input_ids=ids, attention_mask=mask).logits[:, seen.shape[1] :]
