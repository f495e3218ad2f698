"""Run, measure again, compare, from scores; and folders that something happened to."""

from __future__ import annotations

import errno
import json
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig, compare, measure_again, run
from equipoise.audit.evidence import Evidence
from equipoise.audit.suites import SUITES
from equipoise.data import Table, read_results
from equipoise.errors import InputError

DIM = 8
JOBS = ("cook", "nurse", "pilot")
PROMPTS = ("{A}",)


def world(bias: float = 0.0, seed: int = 0):
    rng = np.random.default_rng(seed)
    rows, vectors = [], {}
    for job in JOBS:
        direction = rng.normal(size=DIM)
        vectors["A " + job] = direction
        vectors["A photo of a " + job] = direction + 0.1
        for number in range(6):
            scene = direction + rng.normal(size=DIM)
            for gender in ("female", "male"):
                name = f"{job}{number}{gender}"
                rows.append({"image_id": name, "set_id": f"{job}{number}", "subject": job, "gender": gender})
                vectors[name] = scene + bias * (gender == "male") * direction + 0.1 * rng.normal(size=DIM)
    return rows, vectors


@pytest.fixture
def audited(toy):
    """A finished audit in a folder, and how to make another."""

    def make(bias: float = 0.0, out: str = "out", **config):
        settings = {"draws": 20, "prompts": list(PROMPTS)} | config
        return toy(*world(bias), axes=["gender"]).run("intersectional", out, **settings)

    return make


def same(a: pd.DataFrame, b: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(a.reset_index(drop=True), b.reset_index(drop=True), check_dtype=False)


def test_a_folder_holds_results_settings_queries_and_evidence(audited):
    audit = audited()
    names = {path.name for path in audit.folder.iterdir()}
    assert {"results.parquet", "results.json", "queries.parquet", "run.json", "_evidence"} <= names
    assert not [name for name in names if name.endswith(".tmp")]
    told = json.loads((audit.folder / "run.json").read_text())
    assert told["suite"] == "intersectional"
    assert told["settings"]["draws"] == 20
    assert told["of"]["model"] == audit.model
    read = read_results(audit.folder)
    assert read["value"].tolist() == pytest.approx(audit.results["value"].astype(float).tolist())
    assert len(json.loads((audit.folder / "results.json").read_text())["results"]) == len(read)


def test_with_and_without_a_folder_the_numbers_are_the_same(toy):
    made = toy(*world(0.3), axes=["gender"])
    config = {"draws": 20, "prompts": list(PROMPTS)}
    same(made.run("intersectional", "out", **config).results, made.run("intersectional", None, **config).results)


def test_measuring_again_gives_the_same_and_other_settings_give_others(audited, tmp_path):
    audit = audited(0.5)
    same(measure_again(audit.folder, out=tmp_path / "same").results, audit.results)
    other = measure_again(audit.folder, config={"k": [5], "variants": ["berg"]}, out=tmp_path / "other")
    some = other.results[other.results["metric"] == "max_skew"]
    assert set(some["k"]) == {5}
    assert set(some["variant"]) == {"berg"}
    assert json.loads((tmp_path / "other" / "run.json").read_text())["settings"]["k"] == [5]


def test_measuring_again_with_texts_the_model_never_read_is_refused(audited):
    with pytest.raises(InputError, match=r"the evidence has no 'A picture of a cook' .*run the audit again"):
        measure_again(audited().folder, config={"prompts": ["A picture of {a}"]}, replace=True)


def test_comparing_finds_the_more_biased_model(audited, toy):
    fair, biased = (audited(bias, out, draws=200).folder for bias, out in ((0.0, "fair"), (1.5, "biased")))
    found = compare(biased, fair).frame()
    row = found[(found["metric"] == "ndkl") & (found["axis"] == "gender")].iloc[0]
    assert row.value > 0
    assert row.n == len(JOBS)
    assert row.excess > 0
    assert row.p_value < 0.05
    back = compare(fair, biased).frame()
    np.testing.assert_allclose(back["value"].astype(float), -found["value"].astype(float))
    assert " - " in row.model


def test_comparing_an_audit_with_itself_gives_nothing(audited):
    folder = audited(0.5).folder
    found = compare(folder, folder).frame()
    assert (found["value"] == 0).all()
    assert (found["p_value"] == 1).all()


def test_comparing_audits_that_share_no_query_is_refused(audited, toy):
    rows, vectors = world()
    for row in rows:
        row["gender_2"] = row.pop("gender")
    other = toy(rows, vectors, axes=["gender_2"]).run("intersectional", "out", draws=20, prompts=list(PROMPTS))
    with pytest.raises(InputError, match="have no query in common; compare audits of the same suite and table"):
        compare(audited().folder, other.folder)


def test_scores_in_place_of_a_model(toy, tmp_path):
    rows, vectors = world(0.5)
    made = toy(rows, vectors, axes=["gender"])
    config = {"draws": 20, "prompts": list(PROMPTS)}
    by_vectors = made.run("intersectional", **config).results
    unit = {name: v / np.linalg.norm(v) for name, v in vectors.items()}
    pairs = [
        {"image_id": row["image_id"], "text_id": "A " + job, "score": float(unit[row["image_id"]] @ unit["A " + job])}
        for row in rows
        for job in JOBS
    ]
    Table.create(tmp_path / "scores", pairs, kind="scores")
    audit = run(None, "intersectional", made.table, tmp_path / "out", config=config, scores=tmp_path / "scores")
    assert audit.model == f"scores:{tmp_path / 'scores'}"
    np.testing.assert_allclose(audit.results["value"].astype(float), by_vectors["value"].astype(float), atol=1e-5)
    same(measure_again(tmp_path / "out", out=tmp_path / "again").results, audit.results)
    Table.create(tmp_path / "few", pairs[1:], kind="scores")
    with pytest.raises(InputError, match="1 of 108 scores are missing or not a number, for example text 'A cook' with"):
        run(None, "intersectional", made.table, config=config, scores=tmp_path / "few")
    with pytest.raises(InputError, match="vectors: holds embeddings, not scores"):
        run(None, "intersectional", made.table, config=config, scores=made.home / "vectors")
    with pytest.raises(InputError, match="an audit needs a model, or scores computed before"):
        run(None, "intersectional", made.table)


def test_scores_after_vectors_in_the_same_folder_leave_no_mixture(toy, tmp_path):
    rows, vectors = world()
    made = toy(rows, vectors, axes=["gender"])
    config = {"draws": 20, "prompts": list(PROMPTS)}
    first = made.run("intersectional", "out", **config)
    pairs = [
        {"image_id": row["image_id"], "text_id": "A " + job, "score": float(n % 7)}
        for n, row in enumerate(rows)
        for job in JOBS
    ]
    Table.create(tmp_path / "scores", pairs, kind="scores")
    scores = tmp_path / "scores"
    with pytest.raises(InputError, match="holds the audit of another model"):
        run(None, "intersectional", made.table, made.home / "out", config=config, scores=scores)
    same(measure_again(made.home / "out").results, first.results)
    by_scores = run(first.model, "intersectional", made.table, made.home / "out", config=config, scores=scores)
    same(measure_again(made.home / "out").results, by_scores.results)


def test_an_encoder_object_is_asked_in_batches(toy, tmp_path):
    from PIL import Image

    class Seeing:
        name, key, logit_scale = "seeing", "seeing", 100.0
        asked: ClassVar[list[int]] = []

        def encode_images(self, images):
            self.asked.append(len(images))
            return np.array([np.asarray(image, dtype=np.float32).mean(axis=(0, 1)) + 1 for image in images])

        def encode_texts(self, texts):
            return np.ones((len(texts), 3), dtype=np.float32)

    rows = []
    for number in range(70):
        image = Image.new("RGB", (4, 4), (number, 255 - number, 99))
        rows.append({"image_id": f"i{number}", "image": image, "subject": "cook", "gender": ("f", "m")[number % 2]})
    Table.create(tmp_path / "t", rows, axes=["gender"])
    audit = run(Seeing(), "intersectional", tmp_path / "t", tmp_path / "out", config={"draws": 20})
    assert Seeing.asked == [64, 6]
    vectors = np.load(tmp_path / "out" / "_evidence" / "images.npy")
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(vectors[69, 0] / vectors[69, 1], 70 / 187, rtol=1e-5)
    assert audit.model == "seeing"


def test_what_a_filter_dropped_is_not_asked(toy):
    rows, vectors = world()
    made = toy(rows, vectors, axes=["gender"])
    table = Table.open(made.table)
    keep = [{"image_id": row["image_id"], "keep": row["subject"] != "pilot", "dropped_by": None} for row in rows]
    kept = table.add_layer("filtered", keep, columns=["keep", "dropped_by"])
    audit = run(made.model, "intersectional", kept, config={"draws": 20, "prompts": list(PROMPTS)})
    assert set(audit.results["subject"].dropna()) == {"cook", "nurse"}


# Folders that something happened to


DAMAGES = [
    ("run.json", None, "no audit here (run.json is missing)"),
    ("run.json", b"{", "damaged"),
    ("run.json", b"[]", "damaged (it is not a JSON object)"),
    ("run.json", b"{}", "damaged (it names no kind or state)"),
    ("run.json", b'{"kind": "audit", "state": "finished"}', "'suite' is missing"),
    ("run.json", b'{"kind": "audit", "state": "running"}', "an audit was begun here and is not finished"),
    ("run.json", b'{"kind": "dataset", "state": "finished"}', "holds an audit of a dataset, not an audit"),
    ("_evidence/evidence.json", None, "evidence.json is missing); run the audit again"),
    ("_evidence/evidence.json", b"{}", "the evidence is damaged ('texts' is missing); run the audit again"),
    ("_evidence/evidence.json", b"\xff\xfe", "the evidence is damaged"),
    ("_evidence/frame.parquet", None, "the evidence is damaged"),
    ("_evidence/frame.parquet", 0.5, "the evidence is damaged"),
    ("_evidence/images.npy", None, "evidence is made of vectors or of scores, one of the two"),
    ("_evidence/images.npy", 0.5, "the evidence is damaged"),
    ("_evidence/images.npy", b"", "the evidence is damaged"),
    ("_evidence/texts.npy", None, "no vectors of texts; run the audit again with the model"),
    ("_evidence/texts.npy", 0.9, "the evidence is damaged"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGES)
def test_a_damaged_folder_is_told(audited, name, damage, message):
    folder = audited().folder
    path = folder / name
    if damage is None:
        path.unlink()
    else:
        whole = path.read_bytes()
        path.write_bytes(damage if isinstance(damage, bytes) else whole[: int(len(whole) * damage)])
    with pytest.raises(InputError) as error:
        measure_again(folder)
    assert message in str(error.value)
    assert str(folder) in str(error.value) or "run the audit again" in str(error.value)


def test_damaged_queries_are_told(audited, tmp_path):
    good, bad = audited().folder, audited().folder
    whole = (bad / "queries.parquet").read_bytes()
    (bad / "queries.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"queries\.parquet: cannot be read .* measure the audit again"):
        compare(good, bad)
    pd.DataFrame({"metric": ["x"]}).to_parquet(bad / "queries.parquet")
    with pytest.raises(InputError, match="the column 'variant' is missing; measure the audit again"):
        compare(good, bad)
    (bad / "queries.parquet").unlink()
    with pytest.raises(InputError, match="the values of single queries are missing"):
        compare(good, bad)
    measure_again(bad)
    assert (compare(good, bad).frame()["value"] == 0).all()
    with pytest.raises(InputError, match="nowhere"):
        compare(good, tmp_path / "nowhere")


def test_labels_of_the_wrong_length_are_told(audited):
    folder = audited().folder
    path = folder / "_evidence" / "frame.parquet"
    frame = pd.read_parquet(path)
    frame.iloc[:-1].to_parquet(path)
    with pytest.raises(
        InputError, match="there are labels of 35 images and vectors of shape \\(36, 8\\); give one vector"
    ):
        measure_again(folder)


@pytest.mark.parametrize(("number", "fails"), [(errno.ENOSPC, True), (errno.EOPNOTSUPP, False)])
def test_a_disk_without_room_is_told_and_a_simple_one_is_used(toy, monkeypatch, number, fails):
    def refuse(*arguments):
        raise OSError(number, "no")

    monkeypatch.setattr("os.posix_fallocate", refuse, raising=False)
    made = toy(*world(), axes=["gender"])
    if fails:
        with pytest.raises(InputError, match=r"_evidence: no room for vectors of 0\.0 GB; make room there"):
            made.run("intersectional", "out", draws=20, prompts=list(PROMPTS))
        assert not list((made.home / "out").rglob("*.npy*"))
    else:
        assert len(made.run("intersectional", "out", draws=20, prompts=list(PROMPTS)).results)


def test_evidence_refuses_what_does_not_fit():
    frame = pd.DataFrame({"image_id": ["a", "b"]})
    two, three = np.ones((2, 3)), np.ones((3, 3))
    with pytest.raises(InputError, match="labels of 2 images and vectors of shape"):
        Evidence(frame, [], model="m", image_vectors=three)
    with pytest.raises(InputError, match="1 texts and vectors of shape"):
        Evidence(frame, ["x"], model="m", image_vectors=two, text_vectors=three)
    with pytest.raises(
        InputError, match="images have 3 numbers and those of texts 4; both must come from the same model"
    ):
        Evidence(frame, ["x"], model="m", image_vectors=two, text_vectors=np.ones((1, 4)))
    with pytest.raises(InputError, match=r"the scores have shape .* for 1 texts and 2 labelled images"):
        Evidence(frame, ["x"], model="m", scores=three)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"k": [0]}, "k = 0: give whole numbers of at least 1"),
        ({"k": [2.5]}, "k = 2.5: give whole numbers"),
        ({"k": 5}, "k = 5: give a list"),
        ({"axes": "gender"}, "axes = 'gender': give a list"),
        ({"draws": 1}, "draws = 1: give a whole number of at least 2"),
        ({"seed": -1}, "seed = -1: give a whole number of at least 0"),
        ({"seeds": [0, -3]}, "seeds = -3: give whole numbers of at least 0"),
        ({"seeds": ["x"]}, "seeds = 'x': give whole numbers of at least 0"),
        ({"level": 95}, "level = 95: give a number between 0 and 1"),
        ({"variants": ["bergs"]}, "there is no variant named 'bergs'; did you mean 'berg'"),
        ({"prompt_pool": "mean"}, "there is no prompt pool named 'mean'"),
        ({"pair": ["male"]}, "pair = male: give two groups"),
        ({"kk": [1]}, "there is no audit setting named 'kk'"),
        ({"prompts": ["A photo"]}, "the prompt 'A photo' has no {} where the subject goes"),
    ],
)
def test_settings_that_cannot_be_are_refused(toy, setting, message):
    with pytest.raises(InputError) as error:
        toy(*world(), axes=["gender"]).run("intersectional", **setting)
    assert message in str(error.value)


def test_settings_come_from_a_file(tmp_path):
    (tmp_path / "a.toml").write_text('axes = ["gender"]\nk = [5]\nlevel = 0.9\n')
    settings = AuditConfig(draws=77).having_toml(tmp_path / "a.toml")
    assert (settings.axes, settings.k, settings.level, settings.draws) == (("gender",), (5,), 0.9, 77)
    (tmp_path / "a.toml").write_text("k = ")
    with pytest.raises(InputError, match="not valid TOML"):
        AuditConfig().having_toml(tmp_path / "a.toml")
    with pytest.raises(InputError, match="no such file"):
        AuditConfig().having_toml(tmp_path / "b.toml")


def test_every_suite_is_described():
    for entry in SUITES:
        suite = entry.load()
        assert suite.name == entry.name
        assert suite.question.endswith("?")
        assert suite.citation
        assert "image_id" in suite.columns
