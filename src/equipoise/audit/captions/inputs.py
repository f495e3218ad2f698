"""Predictions, references and labels of the same images, brought together; whatever does not fit is listed.

Nothing is dropped silently: a caption for an image that nobody labelled, an image with two captions, a label without a
caption and an empty caption each become a row of :attr:`CaptionInputs.dropped`.

The human captions of a run, cut into words and read once for all models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.audit.captions.reading import (
    USUAL,
    CaptionColumns,
    Record,
    note_of_sources,
    read_records,
    refuse_several,
    suffix_of,
)
from equipoise.data.sampling import some_ids
from equipoise.data.schema import AXES
from equipoise.errors import InputError, UnknownNameError, closest
from equipoise.formatting import plural
from equipoise.measure.captions.mentions import Mentions
from equipoise.measure.groups import Groups
from equipoise.text import Lexicon
from equipoise.text.english.ptb import ptb_tokens
from equipoise.text.english.tagging import content_vocabulary
from equipoise.text.labels import read_labels


@dataclass(frozen=True)
class HumanCaptions:
    """All reference captions one after the other, each with its image."""

    owners: tuple[str, ...]
    texts: tuple[str, ...]
    lexicon: Lexicon

    @classmethod
    def of(cls, references: Mapping[str, Sequence[str]], ids: Collection[str], lexicon: Lexicon) -> HumanCaptions:
        """The captions of the images ``ids``.

        >>> human = HumanCaptions.of({"1": ("A man.", "A dog"), "2": ("x",)}, {"1"}, Lexicon.load("lic"))
        >>> human.owners, human.tokens, sorted(human.content)
        (('1', '1'), (('a', 'man'), ('a', 'dog')), ['dog', 'man'])
        """
        pairs = [(name, text) for name, texts in references.items() if name in ids for text in texts]
        return cls(tuple(name for name, _ in pairs), tuple(text for _, text in pairs), lexicon)

    @cached_property
    def tokens(self) -> tuple[tuple[str, ...], ...]:
        """The words of each caption."""
        return tuple(tuple(ptb_tokens(text)) for text in self.texts)

    @cached_property
    def by_image(self) -> dict[str, list[tuple[str, ...]]]:
        """The words of each caption of each image."""
        words: dict[str, list[tuple[str, ...]]] = {}
        for name, tokens in zip(self.owners, self.tokens, strict=True):
            words.setdefault(name, []).append(tokens)
        return words

    @cached_property
    def named(self) -> Groups:
        """The one group that each caption names."""
        return Mentions.of(self.texts, self.lexicon).groups

    @cached_property
    def content(self) -> frozenset[str]:
        """The content words among the thousand commonest."""
        return frozenset(word.word for word in content_vocabulary(self.tokens))

    def rows_of(self, ids: Collection[str]) -> list[int]:
        """Which captions are of the images ``ids``."""
        wanted = set(ids)
        return np.flatnonzero([name in wanted for name in self.owners]).tolist()


DROPPED_COLUMNS = ("file", "image_id", "reason")

# What can be wrong with an image; the words appear in dropped.csv.
DUPLICATE = "duplicate id: the first is used"
EMPTY = "empty caption"
UNKNOWN = "caption for an unknown id"
UNLABELLED = "no label"
TWO_LABELS = "labels differ between rows or files"
OTHER_GROUP = "label is not among the groups asked for"
MISSING = "labelled, but no caption"
NO_ORIGINAL = "no caption of the original image to compare with"
NO_REFERENCE = "no reference captions"
EMPTY_REFERENCE = "empty reference caption"


@dataclass
class Dropped:
    """Rows that could not be used, with the reason."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, file: str | Path, image_id: str, reason: str) -> None:
        """One image of ``file`` and why it was left out."""
        self.rows.append((str(file), image_id, reason))

    def frame(self) -> pd.DataFrame:
        """All of them as ``file image_id reason``."""
        return pd.DataFrame(self.rows, columns=list(DROPPED_COLUMNS))

    def told(self) -> list[str]:
        """One sentence per file and reason, with how many.

        >>> dropped = Dropped()
        >>> dropped.add("a.json", "1", EMPTY)
        >>> dropped.told()
        ['a.json: 1 image, empty caption']
        """
        counts = Counter((file, reason) for file, _, reason in self.rows)
        return [f"{file}: {n:,} image{'s' * (n != 1)}, {reason}" for (file, reason), n in counts.items()]


@dataclass(frozen=True)
class ModelCaptions:
    """One model's caption of each labelled image."""

    name: str
    file: str
    captions: Mapping[str, str]
    """Caption by image id; only images with a label."""


@dataclass(frozen=True)
class CaptionInputs:
    """Everything that a run over captions reads, on common image ids."""

    models: tuple[ModelCaptions, ...]
    axis: str
    """What the labels are of: gender, skin, …"""
    labels: Mapping[str, str]
    """Group by image id."""
    groups: tuple[str, ...]
    """The groups, the largest first."""
    references: Mapping[str, tuple[str, ...]] | None
    """The human captions by image id, where there are any."""
    dropped: Dropped
    notes: tuple[str, ...] = ()

    def labels_of(self, model: ModelCaptions) -> dict[str, str]:
        """The groups of the images that ``model`` has captions of."""
        return {name: self.labels[name] for name in model.captions}


def model_name(path: str | Path, axis: str) -> str:
    """The model's name: the file's stem without the axis in front.

    >>> model_name("captions/gender_nic.jsonl", "gender"), model_name("oscar.json", "gender")
    ('nic', 'oscar')
    """
    stem = Path(path).stem if not Path(path).is_dir() else Path(path).name
    short = stem.removeprefix(f"{axis}_").removeprefix(f"{axis}-")
    return short or stem


def read_inputs(
    predictions: Sequence[str | Path],
    references: str | Path | None,
    labels: str | Path,
    *,
    label_column: str | None = None,
    groups: Sequence[str] = (),
    columns: CaptionColumns = USUAL,
    limit: int = 0,
    sample: int = 0,
    seed: int = 0,
) -> CaptionInputs:
    """Read and align all files.

    ``labels`` is the name of a column of the predictions or the references, or a file with an image id and a label a
    row (``label_column`` where it has several columns). Labels are read as everywhere
    (:func:`equipoise.text.labels.read_labels`): spellings that differ in case or space are one group, and "N/A" or
    "unknown" is none. ``groups`` keeps only those groups. A prediction may be given as ``NAME=FILE``. ``columns`` names
    the columns of image ids and captions where they have other names than usual. ``limit`` and ``sample`` take only
    some of the images that have captions of a model, in all files.
    """
    if not predictions:
        raise InputError("no predictions: give at least one file of captions")
    dropped = Dropped()
    read = [_prediction(str(given), columns) for given in predictions]
    reference_records = None if references is None else read_records(references, columns=columns)
    axis, rows = _labels(labels, label_column, read, references, reference_records, columns)
    seen = [(path, record) for _, path, some in read for record in some]
    seen += [(str(references), record) for record in reference_records or ()]
    seen += [(path, record) for path, record, _ in rows]
    columns.check([record for _, record in seen], dict.fromkeys(path for path, _ in seen))
    if limit or sample:
        names = list(dict.fromkeys(record.image_id for _, _, some in read for record in some))
        wanted = set(some_ids(names, limit=limit, sample=sample, seed=seed))
        read = [(name, path, [record for record in some if record.image_id in wanted]) for name, path, some in read]
        rows = [(path, record, label) for path, record, label in rows if record.image_id in wanted]
        if reference_records is not None:
            reference_records = [record for record in reference_records if record.image_id in wanted]
    rows, spelling_notes = _one_spelling(rows, axis, groups)
    labelled, used_groups = _one_label_each(rows, groups, dropped)
    human = None if reference_records is None else _references(str(references), reference_records, dropped)
    known = {record.image_id for _, record, _ in rows} | set(human or ())
    models: list[ModelCaptions] = []
    for name, path, records in read:
        for model, some in _by_model(records).items():
            title = name or model or model_name(path, axis)
            if any(title == other.name for other in models):
                raise InputError(f"{path}: a second model named {title!r}; give it another name with NAME={path}")
            models.append(ModelCaptions(title, path, _captions(path, some, labelled, known, dropped)))
    notes = [*spelling_notes, *_reference_notes(human, models, str(references), dropped)]
    if len({frozenset(model.captions) for model in models}) > 1:
        sizes = ", ".join(f"{model.name} {len(model.captions):,}" for model in models)
        notes.append(f"the models have captions of different images ({sizes}): compare them with care")
    notes += note_of_sources((record for _, record in seen), set().union(*(model.captions for model in models)))
    counts = Counter(labelled[i] for i in set().union(*(model.captions for model in models)))
    # a group that no captioned image has is none of this run, unless it was asked for
    present = [group for group in used_groups if counts[group] or groups]
    if len(present) < 2:
        raise InputError(f"the captioned images are of {len(present)} group ({', '.join(present)}); bias needs two")
    ordered = tuple(sorted(present, key=lambda group: (-counts[group], group)))
    return CaptionInputs(tuple(models), axis, labelled, ordered, human, dropped, tuple(notes))


def masked_captions(spec: str, inputs: CaptionInputs, columns: CaptionColumns = USUAL) -> tuple[str, ModelCaptions]:
    """What was masked, and the captions of a model on those images, from ``[MODEL:]KIND=FILE``.

    Only images that the model has a caption of: the others are listed as dropped.
    """
    left, equals, path = spec.partition("=")
    model, colon, kind = left.rpartition(":")
    names = [captioner.name for captioner in inputs.models]
    if not equals or not kind.strip() or not path.strip():
        raise InputError(f"--masked {spec!r}: give it as without-person=FILE, or MODEL:without-person=FILE")
    if colon and model not in names:
        raise UnknownNameError("model among the predictions", model, names)
    if not colon and len(names) > 1:
        raise InputError(f"--masked {spec!r}: say of which model, as {names[0]}:{spec}")
    records = read_records(path, columns=columns)
    known = {record.image_id for record in records} & set(inputs.labels)
    captions = _captions(path, records, inputs.labels, known, inputs.dropped)
    name = model or names[0]
    original = next(captioner.captions for captioner in inputs.models if captioner.name == name)
    for image in captions:
        if image not in original:
            inputs.dropped.add(path, image, NO_ORIGINAL)
    both = {image: text for image, text in captions.items() if image in original}
    if not both:
        raise InputError(f"{path}: none of its {len(captions):,} images is among those of the model {name!r}")
    return kind.strip(), ModelCaptions(name, path, both)


def _prediction(given: str, columns: CaptionColumns) -> tuple[str, str, list[Record]]:
    """Name (empty unless given), path and records of one argument, ``FILE`` or ``NAME=FILE``."""
    name, equals, path = given.partition("=")
    if not equals or Path(given).exists():
        name, path = "", given
    return name.strip(), path, read_records(path, columns=columns)


def _by_model(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records by their model column, which a table of captions has; others are all of one."""
    by_model: dict[str, list[Record]] = {}
    for record in records:
        model = record.fields.get("model")
        by_model.setdefault(model if isinstance(model, str) else "", []).append(record)
    return by_model


# Labels


def _labels(
    labels: str | Path,
    column: str | None,
    predictions: Sequence[tuple[str, str, list[Record]]],
    references: str | Path | None,
    reference_records: list[Record] | None,
    columns: CaptionColumns,
) -> tuple[str, list[tuple[str, Record, Any]]]:
    """The axis, and (file, record, label) for every row that could hold one."""
    if not str(labels).strip():
        raise InputError("labels: give the name of a column, or a file, with --labels")
    carried = [*(records for _, _, records in predictions), *([reference_records] if reference_records else [])]
    is_column = any(str(labels) in record.fields for records in carried for record in records)
    if not is_column and (Path(labels).exists() or suffix_of(labels) in (".csv", ".tsv", ".json", ".jsonl")):
        records = read_records(labels, need_captions=False, columns=columns)
        axis = column or _only_column(str(labels), records)
        sources = [(str(labels), records)]
    else:
        if column is not None and column != str(labels):
            raise InputError(f"--label-column {column!r} goes with a file of labels; --labels {labels!r} is a column")
        axis = str(labels)
        sources = [(path, records) for _, path, records in predictions]
        if reference_records is not None:
            sources.append((str(references), reference_records))
    having = [(path, records) for path, records in sources if any(axis in record.fields for record in records)]
    if not having:
        names = sorted({name for _, records in sources for record in records[:1000] for name in record.fields})
        near = closest(axis, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"they have: {', '.join(names) or 'none'}"
        elsewhere = f"labels that stand in another file or in a table: --labels FILE --label-column {axis}"
        raise InputError(f"no column {axis!r} in {' or '.join(path for path, _ in sources)}; {hint}; {elsewhere}")
    return axis, [(path, record, record.fields.get(axis)) for path, records in having for record in records]


def _only_column(path: str, records: Sequence[Record]) -> str:
    names = list(dict.fromkeys(name for record in records[:1000] for name in record.fields))
    if len(names) == 1:
        return names[0]
    if not names:
        raise InputError(f"{path}: holds image ids and no labels")
    usual = [name for name in names if name in AXES]
    such = f", such as --label-column {usual[0]}" if usual else ""
    raise InputError(f"{path}: has the columns {', '.join(names)}; say which is the label with --label-column{such}")


def _one_spelling(
    rows: Sequence[tuple[str, Record, Any]], axis: str, groups: Sequence[str]
) -> tuple[list[tuple[str, Record, str]], list[str]]:
    """The same with labels as text in one spelling, "" where unknown: in the one asked for, else the most frequent."""
    labels = read_labels([_cell(value) for _, _, value in rows], asked=groups)
    spelled = [(path, record, label or "") for (path, record, _), label in zip(rows, labels.values(), strict=True)]
    note = labels.note(axis)
    return spelled, [note] if note else []


def _one_label_each(
    rows: Iterable[tuple[str, Record, str]], groups: Sequence[str], dropped: Dropped
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The one label of each image; images with two, and with one that was not asked for, are left out."""
    labels: dict[str, str] = {}
    bad: dict[str, tuple[str, str]] = {}
    for path, record, label in rows:
        if not label or record.image_id in bad:
            continue
        if labels.setdefault(record.image_id, label) != label:
            bad[record.image_id] = (path, TWO_LABELS)
        elif groups and label not in groups:
            bad[record.image_id] = (path, OTHER_GROUP)
    seen = sorted(set(labels.values()))
    for group in groups:
        if group not in seen:
            near = closest(group, seen, n=1)
            raise InputError(
                f"no image is labelled {group!r}; " + (f"did you mean {near[0]!r}?" if near else f"labels: {seen}")
            )
    for name, (path, reason) in bad.items():
        dropped.add(path, name, reason)
        del labels[name]
    used = tuple(dict.fromkeys(groups) if groups and labels else sorted(set(labels.values())))
    if len(used) < 2:
        apart = sum(reason == TWO_LABELS for _, reason in bad.values())
        why = f" besides {plural(apart, 'image')} with two labels" if apart else ""
        named = f"{plural(len(used), 'group')} ({', '.join(used) or 'none'}){why}"
        raise InputError(f"the labels name {named}; bias needs at least two, so give labels of several with --labels")
    return labels, used


def _cell(value: Any) -> Any:
    """A label as it was read; JSON may hold a list or an object there, which stays what it prints."""
    return str(value) if isinstance(value, list | dict) else value


# Captions


def _captions(
    path: str, records: Sequence[Record], labels: Mapping[str, str], known: set[str], dropped: Dropped
) -> dict[str, str]:
    """One caption for each labelled image; ``known`` are the images that labels or references speak of."""
    refuse_several(path, records)
    seen: dict[str, None] = {}
    captions: dict[str, str] = {}
    listed = {name for _, name, reason in dropped.rows if reason in (TWO_LABELS, OTHER_GROUP)}
    for record in records:
        name = record.image_id
        if name in seen:
            dropped.add(path, name, DUPLICATE)
            continue
        seen[name] = None
        if len(record.captions) > 1:
            raise InputError(
                f"{record.where}: {len(record.captions)} captions of one image; a prediction has one, so give the rest "
                "as another model"
            )
        if name not in labels:
            if name not in listed:
                dropped.add(path, name, UNLABELLED if name in known else UNKNOWN)
        elif not record.captions[0].strip():
            dropped.add(path, name, EMPTY)
        else:
            captions[name] = record.captions[0]
    if not captions:
        some, other = next(iter(seen)), next(iter(labels))
        raise InputError(
            f"{path}: none of its {len(seen):,} images has a label and a caption: ids look like {some!r}, labelled "
            f"ones like {other!r}; give the column of those ids with --id-column COLUMN, or make the ids the same"
        )
    for name in labels:
        if name not in seen:
            dropped.add(path, name, MISSING)
    return captions


def _references(path: str, records: Sequence[Record], dropped: Dropped) -> dict[str, tuple[str, ...]]:
    by_image: dict[str, list[str]] = {}
    for record in records:
        texts = [text for text in record.captions if text.strip()]
        if len(texts) < len(record.captions):
            dropped.add(path, record.image_id, EMPTY_REFERENCE)
        by_image.setdefault(record.image_id, []).extend(texts)
    return {name: tuple(texts) for name, texts in by_image.items() if texts}


def _reference_notes(
    human: Mapping[str, tuple[str, ...]] | None, models: Sequence[ModelCaptions], path: str, dropped: Dropped
) -> list[str]:
    if human is None:
        return ["no references: LIC_D, LIC, BA and the quality metrics are left out"]
    asked = sorted(set().union(*(model.captions for model in models)))
    without = [name for name in asked if name not in human]
    for name in without:
        dropped.add(path, name, NO_REFERENCE)
    if len(without) == len(asked):
        raise InputError(
            f"{path}: has captions of none of the {len(asked):,} labelled images: ids look like "
            f"{next(iter(human))!r}, labelled ones like {asked[0]!r}; give the column of those with --id-column COLUMN"
        )
    if without:
        return [
            f"{len(without):,} of {len(asked):,} labelled images have no reference captions: LIC_D, BA and quality are "
            "measured on the others"
        ]
    return []
