"""Counterfactual sets from beginning to end on the miniature generator: made jointly, filtered, judged, shown.

SocialCounterfactuals (Howard et al., CVPR 2024) on pictograms, where an independent judge knows what a picture shows.
Sets of twelve (two genders, three skin tones, two ages of one scene) are made from shared noise with attention
sharing, several candidates per set, from captions that name the person and, as the paper's, no place. A filter that
sees with the fair CLIP chooses; the judge, which no filter may ask, says how many pictures show what was asked for,
before and after. Beside them stand the same seeds without sharing, for what sharing does to backgrounds and to
attributes. The pictures are signs, not people.

Everything is resumable: called again with the same settings it goes on where it stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from equipoise.data import Table, write_results
from equipoise.data.atomic import write_whole
from equipoise.data.runs import RunFolder, claimed, file_to_write
from equipoise.errors import InputError
from equipoise.filters import FilterRun, Models, Step
from equipoise.filters import run as run_filters
from equipoise.formatting import text_table
from equipoise.generate import SetsConfig, contact_sheet, plan_sets, run, world_sets
from equipoise.measure.notes import Note
from equipoise.measure.stats.estimate import Estimate
from equipoise.recipes.set_figures import (
    Pool,
    accuracies,
    between_seeds,
    described,
    inside_sets,
    paired,
    person_masks,
    ratio,
)
from equipoise.recipes.train_mini.pictures import OWN_SHEET, write_sheet
from equipoise.world import WorldConfig, prompts
from equipoise.world.catalog import OCCUPATIONS

Say = Callable[[str], None]
AXES = ("gender", "skin_tone", "age")
ASKED = ("gender", "skin_tone")
"""What the sets are about; ages only make them twelve."""
FILTER_MODEL = "mini:clip-fair"
JUDGE = "mini:judge"
DETECTOR = "mini:detector"
LEAST = 0.9
"""The share of a set that the filter must recognise on every axis."""
SHOWN = 4
GUIDANCE = (1.5, 3.0)
"""Between which guidance is drawn: the miniature is meant for 2, and the paper's 7.5 to 15 would burn its pictures."""
BEGIN, END = "<!-- counterfactual sets: begin -->", "<!-- counterfactual sets: end -->"


@dataclass(frozen=True)
class SetsSettings:
    """How many sets, and how they are made."""

    subjects: int = 10
    sets: int = 6
    """Caption sets of each subject."""
    candidates: int = 4
    """Sets that are made of each caption set, to choose from."""
    inject: str = "self"
    blend: bool = True
    """Also keep the first picture where other words change little; without it the place follows the words."""
    share: tuple[float, float] = (0.1, 0.9)
    guidance: tuple[float, float] = GUIDANCE
    steps: int | None = None
    compare: tuple[str, ...] = ()
    """Other kinds of sharing to put beside it (``cross``, ``both``, ``self+blend``, ...), on the first candidates."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.subjects <= len(OCCUPATIONS) or self.sets < 1:
            raise InputError(
                f"subjects={self.subjects}, sets={self.sets}: from 1 to {len(OCCUPATIONS)} subjects and at least one "
                "set of each are needed"
            )
        self.arms()  # a name that cannot be is refused before anything is made

    def config(self) -> SetsConfig:
        """How the candidates are made."""
        return SetsConfig(
            candidates=self.candidates,
            inject=self.inject,
            blend=self.blend,
            share=self.share,
            guidance=self.guidance,
            steps=self.steps,
            seed=self.seed,
        )

    def arms(self) -> dict[str, SetsConfig]:
        """What is compared on the first candidate of every set: the same seeds and guidance, shared differently."""
        first = replace(self.config(), candidates=1)
        arms = {"no sharing": replace(first, share=(0.0, 0.0), blend=False)}
        for name in self.compare:
            inject, _, more = name.partition("+")
            if more not in ("", "blend"):
                raise InputError(f"compare={name!r}: self, cross or both is expected, with +blend or without")
            if name != self.name:  # the first candidates of the run itself are compared anyway
                arms[name] = replace(first, inject=inject, blend=bool(more))
        return arms

    @property
    def name(self) -> str:
        """How sharing is done, in a word."""
        return self.inject + ("+blend" if self.blend else "")


@dataclass(frozen=True)
class TableLine:
    """One line of the table."""

    pool: str
    name: str
    value: Estimate
    wanted: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        """The line as texts."""
        low, high = self.value.ci_low, self.value.ci_high
        interval = "" if low is None or high is None else f"{low:.3f} to {high:.3f}"
        chance = "" if self.value.null_mean is None else f"{self.value.null_mean:.3f}"
        p = "" if self.value.p_value is None else f"{max(self.value.p_value, 0.001):.3f}"
        verdict = f"{self.wanted}{'' if self.met else ' MISSED'}" if self.wanted else ""
        return (self.pool, self.name, f"{self.value.value:.3f}", interval, chance, p, str(self.value.n), verdict)


@dataclass(frozen=True)
class SetsFound:
    """What was made and found."""

    folder: Path
    figures: tuple[TableLine, ...]
    filtered: FilterRun
    notes: tuple[str, ...]
    pictures: tuple[Path, ...]

    def __str__(self) -> str:
        rows = [_HEAD, *(figure.cells() for figure in self.figures)]
        return "\n".join([*text_table(rows, left=range(len(_HEAD))), *(f"note: {note}" for note in self.notes)])

    def markdown(self) -> str:
        """The table for a page of the documentation."""
        rows = [_HEAD, ("---",) * len(_HEAD), *(figure.cells() for figure in self.figures)]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        return "\n".join([*lines, "", *(f"- {note}" for note in self.notes)]) + "\n"


_HEAD = ("pictures", "figure", "value", "95% interval", "chance", "p", "n", "wanted")


def counterfactual_sets(
    folder: Path,
    settings: SetsSettings,
    say: Say,
    *,
    generator: Any = "mini:diffusion",
    pictures: Path | None = None,
    progress: bool = True,
    overwrite: bool = False,
) -> SetsFound:
    """Make, filter and judge the sets in ``folder``; contact sheets go to ``pictures`` (``folder`` unless given).

    ``generator``: a name or an adapter that makes sets. The filter is similarity and detectability by the fair CLIP.
    """
    with claimed(folder, "sets", settings=asdict(settings), overwrite=overwrite) as claim:
        return _studied(claim, settings, say, generator, pictures, progress)


def _studied(
    claim: RunFolder, settings: SetsSettings, say: Say, generator: Any, pictures: Path | None, progress: bool
) -> SetsFound:
    from equipoise.models import load

    folder = claim.folder
    model = load(generator, kind="generator", device="cpu") if isinstance(generator, str) else generator
    world = WorldConfig(age={"adult": 1, "older": 1})
    names = spread_subjects(settings.subjects)
    texts = world_sets(world, names, AXES, n=settings.sets, seed=settings.seed, place=False)
    plan = plan_sets(texts, settings.config())
    say(f"1. {plan.n_images:,} pictures: {len(texts)} caption sets, {settings.candidates} candidates of each")
    sets = run(plan, folder / "sets", model, progress=progress, preview_every=480)
    tables = {}
    for name, config in settings.arms().items():
        say(f"2. the first candidates again, from the same seeds: {name}")
        place = folder / f"sets-{name.replace(' ', '-').replace('+', '-')}"
        tables[name] = run(plan_sets(texts, config), place, model, progress=progress)
    say(f"3. the filter: similarity and detectability, seen by {FILTER_MODEL}")
    filtered = run_filters(
        sets, filter_steps(world), folder / "filter", models=Models(encoder=FILTER_MODEL), axes=AXES, seed=settings.seed
    )
    say(str(filtered))
    say(f"4. the judge: {JUDGE}")
    pools, notes = _pools({settings.name: sets, **tables})
    keep = filtered.table.to_pandas(["image_id", "keep"]).set_index("image_id")["keep"].fillna(False)
    kept = keep.reindex(pools[settings.name].frame["image_id"]).to_numpy(dtype=bool)
    figures = _figures(settings, pools, kept, world)
    rows = [figure.value.row(metric=figure.name, pool=figure.pool, model=str(model.name)) for figure in figures]
    write_results(claim.stage / "results.parquet", rows)
    sheets = [_written(sheet, name, claim, pictures) for name, sheet in _sheets(settings, pools, kept).items()]
    notes = [*_counts(pools[settings.name], kept), *notes, *_without_interval(figures)]
    done = SetsFound(folder, tuple(figures), filtered, tuple(notes), tuple(sheets))
    write_whole(claim.stage / "figures.md", done.markdown().encode())
    write_whole(claim.stage / "settings.json", (json.dumps(asdict(settings), indent=1) + "\n").encode())
    claim.publish()
    return done


def _written(sheet: Image.Image, name: str, claim: RunFolder, pictures: Path | None) -> Path:
    """Where a contact sheet will be: in the study's folder, or in another's, where nobody's picture is replaced."""
    if pictures is None:
        write_sheet(sheet, claim.stage / name)
        return claim.folder / name
    pictures.mkdir(parents=True, exist_ok=True)
    with file_to_write(pictures / name, overwrite=claim.overwrite, own=OWN_SHEET) as path:
        write_sheet(sheet, path)
    return path


def put_into(page: Path, outcome: SetsFound) -> None:
    """Put the table and the contact sheets between the marks of a page of the documentation."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise InputError(f"{page}: the marks {BEGIN} and {END} are missing; write them where the table belongs")
    places = [Path(os.path.relpath(path, page.parent)) for path in outcome.pictures]
    sheets = [f"![{path.stem}]({path.as_posix()})" for path in places]
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    block = "\n\n".join([outcome.markdown().rstrip(), *sheets])
    write_whole(page, f"{before}{BEGIN}\n\n{block}\n\n{END}{after}".encode())


def spread_subjects(n: int) -> list[str]:
    """``n`` occupations, spread evenly over the alphabet."""
    names = sorted(OCCUPATIONS)
    return [names[i * len(names) // n] for i in range(n)]


def filter_steps(world: WorldConfig) -> list[Step]:
    """Do pictures fit their captions and each other, and does a model recognise subject, gender and skin tone?"""
    words = {axis: prompts(axis, world) for axis in ASKED}
    detect = {"axes": ASKED, "least": LEAST, "subject_least": LEAST, "prompts": words}
    return [Step.of("similarity", preset="socialcf"), Step.of("detectability", detect)]


def _pools(tables: dict[str, Table]) -> tuple[dict[str, Pool], list[str]]:
    from equipoise.models import load
    from equipoise.models.miniatures import FOLDER

    judge = load(JUDGE, kind="classifier", device="cpu")
    there = (FOLDER / DETECTOR.partition(":")[2]).is_dir()
    detector = load(DETECTOR, kind="detector", device="cpu") if there else None
    pools, notes = {}, []
    for name, table in tables.items():
        columns = ["image_id", "set_id", "prompt_set", "candidate", "caption", "subject", *AXES]
        images = [image for _, image in table.images()]
        stacked = np.stack([np.asarray(image) for image in images])
        seen = {head: np.array(answer.best) for head, answer in judge.classify(images).items()}
        masks, how = person_masks(stacked, detector)
        notes.append(f"{name}: {how}")
        if table.n_errors:
            notes.append(f"{name}: {table.n_errors} sets failed")
        pools[name] = Pool(table.to_pandas(columns), stacked, seen, masks)
    return pools, notes


def _figures(settings: SetsSettings, pools: dict[str, Pool], kept: Any, world: WorldConfig) -> list[TableLine]:
    axes = {axis: len(world.groups(axis)) for axis in AXES} | {"occupation": len(OCCUPATIONS)}
    own = pools[settings.name]
    first = own.part(own.frame["candidate"].to_numpy() == 0)
    arms = {f"first candidates, {settings.name}": first}
    arms |= {f"first candidates, {name}": pool for name, pool in pools.items() if name != settings.name}
    figures = []
    for pool, part in {"before the filter": own, "after the filter": own.part(kept), **arms}.items():
        if not len(part.frame):
            continue
        for axis, value in accuracies(part, axes, ASKED).items():
            asked = pool == "after the filter" and axis == "attributes"
            rule = (">= 0.9", value.value >= 0.9) if asked else ("", None)
            figures.append(TableLine(pool, f"{axis} as asked", value, *rule))
    inside = {name: inside_sets(part) for name, part in arms.items()}
    all_inside = inside_sets(own)
    figures.append(TableLine("before the filter", "background difference inside sets", described(all_inside)))
    for name, values in inside.items():
        figures.append(TableLine(name, "background difference inside sets", described(values)))
    if settings.candidates > 1:
        between = between_seeds(own)
        figures.append(TableLine("before the filter", "background difference between seeds", described(between)))
        share = ratio(all_inside, between)
        figures.append(TableLine("before the filter", "inside over between", share, "<= 0.1", share.value <= 0.1))
        if kept.any():
            after = ratio(inside_sets(own.part(kept)), between)
            figures.append(TableLine("after the filter", "inside over between", after))
    plain = inside["first candidates, no sharing"]
    gap = paired(inside[f"first candidates, {settings.name}"], plain)
    figures.append(TableLine(f"{settings.name} - no sharing", "background difference", gap, "< 0", gap.value < 0))
    return figures


def _counts(own: Pool, kept: Any) -> list[str]:
    sets = own.frame.assign(kept=kept).groupby(["subject", "prompt_set", "set_id"], sort=True)["kept"].all()
    by_caption = sets.groupby(level="prompt_set").any()
    by_subject = sets.groupby(level="subject").any()
    counts = (
        f"{int(sets.sum())} of {len(sets)} candidates stay; {int(by_caption.sum())} of {len(by_caption)} caption sets "
        f"and {int(by_subject.sum())} of {len(by_subject)} subjects have one"
    )
    return [counts]


def _without_interval(figures: Sequence[TableLine]) -> list[str]:
    """Why some figures have no interval."""
    reasons: dict[str, dict[str, None]] = {}
    for figure in figures:
        for note in figure.value.notes:
            if isinstance(note, Note) and note.code == "no_interval":
                reasons.setdefault(note, {})[figure.name] = None
    return [f"{', '.join(names)}: {note}" for note, names in reasons.items()]


def _sheets(settings: SetsSettings, pools: dict[str, Pool], kept: Any) -> dict[str, Image.Image]:
    """Sets with and without sharing from the same seed, and candidates that stayed and went; failures are framed."""
    own = pools[settings.name]
    flags = own.frame.assign(kept=kept).groupby(["prompt_set", "candidate"], sort=True)["kept"].all()
    chosen = own.frame.drop_duplicates("subject")["prompt_set"].tolist()[:SHOWN]
    arms: list[_Line] = [(name, pools[name], prompt_set, 0) for prompt_set in chosen for name in pools]
    filtered: list[_Line] = [
        ("stays" if stays else "goes", own, prompt_set, int(k))
        for prompt_set in chosen[:2]
        for k, stays in flags[prompt_set].items()
    ]
    return {"counterfactual-sets.png": _sheet(arms), "counterfactual-sets-filter.png": _sheet(filtered)}


_Line = tuple[str, Pool, str, int]
"""What a line of a sheet is called, and whose set it shows: the pool, the caption set, the candidate."""


def _sheet(lines: Sequence[_Line]) -> Image.Image:
    tiles, wrong, across = [], [], 1
    for caption, pool, prompt_set, candidate in lines:
        mine = (pool.frame["prompt_set"] == prompt_set) & (pool.frame["candidate"] == candidate)
        part = pool.part(mine.to_numpy())
        across = max(across, len(part.frame))
        labels = part.frame[["subject", *AXES]].astype(str).agg(" ".join, axis=1)
        tiles += [(f"{caption}: {label}", Image.fromarray(im)) for label, im in zip(labels, part.images, strict=True)]
        wrong += (~np.all([part.right(axis) for axis in (*ASKED, "occupation")], axis=0)).tolist()
    return contact_sheet(tiles, columns=across, side=96, marked=wrong)
