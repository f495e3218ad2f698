"""The shipped CLIPs through the front door: the biased one leans where the control does not."""

import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.cli.main import app
from equipoise.data.results import read_results
from equipoise.world import preset
from equipoise.world.tables import write_binding_table, write_counterfactual_table

SUBJECTS = ("nurse", "florist", "firefighter", "mechanic", "teacher", "miner")


def audited(suite, table, home, *more):
    """The results of both CLIPs, by the command."""
    found = {}
    for model, name in (("mini", "biased"), ("mini:clip-fair", "fair")):
        asked = ["audit", model, "--suite", suite, "--table", str(table.path), "--no-report", *more]
        done = CliRunner().invoke(app, [*asked, "-o", str(home / name)])
        assert done.exit_code == 0, done.output
        found[name] = read_results(home / name)
    return found


def gap(rows):
    rows = rows[(rows["metric"] == "counterfactual_gap") & (rows["axis"] == "gender") & rows["subject"].notna()]
    return rows.set_index("subject")["value"]


@pytest.mark.slow
def test_the_biased_clip_leans_as_it_was_taught_and_the_control_does_not(tmp_path):
    world = preset("fair").changed(activity_share=0.0, visible=1.0)
    axes = ("gender", "skin_tone")
    table = write_counterfactual_table(tmp_path / "sets", world, 4, subjects=SUBJECTS, axes=axes, seed=3)
    found = audited("intersectional", table, tmp_path, "--draws", "200")
    biased, fair = gap(found["biased"]), gap(found["fair"])
    for women, men in (("nurse", "firefighter"), ("florist", "mechanic"), ("teacher", "miner")):
        assert biased[women] > 0 > biased[men]
        assert abs(fair[women] - fair[men]) < 0.25 * (biased[women] - biased[men])


@pytest.mark.slow
def test_binding_scenes_are_audited_too(tmp_path):
    rows = audited("binding", write_binding_table(tmp_path / "binding", preset("biased"), 2, seed=3), tmp_path)
    for found in rows.values():
        recall = found[(found["metric"] == "activity_recall") & (found["k"] == 1) & (found["group"] == "E1")]
        assert recall["value"].iloc[0] > 0.5
    margin = {n: f[f["metric"] == "text_encoder_margin"]["value"].iloc[0] for n, f in rows.items()}
    assert margin["biased"] > 0.02 > abs(margin["fair"])
