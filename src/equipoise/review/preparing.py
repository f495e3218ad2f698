"""From a table of images to a review: which items, which pictures, which hidden gold.

The pictures are copied into the review, decoded and encoded anew: nothing but pixels is served, at most 1,600 to a
side, and the table may be moved meanwhile. Annotators see numbers, never ids: an id often tells the group.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from equipoise.data import Table
from equipoise.data.images import decode
from equipoise.data.labels import set_names, sets_by_name, with_joined_labels
from equipoise.data.runs import Run, claimed, find_run, read_run
from equipoise.data.settings import Settings
from equipoise.errors import InputError, OtherSettingsError, one_line
from equipoise.formatting import missing, plural
from equipoise.review.questions import Questionnaire, questionnaire_of
from equipoise.review.store import WHOLE, ReviewStore
from equipoise.text.labels import read_labels

FILE = "review.sqlite"
_EDGE = 1600
_NAME = "name of the item"
"""The column of a frame that says which item an image belongs to."""
_LOSSLESS = 512 * 512
"""Pictures of up to so many pixels are encoded without loss."""

GoldAnswers = Mapping[str, Mapping[str, str]]
"""Right answers that are known: of an item or image id, by question."""


@dataclass(frozen=True)
class ReviewSettings(Settings):
    """How much is looked at, and by how many."""

    what: ClassVar[str] = "setting of a review"

    items: Annotated[int, Field(ge=0)] = 0
    """So many items, drawn at random; 0 takes all."""
    raters: Annotated[int, Field(ge=1)] = 1
    """How many people see each item."""
    shared: Annotated[float, Field(ge=0, le=1)] = 0.2
    """The share of items that everybody sees: agreement is measured on those."""
    gold: Annotated[int, Field(ge=0)] = 0
    """So many items with known answers, hidden among the others and seen by everybody."""
    only_kept: bool = False
    """Leave out images that a filter dropped."""
    seed: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True)
class _Item:
    name: str
    images: list[str]
    told: dict[str, str]
    texts: dict[str, str]
    gold: dict[str, Any] | None


def prepare(
    table: Table,
    sheet: Questionnaire,
    out: str | Path,
    settings: ReviewSettings | None = None,
    *,
    gold: GoldAnswers | None = None,
    overwrite: bool = False,
) -> ReviewStore:
    """The review of ``table`` in the folder ``out``: made now, or the one that was made there with the same settings.

    Args:
        table: the images, with every column that the questionnaire names.
        sheet: what is asked.
        out: the folder; a review of another table, or with other questions or settings, is refused there.
        settings: how many items are looked at, and by how many people; unless given, all, by one each, and a fifth by
            everybody.
        gold: right answers, by question, of items or images by their id; a set may go by its ``set_id`` where only one
            subject has it.
        overwrite: make the review anew, whatever the folder holds; one with answers is never replaced, nor a table.

    Returns:
        The review, open.
    """
    chosen = settings or ReviewSettings()
    folder = Path(out)
    frame = _frame(table, sheet, chosen.only_kept)
    columns = [q.answers_from for q in sheet.questions if q.answers_from]
    sheet = sheet.with_answers({column: read_labels(frame[column].tolist()).names for column in columns})
    config = {"questionnaire": json.loads(json.dumps(sheet.plain())), **chosen.plain()}
    if gold:
        config["gold_answers"] = {name: dict(answers) for name, answers in sorted(gold.items())}
    before = find_run(folder) if folder.is_dir() else None
    if before is not None and before.kind == "review" and before.finished and not overwrite:
        _refuse_others(before, config, table.fingerprints)
        store = open_review(folder)
        if sheet.about == "set":
            _refuse_joined_sets(store, frame)
        return store
    sheet.perceived()  # what could not become a layer is refused before anyone looks
    called = sets_by_name(_sets(table)) if sheet.about == "set" else {}
    known = dict(gold or {})
    known |= {called[name]: answers for name, answers in known.items() if name in called}
    items = _items(frame, sheet, chosen, known)
    _refuse_losing_answers(folder)
    parents = {"table": table.fingerprint} | {
        f"layer {i}": layer.fingerprint for i, layer in enumerate(table.layers, 1)
    }
    with claimed(
        folder, "review", of={"table": str(table.path)}, settings=config, parents=parents, overwrite=overwrite
    ) as run:
        _write(run.stage / FILE, table, frame, sheet, chosen, items, called).close()
        run.publish()
    return open_review(folder)


def open_review(folder: str | Path) -> ReviewStore:
    """The review in ``folder``."""
    read_run(folder, "review")
    return ReviewStore(Path(folder) / FILE)


def sheet_of(store: ReviewStore) -> Questionnaire:
    """What is asked in a review."""
    return questionnaire_of(store.setting("questionnaire"), str(store.path))


def _refuse_others(before: Run, config: Mapping[str, Any], fingerprints: Sequence[str]) -> None:
    if before.settings != config or tuple((before.about.get("parents") or {}).values()) != tuple(fingerprints):
        raise OtherSettingsError(
            f"{before.folder}: holds a review of another table or with other questions or settings; give the same ones "
            "to go on with it, or another folder with -o"
        )


def _refuse_joined_sets(store: ReviewStore, frame: pd.DataFrame) -> None:
    """Refuse to go on with a review of an earlier version that shows sets of several subjects as one."""
    set_of = dict(zip(frame["image_id"].astype(str), frame[_NAME], strict=True))
    ids = dict(store.rows("SELECT id, image_id FROM pictures"))
    for name, pictures in store.rows("SELECT name, pictures FROM items"):
        if len({set_of.get(ids[number]) for number in json.loads(pictures)}) > 1:
            store.close()
            raise InputError(
                f"{store.path.parent}: item {name!r} shows sets of several subjects as one; make a new review in "
                "another folder with -o, and take over the other answers with equipoise review export and import"
            )


def _refuse_losing_answers(folder: Path) -> None:
    if not (folder / FILE).is_file():
        return
    with closing(ReviewStore(folder / FILE)) as store:
        [(answers,)] = store.rows("SELECT count(*) FROM done")
    if answers:
        raise InputError(
            f"{folder}: holds what people said of {plural(answers, 'item')}, which is not replaced; give another "
            "folder with -o, or delete this one yourself"
        )


def _frame(table: Table, sheet: Questionnaire, only_kept: bool) -> pd.DataFrame:
    """What items are made of, all but the pictures."""
    for name in sheet.columns:
        if name not in table.columns:
            raise InputError(f"{table.path} has no column {name!r}, which the questionnaire needs")
    wanted = ["image_id", *sheet.columns, *(a for a in table.axes if a not in sheet.columns)]
    frame = table.to_pandas(wanted, only_kept=only_kept)
    joined, _ = with_joined_labels(frame, table.axes)
    if sheet.about == "set":
        # by all images, so that a set is called the same whatever a filter dropped
        names = pd.Series(set_names(_sets(table)), index=table.to_pandas(["image_id"])["image_id"])
        return joined.assign(**{_NAME: names.reindex(joined["image_id"]).to_numpy()})
    return joined.assign(**{_NAME: joined["source_id"]}) if sheet.about == "source" else joined


def _sets(table: Table) -> pd.DataFrame:
    """What says which images are one set."""
    return table.to_pandas([name for name in ("set_id", "subject") if name in table.columns])


def _items(
    frame: pd.DataFrame, sheet: Questionnaire, settings: ReviewSettings, gold: GoldAnswers
) -> list[tuple[_Item, bool]]:
    """The items that are looked at, each with whether everybody sees it."""
    items = [item for item in _all_items(frame, sheet, gold) if item.images]
    if not items:
        raise InputError(f"the table has no item about {sheet.about!r}; is {sheet.columns} filled in?")
    rng = np.random.default_rng(settings.seed)
    order = [items[i] for i in rng.permutation(len(items))]
    known = [item for item in order if item.gold]
    if len(known) < settings.gold:
        raise InputError(
            f"{plural(settings.gold, 'gold item')} wanted, but the right answer is known of {len(known)} only; name a "
            "column with gold in the questionnaire, or give answers with --gold-answers"
        )
    hidden = known[: settings.gold]
    names = {item.name for item in hidden}
    rest = [item for item in order if item.name not in names]
    if settings.items:
        rest = rest[: max(0, settings.items - len(hidden))]
    n_shared = int(settings.shared * len(rest) + 0.5)
    chosen = [(item, True) for item in hidden]
    chosen += [(_Item(i.name, i.images, i.told, i.texts, None), n < n_shared) for n, i in enumerate(rest)]
    return [chosen[i] for i in rng.permutation(len(chosen))]  # a gold item is not told by its number


def _all_items(frame: pd.DataFrame, sheet: Questionnaire, gold: GoldAnswers) -> Iterator[_Item]:
    if sheet.about in ("image", "replies"):
        for row in frame.to_dict("records"):
            yield _made(str(row["image_id"]), [row], sheet, gold)
        return
    records = frame[frame[_NAME].notna()]
    for name, group in records.groupby(_NAME, sort=True):
        rows = group.to_dict("records")
        if sheet.about == "source":
            sources = frame[frame["image_id"] == name].to_dict("records")
            others = [row for row in rows if row["image_id"] != name]
            if not sources or not others:
                continue
            rows = [sources[0], *others]
        if len(rows) > sheet.pictures:
            raise InputError(f"item {name!r} has {len(rows)} pictures; set pictures (at most 60) in the questionnaire")
        yield _made(str(name), rows, sheet, gold)


def _made(name: str, rows: list[dict[Any, Any]], sheet: Questionnaire, gold: GoldAnswers) -> _Item:
    shown = {column: str(rows[0][column]) for column in sheet.show if not missing(rows[0][column])}
    texts = {column: "" if missing(rows[0][column]) else str(rows[0][column]) for column in sheet.texts}
    return _Item(name, [str(row["image_id"]) for row in rows], shown, texts, _gold(name, rows, sheet, gold))


def _gold(name: str, rows: list[dict[Any, Any]], sheet: Questionnaire, gold: GoldAnswers) -> dict[str, Any] | None:
    """The right answers that are known of an item: question to image (or the whole) to answer."""
    by_question: dict[str, dict[str, str]] = {}
    looked_at = rows[1:] if sheet.about == "source" else rows
    for question in sheet.questions:
        if question.each:
            answers = {str(r["image_id"]): gold.get(str(r["image_id"]), {}).get(question.name) for r in looked_at}
            if question.gold:
                answers = {
                    str(r["image_id"]): answers[str(r["image_id"])] or _text(r[question.gold]) for r in looked_at
                }
        else:
            right = gold.get(name, {}).get(question.name)
            if right is None and question.gold:
                values = {_text(row[question.gold]) for row in looked_at}
                right = values.pop() if len(values) == 1 else None
            answers = {"": right}
        known = {image: answer for image, answer in answers.items() if answer is not None and question.fits(answer)}
        if known:
            by_question[question.name] = known
    return by_question or None


def _text(value: Any) -> str | None:
    return None if missing(value) else str(value)


def _write(
    path: Path,
    table: Table,
    frame: pd.DataFrame,
    sheet: Questionnaire,
    settings: ReviewSettings,
    items: Sequence[tuple[_Item, bool]],
    called: Mapping[str, str],
) -> ReviewStore:
    numbers: dict[str, int] = {}
    for item, _ in items:
        for image in item.images:
            numbers.setdefault(image, len(numbers) + 1)
    labels = dict(zip(frame["image_id"], frame[sheet.label], strict=True)) if sheet.label else {}
    flagged: set[str] = set()
    if sheet.flagged and sheet.flagged != "all":
        flagged = {str(i) for i, flag in zip(frame["image_id"], frame[sheet.flagged], strict=True) if _is_set(flag)}
    rows = [_row(number, item, shared, numbers) for number, (item, shared) in enumerate(items, 1)]
    kept = {
        "questionnaire": sheet.plain(),
        "plan": {"raters": settings.raters, "seed": settings.seed},
        "table": {"path": str(table.path), "fingerprint": table.fingerprint, "axes": list(table.axes)},
        "called": {bare: name for bare, name in called.items() if bare != name},
    }

    def pictures() -> Iterator[tuple[Any, ...]]:
        for batch in table.batches(["image_id", "image"]):
            for row in batch.to_pylist():
                image_id = row["image_id"]
                if image_id in numbers:
                    media, content, problem, size = _encoded(row["image"], table)
                    hidden = sheet.flagged == "all" or image_id in flagged
                    label = _text(labels.get(image_id))
                    yield numbers[image_id], image_id, media, content, problem, int(hidden), label, *size

    return ReviewStore.create(path, kept, pictures(), rows)


def _row(number: int, item: _Item, shared: bool, numbers: Mapping[str, int]) -> tuple[Any, ...]:
    gold = None
    if item.gold is not None:
        by_number = {
            question: {str(numbers[image] if image else WHOLE): answer for image, answer in known.items()}
            for question, known in item.gold.items()
        }
        gold = json.dumps(by_number)
    pictures = json.dumps([numbers[image] for image in item.images])
    return number, item.name, pictures, json.dumps(item.told), json.dumps(item.texts), int(shared), gold


def _encoded(image: Any, table: Table) -> tuple[str | None, bytes | None, str | None, Sequence[int | None]]:
    """Media type and bytes of a picture, or why there are none, and its size; all else is left behind."""
    try:
        picture = decode(image, root=table.image_root)
    except InputError as error:
        return None, None, one_line(error), (None, None)
    picture.thumbnail((_EDGE, _EDGE))
    target = io.BytesIO()
    if picture.width * picture.height <= _LOSSLESS:
        picture.save(target, "PNG")
        return "image/png", target.getvalue(), None, picture.size
    picture.save(target, "JPEG", quality=95, subsampling=0)
    return "image/jpeg", target.getvalue(), None, picture.size


def _is_set(flag: Any) -> bool:
    return not missing(flag) and flag not in (False, 0, "", "false", "0", "no")
