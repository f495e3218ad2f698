"""A dataset as the analyses take it: images with captions, groups on some axes, subjects and objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.captions import known_captions
from equipoise.audit.captions.reading import (
    USUAL,
    CaptionColumns,
    is_empty,
    items_of,
    origin_name,
    read_records,
    suffix_of,
)
from equipoise.audit.gather import joined, labels_of
from equipoise.audit.subjects import pool_name
from equipoise.data import Table
from equipoise.data.labels import origins
from equipoise.data.readers.files import plain_lines
from equipoise.data.readers.files.mapped import axes_named
from equipoise.data.sampling import some_ids, some_of
from equipoise.errors import InputError, UnknownNameError, like_it
from equipoise.formatting import plural
from equipoise.measure.groups import Groups
from equipoise.text import LEXICONS, Lexicon
from equipoise.text.labels import means_unknown, same_label

LISTS = ("captions", "objects")
APART = "apart"
"""The attribute of a frame that holds the images whose rows differ, by column."""


@dataclass(frozen=True)
class Dataset:
    """One row per image, as read; nothing is guessed: an image without a group on an axis is undefined there."""

    name: str
    frame: pd.DataFrame
    captions: list[list[str]]
    """Every caption of each image; empty lists where there is none."""
    groups: dict[str, Groups]
    """By axis."""
    lexicons: dict[str, Lexicon]
    """The lexicon that makes captions neutral, for the axes that have one."""
    labelled_by: dict[str, str]
    """Who says which group, by axis: the table, or a lexicon from the captions."""
    pool: str = "natural"
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def sources(self) -> NDArray[Any] | None:
        """(n,) what keeps images together that are not independent; None where each stands alone."""
        return origins(self.frame)

    @property
    def n_captions(self) -> int:
        """All captions of all images."""
        return sum(len(some) for some in self.captions)


def read_dataset(
    source: str | Path,
    *,
    axes: Sequence[str] = (),
    lexicon: str = "equipoise",
    columns: CaptionColumns = USUAL,
    layers: Sequence[str] = (),
    limit: int = 0,
    sample: int = 0,
    seed: int = 0,
) -> Dataset:
    """The dataset in ``source``, with groups on some axes.

    Args:
        source: a table's folder, or a file of captions (COCO JSON, JSONL, CSV, TSV, plain lines).
        axes: the columns that hold groups; ``gender=sex`` reads the axis gender from the column sex. Unless given, all
            that the table names, or else the axis of the lexicon.
        lexicon: what makes captions neutral; its axis is read from the captions where no column has it.
        columns: the columns of a file that are called otherwise than usual.
        layers: those of a table that are joined, by name; ``["all"]`` joins all beside it.
        limit: only the first so many images; 0 takes all.
        sample: only so many, drawn, sets of a table whole; 0 takes all.
        seed: which images ``sample`` draws.

    Returns:
        The images with their captions and groups; its notes say what is undefined.
    """
    words = Lexicon.load(lexicon)
    path = Path(source)
    if not path.exists():
        raise InputError(f"{path}: no such table or captions file{like_it(path)}")
    if columns != USUAL and (path.is_dir() or suffix_of(path) == ".txt"):
        what = "a table, whose columns have names of their own" if path.is_dir() else "lines of text without columns"
        raise InputError(f"{path}: {what}; leave out --id-column and --caption-column")
    if path.is_dir():
        frame, known = _from_table(path, layers, limit, sample, seed)
    else:
        if layers:
            raise InputError(f"{path}: is not a table, so it has no layers; leave out --layer")
        frame, known = _some(_from_file(path, columns), limit, sample, seed), ()
    apart = {name: int(frame["image_id"].isin(images).sum()) for name, images in frame.attrs.get(APART, {}).items()}
    named = axes_named(axes)
    axes = tuple(named)
    moved = {axis: column for axis, column in named.items() if column != axis}
    for column in moved.values():
        if column not in frame:
            raise UnknownNameError(f"column of {path}", column, map(str, frame.columns))
    # a column that already has the axis's name gives way
    gone = [column for column in moved.values() if column not in named]
    frame = frame.assign(**{axis: frame[column] for axis, column in moved.items()}).drop(columns=gone)
    captions = known_captions(frame)
    frame = joined(frame, axes)
    notes: list[str] = frame.attrs["label_notes"]
    asked = tuple(dict.fromkeys(axes))
    if not asked:
        asked = tuple(axis for axis in known if frame[axis].notna().any())
        notes += [f"the axis {axis!r} is undefined for every image" for axis in known if axis not in asked]
    by_axis = {axis: _groups(frame, captions, axis, words, path) for axis in asked or (words.axis,)}
    columns_used = {name: name for name in ("subject", "source_id", "set_id")}
    columns_used |= {named.get(axis, axis): axis for axis in by_axis}
    notes += [
        f"{name}: {plural(apart[column], 'image')} undefined, because the rows of the image differ"
        for column, name in columns_used.items()
        if apart.get(column)
    ]
    unfit = words.unfit_for(text for some in captions for text in some) if words.axis in by_axis else ""
    notes += [unfit] if unfit else []
    if words.axis in by_axis and words.language != "en" and any(captions):
        firsts = [some[0] if some else "" for some in captions]
        groups = by_axis[words.axis][0]
        names = [groups.names[label] if label >= 0 else None for label in groups.labels.tolist()]
        notes += filter(None, [words.warning, words.still_told(words.neutralise_all(firsts), names)])
    return Dataset(
        path.name,
        frame,
        captions,
        {axis: groups for axis, (groups, _) in by_axis.items()},
        _lexicons(by_axis, words),
        {axis: by for axis, (_, by) in by_axis.items()},
        pool_name(frame),
        notes,
    )


def _from_table(
    path: Path, layers: Sequence[str], limit: int, sample: int, seed: int
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    table = Table.open(path, layers="all" if list(layers) == ["all"] else layers)
    table = some_of(table, limit=limit, sample=sample, seed=seed)
    if table.kind != "images":
        raise InputError(f"{path}: holds {table.kind}, not images")
    frame = labels_of(table, LISTS)
    if frame.empty:
        raise InputError(f"{path}: the table has no rows")
    return frame, tuple(table.axes)


def _from_file(path: Path, columns: CaptionColumns) -> pd.DataFrame:
    """The captions of a file by image, with whatever else its rows say of the image."""
    kind = suffix_of(path)
    if kind == ".txt":
        lines = [line for _, line in plain_lines(path) if isinstance(line, str)]
        if not lines:
            raise InputError(f"{path}: holds no captions")
        return pd.DataFrame({"image_id": [str(i + 1) for i in range(len(lines))], "captions": [[c] for c in lines]})
    if kind not in (".json", ".jsonl", ".csv", ".tsv"):
        raise InputError(
            f"{path}: neither a table's folder nor a file of captions (.json, .jsonl, .csv, .tsv, .txt); for images in "
            "a folder make a table first: equipoise table import"
        )
    records = read_records(path, columns=columns)
    columns.check(records, [str(path)])
    rows: dict[str, dict[str, Any]] = {}
    apart: dict[str, set[str]] = {}
    for record in records:
        row = rows.setdefault(record.image_id, {"image_id": record.image_id, "captions": []})
        row["captions"] += [text for text in record.captions if text.strip()]
        for name, value in record.fields.items():
            if isinstance(value, list | dict) and not _is_list(name, value):
                continue
            before = row.setdefault(name, None)
            if name == "objects" and before is not None and not is_empty(value):
                row[name] = [*items_of(before, record.where), *items_of(value, record.where)]
            elif before is None or means_unknown(before):
                row[name] = before if is_empty(value) else value
            elif not same_label(before, value) and not means_unknown(value):
                apart.setdefault(name, set()).add(record.image_id)
    for name, images in apart.items():
        for image in images:
            rows[image][name] = None
    for row in rows.values():
        if row.get("source_id") is not None:
            row["source_id"] = origin_name(row["source_id"], f"{path}: the source_id of {row['image_id']!r}", rows)
    frame = pd.DataFrame(list(rows.values()))
    frame.attrs[APART] = apart
    return frame


def _is_list(name: str, value: Any) -> bool:
    """Whether a cell is a list of names that is read; other lists and objects of JSON are not."""
    return name in LISTS and isinstance(value, list) and all(isinstance(item, str | int) for item in value)


def _some(frame: pd.DataFrame, limit: int, sample: int, seed: int) -> pd.DataFrame:
    chosen = some_ids(frame["image_id"].tolist(), limit=limit, sample=sample, seed=seed)
    return frame[frame["image_id"].isin(chosen)].reset_index(drop=True)


def _groups(
    frame: pd.DataFrame, captions: list[list[str]], axis: str, words: Lexicon, path: Path
) -> tuple[Groups, str]:
    if axis in frame and frame[axis].notna().any():
        return Groups.from_values(frame[axis], axis=axis), _labelled_by(frame, axis)
    if axis in frame:
        raise InputError(f"{path}: every image is undefined on the axis {axis!r}")
    if axis != words.axis:
        raise UnknownNameError(f"axis of {path}", axis, [*map(str, frame.columns), words.axis])
    if not any(captions):
        raise InputError(f"{path}: no column {axis!r}, and no captions to read it from")
    labels: Any = words.label_images(captions)
    if not any(labels):
        raise InputError(f"{path}: no caption names one of {', '.join(words.groups)} (lexicon {words.id})")
    return Groups.from_values(labels, words.groups, axis=axis), f"captions, lexicon {words.id}"


_SAID_BY = {"caption": "read from captions", "annotator": "by people", "prompt": "as asked for in prompts"}


def _labelled_by(frame: pd.DataFrame, axis: str) -> str:
    """Where the groups of a table's column come from, as far as its ``label_source`` says so with one voice.

    >>> _labelled_by(pd.DataFrame({"gender": ["f", None], "label_source": ["caption", None]}), "gender")
    'the table, read from captions'
    """
    told = set(frame.loc[frame[axis].notna(), "label_source"].dropna()) if "label_source" in frame else set()
    how = _SAID_BY.get(str(next(iter(told)))) if len(told) == 1 else None
    return f"the table, {how}" if how else "the table"


def _lexicons(axes: Iterable[str], words: Lexicon) -> dict[str, Lexicon]:
    """The given lexicon for its own axis; for others the shipped one that has the axis's name."""
    ids = {axis: axis for axis in axes if axis in LEXICONS and axis != words.axis}
    shipped = {axis: Lexicon.load(name) for axis, name in ids.items()}
    return shipped | ({words.axis: words} if words.axis in set(axes) else {})
