"""Flickr30k: five captions per image, from Karpathy's JSON or from the token file.

``dataset_flickr30k.json`` (Karpathy's splits): ``images[]`` with ``filename``, ``split`` (train, val, test; COCO's
file also has restval) and ``sentences[].raw``; ``filepath`` and ``cocoid`` are used where they are there, so
``dataset_coco.json`` and ``dataset_flickr8k.json`` are read too. ``results_20130124.token``: a line is
``<file name>#<number>``, a tab, and the caption; it has no splits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equipoise.data.readers.files import files_of, plain_lines, read_json
from equipoise.data.readers.files.values import (
    GivenIds,
    Pictures,
    RowError,
    attempt,
    brief,
    identifier,
    mapping,
    optional_text,
    row,
    text,
)
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError


def read(path: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None) -> Iterator[Row | Rejected]:
    """One row per image with all its captions.

    ``path``: the JSON or the token file, or a folder with one of them (the JSON is preferred, and of several
    ``dataset_flickr30k.json``). ``images``: the folder of the images, by default ``flickr30k-images`` or
    ``flickr30k_images`` beside the file if it is there.
    """
    file = _annotations(path)
    pictures = Pictures.at(images, file.with_name("flickr30k-images"), file.with_name("flickr30k_images"))
    if file.suffix == ".json":
        yield from _karpathy(file, pictures)
    else:
        yield from _tokens(file, pictures)


def _annotations(path: str | os.PathLike[str]) -> Path:
    """The file to read; where a folder holds several and none is Flickr30k's own, they are named and refused."""
    files = files_of(path, "dataset_*.json", "*.token")
    files = [file for file in files if file.suffix == ".json"] or files
    own = [file for file in files if file.name == "dataset_flickr30k.json"]
    if not own and len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise InputError(f"{path} holds several files of captions ({names}); give the path of the one to read")
    return (own or files)[0]


def _karpathy(file: Path, pictures: Pictures) -> Iterator[Row | Rejected]:
    document = read_json(file)
    if not isinstance(document, dict) or not isinstance(document.get("images"), list):
        raise InputError(f"{file} is not one of Karpathy's files; a JSON object with a list 'images' is expected")
    seen = GivenIds()
    for i, entry in enumerate(document["images"]):
        where = f"{file.name} images[{i}]"
        captions: list[str] = []
        yield from _captions(entry, where, captions)
        yield attempt(where, _karpathy_row, entry, captions, pictures, shown=entry, seen=seen)


def _captions(entry: Any, where: str, captions: list[str]) -> Iterator[Rejected]:
    sentences = entry.get("sentences") if isinstance(entry, dict) else None
    for i, sentence in enumerate(sentences if isinstance(sentences, list) else []):
        try:
            captions.append(text(mapping(sentence, "sentence").get("raw"), "caption"))
        except RowError as error:
            yield Rejected(f"{where}.sentences[{i}]", str(error))


def _karpathy_row(entry: Any, captions: list[str], pictures: Pictures) -> Row:
    entry = mapping(entry, "image")
    name = text(entry.get("filename"), "file name")
    if not isinstance(entry.get("sentences"), list):
        raise RowError("there is no list of sentences")
    folder = optional_text(entry.get("filepath"), "file path")
    stem = identifier(entry["cocoid"], "cocoid") if "cocoid" in entry else name.rpartition(".")[0] or name
    return row(
        image=pictures.cell(*([f"{folder}/{name}"] if folder else []), name),
        image_id=stem,
        captions=captions,
        split=optional_text(entry.get("split"), "split"),
    )


def _tokens(file: Path, pictures: Pictures) -> Iterator[Row | Rejected]:
    captions: dict[str, list[str]] = {}
    for number, line in plain_lines(file):
        if isinstance(line, Rejected):
            yield line
            continue
        try:
            name, caption = _token(line)
        except RowError as error:
            yield Rejected(f"{file.name} line {number}", str(error), brief({"line": line}))
            continue
        captions.setdefault(name, []).append(caption)

    seen = GivenIds()

    def row_of(name: str, texts: list[str]) -> Row:
        return row(image=pictures.cell(name), image_id=name.rpartition(".")[0] or name, captions=texts)

    for name, texts in captions.items():
        yield attempt(f"{file.name} image {name}", row_of, name, texts, seen=seen)


def _token(line: str) -> tuple[str, str]:
    key, tab, caption = line.partition("\t")
    name, hash_, number = key.rpartition("#")
    if not tab or not hash_ or not number.strip().isdigit() or "\t" in caption:
        raise RowError("the line is not '<file name>#<number>', a tab, and a caption")
    return text(name, "file name"), text(caption, "caption")
