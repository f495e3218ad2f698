"""What people are asked: a questionnaire in TOML, and the questionnaires of the papers' human studies.

A questionnaire says what one item is (an image, a counterfactual set, an image with what was made from it, two
replies), and what is asked of it. Answers are short texts, so that they can stand in a table of labels.

>>> sheet = preset("matches-caption")
>>> [(q.name, q.choices) for q in sheet.questions][0]
('matches_caption', ('yes', 'partly', 'no', 'unsure'))
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from equipoise.data.settings import Settings, fitting_all, toml_of
from equipoise.errors import InputError, UnknownNameError
from equipoise.formatting import after_perceived

MONK = ("#f6ede4 #f3e7db #f7ead0 #eadaba #d7bd96 #a07e56 #825c43 #604134 #3a312a #292420").split()
"""The ten swatches of the Monk Skin Tone Scale, lightest first (Monk 2019; skintone.google)."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
_MOST_ANSWERS = 12
GROUP_KINDS = ("choice", "swatches")
"""Kinds of question whose answer can be the perceived group on an axis."""
NOTE_LENGTH = 2000
"""The longest free text that is kept."""

About = Literal["image", "set", "source", "replies"]
"""What one item is: an image; all images of a set (``subject`` and ``set_id``); a source with all that was made from
it; two texts."""


@dataclass(frozen=True)
class Question(Settings):
    """One question and the answers that can be given.

    >>> Question("safe", "Is it safe?", answers=["yes", "no"]).answers
    ('yes', 'no')
    """

    what: ClassVar[str] = "setting of a question"

    name: str = ""
    text: str = ""
    kind: Literal["choice", "several", "swatches", "note"] = "choice"
    """One of the answers, any number of them, one of the ten Monk swatches, or free text."""
    answers: tuple[str, ...] = ()
    answers_from: str = ""
    """A column whose values are the answers, where they are not known beforehand."""
    unsure: str = ""
    """One more answer, for people who cannot tell; it is never counted as a group."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """What an answer means, shown beside it."""
    each: bool = False
    """Asked of every image of the item, not of the item as a whole."""
    optional: bool = False
    ordered: bool = False
    """The answers are steps of a scale: agreement then counts how far apart two answers are."""
    gold: str = ""
    """A column that holds the right answer, for hidden gold items."""
    axis: str = ""
    """The answer is the perceived group on this axis."""
    accept: tuple[str, ...] = ()
    """Answers that mean that the image or set may stay; they feed learned thresholds."""

    def check(self) -> None:
        """Refuse a question that cannot be asked."""
        if not _NAME.match(self.name):
            raise InputError(f"question name {self.name!r}: use small letters, digits and '_', beginning with a letter")
        if not self.text.strip():
            raise InputError(f"question {self.name!r} has no text")
        if self.kind in ("note", "swatches") and (self.answers or self.answers_from):
            raise InputError(f"question {self.name!r}: a question of kind {self.kind!r} brings its own answers")
        if self.kind in ("choice", "several") and not (self.answers or self.answers_from):
            raise InputError(f"question {self.name!r} has no answers; give answers or answers_from")
        given = [*self.answers, *([self.unsure] if self.unsure else [])]
        if len(set(given)) != len(given) or any(not a.strip() or len(a) > 80 for a in given):
            raise InputError(f"question {self.name!r}: answers must be different texts of 1 to 80 characters")
        if len(given) > _MOST_ANSWERS:
            raise InputError(f"question {self.name!r} has {len(given)} answers; {_MOST_ANSWERS} are the most")
        known = set(self.choices)
        for name in (*self.accept, *self.hints):
            if not self.answers_from and name not in known:
                raise UnknownNameError(f"answer of question {self.name!r}", name, known)

    @property
    def choices(self) -> tuple[str, ...]:
        """Every answer that can be given; none for free text."""
        if self.kind == "note":
            return ()
        own = tuple(str(step) for step in range(1, 11)) if self.kind == "swatches" else self.answers
        return (*own, self.unsure) if self.unsure else own

    def accepted(self, answer: str | None) -> bool | None:
        """Whether the answer, as it is stored, lets the item stay; ``None`` where it says nothing about that.

        >>> Question("fault", "?", kind="several", answers=["none", "face"], accept=["none"]).accepted('["none"]')
        True
        """
        if answer is None or not self.accept:
            return None
        ticked = json.loads(answer) if self.kind == "several" else [answer]
        if not ticked or self.unsure in ticked:
            return None
        return set(ticked) <= set(self.accept)

    def fits(self, answer: object) -> bool:
        """Whether this is an answer to the question, as it is sent and stored.

        >>> Question("fault", "What is wrong?", kind="several", answers=["hands", "face"]).fits(["face"])
        True
        """
        if self.kind == "note":
            return isinstance(answer, str) and len(answer) <= NOTE_LENGTH
        if self.kind == "several":
            return (
                isinstance(answer, list)
                and len(set(map(str, answer))) == len(answer)
                and set(map(str, answer)) <= set(self.choices)
            )
        return isinstance(answer, str) and answer in self.choices


@dataclass(frozen=True)
class Questionnaire(Settings):
    """Everything that people are asked, and what they are told before."""

    what: ClassVar[str] = "setting of a questionnaire"

    title: str = "Look at pictures"
    about: About = "image"
    instructions: str = ""
    warning: str = ""
    """Said before the first picture; people can leave then."""
    citation: str = ""
    show: tuple[str, ...] = ()
    """Columns of text that are shown with the item, such as ``caption``."""
    texts: tuple[str, ...] = ()
    """The two columns of text that are compared, for items about ``replies``."""
    label: str = ""
    """A column that names the images of an item, where people may know it (a set's groups would give the answer)."""
    flagged: str = ""
    """A column of true and false: such images are blurred until they are clicked; ``all`` blurs every image."""
    pictures: Annotated[int, Field(ge=1, le=60)] = 24
    """The most images that one item shows."""
    questions: tuple[Question, ...] = ()

    def check(self) -> None:
        """Refuse what could not be asked."""
        if not self.questions:
            raise InputError("the questionnaire asks nothing; add a [[question]]")
        names = [q.name for q in self.questions]
        if len(set(names)) != len(names):
            raise InputError(f"two questions are called {next(n for n in names if names.count(n) > 1)!r}")
        if (self.about == "replies") != (len(self.texts) == 2):
            raise InputError('items about "replies" name the two columns of text in texts, and no others do')

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the table must have, besides the images."""
        named = [*self.show, *self.texts, self.label, *(q.answers_from for q in self.questions)]
        named += [q.gold for q in self.questions]
        named += ["set_id"] if self.about == "set" else ["source_id"] if self.about == "source" else []
        named += [self.flagged] if self.flagged != "all" else []
        return tuple(dict.fromkeys(name for name in named if name))

    def with_answers(self, values: Mapping[str, Sequence[str]]) -> Questionnaire:
        """The same with the answers that a column's values give."""
        filled = []
        for question in self.questions:
            if question.answers_from:
                answers = tuple(values[question.answers_from])
                if len(answers) < 2:
                    raise InputError(f"question {question.name!r}: {question.answers_from} has {len(answers)} values")
                question = replace(question, answers=answers, answers_from="")
            filled.append(question)
        return replace(self, questions=tuple(filled))

    def question(self, name: str) -> Question:
        """The question of this name."""
        for question in self.questions:
            if question.name == name:
                return question
        raise UnknownNameError("question", name, [q.name for q in self.questions])

    def of_several(self, question: Question) -> bool:
        """Whether an answer to the ``question`` is about several images at once.

        >>> sheet = preset("counterfactual-set")
        >>> sheet.of_several(sheet.question("same_except"))
        True
        """
        return self.about in ("set", "source") and not question.each

    def perceived(self) -> list[Question]:
        """The questions whose answers give each image a group on an axis; two about one axis are refused."""
        questions = [q for q in self.questions if q.axis and q.kind in GROUP_KINDS and not self.of_several(q)]
        axes = [q.axis for q in questions]
        if len(set(axes)) != len(axes):
            twice = next(axis for axis in axes if axes.count(axis) > 1)
            raise InputError(
                f"two questions are about the axis {twice!r}, of which an image has one group; take axis out of all "
                "but one of them"
            )
        return questions

    def first(self, fits: Callable[[Question], bool], name: str = "") -> Question:
        """The question of this ``name``, or the first that ``fits``."""
        if name:
            return self.question(name)
        for question in self.questions:
            if fits(question):
                return question
        raise InputError("no question of this review fits; name one with --question")

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.title} (about: {self.about})"]
        for question in self.questions:
            answers = ", ".join(question.choices) if question.choices != (question.unsure,) else question.answers_from
            lines.append(f"  {question.text} [{answers or 'free text'}]")
        return "\n".join(lines)


def questionnaire_of(told: Mapping[str, Any], where: str = "the questionnaire") -> Questionnaire:
    """The questionnaire that plain data describes, as TOML or JSON hold it; ``[[question]]`` or ``questions``."""
    given = dict(told)
    asked = given.pop("question", given.pop("questions", []))
    if not isinstance(asked, Iterable) or not all(isinstance(q, Mapping) for q in asked):
        raise InputError(f"{where}: write each question as [[question]]")
    try:
        questions = tuple(Question(**fitting_all(Question, _listed(q), what=Question.what)) for q in asked)
        fitted = fitting_all(Questionnaire, _listed(given), what=Questionnaire.what)
        return Questionnaire(**{**fitted, "questions": questions})
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _listed(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}


def preset_names() -> list[str]:
    """The questionnaires that come with the package.

    >>> preset_names()[:2]
    ['activity-and-group', 'counterfactual-set']
    """
    return sorted(path.name.removesuffix(".toml") for path in _presets().iterdir() if path.name.endswith(".toml"))


def preset(name: str, *, axis: str = "", trait: str = "") -> Questionnaire:
    """A questionnaire of the package.

    Args:
        name: one of those that ``preset_names`` lists, such as ``counterfactual-set``.
        axis: the axis that it asks about, such as ``gender``, where it leaves that open.
        trait: the trait that it asks about, such as ``competent``, where it leaves that open.

    Returns:
        The questionnaire, with nothing left open but answers that a table's column gives.
    """
    if name not in preset_names():
        raise UnknownNameError("questionnaire", name, preset_names())
    return read_questionnaire(str(_presets() / f"{name}.toml"), axis=axis, trait=trait)


def read_questionnaire(path: str, *, axis: str = "", trait: str = "") -> Questionnaire:
    """The questionnaire in a TOML file.

    Args:
        path: the file.
        axis: what ``{axis}`` and ``{axis in words}`` in it stand for, such as ``gender``.
        trait: what ``{trait}`` in it stands for, such as ``competent``.

    Returns:
        The questionnaire, filled in; one that leaves open what is not given is refused.
    """
    data = toml_of(path)
    for name, value, example in (("axis", axis, "gender"), ("trait", trait, "competent")):
        if f"{{{name}" not in str(data):
            continue
        if not value:
            file = path.rpartition("/")[2]
            raise InputError(f"{file} leaves the {name} open; give it with --{name}, such as --{name} {example}")
        data = _filled(data, {f"{{{name} in words}}": after_perceived(value.replace("_", " ")), f"{{{name}}}": value})
    return questionnaire_of(data, path)


def questionnaire_called(name: str, *, axis: str = "", trait: str = "", blur: str = "") -> Questionnaire:
    """A questionnaire of the package, or that in a TOML file; ``blur`` names the column of flagged images."""
    if not name:
        raise InputError(f"say what is asked with --ask: a TOML file, or one of {', '.join(preset_names())}")
    read = read_questionnaire if name.endswith(".toml") else preset
    sheet = read(name, axis=axis, trait=trait)
    return replace(sheet, flagged=blur) if blur else sheet


def _filled(data: Any, words: Mapping[str, str]) -> Any:
    if isinstance(data, str):
        for gap, word in words.items():
            data = data.replace(gap, word)
        return data
    if isinstance(data, Mapping):
        return {key: _filled(value, words) for key, value in data.items()}
    return [_filled(value, words) for value in data] if isinstance(data, list) else data


def _presets() -> Any:
    return files("equipoise.review") / "presets"
