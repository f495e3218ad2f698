"""Persons drawn anew in the photographs of the study, what a judge sees in them, and which are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.data import Table
from equipoise.data.results import draw_order
from equipoise.data.sampling import some_of
from equipoise.filters import Models, Step
from equipoise.filters import run as filtered
from equipoise.filters.rules.fidelity import PARTS, object_f1, rank_sum
from equipoise.generate import InpaintConfig, PartsConfig, plan_inpaint, plan_parts, run
from equipoise.measure.stats import summarise
from equipoise.measure.stats.shares import share_interval
from equipoise.models import load
from equipoise.recipes.studies.common import write_csv

GENERATOR, JUDGE, ENCODER, DETECTOR = "mini:inpaint", "mini:judge", "mini:clip-fair", "mini:detector"
DILATION = 2.0
"""Pixels around the person that are drawn anew, of 64; the paper's pictures have 512."""
QUIET: dict[str, Any] = {"progress": False}


def draw_persons(
    photographs: Table, out: Path, axes: Mapping[str, Sequence[str]], candidates: int, n: int, seed: int
) -> None:
    """Draw ``n`` photographs as every combination of groups into ``out/drawn``; judge them; choose one of each."""
    model = load(GENERATOR, kind="generator")
    (first, groups), *further = axes.items()
    config = InpaintConfig(
        axis=first,
        groups=tuple(groups),
        also={axis: tuple(some) for axis, some in further},
        per_group=candidates,
        guidance=(model.brings["guidance"],),
        dilation=DILATION,
        steps=model.brings["steps"],
        seed=seed,
    )
    source = some_of(photographs, limit=n)
    drawn = run(plan_inpaint(source, config), out / "drawn", model, **QUIET)
    write_csv(out / "judged.csv", _judged(drawn, source))
    if not further:
        step = Step.of("fidelity", {"axis": first, "detector": DETECTOR}, preset="inpainting")
        models = Models(encoder=ENCODER, reference=photographs)
        filtered(drawn, [step], out / "filter", models=models, axes=[first], draws=99)


def draw_parts(test: Table, out: Path, n: int, seed: int) -> Table:
    """One body part of the first ``n`` test photographs drawn anew."""
    model = load(GENERATOR, kind="generator")
    config = PartsConfig(guidance=model.brings["guidance"], dilation=1.0, steps=model.brings["steps"], seed=seed)
    return run(plan_parts(some_of(test, limit=n), config), out, model, **QUIET)


def _judged(drawn: Table, source: Table) -> pd.DataFrame:
    """What the judge sees in every drawn picture: whether each group is the wanted one, and F1 of the things."""
    wanted = {row["image_id"]: row for row in source.rows(["image_id", "objects", "gender", "skin_tone"])}
    names, pictures = zip(*drawn.images(), strict=True)
    said = load(JUDGE, kind="classifier").classify(list(pictures))
    seen = {axis: said[axis].best for axis in ("gender", "skin_tone")}
    things = [
        {label for label, p in zip(said["object"].labels, row, strict=True) if p >= 0.5}
        for row in said["object"].probabilities
    ]
    rows = []
    labels = {row["image_id"]: row for row in drawn.rows(["image_id", "source_id", "gender", "skin_tone", "scene"])}
    for i, name in enumerate(names):
        row = labels[name]
        shown = {str(thing) for thing in wanted[row["source_id"]]["objects"]} - {str(row["scene"])}
        cells = {axis: seen[axis][i] == row[axis] for axis in seen}
        rows.append(
            {"image_id": name, "source_id": row["source_id"]} | cells | {"objects": object_f1(things[i], shown)}
        )
    return pd.DataFrame(rows)


def right_shares(folder: Path, axes: Sequence[str]) -> dict[str, Any]:
    """The share of drawn pictures, before any filter, in which the judge sees every wanted group of ``axes``; percent.

    The interval is by photograph: pictures of one are not independent.
    """
    frame = pd.read_csv(folder / "judged.csv", dtype={"image_id": str, "source_id": str})
    return _share(frame[list(axes)].astype(bool).all(axis=1), frame["source_id"])


def _share(values: Any, photographs: Any) -> dict[str, Any]:
    numbers = np.asarray(values, dtype=float)
    low, high = share_interval(numbers, clusters=np.asarray(photographs)) or (None, None)
    ends = {name: None if end is None else 100 * end for name, end in (("low", low), ("high", high))}
    return {"measured": 100 * float(numbers.mean()), **ends, "n": len(numbers)}


def choices_table(folder: Path) -> pd.DataFrame:
    """Table 4.4: what each choice of filters gives; the rows are those of the paper, the last draws at random."""
    layer = Table.open(folder / "filter" / "layer").to_pandas()
    frame = layer.merge(pd.read_csv(folder / "judged.csv", dtype={"image_id": str, "source_id": str}), on="image_id")
    frame["group"] = frame["image_id"].str.rsplit("--", n=1).str[1].str.rsplit("-", n=1).str[0]
    lot = np.empty(len(frame))
    lot[draw_order(frame["image_id"].tolist(), 0, "fidelity")] = np.arange(len(frame))
    frame["lot"] = -lot
    rows: list[dict[str, Any]] = []
    for size in (3, 2, 1, 0):
        for parts in combinations(PARTS, size):
            scores = [f"score_{part}" for part in parts] or ["lot"]
            chosen = [
                some.index[int(np.argmin(rank_sum({name: some[name] for name in scores})))]
                for _, some in frame.groupby(["source_id", "group"], sort=False)
            ]
            taken = frame.loc[chosen]
            name = " + ".join(f"s_{'color' if part == 'colour' else part.removesuffix('s')}" for part in parts)
            for what, column in (
                ("judge: object similarity (F1)", "objects"),
                ("judge: skin tone match", "skin_tone"),
                ("judge: gender match", "gender"),
            ):
                rows.append({"filter": name or "No filter", "what": what} | _share(taken[column], taken["source_id"]))
            score = summarise(250 * taken["score_prompt"].clip(lower=0), clusters=taken["source_id"].to_numpy(),
                              notes=("no null: quality is no bias",))  # fmt: skip
            cells = {"measured": score.value, "low": score.ci_low, "high": score.ci_high, "n": len(taken)}
            rows.append({"filter": name or "No filter", "what": "CLIPScore"} | cells)
    return pd.DataFrame(rows)
