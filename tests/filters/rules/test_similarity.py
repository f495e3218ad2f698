import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.filters import Models, RemainingImages, Step, stored
from equipoise.filters.rules.similarity import Similarity, set_similarities
from equipoise.filters.stored import StoredVectors, set_blocks


def cosine(a, b):
    return float(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))


def brute_force(vectors, texts, sets, pairs):
    """Each image's own numbers, one pair at a time."""
    n = len(vectors)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    t = texts / np.linalg.norm(texts, axis=1, keepdims=True)
    out = {name: np.full(n, np.nan) for name in ("caption", "image", "direction")}
    for i in range(n):
        out["caption"][i] = cosine(vectors[i], texts[i])
        members = [j for j in range(n) if sets[j] == sets[i]]
        first = members[0]
        others = [j for j in members if j != i]
        if pairs == "first":
            others = [first] if i != first else others
        if others:
            out["image"][i] = min(cosine(vectors[i], vectors[j]) for j in others)
        moved = [] if pairs == "first" and i == first else others
        if moved:
            out["direction"][i] = min(cosine(unit[i] - unit[j], t[i] - t[j]) for j in moved)
    return out


@settings(max_examples=examples(25))
@given(st.integers(0, 10**6), st.integers(2, 30), st.booleans(), st.booleans(), st.sampled_from(["all", "first"]))
def test_equals_one_pair_at_a_time(tmp_path_factory, seed, n, together, in_order, pairs):
    rng = np.random.default_rng(seed)
    sets = rng.integers(0, max(1, n // 3), n)
    sets = np.sort(sets) if together else sets
    vectors, texts = rng.normal(size=(n, 5)), rng.normal(size=(n, 5))
    ids = [f"i{i}" for i in range(n)]
    order = np.arange(n) if in_order else rng.permutation(n)
    path = tmp_path_factory.mktemp("v") / "t"
    rows = [{"id": ids[i], "vector": vectors[i].astype(np.float32), "model": "m"} for i in order]
    table = Table.create(path, rows, kind="embeddings", dim=5, rows_per_shard=7)
    unit = (texts / np.linalg.norm(texts, axis=1, keepdims=True)).astype(np.float32)
    codes = np.unique(sets, return_inverse=True)[1].astype(np.int64)
    found = set_similarities(StoredVectors.of([table], ids), codes, unit, np.arange(n), pairs=pairs, direction=True)
    expected = brute_force(vectors, texts, sets, pairs)
    np.testing.assert_allclose(found.caption_image, expected["caption"], atol=1e-5)
    np.testing.assert_allclose(found.image_image, expected["image"], atol=1e-5)
    np.testing.assert_allclose(found.direction, expected["direction"], atol=2e-3)


@settings(max_examples=examples(30))
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 9))
def test_blocks_hold_whole_sets_each_once(tmp_path_factory, seed, n, size):
    rng = np.random.default_rng(seed)
    sets = np.sort(rng.integers(0, 8, n))
    ids = [f"i{i}" for i in range(n)]
    rows = [{"id": name, "vector": np.full(2, i, np.float32), "model": "m"} for i, name in enumerate(ids)]
    table = Table.create(tmp_path_factory.mktemp("v") / "t", rows, kind="embeddings", dim=2, rows_per_shard=11)
    seen = []
    for at, vectors in set_blocks(StoredVectors.of([table], ids), sets, size):
        assert (vectors[:, 0] == at).all()
        for s in np.unique(sets[at]):
            assert (sets[at] == s).sum() == (sets == s).sum()
        seen += at.tolist()
    assert seen == list(range(n))


def test_missing_and_repeated_ids(tmp_path):
    rows = [{"id": name, "vector": np.ones(2, np.float32), "model": "m"} for name in "ab"]
    table = Table.create(tmp_path / "t", rows, kind="embeddings", dim=2)
    assert StoredVectors.of([table], ["b", "x"]).missing.tolist() == [False, True]
    assert np.isnan(StoredVectors.of([table], ["b", "x"]).matrix()[1]).all()
    for ids in (["b"], ["a"], ["a", "b"]):  # in the order of the table too
        with pytest.raises(InputError, match="'a' has two vectors"):
            StoredVectors.of([table, table], ids)
    row = {"id": "c", "vector": np.ones(3, np.float32), "model": "m"}
    wide = Table.create(tmp_path / "w", [row], kind="embeddings", dim=3)
    with pytest.raises(InputError, match=r"t of 2 and .*w of 3 numbers; give those of one model"):
        StoredVectors.of([table, wide], ["a", "b"])
    assert stored.BLOCK % 12 == 0


@pytest.fixture
def two_sets(images, embedded):
    """A set that fits, one with a wrong caption, one with an odd image; vectors chosen by hand."""
    frame = pd.DataFrame(
        {
            "image_id": [f"{s}{i}" for s in "abc" for i in range(2)],
            "set_id": list("aabbcc"),
            "subject": ["x"] * 6,
            "caption": ["man", "woman"] * 3,
            "gender": ["m", "f"] * 3,
        }
    )
    e = np.eye(4)
    vectors = [
        e[0] + e[2], e[1] + e[2],  # a: fits its captions, alike through the third direction
        e[0] + e[2], -e[1] + e[2],  # b: the second image contradicts its caption
        e[0] + 0.1 * e[2], e[1] + 0.1 * e[3],  # c: fits, but the two have nothing in common
    ]  # fmt: skip
    texts = {"man": e[0] + 0.2 * e[2], "woman": e[1] + 0.2 * e[2]}
    spec = embedded("v", frame["image_id"], vectors, list(texts), list(texts.values()))
    return images(frame), spec


def test_a_set_goes_with_its_worst_image(two_sets):
    table, spec = two_sets
    verdict = Similarity().judge(RemainingImages(table, models=Models(encoder=spec)))
    assert verdict.dropped.tolist() == [False, False, True, True, True, True]
    assert verdict.failed.tolist() == [False, False, False, True, True, True]
    assert verdict.scores["image_image"][:2] == pytest.approx([0.5, 0.5])
    assert set(verdict.scores) == {"caption_image", "image_image"}


def test_the_ip2p_preset_asks_for_direction_and_keeps_the_best(two_sets):
    table, spec = two_sets
    preset = Step.of("similarity", preset="ip2p").filter
    assert (preset.text_least, preset.image_least, preset.direction_least, preset.keep_best) == (0.2, 0.7, 0.2, 4)
    lenient = Step.of("similarity", {"image_least": 0.0, "text_least": -1.0, "keep_best": 1}, preset="ip2p").filter
    verdict = lenient.judge(RemainingImages(table, models=Models(encoder=spec)))
    assert np.isnan(verdict.scores["direction"][[0, 2, 4]]).all()
    # a moves from man to woman as the words do, c nearly; b moves the other way
    assert verdict.scores["direction"][1] == pytest.approx(1.0, abs=1e-5)
    assert verdict.scores["direction"][5] > 0.9
    assert verdict.scores["direction"][3] == pytest.approx(0.0, abs=1e-5)
    assert verdict.dropped.tolist() == [False, False, True, True, True, True]
    assert verdict.notes == ["1 sets passed but were beaten: the best 1 of each subject stay"]


def test_images_without_a_set_are_asked_about_their_caption_only(images, embedded):
    table = images([{"image_id": "a", "caption": "x"}, {"image_id": "b", "caption": "x"}])
    spec = embedded("v", ["a", "b"], np.eye(2), ["x"], [[1.0, 0.0]])
    verdict = Similarity().judge(RemainingImages(table, models=Models(encoder=spec)))
    assert verdict.dropped.tolist() == [False, True]
    assert "image_image" not in verdict.scores


def test_what_is_missing_is_said(two_sets, embedded, images):
    table, _ = two_sets
    spec = embedded("w", ["a0"], [[1.0, 0.0]], ["man", "woman"], np.eye(2))
    with pytest.raises(InputError, match="lacks 5 of 6 images, for example 'a1'"):
        Similarity().judge(RemainingImages(table, models=Models(encoder=spec)))
    with pytest.raises(InputError, match="no encoder is named"):
        Similarity().judge(RemainingImages(table))
    bare = images([{"image_id": "a0", "caption": None}], name="bare")
    with pytest.raises(InputError, match="'a0' has no caption"):
        Similarity().judge(RemainingImages(bare, models=Models(encoder=spec)))
    with pytest.raises(InputError, match="choice of pairs"):
        Similarity(pairs="some")


def test_the_fair_clip_sees_mended_and_broken_sets(world, fair_clip, tmp_path):
    """Captions of another subject make the sets fail; the world's own pass more often."""
    remaining = RemainingImages(world, models=Models(encoder=fair_clip), folder=tmp_path)
    own = Similarity().judge(remaining).scores["caption_image"]
    rows = list(world.rows())
    swapped = [row | {"caption": rows[(i + 90) % len(rows)]["caption"]} for i, row in enumerate(rows)]
    types = {name: world.types[name] for name in world.further_columns}
    other = Table.create(tmp_path / "swapped", swapped, axes=world.axes, columns=types)
    wrong = Similarity().judge(RemainingImages(other, models=Models(encoder=fair_clip))).scores["caption_image"]
    assert (own > wrong).mean() > 0.9
