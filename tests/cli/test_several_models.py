"""Several models in one audit: a folder for each, one page of all, and a failure costs itself alone."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.cli.main import app
from equipoise.data.published import PAPERS, models_named, models_of
from equipoise.data.results import read_results
from equipoise.errors import InputError
from equipoise.world import preset
from equipoise.world.tables import write_counterfactual_table


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several") / "sets"
    world = preset("fair").changed(activity_share=0.0, visible=1.0)
    write_counterfactual_table(folder, world, 2, subjects=("nurse", "miner", "teacher"), axes=("gender",), seed=3)
    return folder


def audit(sets, out, *models):
    asked = ["audit", *models, "--suite", "intersectional", "--table", str(sets), "--draws", "20", "--k", "2"]
    return CliRunner().invoke(app, [*asked, "-o", str(out)])


@pytest.mark.slow
def test_each_model_has_its_folder_and_all_have_one_page(sets, tmp_path):
    out = tmp_path / "both"
    done = audit(sets, out, "mini", "mini:clip-fair", "mini")
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in out.iterdir()) == ["mini", "mini-clip-fair", "report.html", "report_files"]
    named = [set(read_results(out / folder)["model"].dropna()) for folder in ("mini", "mini-clip-fair")]
    assert not named[0] & named[1]
    page = (out / "report.html").read_text()
    assert "mini:clip-fair" in page
    again = audit(sets, out, "mini", "mini:clip-fair")
    assert again.exit_code == 0, again.output


def test_one_that_fails_is_named_and_the_others_are_kept(sets, tmp_path):
    out = tmp_path / "some"
    done = audit(sets, out, "hf:no/such-folder-here", "mini")
    assert done.exit_code != 0
    assert "1 of 2 models were audited; not these: hf:no/such-folder-here" in str(done.exception or done.output)
    assert (out / "mini" / "report.html").is_file()


def test_several_need_a_folder_and_papers_have_lists(sets):
    asked = ["audit", "mini", "mini:clip-fair", "--suite", "intersectional", "--table", str(sets)]
    done = CliRunner().invoke(app, asked)
    assert "give a folder for their results with -o" in str(done.exception or done.output)
    assert "hf:facebook/flava-full" in models_named(["@socialcounterfactuals"])
    assert [paper for paper in PAPERS if models_of(paper)] == ["gensynth", "socialcounterfactuals", "gabinsight"]
    with pytest.raises(InputError, match="there is no paper named 'gensyn'; did you mean 'gensynth'"):
        models_named(["@gensyn"])
    with pytest.raises(InputError, match="@lic: the paper's models cannot be loaded by name"):
        models_named(["@lic"])
