"""Captions and their references as tokens, and how often each run of one to four tokens stands in each of them.

Everything that compares captions by n-grams starts here: the captions are read once and the n-grams counted once, as
sorted integer arrays, so that the metrics are a few array operations each.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Ints
from equipoise.errors import InputError
from equipoise.text.english.ptb import ptb_tokens

MAX_ORDER = 4
"""The longest run of tokens that the metrics count."""

Caption: TypeAlias = str | Sequence[str]
"""A caption as text, which is cut by the rules of the COCO evaluation, or as tokens, which are taken as they are."""


@dataclass(frozen=True)
class GramCounts:
    """How often each n-gram of one order stands in each caption: only what occurs.

    Sorted by group of captions, then n-gram, then caption.
    """

    group: Ints
    """(e,) which group of captions"""
    gram: Ints
    """(e,) which n-gram, below ``kinds``"""
    caption: Ints
    """(e,) which caption"""
    count: Ints
    """(e,) how often"""
    kinds: int


def gram_counts(
    captions: Sequence[Sequence[str]], groups: ArrayLike | None = None, *, orders: int = MAX_ORDER
) -> list[GramCounts]:
    """The n-grams of ``captions`` (lists of tokens) of each order 1, 2, ..., ``orders``.

    ``groups`` (captions,), which do not decrease, put captions of one image together; without them each stands alone.

    >>> one, two = gram_counts([["a", "dog", "a", "dog"], ["dog"]], orders=2)
    >>> one.caption.tolist(), one.gram.tolist(), one.count.tolist()
    ([0, 0, 1], [0, 1, 1], [2, 2, 1])
    >>> two.count.tolist(), two.kinds
    ([2, 1], 2)
    """
    group = np.arange(len(captions)) if groups is None else np.asarray(groups, dtype=np.int64)
    first = np.searchsorted(group, np.arange(int(group.max(initial=-1)) + 1))
    slot = np.arange(len(captions)) - first[group]
    slots = int(slot.max(initial=0)) + 1
    lengths = np.fromiter(map(len, captions), dtype=np.int64, count=len(captions))
    numbers: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    tokens = itertools.chain.from_iterable(captions)
    words = np.fromiter(map(numbers.__getitem__, tokens), dtype=np.int64, count=int(lengths.sum()))
    group, slot = np.repeat(group, lengths), np.repeat(slot, lengths)
    remaining = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))
    codes, at, by_order = words, np.arange(len(words)), []
    for order in range(1, orders + 1):
        if order > 1:
            # An n-gram is the one before it and one word more; numbering them anew keeps the numbers small.
            longer = remaining[at] >= order
            at = at[longer]
            codes = pd.factorize(codes[longer] * len(numbers) + words[at + order - 1])[0]
        kinds = max(int(codes.max(initial=-1)) + 1, 1)
        # The keys rise from group to group, so a sort that makes use of runs is fast here; np.unique's is not.
        keys = np.sort((group[at] * kinds + codes) * slots + slot[at], kind="stable")
        start = np.flatnonzero(np.diff(keys, prepend=-1))
        counts = np.diff(start, append=len(keys))
        rest, place = np.divmod(keys[start], slots)
        of_group, gram = np.divmod(rest, kinds)
        by_order.append(GramCounts(of_group, gram, first[of_group] + place, counts, kinds))
    return by_order


def positions(keys: Ints, wanted: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Where each of ``wanted`` stands in the sorted ``keys``, and whether it does.

    >>> positions(np.array([2, 5]), np.array([5, 3]))
    (array([1, 1]), array([ True, False]))
    """
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted


@dataclass(frozen=True)
class CaptionPairs:
    """n captions to judge, each with one reference or more."""

    candidates: list[list[str]]
    """(n,) tokens"""
    references: list[list[list[str]]]
    """(n,) tokens of each reference of each caption"""

    @cached_property
    def flat_references(self) -> list[list[str]]:
        """(m,) tokens of all references, in order."""
        return [reference for several in self.references for reference in several]

    @cached_property
    def reference_of(self) -> Ints:
        """(m,) which caption each reference belongs to."""
        return np.repeat(np.arange(len(self.references)), [len(several) for several in self.references])

    @cached_property
    def grams(self) -> list[GramCounts]:
        """The n-grams by order of the candidates (captions and groups 0 to n - 1) and the references (n + image)."""
        n = len(self.candidates)
        groups = np.concatenate([np.arange(n), n + self.reference_of])
        return gram_counts([*self.candidates, *self.flat_references], groups)

    @cached_property
    def candidate_lengths(self) -> Ints:
        """(n,) tokens in each candidate."""
        return np.array([len(tokens) for tokens in self.candidates], dtype=np.int64)

    @cached_property
    def reference_lengths(self) -> Ints:
        """(m,) tokens in each reference."""
        return np.array([len(tokens) for tokens in self.flat_references], dtype=np.int64)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of any score of these captions must know."""
        empty = int((self.candidate_lengths == 0).sum())
        return (f"{empty} empty captions score 0",) if empty else ()


def pair_captions(
    candidates: Sequence[Caption] | CaptionPairs, references: Sequence[Sequence[Caption]] | None = None
) -> CaptionPairs:
    """Captions with their references, as tokens.

    What is already paired is handed through, so that several metrics of the same captions read them once.

    Args:
        candidates: (n,) the captions to judge, as texts or as tokens, or what is already paired.
        references: (n,) the references of each caption, one or more; None where they are paired already.

    Returns:
        The tokens of the captions, and of the references of each.

    >>> pair_captions(["A dog."], [["a dog", "Two dogs!"]]).flat_references
    [['a', 'dog'], ['two', 'dogs']]
    >>> pair_captions(["A dog."], [[]])
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: caption 0 has no reference; give one for every caption or leave the caption out
    """
    if isinstance(candidates, CaptionPairs):
        if references is not None:
            raise InputError("references: the captions are paired already; leave the references out")
        return candidates
    if references is None:
        raise InputError("references: give the reference captions of every caption")
    _refuse_text(candidates, "candidates")
    _refuse_text(references, "references")
    if len(candidates) != len(references):
        raise InputError(
            f"there are {len(candidates)} captions and references for {len(references)}; give one list per caption"
        )
    if not len(candidates):
        raise InputError("candidates: no captions; give at least one")
    paired = []
    for i, several in enumerate(references):
        if isinstance(several, str):
            raise InputError(f"references[{i}] is one text; give a list of captions, even for one")
        if not len(several):
            raise InputError(f"caption {i} has no reference; give one for every caption or leave the caption out")
        paired.append([as_tokens(caption, f"references[{i}]") for caption in several])
    return CaptionPairs([as_tokens(c, f"candidates[{i}]") for i, c in enumerate(candidates)], paired)


def as_tokens(caption: Any, name: str) -> list[str]:
    """The tokens of ``caption``: cut if it is a text, as they are if it is tokens."""
    if isinstance(caption, str):
        return ptb_tokens(caption)
    try:
        tokens = caption if type(caption) is list else list(caption)
    except TypeError:
        raise InputError(f"{name} is {caption!r}; a caption is a text or a list of tokens") from None
    for kind in set(map(type, tokens)):
        if not issubclass(kind, str):
            raise InputError(f"{name} holds {next(t for t in tokens if type(t) is kind)!r}; a token is a text")
    return tokens


def _refuse_text(values: Any, name: str) -> None:
    if isinstance(values, str):
        raise InputError(f"{name} is one text; give a list with one entry for every caption")
