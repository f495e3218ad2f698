"""Captioners: a vision encoder with a text decoder, and ClipCap's prefix for GPT-2 (Mokady et al., 2021)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint, open_checkpoint
from equipoise.models.hf.captioners import mapper
from equipoise.models.hf.checkpoint import image_processor, stock_model, tokenizer
from equipoise.models.images import processed
from equipoise.models.runtime import quiet
from equipoise.train.processes import Processes
from equipoise.train.rows import TrainingRows
from equipoise.train.task import Inputs, Row, drawn_texts, fresh_model, save_stock

__all__ = ["CaptionerTask"]

_IGNORED = -100
_FORMS = ("vision-encoder-decoder", "clipcap")


class CaptionerTask:
    """Trains a captioner on images and their captions, by the cross-entropy of the next token."""

    name = "captioner"
    looks = True

    def __init__(self, caption: str = "caption", tokens: int = 64) -> None:
        """``caption`` names the column of texts; of a column of lists, one is drawn by the step. Texts longer than
        ``tokens`` are cut.
        """
        if tokens < 2:
            raise InputError(f"tokens = {tokens}: a caption has at least 2, its beginning and its end")
        self.caption, self.length = caption, tokens
        self.columns: tuple[str, ...] = (caption,)

    def options(self) -> dict[str, Any]:
        """The keywords that make such a task again."""
        return {"caption": self.caption, "tokens": self.length}

    def open(self, checkpoint: Checkpoint, rows: TrainingRows, *, fresh: bool = False) -> Any:
        """The captioner in ``checkpoint``, a vision-encoder-decoder or a ClipCap folder."""
        if checkpoint.model_type not in _FORMS:
            raise InputError(
                f"{checkpoint.folder}: a {checkpoint.model_type!r} model; captioners that are trained here are of the "
                f"forms {' and '.join(_FORMS)}"
            )
        self.is_prefix = checkpoint.model_type == "clipcap"
        with quiet():
            if self.is_prefix:
                return self._opened_clipcap(checkpoint, fresh)
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

    def inputs(self, rows: Sequence[Row], step: int) -> Inputs:
        """Pixels, and the tokens of each caption between its start and its end."""
        pixels = processed(self.processor, [row["image"] for row in rows])["pixel_values"]
        return {"pixels": pixels, **self.token_inputs(drawn_texts(rows, self.caption, step))}

    def token_inputs(self, texts: Sequence[str]) -> Inputs:
        """(n, length) tokens of each caption between its start and its end, and which are there."""
        import torch

        if self.is_prefix:
            texts = [text if text.endswith(self.stop) else text + self.stop for text in texts]
        ids = [self._ids(text) for text in texts]
        longest = max(map(len, ids))
        pad = self.end if isinstance(self.end, int) else self.end[0]
        tokens = torch.tensor([row + [pad] * (longest - len(row)) for row in ids])
        there = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
        return {"tokens": tokens, "there": there}

    def loss(self, model: Any, inputs: Inputs, processes: Processes) -> Any:
        """The cross-entropy of each next token, averaged over the tokens of the whole batch."""
        from torch.nn.functional import cross_entropy

        tokens, there = inputs["tokens"], inputs["there"]
        if self.is_prefix:
            logits, wanted = self._prefix_logits(model, inputs["pixels"], tokens, there), tokens
        else:
            logits, wanted, there = self.logits(model, inputs), tokens[:, 1:], there[:, 1:]
        labels = wanted.masked_fill(there == 0, _IGNORED)
        summed = cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), ignore_index=_IGNORED, reduction="sum")
        return summed / processes.total(float(there.sum()))

    def logits(self, model: Any, inputs: Inputs) -> Any:
        """(n, length - 1, vocabulary) what the decoder of a vision-encoder-decoder expects at every place."""
        return model(pixel_values=inputs["pixels"], decoder_input_ids=inputs["tokens"][:, :-1]).logits

    def save(self, model: Any, folder: Path) -> None:
        """What :class:`~equipoise.models.hf.captioners.HuggingFaceCaptioner` opens."""
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
