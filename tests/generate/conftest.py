"""A generator that paints noise: as good as any for what happens around it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.text.templates import CaptionSet, caption_preset


class Painter:
    """Noise that depends on the text, the seed and the guidance alone; ``calls`` is what it was asked."""

    name, key = "fake:painter", "painter-1"
    can = frozenset({"generate", "generate_set", "edit", "inpaint"})
    size = (16, 16)

    def __init__(self, fails_on: str = "") -> None:
        self.fails_on = fails_on
        self.calls: list[dict[str, Any]] = []

    def _noise(self, text: str, size: tuple[int, int], **how: Any) -> Image.Image:
        if self.fails_on and self.fails_on in text:
            raise RuntimeError(f"cannot draw {text}")
        digest = hashlib.sha256(repr((text, sorted(how.items()))).encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        return Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))

    def generate(self, prompts: Sequence[str], *, seed: int, guidance: Any = None, steps: Any = None) -> list[Any]:
        self.calls.append({"prompts": list(prompts), "seed": seed})
        return [self._noise(text, self.size, seed=seed, i=i) for i, text in enumerate(prompts)]

    def generate_set(self, prompts: Sequence[str], *, seed: int, share: float, **how: Any) -> list[Any]:
        self.calls.append({"prompts": list(prompts), "seed": seed, "share": share, **how})
        return [self._noise(text, self.size, seed=seed, share=share, source=prompts[0], **how) for text in prompts]

    def edit(self, images: Sequence[Any], instructions: Sequence[str], **how: Any) -> list[Any]:
        self.calls.append({"sizes": [image.size for image in images], "instructions": list(instructions), **how})
        pairs = enumerate(zip(images, instructions, strict=True))
        return [self._noise(t, im.size, i=i, **how) for i, (im, t) in pairs]

    def inpaint(self, images: Sequence[Any], masks: Sequence[Any], prompts: Sequence[str], **how: Any) -> list[Any]:
        self.calls.append({"masks": list(masks), "prompts": list(prompts), **how})
        pairs = enumerate(zip(images, prompts, strict=True))
        return [self._noise(t, im.size, i=i, **how) for i, (im, t) in pairs]


@pytest.fixture
def painter() -> Painter:
    return Painter()


@pytest.fixture
def make_painter() -> Callable[..., Painter]:
    return Painter


def doctor_sets(*subjects: str) -> list[CaptionSet]:
    preset = caption_preset("race-gender").having(subjects=subjects or ("doctor",), prefixes=["A photo of"])
    return list(preset.sets())


@pytest.fixture
def caption_sets() -> Callable[..., list[CaptionSet]]:
    return doctor_sets


@pytest.fixture(scope="session")
def photos(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Real COCO photographs with their boxes, outlines and captions."""
    from equipoise.data import import_table

    if not (shared_data / "photos" / "val2017").is_dir():
        pytest.skip("the COCO photographs are not on this machine")
    out = tmp_path_factory.mktemp("photos") / "coco"
    import_table("coco", shared_data / "photos", out, split="val2017")
    return Table.open(out)
