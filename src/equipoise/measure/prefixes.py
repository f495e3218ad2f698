"""Running counts along ranked lists of groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError

__all__ = ["discounts", "group_counts", "group_totals", "occurrence", "ranked_lists"]

Labels = NDArray[np.int64]
FloatArray = NDArray[np.float64]


def discounts(length: int) -> FloatArray:
    """1 / log2(i + 1) for i = 1..length: the attention a rank gets.

    >>> discounts(3).round(3).tolist()
    [1.0, 0.631, 0.5]
    """
    return np.asarray(1.0 / np.log2(np.arange(2, length + 2)))


def ranked_lists(ranked: ArrayLike, desired: ArrayLike) -> tuple[Labels, NDArray[np.bool_], FloatArray]:
    """The labels (..., T), where there is an image, and the shares (..., G), all checked."""
    labels = np.asarray(ranked)
    share = np.asarray(desired, dtype=np.float64)
    if labels.ndim == 0 or labels.shape[-1] == 0:
        raise InputError(f"ranked has shape {labels.shape}; give at least one ranked image")
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"ranked has type {labels.dtype}; give group labels as integers")
    if int(labels.max()) >= share.shape[-1]:
        raise InputError(f"ranked holds label {int(labels.max())} but desired has {share.shape[-1]} groups")
    there = labels >= 0
    if (there[..., 1:] & ~there[..., :-1]).any():
        raise InputError("ranked holds an undefined image before a defined one; remove undefined images first")
    share = np.broadcast_to(share, (*labels.shape[:-1], share.shape[-1]))
    return labels.astype(np.int64), there, share


def group_counts(ranked: NDArray[np.integer], n_groups: int) -> NDArray[np.int64]:
    """(..., G) how often each group occurs in the lists ``ranked`` (..., T); negative labels count for none.

    >>> group_counts(np.array([[0, 1, 1, -1]]), 3).tolist()
    [[1, 2, 0]]
    """
    lists = ranked.reshape(-1, ranked.shape[-1])
    if n_groups <= 3:
        return np.stack([(ranked == group).sum(axis=-1) for group in range(n_groups)], axis=-1)
    flat = lists + np.arange(len(lists))[:, None] * n_groups
    counts = np.bincount(flat[lists >= 0], minlength=len(lists) * n_groups)
    return counts.reshape(*ranked.shape[:-1], n_groups)


def group_totals(labels: Labels, group: int) -> NDArray[np.int64]:
    """(..., T) how many of ``group`` are in each prefix."""
    return np.asarray(np.cumsum(labels == group, axis=-1))


def occurrence(labels: Labels) -> NDArray[np.int64]:
    """(..., T) the how-manieth of its group each image is, from 1; what negative labels get means nothing.

    One stable sort by label puts each group's images in a run; an image's place in its run is its number.

    >>> occurrence(np.array([[0, 1, 0, 0, 1]])).tolist()
    [[1, 1, 2, 3, 2]]
    """
    small = labels.astype(np.int16) if labels.max() < 2**15 else labels
    order = np.argsort(small, axis=-1, kind="stable")
    run = np.take_along_axis(small, order, axis=-1)
    place = np.arange(labels.shape[-1])
    starts = np.zeros(labels.shape, dtype=np.int64)
    starts[..., 1:] = np.where(run[..., 1:] != run[..., :-1], place[1:], 0)
    number = place - np.maximum.accumulate(starts, axis=-1) + 1
    out = np.empty(labels.shape, dtype=np.int64)
    np.put_along_axis(out, order, number, axis=-1)
    return out
