"""Face swap, substitution, scenes and the check of edits."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.data.mixing import substitute
from equipoise.data.people import person
from equipoise.data.results import draw_order
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate import (
    ScenesConfig,
    SubstituteConfig,
    SwapConfig,
    contaminated,
    plan_scenes,
    plan_substitute,
    plan_swap,
    run,
    verify_edits,
)
from equipoise.generate.rewriting import rewriter
from equipoise.generate.scenes import diverse, grid
from equipoise.generate.swap import swapped
from equipoise.generate.verify import recalls
from equipoise.models.protocols import Detections

QUIET = {"progress": False}


@pytest.fixture
def faces(tmp_path: Path) -> Table:
    rows = [
        {"image": Image.new("RGB", (12, 12), colour), "image_id": f"{group}-{age}-{i}", "gender": group, "age": age}
        for group, colour in (("female", "red"), ("male", "green"))
        for age in ("0-2", "20-29")
        for i in range(2)
    ]
    return Table.create(tmp_path / "faces", rows, axes=["gender", "age"])


@pytest.fixture
def street(tmp_path: Path) -> Table:
    parts = {"face": [10, 6, 12, 14]}
    rows = [
        {"image": Image.new("RGB", (40, 30), "blue"), "image_id": name, "people": json.dumps(people)}
        for name, people in (
            ("one", [person(box=[5, 2, 20, 28], parts=parts)]),
            (
                "two",
                [person(box=[5, 2, 20, 28], parts=parts), person(box=[24, 0, 9, 30], parts={"head": [25, 1, 6, 8]})],
            ),
            ("none", [person(box=[5, 2, 20, 28])]),
        )
    ]
    return Table.create(tmp_path / "street", rows, columns={"people": "json"})


def test_faces_of_the_target_group_come_in(street: Table, faces: Table, tmp_path: Path) -> None:
    config = SwapConfig(where={"age": ("20-29",)})
    plan = plan_swap(street, faces, config)
    assert (plan.n_images, plan.left_out) == (4, {"no box of a face": 1})
    table = run(plan, tmp_path / "out", faces=faces, **QUIET)
    frame = table.to_pandas().set_index("image_id")
    inside = {"one": [(10, 6, 22, 20)], "two": [(10, 6, 22, 20), (25, 1, 31, 9)]}
    for name, image in table.images():
        row = frame.loc[name]
        pixels = np.asarray(image)
        outside = np.ones(pixels.shape[:2], bool)
        for left, top, right, bottom in inside[row["source_id"]]:
            outside[top:bottom, left:right] = False
            middle = pixels[(top + bottom) // 2, (left + right) // 2].tolist()
            assert middle == {"female": [255, 0, 0], "male": [0, 128, 0]}[row["gender"]]
        assert (pixels[outside] == [0, 0, 255]).all()
        assert len(row["faces_used"]) == len(inside[row["source_id"]])
        assert all(used.startswith(f"{row['gender']}-20-29") for used in row["faces_used"]), "adults only, as asked"


class FaceFinder:
    name, key, labels = "fake:faces", "faces-1", ("face",)

    def detect(self, images: Any, *, threshold: float = 0.5) -> list[Detections]:
        boxes = np.array([[4, 4, 16, 16]], np.float32)
        return [Detections(boxes, ("face",), np.ones(1, np.float32)) for _ in images]


def test_a_detector_may_find_the_faces(street: Table, faces: Table, tmp_path: Path) -> None:
    plan = plan_swap(street, faces, SwapConfig(find=True))
    table = run(plan, tmp_path / "out", faces=faces, finder=FaceFinder(), **QUIET)
    assert len(table) == 6
    for _, image in table.images():
        pixels = np.asarray(image)
        assert not (pixels[10, 10] == [0, 0, 255]).all()
        assert (pixels[:, 16:] == [0, 0, 255]).all()
    with pytest.raises(InputError, match="every row failed"):
        run(plan, tmp_path / "without", faces=faces, **QUIET)


def test_a_swap_takes_the_faces_that_it_was_planned_with(street: Table, faces: Table, tmp_path: Path) -> None:
    plan = plan_swap(street, faces)
    other = Table.create(tmp_path / "other", list(faces.rows())[::-1], axes=["gender", "age"])
    with pytest.raises(InputError, match="other is not the table of faces that the swap was planned with"):
        run(plan, tmp_path / "out", faces=other, **QUIET)
    with pytest.raises(InputError, match="needs the table of faces that it was planned with"):
        run(plan, tmp_path / "out", **QUIET)
    assert not (tmp_path / "out").exists()


def test_colours_can_be_matched_and_groups_must_exist(street: Table, faces: Table) -> None:
    photo = Image.new("RGB", (20, 20), (100, 50, 0))
    made = np.asarray(swapped(photo, Image.new("RGB", (9, 9), "white"), (2, 2, 18, 18), match_colour=True))
    assert (made == [100, 50, 0]).all(), "a plain face of the same mean colour cannot be seen"
    with pytest.raises(InputError, match="no face of the group 'other'"):
        plan_swap(street, faces, SwapConfig(groups=("female", "other")))
    with pytest.raises(UnknownNameError, match="race"):
        plan_swap(street, faces, SwapConfig(axis="race"))


@pytest.fixture
def real(tmp_path: Path) -> Table:
    rows = [
        {"image": Image.new("RGB", (4, 4)), "image_id": f"r{i:02d}", "captions": [f"{i} first", f"{i} second"]}
        for i in range(25)
    ]
    return Table.create(tmp_path / "real", rows)


def test_nested_shares_with_exact_counts(real: Table, painter: Any, tmp_path: Path) -> None:
    plan = plan_substitute(real, SubstituteConfig(alpha=0.6, together=4, seed=3))
    assert (plan.n_images, plan.n_tasks) == (15, 15)
    made = run(plan, tmp_path / "generated", painter, **QUIET)
    assert [len(call["prompts"]) for call in painter.calls] == [4, 4, 4, 3], "an image fails alone, a batch is one call"
    frame = made.to_pandas()
    order = draw_order([f"r{i:02d}" for i in range(25)], 3, "substitute")
    assert set(frame["source_id"]) == {f"r{i:02d}" for i in order[:15]}
    captions = {row["image_id"]: row["captions"] for row in real.rows(["image_id", "captions"])}
    assert all(c in captions[s] for c, s in zip(frame["caption"], frame["source_id"], strict=True))
    assert {c.split()[1] for c in frame["caption"]} == {"first", "second"}, "captions are chosen by seed"
    tables = contaminated(real, made, [0.2, 0.6], tmp_path / "mixed", seed=3)
    replaced = {alpha: set(t.to_pandas()["source_id"].dropna()) for alpha, t in tables.items()}
    assert (len(replaced[0.2]), len(replaced[0.6])) == (5, 15)
    assert replaced[0.2] < replaced[0.6]
    assert all(len(t) == 25 for t in tables.values())
    assert all(len(row["captions"]) == 2 for row in tables[0.6].rows(["captions"])), "captions stay"
    manifest = json.loads((tmp_path / "mixed" / "D0.2.json").read_text())
    assert manifest["n_replaced"] == 5
    assert manifest["sha256"] == hashlib.sha256("\n".join(sorted(replaced[0.2])).encode()).hexdigest()
    with pytest.raises(InputError, match="have no generated image"):
        contaminated(real, made, [0.8], tmp_path / "more", seed=3)


def test_an_image_that_fails_costs_itself_and_stays_real(real: Table, make_painter: Any, tmp_path: Path) -> None:
    order = [f"r{i:02d}" for i in draw_order([f"r{i:02d}" for i in range(25)], 0, "substitute")]
    bad = order[2]
    plan = plan_substitute(real, SubstituteConfig(alpha=0.6, together=4))
    refused = next(task["prompt"] for task in plan.tasks() if task["source"] == bad)
    made = run(plan, tmp_path / "generated", make_painter(fails_on=refused), **QUIET)
    assert (len(made), made.errors()["where"].tolist()) == (14, [bad])
    tables = contaminated(real, made, [0.04, 0.2, 0.6], tmp_path / "mixed")
    replaced = {alpha: set(t.to_pandas()["source_id"].dropna()) for alpha, t in tables.items()}
    assert replaced == {0.04: {order[0]}, 0.2: set(order[:5]) - {bad}, 0.6: set(order[:15]) - {bad}}
    assert all(len(t) == 25 and t.to_pandas()["image_id"].is_unique for t in tables.values())
    told = json.loads((tmp_path / "mixed" / "D0.2.json").read_text())
    assert (told["n_replaced"], told["not_generated"]) == (4, [bad])
    assert json.loads((tmp_path / "mixed" / "D0.04.json").read_text())["not_generated"] == []
    with pytest.raises(InputError, match="have no generated image"):
        contaminated(real, made, [0.8], tmp_path / "more")


def test_a_generated_image_can_be_had_again_from_its_row(real: Table, make_painter: Any, tmp_path: Path) -> None:
    plan = plan_substitute(real, SubstituteConfig(alpha=0.4, together=3))
    eighth = list(plan.tasks())[7]["prompt"]
    made = run(plan, tmp_path / "generated", make_painter(fails_on=eighth), **QUIET)
    assert len(made) == 9
    images = dict(made.images())
    for row in made.rows():
        place = json.loads(row["params"])["place"]
        again = make_painter().generate([row["caption"]] * (place + 1), seed=row["seed"])[place]
        assert np.array_equal(np.asarray(again), np.asarray(images[row["image_id"]]))


def test_one_image_a_caption(real: Table, painter: Any, tmp_path: Path) -> None:
    plan = plan_substitute(real, SubstituteConfig(alpha=0.5, per_caption=True))
    assert plan.n_images == 25
    made = run(plan, tmp_path / "out", painter, **QUIET)
    chosen = substitute(real.to_pandas(), made.to_pandas(), 0.5, unit="caption")
    assert len(chosen.replacement) == 25


def test_an_image_without_a_caption_stops_a_substitution(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "in", [{"image_id": "a"}])
    with pytest.raises(InputError, match="'a' has no caption"):
        plan_substitute(table)


def test_the_grid_is_the_benchmarks() -> None:
    assert len(grid(2)) == len(set(grid(2))) == 40_000


def test_settings_are_spread_evenly_over_clusters() -> None:
    rng = np.random.default_rng(0)
    centres = np.eye(4) * 10
    labels = np.repeat(np.arange(4), [5, 50, 100, 3])
    vectors = centres[labels] + rng.normal(0, 0.1, (158, 4))
    chosen = diverse(["x"] * 158, 16, 4, embed=lambda _: vectors)
    assert len(set(chosen)) == 16
    assert np.bincount(labels[chosen]).tolist() in ([4, 5, 4, 3], [5, 4, 4, 3], [4, 4, 5, 3]), "three has no fourth"
    with pytest.raises(InputError, match="the grid has 2"):
        diverse(["a", "b"], 3, 2)


def test_scenes_of_all_cells(painter: Any, tmp_path: Path) -> None:
    plan = plan_scenes(["drinking_beer", "holding_baby"], ScenesConfig(per_cell=3, clusters=3))
    table = run(plan, tmp_path / "out", painter, **QUIET)
    frame = table.to_pandas()
    assert frame.groupby(["activity", "cell"]).size().tolist() == [3] * 8
    beer = frame[frame["activity"] == "drinking_beer"].groupby("cell").first()
    assert beer["gender"].to_dict() == {"E1": "male", "E2": "male", "U1": "female", "U2": "female"}
    assert beer.loc["U2", "other_gender"] == "male"
    assert beer["other_gender"].isna().to_dict() == {"E1": True, "E2": False, "U1": True, "U2": False}
    assert beer.loc["U2", "caption"] == "A woman is drinking beer and a man is in the scene"
    assert beer.loc["U2", "reversed_caption"] == "A man is drinking beer and a woman is in the scene"
    prompts = [json.loads(p)["prompt"] for p in frame["params"]]
    assert len(set(prompts)) == len(prompts)
    two = json.loads(beer.loc["U2", "params"])["prompt"]
    assert two.startswith("A photo: a woman is drinking beer and a man is in the scene. The woman is ")
    assert " The man is " in two


def test_a_language_model_writes_the_prompts_out_once(painter: Any) -> None:
    asked: list[tuple[float, int]] = []

    def write(request: str, temperature: float, seed: int) -> str:
        asked.append((round(temperature, 2), seed))
        return request.splitlines()[-1] + " in soft light" * (20 if temperature > 0.65 or len(asked) == 1 else 1)

    plan = plan_scenes(["drinking_beer"], ScenesConfig(per_cell=1, groups=("E1",)), rewrite=rewriter(write))
    assert list(plan.tasks()) == list(plan.tasks()), "the plan is fixed"
    assert len(asked) == 1
    assert "soft light" in plan.examples[0]


def test_a_rewriter_warms_up_and_gives_up() -> None:
    same = rewriter(lambda request, temperature, seed: "word " * 60)
    with pytest.raises(InputError, match=r"4 tries .* too like an earlier one"):
        same("a nurse", ["word " * 60], 0)
    short = rewriter(lambda request, temperature, seed: "short")
    with pytest.raises(InputError, match="shorter than 200"):
        short("a nurse", [], 0)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_recall_by_brute_force() -> None:
    rng = np.random.default_rng(0)
    reference, images = unit(rng.normal(size=(40, 8))), unit(rng.normal(size=(12, 8)))
    captions = [unit(rng.normal(size=(5, 8)) + image) for image in images]
    ks = (1, 5, 10)
    found = np.concatenate([recalls(c, im, reference, ks) for c, im in zip(captions, images, strict=True)])
    wanted = []
    for texts, image in zip(captions, images, strict=True):
        pool = np.vstack([reference, image])
        for text in texts:
            order = np.argsort(np.linalg.norm(pool - text, axis=1))  # Euclidean, as the paper
            place = int(np.flatnonzero(order == 40)[0])
            wanted.append([float(place < k) for k in ks])
    assert found.tolist() == wanted
    told = verify_edits(images, ["f"] * 6 + ["m"] * 6, {"f": images[0], "m": images[6]}, captions, reference, ks=ks)
    assert told.recall == {k: pytest.approx(np.mean(wanted, axis=0)[j]) for j, k in enumerate(ks)}
    assert told.n_captions == 60
    assert told.recall_chance == {1: 1 / 41, 5: 5 / 41, 10: 10 / 41}
    assert told.recall_interval[5][0] < told.recall[5] < told.recall_interval[5][1]


def test_accuracy_interval_counts_sources_and_not_edits() -> None:
    """Sixteen edits of a photograph that are all right or all wrong are one observation."""
    eye = np.eye(2)
    right = np.repeat([True, False] * 10, 16)
    images = eye[np.where(right, 0, 1)]
    sources = [str(i) for i in np.repeat(np.arange(20), 16)]
    many = {"captions": [eye[:1]] * 320, "reference": eye, "ks": [1]}
    clustered = verify_edits(images, ["f"] * 320, {"f": eye[0], "m": eye[1]}, sources=sources, **many)
    naive = verify_edits(images, ["f"] * 320, {"f": eye[0], "m": eye[1]}, **many)
    assert clustered.accuracy == naive.accuracy == 0.5
    widths = [c.accuracy_interval[1] - c.accuracy_interval[0] for c in (clustered, naive)]
    assert 3 < widths[0] / widths[1] < 5, "the design effect of 16 alike is 4"
    assert clustered.chance == 1.0


@pytest.mark.parametrize(("n", "known"), [(1, False), (4, False), (5, True)])
def test_few_photographs_have_no_interval(n: int, known: bool) -> None:
    """Three edits of one photograph that are all right are one observation, not a certainty."""
    eye = np.eye(3)
    sources = [str(i) for i in range(n) for _ in range(3)]
    told = verify_edits(
        eye[[0] * 3 * n], ["f"] * 3 * n, {"f": eye[0], "m": eye[1]}, [eye[:1]] * 3 * n, eye[2:], ks=[1], sources=sources
    )
    assert np.isfinite([*told.accuracy_interval, *told.recall_interval[1]]).all() == known
    assert ("no interval" in str(told)) != known


def test_verification_refuses_what_cannot_be_checked() -> None:
    e = np.eye(2)
    good: dict[str, Any] = {
        "images": e,
        "groups": ["f", "m"],
        "prompts": {"f": e[0], "m": e[1]},
        "captions": [e, e],
        "reference": e,
    }
    for change, words in (
        ({"groups": ["f"]}, "1 groups"),
        ({"prompts": {"f": e[0]}}, "no prompt for the group 'm'"),
        ({"images": 2 * e}, "unit vectors"),
        ({"ks": [4]}, "from 1 to the size of the pool, 3"),
        ({"captions": [e, e[:0]]}, "no caption"),
    ):
        with pytest.raises(InputError, match=words):
            verify_edits(**(good | {"ks": [1]} | change))


def test_faces_of_no_known_group_are_not_taken_and_spellings_are_one(tmp_path: Path) -> None:
    from equipoise.generate.swap import _faces_by_group

    cells = ["Male", "male", "male", "female", "unknown", "N/A", None]
    rows = [{"image_id": f"f{i}", "gender": cell} for i, cell in enumerate(cells)]
    faces = Table.create(tmp_path / "f", rows, axes=["gender"])
    by_group = _faces_by_group(faces, SwapConfig())
    assert {group: [face[0] for face in some] for group, some in by_group.items()} == {
        "male": ["f0", "f1", "f2"],
        "female": ["f3"],
    }
    assert list(_faces_by_group(faces, SwapConfig(groups=("Female",)))) == ["Female"]
    with pytest.raises(InputError, match="no face of the group 'old'"):
        _faces_by_group(faces, SwapConfig(groups=("old",)))
