"""Keep the k best of scores that arrive in blocks.

A block's scores are first compared with the k-th best so far (one pass, no sorting); only what passes is kept. For the
first block, which has nothing to be compared with, the k-th best of the maxima of groups of its columns is a score that
at least k are sure to reach; what does not reach it is never looked at again.
Order is arrival order among equal scores, or that of places given for the images, so that the result does not depend
on the blocks. What ties with the last kept score but does not fit is counted by code (its group), so that ties can be
reported or shared out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import AnyFloats, Ints

_GROUPS = 256
"""The first block's threshold is read from the maxima of at least so many groups of columns, and of three times k."""


class Best:
    """The k best of each of ``rows`` rows, fed column block by column block."""

    def __init__(
        self,
        rows: int,
        k: int,
        codes: NDArray[np.int32],
        n_codes: int,
        allowed: NDArray[np.bool_] | None = None,
        places: Ints | None = None,
    ) -> None:
        self.k = k
        self.places = places
        """(N,) among equal scores the image with the lowest place comes first; arrival order without it."""
        self.allowed = allowed
        """(N,) which images may be kept; all without it."""
        self.codes = codes
        self.n_codes = n_codes
        self.scores: AnyFloats = np.empty((rows, 0), dtype=np.float32)
        self.index: Ints = np.empty((rows, 0), dtype=np.int64)
        self.left_out = np.zeros((rows, n_codes), dtype=np.int64)
        """(rows, n_codes) what ties with the k-th score and was left out, by code."""
        self._floor: AnyFloats = np.full(rows, -np.inf, dtype=np.float32)
        self._last = np.full(rows, -1, dtype=np.int64)
        """(rows,) the highest place kept at the k-th score: what ties and comes after it need not be looked at."""
        self._filling = True
        self._pending: list[tuple[Ints, Ints, AnyFloats]] = []
        self._n_pending = 0

    def add(self, scores: AnyFloats, index: Ints) -> None:
        """Offer a block: ``scores`` (rows, n), -inf for what may not be kept; ``index`` (n,) or (rows, n)."""
        if self._filling:
            self._add_whole(scores, index)
            return
        passing = np.flatnonzero(scores >= self._floor[:, None])
        if passing.size == 0:
            return
        rows, columns = np.divmod(passing, scores.shape[1])
        values = scores[rows, columns]
        items = index[columns] if index.ndim == 1 else index[rows, columns]
        if self.allowed is not None:
            fine = self.allowed[items]
            rows, items, values = rows[fine], items[fine], values[fine]
        tied = values == self._floor[rows]
        if self.places is not None:
            tied &= self.places[items] > self._last[rows]
        if tied.any():
            self._count_left_out(rows[tied], items[tied])
            rows, items, values = rows[~tied], items[~tied], values[~tied]
        self._pending.append((rows, items, values))
        self._n_pending += len(rows)
        if self._n_pending > len(self.scores) * max(self.k, 64):
            self._merge()

    def result(self) -> tuple[Ints, AnyFloats, NDArray[np.int64]]:
        """Indices and scores (rows, <= k), best first, and what tied but was left out; -1 and -inf fill short rows."""
        self._merge()
        order = _best_first(self.scores, None if self.places is None else self.places[self.index])
        scores = np.take_along_axis(self.scores, order, axis=1)
        index = np.take_along_axis(self.index, order, axis=1)
        index[np.isneginf(scores)] = -1
        return index, scores, self.left_out

    def _add_whole(self, scores: AnyFloats, index: Ints) -> None:
        if self.allowed is not None and index.ndim == 1:
            fine = np.flatnonzero(self.allowed[index])
            scores, index = scores.take(fine, axis=1), index[fine]
        elif self.allowed is not None:
            scores = np.where(self.allowed[index], scores, -np.inf).astype(scores.dtype)
        thin = None if self.scores.shape[1] else self._thinned(scores, index)
        if thin is not None:
            joined, labels = thin
        else:
            items = np.broadcast_to(index, scores.shape)
            self.scores = self.scores.astype(scores.dtype)
            joined = np.concatenate([self.scores, scores], axis=1) if self.scores.shape[1] else scores
            labels = np.concatenate([self.index, items], axis=1) if self.index.shape[1] else items
        if thin is None and joined.shape[1] <= self.k:
            self.scores, self.index = np.array(joined), np.array(labels)
            return
        self.scores, self.index, self._floor = self._best_of(joined, labels, np.arange(len(scores)))
        self._filling = bool(np.isneginf(self._floor).any())

    def _thinned(self, scores: AnyFloats, index: Ints) -> tuple[AnyFloats, Ints] | None:
        """What reaches a low threshold in each row: scores and images in their order, -inf beside them.

        At least k do, with all that tie with the k-th best. ``None`` where most of a row would.
        """
        n = scores.shape[1]
        members = n // max(3 * self.k, _GROUPS)
        if members < 2:
            return None
        groups = n // members
        maxima = scores[:, : members * groups].reshape(len(scores), members, groups).max(axis=1)
        least = np.partition(maxima, groups - self.k, axis=1)[:, -self.k]
        if np.isneginf(least).any():
            return None
        flat, counts = _reaching(scores, least)
        starts, width = np.cumsum(counts) - counts, int(counts.max())
        at = np.arange(len(flat)) + np.repeat(np.arange(len(scores)) * width - starts, counts)
        thin, items = np.full((len(scores), width), -np.inf, dtype=scores.dtype), np.full((len(scores), width), -1)
        thin.ravel()[at] = scores.ravel()[flat]
        items.ravel()[at] = index[flat % n] if index.ndim == 1 else index.ravel()[flat]
        return thin, items

    def _best_of(self, scores: AnyFloats, index: Ints, rows: NDArray[np.intp]) -> tuple[AnyFloats, Ints, AnyFloats]:
        """The k best columns of each row in arrival order, and the k-th score; counts the ties left out."""
        kth = np.partition(scores, scores.shape[1] - self.k, axis=1)[:, -self.k]
        keep = scores >= kth[:, None]
        self.left_out[rows[kth > self._floor[rows]]] = 0
        flat = np.flatnonzero(keep)
        if len(flat) > len(scores) * self.k:
            crowded = np.flatnonzero(np.count_nonzero(keep, axis=1) > self.k)
            here, limit = scores[crowded], kth[crowded, None]
            above, tied = here > limit, here == limit
            room = self.k - above.sum(axis=1)
            fits = tied & (self._rank_among(tied, index[crowded]) <= room[:, None])
            keep[crowded] = above | fits
            out_rows, out_columns = np.nonzero(tied & ~fits & ~np.isneginf(limit))
            self._count_left_out(rows[crowded[out_rows]], index[crowded[out_rows], out_columns])
            flat = np.flatnonzero(keep)
        columns = flat.reshape(len(scores), self.k) - np.arange(len(scores))[:, None] * scores.shape[1]
        best, items = np.take_along_axis(scores, columns, axis=1), np.take_along_axis(index, columns, axis=1)
        if self.places is not None:
            self._last[rows] = np.where(best == kth[:, None], self.places[items], -1).max(axis=1)
        return best, items, kth

    def _rank_among(self, tied: NDArray[np.bool_], index: Ints) -> Ints:
        """(r, n) which of the ``tied`` of its row a tied image is, counted from 1."""
        if self.places is None:
            return np.cumsum(tied, axis=1)
        order = np.argsort(np.where(tied, self.places[index], np.iinfo(np.int64).max), axis=1)
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.arange(1, order.shape[1] + 1)[None, :], axis=1)
        return ranks

    def _count_left_out(self, rows: NDArray[np.intp], items: Ints) -> None:
        flat = rows * self.n_codes + self.codes[items]
        self.left_out += np.bincount(flat, minlength=self.left_out.size).reshape(self.left_out.shape)

    def _merge(self) -> None:
        if not self._pending:
            return
        rows, items, values = (np.concatenate(part) for part in zip(*self._pending, strict=True))
        self._pending, self._n_pending = [], 0
        order = np.argsort(rows, kind="stable")
        rows, items, values = rows[order], items[order], values[order]
        counts = np.bincount(rows, minlength=len(self.scores))
        starts = np.cumsum(counts) - counts
        # rows with many newcomers apart from the rest: the padded table stays small
        waiting = np.flatnonzero(counts)
        while waiting.size:
            width = 2 * int(counts[waiting].mean()) + 64
            now = waiting[counts[waiting] <= width]
            if now.size == 0:
                now = waiting
            waiting = np.setdiff1d(waiting, now, assume_unique=True)
            self._merge_rows(now, starts, counts, items, values)

    def _merge_rows(self, rows: NDArray[np.intp], starts: Ints, counts: Ints, items: Ints, values: AnyFloats) -> None:
        width = int(counts[rows].max())
        places = np.arange(width)
        there = places < counts[rows, None]
        source = np.where(there, starts[rows, None] + places, 0)
        new_scores = np.where(there, values[source], -np.inf).astype(self.scores.dtype)
        new_items = np.where(there, items[source], -1)
        scores = np.concatenate([self.scores[rows], new_scores], axis=1)
        index = np.concatenate([self.index[rows], new_items], axis=1)
        self.scores[rows], self.index[rows], self._floor[rows] = self._best_of(scores, index, rows)


def _reaching(scores: AnyFloats, least: AnyFloats) -> tuple[Ints, Ints]:
    """The flat places of what reaches the threshold of its row, and how many of each row do."""
    flat = np.flatnonzero(scores >= least[:, None])
    ends = np.searchsorted(flat, np.arange(len(scores) + 1) * scores.shape[1])
    return flat, np.diff(ends)


def _best_first(scores: AnyFloats, places: Ints | None) -> NDArray[np.intp]:
    """Columns by falling score, equal scores in their order or by place; the slower sort only where there are ties."""
    if places is None and scores.dtype == np.float32:
        return _best_first_packed(scores)
    falling = -scores
    order = np.argsort(falling, axis=1)
    ordered = np.take_along_axis(falling, order, axis=1)
    tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if tied.size:
        keys = (falling[tied],) if places is None else (places[tied], falling[tied])
        order[tied] = np.lexsort(keys, axis=1)
    return order


def _best_first_packed(scores: NDArray[np.float32]) -> NDArray[np.intp]:
    """The same of float32: score and column in one whole number each, so that a plain sort, the fastest, is enough."""
    bits = (scores + np.float32(0)).view(np.int32)  # the sum makes -0.0 and 0.0 one score
    rising = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
    keys = (-rising.astype(np.int64) << 32) | np.arange(scores.shape[1])
    keys.sort(axis=1)
    return keys & 0xFFFFFFFF
