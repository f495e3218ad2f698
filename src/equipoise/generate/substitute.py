"""Contamination: a share of real images replaced by images generated from their captions.

"Would Deep Generative Models Amplify Bias in Future Models?" (Chen et al., CVPR 2024): D(alpha) replaces a random share
alpha and keeps the captions. Here the shares are nested (what is replaced at 0.2 is replaced at 0.4), counts are exact
(``floor(alpha n + 0.5)``), and each image is generated from one of its captions, chosen by the seed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.data.mixing import substitute, substitution_count, write_mixture
from equipoise.data.results import draw_order
from equipoise.data.table import Table
from equipoise.errors import InputError
from equipoise.generate.keeping import Kept, kept
from equipoise.generate.persons import placed_rows
from equipoise.generate.plans import Task, WorkPlan, drawn, examples_of, seed_of, settings_of, task_of
from equipoise.generate.tools import Tools, stopping_when_down

__all__ = ["SubstituteConfig", "contaminated", "make_substitutes", "plan_substitute"]


@dataclass(frozen=True)
class SubstituteConfig:
    """How much is generated, and how."""

    alpha: float = 1.0
    """The largest share that will be replaced; smaller ones are parts of it."""
    per_caption: bool = False
    """Generate one image for every caption instead of one per image."""
    guidance: float | None = None
    steps: int | None = None
    together: int = 8
    """Images that are generated at a time; where one of them fails they are generated one by one."""
    seed: int = 0

    def __post_init__(self) -> None:
        substitution_count(1, self.alpha)
        if self.together < 1:
            raise InputError(f"together={self.together}: at least one image at a time")


def plan_substitute(source: Table, config: SubstituteConfig | None = None) -> WorkPlan:
    """The plan of one generated image for each image (or caption) that D(alpha) replaces.

    The draw is that of :func:`equipoise.data.mixing.substitute` with the same seed, so what it will choose is made.
    An image that has no caption stops it, for it could not be replaced. The rows keep what the source says of its
    image, all its captions among it, but for where things are: nothing of the picture is left.
    """
    settings = config or SubstituteConfig()
    keeps = Kept(source, anew=True)
    prompts: dict[str, tuple[str, str, list[int]]] = {}
    texts = [name for name in ("captions", "caption") if name in source.columns]
    for place, row in placed_rows(source, ["image_id", *texts]):
        captions = [c for c in (row.get("captions") or [row.get("caption")]) if c]
        if not captions:
            raise InputError(f"the image {row['image_id']!r} has no caption to generate another from; leave it out")
        if settings.per_caption:
            prompts |= {f"{row['image_id']}#{k}": (row["image_id"], text, place) for k, text in enumerate(captions)}
        else:
            which = int(drawn(settings.seed, "caption", row["image_id"]).integers(len(captions)))
            prompts[row["image_id"]] = (row["image_id"], captions[which], place)
    units = list(prompts)
    count = substitution_count(len(units), settings.alpha)
    chosen = sorted(draw_order(units, settings.seed, "substitute")[:count].tolist())

    def tasks() -> Iterator[Task]:
        for name in (units[i] for i in chosen):
            source, text, place = prompts[name]
            yield {
                "id": name,
                "source": source,
                "place": place,
                "keeps": keeps.names,
                "one": settings.per_caption,
                "prompt": text,
                "seed": seed_of(settings.seed, "substitute", name),
                "guidance": settings.guidance,
                "steps": settings.steps,
            }

    return WorkPlan(
        kind="substitute",
        tasks=tasks,
        n_tasks=count,
        n_images=count,
        make=make_substitutes,
        config=settings_of(settings) | {"n": len(units)},
        needs=("generate",),
        axes=keeps.axes,
        columns=keeps.columns,
        source=source,
        examples=examples_of(tasks(), lambda task: [task["prompt"]]),
        together=settings.together,
    )


def make_substitutes(rows: list[dict[str, Any]], tools: Tools) -> list[Any]:
    """The generated image of each task, from one call: ``seed`` and ``place`` of a row say how to have it again."""
    tasks = [task_of(row) for row in rows]
    seed = tasks[0]["seed"]
    how = {"guidance": tasks[0]["guidance"], "steps": tasks[0]["steps"]}
    with stopping_when_down():
        images = tools.generator.generate([task["prompt"] for task in tasks], seed=seed, **how)
    return [
        tools.finished(
            task["id"],
            [
                {
                    **kept(tools.labels(task["place"]), task["keeps"]),
                    "image": image,
                    "image_id": f"{task['id']}--generated",
                    "source_id": task["source"],
                    "caption": task["prompt"],
                    "captions": _captions(task, tools),
                    "generator": tools.generator.name,
                    "params": json.dumps(tools.settled(how) | {"place": place}, sort_keys=True),
                    "seed": seed,
                }
            ],
        )
        for place, (task, image) in enumerate(zip(tasks, images, strict=True))
    ]


def _captions(task: Task, tools: Tools) -> list[str]:
    """The captions of the image that is replaced; where every caption has an image of its own, that one."""
    return [task["prompt"]] if task["one"] else tools.labels(task["place"]).get("captions") or [task["prompt"]]


def contaminated(
    real: Table, generated: Table, alphas: Sequence[float], out: str | Path, *, seed: int = 0
) -> dict[float, Table]:
    """D(alpha) for each alpha: a table in ``out``/D<alpha> with its manifest of replaced images beside it.

    ``generated`` is what the plan of :func:`plan_substitute` made with the same seed. An image whose generation
    failed (``generated.errors()``) stays real; the manifest lists such images as ``not_generated``.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    labels, fakes = real.to_pandas(["image_id"]), generated.to_pandas(["image_id", "source_id"])
    failed = generated.errors()["where"].tolist()
    # As if they had been made, so that the draw is the same; images that were never planned are still refused.
    drawn_from = pd.DataFrame({name: [*fakes[name], *failed] for name in fakes})
    tables = {}
    for alpha in alphas:
        wanted = substitute(labels, drawn_from, alpha, seed=seed)
        missing = sorted(set(wanted.replacement).intersection(failed))
        chosen = replace(wanted, replacement={k: v for k, v in wanted.replacement.items() if k not in missing})
        tables[alpha] = write_mixture(real, generated, chosen, folder / f"D{alpha:g}")
        manifest = json.dumps(chosen.manifest() | {"not_generated": missing}, indent=1)
        (folder / f"D{alpha:g}.json").write_text(manifest + "\n", encoding="utf-8")
    return tables
