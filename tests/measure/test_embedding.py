"""Embedding metrics against plain loops, hand-worked values and simulation."""

import itertools
import math
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from tests.examples import examples

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure import embedding
from equipoise.measure.embedding.ridge import ridge_scores
from equipoise.measure.embedding.similarity import _weighted
from equipoise.measure.groups import Groups
from equipoise.measure.stats.bootstrap import cluster_sums
from equipoise.measure.stats.exchange import permuted_labels
from equipoise.measure.stats.group_means import group_means

seeds = st.integers(0, 2**32 - 1)


def cosine(a, b):
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


# Self-similarity


A = [[1.0, 0.0], [0.6, 0.8]]
B = [[1.0, 0.0], [0.0, 1.0], [0.8, 0.6]]


def test_self_similarity_worked_example():
    found = embedding.self_similarity(A + B, Groups.from_values(["A"] * 2 + ["B"] * 3))
    assert found.by_group["A"].value == pytest.approx(0.6, abs=1e-12)
    assert found.by_group["B"].value == pytest.approx(0.46667, abs=1e-5)
    assert found.normalised["A"].value == pytest.approx(0.125, abs=1e-9)
    assert found.normalised["B"].value == pytest.approx(-0.125, abs=1e-9)
    assert found.gap.value == pytest.approx(0.25, abs=1e-9)
    assert found.gap.notes[0] == "A minus B"
    assert found.gap.n == 5


def test_equation_four_as_printed_is_flagged():
    groups = Groups.from_values(["A"] * 2 + ["B"] * 3)
    found = embedding.self_similarity(A + B, groups, variant="literal_eq4")
    total = 0.6 + 7 / 15
    assert found.normalised["A"].value == pytest.approx(0.6 / (total / 2) - 1, abs=1e-9)
    assert found.normalised["B"].value == pytest.approx((7 / 15) / (total / 3) - 1, abs=1e-9)
    assert any("as printed" in note for note in found.normalised["A"].notes)
    # by_group is the same in both
    assert found.by_group["A"].value == pytest.approx(0.6)


def plain_self_similarity(rows):
    n = len(rows)
    return sum(cosine(rows[i], rows[j]) for i in range(n) for j in range(n) if i != j) / (n * n - n)


@settings(deadline=None, max_examples=examples(50))
@given(seeds, st.integers(1, 4), st.integers(6, 25), st.integers(1, 5), st.floats(-1, 2))
def test_self_similarity_matches_a_plain_loop(seed, n_groups, n, d, shift):
    rng = np.random.default_rng(seed)
    rows = rng.normal(shift, 1, (n, d))
    labels = rng.integers(-1, n_groups, n)
    groups = Groups(labels, tuple(f"g{i}" for i in range(n_groups)))
    members = {f"g{g}": rows[labels == g] for g in range(n_groups)}
    sizable = {name: part for name, part in members.items() if len(part) >= 2}
    if not sizable:
        with pytest.raises(InputError, match="no group has two images"):
            embedding.self_similarity(rows, groups, permutations=2, replicates=2)
        return
    found = embedding.self_similarity(rows, groups, permutations=2, replicates=2)
    expected = {name: plain_self_similarity(part) for name, part in sizable.items()}
    assert {k: e.value for k, e in found.by_group.items()} == pytest.approx(expected, abs=1e-9)
    mean = sum(expected.values()) / len(expected)
    if mean <= 1e-9:
        assert found.normalised == {}
        assert found.gap is None
        assert "not above 0" in found.notes[0]
    else:
        relative = {name: value / mean - 1 for name, value in expected.items()}
        tolerance = 1e-9 / min(1.0, mean)
        assert {k: e.value for k, e in found.normalised.items()} == pytest.approx(relative, abs=tolerance, rel=1e-9)
        assert sum(e.value for e in found.normalised.values()) == pytest.approx(0, abs=tolerance)
    dropped = {f"group {name!r} has fewer than 2" for name, part in members.items() if len(part) < 2}
    assert dropped <= set(found.dropped)
    assert found.dropped.get("undefined group", 0) == int((labels < 0).sum())


def test_mean_cosine_is_exact_for_many_rows_and_scale_free():
    rows = np.random.default_rng(0).normal(0.3, 1, (300, 8)).astype(np.float32)
    assert embedding.mean_cosine(rows) == pytest.approx(plain_self_similarity(rows.astype(float)), abs=1e-7)
    assert embedding.mean_cosine(rows * 1e6) == pytest.approx(embedding.mean_cosine(rows), abs=1e-9)


def test_shuffled_labels_have_the_pool_as_their_mean():
    rng = np.random.default_rng(0)
    rows = rng.normal(0.5, 1, (60, 4))
    groups = Groups.from_values(["a"] * 20 + ["b"] * 40)
    found = embedding.self_similarity(rows, groups, permutations=4000, replicates=50)
    pool = embedding.mean_cosine(rows)
    for estimate in found.by_group.values():
        assert estimate.null_mean == pytest.approx(pool, abs=4 * estimate.null_sd / math.sqrt(4000))
    assert found.gap.p_value > 0.05
    # the gap of shuffled labels is above 0: that is why it needs a null
    assert found.gap.null_mean > 0.05


def test_a_tight_group_is_found_and_the_interval_covers_it():
    rng = np.random.default_rng(0)
    centre = np.array([3.0, 0.0, 0.0])
    cover = {"tight": 0, "loose": 0}
    truth = {
        "tight": embedding.mean_cosine(centre + rng.normal(0, 0.5, (20000, 3))),
        "loose": embedding.mean_cosine(centre + rng.normal(0, 2.0, (20000, 3))),
    }
    for _ in range(100):
        rows = np.concatenate([centre + rng.normal(0, 0.5, (40, 3)), centre + rng.normal(0, 2.0, (40, 3))])
        found = embedding.self_similarity(
            rows, Groups.from_values(["tight"] * 40 + ["loose"] * 40), permutations=19, replicates=300
        )
        assert found.gap.p_value == pytest.approx(0.05)
        for name in cover:
            cover[name] += found.by_group[name].ci_low <= truth[name] <= found.by_group[name].ci_high
    assert all(86 <= count <= 100 for count in cover.values())


def test_sets_are_shuffled_inside_and_resampled_whole():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(30, 5)) + 1
    # two images per set, the same picture: labels inside a set carry no information at all
    rows = np.repeat(base, 2, axis=0)
    groups = Groups.from_values(["a", "b"] * 30)
    found = embedding.self_similarity(rows, groups, clusters=np.repeat(np.arange(30), 2))
    assert found.gap.value == pytest.approx(0, abs=1e-12)
    assert found.gap.null_mean == pytest.approx(0, abs=1e-12)
    assert found.gap.p_value == 1.0
    assert found.by_group["a"].ci_low == pytest.approx(found.by_group["b"].ci_low)


def test_a_person_drawn_twice_is_not_compared_with_themselves():
    # different people have nothing in common, the images of one are the same: the only pairs alike are a person's own
    rows, person = np.repeat(np.eye(24), 2, axis=0), np.repeat(np.arange(24), 2)
    found = embedding.self_similarity(rows, Groups(person % 2, ("a", "b")), clusters=person, permutations=9)
    for estimate in found.by_group.values():
        assert estimate.value == pytest.approx(1 / 23)
        assert estimate.ci_low <= estimate.value <= estimate.ci_high


def test_clusters_of_one_image_are_no_clusters_to_the_bootstrap():
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(9, 4)), rng.integers(0, 3, (20, 9)).astype(float)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    own = (weights**2).sum(axis=1)
    plain = (((weights @ rows) ** 2).sum(axis=1) - own) / (weights.sum(axis=1) ** 2 - own)
    assert _weighted(weights, cluster_sums(rows, np.arange(9))) == pytest.approx(plain)
    # one image, however often it is drawn, makes no pair
    assert np.isinf(_weighted(np.eye(9)[:1] * 4, cluster_sums(rows)))[0]


@pytest.mark.parametrize("mixed", [0, 1, 4])
def test_a_few_mixed_clusters_do_not_switch_the_test_off(mixed):
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(24), 4)
    labels = person % 2
    labels[: 4 * mixed : 4] = 1 - labels[: 4 * mixed : 4]
    groups = Groups(labels, ("a", "b"))
    won = rng.random(96) < np.where(labels == 1, 0.9, 0.2)
    images = np.eye(3)[labels + 1] + np.where(won, 2.0, 0.5)[:, None] * np.eye(3)[0]
    spread = rng.normal(size=(96, 8)) + np.where(labels == 1, 3.0, 0.5)[:, None]
    options = {"clusters": person, "permutations": 99}
    gaps = [
        embedding.person_preference(images, np.eye(3)[0], np.eye(3)[1:], groups, **options).gap,
        embedding.self_similarity(spread, groups, replicates=20, **options).gap,
        group_means(won + 0.0, groups, **options).gap,
        embedding.linear_probe(spread, groups, method="ridge", folds=2, **options).auc,
    ]
    for gap in gaps:
        assert gap.p_value == 0.01
        assert gap.null_mean < gap.value - 0.3


def test_one_group_has_no_gap():
    found = embedding.self_similarity(A, Groups.from_values(["A", "A"]), permutations=9, replicates=20)
    assert found.gap is None
    assert "only group 'A'" in found.notes[0]


# Person preference


@settings(deadline=None, max_examples=examples(50))
@given(seeds, st.integers(2, 4), st.integers(6, 20), st.sampled_from(["own_label", "all_labels"]))
def test_person_preference_matches_a_plain_loop(seed, n_groups, n, variant):
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(n, 3))
    neutral, texts = rng.normal(size=3), rng.normal(size=(n_groups, 3))
    texts[0] = neutral * 2  # an exact tie for the first group: counts 0
    labels = np.concatenate([np.arange(n_groups), rng.integers(-1, n_groups, n - n_groups)])
    groups = Groups(labels, tuple(f"g{i}" for i in range(n_groups)))
    found = embedding.person_preference(images, neutral, texts, groups, variant=variant, permutations=5)
    for g in range(n_groups):
        wins = []
        for image, label in zip(images, labels, strict=True):
            if label == g:
                rivals = [texts[g]] if variant == "own_label" else texts
                wins.append(all(cosine(image, neutral) > cosine(image, r) + 1e-12 for r in rivals))
        assert found.by_group[f"g{g}"].value == pytest.approx(np.mean(wins), abs=1e-9)
    values = [e.value for e in found.by_group.values()]
    assert found.gap.value == pytest.approx(max(values) - min(values), abs=1e-9)
    chance = 0.5 if variant == "own_label" else 1 / (n_groups + 1)
    assert found.by_group["g0"].null_mean == pytest.approx(chance)


def test_person_preference_of_clusters_with_an_image_of_undefined_group():
    groups = Groups.from_values([None, *"a" * 19, *"b" * 20])
    images = np.repeat([[0.1, 1.0], [1.0, 0.1]], 20, axis=0)
    found = embedding.person_preference(
        images, [0.0, 1.0], np.array([[1.0, 0.0]] * 2), groups, clusters=np.repeat(np.arange(20), 2)
    )
    assert found.gap.value == 1
    assert found.gap.p_value < 0.05


def test_person_preference_has_an_interval_even_when_all_agree():
    images = np.tile([1.0, 0.2], (10, 1))
    found = embedding.person_preference(
        images, [1.0, 0.1], np.array([[0.0, 1.0]] * 2), Groups.from_values(["a", "b"] * 5)
    )
    assert found.by_group["a"].value == 1.0
    assert found.by_group["a"].ci_low < 0.7


# Zero-shot accuracy and recall of edits


@settings(deadline=None, max_examples=examples(50))
@given(seeds, st.integers(2, 4), st.integers(6, 20), st.booleans())
def test_zero_shot_accuracy_matches_a_plain_loop(seed, n_classes, n, ties):
    rng = np.random.default_rng(seed)
    images, texts = rng.normal(size=(n, 3)), rng.normal(size=(n_classes, 3))
    if ties:
        texts[1] = texts[0]
    targets = rng.integers(0, n_classes, n)
    labels = np.concatenate([[0, 1], rng.integers(-1, 2, n - 2)])
    found = embedding.zero_shot_accuracy(images, texts, targets, Groups(labels, ("a", "b")), permutations=5)
    credit = []
    for image, target in zip(images, targets, strict=True):
        scores = [cosine(image, t) for t in texts]
        winners = [c for c in range(n_classes) if scores[c] >= max(scores) - 1e-12]
        credit.append(1 / len(winners) if target in winners else 0.0)
    assert found.overall.value == pytest.approx(np.mean(credit), abs=1e-9)
    for g, name in enumerate("ab"):
        assert found.groups.by_group[name].value == pytest.approx(np.mean(np.array(credit)[labels == g]), abs=1e-9)
    assert found.overall.null_mean == pytest.approx(1 / n_classes)


@settings(deadline=None, max_examples=examples(40))
@given(seeds, st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_edit_recall_matches_a_plain_loop(seed, n_pool, n_edits, ties):
    rng = np.random.default_rng(seed)
    pool, edits = rng.normal(size=(n_pool, 3)), rng.normal(size=(n_edits, 3))
    if ties:
        pool[0] = edits[0]
    captions = rng.normal(size=(2 * n_edits, 3))
    owner = np.tile(np.arange(n_edits), 2)
    found = embedding.edit_recall(pool, edits, captions, owner, ks=[1, 3])
    for k in (1, 3):
        hits = []
        for caption, edit in zip(captions, owner, strict=True):
            own = cosine(caption, edits[edit])
            above = sum(cosine(caption, p) > own + 1e-12 for p in pool)
            tied = sum(abs(cosine(caption, p) - own) <= 1e-12 for p in pool)
            places = range(above + 1, above + tied + 2)
            hits.append(np.mean([place <= k for place in places]))
        assert found[k].value == pytest.approx(np.mean(hits), abs=1e-9)
        assert found[k].null_mean == pytest.approx(min(1, k / (n_pool + 1)))


# Gaps of group means


@settings(deadline=None, max_examples=examples(40))
@given(seeds, st.integers(2, 42), st.integers(50, 90))
def test_group_means_match_a_plain_loop_up_to_42_groups(seed, n_groups, n):
    rng = np.random.default_rng(seed)
    values, labels = rng.normal(size=n), rng.integers(-1, n_groups, n)
    groups = Groups(labels, tuple(f"g{i}" for i in range(n_groups)))
    present = [g for g in range(n_groups) if (labels == g).any()]
    if len(present) < 2:
        return
    found = group_means(values, groups, permutations=3)
    means = {f"g{g}": sum(values[labels == g]) / sum(labels == g) for g in present}
    assert {k: e.value for k, e in found.by_group.items()} == pytest.approx(means, abs=1e-9)
    assert found.gap.value == pytest.approx(max(means.values()) - min(means.values()), abs=1e-9)
    assert found.gap.n_groups == len(present)


@pytest.mark.slow
def test_the_gap_has_a_null_above_zero_and_an_honest_p_value():
    rng = np.random.default_rng(0)
    groups = Groups(np.repeat(np.arange(6), 20), tuple("abcdef"))
    p = [group_means(rng.normal(size=120), groups, permutations=99, seed=i).gap for i in range(100)]
    assert np.mean([e.excess for e in p]) == pytest.approx(0, abs=0.04)
    assert all(e.null_mean > 0.3 for e in p)
    assert abs(np.mean([e.p_value <= 0.1 for e in p]) - 0.1) < 0.07


def test_the_gap_interval_covers_the_difference():
    rng = np.random.default_rng(0)
    groups = Groups(np.repeat([0, 1], 50), ("a", "b"))
    cover = 0
    for i in range(200):
        values = np.concatenate([rng.normal(1.0, 1, 50), rng.normal(0.0, 1, 50)])
        e = group_means(values, groups, permutations=1, seed=i).gap
        cover += e.ci_low <= 1.0 <= e.ci_high
    assert 0.9 <= cover / 200 <= 0.99


def test_clusters_widen_the_gap_interval():
    rng = np.random.default_rng(0)
    cluster = np.repeat(np.arange(20), 10)
    values = np.repeat(rng.normal(size=20), 10) + 0.01 * rng.normal(size=200)
    groups = Groups(np.repeat([0, 1], 100), ("a", "b"))
    plain, clustered = group_means(values, groups).gap, group_means(values, groups, clusters=cluster).gap
    assert clustered.ci_high - clustered.ci_low > 2 * (plain.ci_high - plain.ci_low)


def test_permuted_labels_stay_in_their_set():
    rng = np.random.default_rng(0)
    labels, sets = np.array([0, 1, 0, 1, 2, 2]), np.array(["x", "x", "y", "y", "x", "y"])
    for block in permuted_labels(labels, 50, rng, sets):
        for row in block:
            assert sorted(row[sets == "x"]) == [0, 1, 2]
            assert sorted(row[sets == "y"]) == [0, 1, 2]
    flat = np.concatenate(list(permuted_labels(labels, 2000, rng)))
    np.testing.assert_allclose((flat == 2).mean(axis=0), 1 / 3, atol=0.05)


# Association


def plain_weat(x, y, a, b):
    def s(w):
        return np.mean([cosine(w, t) for t in a]) - np.mean([cosine(w, t) for t in b])

    sx, sy = [s(w) for w in x], [s(w) for w in y]
    both = np.array(sx + sy)
    spread = math.sqrt(((both - both.mean()) ** 2).sum() / (len(both) - 1))
    return both, (np.mean(sx) - np.mean(sy)) / spread


@settings(deadline=None, max_examples=examples(40))
@given(seeds, st.integers(2, 5), st.integers(2, 5), st.integers(1, 4), st.integers(1, 4))
def test_association_matches_plain_loops_and_every_split(seed, n, m, k, j):
    rng = np.random.default_rng(seed)
    x, y, a, b = (rng.normal(size=(size, 4)) for size in (n, m, k, j))
    scores, effect = plain_weat(x, y, a, b)
    gaps = []
    for inside in itertools.combinations(range(n + m), n):
        rest = [i for i in range(n + m) if i not in inside]
        gaps.append(scores[list(inside)].mean() - scores[rest].mean())
    gaps = np.array(gaps)
    observed = scores[:n].mean() - scores[n:].mean()
    expected = {
        "greater": np.mean(gaps >= observed - 1e-12),
        "less": np.mean(gaps <= observed + 1e-12),
        "two-sided": np.mean(np.abs(gaps) >= abs(observed) - 1e-12),
    }
    for alternative, p in expected.items():
        found = embedding.association(x, y, a, b, alternative=alternative)
        assert found.effect.value == pytest.approx(effect, abs=1e-9)
        assert found.effect.p_value == pytest.approx(p, abs=1e-9)
        assert found.exact
    np.testing.assert_allclose(found.scores, scores, atol=1e-9)
    assert found.effect.null_sd == pytest.approx(gaps.std() / scores.std(ddof=1), abs=1e-9)


def test_monte_carlo_p_values_agree_with_the_exact_ones(monkeypatch):
    rng = np.random.default_rng(0)
    x, y, a, b = (
        rng.normal(0.3, 1, (6, 4)),
        rng.normal(size=(6, 4)),
        rng.normal(0.3, 1, (5, 4)),
        rng.normal(size=(5, 4)),
    )
    exact = embedding.association(x, y, a, b)
    monkeypatch.setattr(import_module("equipoise.measure.embedding.association"), "EXACT_LIMIT", 10)
    drawn = embedding.association(x, y, a, b, permutations=20000)
    assert not drawn.exact
    assert drawn.effect.p_value == pytest.approx(exact.effect.p_value, abs=0.02)
    assert drawn.effect.null_sd == pytest.approx(exact.effect.null_sd, rel=0.03)


def test_swapping_targets_or_attributes_changes_the_sign():
    rng = np.random.default_rng(1)
    x, y, a, b = (rng.normal(size=(4, 3)) for _ in range(4))
    effect = embedding.association(x, y, a, b).effect.value
    assert embedding.association(y, x, a, b).effect.value == pytest.approx(-effect)
    assert embedding.association(x, y, b, a).effect.value == pytest.approx(-effect)


def test_cross_modal_association_finds_what_was_put_in():
    # images of two groups against texts of two attributes; the modality gap (a constant) cancels
    rng = np.random.default_rng(0)
    one, other, gap = np.eye(3) * [1, 1, 5]
    images = [rng.normal(size=(20, 3)) + one, rng.normal(size=(20, 3)) + other]
    texts = [rng.normal(0, 0.1, (5, 3)) + one + gap, rng.normal(0, 0.1, (5, 3)) + other + gap]
    found = embedding.association(*images, *texts, permutations=999)
    assert found.effect.p_value < 0.02
    assert found.effect.ci_low > 0


@settings(deadline=None, max_examples=examples(30))
@given(seeds, st.integers(2, 6), st.integers(2, 6))
def test_single_association_matches_a_plain_loop(seed, n, m):
    rng = np.random.default_rng(seed)
    w, a, b = rng.normal(size=3), rng.normal(size=(n, 3)), rng.normal(size=(m, 3))
    scores = np.array([cosine(w, t) for t in a] + [cosine(w, t) for t in b])
    spread = math.sqrt(((scores - scores.mean()) ** 2).sum() / (len(scores) - 1))
    found = embedding.single_association(w, a, b)
    assert found.effect.value == pytest.approx((scores[:n].mean() - scores[n:].mean()) / spread, abs=1e-9)


# Probes


@settings(deadline=None, max_examples=15)
@given(seeds, st.integers(2, 4))
def test_train_test_probe_agrees_with_scikit_learn(seed, n_groups):
    rng = np.random.default_rng(seed)
    labels = np.tile(np.arange(n_groups), 12)
    groups = Groups(labels, tuple(f"g{i}" for i in range(n_groups)))
    x = rng.normal(size=(len(labels), 3)) + labels[:, None]
    z = np.round(rng.normal(size=(len(labels), 3)) + labels[:, None], 1)
    found = embedding.train_test_probe(x, groups, z, groups, permutations=0)
    score = found.scores[:, 1] - found.scores[:, 0] if n_groups == 2 else found.scores
    expected = (
        roc_auc_score(labels, score)
        if n_groups == 2
        else np.mean([roc_auc_score(labels == g, found.scores[:, g]) for g in range(n_groups)])
    )
    assert found.auc.value == pytest.approx(expected, abs=1e-9)
    balanced = balanced_accuracy_score(labels, found.scores.argmax(axis=1))
    assert found.balanced_accuracy.value == pytest.approx(balanced, abs=1e-9)
    assert found.balanced_accuracy.null_mean == pytest.approx(1 / n_groups)


@pytest.mark.parametrize("method", [pytest.param("logistic", marks=pytest.mark.slow), "ridge"])
def test_probe_finds_a_leak_and_only_a_leak(method):
    rng = np.random.default_rng(0)
    groups = Groups.from_values(["f", "m"] * 60 + [None] * 5)
    noise = rng.normal(size=(125, 6))
    clean = embedding.linear_probe(noise, groups, method=method, permutations=19)
    leak = noise.copy()
    leak[:120, 0] += 1.5 * (np.arange(120) % 2)
    leaky = embedding.linear_probe(leak, groups, method=method, permutations=19)
    assert clean.auc.p_value > 0.05
    assert abs(clean.auc.null_mean - 0.5) < 0.06
    assert leaky.auc.p_value == pytest.approx(1 / 20)
    assert leaky.auc.ci_low > 0.6
    assert leaky.balanced_accuracy.value > 0.65
    assert leaky.auc.dropped == {"undefined group": 5}
    assert leaky.kept.sum() == 120


@pytest.mark.slow
def test_probe_interval_covers():
    # AUC of a unit shift in one known direction is Phi(1 / sqrt 2) = .7602
    rng = np.random.default_rng(0)
    groups = Groups(np.arange(200) % 2, ("a", "b"))
    train = rng.normal(size=(4000, 1)) + (np.arange(4000) % 2)[:, None]
    train_groups = Groups(np.arange(4000) % 2, ("a", "b"))
    cover = 0
    for _ in range(100):
        test = rng.normal(size=(200, 1)) + (np.arange(200) % 2)[:, None]
        e = embedding.train_test_probe(train, train_groups, test, groups, permutations=0).auc
        cover += e.ci_low <= 0.7602 <= e.ci_high
    assert 88 <= cover <= 100


def test_clusters_never_straddle_folds():
    # every item has a twin with its own label: without clusters the twin gives it away
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(60, 40)), 2, axis=0)
    groups = Groups(np.repeat(rng.integers(0, 2, 60), 2), ("a", "b"))
    sets = np.repeat(np.arange(60), 2)
    leaky = embedding.linear_probe(rows, groups, permutations=0)
    honest = embedding.linear_probe(rows, groups, clusters=sets, permutations=0)
    assert leaky.auc.value > 0.9
    assert honest.auc.value < 0.75
    assert honest.auc.ci_high - honest.auc.ci_low > 0.1


def test_sparse_features_give_what_dense_ones_do_up_to_centring():
    rng = np.random.default_rng(0)
    x = (rng.random((80, 6)) < 0.3).astype(float)
    groups = Groups((x[:, 0] > 0).astype(int), ("a", "b"))
    assert embedding.linear_probe(sparse.csr_matrix(x), groups, permutations=0).auc.value == 1.0
    found = embedding.linear_probe(x, groups, permutations=0)
    assert found.auc.value == 1.0
    assert found.auc.ci_low is None  # not [1, 1]: no width would pass for certainty
    assert "made no error" in found.auc.notes[-1]


# Input that cannot be measured

TWO = Groups.from_values(["a", "b"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: embedding.self_similarity(np.eye(2), TWO), "no group has two images"),
        (lambda: embedding.self_similarity(np.eye(3), TWO), "labels has 2 entries for 3 images"),
        (lambda: embedding.self_similarity([[np.nan, 1.0]], TWO), "embeddings is not finite"),
        (lambda: embedding.self_similarity([[0.0, 0.0], [1.0, 0.0]], TWO), "embeddings row 0 is all zeros"),
        (lambda: embedding.self_similarity(np.eye(2), TWO, replicates=0), "replicates must be"),
        (
            lambda: embedding.self_similarity(np.eye(2), Groups.from_values(["a", "a"]), clusters=[1]),
            r"clusters has shape \(1,\) for 2",
        ),
        (lambda: embedding.mean_cosine([[1.0, 2.0]]), "embeddings needs at least 2 rows"),
        (lambda: embedding.person_preference(np.eye(2), [1, 1], np.eye(3)[:, :2], TWO), "all zeros"),
        (
            lambda: embedding.person_preference(np.eye(2), [1, 1], np.eye(2), TWO, clusters=[1]),
            r"clusters has shape \(1,\) for 2",
        ),
        (lambda: embedding.person_preference(np.eye(2), [1, 1], np.ones((3, 2)), TWO), "group_texts has 3 rows for 2"),
        (lambda: embedding.person_preference(np.eye(2), [1, 1, 1], np.eye(2), TWO), "images has 2 columns and neutral"),
        (
            lambda: embedding.person_preference(
                np.eye(2), [1, 1], np.eye(2), Groups.from_values(["a", None], ["a", "b"])
            ),
            r"two groups with images; only \['a'\]",
        ),
        (lambda: embedding.zero_shot_accuracy(np.eye(2), np.eye(2), [0, 2], TWO), r"targets\[1\] = 2 is not a class"),
        (lambda: embedding.zero_shot_accuracy(np.eye(2), np.eye(2), [0], TWO), "one integer class an image"),
        (lambda: embedding.zero_shot_accuracy(np.eye(2), np.eye(2)[:1], [0, 0], TWO), "class_texts needs at least 2"),
        (lambda: embedding.edit_recall(np.eye(2), np.eye(2), np.eye(2), [0, 5]), r"edit_of\[1\] = 5"),
        (lambda: embedding.edit_recall(np.eye(2), np.eye(2), np.eye(2), [0, 1], ks=[0]), "ks must be"),
        (lambda: group_means([1.0, np.inf], TWO), "values is not finite"),
        (lambda: group_means([1.0, 2.0], TWO, clusters=[1]), "clusters has 1 entries"),
        (lambda: group_means([1.0, 2.0], TWO, shuffle_within=[1]), "shuffle_within has 1 entries"),
        (
            lambda: embedding.association(np.eye(2), np.eye(2)[:1], np.eye(2), np.eye(2)),
            "second_targets needs at least",
        ),
        (lambda: embedding.association(np.eye(2), np.eye(2), np.eye(2), np.eye(2)), "same association"),
        (lambda: embedding.association(np.eye(2), np.eye(2), np.eye(3), np.eye(2)), "first_attributes has 3"),
        (lambda: embedding.single_association([[1, 0], [-1, 0]], np.eye(2), np.eye(2)), "rows cancel out"),
        (lambda: embedding.linear_probe(np.eye(2), TWO), "two groups with two images or more"),
        (
            lambda: embedding.linear_probe(np.eye(4), Groups.from_values(["a", "a", "b", "b"]), clusters=[1, 1, 1, 1]),
            "all items are in one cluster",
        ),
        (
            lambda: embedding.train_test_probe(
                np.eye(4),
                Groups.from_values(["a", "a", "b", "b"]),
                np.eye(4)[:, :2] + 1,
                Groups.from_values(["a", "a", "b", "b"]),
            ),
            "train_features has 4 columns and test_features 2",
        ),
        (
            lambda: embedding.train_test_probe(np.eye(2), TWO, np.eye(2), Groups.from_values(["a", "c"])),
            "must be the same",
        ),
    ],
)
def test_degenerate_input_is_a_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_unknown_variants_are_answered_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="did you mean 'group_mean'"):
        embedding.self_similarity(np.eye(2), TWO, variant="groupmean")
    with pytest.raises(UnknownNameError, match="all_labels"):
        embedding.person_preference(np.eye(2), [1, 1], np.eye(2), TWO, variant="all_label")
    with pytest.raises(UnknownNameError, match="ridge"):
        embedding.linear_probe(np.eye(2), TWO, method="rigde")


@pytest.mark.parametrize("of", [np.asarray, sparse.csr_matrix])
def test_a_rare_group_is_not_outvoted_by_the_ridge_probe(of):
    """One image in twenty is of the group: least squares would give nobody to it, and no leak would show."""
    rng = np.random.default_rng(0)
    labels = (np.arange(600) < 30).astype(np.int32)
    x = rng.normal(size=(600, 12))
    x[:, 0] += 2.5 * labels
    found = embedding.linear_probe(of(x), Groups(labels, ("many", "few")), method="ridge", permutations=19)
    assert found.auc.value > 0.9
    assert found.balanced_accuracy.value > 0.8
    assert found.balanced_accuracy.p_value == 0.05
    assert 0.4 < found.balanced_accuracy.null_mean < 0.6


def test_the_ridge_probe_ranks_as_least_squares_does():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 90)
    x, asked = rng.normal(size=(90, 5)) + labels[:, None], rng.normal(size=(40, 5))
    scores = ridge_scores(x, labels[None], asked, 3, 1.0)[0][0]
    standard = (x - x.mean(axis=0)) / x.std(axis=0), (asked - x.mean(axis=0)) / x.std(axis=0)
    plain = Ridge(alpha=0.9).fit(standard[0], np.eye(3)[labels])
    for group in range(3):
        assert np.corrcoef(scores[:, group], plain.predict(standard[1])[:, group])[0, 1] == pytest.approx(1)
        trained = ridge_scores(x, labels[None], x, 3, 1.0)[0][0][:, group]
        assert trained[labels == group].mean() == pytest.approx(0.5)
        assert trained[labels != group].mean() == pytest.approx(-0.5)
