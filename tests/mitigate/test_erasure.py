"""LEACE, INLP and CLIP-clip: closed forms against other code, planted dimensions, and what must be refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.errors import InputError
from equipoise.mitigate import Bend, ClipClip, Inlp, Leace, Rerank
from equipoise.mitigate.clip_clip import mutual_information


def leaning(seed, n=600, d=10, groups=3, size=1.0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, groups, n)
    mixing = rng.normal(size=(d, d)) / np.sqrt(d)
    vectors = rng.normal(size=(n, d)) @ mixing + size * rng.normal(size=(groups, d))[codes] + rng.normal(size=d)
    return vectors, codes, {"axis": [f"g{c}" for c in codes]}


@settings(deadline=None, max_examples=examples(25))
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(6, 16))
def test_leace_is_that_of_concept_erasure(seed, groups, d):
    torch = pytest.importorskip("torch")
    erasure = pytest.importorskip("concept_erasure")
    vectors, codes, labels = leaning(seed, d=d, groups=groups)
    x = torch.from_numpy(vectors)
    z = torch.nn.functional.one_hot(torch.from_numpy(codes), int(codes.max()) + 1).double()
    theirs = erasure.LeaceEraser.fit(x, z, shrinkage=False, constrain_cov_trace=False, svd_tol=1e-6)
    ours = Leace().fit(vectors, labels)
    np.testing.assert_allclose(ours.erased(vectors), theirs(x).numpy(), atol=1e-5)
    np.testing.assert_allclose(ours.matrix, theirs.P.numpy(), atol=1e-5)


def test_leace_leaves_no_linear_signal_in_what_it_has_seen_and_little_in_the_rest():
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    vectors, codes, labels = leaning(3, n=12_000, d=16, groups=2, size=0.6)
    fitted = Leace().fit(vectors[:6000], {"axis": labels["axis"][:6000]})
    before = LogisticRegression().fit(vectors[:6000], codes[:6000])
    assert roc_auc_score(codes[6000:], before.decision_function(vectors[6000:])) > 0.8
    erased = fitted.erased(vectors)
    means = [erased[:6000][codes[:6000] == g].mean(axis=0) for g in (0, 1)]
    np.testing.assert_allclose(*means, atol=1e-9)
    probe = LogisticRegression().fit(erased[:6000], codes[:6000])
    assert abs(roc_auc_score(codes[:6000], probe.decision_function(erased[:6000])) - 0.5) < 0.02
    # an AUC of chance over 6,000 rows of two groups has a standard error of 0.0075
    again = LogisticRegression().fit(erased[6000:9000], codes[6000:9000])
    assert abs(roc_auc_score(codes[9000:], again.decision_function(erased[9000:])) - 0.5) < 0.06


def test_no_other_erasing_projection_changes_vectors_less():
    vectors, codes, labels = leaning(4, groups=2)
    smallest = np.square(Leace().fit(vectors, labels).erased(vectors) - vectors).sum(axis=1).mean()
    centred = vectors - vectors.mean(axis=0)
    gap = vectors[codes == 1].mean(axis=0) - vectors[codes == 0].mean(axis=0)
    for seed in range(20):
        right = gap + np.random.default_rng(seed).normal(size=len(gap))
        other = centred - np.outer(centred @ right, gap) / (right @ gap)
        np.testing.assert_allclose(other[codes == 0].mean(axis=0), other[codes == 1].mean(axis=0), atol=1e-9)
        assert np.square(other - centred).sum(axis=1).mean() > smallest


def test_leace_within_sets_forgets_what_differs_between_sets():
    rng = np.random.default_rng(0)
    scenes = 5 * rng.normal(size=(200, 8)).repeat(2, axis=0)
    codes = np.tile([0, 1], 200)
    vectors = scenes + np.outer(codes, [1.0, 0.5, 0, 0, 0, 0, 0, 0]) + 0.1 * rng.normal(size=scenes.shape)
    labels, sets = {"axis": [str(c) for c in codes]}, np.arange(200).repeat(2).tolist()
    erased = Leace(within=True).fit(vectors, labels, sets=sets).erased(vectors)
    assert np.abs((erased[1::2] - erased[::2]).mean(axis=0)).max() < 1e-9
    with pytest.raises(InputError, match="say which with sets"):
        Leace(within=True).fit(vectors, labels)


@pytest.mark.parametrize("remedy", [Leace, lambda: ClipClip(m=3), Bend, Rerank])
def test_what_compares_nothing_inside_sets_learns_from_images_without_one(remedy):
    vectors, _, labels = leaning(7, n=400)
    sets = [i // 2 if i < 40 else None for i in range(400)]  # photographs beside a few counterfactual sets
    some, plain = remedy().fit(vectors, labels, sets=sets), remedy().fit(vectors, labels)
    assert (some.fitted_on.n, some.fitted_on.n_left_out) == (400, 0)
    for name, value in plain.state().items():
        np.testing.assert_array_equal(some.state()[name], value)
    with pytest.raises(InputError, match="sets has 3 names for 400 vectors"):
        remedy().fit(vectors, labels, sets=sets[:3])


def test_leace_keeps_its_word_where_few_images_are_in_sets():
    vectors, codes, labels = leaning(7, n=400, groups=2)
    erased = Leace().fit(vectors, labels, sets=[i // 2 if i < 40 else None for i in range(400)]).erased(vectors)
    np.testing.assert_allclose(erased[codes == 0].mean(axis=0), erased[codes == 1].mean(axis=0), atol=1e-9)


def test_inlp_takes_out_what_a_linear_guess_finds():
    vectors, codes, labels = leaning(5, n=4000, groups=2)
    centred = vectors - vectors.mean(axis=0)

    def guess(rows):
        weights = np.linalg.lstsq(rows - rows.mean(axis=0), codes - codes.mean(), rcond=None)[0]
        return np.corrcoef((rows - rows.mean(axis=0)) @ weights, codes)[0, 1]

    left = [guess(centred)]
    for rounds in (1, 4, 8):
        remedy = Inlp(rounds).fit(vectors, labels)
        np.testing.assert_allclose(remedy.matrix @ remedy.matrix, remedy.matrix, atol=1e-9)
        np.testing.assert_allclose(remedy.matrix, remedy.matrix.T, atol=1e-12)
        assert round(10 - np.trace(remedy.matrix)) == rounds
        left.append(guess(centred @ remedy.matrix + 1e-9 * np.random.default_rng(0).normal(size=centred.shape)))
    assert left[0] > 0.9
    assert (np.diff(left) < 0).all()  # every round finds the group a little less well
    with pytest.raises(InputError, match="at least once"):
        Inlp(0)
    with pytest.raises(InputError, match="give fewer rounds"):
        Inlp(50).fit(vectors, labels)


def planted(n=1500, d=512, told=range(100)):
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 2, n)
    vectors = rng.normal(size=(n, d))
    vectors[:, list(told)] += 1.5 * codes[:, None]
    return vectors, codes, {"gender": [("f", "m")[c] for c in codes]}


@pytest.mark.parametrize("estimator", ["quantiles", "smoothed", "ksg"])
def test_clip_clip_finds_planted_numbers(estimator):
    vectors, _, labels = planted(d=24, told=[3, 5, 17])
    assert ClipClip(3, estimator).fit(vectors, labels).dropped.tolist() == [3, 5, 17]


def test_a_hundred_of_512_keep_412():
    vectors, _, labels = planted()
    remedy = ClipClip(100).fit(vectors, labels)
    assert remedy.dropped.tolist() == list(range(100))
    assert len(remedy.kept) == 412
    assert remedy.transform(vectors[:3]).shape == (3, 412)
    assert ClipClip(0.2).fit(vectors, labels).kept.shape == (410,)  # 20% of 512 is 102.4


def test_the_two_orders_by_hand():
    vectors = np.array([[3.0, 0, 4], [0, 5, 12], [1, 0, 1], [0, 2, 2]] * 3)
    labels = {"g": ["f", "m", "f", "m"] * 3}
    first, second = ClipClip(1).fit(vectors, labels), ClipClip(1, order="normalise_then_drop").fit(vectors, labels)
    for remedy in (first, second):
        remedy._information = np.array([1.0, 0.0, 0.0])  # the first number is dropped
    image, text = np.array([[3.0, 0, 4]]), np.array([[0, 5.0, 12]])
    # drop, then normalise: (0, 1) and (5, 12) / 13
    assert float(first.transform(image)[0] @ first.transform(text, "text")[0]) == pytest.approx(12 / 13)
    # normalise, then drop, then the plain product: (0, 0.8) and (5, 12) / 13
    a, b = second.transform(image), second.transform(text, "text")
    assert float(a[0] @ b[0]) == pytest.approx(0.8 * 12 / 13)
    assert np.allclose(np.linalg.norm([a[0], b[0]], axis=1), 1)


def test_information_of_two_bins_by_hand():
    # 3 of 4 in the upper half are of group 1, 1 of 4 in the lower: ln 2 - H(1/4)
    column = np.arange(8.0)[:, None]
    codes = np.array([0, 0, 0, 1, 1, 1, 1, 0])
    plain = np.log(2) + 0.75 * np.log(0.75) + 0.25 * np.log(0.25)
    assert mutual_information(column, codes, bins=2)[0] == pytest.approx(plain - 1 / 16)


def test_bad_settings_are_refused():
    vectors, _, labels = planted(n=60, d=8, told=[1])
    for call, match in (
        (lambda: ClipClip(8).fit(vectors, labels), "would leave nothing"),
        (lambda: ClipClip(0), "how many numbers"),
        (lambda: ClipClip(2.5), "how many numbers"),
        (lambda: ClipClip(estimator="ksq"), "did you mean 'ksg'"),
        (lambda: ClipClip(order="drop"), "order of dropping"),
        (lambda: Leace(share=0), "above 0 and at most 1"),
        (lambda: Leace().fit(np.ones((6, 3)), {"g": list("ababab")}), "nothing to erase"),
        (lambda: Inlp().fit(np.ones((6, 3)), {"g": list("ababab")}), "no direction"),
    ):
        with pytest.raises(InputError, match=match):
            call()
