"""Quantiles and tails of the normal law, of Student's t and of the beta law.

They are those of ``scipy.stats`` to the last digit, without its checks of every argument: these take thirty times as
long as the number, and an audit asks for thousands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special


def normal_quantile(p: ArrayLike) -> Any:
    """The value below which the standard normal law has the share ``p``.

    >>> round(float(normal_quantile(0.975)), 4)
    1.96
    """
    return special.ndtri(p)


def normal_below(z: ArrayLike) -> Any:
    """The share of the standard normal law below ``z``.

    >>> round(float(normal_below(1.96)), 3)
    0.975
    """
    return special.ndtr(z)


def normal_above(z: ArrayLike) -> Any:
    """The share of the standard normal law above ``z``, exact far out as well.

    >>> round(float(normal_above(1.96)), 3), float(normal_above(10)) > 0
    (0.025, True)
    """
    return special.ndtr(np.negative(z))


def t_quantile(p: ArrayLike, freedom: ArrayLike) -> Any:
    """The value below which Student's t with ``freedom`` degrees of freedom has the share ``p``.

    >>> round(float(t_quantile(0.975, 10)), 3)
    2.228
    """
    return special.stdtrit(freedom, p)


def t_below(t: ArrayLike, freedom: ArrayLike) -> Any:
    """The share of Student's t with ``freedom`` degrees of freedom below ``t``.

    >>> round(float(t_below(2.228, 10)), 3)
    0.975
    """
    return special.stdtr(freedom, t)


def t_above(t: ArrayLike, freedom: ArrayLike) -> Any:
    """The share of Student's t with ``freedom`` degrees of freedom above ``t``.

    >>> round(float(t_above(2.228, 10)), 3)
    0.025
    """
    return special.stdtr(freedom, np.negative(t))


def beta_below(x: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """The share of the beta law of ``a`` and ``b`` below ``x``.

    >>> float(beta_below(0.5, 2, 2))
    0.5
    """
    return special.betainc(a, b, x)


def beta_quantile(p: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """The value below which the beta law of ``a`` and ``b`` has the share ``p``.

    >>> round(float(beta_quantile(0.5, 2, 2)), 6)
    0.5
    """
    return special.betaincinv(a, b, p)
