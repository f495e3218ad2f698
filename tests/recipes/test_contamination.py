"""The study of contamination: its pictures, its pairing, its trends, and a toy run that is killed and goes on."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy import stats
from typer.testing import CliRunner

from equipoise.cli import recipe
from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.recipes.contamination import tables, trends
from equipoise.recipes.contamination.data import (
    lean_of,
    mixture,
    named_axes,
    placebo_table,
    real_table,
    real_world,
    rendered_again,
    truth_of_mixture,
)
from equipoise.recipes.contamination.generations import mixed_pictures
from equipoise.recipes.contamination.settings import QUICK, ContaminationSettings
from equipoise.recipes.studies import STUDIES
from equipoise.recipes.studies.frame import StudyHome, plan_text, run_study
from equipoise.text import Lexicon
from equipoise.world import captions, sample
from equipoise.world.catalog import OCCUPATIONS

TOY = {
    "alphas": [0, 1],
    "seeds": 1,
    "generations": 1,
    "mode": "replace",
    "arms": ["biased", "placebo"],
    "pictures": 28,
    "tested": 100,
    "start_pictures": 32,
    "start_steps": 2,
    "clip_steps": 2,
    "captioner_steps": 2,
    "again": 28,
    "again_steps": 2,
}


# Trends


def test_trend_by_hand() -> None:
    """Four steps of width 1/2 around a slope of 1: rests ±0.1 / √½, s² = 4 x 0.02 / 3, error = s / √2."""
    found = trends.alpha_trend({0: {0.0: 1.0, 0.5: 1.6, 1.0: 2.0}, 1: {0.0: 3.0, 0.5: 3.4, 1.0: 4.0}})
    error = np.sqrt(4 * 0.02 / 3) / np.sqrt(2)
    assert found.slope == pytest.approx(1.0)
    assert found.p == pytest.approx(2 * stats.t.sf(1 / error, 3))
    assert found.high == pytest.approx(1 + stats.t.ppf(0.975, 3) * error)
    assert (found.n_steps, found.n_seeds) == (4, 2)


def test_trend_is_that_of_a_one_sample_t_test_where_steps_are_alike() -> None:
    """Brute force: with even shares the steps over their width are a sample, tested against 0."""
    rng = np.random.default_rng(0)
    alphas = np.linspace(0, 1, 6)
    values = {seed: dict(zip(alphas, np.cumsum(rng.normal(0.2, 1, 6)), strict=True)) for seed in range(3)}
    steps = np.concatenate([np.diff(list(one.values())) for one in values.values()]) / 0.2
    test = stats.ttest_1samp(steps, 0)
    found = trends.alpha_trend(values)
    assert found.p == pytest.approx(test.pvalue)
    low, high = test.confidence_interval()
    assert (found.slope, found.low, found.high) == pytest.approx((steps.mean(), low, high))


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_trends_of_nested_data_without_a_trend_are_found_in_5_percent_at_most(noise: float) -> None:
    """A random walk over nested shares; noise of the training only makes the test more cautious."""
    rng = np.random.default_rng(1)
    walks = np.cumsum(rng.normal(size=(4000, 3, 6)), axis=2) + noise * rng.normal(size=(4000, 3, 6))
    p = trends._p_values(np.diff(walks, axis=2).reshape(4000, 1, 15), np.full(15, 0.2), np.eye(15))
    rate = float((p < 0.05).mean())
    assert rate < 0.06
    assert noise or rate > 0.04


def test_a_regression_on_the_shares_would_find_trends_where_there_are_none() -> None:
    """Why steps are tested: models of nested data are not independent."""
    rng = np.random.default_rng(2)
    alphas = np.tile(np.linspace(0, 1, 6), 3)
    walks = np.cumsum(rng.normal(size=(300, 3, 6)), axis=2).reshape(300, 18)
    rate = np.mean([stats.linregress(alphas, walk).pvalue < 0.05 for walk in walks])
    assert rate > 0.1


def test_the_smallest_slope_is_found_four_times_in_five() -> None:
    rng = np.random.default_rng(3)
    steps = rng.normal(size=(4000, 1, 15)) * np.sqrt(0.2)
    smallest = trends.minimum_detectable_effect(sd=float(np.sqrt(1 / 0.2)), n=15)
    p = trends._p_values(steps + 0.2 * smallest, np.full(15, 0.2), np.eye(15))
    assert float((p < 0.05).mean()) == pytest.approx(0.8, abs=0.03)


def test_verdicts_are_corrected_over_metrics() -> None:
    rng = np.random.default_rng(4)
    rows = []
    for seed in range(3):
        walk = np.cumsum(rng.normal(size=6)) * 0.01
        for place, alpha in enumerate(np.linspace(0, 1, 6)):
            rows += [("up", seed, alpha, alpha + walk[place]), ("down", seed, alpha, -alpha + walk[place])]
            rows.append(("flat", seed, alpha, walk[place]))
    frame = pd.DataFrame(rows, columns=["metric", "seed", "alpha", "value"])
    found = trends.trends_of(frame, ("up", "down", "flat", "missing")).set_index("metric")
    assert found.loc["up", "verdict"] == "rises"
    assert found.loc["down", "verdict"] == "falls"
    assert found.loc["flat", "verdict"].startswith("no trend found (a slope of ")
    assert "missing" not in found.index
    assert found.loc["flat", "p (Holm)"] >= found.loc["flat", "p"]


def test_the_help_says_what_is_taken_with_and_without_quick() -> None:
    usual, quick = ContaminationSettings(), ContaminationSettings().having(QUICK)
    assert usual.alphas == pytest.approx([i / 5 for i in range(6)])
    command = next(command for command in recipe.app.registered_commands if command.name == "contamination")
    assert command.callback is recipe.contamination
    told = {name: value.default.help for name, value in inspect.signature(recipe.contamination).parameters.items()}
    shares = ",".join(f"{share:g}" for share in quick.shares)
    assert f"unless given 0 to 1 in fifths, with --quick {shares}." in told["alpha"]
    assert f"unless given {usual.seeds}, with --quick {quick.seeds}." in told["seeds"]
    assert f"unless given {usual.generations}, with --quick {quick.generations}." in told["generations"]


def test_few_steps_are_not_tested() -> None:
    found = trends.alpha_trend({0: {0.0: 1.0, 0.5: 1.0, 1.0: 2.0}})
    assert found.p is None
    assert trends.verdict(found, None) == "not tested: 2 steps"
    with pytest.raises(InputError, match="two shares"):
        trends.alpha_trend({0: {0.0: 1.0}})


@pytest.mark.parametrize(("seeds", "tested"), [(1, False), (4, True)])
def test_the_page_begins_with_a_paragraph_for_each_arm_however_few_seeds(seeds: int, tested: bool) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"arm": arm if alpha else "real", "seed": seed, "alpha": alpha, "metric": "gap-odds slope", "group": None}
        | {"value": alpha * (arm == "biased") + 0.01 * rng.normal()}
        for arm in ("biased", "placebo")
        for seed in range(seeds)
        for alpha in (0.0, 0.5, 1.0)
        if alpha or arm == "biased"
    ]
    biased, placebo = tables._answers(pd.DataFrame(rows), (0.0, 0.5, 1.0))
    assert biased.startswith("Arm biased")
    assert placebo.startswith("Arm placebo")
    assert ("corrected over all metrics" in biased) is tested
    assert ("rises" in biased) is tested
    assert "None" not in biased + placebo


def test_arms_whose_clips_went_blind_are_not_tested_and_stop_nothing(tmp_path: Path) -> None:
    """Of the biased arm one share is left of each seed, of the placebo another one: no step, and nothing in common."""
    metrics = ("gap-odds slope", "MaxSkew@10")
    rows = [
        {"arm": arm, "seed": seed, "alpha": alpha, "metric": metric, "axis": "gender", "group": None}
        | {"value": alpha + seed, "chance": 0.0}
        for arm, alpha in (("biased", 0.5), ("placebo", 1.0))
        for seed in range(2)
        for metric in metrics
    ]
    frame = pd.DataFrame(rows)
    found = trends.trends_of(frame[frame["arm"] == "biased"], metrics)
    assert found["verdict"].tolist() == ["not tested: no seed has two shares"] * 2
    assert found["measured"].isna().all()
    told = tables._answers(frame, (0.0, 0.5, 1.0))
    assert told[0].endswith("not tested: no seed has two shares.")
    study = STUDIES.load("contamination")
    (part,) = tables._trend_parts(frame, metrics, "CLIPs", "Tables 2 to 6", StudyHome(tmp_path, study.options(), print))
    assert "biased: of 2 metrics 0 rise and 0 fall." in part.text
    assert not any("less placebo" in text for text in part.text)


def _metrics(trend: float, rng: np.random.Generator, n: int = 12) -> pd.DataFrame:
    """Metrics that move together, as those of one model do."""
    rows = []
    for seed in range(3):
        common = np.cumsum(rng.normal(size=6))
        for metric in range(n):
            walk = common + np.cumsum(rng.normal(size=6)) + trend * np.arange(6)
            rows += [
                (f"m{metric}", seed, alpha, value) for alpha, value in zip(np.linspace(0, 1, 6), walk, strict=True)
            ]
    return pd.DataFrame(rows, columns=["metric", "seed", "alpha", "value"])


@pytest.mark.slow
def test_uniformity_keeps_its_level_where_metrics_move_together_and_finds_trends() -> None:
    rng = np.random.default_rng(5)
    names = [f"m{i}" for i in range(12)]
    checks = [trends.uniformity(_metrics(0.0, rng), names, draws=99, seed=i) for i in range(30)]
    refused = np.mean([check.p <= 0.05 for check in checks if check is not None])
    assert refused <= 0.17  # 5% of 30, and three standard errors
    found = trends.uniformity(_metrics(2.0, rng), names, draws=199)
    assert found is not None
    assert found.p <= 0.05


def _noisy(share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Twelve metrics of three seeds, without trends; a share of the variance of steps is noise of single models."""
    rows = []
    for seed in range(3):
        for metric in range(12):
            walk = np.cumsum(rng.normal(size=6)) * np.sqrt(1 - share) + rng.normal(size=6) * np.sqrt(share / 2)
            rows += [(f"m{metric}", seed, alpha, v) for alpha, v in zip(np.linspace(0, 1, 6), walk, strict=True)]
    return pd.DataFrame(rows, columns=["metric", "seed", "alpha", "value"])


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.7, 1.0])
def test_noise_of_trainings_is_told_from_that_of_pictures_and_p_values_are_even_then(share: float) -> None:
    rng = np.random.default_rng(7)
    names = [f"m{i}" for i in range(12)]
    frames = [_noisy(share, rng) for _ in range(40)]
    assert trends.noise_share(frames[:8], names) == pytest.approx(share, abs=0.15)
    p = []
    for frame in frames:
        table, layout = trends._table(frame, names)
        assert layout is not None
        p += trends._p_values(table, layout.widths, layout.covariance(share)).tolist()
    assert stats.kstest(p, "uniform").pvalue > 0.01


# Pictures


def test_a_placebo_has_the_caption_and_other_people_where_it_leaves_them_open() -> None:
    world = real_world()
    scenes = list(sample(world, 60, seed=8))
    again = [rendered_again(scene, world, 100 + i) for i, scene in enumerate(scenes)]
    lexicon = Lexicon.load("equipoise")
    changed = 0
    for scene, other in zip(scenes, again, strict=True):
        assert captions(other, 1) == captions(scene, 1)
        named = "gender" in named_axes(scene)
        assert named == (lexicon.label_all(captions(scene, 1))[0] is not None)
        assert not named or other.people[0].gender == scene.people[0].gender
        changed += other.people[0].gender != scene.people[0].gender
    assert changed > 5


def test_truth_is_counted_in_the_pictures_of_the_mixture(tmp_path: Path) -> None:
    """Of D(alpha) the pictures that are in it count, with what the judge saw in them, and the captions' occupations."""
    real = real_table(tmp_path / "real", 56, 0)
    placebo = placebo_table(real, tmp_path / "placebo", 0)
    ids = real.to_pandas(["image_id"])["image_id"].tolist()
    seen = pd.DataFrame({"image_id": ids, "gender": "male"})
    made = pd.DataFrame({"image_id": placebo.to_pandas(["image_id"])["image_id"], "gender": "female"})
    both = pd.concat([seen, made])
    shares = {}
    for alpha in (0.0, 0.25, 1.0):
        table = mixture(real, [placebo] if alpha else [], alpha, tmp_path / "d", 0)
        shares[alpha] = truth_of_mixture(table, both)[0]["women"]
    assert shares == {0.0: 0.0, 0.25: 0.25, 1.0: 1.0}


def test_lean_by_hand() -> None:
    """Women in every picture of work that leans to women, men elsewhere: log-odds of ±ln 9 from four pictures each."""
    from equipoise.recipes.train_mini.evaluate import injected

    names = [name for name in OCCUPATIONS for _ in range(4)]
    genders = ["female" if odds > 0 else "male" for odds in injected() for _ in range(4)]
    told, table = lean_of(names, genders)
    assert sorted(set(table["log_odds"].abs().round(6))) == [round(float(np.log(9)), 6)]
    x, y = table["put_in"], table["log_odds"]
    assert told["slope"] == pytest.approx(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


def test_batches_of_all_shares_hold_the_same_captions(tmp_path: Path) -> None:
    from equipoise.recipes.contamination.models import LockedClipTask, by_source
    from equipoise.train import TrainSettings
    from equipoise.train.batches import rows_at
    from equipoise.train.fitting import prepared_training

    real = real_table(tmp_path / "real", 24, 0)
    placebo = placebo_table(real, tmp_path / "placebo", 0)
    sources = real.to_pandas(["image_id"])["image_id"].tolist()
    order = []
    for alpha in (0.0, 0.5, 1.0):
        table = mixture(real, [placebo] if alpha else [], alpha, tmp_path / "d", 0)
        settings = TrainSettings(steps=2, batch=8, val_share=0.0, freeze=("vision_model",))
        training = prepared_training(
            LockedClipTask(), table, init="mini:clip-fair", settings=settings, choose=by_source(sources), device="cpu"
        )
        rows = [rows_at(training.streams, step, training.processes, images=False) for step in range(4)]
        order.append([row["caption"] for some in rows for row in some])
    assert order[0] == order[1] == order[2]


def test_a_locked_clip_learns_as_the_task_clip_does_with_its_eyes_frozen(tmp_path: Path) -> None:
    """Looking once changes nothing: loss and vectors are those of the stock task."""
    from equipoise.recipes.contamination.models import LockedClipTask
    from equipoise.train import TrainSettings
    from equipoise.train.fitting import prepared_training

    table = real_table(tmp_path / "real", 12, 0)
    settings = TrainSettings(steps=1, batch=8, val_share=0.0, freeze=("vision_model",))
    losses = []
    for task in ("clip", LockedClipTask()):
        training = prepared_training(task, table, init="mini:clip-fair", settings=settings, device="cpu")
        losses.append(float(training.loss(training.model, training.inputs_at(0)).detach()))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_mixtures_of_generations() -> None:
    one = Image.new("RGB", (1, 1))
    real, first, second = ([(f"{kind}{i}", one) for i in range(8)] for kind in "abc")
    replaced = [text for text, _ in mixed_pictures(real, [first, second], "replace", 0.25, 0)]
    assert len(replaced) == 8
    assert {text[0] for text in replaced} == {"a", "c"}
    piled = [text[0] for text, _ in mixed_pictures(real, [first, second], "accumulate", 0.25, 0)]
    assert [piled.count(kind) for kind in "abc"] == [8, 2, 2]
    with pytest.raises(InputError, match="accumulate or replace"):
        mixed_pictures(real, [first], "both", 0.5, 0)


# Settings and the command


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (["--alpha", "0,x"], "give shares from 0 to 1"),
        (["--alpha", "0,1.5"], "alphas"),
        (["--alpha", "0,0"], "each share once"),
        (["--mode", "pile"], "mode"),
        (["--scale", "full", "--quick"], "no quick form"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(told: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["recipe", "contamination", "--dry-run", *told])
    assert done.exit_code != 0
    assert said in (done.output + str(done.exception or ""))


def test_other_studies_have_no_settings_of_their_own() -> None:
    with pytest.raises(InputError, match="no settings of its own"):
        STUDIES.load("lic").options(own={"seeds": 2})


def test_full_scale_names_models_data_hours_and_disk() -> None:
    study = STUDIES.load("contamination")
    plan = plan_text(study, study.options(scale="full"))
    for word in ("stable-diffusion-v1-5", "CC3M", "FairFace", "Flickr30k", "PHASE", "ClipCap", "GPU-hours", "disk"):
        assert word in plan


def test_a_share_of_0_is_one_model_for_all_arms_and_more_seeds_add_steps() -> None:
    study = STUDIES.load("contamination")
    names = [[s.name for s in study.steps(study.options(own={"seeds": n}))] for n in (1, 2)]
    assert set(names[0]) < set(names[1])
    assert [name for name in names[0] if name.startswith("clip-real")] == ["clip-real-0-0"]
    assert sum(name.startswith("clip-") for name in names[0]) == 1 + 4 * 5
    chosen = ContaminationSettings()
    assert chosen.modes == ("accumulate", "replace")
    assert replace(chosen, mode="replace").modes == ("replace",)


# A toy run


def _run(out: Path, **changes: object) -> None:
    study = STUDIES.load("contamination")
    run_study(study, out, study.options(own={**TOY, **changes}), lambda text: None)


def _bytes(folder: Path) -> dict[str, bytes]:
    """What a run left, but for the times of the steps."""
    kept = (".csv", ".safetensors", ".png", ".parquet", ".txt")
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in kept)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if "_work" not in path.parts}


@pytest.mark.slow
def test_killed_anywhere_it_goes_on_to_the_same_bytes_and_more_seeds_reuse_the_first(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    _run(whole)
    script = (
        "import json, sys; from pathlib import Path; from equipoise.recipes.studies import STUDIES;"
        "from equipoise.recipes.studies.frame import run_study; s = STUDIES.load('contamination');"
        "run_study(s, Path(sys.argv[1]), s.options(own=json.loads(sys.argv[2])), print)"
    )
    command = [sys.executable, "-c", script, str(killed), json.dumps(TOY)]
    died = 0
    for wait in (6, 9, 12, 15):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            died += 1
        process.wait()
    assert died
    subprocess.run(command, check=True, capture_output=True)
    left, right = _bytes(whole), _bytes(killed)
    assert left.keys() == right.keys()
    assert [name for name in left if left[name] != right[name]] == []
    before = {path: path.stat().st_mtime_ns for path in (killed / "steps").glob("*-0*.json")}
    _run(killed, seeds=2)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (killed / "steps" / "clip-biased-1-1.json").is_file()
    tables = {path.name for path in (killed / "tables").glob("*.csv")}
    assert any("generations" in name for name in tables)
    assert len(Table.open(killed / "steps" / "real-1" / "pictures")) == TOY["pictures"]


@pytest.mark.slow
def test_the_quick_form_finds_that_the_bias_follows_the_data(tmp_path: Path) -> None:
    study = STUDIES.load("contamination")
    begun = time.process_time()
    done = run_study(study, tmp_path / "quick", study.options(quick=True), lambda text: None)
    assert time.process_time() - begun < 15 * 60
    text = str(done)
    assert "Trends of CLIPs" in text
    frame = pd.read_csv(next((tmp_path / "quick" / "tables").glob("*levels.csv")))
    biased, fair = (frame[frame["arm"] == arm].set_index("alpha")["measured"] for arm in ("biased", "fair"))
    assert biased[1.0] > biased[0.0] > fair[1.0]
    assert list(frame["n"]) == [1] * 12  # every CLIP can tell genders apart; none is left out
