"""Every retrieval metric: hand-worked values, plain-loop brute force, ties, variants, errors."""

from fractions import Fraction
from importlib import import_module
from itertools import pairwise, permutations
from math import floor, inf, log, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure import retrieval as r

M, F = 0, 1


def top5():
    """A pool of 6 M and 4 F whose top 5 is M M M M F."""
    groups = r.Groups(np.array([M, M, M, M, F, M, M, F, F, F]), ("M", "F"))
    return r.Scores([[10, 9, 8, 7, 6, 5, 4, 3, 2, 1]]), groups


class TestAnchors:
    def test_skew_and_bias(self):
        source, groups = top5()
        found = r.evaluate(source, groups, k=5, pair=("M", "F"))
        assert found.by_group["skew"][0] == pytest.approx([0.28768, -0.69315], abs=1e-5)
        assert found.values["max_skew"][0] == pytest.approx(0.28768, abs=1e-5)
        assert found.values["bias_at_k"][0] == pytest.approx(0.6, abs=1e-12)
        uniform = r.evaluate(source, groups, k=5, desired="uniform")
        assert uniform.values["max_skew"][0] == pytest.approx(0.47000, abs=1e-5)

    @pytest.mark.parametrize(("zero", "value"), [("skip", 0.10536), ("one_over_k", 0.69315)])
    def test_zero_rules(self, zero, value):
        assert r.max_skew([5, 0], [0.9, 0.1], zero=zero) == pytest.approx(value, abs=1e-5)

    @pytest.mark.parametrize(
        ("function", "ranked", "desired", "value"),
        [
            (r.ndkl, [0, 0, 0, 0, 1], [0.6, 0.4], 0.45581),
            (r.ndkl, [0, 0, 0, 0, 1], [0.5, 0.5], 0.62749),
            (r.intel_ndkl, [0, 0, 0, 0, 1], [0.6, 0.4], 0.25255),
            (r.ndkl, [0, 1, 2, 0, 1, 2], [1 / 3] * 3, 0.42264),
            (r.intel_ndkl, [0, 1, 2, 0, 1, 2], [1 / 3] * 3, 0.14934),
        ],
    )
    def test_ndkl(self, function, ranked, desired, value):
        assert function(ranked, desired) == pytest.approx(value, abs=1e-5)

    def test_infeasible_index_of_a_fair_and_an_unfair_list(self):
        # floor(.6 i), floor(.4 i): (0,0) (1,0) (1,1) (2,1) (3,2); group 1 is short at i = 3, 4, 5
        assert r.infeasible_index([0, 0, 0, 0, 1], [0.6, 0.4]) == 3
        assert r.infeasible_count([0, 0, 0, 0, 1], [0.6, 0.4]) == 3
        assert r.infeasible_index([0, 1, 0, 1, 0], [0.6, 0.4]) == 0
        # 0.29 * 100 is 28.999999999999996 in floating point, but 29 are due
        ranked, due = [0] * 28 + [1] * 72, [Fraction(29, 100), Fraction(71, 100)]
        short = [[g for g in (0, 1) if ranked[:i].count(g) < floor(due[g] * i)] for i in range(1, 101)]
        assert short[-1] == [0]
        assert r.infeasible_index(ranked, [0.29, 0.71]) == sum(map(bool, short))
        assert r.infeasible_count(ranked, [0.29, 0.71]) == sum(map(len, short))

    def test_exposure_by_hand(self):
        weights = [1, 1 / log2(3), 1 / 2]
        share = r.exposure([0, 1, 1], 2)
        assert share == pytest.approx([weights[0] / sum(weights), (weights[1] + weights[2]) / sum(weights)])
        assert r.exposure_gap([0, 1, 1], [0.5, 0.5]) == pytest.approx(abs(share[0] - 0.5))
        assert r.exposure_ratio([0, 1, 1], [1 / 3, 2 / 3]) == pytest.approx((share[1] / 2) / share[0])
        assert r.exposure([0, 1, 1], 2, kind="uniform") == pytest.approx([1 / 3, 2 / 3])
        assert r.exposure([0, 1, 1], 2, kind="geometric:0.5") == pytest.approx([4 / 7, 3 / 7])


def brute(ranked, everyone, pool, n_groups, k, depth, desired, zero_max, zero_min, pair):
    """Every metric of one query, by the definitions, with loops.

    ``ranked``: labels of the labelled images, best first; ``everyone``: of all images, -1 for undefined.
    """
    d = [desired[g] if desired is not None else pool[g] / sum(pool) for g in range(n_groups)]
    top = ranked[:k]
    size = len(top)
    counts = [top.count(g) for g in range(n_groups)]
    out = {"representation": [c / size for c in counts]}

    def skew(g, rule):
        if rule.startswith("laplace"):
            eps = float(rule.split(":")[1])
            return log((counts[g] + eps) / (size + eps * sum(x > 0 for x in d)) / d[g])
        if counts[g]:
            return log(counts[g] / size / d[g])
        return {"skip": -inf, "zero": 0.0, "one_over_k": log(1 / size / d[g])}[rule]

    live = [g for g in range(n_groups) if d[g] > 0]
    out["max_skew"] = max(skew(g, zero_max) for g in live)
    finite = [skew(g, zero_min) for g in live if skew(g, zero_min) > -inf]
    out["min_skew"] = min(finite)
    out["absent_groups"] = sum(1 for g in live if not counts[g])
    out["skew"] = [skew(g, zero_max) if g in live else None for g in range(n_groups)]

    total = weight = 0.0
    for i in range(1, min(depth, len(ranked)) + 1):
        kl = 0.0
        for g in live:
            p = ranked[:i].count(g) / i
            kl += p * log(p / d[g]) if p else 0.0
        total += kl / log2(i + 1)
        weight += 1 / log2(i + 1)
    out["ndkl"] = total / weight

    attention = [1 / log2(i + 2) for i in range(size)]
    seen = [sum(attention[i] for i in range(size) if top[i] == g) / sum(attention) for g in range(n_groups)]
    out["exposure"] = seen
    out["exposure_gap"] = sum(abs(seen[g] - d[g]) for g in range(n_groups)) / 2
    each = [seen[g] / d[g] for g in live]
    out["exposure_ratio"] = min(each) / max(each)
    index = count = 0
    for i in range(1, size + 1):
        short = [g for g in live if top[:i].count(g) < floor(d[g] * i + 1e-9)]
        index += bool(short)
        count += len(short)
    out["infeasible_index"], out["infeasible_count"] = index, count

    if pair is not None:
        a, b = (everyone[:k].count(g) for g in pair)
        out["bias_at_k"] = (a - b) / (a + b) if a + b else 0.0
        out["abs_bias_at_k"] = abs(out["bias_at_k"])
        out["bias_count_at_k"] = (a - b) / len(everyone[:k])
    return out


def agree(found, place, expected):
    for name, value in expected.items():
        if name in found.by_group:
            got = found.by_group[name][place]
            for g, one in enumerate(value):
                if one is None:
                    assert np.isnan(got[g])
                else:
                    assert got[g] == pytest.approx(one, abs=1e-9)
        else:
            assert found.values[name][place] == pytest.approx(value, abs=1e-9), name


@st.composite
def tasks(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_groups = draw(st.sampled_from([1, 2, 3, 12, 42]))
    n_images, n_queries = int(rng.integers(1, 120)), int(rng.integers(1, 6))
    if n_groups == 42:
        axes = [r.Groups(rng.integers(-1, n, n_images), tuple(f"{n}{i}" for i in range(n))) for n in (7, 3, 2)]
        groups = r.intersect(*axes)
    else:
        # some groups stay empty
        labels = rng.integers(-1, max(1, n_groups - draw(st.integers(0, 1))), n_images)
        groups = r.Groups(labels, tuple(str(g) for g in range(n_groups)))
    scores = rng.integers(0, draw(st.sampled_from([2, 10, 1000])), (n_queries, n_images)).astype(float)
    return {
        "groups": groups,
        "scores": scores,
        "k": int(rng.integers(1, 40)),
        "depth": draw(st.sampled_from([None, 1, 7, 500])),
        "pools": rng.integers(0, 3, n_queries) if draw(st.booleans()) else None,
        "image_pools": rng.integers(0, 3, n_images),
        "desired": draw(st.sampled_from(["pool", "uniform", "custom"])),
        "zero": draw(st.sampled_from(["skip", "one_over_k", "zero", "laplace:0.5", "laplace:2"])),
        "order": draw(st.sampled_from(["stable", "reverse"])),
        "rng": rng,
    }


@settings(deadline=None)
@given(task=tasks())
def test_every_metric_equals_a_plain_loop(task):
    groups, scores, k = task["groups"], task["scores"], task["k"]
    n_groups = groups.n_groups
    desired, shares = task["desired"], None
    if desired == "custom":
        shares = desired = task["rng"].dirichlet(np.ones(n_groups))
    elif desired == "uniform":
        shares = np.full(n_groups, 1 / n_groups)
    candidates = None
    if task["pools"] is not None:
        candidates = r.Candidates(task["image_pools"], task["pools"])
    pair = (groups.names[0], groups.names[1]) if n_groups > 1 else None
    seen = np.ones(scores.shape, bool) if candidates is None else task["pools"][:, None] == task["image_pools"]
    zero_min = "laplace:0.5" if task["zero"] == "skip" else task["zero"]

    def call():
        return r.evaluate(
            r.Scores(scores),
            groups,
            k=k,
            depth=task["depth"],
            pair=pair,
            desired=desired,
            zero=task["zero"],
            zero_min=zero_min,
            ties=task["order"],
            candidates=candidates,
        )

    if not (seen & groups.defined).any():
        with pytest.raises(InputError, match="no query has a labelled image"):
            call()
        return
    found = call()
    sign = -1 if task["order"] == "reverse" else 1
    measured = 0
    for q, row in enumerate(scores):
        order = sorted(np.flatnonzero(seen[q]), key=lambda j: (-row[j], sign * j))
        everyone = [int(groups.labels[j]) for j in order]
        ranked = [label for label in everyone if label >= 0]
        if not ranked:
            assert q not in found.queries
            continue
        expected = brute(
            ranked,
            everyone,
            [ranked.count(g) for g in range(n_groups)],
            n_groups,
            k,
            task["depth"] or k * k,
            shares,
            task["zero"],
            zero_min,
            None if pair is None else (0, 1),
        )
        agree(found, found.queries.tolist().index(q), expected)
        measured += 1
    assert measured == len(found.queries)
    assert found.dropped["query without a labelled image in its pool"] == len(scores) - measured


@pytest.mark.parametrize("n_groups", [3, 4])
def test_a_label_beyond_the_groups_is_refused(n_groups):
    with pytest.raises(InputError, match=f"label 5, but there are {n_groups} groups"):
        r.group_counts(np.array([[0, 5], [1, 1]]), n_groups)


def test_a_list_measured_in_parts_is_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    groups = r.Groups(rng.integers(-1, 4, 300), tuple("abcd"))
    scores = rng.random((50, 300))
    pools = r.Candidates(rng.integers(0, 5, 300), rng.integers(0, 5, 50))
    targets = np.array([rng.choice(np.flatnonzero(pools.image_pool == p)) for p in pools.query_pool])
    whole = r.evaluate(r.Scores(scores), groups, k=7, pair=("a", "b"), candidates=pools, targets=targets)
    # the package has a function of the same name
    monkeypatch.setattr(import_module("equipoise.measure.retrieval.evaluate"), "LIST_CELLS", 49 * 7)
    parts = r.evaluate(r.Scores(scores), groups, k=7, pair=("a", "b"), candidates=pools, targets=targets)
    for name in whole.values:
        assert (parts.values[name] == whole.values[name]).all()
    assert (parts.ranks == whole.ranks).all()
    assert parts.mean_kl_curve == pytest.approx(whole.mean_kl_curve)
    assert parts.notes == whole.notes


class TestTies:
    def test_expected_counts_are_the_mean_over_all_orders_of_equal_scores(self):
        rng = np.random.default_rng(3)
        for _ in range(20):
            labels = rng.integers(-1, 3, 6).astype(np.int32)
            if (labels >= 0).sum() < 2:
                continue
            groups = r.Groups(labels, tuple("abc"))
            scores = rng.integers(0, 3, 6).astype(float)
            k = int(rng.integers(1, 5))
            found = r.evaluate(
                r.Scores(scores[None]),
                groups,
                k=k,
                pair=("a", "b"),
                ties="expected",
                desired="uniform",
                zero_min="skip",
            )
            orders = [
                order for order in permutations(range(6)) if all(scores[a] >= scores[b] for a, b in pairwise(order))
            ]
            tops = [[labels[j] for j in order if labels[j] >= 0][:k] for order in orders]
            share = np.array([[top.count(g) / len(top) for g in range(3)] for top in tops]).mean(axis=0)
            assert found.by_group["representation"][0] == pytest.approx(share, abs=1e-12)
            assert found.values["max_skew"][0] == pytest.approx(log(max(share) * 3), abs=1e-9)
            exposure = np.mean([r.exposure(np.array(top), 3) for top in tops], axis=0)
            assert found.by_group["exposure"][0] == pytest.approx(exposure, abs=1e-12)
            both = np.array([[[labels[j] for j in order][:k].count(g) for g in (0, 1)] for order in orders]).mean(
                axis=0
            )
            bias = (both[0] - both[1]) / both.sum() if both.sum() else 0.0
            assert found.values["bias_at_k"][0] == pytest.approx(bias, abs=1e-12)

    def test_expected_equals_stable_without_ties(self):
        rng = np.random.default_rng(4)
        groups = r.Groups(rng.integers(-1, 5, 200), tuple("abcde"))
        scores = rng.random((30, 200))
        stable = r.evaluate(r.Scores(scores), groups, k=9, pair=("a", "c"))
        expected = r.evaluate(r.Scores(scores), groups, k=9, pair=("a", "c"), ties="expected")
        for name, values in stable.values.items():
            assert expected.values[name] == pytest.approx(values, abs=1e-9), name

    def test_the_curve_of_shared_ranks_is_that_of_their_ndkl(self):
        groups = r.Groups(np.array([0, 0, 1, 1]), ("a", "b"))
        tied = r.evaluate(r.Scores([[1.0] * 4]), groups, k=2, metrics=["ndkl"], ties="expected")
        assert tied.mean_kl_curve == pytest.approx([0] * 4)
        distinct = r.evaluate(r.Scores([[4.0, 3.0, 2.0, 1.0]]), groups, k=2, metrics=["ndkl"], ties="expected")
        assert distinct.mean_kl_curve == pytest.approx(r.kl_curve([0, 0, 1, 1], [0.5, 0.5]))
        with pytest.raises(InputError, match="group 1 the share 0 but it was retrieved"):
            r.evaluate(r.Scores([[1.0] * 4]), groups, k=2, metrics=["ndkl"], ties="expected", desired=[1.0, 0.0])

    def test_a_full_tie_is_parity(self):
        groups = r.Groups(np.array([0] * 60 + [1] * 40), ("a", "b"))
        found = r.evaluate(r.Scores(np.zeros((1, 100))), groups, k=10, ties="expected")
        assert found.values["max_skew"][0] == pytest.approx(0, abs=1e-12)
        assert found.values["ndkl"][0] == pytest.approx(0, abs=1e-12)
        assert any("tie" in note for note in found.notes)

    @pytest.mark.parametrize("ties", ["stable", "reverse", "expected", "keep_all"])
    def test_an_order_of_ties_is_the_order_of_the_rows(self, ties):
        rng = np.random.default_rng(5)
        scores, labels = rng.integers(0, 4, (6, 50)).astype(float), rng.integers(-1, 3, 50)
        rows = rng.permutation(50)
        places = np.empty(50, dtype=int)
        places[rows] = np.arange(50)
        options = {"k": 7, "depth": 7, "pair": ("a", "b"), "ties": ties}
        mine = r.evaluate(r.Scores(scores), r.Groups(labels, tuple("abc")), tie_order=places, **options)
        moved = r.evaluate(r.Scores(scores[:, rows]), r.Groups(labels[rows], tuple("abc")), **options)
        for name, values in moved.values.items():
            assert mine.values[name] == pytest.approx(values), name
        assert (mine.indices == np.append(rows, -1)[moved.indices]).all()

    def test_an_order_of_small_whole_numbers_can_be_reversed(self):
        groups = r.Groups(np.array([0, 1, 0, 1]), ("a", "b"))
        for places in (np.arange(4, dtype=np.uint8), np.array([-128, 0, 1, 2], dtype=np.int8)):
            found = r.evaluate(r.Scores([[1.0] * 4]), groups, k=4, ties="reverse", tie_order=places)
            assert found.indices.tolist() == [[3, 2, 1, 0]]

    def test_ties_shared_out_have_no_null(self):
        groups = r.Groups(np.arange(40) % 2, ("a", "b"))
        tied = r.evaluate(r.Scores(np.arange(80).reshape(2, 40) // 4), groups, k=5, ties="expected")
        assert tied.shared_ties == 2
        with pytest.raises(InputError, match="break ties by tie_order"):
            r.chance(tied, draws=20)
        distinct = r.evaluate(r.Scores(np.random.default_rng(0).random((2, 40))), groups, k=5, ties="expected")
        assert r.chance(distinct, draws=20).draws == 20

    def test_keep_all_takes_every_image_that_ties_with_the_last(self):
        groups = r.Groups(np.array([0, 0, 1, 1, 1, 0]), ("a", "b"))
        scores = [[5.0, 4.0, 3.0, 3.0, 3.0, 1.0]]
        found = r.evaluate(r.Scores(scores), groups, k=3, depth=3, ties="keep_all", pair=("a", "b"))
        assert found.by_group["representation"][0] == pytest.approx([2 / 5, 3 / 5])
        assert found.values["bias_at_k"][0] == pytest.approx(-1 / 5)
        with pytest.raises(InputError, match="keep_all"):
            r.evaluate(r.Scores(scores), groups, k=2, ties="keep_all")


class TestVariants:
    def test_berg_keeps_ties_divides_by_k_and_never_goes_below_zero(self):
        groups = r.Groups(np.array([0, 0, 1, 1, 1, 0]), ("a", "b"))
        found = r.evaluate(r.Scores([[5.0, 4.0, 3.0, 3.0, 3.0, 1.0]]), groups, k=3, variant="berg")
        # counts 2 and 3 over K = 3, uniform: ln((3/3)/.5)
        assert found.values["max_skew"][0] == pytest.approx(log(2))
        # rows 4 and 5 add to the sum, the weights are those of rows 1 to 3
        ranked = [0, 0, 1, 1, 1]
        curve = [sum(p * log(2 * p) for g in (0, 1) if (p := ranked[:i].count(g) / i)) for i in range(1, 6)]
        total = sum(kl / log2(i + 2) for i, kl in enumerate(curve))
        assert found.values["ndkl"][0] == pytest.approx(total / sum(1 / log2(i + 2) for i in range(3)))
        few = r.Groups(np.array([0, 1]), ("a", "b"))
        # K > N: 1/10 and 1/10 of ten slots: the largest skew is negative and clipped
        assert r.evaluate(r.Scores([[1.0, 0.0]]), few, k=10, variant="berg").values["max_skew"][0] == 0.0

    def test_berg_counts_an_absent_group_as_one_over_k(self):
        groups = r.Groups(np.array([0] * 9 + [1]), ("a", "b"))
        scores = [np.arange(10.0)[::-1]]
        found = r.evaluate(r.Scores(scores), groups, k=5, variant="berg", desired="pool")
        assert found.values["max_skew"][0] == pytest.approx(log((1 / 5) / 0.1))

    def test_gensynth_breaks_ties_from_the_end_and_uses_a_small_pool_whole(self):
        groups = r.Groups(np.array([0, 0, 1, 1, -1]), ("m", "f"))
        found = r.evaluate(r.Scores(np.zeros((1, 5))), groups, k=2, variant="gensynth", pair=("m", "f"))
        assert found.values["max_skew"][0] == pytest.approx(log(2))
        assert found.by_group["representation"][0].tolist() == [0.0, 1.0]
        # the last image has no label and keeps its slot, so one f is left of the two
        assert found.values["bias_at_k"][0] == -1.0
        whole = r.evaluate(r.Scores(np.zeros((1, 5))), groups, k=99, variant="gensynth", pair=("m", "f"))
        assert whole.values["max_skew"][0] == pytest.approx(0, abs=1e-12)
        assert any("fewer than K = 99" in note for note in whole.notes)
        with pytest.raises(UnknownNameError, match="metric of the variant 'gensynth'"):
            r.evaluate(r.Scores(np.zeros((1, 5))), groups, k=2, variant="gensynth", metrics=["min_skew"])

    def test_intel_code(self):
        source, groups = top5()
        found = r.evaluate(source, groups, k=5, depth=5, variant="intel_code")
        assert found.values["ndkl"][0] == pytest.approx(0.25255, abs=1e-5)
        # image 0 is among the five: (1 - 4) / 5
        assert found.values["bias_at_k"][0] == pytest.approx(-0.6)
        lone = r.Groups(np.array([0] * 9 + [1]), ("a", "b"))
        skewed = r.evaluate(r.Scores([np.arange(10.0)[::-1]]), lone, k=5, variant="intel_code")
        assert skewed.by_group["skew"][0] == pytest.approx([log(1 / 0.9), 0.0])
        assert skewed.values["min_skew"][0] == 0.0
        with pytest.raises(InputError, match="refuses"):
            r.evaluate(source, groups, k=11, variant="intel_code")

    def test_intel_ndkl_is_at_most_one_over_e_and_can_be_negative(self):
        rng = np.random.default_rng(0)
        lists = r.random_rankings([30] * 12, 144, 300, rng)
        values = r.intel_ndkl(lists, np.full(12, 1 / 12))
        assert values.max() < 1 / np.e
        assert r.ndkl(lists, np.full(12, 1 / 12)).min() > values.max() / 2
        ranked, share = [0, 1, 2, 2, 1, 0, 0], [0.2, 0.5, 0.3]
        total = weight = 0.0
        for i in range(1, 8):
            present = [g for g in range(3) if g in ranked[:i]]
            total += sum(share[g] * log(ranked[:i].count(g) / i / share[g]) for g in present) / log2(i + 1)
            weight += 1 / log2(i + 1)
        assert r.intel_ndkl(ranked, share) == pytest.approx(total / weight, abs=1e-12)

    def test_visogender(self):
        source, groups = top5()
        found = r.evaluate(source, groups, k=5, variant="visogender", pair=("M", "F"))
        assert found.values["bias_count_at_k"][0] == pytest.approx(0.6)
        assert found.recipe.depth == 10
        lone = r.Groups(np.array([0] * 9 + [1]), ("M", "F"))
        skewed = r.evaluate(r.Scores([np.arange(10.0)[::-1]]), lone, k=5, variant="visogender")
        assert skewed.values["max_skew"][0] == pytest.approx(log(2))

    def test_undefined_images_leave_the_skew_list_and_keep_bias_slots(self):
        groups = r.Groups(np.array([-1, 0, -1, 0, 1, 1]), ("m", "f"))
        found = r.evaluate(r.Scores([[6, 5, 4, 3, 2, 1]]), groups, k=3, pair=("m", "f"))
        assert found.by_group["representation"][0] == pytest.approx([2 / 3, 1 / 3])
        assert found.values["bias_at_k"][0] == 1.0
        assert found.values["bias_count_at_k"][0] == pytest.approx(1 / 3)


class TestRecall:
    def test_by_hand(self):
        groups = r.Groups.from_values(["a", "a", "b", "b", None])
        found = r.recall_by_group([1, 7, 3, 4, 1], groups, 5, draws=200)
        assert {name: e.value for name, e in found.by_group.items()} == {"a": 0.5, "b": 1.0}
        assert (found.gap.value, found.highest, found.lowest) == (0.5, "b", "a")
        assert found.gap.dropped["query of an undefined group"] == 1
        assert r.mrr_by_group([1, 2, 4, 4, 1], groups, draws=50).gap.value == pytest.approx(0.5)
        assert r.median_rank_by_group([1, 2, 4, 40, 1], groups, draws=50).gap.value == 20.5

    @settings(deadline=None, max_examples=examples(30))
    @given(st.integers(0, 10**6))
    def test_medians_and_means_equal_numpy(self, seed):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 60))
        groups = r.Groups(np.append(rng.integers(-1, 3, n - 2), [0, 1]), tuple("abc"))
        ranks = rng.integers(1, 30, n)
        median = r.median_rank_by_group(ranks, groups, draws=5).by_group
        mean = r.recall_by_group(ranks, groups, 7, draws=5).by_group
        for g, name in enumerate("abc"):
            mine = ranks[groups.labels == g]
            if len(mine):
                assert median[name].value == np.median(mine)
                assert mean[name].value == pytest.approx((mine <= 7).mean())

    def test_captions_of_one_image_are_shuffled_together(self):
        # 8 images with 5 equal captions each: the gap's p-value must be that of 8 things, not of 40
        labels = np.repeat([0, 0, 0, 0, 1, 1, 1, 1], 5)
        hits = np.repeat([1, 1, 1, 1, 2, 2, 2, 2], 5)
        groups = r.Groups(labels, ("a", "b"))
        together = r.recall_by_group(hits, groups, 1, clusters=np.repeat(np.arange(8), 5), draws=2000)
        assert together.gap.p_value == pytest.approx(2 / 70, abs=0.012)
        assert r.recall_by_group(hits, groups, 1, draws=500).gap.p_value < 0.01
        with pytest.raises(InputError, match="two groups"):
            r.recall_by_group(hits, groups, 1, clusters=np.zeros(40))

    def test_images_of_one_source_are_shuffled_and_drawn_together(self):
        # 8 people with 5 images each, all found or none: eight things, of which 2 in 70 splits are as uneven
        people, hits = np.repeat(np.arange(8), 5), np.repeat([1, 1, 1, 1, 2, 2, 2, 2], 5)
        groups = r.Groups(np.repeat([0, 0, 0, 0, 1, 1, 1, 1], 5), ("a", "b"))
        found = r.recall_by_group(hits, groups, 1, clusters=np.arange(40), sources=people, draws=2000)
        assert found.gap.p_value == pytest.approx(2 / 70, abs=0.012)
        same = r.recall_by_group(hits, groups, 1, clusters=people, draws=1)
        assert (found.by_group, found.gap.ci_low) == (same.by_group, same.gap.ci_low)
        with pytest.raises(InputError, match="two sources"):
            r.recall_by_group(hits, groups, 1, clusters=people, sources=np.arange(40))

    def test_labels_of_sets_that_show_several_groups_move_inside_them(self):
        # 5 sets of twins, the first found and the second not: 2 in 32 exchanges are as uneven
        sets, groups = np.repeat(np.arange(5), 2), r.Groups(np.tile([0, 1], 5), ("a", "b"))
        found = r.recall_by_group(np.tile([1, 2], 5), groups, 1, sources=sets, shuffle_within=sets, draws=3000)
        assert found.gap.p_value == pytest.approx(2 / 32, abs=0.015)

    def test_ranks_agree_with_recall_from_a_top_k(self):
        rng = np.random.default_rng(8)
        scores = rng.integers(0, 20, (40, 90)).astype(float)
        targets = rng.integers(0, 90, 40)
        groups = r.Groups(np.zeros(90, dtype=int), ("a",))
        found = r.evaluate(r.Scores(scores), groups, k=5, targets=targets)
        in_top = (r.rank(r.Scores(scores), 5).indices == targets[:, None]).any(axis=1)
        assert (r.recall_at_k(found.ranks, 5) == in_top).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s, g: r.evaluate(s, g, k=0), "k = 0"),
        (lambda s, g: r.evaluate(s, g, k=5, depth=0), "depth = 0"),
        (lambda s, g: r.evaluate(s, g.take([0, 1, 2, 3]), k=5), "4 entries for 10 images"),
        (lambda s, g: r.evaluate(s, g, k=5, pair=("M", "X")), "no group named 'X'"),
        (lambda s, g: r.evaluate(s, g, k=5, metrics=["bias_at_k"]), "needs a pair"),
        (lambda s, g: r.evaluate(s, g, k=5, metrics=["max_skw"]), "max_skew"),
        (lambda s, g: r.evaluate(s, g, k=5, variant="Berg2"), "did you mean 'berg'"),
        (lambda s, g: r.evaluate(s, g, k=5, ties="none"), "no rule for ties named"),
        (lambda s, g: r.evaluate(s, g, k=5, desired=[0.5, 0.6]), "sum to 1"),
        (lambda s, g: r.evaluate(s, g, k=5, desired=[1.0]), "for 2 groups"),
        (lambda s, g: r.evaluate(s, g, k=5, desired=[1.0, 0.0]), "share 0"),
        (lambda s, g: r.evaluate(s, g, k=5, desired="even"), "no desired distribution"),
        (lambda s, g: r.evaluate(s, g, k=5, desired=[[0.5, 0.5]]), "the same for all queries"),
        (lambda s, g: r.desired_shares([[0.5, 0.5]] * 2, [[1, 2]] * 3), r"\(2, 2\) and pool_counts \(3, 2\)"),
        (lambda s, g: r.evaluate(s, g, k=5, zero="laplace:x"), "laplace:0.5"),
        (lambda s, g: r.evaluate(s, g, k=5, zero="nought"), "no rule for a group that is absent"),
        (lambda s, g: r.evaluate(s, g, k=5, attention="linear"), "no attention named"),
        (lambda s, g: r.evaluate(s, g, k=5, attention="geometric:2"), "between 0 and 1"),
        (lambda s, g: r.evaluate(s, r.Groups(np.full(10, -1), ("a",)), k=5), "no query has a labelled image"),
        (lambda s, g: r.ndkl([0, -1, 1], [0.5, 0.5]), "remove undefined"),
        (lambda s, g: r.ndkl([0.5], [0.5, 0.5]), "integers"),
        (lambda s, g: r.ndkl([0, 3], [0.5, 0.5]), "label 3"),
        (lambda s, g: r.ndkl([0, 1], [1.0, 0.0]), "share 0"),
        (lambda s, g: r.ndkl([-2, -2], [0.5, 0.5]), "no ranked image"),
        (lambda s, g: r.max_skew([0, 0], [0.5, 0.5]), "k = 0"),
        (lambda s, g: r.bias_at_k([1, 2], 0, 0), "two different groups"),
        (lambda s, g: r.recall_at_k([1], 0), "k = 0"),
        (lambda s, g: r.recall_at_k([0], 1), "below 1"),
    ],
)
def test_bad_input_is_a_sentence(call, words):
    with pytest.raises(InputError, match=words):
        call(*top5())
