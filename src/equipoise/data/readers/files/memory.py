"""Records in memory: the rows of a pandas frame, a Hugging Face dataset or a list, and what tells them from others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from equipoise.data.images import encode
from equipoise.data.readers.files.values import plain, plain_fields
from equipoise.errors import InputError


def records_of(data: Any) -> Callable[[], Iterator[dict[str, Any]]]:
    """What gives the rows of a frame, a dataset or a list as mappings, each time from the first."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):

        def of_frame() -> Iterator[dict[str, Any]]:
            for values in data.itertuples(index=False, name=None):
                yield {str(name): plain(value) for name, value in zip(data.columns, values, strict=True)}

        return of_frame
    if not hasattr(data, "__iter__") or isinstance(data, str | bytes | Mapping):
        raise InputError(
            f"rows are expected (a pandas frame, a Hugging Face dataset, a list of mappings), not "
            f"{type(data).__name__}; a dataset of several splits is given one split at a time"
        )
    data = list(data) if hasattr(data, "__next__") else data  # an iterator gives its rows once, and they are read twice
    names = {
        name: feature.names
        for name, feature in (getattr(data, "features", None) or {}).items()
        if hasattr(feature, "names")
    }

    def of_rows() -> Iterator[dict[str, Any]]:
        for number, fields in enumerate(data):
            if not isinstance(fields, Mapping):
                raise InputError(f"row {number} is {type(fields).__name__}; a mapping from column to value is expected")
            yield plain_fields(fields, names)

    return of_rows


def _pixels(picture: Any) -> bytes:
    """The pixels; where a palette or EXIF says how they look, as they are stored. Of a picture that cannot be read
    nothing: its row is rejected later.
    """
    try:
        plain_rgb = picture.mode == "RGB" and "exif" not in picture.info
        return bytes(picture.tobytes() if plain_rgb else encode(picture, compress_level=0))
    except (OSError, InputError):
        return b""


class RecordsDigest:
    """A hash of records, pictures and all, taken while another reads them.

    >>> digests = [RecordsDigest(), RecordsDigest()]
    >>> _ = [list(digest.noted([{"sex": sex}])) for digest, sex in zip(digests, "fm")]
    >>> digests[0].text == digests[1].text
    False
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    @property
    def text(self) -> str:
        """The hash of what was read so far, as hexadecimal digits."""
        return self._hash.hexdigest()

    def noted(self, records: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The records as they are."""
        for fields in records:
            self._add(fields)
            yield fields

    def _add(self, value: Any) -> None:
        """Add a value with its kind and length, so that no two rows run into the same bytes."""
        if isinstance(value, Mapping):
            self._add_bytes("mapping", str(len(value)).encode())
            for name, part in value.items():
                self._add(name)
                self._add(part)
        elif isinstance(value, list):
            self._add_bytes("list", str(len(value)).encode())
            for part in value:
                self._add(part)
        elif isinstance(value, bytes):
            self._add_bytes("bytes", value)
        elif hasattr(value, "tobytes") and hasattr(value, "convert"):
            self._add_bytes(f"picture {value.mode} {value.size}", _pixels(value))
        elif value is None or isinstance(value, str | int | float):
            self._add_bytes(type(value).__name__, str(value).encode("utf-8", "surrogatepass"))
        else:
            self._add_bytes(type(value).__name__, b"")  # its text may hold an address in memory

    def _add_bytes(self, kind: str, content: bytes) -> None:
        self._hash.update(f"{kind} {len(content)} ".encode())
        self._hash.update(content)
