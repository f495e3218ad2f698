"""Caption and label files as records: COCO results and captions JSON, JSONL, CSV and TSV, and tables.

One record is one row of the file: its image, its captions, and whatever else the row says (a label, perhaps). A row
that cannot be read is a sentence that names its line; an empty caption is kept, and counted by
:mod:`equipoise.audit.captions.inputs`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from equipoise.data.manifest import MANIFEST
from equipoise.data.sampling import units_of
from equipoise.errors import InputError, UnknownNameError, closest, like_it
from equipoise.formatting import delimiter_in, from_spreadsheet, plural
from equipoise.text.labels import is_missing

if TYPE_CHECKING:
    from equipoise.data import Table

ID_COLUMNS = ("image_id", "id", "image", "filename", "file_name")
"""Where a row says which image it is about; the first that is there counts."""
CAPTION_COLUMNS = ("caption", "captions")
_COCO_IMAGE = frozenset(
    {*ID_COLUMNS, *CAPTION_COLUMNS, "width", "height", "license", "flickr_url", "coco_url", "date_captured"}
)
"""What a COCO file says of an image that is no label of it."""
MAX_LINE = 1_000_000
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_KINDS = ".json, .jsonl, .csv, .tsv or a table's folder"


@dataclass(frozen=True)
class Record:
    """One row of a file."""

    where: str
    """File and line, for messages."""
    image_id: str
    captions: tuple[str, ...]
    """Empty in a file of labels."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Everything else the row holds."""
    taken: tuple[str, ...] = ()
    """The names of the fields that held the image id and the captions."""


def image_name(value: Any, where: str) -> str:
    """The name of an image as text: 42, "42" and 42.0 are one image.

    >>> image_name(42, "x"), image_name(" 42 ", "x"), image_name(42.0, "x")
    ('42', '42', '42')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
        raise InputError(f"{where}: the image id is {value!r}; give a number or a text")
    return str(value).strip()


def origin_name(value: Any, where: str, ids: Container[str]) -> str:
    """The name of the image that another was made from; spreadsheets write 42 as 42.0 in a column with empty cells.

    >>> origin_name("42.0", "x", {"42"}), origin_name(42.0, "x", {"42"}), origin_name("v1.0", "x", {"v1.0"})
    ('42', '42', 'v1.0')
    """
    name = image_name(value, where)
    whole = name.removesuffix(".0")
    return whole if name not in ids and whole in ids else name


def note_of_sources(records: Iterable[Record], captioned: Collection[str]) -> list[str]:
    """What to know where the files say that several images come from one source, or belong to one set.

    >>> twins = [Record("", name, (), {"source_id": "photograph"}) for name in "ab"]
    >>> note_of_sources(twins, "ab")[0][:42], note_of_sources(twins, "a")
    ('the 2 images are of 1 independent source: ', [])
    """
    told: dict[str, dict[str, Any]] = {name: {"image_id": name} for name in sorted(captioned)}
    for record in records:
        if record.image_id in told:
            links = {name: record.fields.get(name) for name in ("subject", "set_id", "source_id")}
            named = {name: v for name, v in links.items() if (v.strip() if isinstance(v, str) else _is_whole(v))}
            told[record.image_id] |= {name: origin_name(v, record.where, told) for name, v in named.items()}
    if not any(len(row) > 1 for row in told.values()):
        return []
    independent = len(set(units_of(pd.DataFrame(list(told.values())), "image_id")))
    if independent == len(told):
        return []
    return [
        f"the {len(told):,} images are of {plural(independent, 'independent source')}: LIC's splits, intervals and "
        "p-values count every image, and are too sure where images of one source or set show one group"
    ]


def _is_whole(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def is_empty(cell: Any) -> bool:
    """Whether a cell holds nothing: a missing value, or text without a letter.

    >>> is_empty(None), is_empty(" "), is_empty(0), is_empty([])
    (True, True, False, False)
    """
    if isinstance(cell, str):
        return not cell.strip()
    return not isinstance(cell, list | tuple | np.ndarray) and is_missing(cell)


def items_of(cell: Any, where: str) -> list[Any]:
    """What a cell lists: a list, or text with semicolons or as JSON.

    >>> items_of("dog; cat", "x"), items_of('["dog", "cat"]', "x"), items_of("", "x"), items_of(3, "x")
    (['dog', 'cat'], ['dog', 'cat'], [], [3])
    """
    if isinstance(cell, str):
        text = cell.strip()
        if text.startswith("["):
            try:
                return list(json.loads(text))
            except ValueError:
                message = f"{text[:40]!r} is not a list; write it as JSON, or with semicolons"
                raise InputError(f"{where}: {message}") from None
        return [part.strip() for part in text.split(";") if part.strip()]
    if isinstance(cell, list | tuple | np.ndarray):
        return list(cell)
    return [] if is_empty(cell) else [cell]


def suffix_of(path: str | Path) -> str:
    """The kind of a file by its name, in lower case; a ``.ndjson`` file is a ``.jsonl`` file.

    >>> suffix_of("A.NDJSON")
    '.jsonl'
    """
    suffix = Path(path).suffix.lower()
    return ".jsonl" if suffix == ".ndjson" else suffix


@dataclass(frozen=True)
class CaptionColumns:
    """Names of columns of one's own; a file that has no such column is read by the usual names.

    Files may differ: each is read by the first of several names that it has.
    ``layers``: what is joined to tables among the files, by name or path, or ``all``.
    """

    image_id: tuple[str, ...] = ()
    caption: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()

    @classmethod
    def named(
        cls, image_id: str | Iterable[str] = (), caption: str | Iterable[str] = (), layers: Iterable[str] = ()
    ) -> CaptionColumns:
        """The same from one name or several; an empty one is none.

        >>> CaptionColumns.named("photo", ["text", "sentence"]).caption
        ('text', 'sentence')
        """
        given = [(names,) if isinstance(names, str) else tuple(names) for names in (image_id, caption)]
        own = [tuple(name for name in names if name) for names in given]
        return cls(own[0], own[1], tuple(layers))

    def opened(self, folder: str | Path) -> Table:
        """The table in ``folder`` with those of the layers that it has."""
        from equipoise.data import Table

        table = Table.open(folder)
        known = table.layer_names()
        if self.layers == ("all",):
            return table.with_layers("all")
        return table.with_layers([name for name in self.layers if name in known or Path(name).is_dir()])

    def check_layers(self, places: Iterable[str | Path]) -> None:
        """Refuse a layer that no table among ``places`` has; ``NAME=PLACE`` is a place with a name."""
        from equipoise.data import Table

        given = [str(place) for place in places]
        paths = [Path(place if Path(place).exists() else place.partition("=")[2] or place) for place in given]
        tables = [Table.open(path) for path in paths if (path / MANIFEST).is_file()]
        for name in self.layers:
            known = sorted({layer for table in tables for layer in table.layer_names()})
            if not tables:
                raise InputError(f"--layer {name}: a layer belongs to a table, and only files are given; leave it out")
            if name != "all" and name not in known and not Path(name).is_dir():
                raise UnknownNameError(f"layer of {' or '.join(str(table.path) for table in tables)}", name, known)

    def check(self, records: Iterable[Record], places: Iterable[str]) -> None:
        """Refuse a name that no file has."""
        for names, flag in ((self.image_id, "--id-column"), (self.caption, "--caption-column")):
            for name in names:
                if not any(name in record.taken for record in records):
                    raise InputError(f"{flag} {name!r}: no such column in {' or '.join(places)}")


USUAL = CaptionColumns()


def read_records(path: str | Path, *, need_captions: bool = True, columns: CaptionColumns = USUAL) -> list[Record]:
    """All records of ``path``; with ``need_captions`` every row must have ``caption`` or ``captions``.

    ``columns`` names columns that are called otherwise.
    """
    source = Path(path)
    if source.is_dir():
        rows: Iterable[tuple[str, dict[str, Any]]] = _table_rows(source, columns)
    else:
        if not source.exists():
            raise InputError(f"{source}: no such file{like_it(source)}")
        suffix = suffix_of(source)
        if suffix == ".json":
            rows = _json_rows(source, need_captions)
        elif suffix == ".jsonl":
            rows = _jsonl_rows(source)
        elif suffix in _DELIMITERS:
            rows = _csv_rows(source, _DELIMITERS[suffix])
        else:
            raise InputError(f"{source}: cannot tell the format from {suffix or 'the name'!r}; give {_KINDS}")
    read = list(rows)
    if not read:
        raise InputError(f"{source}: holds no {'captions' if need_captions else 'rows'}")
    # one column of the whole file, not of each row: where a row lacks it, another column means something else
    present = {name for _, row in read for name in row}
    key = next((name for name in (*columns.image_id, *ID_COLUMNS) if name in present), None)
    own = next((name for name in columns.caption if name in present), None)
    return [_record(where, row, need_captions, columns, key, own) for where, row in read]


def _record(
    where: str, row: dict[str, Any], need_captions: bool, columns: CaptionColumns, key: str | None, own: str | None
) -> Record:
    """One row as a record: ``key`` is the file's column of image ids, ``own`` that of captions where it was named."""
    if key is None:
        wanted = " or ".join(columns.image_id) or "image_id"
        hint = _hint("--id-column", columns.image_id, wanted, row)
        raise InputError(f"{where}: no column {wanted!r} that names the image; it has: {_listed(row)}; {hint}")
    if key not in row:
        raise InputError(f"{where}: no {key!r}, by which other rows of this file name their image; give every row one")
    known = CAPTION_COLUMNS if own is None else (own,)
    column = next((name for name in known if row.get(name) is not None), None)
    texts: tuple[str, ...] = ()
    if column is not None:
        value = row[column]
        many = list(value) if isinstance(value, list | tuple) else [value]
        if not all(isinstance(text, str) for text in many):
            raise InputError(f"{where}: {column!r} must be a text or a list of texts, not {_short(value)}")
        texts = tuple(many) or ("",)
    elif need_captions:
        if own is not None or any(name in row for name in known):
            texts = ("",)  # present and null: an image without a caption, which is counted
        else:
            wanted = " or ".join(columns.caption) or "caption"
            hint = _hint("--caption-column", columns.caption, wanted, row)
            raise InputError(f"{where}: no column {wanted!r}; it has: {_listed(row)}; {hint}")
    others = {name: value for name, value in row.items() if name not in (key, *columns.caption, *CAPTION_COLUMNS)}
    return Record(where, image_name(row[key], where), texts, others, tuple(n for n in (key, column) if n))


def _hint(flag: str, given: Sequence[str], wanted: str, row: Mapping[str, Any]) -> str:
    """What to type where a file has none of the columns ``given``."""
    near = closest(wanted, row, n=1)
    if near:
        return f"did you mean {flag} {near[0]}?"
    return f"name this file's own with another {flag}" if given else f"name it with {flag}"


def refuse_several(path: str, records: Sequence[Record]) -> None:
    """Refuse a file of a captioner in which most images have several different captions: those are of people."""
    texts: dict[str, set[str]] = {}
    for record in records:
        if len(record.captions) == 1:  # a row with several is refused with its line
            texts.setdefault(record.image_id, set()).update(text for text in record.captions if text.strip())
    several = sum(len(said) > 1 for said in texts.values())
    if several > len(texts) / 2:
        raise InputError(
            f"{path}: {several:,} of {len(texts):,} images have several captions that differ, where a captioner has "
            f"one per image; give people's captions with --references {path}, and each captioner a file of its own"
        )


# Files


def _json_rows(path: Path, need_captions: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    data = _parsed(_decoded(_bytes_of(path), str(path)), str(path))
    if isinstance(data, dict) and isinstance(data.get("annotations"), list):
        if need_captions:
            refuse_boxes(data["annotations"], path)
        of_images = _image_fields(data.get("images"))
        for where, row in _entries(data["annotations"], path, "annotation"):
            # the id of a COCO annotation is its own, not its image's
            own = {name: value for name, value in row.items() if name not in ("id", "category_id", "bbox")}
            yield where, own | of_images.get(str(own.get("image_id")), {})
        return
    if isinstance(data, list):
        yield from _entries(data, path, "entry")
        return
    raise InputError(
        f"{path}: expected a list of {{image_id, caption}} (COCO results) or an object with 'annotations' (COCO "
        f"captions), found {_short(data)}"
    )


def _image_fields(images: Any) -> dict[str, dict[str, Any]]:
    """What a COCO file says of its images beside COCO's own fields (a group, perhaps), by id."""
    entries = [image for image in images if isinstance(image, dict)] if isinstance(images, list) else []
    return {
        str(image.get("id")): {name: value for name, value in image.items() if name not in _COCO_IMAGE}
        for image in entries
    }


def refuse_boxes(annotations: list[Any], path: str | Path) -> None:
    """Refuse COCO's boxes or keypoints where its captions are read, and name the file beside them."""
    first = annotations[0] if annotations else None
    if isinstance(first, dict) and "caption" not in first and {"bbox", "keypoints", "segmentation"} & first.keys():
        name = re.sub(r"^(instances|person_keypoints)_", "captions_", Path(path).name)
        theirs = Path(path).with_name(name) if name != Path(path).name else "captions_<split>.json"
        raise InputError(f"{path}: boxes of objects and no captions; give {theirs}")


def _entries(items: list[Any], path: Path, what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, item in enumerate(items):
        where = f"{path}: {what} {number}"
        if not isinstance(item, dict):
            raise InputError(f"{where}: expected an object with image_id and caption, found {_short(item)}")
        yield where, item


def _jsonl_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        row = _parsed(line, where)
        if not isinstance(row, dict):
            raise InputError(f"{where}: expected a JSON object with image_id and caption, found {_short(row)}")
        yield where, row


def _csv_rows(path: Path, delimiter: str) -> Iterator[tuple[str, dict[str, Any]]]:
    at = [0]

    def counted() -> Iterator[str]:
        for number, line in _lines(path):
            at[0] = number
            yield line

    csv.field_size_limit(MAX_LINE)
    lines = counted()
    first = list(islice(lines, 1))
    delimiter = delimiter_in("".join(first)) if delimiter == "," else delimiter
    rows = csv.reader(chain(first, lines), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]  # a space behind a name is nobody's intention
        if not header:
            raise InputError(f"{path}: empty file; expected a header such as image_id{delimiter}caption")
        twice = [name for place, name in enumerate(header) if name in header[:place]]
        if twice:
            raise InputError(f"{path}: the column {twice[0]!r} is there twice; rename one")
        for row in rows:
            if not row:
                continue
            if len(row) != len(header):
                raise InputError(f"{path}:{at[0]}: {len(row)} fields in the row, {len(header)} in the header")
            yield f"{path}:{at[0]}", dict(zip(header, map(from_spreadsheet, row), strict=True))
    except csv.Error as error:
        raise InputError(f"{path}:{at[0]}: not valid CSV: {error}") from None


def _table_rows(folder: Path, columns: CaptionColumns) -> Iterator[tuple[str, dict[str, Any]]]:
    table = columns.opened(folder)
    wanted = [name for name in table.columns if name != "image"]
    if table.kind not in ("captions", "images", "layer"):
        raise InputError(f"{folder}: a table of {table.kind}; give one of captions or of images")
    number = 0
    for batch in table.batches(wanted, only_kept="keep" in table.columns):
        for row in batch.to_pylist():
            yield f"{folder}: row {number}", row
            number += 1


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as stream:
            number = 0
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise InputError(f"{path}:{number}: a line of more than {MAX_LINE:,} bytes is not a caption")
                yield number, _decoded(line, f"{path}:{number}", first=number == 1)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None


def _decoded(content: bytes, where: str, *, first: bool = True) -> str:
    try:
        return content.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where}: not UTF-8 text (byte 0x{content[error.start]:02x} at position {error.start}); convert it, for "
            "example with iconv"
        ) from None


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f" (line {error.lineno}, column {error.colno})"
        raise InputError(f"{where}: not valid JSON: {error.msg}{place}") from None
    except (RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{where}: not valid JSON: {reason}") from None


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {_listed(value)}"
    if isinstance(value, list):
        return "a list"
    return repr(value)[:60]


def _listed(row: Mapping[str, Any]) -> str:
    return ", ".join(repr(str(name)) for name in list(row)[:8]) or "nothing"
