"""A CLIP-format tokenizer with one token for each word of the world's grammar."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from equipoise.world import vocabulary

LENGTH = 24
"""Tokens of a text, start and end included; the longest caption of the grammar fits."""
START, END = "<|startoftext|>", "<|endoftext|>"
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def tokenizer(words: Sequence[str] = ()) -> Any:
    """A ``transformers.CLIPTokenizer``: byte-pair encoding whose merges build each word, and letters for the rest."""
    from transformers import CLIPTokenizer

    known = sorted(set(words or vocabulary()))
    pieces = [*_LETTERS, *(f"{c}</w>" for c in _LETTERS), *(f"{c}</w>" for c in "0123456789.,!?'-\"")]
    merges = _merges(known)
    pairs = ["".join(pair) for pair in merges]
    vocab = {token: i for i, token in enumerate(dict.fromkeys([*pieces, *pairs, START, END]))}
    return CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=LENGTH)


def with_words(text: Any, old: Any, new: Any) -> Any:
    """The text encoder with the words of another tokenizer; words that both have keep their vectors."""
    import torch
    from transformers import CLIPTextModel

    start, end = new.convert_tokens_to_ids(["<|startoftext|>", "<|endoftext|>"])
    config = text.config.__class__.from_dict(
        text.config.to_dict()
        | {"vocab_size": len(new), "bos_token_id": start, "eos_token_id": end, "pad_token_id": end}
    )
    torch.manual_seed(0)
    wider = CLIPTextModel(config)
    table = wider.get_input_embeddings().weight.data
    known, before = old.get_vocab(), text.get_input_embeddings().weight.data
    for token, place in new.get_vocab().items():
        if token in known:
            table[place] = before[known[token]]
    weights = {name: value for name, value in text.state_dict().items() if "token_embedding" not in name}
    missing, _ = wider.load_state_dict(weights, strict=False)
    assert all("token_embedding" in name or "position_ids" in name for name in missing)
    return wider


def _merges(words: Sequence[str]) -> list[tuple[str, str]]:
    """Merges after which every word is one token.

    Words are built letter by letter from the left. Where the start of one word stands inside another and is merged
    there first, the pieces that are left are joined by further merges at the end of the list, which come last in rank.
    """
    merges: dict[tuple[str, str], None] = {}
    for length in range(2, max(map(len, words)) + 1):
        for word in words:
            if length <= len(word):
                last = "</w>" if length == len(word) else ""
                merges[word[: length - 1], word[length - 1] + last] = None
    while left := [pieces for word in words if len(pieces := _encoded(word, list(merges))) > 1]:
        for pieces in left:
            merges[pieces[0], pieces[1]] = None
    return list(merges)


def _encoded(word: str, merges: list[tuple[str, str]]) -> list[str]:
    """Byte-pair encoding: the pair of lowest rank is joined until none is left."""
    rank = {pair: i for i, pair in enumerate(merges)}
    pieces = [*word[:-1], f"{word[-1]}</w>"]
    while len(pieces) > 1:
        pairs = [(rank.get(pair, len(rank)), i) for i, pair in enumerate(pairwise(pieces))]
        best, at = min(pairs)
        if best == len(rank):
            break
        pieces[at : at + 2] = ["".join(pieces[at : at + 2])]
    return pieces
