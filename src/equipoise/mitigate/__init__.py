"""Remedies: what makes a model fairer, each fitted, kept and checked in the same way.

A *remedy* learns from embeddings with labels (:func:`fit_on_table`), changes embeddings (``transform``), and is kept in
a folder without pickle (:func:`save`, :func:`load`). :func:`repaired` puts it behind a model, so that the audit before
and the audit after differ in nothing else.
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use
from equipoise.mitigate.protocol import REMEDIES

if TYPE_CHECKING:
    from equipoise.mitigate.fitting import fit_on_table, held_out_layer
    from equipoise.mitigate.projection import Projection
    from equipoise.mitigate.protocol import FittedOn, Remedy
    from equipoise.mitigate.wrapping import RepairedEncoder, RepairedVectors, load, repaired, save

__all__ = [
    "REMEDIES",
    "FittedOn",
    "Projection",
    "Remedy",
    "RepairedEncoder",
    "RepairedVectors",
    "fit_on_table",
    "held_out_layer",
    "load",
    "repaired",
    "save",
]

_HOMES = {
    "FittedOn": "protocol",
    "Projection": "projection",
    "Remedy": "protocol",
    "RepairedEncoder": "wrapping",
    "RepairedVectors": "wrapping",
    "fit_on_table": "fitting",
    "held_out_layer": "fitting",
    "load": "wrapping",
    "repaired": "wrapping",
    "save": "wrapping",
}

__getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
