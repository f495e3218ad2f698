"""The method of a page on captions says what was done: words masked or not, references or none."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pandas as pd
import pytest

from equipoise.audit.findings import Findings
from equipoise.data.results import write_results
from equipoise.report import read_given, verdict_of, write
from equipoise.report.page.method import definitions, dropped, method
from equipoise.report.page.tables import all_rows, caption_numbers

from .folders import row


def series(kind, metrics, settings=None, suite="captions"):
    results = pd.DataFrame({"metric": metrics, "suite": suite})
    return SimpleNamespace(source=SimpleNamespace(kind=kind, settings=settings or {}), results=results)


@pytest.mark.parametrize(
    ("settings", "masked"),
    [
        ({"words_masked": True}, True),
        ({"words_masked": False, "settings": {"mask": True}}, False),  # asked for, but the lexicon had no such words
        ({"settings": {"mask": False}}, False),
        ({"settings": {"mask": True}}, True),
    ],
)
def test_masked_is_said_where_words_were_masked(settings, masked):
    (text,) = method([series("captions", ["lic", "lic_m"], settings)])
    assert ("are masked" in text) == masked
    assert ("all words left in" in text) != masked


def test_without_references_nothing_is_said_of_amplification():
    (with_them,) = method([series("captions", ["lic", "lic_m"])])
    (without,) = method([series("captions", ["lic_m"])])
    assert "than with the reference captions" in with_them
    assert "Without reference captions it does not say" in without


def test_tfidf_speaks_of_captions():
    (text,) = method([series("audit", ["max_skew"], suite="captions-tfidf")])
    assert "Every caption" in text
    assert "picture" not in text
    assert "pictures are ranked" in method([series("audit", ["max_skew"], suite="marginal")])[0].replace(" \n", " ")


def captioners(folder):
    """Two captioning models in one folder, with the text that the terminal had."""
    usual = {"suite": "captions", "axis": "who", "null_mean": 0.3, "null_sd": 0.01, "p_value": 0.001, "n": 1500}
    rows = [
        usual | {"metric": "error", "model": model, "variant": "burns_decided", "value": value, "excess": value - 0.3}
        | {"ci_low": value - 0.01, "ci_high": value + 0.01, "dropped": f'{{"names no group": {n}}}'}
        for model, value, n in (("nic", 0.171, 432), ("sat", 0.073, 448))
    ]  # fmt: skip
    write_results(folder / "results.parquet", rows)
    (folder / "run.json").write_text(json.dumps({"kind": "captions", "state": "finished"}))
    told = "model  Error%\nnic  17.1\n\nWhat may be said (adjusted)\n  nic leans: much\n  sat leans: less\n\nnote: x\n"
    (folder / "report.txt").write_text(told)
    return read_given([folder])


def test_the_page_gives_numbers_of_captions_in_the_units_of_the_terminal_and_what_may_be_said(tmp_path):
    given = captioners(tmp_path / "captions")
    assert {each.source.kind for each in given.series} == {"captions"}
    numbers = caption_numbers(given.series)
    assert numbers.columns == ["error × 100"]
    assert numbers.rows[0] == ("nic", [("17.1", "16.1 to 18.1", "")])
    assert numbers.said == ["nic leans: much", "sat leans: less"]
    assert [row[0] for row in all_rows(given.series)] == ["error (burns_decided) × 100"] * 2
    assert [row[6] for row in all_rows(given.series)] == ["17.100", "7.300"]
    assert "shown times 100" in definitions(given.series)[0].range
    page = write([tmp_path / "captions"], tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<li>sat leans: less.</li>" in page
    assert page.count('<p class="hint">') == 2  # above each wide table


def test_what_was_left_out_of_one_model_is_not_said_of_the_other(tmp_path):
    lines = dropped(captioners(tmp_path / "captions"))
    assert "error: 432 of nic and 448 of sat left out (names no group)" in lines


def test_captioners_judged_on_different_axes_are_not_told_as_one(tmp_path):
    homes = []
    for model, axis in (("nic", "gender"), ("sat", "skin_tone")):
        found = Findings("captions", model)
        found.rows = [{**row("lic", (5.0, 4.0, 6.0, 0.001), n=900, sd=0.2), "suite": "captions", "pool": None}]
        found.rows = [{**one, "model": model, "axis": axis} for one in found.rows]
        found.save(tmp_path / model)
        about = {"command": "captions", "settings": {"mask": True}, "words_masked": True}
        (tmp_path / model / "config.json").write_text(json.dumps(about))
        homes.append(tmp_path / model)
    text = verdict_of(homes).text
    assert text.startswith("The captions of nic and sat amplify bias by perceived gender or skin tone.")
    assert "The captions of nic amplify bias by perceived gender (LIC 5.0" in text
    assert "The captions of sat amplify bias by perceived skin tone (LIC 5.0" in text
