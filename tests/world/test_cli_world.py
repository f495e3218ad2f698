import json

import pytest
from PIL import Image
from typer.testing import CliRunner

from equipoise.cli.world import app
from equipoise.data import Table
from equipoise.errors import InputError


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def test_render_writes_a_table(tmp_path):
    result = run("render", tmp_path / "t", "--preset", "biased", "-n", 12, "--size", 32, "--seed", 3)
    assert result.exit_code == 0
    assert "12 pictures of the world 'biased' at 32 px" in result.output
    table = Table.open(tmp_path / "t")
    assert next(table.images())[1].size == (32, 32)


def test_render_counterfactual_and_binding(tmp_path):
    run("render", tmp_path / "cf", "--counterfactual", "--axes", "gender", "-n", 60, "--size", 32)
    assert len(Table.open(tmp_path / "cf")) == 56
    run("render", tmp_path / "b", "--binding", "-n", 10, "--size", 32)
    assert set(Table.open(tmp_path / "b").to_pandas()["cell"]) == {"E1", "E2", "U1", "U2"}


def test_render_with_placebos(tmp_path):
    command = ("render", tmp_path / "p", "--counterfactual", "--axes", "gender", "-n", 60, "--size", 32)
    result = run(*command, "--placebo", "mirror, bag")
    assert result.exit_code == 0
    assert "placebo bag: 56 of the pictures, bag" in result.output
    frame = Table.open(tmp_path / "p").to_pandas(["placebo_bag", "placebo_mirror"])
    assert frame.value_counts().to_dict() == {("none", "plain"): 56, ("bag", "plain"): 56, ("none", "mirrored"): 56}


def test_render_with_a_file(tmp_path):
    (tmp_path / "my.toml").write_text("activity_share = 1.0\n")
    run("render", tmp_path / "t", "--config", tmp_path / "my.toml", "-n", 5, "--size", 16)
    assert Table.open(tmp_path / "t").config["world"]["activity_share"] == 1.0


def test_preview(tmp_path):
    run("preview", tmp_path / "new" / "a.png", "--size", 32)
    run("preview", tmp_path / "b.png", "--sample", 6, "--size", 64)
    with Image.open(tmp_path / "new" / "a.png") as everything, Image.open(tmp_path / "b.png") as sampled:
        assert everything.width > 400
        assert sampled.size == (3 * 68 + 4, 2 * 68 + 4)
    run("preview", tmp_path / "c.png", "--placebo", "bag")
    run("preview", tmp_path / "d.png", "--placebo", "bag,mirror,brightness")
    with Image.open(tmp_path / "c.png") as two, Image.open(tmp_path / "d.png") as four:
        assert two.width == four.width == 6 * 68 + 4
        assert four.height == 2 * two.height, "a row for the base pictures and one for each placebo"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["render", "x", "--counterfactual", "--binding"], "choose one"),
        (["render", "x", "-n", "0"], "-n 0"),
        (["render", "x", "--preset", "fare"], "fair"),
        (["preview", "x.gif"], r"x\.gif"),
        (["render", "x", "--counterfactual", "--axes", "hight"], "hight"),
        (["render", "x", "--counterfactual", "--axes", ","], "axes"),
        (["render", "x", "--axes", "age"], "add --counterfactual"),
        (["render", "x", "--placebo", "bag"], "add --counterfactual"),
        (["render", "x", "--binding", "--placebo", "bag"], "add --counterfactual"),
        (["render", "x", "--counterfactual", "--placebo", "bag,miror"], "did you mean 'mirror'"),
        (["render", "x", "--counterfactual", "--placebo", ","], "at least one of bag, mirror, brightness"),
        (["preview", "x.png", "--placebo", "bags"], "bag"),
        (["preview", "x.png", "--placebo", "bag", "--sample", "3"], "choose one"),
        (["render", "x", "--size", "7"], "7"),
        (["render", "x", "--binding", "--size", "9000"], "9000"),
    ],
)
def test_mistakes_are_one_sentence(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        run(*arguments)
    assert list(tmp_path.iterdir()) == [], "a refused command leaves nothing behind"


def test_render_tables_for_visogender_and_pata(tmp_path):
    run("render", tmp_path / "v", "--visogender", "-n", 10, "--size", 32)
    table = Table.open(tmp_path / "v")
    frame = table.to_pandas()
    assert table.axes == ("gender",)
    assert len(frame) == 6 * frame["subject"].nunique() == 6 * 28
    both = frame[frame["context"] == "participant"]
    assert both.groupby("subject")[["gender", "other_gender"]].value_counts().eq(1).all()
    assert frame.loc[frame["context"] == "object", "other_gender"].isna().all()
    run("render", tmp_path / "p", "--pata", "-n", 20, "--size", 32, "--preset", "spurious")
    frame = Table.open(tmp_path / "p").to_pandas()
    assert (frame["subject"] == frame["scene"]).all()
    told = json.loads(frame["positive"][0])
    assert sorted(told) == ["age", "gender", "skin_tone"]
    assert not set(told["gender"]) & set(json.loads(frame["negative"][0])["gender"])
    with pytest.raises(InputError, match="--visogender and --pata are two kinds of table"):
        run("render", tmp_path / "x", "--visogender", "--pata")
