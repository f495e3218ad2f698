"""What was injected, exactly: the probabilities that follow from a configuration, and the log-odds of every subject.

For a subject s, an axis and a group g: ``log_ratio`` = ln P(g | s) / P(g), and ``log_odds`` = logit P(g | s) -
logit P(g). Subjects are the occupations and activities (the group is drawn given them) and the places and things
(they are drawn given the groups; Bayes' rule turns it round). P(g) is taken over the pictures that could show the
subject: those of occupations, those of activities, or all. With two people it is about the first, the performer.
Where captions lean (``binding``), a further kind says to whom they give an activity in pictures of one person of each
pole of gender: P(group that the caption says does it | activity), whatever is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Protocol

import numpy as np
import pandas as pd

from equipoise.array_types import Floats
from equipoise.world.catalog import ACTIVITIES, AIR_OBJECTS, AXES, FLOOR_OBJECTS, OCCUPATIONS, SCENES, known
from equipoise.world.placebos import PLACEBOS, checked_placebos, column_of

_PLACES = {"scene": ("scene", SCENES), "floor": ("object", FLOOR_OBJECTS), "air": ("object", AIR_OBJECTS)}


class Injected(Protocol):
    """The settings of a :class:`~equipoise.world.config.WorldConfig` that the probabilities follow from."""

    @property
    def occupations(self) -> Mapping[str, float]:
        """How common each occupation is."""

    @property
    def activities(self) -> Mapping[str, float]:
        """How common each activity is."""

    @property
    def scenes(self) -> Mapping[str, float]:
        """How common each place is."""

    @property
    def activity_share(self) -> float:
        """How many pictures show an activity."""

    @property
    def two_people(self) -> float:
        """How many activities have a bystander."""

    @property
    def binding(self) -> float:
        """How much captions of two people lean."""

    @property
    def care(self) -> float:
        """The log-odds with which such captions give an activity that nobody is expected to do to its performer."""

    @property
    def poles(self) -> Mapping[str, tuple[str, str]]:
        """The groups that a negative and a positive lean point to."""

    def lean_of_captions(self, activity: str) -> float:
        """The log-odds that are added to captions giving an activity to the second pole of gender."""

    def groups_allowed(self, axis: str) -> tuple[str, ...]:
        """The groups that an axis can have."""

    def rates(self, axis: str) -> dict[str, float]:
        """Base rates of the groups of an axis."""

    def lean(self, kind: str, axis: str, name: str, group: str) -> float:
        """What is added to a group's log weight."""


class Probabilities:
    """The probability tables of a world; groups are in the order of ``config.groups_allowed(axis)``.

    >>> from equipoise.world import WorldConfig
    >>> Probabilities(WorldConfig()).base("gender").tolist()
    [0.5, 0.5, 0.0]
    """

    def __init__(self, config: Injected) -> None:
        self._config = config

    def base(self, axis: str) -> Floats:
        """Base rates of the groups, (groups,)."""
        rates = self._config.rates(axis)
        return np.array([rates.get(group, 0.0) for group in self._config.groups_allowed(axis)])

    def given_subject(self, axis: str) -> Floats:
        """P(group | subject), (occupations + activities, groups)."""
        return self._given_subject[known("axis", axis, AXES)]

    @cached_property
    def _given_subject(self) -> dict[str, Floats]:
        names = [("occupation", name) for name in OCCUPATIONS] + [("activity", name) for name in ACTIVITIES]
        tables = {}
        for axis in AXES:
            groups = self._config.groups_allowed(axis)
            leans = np.array([[self._config.lean(kind, axis, name, g) for g in groups] for kind, name in names])
            weights = self.base(axis) * np.exp(leans)
            tables[axis] = weights / weights.sum(axis=1, keepdims=True)
        return tables

    def given_groups(self, what: str) -> Floats:
        """P(name | groups) of places (``scene``) and things (``floor``, ``air``), (genders, tones, ages, names)."""
        kind, names = _PLACES[known("kind of surroundings", what, _PLACES)]
        weights = np.zeros((1, 1, 1, len(names)))
        for place, axis in enumerate(AXES):
            groups = self._config.groups_allowed(axis)
            leans = np.array([[self._config.lean(kind, axis, name, g) for name in names] for g in groups])
            shape = [1, 1, 1, len(names)]
            shape[place] = len(groups)
            weights = weights + leans.reshape(shape)
        shares = np.exp(weights)
        if what == "scene":
            shares = shares * np.array([self._config.scenes.get(name, 0.0) for name in names])
        shares = np.broadcast_to(shares, (*(len(self._config.groups_allowed(a)) for a in AXES), len(names)))
        return np.asarray(shares / shares.sum(axis=-1, keepdims=True))

    def exchanged(self) -> Floats:
        """P(the caption gives the activity to the bystander | activity, performer's gender), (activities, genders).

        Of pictures of two people of the two poles of gender; there is nothing to exchange in others.
        """
        c = self._config
        shares = np.zeros((len(ACTIVITIES), len(c.groups_allowed("gender"))))
        if c.binding:
            low, high = (c.groups_allowed("gender").index(pole) for pole in c.poles["gender"])
            leans = np.array([c.lean_of_captions(name) for name in ACTIVITIES])
            shares[:, high] = 1 / (1 + np.exp(c.care + leans))
            shares[:, low] = 1 / (1 + np.exp(c.care - leans))
        return shares

    def said_to_do(self) -> Floats:
        """P(gender that the caption says does it | activity, one person of each pole), (activities, genders)."""
        c = self._config
        places = [c.groups_allowed("gender").index(pole) for pole in c.poles["gender"]]
        base, given = self.base("gender"), self.given_subject("gender")[len(OCCUPATIONS) :]
        does = np.zeros_like(given)
        for here, there in (places, places[::-1]):
            does[:, here] = given[:, here] * base[there]  # the bystander is drawn from the base rates
        does = does / np.maximum(does.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        kept, lost = does * (1 - self.exchanged()), does * self.exchanged()
        said = np.zeros_like(given)
        for here, there in (places, places[::-1]):
            said[:, here] = kept[:, here] + lost[:, there]
        return said

    def subjects(self) -> Floats:
        """P(subject), (occupations + activities,)."""
        c = self._config
        work = np.array([c.occupations.get(name, 0.0) for name in OCCUPATIONS])
        acts = np.array([c.activities.get(name, 0.0) for name in ACTIVITIES])
        return np.concatenate([work / work.sum() * (1 - c.activity_share), acts / acts.sum() * c.activity_share])

    def joint(self, subjects: Floats) -> Floats:
        """P(gender, tone, age) over pictures with these shares of subjects, (genders, tones, ages)."""
        g, t, a = (self.given_subject(axis) for axis in AXES)
        return np.asarray(np.einsum("s,sg,st,sa->gta", subjects, g, t, a))


def truth(config: Injected, placebos: Iterable[str] = ()) -> pd.DataFrame:
    """What was injected, for every subject: the probabilities and log-odds that follow from a configuration.

    ``p_given`` is the probability of the group given the subject, ``p`` that of the group; ``log_ratio`` and
    ``log_odds`` compare the two. ``kind`` is occupation, activity, scene, object, or binding (to whom captions of two
    people give the activity).

    Args:
        config: the world.
        placebos: adds their axes (``placebo_bag``, …), on which nothing was put in: of a picture and its changed twin
            each level is half, whatever the subject.

    Returns:
        One row per kind, subject, axis and group that occurs, with these four numbers.

    >>> from equipoise.world import preset
    >>> table = truth(preset("biased")).set_index(["subject", "axis", "group"])
    >>> round(float(table.loc[("nurse", "gender", "female"), "log_odds"]), 2)
    2.4
    >>> bool((truth(preset("fair"))["log_odds"].abs() < 1e-9).all())
    True
    >>> nothing = truth(preset("biased"), ["bag"]).set_index(["subject", "axis", "group"])
    >>> nothing.loc[("nurse", "placebo_bag", "bag"), ["p_given", "p", "log_odds"]].tolist()
    [0.5, 0.5, 0.0]
    """
    rows: list[tuple[str, str, str, str, float, float, float, float]] = []
    for kind, name, axis, given, marginal in _tables(config):
        for place, group in enumerate(config.groups_allowed(axis)):
            if marginal[place] > 0:
                p, q = float(given[place]), float(marginal[place])
                rows.append(
                    (kind, name, axis, group, p, q, np.log(p / q), _logit(given, place) - _logit(marginal, place))
                )
    asked = checked_placebos(placebos)
    subjects = list(dict.fromkeys((kind, name) for kind, name, *_ in rows))
    for placebo in asked:
        for level in PLACEBOS[placebo]:
            rows += [(kind, name, column_of(placebo), level, 0.5, 0.5, 0.0, 0.0) for kind, name in subjects]
    return pd.DataFrame(rows, columns=["kind", "subject", "axis", "group", "p_given", "p", "log_ratio", "log_odds"])


def _logit(shares: Floats, place: int) -> float:
    """The log-odds of one group.

    >>> round(_logit(np.array([1 - 1e-20, 1e-20]), 0), 3)
    46.052
    """
    p = float(shares[place])
    # Near 1 the digits of 1 - p are lost, and the other groups' shares still have them all.
    rest = 1 - p if p < 0.999999 else float(np.delete(shares, place).sum())
    # A single group has probability 1 everywhere; its log-odds do not move.
    return float(np.log(p / rest)) if rest > 0 else 0.0


def _tables(config: Injected) -> list[tuple[str, str, str, Floats, Floats]]:
    shares = Probabilities(config)
    n_work = len(OCCUPATIONS)
    subjects = shares.subjects()
    tables: list[tuple[str, str, str, Floats, Floats]] = []
    for kind, names, span in (
        ("occupation", OCCUPATIONS, slice(0, n_work)),
        ("activity", ACTIVITIES, slice(n_work, None)),
    ):
        # Over pictures of the same kind, whether or not the world shows that kind at all.
        rates = {"occupation": config.occupations, "activity": config.activities}[kind]
        weights = np.array([rates.get(name, 0.0) for name in names])
        weights = weights / weights.sum()
        for axis in AXES:
            given = shares.given_subject(axis)[span]
            marginal = weights @ given
            tables += [(kind, name, axis, given[i], marginal) for i, name in enumerate(names) if weights[i] > 0]
    if config.binding and config.two_people:
        said = shares.said_to_do()
        weights = np.array([config.activities.get(name, 0.0) for name in ACTIVITIES])
        marginal = weights / weights.sum() @ said
        tables += [
            ("binding", name, "gender", said[i], marginal) for i, name in enumerate(ACTIVITIES) if weights[i] > 0
        ]
    joint = shares.joint(subjects)
    alone = subjects.copy()
    alone[n_work:] *= 1 - config.two_people
    for what, (kind, places) in _PLACES.items():
        if what != "scene" and not alone.any():
            continue  # things stand only in pictures with one person, and there are none
        people = joint if what == "scene" else shares.joint(alone / alone.sum())
        both = people[..., None] * shares.given_groups(what)
        for place, axis in enumerate(AXES):
            others = tuple(i for i in range(3) if i != place)
            table = both.sum(axis=others)
            marginal = table.sum(axis=1)
            totals = table.sum(axis=0)
            tables += [
                (kind, name, axis, table[:, i] / totals[i], marginal) for i, name in enumerate(places) if totals[i] > 0
            ]
    return tables
