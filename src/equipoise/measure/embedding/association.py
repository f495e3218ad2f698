"""Association tests: is one set of things closer to these attributes than another set is? WEAT and its kin.

The same formula serves words (WEAT, Caliskan 2017), sentences (SEAT, May 2019), images (iEAT, Steed and
Caliskan 2021) and images against texts (cross-modal, Ross 2021; Wolfe 2022): only what is embedded differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, row_blocks, same_width, unit_rows
from equipoise.measure.metric import Alternative, metric
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import TIE, check_alternative, p_values

LEAST = 3
"""Fewer targets on a side say too little of their spread."""
SPREADS = 400
"""How finely the distribution of a spread is cut."""
EXACT_LIMIT = 20_000
"""Up to this many ways to split the targets all are tried: the p-value is then exact."""


@dataclass(frozen=True)
class Association:
    """An effect size in standard deviations, with its permutation null."""

    effect: Estimate
    """Range [-2, 2] for equally many targets; 0.2 small, 0.5 medium, 0.8 large by Cohen's convention."""
    scores: Floats
    """Each target's own association: mean cosine with the first attributes minus that with the second."""
    exact: bool
    """Whether every split was tried."""


@metric(
    "association",
    takes="vectors",
    summary="Differential association of two target sets with two attribute sets (WEAT, SEAT, iEAT, cross-modal).",
    citation="Caliskan 2017; May 2019; Steed and Caliskan 2021; Ross 2021",
    formula="(mean_X s - mean_Y s) / sd s with s(w) = mean cos(w, A) - mean cos(w, B)",
    range="[-2, 2] for equal sets",
    direction="positive: X leans to A",
    chance="0, by dealing the targets anew",
    when_it_lies="Divides by the spread: tiny tidy differences look large; few targets reach large values by chance.",
    unit="spreads",
)
def association(
    first_targets: Any,
    second_targets: Any,
    first_attributes: Any,
    second_attributes: Any,
    *,
    alternative: Alternative = "two-sided",
    permutations: int = 9999,
    seed: int = 0,
    level: float = 0.95,
) -> Association:
    """Differential association of two sets of targets with two sets of attributes (Caliskan 2017).

    s(w) = mean_a cos(w, a) - mean_b cos(w, b); effect = (mean_X s - mean_Y s) / sd_{X u Y} s, sample sd.
    Positive: the first targets lean to the first attributes. All are (., d); the sets need not be equally
    large. Null: targets dealt anew between the two sets. Interval: :func:`effect_interval`.

    Args:
        first_targets: embeddings of X, two or more.
        second_targets: embeddings of Y, two or more.
        first_attributes: embeddings of the attributes a, one or more.
        second_attributes: embeddings of the attributes b, one or more.
        alternative: of the p-value; that of the papers is one-sided, "greater".
        permutations: how many random deals (p-value with the +1 rule); all ways are tried if there are at most 20,000.
        seed: which deals are drawn.
        level: confidence level of the interval.

    Returns:
        The effect with its chance level, each target's own s, and whether all ways were tried.

    >>> x, y = [[1.0, 0.1], [1.0, 0.3]], [[0.1, 1.0], [0.2, 1.0]]
    >>> found = association(x, y, [[1.0, 0.0]], [[0.0, 1.0]], alternative="greater")
    >>> round(found.effect.value, 2), round(found.effect.p_value, 4), found.exact
    (1.72, 0.1667, True)
    """
    x = unit_rows(first_targets, "first_targets", min_rows=2)
    y = unit_rows(second_targets, "second_targets", min_rows=2)
    a, b = unit_rows(first_attributes, "first_attributes"), unit_rows(second_attributes, "second_attributes")
    for side, name in ((y, "second_targets"), (a, "first_attributes"), (b, "second_attributes")):
        same_width(x, "first_targets", side, name)
    direction = a.mean(axis=0) - b.mean(axis=0)
    scores = np.concatenate([x @ direction, y @ direction])
    return _tested(scores, len(x), alternative, permutations, seed, level, "targets")


@metric(
    "single_association",
    takes="vectors",
    summary="Association of one target with two attribute sets (SC-WEAT).",
    citation="Caliskan 2017; Wolfe and Caliskan 2022",
    formula="(mean cos(w, A) - mean cos(w, B)) / sd cos(w, A u B)",
    range="[-2, 2] for equal sets",
    direction="positive: w leans to A",
    chance="0, by dealing the attributes anew",
    when_it_lies="As association; one word may be odd for reasons of its own.",
    unit="spreads",
)
def single_association(
    target: Any,
    first_attributes: Any,
    second_attributes: Any,
    *,
    alternative: Alternative = "two-sided",
    permutations: int = 9999,
    seed: int = 0,
    level: float = 0.95,
) -> Association:
    """Association of one target with two attribute sets (SC-WEAT).

    effect = (mean_a cos(w, a) - mean_b cos(w, b)) / sd of cos(w, .) over both sets (Caliskan 2017; Wolfe and
    Caliskan 2022). Null: attributes dealt anew between the two sets. Use it with one text as target and images
    of two groups as attributes: "is 'a photo of a person' closer to images of one group?"

    Args:
        target: (d,) the embedding w, or (t, d) several, of which the mean direction is taken.
        first_attributes: (., d) embeddings of the attributes a, two or more.
        second_attributes: (., d) embeddings of the attributes b, two or more.
        alternative: of the p-value; "greater": does the target lean to the first attributes?
        permutations: how many random deals; all ways are tried if there are at most 20,000.
        seed: which deals are drawn.
        level: confidence level of the interval.

    Returns:
        The effect with its chance level, each attribute's cosine with the target, and whether all ways were tried.

    >>> found = single_association([1.0, 0.0], [[1.0, 0.1], [1.0, 0.2]], [[0.1, 1.0], [0.2, 1.0]])
    >>> bool(found.effect.value > 1.5), found.scores.shape
    (True, (4,))
    """
    w = unit_rows(np.atleast_2d(np.asarray(target, dtype=np.float64)), "target").mean(axis=0)
    a = unit_rows(first_attributes, "first_attributes", min_rows=2)
    b = unit_rows(second_attributes, "second_attributes", min_rows=2)
    same_width(a, "first_attributes", b, "second_attributes")
    same_width(w[None], "target", a, "first_attributes")
    length = np.linalg.norm(w)
    if length < 1e-12:
        raise InputError("target: the rows cancel out, so their mean has no direction")
    scores = np.concatenate([a @ w, b @ w]) / length
    return _tested(scores, len(a), alternative, permutations, seed, level, "attributes")


def _tested(
    scores: Floats,
    n_first: int,
    alternative: Alternative,
    permutations: int,
    seed: int,
    level: float,
    what: str,
) -> Association:
    check_alternative(alternative)
    as_count(permutations, "permutations")
    spread = float(scores.std(ddof=1))
    if spread <= 1e-12:
        raise InputError(f"all {what} have the same association, so an effect size has no scale")
    effect = float(scores[:n_first].mean() - scores[n_first:].mean()) / spread
    exact = comb(len(scores), n_first) <= EXACT_LIMIT
    null = (_all_splits(scores, n_first) if exact else _random_splits(scores, n_first, permutations, seed)) / spread
    p_value = _exact_p(effect, null, alternative) if exact else p_values(effect, null, alternative=alternative).value
    low, high, why = effect_interval(scores[:n_first], scores[n_first:], level=level, what=what)
    estimate = Estimate(
        effect,
        low,
        high,
        null_mean=0.0 if exact else float(null.mean()),
        null_sd=float(null.std()),
        p_value=p_value,
        n=len(scores),
        level=level,
        notes=(f"{'all' if exact else 'random'} {len(null)} splits", *why),
    )
    return Association(estimate, scores, exact)


def _all_splits(scores: Floats, n_first: int) -> Floats:
    """Difference of means for every choice of ``n_first`` items."""
    total, n = scores.sum(), len(scores)
    differences = []
    splits = combinations(range(n), n_first)
    while block := list(islice(splits, 4096)):
        inside = scores[np.array(block)].sum(axis=1)
        differences.append(inside / n_first - (total - inside) / (n - n_first))
    return np.concatenate(differences)


def _random_splits(scores: Floats, n_first: int, permutations: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    total, n = scores.sum(), len(scores)
    differences = np.empty(permutations)
    for rows in row_blocks(permutations, n):
        order = rng.random((rows.stop - rows.start, n)).argpartition(n_first - 1, axis=1)[:, :n_first]
        inside = scores[order].sum(axis=1)
        differences[rows] = inside / n_first - (total - inside) / (n - n_first)
    return differences


def _exact_p(effect: float, null: Floats, alternative: str) -> float:
    if alternative == "two-sided":
        return float((np.abs(null) >= abs(effect) - TIE).mean())
    return float((null >= effect - TIE).mean() if alternative == "greater" else (null <= effect + TIE).mean())


def effect_interval(
    first: Floats, second: Floats, *, level: float = 0.95, what: str = "targets"
) -> tuple[float | None, float | None, tuple[str, ...]]:
    """Interval of the effect size of scores ``first`` (n,) and ``second`` (m,), inside its range; or why there is none.

    The effect is a rising function of t = difference / its standard error, and t of normal scores is noncentral t: the
    interval holds every noncentrality under which the observed t is not in a tail (Steiger and Fouladi 1997), turned
    back into an effect. Errors and degrees of freedom are Welch's. With four on a side the bootstrap covers 82%,
    this 95%.

    >>> low, high, _ = effect_interval(np.array([1.0, 1.4, 0.8, 1.2]), np.array([0.2, 0.6, 0.4, 0.0]))
    >>> round(low, 2), round(high, 2)
    (0.79, 1.87)
    """
    n, m = len(first), len(second)
    if min(n, m) < LEAST:
        return None, None, (no_interval(f"fewer than {LEAST} {what} on a side"),)
    parts = first.var(ddof=1) / n, second.var(ddof=1) / m
    error = float(np.sqrt(sum(parts)))
    if error <= 1e-12 * float(np.abs(np.concatenate([first, second])).max()):
        return None, None, (no_interval(f"the {what} of each side do not vary"),)
    freedom = error**4 / (parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (m - 1))
    t = float(first.mean() - second.mean()) / error
    within = np.sqrt((n * (n - 1) * parts[0] + m * (m - 1) * parts[1]) / (n + m - 2))
    shares = n * m / (n + m) ** 2
    ends = [
        _noncentrality(t, freedom, tail) * error / within for tail in (0.5 + level / 2, 0.5 - level / 2)
    ]  # differences in units of the spread within a side
    low, high = (float(end / np.sqrt(1 + shares * end**2)) for end in ends)
    return low, high, ()


def _noncentrality(t: float, freedom: float, tail: float) -> float:
    """The noncentrality under which a noncentral t is at most ``t`` with probability ``tail``.

    t is at most a number when a normal is at most that number times the spread drawn: a mean over spreads. (scipy's
    noncentral t is NaN in places.)
    """
    spread = t * np.sqrt(chdtri(freedom, (np.arange(SPREADS) + 0.5) / SPREADS) / freedom)
    low, high = float(spread.min()) - 10, float(spread.max()) + 10
    return float(brentq(lambda centre: ndtr(spread - centre).mean() - tail, low, high, xtol=1e-6))
