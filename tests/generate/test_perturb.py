"""Perturbed copies: persons stay as they are to the bit, ids and labels too, and the same objects go in a whole set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.data.images import encode
from equipoise.data.people import person
from equipoise.errors import InputError
from equipoise.generate import PerturbConfig, plan_perturb, run

SIZE = 32
BOX = [4, 4, 8, 20]
THINGS = [{"name": f"thing {i}", "box": [16, 4 * i, 6, 4], "mask": None} for i in range(6)]


def _picture(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(1, 255, (SIZE, SIZE, 3), dtype=np.uint8))


@pytest.fixture
def source(tmp_path: Path) -> Table:
    rows = [
        {
            "image_id": f"i{i}",
            "set_id": f"s{i // 2}",
            "gender": ("female", "male")[i % 2],
            "placebo_bag": "none",
            "people": json.dumps([person(box=BOX)]) if i < 6 else None,
            "object_boxes": json.dumps(THINGS),
            "image": {"bytes": encode(_picture(i)), "path": None},
        }
        for i in range(8)
    ]
    columns = {"people": "json", "object_boxes": "json", "placebo_bag": "string"}
    return Table.create(tmp_path / "source", rows, axes=["gender"], columns=columns)


def _pixels(table: Table) -> dict[str, np.ndarray]:
    return {name: np.asarray(picture).copy() for name, picture in table.images()}


def test_the_background_is_blurred_and_the_person_is_not(source: Table, tmp_path: Path) -> None:
    made = run(plan_perturb(source, PerturbConfig(blur=0.05)), tmp_path / "out", progress=False)
    before, after = _pixels(source), _pixels(made)
    x, y, width, height = BOX
    inside = np.s_[y : y + height, x : x + width]
    for name in before:
        same = before[name] == after[name]
        told = json.loads(made.to_pandas(["image_id", "perturbation"]).set_index("image_id")["perturbation"][name])
        outlined = name in {f"i{i}" for i in range(6)}
        assert told["of"] == ("background" if outlined else "whole picture")
        assert same[inside].all() == outlined
        assert same.mean() < 0.5
        assert after[name].std() < before[name].std(), "a blur takes contrast away"
    kept = [name for name in source.columns if name != "image"]
    assert made.to_pandas(kept).equals(source.to_pandas(kept))
    assert made.fingerprint != source.fingerprint
    assert made.axes == source.axes


def test_the_same_objects_are_hidden_in_all_pictures_of_a_set(source: Table, tmp_path: Path) -> None:
    config = PerturbConfig(blur=0, objects=0.5, seed=3)
    made = run(plan_perturb(source, config), tmp_path / "out", progress=False)
    frame = made.to_pandas(["image_id", "set_id", "perturbation"])
    hidden = {row.image_id: json.loads(row.perturbation)["objects"] for row in frame.itertuples()}
    assert all(frame.groupby("set_id")["perturbation"].nunique() == 1)
    assert len({tuple(names) for names in hidden.values()}) > 1
    after = _pixels(made)
    for name, names in hidden.items():
        for i, thing in enumerate(THINGS):
            black = (after[name][4 * i : 4 * i + 4, 16:22] == 0).all()
            assert black == (thing["name"] in names)


@pytest.mark.parametrize(("blur", "objects"), [(0, 0), (-0.1, 0), (0.6, 0), (0.01, 1.5), (float("nan"), 0)])
def test_shares_that_are_none_are_refused(blur: float, objects: float) -> None:
    with pytest.raises(InputError, match="give"):
        PerturbConfig(blur=blur, objects=objects)


def test_objects_need_their_column(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "bare", [{"image_id": "1", "image": {"bytes": encode(_picture(0)), "path": None}}])
    with pytest.raises(InputError, match="object_boxes"):
        plan_perturb(table, PerturbConfig(objects=0.1))
