"""Dataset metrics against plain loops, exact distributions and a dataset with a known bias."""

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from tests.examples import examples

from equipoise.errors import InputError
from equipoise.measure import dataset
from equipoise.measure.groups import Groups

COCO = Path(__file__).parents[3] / "shared" / "data" / "coco" / "captions_val2017.json"
seeds = st.integers(0, 2**32 - 1)


# Counts


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=60))
def test_counts_match_a_plain_loop(values):
    groups = Groups.from_values(values, ["a", "b", "c"])
    n = sum(v is not None for v in values)
    if n == 0:
        with pytest.raises(InputError, match="no image has a defined group"):
            dataset.group_counts(groups)
        return
    found = dataset.group_counts(groups, draws=50)
    expected = Counter(v for v in values if v is not None)
    entropy = -sum(c / n * math.log(c / n) for c in expected.values())
    assert {k: v for k, v in found.counts.items() if v} == dict(expected)
    for name in "abc":
        share = found.shares[name]
        assert share.value == pytest.approx(expected[name] / n, abs=1e-9)
        assert share.p_value == pytest.approx(min(1, stats.binomtest(expected[name], n, 1 / 3).pvalue), abs=1e-9)
        assert share.ci_low <= share.value <= share.ci_high
    assert found.evenness.value == pytest.approx(entropy / math.log(3), abs=1e-9)
    assert found.n_undefined == len(values) - n


def test_a_small_balanced_dataset_is_not_called_uneven():
    rng = np.random.default_rng(0)
    p = [dataset.group_counts(Groups(rng.integers(0, 4, 12), tuple("abcd")), draws=400).evenness for _ in range(100)]
    assert all(e.null_mean < 0.95 for e in p)
    assert np.mean([e.p_value < 0.05 for e in p]) < 0.12
    skewed = dataset.group_counts(Groups(np.repeat([0, 1, 2, 3], [90, 5, 3, 2]), tuple("abcd")))
    assert skewed.evenness.p_value < 0.001
    assert skewed.evenness.ci_high < skewed.evenness.null_mean


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_one_source_has_no_interval_and_says_so(names):
    found = dataset.group_counts(Groups(np.array([0, 0, 1]), tuple(names)), clusters=[7, 7, 7], draws=20)
    for estimate in (found.evenness, *found.shares.values()):
        assert estimate.ci_low is None
        assert "no interval: one independent unit" in estimate.notes


# Representation and co-occurrence


@settings(deadline=None, max_examples=examples(40))
@given(seeds, st.integers(2, 42), st.integers(1, 5), st.integers(4, 60))
def test_representation_matches_plain_loops_and_the_exact_law(seed, n_groups, n_subjects, n):
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, n_groups, n)
    subjects = [f"s{i}" for i in rng.integers(0, n_subjects, n)]
    subjects[0] = None
    groups = Groups(labels, tuple(f"g{i:02d}" for i in range(n_groups)))
    used = [(s, g) for s, g in zip(subjects, labels, strict=True) if s is not None and g >= 0]
    if not used:
        with pytest.raises(InputError, match="no item has 1 images"):
            dataset.representation(groups, subjects, permutations=2)
        return
    found = dataset.representation(groups, subjects, permutations=2)
    total = int((labels >= 0).sum())
    distances = []
    for subject in sorted({s for s, _ in used}):
        rows = found.table[found.table["item"] == subject].set_index("group")
        own = [g for s, g in used if s == subject]
        gap = 0.0
        for g in range(n_groups):
            row = rows.loc[f"g{g:02d}"]
            size = int((labels == g).sum())
            share, overall = own.count(g) / len(own), size / total
            gap += abs(share - overall) / 2
            assert row["share"] == pytest.approx(share, abs=1e-9)
            assert row["overall"] == pytest.approx(overall, abs=1e-9)
            assert row["excess"] == pytest.approx(share - overall, abs=1e-9)
            law = {
                k: math.comb(size, k) * math.comb(total - size, len(own) - k) / math.comb(total, len(own))
                for k in range(max(0, len(own) - total + size), min(size, len(own)) + 1)
            }
            low = sum(p for k, p in law.items() if k <= own.count(g))
            high = sum(p for k, p in law.items() if k >= own.count(g))
            assert row["p_value"] == pytest.approx(min(1, 2 * min(low, high)), abs=1e-9)
            mean = sum(k * p for k, p in law.items())
            variance = sum((k - mean) ** 2 * p for k, p in law.items())
            assert row["null_sd"] == pytest.approx(math.sqrt(variance) / len(own), abs=1e-9)
            a, b, c = own.count(g), len(own) - own.count(g), size - own.count(g)
            d = total - a - b - c
            assert row["log_odds"] == pytest.approx(math.log((a + 0.5) * (d + 0.5) / ((b + 0.5) * (c + 0.5))), abs=1e-9)
        distances.append(gap)
    assert found.distance.value == pytest.approx(np.mean(distances), abs=1e-9)
    assert found.distance.n == len(distances)


@pytest.mark.slow
def test_few_images_are_lopsided_by_chance_and_the_null_says_so():
    rng = np.random.default_rng(0)
    p, excess = [], []
    for i in range(100):
        groups = Groups(rng.integers(0, 2, 60), ("f", "m"))
        found = dataset.representation(groups, [f"s{k}" for k in np.repeat(np.arange(20), 3)], permutations=199, seed=i)
        assert found.distance.null_mean > 0.15  # looks biased, is not
        p.append(found.distance.p_value)
        excess.append(found.distance.excess)
        assert len(found.lopsided()) == 0
    assert abs(np.mean(excess)) < 0.01
    assert np.mean(np.array(p) < 0.05) < 0.12


def test_an_injected_leaning_is_found():
    rng = np.random.default_rng(0)
    subjects = np.repeat([f"s{k}" for k in range(10)], 40)
    p = np.where(subjects == "s3", 0.9, 0.5)
    groups = Groups((rng.random(400) < p).astype(int), ("f", "m"))
    found = dataset.representation(groups, subjects.tolist())
    assert found.distance.p_value < 0.05
    assert found.lopsided().iloc[0]["item"] == "s3"
    assert set(found.lopsided()["item"]) == {"s3"}


@pytest.mark.parametrize("names", ["fm", "fmx"])
def test_two_groups_are_one_test_an_item(names):
    # all five ties are men's, 2 / 252; the cat is in every image and tests nothing
    groups = Groups(np.repeat([0, 1], 5), tuple(names))
    matrix, items = dataset.presence_of([["cat"]] * 5 + [["cat", "tie"]] * 5)
    table = dataset.cooccurrence(groups, matrix, items).table.set_index(["item", "group"])["p_adjusted"]
    for group in "fm":
        assert table["tie", group] == pytest.approx(2 / 252)
        assert table["cat", group] == 1.0
    three = Groups(np.array([0] * 4 + [1] * 5 + [2]), tuple("fmx"))
    ties = dataset.cooccurrence(three, matrix, items).table.query("item == 'tie'")
    assert ties["p_adjusted"].min() == pytest.approx(3 * ties["p_value"].min())


def test_cooccurrence_of_several_items_an_image():
    groups = Groups.from_values(["m", "m", "f", "f", None])
    matrix, names = dataset.presence_of([["tie", "cat"], ["tie"], ["cat"], [], ["tie"]])
    found = dataset.cooccurrence(groups, matrix, names)
    table = found.table.set_index(["item", "group"])
    assert table.loc[("tie", "m"), "count"] == 2
    assert table.loc[("tie", "m"), "n"] == 2
    assert table.loc[("cat", "f"), "share"] == 0.5
    assert found.dropped == {"undefined group": 1}
    dense = dataset.cooccurrence(groups, matrix.toarray(), names)
    assert dense.table.equals(found.table)
    few = dataset.cooccurrence(groups, matrix, names, min_images=2)
    assert "items with fewer" not in str(few.dropped)
    with pytest.raises(InputError, match="no item has 5 images"):
        dataset.cooccurrence(groups, matrix, names, min_images=5)


# Clusters


def toy_corpus(n=200, seed=0):
    rng = np.random.default_rng(seed)
    topics = ["cat mat sofa", "bus road stop", "pizza plate fork"]
    topic = rng.integers(0, 3, n)
    captions = [f"a person near a {' '.join(rng.permutation(topics[t].split())[:2])}" for t in topic]
    share = np.array([0.9, 0.5, 0.1])[topic]
    return captions, topic, Groups((rng.random(n) < share).astype(int), ("f", "m"))


def test_clusters_recover_topics_words_and_leanings():
    captions, topic, groups = toy_corpus()
    found = dataset.caption_clusters(groups, captions, n_clusters=3)
    for cluster in range(3):
        inside = topic[found.labels == cluster]
        main = np.bincount(inside, minlength=3).argmax()
        assert (inside == main).mean() > 0.95
        words = [{"cat", "mat", "sofa"}, {"bus", "road", "stop"}, {"pizza", "plate", "fork"}][main]
        assert words <= set(found.top_words[cluster])
        assert set(found.distinctive_words[cluster][:3]) == words
        rows = found.leaning.table[found.leaning.table["item"] == str(cluster)].set_index("group")
        share = (groups.labels[found.labels == cluster] == 1).mean()
        assert rows.loc["m", "share"] == pytest.approx(share)
        assert rows.loc["m", "excess"] == pytest.approx(share - (groups.labels == 1).mean())
        assert (rows.loc["m", "p_adjusted"] < 0.01) == (main != 1)
    assert found.leaning.distance.p_value < 0.01
    assert found.sizes.sum() == 200


def test_clusters_of_features_leave_undefined_images_out_and_are_seeded():
    captions, _, groups = toy_corpus()
    labels = groups.labels.copy()
    labels[:20] = -1
    partly = Groups(labels, ("f", "m"))
    features = np.random.default_rng(1).normal(size=(200, 4))
    found = dataset.caption_clusters(partly, features=features, n_clusters=4, permutations=9)
    assert (found.labels[:20] == -1).all()
    assert found.sizes.sum() == 180
    assert found.top_words == ()
    again = dataset.caption_clusters(partly, features=features, n_clusters=4, permutations=9)
    np.testing.assert_array_equal(found.labels, again.labels)
    with_words = dataset.caption_clusters(partly, captions, sparse.csr_matrix(features), n_clusters=4, permutations=9)
    np.testing.assert_array_equal(found.labels, with_words.labels)
    assert len(with_words.top_words) == 4


def test_several_captions_an_image_are_read_together():
    groups = Groups.from_values(["f", "m", "f", "m"])
    one = dataset.caption_clusters(groups, ["cat mat", "bus", "cat", "bus stop"], n_clusters=2, permutations=9)
    many = dataset.caption_clusters(
        groups, [["cat", "mat"], ["bus"], ["cat"], ["bus", "stop"]], n_clusters=2, permutations=9
    )
    np.testing.assert_array_equal(one.labels, many.labels)


def test_lda_top_words_are_the_frequent_ones():
    top, apart = dataset.cluster_words(
        ["red bus bus", "bus stop", "cat", "a cat", "the of"], [0, 0, 1, 1, 2], n_words=2
    )
    assert top[0][0] == "bus"
    assert top[1] == ("cat",)
    assert top[2] == ()  # stop words only
    assert apart[0][0] == "bus"


def test_tsne_maps_a_part_of_many_items():
    features = np.random.default_rng(0).normal(size=(60, 5))
    points, rows = dataset.tsne_coordinates(features, max_items=40, perplexity=5)
    assert points.shape == (40, 2)
    assert len(set(rows.tolist())) == 40
    again, _ = dataset.tsne_coordinates(features, max_items=40, perplexity=5)
    np.testing.assert_allclose(points, again)


@pytest.mark.slow
@pytest.mark.skipif(not COCO.exists(), reason="COCO captions are not here")
def test_coco_clusters_lean_as_gensynth_found():
    data = json.loads(COCO.read_text())
    captions = {}
    for item in data["annotations"]:
        captions.setdefault(item["image_id"], []).append(item["caption"].lower())
    male, female = {"man", "men", "boy", "boys"}, {"woman", "women", "girl", "girls"}

    def label(texts):
        words = {word.strip(".,'s") for text in texts for word in text.split()}
        m, f = bool(words & male), bool(words & female)
        return "male" if m and not f else "female" if f and not m else None

    def neutral(texts):
        return " ".join(w for t in texts for w in t.split() if w.strip(".,'s") not in male | female)

    ids = sorted(captions)
    groups = Groups.from_values([label(captions[i]) for i in ids])
    found = dataset.caption_clusters(groups, [neutral(captions[i]) for i in ids], permutations=99)
    rows = found.leaning.table[found.leaning.table["group"] == "male"].reset_index(drop=True)
    skate = [i for i in range(20) if "skateboard" in found.top_words[i][:3]]
    assert skate
    # GenSynth Table 5: skateboarding +27.9 points
    assert all(rows.loc[i, "excess"] > 0.15 and rows.loc[i, "p_adjusted"] < 0.01 for i in skate)
    assert found.leaning.distance.p_value <= 0.01


# Colour and position


@settings(deadline=None, max_examples=examples(30))
@given(seeds, st.integers(1, 5), st.integers(1, 5))
def test_colours_match_plain_loops(seed, height, width):
    image = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    found = dict(zip(dataset.COLOURS, dataset.colour_statistics([image])[0], strict=True))
    pixels = [tuple(int(v) / 255 for v in image[y, x]) for y in range(height) for x in range(width)]
    n = len(pixels)
    luma = [0.299 * r + 0.587 * g + 0.114 * b for r, g, b in pixels]
    mean = sum(luma) / n
    assert found["red"] == pytest.approx(sum(p[0] for p in pixels) / n, abs=1e-9)
    assert found["blue"] == pytest.approx(sum(p[2] for p in pixels) / n, abs=1e-9)
    assert found["brightness"] == pytest.approx(mean, abs=1e-9)
    assert found["contrast"] == pytest.approx(math.sqrt(sum((v - mean) ** 2 for v in luma) / n), abs=1e-9)
    saturation = [(max(p) - min(p)) / max(p) if max(p) > 0 else 0.0 for p in pixels]
    assert found["saturation"] == pytest.approx(sum(saturation) / n, abs=1e-9)
    rg = [255 * (r - g) for r, g, b in pixels]
    yb = [255 * ((r + g) / 2 - b) for r, g, b in pixels]
    spread = math.sqrt(np.var(rg) + np.var(yb))
    shift = math.sqrt(np.mean(rg) ** 2 + np.mean(yb) ** 2)
    assert found["colourfulness"] == pytest.approx(spread + 0.3 * shift, abs=1e-6)
    floats = dataset.colour_statistics([image / 255])[0]
    np.testing.assert_allclose(list(found.values()), floats, atol=1e-9)


def test_images_of_any_size_and_positions():
    images = [np.zeros((2, 3, 3), np.uint8), np.full((5, 4, 3), 255, np.uint8)]
    found = dataset.colour_statistics(images)
    assert found[:, 3].tolist() == [0.0, pytest.approx(1.0)]
    place = dataset.position_statistics([[10, 20, 30, 60], [0, 0, 100, 50]], [[100, 80], [100, 50]])
    np.testing.assert_allclose(place[0, :5], [0.1, 0.2, 0.5, 0.2, 0.5])
    assert place[0, 5] == pytest.approx(30 / (math.hypot(100, 80) / 2))
    np.testing.assert_allclose(place[1], [1, 1, 1, 0.5, 0.5, 0])
    corner = dataset.position_statistics([[0, 0, 1e-9, 1e-9]], [[100, 80]])
    assert corner[0, 5] == pytest.approx(1.0)


def test_statistics_by_group_find_what_differs_and_correct_for_many():
    rng = np.random.default_rng(0)
    groups = Groups(np.arange(120) % 2, ("a", "b"))
    values = rng.normal(size=(120, 6))
    values[:, 2] += 1.0 * (np.arange(120) % 2)
    names = [f"f{i}" for i in range(6)]
    found = dataset.statistics_by_group(values, names, groups)
    assert found.p_holm["f2"] < 0.01
    assert all(found.p_holm[name] > 0.05 for name in names if name != "f2")
    assert found.by_statistic["f2"].highest == "b"
    parts = values[groups.labels == 0, 2], values[groups.labels == 1, 2]
    pooled = math.sqrt((parts[0].var() * 60 + parts[1].var() * 60) / 118)
    assert found.effect["f2"] == pytest.approx((parts[1].mean() - parts[0].mean()) / pooled, abs=1e-9)
    flat = dataset.statistics_by_group(np.column_stack([groups.labels]), ["g"], groups)
    assert flat.effect["g"] is None


def test_probes_are_at_hand_for_datasets_too():
    groups = Groups.from_values(["f", "m"] * 20)
    x = groups.labels[:, None] + np.random.default_rng(0).normal(size=(40, 2))
    assert dataset.train_test_probe(x, groups, x, groups, permutations=99).auc.p_value < 0.05


TWO = Groups.from_values(["a", "b"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dataset.group_counts(Groups.from_values(["a"])), "only one group is named"),
        (lambda: dataset.representation(TWO, ["s"]), "labels has 2 entries for 1"),
        (lambda: dataset.representation(TWO, [None, None]), "no item has 1 images"),
        (lambda: dataset.representation(TWO, ["s", "s"], permutations=0), "permutations must be"),
        (lambda: dataset.cooccurrence(TWO, [[1, 2], [0, 1]], ["x", "y"]), "0 and 1 only"),
        (lambda: dataset.cooccurrence(TWO, np.eye(2), ["x"]), "presence has 2 columns for 1 names"),
        (lambda: dataset.caption_clusters(TWO), "give captions, features, or both"),
        (lambda: dataset.caption_clusters(TWO, ["a"]), "captions has 1 entries for 2 images"),
        (lambda: dataset.caption_clusters(TWO, ["cat", 3], n_clusters=2), r"captions\[1\] is 3"),
        (lambda: dataset.caption_clusters(TWO, ["cat", "dog"]), "2 images have a defined group; 20 clusters"),
        (lambda: dataset.caption_clusters(TWO, ["", "!"], n_clusters=2), "no words to cluster by"),
        (lambda: dataset.caption_clusters(TWO, features=np.eye(3), n_clusters=2), "features has 3 rows for 2"),
        (lambda: dataset.caption_clusters(TWO, ["x", "y"], n_clusters=1), "n_clusters must be"),
        (lambda: dataset.cluster_words(["the"], [0]), "no words besides stop words"),
        (lambda: dataset.cluster_words(["cat"], [0, 1]), "labels has 2 entries for 1"),
        (lambda: dataset.tsne_coordinates(np.eye(5), perplexity=5), "perplexity must be"),
        (lambda: dataset.colour_statistics([]), "images is empty"),
        (lambda: dataset.colour_statistics([np.zeros((2, 2))]), r"images\[0\] has shape"),
        (lambda: dataset.colour_statistics([np.full((2, 2, 3), 7.0)]), "outside"),
        (lambda: dataset.colour_statistics([np.full((2, 2, 3), np.nan)]), "outside"),
        (lambda: dataset.position_statistics([[0, 0, 1]], [[1, 1]]), r"boxes must be \(n, 4\)"),
        (lambda: dataset.position_statistics([[0, 0, 5, 5]], [[4, 9]]), r"boxes\[0\]"),
        (lambda: dataset.position_statistics([[3, 0, 3, 5]], [[9, 9]]), r"boxes\[0\]"),
        (lambda: dataset.statistics_by_group(np.eye(2), ["x"], TWO), "values has 2 columns"),
        (lambda: dataset.statistics_by_group([[1.0], [np.nan]], ["x"], TWO), "values is not finite"),
    ],
)
def test_degenerate_input_is_a_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_an_image_without_a_subject_is_of_no_subject_named_nan():
    groups = Groups.from_values(["f", "m"] * 4)
    found = dataset.representation(groups, ["a", None, "b", float("nan")] * 2, permutations=9)
    assert sorted(set(found.table["item"])) == ["a", "b"]
