"""Directional bias amplification DBA: which of the two a model exaggerates, the group given the task or the task
given the group (Wang and Russakovsky 2021).

A task is whatever an image may show besides a group: an object, an activity, a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import chosen
from equipoise.measure.captions.counts import Amplification, TwoSides, two_sided_estimate
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric

Sign = Literal["sign", "thesis"]
SIGNS = ("sign", "thesis")
Base = Literal["union", "both", "all"]
BASES = ("union", "both", "all")


@metric(
    "dba_g",
    takes="captions",
    title="DBA_G",
    summary="Does the model name a group more often than it is there, given the objects?",
    citation="Wang and Russakovsky, Directional Bias Amplification, ICML 2021",
    formula="mean over (a, l) of y (p(a hat | l) - p(a | l)), y = sign(p(a, l) - p(a) p(l))",
    bounds=(-1.0, 1.0),
    direction="above 0: amplified, task to group",
    better="lower",
    chance="near 0 or below; group and prediction exchanged by image",
    when_it_lies="Captions that name nobody are skipped: a cautious model is judged on few images.",
    unit="share",
)
def dba_g(
    groups: Groups,
    tasks: Any,
    predicted: Groups,
    *,
    items: Sequence[str] | None = None,
    train: tuple[Groups, Any] | None = None,
    sign: Sign = "sign",
    base: Base = "union",
    undecided: Literal["skip", "keep"] = "skip",
    draws: int = 999,
    replicates: int = 500,
    seed: int = 0,
    level: float = 0.95,
) -> Amplification:
    """DBA from task to group: is the group predicted more often than it is there, given what the image shows?

    With y(a, l) = +1 if p(a, l) > p(a) p(l) and -1 if below, DBA = mean over (a, l) of y (p(a hat | l) - p(a | l)),
    p(.| l) over the images that show l. Tasks that no image shows have no p(.| l): they are left out of the mean, and
    counted. With two groups and undecided images skipped, the terms of both groups are the same. Null: group and
    predicted group exchanged image by image, two-sided. Interval: bootstrap over images, moved by its own bias.

    Args:
        groups: (n,) the images' groups.
        tasks: (n, L) 0 and 1, dense or sparse: what the images show (annotated objects, without "person").
        predicted: (n,) the groups the captions name; the same names as in ``groups``, in the same order.
        items: (L,) names of the tasks for the table; numbers if None.
        train: (groups, tasks) of other images to compute y on; these images if None.
        sign: "sign" (released code): a pair exactly as frequent as by chance adds 0; "thesis": it counts as below, as
            the printed formula has it.
        base: the images that y is computed on: "union" (released code), those with a group or a task; "both" (its
            comment), those with both; "all".
        undecided: whether images whose prediction is no group or several are skipped (released captioning code), or
            kept, where they count as predicted to be nobody.
        draws: how many exchanges the null takes.
        replicates: how many times the bootstrap draws the images.
        seed: which exchanges and resamples are drawn.
        level: confidence level of the interval.

    Returns:
        DBA, and a table of y, the shares of both sides and the term of each pair of task and group.

    >>> shows = np.array([[1]] * 4 + [[0]] * 2 + [[1]] + [[0]] * 3)
    >>> groups = Groups.from_values(["man"] * 6 + ["woman"] * 4)
    >>> said = Groups.from_values(["man"] * 7 + ["woman"] * 3)
    >>> round(dba_g(groups, shows, said).estimate.value, 6)
    0.2
    """
    shown = task_matrix(tasks, "tasks", len(groups))
    same_groups(groups, predicted, "predicted")
    chosen(undecided, "rule for undecided captions", ("skip", "keep"))
    used = ~groups.defined | predicted.defined if undecided == "skip" else np.ones(len(groups), dtype=bool)
    dropped = left_out(groups, "captions that name no group or several", int((~used).sum()))
    counts = DirectionalCounts(
        groups.labels[used], shown[used], predicted.labels[used], shown[used], groups.names, "task", sign, base
    )
    return directional(
        counts, items, train=train, draws=draws, replicates=replicates, seed=seed, level=level, dropped=dropped
    )


@metric(
    "dba_o",
    takes="captions",
    title="DBA_O",
    summary="Does the model mention an object more often than it is there, given the group?",
    citation="Wang and Russakovsky, Directional Bias Amplification, ICML 2021",
    formula="mean over (a, l) of y (p(l hat | a) - p(l | a))",
    bounds=(-1.0, 1.0),
    direction="above 0: amplified, group to task",
    better="lower",
    chance="near 0 or below; objects shown and mentioned exchanged by image",
    when_it_lies="Captions mention less than images show, which alone moves it.",
    unit="share",
)
def dba_o(
    groups: Groups,
    tasks: Any,
    predicted: Any,
    *,
    items: Sequence[str] | None = None,
    train: tuple[Groups, Any] | None = None,
    sign: Sign = "sign",
    base: Base = "union",
    draws: int = 999,
    replicates: int = 500,
    seed: int = 0,
    level: float = 0.95,
) -> Amplification:
    """DBA from group to task: is a task predicted more often than it is there, given who is in the image?

    y as in :func:`dba_g`; DBA = mean over (a, l) of y (p(l hat | a) - p(l | a)). Captions mention far less than images
    show, so that a terse captioner has a negative DBA: read it beside chance and beside what is mentioned at all. Null:
    tasks shown and tasks mentioned exchanged image by image, two-sided.

    Args:
        groups: (n,) the images' groups.
        tasks: (n, L) 0 and 1, dense or sparse: what the images show.
        predicted: (n, L) 0 and 1: which of these the captions mention.
        items: (L,) names of the tasks for the table; numbers if None.
        train: (groups, tasks) of other images to compute y on; these images if None.
        sign: what a pair exactly as frequent as by chance counts as, "sign" or "thesis", as in :func:`dba_g`.
        base: the images that y is computed on, "union", "both" or "all", as in :func:`dba_g`.
        draws: how many exchanges the null takes.
        replicates: how many times the bootstrap draws the images.
        seed: which exchanges and resamples are drawn.
        level: confidence level of the interval.

    Returns:
        DBA, and a table of y, the shares of both sides and the term of each pair of task and group.

    >>> groups = Groups.from_values(["man"] * 4 + ["woman"] * 4)
    >>> shown = np.array([[1], [1], [1], [0], [1], [0], [0], [0]])
    >>> said = np.array([[1], [1], [1], [1], [0], [0], [0], [0]])
    >>> dba_o(groups, shown, said).estimate.value
    0.25
    """
    shown = task_matrix(tasks, "tasks", len(groups))
    said = task_matrix(predicted, "predicted", len(groups))
    if shown.shape != said.shape:
        raise InputError(f"tasks has {shown.shape[1]} columns and predicted {said.shape[1]}; they are the same tasks")
    counts = DirectionalCounts(groups.labels, shown, groups.labels, said, groups.names, "group", sign, base)
    return directional(
        counts, items, train=train, draws=draws, replicates=replicates, seed=seed, level=level, dropped=left_out(groups)
    )


def task_matrix(tasks: Any, name: str, n: int) -> Any:
    """``tasks`` as a sparse (n, L) matrix of 0 and 1, or an error that names it."""
    table = sparse.csr_matrix(tasks, dtype=np.float64)
    table.eliminate_zeros()
    if table.shape[0] != n or table.shape[1] < 1:
        raise InputError(
            f"{name} has shape {table.shape} for {n} images; give one row per image and one column per task"
        )
    if table.nnz and not (table.data == 1.0).all():
        raise InputError(f"{name} must hold 0 and 1 only: whether an image has a task")
    return table


def same_groups(groups: Groups, other: Groups, name: str) -> None:
    """Refuse two sides that do not name the same groups in the same order for the same images."""
    other.check_length(len(groups))
    if groups.names != other.names:
        raise InputError(f"{name} names {other.names} where groups names {groups.names}; use the same, in one order")


def left_out(groups: Groups, reason: str = "", count: int = 0) -> dict[str, int]:
    """What is not measured, and why."""
    counts = {"images of no group": groups.n_undefined, reason: count}
    return {why: number for why, number in counts.items() if number}


def crossed(labels: NDArray[Any], tasks: Any, n_groups: int) -> Any:
    """Sparse (n, A * L): what an image shows, in the columns of its group."""
    cells = tasks.tocoo()
    kept = labels[cells.row] >= 0
    columns = labels[cells.row[kept]].astype(np.int64) * tasks.shape[1] + cells.col[kept]
    shape = (tasks.shape[0], n_groups * tasks.shape[1])
    return sparse.csr_matrix((np.ones(len(columns)), (cells.row[kept], columns)), shape)


def one_hot(labels: NDArray[Any], n_groups: int) -> Any:
    """Sparse (n, A); an undefined row is empty."""
    rows = np.flatnonzero(labels >= 0)
    return sparse.csr_matrix((np.ones(len(rows)), (rows, labels[rows])), (len(labels), n_groups))


@dataclass(frozen=True)
class Pairs:
    """What DBA is made of, for each pair of group and task, from summed counts: arrays (b, A, L)."""

    direction: Floats
    """+1 where the pair is more frequent than by chance, -1 less; 0 (thesis: -1) when just as frequent."""
    reference: Floats
    predicted: Floats
    """NaN where there is no image to condition on."""

    @property
    def delta(self) -> Floats:
        """Predicted minus reference share."""
        return np.asarray(self.predicted - self.reference)


@dataclass(frozen=True)
class DirectionalCounts:
    """Groups and tasks of the images, groups and tasks of the predictions; what the shares are conditioned on."""

    labels: NDArray[Any]
    tasks: Any
    predicted_labels: NDArray[Any]
    predicted_tasks: Any
    names: tuple[str, ...]
    """Of the groups."""
    given: Literal["task", "group"]
    sign: Sign
    base: Base

    def __post_init__(self) -> None:
        chosen(self.sign, "sign rule of DBA", SIGNS)
        chosen(self.base, "base of DBA", BASES)
        if not (self.labels >= 0).any():
            raise InputError("no image has a group and a prediction; there is nothing to compare")

    @property
    def n_groups(self) -> int:
        """How many groups there are."""
        return len(self.names)

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return int(self.tasks.shape[1])

    def sides(self) -> TwoSides:
        """Each image's share of every count: joint ones first, then those of the direction."""
        defined = sparse.diags((self.labels >= 0).astype(np.float64))
        rows = [
            sparse.hstack([defined @ crossed(labels, tasks, self.n_groups), self._based(labels, tasks)]).tocsr()
            for labels, tasks in ((self.labels, self.tasks), (self.predicted_labels, self.predicted_tasks))
        ]
        # who has no group takes no part in the exchange: both of its sides say the same
        silent = sparse.diags((self.labels < 0).astype(np.float64))
        rows[1] = (defined @ rows[1] + silent @ rows[0]).tocsr()
        given = defined @ self.tasks if self.given == "task" else one_hot(self.labels, self.n_groups)
        return TwoSides.paired(rows[0], rows[1], given.tocsr())

    def _based(self, labels: NDArray[Any], tasks: Any) -> Any:
        """(n, A L + A + L + 1): pair, group, task and image, of the images that the direction is computed on."""
        has_group, has_task = labels >= 0, np.asarray(tasks.sum(axis=1)).ravel() > 0
        inside = {"union": has_group | has_task, "both": has_group & has_task, "all": np.ones(len(labels), dtype=bool)}
        kept = sparse.diags(inside[self.base].astype(np.float64))
        ones = sparse.csr_matrix(np.ones((len(labels), 1)))
        return kept @ sparse.hstack(
            [crossed(labels, tasks, self.n_groups), one_hot(labels, self.n_groups), tasks, ones]
        )

    def direction(self, counts: Floats) -> Floats:
        """(b, A, L) from the summed counts of :meth:`_based`: the sign of n(a, l) n - n(a) n(l)."""
        a, l = self.n_groups, self.n_tasks  # noqa: E741
        joint, rest = counts[:, : a * l].reshape(-1, a, l), counts[:, a * l :]
        expected = rest[:, :a, None] * rest[:, None, a : a + l]
        signs = np.sign(joint * rest[:, -1, None, None] - expected)
        return signs if self.sign == "sign" else np.where(signs > 0, 1.0, -1.0)

    def train_direction(self, groups: Groups, tasks: Any) -> Floats:
        """(1, A, L) the direction of the pairs in training data."""
        if groups.names != self.names:
            raise InputError(f"train names {groups.names} where groups names {self.names}; use the same, in one order")
        table = task_matrix(tasks, "train", len(groups))
        if table.shape[1] != self.n_tasks:
            raise InputError(f"train has {table.shape[1]} tasks where there are {self.n_tasks}")
        return self.direction(np.asarray(self._based(groups.labels, table).sum(axis=0)))

    def pairs(self, reference: Floats, predicted: Floats, given: Floats, direction: Floats | None) -> Pairs:
        """The pieces of DBA from summed counts; ``direction`` replaces that of the reference."""
        shape = (-1, self.n_groups, self.n_tasks)
        cells = self.n_groups * self.n_tasks
        joint, hat = reference[:, :cells].reshape(shape), predicted[:, :cells].reshape(shape)
        below = np.broadcast_to(given[:, None, :] if self.given == "task" else given[:, :, None], joint.shape)
        sign = self.direction(reference[:, cells:]) if direction is None else np.broadcast_to(direction, joint.shape)
        empty = np.full(joint.shape, np.nan)
        shares = [np.divide(x, below, out=empty.copy(), where=below > 0) for x in (joint, hat)]
        return Pairs(sign, shares[0], shares[1])


def mean_of_terms(pairs: Pairs) -> Floats:
    """(b,) mean of y * delta over the pairs that have one."""
    return present_mean(pairs.direction * pairs.delta)


def present_mean(terms: Floats) -> Floats:
    """(b,) mean over the pairs that are not NaN; 0 when none is."""
    there = ~np.isnan(terms)
    total = np.where(there, terms, 0.0).sum(axis=(1, 2))
    return np.asarray(total / np.maximum(1, there.sum(axis=(1, 2))))


def directional(
    counts: DirectionalCounts,
    items: Sequence[str] | None,
    *,
    combine: Callable[[Pairs], Floats] = mean_of_terms,
    train: tuple[Groups, Any] | None,
    draws: int,
    replicates: int,
    seed: int,
    level: float,
    dropped: dict[str, int],
    alternative: Literal["two-sided", "greater"] = "two-sided",
    smallest: float = -1.0,
    unit: str = "tasks",
) -> Amplification:
    """The estimate that ``combine`` makes of the pairs, and the table of the pairs."""
    words = [str(i) for i in range(counts.n_tasks)] if items is None else [str(item) for item in items]
    if len(words) != counts.n_tasks:
        raise InputError(f"items has {len(words)} names for {counts.n_tasks} tasks")
    fixed = None if train is None else counts.train_direction(*train)
    sides = counts.sides()

    def statistic(reference: Floats, predicted: Floats, given: Floats) -> Floats:
        return combine(counts.pairs(reference, predicted, given, fixed))

    pairs = counts.pairs(*sides.totals(), fixed)
    empty = np.isnan(pairs.delta[0])
    if empty.all():
        raise InputError("no image shows any of the tasks; there is nothing to condition on")
    if empty.any():
        dropped = {**dropped, "pairs of group and task without an image to condition on": int(empty.sum())}
    estimate = two_sided_estimate(
        sides,
        statistic,
        n=int((counts.labels >= 0).sum()),
        n_groups=counts.n_groups,
        draws=draws,
        replicates=replicates,
        seed=seed,
        level=level,
        alternative=alternative,
        least=smallest,
        dropped=dropped,
        notes=(f"{counts.n_tasks} {unit}", *(("direction from training data",) if train is not None else ())),
    )
    return Amplification(estimate, _pair_table(pairs, words, counts.names))


def _pair_table(pairs: Pairs, items: Sequence[str], names: tuple[str, ...]) -> pd.DataFrame:
    """One row per pair with images: y, share in the reference, in the predictions, their difference, the term."""
    table = pd.DataFrame(
        {
            "item": np.tile(np.array(items, dtype=object), len(names)),
            "group": np.repeat(np.array(names, dtype=object), len(items)),
            "direction": pairs.direction[0].ravel(),
            "reference": pairs.reference[0].ravel(),
            "predicted": pairs.predicted[0].ravel(),
            "delta": pairs.delta[0].ravel(),
            "term": (pairs.direction * pairs.delta)[0].ravel(),
        }
    )
    return table[table["delta"].notna()].reset_index(drop=True)
