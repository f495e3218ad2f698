from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from equipoise.cli.table import app
from equipoise.data import Table
from equipoise.data.readers import READERS
from equipoise.errors import InputError
from equipoise.registry import Entry

COMMANDS = ("info", "validate", "head", "readers", "import", "export", "balance", "split", "diff")


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments], terminal_width=200)
    if isinstance(result.exception, Exception) and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    text = run(command, "--help")
    assert re.search(rf"Examples?: equipoise table {command} ", " ".join(text.replace("│", " ").split()))


def test_info_counts_by_axis_and_group(people: Table) -> None:
    people.add_layer("sharp", [{"image_id": "img-00001", "keep": True}], columns=["keep"])
    text = run("info", people.path)
    assert people.fingerprint in text
    lines = [line.split() for line in text.splitlines()]
    for expected in (["rows", "25"], ["errors", "0"], ["layers", "sharp"], ["(undefined)", "9"], ["female", "8"]):
        assert expected in lines
    assert ["kept", "1"] in [line.split() for line in run("info", people.path, "--layer", "all").splitlines()]


def test_validate_says_what_is_wrong_and_exits_with_1(people: Table) -> None:
    assert "is in order" in run("validate", people.path, "--decode")
    path = people.path / "part-00001.parquet"
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(bytes(data))
    text = run("validate", people.path, code=1)
    assert "part-00001.parquet has another SHA-256" in text
    assert f"problems in {people.path}: 1" in text
    assert "is in order" in run("validate", people.path, "--quick")


def test_head_shows_rows_without_bytes(people: Table) -> None:
    text = run("head", people.path, "-n", "2", "-c", "image_id,image,gender")
    assert [line.split() for line in text.splitlines()] == [
        ["image_id", "image", "gender"],
        ["img-00000", *f"{len(next(people.rows(['image']))['image']['bytes'])} bytes".split(), "-"],
        ["img-00001", *text.splitlines()[2].split()[1:3], "female"],
    ]
    assert "PNG" not in text
    long = run("head", people.path, "-n", "1")
    assert "caption" in long
    assert "source_id" not in long, "a column that is empty is not shown"


def test_import_makes_a_table_and_reports_what_was_rejected(tmp_path: Path, make_png: Callable[..., bytes]) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "1.png").write_bytes(make_png())
    lines = [{"file_name": "1.png", "gender": "female"}, {"file_name": "2.png", "gender": "male"}]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    text = run("import", "imagefolder", folder, tmp_path / "t", "--option", "axes=gender")
    assert "rows 1, rejected 1" in text
    assert f"the rejected rows are in {tmp_path / 't'}/_errors" in text
    assert Table.open(tmp_path / "t").group_counts("gender") == {"female": 1}
    with pytest.raises(InputError, match="there is no option 'axis'; did you mean 'axes'"):
        run("import", "imagefolder", folder, tmp_path / "u", "--option", "axis=gender")
    with pytest.raises(InputError, match="'axes' is not of the form key=value"):
        run("import", "imagefolder", folder, tmp_path / "u", "--option", "axes")
    with pytest.raises(InputError, match="there is no reader named 'imgfolder'; did you mean 'imagefolder'"):
        run("import", "imgfolder", folder, tmp_path / "u")
    (folder / "1.png").unlink()
    with pytest.raises(InputError, match=r"no row of .* can be used"):
        run("import", "imagefolder", folder, tmp_path / "v")
    assert not (tmp_path / "v").exists()


def test_diff_tells_the_difference_and_exits_with_1(
    people: Table, tmp_path: Path, make_rows: Callable[..., list[dict[str, Any]]]
) -> None:
    assert "the same 25 rows" in run("diff", people.path, people.path)
    rows = make_rows(24)
    rows[3]["seed"] = 99
    other = Table.create(tmp_path / "b", rows, axes=["gender"], columns=["score_a"])
    text = run("diff", people.path, other.path, code=1)
    assert f"only in {people.path}: 1: img-00024" in text
    assert f"columns only in {other.path}: score_a" in text
    assert "seed changed: 1  img-00003: 3 -> 99" in text


def test_export_writes_what_another_tool_reads(people: Table, tmp_path: Path) -> None:
    people.add_layer("sharp", [{"image_id": "img-00001", "keep": True}], columns=["keep"])
    out = tmp_path / "people.csv"
    assert run("export", "csv", people.path, out, "--layer", "sharp").strip() == str(out)
    lines = out.read_text().splitlines()
    assert len(lines) == 2
    assert "img-00001" in lines[1]
    with pytest.raises(InputError, match="there is no export named 'cvs'; did you mean 'csv'"):
        run("export", "cvs", people.path, tmp_path / "b")
    with pytest.raises(InputError, match="no option 'row'; did you mean 'rows'"):
        run("export", "csv", people.path, tmp_path / "b", "--option", "row=all")


def test_balance_and_split_write_layers(people: Table) -> None:
    text = run("balance", people.path, "--axis", "gender", "--method", "gensynth")
    assert "25 rows, 25 taken" in text, "eight of each group, and the nine undefined keep their share"
    assert "25 rows, 16 taken" in run("balance", people.path, "-a", "gender", "--name", "under")
    text = run("split", people.path, "--by", "set_id", "--fractions", "train=0.5,test=0.5")
    counts = dict(line.split() for line in text.splitlines()[:2])
    assert set(counts) == {"train", "test"}
    view = Table.open(people.path, layers=["under", "split"])
    assert view.to_pandas(["gender"], only_kept=True)["gender"].value_counts().to_dict() == {"female": 8, "male": 8}
    assert view.to_pandas(["set_id", "split"]).groupby("set_id")["split"].nunique().max() == 1
    assert "is in order" in run("validate", people.path)
    with pytest.raises(InputError, match=r"--fractions 'train': 'train' is not of the form name=number"):
        run("split", people.path, "--fractions", "train", "--name", "other")
    with pytest.raises(InputError, match="no method of balancing named 'over'"):
        run("balance", people.path, "-a", "gender", "--method", "over", "--name", "other")
    with pytest.raises(InputError, match="has a layer 'under' already; write another with --name"):
        run("balance", people.path, "-a", "gender", "--name", "under")
    with pytest.raises(InputError, match="has a layer 'split' already; write another with --name"):
        run("split", people.path)


def test_what_balance_recommends_gives_a_balanced_set(tmp_path: Path, make_png: Callable[..., bytes]) -> None:
    labels = ["m"] * 6 + ["f"] * 2 + [None]
    rows = [{"image_id": f"i{k}", "image": make_png((k, 0, 0)), "gender": label} for k, label in enumerate(labels)]
    rows[0]["image_id"] = "i7~copy2"  # an id that looks like that of a copy
    table = Table.create(tmp_path / "t", rows, axes=["gender"])
    text = run("balance", table.path, "-a", "gender", "--method", "oversample")
    assert "9 rows, 12 taken" in text
    run("export", "folder", table.path, tmp_path / "out", "--layer", "balance")
    lines = [json.loads(line) for line in (tmp_path / "out" / "metadata.jsonl").read_text().splitlines()]
    assert Counter(line["gender"] for line in lines) == {"m": 6, "f": 6}
    assert len({line["image_id"] for line in lines}) == len(list((tmp_path / "out" / "images").iterdir())) == 12
    assert {"i7", "i7~~copy2", "i7~~copy3", "i7~copy2"} <= {line["image_id"] for line in lines}
    assert "| f | 6 | 50.0% |" in (tmp_path / "out" / "README.md").read_text()
    run("export", "csv", table.path, tmp_path / "all.csv", "--layer", "balance", "--option", "rows=all")
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 10


def test_balance_names_the_combinations_that_no_row_shows(tmp_path: Path) -> None:
    rows = [{"image_id": str(i), "gender": g, "race": r} for i, (g, r) in enumerate(["mx", "mx", "fx", "fy"])]
    table = Table.create(tmp_path / "t", rows, axes=["gender", "race"])
    assert "note: no row shows m and y, so" in run("balance", table.path, "-a", "gender", "-a", "race")
    assert "note" not in run("balance", table.path, "-a", "gender", "--name", "one")
    with pytest.raises(InputError, match="the axis 'gender' is named twice"):
        run("balance", table.path, "-a", "gender", "-a", "gender", "--name", "two")


def test_balance_says_how_many_sets_it_tears(tmp_path: Path) -> None:
    pairs = [{"image_id": f"{s}{g}", "set_id": str(s), "gender": g} for s in range(9) for g in "fm"]
    whole = Table.create(tmp_path / "whole", pairs, axes=["gender"])
    assert "note" not in run("balance", whole.path, "-a", "gender")
    more = [{"image_id": f"lone{i}", "set_id": None, "gender": "m"} for i in range(9)]
    table = Table.create(tmp_path / "t", [*pairs, *more], axes=["gender"])
    text = run("balance", table.path, "-a", "gender")
    kept = Table.open(table.path, layers=["balance"]).to_pandas(["set_id"], only_kept=True)["set_id"].value_counts()
    n = int((kept == 1).sum())
    assert n > 0
    assert f"note: {n} counterfactual set{'s' if n > 1 else ''} lost some images but not all" in text
    assert "note" not in run("balance", table.path, "-a", "gender", "--method", "oversample", "--name", "over")


def test_split_says_when_nothing_is_kept_together(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", [{"image_id": str(i), "subject": None} for i in range(20)])
    assert "note: the column 'subject' is empty in every row" in run("split", table.path)
    told = Table.create(tmp_path / "u", [{"image_id": str(i), "subject": str(i)} for i in range(20)])
    assert "note" not in run("split", told.path)


def test_readers_tells_options_with_their_defaults() -> None:
    text = run("readers")
    assert all(entry.name in text and entry.licence in text for entry in READERS)
    text = run("readers", "coco")
    for expected in ("parts=captions,instances  (names with commas)", "the people shown were not asked", "ECCV 2014"):
        assert expected in text
    assert "which files to join" in text
    with pytest.raises(InputError, match="did you mean 'coco'"):
        run("readers", "cocoo")


@pytest.mark.parametrize("entry", list(READERS), ids=lambda entry: entry.name)
def test_every_reader_tells_of_itself(entry: Entry) -> None:
    text = run("readers", entry.name)
    assert entry.citation in text
    assert f"equipoise table import {entry.name} PATH OUT" in text


def test_info_on_an_audit_says_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "results.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"holds a run, not a table; look at it with: equipoise report"):
        run("info", tmp_path)


def test_captions_give_labels_and_tables_are_joined(tmp_path: Path) -> None:
    photos = [{"image_id": str(i), "caption": text} for i, text in enumerate(["a man", "a woman", "a dog"])]
    Table.create(tmp_path / "photos", photos)
    edits = [{"image_id": "0-f", "source_id": "0", "gender": "female"}]
    Table.create(tmp_path / "edits", edits, axes=["gender"])
    text = run("label", tmp_path / "photos")
    assert [line.split() for line in text.splitlines()[:3]] == [["female", "1"], ["male", "1"], ["(undefined)", "1"]]
    run("join", tmp_path / "photos", tmp_path / "edits", "-o", tmp_path / "both", "--layer", "labels")
    both = Table.open(tmp_path / "both").to_pandas(["image_id", "source_id", "gender"])
    assert both["gender"].fillna("").tolist() == ["male", "female", "", "female"]
    assert both["image_id"].tolist() == ["0", "1", "2", "0-f"]
    with pytest.raises(InputError, match="none of the tables has a layer 'lables'"):
        run("join", tmp_path / "photos", tmp_path / "edits", "-o", tmp_path / "c", "--layer", "lables")


def test_combine_makes_the_two_training_sets_of_inpainting(tmp_path):
    real, made, out = (str(tmp_path / name) for name in ("real", "made", "out"))
    Table.create(real, [{"image_id": "a", "gender": "f"}, {"image_id": "b", "gender": "m"}], axes=["gender"])
    rows = [{"image_id": f"{s}_{g}", "source_id": s, "gender": g} for s in "ab" for g in "fm"]
    Table.create(made, rows, axes=["gender"])
    told = CliRunner().invoke(app, ["combine", real, made, "--axis", "gender", "-o", out])
    assert told.exit_code == 0, told.output
    assert "2 photographs and 2 made images, 4 rows" in told.output
    assert sorted(Table.open(out).to_pandas(["image_id"])["image_id"]) == ["a", "a_m", "b", "b_f"]
    alone = CliRunner().invoke(app, ["combine", real, made, "--axis", "gender", "--mode", "synthetic", "-o", out + "2"])
    assert "0 photographs and 4 made images, 4 rows" in alone.output
    refused = CliRunner().invoke(app, ["combine", real, made, "--axis", "gender", "--mode", "both", "-o", out + "3"])
    assert isinstance(refused.exception, InputError)
    refused = CliRunner().invoke(app, ["combine", made, real, "--axis", "age", "-o", out + "4"])
    assert isinstance(refused.exception, InputError)


def test_balance_takes_a_column_of_lists_with_the_only_axis(tmp_path):
    rows = [("a", "f", ["tie"]), ("b", "m", ["tie"]), ("c", "m", ["tie", "oven"]), ("d", "m", None)]
    table = str(tmp_path / "t")
    made = [{"image_id": i, "gender": g, "objects": o} for i, g, o in rows]
    Table.create(table, made, axes=["gender"], columns={"objects": "list<string>"})
    told = CliRunner().invoke(app, ["balance", table, "--axis", "objects", "--method", "oversample"])
    assert told.exit_code == 0, told.output
    copies = Table.open(table, layers=["balance"]).to_pandas(["image_id", "copies"]).set_index("image_id")["copies"]
    assert copies.to_dict() == {"a": 2, "b": 1, "c": 1, "d": 1}
    assert "no row shows oven and f" in told.output
