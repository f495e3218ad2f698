"""The demonstration end to end: it finds the bias that was put in, twice the same, and writes a page."""

import hashlib

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.errors import InputError
from equipoise.recipes import demo as recipe


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    folders = [tmp_path_factory.mktemp("demo") for _ in range(2)]
    said: list[str] = []
    small = pytest.MonkeyPatch()
    small.setattr(recipe, "SETS", 4)
    made = [recipe.demo(folder, said.append) for folder in folders]
    small.undo()
    return made, said


def test_the_audit_recovers_what_was_put_in(two_runs):
    (first, _), _ = two_runs
    assert first.recovered["biased"] > 0.9
    assert abs(first.recovered["fair"]) < 0.5
    sizes = [a.results.query("metric == 'counterfactual_gap_size' and axis == 'gender'") for a in first.audits.values()]
    assert sizes[0]["value"].iloc[0] > 5 * sizes[1]["value"].iloc[0]
    assert len(first.gaps) == 28


def test_two_runs_give_the_same_numbers(two_runs):
    (first, second), _ = two_runs
    digests = [
        hashlib.sha256((d.folder / "biased" / "results.parquet").read_bytes()).hexdigest() for d in (first, second)
    ]
    assert digests[0] == digests[1]
    figures = sorted(path.name for path in (first.folder / "report_files").glob("*.svg"))
    assert figures
    for name in figures:
        assert (first.folder / "report_files" / name).read_bytes() == (
            second.folder / "report_files" / name
        ).read_bytes()


def test_the_page_is_whole_and_asks_the_network_for_nothing(two_runs):
    (first, _), said = two_runs
    page = first.page.read_text(encoding="utf-8")
    assert "mini:clip is biased by perceived gender" in page
    assert "mini:clip-fair" in page
    assert first.page.stat().st_size < 5_000_000
    assert 'src="http' not in page
    assert 'href="http' not in page
    assert any("Open " in line for line in said)


def test_the_demo_clears_its_own_folder_and_no_other(tmp_path):
    other = tmp_path / "mine"
    other.mkdir()
    (other / "sets").mkdir()
    with pytest.raises(InputError, match="holds other files"):
        recipe.demo(other, print)
    assert (other / "sets").is_dir()
    own = tmp_path / "demo"
    recipe._prepare(own)
    (own / "sets").mkdir()
    recipe._prepare(own)
    assert sorted(path.name for path in own.iterdir()) == ["demo.json"]
