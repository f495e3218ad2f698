"""Retrieval metrics over the bare matrix product, row-by-row NDKL, the bootstrap, a million images in little memory."""

import tempfile
import threading
import time
from math import log, log2
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import cpu_seconds
from equipoise.measure import retrieval as r
from equipoise.measure import stats
from equipoise.measure.retrieval.recall import recall_at_k


def run():
    yield from _metrics_over_the_bare_product()
    yield from _ndkl()
    yield from _bootstrap()
    yield from _many_pools()
    yield from _nulls()
    yield from _a_million_images()


def _unit(rng, n, d):
    vectors = rng.standard_normal((n, d), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def _metrics_over_the_bare_product():
    n_queries, n_images, d, n_groups, k, depth = 1000, 100_000, 512, 12, 12, 144
    rng = np.random.default_rng(0)
    queries, images = _unit(rng, n_queries, d), _unit(rng, n_images, d)
    groups = r.Groups(rng.integers(0, n_groups, n_images), tuple(map(str, range(n_groups))))
    targets = rng.integers(0, n_images, n_queries)
    source = r.Embeddings(queries, images)
    found = {}

    def product():
        for start in range(0, n_images, 4096):
            queries @ images[start : start + 4096].T

    def usual():
        found["usual"] = _usual_top(queries, images, depth)

    def bare():
        found["bare"] = r.rank(source, depth).indices

    def every_metric():
        found["all"] = r.evaluate(source, groups, k=k, depth=depth, pair=("0", "1"), targets=targets)
        recall_at_k(found["all"].ranks, k)

    times = {work.__name__: cpu_seconds(work, 3) for work in (product, usual, bare, every_metric)}
    same = (np.sort(found["usual"], axis=1) == np.sort(found["bare"], axis=1)).mean()
    title = f"Q = {n_queries:,}, N = {n_images:,}, D = {d}"
    yield {
        "name": f"all retrieval metrics, {title}: over bare product and top-{depth}",
        "value": times["every_metric"] / times["bare"],
        "limit": "<= 1.3",
        "unit": "x",
        "ok": times["every_metric"] <= 1.3 * times["bare"],
        "note": f"{times['every_metric']:.2f} s against {times['bare']:.2f} s; ranks of targets included",
    }
    yield {
        "name": f"the same over the usual argpartition of the product, top-{depth}",
        "value": times["every_metric"] / times["usual"],
        "limit": "<= 1.3",
        "unit": "x",
        "ok": times["every_metric"] <= 1.3 * times["usual"],
        "note": f"argpartition {times['usual']:.2f} s, product {times['product']:.2f} s; {same:.4%} alike",
    }
    null = cpu_seconds(lambda: r.chance(found["all"], draws=20, seed=1))
    yield {
        "name": "its null, labels shuffled over the shared pool: a draw",
        "value": null / 20 * 1000,
        "limit": None,
        "unit": "ms",
        "ok": None,
        "note": "all metrics of 1,000 queries",
    }


def _usual_top(queries, images, depth):
    """Top-k of a product in blocks as it is commonly written: argpartition each block, then the winners again."""
    best = index = None
    for start in range(0, len(images), 4096):
        scores = queries @ images[start : start + 4096].T
        width = min(depth, scores.shape[1])
        local = np.argpartition(scores, scores.shape[1] - width, axis=1)[:, -width:]
        values = np.take_along_axis(scores, local, axis=1)
        local = local + start
        if best is not None:
            values, local = np.concatenate([best, values], axis=1), np.concatenate([index, local], axis=1)
        order = np.argsort(-values, axis=1, kind="stable")[:, :depth]
        best, index = np.take_along_axis(values, order, axis=1), np.take_along_axis(local, order, axis=1)
    return index


def _ndkl():
    """The straightforward way walks a DataFrame row by row and compares every prefix with the desired shares."""
    n, n_groups = 10_954, 7
    rng = np.random.default_rng(1)
    labels = rng.integers(0, n_groups, n)
    scores = rng.random(n)
    groups = r.Groups(labels, tuple(map(str, range(n_groups))))
    share = np.bincount(labels) / n
    frame = pd.DataFrame({"score": scores, "label": labels})
    found = {}

    def row_by_row():
        counts, total, weight = [0] * n_groups, 0.0, 0.0
        for i, (_, row) in enumerate(frame.sort_values("score", ascending=False).iterrows(), start=1):
            counts[int(row["label"])] += 1
            kl = sum(c / i * log(c / i / d) for c, d in zip(counts, share, strict=True) if c)
            total += kl / log2(i + 1)
            weight += 1 / log2(i + 1)
        found["rows"] = total / weight

    def ours():
        result = r.evaluate(r.Scores(scores[None]), groups, k=n, depth=n, metrics=["ndkl"])
        found["ours"] = float(result.values["ndkl"][0])

    slow, fast = cpu_seconds(row_by_row, 3), cpu_seconds(ours, 50)
    yield {
        "name": f"NDKL of one query, N = k = {n:,}, ranking included: times faster than row by row",
        "value": slow / fast,
        "limit": ">= 100",
        "unit": "x",
        "ok": slow >= 100 * fast and abs(found["rows"] - found["ours"]) < 1e-9,
        "note": f"{fast * 1000:.2f} ms against {slow:.2f} s; difference {abs(found['rows'] - found['ours']):.0e}",
    }


def _bootstrap():
    rng = np.random.default_rng(2)
    counts = rng.multinomial(12, np.full(12, 1 / 12), size=1000)

    def replicates():
        values = r.max_skew(counts, np.full(12, 1 / 12))
        stats.bootstrap_means(values, replicates=1000)

    seconds = cpu_seconds(replicates, 3)
    yield {
        "name": "1,000-replicate bootstrap of MaxSkew over 1,000 queries",
        "value": seconds,
        "limit": "< 1",
        "unit": "s CPU",
        "ok": seconds < 1,
        "note": "",
    }


def _many_pools():
    """One query per subject, each with its own images: no loop over queries."""
    rng = np.random.default_rng(3)
    n_subjects, each, d = 3000, 60, 256
    images, queries = _unit(rng, n_subjects * each, d), _unit(rng, n_subjects, d)
    pool = np.repeat(np.arange(n_subjects), each)
    candidates = r.Candidates(pool, np.arange(n_subjects))

    def loop():
        for subject in range(n_subjects):
            own = np.flatnonzero(pool == subject)
            own[np.argsort(-(images[own] @ queries[subject]), kind="stable")[:12]]

    ours = cpu_seconds(lambda: r.rank(r.Embeddings(queries, images), 12, candidates=candidates), 3)
    slow = cpu_seconds(loop)
    yield {
        "name": f"{n_subjects:,} queries with pools of their own: times faster than a loop over queries",
        "value": slow / ours,
        "limit": None,
        "unit": "x",
        "ok": None,
        "note": f"{ours:.2f} s against {slow:.2f} s",
    }


def _nulls():
    """Labels shuffled inside set x levels of the other axes, and the null of long lists over a large shared pool."""
    rng = np.random.default_rng(5)
    n_subjects, n_sets = 50, 80
    gender, tone = np.tile([0, 1], 3 * n_subjects * n_sets), np.tile(np.repeat([0, 1, 2], 2), n_subjects * n_sets)
    sets = np.repeat(np.arange(n_subjects * n_sets), 6)
    pool = sets // n_sets
    groups = r.Groups(gender, ("female", "male"))
    scores = np.broadcast_to(rng.standard_normal(len(gender)), (n_subjects, len(gender)))
    found = r.evaluate(r.Scores(scores), groups, k=12, candidates=r.Candidates(pool, np.arange(n_subjects)))
    plain = cpu_seconds(lambda: r.chance(found, sets=sets, draws=300), 3)
    stratified = cpu_seconds(lambda: r.chance(found, sets=sets, strata=tone, draws=300), 3)
    yield {
        "name": f"null inside set x skin tone, {len(gender):,} images: over the null inside sets alone",
        "value": stratified / plain,
        "limit": "<= 1.3",
        "unit": "x",
        "ok": stratified <= 1.3 * plain,
        "note": f"{stratified:.2f} s against {plain:.2f} s, 300 draws of all metrics",
    }
    n_images, n_queries, k = 50_000, 200, 1000
    groups = r.Groups(rng.integers(0, 4, n_images), tuple("abcd"))
    scores = rng.standard_normal((n_queries, n_images), dtype=np.float32)
    seconds = cpu_seconds(lambda: r.chance(r.evaluate(r.Scores(scores), groups, k=k), draws=1000))
    yield {
        "name": f"{n_images:,} images, {n_queries} queries, K = {k:,}: all metrics with 1,000 draws of their null",
        "value": seconds,
        "limit": "< 60",
        "unit": "s CPU",
        "ok": seconds < 60,
        "note": "NDKL over the first 1,000 prefixes, which is said in the notes",
    }


class _AnonymousMemory:
    """The most anonymous memory this process holds while something runs, in GB (not the mapped file's pages)."""

    def __enter__(self):
        self.most = 0.0
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._watch.join()

    def _look(self):
        while not self._done.wait(0.02):
            self.most = max(self.most, _anonymous_gb())


def _anonymous_gb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1e6


def _a_million_images():
    if not Path("/proc/self/status").exists():
        return
    n_queries, n_images, d = 10_000, 1_000_000, 64
    rng = np.random.default_rng(4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.f32"
        with path.open("wb") as file:
            for _ in range(20):
                _unit(rng, n_images // 20, d).tofile(file)
        images = np.memmap(path, dtype=np.float32, mode="r", shape=(n_images, d))
        groups = r.Groups(rng.integers(-1, 12, n_images), tuple(map(str, range(12))))
        queries = _unit(rng, n_queries, d)
        before = _anonymous_gb()
        start = time.process_time()
        with _AnonymousMemory() as memory:
            found = r.evaluate(r.Embeddings(queries, images), groups, k=12, depth=144, pair=("0", "1"))
        seconds = time.process_time() - start
        assert len(found.queries) == n_queries
        del images
    yield {
        "name": f"Q = {n_queries:,} over N = {n_images:,} memory-mapped embeddings, D = {d}: anonymous memory",
        "value": memory.most,
        "limit": "< 3",
        "unit": "GB",
        "ok": memory.most < 3,
        "note": f"{memory.most - before:.2f} GB more than before, {seconds:.0f} s CPU, all metrics to depth 144",
    }
