"""Filters at memory speed: similarities of sets over a million vectors, exact neighbours against a bare faiss search.

Both sides of every ratio are measured in one run, in CPU seconds of one thread.
"""

import resource
import shutil
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from equipoise.data import Table
from equipoise.data.schema import schema_for
from equipoise.data.writer import TableWriter
from equipoise.filters.bias import bias_test
from equipoise.filters.bias_strata import strata_of
from equipoise.filters.remaining import Models, RemainingImages
from equipoise.filters.rules.knn import nearest
from equipoise.filters.rules.similarity import Similarity

N, DIM, SET = 1_000_000, 512, 12
_SHARD = 48_000


def run():
    yield from _similarity(N)
    yield from _neighbours()
    yield from _bias()


def _cpu(work):
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def _similarity(n):
    folder = Path(tempfile.mkdtemp(prefix="equipoise-bench-"))
    try:
        table = _vectors(folder / "vectors", n)
        texts = np.random.default_rng(1).standard_normal((1200, DIM), dtype=np.float32)
        texts /= np.linalg.norm(texts, axis=1, keepdims=True)
        rows = [{"id": f"caption {i}", "vector": vector, "model": "bench"} for i, vector in enumerate(texts)]
        captions = Table.create(folder / "texts", rows, kind="embeddings", dim=DIM)
        images = _images(folder / "images", n)
        spec = f"table:{table.path},{captions.path}"
        _read(table)  # the file into the page cache, for both sides
        base, _ = _cpu(lambda: _read_and_multiply(table, texts[:SET].T.copy()))
        ours, found = _cpu(lambda: Similarity().judge(RemainingImages(images, models=Models(encoder=spec))))
        checked = _same(table, texts, found.scores)
        yield {
            "name": f"similarity filter, {n:,} x {DIM}, sets of {SET}: cost over reading and one product",
            "value": ours / base,
            "limit": "<= 2",
            "unit": "x",
            "ok": ours / base <= 2,
            "note": f"{ours:.2f} s against {base:.2f} s; same values: {checked}",
        }
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        yield {
            "name": "similarity filter: peak memory of the process",
            "value": peak,
            "limit": "<= 4",
            "unit": "GB",
            "ok": peak <= 4,
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _vectors(path, n):
    rng = np.random.default_rng(0)
    with TableWriter(path, schema_for("embeddings", dim=DIM)) as writer:
        import pyarrow as pa

        for index, start in enumerate(range(0, n, _SHARD)):
            stop = min(start + _SHARD, n)
            flat = pa.array(rng.standard_normal((stop - start) * DIM, dtype=np.float32))
            batch = pa.table(
                {
                    "id": pa.array([f"{i:08d}" for i in range(start, stop)]),
                    "vector": pa.FixedSizeListArray.from_arrays(flat, DIM).cast(
                        writer.schema.arrow.field("vector").type
                    ),
                    "model": pa.array(["bench"] * (stop - start)),
                }
            )
            writer.write_shard(index, batch)
        return writer.finish()


def _images(path, n):
    import pyarrow as pa

    number = np.arange(n)
    rows = pa.table(
        {
            "image_id": pa.array([f"{i:08d}" for i in number]),
            "set_id": pa.array([f"s{i}" for i in number // SET]),
            "caption": pa.array([f"caption {i}" for i in number % 1200]),
        }
    )
    return Table.create(path, rows, rows_per_shard=_SHARD)


def _blocks(table):
    for batch in table.batches(["vector"], batch_size=12_288):
        yield batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(batch), -1)


def _read(table):
    return sum(len(block) for block in _blocks(table))


def _read_and_multiply(table, texts):
    return [block @ texts for block in _blocks(table)]


def _same(table, texts, scores):
    """The first sets again, one pair at a time in float64."""
    x = next(_blocks(table))[: 5 * SET].astype(np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    caption = (x * texts[: len(x)]).sum(axis=1)
    sets = np.arange(len(x)) // SET
    pairs = []
    for i in range(len(x)):
        others = [j for j in range(len(x)) if sets[j] == sets[i] and j != i]
        pairs.append(min(x[i] @ x[j] for j in others))
    return bool(
        np.allclose(scores["caption_image"][: len(x)], caption, atol=1e-5)
        and np.allclose(scores["image_image"][: len(x)], pairs, atol=1e-5)
    )


def _neighbours():
    name = "nearest 50 of 10,000 among 100,000 x 512: cost over a bare faiss flat search"
    if find_spec("faiss") is None:
        yield {"name": name, "value": "skipped", "ok": None, "note": "faiss-cpu is not installed"}
        return
    import faiss

    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    gallery = rng.standard_normal((100_000, DIM), dtype=np.float32)
    gallery /= np.linalg.norm(gallery, axis=1, keepdims=True)
    queries = gallery[:10_000] + 0.02 * rng.standard_normal((10_000, DIM), dtype=np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    index = faiss.IndexFlatL2(DIM)
    index.add(gallery)
    base, theirs = _cpu(lambda: index.search(queries, 50)[1])
    ours, mine = _cpu(lambda: nearest(queries, gallery, 50))
    same = float((np.sort(mine, axis=1) == np.sort(theirs, axis=1)).mean())
    yield {
        "name": name,
        "value": ours / base,
        "limit": "<= 1.5",
        "unit": "x",
        "ok": ours / base <= 1.5,
        "note": f"{ours:.1f} s against {base:.1f} s; {same:.2%} of places hold the same neighbour",
    }


def _bias():
    import pandas as pd

    from equipoise.measure.groups import Groups

    n = 960_000
    frame = pd.DataFrame({"set_id": np.repeat(np.arange(n // SET), SET)})
    groups = Groups(np.tile(np.arange(SET) % 6, n // SET).astype(np.int32), tuple("abcdef"), "tone")
    failed = np.random.default_rng(0).random(n) < 0.3
    took, _ = _cpu(lambda: bias_test(failed, groups, strata_of(frame, groups)))
    yield {
        "name": f"bias test of one filter over {n:,} images",
        "value": took,
        "limit": "<= 10",
        "unit": "s",
        "ok": took <= 10,
    }
