"""Checks on single values: a field is what it should be, or the row is rejected with the reason."""

from __future__ import annotations

import datetime
import math
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from equipoise.data.images import encode
from equipoise.data.readers.files import existing
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError
from equipoise.text.labels import label_text, means_unknown

MAX_TEXT = 2**17
"""Characters; a longer caption or name is damage, not text."""

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm")


class RowError(ValueError):
    """Why one row cannot be used; it becomes the reason of a Rejected, and is cut if a value in it is very long."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason if len(reason) <= 400 else f"{reason[:397]}...")


def attempt(
    where: str,
    build: Callable[..., Row],
    *args: Any,
    shown: Any = None,
    seen: GivenIds | None = None,
) -> Row | Rejected:
    """The row that ``build(*args)`` makes, or a Rejected with the reason it gives.

    ``shown`` is what is kept of the record beside the reason, in short, if it is a mapping. With ``seen``, a row whose
    ``image_id`` an earlier row has is rejected.

    >>> attempt("line 3", lambda caption: {"caption": text(caption, "caption")}, " ")
    Rejected(where='line 3', reason='the caption is empty', row={})
    """
    try:
        row = build(*args)
        if seen is not None:
            seen.new(row["image_id"])
        return row
    except (RowError, InputError) as error:
        return Rejected(where[:200], str(error), brief(shown) if isinstance(shown, Mapping) else {})


def brief(values: Mapping[str, Any]) -> dict[str, str]:
    """Names and values as short, clean text, so that they can be kept beside the reason."""
    return {_clean(k): _clean(v) for k, v in list(values.items())[:20] if isinstance(v, (str, int, float, type(None)))}


def row(**columns: Any) -> Row:
    """A row with the columns that every reader gives; what is not named is null, and the caption the first of several.

    >>> sorted(k for k, v in row(image_id="7").items() if v is None)
    ['caption', 'image', 'label_source', 'split', 'subject']
    """
    base: Row = {
        "image": None,
        "image_id": None,
        "caption": next(iter(columns.get("captions", ())), None),
        "captions": [],
        "subject": None,
        "label_source": None,
        "split": None,
    }
    return base | columns


def text(value: Any, name: str, limit: int = MAX_TEXT) -> str:
    """``value`` as clean text without space around it; empty, too long or not Unicode is a RowError."""
    if not isinstance(value, str):
        raise RowError(f"the {name} is {_shown(value)}, not text")
    if len(value) > limit:
        raise RowError(f"the {name} has {len(value)} characters; more than {limit} is taken for damage")
    stripped = value.strip()
    if not stripped:
        raise RowError(f"the {name} is empty")
    try:
        stripped.encode()
    except UnicodeEncodeError as error:
        raise RowError(f"the {name} is not valid UTF-8 text: {_shown(value)}") from error
    if "\x00" in stripped:
        raise RowError(f"the {name} holds a NUL character: {_shown(value)}")
    return stripped


def optional_text(value: Any, name: str) -> str | None:
    """As :func:`text`, and None for nothing: null, or only space."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    return text(value, name)


def identifier(value: Any, name: str = "id") -> str:
    """An id as text; whole numbers and text are ids, nothing else is.

    >>> identifier(391895), identifier(" n01440764 ")
    ('391895', 'n01440764')
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 2**63:
            raise RowError(f"the {name} is a number of more than 64 bits")
        return str(value)
    if isinstance(value, str):
        return text(value, name)
    raise RowError(f"the {name} is {_shown(value)}; a whole number or text is expected")


def number(value: Any, name: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number between ``low`` and ``high``, from a number or from text.

    >>> number("0.5", "score", 0, 1)
    0.5
    """
    if isinstance(value, str) and "_" not in value:
        with suppress(ValueError):  # text that is no number is refused below, as it stands
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RowError(f"the {name} is {_shown(value)}, not a number")
    try:
        parsed = float(value)
    except OverflowError:
        parsed = math.inf
    if not math.isfinite(parsed) or not low <= parsed <= high:
        raise RowError(f"the {name} is {_shown(value)}; a finite number from {low} to {high} is expected")
    return parsed


def whole(value: Any, name: str, low: int = -(2**63), high: int = 2**63 - 1) -> int:
    """A whole number between ``low`` and ``high``, from a number or from text, to its last digit.

    >>> whole("9007199254740993", "seed"), whole(3.0, "seed")
    (9007199254740993, 3)
    """
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,20}\s*", value):
        value = int(value)
    parsed = value if isinstance(value, int) and not isinstance(value, bool) else _whole_of_float(value, name)
    if not low <= parsed <= high:
        raise RowError(f"the {name} is {_shown(value)}; a whole number from {low} to {high} is expected")
    return parsed


def _whole_of_float(value: Any, name: str) -> int:
    parsed = number(value, name)
    if parsed != int(parsed) or abs(parsed) > 2**53:  # beyond it, floating point has lost digits
        raise RowError(f"the {name} is {_shown(value)}; a whole number is expected")
    return int(parsed)


def plain(value: Any) -> Any:
    """A cell of a frame or of Arrow as JSON has it: dates and decimals as text, arrays as lists, a gap as nothing.

    Bytes, pictures and what else is no such cell stay as they are.

    >>> plain(datetime.date(2020, 5, 1)), plain(Decimal("1.50")), plain({"scores": (1.0, math.nan)})
    ('2020-05-01', '1.50', {'scores': [1.0, None]})
    """
    if value is None or isinstance(value, str | bytes | int):
        return value
    if type(value).__name__ in ("NAType", "NaTType"):  # those of pandas, which need not be loaded to tell
        return None
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0:
        return [plain(part) for part in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, np.datetime64 | np.timedelta64):
        return None if np.isnat(value) else str(value)
    if isinstance(value, Decimal | datetime.timedelta):
        return str(value)
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    return None if isinstance(value, float) and math.isnan(value) else value


def plain_fields(fields: Mapping[Any, Any], classes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The cells of a row, each as :func:`plain` has it, with the names of ``classes`` instead of their numbers."""
    values = {str(name): plain(value) for name, value in fields.items()}
    for column, known in classes.items():
        value = values.get(column)
        if isinstance(value, int):
            values[column] = known[value] if 0 <= value < len(known) else None
    return values


def mapping(value: Any, name: str) -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise RowError(f"the {name} is {_shown(value)}; a JSON object is expected")
    return value


def box(value: Any, name: str = "box") -> list[float]:
    """``[x, y, width, height]`` in numbers, width and height from 0 up.

    >>> box([1, 2, 3, 4.5])
    [1.0, 2.0, 3.0, 4.5]
    """
    if not isinstance(value, list) or len(value) != 4:
        raise RowError(f"the {name} is {_shown(value)}; [x, y, width, height] is expected")
    x, y = number(value[0], f"x of the {name}"), number(value[1], f"y of the {name}")
    return [x, y, number(value[2], f"width of the {name}", 0), number(value[3], f"height of the {name}", 0)]


def group(value: Any, name: str, undefined: Collection[str] = (), known: Collection[str] | None = None) -> str | None:
    """The group on one axis, as the data spells it; None for nothing and for a word that means undefined ("N/A").

    A whole number is a group of that name. Where the dataset has a fixed list of groups, ``known``, another word is
    damage and not a new group.

    >>> group("Unsure", "gender", ("unsure",)), group("Female", "gender", ("unsure",), ("Male", "Female"))
    (None, 'Female')
    >>> group(1, "gender"), group("N/A", "gender")
    ('1', None)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = label_text(value)
    label = optional_text(value, name)
    if label is None or label.casefold() in undefined:
        return None
    if label not in (known or ()) and means_unknown(label):
        return None
    if known is not None and label not in known:
        raise RowError(f"the {name} is {_shown(label)}; the dataset has {', '.join(sorted(known))}")
    return label


def address(value: Any, name: str = "address") -> str:
    """A web address."""
    url = text(value, name)
    if not re.match(r"https?://[^\s]", url, re.IGNORECASE):
        raise RowError(f"the {name} is {_shown(url)}; http:// or https:// is expected")
    return url


class GivenIds:
    """Ids already given; a second one is a RowError.

    >>> seen = GivenIds()
    >>> seen.new("7")
    '7'
    """

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def new(self, image_id: str) -> str:
        """``image_id``, if it is new."""
        if image_id in self._ids:
            raise RowError(f"the image id {image_id!r} was given before; the first row stays")
        self._ids.add(image_id)
        return image_id


class Pictures:
    """The folder that holds a dataset's images; images are looked for, never opened.

    Without a folder (``Pictures(None)``) every row has no image, which is enough to work from captions and labels.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    @classmethod
    def at(cls, images: str | os.PathLike[str] | None, *places: Path) -> Pictures:
        """Those in the folder ``images``; where none is named, in the first of ``places`` that is there, if any."""
        if images is not None:
            return cls(existing(images))
        return cls(next((place for place in places if place.is_dir()), None))

    def cell(self, *names: str) -> dict[str, Any] | None:
        """The image cell of the first of ``names`` that exists below the folder; none is a RowError."""
        if self.folder is None:
            return None
        for name in names:
            if file := self._found(name):
                return {"bytes": None, "path": str(file)}
        raise RowError(f"the image {names[0]!r} is not in {str(self.folder)!r}")

    def any_suffix(self, *stems: str) -> dict[str, Any] | None:
        """The image cell of the first of ``stems`` with an image suffix, or with none."""
        return self.cell(*(stem + suffix for stem in stems for suffix in (*IMAGE_SUFFIXES, "")))

    def _found(self, name: str) -> Path | None:
        parts = PurePosixPath(name.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or "\x00" in name or not parts.parts:
            raise RowError(f"the image name {_shown(name)} does not stay inside the folder of the dataset")
        assert self.folder is not None
        try:
            path = self.folder / parts
            return path if path.is_file() else None
        except (OSError, ValueError):
            return None


class OwnPictures:
    """Where the images of one's own list are: below one of several folders, or anywhere by a full path."""

    def __init__(self, *folders: Path) -> None:
        self.folders = tuple(dict.fromkeys(folders))

    def own_cell(self, value: Any) -> dict[str, Any]:
        """The image cell of a path, of encoded bytes, of ``{bytes, path}``, or of a picture; none is a RowError."""
        if isinstance(value, Mapping):
            data, path = value.get("bytes"), value.get("path")
            return {"bytes": data, "path": path} if isinstance(data, bytes) and data else self._file(path)
        if isinstance(value, bytes) and value:
            return {"bytes": value, "path": None}
        if hasattr(value, "save") and hasattr(value, "convert"):
            return {"bytes": encode(value), "path": getattr(value, "filename", "") or None}
        return self._file(value)

    def _file(self, value: Any) -> dict[str, Any]:
        name = text(value, "image")
        if re.match(r"[a-z][a-z0-9+.-]+://", name, re.IGNORECASE):
            raise RowError(
                f"the image {_shown(name)} is a web address, and nothing is downloaded; download the images first "
                "(img2dataset does) and list their paths"
            )
        for folder in self.folders:
            for spelled in dict.fromkeys((name, name.replace("\\", "/"))):
                with suppress(OSError, ValueError):
                    if (folder / spelled).is_file():  # a full path stays itself
                        return {"bytes": None, "path": str((folder / spelled).absolute())}
        looked = " or ".join(repr(str(folder)) for folder in self.folders)
        raise RowError(f"the image {_shown(name)} is not in {looked}; name the folder it starts from with --images")


def _shown(value: Any) -> str:
    try:
        return repr(value)[:60].encode("utf-8", "replace").decode()
    except ValueError:  # an int of more digits than Python prints
        return "a very long number"


def _clean(value: Any) -> str:
    try:
        return str(value)[:200].encode("utf-8", "replace").decode()
    except ValueError:
        return "a very long number"
