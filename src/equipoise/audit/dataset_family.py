"""One correction for everything that is asked about a dataset as a whole, and how large a lean must be to matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from equipoise.measure.corrections import holm

__all__ = ["MARGIN", "Family", "Judged", "margin_of"]

LEVEL = 0.05
MARGIN = 0.1
"""A group's share matters where it differs from even by more than this part of it."""


@dataclass(frozen=True)
class Judged:
    """One number about the whole dataset: its p-value corrected for all of them, and whether its size matters."""

    p_adjusted: float
    matters: bool
    margin: float

    @property
    def lopsided(self) -> bool:
        """Beyond chance after the correction, and beyond the margin."""
        return self.p_adjusted < LEVEL and self.matters


def margin_of(metric: str, n_groups: int) -> float:
    """How far a number must be from chance to matter: a tenth of the even share of a group.

    For the distance of items from the dataset's shares, what it is where every group is a tenth away.

    >>> margin_of("group_share", 2), margin_of("word_distance", 2)
    (0.05, 0.05)
    """
    return MARGIN / n_groups if metric == "group_share" else MARGIN / 2


@dataclass
class Family:
    """Everything that is asked about the dataset as a whole: are the shares even, and does content lean?

    Of each axis (and of their intersection) the smallest p-value of its shares that holds for all its groups, and of
    each kind of content its distance; Holm over all of them.
    """

    shares: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """By axis and group."""

    def judge(self, rows: list[dict[str, Any]]) -> dict[tuple[str, str, str | None], Judged]:
        """What to think of each row, by metric, axis and group; the notes of the rows say it too.

        >>> row = {"metric": "group_share", "axis": "sex", "group": "f", "p_value": 0.01, "excess": 0.2, "n_groups": 2}
        >>> found = Family({"sex": {"f": 0.01, "m": 0.01}}).judge([row | {"notes": ""}])
        >>> found["group_share", "sex", "f"].lopsided
        True
        """
        contents = [row for row in rows if str(row["metric"]).endswith("_distance") and row["p_value"] is not None]
        axes = list(self.shares)
        place = {id(row): len(axes) + number for number, row in enumerate(contents)}
        asked = [min(self.shares[axis].values()) for axis in axes] + [float(row["p_value"]) for row in contents]
        found: dict[tuple[str, str, str | None], Judged] = {}
        for row in rows:
            metric, axis, group = str(row["metric"]), str(row["axis"]), row["group"]
            if metric == "group_share":
                at, p = axes.index(axis), self.shares[axis][str(group)]
            elif metric == "group_evenness":
                at, p = axes.index(axis), max(float(row["p_value"]), asked[axes.index(axis)])
            elif id(row) in place:
                at = place[id(row)]
                p = asked[at]
            else:
                continue
            adjusted = float(holm([*asked[:at], p, *asked[at + 1 :]])[at])
            margin = margin_of(metric, int(row["n_groups"]))
            size = abs(float(row["excess"])) if metric == "group_share" else float(row["excess"])
            judged = Judged(adjusted, metric != "group_evenness" and size > margin, margin)
            told = f"Holm p {adjusted:.3g} over {len(asked)} questions about the dataset"
            if metric != "group_evenness":
                told += f"; {'beyond' if judged.matters else 'within'} the margin of {margin:.3g}"
            row["notes"] = "; ".join(part for part in (row["notes"], told) if part)
            found[metric, axis, group] = judged
        return found
