"""Where scores come from: a matrix, a function of rows, or embeddings; always a block at a time.

Embeddings may be memory-mapped; each image block is read once. Queries with pools of their own are scored many pools
at once, in one batched product.

Queries that each see only their own pool: which pools can be scored together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from equipoise.array_types import AnyFloats, Ints
from equipoise.errors import InputError
from equipoise.measure.retrieval.blocks import (
    BLOCK_CELLS,
    BLOCK_ROWS,
    Block,
    Excluded,
    PairedKeys,
    Plan,
    as_float,
    finite_rows,
)
from equipoise.pace import steps

BIG_POOL = 65_536
"""A pool with more images than this is streamed on its own."""


def big_pools(plan: Plan) -> Iterator[tuple[Ints, Ints]]:
    """The queries and the images of each big pool, by number."""
    queries, n_queries, images, n_images = _pools(plan)
    for pool in np.flatnonzero((n_queries > 0) & (n_images > BIG_POOL)):
        yield _slice(queries, n_queries, int(pool)), _slice(images, n_images, int(pool))


def small_pools(plan: Plan, dimensions: int) -> Iterator[tuple[Ints, Ints]]:
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
        for start in steps(range(0, len(same), step)):
            batch = same[start : start + step]
            yield _padded(queries, n_queries, batch), _padded(images, n_images, batch)


def _pools(plan: Plan) -> tuple[Ints, Ints, Ints, Ints]:
    """Queries sorted by pool and how many each pool has; the same of the images."""
    query_pool, image_pool = plan.keys.query_pool, plan.keys.image_pool
    assert query_pool is not None
    assert image_pool is not None
    if plan.keep is not None:
        image_pool = np.where(plan.keep, image_pool, -1)
    n_pools = 1 + int(max(query_pool.max(initial=-1), image_pool.max(initial=-1)))
    return *_members(query_pool, n_pools), *_members(image_pool, n_pools)


def _members(pool: Ints, n_pools: int) -> tuple[Ints, Ints]:
    order = np.argsort(pool, kind="stable")
    order = order[pool[order] >= 0]
    return order, np.bincount(pool[order], minlength=n_pools).astype(np.int64)


def _slice(members: Ints, counts: Ints, pool: int) -> Ints:
    stop = int(counts[: pool + 1].sum())
    return members[stop - int(counts[pool]) : stop]


def _padded(members: Ints, counts: Ints, pools: Ints) -> Ints:
    starts = (np.cumsum(counts) - counts)[pools]
    places = np.arange(int(counts[pools].max()))
    there = places < counts[pools][:, None]
    return np.where(there, members[np.where(there, starts[:, None] + places, 0)], -1)


@dataclass(frozen=True)
class ScoreBlocks:
    """Scores computed on demand: ``block(start, stop)`` gives the rows (stop - start, N).

    >>> x = np.eye(3)
    >>> ScoreBlocks(3, 3, lambda a, b: x[a:b] @ x.T).n_images
    3
    """

    n_queries: int
    n_images: int
    block: Callable[[int, int], ArrayLike]

    def blocks(self, plan: Plan) -> Iterator[Block]:
        """Row block after row block, each in column blocks."""
        excluded = Excluded(plan.keys, self.n_images)
        columns = np.arange(self.n_images) if plan.keep is None else np.flatnonzero(plan.keep)
        columns = columns[::-1] if plan.reverse else columns
        every = plan.keep is None and not plan.reverse
        step = int(np.clip(2 * BLOCK_CELLS // max(1, self.n_images), 1, BLOCK_ROWS))
        for start in steps(range(0, self.n_queries, step)):
            rows = np.arange(start, min(start + step, self.n_queries))
            scores = self._rows(int(rows[0]), int(rows[-1]) + 1, excluded.active)
            targets = None if plan.targets is None else _picked(scores, plan.targets[rows])
            excluded.blank(scores, rows, np.arange(self.n_images))
            scores = scores if every else scores[:, columns]
            tolerance = np.zeros(len(rows))
            for first in range(0, len(columns), plan.block_columns):
                part = slice(first, first + plan.block_columns)
                yield Block(rows, columns[part], scores[:, part], targets, tolerance)

    def part(self, start: int, stop: int) -> ScoreBlocks:
        """The same for some of the queries."""
        return ScoreBlocks(stop - start, self.n_images, lambda low, high: self.block(start + low, start + high))

    def _rows(self, start: int, stop: int, own: bool) -> AnyFloats:
        given = self.block(start, stop)
        scores = np.array(given) if own else np.asarray(given)
        if scores.shape != (stop - start, self.n_images):
            raise InputError(
                f"scores for queries {start} to {stop - 1} have shape {scores.shape}; "
                f"expected ({stop - start}, {self.n_images})"
            )
        scores = as_float(scores, "scores")
        finite = np.isfinite(scores)
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise InputError(f"scores[{start + row}, {column}] is not finite; every score must be a number")
        return scores


def _constant(images: AnyFloats) -> bool:
    """Whether images (n, D) have one vector, as those of an encoder that sees nothing: then their scores are equal.

    A product of matrices may round its last columns otherwise than the first, and luck would rank the images.
    """
    return np.array_equal(images[0], images[-1]) and bool((images == images[0]).all())


def _picked(scores: AnyFloats, targets: Ints) -> AnyFloats:
    picked = np.take_along_axis(scores, np.maximum(targets, 0), axis=1)
    return np.where(targets >= 0, picked, -np.inf).astype(scores.dtype)


def Scores(scores: ArrayLike) -> ScoreBlocks:
    """A score matrix (Q, N), in memory or memory-mapped, as a source.

    >>> Scores([[0.1, 0.9], [0.4, 0.2]]).n_queries
    2
    """
    matrix = scores if isinstance(scores, np.ndarray) else np.asarray(scores)
    if matrix.ndim != 2:
        raise InputError(f"scores has shape {matrix.shape}; give one row per query and one column per image")
    return ScoreBlocks(matrix.shape[0], matrix.shape[1], lambda start, stop: matrix[start:stop])


@dataclass(frozen=True)
class Embeddings:
    """Query (Q, D) and image (N, D) embeddings; a score is their dot product (cosine for unit vectors).

    float16 is raised to float32; float64 stays. The images may be a ``numpy.memmap``.

    >>> Embeddings(np.eye(2), np.eye(2)).n_images
    2
    """

    queries: AnyFloats
    images: AnyFloats
    n_queries: int = field(init=False)
    n_images: int = field(init=False)

    def __post_init__(self) -> None:
        for name in ("queries", "images"):
            given = getattr(self, name)
            array = given if isinstance(given, np.ndarray) else np.asarray(given)
            if array.ndim != 2:
                raise InputError(f"{name} has shape {array.shape}; give one embedding per row")
            object.__setattr__(self, name, array)
        if self.queries.shape[1] != self.images.shape[1]:
            raise InputError(
                f"queries have {self.queries.shape[1]} dimensions and images {self.images.shape[1]}; "
                "both must come from the same model"
            )
        object.__setattr__(self, "n_queries", self.queries.shape[0])
        object.__setattr__(self, "n_images", self.images.shape[0])

    def blocks(self, plan: Plan) -> Iterator[Block]:
        """Image block after image block; small pools are scored many at once."""
        finite_rows(self.queries, np.arange(self.n_queries), "queries")
        if plan.keys.query_pool is not None:
            for queries, images in big_pools(plan):
                yield from self.stream(queries, images, plan)
            for queries, images in small_pools(plan, self.images.shape[1]):
                yield from self.batch(queries, images, plan)
            return
        images = np.arange(self.n_images) if plan.keep is None else np.flatnonzero(plan.keep)
        yield from self.stream(np.arange(self.n_queries), images, plan)

    def part(self, start: int, stop: int) -> Embeddings:
        """The same for some of the queries."""
        return Embeddings(self.queries[start:stop], self.images)

    def stream(self, queries: Ints, images: Ints, plan: Plan) -> Iterator[Block]:
        """The blocks of some queries against some images (both by number, images rising)."""
        excluded = Excluded(PairedKeys(None, None, plan.keys.query_owner, plan.keys.image_owner), self.n_images)
        images = images[::-1] if plan.reverse else images
        # blocks of even width, up to half as wide again: a small last one costs as many calls as a whole one
        width = max(1, -(-len(images) // max(1, round(len(images) / plan.block_columns))))
        step = max(1, min(BLOCK_ROWS, BLOCK_CELLS // width))
        parts = [queries[start : start + step] for start in range(0, len(queries), step)]
        left = [as_float(self.queries[rows], "queries") for rows in parts]
        aims = [self._targets(rows, plan) for rows in parts]
        kind = np.result_type(*(as_float(side[:0], "") for side in (self.queries, self.images)))
        # one piece of memory for all blocks: to be given fresh pages costs up to half as much as the product
        buffer = np.empty(min(step, len(queries)) * width, dtype=kind)
        for first in steps(range(0, len(images), width)):
            index = images[first : first + width]
            right = finite_rows(self.images, index, "images")
            constant = _constant(right)
            for rows, query, (targets, tolerance) in zip(parts, left, aims, strict=True):
                scores = buffer[: len(rows) * len(index)].reshape(len(rows), len(index))
                if constant:
                    scores[:] = (query @ right[0])[:, None]
                else:
                    np.matmul(query, right.T, out=scores)
                if excluded.active:
                    excluded.blank(scores, rows, index)
                yield Block(rows, index, scores, targets, tolerance)

    def batch(self, queries: Ints, images: Ints, plan: Plan) -> Iterator[Block]:
        """The blocks of a batch of pools: queries (B, q) and images (B, n), -1 for padding."""
        # the first two images tell of nearly every pool that its vectors differ
        front, second = images[:, 0], images[:, min(1, images.shape[1] - 1)]
        alike = (second >= 0) & (second != front) & (self.images[second] == self.images[front]).all(axis=1)
        images = images[:, ::-1] if plan.reverse else images
        wide = np.result_type(self.queries.dtype, self.images.dtype, np.float32)
        right = np.zeros((*images.shape, self.images.shape[1]), dtype=np.float32 if wide == np.float32 else np.float64)
        right[images >= 0] = finite_rows(self.images, images[images >= 0], "images")
        constant = [pool for pool in np.flatnonzero(alike) if _constant(right[pool][images[pool] >= 0])]
        step = max(1, BLOCK_CELLS // images.size)
        for first in range(0, queries.shape[1], step):
            asked = queries[:, first : first + step]
            query = self.queries[np.maximum(asked, 0)].astype(right.dtype, copy=False)
            scores = query @ right.transpose(0, 2, 1)
            for pool in constant:
                scores[pool] = (query[pool] @ right[pool][images[pool] >= 0][0])[:, None]
            there = asked >= 0
            rows, block = asked[there], scores[there]
            index = np.broadcast_to(images[:, None, :], scores.shape)[there]
            block[index < 0] = -np.inf
            if plan.keys.query_owner is not None and plan.keys.image_owner is not None:
                block[plan.keys.query_owner[rows][:, None] == plan.keys.image_owner[index]] = -np.inf
            yield Block(rows, index, block, *self._targets(rows, plan))

    def _targets(self, rows: Ints, plan: Plan) -> tuple[AnyFloats | None, AnyFloats | None]:
        if plan.targets is None:
            return None, None
        return self.target_scores(rows, plan.targets[rows])

    def target_scores(self, rows: Ints, targets: Ints) -> tuple[AnyFloats, AnyFloats]:
        """Scores (r, P) of each query's targets, and how far rounding may move them (r,)."""
        query = np.asarray(self.queries[rows], dtype=np.float64)
        image = np.asarray(self.images[np.maximum(targets, 0)], dtype=np.float64)
        scores = np.where(targets >= 0, np.einsum("rd,rpd->rp", query, image), -np.inf)
        size = np.linalg.norm(query, axis=1) * np.linalg.norm(image, axis=2).max(axis=1)
        working = np.result_type(self.queries.dtype, self.images.dtype, np.float32)
        return scores, 8 * float(np.finfo(working).eps) * size
