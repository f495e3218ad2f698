"""Heat maps: one axis against another, and subjects against groups; every cell says its number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from equipoise.report.findings import axis_name
from equipoise.report.numbers import p_text, share, signed
from equipoise.report.svg import Drawing

__all__ = ["joint_figure", "shade", "subjects_figure"]

_BLUE, _WHITE, _ORANGE = (11, 92, 158), (246, 244, 238), (190, 82, 10)
"""Fewer than chance, as many, more: told apart by people who see colours differently, and cells say their number."""


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
    drawing = Drawing("joint", columns * panel_w, math.ceil(len(panels) / columns) * panel_h)
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
            told = f"{row['group']}: {share(row['value'], 1)}, {p_text(row['p_value'])}"
            drawing.rect(x, y, cell_w, cell_h, "cell", told, fill=colour)
            star = " *" if row["p_value"] < 0.05 else ""
            drawing.text(x + cell_w / 2, y + 22, share(row["value"], 1) + star, f"num bold {words}", "middle")
            drawing.text(
                x + cell_w / 2, y + 39, f"{signed(100 * row['excess'], 1)} pts", f"num small {words}", "middle"
            )
    axis = axis_name(rows["axis"].iloc[0])
    keep = [
        "label",
        "axis",
        "group",
        "k",
        "value",
        "null_mean",
        "null_sd",
        "excess",
        "ci_low",
        "ci_high",
        "p_value",
        "n",
    ]
    return drawing.svg(f"Shares of the top pictures by {axis}, against chance"), rows[keep]


def subjects_figure(shares: pd.DataFrame, most: int = 40) -> tuple[str, pd.DataFrame]:
    """Subjects down, groups across: the share of each group in the subject's top K, coloured by its distance from fair.

    ``shares``: ``subject, group, share, expected, skewness`` (how skewed the subject is, for the order).
    """
    order = shares.drop_duplicates("subject").sort_values(["skewness", "subject"], ascending=[False, True])
    names = order["subject"].tolist()
    shown = names if len(names) <= most else [*names[: most // 2], *names[-(most - most // 2) :]]
    groups = list(dict.fromkeys(shares["group"]))
    first = max(90.0, 7.2 * max(len(str(s)) for s in shown) + 14)
    cell_w, cell_h, top = max(58.0, 7.0 * max(len(str(g)) for g in groups) + 12), 21.0, 26.0
    drawing = Drawing("subject_groups", first + cell_w * len(groups) + 4, top + cell_h * len(shown) + 6)
    for i, group in enumerate(groups):
        drawing.text(first + (i + 0.5) * cell_w, 16, str(group), "soft", "middle")
    place = {subject: j for j, subject in enumerate(shown)}
    for subject, j in place.items():
        drawing.text(first - 8, top + (j + 0.5) * cell_h + 4, str(subject), "t", "end")
    for row in shares[shares["subject"].isin(place)].to_dict("records"):
        i, j = groups.index(row["group"]), place[row["subject"]]
        colour, words = shade((row["share"] - row["expected"]) / max(row["expected"], 1 - row["expected"], 1e-9))
        told = (
            f"{row['subject']}, {row['group']}: {share(row['share'])} of the top, {share(row['expected'])} of the pool"
        )
        x, y = first + i * cell_w, top + j * cell_h
        drawing.rect(x, y, cell_w, cell_h, "cell", told, fill=colour)
        drawing.text(x + cell_w / 2, y + 15, share(row["share"]), f"num small {words}", "middle")
    return drawing.svg(f"Share of each group among the top pictures of {len(shown)} subjects"), shares
