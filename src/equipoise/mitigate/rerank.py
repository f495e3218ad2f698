"""Re-ranking: every prefix of a ranking shows each group as often as it should (Geyik et al., 2019).

Vectors and scores stay as they are; only the order changes. With the share p of a group, of the first k images it has

``det_greedy``
    at least floor(p k) for every k with two or three groups, and at most ceil(p k). With four groups or more no such
    guarantee is known: the paper shows rankings in which it fails.
``det_const_sort``
    at least floor(p k) for every k, with any number of groups. It moves images up only where no floor is broken.
``quota``
    more than p k - 1 and fewer than p k + 1 for every k, with any number of groups: which group comes where is decided
    by Tijdeman's rule for the chairman assignment problem (1980), and the best image of that group is shown there.

The guarantees hold as long as there are images left of each group; with the shares of the ranked images themselves
(the default) that is to the end. ``share`` below 1 asks for less: at least floor(share p k), at most
ceil((1 - share (1 - p)) k). Only the first ``depth`` places are decided in this way; the rest follow by score.

Whose groups? Those that the remedy guesses from the vectors of images, by a linear discriminant that it was fitted
with, unless ``labels`` are given. The guarantees are about these labels: a wrong guess counts as the group it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError, UnknownNameError
from equipoise.mitigate.base import BaseRemedy, checked_share
from equipoise.mitigate.protocol import FittedOn, Labelled, checked_vectors

VARIANTS = ("det_greedy", "det_const_sort", "quota")
_SLACK = 1e-9
"""What rounding may add to p k before a floor or a ceiling is taken."""


class Rerank(BaseRemedy):
    """Re-ranks by the groups that it guesses, or is given; see the module.

    >>> images = [[1.0, 0.1], [0.9, 0.2], [0.1, 1.0], [0.2, 0.9]]
    >>> remedy = Rerank().fit(images, {"gender": ["m", "m", "f", "f"]})
    >>> remedy.rerank([[0.9, 0.8, 0.7, 0.6]], images).tolist()
    [[0, 2, 1, 3]]
    """

    name = "rerank"
    changes = "rankings"

    def __init__(self, variant: str = "det_const_sort", share: float = 1.0, depth: int = 100) -> None:
        if variant not in VARIANTS:
            raise UnknownNameError("variant of rerank", str(variant), VARIANTS)
        self.variant, self.share, self.depth = variant, checked_share(share), int(depth)
        if variant == "quota" and self.share < 1:
            raise InputError(f"share={share}: a quota is met or not; leave share out, or take another variant")
        if depth < 1:
            raise InputError(f"depth={depth}: decide at least the first place")
        self._discriminant: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def learn(self, known: Labelled) -> None:
        """Learn to tell the groups of all axes together: a linear discriminant, one covariance for all."""
        codes = np.zeros(len(known.vectors), dtype=np.int64)
        for axis, some in known.codes.items():
            codes = codes * len(known.names[axis]) + some
        cells, codes = np.unique(codes, return_inverse=True)
        counts = np.bincount(codes)
        n, d = known.vectors.shape
        means: NDArray[np.float64] = (np.eye(len(cells))[codes].T @ known.vectors) / counts[:, None]
        spread = known.vectors.T @ known.vectors - means.T @ (means * counts[:, None])
        spread /= max(1, n - len(cells))
        spread += 1e-4 * max(np.trace(spread) / d, 1e-12) * np.eye(d)
        weights = np.asarray(np.linalg.solve(spread, means.T).T, dtype=np.float64)
        self._discriminant = weights, np.log(counts / counts.sum()) - 0.5 * (means * weights).sum(axis=1)

    def labels(self, vectors: ArrayLike) -> NDArray[np.int64]:
        """(n,) which group, or combination of groups, each vector is guessed to be of."""
        if self._discriminant is None:
            raise InputError("this rerank is not fitted; call fit first, or give labels")
        weights, offsets = self._discriminant
        rows = checked_vectors(vectors, weights.shape[1])
        return np.asarray((rows @ weights.T + offsets).argmax(axis=1))

    def rerank(
        self,
        scores: ArrayLike,
        vectors: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        shares: ArrayLike | None = None,
    ) -> NDArray[np.int64]:
        """(Q, N) the images in their new order for each of Q queries, from their ``scores`` (Q, N).

        ``vectors`` (N, d) are those of the images; ``labels`` (N,), whole numbers from 0, take the place of guesses.
        ``shares`` (groups,) should sum to 1: those of the labels themselves unless given.
        """
        table = np.atleast_2d(np.asarray(scores, dtype=np.float64))
        if labels is None and vectors is None:
            raise InputError("give the vectors of the images, from which their groups are guessed, or labels")
        codes = self.labels(vectors) if labels is None and vectors is not None else np.asarray(labels, dtype=np.int64)
        if codes.shape != (table.shape[1],) or (len(codes) and codes.min() < 0):
            raise InputError(f"there are labels of shape {codes.shape} for {table.shape[1]} images; give one for each")
        counts = np.bincount(codes, minlength=0 if shares is None else len(np.asarray(shares)))
        wanted = counts / counts.sum() if shares is None else np.asarray(shares, dtype=np.float64)
        if len(wanted) < len(counts) or abs(wanted.sum() - 1) > 1e-6 or (wanted < 0).any():
            raise InputError("shares: give one share for each group, and let them sum to 1")
        return np.stack([self._ordered(row, codes, wanted) for row in table])

    def rescored(self, scores: ArrayLike, vectors: ArrayLike, pools: ArrayLike | None = None) -> NDArray[np.float64]:
        """(Q, N) scores whose order is the new one: the same numbers, dealt out again within each of ``pools`` (N,)."""
        table = np.atleast_2d(np.asarray(scores, dtype=np.float64))
        rows = np.asarray(vectors)
        out = table.copy()
        every = np.zeros(table.shape[1], dtype=np.int64) if pools is None else np.asarray(pools)
        for pool in np.unique(every[every >= 0]):
            mine = np.flatnonzero(every == pool)
            order = self.rerank(table[:, mine], rows[mine])
            best_first = -np.sort(-table[:, mine], axis=1)
            # equal scores would leave the order open
            best_first -= np.arange(len(mine)) * 1e-9
            for q in range(len(table)):
                out[q, mine[order[q]]] = best_first[q]
        return out

    def state(self) -> dict[str, NDArray[Any]]:
        """The discriminant."""
        weights, offsets = self.learnt(self._discriminant)
        return {"weights": weights, "offsets": offsets}

    def restore(self, state: Mapping[str, NDArray[Any]], fitted_on: FittedOn) -> Self:
        """Take a state that was kept."""
        weights, offsets = (np.asarray(state[name], dtype=np.float64) for name in ("weights", "offsets"))
        self._discriminant, self.fitted_on = (weights, offsets), fitted_on
        return self

    def _ordered(
        self, scores: NDArray[np.float64], codes: NDArray[np.int64], shares: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        by_score = np.argsort(-scores, kind="stable")
        queues = [by_score[codes[by_score] == g] for g in range(len(shares))]
        depth = min(self.depth, len(scores))
        own = [scores[queue] for queue in queues]
        if self.variant == "quota":
            groups = quota(shares, [len(q) for q in queues], depth)
        else:
            rule = det_greedy if self.variant == "det_greedy" else det_const_sort
            groups = rule(own, shares, depth, share=self.share)
        taken = [0] * len(shares)
        first = []
        for group in groups:
            first.append(queues[group][taken[group]])
            taken[group] += 1
        chosen = np.array(first, dtype=np.int64)
        return np.concatenate([chosen, by_score[~np.isin(by_score, chosen)]])


def det_greedy(
    scores: Sequence[NDArray[np.float64]], shares: ArrayLike, depth: int, *, share: float = 1.0
) -> list[int]:
    """The group of each of the first ``depth`` places; ``scores`` are those of each group's images, best first.

    >>> det_greedy([np.array([0.9, 0.8, 0.7]), np.array([0.6, 0.5, 0.4])], [0.5, 0.5], 4)
    [0, 1, 0, 1]
    """
    wanted = [float(p) for p in np.asarray(shares, dtype=np.float64)]
    counts, order = [0] * len(wanted), []
    for k in range(1, min(depth, sum(map(len, scores))) + 1):
        left = [g for g in range(len(wanted)) if counts[g] < len(scores[g])]
        below = [g for g in left if counts[g] < floor(share * wanted[g] * k + _SLACK)]
        if not below:
            below = [g for g in left if counts[g] < ceil((1 - share * (1 - wanted[g])) * k - _SLACK)]
        group = max(below or left, key=lambda g: scores[g][counts[g]])
        order.append(group)
        counts[group] += 1
    return order


def det_const_sort(
    scores: Sequence[NDArray[np.float64]], shares: ArrayLike, depth: int, *, share: float = 1.0
) -> list[int]:
    """The same with the guarantee of the floor for any number of groups.

    An image is put down at the place where a floor first needs it, and then moves up past images of lower score as
    long as those still come in time for the floors that need them.

    >>> det_const_sort([np.array([0.9, 0.8]), np.array([0.6, 0.5])], [0.5, 0.5], 4)
    [0, 1, 0, 1]
    """
    wanted = [share * float(p) for p in np.asarray(shares, dtype=np.float64)]
    n = min(depth, sum(map(len, scores)))
    counts, floors = [0] * len(wanted), [0] * len(wanted)
    placed: list[tuple[int, float, int]] = []  # the group, the score, and the last place at which it is in time
    k = 0
    while len(placed) < n and any(p > 0 and counts[g] < len(scores[g]) for g, p in enumerate(wanted)):
        k += 1
        now = [floor(p * k + _SLACK) for p in wanted]
        due = [g for g in range(len(wanted)) if floors[g] < now[g] and counts[g] < len(scores[g])]
        for group in sorted(due, key=lambda g: -scores[g][counts[g]]):
            placed.append((group, float(scores[group][counts[group]]), k))
            at = len(placed) - 1
            while at > 0 and placed[at - 1][2] >= at + 1 and placed[at - 1][1] < placed[at][1]:
                placed[at - 1], placed[at] = placed[at], placed[at - 1]
                at -= 1
            counts[group] += 1
        floors = now
    rest = sorted(((g, float(s)) for g in range(len(wanted)) for s in scores[g][counts[g] :]), key=lambda row: -row[1])
    return [*(row[0] for row in placed), *(row[0] for row in rest)][:n]


def quota(shares: ArrayLike, sizes: Sequence[int], depth: int) -> list[int]:
    """The group of each of the first ``depth`` places: never a whole image away from its share of a prefix.

    Tijdeman's rule: of the groups that may have one more, the one that must have it soonest.

    >>> quota([0.5, 0.25, 0.25], [4, 2, 2], 8)
    [0, 1, 2, 0, 0, 1, 2, 0]
    """
    wanted = [float(p) for p in np.asarray(shares, dtype=np.float64)]
    there = sum(p > 0 for p in wanted)
    slack = 1 - 1 / (2 * there - 2) if there > 1 else 1.0
    counts: list[int] = [0] * len(wanted)
    order: list[int] = []
    for k in range(1, min(depth, sum(sizes)) + 1):
        left = [g for g in range(len(wanted)) if counts[g] < sizes[g]]
        may = [g for g in left if wanted[g] > 0 and wanted[g] * k - counts[g] >= 1 - slack - _SLACK]
        pool = may or [g for g in left if wanted[g] > 0] or left
        group = min(pool, key=lambda g: ((counts[g] + slack) / wanted[g] if wanted[g] > 0 else float("inf"), g))
        order.append(group)
        counts[group] += 1
    return order
