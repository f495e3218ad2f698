"""A run from end to end: layers, report, resuming, refusals; and the command."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from PIL import Image
from typer.testing import CliRunner

from equipoise.cli.filter import filter as command
from equipoise.data import Table, read_results
from equipoise.errors import InputError
from equipoise.filters import FILTERS, FilterVerdict, Models, RemainingImages, Step, read_steps, run, steps_from_toml
from equipoise.filters.steps import planned


@pytest.fixture
def known(world, embedded):
    """Vectors for the world: every set alike, captions that fit, but dark pictures do not fit theirs as often."""
    frame = world.to_pandas(["image_id", "set_id", "caption", "skin_tone"])
    rng = np.random.default_rng(0)
    text = {caption: rng.normal(size=16) for caption in frame["caption"].unique()}
    common = np.r_[np.zeros(16), 2.0]
    vectors = []
    for row in frame.itertuples():
        fits = not (row.skin_tone == "dark" and rng.random() < 0.5)
        vectors.append(np.r_[text[row.caption] * (1 if fits else -1), 0.0] / 4 + common)
    texts = [np.r_[v, 0.0] for v in text.values()]
    return embedded("known", frame["image_id"], vectors, list(text), texts)


def test_every_filter_is_registered_with_its_settings():
    assert set(FILTERS.names()) >= {
        *("similarity", "knn", "safety", "detectability", "fidelity", "people", "quality", "duplicates", "sharpness"),
    }
    for entry in FILTERS:
        made = entry.load()
        assert callable(made.judge)
        for preset in made.presets:
            Step.of(entry.name, preset=preset)


def test_a_run_writes_scores_verdicts_and_the_report(world, known, tmp_path):
    steps = read_steps("people,similarity", ["similarity.image_least=none"])
    done = run(world, steps, tmp_path / "out", models=Models(encoder=known), axes=("gender", "skin_tone"))
    table = Table.open(world.path, layers=[tmp_path / "out" / "layer"])
    frame = table.to_pandas(["image_id", "set_id", "score_caption_image", "score_persons", "keep", "dropped_by"])
    low = frame["score_caption_image"] < 0.2
    assert low.any()
    gone = frame["set_id"].isin(frame["set_id"][low].unique())
    assert (frame["keep"] == ~gone).all()
    assert set(frame["dropped_by"][gone]) == {"similarity"}
    assert frame["dropped_by"][~gone].isna().all()
    funnel = pd.read_csv(tmp_path / "out" / "funnel.csv", keep_default_na=False)
    assert list(funnel.columns[:6]) == ["step", "axis", "group", "subject", "kept", "dropped"]
    total = funnel[(funnel.step == "similarity") & (funnel.axis == "") & (funnel.unit == "image")]
    assert total["dropped"].sum() == gone.sum()
    # whose images failed is found although sets go whole
    alarm = next(one for one in done.alarms if one.test.axis == "skin_tone")
    assert (alarm.step, alarm.what, alarm.test.worst) == ("similarity", "fail", "dark")
    assert (
        "BIASED FILTER: similarity is harder on skin_tone dark: it fails"
        in (tmp_path / "out" / "report.txt").read_text()
    )
    results = read_results(tmp_path / "out")
    row = results[(results.metric == "filter_bias") & (results.axis == "skin_tone")].iloc[0]
    assert row["group"] == "dark"
    assert row["p_value"] < 0.05


def test_a_second_run_reads_what_the_first_wrote(world, known, tmp_path, monkeypatch):
    steps = read_steps("people,similarity")
    first = run(world, steps, tmp_path / "out", models=Models(encoder=known))
    monkeypatch.setattr("equipoise.filters.rules.similarity.Similarity.judge", None)  # asked again, it would raise
    second = run(world, steps, tmp_path / "out", models=Models(encoder=known))
    pd.testing.assert_frame_equal(first.funnel, second.funnel)
    pd.testing.assert_frame_equal(first.results, second.results)
    assert str(first) == str(second)
    with pytest.raises(InputError, match=r"holds another run \(seed was 0, is now 1\)"):
        run(world, steps, tmp_path / "out", models=Models(encoder=known), seed=1)
    with pytest.raises(InputError, match="steps"):
        run(world, read_steps("people"), tmp_path / "out", models=Models(encoder=known))


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_bytes(world, known, tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, sys
        from equipoise.filters import Models, read_steps, run
        from equipoise.filters.rules import similarity
        if len(sys.argv) > 4:
            similarity.Similarity.judge = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
        run(sys.argv[1], read_steps("people,similarity"), sys.argv[2], models=Models(encoder=sys.argv[3]))
        """
    )
    out = [str(tmp_path / name) for name in ("killed", "whole")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    call = [sys.executable, "-c", script, str(world.path)]
    died = subprocess.run([*call, out[0], known, "kill"], env=environment)
    assert died.returncode == -signal.SIGKILL
    for folder in out:
        subprocess.run([*call, folder, known], env=environment, check=True)
    for name in ("funnel.csv", "report.txt", "layer/part-00000.parquet", "layer/_table.json", "run.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_dropped_images_are_not_looked_at_again(world, tmp_path):
    seen = []

    class Half:
        presets = columns = needs = ()

        def judge(self, remaining: RemainingImages) -> FilterVerdict:
            seen.append(len(remaining))
            gone = np.arange(len(remaining)) % 2 == 0
            return FilterVerdict(gone, gone, {"half": gone.astype(float)})

    steps = [_Plain(f"half-{i}" if i > 1 else "half", "half", Half()) for i in (1, 2)]
    done = run(world, steps, tmp_path / "out")
    assert seen == [180, 90]
    frame = done.table.to_pandas(["keep", "dropped_by", "score_half", "score_half_2"])
    assert frame["keep"].sum() == 45
    assert frame["dropped_by"].value_counts().to_dict() == {"half": 90, "half-2": 45}
    assert frame["score_half_2"].notna().sum() == 90
    again = run(done.table, [_Plain("half", "half", Half())], tmp_path / "next")
    assert seen[-1] == 45
    assert again.table.to_pandas(["image_id"], only_kept=True).shape[0] == 22


class _Plain(Step):
    """A step whose filter is no dataclass."""

    def plain(self):
        return {"label": self.label}


def test_the_encoder_runs_once_for_several_steps(world, fair_clip, tmp_path):
    calls = []

    class Counting:
        name, key, logit_scale = "counting", "counting 1", 100.0

        def encode_images(self, images):
            calls.append(len(images))
            return fair_clip.encode_images(images)

        def encode_texts(self, texts):
            return fair_clip.encode_texts(texts)

    steps = read_steps("similarity,detectability", ["similarity.text_least=-1", "detectability.least=0.0"])
    done = run(world, steps, tmp_path / "out", models=Models(encoder=Counting()), axes=("gender", "skin_tone"))
    assert sum(calls) == 180
    assert (done.folder / "confusions_gender.csv").exists()
    assert "detect_gender" in " ".join(done.table.columns)


def test_steps_from_a_file_and_from_words(tmp_path):
    path = tmp_path / "filter.toml"
    path.write_text('model = "mini:clip-fair"\n[[step]]\nfilter = "similarity"\npreset = "ip2p"\ntext_least = 0.25\n')
    assert steps_from_toml(path)[0] == read_steps("similarity:ip2p", ["similarity.text_least=0.25"])[0]
    path.write_text("x = 1\n")
    with pytest.raises(InputError, match="has no step"):
        steps_from_toml(path)
    with pytest.raises(InputError, match="did you mean 'similarity'"):
        read_steps("similarty")
    with pytest.raises(InputError, match="no setting of the filter similarity named 'text'"):
        read_steps("similarity", ["similarity.text=1"])
    with pytest.raises(InputError, match="no preset of the filter knn named 'clip'"):
        read_steps("knn:clip")
    with pytest.raises(InputError, match="is not understood"):
        read_steps("knn", ["k=3"])


@pytest.mark.parametrize(
    ("steps", "setting", "said"),
    [
        ("similarity", "text_least=abc", "similarity.text_least = 'abc': give a number or none"),
        ("similarity", "text_least=nan", "similarity.text_least = nan"),
        ("similarity", "keep_best=1.5", "similarity.keep_best = 1.5: give a whole number"),
        ("similarity", "keep_best=true", "similarity.keep_best = True"),
        ("similarity", "pairs=none", "similarity.pairs = None: give a text"),
        ("safety", "black_from=x", "safety.black_from = 'x'"),
        ("sharpness", "least=x", "sharpness.least = 'x'"),
        ("people", "face=1", "people.face = 1: give true or false"),
        ("people", "person_labels=[1]", "give a text or a list of them"),
        ("detectability", "thresholds={gender='x'}", "give for each name a number"),
        ("detectability", "prompts={gender='x'}", "detectability.prompts"),
        ("people,people", "exactly=x", "people-2.exactly = 'x'"),
    ],
)
def test_a_setting_of_the_wrong_type_is_refused(steps, setting, said):
    label = "people-2" if steps == "people,people" else steps
    with pytest.raises(InputError, match=re.escape(said)):
        read_steps(steps, [f"{label}.{setting}"])


def test_one_text_for_many_is_one_text():
    assert read_steps("people", ["people.person_labels=person"])[0].filter.person_labels == ("person",)
    assert read_steps("detectability", ["detectability.axes=gender"])[0].filter.axes == ("gender",)
    assert read_steps("detectability", ['detectability.axes=["a", "b"]'])[0].filter.axes == ("a", "b")
    with pytest.raises(InputError, match="belong together"):
        read_steps("safety", ["safety.unsafe_texts=nude"])
    assert read_steps("knn", ["knn.real_above=1"])[0].filter.real_above == 1


def test_a_plan_says_what_would_be_done_and_what_is_missing(world, images):
    text = planned(world, read_steps("similarity:socialcf,safety"), named={"model": "mini:clip-fair"})
    assert "180 images, 30 sets" in text
    assert "1. similarity (preset socialcf)" in text
    assert "needs image and caption vectors" in text
    with pytest.raises(InputError, match="'knn' needs 'gender'"):
        planned(images([{"image_id": "a"}]), read_steps("knn"))


def test_a_folder_of_something_else_is_refused(world, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds files but no filter run"):
        run(world, read_steps("people"), tmp_path)


def test_a_run_without_a_finished_step_gives_way_to_the_right_settings(world, known, tmp_path):
    wrong, right = ([f"detectability.thresholds={{{axis}=0}}"] for axis in ("age", "subject"))
    first, *later = ("similarity", "detectability")
    given = {"models": Models(encoder=known), "axes": ("gender",)}
    with pytest.raises(InputError, match="thresholds names 'age'"):
        run(world, read_steps("detectability", wrong), tmp_path / "out", **given)
    done = run(world, read_steps(first), tmp_path / "out", **given)
    assert [one.label for one in done.outcomes] == [first]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["settings"]["steps"][0]["label"] == first
    with pytest.raises(InputError, match="holds another run"):
        run(world, read_steps(later, right), tmp_path / "out", **given)


def test_what_was_seen_in_another_table_is_not_taken_over(images, tmp_path):
    seen = []

    class Looks:
        presets = columns = needs = ()
        name = "looks"

        def judge(self, remaining: RemainingImages) -> FilterVerdict:
            found = remaining.measured("x", lambda rows: [{"x": 1.0} for _ in rows], {"x": "float64"}, decode=False)
            seen.append(found["x"].tolist())
            raise InputError("stop")

    for name in ("a", "a", "b"):
        table = images([{"image_id": name, "gender": "f"}], name=f"t{len(seen)}")
        with pytest.raises(InputError, match="stop"):
            run(table, [_Plain(f"looks-{len(seen)}", "looks", Looks())], tmp_path / "out")
    assert seen == [[1.0]] * 3


def test_another_model_under_the_same_name_is_refused(images, embedded, tmp_path):
    rows = [{"image_id": name, "caption": "c", "gender": g} for name, g in (("a", "f"), ("b", "m"))]
    table = images(rows)
    spec = embedded("v", ["a", "b"], [[1.0, 0.0]] * 2, ["c"], [[1.0, 0.0]])
    given = {"models": Models(encoder=spec)}
    first = run(table, read_steps("similarity"), tmp_path / "out", **given)
    assert str(run(table, read_steps("similarity"), tmp_path / "out", **given)) == str(first)
    shutil.rmtree(tmp_path / "v")
    embedded("v", ["a", "b"], [[1.0, 0.0]] * 2, ["c"], [[-1.0, 0.0]])
    with pytest.raises(InputError, match=r"'similarity' was judged by the encoder table:.*no longer the same"):
        run(table, read_steps("similarity"), tmp_path / "out", **given)


def test_another_reference_under_the_same_name_is_refused(images, embedded, tmp_path):
    table = images([{"image_id": "a", "caption": "c", "gender": "f"}])
    given = {"models": Models(encoder=embedded("v", ["a"], [[1.0]], ["c"], [[1.0]]), reference=tmp_path / "real")}
    images([{"image_id": "r"}], name="real")
    run(table, read_steps("similarity"), tmp_path / "out", **given)
    shutil.rmtree(tmp_path / "real")
    images([{"image_id": "other"}], name="real")
    with pytest.raises(InputError, match=r"holds another run \(means\.reference"):
        run(table, read_steps("similarity"), tmp_path / "out", **given)


# the command


def call(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_command_prints_the_funnel(world, known, tmp_path):
    found = call(world.path, "--steps", "people,similarity", "-m", known, "-o", tmp_path / "out", "--axis", "skin_tone")
    assert found.exit_code == 0, found.output
    assert "BIASED FILTER: similarity is harder on skin_tone dark: it fails" in found.output
    assert json.loads((tmp_path / "out" / "run.json").read_text())["settings"]["axes"] == ["skin_tone"]


def test_a_dry_run_writes_nothing_and_loads_nothing(world, tmp_path):
    found = call(world.path, "-s", "similarity,knn:dino", "-m", "hf:no/where", "--dry-run", "-o", tmp_path / "out")
    assert found.exit_code == 0, found.output
    assert "knn (preset dino)" in found.output
    assert "model hf:no/where" in found.output
    assert not (tmp_path / "out").exists()


def test_the_command_reads_a_file_and_lists_filters(world, known, tmp_path):
    path = tmp_path / "filter.toml"
    path.write_text(f'model = "{known}"\naxes = ["gender"]\n[[step]]\nfilter = "similarity"\n')
    assert call(world.path, "--config", path, "-o", tmp_path / "out").exit_code == 0
    path.write_text('modle = "x"\n[[step]]\nfilter = "similarity"\n')
    assert "'modle' is not understood" in str(call(world.path, "--config", path, "-o", tmp_path / "o").exception)
    path.write_text('axes = [1]\n[[step]]\nfilter = "people"\n')
    assert "axes = [1]: give a text" in str(call(world.path, "--config", path, "-o", tmp_path / "o").exception)
    path.write_text('axes = "gender"\n[[step]]\nfilter = "people"\n')
    assert call(world.path, "--config", path, "-o", tmp_path / "one").exit_code == 0
    assert json.loads((tmp_path / "one" / "run.json").read_text())["settings"]["axes"] == ["gender"]
    assert "presets: socialcf, ip2p" in call("--list").output
    assert "one of them" in str(call(world.path).exception)


def test_the_example_of_a_new_filter_works(world):
    page = Path(__file__).parents[2] / "docs" / "adding-a-filter.md"
    code = page.read_text(encoding="utf-8").split("```python")[1].split("```")[0]
    names = {"__name__": "brightness"}
    exec(textwrap.dedent(code), names)
    remaining = RemainingImages(world)
    verdict = names["Brightness"](least=0.5).judge(remaining)
    expected = [np.asarray(image).mean() / 255 < 0.5 for _, image in world.images()]
    assert verdict.dropped.tolist() == expected


def test_a_step_that_drops_everything_shows_its_scores_beside_its_threshold(tmp_path):
    person = {"label": "person", "bbox": [0, 0, 4, 4]}
    rows = [{"image_id": str(i), "people": json.dumps([person])} for i in range(3)]
    table = Table.create(tmp_path / "t", rows, columns={"people": "json", "objects": "list<string>"})
    done = run(table, read_steps("people", ["people.exactly=2"]), tmp_path / "run")
    text = str(done)
    assert "every image was dropped: scores were persons 1 to 1" in text
    assert "people.exactly=2" in text
    with pytest.raises(InputError, match="no detector of faces is named; give one with --faces"):
        run(table, read_steps("people:gab"), tmp_path / "gab")
    assert not (tmp_path / "gab").exists()
    faceless = run(table, read_steps("people:gab"), tmp_path / "gab", models=Models(faces="annotations"))
    assert "the table annotates no face, so every image fails" in str(faceless)
    with pytest.raises(InputError, match="no encoder is named; give one with -m"):
        run(table, read_steps("people,duplicates"), tmp_path / "early")
    assert not (tmp_path / "early").exists()


def test_sets_of_one_name_and_two_subjects_are_two(tmp_path):
    """Numbered anew in each subject: a black picture takes its own set with it, and no other."""
    picture = Image.new("RGB", (8, 8), "white")
    rows = [
        {"image_id": f"{job}-{number}-{group}", "subject": job, "set_id": number, "gender": group, "image": picture}
        for job in ("cook", "nurse")
        for number in ("1", "2")
        for group in ("female", "male")
    ]
    rows[0]["image"] = Image.new("RGB", (8, 8), "black")
    table = Table.create(tmp_path / "table", rows, axes=["gender"])
    steps = [Step.of("safety", preset="black")]
    done = run(table, steps, tmp_path / "run")
    gone = done.table.to_pandas(["image_id", "keep"]).query("~keep")["image_id"].tolist()
    assert gone == ["cook-1-female", "cook-1-male"]
    sets = done.funnel[done.funnel["unit"] == "set"]
    assert sets[["subject", "kept", "dropped"]].to_numpy().tolist() == [["cook", 1, 1], ["nurse", 2, 0]]
    assert "8 images, 4 sets" in planned(table, steps)
    left = np.array([row["gender"] == "female" for row in rows])
    assert RemainingImages(table, left).sets.tolist() == [0, 1, 2, 3]  # one image of each, and still four sets


def test_sets_that_run_across_subjects_are_whole(images):
    rows = [
        {"image_id": f"{number}-{job}", "subject": job, "set_id": number}
        for number in "12"
        for job in ("cook", "nurse")
    ]
    table = images([*rows, {"image_id": "alone", "subject": "cook"}])
    assert RemainingImages(table).sets.tolist() == [0, 0, 1, 1, 2]
