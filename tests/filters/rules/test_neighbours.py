import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InputError
from equipoise.filters.rules import knn as neighbours
from equipoise.filters.rules.knn import nearest, without


def brute_force(queries, gallery, k):
    """Every distance in whole numbers, sorted by (distance, number)."""
    found = []
    for q in queries:
        distance = ((np.asarray(gallery, dtype=np.int64) - q) ** 2).sum(axis=1)
        found.append(sorted(range(len(gallery)), key=lambda i: (distance[i], i))[:k])
    return found


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 40), st.integers(1, 12), st.integers(1, 4))
def test_equals_brute_force_with_many_ties(seed, n_queries, n_gallery, k, dim):
    rng = np.random.default_rng(seed)
    queries, gallery = rng.integers(-2, 3, (n_queries, dim)), rng.integers(-2, 3, (n_gallery, dim))
    assert nearest(queries, gallery, k).tolist() == brute_force(queries, gallery, k)


def test_blocks_do_not_change_the_result(monkeypatch):
    rng = np.random.default_rng(0)
    queries, gallery = rng.integers(-3, 4, (23, 3)), rng.integers(-3, 4, (300, 3))
    whole = nearest(queries, gallery, 9)
    monkeypatch.setattr(neighbours, "_QUERIES", 5)
    monkeypatch.setattr(neighbours, "_GALLERY", 20)
    assert (nearest(queries, gallery, 9) == whole).all()
    assert whole.tolist() == brute_force(queries, gallery, 9)


def test_unit_vectors_are_ordered_by_cosine():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 16)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    expected = np.argsort(-(x[:20].astype(float) @ x.T.astype(float)), axis=1, kind="stable")[:, :5]
    assert (nearest(x[:20], x, 5) == expected).all()


@given(st.integers(0, 10**6))
def test_without_removes_and_keeps_the_order(seed):
    rng = np.random.default_rng(seed)
    found = np.stack([rng.permutation(12)[:8] for _ in range(6)])
    forbidden = np.stack([rng.permutation(12)[:3] for _ in range(6)])
    expected = [
        ([i for i in row if i not in set(bad)] + [-1] * 8)[:5]
        for row, bad in zip(found.tolist(), forbidden.tolist(), strict=True)
    ]
    assert without(found, forbidden, 5).tolist() == expected


@pytest.mark.parametrize(
    ("queries", "gallery", "k", "message"),
    [
        ([[0.0]], [[0.0, 1.0]], 1, "1 dimensions and the gallery 2"),
        ([[0.0]], [[0.0]], 0, "k = 0"),
        ([[np.nan]], [[0.0]], 1, "queries holds values that are not finite"),
        ([[0.0]], np.zeros((0, 1)), 1, "gallery must have shape"),
    ],
)
def test_what_cannot_be_searched_is_said(queries, gallery, k, message):
    with pytest.raises(InputError, match=message):
        nearest(queries, gallery, k)
