"""Tables at scale: a million rows in bounded memory, labels without images, layers without copies, linear cost."""

import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

GIGABYTE = 1 << 30
GROUPS = np.array(["female", "male", "non-binary", None], dtype=object)


def run():
    folder = Path(tempfile.mkdtemp(prefix="equipoise-bench-"))
    try:
        yield from _million(folder / "million")
        yield from _labels(folder / "labels")
        yield from _layers(folder / "layers")
        yield from _growth(folder / "growth")
    finally:
        shutil.rmtree(folder)


def _row(name, value, limit, unit, ok, note=""):
    return {"name": name, "value": value, "limit": limit, "unit": unit, "ok": ok, "note": note}


def _million(folder):
    """Each step in a process of its own, so that its peak memory is its own."""
    for step, what in STEPS.items():
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.bench_tables", step, str(folder)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[1],
        )
        found = json.loads(done.stdout.splitlines()[-1])
        peak = found["peak_bytes"] / GIGABYTE
        note = f"{found['seconds']:.1f} s, {found['note']}"
        yield _row(f"1,000,000 rows of metadata: {what}", peak, 2.0, "GB peak", peak <= 2.0, note)


def _labels(folder):
    from equipoise.data import Table

    n, size = 20_000, 107_375  # 2 GiB of bytes that do not compress
    rng = np.random.default_rng(0)
    rows = (
        {"image": rng.bytes(size), "image_id": f"i{i}", "gender": GROUPS[i % 4], "subject": f"s{i % 40}"}
        for i in range(n)
    )
    started = time.perf_counter()
    Table.create(folder, rows, axes=["gender"])
    rate = n * size / (time.perf_counter() - started) / 1e6
    before = _bytes_read()
    started = time.perf_counter()
    table = Table.open(folder)
    frame = table.to_pandas(["image_id", "gender", "subject"])
    seconds = time.perf_counter() - started
    share = 100 * (_bytes_read() - before) / (n * size)
    assert len(frame) == n
    yield _row(
        "labels of a table with 2 GB of images: share of bytes read", share, 1.0, "%", share < 1.0, f"{seconds:.2f} s"
    )
    yield _row("writing 2 GB of images, hashed and synced", rate, None, "MB/s", None)
    shutil.rmtree(folder)


def _layers(folder):
    from equipoise.data import LayerWriter, Table

    n, size = 5_000, 50_000
    rng = np.random.default_rng(0)
    table = Table.create(folder, ({"image": rng.bytes(size), "image_id": f"i{i}"} for i in range(n)))
    before = _size(folder)
    for number in range(7):
        with LayerWriter(table, f"f{number}", columns=[f"score_f{number}", "keep"]) as writer:
            for shard in range(len(table.shards)):
                ids = table.own_columns(shard, ["image_id"])["image_id"].to_pylist()
                rows = [{"image_id": i, f"score_f{number}": float(rng.random()), "keep": True} for i in ids]
                writer.write_shard(shard, rows)
            writer.finish()
    added = 100 * (_size(folder) - before) / (n * size)
    yield _row("seven filter layers over 250 MB of images: bytes added", added, 1.0, "%", added < 1.0)
    view = Table.open(folder, layers="all")
    started = time.perf_counter()
    kept = view.to_arrow(["image_id", "keep", "dropped_by"], only_kept=True)
    assert len(kept) == n
    yield _row("reading the seven joined", n / (time.perf_counter() - started), None, "rows/s", None)
    shutil.rmtree(folder)


def _growth(folder):
    """Processor time of writing, validating and reading from 10,000 to 100,000 rows."""
    from equipoise.data import Table

    def cost(n):
        started = time.process_time()
        table = Table.create(folder / "t", _metadata_batches(n), axes=["gender"], columns=["score_clip"])
        table.validate()
        assert len(table.to_pandas()) == n
        shutil.rmtree(folder / "t")
        return time.process_time() - started

    # A machine is not equally fast from one second to the next: ten small tables take about as long as a large one
    # beside them, and the middle one of seven such ratios counts.
    ratios = [cost(100_000) / statistics.mean(cost(10_000) for _ in range(10)) for _ in range(7)]
    exponent = math.log10(statistics.median(ratios))
    yield _row("growth of cost from 10,000 to 100,000 rows", exponent, 1.05, "exponent", exponent <= 1.05)


def _metadata_batches(n):
    import pyarrow as pa

    rng = np.random.default_rng(0)
    for start in range(0, n, 10_000):
        rows = np.arange(start, min(n, start + 10_000))
        yield pa.RecordBatch.from_pydict(
            {
                "image_id": [f"image-{i:09d}" for i in rows],
                "set_id": [f"set-{i // 12:08d}" for i in rows],
                "caption": [f"a photo of person number {i} at work" for i in rows],
                "captions": [[f"a photo of person number {i}", "someone at work"] for i in rows],
                "subject": [f"subject {i // 12 % 200}" for i in rows],
                "gender": GROUPS[rows % 4].tolist(),
                "label_source": ["prompt"] * len(rows),
                "params": [f'{{"steps": {i % 50}}}' for i in rows],
                "seed": rows,
                "score_clip": rng.random(len(rows)),
            }
        )


def _step_create(folder):
    from equipoise.data import Table

    table = Table.create(folder, _metadata_batches(1_000_000), axes=["gender"], columns=["score_clip"])
    return f"{sum(s.bytes for s in table.shards) / 1e6:.0f} MB in {len(table.shards)} files"


def _step_validate(folder):
    from equipoise.data import Table

    Table.open(folder).validate()
    return "hashes, columns, keys, JSON, sets"


def _step_filter(folder):
    import pyarrow.compute as pc

    from equipoise.data import LayerWriter, Table

    table = Table.open(folder)
    with LayerWriter(table, "clip", columns=["keep"]) as writer:
        for shard in range(len(table.shards)):
            content = table.own_columns(shard, ["image_id", "score_clip"])
            keep = pc.greater(content["score_clip"], 0.3)
            writer.write_shard(shard, content.select(["image_id"]).append_column("keep", keep))
        writer.finish()
    kept = Table.open(folder, layers=["clip"]).to_pandas(["image_id", "gender"], only_kept=True)
    return f"{len(kept)} kept"


def _step_split(folder):
    from equipoise.data import Table
    from equipoise.data.sampling import split_layer

    counts = split_layer(Table.open(folder)).group_counts("split")
    return ", ".join(f"{name} {n}" for name, n in counts.items())


STEPS = {"create": "write", "validate": "validate", "filter": "filter and read what is kept", "split": "split"}


def _bytes_read():
    return int(Path("/proc/self/io").read_text().split("rchar: ")[1].split()[0])


def _size(folder):
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


if __name__ == "__main__":
    begun = time.perf_counter()
    note = globals()[f"_step_{sys.argv[1]}"](Path(sys.argv[2]))
    # Not getrusage: its peak is inherited from the process that started this one.
    peak = int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) * 1024
    print(json.dumps({"peak_bytes": peak, "seconds": time.perf_counter() - begun, "note": note}))
