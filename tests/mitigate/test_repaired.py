"""Remedies kept and loaded, behind models, on tables, and through the command line."""

import json

import numpy as np
import pandas as pd
import pytest

from equipoise import audit
from equipoise.data import Table
from equipoise.data.runs import find_run
from equipoise.errors import InputError
from equipoise.mitigate import REMEDIES, Projection, fit_on_table, held_out_layer, load, repaired, save
from equipoise.mitigate.fitting import fit_into_folder, held_out_subjects, seen_subjects
from equipoise.mitigate.keeping import fingerprint
from equipoise.models import Encoder, Precomputed
from equipoise.models import load as load_model

SUBJECTS = [f"job{i}" for i in range(8)]
GENDERS = ("female", "male")
D = 12


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Sets of images, and vectors of them in which every second job leans to women and the others to men."""
    home = tmp_path_factory.mktemp("mitigate")
    rng = np.random.default_rng(0)
    rows, vectors = [], {}
    gender = np.eye(D)[0]
    jobs = {job: rng.normal(size=D) * (np.arange(D) > 0) for job in SUBJECTS}
    for job in SUBJECTS:
        for number in range(10):
            base = jobs[job] + rng.normal(size=D) * (np.arange(D) > 0) * 0.5
            for sign, group in ((1, "female"), (-1, "male")):
                name = f"{job}-{number}-{group}"
                rows.append({"image_id": name, "set_id": f"{job}-{number}", "subject": job, "gender": group})
                vectors[name] = base + sign * gender + rng.normal(size=D) * 0.02
    Table.create(home / "sets", rows, axes=["gender"])
    texts = audit.texts_asked("intersectional", home / "sets", config={"prompts": ["A photo of {a}"]})
    for number, (job, text) in enumerate(zip(SUBJECTS, texts, strict=True)):
        assert job in text
        vectors[text] = jobs[job] + (1 if number % 2 else -1) * gender
    data = [{"id": name, "vector": vector, "model": "toy"} for name, vector in vectors.items()]
    Table.create(home / "vectors", data, kind="embeddings", dim=D)
    return home


@pytest.fixture(scope="module")
def model(home):
    return load_model(f"table:{home / 'vectors'}")


@pytest.fixture(scope="module")
def fitted(home, model):
    table = Table.open(home / "sets")
    return fit_on_table(Projection(), model, table, ["gender"], held_out=SUBJECTS[4:])


def test_a_remedy_comes_back_from_its_folder(fitted, tmp_path):
    place = save(fitted, tmp_path / "remedy")
    back = load(place)
    assert back.fitted_on == fitted.fitted_on
    assert np.array_equal(back.matrix, fitted.matrix)
    assert fingerprint(back) == fingerprint(fitted)
    assert sorted(path.name for path in place.iterdir()) == ["run.json", "state.safetensors"]
    first = (place / "state.safetensors").read_bytes()
    save(back, place)
    assert (place / "state.safetensors").read_bytes() == first


def test_a_folder_of_before_safetensors_is_read(fitted, tmp_path):
    import hashlib
    import io

    place = save(fitted, tmp_path / "remedy")
    out = io.BytesIO()
    np.savez(out, directions=fitted.directions, matrix=fitted.matrix)
    (place / "state.safetensors").unlink()
    (place / "arrays.npz").write_bytes(out.getvalue())
    about = json.loads((place / "run.json").read_text())
    about["arrays"] = hashlib.sha256(out.getvalue()).hexdigest()
    del about["state_hash"], about["settings"]["share"], about["fitted_on"]["learnt_from"]
    (place / "run.json").write_text(json.dumps(about))
    back = load(place)
    assert np.array_equal(back.matrix, fitted.matrix)
    assert back.fitted_on == fitted.fitted_on


def test_what_it_was_fitted_on_is_kept(fitted, home, model):
    about = fitted.fitted_on
    assert about.subjects == tuple(SUBJECTS[:4])
    assert (about.model, about.key) == (model.name, model.key)
    assert about.table == Table.open(home / "sets").fingerprint
    assert (about.n, about.n_sets) == (80, 40)


def test_a_damaged_or_dangerous_folder_is_refused(fitted, tmp_path):
    def refused(folder, match):
        with pytest.raises(InputError, match=match):
            load(folder)

    refused(tmp_path / "none", "no remedy here")
    place = save(fitted, tmp_path / "remedy")
    arrays, note = place / "state.safetensors", place / "run.json"
    good, told = arrays.read_bytes(), note.read_text()
    arrays.write_bytes(good[:-9])
    refused(place, "its hash differs")
    arrays.unlink()
    refused(place, "missing")
    from hashlib import sha256

    old = place / "arrays.npz"
    with old.open("wb") as file:
        np.savez(file, matrix=np.array([{"a": print}], dtype=object))
    before = {name: value for name, value in json.loads(told).items() if name != "state_hash"}
    note.write_text(json.dumps(before | {"arrays": sha256(old.read_bytes()).hexdigest()}))
    refused(place, "damaged")  # a pickle inside is never opened
    old.unlink()
    arrays.write_bytes(b"not safetensors")
    note.write_text(json.dumps(json.loads(told) | {"state_hash": sha256(arrays.read_bytes()).hexdigest()}))
    refused(place, "damaged")
    arrays.write_bytes(good)
    note.write_text(told[:40])
    refused(place, "run.json: damaged")
    note.write_text("[]")
    refused(place, "run.json: damaged")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    with pytest.raises(InputError, match="holds files but no remedy"):
        save(fitted, tmp_path / "other")
    with pytest.raises(InputError, match="not fitted"):
        save(Projection(), tmp_path / "new")


def test_the_repaired_model_audits_like_any_other(home, model, fitted):
    table = Table.open(home / "sets")
    layer = home / "apart"
    held_out_layer(table, SUBJECTS[4:], layer)
    apart = Table.open(home / "sets", layers=[layer])
    settings = {"prompts": ["A photo of {a}"], "draws": 200, "k": [10]}
    better = repaired(model, fitted)
    assert isinstance(better, Precomputed)
    assert better.name.endswith("+ projection")
    assert better.key != model.key
    found = {}
    for name, one in (("before", model), ("after", better)):
        rows = audit.run(one, "intersectional", apart, config=settings).results
        whole = rows[rows["subject"].isna() & (rows["axis"] == "gender")].set_index("metric")
        assert set(rows["subject"].dropna()) == set(SUBJECTS[4:])
        found[name] = whole.loc["max_skew"], whole.loc["counterfactual_gap_size"]
    (skew, gap), (skew_after, gap_after) = found["before"], found["after"]
    assert skew["value"] > 0.6
    assert skew["p_value"] < 0.01
    assert skew_after["p_value"] > 0.05
    assert gap_after["value"] < 0.05 * gap["value"]


def test_only_what_was_asked_for_is_changed(home, model, fitted):
    ids = Table.open(home / "sets").to_pandas(["image_id"])["image_id"].tolist()[:3]
    text = audit.texts_asked("intersectional", home / "sets", config={"prompts": ["A photo of {a}"]})[:2]
    for changes, images, texts in (("both", True, True), ("images", True, False), ("texts", False, True)):
        one = repaired(model, fitted, changes=changes)
        assert np.array_equal(one.image_vectors(ids), model.image_vectors(ids)) != images
        assert np.array_equal(one.text_vectors(text), model.text_vectors(text)) != texts
    with pytest.raises(InputError, match="kind of vectors"):
        repaired(model, fitted, changes="image")


def test_vectors_pass_in_batches_through_the_remedy(home, model, fitted, monkeypatch):
    ids = Table.open(home / "sets").to_pandas(["image_id"])["image_id"].tolist()[::-1]

    class InOneGo:
        name, key = model.name, model.key
        image_vectors, text_vectors = model.image_vectors, model.text_vectors

    monkeypatch.setattr("equipoise.mitigate.wrapping._BATCH", 50)
    for one, n_batches in ((model, None), (InOneGo(), 4)):
        for changes in ("both", "texts"):
            better = repaired(one, fitted, changes=changes)
            batches = list(better.image_batches(ids))
            assert n_batches is None or len(batches) == n_batches
            joined = np.empty((len(ids), D), dtype=np.float32)
            for at, vectors in batches:
                joined[at] = vectors
            np.testing.assert_allclose(joined, better.image_vectors(ids), atol=1e-6)


def test_the_audit_of_a_repaired_model_says_what_the_remedy_has_seen(home, model, fitted, tmp_path):
    settings = {"prompts": ["A photo of {a}"], "draws": 20, "k": [10]}
    for name, one in (("after", repaired(model, fitted)), ("before", model)):
        audit.run(one, "intersectional", home / "sets", tmp_path / name, config=settings)
    after, before = (json.loads((tmp_path / name / "run.json").read_text())["of"] for name in ("after", "before"))
    assert after["fitted_on"]["subjects"] == list(fitted.fitted_on.subjects) == SUBJECTS[:4]
    assert "fitted_on" not in before
    again = audit.measure_again(tmp_path / "after", config={"k": [5]}, out=tmp_path / "again").folder
    assert json.loads((again / "run.json").read_text())["of"]["fitted_on"] == after["fitted_on"]


def test_the_audit_of_another_remedy_is_not_replaced(home, model, fitted, tmp_path):
    other = fit_on_table(Projection(), model, Table.open(home / "sets"), ["gender"], held_out=SUBJECTS[:4])
    settings = {"prompts": ["A photo of {a}"], "draws": 20, "k": [10]}
    one, two = repaired(model, fitted), repaired(model, other)
    assert one.name == two.name
    audit.run(one, "intersectional", home / "sets", tmp_path / "a", config=settings)
    audit.run(one, "intersectional", home / "sets", tmp_path / "a", config=settings)
    with pytest.raises(InputError, match="holds the audit of another remedy; give another folder"):
        audit.run(two, "intersectional", home / "sets", tmp_path / "a", config=settings)
    audit.measure_again(tmp_path / "a", config={"k": [5]}, out=tmp_path / "b")


def test_sets_numbered_anew_in_each_subject_are_told_apart(home, model, fitted, tmp_path):
    rows = Table.open(home / "sets").to_pandas(["image_id", "set_id", "subject", "gender"]).to_dict("records")
    rows = [{**row, "set_id": row["set_id"].split("-")[1]} for row in rows]
    table = Table.create(tmp_path / "t", rows, axes=["gender"])
    again = fit_on_table(Projection(), model, table, ["gender"], held_out=SUBJECTS[4:])
    assert again.fitted_on.n_sets == 40
    np.testing.assert_allclose(again.matrix, fitted.matrix)


def test_sets_may_run_across_subjects_or_have_none(home, model, fitted, tmp_path):
    rows = Table.open(home / "sets").to_pandas(["image_id", "set_id", "subject", "gender"]).to_dict("records")
    rows = [row for row in rows if row["subject"] in SUBJECTS[:4]]
    across = [{**row, "subject": f"{row['gender']} {row['subject']}"} for row in rows]
    none = [{**row, "subject": row["subject"] if row["subject"] == "job0" else None} for row in rows]
    for name, some in (("across", across), ("none", none)):
        again = fit_on_table(Projection(), model, Table.create(tmp_path / name, some, axes=["gender"]), ["gender"])
        assert again.fitted_on.n_sets == 40
        np.testing.assert_allclose(again.matrix, fitted.matrix)


class Toy:
    name, key, logit_scale = "toy", "toy-1", 10.0

    def encode_images(self, images):
        return np.stack([np.asarray(image.resize((2, 2)), dtype=np.float32).reshape(-1)[:D] + 1 for image in images])

    def encode_texts(self, texts):
        rng = [np.random.default_rng(len(text)) for text in texts]
        return np.stack([one.normal(size=D) for one in rng]).astype(np.float32)


def test_an_encoder_of_pictures_is_fitted_and_stays_an_encoder(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    rows = []
    for number in range(6):
        base = rng.integers(0, 120, 12)
        for shift, group in ((0, "female"), (80, "male")):
            picture = Image.fromarray((base + np.array([shift, *[0] * 11])).reshape(2, 2, 3).astype(np.uint8))
            name = f"{number}-{group}"
            rows.append({"image": picture, "image_id": name, "set_id": str(number), "subject": f"s{number % 3}"})
            rows[-1]["gender"] = group
    table = Table.create(tmp_path / "t", rows, axes=["gender"])
    remedy = fit_on_table(Projection(), Toy(), table, ["gender"], held_out=["s2"])
    assert remedy.fitted_on.n == 8
    better = repaired(Toy(), remedy)
    assert isinstance(better, Encoder)
    pictures = [row["image"] for row in rows[:2]]
    a, b = better.encode_images(pictures)
    assert np.linalg.norm(a - b) < 0.25 * np.linalg.norm(np.diff(Toy().encode_images(pictures), axis=0)) / 200
    assert np.allclose(np.linalg.norm(better.encode_texts(["x", "yy"]), axis=1), 1, atol=1e-6)


def test_rows_of_the_split_test_teach_nothing(home, model, tmp_path):
    rows = Table.open(home / "sets").to_pandas(["image_id", "set_id", "subject", "gender"]).to_dict("records")
    dealt = [{**row, "split": "Test" if row["set_id"].endswith(("-8", "-9")) else "train"} for row in rows]
    table = Table.create(tmp_path / "dealt", dealt, axes=["gender"])
    fewer = Table.create(tmp_path / "fewer", [row for row in dealt if row["split"] == "train"], axes=["gender"])
    remedy, other = (fit_on_table(Projection(), model, some, ["gender"], held_out=["job5"]) for some in (table, fewer))
    assert np.array_equal(remedy.matrix, other.matrix)
    assert remedy.fitted_on.n == other.fitted_on.n == 7 * 8 * 2
    assert remedy.fitted_on.notes == ("28 images of the split test are not used",)
    assert other.fitted_on.notes == ()
    from_texts = fit_on_table(Projection("prompts"), Toy(), table, ["gender"], held_out=["job5"])
    assert from_texts.fitted_on.notes == remedy.fitted_on.notes
    none = Table.create(tmp_path / "none", [{**row, "split": "test"} for row in rows], axes=["gender"])
    with pytest.raises(InputError, match="all images left are of the split test"):
        fit_on_table(Projection(), model, none, ["gender"])
    kept, _ = fit_into_folder(Projection(), model, table, ["gender"], tmp_path / "remedy", share=0.0)
    assert load(tmp_path / "remedy").fitted_on == kept.fitted_on
    assert find_run(tmp_path / "remedy").of["without"] == "test"


def test_a_remedy_of_another_model_is_refused(fitted):
    with pytest.raises(InputError, match="fit it on this model"):
        repaired(Toy(), fitted)
    with pytest.raises(InputError, match="not fitted"):
        repaired(Toy(), Projection())


def test_subjects_are_kept_apart_whole_and_by_seed(home):
    table = Table.open(home / "sets")
    apart = held_out_subjects(table, 0.5, seed=3)
    assert len(apart) == 4
    assert apart == held_out_subjects(table, 0.5, seed=3)
    assert any(held_out_subjects(table, 0.5, seed=s) != apart for s in range(5))
    with pytest.raises(InputError, match="share=1"):
        held_out_subjects(table, 1)


def test_wrong_subjects_and_axes_are_refused(home, model):
    table = Table.open(home / "sets")
    with pytest.raises(InputError, match="no subject in"):
        fit_on_table(Projection(), model, table, ["gender"], held_out=["job9x"])
    with pytest.raises(InputError, match="all subjects are held out"):
        fit_on_table(Projection(), model, table, ["gender"], held_out=SUBJECTS)
    with pytest.raises(InputError, match="no axis of"):
        fit_on_table(Projection(), model, table, ["gendr"])
    with pytest.raises(InputError, match="name the axes"):
        fit_on_table(Projection(), model, table, [])


def test_who_was_seen_is_told(home, fitted):
    table = Table.open(home / "sets")
    assert seen_subjects(fitted, table) == SUBJECTS[:4]
    layer = home / "apart2"
    held_out_layer(table, SUBJECTS[4:], layer)
    assert seen_subjects(fitted, Table.open(home / "sets", layers=[layer])) == []


def test_only_what_a_remedy_may_have_seen_is_said_to_be_fitted_on(tmp_path):
    rows = [{"image_id": name, "subject": name[0], "gender": "female"} for name in ("a1", "b1", "b2", "b3", "c1")]
    rows[2]["split"], rows[4]["subject"] = "test", None
    table = Table.create(tmp_path / "t", rows, axes=["gender"])
    sharp = pd.DataFrame({"image_id": [row["image_id"] for row in rows], "keep": [True, True, True, False, True]})
    table = table.add_layer("sharp", sharp, columns=["keep"])
    apart = held_out_layer(table, ["a"], tmp_path / "apart")
    for layers, reason in ((["sharp", apart], "sharp"), ([apart], "apart")):
        told = Table.open(table.path, layers=layers).to_pandas(["keep", "dropped_by"])
        assert told["keep"].tolist() == [True, False, False, False, False]
        assert told["dropped_by"].tolist()[1:] == ["fitted_on", "apart", reason, "apart"]


@pytest.mark.slow
def test_a_remedy_that_has_seen_its_subjects_is_marked_wherever_it_is_shown(home, model, fitted, tmp_path):
    """On the terminal, on the page, in a comparison, in a dossier; the tournament has a test of its own."""
    from equipoise.report.dossier.policy import example_policy
    from equipoise.report.dossier.writing import write_dossier

    config = {"prompts": ["A photo of {a}"], "k": [10], "draws": 50}
    table = Table.open(home / "sets")
    plain = audit.run(model, "intersectional", table, tmp_path / "plain", config=config)
    unfair = audit.run(repaired(model, fitted), "intersectional", table, tmp_path / "unfair", config=config)
    note = "the remedy has seen 4 of 8 subjects, and looks better on them than it is"
    assert note in unfair.notes
    assert note not in plain.notes
    said = "table:vectors + projection has learnt from 4 of the 8 subjects it is judged on here, which flatters it."
    assert said in unfair.verdict
    assert said in (tmp_path / "unfair" / "report.html").read_text(encoding="utf-8").split('id="verdict"')[1]
    assert "flatters" not in plain.verdict

    told = "vectors + projection has learnt from 4 of 8 subjects, which flatters it"
    both = audit.compare(tmp_path / "plain", tmp_path / "unfair", tmp_path / "both")
    assert [told in one for one in both.notes] == [True]
    assert all(told in row["notes"] for row in both.rows)
    from equipoise.report import verdict_of, write

    assert told in verdict_of([tmp_path / "both"]).text
    assert told in write([tmp_path / "both"], tmp_path / "both.html").read_text(encoding="utf-8")

    (tmp_path / "policy.toml").write_text(example_policy())
    dossier = write_dossier([tmp_path / "plain", tmp_path / "unfair"], tmp_path / "policy.toml", tmp_path / "dossier")
    assert [said in one["text"] for one in dossier["findings"]] == [False, True]
    assert said.removesuffix(".") in dossier["notes"]  # which `equipoise check` prints as well
    page = (tmp_path / "dossier" / "dossier.html").read_text(encoding="utf-8")
    assert said in page

    apart = held_out_layer(table, SUBJECTS[4:], tmp_path / "apart")
    fair = audit.run(
        repaired(model, fitted), "intersectional", table.with_layers([apart]), tmp_path / "fair", config=config
    )
    assert not any("has seen" in one for one in fair.notes)
    assert "flatters" not in fair.verdict


def test_the_catalogue_names_it():
    assert REMEDIES.load("projection") is Projection


@pytest.mark.slow
def test_the_command_fits_keeps_and_tells_what_to_do_next(home, tmp_path, monkeypatch, command_line):
    monkeypatch.chdir(tmp_path)
    run = command_line
    model, sets = f"table:{home / 'vectors'}", home / "sets"
    done = run("mitigate", "projection", model, "--table", sets, "--axis", "gender", "-o", "remedy")
    assert done.returncode == 0, done.stderr
    assert "projection fitted on 80 images in 40 sets of 4 subjects" in done.stdout
    next_lines = [line.strip() for line in done.stdout.splitlines() if line.startswith("  equipoise")]
    assert len(next_lines) == 3
    for line in next_lines:
        words = line.split()[1:]
        more = ["--prompt", "A photo of {a}", "--k", "10", "--draws", "100"] if words[0] == "audit" else []
        after = run(*words, *more)
        assert after.returncode == 0, after.stderr
        assert "has seen" not in after.stderr
    page = (tmp_path / "repair.html").read_text(encoding="utf-8")
    assert "The repair" in page
    words = run("mitigate", "projection", model, "-t", sets, "--axis", "gender", "-o", "w", "--variant", "prompts")
    assert words.returncode == 2
    assert "lacks 3 of 3 texts, for example 'a photo of a person'" in words.stderr
    assert not (tmp_path / "w").exists()
    again = run("mitigate", "projection", model, "--table", sets, "--axis", "gender", "-o", "remedy")
    assert (again.returncode, again.stdout) == (0, done.stdout)
    other = run("mitigate", "projection", model, "--table", sets, "--axis", "gender", "-o", "remedy", "--seed", "1")
    assert other.returncode == 2
    assert "holds another remedy; give another folder" in other.stderr
    unfair = run(
        "audit", model, "-s", "intersectional", "-t", sets, "--remedy", "remedy", "-o", "seen", *more, "--k", "10"
    )
    assert "the remedy has seen 4 of 8 subjects" in unfair.stderr


def test_images_without_a_subject_in_the_set_of_a_held_out_photograph_are_not_fitted_on(home, model, tmp_path):
    rows = list(Table.open(home / "sets").rows())
    for row in rows:
        if row["image_id"].endswith("-female"):  # its set runs on from its twin's subject
            row |= {"subject": None}
        row["set_id"] = row["image_id"].rsplit("-", 1)[0]
    table = Table.create(tmp_path / "halves", rows, axes=["gender"])
    remedy = fit_on_table(Projection(), model, table, ["gender"], held_out=SUBJECTS[4:])
    assert "40 images without a subject share a set or a source image with held-out subjects and are not used" in (
        remedy.fitted_on.notes
    )


def test_edits_of_held_out_photographs_are_not_fitted_on(home, model, tmp_path):
    """An edit has no subject of its own, but its source has."""
    rows = list(Table.open(home / "sets").rows())
    for row in rows:
        if row["image_id"].endswith("-female"):
            row |= {"source_id": row["image_id"].replace("-female", "-male"), "set_id": None, "subject": None}
        else:
            row |= {"set_id": None}
    table = Table.create(tmp_path / "edits", rows, axes=["gender"])
    remedy = fit_on_table(Projection(), model, table, ["gender"], held_out=SUBJECTS[4:])
    assert "40 images without a subject share a set or a source image with held-out subjects and are not used" in (
        remedy.fitted_on.notes
    )
    fitted_on = [row for row in rows if any(row["image_id"].startswith(f"{job}-") for job in SUBJECTS[:4])]
    alone = Table.create(tmp_path / "alone", fitted_on, axes=["gender"])
    same = fit_on_table(Projection(), model, alone, ["gender"])
    assert all(np.array_equal(value, same.state()[name]) for name, value in remedy.state().items())
    assert fit_on_table(Projection(), model, table, ["gender"]).fitted_on.notes == ()
