"""Pairs of a caption and a biased version of it: what one is, how many of each kind go together, what can be chosen.

The mixes are those of Table 3.1 of the paper, or shares of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field

from equipoise.data.settings import Settings
from equipoise.errors import InputError
from equipoise.models.caption_classifiers import classifier

Kind = Literal["swap", "fill", "merged"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class CaptionPair:
    """What is wrong with ``biased``, and how sure the classifiers are of it."""

    image_id: str
    biased: str
    original: str
    kind: Kind
    group: str
    """The group that the original names."""
    says: str
    """The group that the biased caption names."""
    p_before: float
    """The probability of ``group`` by the other words of the original."""
    p_after: float
    """The same by the other words of the biased caption."""
    p_authentic: float | None
    """The probability that people wrote the filled caption; none for a swap, which is not filled."""
    replaced: tuple[tuple[str, str], ...] = ()
    """The content words that were filled: old and new."""

    def plain(self) -> dict[str, Any]:
        """As a row of the file of pairs."""
        return asdict(self)


MIXES: Mapping[str, int] = MappingProxyType({"1:1:0": 57_284, "0:1:1": 114_568, "1:2:1": 114_568})
"""Shares of swap, fill and merged, and how many pairs the paper takes."""


def mix_of(name: str) -> tuple[int, int, int]:
    """The shares of swap, fill and merged.

    >>> mix_of("1:2:1")
    (1, 2, 1)
    """
    parts = name.split(":")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts) or not any(map(int, parts)):
        raise InputError(f"mix = {name!r}: give shares of swap, fill and merged, such as 0:1:1")
    swap, fill, merged = map(int, parts)
    return swap, fill, merged


def sizes(found: Sequence[int], shares: Sequence[int], most: int | None) -> list[int]:
    """How many of each kind are taken: the most that keep the shares exactly.

    >>> sizes([9, 50, 20], (1, 2, 1), None), sizes([9, 50, 20], (1, 2, 1), 21)
    ([9, 18, 9], [5, 10, 5])
    """
    limits = [n // share for n, share in zip(found, shares, strict=True) if share]
    if most is not None:
        limits.append(most // sum(shares))
    return [min(limits) * share for share in shares]


def mixed(pairs: Sequence[CaptionPair], mix: str, *, count: int = 0, seed: int = 0) -> list[CaptionPair]:
    """As many of ``pairs`` as keep the shares of ``mix`` exactly.

    Args:
        pairs: those to draw from, of any kind.
        mix: shares of swap, fill and merged, such as ``1:2:1``.
        count: at most so many; 0 is the paper's count where the mix is the paper's, and no limit for others.
        seed: which pairs are drawn, by a hash of it and the pair.

    Returns:
        The pairs that were drawn, in the order of ``pairs``.
    """
    by_kind = [[pair for pair in pairs if pair.kind == kind] for kind in KINDS]
    wanted = sizes([len(some) for some in by_kind], mix_of(mix), count or MIXES.get(mix))
    taken = {
        id(pair)
        for some, n in zip(by_kind, wanted, strict=True)
        for pair in sorted(some, key=lambda pair: _rank(pair, seed))[:n]
    }
    return [pair for pair in pairs if id(pair) in taken]


def _rank(pair: CaptionPair, seed: int) -> bytes:
    return blake2b(f"{seed}\0{pair.image_id}\0{pair.original}\0{pair.biased}".encode(), digest_size=8).digest()


Probability = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class SynthesisSettings(Settings):
    """Settings of a synthesis; 15%, 0.3, 0.2 and the mixes are the paper's, the others are chosen here.

    >>> SynthesisSettings().having({"mix": "1:2:1"}).mix
    '1:2:1'
    """

    what: ClassVar[str] = "setting of a synthesis"

    lexicon: str = "equipoise"
    """The words by group: an id, or a TOML file of your own."""
    filler: str = "captions"
    """Where replacements come from: ``captions`` (the words that stand between the same neighbours in these captions),
    or a masked language model or T5, as ``hf:bert-base-uncased``, ``hf:t5-base`` or ``mini:text``."""
    classifier: str = "fast"
    """Who reads the group off the other words, and tells filled captions from others: ``fast`` (linear on words and
    pairs of words), ``bert:NAME`` (the paper's), ``bert-frozen:NAME`` or ``lstm``."""
    mix: str = "0:1:1"
    """Shares of swap, fill and merged: 1:1:0, 0:1:1, 1:2:1, or any three whole numbers."""
    count: Annotated[int, Field(ge=0)] = 0
    """At most so many pairs; 0 is the paper's count for its three mixes, and no limit for others."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.15
    """The share of content words that are replaced, at least one."""
    tries: Annotated[int, Field(ge=1)] = 4
    """Fillings of each caption."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_k: Annotated[int, Field(ge=1)] = 50
    authenticity: Probability = 0.3
    """A filled caption must look written by people with a probability above this; 0 lets all through."""
    margin: Annotated[float, Field(ge=-1, lt=1)] = 0.2
    """A filled caption must tell its group with a probability higher by more than this; -1 lets all through."""
    folds: Annotated[int, Field(ge=2)] = 5
    """Of the classifiers; no caption is judged by one that was trained on its image's captions."""
    synonyms: Literal["auto", "wordnet", "allowed"] = "auto"
    """Whether WordNet's synonyms are refused as replacements: ``auto`` does where nltk has WordNet."""
    tagger: Literal["rules", "spacy"] = "rules"
    seed: Annotated[int, Field(ge=0)] = 0

    def check(self) -> None:
        """Refuse a mix that is none, and a classifier that is not there."""
        mix_of(self.mix)
        classifier(self.classifier)
