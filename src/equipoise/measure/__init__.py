"""Numbers: pure functions from arrays to small result objects, each with its chance level.

Arrays in, estimates out: scores or embeddings, integer group labels (-1 undefined), K. No torch, no images, no
tables. Every metric's function has a decorator with its formula, range, direction, chance level and when it
lies (``equipoise.measure.metric``); ``METRICS`` has them all.

- ``retrieval``: who is found when nobody was asked for
- ``counterfactual``: how a score changes inside sets that differ only in the group
- ``embedding``, ``binding``: what vectors and pairs of captions say about groups
- ``captions``: how much a captioner's words give a group away, and amplify what they learnt from
- ``captions.quality``: what captions are worth against references
- ``classify``: what a multi-label classifier gives away, and whom it misses
- ``dataset``, ``images``: where data are lopsided; whether generated images are any good
- ``stats``: intervals, nulls, p-values, corrections, power

>>> from equipoise import measure
>>> measure.METRICS.get("max_skew").direction
'0 is parity; higher: some group is over-represented'
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from equipoise.measure.metric import METRICS, Metric

__all__ = [
    "METRICS",
    "Metric",
    "binding",
    "captions",
    "classify",
    "counterfactual",
    "dataset",
    "embedding",
    "images",
    "retrieval",
    "stats",
]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"equipoise.measure.{name}")
    raise AttributeError(f"module 'equipoise.measure' has no attribute {name!r}")
