"""The settings of a world: who is how common, what leans towards whom, what captions say, and the presets.

The model, in full. A picture is about a subject (an occupation, or an activity). On each axis the group is drawn from

    P(group | subject) ∝ base rate of the group x exp(strength x reach x lean(subject, group))

independently given the subject; the place and the things are drawn from P(place | groups) ∝ exp(sum over axes of
strength x reach x lean(place, group)). A lean is one number v: the axis's two poles get -v/2 and +v/2, all other
groups 0, so that v is the log-odds that are added between the poles. Captions may lean too: in a picture of two
people of the two poles of gender, the caption gives the activity to the one of the second pole with log-odds
strength x binding x v, and ``care`` more or less, as that one does it or not. :func:`equipoise.world.truth.truth` gives
what follows from all this, exactly.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from equipoise.errors import InputError
from equipoise.world.catalog import (
    ACTIVITIES,
    AGES,
    AXES,
    GENDERS,
    OBJECTS,
    OCCUPATIONS,
    SCENES,
    TONE_GROUPS,
    TONES,
    known,
    shipped,
)
from equipoise.world.truth import truth

KINDS: dict[str, tuple[str, ...]] = {
    "occupation": tuple(OCCUPATIONS),
    "activity": tuple(ACTIVITIES),
    "scene": SCENES,
    "object": OBJECTS,
}
"""What can lean towards a group, and the names of each kind."""

PRESETS = ("fair", "biased", "spurious", "imbalanced", "strong", "binding", "background")

MOST_LEAN = 100.0
"""The most log-odds that a lean may add: a group is then as good as certain, and the truth can still be computed."""

Rates = Mapping[str, float]


@dataclass(frozen=True)
class WorldConfig:
    """One world. The defaults are the fair one: every group equally likely, nothing leans.

    >>> WorldConfig(gender={"male": 3, "female": 1}).rates("gender")
    {'male': 0.75, 'female': 0.25}
    >>> WorldConfig(visible=1.5)
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: visible=1.5 must be from 0 to 1
    """

    name: str = "fair"
    strength: float = 0.0
    """Multiplies every lean."""
    reach: Rates = field(default_factory=lambda: {"occupation": 1.0, "activity": 1.0, "scene": 0.0, "object": 0.0})
    """Which kinds of things lean, and how much."""
    leans: Mapping[str, Mapping[str, Rates]] = field(
        default_factory=lambda: {kind: dict(shipped("leans")[kind]) for kind in KINDS}
    )
    """lean of each kind, axis and name; what is not named does not lean."""
    poles: Mapping[str, tuple[str, str]] = field(
        default_factory=lambda: {
            "gender": ("male", "female"),
            "skin_tone": ("light", "dark"),
            "age": ("child", "older"),
        }
    )
    """The groups that a negative and a positive lean point to."""
    gender: Rates = field(default_factory=lambda: {"male": 0.5, "female": 0.5})
    """Base rates of the figures; name ``neutral`` too for three."""
    skin_tone: Rates = field(default_factory=lambda: dict.fromkeys(TONE_GROUPS, 1 / 3))
    age: Rates = field(default_factory=lambda: dict.fromkeys(AGES, 1 / 3))
    tone_groups: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: dict(TONE_GROUPS))
    occupations: Rates = field(default_factory=lambda: dict.fromkeys(OCCUPATIONS, 1.0))
    activities: Rates = field(default_factory=lambda: dict.fromkeys(ACTIVITIES, 1.0))
    scenes: Rates = field(default_factory=lambda: dict.fromkeys(SCENES, 1.0))
    activity_share: float = 0.25
    """How many pictures show an activity; the others show an occupation."""
    two_people: float = 0.5
    """How many of the activities have a bystander."""
    visible: float = 0.75
    """How often uniform, hat and tool show the occupation that the caption names."""
    mention: Rates = field(default_factory=lambda: {"gender": 0.5, "skin_tone": 0.25, "age": 0.25})
    """How often a caption names the group."""
    markedness: Rates = field(default_factory=dict)
    """How much more often an unexpected group is named: P = mention - markedness x tanh(log ratio)."""
    binding: float = 0.0
    """How much captions of two people lean towards whom the activity is expected of; 0: they say who does it."""
    care: float = 1.0
    """Where captions lean: the log-odds with which an activity that is expected of nobody is given to its performer."""
    hidden: float = 0.0
    """How often the first person is drawn as the neutral figure: the gender is then in the record, the place and the
    things, and not in the person.
    """
    words: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Words that captions use for a gender instead of the grammar's: {gender: {noun, child, adjective, pronoun}}."""
    label_noise: float = 0.0
    """How often the record (labels and captions) names another group than is shown, on each axis."""
    floor_object: float = 0.7
    air_object: float = 0.5
    trait: float = 0.2
    """How often a person has each of the traits."""
    unsafe: float = 0.0
    """How often the sign for unsafe content is planted."""

    def __post_init__(self) -> None:
        for name in (
            "activity_share",
            "two_people",
            "visible",
            "label_noise",
            "hidden",
            "floor_object",
            "air_object",
            "trait",
            "unsafe",
        ):
            _check_share(name, getattr(self, name))
        _check_tones(self.tone_groups)
        for axis in AXES:
            _check_rates(axis, getattr(self, axis), self.groups_allowed(axis))
            _check_poles(axis, self.poles.get(axis), self.groups_allowed(axis))
        _check_rates("occupations", self.occupations, KINDS["occupation"])
        _check_rates("activities", self.activities, KINDS["activity"])
        _check_rates("scenes", self.scenes, KINDS["scene"])
        for name in ("binding", "care"):
            _check_number(name, getattr(self, name))
        most = max(self.reach.get("activity", 0.0), self.binding, key=abs)
        _check_leans(self.leans, {**self.reach, "activity": most}, self.strength)
        for table in ("mention", "markedness"):
            for axis, value in getattr(self, table).items():
                known(f"axis in {table}", axis, AXES)
                _check_share(f"{table}.{axis}", value)
        for group in self.words:
            known("gender in words", group, GENDERS)

    def groups_allowed(self, axis: str) -> tuple[str, ...]:
        """The groups that an axis can have."""
        return {"gender": GENDERS, "age": AGES, "skin_tone": tuple(self.tone_groups)}[known("axis", axis, AXES)]

    def groups(self, axis: str) -> tuple[str, ...]:
        """The groups of an axis that occur."""
        return tuple(self.rates(axis))

    def rates(self, axis: str) -> dict[str, float]:
        """Base rates of an axis, adding up to 1, in the axis's order; groups that do not occur are left out."""
        given: Rates = getattr(self, known("axis", axis, AXES))
        total = sum(given.values())
        return {g: given[g] / total for g in self.groups_allowed(axis) if given.get(g, 0) > 0}

    def lean(self, kind: str, axis: str, name: str, group: str) -> float:
        """What is added to the log weight of ``group`` for the thing ``name``."""
        low, high = self.poles[axis]
        v = self.leans.get(kind, {}).get(axis, {}).get(name, 0.0) * self.strength * self.reach.get(kind, 0.0)
        return v / 2 if group == high else -v / 2 if group == low else 0.0

    def lean_of_captions(self, activity: str) -> float:
        """The log-odds that are added to captions giving ``activity`` to the second pole of gender.

        >>> preset("binding").lean_of_captions("holding_baby")
        2.4
        """
        known("activity", activity, ACTIVITIES)
        return self.leans.get("activity", {}).get("gender", {}).get(activity, 0.0) * self.strength * self.binding

    def chance_of_mention(self, subject: str, axis: str, group: str) -> float:
        """How likely a caption about ``subject`` names ``group``; an empty subject is a bystander."""
        return self._chances.get((subject, axis, group), self.mention.get(axis, 0.0))

    @cached_property
    def _chances(self) -> dict[tuple[str, str, str], float]:
        table = truth(self)
        table = table[table["kind"].isin(["occupation", "activity"])]
        chances = {}
        for subject, axis, group, ratio in table[["subject", "axis", "group", "log_ratio"]].itertuples(index=False):
            chance = self.mention.get(axis, 0.0) - self.markedness.get(axis, 0.0) * math.tanh(ratio)
            chances[subject, axis, group] = min(1.0, max(0.0, chance))
        return chances

    def tone_group(self, tone: int) -> str:
        """The group of a step of the Monk scale."""
        return self._group_of_tone[tone]

    def tones_of(self, group: str) -> tuple[int, ...]:
        """The steps of a tone group."""
        return tuple(self.tone_groups[known("skin tone group", group, self.tone_groups)])

    @cached_property
    def _group_of_tone(self) -> dict[int, str]:
        return {tone: group for group, tones in self.tone_groups.items() for tone in tones}

    def changed(self, **settings: Any) -> WorldConfig:
        """A copy with other settings.

        >>> WorldConfig().changed(strength=0.5).strength
        0.5
        """
        names = [f.name for f in dataclasses.fields(self)]
        for name in settings:
            known("setting of a world", name, names)
        return dataclasses.replace(self, **settings)

    def as_dict(self) -> dict[str, Any]:
        """All settings as plain values, as a table's config and a TOML file hold them."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


@cache
def plain_world() -> WorldConfig:
    """The world of a scene that names none: all defaults, made once, for its captions ask what is true of it.

    >>> plain_world() == WorldConfig()
    True
    """
    return WorldConfig()


@cache
def preset(name: str) -> WorldConfig:
    """One of the worlds that come with the package.

    >>> preset("biased").strength, preset("spurious").reach["scene"]
    (1.0, 1.0)
    """
    known("world preset", name, PRESETS)
    return _from_mapping({"name": name, **shipped("presets")[name]}, f"preset {name!r}")


def load(path: str | Path) -> WorldConfig:
    """A world from a TOML file: settings by name, over those of ``preset = "..."`` (``fair`` unless given)."""
    file = Path(path)
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{file} is missing; name a TOML file or one of the presets {', '.join(PRESETS)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is not TOML: {error}") from None
    base = content.pop("preset", "fair")
    return _from_mapping(
        {**shipped("presets")[known("world preset", base, PRESETS)], "name": file.stem, **content}, str(file)
    )


def _from_mapping(content: Mapping[str, Any], where: str) -> WorldConfig:
    names = {f.name for f in dataclasses.fields(WorldConfig)}
    for name in content:
        known(f"setting in {where}", name, names)
    settings = dict(content)
    try:
        for name in ("tone_groups", "poles"):
            if name in settings:
                settings[name] = {key: tuple(some) for key, some in settings[name].items()}
        return WorldConfig(**settings)
    except (TypeError, AttributeError) as error:
        raise InputError(f"{where}: a setting has the wrong type ({error})") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(v) for key, v in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _check_share(name: str, value: Any) -> None:
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"{name}={value!r} must be from 0 to 1")


def _check_rates(name: str, rates: Rates, allowed: tuple[str, ...]) -> None:
    for key, value in rates.items():
        known(f"name in {name}", key, allowed)
        if not isinstance(value, int | float) or not 0 <= value < float("inf"):
            raise InputError(f"{name}: the rate of {key!r} is {value!r}; a number from 0 up is expected")
    if not sum(rates.values()) > 0:
        raise InputError(f"{name}: at least one rate must be above 0")


def _check_poles(axis: str, poles: Any, allowed: tuple[str, ...]) -> None:
    if poles is None or len(poles) != 2 or poles[0] == poles[1] or any(p not in allowed for p in poles):
        raise InputError(f"poles of {axis} are {poles!r}; two different groups of {', '.join(allowed)} are expected")


def _check_tones(groups: Mapping[str, tuple[int, ...]]) -> None:
    if sorted(tone for tones in groups.values() for tone in tones) != list(TONES):
        raise InputError(f"tone_groups={dict(groups)!r} must hold each step of the Monk scale, 1 to 10, once")


def _check_leans(leans: Mapping[str, Mapping[str, Rates]], reach: Rates, strength: float) -> None:
    _check_number("strength", strength)
    for kind in reach:
        known("kind in reach", kind, KINDS)
        _check_number(f"reach.{kind}", reach[kind])
    for kind, axes in leans.items():
        known("kind in leans", kind, KINDS)
        for axis, values in axes.items():
            known(f"axis in leans.{kind}", axis, AXES)
            for name, value in values.items():
                known(f"name in leans.{kind}.{axis}", name, KINDS[kind])
                _check_number(f"leans.{kind}.{axis}.{name}", value)
                whole = value * strength * reach.get(kind, 0.0)
                if abs(whole) > MOST_LEAN:
                    raise InputError(
                        f"strength={strength:g}: {name!r} leans by {whole:g} on {axis}, and {MOST_LEAN:g} is the most; "
                        "lower strength, reach or the lean"
                    )


def _check_number(name: str, value: Any) -> None:
    if not isinstance(value, int | float) or not -1e6 <= value <= 1e6:
        raise InputError(f"{name}={value!r} must be a number from -1e6 to 1e6")
