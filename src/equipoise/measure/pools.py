"""Queries that each see only their own pool: which pools can be scored together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from equipoise.measure.blocks import BLOCK_CELLS, Numbers, Plan

__all__ = ["big_pools", "small_pools"]

BIG_POOL = 65_536
"""A pool with more images than this is streamed on its own."""


def big_pools(plan: Plan) -> Iterator[tuple[Numbers, Numbers]]:
    """The queries and the images of each big pool, by number."""
    queries, n_queries, images, n_images = _pools(plan)
    for pool in np.flatnonzero((n_queries > 0) & (n_images > BIG_POOL)):
        yield _slice(queries, n_queries, int(pool)), _slice(images, n_images, int(pool))


def small_pools(plan: Plan, dimensions: int) -> Iterator[tuple[Numbers, Numbers]]:
    """Batches of small pools: queries (B, q) and images (B, n) by number, -1 beyond a pool's end.

    Pools of similar size go together, so that padding at most quadruples the work, and a batch's images fit a block.
    """
    queries, n_queries, images, n_images = _pools(plan)
    pools = np.flatnonzero((n_queries > 0) & (n_images > 0) & (n_images <= BIG_POOL))
    if pools.size == 0:
        return
    size_class = np.ceil(np.log2(n_queries[pools])) * 64 + np.ceil(np.log2(n_images[pools]))
    for wanted in np.unique(size_class):
        same = pools[size_class == wanted]
        width, asked = int(n_images[same].max()), int(n_queries[same].max())
        step = max(1, min(BLOCK_CELLS // (width * asked), 2 * BLOCK_CELLS // (width * dimensions)))
        for start in range(0, len(same), step):
            batch = same[start : start + step]
            yield _padded(queries, n_queries, batch), _padded(images, n_images, batch)


def _pools(plan: Plan) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Queries sorted by pool and how many each pool has; the same of the images."""
    query_pool, image_pool = plan.keys.query_pool, plan.keys.image_pool
    assert query_pool is not None
    assert image_pool is not None
    if plan.keep is not None:
        image_pool = np.where(plan.keep, image_pool, -1)
    n_pools = 1 + int(max(query_pool.max(initial=-1), image_pool.max(initial=-1)))
    return *_members(query_pool, n_pools), *_members(image_pool, n_pools)


def _members(pool: Numbers, n_pools: int) -> tuple[Numbers, Numbers]:
    order = np.argsort(pool, kind="stable")
    order = order[pool[order] >= 0]
    return order, np.bincount(pool[order], minlength=n_pools).astype(np.int64)


def _slice(members: Numbers, counts: Numbers, pool: int) -> Numbers:
    stop = int(counts[: pool + 1].sum())
    return members[stop - int(counts[pool]) : stop]


def _padded(members: Numbers, counts: Numbers, pools: Numbers) -> Numbers:
    starts = (np.cumsum(counts) - counts)[pools]
    places = np.arange(int(counts[pools].max()))
    there = places < counts[pools][:, None]
    return np.where(there, members[np.where(there, starts[:, None] + places, 0)], -1)
