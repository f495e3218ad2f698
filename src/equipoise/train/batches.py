"""Which rows a step learns from: decided by the seed and the number of the step alone.

An epoch is every row once, or as often as ``copies`` says, in an order of its own. Where whole sets stay in one batch,
a batch holds as many sets as fit. Rows of further tables (a *mixture*) take their share of every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.array_types import Ints
from equipoise.errors import InputError
from equipoise.train.processes import Processes
from equipoise.train.rows import TrainingRows


class Stream:
    """An endless, reproducible stream of batches of some rows.

    >>> stream = Stream(np.arange(5), batch=2, seed=0)
    >>> sorted(np.concatenate([stream.batch_at(step) for step in range(5)]).tolist())
    [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    """

    def __init__(
        self,
        places: Ints,
        batch: int,
        seed: int,
        *,
        copies: Ints | None = None,
        units: Sequence[Any] | None = None,
        windows: Sequence[Ints] | None = None,
    ) -> None:
        """``copies`` says how often each of ``places`` is taken; rows of one of the ``units`` stay in one batch."""
        self.seed, self.batch = seed, batch
        self._windows = windows
        self._taken = places if copies is None else np.repeat(places, copies)
        if not len(self._taken):
            raise InputError("no row is left to learn from")
        self._sets = None if units is None else _members(self._taken, units, batch)
        self._packs = 0 if self._sets is None else _n_packs(self._sets, batch)
        self._held: tuple[int, Any] = (-1, None)

    @property
    def steps_per_epoch(self) -> float:
        """How many batches an epoch gives."""
        return float(self._packs or len(self._taken) / self.batch)

    def batch_at(self, step: int) -> Ints:
        """The rows of a step."""
        if self._packs:
            epoch, number = divmod(step, self._packs)
            chosen: Ints = self._of_epoch(epoch)[number]
            return chosen
        first, last = step * self.batch, (step + 1) * self.batch
        parts = []
        while first < last:
            epoch, start = divmod(first, len(self._taken))
            stop = min(len(self._taken), start + last - first)
            parts.append(self._of_epoch(epoch)[start:stop])
            first += stop - start
        return np.concatenate(parts)

    def _of_epoch(self, epoch: int) -> Any:
        held = self._held
        if held[0] != epoch:  # replaced as a whole, for several threads ask
            rng = np.random.default_rng([self.seed, epoch])
            held = (epoch, self._ordered(rng) if self._sets is None else self._packed(rng))
            self._held = held
        return held[1]

    def _ordered(self, rng: np.random.Generator) -> Ints:
        if self._windows is None:
            return rng.permutation(self._taken)
        order = rng.permutation(len(self._windows))
        kept = [self._taken[np.isin(self._taken, self._windows[i])] for i in order]
        return np.concatenate([rng.permutation(rows) for rows in kept])

    def _packed(self, rng: np.random.Generator) -> list[Ints]:
        """The sets of an epoch in its order, packed into a fixed number of batches."""
        assert self._sets is not None
        parts = np.array_split(rng.permutation(len(self._sets)), self._packs)
        return [np.concatenate([self._sets[i] for i in part]) for part in parts]


def _n_packs(sets: Sequence[Ints], batch: int) -> int:
    largest = max(map(len, sets))
    return -(-len(sets) // max(1, batch // largest))


def _members(taken: Ints, units: Sequence[Any], batch: int) -> list[Ints]:
    by_unit: dict[Any, list[int]] = {}
    for place in taken.tolist():
        unit = units[place]
        by_unit.setdefault(("row", place) if unit is None or unit != unit else unit, []).append(place)
    largest = max(by_unit.values(), key=len)
    if len(largest) > batch:
        raise InputError(f"a set has {len(largest)} images, and a batch of {batch} cannot hold it; give a larger batch")
    return [np.array(rows, dtype=np.int64) for rows in by_unit.values()]


@dataclass(frozen=True)
class Mixed:
    """One table's part of every batch."""

    rows: TrainingRows
    stream: Stream
    places: Ints
    """The rows that the stream draws from."""


def mixed(
    main: TrainingRows,
    places: Ints,
    others: Mapping[TrainingRows, float],
    batch: int,
    seed: int,
    *,
    copies: Ints | None = None,
    units: Sequence[Any] | None = None,
    places_of: Mapping[TrainingRows, Ints] | None = None,
) -> list[Mixed]:
    """The tables of a batch, the main one first; each of ``others`` takes its share of the ``batch``.

    ``copies`` says how often each of the ``places`` of the main table is taken, where its own column should not;
    ``places_of`` says which rows of the others are learnt from, where not all are.
    """
    counts = [round(share * batch) for share in others.values()]
    if any(share <= 0 for share in others.values()) or sum(others.values()) >= 1:
        raise InputError("the shares of further tables are above 0 and together below 1, such as TABLE=0.25")
    if sum(counts) >= batch or any(n < 1 for n in counts):
        raise InputError(f"a batch of {batch} cannot be shared out so; give a larger batch or other shares")
    taken = main.copies[places] if copies is None else copies
    first = Stream(places, batch - sum(counts), seed, copies=taken, windows=main.windows(), units=units)
    rest = []
    for number, (rows, count) in enumerate(zip(others, counts, strict=True), start=1):
        own = np.arange(len(rows)) if places_of is None else places_of[rows]
        stream = Stream(own, count, seed + number, copies=rows.copies[own], windows=rows.windows())
        rest.append(Mixed(rows, stream, own))
    return [Mixed(main, first, places), *rest]


class ReadAheadSteps:
    """The inputs of step after step, made by threads a few steps ahead; use it in a ``with`` block."""

    def __init__(self, make: Callable[[int], Any], last: int, *, readers: int = 2) -> None:
        self._make, self._last = make, last
        self._ahead = readers
        self._pool = ThreadPoolExecutor(max(1, readers), thread_name_prefix="equipoise-train")
        self._waiting: dict[int, Future[Any]] = {}

    def __enter__(self) -> ReadAheadSteps:
        return self

    def __exit__(self, *_: Any) -> None:
        self._pool.shutdown(cancel_futures=True)

    def __getitem__(self, step: int) -> Any:
        if not self._ahead:
            return self._make(step)
        for number in range(step, min(step + 1 + self._ahead, self._last)):
            if number not in self._waiting:
                self._waiting[number] = self._pool.submit(self._make, number)
        return self._waiting.pop(step).result()


def rows_at(parts: Sequence[Mixed], step: int, processes: Processes, *, images: bool) -> list[dict[str, Any]]:
    """The rows of a step that this process takes, of all tables."""
    everyone = [(number, place) for number, part in enumerate(parts) for place in part.stream.batch_at(step).tolist()]
    mine = processes.share(np.arange(len(everyone)))
    rows: list[dict[str, Any]] = []
    for number, part in enumerate(parts):
        places = [everyone[i][1] for i in mine if everyone[i][0] == number]
        rows += part.rows.rows(places, images=images) if places else []
    return rows
