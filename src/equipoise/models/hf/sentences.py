"""Text encoders of ``transformers`` (BERT, RoBERTa, MiniLM, MPNet and others): sentences as vectors, no images.

The vector of a text is the mean over its tokens, or the first token's where the checkpoint's own pooling file says so
(``1_Pooling/config.json``, as sentence-transformers writes it), of unit length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from equipoise.array_types import Vectors
from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hf.checkpoint import CheckpointAdapter, stock_model, tokenizer
from equipoise.models.hf.families import family_of
from equipoise.models.runtime import ModelSettings, quiet

__all__ = ["ALBERT", "BERT", "DISTILBERT", "MPNET", "ROBERTA", "XLM_ROBERTA", "SentenceEncoder", "SentenceFamily"]

_POOLING = "1_Pooling/config.json"
_OFFSET = ("RobertaModel", "XLMRobertaModel", "MPNetModel")


@dataclass(frozen=True)
class SentenceFamily:
    """How one family of text encoders is loaded."""

    model_class: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    """What to tell the class, such as not to make a pooling layer that most checkpoints have no weights for."""


_PLAIN = {"add_pooling_layer": False}
BERT = SentenceFamily("BertModel", _PLAIN)
ROBERTA = SentenceFamily("RobertaModel", _PLAIN)
XLM_ROBERTA = SentenceFamily("XLMRobertaModel", _PLAIN)
MPNET = SentenceFamily("MPNetModel", _PLAIN)
ALBERT = SentenceFamily("AlbertModel", _PLAIN)
DISTILBERT = SentenceFamily("DistilBertModel")


class SentenceEncoder(CheckpointAdapter):
    """A text encoder asked for unit vectors of texts; see :class:`~equipoise.models.protocols.Encoder`."""

    logit_scale = 1.0
    reads_images = False

    def __init__(
        self, checkpoint: Checkpoint, how: SentenceFamily, *, name: str, settings: ModelSettings | None = None
    ) -> None:
        checkpoint.needs_texts()
        super().__init__(checkpoint, name=name, settings=settings)
        with quiet():
            self.words = tokenizer(checkpoint)
            model = stock_model(checkpoint, how.model_class, **dict(how.parts))
        longest = int(getattr(model.config, "max_position_embeddings", 512))
        # these count positions from behind their padding index
        longest -= int(getattr(model.config, "pad_token_id", 0) or 0) + 1 if how.model_class in _OFFSET else 0
        self.context = min(int(self.words.model_max_length), longest)
        self.first_token = _reads_first_token(checkpoint)
        self._take(model, sorted(self.words.get_vocab().items()), self.context, self.first_token)

    @classmethod
    def opened(cls, checkpoint: Checkpoint, *, name: str, **options: Any) -> Self:
        """The encoder of a checkpoint of a known family."""
        return cls(checkpoint, family_of(checkpoint), name=name, settings=ModelSettings(**options))

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """(m, d) unit vectors of m texts."""
        if isinstance(texts, str):
            raise InputError(f"texts must be a list of texts, not the one text {texts!r}")
        batches = self._unit_vectors(self._batch, list(texts))
        return np.concatenate(batches) if batches else np.zeros((0, self.dim), np.float32)

    def encode_images(self, images: Sequence[Any]) -> Vectors:
        """Refused: the model sees nothing."""
        raise InputError(
            f"{self.name} is a {self.family!r} model, which encodes texts and no images; for images name a dual "
            "encoder, such as hf:openai/clip-vit-base-patch32"
        )

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return int(self.encode_texts(["a"]).shape[1])

    def _batch(self, texts: Sequence[str]) -> Any:
        tokens = self.words(list(texts), padding=True, truncation=True, max_length=self.context, return_tensors="pt")
        outputs = self.model(**self._placed(dict(tokens))).last_hidden_state
        if self.first_token:
            return outputs[:, 0]
        there = tokens["attention_mask"].to(outputs.device).unsqueeze(-1).to(outputs.dtype)
        return (outputs * there).sum(dim=1) / there.sum(dim=1).clamp(min=1)


def _reads_first_token(checkpoint: Checkpoint) -> bool:
    path = checkpoint.folder / _POOLING
    if not path.is_file():
        return False
    try:
        return bool(json.loads(path.read_text(encoding="utf-8")).get("pooling_mode_cls_token", False))
    except (ValueError, AttributeError):
        raise InputError(f"{path}: not valid JSON; delete it to take the mean over tokens") from None
