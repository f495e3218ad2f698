"""What encoding images through adapter and engine costs beside decoding, preprocessing and forward passes alone.

The ratio is of processor time (all threads of the process), measured in turns in one run, with one torch thread.
"""

from __future__ import annotations

import functools
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.bench_engine import processor_seconds
from equipoise import engine
from equipoise.data import Table

N_IMAGES = 5000
PARTS = 5
BATCH = 64
LIMIT = 1.3


def jpegs(n: int) -> list[dict[str, Any]]:
    """``n`` rows with a photo-like JPEG of 160 x 120 each; no two alike, for the engine encodes a picture once."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(n):
        coarse = Image.fromarray(rng.integers(0, 255, (6, 8, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((160, 120), Image.Resampling.BICUBIC), np.int16)
        grain = rng.integers(-12, 13, (120, 160, 1), dtype=np.int16)
        target = io.BytesIO()
        Image.fromarray(np.clip(smooth + grain, 0, 255).astype(np.uint8)).save(target, format="JPEG", quality=85)
        rows.append({"image": target.getvalue(), "image_id": f"{i:06d}"})
    assert len({row["image"] for row in rows}) == n
    return rows


def mini_clip(folder: Path) -> tuple[str, str]:
    """The spec of the mini CLIP, and a word about it; where it is not packaged, an untrained one of the same size."""
    from equipoise.models.miniatures import FOLDER

    if (FOLDER / "clip" / "config.json").exists():
        return "mini", "mini CLIP"
    from equipoise.recipes.train_mini.batches import MEAN, SIZE, STD
    from equipoise.recipes.train_mini.clip import build
    from equipoise.recipes.train_mini.saving import save_transformers
    from equipoise.recipes.train_mini.tokenizer import tokenizer

    words = tokenizer()
    save_transformers(build(words), folder / "clip", tokenizer=words, mean=MEAN, std=STD, size=SIZE)
    return f"hf:{folder / 'clip'}", "untrained CLIP of the mini's size"


class Bare:
    """What one would write by hand with the stock classes."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoImageProcessor, CLIPModel

        self.processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
        self.model = CLIPModel.from_pretrained(folder).eval()

    def vectors(self, files: Sequence[bytes]) -> np.ndarray:
        import torch

        made = []
        for start in range(0, len(files), BATCH):
            images = [Image.open(io.BytesIO(data)).convert("RGB") for data in files[start : start + BATCH]]
            with torch.inference_mode():
                pixels = self.processor(images=images, return_tensors="pt")["pixel_values"]
                vectors = self.model.get_image_features(pixels).pooler_output
                made.append(torch.nn.functional.normalize(vectors, dim=-1).numpy())
        return np.concatenate(made)


def overhead(folder: Path, n: int = N_IMAGES) -> tuple[float, float, str]:
    """Processor seconds of the bare loop and of adapter and engine together, and which model it was."""
    import torch
    from transformers.utils import logging

    from equipoise.models import load

    torch.set_num_threads(1)
    logging.disable_progress_bar()
    spec, about = mini_clip(folder)
    encoder = load(spec)
    bare = Bare(encoder.checkpoint.folder)
    rows = jpegs(n)
    warm = [row["image"] for row in rows[:BATCH]]
    bare.vectors(warm)
    encoder.encode_images([Image.open(io.BytesIO(data)) for data in warm])
    by_hand = through = 0.0
    for part in range(PARTS):
        share = rows[part::PARTS]
        table = Table.create(folder / f"in{part}", share, rows_per_shard=1000)
        expected: list[np.ndarray] = []
        files = [row["image"] for row in share]
        by_hand += processor_seconds(lambda files=files, out=expected: out.append(bare.vectors(files)))
        run = functools.partial(
            engine.embed_images,
            table,
            encoder,
            folder / f"out{part}",
            store=folder / "store",
            batch_size=BATCH,
            progress=False,
        )
        through += processor_seconds(run)
        made = Table.open(folder / f"out{part}").to_pandas(["id", "vector"])
        assert made["id"].tolist() == [row["image_id"] for row in share]
        np.testing.assert_allclose(np.stack(made["vector"]), expected[0], atol=1e-5)
    return by_hand, through, about


def run() -> list[dict[str, Any]]:
    """The results: name, value, limit, unit, ok, note."""
    with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as name:
        by_hand, through, about = overhead(Path(name))
    ratio = through / by_hand
    return [
        {
            "name": f"encoding {N_IMAGES:,} JPEGs through adapter and engine over a bare loop",
            "value": round(ratio, 3),
            "limit": LIMIT,
            "unit": "x processor time",
            "ok": ratio <= LIMIT,
            "note": f"{about}; bare {by_hand:.1f} s, adapter and engine {through:.1f} s, "
            f"{N_IMAGES / through:.0f} images per second",
        }
    ]


if __name__ == "__main__":
    for result in run():
        print(result)
