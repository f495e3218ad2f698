"""What chance alone gives on the published pools of SocialCounterfactuals, beside the published rows.

MaxSkew@K with as many groups as ranks has a floor far above 0: twelve pictures out of many seldom show twelve groups.
The pool of an occupation holds complete sets, so the floor depends on nothing but the number of its sets, and is exact
here (:func:`equipoise.measure.retrieval.max_skew_law`, :func:`equipoise.measure.retrieval.expected_ndkl`). The paper
does not say which occupations count; three rules for the smallest pool are shown: every one, those with two sets or
more, and those with at least K sets.

The sizes of the pools are those of the public metadata where a folder with it is given. Without it they are made from
five facts of that metadata (occupations, occupations with one set, median, largest, all sets), which leave the shape of
the distribution open: a check with other shapes is part of the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.published import published_cell
from equipoise.errors import InputError
from equipoise.measure.retrieval import expected_ndkl, max_skew_law
from equipoise.report.study import StudyPart, StudyTable


@dataclass(frozen=True)
class PoolFacts:
    """One part of the dataset, with what its public metadata says of the sets per occupation."""

    name: str
    groups: int
    occupations: int
    single: int
    median: float
    largest: int
    sets: int
    ndkl_table: str


SEGMENTS = (
    PoolFacts("race-gender", 12, 141, 19, 20, 490, 7936, "T12"),
    PoolFacts("physical-gender", 10, 136, 15, 16, 260, 5052, "T14"),
    PoolFacts("physical-race", 30, 67, 19, 4, 72, 836, "T13"),
)
MODELS = ("CLIP", "FLAVA", "ALIP")
RULES = {"every occupation": 1, "two sets or more": 2, "K sets or more": 0}
"""The least number of sets; 0 stands for K, the number of groups."""
_OCCUPATION = re.compile(r"(?:physical_race|physical_gender|race_gender)_(.+)$")
FILES = {segment.name: f"metadata_{segment.name.replace('-', '_')}.csv" for segment in SEGMENTS}


def pool_sizes(segment: PoolFacts, bend: float = 1.0) -> NDArray[np.int64]:
    """Sets per occupation that agree with the five facts of a segment; ``bend`` changes the shape below the median.

    From one set at the single ones the sizes rise geometrically to the median, and above it along a curve whose shape
    is the one that gives the right number of sets.

    >>> sizes = pool_sizes(SEGMENTS[0])
    >>> len(sizes), int((sizes == 1).sum()), int(np.median(sizes)), int(sizes.max()), abs(int(sizes.sum()) - 7936) < 80
    (141, 19, 20, 490, True)
    """
    n, middle = segment.occupations, (segment.occupations - 1) // 2
    lower = np.linspace(0, 1, middle - segment.single + 1)[1:] ** bend
    below = np.maximum(2, np.round(2 * (segment.median / 2) ** lower))
    below = np.minimum(below, segment.median)
    head = np.concatenate([np.ones(segment.single), below])
    tail = np.linspace(0, 1, n - len(head) + 1)[1:]

    def total(shape: float) -> float:
        return float(head.sum() + (segment.median * (segment.largest / segment.median) ** (tail**shape)).sum())

    low, high = 0.05, 30.0
    for _ in range(80):
        shape = (low + high) / 2
        low, high = (shape, high) if total(shape) > segment.sets else (low, shape)
    above = np.round(segment.median * (segment.largest / segment.median) ** (tail**low))
    return np.concatenate([head, above]).astype(np.int64)


def sizes_from_metadata(folder: str | Path, segment: PoolFacts) -> NDArray[np.int64]:
    """Sets per occupation, counted in the public metadata: one row per set, the occupation in its ``filename``.

    Occupations that differ in case alone are one.
    """
    path = Path(folder) / FILES[segment.name]
    if not path.is_file():
        raise InputError(f"{folder}: {path.name} is missing; give the folder with the metadata of all three segments")
    names = pd.read_csv(path, usecols=["filename"])["filename"].astype(str)
    occupations = names.str.lower().str.extract(_OCCUPATION, expand=False)
    if occupations.isna().any():
        raise InputError(f"{path}: {names[occupations.isna()].iloc[0]!r} names no occupation")
    return np.sort(occupations.value_counts().to_numpy(np.int64))


@cache
def _max_skew(sets: int, groups: int) -> float:
    return float(max_skew_law([sets] * groups, groups).mean)


@cache
def _ndkl(sets: int, groups: int) -> float:
    return expected_ndkl([sets] * groups, groups * groups)


def _mean(sizes: Sequence[int] | NDArray[np.int64], groups: int, least: int, metric: str) -> tuple[float, int]:
    """The mean over occupations with at least ``least`` sets, and how many these are."""
    kept = [int(size) for size in sizes if size >= (least or groups)]
    law = _max_skew if metric == "MaxSkew" else _ndkl
    return (float(np.mean([law(size, groups) for size in kept])) if kept else float("nan")), len(kept)


def chance_table(metadata: str | Path | None = None) -> pd.DataFrame:
    """Chance by segment, metric and rule, beside the published CLIP, FLAVA and ALIP rows.

    ``low`` and ``high`` are what other shapes of the distribution of sizes give; without a spread the sizes are known.
    """
    rows = []
    for segment in SEGMENTS:
        shapes = [sizes_from_metadata(metadata, segment)] if metadata else [pool_sizes(segment, b) for b in (1, 0.5, 2)]
        for metric in ("MaxSkew", "NDKL"):
            table, column = ("T2", "MaxSkew@K") if metric == "MaxSkew" else (segment.ndkl_table, "NDKL")
            cells = {}
            for model in MODELS:
                place = table, f"{model} pretrained", f"{segment.name} / {column} / mean"
                cells[f"{model}, published"] = published_cell("socialcounterfactuals", *place)["published"]
            for rule, least in RULES.items():
                values = [_mean(sizes, segment.groups, least, metric) for sizes in shapes]
                chances = [value for value, _ in values]
                name = f"MaxSkew@{segment.groups}" if metric == "MaxSkew" else f"NDKL, first {segment.groups**2}"
                row = {"segment": segment.name, "metric": name, "pools": rule, "occupations": values[0][1]}
                spread = {"low": min(chances), "high": max(chances)} if len(shapes) > 1 else {}
                rows.append({**row, **cells, "chance": chances[0], **spread})
    return pd.DataFrame(rows)


def chance_part(metadata: str | Path | None = None) -> StudyPart:
    """The table as a part of the study, with what follows from it and what does not."""
    frame = chance_table(metadata)
    names = {"chance": "chance level", "low": "other shapes: from", "high": "to"}
    names |= {f"{model}, published": model for model in MODELS}
    first = ["segment", "metric", "pools", "occupations", "chance", *(f"{model}, published" for model in MODELS)]
    shown = frame[[*first, *(name for name in ("low", "high") if name in frame)]].rename(columns=names)
    how = "the public metadata" if metadata else "five facts of the public metadata, see the note"
    note = (
        "The sizes of the pools are counted in the metadata."
        if metadata
        else "The number of sets of each occupation is made to fit the occupations, single-set occupations, median, "
        "largest and sum of the public metadata; 'other shapes' bends the distribution below the median. With the "
        "metadata itself (--from metadata=FOLDER) the sizes are exact."
    )
    text = (
        "Published MaxSkew is of the 20% of occupations that were held out, published NDKL of all; the paper does not "
        "say how many sets an occupation needs, and the pools of its main text are larger, from before the filter. So "
        "no rule here is known to be the paper's, and none was chosen before its numbers were seen.",
        *_what_follows(frame),
        "This compares means with means; it is no test of any model. Scores of one segment by the models themselves, "
        "with the labels exchanged inside the sets, would be one (recipe socialcounterfactuals --scale full).",
    )
    table = StudyTable("chance", "Chance on the published pools; CLIP, FLAVA and ALIP as published", shown, note=note)
    return StudyPart("Tables 2, 12, 13 and 14", "What chance alone gives", text, (table,), (), how)


def _what_follows(frame: pd.DataFrame) -> list[str]:
    """For each model, in how many of the cells its published mean lies above the chance of each rule."""
    sentences = []
    for model in MODELS:
        above = {
            str(rule): int((some[f"{model}, published"] > some["chance"] + 0.05).sum())
            for rule, some in frame.groupby("pools", sort=False)
        }
        n = len(frame) // len(RULES)
        by_rule = ", ".join(f"{count} of {n} under '{rule}'" for rule, count in above.items())
        sentences.append(f"{model}: its published mean lies more than 0.05 above chance in {by_rule}.")
    return sentences
