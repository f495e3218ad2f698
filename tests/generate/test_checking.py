"""Pools of edits checked from tables, with an encoder whose answers are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.data.people import person
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate import EditsConfig, plan_edits, run
from equipoise.generate.verify import check_pool

COLOURS = {"female": (255, 0, 0), "male": (0, 255, 0)}


class Colours:
    """Red is woman, green is man, blue is anything else."""

    def encode_images(self, images: Any) -> np.ndarray:
        found = np.stack([np.asarray(image).reshape(-1, 3).mean(0) for image in images]) + 1e-3
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def encode_texts(self, texts: Any) -> np.ndarray:
        rows = [[float("woman" in t), float(" man" in t), float("man" not in t)] for t in texts]
        found = np.array(rows) + 1e-3
        return found / np.linalg.norm(found, axis=1, keepdims=True)


class Editor:
    """Does what it is told, except with the template of look-alikes, where it does nothing."""

    name, key, can, size = "fake:editor", "editor-1", frozenset({"edit"}), (8, 8)

    def edit(self, images: Any, instructions: Any, **_: Any) -> list[Any]:
        wanted = ["female" if "wom" in t or "fem" in t else "male" for t in instructions]
        return [
            image if "look like" in text else Image.new("RGB", image.size, COLOURS[group])
            for image, text, group in zip(images, instructions, wanted, strict=True)
        ]


@pytest.fixture
def source(tmp_path: Path) -> Table:
    rows = [
        {
            "image": Image.new("RGB", (16, 16), COLOURS["male"]),
            "image_id": f"s{i}",
            "gender": "male",
            "captions": ["A man sits.", "A bench."],
            "people": json.dumps([person(box=[0, 0, 16, 16])]),
        }
        for i in range(6)
    ]
    return Table.create(tmp_path / "source", rows, axes=["gender"], columns={"people": "json"})


@pytest.fixture
def reference(tmp_path: Path) -> Table:
    rows = [{"image": Image.new("RGB", (8, 8), (200, 190, 255)), "image_id": f"r{i}"} for i in range(30)]
    return Table.create(tmp_path / "reference", rows)


def test_the_four_pools(source: Table, reference: Table, tmp_path: Path) -> None:
    edits = run(plan_edits(source, EditsConfig()), tmp_path / "edits", Editor(), progress=False)
    before = check_pool(source, source, reference, Colours(), prompts={"female": "a woman", "male": "a man"})
    assert (before.accuracy, before.n, before.n_captions) == (1.0, 6, 6), "captions without a person do not count"
    unfiltered = check_pool(edits, source, reference, Colours(), pool="unfiltered")
    # A quarter of the edits does nothing, so the female half of that quarter still shows a man.
    assert unfiltered.accuracy == pytest.approx(7 / 8)
    assert unfiltered.recall[1] == pytest.approx(7 / 8)
    assert unfiltered.chance == 0.5
    frame = edits.to_pandas()
    keep = ["look like" not in text for text in frame["caption"]]
    layered = edits.add_layer("good", frame[["image_id"]].assign(keep=keep), columns=["keep"])
    filtered = check_pool(layered, source, reference, Colours(), only_kept=True, pool="filtered")
    assert (filtered.accuracy, filtered.recall[1], filtered.n) == (1.0, 1.0, 72)
    assert "filtered: accuracy 1.000" in str(filtered)


def test_sources_are_not_their_own_rivals(source: Table) -> None:
    told = check_pool(source, source, source, Colours())
    assert told.recall == {1: 1.0}, "the pool is empty but for the image"


def test_refusals(source: Table, reference: Table, tmp_path: Path) -> None:
    rows = [{"image": Image.new("RGB", (4, 4)), "image_id": "x", "gender": "other", "captions": ["A man sits."]}]
    odd = Table.create(tmp_path / "odd", rows, axes=["gender"])
    with pytest.raises(UnknownNameError, match="other"):
        check_pool(odd, odd, reference, Colours())
    nobody = Table.create(tmp_path / "nobody", [rows[0] | {"gender": None}], axes=["gender"])
    with pytest.raises(InputError, match="no image with a label"):
        check_pool(nobody, nobody, reference, Colours())
