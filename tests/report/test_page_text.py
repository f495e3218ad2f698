"""What the terminal says stands on the page too: captioning models in numbers, datasets in words, models told apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.data.results import read_results, write_results
from equipoise.report import read_given, verdict_of, write
from equipoise.report.page.tables import caption_numbers, dataset_text

from .folders import folder, of_sets, row


def _captions(home: Path, models: dict[str, float]) -> Path:
    """A folder of captions with LIC, Ratio, Error and BA of each model."""
    rows: list[dict[str, Any]] = []
    for model, lic in models.items():
        mine = {"model": model, "suite": "captions", "pool": None, "variant": None, "group": None, "n": 900}
        rows += [
            row("lic", (lic, lic - 0.5, lic + 0.5, 0.001), **mine),
            row("ratio", (1.25, 1.1, 1.4, 0.01), chance=1.0, **mine),
            row("error", (0.061, 0.05, 0.07, 0.01), **mine),
            row("ba", (0.02, None, None, 0.3), **mine),
        ]
    for one in rows:
        one |= {"suite": "captions", "published": 5.5 if one["metric"] == "error" else None}
    write_results(home / "results.parquet", rows)
    (home / "run.json").write_text('{"kind": "captions", "state": "finished", "settings": {}}')
    return home


def test_ratio_error_ba_and_published_values_are_told_of_every_model(tmp_path: Path) -> None:
    home = _captions(tmp_path / "captions", {"a": 3.0, "b": 4.0})
    told = caption_numbers(read_given([home]).series)
    assert told is not None
    assert [label for label, _ in told.rows] == ["a", "b"]
    cells = dict(zip(told.columns, told.rows[0][1], strict=True))
    assert cells["LIC"] == ("3.0", "2.5 to 3.5", "")
    assert cells["ratio"][0] == "1.250"
    assert next(cell for cell in cells.values() if cell[2]) == ("6.1", "5.0 to 7.0", "published: 5.5")
    assert any(cell == ("2.0", "", "") for cell in cells.values())
    page = write([home], tmp_path / "page.html").read_text()
    assert "Captions in numbers" in page
    assert "published: 5.5" in page


def test_models_of_one_outcome_share_a_sentence(tmp_path: Path) -> None:
    three = verdict_of([_captions(tmp_path / "three", {"a": 3.0, "b": 4.0, "c": 5.0})])
    assert three.text.count("amplify bias by perceived gender") == 2, "once in the lead, once with the numbers"
    for label, lic in (("a", "3.0"), ("b", "4.0"), ("c", "5.0")):
        assert f"{label} (LIC {lic} points" in three.text
    five = verdict_of([_captions(tmp_path / "five", dict(zip("abcde", (3.0, 4.0, 5.0, 6.0, 7.0), strict=True)))])
    assert five.text.startswith("The captions of all 5 models amplify bias by perceived gender.")
    assert "LIC 3.0 to 7.0 points, the largest p = 0.005; each has its line below" in five.text
    one = verdict_of([_captions(tmp_path / "one", {"a": 3.0})])
    assert "The captions of a amplify bias by perceived gender (LIC 3.0 points" in one.text


def test_a_dataset_is_called_by_its_own_name_and_says_what_the_terminal_said(tmp_path: Path) -> None:
    home = tmp_path / "run7"
    keys = {"suite": "dataset", "model": None, "variant": None, "pool": None}
    shares = [row("group_share", (0.7, 0.6, 0.8, 0.001), chance=0.5, group="male", **keys)]
    write_results(home / "results.parquet", [{**one, "suite": "dataset", "model": None} for one in shares])
    (home / "run.json").write_text('{"kind": "dataset", "state": "finished", "of": {"dataset": "/data/faces <1>"}}')
    (home / "report.txt").write_text("faces: 10 images\n  words: <nurse>\n")
    (home / "map_skin_tone.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    given = read_given([home])
    assert [series.label for series in given.series] == ["faces <1>"]
    text = dataset_text(given.series[0], given.problems)
    assert text is not None
    assert text.maps[0][0] == "skin tone"
    page = write([home], tmp_path / "page.html").read_text()
    assert "<h1>Bias report: faces &lt;1&gt;</h1>" in page
    assert "words: &lt;nurse&gt;" in page
    (home / "report.txt").unlink()
    assert "report.txt is missing" in write([home], tmp_path / "page.html").read_text()


def test_a_filter_run_that_dropped_nothing_has_its_name_and_says_so(tmp_path: Path) -> None:
    home = tmp_path / "filtered"
    write_results(home / "results.parquet", [])
    (home / "run.json").write_text('{"kind": "filter", "state": "finished", "settings": {}}')
    (home / "funnel.csv").write_text(
        "step,axis,group,subject,kept,dropped,unit\nsharp,gender,female,nurse,20,0,image\n"
        "sharp,gender,male,nurse,20,0,image\nsharp,,,nurse,40,0,image\n"
    )
    page = write([home], tmp_path / "page.html").read_text()
    assert "<h1>Bias report: filtered</h1>" in page
    assert "cannot be told: too little was dropped to test" in page


def test_rows_of_two_models_say_whose_they_are_in_their_heading(tmp_path: Path) -> None:
    runs = [folder(tmp_path / name, of_sets(n=4), model=name) for name in ("one", "two")]
    page = write(runs, tmp_path / "page.html").read_text()
    for name in ("one", "two"):
        assert f'<th scope="row">s0 <small class="of">{name}</small></th>' in page
    alone = write(runs[:1], tmp_path / "alone.html").read_text()
    assert '<th scope="row">s0</th>' in alone
    assert pd.notna(read_results(runs[0])["value"]).all()
