"""A filter's settings as given, in a file or on the command line, made to fit the types of its fields."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from equipoise.errors import InputError

__all__ = ["fitting", "fitting_settings"]

_WORDS: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): "none",
}


def fitting_settings(filter_type: type, settings: Mapping[str, Any], label: str) -> dict[str, Any]:
    """``settings`` for the fields of ``filter_type``, each of its field's type; ``label`` names the step.

    >>> from equipoise.filters.people import People
    >>> fitting_settings(People, {"person_labels": "person", "exactly": 1}, "people")
    {'person_labels': ('person',), 'exactly': 1}
    """
    try:
        hints = get_type_hints(filter_type)
    except NameError:  # a filter of somebody's own, with types that are imported for type checkers only
        hints = {}
    return {key: fitting(value, hints.get(key, Any), f"{label}.{key}") for key, value in settings.items()}


def fitting(value: Any, hint: Any, name: str) -> Any:
    """``value`` if it is of the type ``hint``, else an InputError about ``name``; one text is enough for a tuple.

    Types other than numbers, texts, yes and no, and tuples and mappings of them are taken as they come.

    >>> fitting("nude", tuple[str, ...], "texts"), fitting(1, float | None, "least")
    (('nude',), 1)
    >>> fitting("one", int | None, "people.exactly")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: people.exactly = 'one': expected is a whole number or none
    """
    try:
        return _fitting(value, hint)
    except TypeError:
        raise InputError(f"{name} = {value!r}: expected is {_told(hint)}") from None


def _fitting(value: Any, hint: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _first_fitting(value, inner)
    if origin is tuple and inner[1:] == (...,):
        many = value if isinstance(value, list | tuple) else (value,)
        return tuple(_fitting(one, inner[0]) for one in many)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise TypeError
        return {_fitting(key, inner[0]): _fitting(one, inner[1]) for key, one in value.items()}
    if hint in _WORDS and not _is(value, hint):
        raise TypeError
    return tuple(value) if isinstance(value, list) else value


def _first_fitting(value: Any, hints: tuple[Any, ...]) -> Any:
    for hint in hints:
        try:
            return _fitting(value, hint)
        except TypeError:
            continue
    raise TypeError


def _is(value: Any, kind: type) -> bool:
    if kind in (int, float):
        numbers = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
        return isinstance(value, numbers) and not isinstance(value, bool) and value == value  # NaN fits nothing
    return isinstance(value, kind)


def _told(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_told(one) for one in inner)
    if origin is tuple:
        return f"{_told(inner[0])} or a list of them"
    if origin is Mapping:
        return f"for each name {_told(inner[1])}, as {{ name = ... }}"
    return _WORDS.get(hint, "another value")
