"""Quality metrics against plain loops, closed forms, scipy's matrix square root and simulation."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg
from tests.examples import examples

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure import images as quality

seeds = st.integers(0, 2**32 - 1)


def normals(seed, n, d, shift=0.0, scale=1.0):
    return np.random.default_rng(seed).normal(shift, scale, (n, d))


# Fréchet distance


def sqrtm_frechet(x, y):
    s1, s2 = np.cov(x.T).reshape(x.shape[1], -1), np.cov(y.T).reshape(x.shape[1], -1)
    root = linalg.sqrtm(s1 @ s2)
    gap = x.mean(0) - y.mean(0)
    return float(gap @ gap + np.trace(s1) + np.trace(s2) - 2 * np.trace(root.real))


@settings(deadline=None, max_examples=examples(40))
@given(seeds, st.integers(1, 8), st.integers(20, 60), st.integers(20, 60))
def test_frechet_matches_the_matrix_square_root(seed, d, n, m):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d)) @ rng.normal(size=(d, d)) + 0.5
    expected = sqrtm_frechet(x, y)
    assert quality.frechet_distance(x, y).value == pytest.approx(expected, abs=1e-8, rel=1e-8)
    moments = quality.Moments.of(x), quality.Moments.of(y)
    assert quality.frechet_from_moments(*moments) == pytest.approx(expected, abs=1e-8, rel=1e-8)


@settings(deadline=None, max_examples=examples(20))
@given(seeds, st.integers(4, 9), st.integers(4, 9))
def test_frechet_with_fewer_rows_than_dimensions_matches_eigenvalues(seed, n, m):
    x, y = normals(seed, n, 12), normals(seed + 1, m, 12, 0.3)
    s1, s2 = np.cov(x.T), np.cov(y.T)
    eigenvalues = np.linalg.eigvals(s1 @ s2).real.clip(0)
    # all but min(n, m) - 1 eigenvalues are zero; rounding of zeros must not be added up. The smallest of the others
    # may be so small that its rounding, some 1e-12, shows in its square root: hence the wide tolerance.
    cross = np.sqrt(np.sort(eigenvalues)[::-1][: min(n, m) - 1]).sum()
    gap = x.mean(0) - y.mean(0)
    expected = gap @ gap + np.trace(s1) + np.trace(s2) - 2 * cross
    found = quality.frechet_distance(x, y)
    assert found.value == pytest.approx(expected, abs=1e-4)
    assert any("jackknife" in note for note in found.notes)
    assert quality.frechet_from_moments(quality.Moments.of(x), quality.Moments.of(y)) == pytest.approx(
        expected, abs=1e-4
    )


@pytest.mark.parametrize(("rows", "folds"), [(4, 4), (12, 10)])
def test_the_note_of_a_jackknife_has_its_folds(rows, folds):
    x = np.random.default_rng(0).normal(size=(rows, 20))
    assert f"the interval is a {folds}-fold jackknife" in str(quality.frechet_distance(x, x + 1).notes)


def test_frechet_of_two_gaussians_is_known_and_identical_sets_are_at_zero():
    # one dimension: (m1 - m2)^2 + (s1 - s2)^2
    x = np.array([[-1.0], [0.0], [1.0]])
    assert quality.frechet_distance(x, 3 * x + 2).value == pytest.approx(4 + 4)
    y = normals(0, 100, 5)
    assert quality.frechet_distance(y, y).value == pytest.approx(0, abs=1e-9)
    assert quality.frechet_distance(y, y[::-1]).value == pytest.approx(0, abs=1e-9)


def test_frechet_interval_covers_what_the_value_varies_by():
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(4, 4)) / 3 + np.eye(4)
    found = [
        quality.frechet_distance(rng.normal(size=(150, 4)), rng.normal(size=(150, 4)) @ mix + 0.3) for _ in range(200)
    ]
    mean = np.mean([e.value for e in found])
    cover = np.mean([e.ci_low <= mean <= e.ci_high for e in found])
    assert 0.9 <= cover <= 0.99


def test_moments_merge_as_the_whole():
    x = normals(3, 50, 4)
    merged = quality.Moments.of(x[:7]) + quality.Moments.of(x[7:8]) + quality.Moments.of(x[8:])
    whole = quality.Moments.of(x)
    np.testing.assert_allclose(merged.mean, whole.mean, atol=1e-12)
    np.testing.assert_allclose(merged.scatter, whole.scatter, atol=1e-10)
    with pytest.raises(InputError, match="4 and 2 dimensions"):
        whole + quality.Moments.of(np.ones((2, 2)))
    with pytest.raises(InputError, match="at least 2 rows"):
        quality.Moments.of(np.ones((1, 2))).covariance


# Kernel distances


def plain_mmd(x, y, kernel):
    n, m = len(x), len(y)
    xx = sum(kernel(x[i], x[j]) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    yy = sum(kernel(y[i], y[j]) for i in range(m) for j in range(m) if i != j) / (m * (m - 1))
    xy = sum(kernel(a, b) for a in x for b in y) / (n * m)
    return xx + yy - 2 * xy


@settings(deadline=None, max_examples=examples(30))
@given(seeds, st.integers(3, 9), st.integers(3, 9), st.integers(1, 4))
def test_kernel_distances_match_plain_loops(seed, n, m, d):
    x, y = normals(seed, n, d), normals(seed + 1, m, d, 0.5)
    cubic = plain_mmd(x, y, lambda a, b: (a @ b / d + 1) ** 3)
    found = quality.kernel_distance(x, y)
    assert found.value == pytest.approx(cubic, rel=1e-9, abs=1e-9)
    gauss = plain_mmd(x, y, lambda a, b: math.exp(-((a - b) @ (a - b)) / (2 * 0.7**2)))
    assert quality.kernel_distance(x, y, quality.gaussian_kernel(0.7)).value == pytest.approx(gauss, abs=1e-9)
    # the jackknife is the plain one
    left = [quality.kernel_distance(np.delete(x, i, 0), y).value for i in range(n)] if n > 3 else None
    if left and m > 3:
        right = [quality.kernel_distance(x, np.delete(y, i, 0)).value for i in range(m)]
        variance = (n - 1) / n * sum((v - np.mean(left)) ** 2 for v in left)
        variance += (m - 1) / m * sum((v - np.mean(right)) ** 2 for v in right)
        assert found.ci_high - found.value == pytest.approx(1.959963984540054 * math.sqrt(variance), rel=1e-6)


@settings(deadline=None, max_examples=examples(20))
@given(seeds, st.integers(3, 8), st.integers(3, 8))
def test_cmmd_matches_plain_loops_in_both_variants(seed, n, m):
    x, y = normals(seed, n, 4), normals(seed + 1, m, 4, 1.0)
    u = [row / np.linalg.norm(row) for row in x]
    v = [row / np.linalg.norm(row) for row in y]

    def kernel(a, b):
        return math.exp(-((a - b) @ (a - b)) / 200)

    assert quality.cmmd(x, y).value == pytest.approx(1000 * plain_mmd(u, v, kernel), abs=1e-9)
    biased = (
        np.mean([[kernel(a, b) for b in u] for a in u])
        + np.mean([[kernel(a, b) for b in v] for a in v])
        - 2 * np.mean([[kernel(a, b) for b in v] for a in u])
    )
    assert quality.cmmd(x, y, variant="released_code").value == pytest.approx(1000 * biased, abs=1e-9)


def test_kernel_distance_is_unbiased_and_its_p_value_uniform_enough():
    rng = np.random.default_rng(0)
    found = [
        quality.kernel_distance(rng.normal(size=(30, 3)), rng.normal(size=(30, 3)), permutations=99) for _ in range(200)
    ]
    values = np.array([e.value for e in found])
    assert abs(values.mean()) < 3 * values.std() / math.sqrt(200)
    p = np.array([e.p_value for e in found])
    assert abs((p <= 0.05).mean() - 0.05) < 0.05
    assert 0.4 < p.mean() < 0.6


def test_kernel_interval_covers_the_truth():
    rng = np.random.default_rng(1)

    # E (xy)^... with k(a, b) = a b (degree 1, offset 0): MMD^2 = (difference of means)^2
    kernel = quality.polynomial_kernel(degree=1, gamma=1.0, offset=0.0)
    cover = 0
    for _ in range(200):
        e = quality.kernel_distance(rng.normal(size=(80, 1)), rng.normal(1.0, 1, size=(80, 1)), kernel)
        cover += e.ci_low <= 1.0 <= e.ci_high
    assert 0.9 <= cover / 200 <= 0.99


def test_kid_subsets_agree_with_the_whole():
    x, y = normals(0, 400, 6), normals(1, 400, 6, 0.5)
    whole, parts = quality.kernel_distance(x, y), quality.kid(x, y, subsets=60, subset_size=100)
    assert parts.ci_low < whole.value < parts.ci_high
    assert quality.kid(x, y, subset_size=1000).value == pytest.approx(whole.value)
    again = quality.kid(x, y, subsets=60, subset_size=100)
    assert again == parts
    # the interval is for the whole sample, so it is about as wide as the whole sample's own
    ratio = (parts.ci_high - parts.ci_low) / (whole.ci_high - whole.ci_low)
    assert 0.5 < ratio < 2.0


@pytest.mark.slow
def test_too_many_rows_for_a_permutation_test_is_said():
    big = np.zeros((4001, 1))
    with pytest.raises(InputError, match="permutations=0"):
        quality.kernel_distance(big, big, permutations=10)


# Fidelity and variety


def plain_prdc(x, y, k, inside):
    def radius(rows, i):
        return sorted(math.dist(rows[i], rows[j]) for j in range(len(rows)) if j != i)[k - 1]

    rx, ry = [radius(x, i) for i in range(len(x))], [radius(y, i) for i in range(len(y))]
    d = [[math.dist(a, b) for b in y] for a in x]
    n, m = len(x), len(y)
    precision = np.mean([any(inside(d[i][j], rx[i]) for i in range(n)) for j in range(m)])
    recall = np.mean([any(inside(d[i][j], ry[j]) for j in range(m)) for i in range(n)])
    density = np.mean([sum(inside(d[i][j], rx[i]) for i in range(n)) / k for j in range(m)])
    coverage = np.mean([inside(min(d[i]), rx[i]) for i in range(n)])
    return precision, recall, density, coverage


@settings(deadline=None, max_examples=examples(40))
@given(seeds, st.integers(6, 14), st.integers(6, 14), st.integers(1, 5), st.booleans())
def test_manifold_scores_match_plain_loops(seed, n, m, k, ties):
    rng = np.random.default_rng(seed)
    # whole numbers: exact ties of distances and duplicate points
    x = rng.integers(0, 3, (n, 2)).astype(float) if ties else rng.normal(size=(n, 3))
    y = rng.integers(0, 3, (m, 2)).astype(float) if ties else rng.normal(0.5, 1, size=(m, 3))
    for variant, inside in (("closed", lambda d, r: d <= r + 1e-9), ("prdc", lambda d, r: d < r - 1e-9)):
        found = quality.manifold_scores(x, y, k=k, variant=variant)
        expected = plain_prdc(x.tolist(), y.tolist(), k, inside)
        got = (found.precision.value, found.recall.value, found.density.value, found.coverage.value)
        assert got == pytest.approx(expected, abs=1e-9)


def test_identical_distributions_meet_the_lemma():
    rng = np.random.default_rng(0)
    found = [quality.manifold_scores(rng.normal(size=(100, 2)), rng.normal(size=(150, 2))) for _ in range(40)]
    assert np.mean([s.coverage.value for s in found]) == pytest.approx(quality.expected_coverage(100, 150, 5), abs=0.01)
    assert np.mean([s.density.value for s in found]) == pytest.approx(1.0, abs=0.03)


def test_dropped_modes_show_in_recall_and_coverage_not_in_precision():
    rng = np.random.default_rng(0)
    real = np.concatenate([rng.normal(size=(100, 2)), rng.normal(20, 1, size=(100, 2))])
    found = quality.manifold_scores(real, rng.normal(size=(200, 2)))
    assert found.precision.value > 0.9
    assert found.recall.ci_high < 0.6
    assert found.coverage.ci_high < 0.6


@settings(deadline=None, max_examples=examples(40))
@given(seeds, st.integers(2, 12), st.integers(1, 12), st.sampled_from([0.5, 1.0, 2.0, math.inf]))
def test_vendi_matches_the_eigenvalues_of_the_similarity_matrix(seed, n, d, order):
    x = normals(seed, n, d)
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    eigenvalues = np.linalg.eigvalsh(u @ u.T / n)
    eigenvalues = eigenvalues[eigenvalues > 1e-12]
    if order == 1:
        expected = math.exp(-(eigenvalues * np.log(eigenvalues)).sum())
    elif math.isinf(order):
        expected = 1 / eigenvalues.max()
    else:
        expected = (eigenvalues**order).sum() ** (1 / (1 - order))
    found = quality.vendi_score(x, order=order)
    # order .5 takes the square root of eigenvalues at the edge of rounding
    assert found.value == pytest.approx(expected, rel=1e-9 if order >= 1 else 1e-4)
    assert found.ci_low <= found.value <= found.ci_high


@pytest.mark.parametrize("order", [1.0, 2.0, math.inf])
def test_vendi_interval_covers_what_the_value_varies_by(order):
    rng = np.random.default_rng(0)
    centres = np.eye(5)
    found = []
    for _ in range(200):
        which = rng.choice(5, 200, p=[0.5, 0.2, 0.1, 0.1, 0.1])
        found.append(quality.vendi_score(centres[which] + rng.normal(0, 0.1, (200, 5)), order=order))
    mean = np.mean([e.value for e in found])
    assert 0.9 <= np.mean([e.ci_low <= mean <= e.ci_high for e in found]) <= 0.99


@settings(deadline=None, max_examples=examples(40))
@given(seeds, st.integers(2, 12), st.integers(2, 6), st.booleans())
def test_inception_score_matches_a_plain_loop(seed, n, c, zeros):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(c, 0.5), n)
    if zeros:
        p[0] = np.eye(c)[0]
    marginal = p.mean(axis=0)
    total = 0.0
    for row in p:
        total += sum(a * math.log(a / b) for a, b in zip(row, marginal, strict=True) if a > 0)
    assert quality.inception_score(p).value == pytest.approx(math.exp(total / n), abs=1e-9)


def test_inception_score_bounds_splits_and_jackknife():
    assert quality.inception_score(np.tile([0.2, 0.8], (5, 1))).value == pytest.approx(1.0)
    p = np.random.default_rng(0).dirichlet(np.full(4, 0.3), 60)
    left = np.array([quality.inception_score(np.delete(p, i, 0)).value for i in range(60)])
    error = math.sqrt(59 / 60 * ((left - left.mean()) ** 2).sum())
    found = quality.inception_score(p)
    assert found.ci_high - found.value == pytest.approx(1.959963984540054 * error, rel=1e-9)
    split = quality.inception_score(p, splits=3)
    parts = [quality.inception_score(p[i : i + 20]).value for i in (0, 20, 40)]
    assert split.value == pytest.approx(np.mean(parts), abs=1e-9)
    assert split.ci_low < split.value < split.ci_high


# Pairs of images


def plain_ssim(a, b, data_range):
    window = [math.exp(-(i * i) / (2 * 1.5**2)) for i in range(-5, 6)]
    total = sum(window)
    window = [w / total for w in window]
    c1, c2 = (0.01 * data_range) ** 2, (0.03 * data_range) ** 2
    height, width = len(a), len(a[0])
    values = []
    for y in range(5, height - 5):
        for x in range(5, width - 5):
            ma = mb = saa = sbb = sab = 0.0
            for dy in range(-5, 6):
                for dx in range(-5, 6):
                    w = window[dy + 5] * window[dx + 5]
                    p, q = a[y + dy][x + dx], b[y + dy][x + dx]
                    ma += w * p
                    mb += w * q
                    saa += w * p * p
                    sbb += w * q * q
                    sab += w * p * q
            va, vb, cov = saa - ma * ma, sbb - mb * mb, sab - ma * mb
            values.append((2 * ma * mb + c1) * (2 * cov + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2)))
    return sum(values) / len(values)


@settings(deadline=None, max_examples=15)
@given(seeds, st.integers(11, 15), st.integers(11, 14))
def test_ssim_matches_plain_loops(seed, height, width):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 256, (2, height, width), dtype=np.uint8)
    b = np.clip(a + rng.integers(-30, 30, a.shape), 0, 255).astype(np.uint8)
    expected = [plain_ssim(p.tolist(), q.tolist(), 255.0) for p, q in zip(a, b, strict=True)]
    np.testing.assert_allclose(quality.ssim(a, b).values, expected, atol=1e-9)
    scaled = quality.ssim(a / 255, b / 255, data_range=1.0)
    np.testing.assert_allclose(scaled.values, expected, atol=1e-9)


def test_ssim_of_colour_is_the_mean_over_channels_and_one_for_the_same_image():
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 16, 20, 3)), rng.random((3, 16, 20, 3))
    channels = [quality.ssim(a[..., c], b[..., c], data_range=1.0).values for c in range(3)]
    np.testing.assert_allclose(quality.ssim(a, b, data_range=1.0).values, np.mean(channels, axis=0), atol=1e-12)
    same = quality.ssim(a, a, data_range=1.0)
    np.testing.assert_allclose(same.values, 1.0, atol=1e-12)
    assert same.estimate.n == 3


@settings(deadline=None, max_examples=examples(20))
@given(seeds)
def test_perceptual_distance_matches_plain_loops(seed):
    rng = np.random.default_rng(seed)
    shapes = [(3, 2, 4, 3), (3, 5, 2, 2)]
    first, second = [rng.normal(size=s) for s in shapes], [rng.normal(size=s) for s in shapes]
    weights = [rng.random(2), rng.random(5)]
    expected = np.zeros(3)
    for a, b, w in zip(first, second, weights, strict=True):
        for i in range(3):
            total = 0.0
            for y in range(a.shape[2]):
                for x in range(a.shape[3]):
                    p, q = a[i, :, y, x], b[i, :, y, x]
                    p, q = p / (math.sqrt(p @ p) + 1e-10), q / (math.sqrt(q @ q) + 1e-10)
                    total += sum(w[c] * (p[c] - q[c]) ** 2 for c in range(len(w)))
            expected[i] += total / (a.shape[2] * a.shape[3])
    np.testing.assert_allclose(quality.perceptual_distance(first, second, weights).values, expected, atol=1e-9)
    assert quality.perceptual_distance(first, first).values.max() == 0.0


def test_disjoint_pairs_are_seeded_and_disjoint():
    pairs = quality.disjoint_pairs(101, seed=4)
    assert pairs.shape == (50, 2)
    assert len(set(pairs.ravel().tolist())) == 100
    np.testing.assert_array_equal(pairs, quality.disjoint_pairs(101, seed=4))
    assert not np.array_equal(pairs, quality.disjoint_pairs(101, seed=5))


# Images and texts


def cosine(a, b):
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


@settings(deadline=None, max_examples=examples(30))
@given(seeds, st.integers(1, 8))
def test_clip_scores_match_plain_loops(seed, n):
    rng = np.random.default_rng(seed)
    images, texts = rng.normal(size=(n, 3)), rng.normal(size=(n, 3))
    references = rng.normal(size=(2 * n, 3))
    owner = np.concatenate([np.arange(n), rng.integers(0, n, n)])
    plain = [2.5 * max(cosine(a, b), 0) for a, b in zip(images, texts, strict=True)]
    np.testing.assert_allclose(quality.clip_score(images, texts).values, plain, atol=1e-9)
    expected = []
    for i in range(n):
        best = max(max(cosine(texts[i], r), 0) for r, o in zip(references, owner, strict=True) if o == i)
        expected.append(2 * plain[i] * best / (plain[i] + best) if plain[i] + best > 0 else 0.0)
    np.testing.assert_allclose(quality.ref_clip_score(images, texts, references, owner).values, expected, atol=1e-9)


@settings(deadline=None, max_examples=examples(30))
@given(seeds, st.integers(2, 8), st.integers(2, 5), st.booleans())
def test_prompt_adherence_matches_plain_loops(seed, n, m, ties):
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(n, 3))
    texts = rng.normal(size=(m, 3))
    if ties:
        texts[1] = texts[0]
    own = rng.integers(0, m, n)
    found = quality.prompt_adherence(images, texts, own)
    for i in range(n):
        scores = [cosine(images[i], t) for t in texts]
        best = max(scores)
        winners = [j for j in range(m) if scores[j] >= best - 1e-12]
        assert found.hits[i] == pytest.approx(1 / len(winners) if own[i] in winners else 0.0)
        assert found.cosines[i] == pytest.approx(scores[own[i]], abs=1e-9)
        others = max(s for j, s in enumerate(scores) if j != own[i])
        assert found.margins[i] == pytest.approx(scores[own[i]] - others, abs=1e-9)
    assert found.hit.null_mean == pytest.approx(1 / m)


def test_prompt_adherence_with_candidates_of_a_set():
    images, texts = np.eye(4), np.eye(4)
    allowed = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]], bool)
    found = quality.prompt_adherence(images, texts, [0, 0, 2, 3], candidates=allowed)
    assert found.hits.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert found.hit.null_mean == 0.5
    with pytest.raises(InputError, match="image 0 has no candidate"):
        quality.prompt_adherence(images, texts, [0, 1, 2, 3], candidates=np.zeros((4, 4)))


@settings(deadline=None, max_examples=examples(20))
@given(seeds)
def test_directional_similarity_matches_a_plain_loop_and_drops_what_did_not_move(seed):
    rng = np.random.default_rng(seed)
    sides = [rng.normal(size=(4, 3)) for _ in range(4)]
    sides[1][2] = sides[0][2] * 2.0
    found = quality.directional_similarity(*sides)
    units = [[row / np.linalg.norm(row) for row in side] for side in sides]
    expected = [cosine(units[1][i] - units[0][i], units[3][i] - units[2][i]) for i in (0, 1, 3)]
    np.testing.assert_allclose(found.values, expected, atol=1e-9)
    assert found.kept.tolist() == [True, True, False, True]
    assert found.estimate.dropped == {"image or text unchanged": 1}


# Input that cannot be measured


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quality.frechet_distance([[1.0, np.nan]] * 3, np.ones((3, 2))), "real is not finite"),
        (lambda: quality.frechet_distance(np.ones((1, 2)), np.ones((3, 2))), "real needs at least 2 rows"),
        (lambda: quality.frechet_distance(np.ones((3, 2)), np.ones((3, 4))), "real has 2 columns and generated has 4"),
        (lambda: quality.frechet_distance(np.ones(3), np.ones((3, 1))), "real must have two dimensions"),
        (lambda: quality.kernel_distance(np.ones((3, 2)), []), "generated must have two dimensions"),
        (lambda: quality.kid(np.ones((3, 2)), np.ones((3, 2)), subset_size=1), "subset_size must be"),
        (lambda: quality.gaussian_kernel(0.0), "sigma must be above 0"),
        (lambda: quality.manifold_scores(np.ones((5, 2)), np.ones((9, 2))), "real has 5 rows; the distance"),
        (lambda: quality.manifold_scores(np.ones((9, 2)), np.ones((9, 2)), k=0), "k must be"),
        (lambda: quality.vendi_score([[0.0, 0.0], [1.0, 0.0]]), "features row 0 is all zeros"),
        (lambda: quality.vendi_score(np.eye(2), order=0), "order must be above 0"),
        (lambda: quality.inception_score([[2.0, 3.0], [1.0, 0.0]]), "row 0 sums to 5"),
        (lambda: quality.inception_score(np.eye(4), splits=3), "needs at least 6 images"),
        (lambda: quality.ssim(np.zeros((1, 12, 12)), np.zeros((1, 12, 12))), "data_range is needed"),
        (lambda: quality.ssim(np.zeros((1, 8, 12)), np.zeros((1, 8, 12)), data_range=1), "smaller than the window"),
        (lambda: quality.ssim(np.zeros((1, 12, 12)), np.zeros((2, 12, 12)), data_range=1), "same size"),
        (lambda: quality.ssim(np.zeros((0, 12, 12)), np.zeros((0, 12, 12)), data_range=1), "n >= 1"),
        (lambda: quality.ssim(np.full((1, 12, 12), np.nan), np.zeros((1, 12, 12)), data_range=1), "not finite"),
        (lambda: quality.ssim(np.zeros((1, 12, 12)), np.zeros((1, 12, 12)), data_range=0), "above 0"),
        (lambda: quality.perceptual_distance([], []), "at least one"),
        (lambda: quality.perceptual_distance([np.ones((1, 2, 1))], [np.ones((1, 2, 1))]), "n, C, H, W"),
        (lambda: quality.perceptual_distance([np.ones((1, 2, 1, 1))], [np.ones((1, 3, 1, 1))]), "layer 0: shapes"),
        (
            lambda: quality.perceptual_distance([np.ones((1, 2, 1, 1))], [np.ones((1, 2, 1, 1))], [[1.0]]),
            r"weights\[0\] has 1 values",
        ),
        (lambda: quality.clip_score(np.eye(2), np.ones((3, 2))), "images has 2 items and texts has 3"),
        (lambda: quality.ref_clip_score(np.eye(2), np.eye(2), np.eye(2), [0, 0]), "item 1 has no reference"),
        (lambda: quality.ref_clip_score(np.eye(2), np.eye(2), np.eye(2), [0, 5]), r"reference_of\[1\] = 5"),
        (lambda: quality.prompt_adherence(np.eye(2), np.eye(2), [0, 0.5]), r"prompt_of\[1\] = 0.5"),
        (lambda: quality.prompt_adherence(np.eye(2), np.eye(2), [0]), "prompt_of has 1 entries"),
        (lambda: quality.directional_similarity(np.eye(2), np.eye(2), np.eye(2), np.eye(2)), "no pair changed"),
        (
            lambda: quality.directional_similarity(*[np.eye(2), np.eye(2)[::-1]] * 2, clusters=[1]),
            r"clusters has shape \(1,\) for 2 pairs",
        ),
        (lambda: quality.disjoint_pairs(1), "n must be"),
    ],
)
def test_degenerate_input_is_a_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_unknown_variants_are_answered_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="did you mean 'closed'"):
        quality.manifold_scores(np.ones((9, 2)), np.ones((9, 2)), variant="closd")
    with pytest.raises(UnknownNameError, match="released_code"):
        quality.cmmd(np.eye(2), np.eye(2), variant="released")


def test_two_rows_have_a_value_but_no_interval():
    x, y = np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]])
    more = np.arange(5.0)[:, None]
    for estimate in (quality.kernel_distance(x, y), quality.cmmd(x + 1, y), quality.kid(x, more, subsets=5)):
        assert estimate.ci_low is None
        assert "no interval" in estimate.notes[-1]


def test_kid_of_overlapping_subsets_has_the_width_of_the_whole():
    x, y = normals(0, 100, 4), normals(1, 100, 4, 0.5)
    parts, whole = quality.kid(x, y, subset_size=99), quality.kernel_distance(x, y)
    assert parts.ci_high - parts.ci_low == pytest.approx(whole.ci_high - whole.ci_low, rel=0.05)


def test_the_doors_import_neither_torch_nor_scikit_learn():
    code = (
        "import sys, equipoise.measure.images, equipoise.measure.embedding, equipoise.measure.binding, "
        "equipoise.measure.dataset, equipoise.measure.stats.agreement, equipoise.text.activities; "
        "print([m for m in ('torch', 'sklearn', 'matplotlib', 'spacy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
