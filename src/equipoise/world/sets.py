"""Counterfactual sets: one scene, every combination of groups, nothing else different."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from equipoise.errors import InputError
from equipoise.world.catalog import ACTIVITIES, AXES, OCCUPATIONS, SUBJECTS, known
from equipoise.world.config import WorldConfig, plain_world
from equipoise.world.draws import seeds_for
from equipoise.world.placebos import checked_placebos, levels_of
from equipoise.world.sample import draw
from equipoise.world.scene import Scene

CELLS = ("E1", "E2", "U1", "U2")
"""Expected or unexpected performer, alone or with a bystander of the other gender (GABInsight)."""


@dataclass(frozen=True)
class CounterfactualSet:
    """The scenes of one set, one for each combination of groups on its axes."""

    set_id: str
    subject: str
    axes: tuple[str, ...]
    scenes: tuple[Scene, ...]
    """The base scenes; then, for each placebo asked for, the same again with that one changed."""
    placebos: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The combination of groups that each scene shows."""
        return tuple(tuple(scene.group(axis) for axis in self.axes) for scene in self.scenes)

    @property
    def levels(self) -> tuple[dict[str, str], ...]:
        """The placebo columns of each scene; empty without placebos."""
        return tuple(levels_of(self.placebos, scene.placebo) for scene in self.scenes)


def counterfactual_sets(
    config: WorldConfig,
    subjects: Iterable[str] | None = None,
    axes: Sequence[str] = ("gender", "skin_tone"),
    n_sets: int = 1,
    seed: int = 0,
    placebos: Iterable[str] = (),
) -> Iterator[CounterfactualSet]:
    """Sets for each subject, over all groups of the ``axes`` that occur.

    What the axes do not vary is drawn without any lean, and occupations are always visible: inside a set only the
    person differs, and across sets nothing hints at a group. Sets of different subjects share nobody: each has its own
    people, place and things.

    Args:
        config: the world, for the groups that occur in it and the way its captions speak.
        subjects: occupations or activities, each once; all occupations unless given.
        axes: which of ``gender``, ``skin_tone`` and ``age`` vary inside a set.
        n_sets: how many for each subject.
        seed: which scenes are drawn; a set depends on it, its subject and its number.
        placebos: ``bag``, ``mirror``, ``brightness``: each adds the same scenes again with it changed, one at a time;
            see :mod:`equipoise.world.placebos`. The base scenes are those of a set without placebos.

    Returns:
        The sets one by one, subject after subject.

    >>> from equipoise.world import preset
    >>> first = next(counterfactual_sets(preset("biased"), ["nurse"]))
    >>> first.set_id, len(first.scenes), first.groups[0]
    ('nurse-0-0', 6, ('male', 'light'))
    >>> with_bag = next(counterfactual_sets(preset("biased"), ["nurse"], placebos=["bag"]))
    >>> len(with_bag.scenes), with_bag.scenes[:6] == first.scenes, with_bag.levels[6]
    (12, True, {'placebo_bag': 'bag'})
    """
    names = _checked(subjects, OCCUPATIONS, SUBJECTS, "subject")
    axes = tuple(axes)
    for axis in axes:
        known("axis", axis, AXES)
    if not axes or len(set(axes)) < len(axes):
        raise InputError(f"axes={list(axes)}: name each axis to vary once, at least one")
    if n_sets < 1:
        raise InputError(f"n_sets={n_sets}: at least one set for each subject is needed")
    asked = checked_placebos(placebos)
    plain = config.changed(strength=0.0, visible=1.0, label_noise=0.0, hidden=0.0)
    keys = {"skin_tone": "tone"}
    for subject in names:
        bases = draw(plain, seeds_for(seed, n_sets, of=f"set {subject}"), subject=subject, bystander=False)
        for number, base in enumerate(bases):
            combinations = product(*(config.groups(axis) for axis in axes))
            changes: list[dict[str, Any]] = [
                {keys.get(a, a): g for a, g in zip(axes, groups, strict=True)} for groups in combinations
            ]
            # The words and groupings are those of the world that was asked for, not of its plain twin.
            scenes = tuple(replace(base.counterfactual(**change), config=config) for change in changes)
            scenes += tuple(scene.with_placebo(name) for name in asked for scene in scenes)
            yield CounterfactualSet(f"{_slug(subject)}-{seed}-{number}", subject, axes, scenes, asked)


@dataclass(frozen=True)
class BindingScene:
    """A scene of a binding table: which set and cell it belongs to, and who is in it."""

    set_id: str
    cell: str
    expected: str
    scene: Scene

    @property
    def caption(self) -> str:
        """The benchmark's caption: "a man is ..." or "a man is ... and a woman is in the scene"."""
        return self._told(self.scene.group("gender"))

    @property
    def reversed_caption(self) -> str:
        """The same with the genders exchanged: what a model that binds rightly scores lower."""
        genders = [self.scene.group("gender", i) for i in range(len(self.scene.people))]
        return self._told(genders[1] if len(genders) > 1 else self._other(genders[0]))

    def _other(self, gender: str) -> str:
        config = self.scene.config or plain_world()
        low, high = config.poles["gender"]
        return low if gender == high else high

    def _told(self, performer: str) -> str:
        from equipoise.world.captions import prompts

        config = self.scene.config or plain_world()
        nouns = {g: text.removeprefix("a photo of ") for g, text in prompts("gender", config).items()}
        text = f"{nouns[performer]} is {ACTIVITIES[self.scene.subject].phrase}"
        return text if len(self.scene.people) == 1 else f"{text} and {nouns[self._other(performer)]} is in the scene"


def expected_gender(config: WorldConfig, activity: str) -> str:
    """The gender that an activity's lean points to; ``config.strength`` does not matter, so a fair world has one too.

    >>> expected_gender(WorldConfig(), "holding_baby")
    'female'
    """
    known("activity", activity, ACTIVITIES)
    low, high = config.poles["gender"]
    return high if config.leans.get("activity", {}).get("gender", {}).get(activity, 0.0) > 0 else low


def binding_sets(
    config: WorldConfig, activities: Iterable[str] | None = None, n_sets: int = 1, seed: int = 0
) -> Iterator[BindingScene]:
    """Scenes of who does what, for each activity: E1 and U1 (one scene, the other gender) and E2 and U2 (another
    scene, performer and bystander of exchanged genders).

    Args:
        config: the world, whose leans say which gender is expected of an activity; both poles of gender must occur in
            it. Scenes are drawn without any lean.
        activities: which ones, each once; all unless given.
        n_sets: how many of each of the four cells per activity.
        seed: which scenes are drawn.

    Returns:
        The scenes one by one, of each activity all E1 and U1 in turn, then all E2 and U2.

    >>> from equipoise.world import preset
    >>> found = list(binding_sets(preset("fair"), ["playing_drum"]))
    >>> [(b.cell, b.scene.group("gender"), len(b.scene.people)) for b in found]
    [('E1', 'male', 1), ('U1', 'female', 1), ('E2', 'male', 2), ('U2', 'female', 2)]
    >>> found[2].caption
    'a man is playing a drum and a woman is in the scene'
    """
    names = _checked(activities, ACTIVITIES, ACTIVITIES, "activity")
    if n_sets < 1:
        raise InputError(f"n_sets={n_sets}: at least one set per activity is needed")
    low, high = _both_poles(config, "who does what")
    plain = config.changed(strength=0.0, label_noise=0.0, binding=0.0, hidden=0.0)
    for activity in names:
        expected = expected_gender(config, activity)
        other = low if expected == high else high
        for people in (1, 2):
            seeds = seeds_for(seed, n_sets, of=f"binding {activity} {people}")
            for number, base in enumerate(draw(plain, seeds, subject=activity, bystander=people == 2)):
                for letter, performer, second in (("E", expected, other), ("U", other, expected)):
                    scene = base.counterfactual(gender=performer)
                    if people == 2:
                        scene = scene.counterfactual(person=1, gender=second)
                    set_id = f"{activity}-{people}-{seed}-{number}"
                    yield BindingScene(set_id, f"{letter}{people}", expected, replace(scene, config=config))


@dataclass(frozen=True)
class ResolutionScene:
    """A scene of a VisoGender-shaped table: somebody at work beside a thing, or beside somebody."""

    set_id: str
    context: str
    """``object`` or ``participant``, as the benchmark calls them."""
    other: str
    """The thing, or the word for the person."""
    scene: Scene


BESIDE = "person"
"""The word for somebody who stands beside somebody at work; the world has no patients and no customers."""


def resolution_sets(
    config: WorldConfig, occupations: Iterable[str] | None = None, n_sets: int = 1, seed: int = 0
) -> Iterator[ResolutionScene]:
    """Scenes of VisoGender's shape: for each occupation the worker of either gender beside a thing, and of either
    gender beside somebody of either gender.

    Args:
        config: the world; both poles of gender must occur in it. Scenes are drawn without any lean.
        occupations: which ones, each once; all unless given.
        n_sets: how many sets per occupation, of six scenes each.
        seed: which scenes are drawn.

    Returns:
        The scenes one by one, set after set, in each the two beside a thing and then the four beside somebody.

    >>> from equipoise.world import preset
    >>> [(r.context, *(p.gender for p in r.scene.people)) for r in resolution_sets(preset("fair"), ["nurse"])][:3]
    [('object', 'male'), ('object', 'female'), ('participant', 'male', 'male')]
    """
    names = _checked(occupations, OCCUPATIONS, OCCUPATIONS, "occupation")
    if n_sets < 1:
        raise InputError(f"n_sets={n_sets}: at least one set for each occupation is needed")
    genders = _both_poles(config, "whose pronoun it is")
    plain = config.changed(strength=0.0, visible=1.0, label_noise=0.0, hidden=0.0, binding=0.0, floor_object=1.0)
    somebody = next(iter(ACTIVITIES))  # what the first does is not shown: only the second is taken
    for occupation in names:
        alone = draw(plain, seeds_for(seed, n_sets, of=f"resolution {occupation}"), subject=occupation)
        pairs = draw(plain, seeds_for(seed, n_sets, of=f"beside {occupation}"), subject=somebody, bystander=True)
        for number, (solo, pair) in enumerate(zip(alone, pairs, strict=True)):
            set_id = f"{_slug(occupation)}-{seed}-{number}"
            solo = replace(solo, config=config)
            for gender in genders:
                yield ResolutionScene(set_id, "object", solo.objects[0].name, solo.counterfactual(gender=gender))
            first = replace(solo.people[0], x=pair.people[0].x, facing=pair.people[0].facing)
            both = replace(solo, people=(first, pair.people[1]), objects=())
            for gender, other in product(genders, genders):
                scene = both.counterfactual(gender=gender).counterfactual(person=1, gender=other)
                yield ResolutionScene(set_id, "participant", BESIDE, scene)


def _both_poles(config: WorldConfig, what: str) -> tuple[str, str]:
    """The two genders between which something is asked; a world that lacks one is refused."""
    low, high = config.poles["gender"]
    if not {low, high} <= set(config.groups("gender")):
        genders = " and ".join(config.groups("gender"))
        raise InputError(f"gender: {what} is asked of {low} and {high}, but this world has {genders}; add the other")
    return low, high


def _checked(names: Iterable[str] | None, default: Iterable[str], allowed: Iterable[str], kind: str) -> list[str]:
    if isinstance(names, str):
        raise InputError(f"the {kind} must be in a list of names, not the text {names!r}; write [{names!r}]")
    chosen = list(default if names is None else names)
    for name in chosen:
        known(kind, name, allowed)
    if not chosen or len(set(chosen)) < len(chosen):
        raise InputError(f"name each {kind} once, at least one")
    return chosen


def _slug(subject: str) -> str:
    return subject.replace(" ", "_")
