"""Pages: one self-contained HTML report from result folders, with figures, their data, and cards beside it.

:func:`write` makes the page from any result folder or several, :func:`write_into` that of one folder inside it;
:func:`verdict_of` gives the page's verdict alone, for a terminal;
:func:`model_card` writes a model's card for the hub.
The package reads what audits leave on disk; it never asks a model.
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use

if TYPE_CHECKING:
    from equipoise.report.cards import model_card
    from equipoise.report.sources import read_given
    from equipoise.report.writing import verdict_of, write, write_into

__all__ = ["model_card", "read_given", "verdict_of", "write", "write_into"]

_HOMES = {
    "model_card": "cards",
    "read_given": "sources",
    "verdict_of": "writing",
    "write": "writing",
    "write_into": "writing",
}


__getattr__ = on_first_use(__name__, _HOMES)
