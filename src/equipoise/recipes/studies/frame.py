"""The frame of a study: steps that are done once, then tables and figures, then one page.

A study is a list of :class:`StudyStep` and a function that reads what they left and says it in parts, one for each
table or figure of the paper. A step fills one folder under ``steps``; when it is done a small file beside the folder
says so, with a key made of all that the step depends on. Called again, a study skips what is done, does anew what has
changed, and goes on with what was stopped, also by SIGKILL.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from equipoise.data.atomic import sha256_of, write_whole
from equipoise.data.manifest import MANIFEST, fingerprint_of
from equipoise.data.runs import Run, claimed
from equipoise.data.settings import Settings
from equipoise.errors import InputError, UnknownNameError
from equipoise.formatting import text_table
from equipoise.models.folders import local_contents
from equipoise.report.study import StudyPage, StudyPart, write_study

Say = Callable[[str], None]
STEPS = "steps"


@dataclass(frozen=True)
class StudyOptions(Settings):
    """What a study is told.

    >>> StudyOptions(scale="huge")
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no scale named 'huge'; known: full, mini
    """

    what: ClassVar[str] = "setting of a study"

    scale: Literal["mini", "full"] = "mini"
    models: tuple[str, ...] = ()
    """The models to ask; the study's own unless given. ``table:FOLDER`` is a model of precomputed embeddings."""
    given: dict[str, str] = field(default_factory=dict)
    """What was computed or downloaded before, by the study's names for it."""
    seed: Annotated[int, Field(ge=0)] = 0
    quick: bool = False
    """Less of everything, for studies that have such a form."""
    own: dict[str, Any] = field(default_factory=dict)
    """What one study alone is told, as its own class of settings takes it."""


@dataclass(frozen=True)
class StepCost:
    """What a step needs, as a plan prints it before anything is done. Hours are estimates for one A100."""

    models: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    images: int = 0
    gpu_hours: float = 0.0
    cpu_minutes: float = 0.0
    disk_gb: float = 0.0


@dataclass(frozen=True)
class StudyStep:
    """One piece of work that fills the folder ``steps/NAME``."""

    name: str
    title: str
    work: Callable[[StudyHome, Path], None]
    """Fills the folder it is given, which may hold what a stopped run left if the step ``resumes``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All that its outcome depends on beside the steps that it ``needs``; plain values. Of a model that lies in a local
    folder (``hf:DIR``, here or in the ``cost``) what is in it counts too."""
    needs: tuple[str, ...] = ()
    resumes: bool = True
    """Whether the work goes on in a folder that was begun; otherwise the folder is cleared first."""
    cost: StepCost = StepCost()
    missing: str = ""
    """What must be given before this step can run, in a sentence; a plan shows it, a run refuses."""
    reads: tuple[str, ...] = ()
    """What it reads of what may be given: names, or NAME/FILE of a folder. With other contents it is done again."""


@dataclass(frozen=True)
class Covered:
    """A table or figure of the paper: what it is regenerated from, or why it cannot be."""

    name: str
    what: str
    made_from: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class Study:
    """One paper as steps and parts."""

    name: str
    title: str
    citation: str
    question: str
    covers: tuple[Covered, ...]
    steps: Callable[[StudyOptions], list[StudyStep]]
    parts: Callable[[StudyHome], list[StudyPart]]
    takes: Mapping[str, str] = field(default_factory=dict)
    """What may be given with ``--from NAME=PATH``, in words; the first takes a path without a name."""
    limits: tuple[str, ...] = ()
    quickens: bool = False
    """Whether it has a quick form."""
    own: type[Settings] | None = None
    """The settings of this study alone."""
    parts_read: tuple[str, ...] = ()
    """What the parts read of what may be given, beside the steps."""

    def options(
        self,
        *,
        scale: str = "mini",
        models: Sequence[str] = (),
        given: Sequence[str] = (),
        seed: int = 0,
        quick: bool = False,
        own: Mapping[str, Any] | None = None,
    ) -> StudyOptions:
        """The options from what a user types; a name that the study does not take is refused."""
        if quick and not (self.quickens and scale == "mini"):
            raise InputError(f"the study {self.name} has no quick form at scale {scale}; leave --quick out")
        paths: dict[str, str] = {}
        for text in given:
            name, equals, path = text.partition("=")
            if not equals or Path(text).exists():
                if not self.takes:
                    raise InputError(f"the study {self.name} takes nothing with --from")
                name, path = next(iter(self.takes)), text
            if name not in self.takes:
                raise UnknownNameError(f"input of the study {self.name}", name, list(self.takes))
            if not Path(path).exists():
                raise InputError(f"--from {text}: {path} does not exist")
            paths[name] = path
        if own and self.own is None:
            raise InputError(f"the study {self.name} has no settings of its own, such as {next(iter(own))}")
        if own and self.own is not None:
            self.own().having(own)  # refuses what does not fit
        chosen = {"scale": scale, "models": tuple(models), "given": paths, "seed": seed, "quick": quick}
        chosen["own"] = dict(own or {})
        return StudyOptions().having(chosen)

    def planned(self, options: StudyOptions) -> list[StudyStep]:
        """The steps with these options; what was given and would not be read is refused."""
        steps = self.steps(options)
        read = {name.partition("/")[0] for step in steps for name in step.reads} | set(self.parts_read)
        for name in options.given:
            if name not in read:
                raise InputError(
                    f"--from {name}: the study {self.name} does not read it at scale {options.scale} with what else is "
                    f"given; {name} is {self.takes[name]}"
                )
        return steps


@dataclass(frozen=True)
class StudyHome:
    """Where the steps of a study lie, for steps that read others and for the parts."""

    folder: Path
    options: StudyOptions
    say: Say

    def step(self, name: str) -> Path:
        """The folder of a step."""
        return self.folder / STEPS / name

    def has(self, name: str) -> bool:
        """Whether a step is done."""
        return self._mark(name).is_file()

    def done(self, pattern: str) -> list[str]:
        """The steps that are done and whose names fit ``pattern``, with ``*`` for anything, in order of their names."""
        return [mark.stem for mark in sorted((self.folder / STEPS).glob(f"{pattern}.json"))]

    def seconds(self) -> float:
        """How long all steps took, in this call and in earlier ones."""
        marks = (self.folder / STEPS).glob("*.json")
        return sum(float(json.loads(mark.read_text(encoding="utf-8"))["seconds"]) for mark in marks)

    def _mark(self, name: str) -> Path:
        return self.folder / STEPS / f"{name}.json"

    def run(self, steps: Sequence[StudyStep]) -> None:
        """Do every step that is not done yet, in order."""
        keys: dict[str, str] = {}
        inputs = _Inputs(self.options.given)
        for number, step in enumerate(steps, 1):
            keys[step.name] = key = _key(step, keys, inputs)
            folder, mark = self.step(step.name), self._mark(step.name)
            head = f"{number}/{len(steps)} {step.title}"
            if mark.is_file() and json.loads(mark.read_text(encoding="utf-8")).get("key") == key:
                self.say(f"{head}: done before")
                continue
            begun = mark.with_suffix(".begun")
            same = not mark.is_file() and begun.is_file() and begun.read_text(encoding="utf-8") == key
            if not (same and step.resumes):  # done or begun with other settings, or it cannot go on
                mark.unlink(missing_ok=True)
                shutil.rmtree(folder, ignore_errors=True)
            self.say(head)
            folder.parent.mkdir(parents=True, exist_ok=True)
            write_whole(begun, key.encode())
            start = time.perf_counter()
            step.work(self, folder)
            seconds = round(time.perf_counter() - start, 1)
            write_whole(mark, (json.dumps({"key": key, "seconds": seconds, "title": step.title}) + "\n").encode())
            begun.unlink(missing_ok=True)


@dataclass(frozen=True)
class StudyDone:
    """What a study left: its folder, its page, and the parts as text."""

    folder: Path
    page: Path
    parts: tuple[StudyPart, ...]
    seconds: float

    def __str__(self) -> str:
        return "\n\n".join(str(part) for part in self.parts)


def run_study(study: Study, out: str | Path, options: StudyOptions, say: Say, *, overwrite: bool = False) -> StudyDone:
    """Do ``study`` in the folder ``out`` and write its page, its tables as CSV and its figures as SVG."""
    steps = study.planned(options)
    _check(steps)
    folder = Path(out)
    settings = {"study": study.name, **options.plain()}
    with claimed(
        folder, "study", of={"study": study.name}, settings=settings, accept=_only(settings), overwrite=overwrite
    ) as home:
        place = StudyHome(folder, options, say)
        place.run(steps)
        _clear_others(folder / STEPS, {step.name for step in steps})
        parts = study.parts(place)
        page = StudyPage(
            title=study.title,
            citation=study.citation,
            question=study.question,
            facts=(f"scale {options.scale}", f"{len(steps)} steps", f"{place.seconds() / 60:.1f} minutes of work"),
            parts=tuple(parts),
            missing=tuple((item.name, item.what, item.why_not) for item in study.covers if item.why_not),
            limits=study.limits,
        )
        write_study(page, home.stage)
        home.publish()
    return StudyDone(folder, folder / "report.html", tuple(parts), place.seconds())


def plan_text(study: Study, options: StudyOptions) -> str:
    """Every step with its models, data, images, hours and disk, and the sums; what a dry run prints."""
    steps = study.planned(options)
    rows = [["step", "images", "GPU-hours", "CPU-minutes", "disk, GB", "what"]]
    for number, step in enumerate(steps, 1):
        cost = step.cost
        numbers = (f"{cost.images:,}", *map(_hours, (cost.gpu_hours, cost.cpu_minutes, cost.disk_gb)))
        rows.append([f"{number} {step.name}", *(n if n not in ("0", "") else "" for n in numbers), step.title])
    sums = [sum(getattr(step.cost, name) for step in steps) for name in ("gpu_hours", "cpu_minutes", "disk_gb")]
    images = sum(step.cost.images for step in steps)
    rows.append(["total", f"{images:,}", *map(_hours, sums), ""])
    lines = [f"{study.title}, scale {options.scale}", "", *text_table(rows, left=(0, 5))]
    for name in ("models", "data"):
        named = dict.fromkeys(value for step in steps for value in getattr(step.cost, name))
        if named:
            lines += ["", f"{name}:", *(f"  {value}" for value in named)]
    missing = list(dict.fromkeys(step.missing for step in steps if step.missing))
    if missing:
        lines += ["", "before it can run:", *(f"  {sentence}" for sentence in missing)]
    if options.scale == "full":
        lines += ["", "GPU-hours are estimates for one A100 and half precision; nothing was run to measure them."]
    return "\n".join(lines)


def coverage_text(study: Study) -> str:
    """What a study regenerates of its paper, from what, and what it cannot and why; what ``recipe list`` prints."""
    rows = [[item.name, item.what, item.made_from] for item in study.covers if not item.why_not]
    lines = [f"{study.name}: {study.citation}", *text_table([["regenerated", "what", "from"], *rows], left=(0, 1, 2))]
    missing = [[item.name, item.what, item.why_not] for item in study.covers if item.why_not]
    if missing:
        lines += ["", *text_table([["not here", "what", "why"], *missing], left=(0, 1, 2))]
    if study.takes:
        lines += ["", "--from takes:", *(f"  {name}=PATH  {what}" for name, what in study.takes.items())]
    return "\n".join(lines)


def outside_step(name: str, title: str, missing: str = "", **cost: Any) -> StudyStep:
    """A step that stands in a plan for its ``cost``: its outcome comes from outside, with ``--from``."""

    def work(home: StudyHome, out: Path) -> None:
        raise InputError(f"{name}: what this step makes must be given with --from; --dry-run says what")

    return StudyStep(name, title, work, cost=StepCost(**cost), missing=missing)


def _hours(value: float) -> str:
    return "" if not value else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


class _Inputs:
    """What tells the contents of what was given from others, found once for each."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = given
        self._known: dict[str, str] = {}

    def of(self, reads: Sequence[str]) -> dict[str, str]:
        """By what a step reads; nothing of what was not given."""
        for name in reads:
            first, _, file = name.partition("/")
            if first in self.given and name not in self._known:
                self._known[name] = contents_of(Path(self.given[first]) / file)
        return {name: self._known[name] for name in reads if name in self._known}

    def models(self, step: StudyStep) -> dict[str, str]:
        """By the names of the models of a step that lie on this machine; names of the Hub mean the same tomorrow."""
        specs = sorted({*_texts(step.settings), *step.cost.models})
        for spec in specs:
            if spec not in self._known:
                self._known[spec] = local_contents(spec)
        return {spec: self._known[spec] for spec in specs if self._known[spec]}


def _texts(value: Any) -> Iterator[str]:
    """All texts in plain values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from (text for inside in value.values() for text in _texts(inside))
    elif isinstance(value, list | tuple):
        yield from (text for inside in value for text in _texts(inside))


def contents_of(path: Path) -> str:
    """The fingerprint of a table, the SHA-256 of a file, and one over all files of any other folder."""
    if path.is_file():
        return sha256_of(path)
    if (path / MANIFEST).is_file():
        return fingerprint_of(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    about = [[file.relative_to(path).as_posix(), sha256_of(file)] for file in files]
    return sha256(json.dumps(about).encode()).hexdigest()


def _key(step: StudyStep, keys: Mapping[str, str], inputs: _Inputs) -> str:
    for need in step.needs:
        if need not in keys:
            raise ValueError(f"the step {step.name!r} needs {need!r}, which does not stand before it")
    about: list[Any] = [step.name, dict(step.settings), [keys[need] for need in step.needs]]
    read = inputs.of(step.reads)
    about += [read] if read else []
    models = inputs.models(step)
    about += [models] if models else []
    return blake2b(json.dumps(about, sort_keys=True, default=str).encode(), digest_size=12).hexdigest()


def _check(steps: Sequence[StudyStep]) -> None:
    missing = list(dict.fromkeys(step.missing for step in steps if step.missing))
    if missing:
        raise InputError("; ".join(missing) + " (--dry-run shows every step)")


def _only(settings: Mapping[str, Any]) -> Callable[[Run], None]:
    """Refuses the folder of another study; the same one with other options does again what depends on them."""

    def accept(run: Run) -> None:
        earlier = run.settings.get("study")
        if earlier != settings["study"]:
            raise InputError(f"{run.folder}: holds the study {earlier}; give another folder with -o")
        if run.settings.get("scale") != settings["scale"]:
            raise InputError(
                f"{run.folder}: holds the study at scale {run.settings.get('scale')}; give another folder with -o"
            )

    return accept


def _clear_others(folder: Path, names: set[str]) -> None:
    """Take away steps that these options do not have."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.removesuffix(".json").removesuffix(".begun") not in names:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
