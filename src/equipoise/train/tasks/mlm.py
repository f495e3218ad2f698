"""Masked language models on captions: a share of the tokens is hidden and guessed (Devlin et al., BERT, NAACL 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hf.checkpoint import stock_model, tokenizer
from equipoise.models.runtime import quiet
from equipoise.train.processes import Processes
from equipoise.train.rows import TrainingRows
from equipoise.train.task import IGNORED, Inputs, Row, drawn_texts, fresh_model, mean_cross_entropy, save_stock


class MaskedLanguageTask:
    """Trains a masked language model on the captions of a table; images are not looked at."""

    name = "mlm"
    looks = False

    def __init__(self, caption: str = "caption", masked: float = 0.15) -> None:
        """Of the tokens a share ``masked`` is guessed: eight of ten hidden, one replaced, one left, as in BERT."""
        if not 0 < masked < 1:
            raise InputError(f"masked = {masked}: the share of tokens to guess is between 0 and 1, such as 0.15")
        self.caption, self.masked = caption, masked
        self.columns: tuple[str, ...] = (caption,)

    def options(self) -> dict[str, Any]:
        """The keywords that make such a task again."""
        return {"caption": self.caption, "masked": self.masked}

    def open(self, checkpoint: Checkpoint, rows: TrainingRows, *, fresh: bool = False) -> Any:
        """The masked language model in ``checkpoint``."""
        checkpoint.needs_texts()
        with quiet():
            self.words = tokenizer(checkpoint)
            model = stock_model(checkpoint, "AutoModelForMaskedLM")
            model = fresh_model(model) if fresh else model
        if self.words.mask_token_id is None:
            raise InputError(f"{checkpoint.folder}: its tokenizer has no mask token, so nothing can be hidden")
        positions = getattr(model.config, "max_position_embeddings", None) or 512
        self.length = min(int(self.words.model_max_length), int(positions))
        return model

    def inputs(self, rows: Sequence[Row], step: int) -> Inputs:
        """Tokens with some hidden, and what they were; which, is drawn by the step and the row's id."""
        texts = drawn_texts(rows, self.caption, step)
        encoded = self.words(texts, padding=True, truncation=True, max_length=self.length, return_tensors="pt")
        tokens = encoded["input_ids"].clone()
        labels = tokens.new_full(tokens.shape, IGNORED)
        special = set(self.words.all_special_ids)
        for i, row in enumerate(rows):
            rng = np.random.default_rng([step, *str(row["image_id"]).encode()])
            places = [j for j, token in enumerate(tokens[i].tolist()) if token not in special]
            n = max(1, round(self.masked * len(places))) if places else 0
            for j in rng.permutation(places)[:n].tolist():
                labels[i, j] = tokens[i, j]
                draw = rng.random()
                if draw < 0.8:
                    tokens[i, j] = self.words.mask_token_id
                elif draw < 0.9:
                    tokens[i, j] = int(rng.integers(len(self.words)))
        return {"tokens": tokens, "there": encoded["attention_mask"], "labels": labels}

    def loss(self, model: Any, inputs: Inputs, processes: Processes) -> Any:
        """The cross-entropy of the guessed tokens, averaged over those of the whole batch."""
        logits = model(input_ids=inputs["tokens"], attention_mask=inputs["there"]).logits
        return mean_cross_entropy(logits, inputs["labels"], processes)

    def save(self, model: Any, folder: Path) -> None:
        """Weights, settings and tokenizer."""
        save_stock(model, folder, self.words)
