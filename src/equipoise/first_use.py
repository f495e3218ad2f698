"""Names of a package that are imported when they are first used, so that ``equipoise --help`` answers at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A ``__getattr__`` for ``package`` that finds each name in its home module.

    >>> find = on_first_use("equipoise.data", {"Table": "table"})
    >>> find("Table").__name__
    'Table'
    >>> find("Tabel")
    Traceback (most recent call last):
        ...
    AttributeError: module 'equipoise.data' has no attribute 'Tabel'
    """

    def find(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
