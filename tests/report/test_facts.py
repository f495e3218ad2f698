"""Facts are read from columns: whatever names and sentences say, and also where older files lack the columns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import equipoise
from equipoise.cli.report import tell_results
from equipoise.data.results import read_results
from equipoise.errors import InputError
from equipoise.measure.notes import SENTENCES, codes_of, note, pair_keys, pair_of
from equipoise.measure.stats.estimate import FACT_COLUMNS, Estimate
from equipoise.report import verdict_of
from equipoise.report.page.method import dropped
from equipoise.report.sources import compared_models, read_given, with_names
from equipoise.report.verdict.sizes import sides


def estimate(**more) -> Estimate:
    return Estimate(0.5, 0.4, 0.6, null_mean=0.0, null_sd=0.1, p_value=0.001, n=9, **more)


def test_what_was_left_out_is_counted_from_its_column(results_folder):
    reason = "no twin (of a set); and so on"
    rows = [estimate(dropped={reason: n, "none": 0}).row(metric="max_skew", axis="gender") for n in (3, 1_200)]
    rows.append(estimate(notes=("dropped 7 (as somebody wrote)",)).row(metric="ndkl", axis="gender"))
    assert f"MaxSkew: 1,200 left out ({reason})" in dropped(read_given([results_folder(rows)]))
    assert not any("somebody" in line for line in dropped(read_given([results_folder(rows, "again")])))


def test_notes_that_differ_in_k_alone_are_one_sentence_on_page_and_terminal(results_folder, capsys):
    """Those that say something else of each K stay apart."""
    notes = (
        *(f"gender, K = {k}: ndkl left out, all pools show one group" for k in (10, 50)),
        "images without a group: 7",
        "gender, K = 1,000: ndkl left out, all pools show one group",
        *(f"gender, K = {k}: {k + 1} queries left out (empty pool)" for k in (10, 50)),
        *(f"gender, K = {k}: 3 queries have fewer than K = {k} images" for k in (10, 50)),
        "age, K = 10: 3 queries have fewer than K = 10 images",
        "age, K = 10: not beside K = 50",
    )
    joined = [
        "gender, K = 10, 50, 1,000: ndkl left out, all pools show one group",
        "images without a group: 7",
        "gender, K = 10: 11 queries left out (empty pool)",
        "gender, K = 50: 51 queries left out (empty pool)",
        "gender, K = 10, 50: 3 queries have fewer than K images",
        "age, K = 10: 3 queries have fewer than K = 10 images",
        "age, K = 10: not beside K = 50",
    ]
    given = read_given([results_folder([estimate().row(metric="ndkl", axis="gender")])])
    source = replace(given.sources[0], notes=notes)
    assert dropped(replace(given, sources=[source]))[-7:] == joined
    tell_results(SimpleNamespace(notes=notes, folder=None), page=False)
    assert capsys.readouterr().err.splitlines() == [f"note: {note}" for note in joined]


def test_one_folder_needs_no_list_and_results_may_be_given_as_their_file(results_folder):
    one, two = (results_folder([estimate().row(metric="ndkl", axis="gender")], name) for name in "ab")
    assert len(read_given(str(one)).series) == len(read_given(one).series) == 1
    file = one / "results.parquet"
    assert [series.label for series in read_given({"chosen": file}).series] == ["chosen"]
    verdict_of({"chosen": file}, before_after=[one, str(two / "results.parquet")], naive=str(one))
    assert with_names([(file, ""), (two, "x")]) == {"a": file, "x": two}
    for single in (one, str(one)):
        with pytest.raises(InputError, match="before_after names too few folders"):
            verdict_of(one, before_after=single)


def test_a_group_may_have_a_dash_in_its_name():
    row = estimate().row(metric="standard_gap", **pair_keys("South - East", "North"))
    assert pair_of(row) == ("South - East", "North")
    assert sides(row) == ("South - East", "North")
    shares = estimate(notes=(note("no_interval", why="one seed"),)).row(metric="skew", group="South - East")
    assert pair_of(shares) is None


def test_a_model_with_a_dash_in_its_name_is_no_comparison(results_folder):
    rows = [estimate(notes=(note("seeds", n=5),)).row(metric="bias_at_k", axis="gender", model="clip - large")]
    assert read_given([results_folder(rows)]).sources[0].kind == "results"


def test_a_comparison_is_known_by_its_rows_and_names_its_models(results_folder):
    means = {"first_mean": 0.5, "second_mean": 0.2}
    told = note("compared", first="table:/home/ada/clip - large", second="b", **means)
    rows = [estimate(notes=(told,)).row(metric="max_skew", axis="gender", model="clip - large - b")]
    source = read_given([results_folder(rows)]).sources[0]
    assert source.kind == "comparison"
    assert compared_models(source.results) == ("table:clip - large", "b")


@pytest.mark.parametrize("group", ["female - male", None])
def test_a_file_from_before_the_columns_is_read(results_folder, group):
    folder = results_folder([estimate(dropped={"no twin": 2}).row(metric="max_skew", axis="gender", group=group)])
    file = folder / "results.parquet"
    pq.write_table(pq.read_table(file).drop_columns(list(FACT_COLUMNS)), file)
    old = read_results(folder)
    assert old[list(FACT_COLUMNS)].isna().all(axis=None)
    assert read_given([folder]).sources[0].kind == "results"
    assert pair_of(old.iloc[0]) == (("female", "male") if group else None)


def test_codes_hold_numbers_as_numbers_and_infinity_as_text():
    assert codes_of([note("effect_size", d_z=float("inf"))]) == '{"effect_size": {"d_z": "inf"}}'
    assert codes_of(["plain words"]) is None


def test_every_code_is_given_to_something():
    source = Path(equipoise.__file__).parent
    text = "".join(file.read_text(encoding="utf-8") for file in source.rglob("*.py") if file.name != "notes.py")
    helpers = {"minus": "minus(", "no_interval": "no_interval(", "no_null": "no_null(", "pair": "pair_keys("}
    helpers |= {"sources": "of_sources("}
    assert [code for code in SENTENCES if helpers.get(code, f'note("{code}"') not in text] == []
