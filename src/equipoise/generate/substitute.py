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

from equipoise.data.atomic import write_whole
from equipoise.data.manifest import MANIFEST
from equipoise.data.mixing import substitute, substitution_count, write_mixture
from equipoise.data.results import draw_order
from equipoise.data.runs import file_to_write
from equipoise.data.table import Table
from equipoise.errors import InputError
from equipoise.generate.keeping import Kept, kept
from equipoise.generate.persons import placed_rows
from equipoise.generate.plans import Task, WorkPlan, drawn, examples_of, seed_of, settings_of, task_of
from equipoise.generate.tools import Tools, stopping_when_down


@dataclass(frozen=True)
class SubstituteConfig:
    """How much is generated, and how."""

    alpha: float = 1.0
    """The largest share that will be replaced; smaller ones are parts of it."""
    beyond: float = 0.0
    """The share whose images are generated already: D(alpha) grows by what it has beyond D(beyond)."""
    per_caption: bool = False
    """Generate one image for every caption instead of one per image."""
    guidance: float | None = None
    steps: int | None = None
    together: int = 8
    """Images that are generated at a time; where one of them fails they are generated one by one."""
    seed: int = 0

    def __post_init__(self) -> None:
        substitution_count(1, self.alpha)
        if not 0 <= self.beyond <= self.alpha:
            raise InputError(f"beyond={self.beyond:g}: a share from 0 to alpha={self.alpha:g} is expected")
        if self.together < 1:
            raise InputError(f"together={self.together}: at least one image at a time")


def plan_substitute(source: Table, config: SubstituteConfig | None = None) -> WorkPlan:
    """The plan of one generated image for each image (or caption) that D(alpha) replaces.

    The draw is that of :func:`equipoise.data.mixing.substitute` with the same seed, so what it will choose is made.
    The rows keep what the source says of its image, all its captions among it, but for where things are: nothing of the
    picture is left.

    Args:
        source: real images with ``captions`` or ``caption``; one without stops it, for it could not be replaced.
        config: which share is replaced, and how images are generated; the whole unless given.

    Returns:
        A plan of one task per generated image.
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
    before, upto = (substitution_count(len(units), share) for share in (settings.beyond, settings.alpha))
    count = upto - before
    chosen = sorted(draw_order(units, settings.seed, "substitute")[before:upto].tolist())
    about = settings_of(settings)
    if not settings.beyond:  # as plans were written when nothing could grow
        del about["beyond"]

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
        config=about | {"n": len(units)},
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


GENERATED = "generated"


def parts_of(out: Path, alpha: float) -> list[tuple[Path, float, float]]:
    """Where the generated images of D(alpha) lie or belong: folders, each with its ``alpha`` and ``beyond``.

    The first part is ``generated``. Shares that were asked for later lie beside it, in ``generated-<alpha>``, and hold
    only what they have beyond the parts before them.
    """
    finished: list[tuple[Path, Any, Any]] = []
    for folder in [out / GENERATED, *out.glob(f"{GENERATED}-*")]:
        if (folder / MANIFEST).is_file():
            config = Table.open(folder).config
            finished.append((folder, config.get("alpha"), config.get("beyond", 0.0)))
    if not all(isinstance(share, int | float) for _, *shares in finished for share in shares):
        raise InputError(f"{out}: holds generated images of another command; give another folder")
    parts = sorted(finished, key=lambda part: part[1])
    reached: float = parts[-1][1] if parts else 0.0
    if alpha > reached:
        parts.append((out / (f"{GENERATED}-{alpha:g}" if parts else GENERATED), alpha, reached))
    return parts


def contaminated(
    real: Table, generated: Table | Sequence[Table], alphas: Sequence[float], out: str | Path, *, seed: int = 0
) -> dict[float, Table]:
    """D(alpha) for each alpha: a table in ``out``/D<alpha> with its manifest of replaced images beside it.

    Args:
        real: the images of which shares are replaced; what a filter dropped is left out.
        generated: what the plan of :func:`plan_substitute` made with the same seed, or several such parts (of 0, none
            is needed). An image whose generation failed (``generated.errors()``) stays real; the manifest lists such
            images as ``not_generated``.
        alphas: the shares, from 0 to 1.
        out: the folder of all of them.
        seed: which images are drawn, as in the plan.

    Returns:
        The table of each alpha.
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    parts = [generated] if isinstance(generated, Table) else list(generated)
    labels = real.to_pandas(["image_id"], only_kept="keep" in real.columns)
    nothing = pd.DataFrame({"image_id": [], "source_id": []}, dtype=object)
    fakes = pd.concat([nothing, *(part.to_pandas(["image_id", "source_id"]) for part in parts)], ignore_index=True)
    failed = [name for part in parts for name in part.errors()["where"].tolist()]
    # As if they had been made, so that the draw is the same; images that were never planned are still refused.
    drawn_from = pd.DataFrame({name: [*fakes[name], *failed] for name in fakes})
    tables = {}
    for alpha in alphas:
        wanted = substitute(labels, drawn_from, alpha, seed=seed)
        missing = sorted(set(wanted.replacement).intersection(failed))
        chosen = replace(wanted, replacement={k: v for k, v in wanted.replacement.items() if k not in missing})
        manifest = json.dumps(chosen.manifest() | {"not_generated": missing}, indent=1)
        # before the table, whose presence says that all is there
        with file_to_write(folder / f"D{alpha:g}.json", overwrite=True) as path:
            write_whole(path, (manifest + "\n").encode())
        tables[alpha] = write_mixture(real, parts, chosen, folder / f"D{alpha:g}")
    return tables
