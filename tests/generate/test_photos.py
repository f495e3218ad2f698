"""Edits, inpainting and masks of real photographs: what is outside stays as it was, to the bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import binary_dilation

from equipoise.data import Table, masks
from equipoise.data.people import people_of, person
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate import (
    EditsConfig,
    InpaintConfig,
    MaskConfig,
    PartsConfig,
    estimate,
    plan_edits,
    plan_inpaint,
    plan_mask,
    plan_parts,
    run,
)
from equipoise.generate.edits import fitted, pasted
from equipoise.generate.persons import composited, dilated, outlined, targets, whole_pixels
from equipoise.models.protocols import Detections

QUIET = {"progress": False}
FEW = 2


@pytest.fixture(scope="module")
def few_photos(photos: Table, tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Photographs of exactly one person, and some of several, with a caption that names someone."""
    single, several = [], []
    for row in photos.rows():
        people = people_of(row["people"])
        (single if len(people) == 1 else several if len(people) > 1 else []).append(row)
    out = tmp_path_factory.mktemp("few") / "photos"
    return Table.create(out, [*single[:FEW], *several[:FEW]], columns=photos.further_columns, rows_per_shard=5)


def pixels(table: Table) -> dict[str, np.ndarray]:
    return {name: np.asarray(image) for name, image in table.images()}


@pytest.mark.slow
def test_edits_leave_everything_outside_the_box(few_photos: Table, painter: Any, tmp_path: Path) -> None:
    plan = plan_edits(few_photos, EditsConfig(long_side=64, steps=3))
    assert (plan.n_tasks, plan.n_images) == (FEW, FEW * 16)
    assert plan.left_out == {"not exactly one person": FEW}
    table = run(plan, tmp_path / "out", painter, **QUIET)
    before, changed = pixels(few_photos), 0
    frame = table.to_pandas().set_index("image_id")
    people = {row["image_id"]: people_of(row["people"]) for row in few_photos.rows(["image_id", "people"])}
    for name, after in pixels(table).items():
        row = frame.loc[name]
        source = before[row["source_id"]]
        assert after.shape == source.shape
        x, y, w, h = people[row["source_id"]][0]["box"]
        inside = np.zeros(source.shape[:2], bool)
        inside[int(np.floor(y)) : int(np.ceil(y + h)), int(np.floor(x)) : int(np.ceil(x + w))] = True
        assert np.array_equal(after[~inside], source[~inside]), "bit-identical outside the box"
        changed += not np.array_equal(after[inside], source[inside])
        assert json.loads(row["params"])["image_guidance"] == 1.5
    assert changed == FEW * 16
    for _, made in frame.groupby("source_id"):
        assert len(made) == 16
        assert made["gender"].value_counts().to_dict() == {"female": 8, "male": 8}
        assert len({(json.loads(p)["template"], json.loads(p)["guidance"]) for p in made["params"]}) == 8
        assert made["seed"].nunique() == 1
    assert len(painter.calls) == FEW * 4, "four instructions of one group and scale at a time"
    for call in painter.calls:
        assert all(max(size) == 64 and min(size) % 8 == 0 for size in call["sizes"])
        assert call["guidance"] in (9.5, 15.0)
        assert call["steps"] == 3


def test_editing_the_whole_photograph_is_the_ablation(few_photos: Table, painter: Any, tmp_path: Path) -> None:
    config = EditsConfig(area="whole", long_side=64, guidance=(9.5,), templates=("Turn this person into a/an {noun}",))
    table = run(plan_edits(few_photos, config), tmp_path / "out", painter, **QUIET)
    before = pixels(few_photos)
    sources = dict(zip(table.to_pandas()["image_id"], table.to_pandas()["source_id"], strict=True))
    assert len(table) == FEW * 2
    for name, after in pixels(table).items():
        assert after.shape == before[sources[name]].shape
        assert not np.array_equal(after[:4], before[sources[name]][:4])


def test_unlabelled_photographs_are_left_out_where_there_are_labels(painter: Any, tmp_path: Path) -> None:
    rows = [
        {
            "image": Image.new("RGB", (20, 20)),
            "image_id": str(i),
            "people": json.dumps([person(box=[2, 2, 9, 9])]),
            "gender": group,
        }
        for i, group in enumerate(["female", None, "unknown"])
    ]
    table = Table.create(tmp_path / "in", rows, axes=["gender"], columns={"people": "json"})
    assert plan_edits(table).left_out == {"no label on gender": 2}
    assert plan_edits(table, EditsConfig(only_labelled=False)).n_tasks == 3


@pytest.mark.parametrize("feather", [0, 3])
def test_pasting_stays_inside(feather: int) -> None:
    rng = np.random.default_rng(0)
    photo = Image.fromarray(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8))
    made = np.asarray(pasted(photo, Image.new("RGB", (64, 64), "white"), (10, 5, 31, 29), feather))
    inside = np.zeros((40, 50), bool)
    inside[5:29, 10:31] = True
    assert np.array_equal(made[~inside], np.asarray(photo)[~inside])
    if feather:
        assert (made[17, 20] == 255).all(), "whole in the middle"
        assert not (made[5, 10] == 255).all(), "faded at the edge"
    else:
        assert (made[inside] == 255).all()


def test_fitting_keeps_the_shape_as_far_as_multiples_allow() -> None:
    for size in ((300, 100), (17, 640), (5, 5), (1, 400)):
        made = fitted(Image.new("RGB", size), 256).size
        assert max(made) == 256
        assert all(side % 8 == 0 and side > 0 for side in made)


@pytest.mark.slow
def test_inpaints_leave_everything_outside_the_mask(few_photos: Table, painter: Any, tmp_path: Path) -> None:
    config = InpaintConfig(per_group=3, guidance=(7.5, 9.5, 15.0), dilation=8)
    plan = plan_inpaint(few_photos, config)
    assert plan.n_tasks >= FEW, plan.left_out
    table = run(plan, tmp_path / "out", painter, **QUIET)
    assert len(table) == plan.n_images == plan.n_tasks * 2 * 3
    before = pixels(few_photos)
    frame = table.to_pandas().set_index("image_id")
    drawn_in = 0
    for name, after in pixels(table).items():
        row = frame.loc[name]
        source = before[row["source_id"]]
        mask = masks.decode(json.loads(row["drawn_mask"]), *source.shape[:2])
        assert np.array_equal(after[~mask], source[~mask]), "bit-identical outside the mask"
        drawn_in += not np.array_equal(after[mask], source[mask])
        everyone = [p for p in people_of(row["people"]) if not p["iscrowd"]]
        largest = max(everyone, key=lambda p: p["box"][2] * p["box"][3])
        segment = masks.decode(largest["mask"], *source.shape[:2])
        assert mask[segment].all(), "the largest person is inside"
        assert mask.sum() < source.shape[0] * source.shape[1]
    assert drawn_in == len(table)
    for _, made in frame.groupby("source_id"):
        assert made["gender"].value_counts().to_dict() == {"female": 3, "male": 3}
        params = [json.loads(p) for p in made["params"]]
        assert sorted(p["guidance"] for p in params) == [7.5] * 2 + [9.5] * 2 + [15.0] * 2
        noise = made.assign(place=[p["place"] for p in params]).groupby(["seed", "place"])["gender"].apply(sorted)
        assert len(noise) == 3
        assert (noise.map(tuple) == ("female", "male")).all(), "the groups are drawn from the same noise"
        texts = made.groupby("gender")["caption"].unique()
        assert all(len(t) == 1 for t in texts)
        assert texts["female"][0] != texts["male"][0]


def test_the_defaults_of_inpainting_are_the_papers() -> None:
    config = InpaintConfig()
    assert (config.per_group, config.guidance, config.second_over) == (30, (7.5, 9.5, 15.0), 55_000)
    with pytest.raises(InputError, match="evenly over 3"):
        InpaintConfig(per_group=10)
    with pytest.raises(UnknownNameError, match="kind of mask"):
        InpaintConfig(by="outline")


def test_the_second_person_counts_above_its_limit() -> None:
    def of(width: float, height: float) -> dict[str, Any]:
        return person(box=[0, 0, width, height])

    assert len(targets([of(300, 300), of(250, 220)], 640, 480)) == 1, "exactly 55,000 is not over it"
    assert len(targets([of(300, 300), of(250, 220.1)], 640, 480)) == 2
    assert len(targets([of(300, 300), of(300, 299), of(300, 298)], 640, 480)) == 2, "never a third"
    assert targets([of(20, 20), of(30, 30)], 640, 480)[0]["box"][2] == 30


def test_dilation_is_a_disk() -> None:
    rng = np.random.default_rng(1)
    mask = rng.random((40, 50)) > 0.99
    y, x = np.mgrid[-3:4, -3:4]
    assert np.array_equal(dilated(mask, 3), binary_dilation(mask, x * x + y * y <= 9))
    assert np.array_equal(dilated(mask, 0), mask)
    empty = np.zeros((4, 4), bool)
    assert not dilated(empty, 8).any()


@pytest.fixture
def with_parts(tmp_path: Path) -> Table:
    rng = np.random.default_rng(3)
    parts = {"face": [10, 4, 8, 8], "left_hand": [30, 30, 6, 6], "empty": [0, 0, 0, 0]}
    rows = [
        {
            "image": Image.fromarray(rng.integers(0, 256, (48, 48, 3), dtype=np.uint8)),
            "image_id": str(i),
            "captions": ["A dog.", "A man on a bench"],
            "people": json.dumps([person(box=[5, 2, 35, 40], mask=[[5, 2, 40, 2, 40, 42, 5, 42]], parts=parts)]),
        }
        for i in range(12)
    ]
    return Table.create(tmp_path / "in", rows, columns={"people": "json"})


def test_one_random_body_part(with_parts: Table, painter: Any, tmp_path: Path) -> None:
    table = run(plan_parts(with_parts, PartsConfig(dilation=0)), tmp_path / "out", painter, **QUIET)
    areas = {"face": [10, 4, 8, 8], "left_hand": [30, 30, 6, 6]}
    seen = set()
    assert sorted(table.to_pandas(["source_id"])["source_id"]) == sorted(map(str, range(12))), "one per photograph"
    for row in table.rows(["params", "drawn_mask", "caption", "captions"]):
        part = json.loads(row["params"])["part"]
        mask = masks.decode(json.loads(row["drawn_mask"]), 48, 48)
        assert masks.to_box(mask) == areas[part]
        assert row["caption"] == "A man on a bench", "the original caption that names somebody"
        assert row["captions"] == ["A dog.", "A man on a bench"]
        seen.add(part)
    assert {call["guidance"] for call in painter.calls} == {7.5}
    assert seen == set(areas), "in twelve photographs each part comes up, and never one of no size"


def test_parts_of_somebody_who_is_not_drawn_make_no_plan(tmp_path: Path) -> None:
    small = person(box=[30, 30, 6, 6], parts={"head": [31, 31, 3, 3]})
    row = {"image_id": "a", "captions": ["A man"], "people": json.dumps([person(box=[0, 0, 20, 30]), small])}
    table = Table.create(tmp_path / "in", [row], columns={"people": "json"})
    plan = plan_parts(table)
    assert (plan.n_tasks, plan.left_out) == (0, {"no boxes of body parts": 1})
    assert plan_parts(table, PartsConfig(second_over=30)).n_tasks == 1


class Outliner:
    name, key, labels = "fake:outliner", "outliner-1", ("person",)

    def __init__(self, outlines: list[np.ndarray] | None) -> None:
        self.outlines = outlines

    def detect(self, images: Any, *, threshold: float = 0.5) -> list[Detections]:
        n = len(self.outlines or [])
        found = None if self.outlines is None else np.stack(self.outlines)
        return [Detections(np.zeros((n, 4), np.float32), ("person",) * n, np.ones(n, np.float32), found)]


def test_a_segmenter_outlines_the_box() -> None:
    image = Image.new("RGB", (20, 20))
    disk = (np.mgrid[:20, :20][0] - 8) ** 2 + (np.mgrid[:20, :20][1] - 8) ** 2 < 25
    far = np.zeros((20, 20), bool)
    far[15:, 15:] = True
    box = [3.0, 3.0, 10.0, 10.0]
    assert np.array_equal(outlined(box, image, Outliner([far, disk])), disk & masks.from_box(box, 20, 20))
    assert np.array_equal(outlined(box, image, Outliner([far])), masks.from_box(box, 20, 20)), "none fits: the box"
    with pytest.raises(InputError, match="no outlines"):
        outlined(box, image, Outliner(None))


class Sam:
    """Outlines boxes and finds nothing: a disk in each, reaching beyond it."""

    name, key = "fake:sam", "sam-1"

    def outline(self, image: Any, boxes: Any) -> np.ndarray:
        y, x = np.mgrid[: image.height, : image.width]
        found = []
        for left, top, right, bottom in boxes:
            radius = (right - left) * 0.6
            found.append((x - (left + right) / 2) ** 2 + (y - (top + bottom) / 2) ** 2 < radius**2)
        return np.stack(found)


def test_sam_outlines_a_body_part_and_stays_in_its_box(with_parts: Table, painter: Any, tmp_path: Path) -> None:
    config = PartsConfig(dilation=0, by="finder")
    table = run(plan_parts(with_parts, config), tmp_path / "out", painter, finder=Sam(), **QUIET)
    assert not table.n_errors
    for row in table.rows(["params", "drawn_mask"]):
        x, y, w, h = {"face": [10, 4, 8, 8], "left_hand": [30, 30, 6, 6]}[json.loads(row["params"])["part"]]
        mask = masks.decode(json.loads(row["drawn_mask"]), 48, 48)
        assert 0 < mask.sum() < w * h
        assert mask[y : y + h, x : x + w].sum() == mask.sum()


def test_a_caption_without_a_person_makes_no_inpaint(tmp_path: Path) -> None:
    row = {
        "image": Image.new("RGB", (9, 9)),
        "image_id": "a",
        "captions": ["A red bus"],
        "people": json.dumps([person(box=[1, 1, 4, 4])]),
    }
    nobody = row | {"image_id": "b", "captions": ["A man"], "people": "[]"}
    table = Table.create(tmp_path / "in", [row, nobody], columns={"people": "json"})
    plan = plan_inpaint(table)
    assert plan.left_out == {"no caption that can be said of every group": 1, "no single person": 1}
    assert plan.n_tasks == 0


@pytest.mark.parametrize("by", ["box", "segment"])
def test_masks_of_real_people(few_photos: Table, tmp_path: Path, by: str) -> None:
    table = run(plan_mask(few_photos, MaskConfig(by=by)), tmp_path / "out", **QUIET)
    before = pixels(few_photos)
    people = {row["image_id"]: people_of(row["people"]) for row in few_photos.rows(["image_id", "people"])}
    assert len(table) == len(few_photos)
    for name, after in pixels(table).items():
        source = before[name]
        size = source.shape[:2]
        wanted = np.zeros(size, bool)
        for p in people[name]:
            wanted |= masks.decode(p["mask"], *size) if by == "segment" else masks.from_box(p["box"], *size)
        assert (after[wanted] == 0).all()
        assert np.array_equal(after[~wanted], source[~wanted])
    assert table.to_pandas()["captions"].map(len).min() > 0, "captions go along"


@pytest.mark.parametrize("by", ["box", "segment"])
@pytest.mark.parametrize("what", ["object", "both"])
def test_masks_of_real_objects(few_photos: Table, tmp_path: Path, what: str, by: str) -> None:
    """With COCO's own boxes and outlines: black inside, bit-identical outside."""
    columns = ["image_id", "people", "object_boxes"]
    things = {
        row["image_id"]: json.loads(row["object_boxes"]) + (people_of(row["people"]) if what == "both" else [])
        for row in few_photos.rows(columns)
    }
    assert any(thing["name"] != "person" for found in things.values() for thing in found if "name" in thing)
    table = run(plan_mask(few_photos, MaskConfig(what=what, by=by)), tmp_path / "out", **QUIET)
    assert {name for name, found in things.items() if found} == set(pixels(table))
    before = pixels(few_photos)
    for name, after in pixels(table).items():
        size = before[name].shape[:2]
        wanted = np.zeros(size, bool)
        for thing in things[name]:
            wanted |= masks.decode(thing["mask"], *size) if by == "segment" else masks.from_box(thing["box"], *size)
        assert wanted.any()
        assert (after[wanted] == 0).all()
        assert np.array_equal(after[~wanted], before[name][~wanted])


def test_masks_of_objects_and_both(tmp_path: Path) -> None:
    from equipoise.world import preset, write_table

    source = write_table(tmp_path / "world", preset("fair"), 30, seed=2)
    areas = {}
    for what in ("person", "object", "both"):
        table = run(plan_mask(source, MaskConfig(what=what, by="segment")), tmp_path / what, **QUIET)
        areas[what] = {
            row["image_id"]: masks.decode(json.loads(row["drawn_mask"]), 64, 64)
            for row in table.rows(["image_id", "drawn_mask"])
        }
    assert 0 < len(areas["object"]) < 30 == len(areas["person"])
    for name, both in areas["both"].items():
        empty = np.zeros((64, 64), bool)
        assert np.array_equal(both, areas["person"].get(name, empty) | areas["object"].get(name, empty))


class Finder:
    """Finds a person at the left of every red image and a dog at the right of all."""

    name, key, labels = "fake:finder", "finder-1", ("person", "dog")

    def detect(self, images: Any, *, threshold: float = 0.5) -> list[Detections]:
        found = []
        for image in images:
            seen = [("dog", [10, 0, 20, 20])]
            if image.getpixel((0, 0)) == (255, 0, 0):
                seen.append(("person", [0, 0, 5, 20]))
            boxes = np.array([box for _, box in seen], np.float32)
            found.append(Detections(boxes, tuple(name for name, _ in seen), np.ones(len(seen), np.float32)))
        return found


@pytest.fixture
def colours(tmp_path: Path) -> Table:
    rows = [
        {
            "image": Image.new("RGB", (20, 20), colour),
            "image_id": colour,
            "set_id": "one",
            "gender": "male",
            "label_source": "annotator",
            "people": json.dumps([person(box=[0, 0, 20, 3])]) if colour == "red" else None,
        }
        for colour in ("red", "blue")
    ]
    return Table.create(tmp_path / "colours", rows, axes=["gender"], columns={"people": "json"})


@pytest.mark.parametrize(
    ("what", "areas"),
    [
        ("person", {"red": [[0, 0, 5, 20]]}),
        ("object", {"red": [[10, 0, 10, 20]], "blue": [[10, 0, 10, 20]]}),
        ("both", {"red": [[0, 0, 20, 3], [10, 0, 10, 20]], "blue": [[10, 0, 10, 20]]}),
    ],
)
def test_a_detector_finds_what_is_masked(colours: Table, tmp_path: Path, what: str, areas: dict[str, Any]) -> None:
    plan = plan_mask(colours, MaskConfig(what=what, find=True))
    table = run(plan, tmp_path / "out", finder=Finder(), **QUIET)
    assert set(pixels(table)) == set(areas)
    for name, after in pixels(table).items():
        wanted = np.zeros((20, 20), bool)
        for box in areas[name]:
            wanted |= masks.from_box(box, 20, 20)
        assert np.array_equal((after == 0).all(-1), wanted)
    if what == "person":
        assert table.errors()["reason"].tolist() == ["no person to black out was found in the image"]


def test_a_hundred_images_in_a_row_may_show_nobody(tmp_path: Path) -> None:
    rows = [
        {"image": Image.new("RGB", (20, 20), "red" if i == 104 else "blue"), "image_id": str(i)} for i in range(105)
    ]
    table = Table.create(tmp_path / "in", rows)
    made = run(plan_mask(table, MaskConfig(find=True)), tmp_path / "out", finder=Finder(), **QUIET)
    assert (len(made), made.n_errors) == (1, 104)


def test_a_detector_of_other_things_finds_no_persons(colours: Table, tmp_path: Path) -> None:
    finder = Finder()
    finder.labels = ("face",)
    with pytest.raises(InputError, match="'person'"):
        run(plan_mask(colours, MaskConfig(find=True)), tmp_path / "out", finder=finder, **QUIET)


def test_a_masked_copy_keeps_its_set_and_who_labelled_it(colours: Table, tmp_path: Path) -> None:
    (row,) = run(plan_mask(colours), tmp_path / "out", **QUIET).rows()
    assert (row["set_id"], row["gender"], row["label_source"]) == ("one", "male", "annotator")


def test_a_person_outside_the_image_costs_its_own_row(painter: Any, tmp_path: Path) -> None:
    rows = [
        {"image": Image.new("RGB", (20, 20), "red"), "image_id": name, "people": json.dumps([person(box=box)])}
        for name, box in (("good", [2, 2, 9, 9]), ("bad", [50, 50, 4, 4]))
    ]
    table = Table.create(tmp_path / "in", rows, columns={"people": "json"})
    made = run(plan_edits(table), tmp_path / "out", painter, **QUIET)
    assert len(made) == 16
    assert made.errors()["where"].tolist() == ["bad"]
    assert "holds no pixel" in made.errors()["reason"][0]


def test_a_group_that_is_named_twice_is_refused_before_anything_is_drawn() -> None:
    with pytest.raises(InputError, match="'female' is named twice"):
        InpaintConfig(groups=("female", "male", "female"))


def test_boxes_become_whole_pixels() -> None:
    assert whole_pixels([-3, -2, 10, 10], 20, 20) == (0, 0, 7, 8)
    with pytest.raises(InputError, match="no pixel"):
        whole_pixels([5, 5, 0, 3], 20, 20)


def test_a_composite_takes_back_another_size() -> None:
    before = Image.new("RGB", (10, 10), "blue")
    mask = np.zeros((10, 10), bool)
    mask[2:5] = True
    made = np.asarray(composited(before, Image.new("RGB", (64, 64), "red"), mask))
    assert (made[mask] == [255, 0, 0]).all()
    assert (made[~mask] == [0, 0, 255]).all()


def test_photographs_without_boxes_are_edited_whole(tmp_path):
    rows = [{"image_id": str(i), "image": Image.new("RGB", (16, 8)), "gender": "male"} for i in range(2)]
    table = Table.create(tmp_path / "photos", rows, axes=["gender"])
    with pytest.raises(InputError, match="edit whole photographs with --whole"):
        plan_edits(table, EditsConfig(groups=("female", "male")))
    plan = plan_edits(table, EditsConfig(groups=("female", "male"), area="whole"))
    assert plan.n_tasks == 2
    assert {task["person"]["unit"] for task in plan.tasks()} == {"fraction"}


def test_an_estimate_tries_further_images_where_the_first_shows_nobody(tmp_path: Path) -> None:
    rows = [{"image": Image.new("RGB", (20, 20), c), "image_id": f"{i}"} for i, c in enumerate(["blue"] * 9 + ["red"])]
    table = Table.create(tmp_path / "in", rows)
    with pytest.raises(InputError, match=r"of the first 8 tasks of mask none can be made \(no person to black out"):
        estimate(plan_mask(table, MaskConfig(find=True)), finder=Finder())
    some = Table.create(tmp_path / "some", rows[7:])
    told = estimate(plan_mask(some, MaskConfig(find=True)), finder=Finder())
    assert told.n_images == 3
    assert told.gigabytes is not None
    made = next(run(plan_mask(some, MaskConfig(find=True)), tmp_path / "out", finder=Finder(), **QUIET).rows(["image"]))
    assert told.gigabytes * 1e9 == pytest.approx(3 * len(made["image"]["bytes"]))
