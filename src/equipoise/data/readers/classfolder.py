"""One folder per class: ImageNet, Caltech256, and any set laid out like them; for tests of utility.

``<root>/<class>/<image>``, or ``<root>/train/<class>/<image>`` with ``val`` and ``test`` beside it. A number before
the name is taken off (Caltech256's ``001.ak47`` is "ak47"). ImageNet's folders are WordNet ids: give ``names``, a
file with a line ``n01440764 tench, Tinca tinca`` each (``LOC_synset_mapping.txt``); the first name is the class.
Caltech256 as distributed holds a stray file and a stray folder: what is not an image is rejected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from equipoise.data.readers.files import existing, plain_lines
from equipoise.data.readers.files.records import split_named
from equipoise.data.readers.files.values import IMAGE_SUFFIXES, RowError, attempt, row, text
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError


def read(path: str | os.PathLike[str], *, names: str | os.PathLike[str] | None = None) -> Iterator[Row | Rejected]:
    """One row per image; ``subject`` is the class, ``class_id`` the folder's name."""
    root = existing(path)
    if not root.is_dir():
        raise InputError(f"{root} is a file; give the folder that holds a folder for each class")
    known: dict[str, str] = {}
    if names is not None:
        yield from _read_names(existing(names), known)
    folders = _visible(root)
    splits = [f for f in folders if f.is_dir() and split_named(f.name) and f.name.isalpha()]
    if splits and len(splits) == sum(f.is_dir() for f in folders):
        for split in splits:
            yield from _classes(root, split, split_named(split.name), known)
    else:
        yield from _classes(root, root, None, known)


def _classes(root: Path, folder: Path, split: str | None, names: dict[str, str]) -> Iterator[Row | Rejected]:
    classes = [f for f in _visible(folder) if f.is_dir()]
    if not classes:
        raise InputError(f"{folder} holds no folder of a class; sort ImageNet's val images into classes first")
    for entry in _visible(folder):
        if not entry.is_dir():
            yield Rejected(str(entry.relative_to(root)), "the file is in no class's folder")
    for class_folder in classes:
        subject = names.get(class_folder.name) or _plain(class_folder.name)
        for file in _visible(class_folder):
            where = str(file.relative_to(root)).encode("utf-8", "replace").decode()
            yield attempt(where, _row, file, root, class_folder.name, subject, split)


def _row(file: Path, root: Path, class_id: str, subject: str, split: str | None) -> Row:
    if not file.is_file() or not file.name.lower().endswith(IMAGE_SUFFIXES):
        raise RowError("it is not an image file")
    name = text(file.relative_to(root).as_posix(), "file name")
    return row(
        image={"bytes": None, "path": str(file)},
        image_id=name,
        subject=text(subject, "class"),
        class_id=text(class_id, "class"),
        split=split,
    )


def _visible(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if not p.name.startswith("."))


def _plain(name: str) -> str:
    """The class without Caltech's number.

    >>> _plain("001.ak47"), _plain("n01440764")
    ('ak47', 'n01440764')
    """
    return re.sub(r"^\d+\.(?=.)", "", name)


def _read_names(file: Path, names: dict[str, str]) -> Iterator[Rejected]:
    for number, line in plain_lines(file):
        if isinstance(line, Rejected):
            yield line
        else:
            class_id, _, rest = line.strip().partition(" ")
            try:
                names[text(class_id, "class")] = text(rest.partition(",")[0], "name of the class")
            except RowError as error:
                yield Rejected(f"{file.name} line {number}", str(error))
