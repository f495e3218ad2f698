"""Bias in a dataset before any model: the public door to every dataset metric of this package.

Counts and co-occurrence of groups, representation per subject, spurious-correlation clusters of captions, how
well an attribute can be predicted from features that should not tell, colour and position by group.
"""

from equipoise.measure.dataset.clusters import Clusters, caption_clusters, cluster_words, tsne_coordinates
from equipoise.measure.dataset.counts import Leaning, cooccurrence, presence_of, representation
from equipoise.measure.dataset.shares import GroupCounts, group_counts
from equipoise.measure.dataset.visual import (
    COLOURS,
    POSITIONS,
    GroupStatistics,
    colour_statistics,
    position_statistics,
    statistics_by_group,
)
from equipoise.measure.embedding.probe import Probe, linear_probe, train_test_probe

__all__ = [
    "COLOURS",
    "POSITIONS",
    "Clusters",
    "GroupCounts",
    "GroupStatistics",
    "Leaning",
    "Probe",
    "caption_clusters",
    "cluster_words",
    "colour_statistics",
    "cooccurrence",
    "group_counts",
    "linear_probe",
    "position_statistics",
    "presence_of",
    "representation",
    "statistics_by_group",
    "train_test_probe",
    "tsne_coordinates",
]
