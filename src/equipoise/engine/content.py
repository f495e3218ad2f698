"""What a function is, as far as it decides the result: its name, its source, its settings.

A run may only be continued by the same function. Its *identity* is therefore recorded with the table: the name,
and a hash of the source without comments and layout. Of a callable object the fields count, if it is a dataclass, or
else the attributes that are plain values and not private. What a function reads from elsewhere (a global, a file) or
keeps in lists and dictionaries is not seen; settings belong in ``config``, weights in an attribute ``key``.

Names for content: the same bytes or the same text have the same 16-byte id, wherever they are kept.

An id is BLAKE2b with a digest of 16 bytes over a word for the type and the content, so that a text never has the id
of an image. Ids are kept as arrays of shape ``(n, 16)`` and type ``uint8``.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import inspect
import json
import os
import textwrap
from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images import decode, image_bytes
from equipoise.errors import InputError

ID_BYTES = 16
Ids = NDArray[np.uint8]


def text_ids(texts: Iterable[str]) -> Ids:
    """The ids of some texts.

    >>> hex_of(text_ids(["a photo of a doctor"]))
    ['53b558e82ac7fdcda08b10d986103ba7']
    """
    return _stacked([_digest(b"text\0", text.encode()) for text in texts])


def image_ids(images: Iterable[Any], *, root: str | os.PathLike[str] | None = None) -> Ids:
    """The ids of some images: encoded bytes, a table's ``{bytes, path}``, paths, or decoded Pillow images.

    A file and its bytes have the same id. A decoded image is named by its upright RGB pixels, and so differs from the
    file it came from.
    """
    return _stacked([_image_digest(image, root) for image in images])


def hex_of(ids: Ids) -> list[str]:
    """Ids as text of 32 hexadecimal digits."""
    return [row.tobytes().hex() for row in as_ids(ids)]


def ids_from_hex(texts: Iterable[str]) -> Ids:
    """Ids from what :func:`hex_of` gave.

    >>> ids = text_ids(["a", "b"])
    >>> bool((ids_from_hex(hex_of(ids)) == ids).all())
    True
    """
    ids = []
    for text in texts:
        try:
            data = bytes.fromhex(text)
        except ValueError:
            data = b""
        if len(data) != ID_BYTES:
            raise InputError(f"{text!r} is not a content id; one has {2 * ID_BYTES} hexadecimal digits")
        ids.append(data)
    return _stacked(ids)


def as_ids(ids: Any) -> Ids:
    """``ids`` as an array of shape ``(n, 16)`` and type ``uint8``; anything else is refused."""
    if isinstance(ids, list | tuple) and all(isinstance(item, bytes) and len(item) == ID_BYTES for item in ids):
        return _stacked(ids)
    array = np.asarray(ids)
    if array.dtype != np.uint8 or array.ndim != 2 or array.shape[1] != ID_BYTES:
        raise InputError(
            f"ids must be an array of shape (n, {ID_BYTES}) and type uint8, as text_ids and image_ids give it, not "
            f"{array.dtype} of shape {array.shape}"
        )
    return array


def _image_digest(image: Any, root: str | os.PathLike[str] | None) -> bytes:
    if hasattr(image, "tobytes") and hasattr(image, "mode"):
        if image.mode != "RGB" or {"exif", "transparency"} & image.info.keys():
            image = decode(image)  # a palette or EXIF says how the pixels look
        return _digest(b"pixels\0", f"{image.mode} {image.width}x{image.height}\0".encode(), image.tobytes())
    return _digest(b"image\0", image_bytes(image, root=root))


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=ID_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _stacked(digests: Iterable[bytes]) -> Ids:
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, ID_BYTES)


_DEPTH = 3


def function_name(fn: Any) -> str:
    """``module:qualified name`` of a function, class, method, partial or callable object.

    >>> function_name(json.dumps)
    'json:dumps'
    >>> function_name(functools.partial(json.dumps, indent=1))
    'json:dumps'
    """
    fn = _unwrapped(fn)
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{named.__module__}:{named.__qualname__}"


def identity(fn: Any) -> dict[str, Any]:
    """Name, hash of the source, and the settings that can be seen (of a partial, a closure, an object).

    >>> identity(functools.partial(json.dumps, indent=1))["settings"]
    {'indent': 1}
    >>> def half(rows):
    ...     return [row / 2 for row in rows]  # comments do not count
    >>> identity(half)["name"].endswith(":half"), len(identity(half)["sha256"])
    (True, 64)
    """
    facts: dict[str, Any] = {"name": function_name(fn), "sha256": _source_hash(_unwrapped(fn))}
    settings = _settings(fn, _DEPTH)
    if settings:
        facts["settings"] = settings
    return facts


def _unwrapped(fn: Any) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn


def _settings(fn: Any, depth: int) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if isinstance(fn, functools.partial):
        settings |= _settings(fn.func, depth)
        settings |= {f"argument {i}": _described(value, depth) for i, value in enumerate(fn.args)}
        settings |= {name: _described(value, depth) for name, value in fn.keywords.items()}
    elif isinstance(fn, FunctionType) and fn.__closure__:
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__, strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # the cell is still empty: a function that refers to itself
                continue
            # Lists and the like may be a function's memory, which changes as it runs; they are not its settings.
            if not isinstance(value, list | dict | set | bytearray):
                settings[name] = _described(value, depth)
    elif inspect.ismethod(fn):
        owner = fn.__self__
        settings["of"] = _described(owner, depth)
        if isinstance(settings["of"], dict) and not isinstance(owner, dict | type):
            settings["of"] |= _plain_attributes(owner, depth)
    elif not isinstance(fn, type | FunctionType):
        settings |= _object_settings(fn, depth) | _plain_attributes(fn, depth)
    return settings


def _plain_attributes(thing: Any, depth: int) -> dict[str, Any]:
    """The settings of an object that says nothing of its own: numbers, texts and the like, unless private or computed.

    Lists and objects may be its memory, which changes as it runs.
    """
    if _object_settings(thing, depth):
        return {}
    kind = type(thing)
    return {
        name: _described(value, depth - 1)
        for name, value in getattr(thing, "__dict__", {}).items()
        if not name.startswith("_")
        and isinstance(value, str | int | float | tuple | None)
        and not isinstance(getattr(kind, name, None), functools.cached_property)
    }


def _object_settings(thing: Any, depth: int) -> dict[str, Any]:
    key = getattr(thing, "key", None)
    if isinstance(key, str):
        return {"key": key}
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        return {f.name: _described(getattr(thing, f.name), depth - 1) for f in dataclasses.fields(thing) if f.compare}
    return {}


def _described(value: Any, depth: int) -> Any:
    """``value`` as JSON, or the most that can be said of it without depending on where it lies in memory."""
    try:
        return json.loads(json.dumps(value, sort_keys=True, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        pass
    if depth <= 0:
        return type(value).__qualname__
    if isinstance(value, list | tuple):
        return [_described(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {str(name): _described(item, depth - 1) for name, item in value.items()}
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, functools.partial | FunctionType | type):
        return {"name": function_name(value), "sha256": _source_hash(_unwrapped(value)), **_settings(value, depth - 1)}
    return {"type": type(value).__qualname__, **_object_settings(value, depth - 1)}


def _source_hash(thing: Any) -> str:
    source = thing if isinstance(thing, type | FunctionType) or inspect.ismethod(thing) else type(thing)
    known = _HASHES.get(source)
    if known is None:
        known = _HASHES[source] = hashlib.sha256(_normal_source(source).encode()).hexdigest()
    return known


_HASHES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""By class or function: to find the source of a class, its whole file is parsed."""


def _normal_source(thing: Any) -> str:
    """The source as the parser sees it; of a lambda, whose source cannot be cut out, the compiled code."""
    code = getattr(thing, "__code__", None)
    if code is None or code.co_name != "<lambda>":
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
            return ast.unparse(_without_docstrings(tree))
        except (OSError, TypeError, SyntaxError):
            pass
    return _code_text(code) if isinstance(code, CodeType) else f"{thing.__module__}:{thing.__qualname__}"


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _code_text(code: CodeType) -> str:
    return repr((code.co_code.hex(), [_constant(c) for c in code.co_consts], code.co_names, code.co_varnames))


def _constant(value: object) -> str:
    if isinstance(value, CodeType):
        return _code_text(value)
    if isinstance(value, frozenset):  # its order differs from process to process
        return repr(sorted(map(repr, value)))
    return repr(value)
