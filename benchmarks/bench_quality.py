"""Quality, embedding and agreement metrics against the way each is commonly computed, in one run and one thread."""

import tracemalloc

import numpy as np
from scipy import linalg, ndimage
from scipy.spatial.distance import cdist

from benchmarks import cpu_seconds
from equipoise.measure import embedding
from equipoise.measure import images as quality
from equipoise.measure.groups import Groups
from equipoise.measure.stats import agreement


def run():
    yield from _frechet()
    yield from _kernel()
    yield from _manifold()
    yield from _ssim()
    yield from _self_similarity()
    yield from _agreement()
    yield from _probe()


def _ratio(name, slow, fast, least, note):
    value = slow / fast
    return {
        "name": name,
        "value": value,
        "limit": f">= {least}",
        "unit": "x",
        "ok": value >= least,
        "note": f"{fast:.3g} s against {slow:.3g} s; {note}",
    }


def _frechet():
    d = 1024
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2 * d, d)), rng.normal(size=(2 * d, d)) @ (np.eye(d) + rng.normal(size=(d, d)) / d)
    first, second = quality.Moments.of(x), quality.Moments.of(y)
    s1, s2 = first.covariance, second.covariance
    gap = first.mean - second.mean
    found = {}

    def by_root():
        found["root"] = gap @ gap + np.trace(s1 + s2) - 2 * np.trace(linalg.sqrtm(s1 @ s2).real)

    def by_eigenvalues():
        found["ours"] = quality.frechet_from_moments(first, second)

    slow, fast = cpu_seconds(by_root), cpu_seconds(by_eigenvalues, 3)
    same = abs(found["root"] - found["ours"]) / found["root"]
    yield _ratio(
        f"Fréchet distance, D = {d}: times faster than sqrtm", slow, fast, 3, f"relative difference {same:.0e}"
    )
    whole = cpu_seconds(lambda: quality.frechet_distance(x, y))
    yield {
        "name": "Fréchet distance with its interval: cost over the value alone",
        "value": whole / fast,
        "limit": "<= 6",
        "unit": "x",
        "ok": whole / fast <= 6,
        "note": "moments, value and delta-method interval",
    }


def _kernel():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3000, 512)), rng.normal(0.05, 1, size=(3000, 512))
    fast = cpu_seconds(lambda: quality.kernel_distance(x, y))
    slow = cpu_seconds(lambda: quality.kid(x, y, subsets=20)) * 5
    yield _ratio(
        "kernel distance of all 3,000 + 3,000 rows with jackknife: times faster than 100 subsets of 1,000",
        slow,
        fast,
        3,
        "D = 512; 20 subsets timed",
    )


def _manifold():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4000, 64)), rng.normal(size=(4000, 64))

    def full():
        own_x, own_y, across = cdist(x, x), cdist(y, y), cdist(x, y)
        rx, ry = np.partition(own_x, 5, axis=1)[:, 5], np.partition(own_y, 5, axis=1)[:, 5]
        inside = across <= rx[:, None]
        return (
            inside.any(0).mean(),
            (across <= ry).any(1).mean(),
            inside.sum(0).mean() / 5,
            (across.min(1) <= rx).mean(),
        )

    def ours():
        s = quality.manifold_scores(x, y)
        return s.precision.value, s.recall.value, s.density.value, s.coverage.value

    same = np.allclose(full(), ours())
    yield _ratio(
        "precision, recall, density, coverage: times faster than full matrices",
        cpu_seconds(full),
        cpu_seconds(ours),
        1.5,
        f"4,000 + 4,000 rows, D = 64; same values: {same}",
    )
    yield _ratio_of_memory(
        "precision, recall, density, coverage: peak memory of full matrices over ours", full, ours, 3
    )


def _ratio_of_memory(name, large, small, least):
    peaks = []
    for work in (large, small):
        tracemalloc.start()
        work()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    value = peaks[0] / peaks[1]
    note = f"{peaks[1] / 2**20:.0f} MB against {peaks[0] / 2**20:.0f} MB"
    return {"name": name, "value": value, "limit": f">= {least}", "unit": "x", "ok": value >= least, "note": note}


def _ssim():
    rng = np.random.default_rng(0)
    a = rng.random((20, 256, 256))
    b = np.clip(a + rng.normal(0, 0.1, a.shape), 0, 1)
    offsets = np.arange(-5, 6)
    line = np.exp(-(offsets**2) / 4.5)
    window = np.outer(line, line) / line.sum() ** 2

    def square_window():
        out = []
        for p, q in zip(a, b, strict=True):
            mp, mq, pp, qq, pq = (ndimage.correlate(z, window)[5:-5, 5:-5] for z in (p, q, p * p, q * q, p * q))
            vp, vq, cov = pp - mp**2, qq - mq**2, pq - mp * mq
            local = (2 * mp * mq + 1e-4) * (2 * cov + 9e-4) / ((mp**2 + mq**2 + 1e-4) * (vp + vq + 9e-4))
            out.append(local.mean())
        return np.array(out)

    same = np.abs(square_window() - quality.ssim(a, b, data_range=1.0).values).max()
    yield _ratio(
        "SSIM: times faster than an 11 x 11 window image by image",
        cpu_seconds(square_window),
        cpu_seconds(lambda: quality.ssim(a, b, data_range=1.0), 2),
        2,
        f"20 pairs of 256 x 256; largest difference {same:.0e}",
    )


def _self_similarity():
    rows = np.random.default_rng(0).normal(0.3, 1, (6000, 256))

    def all_pairs():
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        matrix = unit @ unit.T
        return (matrix.sum() - np.trace(matrix)) / (len(rows) * (len(rows) - 1))

    same = abs(all_pairs() - embedding.mean_cosine(rows))
    yield _ratio(
        "self-similarity of 6,000 images: times faster than all pairs",
        cpu_seconds(all_pairs),
        cpu_seconds(lambda: embedding.mean_cosine(rows), 5),
        20,
        f"D = 256; difference {same:.0e}",
    )


def _agreement():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 1000)
    ratings = np.where(rng.random((1000, 5)) < 0.6, truth[:, None], rng.integers(0, 5, (1000, 5)))
    fast = cpu_seconds(lambda: agreement.krippendorff_alpha(ratings, metric="ordinal", replicates=1000), 2)

    def recompute():
        for _ in range(5):
            sample = ratings[rng.integers(0, 1000, 1000)]
            agreement.krippendorff_alpha(sample, metric="ordinal", replicates=1)

    yield _ratio(
        "Krippendorff's alpha, 1,000 bootstrap replicates: times faster than one call each",
        cpu_seconds(recompute) * 200,
        fast,
        20,
        "1,000 items, 5 annotators; 5 calls timed",
    )


def _probe():
    rng = np.random.default_rng(0)
    groups = Groups(rng.integers(0, 2, 600), ("a", "b"))
    x = rng.normal(size=(600, 128))
    fast = cpu_seconds(lambda: embedding.linear_probe(x, groups, method="ridge", permutations=200))
    one = cpu_seconds(lambda: embedding.linear_probe(x, groups, method="ridge", permutations=0), 3)
    yield _ratio(
        "ridge probe with 200 shuffles: times faster than fitting each anew",
        one * 201,
        fast,
        2,
        "600 x 128, five folds; scoring each shuffle included",
    )
