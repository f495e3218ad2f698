"""The page as text: what stands on it, what is escaped, how large it is, and what lies beside it."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from equipoise.cli.report import report as command
from equipoise.data.results import read_results
from equipoise.errors import InputError
from equipoise.report import model_card, read_given, write, write_into

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


def cut(file: Path, size: int) -> None:
    file.write_bytes(file.read_bytes()[:size])


class Outline(HTMLParser):
    """Headings, ids, links, scripts and images of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[dict] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        if re.fullmatch(r"h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        if tag == "img":
            self.images.append(found)
        if tag not in ("meta", "img", "input", "br", "link", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_one_file_with_every_part(page):
    text = page.read_text(encoding="utf-8")
    found = Outline(text)
    assert found.open == []
    for part in (
        "verdict chance truth change naive subjects groups pictures sets words funnel dropped numbers method limits"
    ).split():
        assert part in found.ids, part
        assert f"#{part}" in found.links, part
    assert len(set(found.ids)) == len(found.ids)
    assert found.headings[0] == 1
    assert found.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(found.headings, found.headings[1:], strict=False))
    assert all(link.startswith(("#", "data:text/csv;base64,")) for link in found.links)
    assert all(image["src"].startswith("data:image/") and image["alt"] for image in found.images)
    assert found.tags.count("script") == 1
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert page.stat().st_size < 5_000_000


def test_the_same_folders_give_the_same_bytes(page, runs, truth, captions_folder, tmp_path):
    folders = [runs / "biased", runs / "repaired", captions_folder, runs / "filters"]
    pair = runs / "biased", runs / "repaired"
    again = write(folders, tmp_path / "report.html", truth=truth, before_after=pair, naive=pair)
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(page.read_bytes()).digest()


def test_no_folder_of_the_machine_is_told(page, runs, captions_folder):
    text = page.read_text(encoding="utf-8")
    assert str(runs.parent) not in text
    assert str(captions_folder.parent) not in text


def test_every_figure_lies_beside_the_page_with_its_data(page):
    beside = page.with_name("report_files")
    drawn = {path.stem for path in beside.glob("*.svg")}
    assert {"headline", "headline_captions", "truth", "change", "strip", "proportions", "intersections"} <= drawn
    assert {"subject_groups", "funnel"} <= drawn
    for name in drawn:
        root = ET.fromstring((beside / f"{name}.svg").read_text(encoding="utf-8"))
        assert root.get("aria-label")
        with (beside / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            assert len(list(csv.reader(file))) > 1
    assert len(pd.read_csv(beside / "subjects.csv")) > 50


def test_the_verdict_answers_what_people_ask(page):
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8").split('class="verdict"')[1]))
    paragraph = text.split("Is it biased?")[0]
    assert "biased model is biased by perceived gender" in paragraph
    assert "skin tone" not in paragraph.split(".")[0]
    assert re.search(r"pictures labelled male (are pushed down )?for [^.;]*nurse", paragraph)
    assert re.search(r"pictures labelled female (are pushed down )?for [^.;]*builder", paragraph)
    assert re.search(r"score \d\.\d\d spreads \[\d\.\d\d, \d\.\d\d\] apart", paragraph)
    assert "Measured preferences follow those that were stated" in paragraph
    assert re.search(r"correlation 0\.9\d \[0\.\d\d, \d\.\d\d\] on gender", paragraph)
    assert re.search(r"the direction is right for \d+ of \d+ subjects", text)
    assert re.search(r"correlation 0\.9\d, 95% interval", text)
    assert re.search(r"The repair \(repaired model\) (worked|helped)", paragraph)
    draws = r"p (&lt;|=) 0\.\d+ by a normal tail, p = 0\.\d+ by the draws alone, both corrected for the \d+ numbers"
    assert re.search(draws, text)
    assert not re.search(r"(in 1,000|times in 100)", text)
    for question in ("How sure are we?", "Against whom?", "Does it follow what was stated?", "Did the repair work?"):
        assert question in text


def test_the_verdict_stands_beside_pictures_that_lean_to_either_side(page):
    text = page.read_text(encoding="utf-8")
    glance = text.split('class="glance"')[1].split("</figure>")[0]
    subjects = re.findall(r"Asked for <q>(.*?)</q>", glance)
    rows = [re.findall(r'class="f(\d)"', row) for row in re.findall(r"<ol>(.*?)</ol>", glance)]
    assert len(subjects) == 2
    favoured = [max(set(rows[i]), key=rows[i].count) for i in (0, len(rows) // 2)]
    assert favoured[0] != favoured[1], "one subject for each side"
    assert "Chosen because they are lopsided" in glance


def test_a_repair_that_does_harm_is_told_so(runs, tmp_path):
    made = write(
        [runs / "repaired", runs / "biased"], tmp_path / "p.html", before_after=(runs / "repaired", runs / "biased")
    )
    text = made.read_text(encoding="utf-8")
    assert "These numbers cannot tell whether repaired model leans" in text
    assert "The repair (biased model) made things worse" in text


@pytest.mark.parametrize(
    ("fitted_on", "told"),
    [
        (["dancer", "smith"], r"tested on 8 subjects that it had not seen"),
        (["builder", "smith"], r"tested on 8 subjects of which it was fitted on 1, which flatters it"),
        (None, ""),
    ],
)
def test_subjects_kept_apart_for_a_repair_are_told_only_if_the_remedy_says_so(runs, tmp_path, fitted_on, told):
    for name, source in (("before", "biased"), ("after", "repaired")):
        shutil.copytree(runs / source, tmp_path / name)
    about = json.loads((tmp_path / "after" / "run.json").read_text(encoding="utf-8"))
    if fitted_on is not None:
        about["of"]["fitted_on"] = {"subjects": fitted_on, "table": "t"}
        (tmp_path / "after" / "run.json").write_text(json.dumps(about), encoding="utf-8")
    folders = {"whole": runs / "biased", "before": tmp_path / "before", "after": tmp_path / "after"}
    page = write(folders, tmp_path / "p.html", before_after=(tmp_path / "before", tmp_path / "after"))
    paragraph = page.read_text(encoding="utf-8").split('class="verdict"')[1].split('class="answers"')[0]
    assert "whole reacts to the visible difference in gender" in paragraph
    assert told in paragraph
    assert ("had not seen" in paragraph) == ("had not seen" in told)
    headline = pd.read_csv(tmp_path / "p_files" / "headline.csv")
    assert set(headline["label"]) == {"whole"}  # the pair has a figure of its own
    assert len(pd.read_csv(tmp_path / "p_files" / "change.csv"))


def test_a_naive_number_stands_beside_the_audit(runs, tmp_path):
    named = {"the biased": runs / "biased", "the repaired": runs / "repaired"}
    page = write(named, tmp_path / "p.html", naive=named)
    text = page.read_text(encoding="utf-8")
    assert '<section id="naive"' in text
    assert "What would a naive number have said?" in text
    assert "blind to the groups" in text
    beside = pd.read_csv(tmp_path / "p_files" / "naive.csv")
    assert set(beside["model"]) == set(named)
    gender = beside[beside["axis"] == "gender"].set_index("model")
    assert gender.loc["the biased", "outcome"] == "leans"
    assert gender.loc["the repaired", "outcome"] == "cannot tell"
    assert not gender["biased"].any()  # no one said what to expect, and subjects lean to both sides
    assert gender.loc["the biased", "naive"] > gender.loc["the biased", "audit_excess"] > 0


def test_a_folder_gets_its_page_or_a_reason(runs, tmp_path):
    shutil.copytree(runs / "biased", tmp_path / "run")
    page, problem = write_into(tmp_path / "run")
    assert page == tmp_path / "run" / "report.html"
    assert problem == ""
    (tmp_path / "run" / "results.parquet").write_bytes(b"cut")
    page, problem = write_into(tmp_path / "run")
    assert page is None
    assert "results.parquet" in problem


def test_a_page_that_finds_no_room_fails_the_command(runs, tmp_path, monkeypatch):
    from equipoise.cli.report import write_page
    from equipoise.report import writing

    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    shutil.copytree(runs / "biased", tmp_path / "run")
    monkeypatch.setattr(writing, "write_whole", full)
    with pytest.raises(InputError, match=r"only the results: .*the disk is full; free some space and run it again"):
        write_page(tmp_path / "run")


def test_a_page_does_not_close_a_folder_of_captions_to_the_next_run(captions_folder, tmp_path):
    from equipoise.data.runs import check_folder

    shutil.copytree(captions_folder, tmp_path / "run")
    (tmp_path / "run" / "config.json").write_text('{"command": "captions"}', encoding="utf-8")
    assert write_into(tmp_path / "run")[0] is not None
    assert check_folder(tmp_path / "run", "captions") == tmp_path / "run"
    with pytest.raises(InputError, match="holds an audit of captions; give another folder"):
        check_folder(tmp_path / "run", "dataset")


def test_a_model_without_bias_is_not_called_fair(runs, tmp_path):
    text = write(runs / "repaired", tmp_path / "p.html").read_text(encoding="utf-8")
    assert "cannot tell whether repaired model leans" in text
    assert "cannot be ruled out" in text
    assert "does not show that a model is fair" in text


def test_the_top_pictures_are_those_that_the_audit_counted(runs):
    from equipoise.report.page.gallery import read_ranking

    (one,) = read_given([runs / "biased"]).series
    ranking = read_ranking(one, [])
    shares = ranking.shares(["gender"], 6).groupby("group")["share"].mean()
    rows = read_results(runs / "biased")
    told = rows[(rows["metric"] == "representation") & (rows["axis"] == "gender") & rows["subject"].isna()]
    for group, value in zip(told["group"], told["value"], strict=True):
        assert shares[group] == pytest.approx(value)
    assert len(ranking.order["developer"]) == len(ranking.order["web developer"]) == 24


def test_markup_in_names_is_shown_as_text(results_folder, tmp_path):
    row = {"metric": "max_skew", "variant": "equipoise", "model": HOSTILE, "axis": HOSTILE, "k": 5, "value": 0.7}
    row |= {"null_mean": 0.2, "null_sd": 0.05, "excess": 0.5, "ci_low": 0.6, "ci_high": 0.8, "p_value": 0.001, "n": 9}
    rows = [row, *({**row, "subject": f"{HOSTILE} {i}", "n": 1} for i in range(3))]
    rows += [{**row, "metric": "representation", "group": f"{HOSTILE}{g}"} for g in "ab"]
    made = write(results_folder(rows), tmp_path / "p.html", title=HOSTILE)
    text = made.read_text(encoding="utf-8")
    found = Outline(text)
    assert found.tags.count("script") == 1
    assert "img" not in found.tags
    assert "&lt;script&gt;alert(1)" in text
    for file in made.with_name("p_files").glob("*.svg"):
        assert {e.tag.split("}")[1] for e in ET.fromstring(file.read_text(encoding="utf-8")).iter()} <= {
            "svg", "style", "rect", "text", "line", "circle", "path", "title"
        }  # fmt: skip
    for file in made.with_name("p_files").glob("model_card*.md"):
        assert "<script>" not in file.read_text(encoding="utf-8").split("---")[2]


@pytest.mark.slow
@pytest.mark.parametrize(("models", "most"), [(1, 5_000_000), (3, 15_000_000)])
def test_a_page_of_150_subjects_stays_small(results_folder, tmp_path, models, most):
    row = {"metric": "max_skew", "variant": "equipoise", "suite": "intersectional", "pool": "natural", "k": 12}
    row |= {"value": 0.7, "null_mean": 0.2, "null_sd": 0.05, "excess": 0.5, "p_value": 0.001, "n": 150, "n_groups": 6}
    rows = []
    for model in ("a model with a long name", "another model with a long name", "a third")[:models]:
        for axis in ("gender", "race", "age", "gender x race", "gender x age", "race x age", "gender x race x age"):
            rows.append({**row, "model": model, "axis": axis, "ci_low": 0.6, "ci_high": 0.8})
            rows += [
                {**row, "model": model, "axis": axis, "subject": f"occupation number {i}", "excess": (i - 60) / 100}
                for i in range(150)
            ]
            rows += [
                {**row, "metric": "representation", "model": model, "axis": axis, "group": g, "value": 0.2}
                for g in [" & ".join(f"{part}{j}" for part in axis.split(" x ")) for j in range(6)]
            ]
        rows += [
            {
                **row,
                "metric": "counterfactual_gap",
                "model": model,
                "axis": "gender",
                "group": "f - m",
                "subject": f"s{i}",
            }
            for i in range(150)
        ]
    made = write(results_folder(rows), tmp_path / "p.html")
    assert made.stat().st_size < most


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda f: (f / "results.parquet").unlink(), r"no results here \(results\.parquet is missing\)"),
        (
            lambda f: (f / "results.parquet").write_bytes((f / "results.parquet").read_bytes()[:900]),
            "not a readable Parquet",
        ),
        (lambda f: shutil.rmtree(f), "there is no such folder"),
    ],
)
def test_results_that_cannot_be_read_are_refused_in_a_sentence(runs, tmp_path, break_it, sentence):
    folder = shutil.copytree(runs / "biased", tmp_path / "biased")
    break_it(folder)
    with pytest.raises(InputError, match=sentence) as told:
        write(folder, tmp_path / "p.html")
    assert "biased" in str(told.value)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "p.html").exists()


@pytest.mark.parametrize(
    ("file", "sentence"),
    [
        ("run.json", "run.json is damaged or cut short; its settings are not shown"),
        ("results.json", "results.json is damaged or cut short; its notes are not shown"),
        ("queries.parquet", "queries.parquet is damaged or cut short; it is left out"),
        ("ranking.parquet", "ranking.parquet is damaged or cut short"),
        ("_evidence/frame.parquet", "_evidence/frame.parquet is damaged or cut short"),
    ],
)
def test_other_files_cut_short_are_told_on_the_page(runs, tmp_path, file, sentence):
    folder = shutil.copytree(runs / "biased", tmp_path / "biased")
    cut(folder / file, 40)
    text = write(folder, tmp_path / "p.html").read_text(encoding="utf-8")
    assert sentence in text
    assert "biased model reacts to the visible difference in gender" in text


@pytest.mark.parametrize("file", ["queries.parquet", "ranking.parquet"])
def test_files_whose_types_are_not_what_they_say_are_told_on_the_page(runs, tmp_path, file):
    """As Parquet they are whole; what they say to pandas about a column is not true of it."""
    folder = shutil.copytree(runs / "biased", tmp_path / "biased")
    table = pa.Table.from_pandas(pd.read_parquet(folder / file).convert_dtypes())
    name = next(field.name for field in table.schema if pa.types.is_integer(field.type))
    place = table.schema.get_field_index(name)
    text = table.set_column(place, name, table[name].cast("string"))
    pq.write_table(text.replace_schema_metadata(table.schema.metadata), folder / file)
    assert f"{file} is damaged or cut short" in write(folder, tmp_path / "p.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("lost", ["_evidence/frame.parquet", "ranking.parquet"])
def test_a_ranking_that_is_missing_is_told(runs, tmp_path, lost):
    folder = shutil.copytree(runs / "biased", tmp_path / "biased")
    (folder / lost).unlink()
    text = write(folder, tmp_path / "p.html").read_text(encoding="utf-8")
    assert f"{lost} is missing: no retrieved pictures can be shown" in text


def test_without_the_table_no_picture_is_shown_and_the_page_says_why(runs, tmp_path):
    folder = shutil.copytree(runs / "biased", tmp_path / "biased")
    text = write(folder, tmp_path / "p.html").read_text(encoding="utf-8")
    assert "no pictures are shown" in text
    assert "<img" not in text
    with_table = write([folder, runs / "sets"], tmp_path / "q.html").read_text(encoding="utf-8")
    assert with_table.count("<img") > 30


def test_a_damaged_funnel_is_refused_with_its_row(runs, tmp_path):
    bad = tmp_path / "funnel.csv"
    bad.write_text("step,group,subject,kept,dropped\nsharp,female,nurse,9,-1\n")
    with pytest.raises(InputError, match=r"funnel\.csv: row 1 has dropped = -1"):
        write([runs / "biased", bad], tmp_path / "p.html")
    bad.write_text("step,group,kept\nsharp,female,9\n")
    with pytest.raises(InputError, match="the column 'subject' is missing"):
        write([runs / "biased", bad], tmp_path / "p.html")


def test_what_cannot_be_a_page_is_refused(runs, tmp_path):
    with pytest.raises(InputError, match="is a folder; give the name of the page"):
        write(runs / "biased", tmp_path)
    with pytest.raises(InputError, match="at least one folder"):
        write([], tmp_path / "p.html")
    with pytest.raises(InputError, match="no results here"):
        write(runs / "sets", tmp_path / "p.html")
    with pytest.raises(InputError, match="has no column 'log_odds'"):
        write(runs / "biased", tmp_path / "p.html", truth=pd.DataFrame({"subject": [], "axis": [], "group": []}))


def test_cards_are_in_the_hubs_format(page, runs):
    import datasets.utils.metadata as hub  # noqa: F401  (datasets installs huggingface_hub and yaml)
    import yaml

    beside = page.with_name("report_files")
    text = (beside / "model_card_biased_model.md").read_text(encoding="utf-8")
    head = yaml.safe_load(text.split("---")[1])
    (result,) = head["model-index"][0]["results"]
    rows = read_results(runs / "biased")
    gender = rows[(rows["metric"] == "max_skew") & (rows["axis"] == "gender") & rows["subject"].isna()].iloc[0]
    told = next(m for m in result["metrics"] if "on gender," in m["name"])
    assert told["value"] == pytest.approx(gender["excess"], abs=1e-4)
    assert set(result) == {"task", "dataset", "metrics"}
    assert "does not show that a model is fair" in text
    (dataset,) = beside.glob("dataset_card_*.md")
    assert yaml.safe_load(dataset.read_text(encoding="utf-8").split("---")[1])["pretty_name"] == "sets"
    assert "chance" in model_card(read_given([runs / "biased"]).series[0])


def test_the_command_writes_the_page_and_names_it(runs, tmp_path):
    app = typer.Typer()
    app.command()(command)
    out = tmp_path / "a.html"
    pair = ["--before-after", str(runs / "biased"), str(runs / "repaired")]
    done = CliRunner().invoke(app, [f"first={runs / 'biased'}", f"fixed={runs / 'repaired'}", "-o", str(out), *pair])
    assert done.exit_code == 0, done.output
    assert "wrote" in done.output
    text = out.read_text(encoding="utf-8")
    assert "first reacts to the visible difference in gender" in text
    assert "The repair (fixed)" in text
    plain = ["--naive", f"first={runs / 'repaired'}"]
    done = CliRunner().invoke(app, [f"first={runs / 'biased'}", "-o", str(out), *plain])
    assert done.exit_code == 0, done.output
    assert '<section id="naive"' in out.read_text(encoding="utf-8")
    for wrong in ([str(tmp_path / "nothing")], [str(runs / "biased"), "--naive", str(runs / "repaired")]):
        refused = CliRunner().invoke(app, [*wrong, "-o", str(out)])
        assert isinstance(refused.exception, InputError)


def test_what_the_user_keeps_beside_a_page_stays(runs, tmp_path):
    beside = tmp_path / "p_files"
    beside.mkdir()
    mine = {"mydata.csv": "a,b\n", "drawing.svg": "<svg/>", "my_card_of_notes.md": "# Notes\n"}
    for name, text in mine.items():
        (beside / name).write_text(text)
    write([runs / "biased", runs / "filters"], tmp_path / "p.html")
    assert (beside / "funnel.svg").is_file()
    write(runs / "biased", tmp_path / "p.html")
    assert not list(beside.glob("funnel.*"))
    assert {name: (beside / name).read_text() for name in mine} == mine
    listed = json.loads((beside / "_files.json").read_text(encoding="utf-8"))
    assert {path.name for path in beside.iterdir()} == {*listed, *mine, "_files.json"}


@pytest.mark.parametrize("listed", ['["../kept.csv", "p.html", 5, "."]', '{"a": 1}', "5", "cut", ""])
def test_a_list_of_files_that_was_tampered_with_clears_nothing_else(results_folder, tmp_path, listed):
    row = {"metric": "max_skew", "model": "m", "axis": "gender", "value": 0.7, "null_mean": 0.2, "p_value": 0.001}
    (tmp_path / "p_files").mkdir()
    (tmp_path / "p_files" / "_files.json").write_text(listed)
    (tmp_path / "kept.csv").write_text("mine")
    page = write(results_folder([row]), tmp_path / "p.html")
    assert page.is_file()
    assert (tmp_path / "kept.csv").read_text() == "mine"


def test_folders_called_alike_are_all_shown(results_folder, tmp_path):
    row = {"metric": "max_skew", "model": "m", "axis": "gender", "value": 0.7, "null_mean": 0.2, "p_value": 0.001}
    for name in ("x/clip", "y/clip", "z"):
        results_folder([row], name)
    app = typer.Typer()
    app.command()(command)

    def shown(*folders):
        done = CliRunner().invoke(app, [*folders, "-o", str(tmp_path / "p.html")])
        if done.exception:
            raise done.exception
        cards = {path.name for path in (tmp_path / "p_files").glob("model_card_*.md")}
        return list(pd.read_csv(tmp_path / "p_files" / "headline.csv")["label"]), cards

    alike = [str(tmp_path / "x" / "clip"), str(tmp_path / "y" / "clip")]
    third = str(tmp_path / "z")
    assert shown(*alike, f"N={third}")[0] == ["clip", "clip 2", "N"]
    assert shown(*alike, f"clip={third}")[0] == ["clip 2", "clip 3", "clip"]
    labels, cards = shown(*alike, third)
    assert labels == ["m (clip) (1)", "m (clip) (2)", "m (z)"]
    assert cards == {"model_card_m_clip_1.md", "model_card_m_clip_2.md", "model_card_m_z.md"}
    assert shown(third, third, f"N={alike[0]}")[0] == ["z", "N"]
    for wrong in ([f"A={alike[0]}", f"A={alike[1]}"], [f"A={third}", f"B={third}"]):
        with pytest.raises(InputError, match="given twice; give each folder one name of its own"):
            shown(*wrong)
    with pytest.raises(InputError, match="A already has the folder"):
        shown(third, "--naive", f"A={alike[0]}", "--naive", f"A={alike[1]}")
    named = {"clip": third}
    write(named, tmp_path / "q.html", before_after=(alike[0], alike[1]))
    assert set(pd.read_csv(tmp_path / "q_files" / "headline.csv")["label"]) == {"clip"}
    assert len(list((tmp_path / "q_files").glob("model_card_*.md"))) == 3


def test_tables_called_alike_have_a_card_each(runs, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(runs / "sets", tmp_path / name / "sets")
    write([runs / "biased", tmp_path / "a" / "sets", tmp_path / "b" / "sets"], tmp_path / "p.html")
    found = {path.name for path in (tmp_path / "p_files").glob("dataset_card_*.md")}
    assert found == {"dataset_card_sets.md", "dataset_card_sets_2.md"}


def test_an_excess_that_a_file_leaves_out_is_worked_out(results_folder, tmp_path):
    row = {"metric": "max_skew", "model": "m", "axis": "gender", "k": 6, "value": 0.5, "null_mean": 0.2}
    text = write(results_folder([{**row, "p_value": 0.001}]), tmp_path / "p.html").read_text(encoding="utf-8")
    assert "MaxSkew@6 has no interval" in text
    assert pd.read_csv(tmp_path / "p_files" / "headline.csv")["excess"].tolist() == [pytest.approx(0.3)]


def test_settings_are_on_the_page(page, runs):
    settings = json.loads((runs / "biased" / "run.json").read_text(encoding="utf-8"))
    assert settings["of"]["table"] in page.read_text(encoding="utf-8")
