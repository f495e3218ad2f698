"""Texts into tokens: cut to the model's length with the end token kept, padded as the family was trained."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from equipoise.errors import InputError

__all__ = ["Tokens", "context_length"]

_NO_LIMIT = 100_000  # tokenizers without a limit say 1e30
# Position embeddings of these begin after the padding token's number.
_SHIFTED_POSITIONS = {"roberta", "xlm-roberta", "camembert", "altclip_text_model", "xlm-roberta-xl"}

logger = logging.getLogger(__name__)


@dataclass
class Tokens:
    """Makes the text inputs of a model, and counts the texts that were too long."""

    tokenizer: Any
    context: int
    """The most tokens of a text, start and end included."""
    padding: str = "longest"
    """``"max_length"`` where the family was trained on texts padded to its full length."""
    masked: bool = True
    """Whether the model is told which tokens are padding."""
    n_texts: int = field(default=0, init=False)
    n_cut: int = field(default=0, init=False)

    def __call__(self, texts: Sequence[str]) -> dict[str, Any]:
        """The inputs as torch tensors (n, length)."""
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"text {i} is a {type(text).__name__}, not a text: {text!r}")
        rows = dict(self.tokenizer(list(texts), padding=False, truncation=False, verbose=False))
        too_long = [i for i, ids in enumerate(rows["input_ids"]) if len(ids) > self.context]
        for i in too_long:
            self._cut(rows, i)
        self._count(len(texts), too_long, texts)
        made = self.tokenizer.pad(
            rows, padding=self.padding, max_length=self.context, return_tensors="pt", verbose=False
        )
        inputs = dict(made)
        if not self.masked:
            inputs.pop("attention_mask", None)
        return inputs

    def _cut(self, rows: dict[str, Any], i: int) -> None:
        """Cut text ``i`` in the middle of nowhere but before its end token, which the read-out needs."""
        ids = rows["input_ids"][i]
        keeps_end = ids[-1] in self.tokenizer.all_special_ids
        for name, values in rows.items():
            if keeps_end:
                values[i] = [*values[i][: self.context - 1], values[i][-1]]
            else:
                rows[name][i] = values[i][: self.context]

    def _count(self, n: int, too_long: list[int], texts: Sequence[str]) -> None:
        if too_long and not self.n_cut:
            logger.warning(
                "texts are cut to the model's %d tokens, such as: %s", self.context, texts[too_long[0]][:80] + "…"
            )
        self.n_texts += n
        self.n_cut += len(too_long)


def context_length(tokenizer: Any, config: Any, most: int | None = None) -> int:
    """How many tokens a text may have: the least of what tokenizer, position embeddings and family allow."""
    text = getattr(config, "text_config", None) or config
    limits = [most, getattr(tokenizer, "model_max_length", None)]
    positions = getattr(text, "max_position_embeddings", None)
    if positions and getattr(text, "model_type", "") in _SHIFTED_POSITIONS:
        positions -= (getattr(text, "pad_token_id", None) or 0) + 1
    limits.append(positions)
    known = [int(limit) for limit in limits if limit and limit < _NO_LIMIT]
    if not known:
        raise InputError("neither the tokenizer nor config.json says how long a text may be (model_max_length)")
    return min(known)
