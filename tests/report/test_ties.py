"""Equal scores: the audit, its page in a browser and the CSV beside it count the same ranking, or none."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from equipoise.audit import run
from equipoise.data import Table, read_results
from equipoise.data.images import encode
from equipoise.report import write

K, SETS = 6, 10
SUBJECTS = ("baker", "guard", "nurse", "pilot")
CELLS = (
    "[...document.querySelectorAll('rect.cell title')].map(e => e.textContent).filter(t => t.includes(' of the top'))"
)
SHOWN = "[...document.querySelectorAll('#pictures h3')].map(e => e.firstChild.textContent.trim())"
GROUPS = (
    "[...document.querySelectorAll('#pictures .pictures')]"
    ".map(e => [...e.querySelectorAll('span')].map(s => s.textContent))"
)


def page_of(home: Path, tied: tuple[str, ...]) -> Path:
    """The page of an audit over rows that lie in order of group; ``tied`` subjects have equal scores throughout."""
    picture = {"bytes": encode(Image.new("RGB", (32, 32), (90, 90, 90))), "path": None}
    rows = [
        {"image_id": f"{s}-{i}-{g}", "set_id": f"{s}-{i}", "subject": s, "gender": g, "image": picture}
        for g in ("female", "male")
        for s in SUBJECTS
        for i in range(SETS)
    ]
    table = Table.create(home / "sets", rows, axes=["gender"])
    high = {row["image_id"] for row in rows if row["subject"] not in tied and row["set_id"].endswith(("-0", "-1"))}
    scores = [
        {
            "image_id": row["image_id"],
            "text_id": f"A photo of a {subject}",
            "score": 2.0 if row["image_id"] in high else 1.0,
        }
        for subject in SUBJECTS
        for row in rows
    ]
    settings = {"prompts": ("A photo of {a}",), "k": (K,), "draws": 50}
    run(
        "tied",
        "intersectional",
        table,
        home / "run",
        config=settings,
        scores=Table.create(home / "s", scores, kind="scores"),
    )
    return write([home / "run", home / "sets"], home / "report.html")


def representation(home: Path) -> dict[str, float]:
    results = read_results(home / "run")
    rows = results[(results["metric"] == "representation") & (results["axis"] == "gender")]
    return dict(zip(rows["group"], rows["value"], strict=True))


@pytest.mark.parametrize("tied", [(), ("nurse",)])
def test_ties_are_broken_alike_in_the_audit_on_the_page_and_in_the_csv(browser, tmp_path, tied):
    page = page_of(tmp_path, tied)
    subjects = [s for s in SUBJECTS if s not in tied]
    counted = representation(tmp_path)
    ranking = pd.read_parquet(tmp_path / "run" / "ranking.parquet")
    assert list(ranking.columns) == ["query", "rank", "image_id", "score"]
    assert sorted(ranking["query"].unique()) == subjects
    top = ranking[ranking["rank"] <= K].assign(group=ranking["image_id"].str.rsplit("-", n=1).str[-1])
    own = top.groupby("query")["group"].value_counts(normalize=True).unstack(fill_value=0.0)
    csv = pd.read_csv(tmp_path / "report_files" / "subject_groups.csv").pivot(
        index="subject", columns="group", values="share"
    )
    tab = browser.open(page)
    told = tab.run(CELLS)
    for group, value in counted.items():
        assert csv[group].mean() == pytest.approx(value, abs=1e-12)
        assert own[group].tolist() == pytest.approx(csv[group].tolist())
        for subject in subjects:
            assert f"{subject}, {group}: {100 * csv.loc[subject, group]:.0f}% of the top, 50% of the pool" in told
    assert len(told) == 2 * len(subjects)
    shown = dict(zip(tab.run(SHOWN), tab.run(GROUPS), strict=True))
    assert set(shown) == set(subjects)
    for subject, labels in shown.items():
        mine = top[top["query"] == subject].sort_values("rank")
        assert labels == [f"{rank} {group}" for rank, group in zip(mine["rank"], mine["group"], strict=True)]
    assert tab.messages() == []


def test_a_model_that_ranks_nothing_is_shown_with_no_ranking(browser, tmp_path):
    page = page_of(tmp_path, SUBJECTS)
    assert representation(tmp_path) == {}
    assert pd.read_parquet(tmp_path / "run" / "ranking.parquet").empty
    assert not (tmp_path / "report_files" / "subject_groups.csv").exists()
    tab = browser.open(page)
    assert tab.run(CELLS) == []
    assert tab.run("document.querySelector('#pictures')") is None
    text = tab.run("document.body.textContent")
    assert "4 subjects have no ranking: the model gives all their images the same score" in text
    results = read_results(tmp_path / "run")
    assert results.loc[results["metric"] == "outranks", "value"].unique().tolist() == [0.5]
    assert tab.messages() == []
