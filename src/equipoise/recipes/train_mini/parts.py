"""The miniatures by name, and how to make one.

What a miniature's figures must reach before it ships.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.models import miniatures

if TYPE_CHECKING:
    from equipoise.train.schedule import Schedule
    from equipoise.world import WorldConfig

_CLIP = {f"zero-shot {axis}": ">= 0.95" for axis in ("gender", "skin_tone", "age", "occupation", "scene")}
_FAST = {"seconds per image": "<= 0.5"}
_CHANGED = {"gender": ">= 0.95", "skin_tone": ">= 0.95", "scene kept": ">= 0.98", "changed outside": "<= 0"}
_WANTED = {
    "clip": {**_CLIP, "gap-odds correlation": ">= 0.95"},
    "clip-fair": {
        **_CLIP,
        "gap-odds slope low": "<= 0",
        "gap-odds slope high": ">= 0",
        "gap-odds slope over clip's": "<= 0.1",
    },
    "clip-binding": {
        "binding-odds correlation": ">= 0.95",
        "control: binding-odds slope low": "<= 0",
        "control: binding-odds slope high": ">= 0",
    },
    "judge": dict.fromkeys(
        ("gender", "skin_tone", "age", "occupation", "activity", "scene", "people", "objects"), ">= 0.98"
    ),
    "captioner": {"occupation": ">= 0.9", "scene": ">= 0.9"},
    "dcg": {"gender corrected": ">= 0.9", "work corrected": ">= 0.8", "left alone": ">= 0.9"},
    "vae": {"PSNR": ">= 31"},
    "diffusion": {
        "gender": ">= 0.97",
        "skin_tone": ">= 0.97",
        "occupation": ">= 0.97",
        "scene": ">= 0.98",
        **_FAST,
    },
    "diffusion-biased": {"skew-odds correlation": ">= 0.95", "skew-odds slope": "0.8 to 1.3", **_FAST},
    "inpaint": {**_CHANGED, "worded for photographs: skin_tone": ">= 0.9"},
    "edit": {**_CHANGED, "box: gender": ">= 0.95", "box: skin_tone": ">= 0.95", "box: scene kept": ">= 0.98"},
    "detector": {"class-set F1": ">= 0.9", "person-box F1": ">= 0.9", "head-box F1": ">= 0.9"},
    "safety": {"recall at 1% false alarms": ">= 0.95"},
    "text": {
        "top-5 where determined": ">= 0.8",
        "occupations among the top 5": ">= 0.8",
        "skew-odds correlation": ">= 0.9",
    },
}


def wanted(part: str) -> dict[str, str]:
    """The rule of each figure that has one.

    >>> wanted("judge")["age"], wanted("vae")["PSNR"]
    ('>= 0.98', '>= 31')
    """
    return dict(_WANTED.get(part, {}))


def is_met(rule: str, value: float) -> bool:
    """Whether ``value`` keeps a rule.

    >>> is_met(">= 0.95", 0.97), is_met("<= 0", 0.1), is_met("0.8 to 1.3", 1.1)
    (True, False, True)
    """
    if " to " in rule:
        low, high = rule.split(" to ")
        return float(low) <= value <= float(high)
    sign, limit = rule.split()
    return value >= float(limit) if sign == ">=" else value <= float(limit)


@dataclass(frozen=True)
class TrainingPart:
    """One miniature: what it is and the world it learns from."""

    name: str
    about: str
    world: str


@dataclass(frozen=True)
class Lesson:
    """What the trainer of a miniature is told; :func:`train` says what each is."""

    world: WorldConfig
    folder: Path
    """Of checkpoints."""
    target: Path
    """Of the finished model."""
    say: Callable[[str], None]
    stop_at: int | None = None
    edition: str = "second"
    vae: Path | None = None
    start: Path | None = None
    before: Path | None = None
    steps: int | None = None

    def learn(
        self, model: Any, loss: Callable[[Any, int], Any], schedule: Schedule, save: Callable[[Path], None]
    ) -> None:
        """Train ``model`` from where it was stopped, and ``save`` it in the target unless it is to stop again."""
        from equipoise.train.loop import one_thread, run
        from equipoise.train.processes import Processes

        run(model, loss, schedule, self.folder, self.say, stop_at=self.stop_at)
        if self.stop_at is None:
            with one_thread(Processes()):  # what is saved may be computed too
                save(self.target)


_WORLDS = {
    "biased": ("clip", "captioner", "dcg", "diffusion-biased", "text"),
    "binding": ("clip-binding",),
}
"""The parts that learn from another world than the fair one."""
PARTS = {
    name: TrainingPart(name, about, next((world for world, taught in _WORLDS.items() if name in taught), "fair"))
    for name, (_, about) in miniatures.PARTS.items()
}


def train(
    name: str,
    folder: Path,
    target: Path,
    say: Callable[[str], None] = print,
    *,
    stop_at: int | None = None,
    strength: float | None = None,
    edition: str | None = None,
    vae: Path | None = None,
    start: Path | None = None,
    before: Path | None = None,
    steps: int | None = None,
) -> None:
    """Train a miniature; a run that was stopped goes on from its checkpoint.

    Args:
        name: of the part, one of ``PARTS``.
        folder: of checkpoints.
        target: the folder of the finished model.
        say: is told the lines of progress.
        stop_at: stop after so many steps, as if killed then; no model is saved. Refused for ``dcg``.
        strength: makes the part's world lean more or less than it does.
        edition: that of the autoencoder (part ``vae`` alone); the second, which ships, unless given.
        vae: the folder of the autoencoder of a generator, which is of its edition; the package's own unless given.
        start: the folder of the model that a generator or the ``detector`` goes on from: the part itself, which then
            learns on, or ``diffusion``, with which the other generators begin (the package's own unless given).
        before: the folder of the miniatures of another edition; generators that go on from ``diffusion`` also take over
            what they had learnt there.
        steps: how many steps a part learns on for; only with ``start``.
    """
    from equipoise.recipes.train_mini.editions import edition as known
    from equipoise.world import preset

    if name not in PARTS:
        raise UnknownNameError("miniature", name, PARTS)
    if edition is not None and name != "vae":
        raise InputError(f"an edition is given to vae alone; the {name} is of the edition of its autoencoder")
    of = known("second" if edition is None else edition).name
    for option, value, takers in (
        ("vae", vae, _GENERATORS),
        ("start", start, _LEARN_ON),
        ("before", before, _TAKE_OVER),
    ):
        if value is not None and name not in takers:
            raise InputError(f"the {name} takes no --{option}; these do: {', '.join(takers)}")
    if steps is not None and start is None:
        raise InputError("--steps is for a part that learns on; say from which folder with --start")
    world = preset(PARTS[name].world)
    if strength is not None:
        if name in _ALONE:
            raise InputError(f"the {name} learns from the fair world alone; strength does not apply to it")
        world = world.changed(strength=strength)
    module, function = _TRAINERS[name].split(":")
    trainer = getattr(import_module(f"equipoise.recipes.{module}"), function)
    trainer(Lesson(world, folder, target, say, stop_at, of, vae, start, before, steps))


def train_into(
    name: str,
    target: Path,
    say: Callable[[str], None] = print,
    *,
    work: Path | None = None,
    overwrite: bool = False,
    **options: Any,
) -> None:
    """As :func:`train`, into a folder that this process alone writes and where the model appears whole.

    Only a finished model is put there, so ``stop_at`` is refused; :func:`train` takes it.
    The same call goes on from the checkpoints in ``work`` (beside ``target`` unless given). Checkpoints or a model of
    other settings are refused, unless ``overwrite`` says that they go.
    """
    from equipoise.data.atomic import locked, write_whole
    from equipoise.data.runs import beside, claimed, same_only

    if name not in PARTS:
        raise UnknownNameError("miniature", name, PARTS)
    if options.get("stop_at") is not None:
        raise InputError(f"with stop_at the {name} is not finished and has no model to keep; leave it out")
    folder = work or beside(target, "work")
    of = {"part": name}
    given = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
    settings = {key: value for key, value in given.items() if value is not None}
    accept = same_only("miniature", of, settings)
    with claimed(target, "miniature", of=of, settings=settings, accept=accept, overwrite=overwrite) as run:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / ".lock", what=f"the folder {folder}"):
            for left in folder.rglob(".*.tmp"):  # of one that was killed
                left.unlink()
            said, asked = folder / _ASKED, json.dumps(of | settings, sort_keys=True) + "\n"
            if said.is_file() and said.read_text(encoding="utf-8") != asked:
                if not overwrite:
                    raise InputError(f"{folder}: holds checkpoints of another miniature; name another with --work")
                for path in folder.glob("[!.]*"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            write_whole(said, asked.encode())
            train(name, folder, run.stage, say, **options)
        run.publish()


_ASKED = "asked.json"
"""In a folder of checkpoints: the part and the settings that they are of."""


_GENERATORS = ("diffusion", "diffusion-biased", "inpaint", "edit")
_LEARN_ON = ("detector", *_GENERATORS)
_TAKE_OVER = ("diffusion-biased", "inpaint", "edit")
_ALONE = ("judge", "vae", "detector", "safety")
"""Parts with a world of their own."""
_TRAINERS = {
    "clip": "train_mini.clip:train_clip",
    "clip-fair": "train_mini.clip:train_clip",
    "clip-binding": "train_mini.binding:train_binding",
    "captioner": "train_mini.captioner:train_captioner",
    "dcg": "libra.dcg:train_dcg",
    "judge": "train_mini.judge:train_judge",
    "vae": "train_mini.vae:train_vae",
    "diffusion": "train_mini.diffusion:train_diffusion",
    "diffusion-biased": "train_mini.diffusion:train_biased",
    "inpaint": "train_mini.inpaint:train_inpaint",
    "edit": "train_mini.edit:train_edit",
    "text": "train_mini.language:train_language",
    "detector": "train_mini.detector:train_detector",
    "safety": "train_mini.safety:train_safety",
}
