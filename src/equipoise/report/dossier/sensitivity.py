"""How far the numbers move when the pictures change in something that is no group: the same model, perturbed pictures.

Masking a tenth of the objects or weakly blurring the background moved published bias scores by up to 43% for CLIPs and
175% for generative models (Hirota et al., "Bias in Gender Bias Benchmarks: How Spurious Features Distort Evaluation",
ICCV 2025, arXiv 2509.07596). So a bias score is told beside its change under such a perturbation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from equipoise.errors import InputError
from equipoise.report.dossier.bounds import size_of
from equipoise.report.dossier.policy import Policy
from equipoise.report.findings import axis_name, metric_name
from equipoise.report.sources import Series
from equipoise.report.verdict.change import Change, changes
from equipoise.report.verdict.judging import spreads_of


@dataclass(frozen=True)
class Shift:
    """One number on the pictures as they are and on the perturbed ones; sizes are distances from chance."""

    model: str
    run: str
    perturbed: str
    metric: str
    axis: str
    group: str
    about: str
    before: float
    before_low: float | None
    before_high: float | None
    after: float
    after_low: float | None
    after_high: float | None
    change: float | None
    """Perturbed - original over the subjects that both have; ``None`` where subjects cannot be paired."""
    low: float | None
    high: float | None
    n: int | None

    @property
    def share(self) -> float | None:
        """The change of the size, as a share of the size before."""
        return (self.after - self.before) / abs(self.before) if abs(self.before) > 1e-9 else None

    def plain(self) -> dict[str, Any]:
        """The same as plain data."""
        return {**asdict(self), "share": self.share}


def shifts(series: Sequence[Series], perturbed: Sequence[Series], policy: Policy) -> list[Shift]:
    """What each number that a bound speaks of becomes on perturbed pictures."""
    moved = []
    for other in perturbed:
        original = _original(series, other)
        for metric in dict.fromkeys(bound.metric for bound in policy.bounds):
            axes = {bound.axis for bound in policy.bounds if bound.metric == metric}
            for change in changes(original, other, metric, spreads=spreads_of(original)):
                if "" in axes or change.axis in axes:
                    moved.append(_shift(original, other, metric, change))
    return moved


def _original(series: Sequence[Series], other: Series) -> Series:
    """The audit that a perturbed one is to be held beside: the same model and suites, another table."""
    suites = set(other.results["suite"].dropna())
    same = [each for each in series if each.model == other.model and suites & set(each.results["suite"].dropna())]
    name = other.source.path.name
    if not same:
        raise InputError(
            f"--perturbed {name}: is an audit of {other.model or 'no model'} with {', '.join(sorted(suites))}, and no "
            "run that was given is; give the audit of the same model and suite as a run"
        )
    if other.source.fingerprint is not None and same[0].source.fingerprint == other.source.fingerprint:
        raise InputError(
            f"--perturbed {name}: is an audit of the same pictures as {same[0].source.path.name}; audit a perturbed "
            "copy, as 'equipoise generate perturb' makes"
        )
    return same[0]


def _shift(original: Series, other: Series, metric: str, change: Change) -> Shift:
    was, left = (size_of(row, change.spreads) for row in (change.before, change.after))
    difference = change.difference
    k = change.before["k"]
    return Shift(
        original.label,
        original.source.path.name,
        other.source.path.name,
        metric,
        change.axis,
        change.before["group"] if isinstance(change.before["group"], str) else "",
        f"{metric_name(metric, k)} on {axis_name(change.axis)}",
        was.size,
        was.low,
        was.high,
        left.size,
        left.low,
        left.high,
        None if difference is None else -difference.value,
        None if difference is None or difference.ci_high is None else -difference.ci_high,
        None if difference is None or difference.ci_low is None else -difference.ci_low,
        None if difference is None else difference.n,
    )
