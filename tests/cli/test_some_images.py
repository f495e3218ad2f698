"""Long commands take only some of their images: --limit, --sample and --layer mean the same everywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.world import preset, write_counterfactual_table

LONG = (
    ["audit"],
    ["embed"],
    ["caption"],
    ["dataset"],
    ["captions"],
    ["filter"],
    ["train"],
    ["mitigate"],
    ["tournament"],
    *(["generate", name] for name in ("edits", "inpaint", "mask", "perturb", "swap", "substitute")),
)
MAKERS = [["generate", name] for name in ("sets", "scenes")]
WRITERS = [["table", "import"], ["table", "export"], ["table", "join"], ["world", "render"], ["world", "preview"]]

Called = Callable[..., Any]


def options_of(words: list[str]) -> dict[str, Any]:
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    return {flag: parameter for parameter in command.params for flag in parameter.opts}


@pytest.mark.parametrize("words", LONG, ids=" ".join)
def test_every_long_command_takes_some_images_and_says_beforehand_how_many(words: list[str]) -> None:
    assert {"--limit", "--sample", "--layer", "--dry-run"} <= set(options_of(words))


@pytest.mark.parametrize("words", [*LONG, *MAKERS, *WRITERS, ["models", "convert"]], ids=" ".join)
def test_o_is_the_output_and_an_axis_may_be_repeated(words: list[str]) -> None:
    options = options_of(words)
    assert "--out" in options["-o"].opts
    assert "--axis" not in options or options["--axis"].multiple


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("some") / "sets"
    table = write_counterfactual_table(folder, preset("fair"), 1, axes=["gender"], size=32)
    kept = np.arange(len(table)) < 6
    rows = table.to_pandas(["image_id"]).assign(keep=kept)
    table.add_layer("first", rows, columns=["keep"])
    return folder


def test_makers_use_the_images_that_were_asked_for(sets: Path, command_line: Called, tmp_path: Path) -> None:
    for name, words, n in (("a", ["--limit", 3], 3), ("b", ["--layer", "first"], 6), ("c", ["--sample", 4], 4)):
        done = command_line("generate", "mask", sets, "-o", tmp_path / name, *words)
        assert done.returncode == 0, done.stderr
        assert len(Table.open(tmp_path / name)) == n
    first = Table.open(sets).to_pandas(["image_id"])["image_id"].tolist()[:3]
    assert [name.split("--")[0] for name in Table.open(tmp_path / "a").to_pandas(["image_id"])["image_id"]] == first
    drawn = Table.open(tmp_path / "c").to_pandas(["set_id"])["set_id"]
    assert (drawn.value_counts() == 2).all()  # whole sets
    again = command_line("generate", "perturb", sets, tmp_path / "d", "--limit", 2)
    assert again.returncode == 0, again.stderr
    assert len(Table.open(tmp_path / "d")) == 2
    assert "keep" not in Table.open(tmp_path / "d").columns
    both = command_line("generate", "mask", sets, tmp_path / "e", "-o", tmp_path / "f")
    assert both.returncode == 2
    assert "two places to write" in both.stderr


def test_a_filter_looks_at_no_more_than_it_was_told(sets: Path, command_line: Called, tmp_path: Path) -> None:
    plan = command_line("filter", sets, "-s", "detectability", "--sample", 4, "--dry-run")
    assert ": 4 images, 2 sets" in plan.stdout
    done = command_line("filter", sets, "-s", "quality", "--limit", 4, "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert len(Table.open(sets, layers=[tmp_path / "run" / "layer"]).to_pandas(only_kept=True)) <= 4


def test_a_remedy_says_what_it_would_be_fitted_on(sets: Path, command_line: Called, tmp_path: Path) -> None:
    words = ["mitigate", "projection", "mini:clip", "-t", sets, "--axis", "gender", "--dry-run"]
    some = command_line(*words, "--limit", 16, "--held-out", 0).stdout
    assert "16 images would be looked at; nothing was loaded" in some
    half = command_line(*words).stdout
    apart = half.partition("kept apart to judge it by: ")[2].strip().split(", ")
    subjects = Table.open(sets).to_pandas(["subject"])["subject"]
    assert half.startswith(f"{int((~subjects.isin(apart)).sum()):,} images would be looked at")
    wrong = command_line(*words[:-2], "gendre", "--dry-run")
    assert wrong.returncode == 2
    assert "did you mean 'gender'?" in wrong.stderr


def test_subjects_are_held_out_among_the_images_that_a_layer_keeps(sets: Path, tmp_path: Path) -> None:
    from equipoise.mitigate.fitting import held_out_layer

    table = Table.open(sets, layers=["first"])
    subjects = table.to_pandas(["subject"], only_kept=True)["subject"].unique().tolist()
    held_out_layer(table, subjects[:1], tmp_path / "held_out")
    found = Table.open(sets, layers=[tmp_path / "held_out"]).to_pandas(["subject"], only_kept=True)["subject"]
    assert found.tolist() == [subjects[0]] * 2


@pytest.fixture
def captions(tmp_path: Path) -> Path:
    rows = [
        {"photo": n, "text": f"a {['man', 'woman'][n % 2]} with a {['ball', 'book'][n % 2]}", "sex": "mf"[n % 2]}
        for n in range(80)
    ]
    path = tmp_path / "captions.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def test_captions_are_counted_before_anything_is_trained(captions: Path, command_line: Called) -> None:
    words = ["captions", captions, "--labels", "sex", "--id-column", "photo", "--caption-column", "text", "--dry-run"]
    told = command_line(*words).stdout
    assert "m 40 images, f 40 images" in told or "f 40 images, m 40 images" in told
    assert "captions: 80 captions" in told
    assert "10 splits" in told
    assert "captions: 20 captions" in command_line(*words, "--limit", 20).stdout
    assert "captions: 30 captions" in command_line(*words, "--sample", 30).stdout
    both = command_line(*words, "--sample", 30, "--limit", 2)
    assert both.returncode == 2
    assert "give one of the two" in both.stderr
    layer = command_line(*words, "--layer", "labels")
    assert "a layer belongs to a table, and only files are given" in layer.stderr


def test_captions_of_some_images_are_measured(captions: Path, command_line: Called, tmp_path: Path) -> None:
    words = ["captions", captions, "--labels", "sex", "--id-column", "photo", "--caption-column", "text"]
    more = ["--limit", 60, "--seeds", 2, "--permutations", 0, "--no-quality", "--no-report"]
    done = command_line(*words, *more, "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "captions: 60 captions" in done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["limit"] == 60


def test_the_labels_of_captions_may_be_a_layer_of_a_table(sets: Path, command_line: Called, tmp_path: Path) -> None:
    frame = Table.open(sets).to_pandas(["image_id", "gender"])
    path = tmp_path / "said.jsonl"
    rows = [{"image_id": name, "caption": "somebody"} for name in frame["image_id"]]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    words = ["captions", path, "--labels", sets, "--label-column", "gender", "--dry-run"]
    assert f"said: {len(frame):,} captions" in command_line(*words).stdout
    assert "said: 6 captions" in command_line(*words, "--layer", "first").stdout
    wrong = command_line(*words, "--layer", "fist")
    assert "did you mean 'first'?" in wrong.stderr


def test_the_captions_of_some_images_are_read_by_a_suite(command_line: Called, tmp_path: Path) -> None:
    coco = tmp_path / "captions.json"
    notes = [{"id": n, "image_id": n // 5, "caption": "a man"} for n in range(50)]
    coco.write_text(json.dumps({"images": [], "annotations": notes}))
    words = ["audit", "--suite", "captions-tfidf", "--captions", coco, "--dry-run"]
    assert "50 captions of 10 images would be read" in command_line(*words).stdout
    assert "15 captions of 3 images would be read" in command_line(*words, "--limit", 3).stdout


def test_a_dataset_says_how_much_there_is(sets: Path, command_line: Called) -> None:
    told = command_line("dataset", sets, "--layer", "first", "--dry-run").stdout
    assert told.startswith("6 images with")
    assert "no model would be asked" in told
