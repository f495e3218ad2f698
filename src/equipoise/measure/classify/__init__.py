"""Multi-label image classifiers: how good they are, what they give away, and whom they miss.

- quality: ``average_precision``, ``mean_average_precision``
- what predicted objects give away: ``leakage_amplification`` (LK_M, LK_D, LK)
- who is predicted: ``predicted_ratio``, ``artefact_delta``
- whose objects are missed: ``object_recall``
- amplification over sets of objects: ``multi_attribute_amplification`` of ``equipoise.measure.captions``

>>> average_precision([0.9, 0.8, 0.1], [0, 1, 1])
0.5833333333333333
"""

from __future__ import annotations

from equipoise.measure.classify.average_precision import (
    MeanAveragePrecision,
    average_precision,
    mean_average_precision,
)
from equipoise.measure.classify.leakage import ClassifierLeakage, leakage_amplification, micro_f1
from equipoise.measure.classify.ratio import artefact_delta, predicted_ratio
from equipoise.measure.classify.recall import GroupRecall, object_recall

__all__ = [
    "ClassifierLeakage",
    "GroupRecall",
    "MeanAveragePrecision",
    "artefact_delta",
    "average_precision",
    "leakage_amplification",
    "mean_average_precision",
    "micro_f1",
    "object_recall",
    "predicted_ratio",
]
