"""BA, DBA and multi-attribute amplification: toys, plain loops, variants by name, nulls and intervals."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy import stats as sps

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.captions import (
    attribute_sets,
    ba,
    ba_of_captions,
    dba_g,
    dba_o,
    multi_attribute_amplification,
    select_words,
)
from equipoise.measure.captions.counts import TwoSides, moved_interval
from equipoise.measure.groups import Groups

NAMES = ("man", "woman")
FEW = {"draws": 9, "replicates": 9}


def groups_of(labels, n_groups=2):
    return Groups(np.asarray(labels), tuple("abcdef"[:n_groups]) if n_groups != 2 else NAMES)


@st.composite
def scenes(draw):
    n_groups, n_tasks, n = draw(st.integers(2, 3)), draw(st.integers(1, 4)), draw(st.integers(3, 25))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    truth, said = rng.integers(-1, n_groups, size=n), rng.integers(-1, n_groups, size=n)
    truth[0] = said[0] = 0
    shown, told = (rng.random((n, n_tasks)) < 0.5).astype(int), (rng.random((n, n_tasks)) < 0.4).astype(int)
    shown[0] = 1
    return groups_of(truth, n_groups), shown, groups_of(said, n_groups), told


# BA


def test_the_toy_of_ba():
    found = ba([[6, 4], [2, 8]], [[8, 2], [3, 7]])
    assert found.estimate.value == pytest.approx(0.05)
    assert found.table.loc[found.table["term"] != 0, "term"].tolist() == pytest.approx([0.2, -0.1])


def loop_ba(reference, predicted):
    total = 0.0
    for row, said in zip(reference, predicted, strict=True):
        for a in range(len(row)):
            share = row[a] / sum(row)
            if share > 1 / len(row) + 1e-12 and sum(said) > 0:
                total += said[a] / sum(said) - share
    return total / len(reference)


@given(st.integers(2, 4), st.integers(1, 6), st.integers(0, 10_000))
def test_ba_is_that_of_a_plain_loop(groups, items, seed):
    rng = np.random.default_rng(seed)
    reference = rng.integers(0, 6, size=(items, groups)) + np.eye(items, groups, dtype=int) + (rng.random() < 0.5)
    reference[:, 0] += 1
    predicted = rng.integers(0, 5, size=(items, groups)) * rng.integers(0, 2, size=(items, 1))
    found = ba(reference, predicted, draws=9)
    assert found.estimate.value == pytest.approx(loop_ba(reference.tolist(), predicted.tolist()), abs=1e-9)
    assert found.table["term"].sum() / items == pytest.approx(found.estimate.value, abs=1e-9)


def test_even_and_unpredicted_items_stay_in_the_mean():
    found = ba([[5, 5], [9, 1], [9, 1]], [[9, 0], [10, 0], [0, 0]])
    assert found.estimate.value == pytest.approx(0.1 / 3)
    assert any("1 items are never predicted" in note for note in found.estimate.notes)


def test_ba_of_counts_under_the_null_and_beside_it():
    rng = np.random.default_rng(0)
    small, null_means = 0, []
    for seed in range(200):
        shares = rng.uniform(0.4, 0.6, size=8)
        reference, predicted = (np.stack([x := rng.binomial(n, shares), n - x], axis=1) for n in (60, 40))
        made = ba(reference, predicted, draws=199, seed=seed).estimate
        small += made.p_value <= 0.05
        null_means.append(made.null_mean)
    assert small <= sps.binom.ppf(0.9999, 200, 0.05)
    assert np.mean(null_means) < -0.01  # items that leaned by chance fall back
    told = ba([[600, 400], [200, 800]], [[800, 200], [100, 900]]).estimate
    assert told.p_value < 0.01
    assert told.ci_low > 0.1
    assert told.ci_low <= 0.15 <= told.ci_high


@pytest.mark.parametrize(
    ("reference", "predicted", "message"),
    [
        ([[1, 2]], [[1, 2], [3, 4]], "shape"),
        ([[1]], [[1]], "two at least"),
        ([[1, 2]], [[0.5, 1]], "predicted must hold counts"),
        ([[0, 0]], [[1, 1]], "item 0 never occurs"),
    ],
)
def test_bad_counts_are_named(reference, predicted, message):
    with pytest.raises(InputError, match=message):
        ba(reference, predicted)


def test_ba_of_captions_counts_words_once_a_caption():
    told = [["bike", "bike"], ["bike"], ["bike"], ["cup"], ["cup"], ["cup"], ["bike"]]
    who = groups_of([0, 0, 1, 0, 1, 1, -1])
    said = [["bike"], ["bike"], ["cup"], ["cup", "cup"], ["cup", "bike"]]
    named = groups_of([0, 0, 1, 1, 0])
    found = ba_of_captions(told, who, said, named, words=["bike", "cup"], **FEW)
    # bike: 2/3 men, then 3/3; cup: 2/3 women, then 2/3
    assert found.estimate.value == pytest.approx((1 / 3 + 0) / 2)
    assert found.table["reference_count"].tolist() == [2, 1, 1, 2]
    assert found.estimate.dropped["reference captions that name no group or several"] == 1
    assert found.estimate.n == 5
    fewer = ba_of_captions(told, who, [*said, ["cup"]], groups_of([0, 0, 1, 1, 0, -1]), words=["bike", "cup"], **FEW)
    assert fewer.estimate.n == 5


def test_words_are_selected_by_the_rules():
    told = [["a", "bike", "man"]] * 5 + [["a", "bike", "woman"]] * 5 + [["a", "cup"]] * 3
    who = groups_of([0] * 5 + [1] * 5 + [-1] * 3)
    assert select_words(told, who, least=5).words == ("a", "bike")
    assert select_words(told, who, least=5, content={"bike", "cup"}).words == ("bike",)
    assert select_words(told, who, least=5, exclude={"a"}).words == ("bike",)
    assert select_words(told, who, least=5, top=1).words == ("a",)
    assert select_words(told, who, least=6).words == ()
    with pytest.raises(InputError, match="no word is left"):
        ba_of_captions(told, who, told, who, least=6)


def written(rng, images, strength):
    """Five references and one prediction per image; ``strength`` moves the prediction's words to their group."""
    words = [f"w{i}" for i in range(12)]
    lean = np.linspace(0.25, 0.75, 12)  # how often a word is said of a man
    who, scene = rng.integers(0, 2, images), rng.integers(0, 12, images)
    references, predicted, groups = [], [], []
    for image in range(images):
        for caption in range(6):
            share = lean if caption < 5 else np.clip(0.5 + (lean - 0.5) * (1 + strength), 0, 1)
            weights = (share if who[image] == 0 else 1 - share) ** 2 + 3 * (np.arange(12) == scene[image])
            picked = rng.choice(12, size=3, replace=False, p=weights / weights.sum())
            (references if caption < 5 else predicted).append([words[i] for i in picked])
            groups.append((caption, who[image] if rng.random() < 0.8 else -1))
    named = [g for c, g in groups if c < 5], [g for c, g in groups if c == 5]
    ids = np.repeat(np.arange(images), 5).tolist(), list(range(images))
    return references, groups_of(named[0]), predicted, groups_of(named[1]), ids


def measured(rng, images, strength, seed=0, **settings):
    told, who, said, named, ids = written(rng, images, strength)
    found = ba_of_captions(
        told,
        who,
        said,
        named,
        least=5,
        reference_images=ids[0],
        predicted_images=ids[1],
        seed=seed,
        **{"draws": 99, "replicates": 100, **settings},
    )
    return found.estimate


@pytest.mark.slow
def test_captions_like_their_references_amplify_nothing():
    rng = np.random.default_rng(0)
    found = [measured(rng, 80, 0.0, seed) for seed in range(40)]
    assert sum(one.p_value <= 0.05 for one in found) <= sps.binom.ppf(0.9999, 40, 0.05)
    assert np.mean([one.excess for one in found]) == pytest.approx(0, abs=0.015)
    assert sum(one.ci_low <= 0 <= one.ci_high for one in found) >= 33


@pytest.mark.slow
def test_ba_rises_with_the_planted_bias():
    rng = np.random.default_rng(1)
    strengths = [0.0, 0.25, 0.5, 0.75, 1.0]
    values = [measured(rng, 600, strength, draws=2, replicates=2).value for strength in strengths]
    assert sps.spearmanr(strengths, values).statistic >= 0.9
    assert measured(rng, 800, 1.0).p_value <= 0.02


@pytest.mark.slow
def test_sides_without_common_images_are_exchanged_as_images():
    rng = np.random.default_rng(2)
    small = 0
    for seed in range(40):
        told, who, said, named, ids = written(rng, 60, 0.0)
        # five captions per reference image; other images on the other side
        found = ba_of_captions(
            told,
            who,
            said,
            named,
            least=5,
            reference_images=[f"r{i}" for i in ids[0]],
            predicted_images=[f"p{i}" for i in ids[1]],
            draws=99,
            replicates=100,
            seed=seed,
        )
        small += found.estimate.p_value <= 0.05
    assert small <= sps.binom.ppf(0.9999, 40, 0.05)


def test_sides_must_fit():
    told, who = [["bike"]] * 4, groups_of([0, 0, 1, 1])
    with pytest.raises(InputError, match="same groups"):
        ba_of_captions(told, who, told, Groups(np.array([0, 0, 1, 1]), ("x", "y")), words=["bike"])
    with pytest.raises(InputError, match="both sides, or of neither"):
        ba_of_captions(told, who, told, who, words=["bike"], reference_images=[1, 2, 3, 4])
    with pytest.raises(InputError, match="4 captions"):
        ba_of_captions(told, who, told, who, words=["bike"], reference_images=[1], predicted_images=[1, 2, 3, 4])
    with pytest.raises(InputError, match="same length"):
        ba_of_captions(told, who, told[:3], who, words=["bike"])


# The engine below


def test_exchange_deals_each_caption_of_an_image_equally_often():
    # image 0: two references and one prediction; image 1: one prediction only
    sides = TwoSides(sparse.eye(4, format="csr"), np.array([False, False, True, True]), np.array([0, 0, 0, 1]))
    rng = np.random.default_rng(0)
    dealt = np.concatenate([block.toarray() for block in sides._dealt(3000, rng)])
    assert dealt.sum(axis=1).tolist() == [2] * 3000
    assert (dealt[:, 3] == 1).all()
    assert dealt[:, :3].mean(axis=0) == pytest.approx([1 / 3] * 3, abs=0.04)


def test_exchange_with_several_predictions_an_image():
    sides = TwoSides(sparse.eye(5, format="csr"), np.array([0, 1, 1, 0, 1], dtype=bool), np.array([0, 0, 0, 1, 1]))
    dealt = np.concatenate([block.toarray() for block in sides._dealt(2000, np.random.default_rng(0))])
    assert (dealt[:, :3].sum(axis=1) == 2).all()
    assert (dealt[:, 3:].sum(axis=1) == 1).all()
    assert dealt.mean(axis=0) == pytest.approx([2 / 3] * 3 + [1 / 2] * 2, abs=0.05)


def test_resamples_keep_both_sides_of_an_image_together():
    sides = TwoSides.paired(np.eye(3), 2 * np.eye(3), np.ones((3, 1)))

    def check(reference, predicted, fixed):
        assert predicted == pytest.approx(2 * reference)
        assert fixed[:, 0] == pytest.approx(reference.sum(axis=1))
        return reference[:, 0]

    draws = sides.resampled(500, np.random.default_rng(0), check)
    assert len(draws) == 500
    assert draws.mean() == pytest.approx(1, abs=0.15)


def test_moved_intervals_hold_the_value():
    low, high, why = moved_interval(0.0, np.array([0.5, 0.6, 0.7]), 0.9, least=0.0)
    assert ((low, high), why) == (pytest.approx((0, 0.09)), ())


@pytest.mark.parametrize(
    ("draws", "why"), [([], "do not differ"), ([0.3] * 50, "do not differ"), ([0.0] * 99 + [0.4], "nearly all")]
)
def test_no_moved_interval_is_a_point(draws, why):
    low, high, notes = moved_interval(0.0, np.array(draws), 0.9, least=0.0)
    assert (low, high) == (None, None)
    assert why in notes[0]


def test_captions_that_say_what_the_reference_says_have_no_interval():
    found = ba([[10, 0]], [[10, 0]], draws=19).estimate
    assert (found.value, found.ci_low, found.ci_high) == (0, None, None)
    assert "no interval: the resamples do not differ" in found.notes


# DBA


def test_the_toy_of_dba():
    shows = np.array([[1]] * 4 + [[0]] * 2 + [[1]] + [[0]] * 3)
    groups = Groups.from_values(["man"] * 6 + ["woman"] * 4)
    said = Groups.from_values(["man"] * 7 + ["woman"] * 3)
    found = dba_g(groups, shows, said)
    assert found.estimate.value == pytest.approx(0.2)
    # both groups say the same
    assert found.table["term"].tolist() == pytest.approx([0.2, 0.2])


def loop_dba(truth, shown, said, told, given, sign, base, n_groups, train=None):
    trained = (truth, shown) if train is None else train
    n_tasks = shown.shape[1]
    rows = [
        i
        for i in range(len(trained[0]))
        if base == "all"
        or (base == "union" and (trained[0][i] >= 0 or trained[1][i].any()))
        or (base == "both" and trained[0][i] >= 0 and trained[1][i].any())
    ]
    terms = []
    for a in range(n_groups):
        for task in range(n_tasks):
            n = len(rows)
            joint = sum(bool(trained[0][i] == a and trained[1][i, task]) for i in rows)
            alone = sum(int(trained[0][i] == a) for i in rows), sum(int(trained[1][i, task]) for i in rows)
            gap = joint * n - alone[0] * alone[1]
            y = np.sign(int(gap)) if sign == "sign" else (1 if gap > 0 else -1)
            if given == "task":
                base_rows = [i for i in range(len(truth)) if truth[i] >= 0 and shown[i, task]]
                if base_rows:
                    delta = np.mean([said[i] == a for i in base_rows]) - np.mean([truth[i] == a for i in base_rows])
                    terms.append(y * delta)
            else:
                base_rows = [i for i in range(len(truth)) if truth[i] == a]
                if base_rows:
                    delta = np.mean([told[i, task] for i in base_rows]) - np.mean([shown[i, task] for i in base_rows])
                    terms.append(y * delta)
    return float(np.mean(terms))


@given(
    scenes(),
    st.sampled_from(["sign", "thesis"]),
    st.sampled_from(["union", "both", "all"]),
    st.sampled_from(["skip", "keep"]),
)
def test_dba_g_is_that_of_a_plain_loop(scene, sign, base, undecided):
    groups, shown, predicted, _ = scene
    made = dba_g(groups, shown, predicted, sign=sign, base=base, undecided=undecided, **FEW)
    used = (groups.labels < 0) | (predicted.labels >= 0) if undecided == "skip" else np.ones(len(shown), bool)
    expected = loop_dba(
        groups.labels[used], shown[used], predicted.labels[used], None, "task", sign, base, groups.n_groups
    )
    assert made.estimate.value == pytest.approx(expected, abs=1e-9)
    if sign == "sign" and base == "union":
        assert made.table["term"].mean() == pytest.approx(expected, abs=1e-9)


@given(scenes(), st.sampled_from(["sign", "thesis"]), st.sampled_from(["union", "both", "all"]), st.booleans())
def test_dba_o_is_that_of_a_plain_loop(scene, sign, base, trained):
    groups, shown, other, told = scene
    train = (other, told) if trained else None
    made = dba_o(groups, shown, told, sign=sign, base=base, train=train, **FEW)
    plain = (other.labels, told) if trained else None
    expected = loop_dba(groups.labels, shown, None, told, "group", sign, base, groups.n_groups, plain)
    assert made.estimate.value == pytest.approx(expected, abs=1e-9)


def test_dba_of_two_groups_is_that_of_either():
    rng = np.random.default_rng(0)
    truth, said = groups_of(rng.integers(0, 2, 60)), groups_of(rng.integers(0, 2, 60))
    table = dba_g(truth, rng.integers(0, 2, (60, 3)), said, **FEW).table
    men = table.loc[table["group"] == "man", "term"].tolist()
    assert men == pytest.approx(table.loc[table["group"] == "woman", "term"].tolist())


def test_independent_pairs_add_nothing_by_sign_and_their_difference_by_the_thesis():
    truth, shown = groups_of([0, 0, 1, 1]), np.array([[1], [0], [1], [0]])
    said = groups_of([0, 0, 0, 1])
    assert dba_g(truth, shown, said, **FEW).estimate.value == 0
    assert dba_g(truth, shown, said, sign="thesis", **FEW).table["term"].tolist() == pytest.approx([-0.5, 0.5])


@pytest.mark.slow
def test_dba_without_amplification_is_chance():
    rng = np.random.default_rng(0)
    small = {"g": 0, "o": 0}
    for seed in range(60):
        truth = rng.integers(0, 2, 150)
        shown = (rng.random((150, 6)) < np.where(truth[:, None] == 0, 0.5, 0.3)).astype(int)
        again = (rng.random((150, 6)) < np.where(truth[:, None] == 0, 0.5, 0.3)).astype(int)
        # a second opinion on the same image: as likely as the first, given what it shows
        weight = np.exp(0.85 * (shown - 0.4).sum(axis=1))
        said = (rng.random(150) > weight / (1 + weight)).astype(int)
        there = (rng.random(150) > weight / (1 + weight)).astype(int)
        few = {"draws": 99, "replicates": 100, "seed": seed}
        small["g"] += dba_g(groups_of(there), shown, groups_of(said), **few).estimate.p_value <= 0.05
        small["o"] += dba_o(groups_of(truth), shown, again, **few).estimate.p_value <= 0.05
    assert max(small.values()) <= sps.binom.ppf(0.9999, 60, 0.05)


def test_dba_finds_a_planted_direction():
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 1000)
    shown = (rng.random((1000, 4)) < np.where(truth[:, None] == 0, 0.6, 0.3)).astype(int)
    pushed = np.where((shown.sum(axis=1) >= 3) & (rng.random(1000) < 0.7), 0, truth)
    found = dba_g(groups_of(truth), shown, groups_of(pushed)).estimate
    assert found.value > 0.03
    assert found.p_value < 0.01
    assert found.ci_low > 0
    told = shown | ((truth == 0)[:, None] & (rng.random((1000, 4)) < 0.2))
    assert dba_o(groups_of(truth), shown, told).estimate.value > 0.03


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, t: dba_g(g, t[:3], g), "4 images"),
        (lambda g, t: dba_g(g, t * 2, g), "0 and 1"),
        (lambda g, t: dba_g(g, t * 0, g), "no image shows any"),
        (lambda g, t: dba_g(g, t, Groups(g.labels, ("x", "y"))), "same"),
        (lambda g, t: dba_g(g, t, groups_of([-1] * 4)), "nothing to compare"),
        (lambda g, t: dba_o(g, t, np.ones((4, 3))), "same tasks"),
        (lambda g, t: dba_o(g, t, t, items=["a", "b"]), "2 names for 1"),
        (lambda g, t: dba_o(g, t, t, train=(g, np.ones((4, 2)))), "2 tasks where there are 1"),
        (lambda g, t: dba_o(g, t, t, sign="signed"), "sign rule"),
    ],
)
def test_bad_scenes_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call(groups_of([0, 0, 1, 1]), np.array([[1], [0], [1], [0]]))


# Sets of attributes


def loop_multi(groups, shown, predicted, told, direction, sets, n_groups):
    kept = [i for i in range(len(groups)) if groups[i] >= 0 and predicted[i] >= 0]

    def share(who, what, a, members):
        rows = [i for i in kept if all(what[i, m] for m in members)]
        return None if not rows else np.mean([who[i] == a for i in rows])

    sizes = []
    for members in sets:
        for a in range(n_groups):
            if direction == "undirected":
                lean, said = share(groups, shown, a, members), share(predicted, told, a, members)
                counts = lean > 1 / n_groups + 1e-12 and said is not None
                sizes.append(abs(said - lean) if counts else 0.0)
            elif direction == "sets_to_group":
                sizes.append(abs(share(predicted, shown, a, members) - share(groups, shown, a, members)))
            else:
                rows = [i for i in kept if groups[i] == a]
                if rows:
                    there = [np.mean([all(x[i, m] for m in members) for i in rows]) for x in (shown, told)]
                    sizes.append(abs(there[1] - there[0]))
    return sum(sizes) / len(sets) if direction == "undirected" else float(np.mean(sizes))


@given(
    scenes(), st.sampled_from(["undirected", "sets_to_group", "group_to_sets"]), st.sampled_from(["annotated", "all"])
)
def test_multi_attribute_is_that_of_a_plain_loop(scene, direction, kind):
    groups, shown, predicted, told = scene
    made = multi_attribute_amplification(groups, shown, predicted, told, direction=direction, kind=kind, **FEW)
    kept = [i for i in range(len(shown)) if groups.labels[i] >= 0 and predicted.labels[i] >= 0]
    whole = {tuple(np.flatnonzero(shown[i]).tolist()) for i in kept} - {()}
    sets = whole if kind == "annotated" else {s for w in whole for k in (1, 2, 3) for s in combinations(w, k)}
    assert set(made.sets) == {tuple(str(i) for i in members) for members in sets}
    expected = loop_multi(groups.labels, shown, predicted.labels, told, direction, sets, groups.n_groups)
    assert made.estimate.value == pytest.approx(expected, abs=1e-9)
    assert made.estimate.ci_low is None or made.estimate.ci_low >= 0


def test_sets_see_what_single_attributes_hide():
    # each object alone is even between the groups; both together are men's, neither is women's
    truth = np.repeat([0, 1, 0, 1], [40, 40, 40, 40])
    shown = np.array([[1, 1]] * 40 + [[1, 0]] * 20 + [[0, 1]] * 20 + [[0, 0]] * 40 + [[1, 0]] * 20 + [[0, 1]] * 20)
    said = truth.copy()
    single = ba(
        [[(shown[truth == a, o] == 1).sum() for a in (0, 1)] for o in (0, 1)],
        [[(shown[truth == a, o] == 1).sum() for a in (0, 1)] for o in (0, 1)],
    )
    assert single.table["reference"].tolist() == [0.5] * 4
    said[:20] = 1  # half of the men with both objects are called women
    made = multi_attribute_amplification(
        groups_of(truth), shown, groups_of(said), shown, direction="sets_to_group", kind="all", largest=2
    )
    by_item = made.table.set_index(["item", "group"])["delta"]
    assert by_item["0 + 1", "man"] == pytest.approx(-0.5)
    assert made.variance > 0
    assert made.estimate.value > made.estimate.null_mean


def test_multi_attribute_of_equal_sides_is_chance():
    rng = np.random.default_rng(0)
    small, floor = 0, []
    for seed in range(40):
        weights = rng.random((100, 4)) < 0.5
        there, said = (rng.random((2, 100)) < 0.3 + 0.4 * weights[:, 0]).astype(int)
        made = multi_attribute_amplification(
            groups_of(there), weights, groups_of(said), weights, draws=99, replicates=100, seed=seed
        ).estimate
        small += made.p_value <= 0.05
        floor.append(made.null_mean)
    assert small <= sps.binom.ppf(0.9999, 40, 0.05)
    assert min(floor) > 0.02  # sizes do not cancel


def test_a_set_that_no_image_shows_is_not_in_the_mean():
    # b("man" | 0) = 1, and half of these images are said to show women: 1/2; nobody shows 1
    there, said = groups_of([0, 0, 1, 1]), groups_of([0, 1, 1, 1])
    shown = np.array([[1, 0], [1, 0], [0, 0], [0, 0]])
    for sets, unseen in ((((0,),), {}), (((0,), (1,)), {"sets without an image in the reference": 1})):
        made = multi_attribute_amplification(there, shown, said, shown, sets=sets, **FEW)
        assert made.estimate.value == pytest.approx(0.5)
        assert made.sets == (("0",),)
        assert made.estimate.dropped == unseen
        given = multi_attribute_amplification(there, shown, said, shown, sets=sets, direction="sets_to_group", **FEW)
        assert given.sets == (("0",),)
        assert given.estimate.dropped == unseen
    with pytest.raises(InputError, match="none of the sets occurs"):
        multi_attribute_amplification(there, shown, said, shown, sets=((1,),), **FEW)


def test_sets_are_limited_by_name():
    shown = np.array([[1, 1, 1], [1, 1, 0], [0, 0, 0]])
    assert attribute_sets(shown) == ((0, 1), (0, 1, 2))
    assert attribute_sets(shown, kind="all", largest=1) == ((0,), (1,), (2,))
    assert attribute_sets(shown, kind="all", least=2) == ((0,), (1,), (0, 1))
    with pytest.raises(UnknownNameError, match="kind"):
        attribute_sets(shown, kind="some")
    with pytest.raises(InputError, match="occurs in 9 images"):
        multi_attribute_amplification(groups_of([0, 1, 0]), shown, groups_of([0, 1, 0]), shown, least=9)
    with pytest.raises(UnknownNameError, match="direction"):
        multi_attribute_amplification(groups_of([0, 1, 0]), shown, groups_of([0, 1, 0]), shown, direction="up")


def test_a_word_that_is_named_twice_counts_once():
    told, who, said = [["bike"]] * 20, groups_of([0, 0, 1, 0] * 5), groups_of([0] * 18 + [1] * 2)
    once = ba_of_captions(told, who, told, said, words=["bike"], **FEW)
    assert once.estimate.value == pytest.approx(0.15)
    assert ba_of_captions(told, who, told, said, words=["bike", "bike"], **FEW).estimate == once.estimate


@pytest.mark.parametrize("shared", [0, 1])
def test_one_image_on_both_sides_does_not_hold_the_others(shared):
    rng = np.random.default_rng(0)
    who, named = rng.choice(["f", "m"], (2, 300))
    told = [["bike"] if rng.random() < (0.65 if group == "m" else 0.35) else ["cup"] for group in who]
    said = [["bike"] if rng.random() < (0.9 if group == "m" else 0.1) else ["cup"] for group in named]
    found = ba_of_captions(
        told,
        Groups.from_values(who),
        said,
        Groups.from_values(named),
        words=["bike", "cup"],
        reference_images=[f"r{i}" for i in range(300)],
        predicted_images=[f"r{i}" if i < shared else f"p{i}" for i in range(300)],
        draws=199,
        replicates=50,
    )
    assert found.estimate.null_mean == pytest.approx(0.0, abs=0.05)
    assert found.estimate.p_value < 0.02
