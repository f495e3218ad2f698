"""Fitting every remedy over its own largest product, decomposition or pass, and transform over the bare product."""

import numpy as np

from benchmarks import cpu_seconds, in_turns
from equipoise.mitigate import Bend, ClipClip, Inlp, Leace, Projection, Rerank, Residual
from equipoise.mitigate.rerank import det_const_sort

N, D, SETS = 100_000, 512, 10_000


def run():
    vectors, groups, sets = _data()
    for name, remedy, work, what in _cases(vectors, groups, sets):
        ours, bare = in_turns(lambda remedy=remedy: remedy.fit(vectors, groups, sets=sets), work)
        yield _row(f"fit {name}, {N:,} x {D}, over {what}", ours / bare, 3.0, f"{ours:.2f} s")
    matrix = np.random.default_rng(1).normal(size=(D, D)).astype(np.float32)

    def product():
        return vectors @ matrix

    kept = vectors[:, : D - 100]
    for name, remedy in (("projection", Projection()), ("leace", Leace()), ("inlp", Inlp())):
        fitted = remedy.fit(vectors[:4000], {"gender": groups["gender"][:4000]})
        ours, bare = in_turns(lambda fitted=fitted: fitted.transform(vectors), product)
        yield _row(f"transform by {name}, over the bare product", ours / bare, 1.3, f"{ours:.2f} s")
    fitted = ClipClip(100).fit(vectors[:4000], {"gender": groups["gender"][:4000]})
    ours, bare = in_turns(lambda: fitted.transform(vectors), product)
    yield _row("transform by clip-clip, over the bare product", ours / bare, 1.3, f"{kept.shape[1]} numbers stay")
    fitted = Residual(steps=20).fit(vectors[:4000], {"gender": groups["gender"][:4000]})
    first, second = (np.ascontiguousarray(m.T) for m in (fitted.state()["first"], fitted.state()["second"]))
    ours, own = in_turns(lambda: fitted.transform(vectors), lambda: (vectors @ first) @ second)
    bare = cpu_seconds(product, 3)
    yield _row("transform by residual, over the bare product of 512 x 512", ours / bare, 1.3, f"{ours:.2f} s")
    yield {"name": "transform by residual, over its own two products", "value": ours / own, "unit": "times"}
    yield from _reranking()


def _data():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((N, D), dtype=np.float32)
    codes = np.arange(N) % 2
    vectors[:, :20] += 0.5 * codes[:, None].astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors, {"gender": ["female" if c else "male" for c in codes]}, (np.arange(N) // 10 % SETS).tolist()


def _cases(vectors, groups, sets):
    def covariance():
        rows = vectors.astype(np.float64)
        return rows.T @ rows

    def sorting():
        return [np.sort(column) for column in np.ascontiguousarray(vectors.T, dtype=np.float64)]

    def steps(n, batch, hidden):
        import torch

        rows = torch.from_numpy(vectors[:batch])
        module = torch.nn.Sequential(torch.nn.Linear(D, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, D))
        against = torch.nn.Sequential(torch.nn.Linear(D, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 2))
        for _ in range(n):
            module(rows).square().sum().backward()
            for _ in range(5):
                against(rows).square().sum().backward()

    yield "projection", Projection(), covariance, "the covariance"
    yield "leace", Leace(), covariance, "the covariance"
    yield "inlp", Inlp(), covariance, "the covariance"
    yield "rerank", Rerank(), covariance, "the covariance"
    yield "clip-clip", ClipClip(100), sorting, "sorting every number"
    yield "bend", Bend(), covariance, "the covariance"
    yield "residual", Residual(), lambda: steps(300, 512, 128), "its bare forward and backward passes"


def _reranking():
    rng = np.random.default_rng(2)
    scores = [np.sort(rng.random(500))[::-1] for _ in range(4)]
    ours = cpu_seconds(lambda: [det_const_sort(scores, [0.25] * 4, 100) for _ in range(100)], 2)
    yield {"name": "re-ranking the first 100 of 2,000, per query", "value": ours / 100 * 1e3, "unit": "ms"}


def _row(name, value, limit, note):
    return {"name": name, "value": value, "unit": "times", "limit": limit, "ok": value <= limit, "note": note}
