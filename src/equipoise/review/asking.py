"""What an annotator is shown, and what may be said of it: the same for the app and for pages without a server."""

from __future__ import annotations

import json
from typing import Any

from equipoise.review.dealing import place_of
from equipoise.review.questions import Questionnaire
from equipoise.review.store import WHOLE, ReviewStore


def shown_sheet(sheet: Questionnaire) -> dict[str, Any]:
    """What annotators are told of the questionnaire: nothing about gold, or which answers are hoped for."""
    shown = {name: getattr(sheet, name) for name in ("title", "about", "instructions", "warning")}
    told = ("name", "text", "kind", "choices", "hints", "unsure", "each", "optional")
    return {**shown, "questions": [{name: getattr(q, name) for name in told} for q in sheet.questions]}


def shown_item(store: ReviewStore, sheet: Questionnaire, name: str, number: int) -> dict[str, Any]:
    """What an annotator is shown of an item; pictures and replies stand in an order of the annotator's own."""
    item = store.item(number)
    seed = store.seed
    numbers: list[int] = item["pictures"]
    first = numbers[:1] if sheet.about == "source" else []
    shuffled = sorted(numbers[len(first) :], key=lambda picture: place_of(seed, name, f"picture {picture}"))
    marks = ",".join("?" * len(numbers))
    about = {
        i: {"flagged": bool(flagged), "broken": problem is not None, "label": label, "size": [width, height]}
        for i, flagged, problem, label, width, height in store.rows(
            f"SELECT id, flagged, problem, label, width, height FROM pictures WHERE id IN ({marks})", *numbers
        )
    }
    texts = sorted(item["texts"].items(), key=lambda pair: place_of(seed, name, f"text {number} {pair[0]}"))
    return {
        "item": number,
        "pictures": [{"id": i, "source": i in first, **about[i]} for i in (*first, *shuffled)],
        "told": [{"name": column.replace("_", " "), "text": text} for column, text in item["told"].items()],
        "texts": [{"name": column, "text": text} for column, text in texts],
    }


def read_answers(sheet: Questionnaire, pictures: list[int], said: dict[str, Any]) -> dict[tuple[str, int], str]:
    """Answers as they are kept, from those a page sends: ``question`` or ``question@picture`` to what was said.

    An answer that cannot be given, or a missing one, is a ``ValueError``.
    """
    looked_at = pictures[1:] if sheet.about == "source" else pictures
    kept: dict[tuple[str, int], str] = {}
    known = {}
    for question in sheet.questions:
        for picture in looked_at if question.each else [WHOLE]:
            known[key_of(question.name, picture)] = (question, picture)
    for key, value in said.items():
        if key not in known:
            raise ValueError("an answer to a question that was not asked")
        question, picture = known[key]
        if not question.fits(value):
            raise ValueError(f"{question.name}: this answer cannot be given")
        if question.kind == "several":
            value = json.dumps(sorted(value, key=question.choices.index), ensure_ascii=False)
        if value != "" or question.kind != "note":
            kept[question.name, picture] = value
    for question, picture in known.values():
        if not question.optional and (question.name, picture) not in kept:
            raise ValueError(f"{question.name}: there is no answer")
    return kept


def key_of(question: str, picture: int) -> str:
    """How a page names an answer."""
    return question if picture == WHOLE else f"{question}@{picture}"


def spoken(sheet: Questionnaire, question: str, text: str) -> Any:
    """An answer as a page knows it, from how it is kept."""
    return json.loads(text) if sheet.question(question).kind == "several" else text
