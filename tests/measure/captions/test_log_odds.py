"""Word use by group: the formula in a plain loop, shuffles that do not cry wolf, planted words found first."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sps

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.captions import word_log_odds
from equipoise.measure.groups import Groups
from equipoise.measure.stats.permutation import holm

WORDS = ["red", "blue", "tie", "hat", "dog"]


def captions(rng, n, words=WORDS):
    return [[words[i] for i in rng.integers(0, len(words), size=rng.integers(1, 6))] for _ in range(n)]


@given(st.integers(2, 3), st.sampled_from(["presence", "tokens"]), st.booleans(), st.integers(0, 10_000))
def test_z_is_that_of_a_plain_loop(n_groups, count, given_background, seed):
    rng = np.random.default_rng(seed)
    said = captions(rng, 20)
    labels = np.concatenate([np.arange(n_groups), rng.integers(-1, n_groups, size=20 - n_groups)])
    groups = Groups(labels, tuple("abc"[:n_groups]))
    background = {"red": 10.0, "blue": 5.0, "other": 85.0} if given_background else None
    prior = 30.0 if given_background else None
    found = word_log_odds(said, groups, count=count, background=background, prior=prior, permutations=3).table

    def times(word, rows):
        return sum(said[i].count(word) if count == "tokens" else word in said[i] for i in rows)

    defined = [i for i in range(20) if labels[i] >= 0]
    words = sorted({w for i in defined for w in said[i]})
    sizes = [sum(times(w, [i for i in defined if labels[i] == g]) for w in words) for g in range(n_groups)]
    if given_background:
        seen = {w: max(background.get(w, 0.0), 0.5) for w in words}
        share = {w: seen[w] / max(sum(seen.values()), 100.0) for w in words}
        alpha_0 = 30.0
    else:
        share = {w: times(w, defined) / sum(sizes) for w in words}
        alpha_0 = float(min(sizes))
    assert len(found) == len(words) * n_groups
    for row in found.to_dict("records"):
        g = groups.index(row["group"])
        inside, outside = ([i for i in defined if (int(labels[i]) == g) is side] for side in (True, False))
        ours, theirs = times(row["word"], inside), times(row["word"], outside)
        alpha = alpha_0 * share[row["word"]]
        rest = sum(sizes) - sizes[g]
        delta = np.log((ours + alpha) / (sizes[g] + alpha_0 - ours - alpha))
        delta -= np.log((theirs + alpha) / (rest + alpha_0 - theirs - alpha))
        sd = np.sqrt(1 / (ours + alpha) + 1 / (theirs + alpha))
        assert (row["count"], row["others"]) == (ours, theirs)
        assert (row["log_odds"], row["sd"], row["z"]) == pytest.approx((delta, sd, delta / sd), abs=1e-9)
        assert row["p_value"] == pytest.approx(2 * sps.norm.sf(abs(delta / sd)), abs=1e-9)
    assert found["p_holm"].tolist() == pytest.approx(holm(found["p_value"]).tolist())
    assert (np.diff(found["z"].abs()) <= 1e-9).all()


@pytest.mark.slow
def test_words_used_alike_do_not_stand_out():
    rng = np.random.default_rng(0)
    shuffled, normal = 0, 0
    for seed in range(100):
        who = Groups(rng.integers(0, 2, 80), ("m", "f"))
        # each caption three times: repeated captions fool the normal p-values
        said = captions(rng, 80, [f"w{i}" for i in range(20)])
        found = word_log_odds([row * 3 for row in said], who, count="tokens", permutations=99, seed=seed)
        shuffled += found.estimate.p_value <= 0.05
        normal += (found.table["p_holm"] <= 0.05).any()
    assert shuffled <= sps.binom.ppf(0.9999, 100, 0.05)
    assert normal > 2 * shuffled
    plain = 0
    for seed in range(100):
        who = Groups(rng.integers(0, 2, 80), ("m", "f"))
        found = word_log_odds(captions(rng, 80, [f"w{i}" for i in range(20)]), who, permutations=9, seed=seed)
        plain += (found.table["p_holm"] <= 0.05).any()
    assert plain <= sps.binom.ppf(0.9999, 100, 0.05)


def test_a_planted_word_comes_first():
    rng = np.random.default_rng(0)
    who = rng.integers(0, 2, 300)
    said = captions(rng, 300)
    for i in np.flatnonzero(who == 1):
        if rng.random() < 0.3:
            said[i].append("zyx")
    found = word_log_odds(said, Groups(who, ("m", "f")))
    first = found.table.iloc[0]
    assert (first["word"], first["group"]) == ("zyx", "f")
    assert first["p_shuffled"] <= 0.01
    assert found.standing_out(0.01)["word"].tolist() == ["zyx", "zyx"]
    assert found.estimate.value == pytest.approx(first["z"])
    assert found.estimate.value > found.estimate.null_mean
    assert "'zyx' of f" in found.estimate.notes[0]


def test_which_words_are_reported():
    who = Groups.from_values(["m", "f", None] * 4)
    said = [["red", "tie"], ["red", "hat"], ["green"]] * 4

    def words(**settings):
        return set(word_log_odds(said, who, permutations=3, **settings).table["word"])

    assert words() == {"red", "tie", "hat"}
    assert words(exclude={"tie"}) == {"red", "hat"}
    assert words(content={"tie", "hat"}) == {"tie", "hat"}
    assert words(top=1) == {"red"}
    assert word_log_odds(said, who, permutations=3).estimate.dropped == {"undefined group": 4}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"content": {"nothing"}}, "no word is left"),
        ({"prior": 0.0}, "prior = 0.0"),
        ({"count": "captions"}, "way to count"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(InputError, match=message):
        word_log_odds([["red"], ["tie"]], Groups.from_values(["m", "f"]), **settings)


def test_one_group_has_nothing_to_compare():
    with pytest.raises(InputError, match="only one"):
        word_log_odds([["red"], ["tie"]], Groups.from_values(["m", "m"]))
    with pytest.raises(UnknownNameError):
        word_log_odds([["red"], ["tie"]], Groups.from_values(["m", "f"]), count="words")


def several_captions(rng, n_images=40, each=5):
    """Captions of images of either group that differ in what they show, and in nothing else."""
    said = []
    for _ in range(n_images):
        shown = rng.choice(40, 6, replace=False)
        said += [[f"w{i}" for i in rng.choice(shown, 4, replace=False)] for _ in range(each)]
    images = np.repeat(np.arange(n_images), each)
    return said, Groups(images % 2, ("m", "f")), images.tolist()


def test_captions_of_one_image_are_not_independent():
    alone, together = [], []
    for seed in range(12):
        said, who, images = several_captions(np.random.default_rng(seed))
        naive, found = (word_log_odds(said, who, images=ids, permutations=39, seed=seed) for ids in (None, images))
        assert found.estimate.value == naive.estimate.value
        alone.append(naive.estimate.p_value <= 0.05)
        together.append(found.estimate.p_value <= 0.05)
    assert sum(alone) >= 8
    assert sum(together) <= sps.binom.ppf(0.999, 12, 0.05)


@pytest.mark.slow
def test_words_of_several_captions_do_not_cry_wolf():
    false = 0
    for seed in range(200):
        said, who, images = several_captions(np.random.default_rng(seed))
        false += word_log_odds(said, who, images=images, permutations=99, seed=seed).estimate.p_value <= 0.05
    assert false <= sps.binom.ppf(0.999, 200, 0.05)


def test_one_caption_per_image_changes_nothing():
    rng = np.random.default_rng(0)
    said, who = captions(rng, 40), Groups(rng.integers(-1, 2, 40), ("m", "f"))
    plain = word_log_odds(said, who, permutations=19)
    named = word_log_odds(said, who, images=rng.permutation(40).tolist(), permutations=19)
    assert plain.estimate == named.estimate
    assert plain.table.equals(named.table)


def test_an_image_of_two_groups_is_refused():
    who = Groups.from_values(["m", "f"])
    with pytest.raises(InputError, match="image 'a' has captions of two groups"):
        word_log_odds([["red"], ["tie"]], who, images=["a", "a"])
    with pytest.raises(InputError, match="images"):
        word_log_odds([["red"], ["tie"]], who, images=["a"])
