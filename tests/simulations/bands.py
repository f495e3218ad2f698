"""What a simulated rate may be, given that only so many repetitions were made."""

from scipy import stats


def band(low: float, high: float, repetitions: int, tail: float = 0.05) -> tuple[float, float]:
    """The smallest and largest share of hits that do not contradict a true rate of ``low`` to ``high``.

    A share outside is one that the nearest end of the region gives in less than ``tail`` of simulations (exact
    binomial). A true rate in the middle of the region all but never falls outside, one far off all but always does:
    with 400 repetitions, a test with 5% false alarms leaves the band of 3 to 7% in 1 of 3,000 simulations, one with
    13% stays inside in 1 of 100.

    >>> band(0.03, 0.07, 400)
    (0.0175, 0.0925)
    """
    least = stats.binom.ppf(tail, repetitions, low) / repetitions
    most = stats.binom.ppf(1 - tail, repetitions, high) / repetitions
    return float(least), float(most)


def within(rate: float, low: float, high: float, repetitions: int, tail: float = 0.05) -> bool:
    """Whether a share of hits does not contradict a true rate of ``low`` to ``high``."""
    least, most = band(low, high, repetitions, tail)
    return least <= rate <= most
