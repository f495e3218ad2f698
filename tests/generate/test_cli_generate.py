"""The command line: options become settings, a dry run makes nothing, errors are sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from equipoise.cli.generate import app
from equipoise.data import Table
from equipoise.data.people import person
from equipoise.errors import InputError


@pytest.fixture
def command(painter: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs ``equipoise generate`` with the painter under any name; an error is raised as it is."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def load(spec: str, kind: str = "encoder", **options: Any) -> Any:
        asked.append((spec, options))
        return painter

    monkeypatch.setattr("equipoise.models.load", load)

    def run(*arguments: str | Path) -> str:
        result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    run.asked = asked  # type: ignore[attr-defined]
    return run


@pytest.fixture
def street(tmp_path: Path) -> Path:
    parts = {"face": [3, 3, 6, 6]}
    rows = [
        {
            "image": Image.new("RGB", (24, 24), (i, 0, 0)),
            "image_id": str(i),
            "captions": ["A man walks"],
            "gender": "male",
            "people": json.dumps([person(box=[2, 2, 12, 20], parts=parts)]),
        }
        for i in range(5)
    ]
    Table.create(tmp_path / "street", rows, axes=["gender"], columns={"people": "json"})
    return tmp_path / "street"


def test_sets(command: Any, painter: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    line = ["sets", out, "-g", "diffusers:x", "--subjects", "doctor", "--prefixes", "A photo of", "-n", "2"]
    line += ["--settings", "socialcf_code", "--share", "0.2,0.3", "--inject", "both", "--device", "cpu"]
    told = command(*line, "--dry-run")
    assert "24 images in 2 tasks" in told
    assert not out.exists()
    assert "24 images in" in command(*line, "--preview-every", "12")
    assert command.asked[0] == ("diffusers:x", {"device": "cpu", "dtype": "auto"})
    assert len(list((out / "_previews").glob("*.png"))) == 2
    call = painter.calls[-1]
    assert (call["inject"], call["sampler"], call["steps"]) == ("both", "euler-ancestral", 100)
    assert 0.2 <= call["share"] <= 0.3
    config = Table.open(out).config
    assert (config["candidates"], config["generate"]) == (2, "sets")


def test_sets_of_the_world(command: Any, tmp_path: Path) -> None:
    line = ["sets", tmp_path / "out", "--world", "fair", "--subjects", "nurse,scientist", "-n", "1"]
    assert "12 images in" in command(*line)
    assert Table.open(tmp_path / "out").axes == ("gender", "skin_tone")


def test_edits_inpaint_mask(command: Any, street: Path, tmp_path: Path) -> None:
    made = command("edits", street, tmp_path / "edits", "-g", "x", "--guidance", "9.5", "--long-side", "32")
    assert "40 images in" in made
    made = command("inpaint", street, tmp_path / "inpaint", "-g", "x", "-m", "2", "--guidance", "7.5,15")
    assert "20 images in" in made
    assert "5 images in" in command("mask", street, tmp_path / "mask", "--by", "box")
    with pytest.raises(InputError, match="--guidance high: numbers"):
        command("inpaint", street, tmp_path / "other", "-g", "x", "--guidance", "high")


@pytest.fixture
def crowd(tmp_path: Path) -> Path:
    """Photographs of two people, but for every third, which shows one."""
    rows = [
        {
            "image": Image.new("RGB", (24, 24), (i, 0, 0)),
            "image_id": str(i),
            "gender": "male",
            "people": json.dumps([person(box=[2, 2, 12, 20])] * (1 if i % 3 == 2 else 2)),
        }
        for i in range(12)
    ]
    Table.create(tmp_path / "crowd", rows, axes=["gender"], columns={"people": "json"})
    return tmp_path / "crowd"


def test_the_limit_of_edits_counts_photographs_that_can_be_edited(command: Any, crowd: Path, tmp_path: Path) -> None:
    line = ["edits", crowd, tmp_path / "out", "-g", "x", "--guidance", "9.5", "--limit", "3"]
    told = command(*line)
    assert "left out 6: not exactly one person" in told
    assert Table.open(tmp_path / "out").to_pandas()["source_id"].unique().tolist() == ["2", "5", "8"]
    with pytest.raises(InputError, match="give one of the two"):
        command(*line, "--sample", "3")


def test_fewer_instructions_make_fewer_edits(command: Any, street: Path, tmp_path: Path) -> None:
    line = ["edits", street, tmp_path / "out", "-g", "x", "--limit", "2"]
    many = "16 edits of each photograph: 4 instructions x 2 groups x 2 guidance scales"
    assert f"{many}; for fewer, give --instructions 1 and one --guidance" in command(*line, "--dry-run")
    told = command(*line, "--instructions", "1", "--guidance", "9.5")
    assert told.startswith("2 edits of each photograph: 1 instruction x 2 groups x 1 guidance scale\n")
    made = Table.open(tmp_path / "out").to_pandas()
    assert made["caption"].tolist() == ["Make this person more feminine", "Make this person more masculine"] * 2
    with pytest.raises(InputError, match="5 instructions were asked for and there are 4"):
        command("edits", street, tmp_path / "five", "-g", "x", "--instructions", "5")


def test_other_settings_are_named_and_refused_before_a_model_is_loaded(
    command: Any, street: Path, tmp_path: Path
) -> None:
    edits = ["edits", street, tmp_path / "edits", "-g", "x"]
    inpaint = ["inpaint", street, tmp_path / "inpaint", "-g", "x", "--guidance", "7.5", "--limit", "2"]
    sets = ["sets", tmp_path / "sets", "-g", "x", "--subjects", "doctor", "--prefixes", "A photo of", "-n", "1"]
    substitute = ["substitute", street, tmp_path / "share", "--alpha", "0.2"]
    scenes = ["scenes", tmp_path / "scenes", "-g", "x", "--activities", "drinking_beer"]
    for line in ([*edits, "--limit", "1"], [*inpaint, "-m", "1"], sets, substitute, [*scenes, "-n", "1"]):
        command(*line)
        command(*line)  # the same again goes on
    command.asked.clear()
    for line, named in (
        ([*edits, "--limit", "4"], r"\(limit 1, now 4\)"),
        ([*edits, "--limit", "1", "--instructions", "1"], r"\(instructions not given, now 1\)"),
        (edits, r"\(limit 1, now not given\)"),
        ([*edits, "--limit", "1", "--guidance", "3"], r"\(guidance not given, now 3.0\)"),
        ([*inpaint, "-m", "2"], r"\(per group 1, now 2\)"),
        ([*inpaint[:-1], "3", "-m", "1"], "another table, other layers, or other images of it"),
        ([*sets, "--seed", "5", "--blend"], r"\(blend no, now yes; seed 0, now 5\)"),
        ([*substitute, "--guidance", "4"], r"\(guidance not given, now 4.0\)"),
        ([*scenes, "-n", "2"], r"\(per cell 1, now 2\)"),
        (["mask", street, tmp_path / "edits"], "holds what equipoise generate edits made"),
    ):
        with pytest.raises(InputError, match=named):
            command(*line)
    assert not command.asked
    assert "images in" in command(*edits, "--limit", "4", "--dry-run"), "a dry run writes nothing, anywhere"


def test_swap(command: Any, street: Path, tmp_path: Path) -> None:
    faces = [{"image": Image.new("RGB", (9, 9)), "image_id": g, "gender": g, "age": "20-29"} for g in ("f", "m")]
    Table.create(tmp_path / "faces", faces, axes=["gender", "age"])
    line = ["swap", street, tmp_path / "faces", tmp_path / "out"]
    assert "10 images in" in command(*line, "--where", "age=20-29,30-39")
    with pytest.raises(InputError, match="--where age"):
        command("swap", street, tmp_path / "faces", tmp_path / "other", "--where", "age")


def test_substitute(command: Any, street: Path, tmp_path: Path) -> None:
    line = ["substitute", street, tmp_path / "out", "--alpha", "0.2,0.6"]
    told = command(*line)
    assert "3 images in" in told
    assert "D(0.2)" in told
    assert Table.open(tmp_path / "out" / "D0.6").to_pandas()["generator"].notna().sum() == 3
    again = command(*line)
    assert "D(0.2)" not in again, "what is there is left alone"


def test_scenes_with_a_price(command: Any, tmp_path: Path) -> None:
    line = ["scenes", tmp_path / "out", "-g", "api:https://x/v1#y", "--activities", "drinking_beer", "-n", "1"]
    assert "4 images in" in command(*line, "--price", "0.04", "--per-minute", "5")
    assert command.asked[-1][1] == {"device": "auto", "dtype": "auto", "price": 0.04, "per_minute": 5.0}


def test_a_dry_run_asks_no_language_model(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was asked")

    monkeypatch.setattr("equipoise.generate.rewriting.writer", asked)
    line = ["scenes", tmp_path / "out", "--activities", "drinking_beer", "-n", "1", "--writer", "api:https://x/v1#y"]
    assert "4 images in 4 tasks" in command(*line, "--dry-run")


def test_substitutes_that_fail_stay_real(command: Any, painter: Any, street: Path, tmp_path: Path) -> None:
    rows = [{"image": Image.new("RGB", (4, 4)), "image_id": str(i), "caption": f"thing {i}"} for i in range(5)]
    Table.create(tmp_path / "real", rows)
    painter.fails_on = "thing 3"
    told = command("substitute", tmp_path / "real", tmp_path / "out", "--alpha", "1")
    assert "1 images could not be generated and stay real" in told
    assert Table.open(tmp_path / "out" / "D1").to_pandas()["generator"].isna().sum() == 1


def test_failed_tasks_are_told(command: Any, painter: Any, tmp_path: Path) -> None:
    painter.fails_on = "Indian female nurse"
    told = command("sets", tmp_path / "out", "--subjects", "doctor,nurse", "--prefixes", "A photo of", "-n", "1")
    assert "1 tasks failed, the first of them race-gender--a_photo_of--nurse--000: RuntimeError: cannot draw" in told


def test_an_engine_that_is_not_there_is_refused_before_a_model_is_loaded(
    command: Any, street: Path, tmp_path: Path
) -> None:
    line = ["edits", street, tmp_path / "out", "-g", "x"]
    with pytest.raises(InputError, match="2 workers were asked for, but the local engine is one"):
        command(*line, "--workers", "2")
    with pytest.raises(InputError, match="no engine named 'rey'; did you mean 'ray'"):
        command(*line, "--engine", "rey")
    assert not command.asked


def test_every_command_has_an_example() -> None:
    for name in ("sets", "edits", "inpaint", "mask", "swap", "substitute", "scenes"):
        result = CliRunner().invoke(app, [name, "--help"], terminal_width=200)
        assert result.exit_code == 0
        assert f"equipoise generate {name}" in result.output
