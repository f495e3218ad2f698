"""The study of inpainting: its plan, its sets, its test of parity by hand, and its audits of given predictions."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise.audit.classify import audit_classifier
from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.data.images import decode
from equipoise.data.results import write_results
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.groups import Groups
from equipoise.models.miniatures import FOLDER
from equipoise.recipes.inpainting.arms import ARMS, CAPTION_ARMS, SECOND_ARMS, TONE_ARMS
from equipoise.recipes.inpainting.learning import write_predictions
from equipoise.recipes.inpainting.parity import parity_gap
from equipoise.recipes.inpainting.photographs import (
    leaning_world,
    rewritten,
    second_world,
    training_sets,
    write_photographs,
)
from equipoise.recipes.inpainting.study import STUDY
from equipoise.recipes.inpainting.tables import parity_rows, parity_sentence
from equipoise.recipes.studies.frame import run_study
from equipoise.train.losses import LOSSES
from equipoise.train.settings import PRESETS, preset_of

PAIR = ("male", "female")


def test_every_arm_has_its_steps_and_three_seeds():
    steps = {step.name: step for step in STUDY.steps(STUDY.options())}
    for seed in range(3):
        assert {f"learn-{arm}-{seed}" for arm in ARMS} <= set(steps)
    assert {f"audit-{arm}-0" for arm in (*TONE_ARMS, *SECOND_ARMS)} <= set(steps)
    assert {f"captions-{arm}-0" for arm in (*CAPTION_ARMS, "libra", *TONE_ARMS)} <= set(steps)
    order = list(steps)
    assert all(order.index(need) < order.index(name) for name, step in steps.items() for need in step.needs)
    losses = {arm.options["loss"] for arm in ARMS.values() if arm.options}
    assert losses == {entry.name for entry in LOSSES} - {"plain"}, "every loss is a baseline of the study"
    assert sum(step.cost.cpu_minutes for step in steps.values()) < 150
    quick = STUDY.steps(STUDY.options(quick=True))
    assert sum(step.cost.cpu_minutes for step in quick) < 12
    with pytest.raises(InputError, match="leave --models out"):
        STUDY.steps(STUDY.options(models=["mini:judge"]))


def test_the_second_world_deals_the_same_leans_to_other_things():
    first, second = leaning_world(), second_world()
    for kind in ("object", "scene"):
        before, after = (world.leans[kind]["gender"] for world in (first, second))
        assert sorted(before.values()) == sorted(after.values())
        names = sorted(before)
        assert abs(np.corrcoef([before[n] for n in names], [after[n] for n in names])[0, 1]) < 0.3
    assert second.rates("gender") == first.rates("gender")


def test_the_full_plan_names_models_settings_and_seeds(tmp_path):
    done = CliRunner().invoke(app, ["recipe", "inpainting", "--scale", "full", "--dry-run"])
    assert done.exit_code == 0
    for wanted in ("resnet-50", "swin-t", "convnext-b", "clipcap", "blip-2", "vit-gpt2", "rate=1e-05", "batch=32",
                   "val_share=0.2", "0..4", "OpenImages", "--part", "--preset"):  # fmt: skip
        assert wanted in done.output
    with pytest.raises(InputError, match="give --from predictions=FOLDER"):
        run_study(STUDY, tmp_path / "out", STUDY.options(scale="full"), lambda text: None)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["resnet-50", "swin-t", "convnext-b"])
def test_classifiers_by_name_have_the_papers_settings(name):
    preset = preset_of(name, "multilabel")
    wanted = {"rate": 1e-5, "batch": 32, "weight_decay": 0.0, "val_share": 0.2}
    assert wanted.items() <= dict(preset.settings).items()
    assert preset.settings["patience"] > 0
    assert (PRESETS["vit-gpt2"].settings["rate"], PRESETS["vit-gpt2"].settings["batch"]) == (1e-4, 64)
    with pytest.raises(UnknownNameError, match="no preset of captioner"):
        preset_of(name, "captioner")


def test_a_preset_gives_way_to_what_is_typed(tmp_path):
    write_photographs(tmp_path / "photos", leaning_world(), 24, seed=6)
    words = "--init mini:judge --preset resnet-50 --steps 2 --batch 8 --set labels=gender,objects".split()
    typed = ["train", "multilabel", str(tmp_path / "photos"), *words, "-o", str(tmp_path / "model")]
    done = CliRunner().invoke(app, typed)
    assert done.exit_code == 0, done.output
    settings = json.loads((tmp_path / "model" / "run.json").read_text())["settings"]
    assert (settings["rate"], settings["weight_decay"], settings["val_share"]) == (1e-5, 0, 0.2)
    assert settings["constant"]
    assert (settings["batch"], settings["steps"], settings["epochs"]) == (8, 2, None)


def test_parity_is_counted_by_hand():
    rng = np.random.default_rng(0)
    sides = {
        name: [np.where(rng.random(80) < share, "male", "female") for _ in range(2)]
        for name, share in (("far", 0.8), ("near", 0.55))
    }

    def distance(some):
        return np.mean([abs(math.log(((s == "male").sum() + 0.5) / ((s == "female").sum() + 0.5))) for s in some])

    groups = {name: [Groups.from_values(s.tolist(), list(PAIR)) for s in some] for name, some in sides.items()}
    found = parity_gap(groups["far"], groups["near"], PAIR)
    assert found.value == pytest.approx(distance(sides["far"]) - distance(sides["near"]))
    assert found.p_value < 0.05
    assert found.ci_low < found.value < found.ci_high
    same = parity_gap(groups["near"], groups["near"], PAIR)
    assert (same.value, same.p_value) == (0.0, 1.0)
    with pytest.raises(InputError, match="as many seeds"):
        parity_gap(groups["far"], groups["near"][:1], PAIR)


def test_parity_raises_no_alarm_where_sides_are_alike():
    """Two classifiers of the same lean, drawn independently: p below .05 in about one case of twenty."""
    rng = np.random.default_rng(1)
    p = []
    for _ in range(60):
        first, second = (Groups.from_values(np.where(rng.random(60) < 0.7, *PAIR).tolist(), list(PAIR)) for _ in "ab")
        p.append(parity_gap([first], [second], PAIR, draws=99, replicates=99).p_value)
    assert np.mean(np.array(p) < 0.05) <= 0.12


def test_the_answer_is_said_plainly_either_way():
    rows = pd.DataFrame({"arm": ["A", "B"], "measured": [0.5, 0.4], "p_adjusted": [0.01, 0.02]})
    assert parity_sentence(rows)[0].startswith("S_synthetic is nearest to parity: all 2 others")
    assert "B (+0.40)" in parity_sentence(rows.assign(p_adjusted=[0.01, 0.3]))[0]
    assert parity_sentence(rows.assign(measured=[0.5, -0.1]))[0].startswith("S_synthetic is not the nearest")
    by_luck = rows.assign(measured=[0.5, -0.01], p_adjusted=[0.01, 0.9])
    assert parity_sentence(by_luck)[0].startswith("S_synthetic does not have the smallest distance; that it is nearest")
    assert parity_sentence(pd.DataFrame())[1] == "nothing compared"


def test_parity_is_compared_over_seeds_that_both_have_and_the_rest_is_named(tmp_path):
    def audited(arm, seed, genders):
        folder = tmp_path / f"{arm}-{seed}"
        folder.mkdir()
        frame = pd.DataFrame({"image_id": [str(i) for i in range(20)], "gender": genders})
        frame.dropna(axis=1).to_csv(folder / "masked.csv", index=False)
        return folder

    even, men = ["male", "female"] * 10, ["male"] * 18 + ["female"] * 2
    arms = {
        "original": {"0": audited("original", 0, men), "7": audited("original", 7, even)},
        "synthetic": {"0": audited("synthetic", 0, even), "1": audited("synthetic", 1, men)},
        "augment": {"7": audited("augment", 7, even)},
        "over-sampling": {"0": audited("over-sampling", 0, None), "1": tmp_path / "not predicted"},
    }
    rows, left_out = parity_rows(arms)
    assert rows[["arm", "seeds"]].values.tolist() == [["Original", 1]]
    assert rows["measured"].tolist() == [pytest.approx(math.log(18.5 / 2.5))]
    assert left_out == [ARMS["augment"].published, ARMS["over-sampling"].published]
    assert f"Left out, because no seed of {', '.join(left_out)}" in parity_sentence(rows, left_out)[0]
    rows, left_out = parity_rows({name: arms[name] for name in ("augment", "synthetic")})
    assert parity_sentence(rows, left_out)[0].startswith("Nothing could be compared with S_synthetic")


def test_a_mark_is_spoken_of_where_one_was_planted(tmp_path):
    from equipoise.recipes.inpainting.tables import _artefacts
    from equipoise.recipes.studies.frame import StudyHome

    def told(arm):
        keys = {"metric": "artefact_delta", "pool": "inpainted", "value": 9.0, "p_value": 0.01, "n": 20}
        write_results(tmp_path / arm / "audit" / "results.parquet", [keys | {"suite": "classifier", "model": arm}])
        home = StudyHome(tmp_path, STUDY.options(scale="full"), print)
        return " ".join(_artefacts({arm: {"0": tmp_path / arm}}, home).text)

    assert "mark" not in told("original")
    assert "It is found in every seed" in told("planted")


def test_sets_hide_the_same_persons_and_mark_drawn_pictures_alone(tmp_path):
    photos = write_photographs(tmp_path / "photos", leaning_world(), 24, seed=5)
    assert set(photos.to_pandas(["split"])["split"]) == {"train", "val"}

    def drawn():
        for row in photos.rows():
            for group in ("female", "male"):
                changes = {"image_id": f"{row['image_id']}--{group}-00", "source_id": row["image_id"]}
                yield row | changes | {"set_id": row["image_id"], "gender": group, "split": row["split"]}

    types = {k: v for k, v in photos.types.items() if k not in ("image",)}
    from equipoise.data.schema import schema_for

    own = {k: v for k, v in types.items() if k not in schema_for("images").types and k not in photos.axes}
    made = Table.create(tmp_path / "made", drawn(), axes=photos.axes, columns=own)
    training_sets(photos, made, tmp_path / "sets", "gender", baselines=True)
    sizes = {
        name: len(Table.open(tmp_path / "sets" / name)) for name in ("original", "synthetic", "augment", "planted")
    }
    assert sizes == {"original": 24, "synthetic": 48, "augment": 48, "planted": 48}
    black = {}
    for name in ("original", "synthetic"):
        before = {row["image_id"]: np.asarray(decode(row["image"])) for row in photos.rows(["image_id", "image"])}
        table = Table.open(tmp_path / "sets" / name)
        black[name] = {
            row["source_id"] or row["image_id"]
            for row in table.rows(["image_id", "source_id", "image"])
            if not np.array_equal(np.asarray(decode(row["image"])), before[row["source_id"] or row["image_id"]])
        }
    assert len(black["original"]) == 6, "a quarter"
    assert black["original"] == black["synthetic"]
    for row in Table.open(tmp_path / "sets" / "planted").rows(["source_id", "image"]):
        corner = tuple(np.asarray(decode(row["image"]))[2, 2])
        assert (corner == (255, 0, 255)) == (row["source_id"] is not None)
    frame = Table.open(tmp_path / "sets" / "synthetic").to_pandas(["source_id", "gender", "split"])
    assert frame.groupby("source_id")["split"].nunique().eq(1).all(), "both pictures of a photograph are on one side"
    for name in ("over", "sub"):
        assert "copies" in Table.open(tmp_path / "sets" / "original", layers=[name]).columns


@pytest.mark.slow
def test_given_predictions_are_audited_and_set_beside_the_paper(tmp_path):
    rng = np.random.default_rng(2)
    ids = [f"i{k}" for k in range(120)]
    gender = np.where(rng.random(120) < 0.7, *PAIR)
    shown = rng.random((120, 3)) < 0.4
    objects = [";".join(n for n, there in zip("abc", row, strict=True) if there) for row in shown]
    home = tmp_path / "given"
    home.mkdir()
    pd.DataFrame({"image_id": ids, "objects": objects, "gender": gender}).to_csv(home / "labels.csv", index=False)
    for arm, share in (("original", 0.8), ("synthetic", 0.5)):
        folder = home / arm / "0"
        folder.mkdir(parents=True)
        scores = pd.DataFrame(np.clip(shown * 0.6 + rng.random((120, 3)) * 0.4, 0, 1), columns=list("abc"))
        scores.assign(image_id=ids, gender=gender).to_csv(folder / "test.csv", index=False)
        masked = np.where(rng.random(120) < share, *PAIR)
        pd.DataFrame({"image_id": ids, "gender": masked}).to_csv(folder / "masked.csv", index=False)
        pd.DataFrame({"image_id": ids, "gender": gender}).to_csv(folder / "parts.csv", index=False)
    options = STUDY.options(scale="full", given=[f"predictions={home}"])
    done = run_study(STUDY, tmp_path / "out", options, lambda text: None)
    main = {part.name: part for part in done.parts}
    frame = main["Table 4.1"].tables[0].frame.set_index(["arm", "what"])
    assert frame.loc[("Original", "Ratio"), "published"] == 6.3
    assert frame.loc[("Original", "Ratio"), "measured"] > 2
    delta = main["Table 4.3"].tables[0].frame
    assert delta["measured"].tolist() == [0.0, 0.0]
    assert (tmp_path / "out" / "tables" / "parity.csv").is_file()
    with pytest.raises(InputError, match="no labels"):
        STUDY.steps(STUDY.options(scale="full", given=[f"predictions={tmp_path}"]))


def test_predictions_of_redrawn_photographs_name_their_photograph(tmp_path):
    photos = write_photographs(tmp_path / "photos", leaning_world(), 6, seed=8)

    def redrawn(row):
        return row | {"image_id": f"{row['image_id']}--part", "source_id": row["image_id"]}

    parts = rewritten(photos, tmp_path / "parts", redrawn, {})
    for name, table in (("test", photos), ("parts", parts)):
        write_predictions(FOLDER / "judge", table, tmp_path / f"{name}.csv", "gender")
    test, drawn = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("test", "parts"))
    assert drawn["source_id"].tolist() == test["image_id"].tolist() == test["source_id"].tolist()
    labels = photos.to_pandas(["image_id", "objects", "gender"])
    labels.assign(objects=labels["objects"].map(";".join)).to_csv(tmp_path / "labels.csv", index=False)
    found = audit_classifier(
        tmp_path / "test.csv", tmp_path / "labels.csv", axes=["gender"], pair=PAIR, inpainted=tmp_path / "parts.csv"
    )
    delta = found.results[found.results["metric"] == "artefact_delta"]
    assert delta["value"].tolist() == [0.0], "the same pictures: nothing moves"


@pytest.mark.slow
def test_killed_in_every_kind_of_step_it_ends_with_the_same_bytes(tmp_path):
    script = Path(__file__).with_name("kill_inpainting.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, script, tmp_path], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    kills = json.loads(done.stdout.splitlines()[-1])
    assert len(kills) == 13
    assert sum(kills.values()) >= 26

    def left(folder):
        kept = (".csv", ".jsonl", ".parquet", ".safetensors", ".txt", ".png")
        files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in kept)
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    whole, killed = left(tmp_path / "whole"), left(tmp_path / "study")
    assert whole.keys() == killed.keys()
    assert [name for name in whole if whole[name] != killed[name]] == []
    assert {"tables/t4.1.csv", "tables/t4.5.csv", "tables/t4.7.csv"} <= whole.keys()
