"""LIC over splits, and leakage of vectors, over many draws of captions: intervals from halves, and those over splits.

Two sides are drawn alike, so that their true difference is 0. The captions are those of ``test_lic_folds``; the reader
of vectors is logistic, as that of leakage, fitted by Newton's method, which is twenty times as fast.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.simulations.bands import within
from tests.simulations.test_lic_folds import Counting, alarms, captions_of, coverage

from equipoise.measure.captions import balanced_split, corrected_resampled_t, cross_fit_folds, half_means, halved_t
from equipoise.measure.captions.lic import lic_scores
from equipoise.measure.classify import leakage_amplification


class Logistic:
    """L2-regularised logistic regression of two groups on standardised vectors (n, d)."""

    def __init__(self, vectors):
        self.vectors = vectors

    def probabilities(self, train, labels, test, groups, seed):
        mean, spread = self.vectors[train].mean(axis=0), self.vectors[train].std(axis=0)
        first, last = (
            np.column_stack([np.ones(len(rows)), (self.vectors[rows] - mean) / np.where(spread > 0, spread, 1)])
            for rows in (train, test)
        )
        ridge, weights = np.diag([0.0] + [1.0] * (first.shape[1] - 1)), np.zeros(first.shape[1])
        for _ in range(5):
            guess = 1 / (1 + np.exp(-first @ weights))
            curvature = (first * (guess * (1 - guess))[:, None]).T @ first + ridge
            weights -= np.linalg.solve(curvature, first.T @ (guess - labels) + ridge @ weights)
        guess = 1 / (1 + np.exp(-last @ weights))
        return np.stack([1 - guess, guess], axis=1)


def vectors_of(labels, lean, rng, objects=6):
    """Objects in .3 of images; half of them in more images of one group."""
    shares = np.full((len(labels), objects), 0.3)
    shares[labels == 1, : objects // 2] += lean
    return (rng.random(shares.shape) < shares).astype(float)


def splits_of(labels, number, folds):
    if folds is None:
        return [
            balanced_split(labels.tolist(), seed, ids=[f"{number} {i}" for i in range(len(labels))])
            for seed in range(10)
        ]
    return [split for seed in range(5) for split in cross_fit_folds(labels.tolist(), folds, 5 * number + seed)]


def differences(draw, n, repetitions, *, folds=None, seed=0):
    """Of many draws: the difference of two sides drawn alike, from halves and over splits."""
    from_halves, over_splits = [], []
    for number in range(repetitions):
        rng = np.random.default_rng([seed, n, number])
        labels = rng.permutation(np.arange(n) % 2)
        readers = [draw(labels, rng) for _ in range(2)]

        def value(split, readers=readers, labels=labels):
            of_sides = [r.probabilities(split.train, labels[split.train], split.test, 2, 0) for r in readers]
            ours, theirs = (lic_scores(found, labels[split.test]).mean() for found in of_sides)
            return ours - theirs

        splits = splits_of(labels, number, folds)
        values = [value(split) for split in splits]
        halves = half_means(lambda some, value=value: [np.mean([value(split) for split in some])], labels.tolist())
        from_halves.append(halved_t(values, halves[..., 0], null_value=0.0, folds=folds is not None))
        over_splits.append(corrected_resampled_t(values, test_share=splits[0].test_share, null_value=0.0))
    return from_halves, over_splits


def reader_of_captions(leak):
    return lambda labels, rng: Counting(captions_of(labels, 2, leak, rng))


def reader_of_vectors(lean):
    return lambda labels, rng: Logistic(vectors_of(labels, lean, rng))


def test_the_error_over_splits_is_too_small_and_that_from_halves_is_not():
    squares = [
        [(e.value / e.null_sd) ** 2 for e in some] for some in differences(reader_of_vectors(0.0), 80, 8, folds=5)
    ]
    assert np.mean(squares[0]) < 2  # 8 / 6 if the standard error is right
    assert np.mean(squares[1]) > 2.5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "leak", "repetitions"), [(200, 0.0, 400), (200, 0.2, 400), (1000, 0.0, 150), (1000, 0.2, 150)]
)
def test_lic_keeps_its_level(n, leak, repetitions):
    found, before = differences(reader_of_captions(leak), n, repetitions)
    assert within(coverage(found, 0.0), 0.92, 0.98, repetitions)
    assert within(alarms(found), 0.03, 0.07, repetitions)
    assert np.mean([e.null_sd for e in found]) > np.mean([e.null_sd for e in before])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "lean", "repetitions"), [(200, 0.0, 300), (200, 0.2, 300), (1000, 0.0, 100), (1000, 0.2, 100)]
)
def test_leakage_amplification_keeps_its_level(n, lean, repetitions):
    found, before = differences(reader_of_vectors(lean), n, repetitions, folds=5)
    assert within(coverage(found, 0.0), 0.92, 0.98, repetitions)
    assert within(alarms(found), 0.03, 0.07, repetitions)
    assert coverage(before, 0.0) < 0.9


@pytest.mark.slow
def test_the_measure_itself_rarely_cries_wolf():
    found, levels = [], []
    for number in range(60):
        rng = np.random.default_rng([8, number])
        labels = rng.permutation(np.arange(200) % 2)
        leaked = leakage_amplification(vectors_of(labels, 0.0, rng), vectors_of(labels, 0.0, rng), labels.tolist())
        found.append(leaked.difference)
        levels.append(leaked.model.estimate)
    assert within(coverage(found, 0.0), 0.92, 0.98, 60, 0.01)
    assert within(alarms(found), 0.03, 0.07, 60, 0.01)
    assert alarms(levels) <= 0.15
