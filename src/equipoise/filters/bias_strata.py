"""Which images may exchange their group when a filter is tested for bias, and what stays fixed meanwhile."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Ints
from equipoise.data.labels import PLACEBO, set_numbers
from equipoise.measure.groups import Groups
from equipoise.measure.stats.exchange import LEAST_VARYING, MOSTLY, commonest, share_mixed

COLUMNS = {"set_id": "sets", "source_id": "sources"}
"""Columns whose values are sets of images, and what these are called."""

FOLLOWS = 0.05
"""A column tells the group if to guess by it is wrong this much as often as to guess the largest group, or less."""


@dataclass(frozen=True)
class Within:
    """What labels are exchanged within; every field has one entry for each of the n images."""

    strata: Ints
    """Labels are exchanged inside a stratum only."""
    name: str
    units: Ints | None = None
    """Images whose label moves as one; ``None``: each by itself."""
    cells: Ints | None = None
    """Images whose common rate of failures is what is even for them; ``None``: the strata."""
    clusters: Ints | None = None
    """Images that are not independent of each other, for the intervals; ``None``: the units or else the strata."""


def held_axes(frame: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """The columns of ``frame`` that must stay fixed while the labels of another are shuffled: axes and placebos.

    >>> held_axes(pd.DataFrame({"gender": [], "placebo_bag": [], "note": []}), ["gender", "race"])
    ['gender', 'placebo_bag']
    """
    placebos = [name for name in map(str, frame.columns) if name.startswith(PLACEBO)]
    return [name for name in dict.fromkeys([*axes, *placebos]) if name in frame]


def paired_columns(frame: pd.DataFrame, groups: Groups) -> list[str]:
    """The columns whose sets are made to show several groups, and do not by a few wrong labels.

    More than half of the sets of several images do, and a tenth or more of all.

    >>> frame = pd.DataFrame({"set_id": [*"aabbc"], "source_id": [*"vvwxy"]})
    >>> paired_columns(frame, Groups.from_values([*"fmfmf"])), paired_columns(frame, Groups.from_values([*"ffmmm"]))
    (['set_id', 'source_id'], [])
    """
    columns = []
    for column in COLUMNS:
        codes = _codes(frame, column)
        if codes is not None:
            defined = groups.labels >= 0
            mostly = share_mixed(groups.labels[defined], codes[defined]) > MOSTLY
            if mostly and (_kinds(codes, groups)[1] > 1).mean() >= LEAST_VARYING:
                columns.append(column)
    return columns


def strata_of(
    frame: pd.DataFrame, groups: Groups, others: Sequence[str] = (), *, paired: Collection[str] | None = None
) -> Within:
    """What images may be exchanged with: the set or the source if its images show several groups, else the subject.

    ``others`` are the columns of the other axes. Images exchange labels only with those of the same set and the same
    levels there, so that a filter that is hard on one axis is not taken for hard on another; an image without such a
    partner, or without a level on another axis, stays as it is. Where all images of a set show the same group, whole
    sets are exchanged within their subject, and what is even is the rate of the images of the subject with the same
    levels. Sets with the same ``link`` show the same people, and their labels move together. Another axis that
    follows the groups (nearly every one of its levels has one group only) cannot be held fixed and is left out.

    No single label decides: sets of one group are exchanged whole unless most are made to show several, and labels
    move inside the few that do. ``paired`` are the :func:`paired_columns` of the whole table where ``frame`` is what
    filters have left of it: a set that has lost its other group is not of one group.

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
    made_of_several = paired_columns(frame, groups) if paired is None else paired
    for column, name in COLUMNS.items():
        codes = _codes(frame, column)
        if codes is None:
            continue
        sizes, kinds = _kinds(codes, groups)
        if not (sizes > 1).any():
            continue
        links = _links(frame, codes)
        if column in made_of_several and (kinds[sizes > 1] > 1).mean() >= LEAST_VARYING:
            varying, levels = _levels_inside(frame, kept, codes)
            return _inside(codes, levels, groups, links, _told(name, varying))
        return _whole(frame, groups, codes, base, kept, links, (place, name))
    return Within(_together(base, _levels(frame, kept)), _told(place, kept))


def _inside(codes: Ints, levels: Ints, groups: Groups, links: Ints | None, name: str) -> Within:
    """Labels move inside a set, among images with the same levels of the other axes."""
    cells = _together(codes, levels)
    if links is None:
        return Within(cells, name, clusters=codes)
    strata = _together(links, levels)
    together = _together(strata, groups.labels.astype(np.int64))
    alone = ~_several(links, codes)  # in a set without a link every image moves by itself
    units = _together(together, np.where(alone, np.arange(len(codes)), 0))
    return Within(strata, f"{name}, linked sets together", units, cells, links)


def _whole(
    frame: pd.DataFrame,
    groups: Groups,
    codes: Ints,
    base: Ints,
    others: Sequence[str],
    links: Ints | None,
    names: tuple[str, str],
) -> Within:
    """Whole sets exchange their label within the subject and the levels that a set has throughout.

    Labels move inside the few sets that show several groups, and with links inside the few links.
    """
    place, name = names
    units = codes if links is None else links
    fixed = [axis for axis in others if share_varied(frame[axis], units) <= MOSTLY]
    levels = _levels(frame, fixed)
    throughout = commonest(units, levels)
    outside, cells = _together(base, throughout), _together(base, _levels(frame, others))
    labels, defined = groups.labels.astype(np.int64), groups.labels >= 0
    mixed = _several(units, labels, defined)
    if links is None:
        inside = _together(codes, _levels_inside(frame, others, codes)[1])
        each = np.where(mixed, len(codes) + np.arange(len(codes)), codes)
        told = _told(f"{place}, whole {name} at a time", fixed)
        return Within(_either(mixed, inside, outside), told, each, _either(mixed, inside, cells), codes)
    linked = _several(links, codes)
    by_link = pd.Series(mixed[linked & defined]).groupby(links[linked & defined]).first()
    if by_link.mean() > MOSTLY:  # the same people, made as each group in sets of their own
        mixed = np.ones_like(mixed)
    each = _together(links, np.where(mixed, labels, -2))
    outside = _either(~linked, outside, throughout)  # linked sets are of many subjects
    strata = _either(mixed, _together(links, levels), outside)
    return Within(strata, _told(f"whole {name} at a time, linked ones together", fixed), each, cells, links)


def _either(which: NDArray[np.bool_], first: Ints, second: Ints) -> Ints:
    """(n,) ``first`` where ``which`` is true, numbered after ``second``."""
    return np.where(which, int(second.max(initial=0)) + 1 + first, second)


def _told(name: str, held: Sequence[str]) -> str:
    return name + (f", {' and '.join(held)} held fixed" if held else "")


def _kinds(codes: Ints, groups: Groups) -> tuple[Ints, Ints]:
    """How many images and how many groups each set shows, among images of a defined group."""
    defined = groups.labels >= 0
    together = pd.DataFrame({"set": codes[defined], "group": groups.labels[defined]}).groupby("set")["group"]
    return np.asarray(together.size(), dtype=np.int64), np.asarray(together.nunique(), dtype=np.int64)


def _several(codes: Ints, values: Ints, counted: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """(n,) whether the set of each image shows several ``values`` (n,), among those ``counted``."""
    rows = np.ones(len(codes), dtype=bool) if counted is None else counted
    kinds = pd.Series(values[rows]).groupby(codes[rows]).nunique()
    return np.isin(codes, kinds.index[kinds > 1])


def share_varied(column: pd.Series, codes: Ints) -> float:
    """In which share of the sets of several images with a level a column has several."""
    levels = pd.factorize(column)[0]
    return share_mixed(levels[levels >= 0], codes[levels >= 0])


def _levels_inside(frame: pd.DataFrame, axes: Sequence[str], codes: Ints) -> tuple[list[str], Ints]:
    """The axes that vary inside sets, and (n,) numbers for their levels.

    An axis that varies in fewer than a tenth of the sets has levels in these alone: elsewhere they would only keep
    images still whose level is not known.
    """
    varying, levels = [], np.zeros(len(frame), dtype=np.int64)
    for axis in axes:
        there = _codes(frame, axis)
        if there is None:
            continue
        varied = _several(codes, there, frame[axis].notna().to_numpy())
        if varied.any():
            varying.append(axis)
            held = np.ones_like(varied) if share_varied(frame[axis], codes) > LEAST_VARYING else varied
            levels = _together(levels, np.where(held, there, -1))
    return varying, levels


def _can_be_held(column: pd.Series, groups: Groups) -> bool:
    """Whether levels of the column have two groups; a column that tells the group leaves nothing to exchange."""
    defined = groups.labels >= 0
    labels, levels = groups.labels[defined], pd.factorize(column[defined])[0]
    known = levels >= 0
    if not known.any():
        return False
    counts = np.bincount(
        levels[known] * groups.n_groups + labels[known], minlength=groups.n_groups * (levels.max() + 1)
    )
    counts = counts.reshape(-1, groups.n_groups)
    wrong, by_largest = (counts.sum(axis=1) - counts.max(axis=1)).sum(), counts.sum() - counts.sum(axis=0).max()
    return bool(wrong > FOLLOWS * by_largest)


def _levels(frame: pd.DataFrame, axes: Sequence[str]) -> Ints:
    """(n,) numbers for the combinations of levels; an image that misses one has a number of its own."""
    codes = np.zeros(len(frame), dtype=np.int64)
    for axis in axes:
        levels = _codes(frame, axis)
        if levels is not None:
            codes = _together(codes, levels)
    return codes


def _together(first: Ints, second: Ints) -> Ints:
    """(n,) one number for each pair of two codes that occurs."""
    pairs = first * (int(second.max(initial=0)) - int(second.min(initial=0)) + 1) + (second - second.min(initial=0))
    return np.unique(pairs, return_inverse=True)[1].astype(np.int64)


def _links(frame: pd.DataFrame, codes: Ints) -> Ints | None:
    """(n,) numbers of the linked sets; a set without a link is alone. ``None`` where no two sets are linked."""
    if "link" not in frame or frame["link"].isna().all():
        return None
    numbers, names = pd.factorize(frame["link"], use_na_sentinel=True)
    links = np.where(numbers >= 0, numbers, len(names) + codes).astype(np.int64)
    several = pd.Series(codes).groupby(links).nunique() > 1
    return np.unique(links, return_inverse=True)[1].astype(np.int64) if several.any() else None


def _codes(frame: pd.DataFrame, column: str) -> Ints | None:
    """Numbers for the values of a column, one of its own for every missing one; ``None`` if all are missing."""
    if column not in frame or frame[column].isna().all():
        return None
    codes = set_numbers(frame) if column == "set_id" else pd.factorize(frame[column])[0].astype(np.int64)
    missing = codes < 0
    codes[missing] = codes.max(initial=-1) + 1 + np.arange(int(missing.sum()))
    return codes
