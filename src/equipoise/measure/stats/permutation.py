"""Many tests at once: Holm and Benjamini-Hochberg.

Permutation p-values: the +1 rule, randomised p-values for discrete statistics, sign flips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.metric import Alternative
from equipoise.measure.stats.estimate import Estimate
from equipoise.pace import steps

ALTERNATIVES = ("greater", "less", "two-sided")

TIE = 1e-10
"""Two sums of the same numbers in another order differ by rounding; closer than this (relative) is a tie."""


@dataclass(frozen=True)
class PValues:
    """``value`` never is anti-conservative; ``randomised`` is exactly uniform under the null."""

    value: float
    randomised: float


def check_alternative(alternative: str) -> None:
    """Refuse an alternative that is not one of the three."""
    if alternative not in ALTERNATIVES:
        raise UnknownNameError("alternative", alternative, ALTERNATIVES)


def p_values(
    observed: float,
    draws: ArrayLike,
    *,
    alternative: Alternative = "greater",
    rng: np.random.Generator | int | None = 0,
) -> PValues:
    """P-values of an observed number against Monte-Carlo draws of the null.

    Ordinary, "greater": (1 + #{draws >= observed}) / (R + 1), so it never is 0 (Phipson & Smyth 2010).
    Randomised: (#{draws > observed} + U (1 + #{draws = observed})) / (R + 1), U uniform: ties are broken at
    random, so that it is uniform under the null even when the statistic has few levels.
    Two-sided: twice the smaller tail.

    Args:
        observed: the number itself, finite.
        draws: (R,) what chance gives, at least one.
        alternative: the side on which ``observed`` would speak against chance; ``two-sided``: either.
        rng: where U comes from, a seed or a generator; ``None`` gives another U each time.

    Returns:
        The ordinary and the randomised p-value.

    >>> p_values(3.0, [1.0, 2.0, 3.0, 4.0]).value
    0.6
    """
    check_alternative(alternative)
    null = np.asarray(draws, dtype=np.float64).ravel()
    if null.size == 0:
        raise InputError("draws is empty: a p-value needs at least one draw of the null")
    if not np.isfinite(null).all() or not np.isfinite(observed):
        raise InputError("observed and draws must be finite to give a p-value")
    tolerance = TIE * max(abs(observed), float(np.abs(null).max()))
    above = int((null > observed + tolerance).sum())
    below = int((null < observed - tolerance).sum())
    tied = null.size - above - below
    total = null.size + 1
    share = np.random.default_rng(rng).random()
    upper, lower = (1 + above + tied) / total, (1 + below + tied) / total
    u_upper = (above + share * (1 + tied)) / total
    if alternative == "greater":
        return PValues(upper, float(u_upper))
    if alternative == "less":
        return PValues(lower, float(1 - u_upper))
    return PValues(min(1.0, 2 * min(upper, lower)), float(2 * min(u_upper, 1 - u_upper)))


def with_chance(
    estimate: Estimate,
    draws: Floats,
    *,
    mean: float | None = None,
    ddof: int = 1,
    alternative: Alternative = "greater",
    rng: np.random.Generator | int | None = 0,
) -> Estimate:
    """The estimate with the chance level and the p-values that ``draws`` (R,) of its null give.

    ``mean`` is that of the null where it is known exactly. The spread divides by R - ``ddof``; there is none at 0.

    >>> with_chance(Estimate(3.0, n=4), np.array([1.0, 2.0, 3.0]))
    3 chance 2 ± 1, excess +1, p = 0.5, n = 4
    """
    tests = p_values(estimate.value, draws, alternative=alternative, rng=rng)
    return replace(
        estimate,
        null_mean=float(draws.mean()) if mean is None else mean,
        null_sd=float(draws.std(ddof=ddof)) if len(draws) > ddof else None,
        p_value=tests.value,
        p_randomised=tests.randomised,
    )


def permutation_test(
    statistic: Callable[[NDArray[np.intp]], Floats],
    n: int,
    *,
    draws: int = 1000,
    alternative: Alternative = "greater",
    seed: int = 0,
    chunk: int = 1000,
) -> tuple[float, Floats, PValues]:
    """Permutation test of ``statistic``.

    Args:
        statistic: takes permutations (R, n) of ``range(n)`` and gives (R,) values; it is first asked with the identity,
            then with random permutations.
        n: how many things are permuted.
        draws: how many random permutations.
        alternative: the side on which the observed value would speak against chance; ``two-sided``: either.
        seed: which permutations are drawn.
        chunk: how many of them ``statistic`` gets at a time.

    Returns:
        The observed value, the null draws (draws,) and the p-values.

    >>> x, y = np.arange(6.0), np.array([0, 0, 0, 1, 1, 1])
    >>> def gap(p):
    ...     return (x[p] * (2 * y - 1)).sum(axis=1) / 3
    >>> value, null, p = permutation_test(gap, 6, draws=999)
    >>> float(value), len(null), 0.02 < p.value < 0.09
    (3.0, 999, True)
    """
    if draws < 1:
        raise InputError(f"draws = {draws}: a permutation test needs at least one draw")
    rng = np.random.default_rng(seed)
    observed = float(statistic(np.arange(n, dtype=np.intp)[None, :])[0])
    parts = []
    for start in steps(range(0, draws, chunk)):
        rows = min(chunk, draws - start)
        orders = rng.permuted(np.tile(np.arange(n, dtype=np.intp), (rows, 1)), axis=1)
        parts.append(np.asarray(statistic(orders), dtype=np.float64))
    null = np.concatenate(parts)
    return observed, null, p_values(observed, null, alternative=alternative, rng=rng)


@dataclass(frozen=True)
class SignFlip:
    """The null of a mean of differences when each difference may as well have had the other sign."""

    value: Floats
    p_value: Floats
    null_sd: Floats
    exact: bool
    draws: int


EXACT_LIMIT = 12
"""Up to this many differences all 2^n sign patterns are enumerated."""


def sign_flip(
    differences: ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    draws: int = 9999,
    seed: int = 0,
    exact_limit: int = EXACT_LIMIT,
) -> SignFlip:
    """Sign-flip permutation test that a mean of differences is 0.

    Under the null the sd of the mean is sqrt(sum d^2) / n, exactly.

    Args:
        differences: (n,), or (n, m) for a test of each column. NaN marks a missing difference of a column.
        alternative: the side of 0 on which the mean would speak against chance; ``two-sided``: either.
        draws: how many random sign patterns where n is above ``exact_limit``, with the +1 rule.
        seed: which patterns are drawn.
        exact_limit: the largest n for which all 2^n sign patterns are taken; then the p-value is the exact share of
            patterns at least as extreme.

    Returns:
        The mean, its p-value and its sd under the null, of each column where there are several.

    >>> test = sign_flip([1.0, 2.0, 3.0])
    >>> float(test.value), float(test.p_value), test.exact
    (2.0, 0.25, True)
    """
    check_alternative(alternative)
    given = np.asarray(differences, dtype=np.float64)
    columns = given[:, None] if given.ndim == 1 else given
    if columns.ndim != 2 or columns.shape[0] == 0:
        raise InputError(f"differences has shape {given.shape}; a sign-flip test needs at least one difference")
    present = ~np.isnan(columns)
    count = present.sum(axis=0)
    if not count.all():
        raise InputError(f"differences: column {int(np.argmin(count))} has no value at all; leave it out")
    filled = np.where(present, columns, 0.0)
    value = filled.sum(axis=0) / count
    tolerance = TIE * np.abs(filled).sum(axis=0) / count
    exact = columns.shape[0] <= exact_limit
    at_least = np.zeros(columns.shape[1], dtype=np.int64)
    total = 0
    for signs in _sign_patterns(columns.shape[0], exact, draws, np.random.default_rng(seed)):
        at_least += _as_extreme(signs @ filled / count, value, alternative, tolerance).sum(axis=0)
        total += len(signs)
    p_value = at_least / total if exact else (1 + at_least) / (1 + total)
    null_sd = np.sqrt((filled**2).sum(axis=0)) / count
    shape = given.shape[1:]
    return SignFlip(value.reshape(shape), p_value.reshape(shape), null_sd.reshape(shape), exact, total)


def _sign_patterns(n: int, exact: bool, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    if exact:
        bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        yield np.asarray(1.0 - 2.0 * bits, dtype=np.float64)
        return
    if draws < 1:
        raise InputError(f"draws = {draws}: a Monte-Carlo sign-flip test needs at least one draw")
    step = max(1, 4_000_000 // n)
    for start in steps(range(0, draws, step)):
        flips = rng.integers(0, 2, size=(min(step, draws - start), n), dtype=np.int8)
        yield np.asarray(1.0 - 2.0 * flips, dtype=np.float64)


def _as_extreme(null: Floats, value: Floats, alternative: str, tolerance: Floats) -> NDArray[np.bool_]:
    if alternative == "greater":
        return np.asarray(null >= value - tolerance)
    if alternative == "less":
        return np.asarray(null <= value + tolerance)
    return np.asarray(np.abs(null) >= np.abs(value) - tolerance)


def holm(p_values: ArrayLike) -> Floats:
    """Holm's adjusted p-values, in the order given: they bound the chance of one false discovery (Holm 1979).

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * np.arange(len(p), 0, -1)
    return _in_given_order(np.minimum(1.0, np.maximum.accumulate(scaled)), order)


def benjamini_hochberg(p_values: ArrayLike) -> Floats:
    """Benjamini-Hochberg adjusted p-values, in the order given: they bound the share of false discoveries (1995).

    >>> benjamini_hochberg([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.04, 0.04]
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    return _in_given_order(np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1]), order)


def _checked(p_values: ArrayLike) -> Floats:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1:
        raise InputError(f"p_values has shape {p.shape}; give a flat list of p-values")
    wrong = ~((p >= 0) & (p <= 1))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"p_values[{at}] = {p[at]}: a p-value is between 0 and 1")
    return p


def _in_given_order(values: Floats, order: NDArray[np.intp]) -> Floats:
    out = np.empty_like(values)
    out[order] = values
    return out
