"""A plan is carried out task by task: killed, failed, previewed, estimated, continued."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.generate import SetsConfig, estimate, plan_sets, run

Sets = Callable[..., list[Any]]
QUIET = {"progress": False}


def files_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "_previews" not in path.parts
    }


def test_a_set_is_made_whole_and_each_row_says_how(caption_sets: Sets, painter: Any, tmp_path: Path) -> None:
    plan = plan_sets(caption_sets(), SetsConfig(candidates=2, inject="both", blend=True, sampler="ddim", steps=7))
    table = run(plan, tmp_path / "out", painter, **QUIET)
    table.validate(decode=True)
    assert len(table) == 24
    assert table.axes == ("race", "gender")
    frame = table.to_pandas()
    assert frame["set_id"].nunique() == 2
    for _, members in frame.groupby("set_id"):
        assert members["seed"].nunique() == 1, "one seed per set"
        assert members["params"].nunique() == 1
        assert len(members[["race", "gender"]].drop_duplicates()) == 12
        params = json.loads(members["params"].iloc[0])
        assert 0.1 <= params["share"] <= 0.9
        assert 7.5 <= params["guidance"] <= 15
        assert (params["inject"], params["blend"], params["sampler"], params["steps"]) == ("both", True, "ddim", 7)
    assert frame["seed"].nunique() == 2, "every candidate has noise of its own"
    assert frame["caption"].iloc[3] == "A photo of a Black female doctor"
    assert (frame["label_source"] == "prompt").all()
    assert table.config["generator"] == {"name": "fake:painter", "key": "painter-1"}


def test_killed_at_any_moment_the_next_run_ends_with_the_same_table(tmp_path: Path) -> None:
    moments = [
        "map.before_batch:4",
        "shard.before_rename:3",
        "file.before_rename:2",
        "map.after_write:2",
        "map.before_finish:1",
        "table.before_finish:2",
    ]
    script = Path(__file__).with_name("kill_generate.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "nowhere", *moments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["nowhere 0 0", *(f"{moment} -9 0" for moment in moments)], done.stderr
    expected = files_of(tmp_path / "nowhere")
    table = Table.open(tmp_path / "nowhere")
    assert len(table) == 3 * 12
    assert table.n_errors == 3
    for moment in moments:
        assert files_of(tmp_path / moment.replace(":", "-")) == expected, moment


def test_a_prompt_that_fails_costs_its_set_alone_and_says_so(
    caption_sets: Sets, make_painter: Any, tmp_path: Path
) -> None:
    painter = make_painter(fails_on="Asian male nurse")
    plan = plan_sets(caption_sets("doctor", "nurse", "chef"), SetsConfig(candidates=1))
    table = run(plan, tmp_path / "out", painter, **QUIET)
    whole = run(plan, tmp_path / "whole", make_painter(), **QUIET)
    assert sorted(table.to_pandas()["subject"].unique()) == ["chef", "doctor"]
    errors = table.errors()
    assert errors["where"].tolist() == ["race-gender--a_photo_of--nurse--000"]
    assert errors["reason"].tolist() == ["RuntimeError: cannot draw A photo of an Asian male nurse"]
    kept = {row["image_id"]: row["image"]["bytes"] for row in whole.rows(["image_id", "image"])}
    for row in table.rows(["image_id", "image"]):
        assert row["image"]["bytes"] == kept[row["image_id"]], "the others are what they would have been"


def test_a_large_set_is_split_and_the_source_repeated(caption_sets: Sets, painter: Any, tmp_path: Path) -> None:
    plan = plan_sets(caption_sets(), SetsConfig(candidates=1, batch_size=5))
    table = run(plan, tmp_path / "out", painter, **QUIET)
    source = "A photo of a White male doctor"
    assert [len(call["prompts"]) for call in painter.calls] == [5, 5, 4]
    assert [call["prompts"][0] for call in painter.calls] == [source] * 3
    assert len({call["seed"] for call in painter.calls}) == 1
    assert table.to_pandas()["caption"].tolist() == [c.text for c in caption_sets()[0].captions]
    whole = run(plan_sets(caption_sets(), SetsConfig(candidates=1)), tmp_path / "whole", painter, **QUIET)
    pixels = [[im.tobytes() for _, im in t.images()] for t in (table, whole)]
    assert pixels[0] == pixels[1]


def test_other_settings_do_not_continue_a_run(caption_sets: Sets, painter: Any, tmp_path: Path) -> None:
    run(plan_sets(caption_sets(), SetsConfig(candidates=1)), tmp_path / "out", painter, **QUIET)
    again = run(plan_sets(caption_sets(), SetsConfig(candidates=1)), tmp_path / "out", painter, **QUIET)
    assert len(again) == 12
    with pytest.raises(InputError, match="begun with other settings"):
        run(plan_sets(caption_sets(), SetsConfig(candidates=1, seed=5)), tmp_path / "out", painter, **QUIET)


@pytest.mark.parametrize("kind", ["table", "run", "file"])
def test_what_somebody_else_made_is_left_as_it_was(kind: str, caption_sets: Sets, painter: Any, tmp_path: Path) -> None:
    if kind == "table":
        Table.create(tmp_path / "out", [{"image_id": "a", "image": b"x"}])
    else:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / ("run.json" if kind == "run" else "config.xml")).write_text("{}")
    before = files_of(tmp_path / "out")
    with pytest.raises(InputError, match=r"path|folder"):
        run(plan_sets(caption_sets(), SetsConfig()), tmp_path / "out", painter, **QUIET)
    assert files_of(tmp_path / "out") == before


def test_another_generator_does_not_continue_a_run(caption_sets: Sets, make_painter: Any, tmp_path: Path) -> None:
    plan = plan_sets(caption_sets(), SetsConfig(candidates=1))
    run(plan, tmp_path / "out", make_painter(), **QUIET)
    other = make_painter()
    other.key = "painter-2"
    with pytest.raises(InputError, match="another run"):
        run(plan, tmp_path / "out", other, **QUIET)


def test_previews_every_n_images(caption_sets: Sets, painter: Any, tmp_path: Path) -> None:
    plan = plan_sets(caption_sets(), SetsConfig(candidates=5))
    run(plan, tmp_path / "out", painter, preview_every=24, **QUIET)
    sheets = sorted((tmp_path / "out" / "_previews").glob("*.png"))
    assert [sheet.name for sheet in sheets] == ["00000024.png", "00000048.png"]
    with Image.open(sheets[0]) as sheet:
        assert sheet.width > 500
    Table.open(tmp_path / "out").validate()
    plain = run(plan, tmp_path / "plain", painter, **QUIET)
    assert not (plain.path / "_previews").exists()
    assert files_of(plain.path) == files_of(tmp_path / "out"), "previews do not change the table"


def test_what_the_model_takes_of_its_own_is_recorded(caption_sets: Sets, painter: Any, tmp_path: Path) -> None:
    painter.own = {"guidance": 3.0, "steps": 20}
    table = run(plan_sets(caption_sets(), SetsConfig(candidates=1)), tmp_path / "own", painter, **QUIET)
    params = json.loads(table.to_pandas()["params"][0])
    assert params["steps"] == 20
    assert 7.5 <= params["guidance"] <= 15, "what was asked for wins"
    assert params["sampler"] is None
    assert painter.calls[-1]["steps"] is None, "the model is asked as before"
    table = run(plan_sets(caption_sets(), SetsConfig(candidates=1, steps=7)), tmp_path / "asked", painter, **QUIET)
    assert json.loads(table.to_pandas()["params"][0])["steps"] == 7


def test_the_estimate_is_for_the_whole_plan(caption_sets: Sets, painter: Any) -> None:
    plan = plan_sets(caption_sets(), SetsConfig(candidates=100))
    told = estimate(plan, painter)
    assert (told.n_images, told.n_tasks, len(told.examples)) == (1200, 100, 3)
    assert len(painter.calls) == 1, "one task is made to measure, and no more"
    assert told.seconds is not None
    assert told.seconds > 0
    assert told.gigabytes is not None
    assert 0.0005 < told.gigabytes < 0.0015, "1,200 pictures of noise of 16 x 16 are about 0.8 kB each"
    assert "1,200 images" in str(told)
    assert str(told).count("e.g.") == 3


def test_a_service_is_estimated_by_its_price_and_not_asked(caption_sets: Sets, painter: Any) -> None:
    from equipoise.generate import ScenesConfig, plan_scenes
    from equipoise.models.image_api import from_api

    plan = plan_scenes(["drinking_beer"], ScenesConfig(per_cell=5))
    service = from_api("https://service.invalid/v1#pictures", price=0.04, per_minute=10)
    told = estimate(plan, service)
    assert told.n_images == 20
    assert told.cost == pytest.approx(0.8)
    assert told.seconds == pytest.approx(120)
    assert "0.80 US dollars" in str(told)


def test_a_service_without_a_price_is_not_asked_either() -> None:
    from equipoise.generate import ScenesConfig, plan_scenes
    from equipoise.models.image_api import from_api

    def asleep(seconds: float) -> None:
        raise AssertionError("it was asked")

    plan = plan_scenes(["drinking_beer"], ScenesConfig(per_cell=5))
    told = estimate(plan, from_api("http://127.0.0.1:9/v1#pictures", sleep=asleep))
    assert (told.cost, told.seconds) == (None, None)
    assert "cost    unknown: give the price of an image (--price)" in str(told)


def test_a_photograph_that_fails_does_not_end_the_estimate(painter: Any, tmp_path: Path) -> None:
    from equipoise.data.people import person
    from equipoise.generate import PartsConfig, plan_parts

    large, small = [0, 0, 0.9, 0.9], [0, 0, 0.2, 0.2]
    parts = {"head": [2, 2, 3, 3]}
    sized = partial(person, unit="fraction")  # who is the largest is known once the image is read
    people = [[sized(box=large, parts=parts)], [sized(box=large), sized(box=small, parts=parts)]]
    rows = [
        {"image": Image.new("RGB", (32, 32)), "image_id": str(i), "captions": ["A man"], "people": json.dumps(some)}
        for i, some in enumerate(people)
    ]
    source = Table.create(tmp_path / "in", rows, columns={"people": "json"})
    told = estimate(plan_parts(source, PartsConfig(dilation=0)), painter)
    assert (told.n_images, told.n_tasks) == (2, 2)


def test_the_estimate_of_images_made_together_is_by_one_call(painter: Any, tmp_path: Path) -> None:
    from equipoise.generate import SubstituteConfig, plan_substitute

    real = Table.create(tmp_path / "real", [{"image_id": str(i), "caption": f"scene {i}"} for i in range(20)])
    told = estimate(plan_substitute(real, SubstituteConfig(together=4)), painter)
    assert [len(call["prompts"]) for call in painter.calls] == [4]
    assert (told.n_images, told.by_service) == (20, False)
    assert told.gigabytes is not None
    assert told.gigabytes * 1e9 / 20 == pytest.approx(850, rel=0.3)


def test_what_a_generator_cannot_do_is_said_at_once(caption_sets: Sets, painter: Any, tmp_path: Path) -> None:
    plan = plan_sets(caption_sets(), SetsConfig(candidates=1))
    painter.can = frozenset({"edit"})
    with pytest.raises(InputError, match="cannot generate set, which sets needs; it can: edit"):
        run(plan, tmp_path / "out", painter, **QUIET)
    with pytest.raises(InputError, match="needs a generator"):
        run(plan, tmp_path / "out", **QUIET)
    assert not (tmp_path / "out").exists()


def test_an_empty_plan_is_refused(tmp_path: Path, painter: Any) -> None:
    with pytest.raises(InputError, match="nothing to make"):
        run(plan_sets([]), tmp_path / "out", painter, **QUIET)


def test_previews_are_the_same_after_a_resume(
    caption_sets: Sets, painter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_sets(caption_sets(), SetsConfig(candidates=5))
    whole = run(plan, tmp_path / "whole", painter, preview_every=12, tasks_per_shard=1, **QUIET)
    draw, drawn = painter.generate_set, []

    def stops(*words: Any, **how: Any) -> Any:
        drawn.append(1)
        if len(drawn) == 4:
            raise KeyboardInterrupt
        return draw(*words, **how)

    monkeypatch.setattr(painter, "generate_set", stops)
    with pytest.raises(KeyboardInterrupt):
        run(plan, tmp_path / "out", painter, preview_every=12, tasks_per_shard=1, **QUIET)
    run(plan, tmp_path / "out", painter, preview_every=12, tasks_per_shard=1, **QUIET)
    sheets = {path.name: path.read_bytes() for path in (whole.path / "_previews").iterdir()}
    assert len(sheets) == 5
    assert {path.name: path.read_bytes() for path in (tmp_path / "out" / "_previews").iterdir()} == sheets
