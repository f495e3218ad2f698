"""Filters: which generated images and sets may stay, and why.

A *filter* scores images or whole counterfactual sets into ``score_*`` columns and says which go; :func:`run` puts a
table through several, one after the other, resumable, and writes layers beside the images. Every run comes with a
report that counts what each step dropped by group and by subject, and tests whether the step itself is biased.
"""

from typing import TYPE_CHECKING

from equipoise.filters.protocol import FILTERS
from equipoise.first_use import on_first_use

if TYPE_CHECKING:
    from equipoise.filters.bias import BiasTest, bias_test
    from equipoise.filters.protocol import Filter, FilterVerdict
    from equipoise.filters.remaining import Models, RemainingImages
    from equipoise.filters.rules.fidelity import rank_sum
    from equipoise.filters.rules.knn import nearest
    from equipoise.filters.running import FilterRun, run
    from equipoise.filters.steps import Step, planned, read_steps, steps_from_toml
    from equipoise.filters.thresholds import learn_thresholds, learned_from_people, recognised_counts

__all__ = [
    "FILTERS",
    "BiasTest",
    "Filter",
    "FilterRun",
    "FilterVerdict",
    "Models",
    "RemainingImages",
    "Step",
    "bias_test",
    "learn_thresholds",
    "learned_from_people",
    "nearest",
    "planned",
    "rank_sum",
    "read_steps",
    "recognised_counts",
    "run",
    "steps_from_toml",
]

_BY_HOME = {
    "bias": ("BiasTest", "bias_test"),
    "protocol": ("Filter", "FilterVerdict"),
    "remaining": ("Models", "RemainingImages"),
    "rules.fidelity": ("rank_sum",),
    "rules.knn": ("nearest",),
    "running": ("FilterRun", "run"),
    "steps": ("Step", "planned", "read_steps", "steps_from_toml"),
    "thresholds": ("learn_thresholds", "learned_from_people", "recognised_counts"),
}


# Imported on first use: pyarrow and scipy must not slow down `equipoise --help`.
__getattr__ = on_first_use(__name__, {name: home for home, names in _BY_HOME.items() for name in names})


def __dir__() -> list[str]:
    return sorted(__all__)
