"""Equipoise: counterfactual image-text sets, bias measured against chance, and remedies that are checked.

The packages are imported on first use, so that ``import equipoise`` costs nothing:

>>> import equipoise
>>> equipoise.text.label("A woman rides a horse")
'female'
"""

from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"

_PACKAGES = ("audit", "data", "engine", "measure", "text")

__all__ = ["__version__", "audit", "data", "engine", "measure", "text"]


def __getattr__(name: str) -> ModuleType:
    if name in _PACKAGES:
        return import_module(f"equipoise.{name}")
    raise AttributeError(f"module 'equipoise' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
