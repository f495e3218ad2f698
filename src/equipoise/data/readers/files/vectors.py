"""Vectors as other programs save them, with a name for each: npz, npy beside ids, Parquet, safetensors, JSON lines.

In an ``.npz`` every matrix stands beside a list of as many names: ``ids`` and ``vectors``, or ``image_ids``,
``image_vectors``, ``texts`` and ``text_vectors``; or it holds one vector per name. An ``.npy`` or ``.safetensors``
holds no text: its names are in a file beside it, one per line (``vectors.ids.txt`` or ``ids.txt``), or in ``ids``.
A column ``model`` of Parquet, or that key of JSON lines, names the model of each vector. Nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.data.readers.files import existing, json_lines, plain_lines, read_json
from equipoise.data.schema import Rejected
from equipoise.errors import InputError

ARRAY_SUFFIXES = (".npz", ".npy", ".parquet", ".safetensors", ".jsonl", ".ndjson")
ID_NAMES = ("id", "ids", "image_id", "image_ids", "text", "texts", "name", "names", "key", "keys", "path", "file_name")
VECTOR_NAMES = ("vector", "vectors", "embedding", "embeddings", "features", "feature", "emb")
MODEL = "model"
_TENSOR_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
_SAVE = "np.savez(FILE, ids=np.array(ids, dtype=str), vectors=vectors)"
_SAVE_BOTH = "np.savez(FILE, image_ids=ids, image_vectors=vectors, texts=texts, text_vectors=vectors_of_texts)"


class Named(NamedTuple):
    """Names (n,) and their vectors (n, d)."""

    names: list[str]
    vectors: NDArray[Any]
    models: list[str | None] | None = None
    """The model of each vector, None in a gap, where the file has a column for it."""


def named_vectors(path: str | os.PathLike[str], ids: str | os.PathLike[str] | None = None) -> Iterator[Named]:
    """Names and vectors in a file, part after part; ``ids`` is the file of names of an npy or safetensors file."""
    file = existing(path)
    suffix = file.suffix.lower()
    if ids is not None and suffix not in (".npy", ".safetensors"):
        raise InputError(f"{file} names its vectors itself; leave out ids")
    if suffix == ".npz":
        yield from _paired(named_arrays(file), file)
    elif suffix == ".npy":
        yield from _with_ids({"vectors": _loaded(file)}, file, ids)
    elif suffix == ".safetensors":
        yield from _with_ids(_tensors(file), file, ids)
    elif suffix == ".parquet":
        yield _gathered(file, _of_parquet(file))
    elif suffix in (".jsonl", ".ndjson"):
        yield _gathered(file, _of_lines(file))
    else:
        known = ", ".join((".csv", ".tsv", *ARRAY_SUFFIXES))
        raise InputError(f"{file}: vectors are read from files that end in {known}; save them as one, such as {_SAVE}")


def named_arrays(file: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an npz file by name; one of Python objects is refused, because it would be unpickled."""
    try:
        with np.load(existing(file), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise InputError(f"{file} holds Python objects, which are not opened; save text as text: {_SAVE}") from None
        raise InputError(f"{file} is not an npz file that can be read: {error}") from None
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{file} is not an npz file that can be read: {error}; save it again") from None


def _loaded(file: Path) -> NDArray[Any]:
    try:
        return np.asarray(np.load(file, allow_pickle=False, mmap_mode="r"))
    except ValueError as error:
        why = "it holds Python objects" if "allow_pickle" in str(error) or "objects" in str(error) else str(error)
        raise InputError(f"{file} is not an npy file of numbers: {why}; save a plain array of numbers") from None
    except (OSError, EOFError) as error:
        raise InputError(f"{file} is not an npy file that can be read: {error}; save it again") from None


def _paired(arrays: Mapping[str, NDArray[Any]], file: Path) -> Iterator[Named]:
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "fiu"}
    lists = {name: array for name, array in arrays.items() if array.ndim == 1 and array.dtype.kind in "USiu"}
    if not matrices:
        flat = {name: array for name, array in arrays.items() if array.ndim == 1 and array.dtype.kind == "f"}
        if not flat or len({len(array) for array in flat.values()}) > 1:
            held = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())[:200] or "nothing"
            raise InputError(f"{file} holds no matrix with one vector per row ({held}); write it as {_SAVE}")
        yield Named(list(flat), np.stack(list(flat.values())))
        return
    for name, matrix in matrices.items():
        yield Named(_texts(lists[_names_of(name, matrix, lists, file, len(matrices))], file), matrix)


def _names_of(name: str, matrix: NDArray[Any], lists: Mapping[str, NDArray[Any]], file: Path, n_matrices: int) -> str:
    """The list of names that belongs to a matrix: as long, and the most like it in name."""
    fitting = [key for key, array in lists.items() if len(array) == len(matrix)]
    if not fitting:
        lengths = ", ".join(f"{key} of {len(array):,}" for key, array in lists.items()) or "no list"
        raise InputError(
            f"{file}: the matrix {name!r} has {len(matrix):,} rows and no list of as many names (there is {lengths}); "
            f"write it as {_SAVE if n_matrices < 2 else _SAVE_BOTH}"
        )
    likeness = {key: len(_words(key) & _words(name)) for key in fitting}
    best = max(likeness.values())
    candidates = [key for key in fitting if likeness[key] == best]
    text = [key for key in candidates if lists[key].dtype.kind in "US"]
    candidates = text or candidates
    if len(candidates) > 1:
        raise InputError(
            f"{file}: {' and '.join(map(repr, candidates))} could both name the rows of {name!r}; call them image_ids, "
            "image_vectors, text_ids and text_vectors"
        )
    return candidates[0]


def _words(name: str) -> set[str]:
    """The words of an array's name without the plural: image_ids and image_vectors share one."""
    return {word.removesuffix("s") for word in name.lower().replace("-", "_").split("_")}


def _texts(names: NDArray[Any], file: Path) -> list[str]:
    if names.dtype.kind == "S":
        try:
            return [name.decode() for name in names.tolist()]
        except UnicodeDecodeError:
            raise InputError(
                f"{file}: the names of the vectors are not UTF-8 text; save them as text: {_SAVE}"
            ) from None
    return [str(name) for name in names.tolist()]


def _with_ids(tensors: Mapping[str, NDArray[Any]], file: Path, ids: str | os.PathLike[str] | None) -> Iterator[Named]:
    flat = {name: array for name, array in tensors.items() if array.ndim == 1}
    if len(flat) == len(tensors) and len(flat) > 1 and ids is None:
        yield Named(list(flat), np.stack(list(flat.values())))
        return
    matrices = {name: array for name, array in tensors.items() if array.ndim == 2}
    if len(matrices) != 1:
        held = ", ".join(f"{name} {array.shape}" for name, array in tensors.items())[:200]
        raise InputError(f"{file}: one matrix with a vector per row is expected, and it holds {held}; see {_SAVE}")
    (matrix,) = matrices.values()
    names = _ids_beside(file, ids)
    if len(names) != len(matrix):
        raise InputError(f"{file} has {len(matrix):,} vectors and there are {len(names):,} ids; give one id per vector")
    yield Named(names, matrix)


def _ids_beside(file: Path, ids: str | os.PathLike[str] | None) -> list[str]:
    beside = [file.with_name(f"{file.stem}{end}") for end in (".ids.txt", "_ids.txt", ".txt", ".ids.npy", "_ids.npy")]
    beside += [file.with_name(name) for name in ("ids.txt", "ids.npy", "ids.json")]
    place = existing(ids) if ids is not None else next((p for p in beside if p.is_file()), None)
    if place is None:
        raise InputError(
            f"{file} does not say which vector is whose; write one id per line, in the order of the vectors, into "
            f"{beside[0].name} beside it"
        )
    if place.suffix == ".npy":
        return _texts(_loaded(place), place)
    if place.suffix == ".json":
        listed = read_json(place)
        return [str(name) for name in listed] if isinstance(listed, list) else []
    return [line.strip() for _, line in plain_lines(place) if isinstance(line, str)]


def _tensors(file: Path) -> dict[str, NDArray[Any]]:
    """The floating-point tensors of a safetensors file, memory-mapped."""
    try:
        with file.open("rb") as opened:
            length = int.from_bytes(opened.read(8), "little")
            if not 2 <= length <= min(100_000_000, file.stat().st_size):
                raise ValueError("its header is missing")
            header = json.loads(opened.read(length))
        data = np.memmap(file, mode="r", dtype=np.uint8, offset=8 + length)
        return {name: _tensor(data, about) for name, about in header.items() if name != "__metadata__"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is not a safetensors file that can be read: {error}; save it again") from None


def _tensor(data: NDArray[np.uint8], about: Mapping[str, Any]) -> NDArray[Any]:
    if about["dtype"] not in _TENSOR_TYPES:
        raise ValueError(f"a tensor of {about['dtype']} holds no vectors")
    start, end = about["data_offsets"]
    raw = np.frombuffer(data[start:end].tobytes(), dtype=_TENSOR_TYPES[about["dtype"]]).reshape(about["shape"])
    return (raw.astype(np.uint32) << 16).view(np.float32) if about["dtype"] == "BF16" else raw


Told = tuple[str, Any, Any, Mapping[str, Any]]
"""Where a record stands, its name, its vector, and all its fields."""


def _of_parquet(file: Path) -> Iterator[Told]:
    import pyarrow as pa

    from equipoise.data.readers.files.parquet import parquet_records, schema_of

    schema = schema_of([file])
    texts = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
    texts = [name for name in texts if name != MODEL]
    whole = [f.name for f in schema if pa.types.is_integer(f.type)]
    key = next((name for name in ID_NAMES if name in texts or name in whole), texts[0] if texts else None)
    lists = [f.name for f in schema if hasattr(f.type, "value_type") and pa.types.is_floating(f.type.value_type)]
    wide = [f.name for f in schema if pa.types.is_floating(f.type) and f.name != MODEL]
    named = [name for name in VECTOR_NAMES if name in lists]
    columns = named or lists or wide
    if lists and len(columns) > 1:
        raise InputError(
            f"{file} has several columns of vectors ({', '.join(columns)[:200]}), and which is meant is not said; keep "
            "one of them, or save each as a file of its own"
        )
    if key is None or not columns:
        raise InputError(
            f"{file} has no column of names and vectors (id, vector); its columns are: {', '.join(schema.names)[:200]}"
        )
    for record in parquet_records([file], [key, *columns, *([MODEL] if MODEL in schema.names else [])]):
        if isinstance(record, Rejected):
            raise InputError(f"{file}: {record.where}: {record.reason}")
        _, number, values = record
        vector = values[columns[0]] if lists else [values[name] for name in columns]
        yield f"row {number}", values[key], vector, values


def _of_lines(file: Path) -> Iterator[Told]:
    for record in json_lines(file):
        if isinstance(record, Rejected):
            raise InputError(f"{file}: {record.where}: {record.reason}")
        where, fields = record
        fields = fields if isinstance(fields, dict) else {}
        key = next((name for name in ID_NAMES if name in fields), None)
        vector = next((name for name in VECTOR_NAMES if name in fields), None)
        if key is None or vector is None:
            raise InputError(f'{file}: {where} is not of the form {{"id": "...", "vector": [0.1, ...]}}')
        yield where, fields[key], fields[vector], fields


def _gathered(file: Path, records: Iterable[Told]) -> Named:
    """All records of a file as one part; a record without a name is refused."""
    names: list[str] = []
    rows: list[Any] = []
    models: list[str | None] = []
    tells_models = False
    for where, name, vector, fields in records:
        if name is None or not str(name).strip():
            raise InputError(f"{file}: {where} has no id; give each vector an id, or leave the row out")
        model = fields.get(MODEL)
        names.append(str(name))
        rows.append(vector)
        models.append(None if model is None else str(model))
        tells_models |= MODEL in fields
    return Named(names, _matrix(rows, names, file), models if tells_models else None)


def _matrix(rows: list[Any], names: list[str], file: Path) -> NDArray[Any]:
    if not rows:
        raise InputError(f"{file} holds no vector")
    try:
        return np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError):
        length = len(rows[0]) if isinstance(rows[0], list) else 0
        bad = next((n for n, row in zip(names, rows, strict=True) if not _is_vector(row, length)), names[0])
        raise InputError(f"{file}: the vector of {bad!r} is not {length} numbers, as the first is") from None


def _is_vector(row: Any, length: int) -> bool:
    return isinstance(row, list) and len(row) == length and all(isinstance(v, int | float) for v in row)
