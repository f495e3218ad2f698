"""Conceptual Captions 3M: the TSV of captions and addresses, or webdataset shards of downloaded images.

TSV: ``Train_GCC-training.tsv`` and ``Validation_GCC-1.1.0-Validation.tsv``, a line is a caption, a tab and an
address; a first line ``caption<tab>url``, which img2dataset wants, is skipped. An image id is the split and the line,
counted from 0 without that header. Shards: what img2dataset writes, ``<key>.jpg``, ``<key>.txt``, ``<key>.json``
with ``caption``, ``url``, ``key``, ``status``; a sample whose status is not "success" is rejected.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from equipoise.data.readers.files import existing, files_of, plain_lines
from equipoise.data.readers.files.records import split_named
from equipoise.data.readers.files.tarshards import Sample, caption_of, image_of, metadata_of, tar_samples
from equipoise.data.readers.files.values import (
    GivenIds,
    Pictures,
    RowError,
    address,
    attempt,
    optional_text,
    row,
    text,
)
from equipoise.data.schema import Rejected, Row

SHARD_ROWS = 10_000  # img2dataset's default, from which its keys are made


def read(
    path: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None, split: str | None = None
) -> Iterator[Row | Rejected]:
    """One row per image.

    ``path``: a TSV, a tar, or a folder of either (tar files are preferred). ``images``, for a TSV: what img2dataset
    wrote with ``output_format=files``; without it the rows have an address and no image. ``split``: the split, where
    the file name does not tell.
    """
    start = existing(path)
    if start.is_dir():
        tars = sorted({*start.glob("*.tar"), *start.glob("*/*.tar")})
        files = tars or files_of(start, "*.tsv")
    else:
        files = [start]
    pictures = Pictures.at(images)
    seen = GivenIds()
    for file in files:
        part = split or split_named(file.name) or split_named(file.parent.name)
        if file.suffix == ".tsv":
            yield from _lines(file, part, pictures)
        else:
            yield from _samples(file, part, seen)


def _lines(file: Path, split: str | None, pictures: Pictures) -> Iterator[Row | Rejected]:
    first = 1
    for number, line in plain_lines(file):
        if isinstance(line, Rejected):
            yield line
        elif number == 1 and line.strip().casefold().split("\t") == ["caption", "url"]:
            first = 2
        else:
            where, shown = f"{file.name} line {number}", {"line": line}
            yield attempt(where, _line_row, line, number - first, split, pictures, shown=shown)


def _line_row(line: str, index: int, split: str | None, pictures: Pictures) -> Row:
    fields = line.split("\t")
    if len(fields) != 2:
        raise RowError(f"the line has {len(fields)} fields; a caption, a tab and an address are expected")
    caption, key = text(fields[0], "caption"), f"{index:09d}"
    return row(
        image=pictures.any_suffix(key, f"{index // SHARD_ROWS:05d}/{key}"),
        image_id=f"cc3m-{split or 'unknown'}-{key}",
        captions=[caption],
        split=split,
        url=address(fields[1]),
    )


def _samples(file: Path, split: str | None, seen: GivenIds) -> Iterator[Row | Rejected]:
    for sample in tar_samples(file):
        if isinstance(sample, Rejected):
            yield sample
        else:
            key, files = sample
            yield attempt(f"{file.name} {key}", _sample_row, key, files, split, seen=seen)


def _sample_row(key: str, files: Sample, split: str | None) -> Row:
    metadata = metadata_of(files)
    if metadata.get("status", "success") != "success":
        raise RowError(f"the download ended with {str(metadata['status'])[:60]!r}")
    caption = caption_of(files, metadata)
    return row(
        image={"bytes": image_of(files), "path": None},
        image_id=f"cc3m-{split or 'unknown'}-{text(key, 'key')}",
        captions=[caption],
        split=split,
        url=optional_text(metadata.get("url"), "address"),
    )
