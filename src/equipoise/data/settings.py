"""Settings that are checked in one way, wherever they come from: a TOML file, Python, or the command line.

A class of settings names the type of each in plain Python, with limits as pydantic writes them; what does not fit is
refused in one sentence that says what would do.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError

from equipoise.errors import InputError, UnknownNameError

_WORDS: Mapping[Any, tuple[str, str]] = {
    bool: ("true or false", "true or false"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
    type(None): ("none", "none"),
}
_LIMITS = (("ge", "of at least {}"), ("gt", "above {}"), ("le", "of at most {}"), ("lt", "below {}"))


@dataclass(frozen=True)
class Settings:
    """What can be told: each setting is of the type that its field says, and every result folder holds them all.

    >>> @dataclass(frozen=True)
    ... class Example(Settings):
    ...     draws: int = 1000
    ...     axes: tuple[str, ...] = ()
    >>> Example().having({"draws": 200, "axes": ["gender"]})
    Example(draws=200, axes=('gender',))
    >>> Example(draws="many")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: draws = 'many': give a whole number
    """

    what: ClassVar[str] = "setting"
    """How a setting is called where a name is unknown."""

    def __post_init__(self) -> None:
        for name, (hint, adapter) in _adapters(type(self)).items():  # type: ignore[arg-type]
            object.__setattr__(self, name, _checked(getattr(self, name), hint, adapter, name))
        self.check()

    def check(self) -> None:
        """Refuse what no single field can tell."""

    def having(self, changes: Mapping[str, Any]) -> Self:
        """The same with some settings changed; an unknown setting is answered with the closest."""
        known = {f.name for f in fields(self)}
        for name in changes:
            if name not in known:
                raise UnknownNameError(self.what, str(name), known)
        return replace(self, **changes)

    def having_toml(self, path: str | Path) -> Self:
        """The same with the settings in a TOML file."""
        return self.having(toml_of(path))

    def plain(self) -> dict[str, Any]:
        """The settings as plain data."""
        return asdict(self)


def toml_of(path: str | Path) -> dict[str, Any]:
    """What a TOML file says; one that cannot be read is refused in one sentence."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None


def fitting_all(made: Any, settings: Mapping[str, Any], *, what: str, label: str = "") -> dict[str, Any]:
    """``settings`` for the keywords of ``made``, a class or function, each of its keyword's type.

    ``what`` names a setting where it is unknown; ``label`` stands before its name where its value does not fit.

    >>> from equipoise.data.results import draw_order
    >>> fitting_all(draw_order, {"seed": "x"}, what="setting of draw_order")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: seed = 'x': give a whole number
    """
    hints = _hints(made)
    for name in settings:
        if name not in hints:
            raise UnknownNameError(what, str(name), hints)
    before = f"{label}." if label else ""
    return {name: fitting(value, hints[name], before + name, alone=True) for name, value in settings.items()}


def fitting(value: Any, hint: Any, name: str, *, alone: bool = False) -> Any:
    """``value`` as the type ``hint``, else an InputError about ``name``; ``alone``: one value will do for a list.

    >>> fitting("nude", tuple[str, ...], "texts", alone=True)
    ('nude',)
    >>> fitting("one", int | None, "people.exactly")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: people.exactly = 'one': give a whole number or none
    """
    return _checked(value, hint, _adapter(hint), name, alone=alone)


def _checked(value: Any, hint: Any, adapter: TypeAdapter[Any] | None, name: str, *, alone: bool = False) -> Any:
    if adapter is None:  # a type that only its author can judge
        return value
    given = _prepared(value, hint, alone)
    try:
        if _has_nan(given):
            raise InputError(f"{name} = {value!r}: give {_expected(hint, alone)}")
        return adapter.validate_python(given, strict=True)
    except ValidationError as error:
        raise _refusal(error, value, hint, name, alone) from None


def _refusal(error: ValidationError, value: Any, hint: Any, name: str, alone: bool) -> InputError:
    """What was wrong, in one sentence; of a list, the first value that does not fit."""
    bare = _bare(hint)
    first = error.errors(include_url=False)[0]
    if get_origin(bare) is Literal:
        return UnknownNameError(name.rpartition(".")[2].replace("_", " "), str(value), map(str, get_args(bare)))
    if get_origin(bare) is tuple and first["loc"] and not alone:
        return InputError(f"{name} = {first['input']!r}: give {_expected(get_args(bare)[0], many=True)}")
    return InputError(f"{name} = {value!r}: give {_expected(hint, alone)}")


def _expected(hint: Any, alone: bool = False, many: bool = False) -> str:
    """What would do, in words; ``many``: of each value of a list."""
    limits: dict[str, Any] = {}
    for extra in getattr(hint, "__metadata__", ()):
        if getattr(extra, "description", None):
            return str(extra.description)
        for limit in (*getattr(extra, "metadata", ()), extra):
            limits |= {name: getattr(limit, name) for name, _ in _LIMITS if getattr(limit, name, None) is not None}
    bare = _bare(hint)
    origin, inner = get_origin(bare), get_args(bare)
    if origin in (Union, types.UnionType):
        return " or ".join(_expected(option, alone) for option in inner)
    if origin is tuple:
        return f"{_expected(inner[0])} or a list of them" if alone else f"a list of {_expected(inner[0], many=True)}"
    if origin is Mapping or origin is dict:
        return f"for each name {_expected(inner[1])}, as {{ name = ... }}"
    word = _WORDS.get(bare, ("another value", "other values"))[many]
    return " ".join([word, " and ".join(text.format(limits[name]) for name, text in _LIMITS if name in limits)]).strip()


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _prepared(value: Any, hint: Any, alone: bool) -> Any:
    """Lists as tuples, numbers of numpy as Python's; where one will do for a list, a list of one."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: _prepared(item, Any, False) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_prepared(item, Any, False) for item in value)
    return (value,) if alone and get_origin(_bare(hint)) is tuple else value


def _has_nan(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_nan, value.values()))
    if isinstance(value, tuple):
        return any(map(_has_nan, value))
    return isinstance(value, float) and value != value


@cache
def _adapters(target: type) -> dict[str, tuple[Any, TypeAdapter[Any] | None]]:
    return {name: (hint, _adapter(hint)) for name, hint in _hints(target).items()}


def _hints(target: Any) -> dict[str, Any]:
    """The type of every setting: of a dataclass's fields, or of the keywords of a class or function."""
    try:
        if dataclasses.is_dataclass(target):
            hints = get_type_hints(target, include_extras=True)
            return {f.name: hints[f.name] for f in fields(target)}
        hints = get_type_hints(vars(target)["__init__"] if isinstance(target, type) else target, include_extras=True)
    except (NameError, TypeError, KeyError):  # somebody's own, with types that are imported for type checkers only
        hints = {}
    return {name: hints.get(name, Any) for name in _names(target)}


def _names(target: Any) -> Sequence[str]:
    import inspect

    if dataclasses.is_dataclass(target):
        return [f.name for f in fields(target)]
    return [name for name in inspect.signature(target).parameters if name != "self"]


def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except (PydanticSchemaGenerationError, TypeError):
        return None
