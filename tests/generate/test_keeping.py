"""What is made from a table keeps every label of its source that the making did not change."""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from equipoise.data import Table
from equipoise.data.people import people_of, person
from equipoise.errors import UnknownNameError
from equipoise.generate import (
    EditsConfig,
    InpaintConfig,
    MaskConfig,
    PartsConfig,
    PerturbConfig,
    ScenesConfig,
    SetsConfig,
    SubstituteConfig,
    SwapConfig,
    plan_edits,
    plan_inpaint,
    plan_mask,
    plan_parts,
    plan_perturb,
    plan_sets,
    plan_substitute,
    plan_swap,
    plan_world_scenes,
    run,
)
from equipoise.generate.keeping import said_of
from equipoise.world import preset, write_table

QUIET = {"progress": False}
MADE = {
    "image",
    "image_id",
    "source_id",
    "set_id",
    "caption",
    "captions",
    "label_source",
    "generator",
    "params",
    "seed",
    "people",
    "mixed",
    "gendered_captions",
    "neutral_captions",
    "keep",
    "dropped_by",
}
"""What a maker may write."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Table:
    fair = preset("fair").changed(two_people=0.0)
    return write_table(tmp_path_factory.mktemp("world") / "t", fair, 7, size=32, seed=3, rows_per_shard=3)


@pytest.fixture(scope="module")
def photos_like(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Rows as a reader of photographs writes them, with columns of somebody's own."""
    rng = np.random.default_rng(1)
    rows = [
        {
            "image": Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)),
            "image_id": f"p{i}",
            "captions": ["A man with a dog", "Somebody at the beach", "A dark skinned man waves"],
            "subject": "walking",
            "split": "train" if i % 2 else "test",
            "gender": "male",
            "age": ["old", None, "young"][i],
            "objects": ["dog"],
            "object_boxes": json.dumps([{"name": "dog", "box": [1, 1, 5, 5]}]),
            "mixed": [],
            "score": 0.5 * i,
            "people": json.dumps(
                [person(box=[8, 4, 20, 30], parts={"head": [12, 4, 8, 8]}, attributes={"gender": "male", "age": "old"})]
            ),
        }
        for i in range(3)
    ]
    columns = {
        "people": "json",
        "objects": "list<string>",
        "object_boxes": "json",
        "mixed": "list<string>",
        "score": "float64",
    }
    return Table.create(tmp_path_factory.mktemp("photos") / "t", rows, axes=["gender", "age"], columns=columns)


def made_by(kind: str, source: Table, painter: Any, out: Path) -> tuple[Table, set[str]]:
    """What a maker makes of ``source``, and the axes that it changes."""
    plans = {
        "edits": lambda: plan_edits(source, EditsConfig(guidance=(3.0,))),
        "inpaint": lambda: plan_inpaint(source, InpaintConfig(per_group=1, guidance=(3.0,), dilation=0)),
        "inpaint both": lambda: plan_inpaint(
            source, InpaintConfig(per_group=1, guidance=(3.0,), dilation=0, also={"age": ("old",)})
        ),
        "part": lambda: plan_parts(source, PartsConfig(dilation=0)),
        "perturb": lambda: plan_perturb(source, PerturbConfig()),
        "swap": lambda: plan_swap(source, source, SwapConfig()),
        "mask": lambda: plan_mask(source, MaskConfig()),
        "substitute": lambda: plan_substitute(source, SubstituteConfig()),
    }
    changed = {"edits": {"gender"}, "inpaint": {"gender"}, "inpaint both": {"gender", "age"}, "swap": {"gender"}}
    faces = {"faces": source} if kind == "swap" else {}
    return run(plans[kind](), out, painter, **faces, **QUIET), changed.get(kind, set())


def test_inpainting_keeps_crowds_and_people_without_a_box(photos_like: Table, painter: Any, tmp_path: Path) -> None:
    row = next(iter(photos_like.rows()))
    (one,) = people_of(row["people"])
    others = [person(box=[0, 30, 10, 8], iscrowd=True), person(attributes={"age": "old"})]
    row |= {"people": json.dumps([others[0], one, others[1]]), "score_sharp": 1.5}
    columns = {name: kind for name, kind in photos_like.types.items() if name in row and name not in ("gender", "age")}
    own = {name: columns[name] for name in ("people", "objects", "object_boxes", "mixed", "score")}
    source = Table.create(tmp_path / "in", [row], axes=["gender", "age"], columns={**own, "score_sharp": "float64"})
    table, _ = made_by("inpaint", source, painter, tmp_path / "out")
    assert "score_sharp" not in table.columns, "a filter measured it on other pixels"
    assert len(table) == 2
    for made in table.rows(["gender", "people"]):
        crowd, drawn, unplaced = people_of(made["people"])
        assert [crowd, unplaced] == people_of(json.dumps(others))
        assert drawn["attributes"] == {"gender": made["gender"], "age": "old"}


MAKERS = ["edits", "inpaint", "inpaint both", "part", "perturb", "swap", "mask", "substitute"]


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("which", ["world", "photos_like"])
def test_labels_survive(kind: str, which: str, request: Any, painter: Any, tmp_path: Path) -> None:
    source: Table = request.getfixturevalue(which)
    table, changed = made_by(kind, source, painter, tmp_path / "out")
    same = what_stays(kind, source, table, changed)
    assert {"subject", "split", "objects", "age"} - changed <= same


def what_stays(kind: str, source: Table, table: Table, changed: set[str]) -> set[str]:
    """Check every column that the maker has no business with, row by row; returns these columns."""
    before = {row["image_id"]: row for row in source.rows()}
    where = {"object_boxes", "mixed"} if kind == "substitute" else set()
    same = set(source.columns) - MADE - changed - where
    same |= {"gender", "captions", "people", "mixed", "label_source"} & set(source.columns) if kind == "part" else set()
    assert len(table) >= len(before)
    for row in table.rows():
        old = before[row["source_id"] or row["image_id"]]  # a perturbed copy is called as its picture
        for name in same:
            assert row[name] == old[name], f"{kind} changed {name}"
    table.validate()
    return same


TEXT = st.text("abcxyz é-", min_size=1, max_size=6)
OWN = {
    "note": ("string", st.one_of(st.none(), TEXT)),
    "tags": ("list<string>", st.lists(TEXT, max_size=3)),
    "score": ("float64", st.one_of(st.none(), st.floats(-9, 9))),
    "count": ("int64", st.integers(-5, 5)),
    "sure": ("bool", st.booleans()),
    "notes": ("json", st.dictionaries(TEXT, st.integers(0, 3), max_size=2).map(json.dumps)),
}
ROW = st.fixed_dictionaries(
    {
        "subject": st.one_of(st.none(), TEXT),
        "split": st.sampled_from(["train", "val", "test", None]),
        "gender": st.sampled_from(["female", "male"]),
        "age": st.sampled_from(["young", "old", None]),
        "objects": st.lists(st.sampled_from(["dog", "cup", "tie"]), unique=True),
        "second": st.booleans(),
        **{name: strategy for name, (_, strategy) in OWN.items()},
    }
)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(ROW, min_size=1, max_size=3), own=st.sets(st.sampled_from(sorted(OWN)), max_size=4))
@pytest.mark.parametrize("kind", MAKERS)
def test_any_labels_survive_any_maker(kind: str, make_painter: Any, rows: list[dict[str, Any]], own: set[str]) -> None:
    """Whatever columns a table has, and whatever they hold: what a maker does not change is the source's."""
    parts = {"head": [3, 1, 5, 5]}
    groups = {"gender": "male", "age": "old"}

    def written(i: int, row: dict[str, Any]) -> dict[str, Any]:
        people = [person(box=[1, 1, 10, 14], parts=parts, attributes=groups)]
        # edits want exactly one person
        people += [person(box=[12, 2, 3, 6], attributes=groups)] if row["second"] and kind != "edits" else []
        labels = {name: value for name, value in row.items() if name != "second" and (name not in OWN or name in own)}
        return labels | {
            "image": Image.new("RGB", (16, 16), (40 * i, 90, 10)),
            "image_id": f"p{i}",
            "captions": ["A man with a dog", "Somebody waves"],
            "people": json.dumps(people),
        }

    with TemporaryDirectory() as home:
        source = Table.create(
            Path(home) / "in",
            [written(i, row) for i, row in enumerate(rows)],
            axes=["gender", "age"],
            columns={"people": "json", "objects": "list<string>", **{name: OWN[name][0] for name in own}},
        )
        table, changed = made_by(kind, source, make_painter(), Path(home) / "out")
        assert own | {"subject", "split", "objects"} <= what_stays(kind, source, table, changed)


def test_sets_and_scenes_say_what_their_plan_said(caption_sets: Any, painter: Any, tmp_path: Path) -> None:
    """Sets and scenes have no source image: their rows hold the subject and the groups that were planned."""
    wanted = caption_sets("doctor", "nurse")[:2]
    frame = run(plan_sets(wanted, SetsConfig(candidates=1)), tmp_path / "sets", painter, **QUIET).to_pandas()
    axes = list(wanted[0].axes)
    said = {
        (one.subject, caption.text, *(caption.attributes[axis] for axis in axes))
        for one in wanted
        for caption in one.captions
    }
    assert set(frame[["subject", "caption", *axes]].itertuples(index=False, name=None)) == said
    scenes = run(
        plan_world_scenes(preset("fair"), ["playing_drum"], ScenesConfig(per_cell=1)),
        tmp_path / "gab",
        painter,
        **QUIET,
    ).to_pandas()
    assert set(scenes["subject"]) == set(scenes["activity"]) == {"playing_drum"}


@pytest.mark.parametrize("kind", ["edits", "inpaint", "swap"])
def test_captions_and_people_are_said_of_the_new_group(
    kind: str, photos_like: Table, painter: Any, tmp_path: Path
) -> None:
    table, _ = made_by(kind, photos_like, painter, tmp_path / "out")
    for row in table.rows():
        noun = {"female": "woman", "male": "man"}[row["gender"]]
        assert row["captions"] == [
            f"A {noun} with a dog",
            "Somebody at the beach",
            f"A dark skinned {noun} waves",
        ]
        assert people_of(row["people"])[0]["attributes"] == {"gender": row["gender"], "age": "old"}


def test_captions_of_the_world_are_those_of_the_other_scene(world: Table, painter: Any, tmp_path: Path) -> None:
    from equipoise.world.tables import scene_of

    config = InpaintConfig(axis="skin_tone", groups=("light", "dark"), per_group=1, guidance=(3.0,), dilation=0)
    before = {row["image_id"]: row for row in world.rows()}
    for row in run(plan_inpaint(world, config), tmp_path / "out", painter, **QUIET).rows():
        scene = scene_of(before[row["source_id"]]["params"]).counterfactual(tone=row["skin_tone"])
        assert row["captions"] == scene.captions()
        assert f"with {row['skin_tone']} skin" in row["caption"], "the prompt names the tone as the world does"
        assert people_of(row["people"])[0]["attributes"]["skin_tone"] == row["skin_tone"]


def test_groups_are_called_as_the_table_calls_them(world: Table, photos_like: Table) -> None:
    def groups(source: Table, **how: Any) -> set[str]:
        plan = plan_inpaint(source, InpaintConfig(axis="age", per_group=3, **how))
        return {prompt[0]["age"] for task in plan.tasks() for prompt in task["prompts"]}

    assert groups(world, groups=("old", "child")) == {"older", "child"}
    assert groups(photos_like, groups=("older", "child")) == {"old", "child"}
    with pytest.raises(UnknownNameError, match="ancient"):
        groups(world, groups=("ancient",))
    with pytest.raises(UnknownNameError, match="ancient"):
        groups(photos_like, groups=("ancient",))


def photos_of_both(photos_like: Table, path: Path) -> Table:
    rows = [{**row, "gender": ["female", "male", "female"][i]} for i, row in enumerate(photos_like.rows())]
    return Table.create(path, rows, axes=photos_like.axes, columns=photos_like.further_columns)


@pytest.mark.parametrize(("female", "male"), [("woman", "man"), ("Female", "Male"), ("F", "M"), ("female", "man")])
def test_edits_and_inpaints_are_of_the_groups_of_their_photographs(
    female: str, male: str, photos_like: Table, painter: Any, tmp_path: Path
) -> None:
    rows = [{**row, "gender": [female, male, None][i]} for i, row in enumerate(photos_like.rows())]
    source = Table.create(tmp_path / "in", rows, axes=photos_like.axes, columns=photos_like.further_columns)
    edits = run(plan_edits(source, EditsConfig(guidance=(3.0,), only_labelled=False)), tmp_path / "e", painter, **QUIET)
    inpaint = InpaintConfig(per_group=1, guidance=(3.0,), dilation=0)
    swapped = plan_swap(source, photos_of_both(photos_like, tmp_path / "faces"))
    swaps = run(swapped, tmp_path / "s", painter, faces=Table.open(tmp_path / "faces"), **QUIET)
    assert {row["gender"] for row in swaps.rows()} == {female, male}
    for table in (edits, run(plan_inpaint(source, inpaint), tmp_path / "i", painter, **QUIET)):
        assert {row["gender"] for row in table.rows()} == {female, male}
        for row in table.rows():
            assert people_of(row["people"])[0]["attributes"]["gender"] == row["gender"]
            assert row["captions"][0] == f"A {'woman' if row['gender'] == female else 'man'} with a dog"


def test_every_combination_of_two_axes(world: Table, painter: Any, tmp_path: Path) -> None:
    config = InpaintConfig(also={"skin_tone": ("light", "dark")}, per_group=1, guidance=(3.0,), dilation=0)
    table = run(plan_inpaint(world, config), tmp_path / "out", painter, **QUIET)
    counts = table.to_pandas().groupby("source_id")[["gender", "skin_tone"]].value_counts()
    assert len(table) == 4 * len(world)
    assert counts.eq(1).all()


class ManySeeds:
    """Draws noise that depends on an image's own seed, place and prompt; ``sizes`` is how many it was asked for."""

    name, key, can, many_seeds = "fake:many", "many-1", frozenset({"inpaint"}), True

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def inpaint(self, images: Any, masks: Any, prompts: Any, *, seed: Any, **how: Any) -> list[Any]:
        self.sizes.append(len(images))
        places = [(seed, i) for i in range(len(images))] if isinstance(seed, int) else seed
        drawn = []
        for image, text, (number, place) in zip(images, prompts, places, strict=True):
            rng = np.random.default_rng([number, place, *text.encode()])
            drawn.append(Image.fromarray(rng.integers(0, 256, (image.height, image.width, 3), dtype=np.uint8)))
        return drawn


def test_photographs_are_drawn_together_and_come_out_as_alone(world: Table, tmp_path: Path) -> None:
    config = InpaintConfig(per_group=3, guidance=(1.0, 2.0, 3.0), dilation=1)
    together, alone = ManySeeds(), ManySeeds()
    alone.many_seeds = False  # type: ignore[misc]
    first = run(plan_inpaint(world, config), tmp_path / "a", together, **QUIET)
    second = run(plan_inpaint(world, config), tmp_path / "b", alone, **QUIET)
    columns = ["image_id", "seed", "params", "caption"]
    assert first.to_pandas(columns).equals(second.to_pandas(columns))
    for (_, a), (_, b) in zip(first.images(), second.images(), strict=True):
        assert np.array_equal(a, b)
    assert max(together.sizes) == len(world)
    assert set(alone.sizes) == {1}


def test_heads_are_swapped_between_pictures_of_the_world(world: Table, painter: Any, tmp_path: Path) -> None:
    table = run(plan_swap(world, world), tmp_path / "out", painter, faces=world, **QUIET)
    assert len(table) == 2 * len(world)
    before = {row["image_id"]: row for row in world.rows(["image_id", "people"])}
    pictures = {name: np.asarray(image) for name, image in world.images()}
    images = {name: np.asarray(image) for name, image in table.images()}
    for row in table.rows(["image_id", "source_id", "gender", "faces_used"]):
        x, y, w, h = (int(v) for v in people_of(before[row["source_id"]]["people"])[0]["parts"]["head"])
        inside = np.zeros((32, 32), bool)
        inside[y : y + h, x : x + w] = True
        source, after = pictures[row["source_id"]], images[row["image_id"]]
        assert np.array_equal(after[~inside], source[~inside]), "nothing changes outside the head"
        if row["faces_used"] != [row["source_id"]]:
            assert not np.array_equal(after[inside], source[inside])


def test_an_editors_own_guidance_is_the_default(photos_like: Table, painter: Any, tmp_path: Path) -> None:
    assert plan_edits(photos_like, editor=painter).n_images == 3 * 16, "the paper's two scales where it brings none"
    painter.brings = {"guidance": 3.0, "image_guidance": 1.3, "steps": 20}
    plan = plan_edits(photos_like, editor=painter)
    assert plan.n_images == 3 * 8
    run(plan, tmp_path / "out", painter, **QUIET)
    assert {(call["guidance"], call["image_guidance"]) for call in painter.calls} == {(3.0, 1.3)}
    asked = plan_edits(photos_like, EditsConfig(guidance=(7.0,), image_guidance=2.0), editor=painter)
    assert next(iter(asked.tasks()))["image_guidance"] == 2.0


def test_scenes_in_the_words_of_the_world(painter: Any, tmp_path: Path) -> None:
    plan = plan_world_scenes(preset("fair"), ["playing_drum", "holding_baby"], ScenesConfig(per_cell=2))
    assert plan.n_images == 2 * 4 * 2
    frame = run(plan, tmp_path / "out", painter, **QUIET).to_pandas()
    assert frame.groupby(["activity", "cell"]).size().eq(2).all()
    expected = frame["cell"].str.startswith("E") == (frame["gender"] == frame["expected_gender"])
    assert expected.all()
    assert (frame["other_gender"].notna() == frame["cell"].str.endswith("2")).all()
    nouns = {"female": r"\b(woman|girl|female|she)\b", "male": r"\b(man|boy|male|he)\b"}
    for text, gender in zip(frame["params"].map(lambda p: json.loads(p)["prompt"]), frame["gender"], strict=True):
        assert re.search(nouns[gender], text), text


def test_a_group_of_ones_own_keeps_the_captions_that_name_none() -> None:
    row = {"captions": ["A man with a dog", "Somebody at the beach"]}
    assert said_of(row, {"gender": "somebody"}) == {"captions": ["Somebody at the beach"]}
    assert said_of(row, {"mood": "happy"}) == row
    assert said_of(row, {"gender": "female", "age": "old"}) == {"captions": ["A woman with a dog", row["captions"][1]]}


def test_captions_that_name_a_race_are_not_said_of_another_skin_tone() -> None:
    row = {"captions": ["A white man in a suit", "A man in a white suit"], "params": None, "generator": None}
    assert said_of(row, {"skin_tone": "dark"}) == {"captions": ["A man in a white suit"]}


def test_a_prompt_names_the_person_who_is_drawn_whomever_the_captions_say_acts() -> None:
    from equipoise.generate.inpaint import world_prompt
    from equipoise.world import Person, Scene

    two = (Person("female", 2, "older", activity="playing_drum"), Person("male", 9, "child"))
    for exchanged in (False, True):
        scene = Scene(two, "park", exchanged=exchanged)
        first, second = (world_prompt(scene, {"skin_tone": "medium"}, 0, who) for who in (0, 1))
        assert {"old", "woman", "medium"} <= set(first.split())
        assert {"boy", "medium"} <= set(second.split())
