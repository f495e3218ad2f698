"""Sizes of gaps and placebo axes in audits: which rows there are, what is held fixed, what is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise.audit import AuditConfig, compare
from equipoise.audit.findings import Findings
from equipoise.audit.printing import table_of
from equipoise.audit.subjects import placebo_axes
from equipoise.audit.suites import SUITES
from equipoise.audit.suites._counterfactual import add_counterfactual
from equipoise.cli.main import app
from equipoise.errors import InputError

SIZES = {"standard_gap", "standard_gap_size", "outranks"}


def rendered(n_subjects=6, n_sets=4):
    """As the world renders sets: two genders and tones at the usual level of all placebos, and each placebo changed."""
    rows = []
    for subject in (f"job{i}" for i in range(n_subjects)):
        for number in range(n_sets):
            for changed in (None, "placebo_bag", "placebo_mirror"):
                for gender in ("female", "male"):
                    for tone in ("dark", "light"):
                        row = {"subject": subject, "set_id": f"{subject}-{number}", "gender": gender, "tone": tone}
                        row |= {p: "yes" if changed == p else "no" for p in ("placebo_bag", "placebo_mirror")}
                        rows.append(row | {"image_id": f"{subject}-{number}-{gender}-{tone}-{changed}"})
    frame = pd.DataFrame(rows)
    frame.attrs["axes"] = ["gender", "tone"]
    return frame


def measured(scored, frame, effects, seed=0, noise=0.1, **config):
    """Findings of a model that adds ``effects[column][level]`` to the score of a scene."""
    rng = np.random.default_rng(seed)
    scenes = {name: rng.normal() for name in frame["set_id"].unique()}
    by_image = {}
    for row in frame.to_dict("records"):
        moved = sum(levels.get(row[column], 0.0) for column, levels in effects.items())
        by_image[row["image_id"]] = scenes[row["set_id"]] + moved + noise * rng.normal()
    settings = AuditConfig(draws=20, k=(2,)).having(config)
    suite = SUITES.load("intersectional")
    evidence = scored(suite, frame, lambda row, text: by_image[row["image_id"]], settings)
    evidence.frame.attrs["axes"] = frame.attrs["axes"]
    return suite.measure(evidence, settings)


def gaps_alone(scored, frame, effects, **config):
    """The same without ranking anything."""
    settings = AuditConfig(draws=20).having(config)
    suite = SUITES.load("intersectional")
    evidence = scored(suite, frame, lambda row, text: 0.0, settings)
    rng = np.random.default_rng(0)
    scores = rng.normal(size=len(frame)) * 0.1
    for column, levels in effects.items():
        scores += frame[column].map(lambda level, levels=levels: levels.get(level, 0.0)).to_numpy()
    scores += frame.groupby("set_id")["set_id"].transform(lambda s: rng.normal()).to_numpy(dtype=float)
    findings = Findings("intersectional", "rule")
    axes = settings.axes or tuple(frame.attrs["axes"])
    add_counterfactual(findings, evidence, settings, axes, np.arange(len(frame)), scores, "rendered")
    return findings


def test_every_axis_and_pair_has_its_sizes_for_all_subjects_and_for_each(scored, picked):
    found = measured(scored, rendered(), {"gender": {"male": 0.5}, "tone": {"dark": 2.0}}).frame()
    for axis, group in (("gender", "female - male"), ("tone", "dark - light")):
        for metric in SIZES:
            rows = found[(found["metric"] == metric) & (found["axis"] == axis)]
            assert rows["subject"].isna().sum() == 1
            assert set(rows["subject"].dropna()) == {f"job{i}" for i in range(6)}
            assert set(rows["group"]) == {group}
            assert rows[["value", "null_mean", "ci_low", "ci_high", "p_value"]].notna().all(axis=None)
    gap = picked(found, metric="standard_gap", axis="gender", group="female - male")
    assert -1.2 < gap.ci_low < gap.value < gap.ci_high < -0.3
    assert picked(found, metric="outranks", axis="gender", group="female - male").value < 0.02
    assert picked(found, metric="outranks", axis="tone", group="dark - light").value > 0.98


def test_placebo_axes_have_sizes_and_no_ranking_and_stand_beside_every_axis(scored, picked):
    effects = {"gender": {"male": 0.5}, "placebo_bag": {"yes": 0.5}, "placebo_mirror": {"yes": 0.5}}
    findings = measured(scored, rendered(), effects)
    found = findings.frame()
    for placebo in ("placebo_bag", "placebo_mirror"):
        assert set(found[found["axis"] == placebo]["metric"]) == {"standard_gap", "standard_gap_size"}
        row = picked(found, metric="standard_gap", axis=placebo, group="no - yes")
        assert -0.8 < row.value < -0.3
        assert "placebo axis" in row.notes
    excess = found[found["metric"] == "placebo_excess"].set_index("axis")
    assert set(excess.index) == {"gender", "tone"}
    assert abs(excess.loc["gender", "value"]) < 0.1
    assert excess.loc["tone", "ci_high"] < 0
    assert (excess["n"] == 6).all()
    assert "placebo_bag, placebo_mirror" in excess.loc["gender", "notes"]
    queries = findings.query_frame()
    assert set(queries["metric"]) >= SIZES
    whole = queries[(queries["metric"] == "standard_gap") & (queries["axis"] == "gender")]
    assert whole["value"].mean() == pytest.approx(
        picked(found, metric="standard_gap", axis="gender", group="female - male").value
    )


def test_a_placebo_is_held_fixed_even_where_it_is_lopsided(scored, picked):
    frame = rendered()
    lopsided = (frame["placebo_bag"] == "yes") & (frame["gender"] == "male") & (frame["tone"] == "dark")
    frame = frame[~lopsided].reset_index(drop=True)
    frame.attrs["axes"] = ["gender", "tone"]
    found = gaps_alone(scored, frame, {"placebo_bag": {"yes": 30.0}}).frame()
    row = picked(found, metric="standard_gap", axis="gender", group="female - male")
    assert abs(row.value) < 0.2


def test_an_axis_of_the_table_that_is_not_asked_about_is_held_fixed_too(scored, picked):
    frame = rendered()
    lopsided = (frame["gender"] == "male") & (frame["tone"] == "dark") & (frame["set_id"].str[-1] < "3")
    frame = frame[~lopsided].reset_index(drop=True)
    frame.attrs["axes"] = ["gender", "tone"]
    found = gaps_alone(scored, frame, {"tone": {"dark": 30.0}}, axes=["gender"]).frame()
    assert abs(picked(found, metric="standard_gap", axis="gender", group="female - male").value) < 0.2


def test_a_column_of_another_name_is_a_placebo_when_it_is_named(scored):
    frame = rendered().rename(columns={"placebo_bag": "bag"})
    frame.attrs["axes"] = ["gender", "tone"]
    unnamed = gaps_alone(scored, frame, {}).frame()
    assert "bag" not in set(unnamed["axis"])
    named = gaps_alone(scored, frame, {}, placebos=["bag"]).frame()
    assert {"bag", "placebo_mirror"} <= set(named["axis"])


def test_without_placebos_there_is_no_excess_and_without_spread_a_note(scored):
    frame = rendered().drop(columns=["placebo_bag", "placebo_mirror"]).drop_duplicates(["set_id", "gender", "tone"])
    frame = frame.reset_index(drop=True)
    frame.attrs["axes"] = ["gender", "tone"]
    flat = measured(scored, frame, {"gender": {"male": 1.0}}, noise=0.0)
    assert "placebo_excess" not in set(flat.frame()["metric"])
    same = frame.assign(set_id=frame["set_id"])
    settings, suite = AuditConfig(draws=20, k=(2,)), SUITES.load("intersectional")
    evidence = scored(suite, same, lambda row, text: float(row["gender"] == "male"), settings)
    found = suite.measure(evidence, settings)
    assert any("gender: no standard gap: all sets of a group score the same" in note for note in found.notes)
    assert "outranks" in set(found.frame()["metric"])
    assert "standard_gap" not in set(found.frame()["metric"])


@pytest.mark.parametrize(
    ("placebos", "words"),
    [
        (("placebo_bags",), "the table has no placebo column 'placebo_bags'; did you mean 'placebo_bag'"),
        (("subject",), "the placebo column 'subject' does not vary inside sets"),
        (("still",), "the placebo column 'still' does not vary inside sets; name one that does"),
        (("gender",), "'gender' is asked about as an axis and named as a placebo"),
    ],
)
def test_a_wrong_placebo_is_refused_in_one_sentence(placebos, words):
    frame = rendered(2, 2).assign(still="yes")
    with pytest.raises(InputError, match=words):
        placebo_axes(frame, AuditConfig(placebos=placebos), ("gender", "tone"))


def test_a_placebo_column_that_never_varies_is_none():
    frame = rendered(2, 2).assign(placebo_hat="no")
    assert placebo_axes(frame, AuditConfig(), ("gender", "tone")) == ("placebo_bag", "placebo_mirror")
    assert placebo_axes(frame.drop(columns="set_id"), AuditConfig(), ("gender",)) == ()


def vectors_of(frame, dim=16, seed=0):
    from equipoise.audit.asking import SOCIALCF_PROMPTS, neutral_prompts

    rng = np.random.default_rng(seed)
    vectors = {}
    for subject in frame["subject"].unique():
        for text in neutral_prompts([subject], SOCIALCF_PROMPTS)[0]:
            vectors[text] = rng.normal(size=dim)
    vectors |= {name: rng.normal(size=dim) for name in frame["image_id"]}
    return vectors


def test_settings_are_read_from_the_command_line_and_kept_in_the_folder(toy):
    frame = rendered(3, 2).rename(columns={"placebo_bag": "bag"})
    columns = ["bag", "placebo_mirror"]
    world = toy(
        frame.to_dict("records"), vectors_of(frame), axes=["gender", "tone"], columns=dict.fromkeys(columns, "string")
    )
    out = world.home / "audit"
    asked = ["audit", world.model, "-s", "intersectional", "-t", str(world.table), "-o", str(out), "--no-report"]
    asked += ["--draws", "20", "--placebo", "bag", "--margin", "0.3", "--all-rows"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    about = json.loads((out / "run.json").read_text())
    settings = about.get("config") or about.get("settings")
    assert settings["margin"] == 0.3
    assert settings["placebos"] == ["bag"]
    assert "placebo_excess" in done.output
    again = CliRunner().invoke(
        app, ["measure", str(out), "--margin", "0.1", "-o", str(world.home / "again"), "--no-report"]
    )
    assert again.exit_code == 0, again.output
    found = compare(out, world.home / "again").frame()
    assert set(found["metric"]) >= SIZES
    assert (found["value"].abs() < 1e-9).all()


def test_suites_without_gaps_refuse_placebo_and_margin(toy):
    frame = rendered(2, 2)
    suite = SUITES.load("marginal")
    for name, value in (("placebos", ("placebo_bag",)), ("margin", 0.1)):
        flag = {"placebos": "--placebo", "margin": "--margin"}[name]
        with pytest.raises(InputError, match=f"does not read {flag}, it measures no gaps inside sets; leave it out"):
            suite.check(frame, AuditConfig().having({name: value}))
    with pytest.raises(InputError, match="no placebo column 'hat'"):
        SUITES.load("intersectional").check(frame, AuditConfig(placebos=("hat",)))


@pytest.mark.parametrize("margin", [0, -0.1, float("inf"), float("nan"), "wide", True])
def test_a_margin_is_a_number_above_0(margin):
    with pytest.raises(InputError, match="give a number of spreads above 0"):
        AuditConfig(margin=margin)


def test_sizes_are_printed(scored):
    text = table_of(measured(scored, rendered(), {"gender": {"male": 0.5}}).frame())
    for metric in (*SIZES, "placebo_excess"):
        assert metric in text
