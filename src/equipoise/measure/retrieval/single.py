"""Single queries of many: the metric they are judged by, and how many draws of the null it takes.

A query stands out only after Holm's correction over all of them.
"""

from __future__ import annotations

import math

from equipoise.measure.retrieval.chance import KEPT_CELLS

LEVEL = 0.05
SINGLE_METRIC = "max_skew"
"""What says of a single prompt that it leans: the verdict, the terminal, every table and figure name prompts by it."""
DRAWS_PER_QUERY = 50
"""So many draws for each query let a single one stand out after the correction, also where both sides count."""
MOST_DRAWS = 10_000
MOST_QUERIES = math.isqrt(int(KEPT_CELLS * LEVEL))
"""Of more queries than these, so many draws as a single one needs are too many to keep."""


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


def _too_many_to_keep(queries: int, draws: int) -> bool:
    """Whether the draws of single queries are not kept, so that none of them has a p-value.

    >>> _too_many_to_keep(400, 10_000), _too_many_to_keep(401, 10_000)
    (False, True)
    """
    return queries * draws > KEPT_CELLS


def advice(queries: int, draws: int) -> str:
    """What is wrong with so many draws for single queries that are corrected over all, and what to give; or nothing.

    >>> advice(200, 1000)
    'with 1,000 draws no single one of 200 prompts can be beyond chance after the correction; give --draws 10000'
    >>> advice(500, 10_000).split("; ")[1]
    'ask at most 447 prompts at a time'
    >>> advice(200, 4000), advice(1, 10)
    ('', '')
    """
    if queries < 2:
        return ""
    if _too_many_to_keep(queries, draws):
        wrong = f"{draws:,} draws of {queries:,} prompts are too many to keep, so no single one has a p-value"
    elif too_few_draws(queries, draws):
        wrong = f"with {draws:,} draws no single one of {queries:,} prompts can be beyond chance after the correction"
    else:
        return ""
    enough = draws_for(queries)
    return f"{wrong}; " + (f"give --draws {enough}" if enough else f"ask at most {MOST_QUERIES} prompts at a time")
