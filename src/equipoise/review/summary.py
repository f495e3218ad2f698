"""What the organiser sees: agreement with intervals, gold, speed, and who still has what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from equipoise.errors import InputError
from equipoise.formatting import brackets, plain, text_table
from equipoise.measure.stats.agreement import cohen_kappa, krippendorff_alpha
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.shares import share_estimate
from equipoise.review.preparing import sheet_of
from equipoise.review.questions import Question
from equipoise.review.store import ReviewStore


@dataclass(frozen=True)
class Agreement:
    """How far people agree on a question."""

    question: str
    text: str
    counts: dict[str, int]
    """How often each answer was given."""
    same: float | None
    """The share of pairs of answers to the same thing that are the same."""
    alpha: Estimate | None
    """Krippendorff's alpha; ordinal where the answers are steps of a scale."""
    kappas: dict[str, Estimate]
    """Cohen's kappa of each two people with answers in common, by ``"ana, ben"``."""
    note: str = ""


@dataclass(frozen=True)
class PersonSummary:
    """How far somebody is, and how it went."""

    name: str
    revoked: bool
    done: int
    skipped: int
    left: int
    seconds: float | None
    """The median time for an item."""
    gold: Estimate | None
    """The share of hidden gold answers that are right, against guessing."""
    unsure: int
    """Gold answers that were "unsure": neither right nor wrong."""


@dataclass(frozen=True)
class ReviewSummary:
    """The whole review at a glance."""

    items: int
    finished: int
    """Items that as many people have looked at as was planned."""
    people: tuple[PersonSummary, ...]
    questions: tuple[Agreement, ...]
    problems: tuple[str, ...]
    """Pictures that cannot be shown, and why."""

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self), default=float))
        return data

    def __str__(self) -> str:
        people = [["annotator", "done", "skipped", "left", "seconds", "gold", "95%", "chance"]]
        for person in self.people:
            gold = person.gold
            people.append(
                [
                    person.name + (" (link stopped)" if person.revoked else ""),
                    str(person.done),
                    str(person.skipped),
                    str(person.left),
                    plain(person.seconds, 1),
                    "" if gold is None else plain(gold.value, 2),
                    "" if gold is None else brackets(gold.ci_low, gold.ci_high, 2),
                    "" if gold is None else plain(gold.null_mean, 2),
                ]
            )
        lines = [f"{self.finished} of {self.items} items are finished", "", *text_table(people), ""]
        questions = [["question", "answers", "same", "alpha", "95%"]]
        for question in self.questions:
            alpha = question.alpha
            questions.append(
                [
                    question.question,
                    str(sum(question.counts.values())),
                    plain(question.same, 2),
                    "" if alpha is None else plain(alpha.value, 2),
                    question.note if alpha is None else brackets(alpha.ci_low, alpha.ci_high, 2),
                ]
            )
        return "\n".join([*lines, *text_table(questions)])


def summary_of(store: ReviewStore) -> ReviewSummary:
    """What the organiser sees now."""
    sheet = sheet_of(store)
    raters = store.setting("plan")["raters"]
    columns = ["annotator", "item", "question", "picture", "answer"]
    answers = pd.DataFrame(store.rows(f"SELECT {', '.join(columns)} FROM answers"), columns=columns)
    needs = store.rows(
        "SELECT shared, (SELECT count(*) FROM done WHERE done.item = items.id), (SELECT count(*) FROM assigned WHERE "
        "assigned.item = items.id) FROM items"
    )
    finished = sum(done >= (assigned if shared else raters) and done > 0 for shared, done, assigned in needs)
    problems = [f"{i}: {why}" for i, why in store.rows("SELECT image_id, problem FROM pictures WHERE problem NOT NULL")]
    asked = [q for q in sheet.questions if q.kind != "note"]
    return ReviewSummary(
        len(needs),
        finished,
        _people(store, answers),
        tuple(agreement_of(answers, question) for question in asked),
        tuple(problems),
    )


def agreement_of(answers: pd.DataFrame, question: Question) -> Agreement:
    """Agreement on one question, from rows of ``annotator``, ``item``, ``question``, ``picture`` and ``answer``."""
    mine = answers[answers["question"] == question.name]
    counts = {str(a): int(n) for a, n in mine["answer"].value_counts().items()}
    if question.ordered and question.unsure:
        mine = mine[mine["answer"] != question.unsure]
    if question.ordered:  # steps of the scale, in their order
        mine = mine.assign(answer=[question.choices.index(answer) for answer in mine["answer"]])
    table = mine.pivot(index=["item", "picture"], columns="annotator", values="answer").astype(object)
    table = table.where(table.notna(), None)
    table = table[table.notna().sum(axis=1) >= 2]
    if table.empty:
        return Agreement(question.name, question.text, counts, None, None, {}, "no two people looked at the same yet")
    kappas = _kappas(table, question)
    same = _same(table)
    try:
        alpha = krippendorff_alpha(table.to_numpy(), metric="ordinal" if question.ordered else "nominal")
    except InputError as error:
        return Agreement(question.name, question.text, counts, same, None, kappas, str(error))
    return Agreement(question.name, question.text, counts, same, alpha, kappas)


def _kappas(table: pd.DataFrame, question: Question) -> dict[str, Estimate]:
    weights, steps = ("linear", range(len(question.choices))) if question.ordered else ("nominal", None)
    kappas = {}
    for first, second in combinations(table.columns, 2):
        said = table[first].tolist(), table[second].tolist()
        try:
            kappas[f"{first}, {second}"] = cohen_kappa(*said, weights=weights, categories=steps)
        except InputError:  # nothing in common, or always the same answer
            continue
    return kappas


def _same(table: pd.DataFrame) -> float:
    pairs = agreeing = 0
    for row in table.to_numpy():
        said = [answer for answer in row if answer is not None]
        pairs += len(said) * (len(said) - 1)
        agreeing += sum(said.count(a) - 1 for a in said)
    return agreeing / pairs


def gold_accuracy(answers: pd.DataFrame, gold: Mapping[int, Any], questions: Mapping[str, Question]) -> dict[str, Any]:
    """For each annotator: the share of gold answers that are right, and how many were "unsure"."""
    right: dict[str, list[tuple[bool, float]]] = {}
    unsure: dict[str, int] = {}
    for row in answers.itertuples(index=False):
        known = gold.get(int(row.item), {}).get(str(row.question), {}).get(str(row.picture))  # type: ignore[arg-type]
        if known is None:
            continue
        name, question = str(row.annotator), questions[str(row.question)]
        if row.answer == question.unsure:
            unsure[name] = unsure.get(name, 0) + 1
        else:
            wrong_ones = len(question.choices) - bool(question.unsure)
            right.setdefault(name, []).append((row.answer == known, 1 / max(1, wrong_ones)))
    by_annotator: dict[str, Any] = {}
    for name in {*right, *unsure}:
        marks = right.get(name, [])
        estimate = None
        if marks:
            chance = float(np.mean([share for _, share in marks]))
            estimate = share_estimate([float(ok) for ok, _ in marks], null_value=chance, alternative="greater")
        by_annotator[name] = (estimate, unsure.get(name, 0))
    return by_annotator


def _people(store: ReviewStore, answers: pd.DataFrame) -> tuple[PersonSummary, ...]:
    gold = {i: json.loads(text) for i, text in store.rows("SELECT id, gold FROM items WHERE gold NOT NULL")}
    marks = gold_accuracy(answers, gold, {q.name: q for q in sheet_of(store).questions})
    assigned = dict(store.rows("SELECT annotator, count(*) FROM assigned GROUP BY annotator"))
    done: dict[str, list[tuple[int, float | None]]] = {}
    for name, skipped, seconds in store.rows("SELECT annotator, skipped, seconds FROM done"):
        done.setdefault(name, []).append((skipped, seconds))
    people = []
    for person in store.annotators():
        mine = done.get(person.name, [])
        times = [seconds for _, seconds in mine if seconds is not None]
        estimate, unsure = marks.get(person.name, (None, 0))
        people.append(
            PersonSummary(
                person.name,
                person.revoked,
                len(mine),
                sum(skipped for skipped, _ in mine),
                assigned.get(person.name, 0) - len(mine),
                float(np.median(times)) if times else None,
                estimate,
                unsure,
            )
        )
    return tuple(people)
