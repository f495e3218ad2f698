"""``equipoise captions`` as a user meets it: files in, one table out, one sentence when it cannot be."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from equipoise.cli.captions import captions
from equipoise.data import read_results
from equipoise.errors import InputError

OBJECTS = ("kite", "umbrella", "bench", "dog", "cup")


def caption(group: str, thing: str, rng: random.Random, *, leak: float, wrong: float) -> str:
    """Names the group, rightly or not, and gives it away by what is held."""
    other = {"male": "female", "female": "male"}[group]
    said = other if rng.random() < wrong else group
    person = {"male": "man", "female": "woman"}[said]
    colour = {"male": "blue", "female": "red"}[group] if rng.random() < leak else rng.choice(["blue", "red"])
    return f"a {person} with a {colour} {thing} in the park"


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("captions")
    rng = random.Random(0)
    images = [(i, ("male", "female")[rng.random() < 0.4], rng.choice(OBJECTS)) for i in range(400)]
    with (folder / "human.jsonl").open("w") as file:
        for i, group, thing in images:
            texts = [caption(group, thing, rng, leak=0.2, wrong=0.0) for _ in range(3)]
            file.write(json.dumps({"image_id": i, "captions": texts, "gender": group}) + "\n")
    for name, leak, wrong in (("good", 0.2, 0.02), ("middle", 0.5, 0.1), ("bad", 0.9, 0.3)):
        rows = [{"image_id": i, "caption": caption(g, t, rng, leak=leak, wrong=wrong)} for i, g, t in images]
        (folder / f"gender_{name}.json").write_text(json.dumps(rows))
    (folder / "masked.csv").write_text(
        "image_id,caption\n" + "".join(f"{i},{caption(g, t, rng, leak=0.0, wrong=0.5)}\n" for i, g, t in images)
    )
    instances = {
        "categories": [{"id": k, "name": name} for k, name in enumerate((*OBJECTS, "person"))],
        "images": [{"id": i} for i, _, _ in images],
        "annotations": [{"image_id": i, "category_id": OBJECTS.index(t)} for i, _, t in images],
    }
    (folder / "instances.json").write_text(json.dumps(instances))
    return folder


def run(home: Path, *arguments: str, page: bool = False):
    """The command, as a rule without a page, which takes as long as the rest."""
    app = typer.Typer()
    app.command()(captions)
    words = [str(a).replace("@", f"{home}/") for a in arguments]
    return CliRunner().invoke(app, [*words, *(() if page else ("--no-report",))], catch_exceptions=True)


FAST = ("--seeds", "2", "--permutations", "20", "--ba-least", "10")
FASTEST = ("--seeds", "1", "--permutations", "4", "--ba-least", "10")
"""Where it is not the numbers that are looked at."""


@pytest.fixture(scope="module")
def done(home):
    models = [f"@gender_{name}.json" for name in ("good", "middle", "bad")]
    masked = ("--masked", "bad:without-person=@masked.csv")
    result = run(
        home,
        *models,
        "-r",
        "@human.jsonl",
        "-l",
        "gender",
        "-o",
        "@out",
        "--objects",
        "@instances.json",
        *masked,
        *FAST,
        page=True,
    )
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def test_the_table_shows_all_models_and_marks(done):
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["model", "LIC", "LIC_M", "LIC_D"]
    assert "Captions of masked images" in lines
    said = [line for line in lines if "LIC" in line and "Holm p" in line]
    assert len(said) == 3  # what may be said of each model
    lines = lines[: next(i for i, line in enumerate(lines) if line.startswith("What may be said"))]
    by_model = {line.split()[0]: line for line in lines if line.split()[:1] in (["good"], ["middle"], ["bad"])}
    assert set(by_model) == {"good", "middle", "bad"}
    assert "!" in by_model["bad"].split("|")[0]
    assert "*" in by_model["good"].split("|")[0]
    assert "approximation of the paper's LSTM" in done.stdout
    assert "without-person" in done.stdout
    assert "results in" in done.stderr


def test_the_numbers_follow_what_was_planted(done, home):
    results = read_results(home / "out")
    main = results[results["group"].isna() & results["pool"].isna() & results["subject"].isna()]
    main = main.drop_duplicates(["model", "metric"]).set_index(["metric", "model"])
    for metric in ("lic", "lic_m", "error"):
        values = [main.loc[(metric, name), "value"] for name in ("good", "middle", "bad")]
        assert values == sorted(values), metric
    assert main.loc[("error", "bad"), "value"] == pytest.approx(0.3, abs=0.07)
    assert main.loc[("lic", "bad"), "ci_low"] > 0
    assert main.loc[("lic_m", "bad"), "null_mean"] < 40
    assert main.loc[("cider", "good"), "value"] > main.loc[("cider", "bad"), "value"]
    wanted = "lic lic_m lic_d ratio error neutral_rate ba dba_g dba_o bleu_1 bleu_4 cider rouge_l vocabulary sentiment"
    assert set(wanted.split()) <= set(main.index.get_level_values("metric"))
    for name in ("lic_m", "error", "ratio", "ba", "dba_g", "dba_o"):
        row = main.loc[(name, "bad")]
        assert row[["null_mean", "p_value"]].notna().all(), name
        assert "Holm p" in row["notes"]
        known = row[["ci_low", "ci_high"]].notna().all()
        assert known or "no interval: the resamples do not differ" in row["notes"], name
    masked = results[(results["pool"] == "without-person") & (results["metric"] == "lic_m_change")].iloc[0]
    assert masked["value"] < 0
    assert masked["ci_high"] < 0
    assert set(results.loc[results["metric"] == "r_squared", "subject"]) == {"vocabulary", "bleu_4"} - (
        {"vocabulary"} if main.loc["vocabulary", "value"].nunique() == 1 else set()
    )


def test_the_folder_holds_everything(done, home):
    out = home / "out"
    names = {path.name for path in out.iterdir()}
    assert names >= {
        "results.parquet",
        "results.json",
        "run.json",
        "dropped.csv",
        "captions.csv",
        "words.csv",
        "words.html",
        "log_odds.csv",
        "runs.csv",
        "report.html",
        "report.txt",
        "lic_vs_quality.csv",
        "lic_vs_quality.svg",
    }
    assert not [name for name in names if name.startswith(".")]
    scores = pd.read_csv(out / "captions.csv")
    assert list(scores.columns) == ["model", "image_id", "caption", "group", "score", "classifier"]
    assert len(scores) == 1200
    words = pd.read_csv(out / "words.csv")
    assert set(words[words["model"] == "bad"]["word"][:2]) == {"red", "blue"}
    odds = pd.read_csv(out / "log_odds.csv")
    assert set(odds[odds["model"] == "bad"]["word"][:4]) == {"red", "blue"}
    assert not set(odds["word"]) & {"man", "woman"}
    config = json.loads((out / "run.json").read_text())
    assert (config["kind"], config["state"]) == ("captions", "finished")
    assert config["settings"]["seeds"] == 2
    assert config["versions"]["equipoise"]
    assert len(config["parents"]) == 3


def test_the_same_again_replaces_and_other_captions_are_refused(done, home):
    again = run(home, "@gender_bad.json", "-r", "@human.jsonl", "-l", "gender", "-o", "@out", *FAST)
    assert isinstance(again.exception, InputError)
    assert "holds a run over other predictions" in str(again.exception)


def sentence(home: Path, *arguments: str) -> str:
    result = run(home, *arguments)
    assert isinstance(result.exception, InputError), (result.output, result.exception)
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_bad_input_is_one_sentence(home):
    (home / "tiny.csv").write_text("image_id,gender\n" + "".join(f"{i},{'m' if i > 2 else 'f'}\n" for i in range(99)))
    good = ("@gender_good.json", "-r", "@human.jsonl")
    assert "too few to split: 3, need 20" in sentence(home, *good, "-l", "@tiny.csv")
    assert "did you mean 'gender'" in sentence(home, *good, "-l", "gendr")
    assert "did you mean 'lstm'" in sentence(home, *good, "-l", "gender", "-c", "lsmt")
    assert "did you mean 'lic'" in sentence(home, *good, "-l", "gender", "--published", "licc")
    assert "needs a model" in sentence(home, *good, "-l", "gender", "--images", "@")
    assert "as without-person=FILE" in sentence(home, *good, "-l", "gender", "--masked", "x")
    assert "knows none of the labelled images" in sentence(
        home, *good, "-l", "gender", "--objects", write_instances(home), *FASTEST, "--no-quality"
    )
    assert not (home / "never").exists()


def write_instances(home: Path) -> str:
    path = home / "other.json"
    path.write_text(
        json.dumps({"categories": [{"id": 1, "name": "cup"}], "annotations": [{"image_id": -5, "category_id": 1}]})
    )
    return str(path)


def test_captions_that_name_nobody_are_not_praised(home):
    rows = [{"image_id": i, "caption": f"a person with a {'red' if i % 2 else 'blue'} kite"} for i in range(400)]
    (home / "neutral.json").write_text(json.dumps(rows))
    result = run(home, "@neutral.json", "-r", "@human.jsonl", "-l", "gender", *FASTEST)
    assert result.exit_code == 0, (result.output, result.exception)
    line = next(line for line in result.stdout.splitlines() if line.startswith("neutral"))
    assert "0.0" in line.split()
    assert "100.0" in line.split()
    assert "Error is 0 because nothing was said, and that is no merit" in result.stderr


def test_without_references_and_with_other_groups(home):
    (home / "skin.csv").write_text(
        "image_id,skin\n" + "".join(f"{i},{'dark' if i % 3 else 'light'}\n" for i in range(400))
    )
    result = run(home, "@gender_good.json", "-l", "@skin.csv", "-o", "@skin", *FASTEST)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "no references" in result.stderr
    assert "nothing is masked, and Ratio, Error, BA and DBA_G are left out" in result.stderr
    metrics = set(read_results(home / "skin")["metric"])
    assert "lic_m" in metrics
    assert not metrics & {"lic", "lic_d", "error", "ratio", "ba", "bleu_4"}


def test_labels_in_another_case(home):
    (home / "capitals.csv").write_text(
        "image_id,gender\n"
        + "".join(
            f"{r['image_id']},{r['gender'].title()}\n"
            for r in map(json.loads, (home / "human.jsonl").read_text().splitlines())
        )
    )
    result = run(home, "@gender_bad.json", "-l", "@capitals.csv", "-o", "@capitals", *FASTEST)
    assert result.exit_code == 0, (result.output, result.exception)
    found = read_results(home / "capitals")
    assert found[(found["metric"] == "error") & (found["variant"] == "burns_all")]["value"].iloc[0] > 0.2


def test_a_stopped_run_leaves_its_finished_work_and_goes_on(home, monkeypatch):
    from equipoise.audit.captions import lic as caption_lic

    real, stores = caption_lic.measure_lic, []

    def stopping(captions, labels, references=None, *, store, **options):
        stores.append(store)
        store.mkdir(parents=True, exist_ok=True)
        (store / "run.json").write_text("{}")
        if len(stores) == 2:
            raise KeyboardInterrupt
        return real(captions, labels, references, store=store, **options)

    monkeypatch.setattr(caption_lic, "measure_lic", stopping)
    models = ("@gender_good.json", "@gender_bad.json")
    arguments = (*models, "-r", "@human.jsonl", "-l", "gender", "-o", "@stopped", *FASTEST)
    assert run(home, *arguments).exit_code != 0
    assert sorted(path.name for path in (home / "stopped").iterdir()) == ["_work", "run.json"]
    again = run(home, *arguments)
    assert again.exit_code == 0, (again.output, again.exception)
    assert set(stores) == {home / "stopped" / "_work"}
    assert (home / "stopped" / "results.parquet").exists()


def test_clip_scores_through_an_encoder(home, monkeypatch):
    import numpy as np
    from PIL import Image

    from equipoise import models

    class Colours:
        def encode_images(self, images):
            return np.stack([np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) for image in images])

        def encode_texts(self, texts):
            return np.array([[float(word in text) + 1e-3 for word in ("red", "green", "blue")] for text in texts])

    (home / "photos").mkdir()
    for i in range(399):
        Image.new("RGB", (2, 2), (255, 0, 0) if i % 2 else (0, 0, 255)).save(home / "photos" / f"{i:012d}.png")
    monkeypatch.setattr(models, "load", lambda spec, kind: Colours())
    extra = ("--images", "@photos", "--encoder", "hf:mine", "-o", "@clip")
    result = run(home, "@gender_good.json", "-r", "@human.jsonl", "-l", "gender", *extra, *FASTEST)
    assert result.exit_code == 0, (result.output, result.exception)
    found = read_results(home / "clip").set_index("metric")
    assert found.loc["ref_clip_score", "n"] == 399
    assert {"clip_score", "clip_score_gap"} <= set(found.index)
    dropped = pd.read_csv(home / "clip" / "dropped.csv")
    assert dropped["reason"].tolist() == ["image file missing"]


@pytest.mark.slow
def test_the_images_of_clip_scores_may_be_a_table(home, monkeypatch):
    import numpy as np
    from PIL import Image

    from equipoise import models
    from equipoise.data import Table

    class Colours:
        def encode_images(self, images):
            return np.stack([np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) + 1 for image in images])

        def encode_texts(self, texts):
            return np.array([[float(word in text) + 1e-3 for word in ("red", "green", "blue")] for text in texts])

    red, blue = Image.new("RGB", (2, 2), (255, 0, 0)), Image.new("RGB", (2, 2), (0, 0, 255))
    table = Table.create(home / "table", [{"image_id": str(i), "image": (red, blue)[i % 2]} for i in range(400)])
    table.add_layer("half", [{"image_id": str(i), "keep": i < 200} for i in range(400)], columns=["keep"])
    monkeypatch.setattr(models, "load", lambda spec, kind: Colours())
    words = ("@gender_good.json", "-r", "@human.jsonl", "-l", "gender", "--images", "@table", "--encoder", "hf:mine")
    for name, more, n in (("clip-table", (), 400), ("clip-half", ("--layer", "half"), 200)):
        result = run(home, *words, *more, "-o", f"@{name}", *FAST)
        assert result.exit_code == 0, (result.output, result.exception)
        assert read_results(home / name).drop_duplicates("metric").set_index("metric").loc["clip_score", "n"] == n


@pytest.mark.slow
def test_a_text_encoder_of_the_package_reads_captions(home):
    pytest.importorskip("transformers")
    more = ("--classifier", "bert:mini:text", "--seeds", "1", "--permutations", "1", "--reference-seeds", "0")
    result = run(home, "@gender_bad.json", "-r", "@human.jsonl", "-l", "gender", "-o", "@bert", *more, "--no-quality")
    assert result.exit_code == 0, (result.output, result.exception)
    found = read_results(home / "bert").drop_duplicates("metric").set_index("metric")
    assert 0 < found.loc["lic_m", "value"] < 100
    assert 0 < found.loc["lic_m", "null_mean"] < 100  # beside its chance level
    assert "approximation" not in result.output  # BERT is the paper's second classifier


def test_three_groups_and_intervals_inside_the_range(home):
    names = ("male", "female", "nonbinary")
    rows = [
        {"image_id": i, "caption": f"a {('man', 'woman', 'person')[i % 3]} walks", "gender": names[i % 3]}
        for i in range(90)
    ]
    (home / "three.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = run(home, "@three.jsonl", "-l", "gender", "-o", "@three", *FAST)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "has no words for nonbinary" in result.stderr
    found = read_results(home / "three").drop_duplicates("metric").set_index("metric")
    assert found.loc["lic_m", "n_groups"] == 3
    assert 0 <= found.loc["lic_m", "ci_low"] <= found.loc["lic_m", "ci_high"] <= 100
    assert found.loc["ratio", "value"] == 1.0


def test_a_folder_named_like_the_column_is_not_mistaken_for_labels(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gender").mkdir()
    result = run(home, "@gender_good.json", "-r", "@human.jsonl", "-l", "gender", "--no-quality", *FASTEST)
    assert result.exit_code == 0, (result.output, result.exception)


def test_java_that_is_not_there_is_said_at_once(home, monkeypatch):
    from equipoise.audit.captions import java as java_metrics

    monkeypatch.setattr(java_metrics.shutil, "which", lambda name: None)
    said = sentence(home, "@gender_good.json", "-r", "@human.jsonl", "-l", "gender", "--java", *FAST)
    assert "METEOR needs" in said


def test_java_metrics_take_their_place(home, monkeypatch):
    from equipoise.audit.captions import java as java_metrics
    from equipoise.measure.captions.quality import rouge_l

    monkeypatch.setattr(java_metrics, "java_is_ready", lambda: True)
    monkeypatch.setattr(java_metrics, "spice_is_ready", lambda: True)
    monkeypatch.setattr(java_metrics, "meteor", lambda pairs, seed: rouge_l(pairs))
    monkeypatch.setattr(java_metrics, "spice", lambda pairs: rouge_l(pairs))
    result = run(home, "@gender_good.json", "-r", "@human.jsonl", "-l", "gender", "--java", *FASTEST)
    assert result.exit_code == 0, (result.output, result.exception)
    head = result.stdout.splitlines()[0].split()
    assert {"METEOR", "SPICE"} <= set(head)
    assert "METEOR~" not in head


def results_of(home, tmp_path, *arguments):
    result = run(home, *arguments, "-o", tmp_path / "out")
    assert result.exit_code == 0, (result.output, result.exception)
    return read_results(tmp_path / "out"), result.stderr


def written(path: Path, rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


WORDS = {"female": "woman", "male": "man", "non-binary": "man"}


def test_groups_without_words_are_left_out_of_the_ratio(home, tmp_path):
    # every woman and man is named rightly; the people the word list cannot name are all called "man"
    people = ["female"] * 60 + ["male"] * 30 + ["non-binary"] * 30
    rows = [{"image_id": i, "caption": f"a {WORDS[who]} in a park", "gender": who} for i, who in enumerate(people)]
    results, notes = results_of(home, tmp_path, written(tmp_path / "m.jsonl", rows), "-l", "gender", *FAST)
    ratio = results[(results["metric"] == "ratio") & (results["variant"] == "lic")].iloc[0]
    assert (ratio["value"], ratio["null_mean"]) == (0.5, pytest.approx(0.5))
    assert ratio["p_value"] > 0.9
    assert "has no words for non-binary: Error and Ratio leave them out" in notes
    for metric in ("ratio", "error", "outcome_divergence"):
        told = results[results["metric"] == metric].iloc[0]["notes"]
        assert "dropped 30 (the lexicon has no words for their group)" in told, metric
        assert "no label" not in told
    assert results[(results["metric"] == "neutral_rate") & results["group"].isna()].iloc[0]["n"] == 120


def test_labels_that_differ_in_case_alone_are_one_group(home, tmp_path):
    people = ["Female", "male", "female", "male", "Male"] * 20
    rows = [
        {"image_id": i, "caption": f"a {WORDS[who.lower()]} in a park", "gender": who} for i, who in enumerate(people)
    ]
    file = written(tmp_path / "m.jsonl", rows)
    results, notes = results_of(home, tmp_path, file, "-l", "gender", *FASTEST)
    # the commoner spelling wins, and of two as common the one in lower case
    assert set(results["group"].dropna()) == {"female", "male"}
    assert "gender: 'Female' read as 'female'; 'Male' read as 'male'" in notes
    assert results[results["metric"] == "ratio"].iloc[0]["null_mean"] == pytest.approx(1.5)
    asked = results_of(home, tmp_path, file, "-l", "gender", "--group", "Male", "--group", "female", *FASTEST)[0]
    assert set(asked["group"].dropna()) == {"female", "Male"}


@pytest.mark.slow
@pytest.mark.parametrize("folds", [(), ("--folds", "5")])
def test_unchanged_captions_of_some_masked_images_show_no_change(home, tmp_path, folds):
    rows = json.loads((home / "gender_bad.json").read_text())
    some = written(tmp_path / "some.jsonl", [*rows[:150], {"image_id": 9_999, "caption": "a dog"}])
    results, notes = results_of(
        home, tmp_path, "@gender_bad.json", "-r", "@human.jsonl", "-l", "gender", "--masked", f"x={some}", *FAST, *folds
    )
    change = results[results["metric"] == "lic_m_change"].iloc[0]
    assert change["value"] == 0
    assert "x: captions of 150 of the 400 images; the original captions of these images were measured" in notes


def test_masked_images_that_the_model_has_no_caption_of_are_listed(home, tmp_path):
    rows = json.loads((home / "gender_bad.json").read_text())
    fewer = written(tmp_path / "gender_fewer.jsonl", rows[:300])
    more = written(tmp_path / "more.jsonl", rows)
    arguments = (fewer, "-r", "@human.jsonl", "-l", "gender", "--no-quality", *FAST)
    results, _ = results_of(home, tmp_path, *arguments, "--masked", f"x={more}")
    assert results[results["metric"] == "lic_m_change"].iloc[0]["value"] == 0
    dropped = pd.read_csv(tmp_path / "out" / "dropped.csv")
    assert (dropped["reason"] == "no caption of the original image to compare with").sum() == 100
    other = written(tmp_path / "other.jsonl", rows[300:])
    assert "none of its 100 images is among those of the model" in sentence(home, *arguments, "--masked", f"x={other}")


@pytest.mark.parametrize("option", ["--seeds", "--reference-seeds"])
def test_more_seeds_than_the_paper_has_are_refused(home, option):
    told = sentence(home, "@gender_bad.json", "-r", "@human.jsonl", "-l", "gender", option, "11")
    assert "seeds = 11: the paper has 10 seeds; give at most 10" in told


@pytest.mark.slow
def test_lic_on_other_seeds_than_lic_m_is_said(home, tmp_path):
    arguments = ("@gender_bad.json", "-r", "@human.jsonl", "-l", "gender", "--no-quality", *FAST)
    assert "seeds of the references" not in results_of(home, tmp_path, *arguments)[1]
    notes = results_of(home, tmp_path, *arguments, "--reference-seeds", "3")[1]
    assert "LIC = LIC_M - LIC_D on the 3 seeds of the references (--reference-seeds); the LIC_M shown is" in notes
