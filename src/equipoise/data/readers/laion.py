"""LAION-400M and its kin: the metadata as Parquet, with the flag for unsafe images.

Columns used: ``URL``, ``TEXT``, and where they are there ``SAMPLE_ID``, ``NSFW`` (UNLIKELY, UNSURE, NSFW, or empty),
``similarity``, ``LICENSE``, ``WIDTH``, ``HEIGHT``, ``punsafe``; in any case of letters. Nothing is downloaded: a row
has an address and no image. A row that is flagged NSFW, or not flagged at all, is rejected unless the options say
otherwise; the flag was set by a model and misses much, so a row that stays is not thereby safe.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from equipoise.data.readers.files.parquet import name_below, parquet_files, parquet_records, schema_of
from equipoise.data.readers.files.records import name_list
from equipoise.data.readers.files.values import (
    GivenIds,
    RowError,
    address,
    attempt,
    number,
    optional_text,
    row,
    text,
    whole,
)
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

_WANTED = ("url", "text", "sample_id", "nsfw", "similarity", "license", "width", "height", "punsafe")


def read(
    path: str | os.PathLike[str],
    *,
    allow: str | Iterable[str] = ("UNLIKELY", "UNSURE"),
    unflagged: str = "reject",
) -> Iterator[Row | Rejected]:
    """One row per address.

    ``allow``: the flags that may stay. ``unflagged``: what to do with rows that have no flag, ``"reject"`` or
    ``"keep"`` (with ``nsfw`` null).
    """
    if unflagged not in ("reject", "keep"):
        raise InputError(f"unflagged={unflagged!r}: 'reject' or 'keep' is expected")
    files = parquet_files(path)
    allowed = tuple(flag.upper() for flag in name_list(allow, "allow"))
    theirs = {name.casefold(): name for name in schema_of(files).names}
    for needed in ("url", "text"):
        if needed not in theirs:
            raise InputError(f"{files[0]} has no column {needed.upper()}; it has: {', '.join(theirs.values())}")
    if "nsfw" not in theirs and unflagged == "reject":
        raise InputError(f"{files[0]} has no column NSFW, so no row is known to be safe; unflagged='keep' reads it so")
    columns = {ours: theirs[ours] for ours in _WANTED if ours in theirs}
    seen = GivenIds()
    for record in parquet_records(files, list(columns.values())):
        if isinstance(record, Rejected):
            yield record
        else:
            file, i, values = record
            named = {ours: values[name] for ours, name in columns.items()}
            place = name_below(path, file)
            yield attempt(f"{file.name} row {i}", _row, named, place, i, allowed, unflagged, seen=seen)


def _row(values: dict[str, Any], place: str, i: int, allowed: tuple[str, ...], unflagged: str) -> Row:
    flag = optional_text(values.get("nsfw"), "NSFW")
    flag = flag.upper() if flag else None
    if flag is None and unflagged == "reject":
        raise RowError("the image has no flag; unflagged='keep' lets it stay")
    if flag is not None and flag not in allowed:
        raise RowError(f"the image is flagged {flag!r}; allow= names the flags that may stay")
    return row(
        captions=[text(values["text"], "TEXT")],
        image_id=_sample_id(values.get("sample_id")) or f"{place}-{i:09d}",
        url=address(values["url"], "URL"),
        nsfw=flag,
        similarity=_optional_number(values.get("similarity"), "similarity"),
        punsafe=_optional_number(values.get("punsafe"), "punsafe"),
        licence=optional_text(values.get("license"), "LICENSE"),
        width=_optional_whole(values.get("width"), "WIDTH"),
        height=_optional_whole(values.get("height"), "HEIGHT"),
    )


def _sample_id(value: Any) -> str | None:
    """LAION-400M stores its ids as floating-point numbers."""
    number = _optional_number(value, "SAMPLE_ID")
    if number is None:
        return None
    if number != int(number):
        raise RowError(f"the SAMPLE_ID is {number}; a whole number is expected")
    return str(value if isinstance(value, int) else int(number))


def _optional_number(value: Any, name: str) -> float | None:
    return None if value is None else number(value, name)


def _optional_whole(value: Any, name: str) -> int | None:
    return None if value is None else whole(value, name, 0, 2**31)
