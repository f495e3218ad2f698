"""CIFAR-10 and CIFAR-100, the binary version; for tests of utility.

CIFAR-10: ``data_batch_1.bin`` ... ``data_batch_5.bin``, ``test_batch.bin``, names in ``batches.meta.txt``; a record
is one byte of class and 3,072 bytes of pixels (32 x 32, the red plane, the green, the blue, row by row). CIFAR-100:
``train.bin``, ``test.bin``, names in ``coarse_label_names.txt`` and ``fine_label_names.txt``; two bytes of class,
coarse and fine, then the pixels. The python version is a pickle, which can run any program, and is refused.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from equipoise.data.readers.files import existing, text_lines
from equipoise.data.readers.files.values import RowError, attempt, row
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

PIXELS = 3 * 32 * 32


def read(path: str | os.PathLike[str]) -> Iterator[Row | Rejected]:
    """One row per image, as PNG bytes; ``subject`` is the class, ``superclass`` CIFAR-100's coarse class."""
    folder = existing(path)
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; give the folder of the binary version (cifar-10-batches-bin)")
    if (folder / "train.bin").is_file():
        labels = [_names(folder / f"{kind}_label_names.txt") for kind in ("coarse", "fine")]
    elif files := sorted(folder.glob("*_batch*.bin")):
        labels = [_names(folder / "batches.meta.txt")]
    else:
        raise InputError(_no_files(folder))
    files = sorted(folder.glob("*.bin"))
    for file in files:
        yield from _records(file, labels)


def _no_files(folder: Path) -> str:
    if (folder / "data_batch_1").exists() or (folder / "batches.meta").exists() or (folder / "meta").exists():
        return (
            f"{folder} is CIFAR's python version, a pickle that can run any program when it is opened; "
            "download the binary version and give that folder"
        )
    return f"{folder} has no data_batch_1.bin or train.bin; give the folder of CIFAR's binary version"


def _names(file: Path) -> list[str]:
    if not file.is_file():
        raise InputError(f"{file} is missing; it holds the names of the classes")
    return [line.strip() for _, line in text_lines(file) if isinstance(line, str) and line.strip()]


def _records(file: Path, labels: Sequence[Sequence[str]]) -> Iterator[Row | Rejected]:
    size = len(labels) + PIXELS
    split = "test" if file.name.startswith("test") else "train"
    with file.open("rb") as source:
        i = 0
        while record := source.read(size):
            yield attempt(f"{file.name} record {i}", _row, record, labels, f"{file.stem}-{i:05d}", split)
            i += 1


def _row(record: bytes, labels: Sequence[Sequence[str]], image_id: str, split: str) -> Row:
    if len(record) < len(labels) + PIXELS:
        raise RowError(f"the file ends {len(labels) + PIXELS - len(record)} bytes before the end of the record")
    names = []
    for value, known in zip(record, labels, strict=False):
        if value >= len(known):
            raise RowError(f"the class is {value}, but there are {len(known)} classes")
        names.append(known[value])
    pixels = np.frombuffer(record[len(labels) :], dtype=np.uint8).reshape(3, 32, 32).transpose(1, 2, 0)
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG")
    return row(
        image={"bytes": buffer.getvalue(), "path": None},
        image_id=image_id,
        subject=names[-1],
        superclass=names[0] if len(names) == 2 else None,
        split=split,
    )
