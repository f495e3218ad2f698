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


@pytest.fixture(scope="module")
def audits(tmp_path_factory):
    home = tmp_path_factory.mktemp("mini")
    world = preset("fair").changed(activity_share=0.0, visible=1.0)
    write_counterfactual_table(home / "sets", world, 4, subjects=SUBJECTS, axes=("gender", "skin_tone"), seed=3)
    write_binding_table(home / "binding", preset("biased"), 1, seed=3)
    for model, name in (("mini", "biased"), ("mini:clip-fair", "fair")):
        for suite, table, more in (("intersectional", "sets", ["--draws", "200"]), ("binding", "binding", [])):
            asked = ["audit", model, "--suite", suite, "--table", str(home / table), "--no-report", *more]
            asked += ["-o", str(home / f"{suite}-{name}")]
            done = CliRunner().invoke(app, asked)
            assert done.exit_code == 0, done.output
    return home


def gap(home, name):
    rows = read_results(home / f"intersectional-{name}")
    rows = rows[(rows["metric"] == "counterfactual_gap") & (rows["axis"] == "gender") & rows["subject"].notna()]
    return rows.set_index("subject")["value"]


def test_the_biased_clip_leans_as_it_was_taught_and_the_control_does_not(audits):
    biased, fair = gap(audits, "biased"), gap(audits, "fair")
    for women, men in (("nurse", "firefighter"), ("florist", "mechanic"), ("teacher", "miner")):
        assert biased[women] > 0 > biased[men]
        assert abs(fair[women] - fair[men]) < 0.25 * (biased[women] - biased[men])


def test_binding_scenes_are_audited_too(audits):
    rows = {name: read_results(audits / f"binding-{name}") for name in ("biased", "fair")}
    for found in rows.values():
        recall = found[(found["metric"] == "activity_recall") & (found["k"] == 1) & (found["group"] == "E1")]
        assert recall["value"].iloc[0] > 0.5
    margin = {n: f[f["metric"] == "text_encoder_margin"]["value"].iloc[0] for n, f in rows.items()}
    assert margin["biased"] > 0.02 > abs(margin["fair"])
