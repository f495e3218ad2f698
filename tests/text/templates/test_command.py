"""``equipoise text captions``: files, formats, summary, and errors that leave no file behind."""

import csv
import io
import json
import os
import stat
import tomllib

import pytest
import typer
from typer.testing import CliRunner

from equipoise.cli.text import captions
from equipoise.errors import InputError, UnknownNameError
from equipoise.text.caption_files import opened
from equipoise.text.templates import tables

app = typer.Typer(rich_markup_mode="rich")
app.command("captions")(captions)


@app.command("other")
def other():
    """Make typer keep the subcommand's name."""


def run(*arguments, fails=None):
    result = CliRunner().invoke(app, ["captions", *map(str, arguments)])
    if fails is None:
        assert result.exit_code == 0, result.output
    else:
        assert isinstance(result.exception, fails), result.output
    return result


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_lines():
    result = run("--preset", "race-gender", "--subject", "doctor", "--prefix", "A photo of", "--format", "lines")
    lines = result.stdout.splitlines()
    assert len(lines) == 12
    assert lines[0] == "A photo of a White male doctor"
    assert "A photo of an Asian female doctor" in lines
    assert result.stderr.splitlines() == [
        "1 set, 12 captions",
        "  race: White 2, Black 2, Indian 2, Asian 2, Middle Eastern 2, Latino 2",
        "  gender: male 6, female 6",
    ]


def test_csv_is_the_default_and_has_a_column_an_axis():
    found = rows(run("-p", "race-gender", "--subject", "umpire", "--subject", "DJ").stdout)
    assert len(found) == 96
    assert found[13] == {
        "set_id": "race-gender--a_photo_of--umpire",
        "subject": "umpire",
        "prefix": "A photo of",
        "race": "White",
        "gender": "female",
        "caption": "A photo of a White female umpire",
        "neutral": "A photo of an umpire",
    }


@pytest.mark.slow
def test_the_whole_preset_into_a_file(tmp_path):
    path = tmp_path / "captions.csv"
    result = run("--preset", "socialcounterfactuals", "-o", path)
    assert result.stdout == ""
    assert result.stderr.startswith("3,120 sets, 54,080 captions\n")
    found = rows(path.read_text(encoding="utf-8"))
    assert len(found) == 54_080
    assert found[0]["physical"] == ""
    assert [p.name for p in tmp_path.iterdir()] == ["captions.csv"]


def test_jsonl_leaves_what_a_set_does_not_name_null(tmp_path):
    path = tmp_path / "captions.jsonl"
    run("--preset", "socialcounterfactuals", "--subject", "doctor", "-o", path)
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(found) == 4 * 52
    assert found[0]["physical"] is None
    assert found[0]["race"] == "White"


@pytest.mark.parametrize(
    ("preset", "sets", "n"),
    [
        ("race-gender", 1_040, 12_480),
        ("physical-gender", 1_040, 10_400),
        pytest.param("physical-race", 1_040, 31_200, marks=pytest.mark.slow),
        pytest.param("physical-race-gender", 1_040, 62_400, marks=pytest.mark.slow),
        ("traits", 80, 960),
        ("religion", 32, 448),
        ("gensynth-edits", 8, 16),
        ("gab", 37, 259),
    ],
)
def test_every_preset_is_written_and_counted(preset, sets, n, tmp_path):
    path = tmp_path / "c.csv"
    assert run("--preset", preset, "-o", path).stderr.startswith(f"{sets:,} sets, {n:,} captions\n")
    found = rows(path.read_text(encoding="utf-8"))
    assert len(found) == n
    assert len({row["set_id"] for row in found}) == sets
    assert all(row["caption"] for row in found)


def test_subjects_from_a_file_and_twins_are_said(tmp_path):
    path = tmp_path / "subjects.txt"
    path.write_text("\ufeff# mine\nchef\n\n lab   tech \nChef\n", encoding="utf-8")
    result = run("-p", "physical-gender", "--subjects", path, "--subject", "umpire", "--prefix", "A/An")
    assert list(dict.fromkeys(row["subject"] for row in rows(result.stdout))) == ["umpire", "chef", "lab tech"]
    assert "1 subjects given twice are used once: Chef" in result.stderr


def test_axes_of_ones_own_in_any_order(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'subjects = ["chef", "umpire"]\n[axes]\nage = {young = "young", old = "elderly"}\ngender = ["male", "female"]\n'
    )
    plain = rows(run("--axes", path).stdout)
    assert len(plain) == 2 * 4 * 4
    assert plain[0]["caption"] == "A young male chef"
    turned = rows(run("--axes", path, "--order", "gender, age,subject", "--prefix", "An image of").stdout)
    assert turned[-1]["caption"] == "An image of a female elderly umpire"
    assert turned[-1]["age"] == "old"


def test_the_list_names_every_preset_and_its_source():
    listed = run("--list").stdout
    for note in tables.preset_notes():
        assert note.name in listed
        assert note.citation in listed
    assert {"socialcounterfactuals", "gab", "gensynth-edits", "traits", "religion"} <= {
        n.name for n in tables.preset_notes()
    }
    assert "CVPR 2024" in listed
    assert "2305.15407" in listed


def test_the_worked_example_in_the_help_is_true(tmp_path):
    shown = run("--help").stdout
    result = run("-p", "race-gender", "--subject", "doctor", "-f", "lines")
    for line in [*result.stdout.splitlines()[:2], *result.stderr.splitlines()]:
        assert line in shown
    toml = captions.__doc__.split("$ cat mine.toml")[1].split("$ equipoise")[0].replace("\\[", "[")
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(line.strip() for line in toml.splitlines()))
    assert tomllib.loads(path.read_text())["subjects"] == ["chef", "umpire"]
    assert run("--axes", path, "--order", "gender,age,subject").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["--preset", "race_gender"], UnknownNameError, "did you mean 'race-gender'"),
        (["--preset", "gabb"], UnknownNameError, "did you mean 'gab'"),
        ([], InputError, "either --preset"),
        (["--preset", "gab", "--axes", "x.toml"], InputError, "either --preset"),
        (["--preset", "gab", "--subject", "chef"], InputError, "wording of its own"),
        (["--preset", "gensynth-edits", "--prefix", "A/An"], InputError, "wording of its own"),
        (["--preset", "gab", "--order", "subject"], InputError, "wording of its own"),
        (["--preset", "race-gender", "--order", "race,subject"], InputError, "exactly once"),
        (["--preset", "race-gender", "--format", "jsn"], UnknownNameError, "format named 'jsn'"),
        (["--preset", "race-gender", "--subject", "a doctor"], InputError, "leave the article out"),
        (["--preset", "race-gender", "--subject", "chef", "--subject", "Chef"], InputError, "given twice"),
        (["--preset", "race-gender", "--prefix", ""], InputError, "prefix is empty"),
        (["--preset", "race-gender", "--subjects", "none.txt"], InputError, "no such file"),
        (["--axes", "none.toml"], InputError, "no such file"),
    ],
)
def test_errors_are_one_sentence_and_leave_nothing(arguments, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments, "-o", "out.csv", fails=error)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert list(tmp_path.iterdir()) == []
    assert result.stdout == ""


def test_output_that_cannot_be_written(tmp_path):
    assert "is a folder" in str(run("-p", "gab", "-f", "csv", "-o", tmp_path, fails=InputError).exception)
    assert "does not exist" in str(run("-p", "gab", "-o", tmp_path / "no" / "c.csv", fails=InputError).exception)
    assert "'.xlsx'" in str(run("-p", "gab", "-o", tmp_path / "c.xlsx", fails=InputError).exception)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_midway_keeps_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("old")

    def broken():
        yield {"set_id": "a", "caption": "b"}
        raise InputError("stop")

    with pytest.raises(InputError, match="stop"), opened(path) as file:
        tables.write(tables.CaptionTable(("set_id", "caption"), broken(), ()), "csv", file)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["c.csv"]


def test_a_new_file_is_readable_as_any_other_and_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "t.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    assert "is there already" in str(run("-p", "gensynth-edits", "-o", link, fails=InputError).exception)
    run("-p", "gensynth-edits", "-o", link, "--overwrite")
    assert link.is_symlink()
    assert target.read_text().startswith("Make this person more feminine\n")
    plain = tmp_path / "plain.txt"
    plain.write_text("x")
    assert stat.S_IMODE(os.stat(target).st_mode) == stat.S_IMODE(os.stat(plain).st_mode)


def test_a_device_is_written_to_and_not_replaced():
    run("-p", "gensynth-edits", "-f", "lines", "-o", os.devnull)
    assert not os.path.isfile(os.devnull)
