"""What people who audited their own data stumbled over on the page and in the verdict."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.report.folders import folder, row
from typer.testing import CliRunner

from equipoise.audit import measure_again, run
from equipoise.audit.printing import table_of
from equipoise.audit.suites import SUITES
from equipoise.cli.main import app
from equipoise.data import Table, read_results
from equipoise.data.images import encode
from equipoise.data.results import RANDOM_RANKING
from equipoise.errors import InputError
from equipoise.measure.notes import N_OF_SOURCES, of_sources
from equipoise.measure.sides import of_pair
from equipoise.measure.stats import Estimate
from equipoise.report import verdict_of, write
from equipoise.report.findings import PROMPTS, WITHOUT_SUBJECTS


def test_the_suites_without_subjects_are_those_that_audits_have() -> None:
    assert not SUITES.load(PROMPTS).fills_prompts
    for name in WITHOUT_SUBJECTS:
        assert "subject" not in SUITES.load(name).columns


def retrieval(value: float, *, model: str | None = None, **keys: Any) -> dict[str, Any]:
    """A row of Bias@K or MaxSkew at K = 10, far from chance."""
    usual = {"pool": "natural", "k": 10, "model": model} | keys
    metric = usual.pop("metric", "bias_at_k")
    number = (value, value - 0.05, value + 0.05, 0.001)
    return row(metric, number, sd=0.02, n=28, **usual, **of_pair(metric, ("male", "female")))


def test_a_ranking_that_no_model_gave_is_called_so_and_is_no_audited_model(tmp_path: Path) -> None:
    rows = [retrieval(0.4, metric="max_skew"), retrieval(-0.5)]
    blind = [retrieval(0.1, model=RANDOM_RANKING) | {"p_value": None, "excess": 0.0, "null_mean": 0.1}]
    page = write(folder(tmp_path / "run", rows + blind, suite="contrast", model="clip"), tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    assert "<h1>Bias report: clip</h1>" in text
    assert "<span>1 audited model</span>" in text
    assert f"<td>{RANDOM_RANKING}</td>" in text
    assert "random ranking: no model, the same pool ranked blindly." in text
    printed = table_of(read_results(tmp_path / "run")).splitlines()
    assert "random ranking: no model, the same pool ranked blindly" in printed
    assert ">random<" not in text
    cards = [path.name for path in (tmp_path / "page_files").glob("model_card_*")]
    assert cards == ["model_card_clip.md"]


@pytest.mark.parametrize(("value", "group"), [(0.5, "male"), (-0.5, "female")])
def test_the_page_and_the_verdict_say_whom_bias_at_k_favours(tmp_path: Path, value: float, group: str) -> None:
    page = write(folder(tmp_path / "run", [retrieval(value)], suite="natural"), tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    table = text[text.index('id="numbers"') :]
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', table)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", table)
    assert dict(zip(heads[1:], cells, strict=False))["favours"] == group
    found = verdict_of(tmp_path / "run")
    assert f"from what chance gives, more {group} than the pool (95% intervals" in found.text
    sure = dict(found.answers)["How sure are we?"]
    assert f"where chance gives 0.00, more {group} than the pool, p" in sure


def test_another_model_beside_the_first_is_told_with_whom_it_favours(tmp_path: Path) -> None:
    folders = []
    for name, value in (("one", 0.5), ("two", -0.4)):
        rows = [retrieval(abs(value), metric="max_skew"), retrieval(value)]
        folders.append(folder(tmp_path / name, rows, suite="natural", model=name))
    text = verdict_of(folders).text
    assert "For comparison, two, asked the same, is biased by gender" in text
    assert "more female than the pool)" in text
    assert "twins" not in text  # a natural pool has none


def test_the_page_says_what_n_counts_where_captions_share_their_photographs(tmp_path: Path) -> None:
    estimate = Estimate(0.4, 0.35, 0.45, null_mean=0.0, null_sd=0.02, p_value=0.001, n=520, n_groups=2)
    estimate = estimate.with_notes(*of_sources([i % 13 for i in range(520)]))
    rows = [estimate.row(metric="max_skew", variant="equipoise", pool="edited", axis="gender", k=10)]
    text = write(folder(tmp_path / "run", rows, suite="contrast"), tmp_path / "page.html").read_text(encoding="utf-8")
    assert "520 (13 sources)" in text
    assert "520 queries from 13 sources" in text
    assert f"{N_OF_SOURCES}.</caption>" in text


def test_a_p_value_beyond_what_draws_can_count_says_that_it_is_by_a_normal_tail(tmp_path: Path) -> None:
    """200 draws show no p below 1/201; of ten numbers, corrected, none is far below 0.05 by counting."""
    least = 1 / 201
    rows = [row("ndkl", (0.5, 0.4, 0.6, least), sd=0.02, k=k, pool="natural") for k in range(5, 15)]
    page = write(folder(tmp_path / "run", rows, suite="prompts"), tmp_path / "page.html").read_text(encoding="utf-8")
    told = "p &lt; 0.001 by a normal tail, p = 0.0498 by the draws alone, both corrected for the 10 numbers looked at"
    assert told in page
    assert "goes on with the tail of a normal law, and says so" in " ".join(page.split())
    # one number, as far out as the draws reach: nothing is corrected, and the tail is named all the same
    one = verdict_of(folder(tmp_path / "one", rows[:1], suite="prompts"))
    assert "p < 0.001 by a normal tail, p = 0.005 by the draws alone" in dict(one.answers)["How sure are we?"]
    # with draws enough both are below 0.001, and nothing needs to be said
    many = [row("ndkl", (0.5, 0.4, 0.6, 1 / 100_001), sd=0.02, k=k, pool="natural") for k in range(5, 15)]
    enough = verdict_of(folder(tmp_path / "enough", many, suite="prompts"))
    assert "normal tail" not in enough.text + dict(enough.answers)["How sure are we?"]
    # counted p-values that the tail would not lower stay as they are
    near = [row("ndkl", (0.05, 0.01, 0.09, least), sd=0.02, k=10, pool="natural")]
    counted = verdict_of(folder(tmp_path / "near", near, suite="prompts"))
    assert "normal tail" not in counted.text + dict(counted.answers)["How sure are we?"]


@pytest.fixture
def project(runs: Path, tmp_path: Path) -> Path:
    """A table, and an audit of it in another folder, so that neither lies beside the other."""
    home = tmp_path / "project"
    shutil.copytree(runs / "sets", home / "tables" / "sets")
    shutil.copytree(runs / "biased-scores", home / "scores")
    settings = {"prompts": ("A photo of {a}",), "k": (6,), "draws": 50}
    scores, out = Table.open(home / "scores"), home / "runs" / "clip"
    run("clip", "intersectional", home / "tables" / "sets", out, config=settings, scores=scores, page=False)
    return home


def pictures_on(page: Path) -> int:
    return page.read_text(encoding="utf-8").count("<img")


def test_the_pictures_are_those_of_the_table_that_the_run_knows(project: Path, tmp_path: Path) -> None:
    """Found by itself, named with --table or given among the folders: the same bytes, and so after a move of both."""
    found = write(project / "runs" / "clip", tmp_path / "1" / "page.html")
    assert pictures_on(found) > 30
    table = project / "tables" / "sets"
    named = write(project / "runs" / "clip", tmp_path / "2" / "page.html", tables=[table])
    among = write([project / "runs" / "clip", table], tmp_path / "3" / "page.html")
    moved = shutil.move(project, tmp_path / "elsewhere")
    after = write(Path(moved) / "runs" / "clip", tmp_path / "4" / "page.html")
    texts = [page.read_text(encoding="utf-8") for page in (found, named, among, after)]
    assert texts[0] == texts[1] == texts[2] == texts[3]
    beside = [{file.name for file in page.with_name("page_files").iterdir()} for page in (found, named, among, after)]
    assert beside[0] == beside[1] == beside[2] == beside[3]
    assert "tables/sets" not in texts[0]  # where it lies is no part of the page


def test_what_measure_writes_elsewhere_finds_the_table_too(project: Path, tmp_path: Path) -> None:
    again = project / "runs" / "other" / "six"
    measure_again(project / "runs" / "clip", config={"draws": 40}, out=again)
    assert json.loads((again / "run.json").read_text())["table_at"] == "../../../tables/sets"
    assert pictures_on(write(again, tmp_path / "page.html")) > 30


@pytest.mark.slow
def test_pictures_of_another_table_are_never_shown(project: Path, runs: Path, tmp_path: Path) -> None:
    clip, at = project / "runs" / "clip", project / "tables" / "sets"
    type_this = "to see them type: equipoise report RESULTS --table TABLE -o page.html"
    shutil.move(at, project / "tables" / "moved")
    page = write(clip, tmp_path / "page.html")
    assert pictures_on(page) == 0
    assert f"the table sets is not where it was when it was audited; {type_this}" in page.read_text(encoding="utf-8")
    assert pictures_on(write(clip, tmp_path / "page.html", tables=[project / "tables" / "moved"])) > 30
    other = [{**row, "subject": "judge"} for row in Table.open(runs / "sets").rows()]
    Table.create(at, other, axes=["gender", "skin_tone"])  # another one in its place
    page = write(clip, tmp_path / "page.html")
    assert pictures_on(page) == 0
    assert "the table sets is another one than when it was audited" in page.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="sets: is not the table that was audited, or has changed since; give that"):
        write(clip, tmp_path / "page.html", tables=[at])
    page = write([clip, at], tmp_path / "page.html")
    assert pictures_on(page) == 0
    assert "sets: is not the table that was audited; its pictures are not shown" in page.read_text(encoding="utf-8")


def test_the_command_takes_the_table_with_an_option(project: Path, tmp_path: Path) -> None:
    shutil.move(project / "tables" / "sets", project / "moved")
    words = [
        "report",
        str(project / "runs" / "clip"),
        "--table",
        str(project / "moved"),
        "-o",
        str(tmp_path / "p.html"),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert pictures_on(tmp_path / "p.html") > 30


def test_the_page_of_prompts_speaks_of_prompts_and_their_kinds(tmp_path: Path) -> None:
    picture = {"bytes": encode(Image.new("RGB", (8, 8))), "path": None}
    rows = [{"image_id": str(i), "image": picture, "gender": ("female", "male")[i % 2]} for i in range(60)]
    table = Table.create(tmp_path / "people", rows, axes=["gender"])
    prompts = ["a photo of somebody who is a nurse", "a thief", "a cook"]
    scores = [
        {"image_id": row["image_id"], "text_id": prompt, "score": float(i * 7 % 60) + 50 * (row["gender"] == "male")}
        for prompt in prompts
        for i, row in enumerate(rows)
    ]
    given = Table.create(tmp_path / "scores", scores, kind="scores")
    settings = {"prompts": prompts, "prompt_kinds": ["job", "crime", "job"], "draws": 50}
    done = run("clip", "prompts", table, tmp_path / "run", config=settings, scores=given, page=False)
    text = write(tmp_path / "run", tmp_path / "page.html").read_text(encoding="utf-8")
    words = unescape(" ".join(re.sub(r"<[^>]+>", " ", text).split()))
    assert "gender among crime prompts" in words
    assert "prompts=crime" not in words.split("Method and definitions")[0].split("All numbers over")[0]
    assert "For a prompt, the first 6 pictures of the pool in the model's order" in words
    assert "all 3 prompts of clip" in words
    assert " units" not in dict(verdict_of(tmp_path / "run").answers)["How sure are we?"]
    assert "2 prompts" in dict(verdict_of(tmp_path / "run").answers)["How sure are we?"]
    strip = (tmp_path / "page_files" / "strip.svg").read_text(encoding="utf-8")
    longest = re.findall(r'class="small halo"[^>]*>([^<]+)<', strip)
    assert all("…" not in name or name.split("…")[1] in " ".join(prompts) for name in longest)
    assert done.verdict
