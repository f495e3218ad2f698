"""Draw scenes from a world: all attributes of all pictures at once, each from its own seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Ints
from equipoise.errors import InputError
from equipoise.world.catalog import (
    ACTIVITIES,
    AGES,
    AIR_OBJECTS,
    AXES,
    BUILDS,
    CASUAL,
    FLOOR_OBJECTS,
    GENDERS,
    HAIR_COLOURS,
    OCCUPATIONS,
    SCENES,
    known,
)
from equipoise.world.config import WorldConfig
from equipoise.world.draws import pick, seeds_for, uniforms
from equipoise.world.scene import Person, Placed, Scene
from equipoise.world.scenes import GROUND, VARIANTS
from equipoise.world.truth import Probabilities

GRID = 64
"""Positions are multiples of 1/64, so that a scene is the same picture at every size."""


_OCCUPATIONS = tuple(OCCUPATIONS)
_ACTIVITIES = tuple(ACTIVITIES)
_BUILD_SHARES = np.array([0.25, 0.5, 0.25])


@dataclass(frozen=True)
class SceneArrays(Sequence[Scene]):
    """Many scenes as arrays; ``scenes[i]`` is a :class:`Scene`, a slice gives fewer scenes.

    ``columns`` holds one array of n values per name: positions in the lists of :mod:`equipoise.world.catalog`
    (``occupation``, ``activity``, ``gender``, ``skin_tone``, ``age``, …; -1 for none). Attributes of the second person
    have names that end in ``_2``.
    """

    config: WorldConfig
    columns: dict[str, NDArray[np.generic]]

    def __len__(self) -> int:
        return len(self.columns["seed"])

    @overload
    def __getitem__(self, index: int) -> Scene: ...
    @overload
    def __getitem__(self, index: slice) -> SceneArrays: ...
    def __getitem__(self, index: int | slice) -> Scene | SceneArrays:
        if isinstance(index, slice):
            return SceneArrays(self.config, {name: values[index] for name, values in self.columns.items()})
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"scene {index} of {n}")
        return _scene(self.config, self._rows[index])

    def __iter__(self) -> Iterator[Scene]:
        return (_scene(self.config, row) for row in self._rows)

    @cached_property
    def _rows(self) -> list[dict[str, int | float]]:
        names = list(self.columns)
        values = zip(*(self.columns[name].tolist() for name in names), strict=True)
        return [dict(zip(names, row, strict=True)) for row in values]

    def labels(self, axis: str) -> NDArray[np.str_]:
        """The group that the first person shows on an axis, for each scene."""
        return np.array(self.config.groups_allowed(axis))[self.columns[known("axis", axis, AXES)].astype(np.int64)]

    @property
    def subjects(self) -> NDArray[np.str_]:
        """The occupation or activity of each scene."""
        activity = self.columns["activity"].astype(np.int64)
        occupation = self.columns["occupation"].astype(np.int64)
        return np.where(activity >= 0, np.array(_ACTIVITIES)[activity], np.array(_OCCUPATIONS)[occupation])


def sample(config: WorldConfig, n: int, seed: int = 0, *, start: int = 0) -> SceneArrays:
    """Scenes of a world. Picture i depends on ``seed`` and i alone: a longer sample begins with a shorter one.

    Args:
        config: the world.
        n: how many scenes, 0 or more.
        seed: which sample is drawn.
        start: the number i of the first scene, for a part of a sample.

    Returns:
        Scenes ``start`` to ``start + n - 1`` of the sample.

    >>> from equipoise.world import preset
    >>> scenes = sample(preset("biased"), 1000, seed=1)
    >>> scenes[7] == sample(preset("biased"), 8, seed=1)[7]
    True
    """
    if n < 0:
        raise InputError(f"n={n}: the number of scenes must be 0 or more")
    if start < 0:
        raise InputError(f"start={start}: the number of the first scene must be 0 or more")
    return draw(config, seeds_for(seed, n, start))


def draw(
    config: WorldConfig,
    seeds: Ints | Sequence[int],
    *,
    subject: str | None = None,
    bystander: bool | None = None,
) -> SceneArrays:
    """The scenes with these seeds; ``subject`` and ``bystander`` fix what would be drawn otherwise.

    Args:
        config: the world.
        seeds: (n,) one for each scene, such as :func:`equipoise.world.draws.seeds_for` gives.
        subject: the occupation or activity that every scene is about; drawn if ``None``.
        bystander: whether every scene of an activity has a second person; drawn if ``None``. Others have none anyway.

    Returns:
        One scene for each seed, in their order.

    >>> from equipoise.world import preset
    >>> draw(preset("fair"), [5], subject="playing_guitar", bystander=True)[0].people[1].activity
    ''
    """
    s = np.asarray(seeds, dtype=np.int64)
    shares = Probabilities(config)
    columns: dict[str, NDArray[np.generic]] = {"seed": s}
    occupation, activity = _subjects(config, s, subject)
    columns["occupation"], columns["activity"] = occupation, activity
    two = (activity >= 0) & (uniforms(s, "two_people") < config.two_people)
    if bystander is not None:
        two = np.full(len(s), bystander) & (activity >= 0)
    columns["two"] = two
    rows = np.where(activity >= 0, len(_OCCUPATIONS) + activity, occupation)
    for axis in AXES:
        columns[axis] = pick(uniforms(s, axis), shares.given_subject(axis)[rows])
        columns[f"{axis}_2"] = pick(uniforms(s, f"{axis}_2"), shares.base(axis))
    columns["exchanged"] = _exchanged(config, s, shares, columns)
    columns.update(_tones(config, s, columns))
    columns.update(_looks(config, s, occupation))
    columns.update(_surroundings(config, s, shares, columns))
    for suffix in ("", "_2"):
        for axis in AXES:
            columns[f"noted_{axis}{suffix}"] = _noted(
                config, s, axis, suffix, columns[f"{axis}{suffix}"].astype(np.int64)
            )
    if config.hidden:
        hidden = uniforms(s, "hidden") < config.hidden
        columns["gender"] = np.where(hidden, GENDERS.index("neutral"), columns["gender"].astype(np.int64))
    return SceneArrays(config, columns)


def _exchanged(
    config: WorldConfig, s: Ints, shares: Probabilities, columns: dict[str, NDArray[np.generic]]
) -> NDArray[np.bool_]:
    """Whether captions give the activity to the bystander; only where the two are of the two poles of gender."""
    if not config.binding:
        return np.zeros(len(s), dtype=bool)
    poles = [config.groups_allowed("gender").index(pole) for pole in config.poles["gender"]]
    first, second = columns["gender"].astype(np.int64), columns["gender_2"].astype(np.int64)
    both = np.isin(first, poles) & np.isin(second, poles) & (first != second) & columns["two"].astype(bool)
    chance = shares.exchanged()[np.maximum(columns["activity"].astype(np.int64), 0), first]
    return np.asarray(both & (uniforms(s, "exchanged") < chance))


def _subjects(config: WorldConfig, s: Ints, subject: str | None) -> tuple[Ints, Ints]:
    none = np.full(len(s), -1, dtype=np.int64)
    if subject is not None:
        known("subject", subject, (*_OCCUPATIONS, *_ACTIVITIES))
        if subject in OCCUPATIONS:
            return np.full(len(s), _OCCUPATIONS.index(subject)), none
        return none, np.full(len(s), _ACTIVITIES.index(subject))
    acting = uniforms(s, "kind") < config.activity_share
    work = np.array([config.occupations.get(name, 0.0) for name in _OCCUPATIONS])
    acts = np.array([config.activities.get(name, 0.0) for name in _ACTIVITIES])
    occupation = np.where(acting, -1, pick(uniforms(s, "occupation"), work))
    return occupation, np.where(acting, pick(uniforms(s, "activity"), acts), -1)


def _tones(config: WorldConfig, s: Ints, columns: dict[str, NDArray[np.generic]]) -> dict[str, NDArray[np.generic]]:
    groups = list(config.tone_groups.values())
    counts = np.array([len(steps) for steps in groups])
    table = np.array([[*steps, *[0] * (counts.max() - len(steps))] for steps in groups])
    tones: dict[str, NDArray[np.generic]] = {}
    for suffix, what in (("", "tone_step"), ("_2", "tone_step_2")):
        group = columns[f"skin_tone{suffix}"].astype(np.int64)
        tones[f"tone{suffix}"] = table[group, (uniforms(s, what) * counts[group]).astype(np.int64)]
    return tones


def _looks(config: WorldConfig, s: Ints, occupation: Ints) -> dict[str, NDArray[np.generic]]:
    visible = uniforms(s, "visible") < config.visible
    has_hat = np.array([bool(o.hat) for o in OCCUPATIONS.values()])[occupation] & (occupation >= 0) & visible
    looks: dict[str, NDArray[np.generic]] = {"visible": visible}
    for suffix in ("", "_2"):
        looks[f"build{suffix}"] = pick(uniforms(s, f"build{suffix}"), _BUILD_SHARES)
        looks[f"hair{suffix}"] = (uniforms(s, f"hair{suffix}") * len(HAIR_COLOURS)).astype(np.int64)
        looks[f"clothes{suffix}"] = (uniforms(s, f"clothes{suffix}") * len(CASUAL)).astype(np.int64)
        for trait in ("glasses", "hat", "bag"):
            looks[f"{trait}{suffix}"] = uniforms(s, f"{trait}{suffix}") < config.trait
    looks["hat"] = looks["hat"].astype(bool) & ~has_hat
    return looks


def _surroundings(
    config: WorldConfig, s: Ints, shares: Probabilities, columns: dict[str, NDArray[np.generic]]
) -> dict[str, NDArray[np.generic]]:
    groups = tuple(columns[axis].astype(np.int64) for axis in AXES)
    two = columns["two"].astype(bool)

    def thing(where: str, chance: float) -> Ints:
        there = (uniforms(s, f"has_{where}") < chance) & ~two
        return np.where(there, pick(uniforms(s, where), shares.given_groups(where)[groups]), -1)

    unsafe = uniforms(s, "unsafe") < config.unsafe
    return {
        "scene": pick(uniforms(s, "scene"), shares.given_groups("scene")[groups]),
        "variant": (uniforms(s, "variant") * VARIANTS).astype(np.int64),
        "mirrored": uniforms(s, "mirrored") < 0.5,
        "facing": np.where(uniforms(s, "facing") < 0.5, -1, 1),
        "floor": thing("floor", config.floor_object),
        "air": np.where(unsafe, -1, thing("air", config.air_object)),  # the sign takes the place of what hangs or flies
        "unsafe": unsafe,
        "shift": _steps(s, "shift", 2),
        "shift_2": _steps(s, "shift_2", 1),
        "shift_floor": _steps(s, "shift_floor", 1),
        "shift_air": _steps(s, "shift_air", 3),
    }


def _steps(s: Ints, what: str, reach: int) -> Ints:
    """Whole steps of the grid from ``-reach`` to ``reach``."""
    return (uniforms(s, what) * (2 * reach + 1)).astype(np.int64) - reach


def _noted(config: WorldConfig, s: Ints, axis: str, suffix: str, shown: Ints) -> Ints:
    """The group the record names: with label noise, sometimes another one that occurs."""
    allowed = config.groups_allowed(axis)
    present = np.array([allowed.index(g) for g in config.groups(axis)])
    if config.label_noise == 0 or len(present) < 2:
        return shown
    wrong = uniforms(s, f"noise_{axis}{suffix}") < config.label_noise
    place = np.searchsorted(present, shown)
    step = 1 + (uniforms(s, f"noted_{axis}{suffix}") * (len(present) - 1)).astype(np.int64)
    return np.where(wrong, present[(place + step) % len(present)], shown)


def _scene(config: WorldConfig, row: dict[str, int | float]) -> Scene:
    facing = int(row["facing"])
    two = bool(row["two"])
    first_x = 0.5 - facing * (0.21875 if two else 0.0625) + row["shift"] / GRID
    people = [_person(config, row, "", first_x, facing)]
    if two:
        people.append(_person(config, row, "_2", 0.5 + facing * 0.28125 + row["shift_2"] / GRID, -facing))
    side = 0.5 - facing * 0.359375
    objects = []
    if row["floor"] >= 0:
        objects.append(Placed(FLOOR_OBJECTS[int(row["floor"])], side + row["shift_floor"] / GRID, GROUND - 1 / GRID))
    high = (0.5 if two else side, 0.203125 + row["shift_air"] / GRID)
    if row["air"] >= 0:
        objects.append(Placed(AIR_OBJECTS[int(row["air"])], *high))
    return Scene(
        people=tuple(people),
        scene=SCENES[int(row["scene"])],
        variant=int(row["variant"]),
        mirrored=bool(row["mirrored"]),
        objects=tuple(objects),
        unsafe=high if row["unsafe"] else None,
        seed=int(row["seed"]),
        exchanged=bool(row["exchanged"]),
        config=config,
    )


def _person(config: WorldConfig, row: dict[str, int | float], suffix: str, x: float, facing: int) -> Person:
    first = suffix == ""
    occupation, activity = int(row["occupation"]), int(row["activity"])
    noted = []
    if config.label_noise or config.hidden:
        for axis in AXES:
            shown, said = int(row[f"{axis}{suffix}"]), int(row[f"noted_{axis}{suffix}"])
            if shown != said:
                noted.append((axis, config.groups_allowed(axis)[said]))
    return Person(
        gender=GENDERS[int(row[f"gender{suffix}"])],
        tone=int(row[f"tone{suffix}"]),
        age=AGES[int(row[f"age{suffix}"])],
        build=BUILDS[int(row[f"build{suffix}"])],
        hair=HAIR_COLOURS[int(row[f"hair{suffix}"])],
        glasses=bool(row[f"glasses{suffix}"]),
        hat=bool(row[f"hat{suffix}"]),
        bag=bool(row[f"bag{suffix}"]),
        occupation=_OCCUPATIONS[occupation] if first and occupation >= 0 else "",
        visible=bool(row["visible"]),
        activity=_ACTIVITIES[activity] if first and activity >= 0 else "",
        clothes=int(row[f"clothes{suffix}"]),
        x=x,
        facing=facing,
        noted=tuple(noted),
    )
