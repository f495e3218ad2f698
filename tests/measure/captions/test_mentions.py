"""Error, Ratio, neutral rate, outcome divergence: by hand, by plain loops, under their nulls, and as published."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sps
from scipy.spatial.distance import jensenshannon

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.captions import (
    ERROR_DEFINITIONS,
    RATIO_CONVENTIONS,
    Mentions,
    error,
    error_flags,
    jensen_shannon,
    neutral_rate,
    outcome_divergence,
    outcomes,
    ratio,
    score_gap,
)
from equipoise.measure.groups import Groups

PAIR = ("male", "female")
CAPTIONS = ["A man", "A man", "A woman", "A man and a woman", "A dog", "A boy and his father"]


def labels_of(text):
    return Groups.from_values([{"m": "male", "f": "female", "-": None}[c] for c in text], PAIR)


def mentions(table):
    table = np.asarray(table)
    return Mentions(table.astype(bool), tuple("abcdefgh"[: table.shape[1]]))


@st.composite
def cases(draw):
    groups, n = draw(st.integers(2, 4)), draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    said = mentions(rng.random((n, groups)) < rng.random())
    labels = rng.integers(-1, groups, size=n)
    labels[0] = 0
    return said, Groups(labels, said.names)


# Error


def test_error_by_hand():
    said = Mentions.of(CAPTIONS, "lic")
    labels = labels_of("mffmmf")
    found = {name: error(said, labels, definition=name) for name in ERROR_DEFINITIONS}
    assert found["burns_all"].value == pytest.approx(2 / 6)  # the second and the last
    assert found["burns_decided"].value == pytest.approx(2 / 4)
    assert found["any_opposite"].value == found["libra"].value == pytest.approx(3 / 6)
    assert found["burns_decided"].n == 4
    assert found["burns_decided"].dropped == {"names no group or several": 2}


def loop_error(said, labels, definition):
    wrong = counted = 0
    for row, label in zip(said.named.tolist(), labels.labels.tolist(), strict=True):
        if label < 0:
            continue
        named = [g for g, yes in enumerate(row) if yes]
        if definition == "burns_decided" and len(named) != 1:
            continue
        counted += 1
        if definition == "any_opposite":
            wrong += any(g != label for g in named)
        elif definition == "libra":
            wrong += len(named) > 1 or (len(named) == 1 and named[0] != label)
        else:
            wrong += len(named) == 1 and named[0] != label
    return wrong, counted


@given(cases(), st.sampled_from(ERROR_DEFINITIONS))
def test_error_is_that_of_a_plain_loop(case, definition):
    said, labels = case
    wrong, counted = loop_error(said, labels, definition)
    flags, counts = error_flags(said, labels, definition=definition)
    assert (flags.sum(), counts.sum()) == (wrong, counted)
    made = error(said, labels, definition=definition, draws=20)
    assert made.value == pytest.approx(wrong / counted if counted else 0.0, abs=1e-9)
    assert made.n == counted


@given(cases(), st.sampled_from(ERROR_DEFINITIONS))
def test_chance_of_error_is_the_mean_over_all_label_orders(case, definition):
    said, labels = case
    made = error(said, labels, definition=definition, draws=20)
    if made.null_mean is None:
        return
    kept = labels.labels[labels.defined]
    inside = said.take(labels.defined)
    # each caption meets each label equally often
    meets = [loop_error(inside, Groups(np.full(len(kept), label), said.names), definition)[0] for label in kept]
    assert made.null_mean == pytest.approx(np.mean(meets) / made.n, abs=1e-9)


def test_silence_has_no_error_and_no_praise():
    said = Mentions.of(["A dog", "People at a table", "A person"], "lic")
    for definition in ERROR_DEFINITIONS:
        made = error(said, labels_of("mfm"), definition=definition)
        assert made.value == 0
        assert any("no merit" in note for note in made.notes)
    assert neutral_rate(said).value == 1
    mostly = error(Mentions.of(["A dog", "A dog", "A man"], "lic"), labels_of("mfm"))
    assert any("neutral rate" in note for note in mostly.notes)


def test_error_against_blind_captions():
    rng = np.random.default_rng(0)
    small = 0
    for seed in range(300):
        said = Mentions(np.eye(2, dtype=bool)[rng.integers(0, 2, 80)] & (rng.random((80, 1)) < 0.8), PAIR)
        labels = Groups(rng.permutation(np.repeat([0, 1], [50, 30])), PAIR)
        small += error(said, labels, draws=199, seed=seed).p_value <= 0.05
    assert small <= sps.binom.ppf(0.9999, 300, 0.05)
    told = error(Mentions.of(["A man"] * 40 + ["A woman"] * 40, "lic"), labels_of("m" * 40 + "f" * 40))
    assert (told.value, told.p_value < 0.01, told.null_mean) == (0.0, True, 0.5)


def test_captions_of_one_image_count_together():
    rng = np.random.default_rng(1)
    small = plain = 0
    for seed in range(200):
        who = np.repeat(rng.integers(0, 2, 30), 5)  # five captions alike, blind to the label
        said = Mentions(np.eye(2, dtype=bool)[who], PAIR)
        labels = Groups(np.repeat(rng.permutation(np.repeat([0, 1], 15)), 5), PAIR)
        images = np.repeat(np.arange(30), 5).tolist()
        made = error(said, labels, images=images, draws=199, seed=seed)
        small += made.p_value <= 0.05
        plain += error(said, labels, draws=199, seed=seed).p_value <= 0.05
        if seed == 0:
            alone = error(said, labels, draws=199)
            assert made.value == alone.value
            assert made.ci_high - made.ci_low > alone.ci_high - alone.ci_low
    assert small <= sps.binom.ppf(0.9999, 200, 0.05)
    assert plain > 2 * small


def test_labels_by_name_and_not_by_place():
    said = Mentions.of(["A man", "A woman"], "lic")
    swapped = Groups.from_values(["male", "female"])  # sorted: female first
    assert error(said, swapped).value == 0
    with pytest.raises(UnknownNameError, match="dark"):
        error(said, Groups.from_values(["light", "dark"]))
    with pytest.raises(InputError, match="no caption has a label"):
        error(said, labels_of("--"))
    with pytest.raises(UnknownNameError, match="definition of Error"):
        error(said, swapped, definition="burns")


# Ratio


def test_ratio_by_hand():
    said = Mentions.of(CAPTIONS, "lic")
    found = {name: ratio(said, PAIR, convention=name) for name in RATIO_CONVENTIONS}
    assert [found[name].estimate.value for name in ("lic", "burns", "folded")] == pytest.approx([3, 1 / 3, 3])
    assert found["lic"].counts == (3, 1)
    assert ratio(said, PAIR[::-1], convention="folded").estimate.value == 3
    assert found["lic"].estimate.n == 4


def test_no_ratio_of_nothing():
    said = Mentions.of(["A man", "A dog"], "lic")
    for convention in RATIO_CONVENTIONS:
        found = ratio(said, PAIR, convention=convention)
        assert found.estimate is None
        assert "no caption names only female" in found.notes[0]
    assert ratio(said, PAIR, zero="burns").estimate.value == pytest.approx(1e5)
    assert ratio(said, PAIR, zero="burns", convention="burns").estimate.value == pytest.approx(0, abs=1e-9)
    assert ratio(said, PAIR, zero="burns", convention="folded").estimate.value == pytest.approx(1e5)
    nobody = Mentions.of(["A dog"], "lic")
    assert ratio(nobody, PAIR, zero="burns").estimate.value == 0
    assert ratio(nobody, PAIR, zero="burns", convention="folded").estimate is None
    with pytest.raises(InputError, match="two different groups"):
        ratio(said, ("male", "male"))


@given(st.integers(1, 60), st.integers(1, 60))
def test_ratio_intervals_and_parity(first, second):
    said = Mentions(np.repeat(np.eye(2, dtype=bool), [first, second], axis=0), PAIR)
    plain, other, folded = (ratio(said, PAIR, convention=c).estimate for c in RATIO_CONVENTIONS)
    assert plain.ci_low <= plain.value <= plain.ci_high
    assert (other.ci_low, other.ci_high) == pytest.approx((1 / plain.ci_high, 1 / plain.ci_low))
    assert plain.p_value == pytest.approx(sps.binomtest(first, first + second).pvalue)
    assert 1 <= folded.ci_low <= folded.value <= folded.ci_high + 1e-12
    # folded: the exact chance by enumeration of all counts
    n = first + second
    law = sps.binom.pmf(np.arange(n + 1), n, 0.5)
    extreme = [max(k / (n - k), (n - k) / k) if 0 < k < n else np.inf for k in range(n + 1)]
    expected = law[[e >= folded.value * (1 - 1e-12) for e in extreme]].sum()
    assert folded.p_value == pytest.approx(min(1, expected), abs=1e-9)
    assert folded.null_mean >= 1


def test_ratio_against_labels():
    rng = np.random.default_rng(0)
    small = 0
    for _ in range(300):
        truth = (rng.random(150) < 0.3).astype(int)
        # errors that leave the ratio alone in expectation: as many flip one way as the other
        flips = rng.random(150) < np.where(truth == 0, 0.06, 0.14)
        said = np.where(flips, 1 - truth, truth)
        named = np.eye(2, dtype=bool)[said] & (rng.random((150, 1)) < 0.8)
        made = ratio(Mentions(named, PAIR), PAIR, labels=Groups(truth, PAIR)).estimate
        small += made.p_value <= 0.05
        assert made.null_mean == pytest.approx((truth == 0).sum() / (truth == 1).sum())
    assert small <= sps.binom.ppf(0.9999, 300, 0.05)
    named = Mentions.of(["A man"] * 80 + ["A woman"] * 20, "lic")
    skewed = ratio(named, PAIR, labels=labels_of("m" * 50 + "f" * 50)).estimate
    assert (skewed.null_mean, skewed.p_value < 1e-6) == (1.0, True)
    same = ratio(named, PAIR, labels=labels_of("m" * 80 + "f" * 20)).estimate
    assert same.p_value == 1.0
    with pytest.raises(InputError, match="no image of 'female'"):
        ratio(named, PAIR, labels=labels_of("m" * 100))


def test_ratio_of_repeated_captions_is_less_sure():
    said = Mentions.of((["A man"] * 30 + ["A woman"] * 15) * 4, "lic")
    images = list(range(45)) * 4
    together, alone = ratio(said, PAIR, images=images).estimate, ratio(said, PAIR).estimate
    assert together.value == alone.value == 2
    assert together.ci_high - together.ci_low > 1.4 * (alone.ci_high - alone.ci_low)


@pytest.mark.parametrize("convention", ["lic", "burns", "folded"])
def test_copies_of_captions_prove_nothing(convention):
    captions = ["A man"] * 13 + ["A woman"] * 5 + ["A dog"] * 2
    alone, known, copied = (
        ratio(Mentions.of(captions * times, "lic"), PAIR, convention=convention, images=images).estimate
        for times, images in ((1, None), (1, range(20)), (5, [*range(20)] * 5))
    )
    assert alone.p_value == known.p_value == pytest.approx(copied.p_value)
    assert copied.null_mean == pytest.approx(alone.null_mean, rel=0.03)
    if convention == "folded":
        assert known.null_sd == alone.null_sd
        assert copied.null_sd == pytest.approx(alone.null_sd, rel=0.1)


def test_images_that_lean_by_different_numbers_of_captions_are_flipped():
    said = Mentions.of(["A man"] * 3 + ["A woman"] + ["A man"] + ["A woman"] * 2 + ["A man"] * 2, "lic")
    images = list("aaabbcdee")
    # a: 3 to the man, b: even, c: -1, d: -1, e: 2
    sums = [abs(3 * s + t + u + 2 * v) for s in (1, -1) for t in (1, -1) for u in (1, -1) for v in (1, -1)]
    for convention in ("lic", "folded"):
        found = ratio(said, PAIR, convention=convention, images=images).estimate
        assert found.p_value == pytest.approx(np.mean(np.array(sums) >= 3))


@pytest.mark.parametrize("convention", ["lic", "burns", "folded"])
def test_one_image_has_no_interval_of_its_ratio(convention):
    said = Mentions.of(["A man", "A man", "A woman"], "lic")
    found = ratio(said, PAIR, convention=convention, images=["x"] * 3).estimate
    assert (found.ci_low, found.ci_high, found.p_value) == (None, None, 1.0)
    assert any(note.startswith("no interval: one image") for note in found.notes)


# Outcome divergence


def test_outcome_divergence_by_hand():
    assert float(jensen_shannon([[0.7, 0.2, 0.1], [0.9, 0.05, 0.05]])) == pytest.approx(0.04993, abs=5e-6)
    assert float(jensen_shannon([[1.0, 0.0], [0.0, 1.0]])) == 1.0
    said = Mentions.of(CAPTIONS, "lic")
    assert outcomes(said, labels_of("mffmm-")).tolist() == [0, 1, 0, 2, 2, -1]
    with pytest.raises(InputError, match="sum to 1"):
        jensen_shannon([[0.5, 0.6], [0.5, 0.5]])


@given(st.lists(st.integers(0, 9), min_size=6, max_size=6))
def test_divergence_is_scipy_s(counts):
    table = np.array(counts).reshape(2, 3) + np.array([[1, 0, 0], [0, 1, 0]])
    said, who = [], ""
    for group, row in zip("mf", table, strict=True):
        own, other = ("A man", "A woman") if group == "m" else ("A woman", "A man")
        said += [own] * row[0] + [other] * row[1] + ["A dog"] * row[2]
        who += group * row.sum()
    made = outcome_divergence(Mentions.of(said, "lic"), labels_of(who), draws=20)
    shares = table / table.sum(axis=1, keepdims=True)
    assert made.value == pytest.approx(jensenshannon(*shares, base=2) ** 2, abs=1e-9)


def test_no_divergence_is_zero_without_an_interval():
    made = outcome_divergence(Mentions.of(["A man", "A woman"] * 10, "lic"), labels_of("mf" * 10), draws=20)
    assert (str(made.value), made.ci_low, made.ci_high) == ("0.0", None, None)
    assert "no interval: the resamples do not differ" in made.notes


def test_divergence_of_equal_groups_is_chance():
    rng = np.random.default_rng(0)
    small, covered = 0, 0
    for seed in range(200):
        truth = np.repeat([0, 1], [70, 40])
        right, silent = rng.random(110) < 0.7, rng.random((110, 1)) < 0.2
        named = np.eye(2, dtype=bool)[np.where(right, truth, 1 - truth)] & ~silent
        made = outcome_divergence(Mentions(named, PAIR), Groups(truth, PAIR), draws=199, seed=seed)
        small += made.p_value <= 0.05
        assert made.null_mean > 0
        assert made.ci_low <= made.value <= made.ci_high
        covered += made.ci_low <= 1e-3
    assert small <= sps.binom.ppf(0.9999, 200, 0.05)
    assert covered > 180


@pytest.mark.slow
def test_divergence_intervals_cover():
    rng = np.random.default_rng(5)
    shares = np.array([[0.7, 0.2, 0.1], [0.9, 0.05, 0.05]])
    truth, covered = float(jensen_shannon(shares)), 0
    who = np.repeat([0, 1], [400, 300])
    for seed in range(200):
        said = np.array([rng.choice(3, p=shares[g]) for g in who])
        named = np.eye(2, dtype=bool)[np.where(said == 1, 1 - who, who)] & (said != 2)[:, None]
        made = outcome_divergence(Mentions(named, PAIR), Groups(who, PAIR), draws=300, seed=seed)
        covered += made.ci_low <= truth <= made.ci_high
    assert covered >= 180


def test_divergence_shuffles_whole_images():
    rng = np.random.default_rng(2)
    small = 0
    for seed in range(150):
        right = np.repeat(rng.random(30) < 0.6, 5)
        truth = np.repeat(rng.permutation(np.repeat([0, 1], 15)), 5)
        said = Mentions(np.eye(2, dtype=bool)[np.where(right, truth, 1 - truth)], PAIR)
        images = np.repeat(np.arange(30), 5).tolist()
        made = outcome_divergence(said, Groups(truth, PAIR), images=images, draws=99, seed=seed)
        small += made.p_value <= 0.05
    assert small <= sps.binom.ppf(0.9999, 150, 0.05)


@pytest.mark.parametrize("measured", [error, outcome_divergence])
def test_an_image_of_two_groups_cannot_be_dealt_as_a_whole(measured):
    said = Mentions(np.eye(2, dtype=bool)[[0, 1, 0, 1]], PAIR)
    with pytest.raises(InputError, match="image 'b' has captions of two groups"):
        measured(said, Groups(np.array([0, 0, 0, 1]), PAIR), images=["a", "a", "b", "b"])
    undefined = Groups(np.array([0, 0, -1, 1]), PAIR)  # a caption without a label takes no part
    assert measured(said, undefined, images=["a", "a", "b", "b"], draws=9).n == 3


def test_one_group_has_no_divergence():
    with pytest.raises(InputError, match="two groups"):
        outcome_divergence(Mentions.of(["A man"], "lic"), labels_of("m"))


# Neutral rate, gaps, mentions


def test_neutral_rate_and_its_gap():
    said = Mentions.of(CAPTIONS * 4, "lic")
    made = neutral_rate(said)
    assert made.value == pytest.approx(1 / 6)
    assert "no null: a rate, not a bias" in made.notes
    assert "4 captions name several groups" in made.notes
    together = neutral_rate(said, images=[i // 6 for i in range(24)])
    assert together.value == made.value
    gap = score_gap(~said.named.any(axis=1), labels_of("mffmmf" * 4)).gap
    assert gap.value == pytest.approx(1 / 3)
    assert gap.null_mean > 0


def test_gaps_by_image():
    groups = labels_of("mmmmff")
    found = score_gap([1, 3, 5, 7, 1, 2], groups, images=["a", "a", "a", "b", "c", "d"], permutations=9)
    assert found.by_group["male"].value == pytest.approx(5)
    assert found.by_group["female"].value == pytest.approx(1.5)
    with pytest.raises(InputError, match="two groups"):
        score_gap([1, 2], labels_of("mf"), images=["a", "a"])


def test_mentions_are_checked():
    with pytest.raises(InputError, match="shape"):
        Mentions(np.zeros((3, 2), dtype=bool), ("a", "b", "c"))
    with pytest.raises(InputError, match="yes and no"):
        Mentions(np.full((3, 2), 2), ("a", "b"))
    with pytest.raises(InputError, match="empty"):
        Mentions.of([], "lic")
    with pytest.raises(UnknownNameError, match="group"):
        ratio(Mentions.of(["A man"], "lic"), ("male", "other"))
    with pytest.raises(InputError, match="images has 1 ids"):
        neutral_rate(Mentions.of(["A man", "A dog"], "lic"), images=["a"])


# As published

PUBLISHED = {
    "nic_st10": (2.47, None),  # 14.3 is printed: see below
    "sat": (2.06, 7.3),
    "fc": (2.07, 10.1),
    "transformer": (2.23, 3.6),  # 2.18 is printed; the released captions give 2.23
    "nic_plus": (2.89, 12.9),
}


@pytest.mark.parametrize("model", PUBLISHED)
def test_ratio_and_error_are_the_published_digits(model, shared_data):
    path = shared_data / "lic" / f"gender_{model}.jsonl"
    if not path.exists():
        pytest.skip("the LIC captions are not on this machine")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    said = Mentions.of([row["caption"] for row in rows], "lic")
    labels = Groups.from_values([row["gender"] for row in rows], PAIR)
    published = PUBLISHED[model]
    found = ratio(said, PAIR, labels=labels).estimate
    assert round(found.value, 2) == published[0]
    assert round(found.null_mean, 2) == 2.25
    wrong = 100 * error(said, labels).value
    if published[1] is not None:
        assert round(wrong, 1) == published[1]
    else:  # 1,536 of 10,780 is 14.249: 14.25, and so 14.3 when rounded twice
        assert wrong == pytest.approx(100 * 1536 / 10780)
        assert round(wrong, 2) == 14.25
