"""What people said, as tables: one row per answer, majorities, CSV; and back.

A row says who said what of which image (``image_id``, ``annotator``, ``question``, ``answer``). An answer about a whole
item stands once, at its first image (of a source with what was made from it: at the source), and ``item`` names the
item: the set, the source or the image.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.errors import InputError
from equipoise.formatting import plural
from equipoise.review.asking import read_answers
from equipoise.review.preparing import sheet_of
from equipoise.review.questions import GROUP_KINDS, Question, Questionnaire
from equipoise.review.store import ReviewStore, check_name

COLUMNS = ("image_id", "annotator", "question", "answer", "item", "about", "skipped", "seconds", "at")
_FURTHER = {"item": "string", "about": "string", "skipped": "bool", "seconds": "float64", "at": "float64"}
_UNSURE = "unsure"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "'")
"""What a spreadsheet may take for a formula at the beginning of a cell; and our own mark."""


def labels_frame(store: ReviewStore, *, skipped: bool = False) -> pd.DataFrame:
    """One row per answer.

    Args:
        store: the review.
        skipped: add a row without question and answer for every item that somebody skipped, or said nothing of.

    Returns:
        A frame with the columns ``COLUMNS``; ``answer`` is text, and JSON where a question takes several.
    """
    sheet = sheet_of(store)
    rows = store.rows(
        "SELECT items.pictures, done.annotator, answers.question, answers.answer, items.name, answers.picture, "
        "done.skipped, done.seconds, done.at FROM done JOIN items ON items.id = done.item "
        "LEFT JOIN answers ON answers.annotator = done.annotator AND answers.item = done.item "
        "ORDER BY items.name, done.annotator, answers.question, answers.picture"
    )
    ids = dict(store.rows("SELECT id, image_id FROM pictures"))
    records = []
    for pictures, annotator, question, answer, item, picture, was_skipped, seconds, at in rows:
        if question is None and not skipped:
            continue
        number = picture or json.loads(pictures)[0]
        about = "image" if picture else sheet.about
        records.append((ids[number], annotator, question or "", answer, item, about, bool(was_skipped), seconds, at))
    frame = pd.DataFrame(records, columns=list(COLUMNS))
    return frame.astype({"seconds": "float64", "at": "float64", "skipped": "bool"})


def write_labels_table(store: ReviewStore, path: str | Path) -> Table:
    """A table of kind ``labels``, whose parent is the table that was looked at."""
    frame = labels_frame(store)
    parents = [store.setting("table")["fingerprint"]]
    return Table.create(path, frame, kind="labels", columns=_FURTHER, parents=parents)


def write_labels_csv(store: ReviewStore, path: str | Path) -> Path:
    """A CSV file of all answers; a cell that a spreadsheet would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in labels_frame(store, skipped=True).itertuples(index=False):
        writer.writerow([_escaped(value) for value in row])
    target = Path(path)
    write_whole(target, text.getvalue().encode())
    return target


def read_labels_csv(path: str | Path) -> list[dict[str, str]]:
    """The rows of a CSV file of labels, apostrophes taken off again.

    A file of one's own needs the columns ``image_id``, ``annotator``, ``question`` and ``answer``.
    """
    try:
        reader = csv.DictReader(io.StringIO(Path(path).read_text(encoding="utf-8-sig"), newline=""))
        rows = []
        for row in reader:
            if None in row:  # where DictReader puts fields without a column
                why = "has more fields than columns; put quotes around text with commas"
                raise InputError(f"{path}: line {reader.line_num} {why}")
            rows.append({str(k): _unescaped(v or "") for k, v in row.items()})
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8 ({error})") from None
    for column in COLUMNS[:4]:
        if not rows or column not in rows[0]:
            raise InputError(f"{path}: has no column {column!r}; it needs {', '.join(COLUMNS[:4])}")
    return rows


def _escaped(value: Any) -> Any:
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _unescaped(text: str) -> str:
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text


def take_in(store: ReviewStore, rows: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """Keep labels that came from elsewhere (CSV, Label Studio, pages without a server); how many items and people.

    Rows name ``annotator``, ``question``, ``answer``, and ``item`` or ``image_id``; ``skipped`` and ``seconds`` may be
    there. People who are not known are added without a link. An item that somebody has answered here is replaced.
    A set may be named by its ``set_id`` alone where one subject has such a set, and need not be for answers about one
    image.
    """
    sheet = sheet_of(store)
    items = {
        name: (i, json.loads(pictures)) for i, name, pictures in store.rows("SELECT id, name, pictures FROM items")
    }
    numbers = {image: i for i, image in store.rows("SELECT id, image_id FROM pictures")}
    item_of = {picture: name for name, (_, pictures) in items.items() for picture in pictures}
    called = store.setting("called", {})
    said: dict[tuple[str, str], dict[str, Any]] = {}
    seconds: dict[tuple[str, str], float | None] = {}
    for row in rows:
        image = str(row.get("image_id") or "")
        question = sheet.question(str(row["question"])) if row.get("question") else None
        shown_in = item_of.get(numbers.get(image, 0), "")
        name = str(row.get("item") or shown_in)
        name = called.get(name, name)
        if name not in items and sheet.about == "set" and question is not None and question.each:
            name = shown_in
        if name not in items:
            raise InputError(_not_here(name or image, items))
        who = str(row["annotator"])
        answers = said.setdefault((who, name), {})
        seconds[who, name] = _number(row.get("seconds"))
        if question is None:
            continue
        value = row["answer"]
        if question.kind == "several" and isinstance(value, str):
            value = _listed(value)
        answers[question.name if not question.each else f"{question.name}@{numbers.get(image, 0)}"] = value
    kept = {}
    for (who, name), answers in said.items():
        try:
            read = read_answers(sheet, items[name][1], answers) if answers else {}
        except ValueError as error:
            raise InputError(f"item {name!r}, {who}: {error}") from None
        kept[check_name(who), items[name][0]] = (read, seconds[who, name])
    store.take_in(kept)
    return len(kept), len({who for who, _ in kept})


def _not_here(name: str, items: Iterable[str]) -> str:
    meant = sorted(item for item in items if item.endswith(f": {name}"))
    if len(meant) > 1:
        return f"item {name!r} may be {' or '.join(map(repr, meant))}; name the subject too, or leave its rows out"
    return f"item {name!r} is not in this review; import labels of the same review"


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1e7 else None


def _listed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [text]


def majority(labels: pd.DataFrame, question: str, *, unsure: str = "", least: int = 1) -> pd.DataFrame:
    """What most people say of each item and image.

    Args:
        labels: one row per answer, as :func:`labels_frame` gives them.
        question: the name of the question that counts.
        unsure: the answer of people who cannot tell; it is counted, and is no answer if it wins.
        least: fewer answers than this are no answer, and neither is a tie.

    Returns:
        One row per item and image, with ``item``, ``image_id``, ``answer`` (``None`` for no answer), ``share`` (of the
        commonest answer) and ``n``.

    >>> labels = pd.DataFrame({"item": ["a"] * 3, "image_id": ["a"] * 3, "annotator": [*"xyz"], "question": ["q"] * 3,
    ...                      "answer": ["yes", "yes", "no"]})
    >>> majority(labels, "q").values.tolist()
    [['a', 'a', 'yes', 0.6666666666666666, 3]]
    """
    rows = []
    asked = labels[(labels["question"] == question) & labels["answer"].notna()]
    for (item, image), group in asked.groupby(["item", "image_id"], sort=True):
        counts = group["answer"].value_counts()
        top = int(counts.iloc[0])
        clear = (counts == top).sum() == 1 and len(group) >= least and counts.index[0] != unsure
        rows.append((item, image, counts.index[0] if clear else None, top / len(group), len(group)))
    return pd.DataFrame(rows, columns=["item", "image_id", "answer", "share", "n"])


def accepted_items(store: ReviewStore, question: str = "") -> pd.Series[Any]:
    """Whether people would let each item stay: what thresholds are learned from.

    Items on which people are split, or no more of them are sure than unsure, are left out, as by :func:`majority`.
    Where each image is asked about, an item stays if all its images do; one that is rejected is enough against it.

    Args:
        store: the review.
        question: the name of the one that counts; the first that says which answers are accepted, unless given.

    Returns:
        True or false by the item's name.
    """
    return _stays(store, _accepting(sheet_of(store), question), "item")


def accepted_images(store: ReviewStore, question: str = "") -> pd.Series[Any]:
    """Whether people would let each image stay, by its id: what a judge of images is compared with.

    As :func:`accepted_items`; a question about a whole set or source says nothing of its images and is refused.
    """
    sheet = sheet_of(store)
    asked = _accepting(sheet, question)
    if sheet.of_several(asked):
        raise InputError(
            f"people answered {asked.name!r} of each {sheet.about} as a whole, and the judge spoke of images; "
            "calibrate on a review about images"
        )
    return _stays(store, asked, "image_id")


def _accepting(sheet: Questionnaire, question: str) -> Question:
    asked = sheet.question(question) if question else next((q for q in sheet.questions if q.accept), None)
    if asked is None or not asked.accept:
        raise InputError("no question says which answers are accepted; add accept = [...] to one of them")
    return asked


def _stays(store: ReviewStore, asked: Question, by: str) -> pd.Series[Any]:
    """By item or image: no where any verdict is no, yes where all are yes; what is undecided is left out."""
    labels = labels_frame(store)
    words = {True: "yes", False: "no", None: _UNSURE}
    asked_rows = labels[(labels["question"] == asked.name) & labels["answer"].notna()]
    verdicts = asked_rows.assign(answer=[words[asked.accepted(answer)] for answer in asked_rows["answer"]])
    said = majority(verdicts, asked.name, unsure=_UNSURE)
    accepted = (said["answer"] == "yes").groupby(said[by]).all()
    clear = accepted | (said["answer"] == "no").groupby(said[by]).any()
    if not clear.any():
        raise InputError(f"nobody has answered {asked.name!r} clearly yet")
    return accepted[clear]


def people_layer(store: ReviewStore, table: Table, *, least: int = 1, path: str | Path | None = None) -> Table:
    """Write a layer of what people perceive: each axis that a question about an image asks about.

    Where most people agree, the axis and ``label_source`` (``annotator``) are replaced; where they are unsure or split,
    or nobody has looked, the table keeps what it says. Each axis is decided by itself. A question about a whole set or
    source gives none of its images a group and is left out; where there is no other, it is refused.

    Args:
        store: the review.
        table: the table that was looked at, or another that holds the same images.
        least: fewer answers than this about an image decide nothing.
        path: the folder of the layer; ``people`` among the table's layers unless given.

    Returns:
        The table, read with the layer.
    """
    sheet = sheet_of(store)
    labels = labels_frame(store)
    asked = sheet.perceived()
    whole = [q for q in sheet.questions if q.axis and q.kind in GROUP_KINDS and sheet.of_several(q)]
    if whole and not asked:
        raise InputError(
            f"people answered {whole[0].name!r} of each {sheet.about} as a whole, which gives no image a group; add "
            "each = true to the question and ask again"
        )
    if not asked:
        raise InputError('no question asks about an axis; add axis = "..." to one of them')
    columns = {}
    for question in asked:
        said = majority(labels, question.name, unsure=question.unsure, least=least).dropna(subset=["answer"])
        columns[question.axis] = said.set_index("image_id")["answer"]
    frame = pd.DataFrame(columns)
    if frame.empty:
        raise InputError("no image has a clear answer yet")
    told = table.to_pandas(["image_id", *(axis for axis in columns if axis in table.columns)]).set_index("image_id")
    frame = frame.where(frame.notna(), told.reindex(index=frame.index, columns=frame.columns))
    frame = frame.assign(label_source="annotator").rename_axis("image_id").reset_index()
    frame = frame.astype(object).where(frame.notna(), None)
    uses = [store.setting("table")["fingerprint"]]
    config = {"least": least, "questions": [q.name for q in asked]}
    return table.add_layer(
        "people", frame, axes=list(columns), columns={"label_source": "string"}, config=config, uses=uses, path=path
    )


def gold_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Known answers from rows of labels: of an item or image, by question; who gave them does not matter."""
    known: dict[str, dict[str, str]] = {}
    for row in rows:
        name = str(row.get("item") or row["image_id"])
        earlier = known.setdefault(name, {}).setdefault(str(row["question"]), str(row["answer"]))
        if earlier != str(row["answer"]):
            raise InputError(f"gold: {name!r} has two answers to {row['question']!r}; {plural(1, 'answer')} is right")
    return known
