"""Fillers of spans, T5 and its kin: each missing place is a mark of its own, and what stands there is written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint
from equipoise.models.hf.checkpoint import CheckpointAdapter, tokenizer_settings
from equipoise.models.hf.fillers import MaskFiller, check_sampling, drawn_place, generator_for
from equipoise.models.runtime import ModelSettings, in_batches

FAMILIES = ("t5", "mt5", "umt5")
_MASK = "<mask>"
_TOKENS = 6
"""Tokens that are written for one place at most, its mark included."""


def filler(checkpoint: Checkpoint, *, name: str, **options: Any) -> MaskFiller | SpanFiller:
    """A masked language model, or a T5."""
    form = SpanFiller if checkpoint.model_type in FAMILIES else MaskFiller
    return form.opened(checkpoint, name=name, **options)


class SpanFiller(CheckpointAdapter):
    """A T5 (Raffel et al., JMLR 2020) as a :class:`~equipoise.models.protocols.Filler`.

    All places of a text are written one after the other, so that a word knows those before it. Of what is written for
    a place the first word counts; a place for which nothing is written gets an empty text.
    """

    mask = _MASK

    def __init__(self, checkpoint: Checkpoint, *, name: str, settings: ModelSettings | None = None) -> None:
        super().__init__(checkpoint, name=name, settings=settings)
        model = self._loaded("AutoModelForSeq2SeqLM", texts=True)
        self._marks = [self.words.convert_tokens_to_ids(f"<extra_id_{n}>") for n in range(100)]
        if self._marks[0] in (None, self.words.unk_token_id):
            raise InputError(f"{checkpoint.folder}: its tokenizer has no <extra_id_0>, so no word can be asked for")
        self._take(model, tokenizer_settings(self.words))

    def fill(self, texts: Sequence[str], *, top: int = 5) -> list[list[tuple[str, float]]]:
        """For each text, which holds ``mask`` once, the likeliest whole-word tokens with their probabilities."""
        if isinstance(texts, str) or top < 1:
            raise InputError("texts must be a list of texts, and top at least 1")
        for text in texts:
            if text.count(self.mask) != 1:
                raise InputError(f"{text!r} holds {self.mask} {text.count(self.mask)} times; it must stand there once")

        def filled(batch: Sequence[str]) -> list[list[tuple[str, float]]]:
            shares = self._next(self._read(batch), [[self._marks[0]] for _ in batch])
            return [self._best(row, top) for row in shares]

        return [row for batch in in_batches(filled, list(texts), self.settings.batch_size) for row in batch]

    def sample(
        self, texts: Sequence[str], *, temperature: float = 1.0, top_k: int = 50, seed: int = 0
    ) -> list[list[str]]:
        """For each text a word for every ``mask`` in it; a draw depends on the text and the seed alone."""
        check_sampling(texts, self.mask, temperature, top_k)

        def drawn(batch: Sequence[str]) -> list[list[str]]:
            return self._drawn(batch, temperature, top_k, seed)

        return [row for batch in in_batches(drawn, list(texts), self.settings.batch_size) for row in batch]

    def _drawn(self, texts: Sequence[str], temperature: float, top_k: int, seed: int) -> list[list[str]]:
        read = self._read(texts)
        rngs = [generator_for(text, seed) for text in texts]
        written = [[self._marks[0]] for _ in texts]
        limits = [_TOKENS * text.count(self.mask) for text in texts]
        ends = [{self.words.eos_token_id, self._marks[text.count(self.mask)]} for text in texts]
        going = set(range(len(texts)))
        while going:
            longest = max(map(len, written))
            shares = self._next(read, [row + [self.words.pad_token_id] * (longest - len(row)) for row in written])
            for place in sorted(going):
                token = drawn_place(shares[place], temperature, top_k, rngs[place])
                written[place].append(token)
                if token in ends[place] or len(written[place]) >= limits[place]:
                    going.discard(place)
        return [self._parted(row, text.count(self.mask)) for row, text in zip(written, texts, strict=True)]

    def _parted(self, tokens: Sequence[int], places: int) -> list[str]:
        """The first word after each mark."""
        parts: dict[int, list[int]] = {}
        now = -1
        for token in tokens:
            if token in self._marks:
                now = self._marks.index(token)
            elif token != self.words.eos_token_id:
                parts.setdefault(now, []).append(token)
        texts = [str(self.words.decode(parts.get(n, []), skip_special_tokens=True)).split() for n in range(places)]
        return [words[0].strip(".,;:!?\"'") if words else "" for words in texts]

    def _read(self, texts: Sequence[str]) -> dict[str, Any]:
        """The encoded texts, each mask a mark of its own."""
        import torch

        marked = []
        for text in texts:
            if text.count(self.mask) >= len(self._marks):
                raise InputError(f"{text[:80]!r} holds {self.mask} {text.count(self.mask)} times; 99 are the most")
            pieces = text.split(self.mask)
            marked.append("".join(p + (f"<extra_id_{n}>" if n < len(pieces) - 1 else "") for n, p in enumerate(pieces)))
        tokens = self.words(marked, padding=True, return_tensors="pt").to(self.device)
        with self._fitting(), torch.inference_mode():
            seen = self.model.get_encoder()(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return {"encoder_outputs": seen, "attention_mask": tokens["attention_mask"]}

    def _next(self, read: dict[str, Any], written: Sequence[Sequence[int]]) -> Any:
        """(n, vocabulary) how likely each token is after the last that is no padding."""
        import torch

        start, pad = self.model.config.decoder_start_token_id, self.words.pad_token_id
        ids = torch.tensor([[start, *row] for row in written], device=self.device)
        ends = [max(i for i, token in enumerate(row) if token != pad) + 1 for row in written]
        with self._fitting(), torch.inference_mode():
            logits = self.model(**read, decoder_input_ids=ids).logits
        rows = logits[torch.arange(len(ends)), torch.tensor(ends, device=self.device)]
        return rows.float().softmax(dim=-1).cpu().numpy()

    def _best(self, shares: Any, top: int) -> list[tuple[str, float]]:
        best: list[tuple[str, float]] = []
        for place in np.argsort(-shares, kind="stable").tolist():
            token = self.words.convert_ids_to_tokens(place) if place < len(self.words) else None
            if token and token.startswith("▁") and len(token) > 1:
                best.append((token[1:], float(shares[place])))
            if len(best) == top:
                break
        return best
