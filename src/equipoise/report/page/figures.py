"""The figures of an audit: excess over chance by axis, subjects on a strip, and shares of the top K.

Heat maps: one axis against another, and subjects against groups; every cell says its number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from equipoise.formatting import cut_in_middle, excess_interval, p_text, share, signed
from equipoise.report.findings import LEVEL, axis_name, corrected_column, metric_name
from equipoise.report.svg import SERIES_COLOURS, Scale, SvgDrawing, span

_BLUE, _WHITE, _ORANGE = (11, 92, 158), (246, 244, 238), (190, 82, 10)
"""Fewer than chance, as many, more: told apart by people who see colours differently, and cells say their number."""


_NUMBERS = ["value", "null_mean", "null_sd", "excess", "ci_low", "ci_high", "p_value", "n"]


def shade(strength: float) -> tuple[str, str]:
    """The colour of a cell from -1 (far fewer than chance) to 1 (far more), and the class of words on it.

    >>> shade(0), shade(1)
    (('#f6f4ee', 'dark'), ('#be520a', 'light'))
    """
    strength = max(-1.0, min(1.0, strength))
    end = _ORANGE if strength > 0 else _BLUE
    mixed = [round(w + (e - w) * abs(strength)) for w, e in zip(_WHITE, end, strict=True)]
    colour = "#" + "".join(f"{v:02x}" for v in mixed)
    return colour, "dark" if _luminance(mixed) > 0.179 else "light"


def _luminance(rgb: Sequence[float]) -> float:
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def joint_figure(rows: pd.DataFrame, labels: Sequence[str]) -> tuple[str, pd.DataFrame]:
    """Groups of one axis across, of another down: each cell the share of the top K, and how far from chance.

    ``rows``: ``representation`` rows of an intersection of two axes, with ``label``.
    """
    parts = rows["group"].str.split(" & ", n=1, expand=True)
    frame = rows.assign(down=parts[0], across=parts[1])
    downs, acrosses = sorted(frame["down"].unique()), sorted(frame["across"].unique())
    panels = [label for label in labels if (frame["label"] == label).any()]
    first = max(60.0, 7.5 * max(len(d) for d in downs) + 16)
    cell_w, cell_h, top = max(92.0, 8.0 * max(len(a) for a in acrosses) + 14), 50.0, 52.0
    panel_w = first + cell_w * len(acrosses) + 24
    columns = max(1, min(len(panels), int(740 // panel_w)))
    panel_h = top + cell_h * len(downs) + 20
    drawing = SvgDrawing("joint", columns * panel_w, math.ceil(len(panels) / columns) * panel_h)
    most = float(frame["excess"].abs().max()) or 1.0
    for number, label in enumerate(panels):
        x0, y0 = (number % columns) * panel_w, (number // columns) * panel_h
        drawing.text(x0, y0 + 14, str(label), "bold")
        for i, across in enumerate(acrosses):
            drawing.text(x0 + first + (i + 0.5) * cell_w, y0 + top - 8, across, "soft", "middle")
        for j, down in enumerate(downs):
            drawing.text(x0 + first - 8, y0 + top + (j + 0.5) * cell_h + 4, down, "soft", "end")
        for row in frame[frame["label"] == label].to_dict("records"):
            i, j = acrosses.index(row["across"]), downs.index(row["down"])
            x, y = x0 + first + i * cell_w, y0 + top + j * cell_h
            colour, words = shade(row["excess"] / most)
            title = f"{row['group']}: {share(row['value'], 1)}, {p_text(row['p_value'])}"
            drawing.rect(x, y, cell_w, cell_h, "cell", title, fill=colour)
            star = " *" if row["p_value"] < 0.05 else ""
            drawing.text(x + cell_w / 2, y + 22, share(row["value"], 1) + star, f"num bold {words}", "middle")
            drawing.text(
                x + cell_w / 2, y + 39, f"{signed(100 * row['excess'], 1)} pts", f"num small {words}", "middle"
            )
    axis = axis_name(rows["axis"].iloc[0])
    keep = ["label", "axis", "group", "k", *_NUMBERS]
    return drawing.svg(f"Shares of the top pictures by {axis}, against chance"), rows[keep]


def subjects_figure(shares: pd.DataFrame, most: int = 40, unit: str = "subject") -> tuple[str, pd.DataFrame]:
    """Subjects down, groups across: the share of each group in the subject's top K, coloured by its distance from fair.

    ``shares``: ``subject, group, share, expected, skewness`` (how skewed the subject is, for the order) and ``p``, its
    p-value: a star marks those below 0.05. Of more than ``most`` subjects the ends are shown, and a line says how many
    stand between them.
    """
    order = shares.drop_duplicates("subject").sort_values(["skewness", "subject"], ascending=[False, True])
    names, sure = order["subject"].tolist(), set(order.loc[order["p"] < LEVEL, "subject"])
    cut = most // 2 if len(names) > most else len(names)
    shown = [*names[:cut], *(names[-(most - cut) :] if len(names) > most else [])]
    between = len(names) - len(shown)
    groups = list(dict.fromkeys(shares["group"]))
    first = max(90.0, 7.2 * max(len(str(s)) for s in shown) + 26)
    cell_w, cell_h, top = max(58.0, 7.0 * max(len(str(g)) for g in groups) + 12), 21.0, 26.0
    lines = len(shown) + bool(between)
    told = f"… {between:,} {unit}s between them …"
    width = max(first + cell_w * len(groups) + 4, 7.0 * len(told) if between else 0.0)
    drawing = SvgDrawing("subject_groups", width, top + cell_h * lines + 6)
    for i, group in enumerate(groups):
        drawing.text(first + (i + 0.5) * cell_w, 16, str(group), "soft", "middle")
    place = {subject: j + (j >= cut) for j, subject in enumerate(shown)}
    for subject, j in place.items():
        mark = " *" if subject in sure else ""
        drawing.text(first - 8, top + (j + 0.5) * cell_h + 4, f"{subject}{mark}", "t bold" if mark else "t", "end")
    if between:
        drawing.text(width / 2, top + (cut + 0.5) * cell_h + 4, told, "soft", "middle")
    for row in shares[shares["subject"].isin(place)].to_dict("records"):
        i, j = groups.index(row["group"]), place[row["subject"]]
        colour, words = shade((row["share"] - row["expected"]) / max(row["expected"], 1 - row["expected"], 1e-9))
        label = (
            f"{row['subject']}, {row['group']}: {share(row['share'])} of the top, {share(row['expected'])} of the pool"
        )
        x, y = first + i * cell_w, top + j * cell_h
        drawing.rect(x, y, cell_w, cell_h, "cell", label, fill=colour)
        drawing.text(x + cell_w / 2, y + 15, share(row["share"]), f"num small {words}", "middle")
    return drawing.svg(f"Share of each group among the top pictures of {len(shown)} {unit}s"), shares


WIDTH = 720.0
MODELS_DRAWN = 3
"""So many models have a panel in the figure of shares."""
_SURE = 1.96


def headline_figure(rows: pd.DataFrame, labels: Sequence[str]) -> tuple[str, pd.DataFrame]:
    """Excess over chance for each axis and model, with intervals, and grey where chance alone would lie.

    ``rows``: rows of a results table with the column ``label``.
    """
    several = rows["label"].nunique() > 1
    head = 8
    places = _places(rows, several, head)
    height = places[-1][1] + 24 + 44
    drawing = SvgDrawing("headline", WIDTH, height)
    lows = rows["ci_low"].fillna(rows["value"]) - rows["null_mean"]
    highs = rows["ci_high"].fillna(rows["value"]) - rows["null_mean"]
    band = _SURE * rows["null_sd"].fillna(0.0)
    scale = Scale(*span([*lows, *highs, *band, *-band]), _left_of([title for _, _, title in places]), 490)
    drawing.x_axis(scale, head, height - 44, f"{_metric_told(rows)}, excess over chance")
    for row, y, title in places:
        _headline_row(drawing, row, y, title, several, scale, list(labels).index(row["label"]))
    drawing.line(scale(0), head, scale(0), height - 44, "axis")
    keep = ["label", "axis", "pool", "group", "metric", "k", *_NUMBERS, "n_groups"]
    worst = rows.sort_values("excess", kind="stable").iloc[-1]
    said = f"Excess over chance by axis; the largest is {signed(worst['excess'])} on {axis_name(worst['axis'])}"
    return drawing.svg(said), rows[keep].assign(excess_low=lows, excess_high=highs)


def _left_of(titles: Sequence[str]) -> float:
    """Where a plot begins beside these titles: further to the right where they are long, for words grow on a phone.

    >>> _left_of(["gender", "age"]), _left_of(["gender × skin tone × age"])
    (190.0, 252.0)
    """
    return min(300.0, max(190.0, 10.5 * max(map(len, titles), default=0)))


def _metric_told(rows: pd.DataFrame) -> str:
    ks = set(rows["k"].dropna())
    return metric_name(rows["metric"].iloc[0], next(iter(ks)) if len(ks) == 1 else None)


def _places(rows: pd.DataFrame, several: bool, top: float) -> list[tuple[pd.Series, float, str]]:
    """Each row with its height on the figure, and the title that stands above the first of its axis."""
    pools = rows["pool"].nunique(dropna=False) > 1
    titles = []
    for axis, group, pool in zip(rows["axis"], rows["group"], rows["pool"], strict=True):
        of_group = f": {group}" if isinstance(group, str) else ""
        titles.append(f"{axis_name(axis)}{of_group}{f' ({pool} pool)' if pools else ''}")
    places: list[tuple[pd.Series, float, str]] = []
    y, before = top, ""
    for title in dict.fromkeys(titles):
        for (_, row), mine in zip(rows.iterrows(), titles, strict=True):
            if mine != title:
                continue
            new = title != before
            y += (54 if several and new else 24) if places else (44 if several else 22)
            places.append((row, y, title if new else ""))
            before = title
    return places


def _headline_row(
    drawing: SvgDrawing, row: pd.Series, y: float, title: str, several: bool, scale: Scale, number: int
) -> None:
    colour = number % SERIES_COLOURS
    if title:
        drawing.text(0, y - (20 if several else -4), title, "bold")
    if several:
        drawing.text(12, y + 4, cut_in_middle(str(row["label"]), 25), "soft")
    if pd.notna(row["null_sd"]):
        half = _SURE * row["null_sd"]
        drawing.rect(scale(-half), y - 8, scale(half) - scale(-half), 16, "band")
    label = f"{row['label']}, {axis_name(row['axis'])}: {signed(row['excess'])}, {p_text(row['p_value'])}"
    if pd.notna(row["ci_low"]) and pd.notna(row["ci_high"]):
        ends = scale(row["ci_low"] - row["null_mean"]), scale(row["ci_high"] - row["null_mean"])
        drawing.line(ends[0], y, ends[1], y, f"w s{colour}")
        for x in ends:
            drawing.line(x, y - 4, x, y + 4, f"w s{colour}")
    sure = pd.notna(row["p_value"]) and row["p_value"] < LEVEL
    drawing.dot(scale(row["excess"]), y, 5.5, f"c{colour}" if sure else f"hollow s{colour}", label)
    drawing.text(548, y + 4, signed(row["excess"]), "num bold", "end")
    drawing.text(558, y + 4, excess_interval(row), "soft num wide")
    drawing.text(WIDTH, y + 4, p_text(row["p_value"]).replace("no p-value", ""), "soft num", "end")


def strip_figure(rows: pd.DataFrame, labels: Sequence[str], unit: str = "subject") -> tuple[str, pd.DataFrame]:
    """One strip per axis and model, one dot per subject: its excess over chance; filled where p < 0.05.

    Of prompts, p is the one corrected over the prompts.
    """
    shown = rows[rows["excess"].notna() & np.isfinite(rows["excess"].astype(float))]
    groups = [(str(a), str(b), some) for (a, b), some in shown.groupby(["axis", "label"], sort=False)]
    values = shown["excess"].astype(float)
    room = 0.06 * (values.max() - values.min()) or 0.5
    left = _left_of([axis_name(axis) for axis, _, _ in groups])
    scale = Scale(min(values.min() - room, 0), max(values.max() + room, 0), left, 630)
    stacks = [_stacked(some, scale) for _, _, some in groups]
    heights = [max(42.0, 9.0 * max(place for _, _, place in stack) + 40) for stack in stacks]
    drawing = SvgDrawing("subjects", WIDTH, sum(heights) + 56)
    drawing.x_axis(scale, 6, sum(heights) + 8, f"{_metric_told(shown)} of each {unit}, excess over its own chance")
    y, before = 6.0, ""
    for (axis, label, _), stack, height in zip(groups, stacks, heights, strict=True):
        y += height
        if axis != before:
            drawing.text(0, y - 16, axis_name(axis), "bold")
            before = axis
        if len(labels) > 1:
            drawing.text(12, y - 1, cut_in_middle(str(label), 25), "soft")
        _strip(drawing, stack, scale, y - 10, list(labels).index(label) % SERIES_COLOURS)
    drawing.line(scale(0), 6, scale(0), sum(heights) + 8, "axis")
    keep = ["label", "axis", "subject", "metric", "k", *_NUMBERS, "n_groups", *corrected_column(shown)]
    said = f"{shown['subject'].nunique()} {unit}s by their excess over chance, one strip per axis"
    return drawing.svg(said), shown[keep]


def _stacked(some: pd.DataFrame, scale: Scale) -> list[tuple[pd.Series, float, int]]:
    """Dots that would lie on each other are piled up: each row with its x and its place in the pile."""
    piles: dict[int, int] = {}
    placed = []
    for _, row in some.sort_values(["excess", "subject"]).iterrows():
        x = scale(float(row["excess"]))
        pile = round(x / 9)
        piles[pile] = piles.get(pile, -1) + 1
        placed.append((row, pile * 9.0, piles[pile]))
    return placed


def _strip(drawing: SvgDrawing, stack: list[tuple[pd.Series, float, int]], scale: Scale, y: float, colour: int) -> None:
    drawing.line(scale.start, y + 6, scale.end, y + 6, "rule")
    for row, x, place in stack:
        sure = pd.notna(row["p_shown"]) and row["p_shown"] < LEVEL
        label = f"{row['subject']}: {signed(row['excess'])}, {p_text(row['p_shown'])}"
        drawing.dot(x, y - 9 * place, 4, f"c{colour}" if sure else f"hollow s{colour}", label, str(row["subject"]))
    farthest = max(x for _, x, _ in stack)
    named = next(row for row, x, place in stack if x == farthest and place == 0)
    drawing.text(farthest + 9, y + 4, cut_in_middle(str(named["subject"]), 16), "small halo")


def proportions_figure(rows: pd.DataFrame, labels: Sequence[str]) -> tuple[str, pd.DataFrame]:
    """Shares of the top K by group: one bar per group, one panel per model, the share that chance gives as a mark."""
    panels = [label for label in labels if (rows["label"] == label).any()]
    columns = min(len(panels), MODELS_DRAWN)
    panels = panels[:columns]
    first = max(110.0, 7.0 * max(len(str(g)) for g in rows["group"]) + 14)
    width = (WIDTH - first - 8) / columns
    axes = list(dict.fromkeys(rows["axis"]))
    n_groups = {axis: rows.loc[rows["axis"] == axis, "group"].nunique() for axis in axes}
    height = 24 + sum(34 + 22 * n for n in n_groups.values()) + 8
    drawing = SvgDrawing("proportions", WIDTH, height)
    for number, label in enumerate(panels):
        drawing.text(first + number * width, 14, cut_in_middle(label, int(width / 7.5)), "bold")
    y = 24.0
    for axis in axes:
        mine = rows[rows["axis"] == axis]
        k = mine["k"].dropna()
        drawing.text(0, y + 22, axis_name(axis) + (f", top {int(k.iloc[0])}" if len(k) else ""), "bold")
        y += 34
        shown = np.array([*mine["ci_high"].fillna(mine["value"]), *mine["null_mean"]], dtype=float)
        most = shown[np.isfinite(shown)].max(initial=0.0)
        for group in dict.fromkeys(mine["group"]):
            drawing.text(8, y + 13, str(group))
            for number, label in enumerate(panels):
                bar = mine[(mine["group"] == group) & (mine["label"] == label)]
                start = first + number * width
                scale = Scale(0, most or 1, start, start + width - 62)
                if len(bar):
                    _bar(drawing, bar.iloc[0], scale, y, list(labels).index(label) % SERIES_COLOURS)
            y += 22
    keep = ["label", "axis", "group", "k", *_NUMBERS, "n_groups"]
    said = f"Shares of the retrieved pictures by group on {axis_name(axes[0])} and {len(axes) - 1} more"
    return drawing.svg(said), rows[keep]


def _bar(drawing: SvgDrawing, row: pd.Series, scale: Scale, y: float, colour: int) -> None:
    label = f"{row['group']}: {share(row['value'])}, by chance {share(row['null_mean'])}, {p_text(row['p_value'])}"
    drawing.rect(scale.start, y + 2, scale(row["value"]) - scale.start, 14, f"c{colour} bar", label)
    if pd.notna(row["ci_low"]) and pd.notna(row["ci_high"]):
        drawing.line(scale(row["ci_low"]), y + 9, scale(row["ci_high"]), y + 9, "whisker")
    if pd.notna(row["null_mean"]):
        drawing.line(scale(row["null_mean"]), y - 1, scale(row["null_mean"]), y + 19, "chance")
    sure = pd.notna(row["p_value"]) and row["p_value"] < LEVEL
    end = scale(row["ci_high"]) if pd.notna(row["ci_high"]) else scale(row["value"])
    end = max(end, scale(row["null_mean"]) if pd.notna(row["null_mean"]) else end)
    drawing.text(end + 7, y + 14, share(row["value"]) + (" *" if sure else ""), "num" + (" bold" if sure else ""))
