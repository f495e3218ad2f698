"""An audit writes where it may and only what it finished; a setting that would not be read is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from equipoise.audit import compare, measure_again, run
from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.errors import InputError

CONFIG = {"draws": 20, "prompts": ["{A}"]}
TOO_MANY = 99999999999999999999


def world(n: int = 4):
    rng = np.random.default_rng(0)
    rows, vectors = [], {}
    for job in ("cook", "nurse"):
        vectors[f"A {job}"] = rng.normal(size=6)
        for number in range(n):
            for gender in ("female", "male"):
                name = f"{job}{number}{gender}"
                rows.append({"image_id": name, "set_id": f"{job}{number}", "subject": job, "gender": gender})
                vectors[name] = rng.normal(size=6)
    return rows, vectors


@pytest.fixture
def made(toy):
    return toy(*world(), axes=["gender"])


@pytest.fixture
def audit(made):
    return made.run("intersectional", "out", **CONFIG)


def contents(folder) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refused(*arguments: object) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert isinstance(done.exception, InputError), (done.output, done.exception)
    return str(done.exception)


# Nothing is written before everything is measured


@pytest.mark.parametrize("config", [{"k": [TOO_MANY]}, {"min_sets": 999}])
def test_a_refused_measurement_leaves_the_audit_as_it_was(audit, config):
    before = contents(audit.folder)
    with pytest.raises(InputError):
        measure_again(audit.folder, config=config, replace=True)
    assert contents(audit.folder) == before


def test_a_refused_audit_leaves_nothing(made):
    with pytest.raises(InputError):
        made.run("intersectional", "deep/er", **CONFIG, min_sets=999)
    assert not (made.home / "deep").exists()
    (made.home / "empty").mkdir()
    with pytest.raises(InputError):
        made.run("intersectional", "empty", **CONFIG, min_sets=999)
    assert list((made.home / "empty").iterdir()) == []


def test_a_refused_second_audit_leaves_the_first(made, audit):
    before = contents(audit.folder)
    with pytest.raises(InputError):
        made.run("intersectional", "out", **CONFIG, min_sets=999)
    assert contents(audit.folder) == before


class Seeing:
    """An encoder: what it made of the images cost time."""

    name, key, logit_scale = "seeing", "seeing", 100.0

    def encode_images(self, images):
        return np.ones((len(images), 3), dtype=np.float32)

    def encode_texts(self, texts):
        return np.ones((len(texts), 3), dtype=np.float32)


def test_what_an_encoder_spent_time_on_is_kept_and_told(tmp_path):
    from PIL import Image

    rows = [row | {"image": Image.new("RGB", (4, 4))} for row in world()[0]]
    Table.create(tmp_path / "t", rows, axes=["gender"])
    with pytest.raises(InputError, match=r"what the model gave is kept in .*_evidence"):
        run(Seeing(), "intersectional", tmp_path / "t", tmp_path / "out", config={"draws": 20, "min_sets": 999})
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["_evidence", "run.json"]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["state"] == "running"
    assert len(np.load(tmp_path / "out" / "_evidence" / "images.npy")) == len(rows)
    run(Seeing(), "intersectional", tmp_path / "t", tmp_path / "out", config={"draws": 20})


# Whose folder it is


def test_folders_that_are_not_an_audits_are_refused(made, audit, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for out, sentence in (
        (tmp_path / "notes", "holds files but no audit"),
        (tmp_path / "file", "file: is a file; give a folder"),
        (tmp_path / "file" / "in", "file: is a file; give a folder"),
        ("", "the folder for the results has no name"),
    ):
        with pytest.raises(InputError, match=sentence):
            run(made.model, "intersectional", made.table, out, config=CONFIG)
        with pytest.raises(InputError, match=sentence):
            measure_again(audit.folder, out=out)
        assert sentence in refused("measure", audit.folder, "-o", out)
    assert contents(tmp_path / "notes") == {"a.txt": b"mine"}


def test_the_folder_of_another_audit_is_refused_and_its_own_replaced(made, audit, toy):
    before = contents(audit.folder)
    with pytest.raises(InputError, match=r"holds the audit of another suite \(intersectional\)"):
        run(made.model, "faces", made.table, audit.folder, config=CONFIG)
    other = toy(*world(5), axes=["gender"])
    with pytest.raises(InputError, match="holds the audit of another table"):
        run(made.model, "intersectional", other.table, audit.folder, config=CONFIG)
    with pytest.raises(InputError, match="holds the audit of another model"):
        run(other.model, "intersectional", made.table, audit.folder, config=CONFIG)
    elsewhere = other.run("intersectional", "out", **CONFIG)
    with pytest.raises(InputError, match="holds the audit of another table"):
        measure_again(elsewhere.folder, out=audit.folder)
    assert contents(audit.folder) == before
    made.run("intersectional", "out", **CONFIG | {"draws": 30})
    assert json.loads((audit.folder / "run.json").read_text())["settings"]["draws"] == 30


def test_other_settings_replace_results_only_when_told_to(audit, tmp_path):
    assert "give another folder with -o, or --replace" in refused("measure", audit.folder, "--draws", "30")
    assert "or --replace" in refused("measure", audit.folder, "--draws", "30", "-o", audit.folder)
    assert "draws = 0: give a whole number of at least 2" in refused(
        "measure", audit.folder, "--draws", "0", "--replace"
    )
    measure_again(audit.folder, config={"draws": 20})
    done = CliRunner().invoke(app, ["measure", str(audit.folder), "--draws", "30", "--replace"])
    assert done.exit_code == 0, done.output
    assert json.loads((audit.folder / "run.json").read_text())["settings"]["draws"] == 30


# What would not be read


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--k", "3"], "does not read --k"),
        (["--axis", "gender"], "does not read --axis"),
        (["--variant", "berg"], "does not read --variant"),
        (["--prompt", "{A}"], "does not read --prompt"),
        (["--pair", "male", "female"], "does not read --pair"),
        (["--table", "t"], "asks no model; leave out --table"),
        (["mini"], "asks no model; leave out MODEL"),
        (["--seed", "-1"], "seed = -1: give a whole number of at least 0"),
    ],
)
def test_captions_alone_take_no_settings_of_images(tmp_path, flags, sentence):
    path = tmp_path / "c.json"
    texts = ["a man runs", "a woman runs"]
    path.write_text(json.dumps({"annotations": [{"image_id": i, "caption": t} for i, t in enumerate(texts)]}))
    command = ["audit", "-s", "captions-tfidf", "--captions", path, "-o", tmp_path / "o", *flags]
    assert sentence in refused(*command)
    assert not (tmp_path / "o").exists()


def test_an_audit_is_of_one_model(made):
    common = ["-s", "intersectional", "-t", made.table, "-o", made.home / "o"]
    both = ["--from-embeddings", "e", "--from-scores", "s"]
    assert refused("audit", *common, *both).startswith("--from-embeddings and --from-scores are given")
    assert refused("audit", "mini", *common, *both[:2]).startswith("MODEL and --from-embeddings are given")
    assert refused("audit", "mini", *common, *both[2:]).startswith("MODEL and --from-scores are given")
    assert "leave out --captions" in refused("audit", "mini", *common, "--captions", "c.json")


def test_texts_of_a_suite_that_has_none(made):
    assert "there is no suite named 'intersectionl'; did you mean" in refused("suites", "intersectionl")
    assert "there is no suite named 'nope'; known: binding" in refused("suites", "nope")
    assert "asks no texts" in refused("suites", "captions-tfidf", "--table", made.table)


@pytest.mark.parametrize("axis", ["image_id", "set_id", "subject"])
def test_columns_without_groups_are_no_axes(made, axis):
    with pytest.raises(
        InputError, match=f"the column '{axis}' holds no groups, so it is not an axis; its axes are: gender"
    ):
        made.run("intersectional", **CONFIG, axes=[axis])


def test_an_axis_has_not_hundreds_of_groups(toy):
    rows, vectors = world(101)
    rows = [row | {"code": row["image_id"]} for row in rows]
    with pytest.raises(InputError, match="the column 'code' has 404 groups, and an axis at most 200"):
        toy(rows, vectors, axes=["gender"], columns={"code": "string"}).run("intersectional", **CONFIG, axes=["code"])


def test_comparing_with_what_is_no_audit(audit, tmp_path):
    assert "nope: there is no audit here" in refused("compare", audit.folder, "nope")
    (tmp_path / "file").write_text("mine")
    same = ["compare", audit.folder, audit.folder, "-o"]
    assert "file: is a file" in refused(*same, tmp_path / "file")
    assert "holds an audit" in refused(*same, audit.folder)
    assert "has no name" in refused(*same, "")


def test_help_shows_no_default_that_is_not_one():
    for command in ("audit", "measure"):
        told = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
        assert "--draws" in told
        assert "default: 0]" not in told  # 0 stands for "not given" in settings; a share such as 0.05 is a default


# What is compared, and where intervals end


def test_sizes_of_gaps_are_compared(made, audit, picked):
    found = compare(audit.folder, audit.folder).frame()
    assert "counterfactual_gap_size" in set(found["metric"])
    import pandas as pd

    queries = pd.read_parquet(audit.folder / "queries.parquet")
    sizes = queries[queries["metric"] == "counterfactual_gap_size"]["value"]
    whole = picked(audit.results, metric="counterfactual_gap_size", group="female - male")
    assert sizes.mean() == pytest.approx(whole.value)


def test_no_interval_of_a_small_audit_leaves_its_range(audit):
    some = audit.results[audit.results["subject"].isna()].set_index("metric")
    for name in ("max_skew", "ndkl", "absent_groups", "exposure", "representation", "exposure_gap"):
        assert (some.loc[[name], "ci_low"].dropna().astype(float) >= 0).all(), name
    for name in ("exposure", "representation", "exposure_ratio"):
        assert (some.loc[[name], "ci_high"].dropna().astype(float) <= 1).all(), name
