"""Carrying out a plan: a resumable job whose every task costs itself alone when it fails."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from equipoise.data.schema import schema_for
from equipoise.data.table import Table
from equipoise.errors import InputError
from equipoise.generate.plans import Plan, written
from equipoise.generate.tools import Previews, SourceImages, Tools

__all__ = ["TASKS_PER_SHARD", "is_service", "run", "tools_for"]

TASKS_PER_SHARD = 8
"""What is lost at most when a run is killed (of tasks that are made together, so many calls)."""
PREVIEWS_FOLDER = "_previews"


def run(
    plan: Plan,
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

    ``generator``: a :class:`~equipoise.models.protocols.Generator` or its name; ``finder``: a detector of faces,
    objects or outlines, where the plan uses one; ``faces``: a table of faces, for a swap. ``preview_every``: a contact
    sheet of the latest images in ``_previews`` every so many. ``options`` are those of :func:`equipoise.engine.map`
    (``engine``, ``workers``, ``resources``, ``progress``, ``max_failures``, ...).

    A run that was stopped goes on when it is called again with the same arguments and ends with the same table; of a
    task that was under way nothing is kept. A task that fails is in ``table.errors()`` with the reason; all others
    are not touched by it.
    """
    from equipoise import engine

    target = Path(out)
    tools = tools_for(plan, generator, finder=finder, faces=faces, on_ray=options.get("engine") == "ray")
    tools.keywords["previews"] = Previews((target / PREVIEWS_FOLDER).absolute(), preview_every)
    # A service draws one image after the other: if its third of eight is refused, the first two would be paid twice.
    together = 1 if is_service(tools.keywords["generator"]) else plan.together
    tasks = written(plan, target, tasks_per_shard * together)
    if plan.by_finder:
        options.setdefault("max_failures", plan.n_tasks + 1)
    return engine.map(
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


def tools_for(
    plan: Plan, generator: Any = None, *, finder: Any = None, faces: Table | None = None, on_ray: bool = False
) -> functools.partial[Tools]:
    """What builds the tools of a worker; on Ray each loads the models by name, here they are loaded once and now."""
    from equipoise.models.loading import load

    if isinstance(generator, str) and not on_ray:
        generator = load(generator, kind="generator")
    if isinstance(finder, str) and not on_ray:
        finder = load(finder, kind="detector")
    _check_can(plan, generator)
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


def _check_can(plan: Plan, generator: Any) -> None:
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


def _about(generator: Any) -> Any:
    if generator is None or isinstance(generator, str):
        return generator
    return {"name": generator.name, "key": generator.key}
