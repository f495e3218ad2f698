"""Samples of webdataset shards: tar files in which ``<key>.jpg``, ``<key>.txt`` and ``<key>.json`` belong together."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from equipoise.data.readers.files.values import RowError, text
from equipoise.data.schema import Rejected
from equipoise.errors import InputError

MAX_MEMBER = 64 * 2**20
"""Bytes; a larger file in a shard is rejected, not read."""

IMAGES = ("jpg", "jpeg", "png", "webp")

Sample = dict[str, bytes]
"""The files of one sample by their suffix."""


def tar_samples(file: Path) -> Iterator[tuple[str, Sample] | Rejected]:
    """Key and files of each sample of one shard, in order; the shard is read once, from start to end.

    A shard that ends in the middle gives the samples before and a Rejected.
    """
    key: str | None = None
    sample: Sample = {}
    given: set[str] = set()
    read_any = False
    members = _members(file)
    while True:
        try:
            member = next(members, None)
        except Exception as error:  # tarfile lets many kinds of exceptions through on a broken archive
            if not read_any:
                raise InputError(f"{file} is not a tar file that can be read: {_short(error)}") from error
            # the sample being read may lack a file: it is not given
            yield Rejected(f"{file.name} {key or ''}".strip(), f"the shard breaks off here: {_short(error)}")
            return
        if member is None:
            break
        read_any = True
        name, data = member
        stem, _, suffix = PurePosixPath(name).name.partition(".")
        member_key = str(PurePosixPath(name).parent / stem)
        if isinstance(data, str):
            yield Rejected(f"{file.name} {_clean(name)}", data)
            continue
        if member_key != key:
            if key is not None:
                yield from _finished(file, key, sample, given)
            key, sample = member_key, {}
        if suffix.lower() in sample:
            yield Rejected(f"{file.name} {_clean(name)}", "the sample has two files with this suffix")
            continue
        sample[suffix.lower()] = data
    if key is not None:
        yield from _finished(file, key, sample, given)


def _finished(file: Path, key: str, sample: Sample, given: set[str]) -> Iterator[tuple[str, Sample] | Rejected]:
    if key in given:
        yield Rejected(f"{file.name} {_clean(key)}", "the key was given before in this shard")
    else:
        given.add(key)
        yield key, sample


def _members(file: Path) -> Iterator[tuple[str, bytes | str]]:
    """Name and content of each file in the archive, or why it was not read."""
    with tarfile.open(file, "r:*") as archive:
        while (member := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # or it would remember every file of the shard
            if member.isdir():
                continue
            if not member.isreg():
                yield member.name, "it is not a plain file"
            elif member.size > MAX_MEMBER:
                yield member.name, f"the file has {member.size} bytes, more than {MAX_MEMBER}"
            else:
                source = archive.extractfile(member)
                data = source.read() if source else b""
                if len(data) != member.size:
                    raise EOFError("unexpected end of data")
                yield member.name, data
        _check_end(archive)


def _check_end(archive: tarfile.TarFile) -> None:
    """Tarfile takes a damaged header for the end; at the true end there are only zeros, a block of them or more."""
    source = archive.fileobj
    assert source is not None
    source.seek(archive.offset)
    if len(source.read(512)) < 512:
        raise EOFError("the end mark is missing")
    source.seek(archive.offset)
    while rest := source.read(2**20):
        if rest.strip(b"\0"):
            raise EOFError("a file's header cannot be read")


def image_of(sample: Sample) -> bytes:
    """The image of a sample."""
    for suffix in IMAGES:
        if sample.get(suffix):
            return sample[suffix]
    raise RowError("the sample has no image")


def metadata_of(sample: Sample) -> dict[str, Any]:
    """The JSON of a sample; empty if it has none."""
    if "json" not in sample:
        return {}
    try:
        metadata = json.loads(sample["json"])
    except (ValueError, RecursionError) as error:
        raise RowError(f"the sample's .json is not JSON: {_short(error)}") from error
    if not isinstance(metadata, dict):
        raise RowError("the sample's .json is not an object")
    return metadata


def caption_of(sample: Sample, metadata: dict[str, Any]) -> str:
    """The caption of a sample, from its .txt or else from its .json."""
    if "txt" in sample:
        return text(sample["txt"].decode("utf-8", "surrogateescape"), "caption")
    return text(metadata.get("caption"), "caption")


def _short(error: BaseException) -> str:
    return _clean(str(error) or type(error).__name__)


def _clean(name: str) -> str:
    return name[:100].encode("utf-8", "replace").decode()
