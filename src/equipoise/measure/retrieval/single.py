"""How many draws of the null it takes for one query of many to stand out after Holm's correction over all of them."""

from __future__ import annotations

from equipoise.measure.retrieval.chance import KEPT_CELLS

__all__ = ["DRAWS_PER_QUERY", "LEVEL", "MOST_DRAWS", "draws_for", "too_few_draws"]

LEVEL = 0.05
DRAWS_PER_QUERY = 50
"""So many draws for each query let a single one stand out after the correction, also where both sides count."""
MOST_DRAWS = 10_000


def too_few_draws(queries: int, draws: int) -> bool:
    """Whether no single one of ``queries`` can be beyond chance: no p-value is below 1 / (draws + 1), before Holm.

    >>> too_few_draws(200, 1000), too_few_draws(200, 4000), too_few_draws(1, 19), too_few_draws(1, 20)
    (True, False, True, False)
    """
    return queries / (draws + 1) >= LEVEL


def draws_for(queries: int) -> int | None:
    """Draws that suffice for every single query; ``None`` where no number does that can be kept in memory.

    >>> draws_for(20), draws_for(200), draws_for(400), draws_for(447), draws_for(1000)
    (1000, 10000, 10000, 8948, None)
    """
    draws = min(DRAWS_PER_QUERY * queries, MOST_DRAWS, KEPT_CELLS // max(queries, 1))
    return None if too_few_draws(queries, draws) else draws
