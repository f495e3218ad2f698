"""One number with everything a reader needs to judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isnan
from typing import Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.notes import codes_of, dropped_of, note

KEY_COLUMNS = ("metric", "variant", "suite", "pool", "model", "subject", "axis", "group", "k")
"""The columns of a results row that say what was measured; the caller knows them."""

FACT_COLUMNS = ("dropped", "published", "side", "codes")
"""What programs read beside the numbers: counts left out by reason (JSON), the value that a paper gives, ``above`` or
``below`` where a size has lost its sign, and the codes of the notes with their facts (JSON)."""

RESULT_COLUMNS = (
    *KEY_COLUMNS,
    "value",
    "null_mean",
    "null_sd",
    "excess",
    "ci_low",
    "ci_high",
    "p_value",
    "n",
    "n_groups",
    "notes",
    *FACT_COLUMNS,
)
"""The columns of a results table, in order."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, its chance level, its p-value, its n, and what was left out.

    ``None`` means "does not apply"; ``notes`` then say why. ``null_low`` and ``null_high`` are the 2.5% and 97.5%
    quantiles of the null: what chance alone gives. They take the place of a bootstrap interval where one
    subject's value has few distinct levels.

    >>> e = Estimate(1.2, 1.05, 1.35, null_mean=1.0, null_sd=0.08, p_value=0.004, n=24, n_groups=12)
    >>> e
    1.2 [1.05, 1.35] chance 1 ± 0.08, excess +0.2, p = 0.004, n = 24, 12 groups
    >>> round(e.excess, 6)
    0.2
    >>> e.row(metric="max_skew", k=12)["metric"], list(e.row()) == list(RESULT_COLUMNS)
    ('max_skew', True)
    """

    value: float
    ci_low: float | None = None
    ci_high: float | None = None
    null_mean: float | None = None
    null_sd: float | None = None
    p_value: float | None = None
    n: int = 0
    n_groups: int | None = None
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Why something was left out, and how many."""
    notes: tuple[str, ...] = ()
    level: float = 0.95
    p_randomised: float | None = None
    """The p-value with ties broken at random: exactly uniform under the null, also for a discrete statistic."""
    null_low: float | None = None
    null_high: float | None = None

    def __post_init__(self) -> None:
        for name in ("value", "ci_low", "ci_high", "null_mean", "null_sd", "p_value"):
            number = getattr(self, name)
            if number is not None and isnan(number):
                raise InputError(f"an estimate cannot have {name} = NaN; pass None and say why in notes")

    @property
    def excess(self) -> float | None:
        """The value minus its chance level; ``None`` where there is no null."""
        return None if self.null_mean is None else self.value - self.null_mean

    def with_notes(self, *notes: str) -> Estimate:
        """The same estimate with more notes."""
        return replace(self, notes=(*self.notes, *(note for note in notes if note)))

    def row(self, **keys: Any) -> dict[str, Any]:
        """One row of a results table; ``keys`` fill the columns that say what was measured.

        Beside those they may be ``published``, ``side``, and ``codes``: facts by code that no note tells.

        >>> Estimate(0.5, n=8, dropped={"empty pool": 2}, notes=("no null: recall is not a bias",)).row()["notes"]
        'no null: recall is not a bias; dropped 2 (empty pool)'
        """
        known = (*KEY_COLUMNS, "published", "side", "codes")
        for name in keys:
            if name not in known:
                raise UnknownNameError("key column of a results row", name, known)
        row: dict[str, Any] = dict.fromkeys(RESULT_COLUMNS)
        row.update(keys)
        for name in ("value", "null_mean", "null_sd", "excess", "ci_low", "ci_high", "p_value", "n", "n_groups"):
            row[name] = getattr(self, name)
        notes = self._all_notes()
        row["notes"] = "; ".join(notes)
        row["dropped"] = dropped_of(self.dropped)
        row["codes"] = codes_of(notes, keys.get("codes"))
        return row

    def _all_notes(self) -> list[str]:
        dropped = [f"dropped {count} ({reason})" for reason, count in self.dropped.items() if count]
        chance: list[str] = []
        if self.null_low is not None and self.null_high is not None:
            chance = [note("chance_range", low=self.null_low, high=self.null_high)]
        return [*self.notes, *dropped, *chance]

    def __repr__(self) -> str:
        text = f"{self.value:.4g}"
        if self.ci_low is not None and self.ci_high is not None:
            text += f" [{self.ci_low:.4g}, {self.ci_high:.4g}]"
        parts = []
        if self.null_mean is not None:
            spread = "" if self.null_sd is None else f" ± {self.null_sd:.2g}"
            parts.append(f"chance {self.null_mean:.4g}{spread}, excess {self.excess:+.4g}")
        if self.p_value is not None:
            parts.append(f"p = {self.p_value:.2g}")
        parts.append(f"n = {self.n}")
        if self.n_groups is not None:
            parts.append(f"{self.n_groups} groups")
        return " ".join([text, ", ".join(parts)]) + "".join(f"; {note}" for note in self._all_notes())


def within_range(estimate: Estimate, low: float, high: float) -> Estimate:
    """The estimate with its interval cut to what is possible: a t over few units reaches beyond.

    >>> within_range(Estimate(0.9, 0.7, 1.1, n=3), 0.0, 1.0)
    0.9 [0.7, 1] n = 3
    """
    if estimate.ci_low is None or estimate.ci_high is None:
        return estimate
    return replace(estimate, ci_low=max(low, estimate.ci_low), ci_high=min(high, estimate.ci_high))
