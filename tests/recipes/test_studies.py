"""The frame of studies: steps are done once, go on after a kill, and end in one page; and what every study says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from hashlib import blake2b
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.data.results import write_results
from equipoise.data.runs import find_run
from equipoise.errors import InputError
from equipoise.recipes.studies import STUDIES
from equipoise.recipes.studies.chance import SEGMENTS, chance_table, pool_sizes, sizes_from_metadata
from equipoise.recipes.studies.frame import (
    Covered,
    StepCost,
    Study,
    StudyHome,
    StudyStep,
    coverage_text,
    plan_text,
    run_study,
)
from equipoise.report.study import StudyPart, StudyTable

LOG = "log.txt"


def counted(name, log, **more):
    """A step that writes one line into ``log`` each time it is done."""

    def work(home, out):
        out.mkdir(parents=True, exist_ok=True)
        with open(log, "a") as file:
            file.write(f"{name}\n")
        (out / "value.txt").write_text(name)

    return StudyStep(name, f"Step {name}", work, more.pop("settings", {}), **more)


def study(log, *, settings=None, missing=""):
    def steps(options):
        first = counted("first", log, settings=settings or {}, cost=StepCost(("mini:clip",), ("a file",), 12, 0.5))
        return [first, counted("second", log, needs=("first",)), counted("third", log, missing=missing)]

    def parts(home):
        values = [home.step(name).joinpath("value.txt").read_text() for name in ("first", "second", "third")]
        frame = pd.DataFrame(
            {"step": values, "measured": [1.0, 2.0, 3.0], "chance": 0.5, "published": [1.5, None, 3.0]}
        )
        return [StudyPart("Table 9", "All steps", ("A sentence.",), (StudyTable("T9", "Steps", frame),))]

    covers = (Covered("T9", "all steps", "nothing"), Covered("T10", "more", why_not="nobody has it"))
    return Study("toy", "A toy", "Somebody (2026)", "Does it run?", covers, steps, parts, {"table": "a table"})


def test_steps_are_done_once_and_end_in_a_page(tmp_path):
    log, told = tmp_path / LOG, []
    one = study(log)
    done = run_study(one, tmp_path / "out", one.options(), told.append)
    run_study(one, tmp_path / "out", one.options(), told.append)
    assert log.read_text().split() == ["first", "second", "third"]
    assert sum("done before" in line for line in told) == 3
    table = pd.read_csv(tmp_path / "out" / "tables" / "t9.csv")
    assert table["published"].tolist()[0] == 1.5
    page = done.page.read_text()
    assert all(
        words in page for words in ("Table 9: All steps", "A sentence.", "nobody has it", "measured − published")
    )
    assert find_run(tmp_path / "out").kind == "study"


def test_a_step_whose_settings_changed_is_done_again_with_those_that_need_it(tmp_path):
    log = tmp_path / LOG
    run_study(study(log), tmp_path / "out", study(log).options(), print)
    changed = study(log, settings={"n": 2})
    run_study(changed, tmp_path / "out", changed.options(), print)
    assert log.read_text().split() == ["first", "second", "third", "first", "second"]


def test_the_folder_of_another_study_or_scale_is_refused(tmp_path):
    one = study(tmp_path / LOG)
    run_study(one, tmp_path / "out", one.options(), print)
    with pytest.raises(InputError, match="at scale mini"):
        run_study(one, tmp_path / "out", one.options(scale="full"), print)
    other = Study("other", "x", "x", "x", (), one.steps, one.parts)
    with pytest.raises(InputError, match="holds the study toy"):
        run_study(other, tmp_path / "out", other.options(), print)


def test_what_is_missing_is_said_before_anything_is_done(tmp_path):
    one = study(tmp_path / LOG, missing="a table is needed: --from table=TABLE")
    with pytest.raises(InputError, match="a table is needed"):
        run_study(one, tmp_path / "out", one.options(), print)
    assert not (tmp_path / LOG).exists()
    plan = plan_text(one, one.options(scale="full"))
    assert "a table is needed" in plan
    assert "mini:clip" in plan
    assert "12" in plan


def test_what_a_study_does_not_take_is_refused(tmp_path):
    one = study(tmp_path / LOG)
    with pytest.raises(InputError, match="there is no input of the study toy named 'tabel'"):
        one.options(given=["tabel=x"])
    with pytest.raises(InputError, match="does not exist"):
        one.options(given=[str(tmp_path / "nothing")])
    assert one.options(given=[str(tmp_path)]).given == {"table": str(tmp_path)}


def reading(reads):
    """A study of one step that copies a file of what was given."""

    def work(home, out):
        out.mkdir(parents=True)
        (out / "value.txt").write_text((Path(home.options.given["table"]) / "a.txt").read_text())

    def steps(options):
        return [StudyStep("one", "One", work, reads=reads)]

    return Study("toy", "A toy", "Somebody", "Does it run?", (), steps, lambda home: [], {"table": "a folder"})


@pytest.mark.parametrize("reads", [("table",), ("table/a.txt",)])
def test_a_step_is_done_again_with_other_contents_of_what_it_reads(tmp_path, reads):
    one, told = reading(reads), []
    for name, text in (("A", "a"), ("B", "b"), ("C", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(text)
        run_study(one, tmp_path / "out", one.options(given=[f"table={tmp_path / name}"]), told.append)
        assert (tmp_path / "out" / "steps" / "one" / "value.txt").read_text() == text
    assert ["done before" in line for line in told] == [False, False, True], "the same contents elsewhere are the same"
    (tmp_path / "C" / "other.txt").write_text("x")
    run_study(one, tmp_path / "out", one.options(given=[f"table={tmp_path / 'C'}"]), told.append)
    assert ("done before" in told[-1]) == (reads == ("table/a.txt",))


@pytest.mark.parametrize("named_in", ["settings", "cost"])
def test_a_step_is_done_again_with_a_retrained_model_in_the_same_folder(tmp_path, named_in):
    model = tmp_path / "model"
    (model / "logs").mkdir(parents=True)
    said, told = [], []

    def steps(options):
        spec = f"hf:{model}"
        settings = {"models": [{"captioner": spec}]} if named_in == "settings" else {}
        cost = StepCost((spec,) if named_in == "cost" else ())
        return [StudyStep("one", "One", lambda home, out: said.append(1), settings, cost=cost)]

    one = Study("toy", "A toy", "Somebody", "Does it run?", (), steps, lambda home: [])
    for file, text in (
        ("model.safetensors", "weights"),
        ("logs/events.log", "a log"),
        ("optimizer.pt", "a state"),
        ("model.safetensors", "WEIGHTS"),
        ("tokenizer.json", "words"),
    ):
        (model / file).write_text(text)
        run_study(one, tmp_path / "out", one.options(), told.append)
    assert ["done before" in line for line in told] == [False, True, True, False, False]
    assert len(said) == 3


def test_names_of_the_hub_and_of_miniatures_keep_their_keys():
    from equipoise.recipes.studies.frame import _Inputs, _key

    step = StudyStep("audit", "An audit", print, {"model": "mini:clip-fair", "sees": "hf:openai/clip-vit-base-patch32"})
    about = json.dumps(["audit", dict(step.settings), []], sort_keys=True)
    assert _key(step, {}, _Inputs({})) == blake2b(about.encode(), digest_size=12).hexdigest()


def test_what_is_given_and_not_read_is_refused(tmp_path):
    one = reading(())
    for refused in (plan_text, lambda study, options: run_study(study, tmp_path / "out", options, print)):
        with pytest.raises(InputError, match=r"does not read it at scale mini .* table is a folder"):
            refused(one, one.options(given=[f"table={tmp_path}"]))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("socialcounterfactuals", ["race-gender"]),
        ("inpainting", ["predictions"]),
        ("lic", ["train"]),
        ("gensynth", ["captions", "val"]),
        ("gensynth", ["edits", "sources"]),
    ],
)
def test_the_mini_studies_refuse_what_they_would_not_read(tmp_path, name, given):
    one = STUDIES.load(name)
    with pytest.raises(InputError, match=f"--from {given[-1]}: the study {name} does not read it"):
        plan_text(one, one.options(given=[f"{what}={tmp_path}" for what in given]))


def test_models_that_nobody_would_ask_are_refused(tmp_path):
    lic, gensynth = STUDIES.load("lic"), STUDIES.load("gensynth")
    with pytest.raises(InputError, match="asks one captioner"):
        lic.steps(lic.options(models=["mini:captioner", "mini:other"]))
    with pytest.raises(InputError, match="leave other --models out"):
        lic.steps(lic.options(models=["mini:captioner"], given=[f"captions={tmp_path}"]))
    with pytest.raises(InputError, match="leave --models out"):
        gensynth.steps(gensynth.options(models=["mini:clip"], given=[f"captions={tmp_path}"]))


def keys_of(name, **options):
    from equipoise.recipes.studies.frame import _Inputs, _key

    one, keys = STUDIES.load(name), {}
    chosen = one.options(**options)
    for step in one.planned(chosen):
        keys[step.name] = _key(step, keys, _Inputs(chosen.given))
    return keys


@pytest.mark.parametrize(
    ("name", "scale", "given", "kept"),
    [
        ("gabinsight", "mini", "scenes", ""),
        ("gensynth", "mini", "val", "sources edits pairs filter contrast- even- gaps-"),
        ("gensynth", "mini", "edits", "pool baselines natural- clusters probe even- gaps-"),
        ("gensynth", "mini", "sources", "pool baselines natural- clusters probe even- gaps-"),
        ("gensynth", "full", "val", "baselines contrast- edits filter"),
        ("socialcounterfactuals", "full", "race-gender", "sets- physical- tuned-physical- held-out-physical-"),
    ],
)
def test_steps_know_the_contents_of_what_was_given(tmp_path, name, scale, given, kept):
    first, second = (tmp_path / part for part in "ab")
    for folder in (first, second):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    here, there = (keys_of(name, scale=scale, given=[f"{given}={folder}"]) for folder in (first, second))
    same = {step for step in here if here[step] == there[step]}
    assert same == {step for step in here if kept and step.startswith(tuple(kept.split()))}


def test_edits_of_given_pictures_know_their_seed(tmp_path):
    given = [f"{name}={tmp_path}" for name in ("val", "sources")]
    first, second = (keys_of("gensynth", given=given, seed=seed) for seed in (0, 1))
    assert {name for name in first if first[name] == second[name]} == {"pool"}


def test_repairs_of_the_counterfactual_study_know_their_seed():
    first, second = (keys_of("socialcounterfactuals", scale="full", seed=seed) for seed in (0, 1))
    assert {name for name in first if first[name] == second[name]} == {n for n in first if n.startswith("sets-")}


def test_a_pool_that_was_given_is_read_by_the_baselines_too(tmp_path):
    """None is drawn, and TF-IDF reads the captions of the pictures that the models are asked about."""
    rows = [{"image_id": str(i), "gender": "female", "captions": [f"a woman {i}", "a cook"]} for i in range(3)]
    Table.create(tmp_path / "val", rows, axes=["gender"])
    one = STUDIES.load("gensynth")
    home = StudyHome(tmp_path / "study", one.options(given=[f"val={tmp_path / 'val'}"]), print)
    pool, baselines, *_ = one.planned(home.options)
    assert baselines.needs == ("pool",)
    home.run([pool])
    assert [path.name for path in home.step("pool").iterdir()] == ["captions.json"]
    told = json.loads((home.step("pool") / "captions.json").read_text())["annotations"]
    assert [(row["image_id"], row["caption"]) for row in told[:2]] == [("0", "a woman 0"), ("0", "a cook")]


def test_with_edits_given_no_others_are_made(tmp_path):
    one = STUDIES.load("gensynth")
    names = [step.name for step in one.planned(one.options(given=[f"edits={tmp_path}"]))]
    assert "contrast-mini-clip" in names
    assert not {"sources", "edits", "pairs", "filter", "swaps"} & set(names)


# Pictures that nobody has learnt from


class Drawn(Exception):
    pass


def seeds_drawn(monkeypatch, name, seed):
    """(world, seed) of everything that a mini study draws of a world, in the order of its steps."""
    from equipoise.recipes.inpainting import photographs
    from equipoise.world import tables

    found = []

    def draws(path, world, n, seed=0, **_):
        found.append((world, seed))
        if len(found) < 2 and path.name == "train":  # photographs to learn from; those to test on come next
            return
        raise Drawn

    monkeypatch.setattr(tables, "write_table", draws)
    monkeypatch.setattr(photographs, "write_photographs", draws)
    one = STUDIES.load(name)
    home = StudyHome(Path("nowhere"), one.options(seed=seed), print)
    wanted = ("pool", "pictures", "photographs", "sources", "even-sources")
    steps = [step for step in one.steps(home.options) if step.name.startswith(wanted)]
    for step in steps:
        before = len(found)
        with pytest.raises(Drawn):
            step.work(home, Path("nowhere") / step.name)
        assert len(found) > before
    return found


@pytest.mark.parametrize("name", ["gensynth", "lic", "libra", "inpainting"])
def test_no_study_draws_pictures_with_a_seed_that_miniatures_learnt_from(monkeypatch, name):
    from equipoise.recipes import libra, train_mini

    texts = [path.read_text() for part in (train_mini, libra) for path in Path(part.__file__).parent.glob("*.py")]
    learnt = {int(number) for text in texts for number in re.findall(r"seed=([\d_]+)\b", text)}
    assert {1, 2, 3, 700} <= learnt
    for seed in range(4):
        drawn = {number for _, number in seeds_drawn(monkeypatch, name, seed)}
        assert len(drawn) > (name == "gensynth")
        assert not drawn & learnt


def test_pictures_of_studies_are_none_of_those_that_the_captioner_or_the_clips_learnt_from(monkeypatch):
    from equipoise.recipes.train_mini.batches import scenes_of
    from equipoise.world import preset, render_image, sample

    n = 30
    learnt = {
        render_image(scene).tobytes()
        for seed, world in ((1, "biased"), (1, "fair"), (3, "biased"))
        for scene in scenes_of(preset(world), 0, n, seed=seed)
    }
    shown = [draw for name in ("gensynth", "libra") for draw in seeds_drawn(monkeypatch, name, 0)]
    assert len(shown) > 3
    assert not learnt & {render_image(scene).tobytes() for world, seed in shown for scene in sample(world, n, seed)}


@pytest.mark.parametrize(
    "killed", ["second", *(pytest.param(name, marks=pytest.mark.slow) for name in ("first", "third", "page"))]
)
def test_a_killed_study_goes_on_where_it_was(tmp_path, killed):
    """SIGKILL in a step, or while the page is written; the second call does only what was not finished."""
    script = textwrap.dedent(
        f"""
        import os, signal, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import test_studies as t
        from equipoise.recipes.studies import frame
        one = t.study({str(tmp_path / LOG)!r})
        if sys.argv[1] == "page":
            frame.write_study = lambda page, folder: os.kill(os.getpid(), signal.SIGKILL)
        def say(text):
            if sys.argv[1] in text.lower() and "done before" not in text:
                os.kill(os.getpid(), signal.SIGKILL)
        frame.run_study(one, {str(tmp_path / "out")!r}, one.options(), say)
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    died = subprocess.run([sys.executable, "-c", script, killed], env=environment, check=False)
    assert died.returncode == -signal.SIGKILL
    one = study(tmp_path / LOG)
    done = run_study(one, tmp_path / "out", one.options(), print)
    assert (tmp_path / LOG).read_text().split() == ["first", "second", "third"]
    assert done.page.is_file()


@pytest.mark.slow
def test_a_real_study_killed_in_every_step_ends_with_the_same_tables(tmp_path):
    """GABInsight on a few scenes: SIGKILL at the beginning of each step and half a second into it, then to the end."""
    script = textwrap.dedent(
        """
        import os, signal, sys, threading
        from equipoise.recipes.studies import gabinsight
        from equipoise.recipes.studies.frame import run_study
        gabinsight.SIZES["sets"] = 2
        out, wanted, late = sys.argv[1], sys.argv[2], float(sys.argv[3])
        die = lambda: os.kill(os.getpid(), signal.SIGKILL)
        def say(text):
            if wanted and text.startswith(wanted + "/") and "done before" not in text:
                threading.Timer(late, die).start() if late else die()
        one = gabinsight.STUDY
        run_study(one, out, one.options(models=["mini:clip", "mini:clip-fair"]), say)
        """
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def called(out, step="", late=0.0):
        command = [sys.executable, "-c", script, str(out), step, str(late)]
        return subprocess.run(command, env=environment, check=False).returncode

    for step in ("1", "2", "3"):
        assert called(tmp_path / "killed", step) == -signal.SIGKILL
        assert called(tmp_path / "killed", step, 0.5) in (-signal.SIGKILL, 0)  # a quick machine may be done before
    assert called(tmp_path / "killed") == 0
    assert called(tmp_path / "whole") == 0
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole" / "tables").iterdir()}
    assert len(whole) > 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "killed" / "tables").iterdir()} == whole


@pytest.mark.parametrize("name", STUDIES.names())
def test_every_study_says_what_it_covers_and_what_it_costs(name):
    one = STUDIES.load(name)
    assert one.name == name
    told = coverage_text(one)
    assert "not here" in told
    assert all(bool(cover.made_from) != bool(cover.why_not) for cover in one.covers)
    for scale in ("mini", "full"):
        plan = plan_text(one, one.options(scale=scale))
        assert "total" in plan
    steps = one.steps(one.options(scale="full"))
    assert sum(step.cost.images for step in steps) > 1000
    assert all(step.cost.disk_gb >= 0 and step.cost.gpu_hours >= 0 for step in steps)
    assert any(step.cost.models for step in steps)


def test_the_full_scale_without_its_data_is_refused_in_one_sentence(tmp_path):
    result = CliRunner().invoke(app, ["recipe", "gabinsight", "--scale", "full", "-o", str(tmp_path / "x")])
    assert isinstance(result.exception, InputError)
    assert "--from scenes=TABLE" in str(result.exception)
    assert not (tmp_path / "x").exists()


def test_the_list_names_every_paper():
    result = CliRunner().invoke(app, ["recipe", "list"])
    assert result.exit_code == 0, result.output
    assert all(f"{name}:" in result.output for name in STUDIES.names())


@pytest.mark.slow
def test_sizes_fit_the_facts_and_chance_is_the_known_one():
    """Random rankings of the public pools, drawn elsewhere: MaxSkew and NDKL under the three rules."""
    known = {
        "race-gender": ([0.83, 0.98, 1.01], [0.52, 0.42, 0.34]),
        "physical-gender": ([0.82, 0.92, 0.97], [0.52, 0.45, 0.38]),
        "physical-race": ([0.76, 1.06, 1.21], [0.72, 0.49, 0.18]),
    }
    for segment in SEGMENTS:
        sizes = pool_sizes(segment)
        assert len(sizes) == segment.occupations
        assert (sizes == 1).sum() == segment.single
        assert sizes.max() == segment.largest
        assert sizes.sum() == pytest.approx(segment.sets, rel=0.02)
    found = chance_table()
    for name, values in known.items():
        for metric, expected in zip(("MaxSkew", "NDKL"), values, strict=True):
            rows = found[(found["segment"] == name) & found["metric"].str.startswith(metric)]
            assert rows["chance"].tolist() == pytest.approx(expected, abs=0.05)


def test_the_counterfactual_study_fine_tunes_on_every_segment():
    one = STUDIES.load("socialcounterfactuals")
    mini = {step.name: step for step in one.steps(one.options())}
    for segment in ("gender-tone", "gender-age", "tone-age"):
        assert mini[f"held-out-{segment}"].needs[0] == f"tuned-{segment}"
    full = [step.name for step in one.steps(one.options(scale="full"))]
    assert "tuned-race-gender-openai-clip-vit-base-patch32" in full
    assert not any("T2" in cover.name and cover.why_not for cover in one.covers)


@pytest.mark.slow
def test_fine_tuning_is_judged_on_subjects_that_it_has_not_seen(tmp_path, monkeypatch):
    """The repairs of the study on two sets of each subject and a few steps: every table has its rows and its change."""
    from equipoise.recipes.studies import socialcounterfactuals as study_of
    from equipoise.recipes.studies import socialcounterfactuals_repairs as repairs

    monkeypatch.setitem(study_of.SIZES, "sets", 2)
    monkeypatch.setitem(repairs.TRAINING, "steps", 3)
    monkeypatch.setattr(repairs, "CONTRASTIVE", {**repairs.CONTRASTIVE, "steps": 3, "epochs": None})
    one = STUDIES.load("socialcounterfactuals")
    home = StudyHome(tmp_path, one.options(), print)
    wanted = ("rendered", "repair", "tuned", "contrastive", "held-out")
    home.run([step for step in one.steps(home.options) if step.name.startswith(wanted)])
    skew, cost = repairs.repair_parts(home)
    tables = {table.name: table.frame for table in (*skew.tables, *cost.tables)}
    assert tables["T2"]["segment"].nunique() == 3
    assert set(tables["T2"]["table"]) == {"T2", "T16", "T17"}
    assert tables["T2"]["chance"].notna().all()
    assert "before" not in set(tables["T2-change"]["model"])
    held_out = set(pd.read_parquet(home.step("held-out-gender-age") / "before" / "results.parquet")["subject"].dropna())
    seen = set(find_run(home.step("tuned-gender-age")).about["fitted_on"]["subjects"])
    assert held_out
    assert not held_out & seen


def test_the_area_under_the_curve_of_a_trained_probe():
    from equipoise.recipes.studies.gensynth_probes import trained_auc

    scores = pd.DataFrame({"group": ["f", "f", "f", "m", "m", None], "score": [0.9, 0.5, 0.2, 0.5, 0.1, 0.7]})
    pairs = [(a > b) + 0.5 * (a == b) for a in (0.9, 0.5, 0.2) for b in (0.5, 0.1)]
    found = trained_auc(scores, "f")
    assert found.value == pytest.approx(sum(pairs) / 6)
    assert found.null_mean == 0.5
    assert found.n == 5
    with pytest.raises(InputError, match="one group of gender only"):
        trained_auc(scores[scores["group"] == "f"], "f")


@pytest.mark.slow
def test_trained_probes_read_gender_off_whole_pictures(tmp_path, monkeypatch):
    from equipoise.recipes.studies import gensynth, gensynth_probes

    monkeypatch.setitem(gensynth.SIZES, "pool", 200)
    monkeypatch.setattr(gensynth_probes, "PICTURES", 300)
    one = STUDIES.load("gensynth")
    home = StudyHome(tmp_path, one.options(), print)
    home.run([step for step in one.steps(home.options) if step.name == "pool" or step.name.startswith("probe")])
    table = gensynth_probes.probe_part(home).tables[0].frame.set_index("learnt from")
    assert table.loc["whole images", "low"] > 50
    assert table.loc["whole images", "measured"] > table.loc["images, person blacked out", "measured"]


@pytest.mark.parametrize(("scale", "splits"), [("mini", "3 splits"), ("full", "10 splits")])
def test_the_human_side_of_lic_says_how_many_splits_were_made(tmp_path, scale, splits):
    from equipoise.recipes.studies.lic import _human
    from equipoise.recipes.studies.lic_tables import _human_table

    home = StudyHome(tmp_path, STUDIES.load("lic").options(scale=scale), print)
    rows = [{"metric": name, "model": "nic", "value": 5.0, "n": 900, "suite": "captions"} for name in ("lic", "lic_d")]
    write_results(home.step("lstm-human") / "results.parquet", rows)
    assert _human_table(home).made_from.startswith(splits)
    (tmp_path / "human.jsonl").touch()
    assert _human(tmp_path / "human.jsonl", [], home.options).title.endswith(splits)


def test_sizes_are_counted_in_the_metadata(tmp_path):
    names = ["a_photo_of_race_gender_Cook", "an_image_of_race_gender_cook", "a_race_gender_bus_driver"]
    pd.DataFrame({"filename": names}).to_csv(tmp_path / "metadata_race_gender.csv", index=False)
    assert sizes_from_metadata(tmp_path, SEGMENTS[0]).tolist() == [1, 2]
    with pytest.raises(InputError, match=r"metadata_physical_gender.csv is missing"):
        sizes_from_metadata(tmp_path, SEGMENTS[1])


def test_a_step_that_was_stopped_goes_on_only_with_the_same_settings(tmp_path):

    fails = [True]

    def work(home, out):
        out.mkdir(parents=True, exist_ok=True)
        seen.append(sorted(path.name for path in out.iterdir()))
        (out / "half").touch()
        if fails.pop() if fails else False:
            raise KeyboardInterrupt

    seen: list[list[str]] = []
    home = StudyHome(tmp_path, study(tmp_path / LOG).options(), lambda text: None)
    with pytest.raises(KeyboardInterrupt):
        home.run([StudyStep("one", "One", work, {"n": 1})])
    fails.append(True)
    with pytest.raises(KeyboardInterrupt):
        home.run([StudyStep("one", "One", work, {"n": 1})])
    home.run([StudyStep("one", "One", work, {"n": 2})])
    assert seen == [[], ["half"], []], "what was begun with n = 1 is no beginning of n = 2"
    assert sorted(path.name for path in (tmp_path / "steps").iterdir()) == ["one", "one.json"]


def test_captions_are_not_called_telling_because_their_classifier_is_sure_of_itself(tmp_path):
    """A classifier that guesses by lot, 0.9 sure of each guess, scores 0.45 where a blind guess gives 0.25."""
    from equipoise.recipes.studies.lic_tables import _figure_2_2

    guessed = [{"image_id": i, "model": "nic", "group": "fm"[i % 2], "score": 0.9 * (i % 4 < 2)} for i in range(400)]
    pd.DataFrame(guessed).assign(classifier="linear").to_csv(tmp_path / "captions.csv", index=False)
    ((table,),) = (part.tables for part in _figure_2_2(tmp_path))
    assert table.frame["measured"].tolist() == pytest.approx([0.45, 0.45])
    assert table.frame["chance"].tolist() == [0.25, 0.25]
    assert table.frame["p"].isna().all()


def test_whether_a_study_finds_what_was_put_in_is_read_off_its_numbers():
    from equipoise.recipes.studies.common import followed

    rows = pd.DataFrame({"model": ["biased", "fair"], "axis": "skin_tone", "low": [0.5, 0.4], "p": [0.001, 0.002]})
    assert followed(rows) == ["Gaps follow what was put in: biased on skin tone and fair on skin tone."]
    assert "Not shown to follow it: fair on" in followed(rows.assign(p=[0.001, 0.06]))[0]
    assert followed(rows.assign(p=None)) == followed(pd.DataFrame()) == []


def test_tables_read_the_steps_that_are_done(tmp_path):
    """A share is part of a step's name, dot and all; a step that was begun and not ended has no mark."""
    from equipoise.recipes.contamination.tables import measured_models

    home = StudyHome(tmp_path, STUDIES.load("contamination").options(), print)
    for name in ("clip-fair-1-0.2", "clip-fair-0-1", "clip-biased-0-0.6", "captioner-fair-0-1"):
        home.step(name).mkdir(parents=True)
        (home.step(name) / "rows.csv").write_text("metric,value\nm,1.5\n", encoding="utf-8")
        if name != "clip-fair-0-1":
            (tmp_path / "steps" / f"{name}.json").write_text("{}", encoding="utf-8")
    assert home.done("clip-*") == ["clip-biased-0-0.6", "clip-fair-1-0.2"]
    clips = measured_models(home, "clip")
    assert clips[["arm", "seed", "alpha"]].values.tolist() == [["biased", 0, 0.6], ["fair", 1, 0.2]]
