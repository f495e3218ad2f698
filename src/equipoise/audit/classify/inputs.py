"""Labels of images, true or predicted, from any of three shapes of file, brought together on common images."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.array_types import Floats
from equipoise.audit.captions.reading import image_name, is_empty, items_of, origin_name, read_records, suffix_of
from equipoise.data.manifest import MANIFEST
from equipoise.data.sampling import least_linked
from equipoise.data.schema import AXES, schema_for
from equipoise.errors import InputError, closest
from equipoise.formatting import plural
from equipoise.measure.groups import Groups
from equipoise.text.labels import means_unknown, read_labels, same_label

LISTS = ("objects", "labels")
"""The columns that may hold a list of labels per image."""
_LINKS = ("source_id", "set_id")
"""Columns that say which images belong together: numbers in them are names."""
_NO_LABELS = frozenset(schema_for("images", columns=("keep", "dropped_by")).names)
"""Columns of every table of images, which may be empty for some."""


@dataclass
class ImageLabels:
    """What a file says of images: scores by label, and values on axes; by image id."""

    source: str
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    """By image; a label that is not there was not given to the image."""
    values: dict[str, dict[str, str]] = field(default_factory=dict)
    """By axis, then by image."""
    graded: bool = False
    """Whether there are scores, and not only which labels an image has."""
    complete: bool = False
    """Whether every image has a score for every label (one column per label)."""
    sources: dict[str, str] = field(default_factory=dict)
    """The image that each was made from, where the file says so."""
    sets: dict[str, str] = field(default_factory=dict)
    """The set that each is of, where the file says so."""

    @property
    def names(self) -> tuple[str, ...]:
        """All labels."""
        return tuple(sorted({name for some in self.scores.values() for name in some}))


def read_image_labels(
    path: str | Path, axes: Sequence[str] = (), *, need_labels: bool = True, column: str = ""
) -> ImageLabels:
    """Read CSV, TSV, JSON, JSONL, Parquet or a table of images.

    One of three shapes. Long: ``image_id, label, score`` (without ``score``: the image has the label). Lists: a column
    ``objects`` or ``labels`` (or ``column``) with a list, or text with semicolons, and optionally ``scores``, a list as
    long; of a label that an image lists several times the highest score counts. Wide: one column of numbers per label.
    Rows that give one image two groups are refused.

    Args:
        path: the file, or the folder of the table.
        axes: the columns that hold groups. A group may also be given as a label ``axis:group``, of which the highest
            counts (none on a tie, or where all are 0 in a file of 0 and 1).
        need_labels: refuse a file without labels; otherwise groups alone will do.
        column: the column of lists, if it is called otherwise.

    Returns:
        What the file says of each image.
    """
    rows = _rows(Path(path))
    labels = ImageLabels(str(path), scores={image: {} for image, _ in rows})
    columns = list(dict.fromkeys(name for _, row in rows for name in row))
    listed = next((name for name in (column, *LISTS) if name and name in columns), None)
    if column and column not in columns:
        raise InputError(f"{path}: no column {column!r}; it has: {', '.join(columns)}")
    for axis in axes:
        if axis in columns:
            labels.values[axis] = _one_group_each(path, axis, rows)
    if "source_id" in columns:
        labels.sources = {i: str(row["source_id"]) for i, row in rows if not is_empty(row.get("source_id"))}
    if "set_id" in columns:
        labels.sets = {i: str(row["set_id"]) for i, row in rows if not is_empty(row.get("set_id"))}
    if "label" in columns and listed is None:
        _read_long(labels, rows, graded="score" in columns)
    else:
        _refuse_twice(path, [image for image, _ in rows])
        if listed is not None:
            _read_lists(labels, rows, listed)
        else:
            no_labels = _NO_LABELS if (Path(path) / MANIFEST).is_file() else _LINKS  # a file may have a label so called
            wide = [name for name in columns if name not in axes and name not in no_labels]
            _read_wide(labels, rows, wide)
            if need_labels:
                _refuse_gaps(labels, rows, wide)
    _take_groups(labels, axes)
    if need_labels and not labels.names:
        raise InputError(
            f"{path}: no labels here; give columns image_id, label and score, a column of lists (objects), or one "
            f"column of numbers per label; it has: {', '.join(columns)}"
        )
    return labels


def _rows(path: Path) -> list[tuple[str, dict[str, Any]]]:
    if path.is_file() and suffix_of(path) == ".parquet":
        try:
            frame = pd.read_parquet(path)
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path}: cannot be read as Parquet ({error})") from None
        if "image_id" not in frame:
            raise InputError(f"{path}: no column 'image_id'; it has: {', '.join(map(str, frame.columns))}")
        records = frame.to_dict("records")
        named = [(image_name(row.pop("image_id"), f"{path}: row {i}"), row) for i, row in enumerate(records)]
        if not named:
            raise InputError(f"{path}: holds no rows")
        return [(image, {str(name): value for name, value in row.items()}) for image, row in named]
    return [(record.image_id, dict(record.fields)) for record in read_records(path, need_captions=False)]


def _one_group_each(path: str | Path, axis: str, rows: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, str]:
    """The group of each image that has one; rows of an image (one per label) that name two are refused."""
    values: dict[str, str] = {}
    for image, row in rows:
        cell = row.get(axis)
        if is_empty(cell):
            continue
        before = values.get(image)
        if before is None or means_unknown(before):
            values[image] = str(cell)
        elif not same_label(before, cell) and not means_unknown(cell):
            raise InputError(
                f"{path}: the image {image!r} is {before!r} on {axis} in one row and {str(cell)!r} in another; give it "
                "one group, or leave the cells empty"
            )
    return values


def _refuse_twice(path: str | Path, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for image in ids:
        if image in seen:
            raise InputError(f"{path}: the image {image!r} is there twice; give one row per image, or a column 'label'")
        seen.add(image)


def _read_long(labels: ImageLabels, rows: Sequence[tuple[str, dict[str, Any]]], *, graded: bool) -> None:
    labels.graded = graded
    for image, row in rows:
        if is_empty(row.get("label")):
            continue
        name = str(row["label"])
        if name in labels.scores[image]:
            raise InputError(f"{labels.source}: the image {image!r} has the label {name!r} twice; give it once")
        labels.scores[image][name] = _number(row.get("score"), labels.source, image, name) if graded else 1.0


def _read_lists(labels: ImageLabels, rows: Sequence[tuple[str, dict[str, Any]]], column: str) -> None:
    labels.graded = any(not is_empty(row.get("scores")) for _, row in rows)
    for image, row in rows:
        where = f"{labels.source}: the image {image!r}"
        names = items_of(row.get(column), where)
        scores = items_of(row.get("scores"), where) if labels.graded else [1.0] * len(names)
        if len(names) != len(scores):
            raise InputError(f"{where} has {len(names)} {column} and {len(scores)} scores; give one each")
        for name, score in zip(map(str, names), scores, strict=True):
            # a detector lists an object once per box: the image has it as surely as its best box says
            number = _number(score, labels.source, image, name)
            labels.scores[image][name] = max(number, labels.scores[image].get(name, number))


def _read_wide(labels: ImageLabels, rows: Sequence[tuple[str, dict[str, Any]]], columns: Sequence[str]) -> None:
    numeric = [name for name in columns if all(_is_number(row.get(name)) for _, row in rows)]
    for image, row in rows:
        labels.scores[image] = {name: float(row[name]) for name in numeric}
    labels.complete = bool(numeric)
    labels.graded = any(value not in (0.0, 1.0) for some in labels.scores.values() for value in some.values())


def _refuse_gaps(labels: ImageLabels, rows: Sequence[tuple[str, dict[str, Any]]], columns: Sequence[str]) -> None:
    """Refuse a column of a label that lacks the number of an image: the label would be left out for all."""
    for name in columns:
        if name in _NO_LABELS:
            continue
        without = [image for image, row in rows if _is_gap(row.get(name))]
        numbers = sum(_is_number(row.get(name)) for _, row in rows)
        if without and numbers and numbers + len(without) == len(rows):
            raise InputError(
                f"{labels.source}: the column {name!r} has no number for the image {without[0]!r}; give every image "
                "one, or leave the column out"
            )


def _take_groups(labels: ImageLabels, axes: Sequence[str]) -> None:
    """Labels ``axis:group`` are guesses of the group, the highest counts; ``objects:dog`` is the label dog.

    An image has no group where several are the highest, or where it is given none of the labels.
    """
    for image, some in labels.scores.items():
        plain: dict[str, float] = {}
        guesses: dict[str, dict[str, float]] = {}
        for name, score in some.items():
            head, colon, rest = name.partition(":")
            if colon and head in axes:
                guesses.setdefault(head, {})[rest] = score
            else:
                plain[rest if colon and head in ("object", "objects", "label", "labels") else name] = score
        labels.scores[image] = plain
        for axis, guessed in guesses.items():
            values, best = labels.values.setdefault(axis, {}), max(guessed.values())
            first, *others = [group for group, score in guessed.items() if score == best]
            if not others and (labels.graded or best > 0):
                values.setdefault(image, first)


def _is_number(value: Any) -> bool:
    return _parses(value) and math.isfinite(float(value))


def _is_gap(value: Any) -> bool:
    """Whether a cell stands for a number that is not there: empty, "NA" or "nan", or infinite."""
    return is_empty(value) or (not _is_number(value) and (means_unknown(value) or _parses(value)))


def _parses(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _number(value: Any, source: str, image: str, name: str) -> float:
    if not _is_number(value):
        raise InputError(f"{source}: the score of {name!r} on the image {image!r} is {value!r}; a number is expected")
    return float(value)


@dataclass(frozen=True)
class ClassifierInputs:
    """Truth and predictions on the images and labels that both have."""

    ids: list[str]
    labels: tuple[str, ...]
    truth: Floats
    """(n, L) of 0 and 1."""
    scores: Floats | None
    """(n, L); ``None`` where predictions are labels alone."""
    predicted: Floats
    """(n, L) of 0 and 1."""
    groups: Mapping[str, Groups]
    """By axis, as the labels say."""
    predicted_groups: Mapping[str, Groups]
    """By axis, as the classifier says, where it does."""
    notes: tuple[str, ...] = ()
    clusters: list[str] | None = None
    """(n,) images of one set, or made from one image, have the same name; ``None`` where each stands alone."""


def axes_of(path: str | Path, asked: Sequence[str]) -> tuple[str, ...]:
    """The axes of the labels: those asked for, else those of a table, else the usual ones (gender, race, ...)."""
    if asked:
        return tuple(dict.fromkeys(asked))
    if (Path(path) / MANIFEST).is_file():
        from equipoise.data import Table

        return tuple(dict.fromkeys([*Table.open(path).axes, *AXES]))
    return AXES


def read_classifier_inputs(
    predictions: str | Path,
    labels: str | Path,
    *,
    axes: Sequence[str] = (),
    column: str = "",
    threshold: float = 0.5,
) -> ClassifierInputs:
    """Read predictions and labels and keep what both have.

    Args:
        predictions: what the classifier says, in a shape of :func:`read_image_labels`; it may say groups too.
        labels: what is true, in the same shapes: 0 or 1 for each label, and groups.
        axes: the columns that hold groups, all of which must be there; unless given, whichever of the table's own and
            the usual ones are. An axis with fewer than two groups is left out.
        column: the column of ``labels`` that holds lists of labels, if it is not ``objects`` or ``labels``.
        threshold: a label is predicted where its score is at least this; one that is not listed for an image is not.

    Returns:
        Truth and predictions on the images and labels that both have; what falls out is told in the notes.
    """
    known = axes_of(labels, axes)
    shown = read_image_labels(labels, known, column=column)
    said = read_image_labels(predictions, known)
    if shown.graded:
        raise InputError(f"{labels}: labels are 0 and 1, and these have other numbers; predictions come first")
    missing = [axis for axis in axes if axis not in shown.values]
    if missing or not shown.values:
        wanted = repr(missing[0]) if missing else "of groups (such as gender)"
        raise InputError(f"{labels}: no column {wanted}; name the columns that hold groups with --axis")
    ids = [image for image in shown.scores if image in said.scores]
    if not ids:
        raise InputError(f"{predictions}: none of its {len(said.scores):,} images is in {labels}; compare image_id")
    notes = _left_out(str(predictions), len(said.scores) - len(ids), "images without labels")
    notes += _left_out(str(labels), len(shown.scores) - len(ids), "images without predictions")
    present = {name for image in ids for name, value in shown.scores[image].items() if value}
    if not present:
        raise InputError(f"{labels}: none of the {len(ids):,} images that are predicted has a label")
    listed = set(said.names)
    if not present & listed:
        some, other = min(present), f", but others, such as {min(listed)!r}" if listed else ""
        raise InputError(f"{predictions}: predicts none of the labels in {labels}, such as {some!r}{other}")
    names = sorted(present & listed if said.complete else present)
    notes += _left_out(str(predictions), len(listed - present), "labels that no image has")
    notes += _left_out(str(labels), len(present) - len(names), "labels that are not predicted")
    never = [name for name in names if name not in listed]
    if never:
        near = closest(never[0], listed - present, n=1)
        like = f" (it has {near[0]!r}; if they are the same, give them one name)" if near else ""
        notes.append(f"{predictions}: never predicts {plural(len(never), 'label')}, such as {never[0]!r}{like}")
    scores = None
    if said.graded:
        every = [value for image in ids for value in said.scores[image].values()]
        lowest = min(0.0, *every) if every else 0.0
        scores = _table(said, ids, names, lowest)
        if not said.complete and any(len(said.scores[image]) < len(names) for image in ids):
            notes.append(f"{predictions}: a label that is not given to an image counts as a score of {lowest:g}")
    predicted = _table(said, ids, names, 0.0)
    if scores is not None:
        # what was not listed was not predicted, however low the threshold
        predicted = (_table(said, ids, names, -math.inf) >= threshold).astype(np.float64)
    groups, guessed = _groups(shown, said, ids)
    for of_axis in groups.values():
        notes += of_axis.notes
    few = [axis for axis in dict.fromkeys(axes) if axis not in groups]
    notes += [f"{labels}: {axis} has fewer than two groups among the images, left out" for axis in few]
    notes += [
        f"{predictions}: gives every image the {axis} of its label; if that is the label and not a prediction, take it "
        "out, for Ratio and amplification towards the group would be of no model"
        for axis, of_axis in guessed.items()
        if (of_axis.labels == groups[axis].labels)[groups[axis].defined].all()
    ]
    clusters = _clusters(ids, shown, said)
    if clusters is not None:
        notes.append(
            f"leakage: the {len(ids):,} images are of {len(set(clusters)):,} sources or sets, and images of one are "
            "never both in training and in test; recall, amplification, Ratio and the artefact test count every image, "
            "and are too sure where images of one source show one group"
        )
    truth = _table(shown, ids, names, 0.0)
    return ClassifierInputs(ids, tuple(names), truth, scores, predicted, groups, guessed, tuple(notes), clusters)


def _clusters(ids: Sequence[str], *files: ImageLabels) -> list[str] | None:
    """For each image the first, by name, of those it is linked with by sets and sources; ``None`` without any link."""
    known, links = set(ids), list[tuple[str, str]]()
    for file in files:
        # an image of the audit comes before its origins elsewhere and its set: a unit is called by the first of these
        origins = {i: origin_name(file.sources[i], file.source, known) for i in ids if i in file.sources}
        links += [(f"0:{i}", f"{0 if origin in known else 1}:{origin}") for i, origin in origins.items()]
        links += [(f"0:{i}", f"2:{file.sets[i]}") for i in ids if i in file.sets]
    units = [unit.removeprefix("0:") for unit in least_linked([f"0:{i}" for i in ids], links)]
    return units if len(set(units)) < len(ids) else None


def _groups(shown: ImageLabels, said: ImageLabels, ids: Sequence[str]) -> tuple[dict[str, Groups], dict[str, Groups]]:
    true: dict[str, Groups] = {}
    guessed: dict[str, Groups] = {}
    for axis, values in shown.values.items():
        shown_on: Any = [values.get(image) for image in ids]
        groups = Groups.from_values(shown_on, axis=axis)
        if (groups.counts() > 0).sum() < 2:
            continue
        true[axis] = groups
        if axis in said.values:
            guessed[axis] = predicted_on(said, axis, ids, groups.names)
    if not true:
        raise InputError(f"{shown.source}: no axis has two groups among the images; bias is between groups")
    return true, guessed


def predicted_on(said: ImageLabels, axis: str, ids: Sequence[str], names: Sequence[str]) -> Groups:
    """The groups that a file predicts for ``ids``, by the names of the labels; another name is refused."""
    values = [said.values.get(axis, {}).get(image) for image in ids]
    labels = read_labels(values, asked=names)
    strange = [name for name in labels.names if name not in names]
    if strange:
        raise InputError(
            f"{said.source}: predicts {strange[0]!r} on {axis}, and the labels have {', '.join(names)}; use these names"
        )
    return Groups.from_values(list(labels.values()), names, axis=axis)


def _table(said: ImageLabels, ids: Sequence[str], names: Sequence[str], otherwise: float) -> Floats:
    return np.array([[said.scores[image].get(name, otherwise) for name in names] for image in ids], dtype=np.float64)


def _left_out(source: str, n: int, what: str) -> list[str]:
    return [f"{source}: {n:,} {what}, left out"] if n > 0 else []
