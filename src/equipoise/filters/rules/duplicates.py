"""Nearly the same image twice: the first stays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.data.sampling import units_of
from equipoise.errors import InputError, UnknownNameError
from equipoise.filters.protocol import FilterVerdict, whole_sets
from equipoise.filters.remaining import RemainingImages

_BLOCK = 2048
UNITS = ("image", "set")


@dataclass(frozen=True)
class Duplicates:
    """An image goes if it is nearly the same as an earlier one that stays (cosine of at least ``alike``).

    Images of the same set, or edits of the same source, are meant to be alike and are not compared. With
    ``unit = "set"`` a whole set goes if its mean vector is nearly that of an earlier set. An image without a vector
    cannot be compared and goes, and then with its whole set.
    """

    alike: float = 0.99
    unit: str = "image"
    within: str = ""
    """A column: only images with the same value are compared, such as ``subject``."""
    model: str = ""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise UnknownNameError("unit", self.unit, UNITS)
        if not 0 < self.alike <= 1:
            raise InputError(f"alike = {self.alike}: a cosine between 0 and 1 is expected")

    @property
    def columns(self) -> tuple[str, ...]:
        """The column that images are compared within."""
        return (self.within,) if self.within else ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Vectors of images."""
        return ("image vectors",)

    def judge(self, remaining: RemainingImages) -> FilterVerdict:
        """Score ``twin``: the cosine with the most similar earlier image (or set) that stays; NaN if there is none."""
        vectors = remaining.image_vectors(self.model)
        relatives = _relatives(remaining)
        within = remaining.column(self.within) if self.within else pd.Series(np.zeros(len(remaining)))
        sets = remaining.sets
        unseen = ~np.isfinite(vectors).all(axis=1)
        if self.unit == "set":
            unseen = whole_sets(unseen, sets)
            first = np.unique(sets, return_index=True)[1]
            means = _set_sums(vectors, sets)
            means /= np.linalg.norm(means, axis=1, keepdims=True)
            twin = _by_part(means, np.arange(len(first)), np.asarray(within, dtype=object)[first], self.alike)
            score = twin[sets]
        else:
            score = _by_part(vectors, relatives, np.asarray(within, dtype=object), self.alike)
        failed = (np.nan_to_num(score, nan=-1.0) >= self.alike - 1e-6) | unseen
        where = "are in a set with one that could not be encoded" if self.unit == "set" else "could not be encoded"
        notes = [f"{int(unseen.sum())} images {where} and go"] if unseen.any() else []
        return FilterVerdict(failed, failed, {"twin": score}, notes=notes)


def earlier_twin(vectors: Any, relatives: Any, alike: float) -> Floats:
    """(n,) the cosine of each unit vector with the most similar earlier one that is no relative and itself stays.

    >>> v = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> earlier_twin(v, [0, 1, 2], 0.99).tolist()
    [nan, 1.0, 0.0]
    """
    v, kin = np.asarray(vectors, dtype=np.float32), np.asarray(relatives)
    n = len(v)
    out = np.full(n, np.nan)
    stays = np.zeros(n, dtype=bool)
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        before = np.flatnonzero(stays[:start])
        if len(before):
            for left in range(0, len(before), 4 * _BLOCK):
                part = before[left : left + 4 * _BLOCK]
                cosine = np.where(kin[start:stop, None] == kin[part], np.nan, v[start:stop] @ v[part].T)
                out[start:stop] = np.fmax(out[start:stop], np.fmax.reduce(cosine, axis=1))
        inside = np.where(kin[start:stop, None] == kin[start:stop], np.nan, v[start:stop] @ v[start:stop].T)
        for i in range(stop - start):  # whether an earlier one stays is known only when its turn has been
            mine = inside[i, :i][stays[start : start + i]]
            if len(mine):
                out[start + i] = np.fmax(out[start + i], np.fmax.reduce(mine))
            stays[start + i] = not out[start + i] >= alike - 1e-6 and np.isfinite(v[start + i]).all()
    return out


def _by_part(vectors: Any, relatives: NDArray[Any], parts: NDArray[Any], alike: float) -> Floats:
    out = np.full(len(vectors), np.nan)
    for rows in pd.Series(range(len(parts))).groupby(parts, sort=False, dropna=False).indices.values():
        out[rows] = earlier_twin(vectors[rows], relatives[rows], alike)
    return out


def _set_sums(vectors: Any, sets: NDArray[np.int64]) -> NDArray[np.float32]:
    """(S, d) the sum of the vectors (n, d) of each of the ``sets`` (n,), numbered 0 to S - 1."""
    order = np.argsort(sets, kind="stable")
    starts = np.flatnonzero(np.diff(sets[order], prepend=-1))
    return np.asarray(np.add.reduceat(vectors[order], starts, axis=0))


def _relatives(remaining: RemainingImages) -> NDArray[np.int64]:
    """(n,) the same number for images that are meant to be alike: of one set, and an original and its edits."""
    frame = remaining.frame.assign(set_id=remaining.sets.astype(str))  # sets of one name in two subjects are two
    return pd.factorize(pd.Series(units_of(frame, "image_id"), dtype=object))[0].astype(np.int64)
