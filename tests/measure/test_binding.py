"""Binding metrics (GABInsight) against plain loops, the published layout and the released code's tie rules."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure import binding
from equipoise.measure.stats.shares import pair_probability

seeds = st.integers(0, 2**32 - 1)

# images in E1, E2, U1, U2 of the 37 activities of GAB: stereotypical, everyday, LAION-400M
GAB = {
    "stereotypical": [
        (43, 35, 43, 45), (38, 48, 41, 30), (41, 28, 41, 43), (40, 34, 37, 32), (47, 55, 48, 35), (44, 34, 39, 30),
        (38, 42, 41, 34), (41, 54, 38, 34), (43, 33, 55, 38), (44, 38, 39, 32), (38, 30, 29, 44), (36, 44, 35, 27),
    ],
    "everyday": [
        (40, 33, 42, 35), (48, 46, 49, 31), (37, 40, 37, 36), (56, 31, 49, 41), (39, 38, 30, 28), (41, 30, 45, 40),
        (38, 40, 28, 36), (37, 36, 43, 40), (42, 37, 42, 32), (43, 46, 37, 37), (59, 64, 46, 27), (42, 41, 39, 41),
        (44, 30, 33, 42), (61, 31, 38, 59), (39, 41, 39, 42),
    ],
    "laion": [
        (44, 26, 33, 31), (33, 38, 44, 46), (36, 32, 54, 31), (28, 29, 30, 42), (27, 28, 34, 42), (31, 31, 101, 41),
        (54, 31, 31, 44), (32, 32, 42, 37), (31, 29, 32, 30), (31, 31, 34, 32),
    ],
}  # fmt: skip


def gab_scenes():
    activity, scenario, category = [], [], {}
    for name, cells in GAB.items():
        for i, counts in enumerate(cells):
            category[f"{name}{i}"] = name
            for cell, count in zip(binding.SCENARIOS, counts, strict=True):
                activity += [f"{name}{i}"] * count
                scenario += [cell] * count
    return binding.Scenes.of(activity, scenario, category)


def random_scenes(rng, n_activities, n):
    activity = [f"a{i}" for i in rng.integers(0, n_activities, n)]
    scenario = [binding.SCENARIOS[i] for i in rng.integers(0, 4, n)]
    category = {f"a{i}": f"c{i % 2}" for i in range(n_activities)}
    expected = {f"a{i}": ("man", "woman")[i % 2] for i in range(n_activities)}
    return binding.Scenes.of(activity, scenario, category, expected)


def test_the_layout_of_gab():
    scenes = gab_scenes()
    assert len(scenes.activities) == 37
    counts = {s: int((scenes.scenario == s).sum()) for s in binding.SCENARIOS}
    assert counts == {"E1": 1506, "E2": 1366, "U1": 1518, "U2": 1367}
    assert min(len(scenes.where(a, s)) for a in scenes.activities for s in binding.SCENARIOS) == 26
    scores = np.random.default_rng(0).random(len(scenes))
    assert binding.sampled_pairs(scenes, scores, people=1, repeats=1).n_pairs == 1364
    assert binding.sampled_pairs(scenes, scores, people=2, repeats=1).n_pairs == 1186
    found = binding.image_to_text(scenes, scores, scores[::-1])
    assert {c: e.n for c, e in found.accuracy["U2"].by_category.items()} == {
        "stereotypical": 12,
        "everyday": 15,
        "laion": 10,
        "all": 37,
    }


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(1, 5), st.integers(1, 60), st.sampled_from(["wrong", "half"]))
def test_image_to_text_matches_a_plain_loop(seed, n_activities, n, ties):
    rng = np.random.default_rng(seed)
    scenes = random_scenes(rng, n_activities, n)
    true, other = rng.integers(0, 3, n) / 10, rng.integers(0, 3, n) / 10
    found = binding.image_to_text(scenes, true, other, ties=ties)
    worth = {"wrong": 0.0, "half": 0.5}[ties]
    cells = {}
    for i in range(n):
        value = 1.0 if true[i] > other[i] else worth if true[i] == other[i] else 0.0
        cells.setdefault((scenes.activity[i], scenes.scenario[i]), []).append(value)
    accuracy = {key: sum(v) / len(v) for key, v in cells.items()}
    for scenario in binding.SCENARIOS:
        here = {a: v for (a, s), v in accuracy.items() if s == scenario}
        if not here:
            assert scenario not in found.accuracy
            continue
        got = found.accuracy[scenario]
        assert {a: e.value for a, e in got.by_activity.items()} == pytest.approx(here, abs=1e-9)
        assert got.overall.value == pytest.approx(sum(here.values()) / len(here), abs=1e-9)
        for category in ("c0", "c1"):
            members = [v for a, v in here.items() if scenes.category_of[a] == category]
            if members:
                assert got.by_category[category].value == pytest.approx(sum(members) / len(members), abs=1e-9)
            else:
                assert category not in got.by_category
    for drop, (first, second) in ((found.presence_drop, ("U1", "U2")), (found.binding_drop, ("E2", "U2"))):
        both = [a for a in scenes.activities if (a, first) in accuracy and (a, second) in accuracy]
        if not both:
            assert drop is None
            continue
        gaps = [accuracy[a, first] - accuracy[a, second] for a in both]
        assert drop.overall.value == pytest.approx(sum(gaps) / len(gaps), abs=1e-9)
        assert drop.overall.null_mean == 0.0
        for estimate in drop.by_activity.values():
            assert estimate.ci_low is None or estimate.ci_low <= estimate.value <= estimate.ci_high


def test_a_bag_of_words_model_is_at_chance_and_a_binding_model_is_not():
    scenes = gab_scenes()
    rng = np.random.default_rng(0)
    blind = binding.image_to_text(scenes, rng.random(len(scenes)), rng.random(len(scenes)))
    for scenario in binding.SCENARIOS:
        overall = blind.accuracy[scenario].overall
        assert overall.null_mean == 0.5
        assert overall.ci_low < 0.5 < overall.ci_high
        assert overall.p_value > 0.05
    # a model that goes by the stereotype: right for expected performers, wrong for unexpected ones beside someone
    right = np.isin(scenes.scenario, ["E1", "E2", "U1"]).astype(float)
    found = binding.image_to_text(scenes, right, 1 - right)
    assert found.binding_drop.overall.value == 1.0
    assert found.presence_drop.overall.value == 1.0
    assert found.binding_drop.overall.p_value < 0.001


@pytest.mark.slow
def test_drop_intervals_cover_over_activities():
    rng = np.random.default_rng(0)
    scenes = gab_scenes()
    cover = 0
    truth = {"E1": 0.9, "E2": 0.8, "U1": 0.9, "U2": 0.6}
    p = np.array([truth[name] for name in scenes.scenario])
    half = np.full(len(scenes), 0.5)
    for _ in range(20):
        drop = binding.image_to_text(scenes, (rng.random(len(scenes)) < p).astype(float), half).binding_drop
        cover += drop.overall.ci_low <= 0.2 <= drop.overall.ci_high
    assert cover >= 16


@settings(deadline=None, max_examples=examples(60))
@given(
    seeds,
    st.integers(1, 4),
    st.integers(8, 60),
    st.sampled_from(["expected", "unexpected", "neutral"]),
    st.sampled_from([1, 2]),
)
def test_text_to_image_matches_all_pairs(seed, n_activities, n, caption, people):
    rng = np.random.default_rng(seed)
    scenes = random_scenes(rng, n_activities, n)
    scores = rng.integers(0, 5, n) / 10
    expected = {}
    for a in scenes.activities:
        e, u = scores[scenes.where(a, f"E{people}")], scores[scenes.where(a, f"U{people}")]
        if len(e) and len(u):
            wins = [1.0 if x > y else 0.5 if x == y else 0.0 for x in e for y in u]
            value = sum(wins) / len(wins)
            expected[a] = 1 - value if caption == "unexpected" else value
    if not expected:
        with pytest.raises(InputError, match="no activity has images in both"):
            binding.text_to_image(scenes, scores, caption=caption, people=people)
        return
    found = binding.text_to_image(scenes, scores, caption=caption, people=people)
    assert {a: e.value for a, e in found.by_activity.items()} == pytest.approx(expected, abs=1e-9)
    assert found.overall.value == pytest.approx(np.mean(list(expected.values())), abs=1e-9)
    assert found.overall.null_mean == 0.5
    lost = len(scenes.activities) - len(expected)
    assert sum(found.dropped.values()) == lost
    if caption == "neutral":
        again = binding.neutral_preference(scenes, scores, people=people)
        assert again.overall == found.overall


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(1, 4), st.integers(8, 40), st.sampled_from(["expected", "unexpected", "neutral"]))
def test_the_released_codes_rule_matches_a_plain_loop(seed, n_activities, n, caption):
    rng = np.random.default_rng(seed)
    scenes = random_scenes(rng, n_activities, n)
    scores = 0.2 + rng.integers(-3, 4, n) * 0.0009
    values = {}
    for a in scenes.activities:
        e, u = scenes.where(a, "E2"), scenes.where(a, "U2")
        outcome = []
        for i, j in zip(e, u, strict=False):
            man, woman = (i, j) if scenes.expected[a] == "man" else (j, i)
            p = round(math.exp(scores[man]) / (math.exp(scores[man]) + math.exp(scores[woman])), 3)
            chose_man = p >= 0.5
            chosen = man if chose_man else woman
            outcome.append(chosen == (j if caption == "unexpected" else i))
        if outcome:
            values[a] = sum(outcome) / len(outcome)
    if not values:
        return
    found = binding.sampled_pairs(
        scenes, scores, caption=caption, pairing="in_order", variant="round3", tie_goes_to="man"
    )
    assert {a: e.value for a, e in found.mean.by_activity.items()} == pytest.approx(values, abs=1e-9)
    assert found.repeats["all"] == pytest.approx([np.mean(list(values.values()))], abs=1e-9)


def test_random_pairs_average_to_all_pairs_and_are_seeded():
    rng = np.random.default_rng(0)
    scenes = random_scenes(rng, 3, 120)
    scores = rng.normal(size=120)
    exact = binding.text_to_image(scenes, scores)
    drawn = binding.sampled_pairs(scenes, scores, repeats=3000)
    for category, estimate in exact.by_category.items():
        spread = drawn.repeats[category].std() / math.sqrt(3000)
        assert drawn.mean.by_category[category].value == pytest.approx(estimate.value, abs=5 * spread)
    assert drawn.repeats["all"].std() > 0
    again = binding.sampled_pairs(scenes, scores, repeats=3000)
    np.testing.assert_array_equal(again.repeats["all"], drawn.repeats["all"])


def test_the_tie_band_of_three_decimals():
    # softmax of raw cosines rounded to .001: any gap below .002 is a tie
    assert binding.rounded_choice([0.0, 0.0019, -0.0019]).tolist() == [0.0, 0.0, 0.0]
    assert binding.rounded_choice([0.0021, -0.0021, 0.3]).tolist() == [1.0, -1.0, 1.0]
    gaps = np.linspace(-0.004, 0.004, 801)
    tied = gaps[binding.rounded_choice(gaps) == 0]
    assert tied.max() == pytest.approx(0.002, abs=2e-5)
    assert tied.min() == pytest.approx(-0.002, abs=2e-5)


@settings(deadline=None, max_examples=examples(40))
@given(seeds, st.integers(1, 12), st.integers(1, 12))
def test_pair_probability_matches_all_pairs_and_its_null(seed, n, m):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 4, n).astype(float), rng.integers(0, 4, m).astype(float)
    wins = [1.0 if x > y else 0.5 if x == y else 0.0 for x in a for y in b]
    found = pair_probability(a, b)
    assert found.value == pytest.approx(sum(wins) / len(wins), abs=1e-9)
    if 2 <= n <= 4 and 2 <= m <= 4:
        both = np.concatenate([a, b])
        draws = []
        for inside in itertools.combinations(range(n + m), n):
            rest = [i for i in range(n + m) if i not in inside]
            draws.append(pair_probability(both[list(inside)], both[rest]).value)
        assert found.null_sd == pytest.approx(np.std(draws), abs=1e-9)
        assert np.mean(draws) == pytest.approx(0.5, abs=1e-9)


@settings(deadline=None, max_examples=examples(40))
@given(seeds, st.integers(2, 4), st.integers(2, 4), st.integers(1, 3))
def test_whole_clusters_change_sides_under_the_null(seed, n, m, each):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, (n + m, each)).astype(float)
    keys = np.repeat(np.arange(n + m), each)
    plain = pair_probability(values[:n].ravel(), values[n:].ravel())
    found = pair_probability(values[:n].ravel(), values[n:].ravel(), clusters=(keys[: n * each], keys[n * each :]))
    assert found.value == plain.value
    draws = []
    for inside in itertools.combinations(range(n + m), n):
        rest = [i for i in range(n + m) if i not in inside]
        draws.append(pair_probability(values[list(inside)].ravel(), values[rest].ravel()).value)
    assert found.null_sd == pytest.approx(np.std(draws), abs=1e-9)
    if each == 1:
        assert found.p_value == pytest.approx(plain.p_value, abs=1e-9)


def test_clusters_with_values_on_both_sides_widen_the_interval_as_much_as_they_should():
    """Accepted and rejected items of one source: the error follows what repeated draws of sources show."""
    rng = np.random.default_rng(5)
    areas, errors, inside, alarms = [], [], 0, 0
    for _ in range(300):
        source = rng.normal(0, 1, 30).repeat(6)
        side = rng.random(180) < 0.5 + 0.3 * np.sign(source)  # sources lean to one side, but are on both
        scores = rng.normal(0, 1, 30).repeat(6) + rng.normal(0, 0.5, 180)
        keys = np.arange(30).repeat(6)
        found = pair_probability(scores[side], scores[~side], clusters=(keys[side], keys[~side]))
        areas.append(found.value)
        errors.append(found.null_sd)
        inside += found.ci_low <= 0.5 <= found.ci_high
        alarms += found.p_value <= 0.05
    assert np.mean(errors) == pytest.approx(np.std(areas), rel=0.1)
    assert inside >= 275  # 95% of 300 is 285
    assert alarms == 300 - inside
    apart = pair_probability(np.arange(10, 20), np.arange(10), clusters=(np.arange(10), np.arange(10)))
    assert (apart.value, apart.ci_high) == (1, 1)
    assert apart.p_value == pytest.approx(pair_probability(np.arange(10, 20), np.arange(10)).p_value, rel=0.01)


def test_clusters_are_checked():
    with pytest.raises(InputError, match="give one for each"):
        pair_probability([1.0, 2.0], [3.0, 4.0], clusters=([0], [1, 2]))
    alone = pair_probability([1.0, 2.0], [3.0, 4.0], clusters=([0, 0], [1, 2]))
    assert (alone.ci_low, alone.p_value) == (None, None)


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.tuples(st.integers(-6, 6), st.sampled_from("xyz")), min_size=1, max_size=20))
def test_text_encoder_bias_matches_a_plain_loop(items):
    margins = np.array([0.0009 * k for k, _ in items])
    categories = [c for _, c in items]
    base = np.full(len(items), 0.5)
    raw = binding.text_encoder_bias(base + margins, base, categories)
    compat = binding.text_encoder_bias(base + margins, base, categories, variant="round3")
    for name in (*sorted(set(categories)), "all"):
        inside = [k for k, c in items if name in (c, "all")]
        plain = sum(1.0 if k > 0 else 0.5 if k == 0 else 0.0 for k in inside) / len(inside)
        # 2 * .0009 < .002 <= 3 * .0009
        rounded = sum(k >= 3 for k in inside) / len(inside)
        assert raw.by_category[name].value == pytest.approx(plain, abs=1e-9)
        assert compat.by_category[name].value == pytest.approx(rounded, abs=1e-9)
    assert raw.by_category["all"].null_mean == 0.5
    assert compat.by_category["all"].null_mean is None
    assert raw.n_ties == sum(k == 0 for k, _ in items)
    assert compat.n_ties == sum(abs(k) < 3 for k, _ in items)
    assert raw.margin.value == pytest.approx(margins.mean(), abs=1e-9)
    assert raw.margin_quantiles[0.5] == pytest.approx(np.median(margins), abs=1e-9)


def plain_ranks(own, others):
    """Every order of the tied captions: ranks of the true one."""
    above = sum(o > own for o in others)
    tied = sum(o == own for o in others)
    return [above + 1 + i for i in range(tied + 1)]


@settings(deadline=None, max_examples=examples(60))
@given(seeds, st.integers(1, 3), st.integers(1, 25), st.integers(1, 6))
def test_activity_recognition_matches_a_plain_loop(seed, n_activities, n, m):
    rng = np.random.default_rng(seed)
    scenes = random_scenes(rng, n_activities, n)
    own, near = rng.integers(0, 4, n) / 4, rng.integers(0, 4, (n, m)) / 4
    exists = rng.random((n, m)) < 0.7
    exists[:, 0] = True
    blurred = np.where(exists, near, np.nan)  # what does not exist is not looked at
    expected = binding.activity_recognition(scenes, own, blurred, exists)
    favour = binding.activity_recognition(scenes, own, blurred, exists, ties="favour_true")
    for i in range(n):
        ranks = plain_ranks(own[i], near[i][exists[i]])
        captions = 1 + int(exists[i].sum())
        assert expected.values["mrr"][i] == pytest.approx(np.mean([1 / r for r in ranks]), abs=1e-9)
        assert favour.values["mrr"][i] == pytest.approx(1 / ranks[0], abs=1e-9)
        for k in (1, 3):
            assert expected.values[f"recall@{k}"][i] == pytest.approx(np.mean([r <= k for r in ranks]), abs=1e-9)
            assert favour.values[f"recall@{k}"][i] == pytest.approx(float(ranks[0] <= k), abs=1e-9)
            assert expected.chance[f"recall@{k}"][i] == pytest.approx(min(k, captions) / captions)
        assert expected.chance["mrr"][i] == pytest.approx(sum(1 / r for r in range(1, captions + 1)) / captions)
    for scenario, metrics in expected.by_scenario.items():
        for metric, found in metrics.items():
            cells = {}
            for i in np.flatnonzero(scenes.scenario == scenario):
                cells.setdefault(scenes.activity[i], []).append(
                    (expected.values[metric][i], expected.chance[metric][i])
                )
            means = {a: np.mean([v for v, _ in c]) for a, c in cells.items()}
            assert {a: e.value for a, e in found.by_activity.items()} == pytest.approx(means, abs=1e-9)
            assert found.overall.value == pytest.approx(np.mean(list(means.values())), abs=1e-9)
            chance = np.mean([np.mean([c for _, c in cell]) for cell in cells.values()])
            assert found.overall.null_mean == pytest.approx(chance, abs=1e-9)


def test_recognition_of_noise_is_at_chance():
    rng = np.random.default_rng(0)
    scenes = gab_scenes()
    found = binding.activity_recognition(scenes, rng.random(len(scenes)), rng.random((len(scenes), 9)))
    for metric, chance in (("mrr", sum(1 / r for r in range(1, 11)) / 10), ("recall@1", 0.1), ("recall@3", 0.3)):
        overall = found.by_scenario["E2"][metric].overall
        assert overall.null_mean == pytest.approx(chance)
        assert abs(overall.excess) < 4 * overall.null_sd


def test_a_k_may_be_a_whole_number_of_any_type():
    found = binding.activity_recognition(SCENES, [1.0, 2.0], [[0.5], [3.0]], ks=(1.0,))
    assert found.values["recall@1"].tolist() == [1.0, 0.0]
    assert found.chance["recall@1"].tolist() == [0.5, 0.5]


def test_one_activity_has_a_value_but_no_interval():
    scenes = binding.Scenes.of(["a"] * 6, ["E2"] * 3 + ["U2"] * 3)
    found = binding.image_to_text(scenes, [1, 1, 0, 1, 0, 0], [0.5] * 6)
    overall = found.accuracy["E2"].overall
    assert overall.value == pytest.approx(2 / 3)
    assert overall.ci_low is None
    assert "one independent unit" in overall.notes[0]
    # the activity itself has one, from its images
    assert found.accuracy["E2"].by_activity["a"].ci_low < 2 / 3 < found.accuracy["E2"].by_activity["a"].ci_high


SCENES = binding.Scenes.of(["a", "a"], ["E2", "U2"], expected={"a": "woman"})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: binding.Scenes.of(["a"], []), "activity has 1 entries and scenario 0"),
        (lambda: binding.Scenes.of([], []), "activity has 0 entries"),
        (lambda: binding.Scenes.of(["a"], ["E3"]), r"no scenario \(of image 0\) named 'E3'"),
        (lambda: binding.Scenes.of(["a", "b"], ["E1", "E1"], {"a": "x"}), "no entry for activity 'b'"),
        (lambda: binding.Scenes.of(["a"], ["E1"], {"a": "all"}), "cannot be called 'all'"),
        (lambda: binding.image_to_text(SCENES, [1.0], [1.0, 2.0]), "true_scores has 1 values where 2 are needed"),
        (lambda: binding.image_to_text(SCENES, [1.0, np.nan], [1.0, 2.0]), "true_scores is not finite"),
        (lambda: binding.text_to_image(SCENES, [1.0, 2.0], people=3), "people must be 1"),
        (lambda: binding.text_to_image(SCENES, [1.0, 2.0], people=1), "no activity has images in both E1 and U1"),
        (lambda: binding.sampled_pairs(SCENES, [1.0, 2.0], repeats=0), "repeats must be"),
        (lambda: binding.sampled_pairs(SCENES, [1.0, 2.0], tie_goes_to="mann"), "no expected performer named 'mann'"),
        (
            lambda: binding.sampled_pairs(binding.Scenes.of(["a", "a"], ["E2", "U2"]), [1.0, 2.0], tie_goes_to="man"),
            "needs scenes.expected",
        ),
        (lambda: binding.text_encoder_bias([0.1], [0.1, 0.2]), "to_unexpected has 2 values where 1"),
        (lambda: binding.text_encoder_bias([0.1], [0.1], ["a", "b"]), "categories has 2 entries for 1"),
        (lambda: binding.text_encoder_bias([], []), "to_expected needs at least 1"),
        (lambda: binding.activity_recognition(SCENES, [1.0, 2.0], [[1.0]]), r"near_scores has shape \(1, 1\)"),
        (lambda: binding.activity_recognition(SCENES, [1.0, 2.0], [[1.0], [np.nan]]), "near_scores is not finite"),
        (
            lambda: binding.activity_recognition(SCENES, [1.0, 2.0], [[1.0], [2.0]], [[True], [False]]),
            "image 1 has no near caption",
        ),
        (lambda: binding.activity_recognition(SCENES, [1.0, 2.0], [[1.0], [2.0]], ks=[0]), "ks must be"),
    ],
)
def test_degenerate_input_is_a_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_unknown_rules_are_answered_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="did you mean 'half'"):
        binding.image_to_text(SCENES, [1.0, 2.0], [2.0, 1.0], ties="hlf")
    with pytest.raises(UnknownNameError, match="did you mean 'unexpected'"):
        binding.text_to_image(SCENES, [1.0, 2.0], caption="unexpectd")
    with pytest.raises(UnknownNameError, match="round3"):
        binding.sampled_pairs(SCENES, [1.0, 2.0], variant="round")
