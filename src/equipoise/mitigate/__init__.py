"""Remedies: what makes a model fairer, each fitted, kept and checked in the same way.

A *remedy* learns from embeddings with labels (:func:`fit_on_table`), changes embeddings (``transform``), and is kept in
a folder without pickle (:func:`save`, :func:`load`). :func:`repaired` puts it behind a model, so that the audit before
and the audit after differ in nothing else. :class:`Rerank` changes rankings instead of embeddings.
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use
from equipoise.mitigate.catalog import REMEDIES

if TYPE_CHECKING:
    from equipoise.mitigate.base import BaseRemedy, LinearRemedy
    from equipoise.mitigate.bend import Bend
    from equipoise.mitigate.clip_clip import ClipClip
    from equipoise.mitigate.fitting import fit_on_prompts, fit_on_table, held_out_layer
    from equipoise.mitigate.inlp import Inlp
    from equipoise.mitigate.keeping import load, save
    from equipoise.mitigate.leace import Leace
    from equipoise.mitigate.neutraliser import Neutraliser
    from equipoise.mitigate.projection import Projection
    from equipoise.mitigate.protocol import FittedOn, Queries, Remedy
    from equipoise.mitigate.rerank import Rerank
    from equipoise.mitigate.residual import Residual
    from equipoise.mitigate.wrapping import RepairedEncoder, RepairedVectors, repaired

_BY_HOME = {
    "base": ("BaseRemedy", "LinearRemedy"),
    "bend": ("Bend",),
    "clip_clip": ("ClipClip",),
    "fitting": ("fit_on_prompts", "fit_on_table", "held_out_layer"),
    "inlp": ("Inlp",),
    "keeping": ("load", "save"),
    "leace": ("Leace",),
    "neutraliser": ("Neutraliser",),
    "projection": ("Projection",),
    "protocol": ("FittedOn", "Queries", "Remedy"),
    "rerank": ("Rerank",),
    "residual": ("Residual",),
    "wrapping": ("RepairedEncoder", "RepairedVectors", "repaired"),
}

__all__ = [
    "REMEDIES",
    "BaseRemedy",
    "Bend",
    "ClipClip",
    "FittedOn",
    "Inlp",
    "Leace",
    "LinearRemedy",
    "Neutraliser",
    "Projection",
    "Queries",
    "Remedy",
    "RepairedEncoder",
    "RepairedVectors",
    "Rerank",
    "Residual",
    "fit_on_prompts",
    "fit_on_table",
    "held_out_layer",
    "load",
    "repaired",
    "save",
]

__getattr__ = on_first_use(__name__, {name: home for home, names in _BY_HOME.items() for name in names})


def __dir__() -> list[str]:
    return sorted(__all__)
