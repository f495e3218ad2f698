"""Options as the command line gives them (``key=value``), turned into what a function's signature wants."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from typing import Any

from equipoise.errors import InputError, closest

__all__ = ["numbers_from_text", "options_from_text", "pair_from_text"]

_LISTS = ("Sequence[str]", "Iterable[str]", "Collection[str]", "list[str]", "tuple[str")


def options_from_text(function: Callable[..., Any], texts: Iterable[str]) -> dict[str, Any]:
    """The keyword arguments of ``function`` from ``key=value`` texts.

    Where the annotation is a list of text the value is split at commas; where it allows text, the value is taken
    as it is; otherwise it is read as JSON (numbers, ``true``, ``null``). A function with ``**options`` gets what its
    signature does not name as text.

    >>> def read(path, *, split: str | None = None, parts: Sequence[str] = (), limit: int = 0): ...
    >>> options_from_text(read, ["split=2017", "parts=captions,instances", "limit=5"])
    {'split': '2017', 'parts': ['captions', 'instances'], 'limit': 5}
    >>> options_from_text(read, ["splits=2017"])
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: there is no option 'splits'; did you mean 'split'?
    """
    parameters = inspect.signature(function).parameters.values()
    wanted = {p.name: str(p.annotation) for p in parameters if p.kind is p.KEYWORD_ONLY}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise InputError(f"the option {text!r} is not of the form key=value")
        if key not in wanted and not takes_any:
            near = closest(key, wanted, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(wanted) or 'none'}"
            raise InputError(f"there is no option {key!r}; {hint}")
        options[key] = _value(key, value, wanted.get(key, "str"))
    return options


def pair_from_text(text: str, option: str) -> tuple[str, str]:
    """``("set_id", "scene")`` from ``set_id=scene``."""
    left, equals, right = (part.strip() for part in text.partition("="))
    if not (left and equals and right):
        raise InputError(f"{option} {text!r} is not of the form OURS=THEIRS, as in set_id=scene")
    return left, right


def numbers_from_text(text: str, option: str) -> dict[str, float]:
    """Numbers by name from ``name=number`` with commas between.

    >>> numbers_from_text("train=0.8, test=0.2", "--fractions")
    {'train': 0.8, 'test': 0.2}
    """
    numbers: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        try:
            numbers[name.strip()] = float(number)
        except ValueError:
            raise InputError(f"{option} {text!r}: {part.strip()!r} is not of the form name=number") from None
    return numbers


def _value(key: str, text: str, annotation: str) -> Any:
    if annotation.startswith(_LISTS):
        return [part.strip() for part in text.split(",") if part.strip()]
    if "str" in annotation:
        return text
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        raise InputError(f"the option {key}={text} is not what is expected: {annotation}") from None
