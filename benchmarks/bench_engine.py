"""What ``engine.map`` costs beside a bare loop, and how its cost grows with the table.

Both ratios are of processor time (all threads of the process), measured in one run on one machine.
"""

from __future__ import annotations

import functools
import io
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from equipoise import engine
from equipoise.data import Table

N_IMAGES = 20_000
PARTS = 20
ROUNDS = 5
SIDE = 224
BATCH = 64
OVERHEAD_LIMIT = 1.15
GROWTH_LIMIT = 1.05
SIZES = (10_000, 30_000, 100_000)


def jpegs(n: int) -> list[dict[str, Any]]:
    """``n`` rows with a photo-like JPEG of 160 x 120 each: a smooth picture with some grain, all different."""
    rng = np.random.default_rng(0)
    coarse = rng.uniform(0, 255, (64, 6, 8, 3)).astype(np.uint8)
    smooth = [np.asarray(Image.fromarray(c).resize((160, 120), Image.Resampling.BICUBIC), np.int16) for c in coarse]
    grain = rng.normal(0, 6, (16, 120, 160, 1)).astype(np.int16)
    rows = []
    for i in range(n):
        pixels = np.clip(smooth[i % 64] + grain[i % 16] + (i // 64) % 40, 0, 255).astype(np.uint8)
        target = io.BytesIO()
        Image.fromarray(pixels).save(target, format="JPEG", quality=85)
        rows.append({"image": target.getvalue(), "image_id": f"{i:06d}", "caption": f"photo {i}"})
    return rows


def resized(image: Image.Image) -> bytes:
    target = io.BytesIO()
    image.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(target, format="JPEG", quality=90)
    return target.getvalue()


def resized_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"image": resized(row["image"]), "caption": row["caption"]} for row in rows]


def bare_loop(table: Table, folder: Path) -> None:
    """What one would write by hand: read each file, decode, resize, encode, write a file with the same columns."""
    folder.mkdir()
    schema = table.schema.arrow
    for shard in table.shards:
        source = pq.ParquetFile(table.path / shard.file)
        with pq.ParquetWriter(
            folder / shard.file, schema, compression={"image.bytes": "none"}, use_dictionary=False
        ) as writer:
            for batch in source.iter_batches(batch_size=100, columns=["image_id", "image", "caption"]):
                images = []
                for value in batch.column("image").to_pylist():
                    image = Image.open(io.BytesIO(value["bytes"])).convert("RGB")
                    images.append({"bytes": resized(image), "path": None})
                made = {"image": images, "image_id": batch.column("image_id"), "caption": batch.column("caption")}
                arrays = [
                    pa.array(made[f.name], f.type) if f.name in made else pa.nulls(len(batch), f.type) for f in schema
                ]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def processor_seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def overhead(folder: Path, n: int = N_IMAGES) -> tuple[float, float, float]:
    """Processor seconds of the bare loop and of ``engine.map``, and the median of their ratios over the parts.

    They take turns over small parts, first the one and then the other: a slow minute of the machine falls on both.
    """
    bare, mapped = [], []
    rows = jpegs(n)
    for part in range(PARTS):
        table = Table.create(folder / f"in{part}", rows[part::PARTS], rows_per_shard=1000)
        by_hand, out = folder / f"bare{part}", folder / f"map{part}"
        turns = [
            (bare, functools.partial(bare_loop, table, by_hand)),
            (
                mapped,
                functools.partial(
                    engine.map,
                    resized_rows,
                    table,
                    out,
                    columns=["caption"],
                    decode=True,
                    batch_size=BATCH,
                    progress=False,
                ),
            ),
        ]
        for seconds, work in turns if part % 2 else reversed(turns):
            seconds.append(processor_seconds(work))
        assert pq.read_table(out / "part-00000.parquet").equals(pq.read_table(by_hand / "part-00000.parquet"))
    return sum(bare), sum(mapped), float(np.median(np.divide(mapped, bare)))


def cheap(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"model": "m", "caption": row["caption"]} for row in rows]


def growth(folder: Path) -> tuple[list[float], float]:
    """Processor seconds (the least of some rounds) for each of ``SIZES`` rows, and the exponent of the power law.

    Every round has all sizes, so that a slow minute of the machine is not taken for growth.
    """
    tables = {}
    for n in (1000, *SIZES):  # the first only warms up
        rows = ({"image_id": f"{i:07d}", "caption": f"photo {i}"} for i in range(n))
        tables[n] = Table.create(folder / f"rows{n}", rows, rows_per_shard=1000)
    least = dict.fromkeys(tables, math.inf)
    for i in range(ROUNDS):
        for n, table in tables.items():
            out = folder / f"made{n}-{i}"
            work = functools.partial(
                engine.map, cheap, table, out, schema="captions", columns=["caption"], progress=False
            )
            least[n] = min(least[n], processor_seconds(work))
    seconds = [least[n] for n in SIZES]
    slope, _ = np.polyfit(np.log(SIZES), np.log(seconds), 1)
    return seconds, float(slope)


def run() -> list[dict[str, Any]]:
    """The results: name, value, limit, unit, ok, note."""
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as name:
        folder = Path(name)
        bare, mapped, ratio = overhead(folder)
        seconds, exponent = growth(folder)
    spent = ", ".join(f"{n:,} rows {s:.1f} s" for n, s in zip(SIZES, seconds, strict=True))
    return [
        {
            "name": "engine.map over a bare loop, 20,000 JPEGs to 224 x 224",
            "value": round(ratio, 3),
            "limit": OVERHEAD_LIMIT,
            "unit": "x processor time",
            "ok": ratio <= OVERHEAD_LIMIT,
            "note": f"bare loop {bare:.1f} s, engine.map {mapped:.1f} s",
        },
        {
            "name": "engine.map, growth from 10,000 to 100,000 rows",
            "value": round(exponent, 3),
            "limit": GROWTH_LIMIT,
            "unit": "exponent",
            "ok": math.isfinite(exponent) and exponent <= GROWTH_LIMIT,
            "note": spent,
        },
    ]


if __name__ == "__main__":
    for result in run():
        print(result)
