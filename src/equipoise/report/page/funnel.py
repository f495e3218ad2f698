"""The filter funnel: what each filter kept and dropped of every group, and whether it treats groups alike.

``funnel.csv`` has one row per step, group and subject, in the order in which the filters ran:

====== ==================================================================================
step   the filter's name
group  the group shown, several axes joined by " & "
subject what the image shows; may be empty
kept   how many images passed
dropped how many did not
====== ==================================================================================

Two further columns may be there, as the filters of Equipoise write them: ``axis`` (a figure is drawn for each; rows
with an empty one are totals and are passed over) and ``unit`` (``image`` rows are drawn, ``set`` rows are not).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from equipoise.errors import InputError
from equipoise.formatting import count, one_line, share
from equipoise.report.findings import rate_tested
from equipoise.report.svg import SERIES_COLOURS, Scale, SvgDrawing

COLUMNS = ("step", "group", "subject", "kept", "dropped")


def read_funnel(path: Path) -> pd.DataFrame:
    """The rows of a funnel file; a damaged one is refused in a sentence."""
    try:
        frame = pd.read_csv(path, keep_default_na=False, dtype={"step": str, "group": str, "subject": str})
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a CSV file ({one_line(error)}); run the filters again") from None
    missing = [name for name in COLUMNS if name not in frame]
    if missing:
        raise InputError(f"{path}: the column {missing[0]!r} is missing; it needs {', '.join(COLUMNS)}")
    for name in ("kept", "dropped"):
        numbers = pd.to_numeric(frame[name], errors="coerce")
        wrong = ~numbers.between(0, 2**53) | (numbers % 1 != 0)
        if wrong.any():
            row = int(np.argmax(wrong.to_numpy()))
            raise InputError(
                f"{path}: row {row + 1} has {name} = {frame[name].iloc[row]}; a count is a whole number, 0 or more"
            )
        frame[name] = numbers.astype(int)
    if frame.empty:
        raise InputError(f"{path}: has no rows; run the filters again")
    if "unit" in frame:
        frame = frame[frame["unit"] == "image"]
    if "axis" in frame:
        frame = frame[frame["axis"] != ""]
        if frame.empty:
            raise InputError(f"{path}: has no row of a group; give the filters a table with an axis")
    else:
        frame = frame.assign(axis="")
    return frame[["axis", *COLUMNS]].reset_index(drop=True)


def own_p_values(results: pd.DataFrame, axis: str) -> dict[str, float]:
    """What a filter run itself found: for each step the p-value of even losses on ``axis``, corrected over the run."""
    rows = results[(results["metric"] == "filter_bias") & (results["axis"] == axis) & results["p_value"].notna()]
    tests = [row for row in rows.to_dict("records") if rate_tested(row) == "filter_drop"]
    return {str(row["variant"]): float(row["p_value"]) for row in tests}


def funnel_table(frame: pd.DataFrame, known: Mapping[str, float] | None = None) -> pd.DataFrame:
    """One row per step: kept, dropped, the groups with the highest and the lowest drop rate, and the chance level.

    ``p_value`` is the step's in ``known`` if given, else that of equal drop rates, by the chi-squared test over groups;
    images of one set are dropped together by some filters, which makes the latter smaller than it should be.
    """
    rows = []
    for step in dict.fromkeys(frame["step"]):
        by_group = frame[frame["step"] == step].groupby("group", sort=True)[["kept", "dropped"]].sum()
        seen = by_group.sum(axis=1)
        by_group, seen = by_group[seen > 0], seen[seen > 0]
        rates = by_group["dropped"] / seen
        rows.append(
            {
                "step": step,
                "kept": int(by_group["kept"].sum()),
                "dropped": int(by_group["dropped"].sum()),
                "most_dropped": rates.idxmax() if len(rates) else "",
                "highest_rate": float(rates.max()) if len(rates) else 0.0,
                "least_dropped": rates.idxmin() if len(rates) else "",
                "lowest_rate": float(rates.min()) if len(rates) else 0.0,
                "p_value": known[step] if known and step in known else _equal_rates(by_group.to_numpy()),
                "n": int(seen.sum()),
            }
        )
    return pd.DataFrame(rows)


def _equal_rates(counts: np.ndarray) -> float | None:
    """The p-value of equal drop rates; ``None`` where there is one group, or nothing was dropped, or everything."""
    from scipy.stats import chi2_contingency

    if len(counts) < 2 or (counts.sum(axis=0) == 0).any():
        return None
    return float(chi2_contingency(counts, correction=False).pvalue)


def funnel_figure(frame: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """One line per group: the share of its first images that is left after each filter."""
    steps = list(dict.fromkeys(frame["step"]))
    left = frame.groupby(["group", "step"], sort=False)[["kept", "dropped"]].sum().reset_index()
    first = left[left["step"] == steps[0]].set_index("group")
    start = first["kept"] + first["dropped"]
    left["share_left"] = left["kept"] / left["group"].map(start)
    groups = sorted(start[start > 0].index)
    drawing = SvgDrawing("funnel", 720, 330)
    across, up = Scale(0, len(steps), 60, 500), Scale(0, 1, 270, 20)
    for value in (0, 0.25, 0.5, 0.75, 1):
        drawing.line(60, up(value), 500, up(value))
        drawing.text(52, up(value) + 4, share(value), "soft num", "end")
    for number, step in enumerate(["before", *steps]):
        drawing.line(across(number), up(0), across(number), up(1))
        drawing.text(across(number), 288 + 15 * (number % 2), str(step), "soft", "middle")
    ends = []
    for number, group in enumerate(groups):
        mine = left[left["group"] == group].set_index("step")["share_left"].reindex(steps).ffill().fillna(0.0)
        points = [(across(0), up(1.0)), *((across(i + 1), up(float(v))) for i, v in enumerate(mine))]
        drawing.path(points, f"w s{number % SERIES_COLOURS}")
        for x, y in points:
            drawing.dot(x, y, 3, f"c{number % SERIES_COLOURS}")
        ends.append(
            (points[-1][1], f"{group} {share(mine.iloc[-1])} of {count(start[group])}", number % SERIES_COLOURS)
        )
    before = -1e9
    for y, words, colour in sorted(ends):
        before = max(y, before + 16)
        drawing.rect(510, before - 5, 9, 9, f"c{colour}")
        drawing.text(525, before + 4, words, "num")
    return drawing.svg(f"Share of the images left after each of {len(steps)} filters, by group"), frame
