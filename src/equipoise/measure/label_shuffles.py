"""Labels in random order: over everything, inside sets, or as whole clusters of related items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.measure.arrays import row_blocks

__all__ = ["one_label_each", "permuted_labels", "shuffled_clusters", "shuffled_labels"]


def permuted_labels(
    labels: NDArray[Any], count: int, rng: np.random.Generator, within: NDArray[Any] | None = None
) -> Iterator[NDArray[Any]]:
    """Blocks (b, n) of ``labels`` (n,) in random order, ``count`` rows in all; ``within`` (n,) keeps them in
    their set.

    >>> rng = np.random.default_rng(0)
    >>> next(permuted_labels(np.array([0, 1, 2, 3]), 5, rng, np.array([0, 0, 1, 1])))[:, :2].max()
    np.int64(1)
    """
    n = len(labels)
    sets = np.zeros(n) if within is None else np.unique(within, return_inverse=True)[1].astype(np.float64)
    by_set = np.argsort(sets, kind="stable")
    for rows in row_blocks(count, n):
        order = np.argsort(sets + rng.random((rows.stop - rows.start, n)), axis=1)
        shuffled = np.empty(order.shape, dtype=labels.dtype)
        shuffled[:, by_set] = labels[order]
        yield shuffled


def one_label_each(labels: NDArray[Any], clusters: NDArray[Any]) -> bool:
    """Whether no cluster holds two labels: then nothing moves when labels are shuffled inside clusters.

    >>> one_label_each(np.array([0, 0, 1]), np.array([5, 5, 6])), one_label_each(np.array([0, 1]), np.array([5, 5]))
    (True, False)
    """
    codes = np.unique(clusters, return_inverse=True)[1]
    first = np.zeros(int(codes.max()) + 1 if len(codes) else 0, dtype=labels.dtype)
    first[codes] = labels
    return bool((first[codes] == labels).all())


def shuffled_labels(
    labels: NDArray[Any],
    count: int,
    rng: np.random.Generator,
    within: NDArray[Any] | None = None,
    clusters: NDArray[Any] | None = None,
) -> Iterator[NDArray[Any]]:
    """Blocks (b, n) of ``labels`` (n,): inside ``within`` where given, else as whole ``clusters``, else all.

    >>> [len(block) for block in shuffled_labels(np.array([0, 1]), 3, np.random.default_rng(0))]
    [3]
    """
    if within is None and clusters is not None:
        return shuffled_clusters(labels, clusters, count, rng)
    return permuted_labels(labels, count, rng, within)


def shuffled_clusters(
    labels: NDArray[Any], clusters: NDArray[Any], count: int, rng: np.random.Generator
) -> Iterator[NDArray[Any]]:
    """Blocks (b, n) of ``labels`` (n,) in which whole ``clusters`` (n,) have exchanged their labels.

    Where each cluster has one label (a person, a source), clusters of similar size exchange it: of 1, of 2 to 3, of 4
    to 7 items and so on. Otherwise clusters of the same size exchange all their labels, in random order. Labels
    shuffled item by item would take the images of one person for independent.

    >>> rng = np.random.default_rng(0)
    >>> block = next(shuffled_clusters(np.array([0, 0, 1, 1, 1, 1]), np.array([5, 5, 6, 6, 7, 7]), 50, rng))
    >>> bool((block[:, ::2] == block[:, 1::2]).all()), sorted(set(block.sum(axis=1).tolist()))
    (True, [4])
    """
    codes = np.unique(clusters, return_inverse=True)[1]
    sizes = np.bincount(codes)
    if one_label_each(labels, clusters):
        first = np.zeros(len(sizes), dtype=labels.dtype)
        first[codes] = labels
        for block in permuted_labels(first, count, rng, np.floor(np.log2(sizes)).astype(np.int64)):
            yield block[:, codes]
        return
    by_cluster = np.argsort(codes, kind="stable")
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    for rows in row_blocks(count, len(labels)):
        drawn = rows.stop - rows.start
        shuffled = np.empty((drawn, len(labels)), dtype=labels.dtype)
        for size in np.unique(sizes):
            items = by_cluster[start[sizes == size][:, None] + np.arange(size)]
            order = rng.random((drawn, len(items))).argsort(axis=1)
            exchanged = rng.permuted(labels[items][order], axis=2)
            shuffled[:, items] = exchanged
        yield shuffled
