"""How many swapped, filled and merged captions go together: Table 3.1 of the paper, or shares of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType

from equipoise.errors import InputError
from equipoise.mitigate.libra.pairs import KINDS, CaptionPair

__all__ = ["MIXES", "mix_of", "mixed", "sizes"]

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
    """As many of ``pairs`` as keep the shares of ``mix``, drawn by a hash of the seed and the pair, in their order.

    At most ``count``, or the paper's count where it is 0 and the mix is the paper's.
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
