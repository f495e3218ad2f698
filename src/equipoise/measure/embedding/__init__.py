"""Bias in an embedding space: the public door to every embedding metric of this package.

Self-similarity, person preference, association tests (words, sentences, images, images against texts),
linear-probe leakage, zero-shot accuracy per group, recall of edited images.
"""

from equipoise.measure.embedding.association import Association, association, single_association
from equipoise.measure.embedding.preference import ZeroShot, edit_recall, person_preference, zero_shot_accuracy
from equipoise.measure.embedding.probe import Probe, linear_probe, train_test_probe
from equipoise.measure.embedding.similarity import SelfSimilarity, mean_cosine, self_similarity
from equipoise.measure.stats.group_means import GroupMeans, group_means

__all__ = [
    "Association",
    "GroupMeans",
    "Probe",
    "SelfSimilarity",
    "ZeroShot",
    "association",
    "edit_recall",
    "group_means",
    "linear_probe",
    "mean_cosine",
    "person_preference",
    "self_similarity",
    "single_association",
    "train_test_probe",
    "zero_shot_accuracy",
]
