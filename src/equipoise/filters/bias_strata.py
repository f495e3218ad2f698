"""Which images may exchange their group when a filter is tested for bias, and what stays fixed meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.labels import set_numbers
from equipoise.measure.groups import Groups

__all__ = ["PLACEBO", "Within", "held_axes", "strata_of"]

Codes = NDArray[np.int64]

PLACEBO = "placebo_"
"""Columns with this beginning vary inside sets and are no group of people; they are held fixed too."""


@dataclass(frozen=True)
class Within:
    """What labels are exchanged within; every field has one entry for each of the n images."""

    strata: Codes
    """Labels are exchanged inside a stratum only."""
    name: str
    units: Codes | None = None
    """Images whose label moves as one; ``None``: each by itself."""
    cells: Codes | None = None
    """Images whose common rate of failures is what is even for them; ``None``: the strata."""
    clusters: Codes | None = None
    """Images that are not independent of each other, for the intervals; ``None``: the units or else the strata."""


def held_axes(frame: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """The columns of ``frame`` that must stay fixed while the labels of another are shuffled: axes and placebos.

    >>> held_axes(pd.DataFrame({"gender": [], "placebo_bag": [], "note": []}), ["gender", "race"])
    ['gender', 'placebo_bag']
    """
    placebos = [name for name in map(str, frame.columns) if name.startswith(PLACEBO)]
    return [name for name in dict.fromkeys([*axes, *placebos]) if name in frame]


def strata_of(frame: pd.DataFrame, groups: Groups, others: Sequence[str] = ()) -> Within:
    """What images may be exchanged with: the set or the source if its images show several groups, else the subject.

    ``others`` are the columns of the other axes. Images exchange labels only with those of the same set and the same
    levels there, so that a filter that is hard on one axis is not taken for hard on another; an image without such a
    partner, or without a level on another axis, stays as it is. Where all images of a set show the same group, whole
    sets are exchanged within their subject, and what is even is the rate of the images of the subject with the same
    levels. Sets with the same ``link`` show the same people, and their labels move together. Another axis that
    follows the groups (every one of its levels has one group only) cannot be held fixed and is left out.

    >>> frame = pd.DataFrame({"set_id": ["a"] * 4, "subject": ["s"] * 4, "tone": ["x", "x", "y", "y"]})
    >>> strata_of(frame, Groups.from_values(["f", "m", "f", "m"]), ["tone"]).strata.tolist()
    [0, 0, 1, 1]
    >>> frame = pd.DataFrame({"set_id": ["a", "a", "b", "b"], "subject": ["s"] * 4})
    >>> strata_of(frame, Groups.from_values(["f", "m", "f", "m"])).name
    'sets'
    >>> strata_of(frame, Groups.from_values(["f", "f", "m", "m"])).name
    'subjects, whole sets at a time'
    """
    subjects = _codes(frame, "subject")
    place = "subjects" if subjects is not None else "the table"
    base = np.zeros(len(frame), dtype=np.int64) if subjects is None else subjects
    kept = [axis for axis in others if _can_be_held(frame[axis], groups)]
    for column, name in (("set_id", "sets"), ("source_id", "sources")):
        codes = _codes(frame, column)
        if codes is None:
            continue
        sizes, kinds = _kinds(codes, groups)
        if not (sizes > 1).any():
            continue
        links = _links(frame, codes)
        if (kinds > 1).any():
            varying = [axis for axis in kept if _varies(frame[axis], codes)]
            return _inside(codes, _levels(frame, varying), groups, links, _told(name, varying))
        return _whole(frame, groups, codes, base, kept, links, (place, name))
    return Within(_together(base, _levels(frame, kept)), _told(place, kept))


def _inside(codes: Codes, levels: Codes, groups: Groups, links: Codes | None, name: str) -> Within:
    """Labels move inside a set, among images with the same levels of the other axes."""
    cells = _together(codes, levels)
    if links is None:
        return Within(cells, name, clusters=codes)
    strata = _together(links, levels)
    units = _together(strata, groups.labels.astype(np.int64))
    return Within(strata, f"{name}, linked sets together", units, cells, links)


def _whole(
    frame: pd.DataFrame,
    groups: Groups,
    codes: Codes,
    base: Codes,
    others: Sequence[str],
    links: Codes | None,
    names: tuple[str, str],
) -> Within:
    """Whole sets exchange their label within the subject and the levels that a set has throughout."""
    units = codes if links is None else links
    fixed = [axis for axis in others if not _varies(frame[axis], units)]
    cells = _together(base, _levels(frame, others))
    place, name = names
    described = _told(f"{place}, whole {name} at a time", fixed)
    if links is None:
        return Within(_together(base, _levels(frame, fixed)), described, codes, cells, codes)
    _, kinds = _kinds(links, groups)
    described = _told(f"whole {name} at a time, linked ones together", fixed)
    if (kinds > 1).any():  # the same people, made as each group in sets of their own: those sets are exchanged
        units = _together(links, groups.labels.astype(np.int64))
        return Within(_together(links, _levels(frame, fixed)), described, units, cells, links)
    return Within(_levels(frame, fixed), described, links, cells, links)


def _told(name: str, held: Sequence[str]) -> str:
    return name + (f", {' and '.join(held)} held fixed" if held else "")


def _kinds(codes: Codes, groups: Groups) -> tuple[Codes, Codes]:
    """How many images and how many groups each set shows, among images of a defined group."""
    defined = groups.labels >= 0
    together = pd.DataFrame({"set": codes[defined], "group": groups.labels[defined]}).groupby("set")["group"]
    return np.asarray(together.size(), dtype=np.int64), np.asarray(together.nunique(), dtype=np.int64)


def _varies(column: pd.Series, codes: Codes) -> bool:
    return bool((column.groupby(codes).nunique() > 1).any())


def _can_be_held(column: pd.Series, groups: Groups) -> bool:
    """Whether some level of the column has two groups; a column that tells the group leaves nothing to exchange."""
    defined = groups.labels >= 0
    kinds = pd.Series(groups.labels[defined]).groupby(column.astype(object).to_numpy()[defined]).nunique()
    return bool((kinds > 1).any())


def _levels(frame: pd.DataFrame, axes: Sequence[str]) -> Codes:
    """(n,) numbers for the combinations of levels; an image that misses one has a number of its own."""
    codes = np.zeros(len(frame), dtype=np.int64)
    for axis in axes:
        levels = _codes(frame, axis)
        if levels is not None:
            codes = _together(codes, levels)
    return codes


def _together(first: Codes, second: Codes) -> Codes:
    """(n,) one number for each pair of two codes that occurs."""
    pairs = first * (int(second.max(initial=0)) - int(second.min(initial=0)) + 1) + (second - second.min(initial=0))
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64)


def _links(frame: pd.DataFrame, codes: Codes) -> Codes | None:
    """(n,) numbers of the linked sets; a set without a link is alone. ``None`` where no two sets are linked."""
    if "link" not in frame or frame["link"].isna().all():
        return None
    numbers, names = pd.factorize(frame["link"], use_na_sentinel=True)
    links = np.where(numbers >= 0, numbers, len(names) + codes).astype(np.int64)
    several = pd.Series(codes).groupby(links).nunique() > 1
    return np.unique(links, return_inverse=True)[1].astype(np.int64) if several.any() else None


def _codes(frame: pd.DataFrame, column: str) -> Codes | None:
    """Numbers for the values of a column, one of its own for every missing one; ``None`` if all are missing."""
    if column not in frame or frame[column].isna().all():
        return None
    codes = set_numbers(frame) if column == "set_id" else pd.factorize(frame[column])[0].astype(np.int64)
    missing = codes < 0
    codes[missing] = codes.max(initial=-1) + 1 + np.arange(int(missing.sum()))
    return codes
