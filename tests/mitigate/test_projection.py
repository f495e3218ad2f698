"""Projection: values worked by hand, what it must remove and leave, and what it must refuse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.errors import InputError, UnknownNameError
from equipoise.mitigate import Projection, Remedy
from equipoise.mitigate.projection import VARIANTS

PROMPTS = [[1.0, 0.0, 0.0], [0.8, 0.6, 0.0]]
TWO = {"gender": ["female", "male"]}


def test_it_is_a_remedy():
    assert isinstance(Projection(), Remedy)
    assert Projection().fitted_on is None


def test_the_span_of_two_prompts_by_hand():
    found = Projection("prompts").fit(PROMPTS, TWO)
    assert np.allclose(found.matrix, np.diag([0.0, 0.0, 1.0]), atol=1e-12)


def test_calibration_by_hand():
    pair = Projection("equalised", strength=1000).fit([[1.0, 0, 0], [0, 1.0, 0]], TWO, sets=["a", "a"])
    assert np.allclose(pair.matrix[:2, :2], [[0.50025, 0.49975], [0.49975, 0.50025]], atol=5e-6)
    assert pair.directions.shape == (0, 3)
    both = Projection("calibrated", strength=1000).fit([[1.0, 0, 0], [0, 1.0, 0]], TWO, sets=["a", "a"])
    assert np.allclose(both.matrix, np.diag([0.0, 0.0, 1.0]), atol=1e-12)


def test_a_difference_inside_sets_by_hand():
    # In both sets "male" has 0.6 more on the second number; the sets themselves differ on the third.
    vectors = [[1, 0, 0.2], [1, 0.6, 0.2], [1, 0, -0.7], [1, 0.6, -0.7]]
    scaled = Projection().fit(vectors, {"gender": ["f", "m", "f", "m"]}, sets=["a", "a", "b", "b"])
    assert scaled.directions.shape == (1, 3)
    raw = np.array(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True)
    gap = (raw[1] - raw[0]) + (raw[3] - raw[2])
    assert np.allclose(np.abs(scaled.directions[0]), np.abs(gap / np.linalg.norm(gap)), atol=1e-9)


def test_repeated_prompts_do_no_harm():
    twice = Projection("prompts").fit(PROMPTS + PROMPTS, {"gender": ["f", "m", "f", "m"]})
    assert len(twice.directions) == 2
    assert np.allclose(twice.matrix, np.diag([0.0, 0.0, 1.0]), atol=1e-12)


FOUR = np.array([[1, 0, 0, 0, 0.1], [0.8, 0.6, 0, 0, 0.1], [0, 0, 1, 0, 0.1], [0, 0, 0.6, 0.8, 0.1]])
TWICE = {"gender": ["female", "male", "female", "male"]}


@pytest.mark.parametrize("sets", [["", "", "1", "1"], ["1", "2", "3", ""], [""] * 4])
def test_prompts_span_in_a_set_or_not(sets):
    found = Projection("prompts").fit(FOUR, TWICE, sets=sets)
    assert np.abs(found.matrix @ FOUR.T).max() < 1e-12
    about = found.fitted_on
    assert (about.n, about.n_sets, about.n_left_out) == (4, 0, 0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_sets_may_be_an_array(variant):
    sets = ["", "", "1", "1"]
    by_list, by_array = (Projection(variant).fit(FOUR, TWICE, sets=some) for some in (sets, np.array(sets)))
    assert np.array_equal(by_list.matrix, by_array.matrix)


def with_bias(seed, d=8, sets=12, missing=0.0):
    """Vectors of sets of 2 x 3 groups that differ along known directions, and those directions."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    a, b1, b2 = basis[:, :3].T
    effects = {("gender", "f"): -0.3 * a, ("gender", "m"): 0.3 * a}
    effects |= {("tone", "l"): 0.4 * b1, ("tone", "m"): 0.2 * b2, ("tone", "d"): -0.4 * b1 - 0.2 * b2}
    rows, gender, tone, names = [], [], [], []
    for number in range(sets):
        base = rng.normal(size=d)
        base -= base @ np.stack([a, b1, b2]).T @ np.stack([a, b1, b2])
        base *= 3 / np.linalg.norm(base)
        for g in "fm":
            for t in "lmd":
                if rng.random() < missing:
                    continue
                rows.append(base + effects["gender", g] + effects["tone", t])
                gender.append(g)
                tone.append(t)
                names.append(number)
    return np.array(rows), {"gender": gender, "tone": tone}, names, np.stack([a, b1, b2])


def test_it_finds_and_removes_the_directions_of_all_axes():
    vectors, groups, sets, known = with_bias(0)
    remedy = Projection().fit(vectors, groups, sets=sets)
    assert len(remedy.directions) == 3
    after = remedy.transform(vectors)
    assert np.abs(after @ remedy.directions.T).max() < 1e-6
    assert np.allclose(np.linalg.norm(after, axis=1), 1, atol=1e-6)
    for axis, labels in groups.items():
        means = [after[np.array(labels) == g].mean(axis=0) for g in sorted(set(labels))]
        before = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        was = [before[np.array(labels) == g].mean(axis=0) for g in sorted(set(labels))]
        assert np.abs(np.ptp(means, axis=0)).max() < 0.05 * np.abs(np.ptp(was, axis=0)).max(), axis
    assert np.linalg.norm(remedy.directions @ known.T) == pytest.approx(np.sqrt(3), abs=0.01)


def test_missing_images_do_not_pass_for_a_group():
    vectors, groups, sets, known = with_bias(1, sets=40, missing=0.3)
    remedy = Projection().fit(vectors, groups, sets=sets)
    assert np.linalg.norm(remedy.directions @ known.T) == pytest.approx(np.sqrt(3), abs=0.02)


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(0, 10_000), st.sampled_from(["differences", "prompts"]))
def test_idempotent_and_as_by_brute_force(seed, variant):
    rng = np.random.default_rng(seed)
    n_sets, d = int(rng.integers(2, 5)), int(rng.integers(14, 20))
    labels = ["f", "m", "x"][: int(rng.integers(2, 4))]
    vectors = rng.normal(size=(n_sets * len(labels), d))
    groups, sets = labels * n_sets, np.repeat(np.arange(n_sets), len(labels)).tolist()
    remedy = Projection(variant).fit(vectors, {"gender": groups}, sets=sets)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    if variant == "prompts":
        unwanted = unit
    else:
        centred = unit.reshape(n_sets, len(labels), d)
        unwanted = (centred - centred.mean(axis=1, keepdims=True)).mean(axis=0)[1:]
    plain = np.eye(d) - np.linalg.pinv(unwanted) @ unwanted
    assert np.allclose(remedy.matrix, plain, atol=1e-7)
    assert np.allclose(remedy.matrix @ remedy.matrix, remedy.matrix, atol=1e-9)
    others = rng.normal(size=(5, d))
    once = remedy.transform(others)
    assert np.allclose(remedy.transform(once), once, atol=1e-5)
    left = others @ plain.T
    assert np.allclose(once, left / np.linalg.norm(left, axis=1, keepdims=True), atol=1e-5)


def test_what_it_was_fitted_on_is_recorded():
    vectors, groups, sets, _ = with_bias(2, sets=3)
    groups["gender"] = [None, *groups["gender"][1:]]
    about = Projection().fit(vectors, groups, sets=sets).fitted_on
    assert (about.n, about.n_sets, about.n_left_out) == (17, 3, 1)
    assert about.groups == {"gender": ("f", "m"), "tone": ("d", "l", "m")}


def test_an_image_alone_in_its_set_is_left_out():
    about = Projection().fit([*PROMPTS, [0, 0, 1.0]], {"g": ["f", "m", "f"]}, sets=["a", "a", "b"]).fitted_on
    assert (about.n, about.n_left_out) == (2, 1)


def refused(match, call, error=InputError):
    with pytest.raises(error, match=match):
        call()


def test_bad_input_is_refused():
    fit = Projection().fit
    refused("did you mean 'calibrated'", lambda: Projection("calibrate"), UnknownNameError)
    refused("lambda is a number above 0", lambda: Projection(strength=0))
    refused("not fitted", lambda: Projection().transform(PROMPTS))
    refused("shape", lambda: fit([1.0, 2.0], TWO))
    refused("not an array of numbers", lambda: fit([[1.0], ["x"]], TWO))
    refused("row 1 holds something that is not a number", lambda: fit([[1.0, 2.0], [np.inf, 0.0]], TWO))
    refused("row 1 has no length", lambda: fit([[1.0, 2.0], [0.0, 0.0]], TWO))
    refused("groups is empty", lambda: fit(PROMPTS, {}))
    refused(r"groups\['gender'\] has 1 labels for 2 vectors", lambda: fit(PROMPTS, {"gender": ["f"]}))
    refused("shows only 'f'", lambda: fit(PROMPTS, {"gender": ["f", "f"]}))
    refused("sets has 1 names", lambda: fit(PROMPTS, TWO, sets=["a"]))
    refused("do not differ", lambda: fit([[1.0, 0.0], [1.0, 0.0]], TWO))
    refused("nothing would be left", lambda: Projection("prompts").fit([[1.0, 0.0], [0.0, 1.0]], TWO))
    refused("say which with sets", lambda: Projection("calibrated").fit(PROMPTS, TWO))
    refused("shows no group", lambda: fit(PROMPTS, TWO, sets=["a", "b"]))
    fitted = Projection("prompts").fit(PROMPTS, TWO)
    refused("belongs to another model", lambda: fitted.transform([[1.0, 0.0]]))
    refused("row 1 nothing is left", lambda: fitted.transform([[0.0, 0.0, 1.0], [1.0, 0.3, 0.0]]))


def test_every_variant_can_be_made_again_from_its_settings():
    for variant in VARIANTS:
        wanted = {"variant": variant, "strength": 7.0, "share": 0.5}
        assert Projection(**Projection(variant, 7, 0.5).settings()).settings() == wanted
