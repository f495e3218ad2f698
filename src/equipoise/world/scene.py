"""What a picture shows: people, a place and things, as plain data. Pixels come from :mod:`equipoise.world.render`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from equipoise.errors import InputError
from equipoise.world.captions import captions
from equipoise.world.catalog import (
    ACTIVITIES,
    AGES,
    BUILDS,
    GENDERS,
    HAIR_COLOURS,
    OBJECTS,
    OCCUPATIONS,
    SCENES,
    TONES,
    known,
)
from equipoise.world.config import WorldConfig, plain_world
from equipoise.world.draws import uniform
from equipoise.world.placebos import PLACEBOS


@dataclass(frozen=True)
class Person:
    """One pictogram person: who is shown, what they do, and where."""

    gender: str
    tone: int
    """Step of the Monk scale, 1 to 10."""
    age: str
    build: str = "average"
    hair: str = "brown"
    glasses: bool = False
    hat: bool = False
    """A hat of their own; not drawn where a uniform's hat is."""
    bag: bool = False
    occupation: str = ""
    visible: bool = True
    """Whether uniform, hat and tool show the occupation."""
    activity: str = ""
    """What this person does; empty for a bystander."""
    clothes: int = 0
    """Which plain clothes, where no uniform is shown."""
    x: float = 0.5
    facing: int = 1
    """1: to the right; -1: to the left."""
    noted: tuple[tuple[str, str], ...] = ()
    """Axes on which the record says something else than is shown (label noise), with what it says."""

    @property
    def in_uniform(self) -> bool:
        """Whether the occupation can be seen."""
        return bool(self.occupation) and self.visible


@dataclass(frozen=True)
class Placed:
    """A thing and where it stands (middle of its bottom edge) or hangs (its centre)."""

    name: str
    x: float
    y: float


@dataclass(frozen=True)
class Scene:
    """A whole picture. ``people[0]`` is the one it is about: the worker, or the performer of an activity."""

    people: tuple[Person, ...]
    scene: str
    variant: int = 0
    mirrored: bool = False
    objects: tuple[Placed, ...] = ()
    unsafe: tuple[float, float] | None = None
    """Where the sign for unsafe content is planted, if it is."""
    seed: int = 0
    exchanged: bool = False
    """Whether the captions give what the first person does to the second (a world whose captions lean)."""
    placebo: str = ""
    """The placebo that is changed, if one is: ``bag``, ``mirror`` or ``brightness``."""
    config: WorldConfig | None = field(default=None, repr=False, compare=False)
    """The world it was drawn from: its grouping of tones, its words."""

    @property
    def subject(self) -> str:
        """The occupation or the activity that the picture is about."""
        return self.people[0].activity or self.people[0].occupation

    @property
    def object_names(self) -> list[str]:
        """The things in the picture, in the order they are drawn."""
        return [placed.name for placed in self.objects]

    def group(self, axis: str, person: int = 0) -> str:
        """The group that a person shows on an axis: ``gender``, ``skin_tone``, ``age`` or ``build``."""
        who = self.people[person]
        if axis == "skin_tone":
            return self._config().tone_group(who.tone)
        return str(getattr(who, known("axis", axis, ("gender", "skin_tone", "age", "build"))))

    def noted(self, axis: str, person: int = 0) -> str:
        """The group that the record names; it differs from :meth:`group` where there is label noise."""
        return dict(self.people[person].noted).get(axis) or self.group(axis, person)

    def said(self, axis: str, person: int = 0) -> str:
        """The group that captions name for the one who does it (``person`` 0) and for the other.

        >>> two = Scene((Person("female", 3, "adult", activity="playing_drum"), Person("male", 3, "adult")), "park")
        >>> replace(two, exchanged=True).said("gender"), two.said("gender")
        ('male', 'female')
        """
        return self.noted(axis, 1 - person if self.exchanged else person)

    def counterfactual(self, *, person: int = 0, **changes: Any) -> Scene:
        """The same scene with somebody else in the same place.

        ``changes``: ``gender``, ``tone`` (a step or the name of a group), ``age``, ``build``. Occupation, pose, place,
        things and positions stay, so that no pixel changes outside the two persons.

        >>> from equipoise.world import sample, preset
        >>> scene = sample(preset("fair"), 1, seed=0)[0]
        >>> other = scene.counterfactual(gender="female", tone="dark", age="older")
        >>> other.group("skin_tone"), other.scene == scene.scene, other.objects == scene.objects
        ('dark', True, True)
        """
        if not 0 <= person < len(self.people):
            raise InputError(f"person={person}: the scene has {len(self.people)} people, counted from 0")
        wanted = {name: self._value(name, value) for name, value in changes.items() if value is not None}
        axes = {"tone": "skin_tone"}
        changed = {axes.get(name, name) for name in wanted}
        kept = tuple(pair for pair in self.people[person].noted if pair[0] not in changed)
        people = list(self.people)
        people[person] = replace(people[person], noted=kept, **wanted)
        return replace(self, people=tuple(people))

    def with_placebo(self, placebo: str) -> Scene:
        """The same scene with one thing changed that nobody calls a group: the first person carries a bag (one more,
        if there is one already), the whole picture is mirrored, or there is a little more light. Captions stay.

        >>> from equipoise.world import sample, preset
        >>> scene = sample(preset("fair"), 1, seed=0)[0]
        >>> scene.with_placebo("bag").captions() == scene.captions()
        True
        """
        if self.placebo:
            raise InputError(f"placebos are changed one at a time, and {self.placebo!r} is changed already")
        return replace(self, placebo=known("placebo", placebo, PLACEBOS))

    def captions(self, n: int = 5, style: str = "natural") -> list[str]:
        """``n`` paraphrases; see :func:`equipoise.world.captions.captions`."""
        return captions(self, n, style)

    def _value(self, name: str, value: Any) -> Any:
        allowed = {"gender": GENDERS, "age": AGES, "build": BUILDS}
        if name in allowed:
            return known(name, value, allowed[name])
        if name == "tone":
            return self._tone(value)
        raise InputError(f"a counterfactual changes gender, tone, age or build, not {name!r}")

    def _tone(self, value: Any) -> int:
        if isinstance(value, str):
            steps = self._config().tones_of(value)
            return steps[int(uniform(self.seed, "tone_step") * len(steps))]
        if value not in TONES:
            raise InputError(f"tone={value!r}: the Monk scale has the steps 1 to 10")
        return int(value)

    def _config(self) -> WorldConfig:
        return plain_world() if self.config is None else self.config

    def as_dict(self) -> dict[str, Any]:
        """The scene as plain values; :func:`Scene.from_dict` makes it again."""
        return {
            "people": [{**vars(person), "noted": [list(pair) for pair in person.noted]} for person in self.people],
            "scene": self.scene,
            "variant": self.variant,
            "mirrored": self.mirrored,
            "objects": [[placed.name, placed.x, placed.y] for placed in self.objects],
            "unsafe": None if self.unsafe is None else list(self.unsafe),
            "seed": self.seed,
            **({"placebo": self.placebo} if self.placebo else {}),
            **({"exchanged": True} if self.exchanged else {}),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], config: WorldConfig | None = None) -> Scene:
        """The scene that :meth:`as_dict` wrote down; what is not a scene is an InputError.

        >>> scene = Scene((Person("female", 3, "adult", occupation="pilot"),), "park")
        >>> Scene.from_dict(scene.as_dict()) == scene
        True
        """
        try:
            people = [
                Person(**{**person, "noted": tuple((axis, group) for axis, group in person["noted"])})
                for person in values["people"]
            ]
            return cls(
                people=tuple(people),
                scene=values["scene"],
                variant=values["variant"],
                mirrored=values["mirrored"],
                objects=tuple(Placed(*placed) for placed in values["objects"]),
                unsafe=None if values["unsafe"] is None else (values["unsafe"][0], values["unsafe"][1]),
                seed=values["seed"],
                placebo=values.get("placebo", ""),
                exchanged=bool(values.get("exchanged", False)),
                config=config,
            ).check()
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"this is not a scene of the world: {error}") from None

    def check(self) -> Scene:
        """This scene, if every name in it is known."""
        known("scene", self.scene, SCENES)
        known("placebo", self.placebo, ("", *PLACEBOS))
        if not self.people:
            raise InputError("a scene needs at least one person")
        if self.exchanged and len(self.people) != 2:
            raise InputError("captions give an activity to somebody else only where there are two people")
        for placed in self.objects:
            known("object", placed.name, OBJECTS)
        for person in self.people:
            known("gender", person.gender, GENDERS)
            known("tone", person.tone, TONES)
            known("hair colour", person.hair, HAIR_COLOURS)
            known("age", person.age, AGES)
            known("build", person.build, BUILDS)
            known("occupation", person.occupation, ("", *OCCUPATIONS))
            known("activity", person.activity, ("", *ACTIVITIES))
        return self
