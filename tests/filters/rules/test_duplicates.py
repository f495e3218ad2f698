import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from equipoise.filters import Models, RemainingImages
from equipoise.filters.rules.duplicates import Duplicates, _set_sums, earlier_twin


def brute_force(vectors, kin, alike):
    stays, out = [], []
    for i, v in enumerate(vectors):
        near = [float(v @ vectors[j]) for j in stays if kin[j] != kin[i]]
        out.append(max(near) if near else np.nan)
        if not (near and max(near) >= alike - 1e-6):
            stays.append(i)
    return out


@given(st.integers(0, 10**6), st.integers(1, 40))
def test_twins_equal_brute_force(seed, n):
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(n, 2))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    kin = rng.integers(0, 10, n)
    np.testing.assert_allclose(earlier_twin(vectors, kin, 0.95), brute_force(vectors, kin, 0.95), atol=1e-5)


def test_the_first_of_two_copies_stays_and_a_set_may_be_alike(images, embedded):
    frame = {"image_id": list("abcd"), "set_id": ["s", "s", "t", "t"]}
    table = images(pd.DataFrame(frame))
    v = np.array([[1.0, 0.0], [1.0, 0.01], [1.0, 0.0], [0.0, 1.0]])
    remaining = RemainingImages(table, models=Models(encoder=embedded("v", frame["image_id"], v)))
    assert Duplicates().judge(remaining).dropped.tolist() == [False, False, True, False]
    assert not Duplicates(unit="set").judge(remaining).dropped.any()


def test_members_of_a_set_may_be_alike_where_another_image_is_an_edit(images, embedded):
    rows = [{"image_id": name, "set_id": "s"} for name in "abc"]
    rows += [{"image_id": "o"}, {"image_id": "edit", "source_id": "o"}, {"image_id": "of_b", "source_id": "b"}]
    e = np.eye(2)
    names = [row["image_id"] for row in rows]
    spec = embedded("v", [*names, "copy"], [e[0], e[0], e[0], e[1], e[1], e[0], e[1]])
    remaining = RemainingImages(images([*rows, {"image_id": "copy"}]), models=Models(encoder=spec))
    assert Duplicates().judge(remaining).dropped.tolist() == [False] * 6 + [True]


def test_a_set_like_an_earlier_one_goes(images, embedded):
    rows = [{"image_id": f"{s}{i}", "set_id": s} for i in (0, 1) for s in "abc"]
    e = np.eye(3)
    by_set = {"a": e[0] + e[1], "b": e[2], "c": e[0] + 1.01 * e[1]}
    spec = embedded("v", [row["image_id"] for row in rows], [by_set[row["set_id"]] for row in rows])
    verdict = Duplicates(unit="set").judge(RemainingImages(images(rows), models=Models(encoder=spec)))
    assert verdict.dropped.tolist() == [False, False, True] * 2


def test_sets_of_one_name_in_two_subjects_are_compared(images, embedded):
    rows = [{"image_id": f"{s}{i}", "subject": s, "set_id": "1"} for s in ("cook", "nurse") for i in range(2)]
    v = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.7, 0.7]])
    models = Models(encoder=embedded("v", [row["image_id"] for row in rows], v))
    verdict = Duplicates().judge(RemainingImages(images(rows), models=models))
    assert verdict.dropped.tolist() == [False, False, True, False]


def test_images_that_could_not_be_encoded_go(images, embedded, monkeypatch):
    rows = [{"image_id": name, "set_id": name[0]} for name in ("a1", "a2", "b1", "b2", "c1", "c2")]
    v = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [np.nan, np.nan], [0.6, -0.8], [0.6, -0.8]], dtype=np.float32)
    monkeypatch.setattr(RemainingImages, "image_vectors", lambda *_, **__: v)
    verdict = Duplicates().judge(RemainingImages(images(rows)))
    assert verdict.dropped.tolist() == [False, False, True, True, False, False]
    assert verdict.notes == ["1 images could not be encoded and go"]
    verdict = Duplicates(unit="set").judge(RemainingImages(images(rows, "again")))
    assert verdict.dropped.tolist() == [False, False, True, True, False, False]


def test_sums_of_sets_equal_a_loop():
    rng = np.random.default_rng(0)
    sets = np.r_[np.arange(5), rng.integers(0, 5, 20)]
    vectors = rng.normal(size=(25, 3)).astype(np.float32)
    expected = [vectors[sets == s].sum(axis=0) for s in range(5)]
    np.testing.assert_allclose(_set_sums(vectors, sets), expected, rtol=1e-5, atol=1e-6)
