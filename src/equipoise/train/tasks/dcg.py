"""A debiasing caption generator: from an image and a biased caption of it back to the original (LIBRA, CVPR 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hf.revisers import SHARE, encoded, inputs_of, parts_of, save_reviser
from equipoise.models.runtime import quiet
from equipoise.text.english.hiding import with_hidden_words
from equipoise.train.processes import Processes
from equipoise.train.rows import TrainingRows
from equipoise.train.task import IGNORED, Inputs, Row, forget_origin, fresh_model, mean_cross_entropy, padded_tokens


class DebiasingTask:
    """Trains a reviser on images with biased captions and the originals, by the cross-entropy of the original."""

    name = "dcg"
    looks = True

    def __init__(
        self,
        biased: str = "biased",
        original: str = "original",
        share: float = 0.2,
        originals: float = 0.5,
        tokens: int = 33,
    ) -> None:
        """``biased`` and ``original`` name columns of texts, or of lists of which one pair is drawn by the step.

        A ``share`` of the words that are read is hidden (0.2 in the paper). In a share ``originals`` of the rows the
        original itself is read, so that a caption without fault is learnt to be left alone (one of two in the
        released code). Captions longer than ``tokens`` are cut.
        """
        if not 0 <= share <= 1 or not 0 <= originals < 1:
            raise InputError(f"share = {share}, originals = {originals}: give shares from 0 to 1, originals below 1")
        if tokens < 2:
            raise InputError(f"tokens = {tokens}: a caption has at least 2, its beginning and its end")
        self.biased, self.original, self.share, self.originals, self.length = biased, original, share, originals, tokens
        self.columns: tuple[str, ...] = (biased, original)

    def options(self) -> dict[str, Any]:
        """The keywords that make such a task again."""
        return {
            "biased": self.biased,
            "original": self.original,
            "share": self.share,
            "originals": self.originals,
            "tokens": self.length,
        }

    def open(self, checkpoint: Checkpoint, rows: TrainingRows, *, fresh: bool = False) -> Any:
        """The reviser in ``checkpoint``; :func:`equipoise.models.hf.revisers.join` makes one of ViLT and GPT-2."""
        with quiet():
            self.processor, self.words, self.tongue, model = parts_of(checkpoint)
            model = fresh_model(model) if fresh else model
        self.length = min(self.length, model.config.decoder.max_position_embeddings)
        said = model.generation_config
        self.start, self.end = said.decoder_start_token_id, said.eos_token_id
        if self.start is None or self.end is None:
            raise InputError(f"{checkpoint.folder}: says no token that a caption starts and ends with")
        self.reader = model.config.encoder
        setattr(model.config, SHARE, self.share)
        return model

    def inputs(self, rows: Sequence[Row], step: int) -> Inputs:
        """The caption that is read with some words hidden, the picture, and the tokens of the original."""
        pairs = [self._pair(row, step) for row in rows]
        read = inputs_of(
            self.processor, self.words, [row["image"] for row in rows], [text for text, _ in pairs], self.reader
        )
        return {"read": read, **padded_tokens([self._ids(original) for _, original in pairs], self.end)}

    def loss(self, model: Any, inputs: Inputs, processes: Processes) -> Any:
        """The cross-entropy of each next token of the originals, averaged over the tokens of the whole batch."""
        tokens, there = inputs["tokens"], inputs["there"]
        seen, mask = encoded(model, dict(inputs["read"]))
        out = model(
            encoder_outputs=seen,
            attention_mask=mask,
            decoder_input_ids=tokens[:, :-1],
            decoder_attention_mask=there[:, :-1],
        )
        labels = tokens[:, 1:].masked_fill(there[:, 1:] == 0, IGNORED)
        return mean_cross_entropy(out.logits, labels, processes)

    def save(self, model: Any, folder: Path) -> None:
        """What :class:`~equipoise.models.hf.revisers.HuggingFaceReviser` opens."""
        save_reviser(model, folder, self.processor, self.words, self.tongue)
        forget_origin(folder)

    def _pair(self, row: Row, step: int) -> tuple[str, str]:
        """What is read, with words hidden, and what is to be written; both are drawn by the step and the image."""
        given, wanted = _texts(row, self.biased), _texts(row, self.original)
        if len(given) != len(wanted):
            raise InputError(
                f"image {row['image_id']!r} has {len(given)} texts in {self.biased!r} and {len(wanted)} in "
                f"{self.original!r}; every biased caption needs its original"
            )
        rng = np.random.default_rng([step, int.from_bytes(str(row["image_id"]).encode()[-8:], "big")])
        place = int(rng.integers(len(given)))
        text = wanted[place] if rng.random() < self.originals else given[place]
        return with_hidden_words(text, self.share, self.words.mask_token, rng), wanted[place]

    def _ids(self, text: str) -> list[int]:
        ids = self.tongue(text, add_special_tokens=False)["input_ids"]
        return [self.start, *ids[: self.length - 2], self.end]


def _texts(row: Row, column: str) -> list[str]:
    value = row[column]
    texts = value if isinstance(value, list) else [value]
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputError(f"image {row['image_id']!r} has no text in the column {column!r}; drop it with a filter")
    return list(texts)
