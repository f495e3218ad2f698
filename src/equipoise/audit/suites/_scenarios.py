"""Who does what in the images of a table: activities, performers and scenarios, as binding metrics ask for them.

A table may say it in several ways; what it does not say is derived where that is safe:

- the activity: column ``activity``, else ``subject``. Its words after "is" are the column ``phrase`` if there is one;
  those of the column ``caption`` ("a man is playing a drum") where there is a ``reversed_caption`` too; the shipped
  phrase where every activity of the table is one of GAB's 37; else the activity's own text;
- the performer's group: the column of the axis (``gender``);
- the scenario (E1, E2, U1, U2): column ``scenario`` or ``cell``; else from who is expected (column
  ``expected_<axis>``, or GAB's list) and from how many people there are (column ``n_people``, or whether a bystander
  is named in ``other_<axis>`` or ``<axis>_2``). Two people of one group are left out and counted: the captions name
  one of each;
- activities to be told apart: column ``near`` (a list of phrases), GAB's lists, else the table's other activities;
- the activity's category: column ``category``, else GAB's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.asking import check_groups
from equipoise.audit.config import AuditConfig
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.binding import SCENARIOS, Scenes
from equipoise.text.templates.binding import Activity, activities
from equipoise.text.templates.persons import group_nouns

ACTIVITY_COLUMNS = ("activity", "subject")
SCENARIO_COLUMNS = ("scenario", "cell")
SUITE = "binding"
_CAPTION = re.compile(r"an? .+? is (?P<phrase>.+?)(?: and an? .+ is in the scene)?\.?$", re.IGNORECASE)


@dataclass(frozen=True)
class Contrast:
    """The images of two groups: each activity is expected of one of them."""

    axis: str
    groups: tuple[str, str]
    rows: NDArray[np.intp]
    """Rows of the frame that take part; the scenes are of these, in this order."""
    scenes: Scenes
    activities: Mapping[str, Activity]
    """By the table's name; ``expected`` is a group of the table."""
    nouns: Mapping[str, str]
    dropped: Mapping[str, int]

    def unexpected(self, activity: str) -> str:
        """The group that is not expected to do ``activity``."""
        first, second = self.groups
        return second if self.activities[activity].expected == first else first


def binding_axis(frame: pd.DataFrame, config: AuditConfig) -> str:
    """The axis of the performer's group: the one asked for, ``gender``, or the only one of the table."""
    if len(config.axes) > 1:
        raise InputError(f"suite {SUITE!r} asks about one axis at a time, not {', '.join(config.axes)}")
    named = frame.attrs.get("axes", ())
    axis = config.axes[0] if config.axes else "gender" if "gender" in frame or len(named) != 1 else named[0]
    if axis not in frame:
        raise InputError(
            f"suite {SUITE!r} needs the performer's group in a column {axis!r}, which the table lacks; "
            "name the column with --axis"
        )
    check_groups(frame, axis, tuple(named))
    return str(axis)


def contrasts(frame: pd.DataFrame, config: AuditConfig) -> list[Contrast]:
    """One contrast for each two groups that are the expected and the unexpected performers of some activity."""
    axis = binding_axis(frame, config)
    scenes = _told(frame, axis)
    alike = _two_of_one_group(scenes)
    usable = scenes[~alike].dropna(subset=["activity", "performer", "scenario", "expected"])
    if usable.empty:
        raise InputError(
            f"suite {SUITE!r}: no image has an activity, a performer's {axis} and a scenario; "
            f"missing are {_missing(scenes, axis) or f'images of two people who differ in {axis}'}"
        )
    _check_scenarios(usable, frame, axis)
    dropped = {
        f"no {name}": int(scenes[name].isna().sum()) for name in ("activity", "performer", "scenario", "expected")
    }
    dropped["the two people are of one group"] = int(alike.sum())
    groups = sorted({*usable["performer"], *usable["expected"]})
    pairs: list[tuple[str, ...]] = list(combinations(groups, 2))
    if config.pair:
        for group in config.pair:
            if group not in groups:
                raise UnknownNameError(f"group on the axis {axis!r}", group, groups)
        pairs = [tuple(sorted(config.pair))]
    if not pairs:
        raise InputError(f"suite {SUITE!r}: the axis {axis!r} shows one group only, {groups[0]!r}; two are compared")
    parts = [(pair, _of_pair(usable, pair)) for pair in pairs]
    # with three groups or more, two of them may never meet: they are left out if others do
    meet = [part for part in parts if {"E", "U"} <= set(part[1]["scenario"].str[0])]
    chosen = meet or [part for part in parts if not part[1].empty]
    if not chosen:
        raise InputError(f"suite {SUITE!r}: no activity is expected of {' or '.join(pairs[0])} and done by one of them")
    return [_contrast(frame, some, axis, (pair[0], pair[1]), dropped) for pair, some in chosen]


def _two_of_one_group(scenes: pd.DataFrame) -> pd.Series[Any]:
    """Which images show two people of one group: a caption of two people names one of each."""
    return (scenes["bystander"] == scenes["performer"]) & scenes["scenario"].str.endswith("2").eq(True)


def _of_pair(usable: pd.DataFrame, pair: tuple[str, ...]) -> pd.DataFrame:
    inside = usable["performer"].isin(pair) & usable["expected"].isin(pair)
    return usable[inside & (usable["bystander"].isna() | usable["bystander"].isin(pair))]


def _told(frame: pd.DataFrame, axis: str) -> pd.DataFrame:
    """What the table says of each image: activity, performer, expected, scenario, bystander; null where nothing."""
    name = next((c for c in ACTIVITY_COLUMNS if c in frame), None)
    if name is None:
        raise InputError(f"suite {SUITE!r} needs the activity in a column 'activity' or 'subject'")
    scenes = pd.DataFrame({"activity": _texts(frame[name]), "performer": _texts(frame[axis])})
    scenes["bystander"] = _bystander(frame, axis)
    scenario = next((c for c in SCENARIO_COLUMNS if c in frame), None)
    scenes["expected"] = _expected(frame, scenes, axis, None if scenario is None else frame[scenario])
    scenes["scenario"] = _texts(frame[scenario]) if scenario else _derived(frame, scenes, axis)
    return scenes


def _texts(column: pd.Series[Any]) -> pd.Series[Any]:
    return column.map(lambda v: None if pd.isna(v) else str(v)).astype(object).where(column.notna(), None)


def _bystander(frame: pd.DataFrame, axis: str) -> Any:
    name = next((c for c in (f"other_{axis}", f"{axis}_2") if c in frame), None)
    return None if name is None else _texts(frame[name])


def _expected(frame: pd.DataFrame, scenes: pd.DataFrame, axis: str, scenario: pd.Series[Any] | None) -> Any:
    if f"expected_{axis}" in frame:
        return _texts(frame[f"expected_{axis}"])
    if scenario is not None:
        return _expected_by_scenario(scenes, scenario)
    by_noun = {noun: group for group, noun in group_nouns(axis, scenes["performer"].dropna().unique()).items()}
    gab = {name: gab_activity(name) for name in scenes["activity"].dropna().unique()}
    if axis != "gender" or not all(gab.values()):
        other = next((name for name, known in gab.items() if not known), "")
        raise InputError(
            f"suite {SUITE!r} does not know who is expected to do {other!r}; add a column 'scenario' (E1, E2, U1, U2) "
            f"or 'expected_{axis}' to the table"
        )
    nouns = group_nouns("gender", ["female", "male"])
    groups = {name: by_noun.get(nouns[known.expected]) for name, known in gab.items() if known}
    return scenes["activity"].map(groups)


def _expected_by_scenario(scenes: pd.DataFrame, scenario: pd.Series[Any]) -> pd.Series[Any]:
    """Who is expected, told by scenario and performer: an E image's performer; else the other one of a U image's."""
    kind = _texts(scenario).str[:1]
    groups = sorted(scenes["performer"].dropna().unique())
    expected: dict[str, str | None] = {}
    for name in scenes["activity"].dropna().unique():
        here = scenes["activity"] == name
        ours = set(scenes.loc[here & (kind == "E"), "performer"].dropna())
        if not ours and len(groups) == 2:
            ours = set(groups) - set(scenes.loc[here & (kind == "U"), "performer"].dropna())
        if len(ours) > 1:
            raise InputError(
                f"suite {SUITE!r}: {name!r} is expected of {' and of '.join(sorted(ours))} by the column of scenarios; "
                "the performer of E1 and E2 must be one group"
            )
        expected[name] = next(iter(ours), None)
    return scenes["activity"].map(expected)


def _derived(frame: pd.DataFrame, scenes: pd.DataFrame, axis: str) -> pd.Series[Any]:
    if "n_people" in frame:
        people = frame["n_people"].astype("Int64")
    elif scenes["bystander"].notna().any() or any(c in frame for c in (f"other_{axis}", f"{axis}_2")):
        people = scenes["bystander"].notna().astype("Int64") + 1
    else:
        raise InputError(
            f"suite {SUITE!r} cannot tell how many people an image shows; add a column 'scenario' (E1, E2, U1, U2), "
            f"'n_people' or 'other_{axis}'"
        )
    kind = np.where(scenes["performer"] == scenes["expected"], "E", "U")
    usable = scenes["performer"].notna() & scenes["expected"].notna() & people.isin([1, 2])
    text = pd.Series(kind, index=scenes.index, dtype=object) + people.astype(str)
    return text.where(usable, None)


def _check_scenarios(usable: pd.DataFrame, frame: pd.DataFrame, axis: str) -> None:
    """A scenario must be one of the four and agree with who is expected."""
    for name in usable["scenario"].unique():
        if name not in SCENARIOS:
            raise UnknownNameError("scenario", str(name), SCENARIOS)
    is_expected = usable["performer"] == usable["expected"]
    wrong = usable.index[is_expected != (usable["scenario"].str[0] == "E")]
    if len(wrong):
        row = usable.loc[wrong[0]]
        raise InputError(
            f"image {frame.loc[wrong[0], 'image_id']!r} is in scenario {row['scenario']}, but its performer is "
            f"{row['performer']!r} and {row['expected']!r} is expected to do {row['activity']!r} "
            f"({len(wrong)} such images); fix the scenario or the column 'expected_{axis}'"
        )
    several = usable.groupby("activity")["expected"].nunique()
    if (several > 1).any():
        raise InputError(f"suite {SUITE!r}: activity {several.idxmax()!r} is expected of several groups; give one")


def _missing(scenes: pd.DataFrame, axis: str) -> str:
    names = {"activity": "activity", "performer": axis, "expected": f"expected_{axis}", "scenario": "scenario"}
    return ", ".join(f"{names[c]} in {int(scenes[c].isna().sum())} rows" for c in names if scenes[c].isna().any())


def _contrast(
    frame: pd.DataFrame, some: pd.DataFrame, axis: str, pair: tuple[str, str], dropped: Mapping[str, int]
) -> Contrast:
    shapes = _activities(frame, some)
    categories = {name: shape.category for name, shape in shapes.items()}
    scenes = Scenes.of(
        some["activity"].tolist(),
        some["scenario"].tolist(),
        categories if any(categories.values()) else None,
        {name: shape.expected for name, shape in shapes.items()},
    )
    return Contrast(
        axis=axis,
        groups=pair,
        rows=some.index.to_numpy(dtype=np.intp),
        scenes=scenes,
        activities=shapes,
        nouns=group_nouns(axis, pair),
        dropped={reason: count for reason, count in dropped.items() if count},
    )


def _activities(frame: pd.DataFrame, some: pd.DataFrame) -> dict[str, Activity]:
    expected = some.groupby("activity")["expected"].first()
    gab = {str(name): gab_activity(str(name)) for name in expected.index}
    is_gab = all(gab.values())
    # a table may word GAB's activities in its own way; categories and near activities are GAB's all the same
    worded = bool({"phrase", "reversed_caption"} & set(frame.columns))
    phrases = {
        name: known.phrase if is_gab and known and not worded else _phrase(frame, some, name)
        for name, known in gab.items()
    }
    activities = {}
    for name, known in gab.items():
        near = _listed(frame, some, "near", name)
        if not near:
            near = known.near if is_gab and known else tuple(p for other, p in phrases.items() if other != name)
        category = _first(frame, some, "category", name) or (known.category if is_gab and known else "")
        activities[name] = Activity(
            name, name, phrases[name], category, str(expected[name]), {}, tuple(dict.fromkeys(near))
        )
    nameless = [name for name, shape in activities.items() if not shape.category]
    if nameless and len(nameless) < len(activities):
        raise InputError(f"suite {SUITE!r}: activity {nameless[0]!r} has no category, others have; fill the column")
    return activities


def _phrase(frame: pd.DataFrame, some: pd.DataFrame, activity: str) -> str:
    own = _first(frame, some, "phrase", activity)
    if not own and {"caption", "reversed_caption"} <= set(frame.columns):
        captions = frame.loc[some.index[some["activity"] == activity], "caption"].dropna()
        phrases = {match["phrase"] for match in map(_CAPTION.match, captions.astype(str)) if match}
        own = next(iter(phrases)) if len(phrases) == 1 else ""
    return own or activity.replace("_", " ")


def _first(frame: pd.DataFrame, some: pd.DataFrame, column: str, activity: str) -> str:
    """The one value of ``column`` for an activity; two different ones are an error."""
    if column not in frame:
        return ""
    values = frame.loc[some.index[some["activity"] == activity], column].dropna().astype(str).unique()
    if len(values) > 1:
        raise InputError(
            f"suite {SUITE!r}: activity {activity!r} has two values of {column!r}: {', '.join(values[:2])}"
        )
    return str(values[0]) if len(values) else ""


def _listed(frame: pd.DataFrame, some: pd.DataFrame, column: str, activity: str) -> tuple[str, ...]:
    if column not in frame:
        return ()
    cells = frame.loc[some.index[some["activity"] == activity], column]
    filled = (cell for cell in cells if isinstance(cell, list | tuple | np.ndarray) and len(cell))
    return tuple(str(value) for value in next(filled, ()))


def gab_activity(name: str) -> Activity | None:
    """The one of GAB's 37 activities that ``name`` means, whatever its articles, case and underscores.

    >>> gab_activity("Drinking_Beer").expected, gab_activity("preparing harbel teas").id, gab_activity("flying")
    ('male', 'preparing_herbal_teas', None)
    """
    return _gab().get(_plain(name))


@cache
def _gab() -> dict[str, Activity]:
    return {_plain(text): a for a in activities() for text in (a.phrase, a.printed, a.id)}


def _plain(name: str) -> str:
    words = re.sub(r"[_\s]+", " ", name.casefold()).replace("’", "").replace("'", "").split()
    kept = ["herbal" if word == "harbel" else word for word in words if word not in ("a", "an", "the")]
    return " ".join(kept)
