"""Random numbers that belong to one picture: a hash of its seed and of what is drawn, so that nothing else moves them.

A picture is the same whether it is drawn alone or among a million, and a new attribute does not change the old ones.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

Seeds = NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


@cache
def _salt(what: str) -> int:
    return int.from_bytes(hashlib.blake2b(what.encode(), digest_size=8).digest(), "little")


def _mixed(values: Seeds) -> Seeds:
    """SplitMix64's finaliser: every bit of the input moves every bit of the output (Steele et al., 2014)."""
    with np.errstate(over="ignore"):
        z = values + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def seeds_for(seed: int, n: int, start: int = 0, of: str = "seed") -> NDArray[np.int64]:
    """The seeds of pictures ``start`` … ``start + n - 1`` of a sample, each from 0 to 2**63 - 1.

    Another ``of`` (a subject, say) gives other seeds.

    >>> bool((seeds_for(7, 5)[2:] == seeds_for(7, 3, start=2)).all())
    True
    """
    base = _mixed(np.array([seed & _MASK], dtype=np.uint64) ^ np.uint64(_salt(of)))
    places = np.arange(start, start + n, dtype=np.uint64)
    return (_mixed(_mixed(places) ^ base) >> np.uint64(1)).astype(np.int64)


def uniforms(seeds: NDArray[np.int64], what: str) -> NDArray[np.float64]:
    """One number in [0, 1) for each seed, for the purpose ``what``."""
    hashed = _mixed(_mixed(seeds.astype(np.uint64)) ^ np.uint64(_salt(what)))
    return (hashed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniform(seed: int, what: str) -> float:
    """:func:`uniforms` for one seed."""
    return float(uniforms(np.array([seed], dtype=np.int64), what)[0])


def pick(u: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions drawn from ``shares``: one row for all (k,), or one for each number (n, k).

    >>> pick(np.array([0.1, 0.6]), np.array([0.5, 0.5])).tolist()
    [0, 1]
    """
    edges = np.cumsum(shares, axis=-1)
    edges = edges / edges[..., -1:]
    return np.asarray((u[:, None] >= edges[..., :-1]).sum(axis=1), dtype=np.int64)
