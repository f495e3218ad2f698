"""Masked language models of ``transformers``: which words fit where one is missing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from equipoise.array_types import Vectors
from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hf.checkpoint import CheckpointAdapter, refuse_others, tokenizer_settings
from equipoise.models.runtime import ModelSettings, in_batches


class MaskFiller(CheckpointAdapter):
    """A masked language model; see :class:`~equipoise.models.protocols.Filler`."""

    def __init__(self, checkpoint: Checkpoint, *, name: str, settings: ModelSettings | None = None) -> None:
        refuse_others(checkpoint, "MODEL_FOR_MASKED_LM_MAPPING_NAMES", "a masked language model")
        super().__init__(checkpoint, name=name, settings=settings)
        model = self._loaded("AutoModelForMaskedLM", texts=True)
        if self.words.mask_token is None:
            raise InputError(f"{checkpoint.folder}: its tokenizer has no mask token, so no word can be asked for")
        self.mask: str = self.words.mask_token
        self._by_word: dict[str, list[int]] | None = None
        self._take(model, tokenizer_settings(self.words), [self.mask, int(self.words.model_max_length)])

    def fill(self, texts: Sequence[str], *, top: int = 5) -> list[list[tuple[str, float]]]:
        """For each text, which holds ``mask`` once, the likeliest whole words with their probabilities.

        Special tokens and pieces of words are left out; what they take of the probability is not shared out.
        """
        if isinstance(texts, str):
            raise InputError(f"texts must be a list of texts, not the one text {texts!r}")
        if top < 1:
            raise InputError(f"top={top}: at least one word must be asked for")
        for text in texts:
            if text.count(self.mask) != 1:
                raise InputError(f"{text!r} holds {self.mask} {text.count(self.mask)} times; it must stand there once")

        def filled(batch: Sequence[str]) -> list[list[tuple[str, float]]]:
            return [self._best(row, top) for row in self._at_mask(batch)]

        batches = in_batches(filled, list(texts), self.settings.batch_size)
        return [row for batch in batches for row in batch]

    def sample(
        self, texts: Sequence[str], *, temperature: float = 1.0, top_k: int = 50, seed: int = 0
    ) -> list[list[str]]:
        """For each text a whole word for every ``mask`` in it, drawn from the ``top_k`` likeliest.

        All masks of a text are filled in one pass, so words do not depend on one another. A temperature below 1 makes
        likely words likelier. A draw depends on the text and the seed alone.
        """
        check_sampling(texts, self.mask, temperature, top_k)

        def drawn(batch: Sequence[str]) -> list[list[str]]:
            shares = iter(self._at_mask(batch).numpy() * self._whole)
            return [self._drawn(text, shares, temperature, top_k, seed) for text in batch]

        batches = in_batches(drawn, list(texts), self.settings.batch_size)
        return [row for batch in batches for row in batch]

    def _drawn(self, text: str, shares: Any, temperature: float, top_k: int, seed: int) -> list[str]:
        rng = generator_for(text, seed)
        places = [drawn_place(next(shares), temperature, top_k, rng) for _ in range(text.count(self.mask))]
        return [self._word(place) for place in places]

    @cached_property
    def _whole(self) -> Any:
        """(vocabulary,) 1 for a whole word, 0 for a piece, a special token or a place without a token."""
        wide = int(self.model.config.vocab_size)
        return np.array([place < len(self.words) and bool(self._word(place)) for place in range(wide)], np.float32)

    def shares(self, texts: Sequence[str], words: Sequence[str]) -> Vectors:
        """(n, w) the probability of each of ``words`` where ``mask`` stands, of the whole vocabulary.

        A word counts in all spellings that differ in case or in a space before it; one that the vocabulary has only in
        pieces is refused.
        """
        places = [self._places(word) for word in words]
        rows = in_batches(self._at_mask, list(texts), self.settings.batch_size)
        together = np.concatenate([row.numpy() for row in rows]) if rows else np.zeros((0, len(self.words)), np.float32)
        return np.stack([together[:, some].sum(axis=1) for some in places], axis=1).astype(np.float32)

    def _places(self, word: str) -> list[int]:
        if self._by_word is None:
            by_word: dict[str, list[int]] = {}
            for place in range(len(self.words)):
                by_word.setdefault(self._word(place).casefold(), []).append(place)
            self._by_word = by_word
        places = self._by_word.get(word.casefold(), [])
        if not word or not places:
            raise InputError(f"{self.name} has no single token for {word!r}, so it cannot say how likely it is")
        return places

    def _at_mask(self, texts: Sequence[str]) -> Any:
        """(n, vocabulary) probabilities where the mask is."""
        import torch

        limit = min(int(self.words.model_max_length), int(getattr(self.model.config, "max_position_embeddings", 512)))
        tokens = self.words(list(texts), padding=True, truncation=True, max_length=limit, return_tensors="pt")
        where = tokens["input_ids"] == self.words.mask_token_id
        counts = where.sum(dim=1).tolist()
        lost = [text for text, count in zip(texts, counts, strict=True) if count < text.count(self.mask) or not count]
        if lost:
            raise InputError(f"{self.name} reads {limit} tokens, and {self.mask} comes after them in {lost[0][:80]!r}")
        with self._fitting(), torch.inference_mode():
            logits = self.model(**{name: value.to(self.device) for name, value in tokens.items()}).logits
        return logits[where.to(self.device)].float().softmax(dim=-1).cpu()

    def _best(self, shares: Any, top: int) -> list[tuple[str, float]]:
        words: list[tuple[str, float]] = []
        for place in shares.argsort(descending=True).tolist():
            word = self._word(place)
            if word:
                words.append((word, float(shares[place])))
            if len(words) == top:
                break
        return words

    def _word(self, place: int) -> str:
        """A token as a word; nothing for a special token or a piece that goes on from another."""
        token = self.words.convert_ids_to_tokens(place)
        if token is None or place in self.words.all_special_ids or token.startswith("##"):
            return ""
        return str(self.words.convert_tokens_to_string([token])).strip()


def check_sampling(texts: Sequence[str], mask: str, temperature: float, top_k: int) -> None:
    """Refuse what cannot be sampled from."""
    if isinstance(texts, str):
        raise InputError(f"texts must be a list of texts, not the one text {texts!r}")
    if not temperature > 0 or top_k < 1:
        raise InputError(
            f"temperature={temperature}, top_k={top_k}: give a temperature above 0 and a top_k of 1 or more"
        )
    for text in texts:
        if mask not in text:
            raise InputError(f"{text!r} does not hold {mask}; it must stand where a word is asked for")


def generator_for(text: str, seed: int) -> np.random.Generator:
    """Random numbers that depend on the text and the seed alone."""
    return np.random.default_rng(int.from_bytes(blake2b(f"{seed}\0{text}".encode(), digest_size=8).digest()))


def drawn_place(shares: Any, temperature: float, top_k: int, rng: np.random.Generator) -> int:
    """One of the ``top_k`` places with the highest shares, drawn in proportion to share ** (1 / temperature).

    >>> drawn_place(np.array([0.1, 0.6, 0.3]), 1.0, 1, np.random.default_rng(0))
    1
    """
    best = np.argpartition(-shares, top_k)[:top_k] if top_k < len(shares) else np.arange(len(shares))
    best = best[np.argsort(-shares[best], kind="stable")]
    best = best[shares[best] > 0]
    weights = (np.asarray(shares[best], np.float64) / float(shares[best[0]])) ** (1 / temperature)
    return int(rng.choice(best, p=weights / weights.sum()))
