"""``equipoise train``: what it lists, what it asks for, what it says of a training before it begins."""

import re

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.cli.repair.train import option_of
from equipoise.errors import InputError


def called(*words):
    return CliRunner().invoke(app, ["train", *words])


def test_the_tasks_are_listed():
    told = called("--list").output
    assert all(name in told for name in ("clip", "captioner", "multilabel", "mlm"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give a TASK"),
        (["clip"], "give a TABLE"),
        (["clip", "sets"], "a model to start from with --init"),
        (["clip", "sets", "--init", "mini:clip"], "say where to keep the model with -o"),
        (["clip", "sets", "--init", "mini:clip", "-o", "x", "--mix", "coco"], "give TABLE=SHARE"),
        (["clip", "sets", "--init", "mini:clip", "-o", "x", "--batch", "1"], "batch = 1: give a whole number"),
    ],
)
def test_what_is_missing_is_asked_for(words, sentence):
    error = called(*words).exception
    assert isinstance(error, InputError)
    assert sentence in str(error)


def test_options_of_tasks_are_read_as_what_they_are():
    assert option_of("labels=gender, objects") == ("labels", ["gender", "objects"])
    assert [option_of(f"x={text}")[1] for text in ("3", "0.5", "true", "captions")] == [3, 0.5, True, "captions"]
    with pytest.raises(InputError, match="give NAME=VALUE"):
        option_of("caption")


def test_a_dry_run_measures_and_writes_nothing(tmp_path):
    pytest.importorskip("torch")
    from equipoise.world import preset
    from equipoise.world.tables import write_table

    table = write_table(tmp_path / "t", preset("fair"), 16)
    words = ["--init", "mini:clip", "--steps", "7", "--batch", "4", "--val-share", "0.25", "--device", "cpu"]
    found = called("clip", str(table.path), *words, "--dry-run")
    assert "7 steps of 4 rows" in found.output
    assert "GB on cpu" in found.output
    assert "mixed in" not in found.output
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
    same = called("clip", str(table.path), *words, "--dry-run", "--mix", f"{table.path}=0.5")
    said = " ".join(same.output.split())
    assert re.search(
        r"t: ([1-9]|1[0-5]) of 16 images are mixed in; left out: \d+ with the name of .* that judges", said
    )
