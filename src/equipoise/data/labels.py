"""Pictures and their placebo twins: the same picture again, changed in something that is no group of people.

Which pictures are one counterfactual set.

Columns of groups as every reader of a table sees them: spellings joined, words for "not known" read as null.

Tables keep their bytes: labels are joined when they are read to be counted, by the rule of
:mod:`equipoise.text.labels`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.text import Lexicon
from equipoise.text.labels import read_labels

if TYPE_CHECKING:
    from equipoise.data.table import Table

SAME_GROUPS = ("other_{}", "{}_2", "expected_{}")
"""Further columns that name groups of an axis (of a second person, of who is expected): one spelling for all."""


def with_joined_labels(frame: pd.DataFrame, axes: Iterable[str]) -> tuple[pd.DataFrame, list[str]]:
    """``frame`` with the groups of each axis in one spelling and as text, and a note for each axis that was changed.

    Columns that need no change, that are not there, and that hold lists stay as they are; so do the frame's attributes.

    >>> frame = pd.DataFrame({"gender": ["Male", "male", "male", "N/A"], "score": [1, 2, 3, 4]})
    >>> joined, notes = with_joined_labels(frame, ["gender"])
    >>> joined["gender"].tolist(), notes
    (['male', 'male', 'male', None], ["gender: 'Male' read as 'male'; 1 'N/A' read as unknown"])
    """
    changed: dict[str, object] = {}
    notes: list[str] = []
    for axis in dict.fromkeys(axes):
        names = [name for name in (axis, *(form.format(axis) for form in SAME_GROUPS)) if name in frame]
        if axis not in names or axis in changed or any(_holds_lists(frame[name]) for name in names):
            continue
        labels = read_labels(pd.concat([frame[name].astype(object) for name in names], ignore_index=True))
        if labels.as_given:
            continue
        values = labels.values()
        changed |= {name: values[i * len(frame) : (i + 1) * len(frame)] for i, name in enumerate(names)}
        if note := labels.note(axis):
            notes.append(note)
    if not changed:
        return frame, notes
    columns = {name: pd.Series(values, index=frame.index, dtype=object) for name, values in changed.items()}
    joined = frame.assign(**columns)
    joined.attrs = dict(frame.attrs)
    return joined, notes


def set_numbers(frame: pd.DataFrame) -> NDArray[np.int64]:
    """(n,) the number of each image's set, from 0 in the order they come; -1 for an image without one.

    Names of sets may begin anew for every subject, so two subjects with a set of one name have two sets. Where no set
    would then have two images, sets run across subjects, and the name alone counts.

    >>> frame = pd.DataFrame({"subject": ["cook", "cook", "nurse", "nurse"], "set_id": ["1", "1", "1", None]})
    >>> set_numbers(frame).tolist()
    [0, 0, 1, -1]
    >>> set_numbers(frame.assign(subject=["cook", "nurse", "pilot", "judge"])).tolist()
    [0, 0, 0, -1]
    """
    if "set_id" not in frame:
        return np.full(len(frame), -1, dtype=np.int64)
    names = pd.factorize(frame["set_id"])[0].astype(np.int64)
    if "subject" not in frame:
        return names
    known = names >= 0
    subjects = pd.factorize(frame["subject"])[0].astype(np.int64) + 1  # 0: all images without a subject
    numbers = names.copy()
    numbers[known] = pd.factorize((subjects * (names.max(initial=0) + 1) + names)[known])[0]
    return numbers if (np.bincount(numbers[known]) > 1).any() else names


def set_names(frame: pd.DataFrame) -> NDArray[np.object_]:
    """(n,) the set of each image by name; with the subject's before it, if any, where subjects have sets of one name.

    >>> frame = pd.DataFrame({"subject": ["cook", "cook", "nurse", "nurse"], "set_id": ["1", "1", "1", "2"]})
    >>> set_names(frame).tolist()
    ['cook: 1', 'cook: 1', 'nurse: 1', 'nurse: 2']
    >>> set_names(frame[2:]).tolist()
    ['1', '2']
    >>> set_names(frame.assign(subject=["cook", "cook", None, None])).tolist()
    ['cook: 1', 'cook: 1', '1', '2']
    """
    names = frame["set_id"].astype(object)
    if not np.array_equal(set_numbers(frame), pd.factorize(names)[0]):
        cells = zip(frame["subject"], frame["subject"].notna(), names, names.notna(), strict=True)
        named = [f"{subject}: {name}" if known and there else name for subject, known, name, there in cells]
        names = pd.Series(named, index=frame.index, dtype=object).where(names.notna(), None)
    return names.to_numpy(dtype=object)


def sets_by_name(frame: pd.DataFrame) -> dict[str, str]:
    """The set that each name means: one of :func:`set_names`, or a ``set_id`` that one of these alone has.

    >>> frame = pd.DataFrame({"subject": ["cook", "cook", "nurse", "nurse"], "set_id": ["1", "1", "1", "2"]})
    >>> sets_by_name(frame)
    {'2': 'nurse: 2', 'cook: 1': 'cook: 1', 'nurse: 1': 'nurse: 1', 'nurse: 2': 'nurse: 2'}
    """
    if "set_id" not in frame:
        return {}
    sets = pd.DataFrame({"bare": frame["set_id"], "name": set_names(frame)}).dropna().astype(str).drop_duplicates()
    alone = sets[~sets["bare"].duplicated(keep=False)]
    return dict(zip(alone["bare"], alone["name"], strict=True)) | {name: name for name in sets["name"]}


def origins(frame: pd.DataFrame) -> NDArray[np.str_] | None:
    """(n,) what keeps images together that are not independent; None where each stands alone.

    The source image, which belongs to its own edits; of images without one, the set.

    >>> frame = pd.DataFrame({"image_id": ["a", "a1", "a2", "b"], "source_id": [None, "a", "a", None]})
    >>> origins(frame).tolist()
    ['image a', 'image a', 'image a', 'image b']
    """
    ids = frame["image_id"].astype(str)
    sets = pd.Series(set_numbers(frame), index=frame.index)
    keys = ("image " + ids).where(sets < 0, "set " + sets.astype(str))
    if "source_id" in frame and frame["source_id"].notna().any():
        source = frame["source_id"].where(frame["source_id"].notna(), ids.where(ids.isin(frame["source_id"])))
        keys = keys.where(source.isna(), "image " + source.astype(str))
    return keys.to_numpy(dtype=str) if keys.duplicated().any() else None


def _holds_lists(column: pd.Series[Any]) -> bool:
    first = column.dropna().head(1).tolist()
    return bool(first) and type(first[0]).__hash__ is None


PLACEBO = "placebo_"
"""Columns of image tables with this beginning vary inside sets and are no group of people."""


def without_twins(frame: pd.DataFrame, placebos: Collection[str] = ()) -> NDArray[np.bool_]:
    """(N,) whether an image is as it was made: every column ``placebo_*``, and of ``placebos``, at its usual level.

    A picture, the same one mirrored and the same one with a bag are one observation of the people in it, so whoever
    counts images or shuffles their labels takes the first alone. The usual level is the commonest, the first one
    in the table among equals; an empty cell is usual too.

    >>> frame = pd.DataFrame({"gender": [*"fmfm"], "placebo_bag": ["none", "none", "bag", "bag"]})
    >>> without_twins(frame).tolist()
    [True, True, False, False]
    """
    usual = np.ones(len(frame), dtype=bool)
    for name in frame.columns:
        if (str(name).startswith(PLACEBO) or name in placebos) and frame[name].notna().any():
            levels, _ = pd.factorize(frame[name])  # in order of appearance, so the first of equals is the least code
            commonest = np.bincount(levels[levels >= 0]).argmax()
            usual &= (levels == commonest) | (levels < 0)
    return usual


def label_layer(
    table: Table, lexicon: str | Lexicon, *, axis: str | None = None, name: str = "labels", compat: str | None = None
) -> Table:
    """Write the group that captions name as a layer on ``axis``, and return the table read with it.

    The strict image rule (GenSynth): an image has a group if one of its captions names it and none names another, or
    several at once; otherwise it has none. ``label_source`` says ``caption``. ``axis`` is the lexicon's own unless
    given.
    """
    words = Lexicon.load(lexicon) if isinstance(lexicon, str) else lexicon
    column = axis or words.axis
    wanted = [name for name in ("captions", "caption") if name in table.columns]
    if not wanted:
        raise InputError(f"{table.path}: has no column 'captions' or 'caption' to read groups from")
    frame = table.to_pandas(["image_id", *wanted])
    texts = [_all_texts(row, wanted) for row in frame[wanted].to_dict("records")]
    if not any(texts):
        raise InputError(f"{table.path}: no image has a caption to read groups from")
    groups = words.label_images(texts, compat=compat)
    sources = ["caption" if group else None for group in groups]
    rows = pd.DataFrame({"image_id": frame["image_id"], column: groups, "label_source": sources}, dtype=object)
    config = {"label": column, "lexicon": words.id, "compat": compat}
    uses = table.fingerprints[1:]
    return table.add_layer(name, rows, columns=["label_source"], axes=[column], config=config, uses=uses)


def _all_texts(row: dict[Any, Any], columns: Iterable[str]) -> list[str]:
    """The captions of a row: its list, else its single one."""
    for column in columns:
        value = row[column]
        if isinstance(value, str) and value.strip():
            return [value]
        if not isinstance(value, str) and value is not None and not isinstance(value, float) and len(value):
            return [str(text) for text in value]
    return []
