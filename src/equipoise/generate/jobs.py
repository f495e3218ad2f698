"""What a plan will cost, before it is carried out.

Carrying out a plan: a resumable job whose every task costs itself alone when it fails.
"""

from __future__ import annotations

import functools
import shutil
import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from equipoise.data.manifest import MANIFEST, UNFINISHED
from equipoise.data.schema import schema_for
from equipoise.data.table import Table
from equipoise.engine.ray_engine import needs_of
from equipoise.errors import InputError
from equipoise.formatting import plural
from equipoise.generate.plans import PLAN_FOLDER, WorkPlan, refuse_other_settings, row_of, written
from equipoise.generate.tools import Previews, SourceImages, Tools

TASKS_PER_SHARD = 8
"""What is lost at most when a run is killed (of tasks that are made together, so many calls)."""
PREVIEWS_FOLDER = "_previews"


def run(
    plan: WorkPlan,
    out: str | Path,
    generator: Any = None,
    *,
    finder: Any = None,
    faces: Table | None = None,
    tasks_per_shard: int = TASKS_PER_SHARD,
    preview_every: int = 0,
    **options: Any,
) -> Table:
    """Make what ``plan`` says and return the table at ``out``.

    A run that was stopped goes on when it is called again with the same arguments and ends with the same table; of a
    task that was under way nothing is kept. A task that fails is in ``table.errors()`` with the reason; all others
    are not touched by it.

    Args:
        plan: what is made, by one of the ``plan_...`` functions.
        out: the folder of the new table.
        generator: a :class:`~equipoise.models.protocols.Generator` or its name, where the plan needs one.
        finder: a detector of faces, objects or outlines, or its name, where the plan uses one.
        faces: for a swap, the table of faces that it was planned with.
        tasks_per_shard: what is lost at most when a run is killed (of tasks that are made together, so many calls).
        preview_every: draw a contact sheet of the latest images in ``_previews`` every so many; 0 draws none.
        **options: those of :func:`equipoise.engine.map` (``engine``, ``workers``, ``resources``, ``progress``,
            ``max_failures``, ...).

    Returns:
        The table of made images.
    """
    from equipoise import engine

    target = Path(out)
    refuse_other_settings(target, plan.kind, plan.config, plan.source)  # before models are loaded
    tools = tools_for(plan, generator, finder=finder, faces=faces, on_ray=options.get("engine") == "ray")
    options.setdefault("resources", needs_of(tools.keywords["generator"], tools.keywords["finder"]))
    tools.keywords["previews"] = Previews((target / PREVIEWS_FOLDER).absolute(), preview_every)
    # A service draws one image after the other: if its third of eight is refused, the first two would be paid twice.
    together = 1 if is_service(tools.keywords["generator"]) else plan.together
    planned = (target / PLAN_FOLDER).exists()
    tasks = written(plan, target, tasks_per_shard * together)
    if plan.by_finder:
        options.setdefault("max_failures", plan.n_tasks + 1)
    try:
        table = engine.map(
            plan.make,
            tasks,
            target,
            columns=["task"],
            schema=schema_for("images", axes=plan.axes, columns=plan.columns),
            config={"generate": plan.kind, **plan.config, "generator": _about(tools.keywords["generator"])},
            setup=tools,
            batch_size=together,
            **options,
        )
    except InputError:
        if not planned and not _is_begun(target):  # it was refused: nothing of the plan stays in somebody else's folder
            shutil.rmtree(target / PLAN_FOLDER, ignore_errors=True)
        raise
    tools.keywords["previews"].settle(table)
    return table


def _is_begun(folder: Path) -> bool:
    """Whether ``folder`` holds a table, finished or not, that a plan makes."""
    places = [folder / name for name in (MANIFEST, UNFINISHED) if (folder / name).is_file()]
    return any('"generate"' in place.read_text(encoding="utf-8", errors="replace") for place in places)


def tools_for(
    plan: WorkPlan, generator: Any = None, *, finder: Any = None, faces: Table | None = None, on_ray: bool = False
) -> functools.partial[Tools]:
    """What builds the tools of a worker; on Ray each loads the models by name, here they are loaded once and now."""
    from equipoise.models.loading import load

    if isinstance(generator, str) and not on_ray:
        generator = load(generator, kind="generator")
    if isinstance(finder, str) and not on_ray:
        finder = load(finder, kind="detector")
    _check_can(plan, generator)
    if plan.kind == "swap":
        _check_faces(plan, faces)
    return functools.partial(
        Tools,
        generator=generator,
        images=None if plan.source is None else SourceImages(plan.source),
        previews=None,
        finder=finder,
        faces=None if faces is None else SourceImages(faces),
    )


def is_service(generator: Any) -> bool:
    """Whether ``generator``, or what it names, is asked over the network, and may cost money: it has a ``price``.

    >>> is_service("api:https://api.openai.com/v1#dall-e-3"), is_service("mini:diffusion")
    (True, False)
    """
    return generator.startswith("api:") if isinstance(generator, str) else hasattr(generator, "price")


def _check_can(plan: WorkPlan, generator: Any) -> None:
    if not plan.needs:
        return
    if generator is None:
        raise InputError(f"making {plan.kind} needs a generator; name one, such as diffusers:<folder>")
    can = getattr(generator, "can", frozenset(plan.needs))
    missing = [method for method in plan.needs if method not in can]
    if missing:
        raise InputError(
            f"{generator.name} cannot {missing[0].replace('_', ' ')}, which {plan.kind} needs; it can: "
            f"{', '.join(sorted(can)) or 'nothing'}"
        )


def _check_faces(plan: WorkPlan, faces: Table | None) -> None:
    """Faces are planned by their place in a table: another table has somebody else there."""
    if faces is None:
        raise InputError("making swap needs the table of faces that it was planned with; give it as faces")
    if tuple(faces.fingerprints) != plan.parents:
        raise InputError(
            f"{faces.path} is not the table of faces that the swap was planned with, or it has changed; give that one, "
            "or plan again"
        )


def _about(generator: Any) -> Any:
    if generator is None or isinstance(generator, str):
        return generator
    return {"name": generator.name, "key": generator.key}


_BYTES_A_PIXEL = 1.5
"""A PNG of a photograph-like image, where none was made to measure."""
_TRIED = 8
"""So many tasks are tried, where the first fail, before nothing can be estimated."""


@dataclass(frozen=True)
class Cost:
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
    each: str = ""
    """What is made of each image of the source."""

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.n_images:,} images in {self.n_tasks:,} tasks"]
        lines += [f"  each    {self.each}"] if self.each else []
        lines.append(f"  time    {'not measured' if self.seconds is None else _duration(self.seconds)}")
        lines.append(f"  disk    {'not measured' if self.gigabytes is None else f'{self.gigabytes:.3g} GB'}")
        if self.cost is not None:
            lines.append(f"  cost    {self.cost:,.2f} US dollars")
        elif self.by_service:
            lines.append("  cost    unknown: give the price of an image (--price)")
        lines += [f"  left out: {n:,} ({reason})" for reason, n in self.left_out.items()]
        lines += [f"  e.g.    {text}" for text in self.examples]
        return "\n".join(lines)


def estimate(plan: WorkPlan, generator: Any = None, *, finder: Any = None, faces: Table | None = None) -> Cost:
    """What ``plan`` will cost, by making its first task that does not fail, unless a service makes the images.

    A service (a generator with the attribute ``price``: US dollars per image, or ``None`` where it is not known) is
    never asked for an image: its ``price`` and ``per_minute`` (images per minute) say what they say.

    Args:
        plan: what would be made.
        generator: as for :func:`run`.
        finder: as for :func:`run`.
        faces: as for :func:`run`.

    Returns:
        Time, disk space and money for all images; ``None`` for what could not be measured.
    """
    same = {name: getattr(plan, name) for name in ("kind", "n_tasks", "n_images", "examples", "each")}
    told = functools.partial(Cost, **same, left_out=dict(plan.left_out))
    tools = tools_for(plan, generator, finder=finder, faces=faces)
    asked = tools.keywords["generator"]
    if is_service(asked):
        price, per_minute = asked.price, getattr(asked, "per_minute", None)
        return told(
            seconds=None if per_minute is None else plan.n_images * 60 / per_minute,
            gigabytes=plan.n_images * asked.size[0] * asked.size[1] * _BYTES_A_PIXEL / 1e9,
            cost=None if price is None else plan.n_images * price,
            by_service=True,
        )
    first = [row_of(task) for task in islice(plan.tasks(), max(plan.together, _TRIED))]
    if not first:
        return told(seconds=0.0, gigabytes=0.0, cost=None)
    drawn, seconds = _first_made(plan, first, tools())
    size = sum(len(row["image"]["bytes"]) for row in drawn)
    scale = plan.n_images / max(1, len(drawn))
    return told(seconds=seconds * scale, gigabytes=size * scale / 1e9, cost=None)


def _first_made(plan: WorkPlan, tasks: list[dict[str, Any]], tools: Tools) -> tuple[list[dict[str, Any]], float]:
    """The rows of the first tasks that are made together, else of the first that can be made, and how long it took.

    A run notes those that fail and goes on.
    """
    failed: Exception | None = None
    alone = tasks[:_TRIED]
    rest = alone[1:] if plan.together == 1 else alone  # of those that fail together some may be made one by one
    for some in [tasks[: plan.together], *([task] for task in rest)]:
        started = time.perf_counter()
        try:
            made = plan.make(some, tools)
        except Exception as error:
            made = [error]
        seconds = time.perf_counter() - started
        drawn = [row for rows in made if not isinstance(rows, Exception) for row in rows]
        errors = [rows for rows in made if isinstance(rows, Exception)]
        if drawn or not errors:
            return drawn, seconds
        failed = failed or errors[0]
    raise InputError(
        f"nothing can be estimated, for of the first {plural(len(alone), 'task')} of {plan.kind} none can be made "
        f"({failed}); mend that, or begin with other images"
    ) from failed


def _duration(seconds: float) -> str:
    """
    >>> _duration(40), _duration(4000), _duration(400000)
    ('40 s', '1.1 hours', '4.6 days')
    """
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= size * (2 if unit == "minutes" else 1):
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.3g} s"
