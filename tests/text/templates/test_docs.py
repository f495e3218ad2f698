"""The page on templates shows what the code does."""

import contextlib
import io
import re
from functools import cache
from pathlib import Path

import pytest

from equipoise.text.templates import captions_from_file, shipped, tables

PAGE = Path(__file__).resolve().parents[3] / "docs" / "text-templates.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


def printed(code):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {})
    return out.getvalue()


@pytest.mark.parametrize("code", blocks("python"))
def test_examples_run_and_print_what_their_comments_say(code):
    out = printed(code)
    assert out
    for comment in re.findall(r"(?m)(?:^|print\(.*\)  )# (.*)$", code):
        assert comment in out.splitlines()


def test_the_first_example_prints_what_is_shown():
    assert printed(blocks("python")[0]) == blocks("text")[0]


@cache
def tally(name):
    """What writing all captions of a preset says of them."""
    return tables.write(tables.preset_table(name), "lines", io.StringIO())


@pytest.mark.slow
def test_the_table_of_presets_is_right():
    for note in tables.preset_notes():
        row = re.search(rf"(?m)^\| `{note.name}` \| ([\d,]+) \| ([\d, ]+) \| ([\d,]+) \|", TEXT)
        assert row, note.name
        found = tally(note.name)
        assert (row.group(1), row.group(3)) == (f"{found.sets:,}", f"{found.captions:,}")


@pytest.mark.slow
def test_the_summary_shown_is_the_one_printed():
    assert str(tally("socialcounterfactuals")) in TEXT


def test_the_file_shown_can_be_read(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(blocks("toml")[0])
    assert next(captions_from_file(path).sets()).captions[0].text == "An angry young chef"


def test_every_correction_is_shown():
    for entry in shipped("occupations")["changed"]:
        assert re.search(rf"(?m)^\|.*\b{entry['printed']}\b.*\|.*\b{entry['subject']}\b.*\|", TEXT), entry
