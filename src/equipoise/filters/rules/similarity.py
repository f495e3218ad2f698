"""Do image and caption fit, do the images of a set resemble each other, did the image change as the words did?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Flags, Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.filters.protocol import FilterVerdict, below, whole_sets
from equipoise.filters.remaining import RemainingImages
from equipoise.filters.stored import StoredVectors, set_blocks

PAIRS = ("all", "first")


@dataclass(frozen=True)
class Similarity:
    """A set stays if every caption fits its image and every pair of its images is alike (cosines of one encoder).

    SocialCounterfactuals (CVPR 2024) keeps cosines of at least 0.2 for both; preset ``ip2p`` is what InstructPix2Pix
    used (arXiv 2211.09800): captions 0.2, images 0.7, direction 0.2, compared with the first image of the set, and
    only the four sets of each subject that move best in the caption's direction.
    """

    text_least: float | None = 0.2
    """Cosine of image and own caption."""
    image_least: float | None = 0.2
    """Cosine of two images of the set."""
    direction_least: float | None = None
    """Cosine of the difference of two images and the difference of their captions; ``None`` does not ask."""
    pairs: str = "all"
    """Which pairs of a set count: ``all``, or each image with the ``first``."""
    keep_best: int = 0
    """Of the sets that pass, keep so many of each ``best_of``, by their direction (or else caption) score; 0 is all."""
    best_of: str = "subject"
    model: str = ""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "socialcf": {},
        "ip2p": {"image_least": 0.7, "direction_least": 0.2, "pairs": "first", "keep_best": 4},
    }

    def __post_init__(self) -> None:
        if self.pairs not in PAIRS:
            raise UnknownNameError("choice of pairs", self.pairs, PAIRS)
        if self.keep_best < 0:
            raise InputError(f"keep_best = {self.keep_best}: give a whole number of at least 0")

    @property
    def columns(self) -> tuple[str, ...]:
        """Captions, unless only images are compared; sets for pairs."""
        texts = self.text_least is not None or self.direction_least is not None
        best = (self.best_of,) if self.keep_best else ()
        return (*(("caption",) if texts else ()), *best)

    @property
    def needs(self) -> tuple[str, ...]:
        """Vectors of images and captions."""
        return (f"image and caption vectors{f' of {self.model}' if self.model else ''}",)

    def judge(self, remaining: RemainingImages) -> FilterVerdict:
        """Scores ``caption_image``, ``image_image``, ``direction``; sets go whole."""
        stored = remaining.stored_vectors(self.model)
        texts, of_text = None, None
        if self.columns and "caption" in self.columns:
            of_text, distinct = pd.factorize(remaining.captions())
            texts = remaining.text_vectors([str(text) for text in distinct], self.model)
        similarities = set_similarities(
            stored,
            remaining.sets,
            texts,
            of_text,
            pairs=self.pairs,
            direction=self.direction_least is not None,
        )
        sizes = np.bincount(remaining.sets, minlength=1)[remaining.sets] if len(remaining) else np.zeros(0)
        failed = self._failed(similarities, sizes > 1) | stored.missing
        dropped = whole_sets(failed, remaining.sets)
        notes = [f"{int(stored.missing.sum())} images could not be encoded"] if stored.missing.any() else []
        if self.keep_best:
            best = similarities.direction if self.direction_least is not None else similarities.caption_image
            beaten = _beaten(dropped, remaining.sets, best, remaining.column(self.best_of), self.keep_best)
            lost = len(np.unique(remaining.sets[beaten]))
            notes.append(f"{lost} sets passed but were beaten: the best {self.keep_best} of each {self.best_of} stay")
            dropped = dropped | beaten
        return FilterVerdict(failed, dropped, similarities.scores(), notes=notes)

    def _failed(self, similarities: SetSimilarity, has_others: Flags) -> Flags:
        failed = below(similarities.caption_image, self.text_least)
        failed |= below(similarities.image_image, self.image_least) & has_others
        if self.direction_least is not None:
            moved = has_others & ~similarities.is_first if self.pairs == "first" else has_others
            failed |= below(similarities.direction, self.direction_least) & moved
        return failed


@dataclass(frozen=True)
class SetSimilarity:
    """(n,) each image's own numbers; NaN where there is none."""

    caption_image: Floats
    image_image: Floats
    """The least cosine with another image of the set (with the first alone for ``pairs="first"``)."""
    direction: Floats
    is_first: Flags

    def scores(self) -> dict[str, Floats]:
        """Those that were asked for."""
        named = {
            "caption_image": self.caption_image,
            "image_image": self.image_image,
            "direction": self.direction,
        }
        return {name: values for name, values in named.items() if not np.isnan(values).all()}


def set_similarities(
    stored: StoredVectors,
    sets: NDArray[np.int64],
    texts: NDArray[np.float32] | None = None,
    of_text: NDArray[Any] | None = None,
    *,
    pairs: str = "all",
    direction: bool = False,
) -> SetSimilarity:
    """The similarities of n images in ``sets`` (n,), in one pass over their vectors.

    ``texts`` (m, d) are unit vectors of the distinct captions, ``of_text`` (n,) says which is whose.
    """
    n = len(sets)
    result = SetSimilarity(np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan), _first_of_each(sets))
    for rows, vectors in set_blocks(stored, sets):
        sizes = np.diff(np.flatnonzero(np.r_[True, np.diff(sets[rows]) != 0, True]))
        ends = np.cumsum(sizes)
        for size in np.unique(sizes):
            starts = (ends - sizes)[sizes == size]
            if len(starts) * size == len(rows):
                at, x = rows.reshape(-1, size), vectors.reshape(len(starts), size, -1)
            else:
                picked = starts[:, None] + np.arange(size)
                at, x = rows[picked], vectors[picked]
            t = None if texts is None or of_text is None else texts[of_text[at]]
            _fill(result, at, x, t, pairs, direction)
    return result


def _fill(result: SetSimilarity, at: NDArray[np.int64], x: Any, t: Any, pairs: str, direction: bool) -> None:
    """One block of sets of equal size: ``at`` (m, s) rows, ``x`` (m, s, d) images, ``t`` (m, s, d) captions."""
    size = at.shape[1]
    gram = x @ x.transpose(0, 2, 1) if size > 1 else np.einsum("msd,msd->ms", x, x)[:, :, None]
    length = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    if (length == 0).any():
        raise InputError("an image has a vector of zeros, which has no direction; compute its embedding again")
    if t is not None:
        result.caption_image[at] = np.einsum("msd,msd->ms", x, t) / length
    if size == 1:
        return
    cosine = gram / length[:, :, None] / length[:, None, :]
    if pairs == "first":
        result.image_image[at[:, 1:]] = cosine[:, 0, 1:]
        result.image_image[at[:, 0]] = cosine[:, 0, 1:].min(axis=1)
    else:
        same = np.eye(size, dtype=bool)
        result.image_image[at] = np.where(same, np.inf, cosine).min(axis=2)
    if direction and t is not None:
        _fill_direction(result.direction, at, cosine, (x / length[:, :, None]) @ t.transpose(0, 2, 1), t, pairs)


def _fill_direction(out: Floats, at: NDArray[np.int64], cosine: Any, cross: Any, t: Any, pairs: str) -> None:
    """cos(x_j - x_i, t_j - t_i) of unit vectors, from the three tables of products; NaN where nothing changed."""
    own = np.diagonal(cross, axis1=1, axis2=2)
    texts = t @ t.transpose(0, 2, 1)
    moved = np.clip(2 - 2 * cosine, 0, None) * np.clip(2 - 2 * texts, 0, None)
    along = own[:, :, None] + own[:, None, :] - cross - cross.transpose(0, 2, 1)
    # float32 products of unit vectors are exact to about 1e-6
    value = np.divide(along, np.sqrt(moved), out=np.full(along.shape, np.nan), where=moved > 1e-10)
    if pairs == "first":
        out[at[:, 1:]] = value[:, 0, 1:]
        return
    value[:, np.eye(at.shape[1], dtype=bool)] = np.inf
    out[at] = value.min(axis=2)


def _first_of_each(sets: NDArray[np.int64]) -> Flags:
    first = np.zeros(len(sets), dtype=bool)
    first[np.unique(sets, return_index=True)[1]] = True
    return first


def _beaten(dropped: Flags, sets: NDArray[np.int64], score: Floats, of: Any, most: int) -> Flags:
    """(n,) images of sets that passed but are not among the ``most`` best of their kind; ties go to the earlier."""
    frame = pd.DataFrame({"set": sets, "score": score, "of": np.asarray(of, dtype=object)})[~dropped]
    by_set = frame.groupby("set", sort=False).agg(score=("score", "min"), of=("of", "first"))
    order = by_set.sort_values("score", ascending=False, kind="stable")
    place = order.groupby("of", sort=False, dropna=False).cumcount()
    losers = place.index[place >= most]
    return np.isin(sets, losers) & ~dropped
