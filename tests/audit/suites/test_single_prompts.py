"""One of many prompts leans and their mean does not: the verdict, the terminal and the page say which one."""

from __future__ import annotations

import re
from html import escape
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import Audit, measure_again, run
from equipoise.data import Table
from equipoise.measure.notes import corrected_p, facts_of
from equipoise.report import verdict_of, write_into

PROMPTS = tuple(f"a photo of a person, number {number}" for number in range(60))
PLANTED = PROMPTS[41]
ENOUGH, FEW = 1300, 900  # 60 prompts need more than 60 / 0.05 draws
N, K = 300, 30


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors of 300 images, 100 of them of women; one prompt of 60 asks for what these have more of."""
    home = tmp_path_factory.mktemp("prompts")
    rng = np.random.default_rng(1)
    labels = [{"image_id": f"i{number}", "gender": "man" if number % 3 else "woman"} for number in range(N)]
    Table.create(home / "faces", labels, axes=["gender"])
    images, texts = rng.normal(size=(N, 24)), rng.normal(size=(len(PROMPTS), 24))
    images[::3, 0] += 1.0
    texts[:, 0] = 0
    texts[41] = np.eye(24)[0]
    ids = [row["image_id"] for row in labels]
    for name, of_prompts in {"leaning": texts, "even": np.delete(texts, 41, axis=0)}.items():
        prompts = [prompt for prompt in PROMPTS if name == "leaning" or prompt != PLANTED]
        np.savez(home / f"{name}.npz", image_ids=ids, image_vectors=images, texts=prompts, text_vectors=of_prompts)
    return home


def audited(place: Path, name: str, out: str, **more: object) -> Audit:
    prompts = [prompt for prompt in PROMPTS if name == "leaning" or prompt != PLANTED]
    config = {"prompts": prompts, **more}
    return run(f"table:{place / name}.npz", "prompts", place / "faces", place / out, config=config, page=False)


@pytest.fixture(scope="module")
def leaning(place: Path) -> Audit:
    return audited(place, "leaning", "leaning", draws=ENOUGH)


def test_the_row_of_a_prompt_says_whom_it_puts_first_as_counted_by_hand(place: Path, leaning: Audit):
    stored = np.load(place / "leaning.npz")
    vectors = stored["image_vectors"] / np.linalg.norm(stored["image_vectors"], axis=1, keepdims=True)
    rows = leaning.results[(leaning.results["metric"] == "max_skew") & leaning.results["subject"].notna()]
    assert len(rows) == len(PROMPTS)
    women = np.arange(N) % 3 == 0
    for row, text in zip(
        rows.set_index("subject").loc[list(PROMPTS)].to_dict("records"), stored["text_vectors"], strict=True
    ):
        first = int(women[np.argsort(-(vectors @ text))[:K]].sum())
        told = facts_of(row, "favours")
        if first == K / 3:
            assert told is None
        elif first > K / 3:
            assert told == {"group": "woman", "first": first, "k": K, "pool_share": pytest.approx(1 / 3)}
        else:
            assert told == {"group": "man", "first": K - first, "k": K, "pool_share": pytest.approx(2 / 3)}


def test_the_verdict_names_the_prompt_that_leans_on_terminal_and_page(place: Path, leaning: Audit):
    said = f'"{PLANTED}" puts images labelled woman first (23 of the first 30; 33% of the pool).'
    sentence = f"1 of 60 prompts leans after correction over prompts (by MaxSkew@30): {said}"
    told = verdict_of([leaning.folder])
    assert sentence in told.sentences
    assert sentence in leaning.verdict
    assert told.lead.startswith("Over 60 prompts together, ")
    assert f"{said[:-2]}; Holm p = 0.046)." in dict(told.answers)["Which single prompts lean?"]
    write_into(leaning.folder)
    page = (leaning.folder / "report.html").read_text(encoding="utf-8")
    assert escape(sentence).replace("&quot;", "&#34;") in page
    assert "the pool of 300 images: 200 man, 100 woman" in page
    assert "Prompt by prompt" in page
    assert "natural pictures" not in page
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    words = re.sub(r"<[^>]*>", " ", shown).replace("a mean over subjects hides", "")  # of a metric, wherever it is used
    assert not re.search(r"\b[Ss]ubjects?\b(?!\.csv)", words)
    favours = pd.read_csv(leaning.folder / "report_files" / "subjects.csv").set_index("subject")["favours"]
    assert favours[PLANTED] == "woman"


def test_where_none_leans_the_verdict_says_so(place: Path):
    text = audited(place, "even", "even", draws=ENOUGH).verdict
    assert "None of 59 prompts leans by itself after correction over prompts (by MaxSkew@30)." in text
    assert "puts images" not in text


def test_too_few_draws_for_single_prompts_are_no_finding(place: Path, leaning: Audit):
    text = measure_again(leaning.folder, config={"draws": FEW}, out=place / "few").verdict
    assert (
        "Whether single prompts lean cannot be told: with 900 draws no single one of 60 prompts can be beyond chance "
        "after the correction; give --draws 3000." in text
    )
    assert "None of 60" not in text


def test_of_many_that_lean_five_are_named(place: Path):
    """Nine of sixty lean; the table has all of them."""
    stored = dict(np.load(place / "leaning.npz"))
    stored["text_vectors"][:8] = np.eye(24)[0] * 5 + np.eye(24)[1:9]
    np.savez(place / "many.npz", **stored)
    config = {"prompts": PROMPTS, "draws": 3000}
    done = run(f"table:{place / 'many.npz'}", "prompts", place / "faces", place / "many", config=config, page=False)
    assert "9 of 60 prompts lean after correction over prompts (by MaxSkew@30), the 5 clearest: " in done.verdict
    assert done.verdict.count("puts images labelled woman first") == 5


def test_draws_that_are_too_many_to_keep_are_told_and_no_finding(place: Path, leaning: Audit, monkeypatch):
    for name in ("chance", "single"):
        module = import_module(f"equipoise.measure.retrieval.{name}")
        monkeypatch.setattr(module, "KEPT_CELLS", 60 * 1250)
    again = measure_again(leaning.folder, out=place / "unkept")
    told = "1,300 draws of 60 prompts are too many to keep, so no single one has a p-value; give --draws 1250"
    assert f"gender: {told}" in again.notes
    assert f"Whether single prompts lean cannot be told: {told}." in again.verdict
    assert not any("corrected" in note for note in again.notes)


def test_the_command_line_says_before_and_after_the_audit_how_many_draws_single_prompts_need(place: Path):
    from typer.testing import CliRunner

    from equipoise.cli.main import app

    (place / "prompts.txt").write_text("\n".join(PROMPTS) + "\n")
    asked = ["audit", "--from-embeddings", str(place / "leaning.npz"), "-s", "prompts"]
    asked += ["--prompts", str(place / "prompts.txt"), "-t", str(place / "faces"), "--no-report"]
    told = "note: with 1,000 draws no single one of 60 prompts can be beyond chance after the correction; give --draws "
    told += "3000"
    dry = CliRunner().invoke(app, [*asked, "--dry-run"])
    assert dry.exit_code == 0
    assert told in dry.output
    out = place / "by hand"
    done = CliRunner().invoke(app, [*asked, "-o", str(out)])
    assert done.exit_code == 0
    assert done.output.index(told) < done.output.index("max_skew")  # before anything is measured
    line = f"type: equipoise measure '{out}' --draws 3000 --replace"
    assert line in done.output
    again = CliRunner().invoke(app, ["measure", str(out), "--draws", "3000", "--replace", "--no-report"])
    assert again.exit_code == 0
    assert "1 of 60 prompts leans" in again.output
    assert "type:" not in again.output
    assert "give --draws" not in again.output
    assert "note: with" not in CliRunner().invoke(app, [*asked, "--draws", "3000", "--dry-run"]).output


def test_the_terminal_lists_the_clearest_prompts_with_whom_they_favour(leaning: Audit):
    short = leaning.table().splitlines()
    assert short[-1] == "the 5 clearest of 60 rows of single prompts; all of them with --all"
    shown = [line for line in short if line.startswith("a photo of a person")]
    assert len(shown) == 5
    assert shown[0].startswith(PLANTED)
    assert shown[0].removeprefix(PLANTED).split()[:4] == ["woman", "23", "30", "33%"]
    assert shown[0].endswith(" 0.046")
    lines = leaning.table(everything=True).splitlines()
    for metric in ("max_skew", "min_skew", "ndkl", "bias_at_k"):
        mine = [line for line in lines if line.startswith(f"{metric} ") and "a photo of" in line]
        corrected = [float(line.split()[-2]) for line in mine]
        assert len(mine) == 60
        assert corrected == sorted(corrected)
    first = next(line for line in lines if line.startswith("max_skew ") and "a photo of" in line)
    assert PLANTED in first
    assert " woman " in first
    single = [number for number, line in enumerate(lines) if "a photo of" in line]
    # the rows over all prompts stay above them; four metrics of each, then the shares of both groups
    assert single == list(range(single[0], single[0] + 60 * (4 + 2)))
    assert all(lines[number].startswith("representation ") for number in single[240:])


def test_one_metric_names_single_prompts_in_verdict_terminal_table_figure_and_data(place: Path):
    """A prompt whose very first images are all of one group stands out by NDKL and not by MaxSkew."""
    stored = dict(np.load(place / "leaning.npz"))
    images = stored["image_vectors"]
    women = np.arange(N) % 3 == 0
    images[:, 22] = 0
    images[np.flatnonzero(women)[:10], 22] = 60.0  # ten women, then twenty men: thirty as in the pool
    images[np.flatnonzero(~women)[:20], 22] = 20.0
    stored["text_vectors"][:, 22] = 0
    stored["text_vectors"][3] = np.eye(24)[22]
    np.savez(place / "early.npz", **{**stored, "image_vectors": images})
    config = {"prompts": PROMPTS, "draws": 3000}
    done = run(f"table:{place / 'early.npz'}", "prompts", place / "faces", place / "early", config=config)
    rows = done.results[done.results["subject"].notna()]
    holm = {(row["metric"], row["subject"]): corrected_p(row) for row in rows.to_dict("records")}
    assert holm["ndkl", PROMPTS[3]] < 0.05 < holm["max_skew", PROMPTS[3]]
    assert holm["max_skew", PLANTED] < 0.05
    write_into(done.folder)
    files = done.folder / "report_files"
    assert "1 of 60 prompts leans after correction over prompts (by MaxSkew@30)" in done.verdict
    table = pd.read_csv(files / "subjects.csv")
    assert set(table["metric"]) == {"max_skew"}
    assert table.loc[table["p_holm"] < 0.05, "subject"].tolist() == [PLANTED]
    below = table["excess"] <= 0  # less lopsided than luck makes it
    assert below.any()
    assert set(table.loc[below, "favours"]) == {"–"}
    strip = pd.read_csv(files / "strip.csv")
    assert set(strip["metric"]) == {"max_skew"}
    heat = (files / "subject_groups.svg").read_text(encoding="utf-8")
    assert re.findall(r">([^<]*) \*<", heat) == [PLANTED]
    assert "… 20 prompts between them …" in heat
    shown = [line for line in done.table().splitlines() if line.startswith("a photo of a person")]
    assert shown[0].startswith(PLANTED)
    assert "Holm p: that of MaxSkew, corrected over the prompts" in done.table()
