"""What a reader, an audit and a page must know of a metric, said once, beside its function.

``@metric(...)`` puts a function into ``METRICS`` with its range, direction, test, chance level and when it lies. What
it ``takes`` decides who computes it: every metric that takes ``counts`` or ``ranked`` is part of each retrieval
audit, with a chance level from the same shuffles as all others.

>>> METRICS.get("max_skew").direction, METRICS.find("max_skew").alternative
('0 is parity; higher: some group is over-represented', 'greater')
"""

from __future__ import annotations

import math
import pkgutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.registry import plugins

Alternative = Literal["greater", "less", "two-sided"]
Better = Literal["lower", "higher", "chance", ""]
F = TypeVar("F", bound=Callable[..., Any])

OF_LISTS = ("counts", "divergences", "exposures", "shortfalls", "ranked", "pair")
"""What of a ranked list a metric may take, in the order in which an audit gives its metrics."""
TAKES = (*OF_LISTS, "ranks", "scores", "vectors", "captions", "images", "labels", "features")
_PER_HUNDRED = ("share", "score")
_PACKAGE = "equipoise"


@dataclass(frozen=True)
class Scope:
    """What the ends of a metric's range may depend on: the number of groups and, in retrieval, pools, shares and K."""

    n_groups: int
    pools: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """(Q, G) images of each group in each query's pool."""
    desired: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """(Q, G) the desired share of each group."""
    k: int = 0
    zero_max: str = "skip"
    zero_min: str = "skip"
    divides_by_asked_k: bool = False
    group: int | None = None
    """The group that the number is of, for a metric that has one number per group."""

    @cached_property
    def taken(self) -> Floats:
        """(Q,) how many images are retrieved."""
        return np.asarray(np.minimum(self.k, self.pools.sum(axis=1)))

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """(Q, G) whether a group is in the pool and should be."""
        return np.asarray((self.pools > 0) & (self.desired > 0))

    @cached_property
    def most(self) -> Floats:
        """(Q, G) the largest share of the top K that each group can have."""
        taken = self.taken[:, None]
        return np.asarray(np.minimum(self.pools, taken) / taken)


Bounds = tuple[float, float] | Callable[[Scope], tuple[float, float]]


@dataclass(frozen=True)
class Metric:
    """One metric: its function and how to read, test and print its number."""

    name: str
    summary: str = ""
    citation: str = ""
    formula: str = ""
    range: str = ""
    direction: str = ""
    chance: str = ""
    when_it_lies: str = ""
    takes: str = ""
    """One of ``TAKES``: what its function is given first."""
    target: str = ""
    """``module:function``."""
    title: str = ""
    """What prose calls it."""
    column: str = ""
    """What a column is headed by; the title if nothing shorter is given."""
    bounds: Bounds = (-math.inf, math.inf)
    """The least and the largest value in the results, or a function of the scope: no interval promises more."""
    alternative: Alternative = "two-sided"
    """Which way bias lies."""
    unit: str = ""
    """``share`` and ``score`` are printed times 100 in tables of captions, as papers do; others as they are."""
    digits: int = 1
    better: Better = ""
    """Whether lower, higher or nearer to chance is better; empty where none is."""
    per_group: bool = False
    """One number per group."""
    detail: bool = False
    """In the results, but in the printed table only if everything is asked for."""
    main: int | None = None
    """Its place among the metrics that a verdict may rest on, the first being the best."""
    given: Mapping[str, str] = field(default_factory=dict)
    """What else of the lists its function gets: its own keyword, and the name in ``Lists``."""
    compute: Callable[..., Any] | None = None
    """What an audit calls in place of the function, where exposures or counts are known already."""
    from_mean_of: str = ""
    """The metric from whose mean over queries it is made, because its own mean is not finite."""
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further names in the results that its function gives, and in what they differ from it."""
    function: Callable[..., Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.takes and self.takes not in TAKES:
            raise UnknownNameError("kind of thing that a metric takes", self.takes, TAKES)
        object.__setattr__(self, "title", self.title or self.name.replace("_", " "))
        object.__setattr__(self, "column", self.column or self.title)

    @property
    def of_lists(self) -> bool:
        """Whether a retrieval audit computes it."""
        return self.takes in OF_LISTS

    @property
    def shares_ties(self) -> bool:
        """Whether it has a form for shared ties: fractions of images at each rank."""
        return self.of_lists and self.takes != "ranked"

    @property
    def scale(self) -> int:
        """What a table of captions multiplies it by."""
        return 100 if self.unit in _PER_HUNDRED else 1

    def bounds_in(self, scope: Scope) -> tuple[float, float]:
        """The least and the largest value in ``scope``.

        >>> METRICS.get("outcome_divergence").bounds_in(Scope(n_groups=4))
        (0.0, 2.0)
        """
        return self.bounds(scope) if callable(self.bounds) else self.bounds

    def load(self) -> Callable[..., Any]:
        """Its function."""
        if self.function is not None:
            return self.function
        module, _, attribute = self.target.partition(":")
        function: Callable[..., Any] = getattr(import_module(module), attribute)
        return function

    def row(self, name: str) -> Metric:
        """The same for another number of its function, ``name`` in the results."""
        if name == f"{self.name}_gap":
            return replace(self.gap(), **self.rows[name])
        plain = Metric(name, self.summary, self.citation, takes=self.takes, target=self.target)
        return replace(plain, **{"title": "", "column": "", **self.rows[name]})

    def gap(self) -> Metric:
        """The highest less the lowest of the groups' numbers.

        >>> METRICS.get("neutral_rate").gap().bounds_in(Scope(2))
        (0.0, 1.0)
        """

        def width(scope: Scope) -> tuple[float, float]:
            low, high = self.bounds_in(scope)
            return 0.0, high - low

        return replace(
            self,
            name=f"{self.name}_gap",
            title=f"{self.title} gap",
            column="",
            bounds=width,
            alternative="greater",
            better="lower",
            main=None,
            rows={},
        )


class Metrics:
    """All metrics by name: ours, those of installed plug-ins, and those that were decorated in this process."""

    def __init__(self) -> None:
        self._by_name: dict[str, Metric] = {}
        self._found: dict[str, Metric] = {}
        self._filled = False

    def add(self, metric: Metric) -> None:
        """Register a metric; a name can be taken once, and ours cannot be replaced."""
        known = self._by_name.get(metric.name)
        if known is not None and known.target != metric.target and not _is_ours(metric):
            raise InputError(f"the metric {metric.name!r} is registered twice: {known.target} and {metric.target}")
        self._by_name[metric.name] = metric
        self._found.clear()

    def remove(self, name: str) -> None:
        """Forget a metric that was decorated in this process."""
        del self._by_name[self.get(name).name]
        self._found.clear()

    def entries(self) -> dict[str, Metric]:
        """All metrics in the order of their modules and definitions."""
        self._fill()
        return dict(self._by_name)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self.entries())

    def get(self, name: str) -> Metric:
        """The metric ``name``; an unknown name is answered with the closest ones."""
        entries = self.entries() if name not in self._by_name else self._by_name
        if name not in entries:
            raise UnknownNameError("metric", name, entries)
        return entries[name]

    def load(self, name: str) -> Callable[..., Any]:
        """The function of the metric ``name``."""
        return self.get(name).load()

    def find(self, name: str) -> Metric:
        """What is known of a name in the results: a metric, one of its further rows, the gap of one, or nothing.

        >>> METRICS.find("error_gap").alternative, METRICS.find("my_number").title
        ('greater', 'my number')
        """
        if name not in self._found:
            self._found[name] = self._look_up(name)
        return self._found[name]

    def _look_up(self, name: str) -> Metric:
        entries = self.entries()
        if name in entries:
            return entries[name]
        for metric in entries.values():
            if name in metric.rows:
                return metric.row(name)
        base = entries.get(name.removesuffix("_gap"))
        return base.gap() if base is not None else Metric(name)

    def of_lists(self) -> tuple[Metric, ...]:
        """The metrics of a retrieval audit, in the order of what they take."""
        some = [metric for metric in self.entries().values() if metric.of_lists]

        def place(metric: Metric) -> tuple[bool, int, str]:
            return not _is_ours(metric), OF_LISTS.index(metric.takes), metric.target.partition(":")[0]

        return tuple(sorted(some, key=place))

    def __contains__(self, name: object) -> bool:
        return name in self.entries()

    def __iter__(self) -> Iterator[Metric]:
        return iter(sorted(self.entries().values(), key=lambda metric: metric.name))

    def __len__(self) -> int:
        return len(self.entries())

    def _fill(self) -> None:
        """Import every module of ``equipoise.measure`` and of plug-ins' metrics: their decorators do the rest."""
        if self._filled:
            return
        self._filled = True
        package = import_module("equipoise.measure")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
        for plugin in plugins():
            for entry in plugin.entries.get("metric", ()):
                try:
                    function = entry.load()
                    if entry.name not in self._by_name:  # not decorated: named in prose, computed by no audit
                        described = Metric(entry.name, entry.summary, entry.citation, target=entry.target)
                        self.add(replace(described, function=function))
                except Exception as error:  # another package's code may fail in any way; it must not take us down
                    warnings.warn(f"the metric {entry.name!r} of {plugin.name!r}: {error}", stacklevel=2)


METRICS = Metrics()


def metric(name: str, *, takes: str, **about: Any) -> Callable[[F], F]:
    """Register the function below as the metric ``name``; ``about`` are further fields of :class:`Metric`.

    Metrics of ranked lists are called with (counts, desired), (M, G) each, if they take ``counts``, or (ranked,
    desired), (M, K) labels of the first K and (M, G), if they take ``ranked``; they return (M,) or, per group, (M, G).
    Finite ``bounds`` say the ``range``, and ``better`` the ``direction`` ("lower is better"), where these are left out.

    >>> @metric(
    ...     "first_share", takes="counts", summary="Share of the first group.", citation="nobody", formula="n_1 / K",
    ...     range="[0, 1]", direction="compare with chance", chance="its share of the pool", when_it_lies="often",
    ... )
    ... def first_share(counts, desired):
    ...     return counts[:, 0] / counts.sum(axis=1)
    >>> METRICS.get("first_share").formula
    'n_1 / K'
    >>> METRICS.remove("first_share")
    """

    def registered(function: F) -> F:
        target = f"{function.__module__}:{function.__qualname__}"
        METRICS.add(_complete(Metric(name, takes=takes, target=target, function=function, **_with_told(about))))
        return function

    return registered


def declare(name: str, target: str, *, takes: str, **about: Any) -> None:
    """Register a function of a package that may not import this one, or is not to be imported yet."""
    METRICS.add(_complete(Metric(name, takes=takes, target=target, **_with_told(about))))


def _with_told(about: dict[str, Any]) -> dict[str, Any]:
    """``about`` with the range that its bounds tell and the direction that ``better`` tells, unless it has its own.

    >>> _with_told({"bounds": (0.0, 1.0), "better": "higher"})
    {'range': '[0, 1]', 'direction': 'higher is better', 'bounds': (0.0, 1.0), 'better': 'higher'}
    """
    told = {}
    bounds = about.get("bounds")
    if isinstance(bounds, tuple) and all(map(math.isfinite, bounds)):
        told["range"] = f"[{bounds[0]:g}, {bounds[1]:g}]"
    if about.get("better") in ("lower", "higher"):
        told["direction"] = f"{about['better']} is better"
    return told | about


def _complete(metric: Metric) -> Metric:
    for part in ("summary", "citation", "formula", "range", "direction", "chance", "when_it_lies", "takes"):
        if not str(getattr(metric, part)).strip():
            raise InputError(f"the metric {metric.name!r} lacks its {part}")
    return metric


def _is_ours(metric: Metric) -> bool:
    return metric.target.startswith(f"{_PACKAGE}.")
