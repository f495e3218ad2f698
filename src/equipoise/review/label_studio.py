"""Label Studio's JSON, out and in: tasks with annotations, and the labelling configuration that goes with them.

Tasks follow Label Studio's own export ("JSON"): ``data`` with what is shown, ``annotations`` with ``result`` regions of
type ``choices`` or ``textarea``. The ids of item and images and the names of
people stand in ``data``, so that what comes back can be placed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

from equipoise.data.exports.source import alone, new_folder
from equipoise.errors import InputError, one_line
from equipoise.review.asking import key_of
from equipoise.review.preparing import sheet_of
from equipoise.review.questions import Questionnaire
from equipoise.review.store import WHOLE, ReviewStore


def write_label_studio(store: ReviewStore, folder: str | Path, *, pictures: bool = True) -> Path:
    """Write ``tasks.json`` and ``config.xml`` into the new ``folder``; ``pictures`` are in the tasks, as addresses."""
    tasks = tasks_of(store, pictures=pictures)
    most = max((len(json.loads(p)) for (p,) in store.rows("SELECT pictures FROM items")), default=1)
    with alone(folder), new_folder(folder) as target:
        (target / "tasks.json").write_text(json.dumps(tasks, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        (target / "config.xml").write_text(config_of(sheet_of(store), most), encoding="utf-8")
    return Path(folder) / "tasks.json"


def tasks_of(store: ReviewStore, *, pictures: bool = True) -> list[dict[str, Any]]:
    """One task per item, with everything that people said of it."""
    sheet = sheet_of(store)
    ids = dict(store.rows("SELECT id, image_id FROM pictures"))
    answers: dict[tuple[str, int], list[tuple[str, int, str]]] = {}
    for annotator, item, *rest in store.rows("SELECT annotator, item, question, picture, answer FROM answers"):
        answers.setdefault((annotator, item), []).append((rest[0], rest[1], rest[2]))
    people = {person.name: number for number, person in enumerate(store.annotators(), 1)}
    done: dict[int, list[tuple[str, bool, float | None, float]]] = {}
    for annotator, item, skipped, seconds, at in store.rows(
        "SELECT annotator, item, skipped, seconds, at FROM done ORDER BY item, annotator"
    ):
        done.setdefault(item, []).append((annotator, bool(skipped), seconds, at))
    tasks = []
    for number, name, numbers, told, texts in store.rows(
        "SELECT id, name, pictures, told, texts FROM items ORDER BY id"
    ):
        shown = json.loads(numbers)
        data: dict[str, Any] = {"item": name, "image_ids": [ids[i] for i in shown], **json.loads(told)}
        data |= json.loads(texts)
        for place, picture in enumerate(shown, 1):
            data[f"image_{place}"] = _address(store, picture) if pictures else f"picture/{picture}"
        annotations = []
        for who, skipped, seconds, at in done.get(number, []):
            said = answers.get((who, number), [])
            moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            annotations.append(
                {
                    "id": number * 10_000 + people[who],
                    "completed_by": people[who],
                    "result": [_region(sheet, question, picture, answer, shown) for question, picture, answer in said],
                    "was_cancelled": skipped,
                    "ground_truth": False,
                    "created_at": moment,
                    "updated_at": moment,
                    "lead_time": seconds,
                    "task": number,
                }
            )
        data["annotators"] = {str(people[who]): who for who, *_ in done.get(number, [])}
        tasks.append({"id": number, "data": data, "annotations": annotations, "predictions": []})
    return tasks


def _region(sheet: Questionnaire, question: str, picture: int, answer: str, shown: Sequence[int]) -> dict[str, Any]:
    asked = sheet.question(question)
    place = 1 if picture == WHOLE else shown.index(picture) + 1
    name = question if picture == WHOLE else f"{question}_{place}"
    region: dict[str, Any] = {"id": key_of(question, picture), "from_name": name, "to_name": f"image_{place}"}
    if asked.kind == "note":
        return {**region, "type": "textarea", "value": {"text": [answer]}}
    chosen = json.loads(answer) if asked.kind == "several" else [answer]
    return {**region, "type": "choices", "value": {"choices": chosen}}


def config_of(sheet: Questionnaire, pictures: int = 1) -> str:
    """The labelling configuration that shows the same questions in Label Studio."""
    lines = ["<View>", f"  <Header value={quoteattr(sheet.title)}/>"]
    lines += [f'  <Text name="{name}" value="${name}"/>' for name in (*sheet.show, *sheet.texts)]
    lines += [f'  <Image name="image_{place}" value="$image_{place}"/>' for place in range(1, pictures + 1)]
    for question in sheet.questions:
        first = 2 if sheet.about == "source" else 1
        places = range(first, pictures + 1) if question.each else [0]
        for place in places:
            name = f"{question.name}_{place}" if place else question.name
            required = str(not question.optional).lower()
            target = f'name="{name}" toName="image_{place or 1}" required="{required}"'
            lines.append(f"  <Header value={quoteattr(question.text)}/>")
            if question.kind == "note":
                lines.append(f"  <TextArea {target}/>")
                continue
            choice = "multiple" if question.kind == "several" else "single"
            lines.append(f'  <Choices {target} choice="{choice}">')
            lines += [f"    <Choice value={quoteattr(answer)}/>" for answer in question.choices]
            lines.append("  </Choices>")
    return "\n".join([*lines, "</View>", ""])


def read_label_studio(path: str | Path, sheet: Questionnaire) -> list[dict[str, Any]]:
    """Rows of labels from an export of Label Studio ("JSON"), for :func:`equipoise.review.labels.take_in`."""
    try:
        tasks = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({one_line(error)})") from None
    try:
        return [row for task in tasks for row in _rows(task, sheet)]
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise InputError(
            f"{path}: not an export of Label Studio for this review ({type(error).__name__}: {one_line(error)})"
        ) from None


def _rows(task: dict[str, Any], sheet: Questionnaire) -> Iterator[dict[str, Any]]:
    data = task["data"]
    images = [str(image) for image in data["image_ids"]]
    for annotation in task.get("annotations") or []:
        who = _person(annotation.get("completed_by"), data.get("annotators") or {})
        about = {"annotator": who, "item": str(data["item"]), "seconds": annotation.get("lead_time")}
        regions = [] if annotation.get("was_cancelled") else annotation["result"]
        for region in regions:
            question, place = _asked(region["from_name"], sheet)
            value = region["value"]
            answer = "\n".join(value["text"]) if region["type"] == "textarea" else list(value["choices"])
            asked = sheet.question(question)
            if region["type"] == "choices" and asked.kind != "several":
                answer = answer[0]
            yield {
                **about,
                "image_id": images[place - 1] if place else images[0],
                "question": question,
                "answer": answer,
            }
        if not regions:
            yield {**about, "image_id": images[0], "question": "", "answer": None}


def _person(by: Any, names: dict[str, Any]) -> str:
    """The name of whoever did it: known from the export, or as Label Studio tells it."""
    if isinstance(by, dict):
        return str(by.get("first_name") or by.get("email") or by["id"]).partition("@")[0]
    return str(names.get(str(by)) or f"person {by}")


def _asked(name: str, sheet: Questionnaire) -> tuple[str, int]:
    names = {q.name: q.each for q in sheet.questions}
    if name in names:
        return name, 0
    question, _, place = name.rpartition("_")
    if names.get(question) and place.isdecimal() and int(place):
        return question, int(place)
    raise InputError(f"there is no question named {name!r} in this review")


def _address(store: ReviewStore, picture: int) -> str:
    stored = store.picture(picture)
    return f"data:{stored[0]};base64,{base64.b64encode(stored[1]).decode()}" if stored else ""
