"""What a plan will cost, before it is carried out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from typing import Any

from equipoise.data.table import Table
from equipoise.generate.jobs import is_service, tools_for
from equipoise.generate.plans import Plan, row_of

__all__ = ["Estimate", "estimate"]

_BYTES_A_PIXEL = 1.5
"""A PNG of a photograph-like image, where none was made to measure."""


@dataclass(frozen=True)
class Estimate:
    """How many images, how long, how many gigabytes, what money, and three prompts to read."""

    kind: str
    n_tasks: int
    n_images: int
    seconds: float | None
    """``None`` where nothing was measured."""
    gigabytes: float | None
    cost: float | None
    """In US dollars, of a service that says its price."""
    examples: tuple[str, ...]
    left_out: dict[str, int]
    by_service: bool = False
    """Whether a service makes the images, which may cost money."""

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.n_images:,} images in {self.n_tasks:,} tasks"]
        lines.append(f"  time    {'not measured' if self.seconds is None else _duration(self.seconds)}")
        lines.append(f"  room    {'not measured' if self.gigabytes is None else f'{self.gigabytes:.3g} GB'}")
        if self.cost is not None:
            lines.append(f"  cost    {self.cost:,.2f} US dollars")
        elif self.by_service:
            lines.append("  cost    unknown: give the price of an image (--price)")
        lines += [f"  left out: {n:,} ({reason})" for reason, n in self.left_out.items()]
        lines += [f"  e.g.    {text}" for text in self.examples]
        return "\n".join(lines)


def estimate(plan: Plan, generator: Any = None, *, finder: Any = None, faces: Table | None = None) -> Estimate:
    """What ``plan`` will cost, by making its first task, unless a service makes the images.

    A service (a generator with the attribute ``price``: US dollars an image, or ``None`` where it is not known) is
    never asked for an image: its ``price`` and ``per_minute`` (images a minute) say what they say.
    """
    tools = tools_for(plan, generator, finder=finder, faces=faces)
    asked = tools.keywords["generator"]
    if is_service(asked):
        price, per_minute = asked.price, getattr(asked, "per_minute", None)
        pixels = asked.size[0] * asked.size[1]
        return _told(
            plan,
            None if per_minute is None else plan.n_images * 60 / per_minute,
            plan.n_images * pixels * _BYTES_A_PIXEL / 1e9,
            None if price is None else plan.n_images * price,
            by_service=True,
        )
    first = [row_of(task) for task in islice(plan.tasks(), plan.together)]
    if not first:
        return _told(plan, 0.0, 0.0, None)
    ready = tools()
    started = time.perf_counter()
    made = [row for rows in plan.make(first, ready) for row in rows]
    seconds = time.perf_counter() - started
    size = sum(len(row["image"]["bytes"]) for row in made)
    scale = plan.n_images / max(1, len(made))
    return _told(plan, seconds * scale, size * scale / 1e9, None)


def _told(
    plan: Plan, seconds: float | None, gigabytes: float | None, cost: float | None, *, by_service: bool = False
) -> Estimate:
    left_out = dict(plan.left_out)
    return Estimate(
        plan.kind, plan.n_tasks, plan.n_images, seconds, gigabytes, cost, plan.examples, left_out, by_service
    )


def _duration(seconds: float) -> str:
    """
    >>> _duration(40), _duration(4000), _duration(400000)
    ('40 s', '1.1 hours', '4.6 days')
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= size * (2 if unit == "minutes" else 1):
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.3g} s"
