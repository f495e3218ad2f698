"""How far long work has come: loops tell it, and whoever waits for them may ask.

A loop over the draws of a null knows how many there are, and not who waits for it. It runs over :func:`steps`; the
parts of a whole job, such as axes and pools, run over :func:`stages`, and what is done one after another in one of them
says with :func:`portion` how much of it that is. Where nobody listens (:func:`listening`), all are plain loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(eq=False)
class _Span:
    """A stretch of the whole, which is from 0 to 1: one turn of a loop, or a part."""

    low: float
    high: float
    holds_one_loop: bool
    """Whether a loop takes all of it; elsewhere several follow each other, and each takes half of what is left."""
    at: float = 0.0

    def __post_init__(self) -> None:
        self.at = self.low


@dataclass(eq=False)
class _Loop:
    total: int
    done: int = 0


class Pace:
    """What share of the whole is done, as the loops that run now tell."""

    def __init__(self) -> None:
        self._spans = [_Span(0.0, 1.0, holds_one_loop=False)]
        self._loops: list[_Loop] = []
        self._at = 0.0
        self._whole = False

    @property
    def share(self) -> float | None:
        """The share of the whole that is done, which never falls; ``None`` where no stages say what the whole is.

        Stages count alike, whatever time they take.

        >>> with listening() as pace:
        ...     seen = [pace.share for _ in stages("ab") for _ in steps(range(2))]
        >>> seen
        [0.0, 0.125, 0.5, 0.625]
        >>> with listening() as pace:
        ...     for _ in stages("ab"):
        ...         with portion(0.2):
        ...             pass
        ...         with portion(0.8):
        ...             seen = [pace.share for _ in steps(range(2))]
        >>> [round(share, 3) for share in seen]
        [0.6, 0.8]
        """
        return self._at if self._whole else None

    @property
    def of_this_loop(self) -> float | None:
        """The share that the innermost loop has done; ``None`` where none runs."""
        loops = list(self._loops)  # whoever asks is in another thread
        return loops[-1].done / loops[-1].total if loops else None

    def run(self, items: Iterable[T], total: int, *, is_stage: bool) -> Iterator[T]:
        """``items``, of which there are ``total``; each counts as done when the next one is asked for."""
        around, total = self._spans[-1], max(total, 1)
        low = around.at
        high = around.high if is_stage or around.holds_one_loop else (low + around.high) / 2
        self._whole |= is_stage
        loop = _Loop(total)
        self._loops.append(loop)
        try:
            for number, item in enumerate(items):
                begin, end = (low + (high - low) * min(place, total) / total for place in (number, number + 1))
                with self._in(_Span(begin, end, holds_one_loop=not is_stage)):
                    yield item
                loop.done = min(number + 1, total)
        finally:
            self._loops.remove(loop)
        around.at = high

    @contextmanager
    def portion(self, share: float) -> Iterator[None]:
        """The next ``share`` of what is being done."""
        around, self._whole = self._spans[-1], True
        high = min(around.high, around.at + share * (around.high - around.low))
        with self._in(_Span(around.at, high, holds_one_loop=True)):
            yield
        around.at = high

    @contextmanager
    def _in(self, span: _Span) -> Iterator[None]:
        self._spans.append(span)
        self._at = max(self._at, span.low)
        try:
            yield
        finally:
            self._spans.remove(span)
        self._at = max(self._at, span.high)


_NOW: ContextVar[Pace | None] = ContextVar("pace", default=None)


@contextmanager
def listening() -> Iterator[Pace]:
    """What the loops of the block tell; inside another such block they tell the inner one alone."""
    pace = Pace()
    before = _NOW.set(pace)
    try:
        yield pace
    finally:
        _NOW.reset(before)


def steps(items: Iterable[T], total: int | None = None) -> Iterable[T]:
    """A loop that may take long; ``total`` where ``items`` has no length.

    >>> list(steps("ab"))
    ['a', 'b']
    """
    pace = _NOW.get()
    known = total if total is not None else len(items) if isinstance(items, Sized) else None
    return items if pace is None or known is None else pace.run(items, known, is_stage=False)


def stages(items: Sequence[T]) -> Iterable[T]:
    """The parts of a whole job for which somebody waits: axes, pools, metrics."""
    pace = _NOW.get()
    return items if pace is None else pace.run(items, len(items), is_stage=True)


@contextmanager
def portion(share: float) -> Iterator[None]:
    """The next ``share`` of a stage, such as 0.8 for the draws of a null that take most of its time."""
    pace = _NOW.get()
    if pace is None:
        yield
        return
    with pace.portion(share):
        yield
