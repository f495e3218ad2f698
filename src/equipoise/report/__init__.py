"""Pages: one self-contained HTML report from result folders, with figures, their data, and cards beside it.

:func:`write` makes the page from any result folder or several; :func:`model_card` writes a model's card for the hub.
The room reads what audits leave on disk; it never asks a model.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.report.cards import model_card
    from equipoise.report.sources import read_given
    from equipoise.report.writing import write

__all__ = ["model_card", "read_given", "write"]

_HOMES = {"model_card": "cards", "read_given": "sources", "write": "writing"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"equipoise.report.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'equipoise.report' has no attribute {name!r}")
