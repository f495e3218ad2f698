"""Remedies that look at texts: prompts from files, BendVLM's equal means, the neutraliser, and the image residual."""

import numpy as np
import pytest

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.mitigate import Bend, Neutraliser, Projection, Queries, Residual, fit_on_prompts, repaired
from equipoise.mitigate.conformance import PlantedVectors
from equipoise.mitigate.fitting import fit_into_folder
from equipoise.mitigate.prompts import default_prompts, named, names_group, read_prompts


def test_prompts_from_a_file(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("set,gender,text\n1,female,a woman\n1,male,a man\n1,,a person\n", encoding="utf-8")
    found = read_prompts(path, ["gender"])
    assert found.texts == ("a woman", "a man", "a person")
    assert found.groups == {"gender": ("female", "male", None)}
    for text, match in (
        ("set,text\n1,a\n", "no column 'gender'"),
        ("set,gender,text\n1,female,\n", "line 2: has no text"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=match):
            read_prompts(path, ["gender"])
    with pytest.raises(InputError, match="no such file"):
        read_prompts(tmp_path / "none.csv", ["gender"])


def test_prompts_take_out_the_span_of_those_that_name_groups():
    model = PlantedVectors()
    found = default_prompts({"gender": ["female", "male"]})
    remedy = fit_on_prompts(Projection("prompts"), model, found)
    assert remedy.fitted_on.n == 2  # the neutral one names nobody
    assert remedy.fitted_on.learnt_from == "texts"
    span = model.text_vectors(found.texts[1:])
    assert np.abs(remedy.transform(model.text_vectors(["a nurse"]), "text") @ span.T).max() < 1e-4
    two = default_prompts({"gender": ["female", "male"], "age": ["old", "young"]}, ["cook"])
    assert fit_on_prompts(Projection("equalised"), model, two).fitted_on.n == 8
    with pytest.raises(InputError, match="learns from images"):
        fit_on_prompts(Projection(), model, found)


def test_calibration_takes_its_span_from_people_and_its_pairs_from_subjects():
    model = PlantedVectors()
    groups = {"gender": ["female", "male"]}
    jobs = [f"job{i}" for i in range(6)]
    plain = fit_on_prompts(Projection("prompts"), model, default_prompts(groups))
    both = fit_on_prompts(Projection("calibrated"), model, default_prompts(groups, jobs, people_apart=True))
    np.testing.assert_allclose(np.abs(both.directions), np.abs(plain.directions), atol=1e-6)
    rows = {name: model.text_vectors([f"a photo of a {name} job{i}" for i in range(6)]) for name in ("female", "male")}

    def apart(remedy):
        return np.linalg.norm(remedy.transform(rows["female"], "text") - remedy.transform(rows["male"], "text"))

    assert apart(both) < 0.2 * apart(plain)


IN_THE_GUIDE = """set,gender,text
,female,a photo of a woman
,male,a photo of a man
1,female,a photo of a female nurse
1,male,a photo of a male nurse
"""


def test_prompts_of_a_file_span_with_or_without_a_set(tmp_path):
    path, model = tmp_path / "pairs.csv", PlantedVectors()
    path.write_text(IN_THE_GUIDE, encoding="utf-8")
    found = read_prompts(path, ["gender"])
    remedy = fit_on_prompts(Projection("prompts"), model, found)
    assert (remedy.fitted_on.n, remedy.fitted_on.n_left_out) == (4, 0)
    assert np.abs(remedy.directions @ model.text_vectors(found.texts[:2]).T).max() > 0.1
    assert np.abs(remedy.matrix @ model.text_vectors(found.texts).T).max() < 1e-5
    path.write_text("".join(IN_THE_GUIDE.splitlines(keepends=True)[:3]), encoding="utf-8")
    assert fit_on_prompts(Projection("prompts"), model, read_prompts(path, ["gender"])).fitted_on.n == 2


def test_a_group_corrected_in_a_file_of_prompts_makes_another_remedy(tmp_path):
    rows = [{"image_id": f"{job}-{g}", "subject": job, "gender": g} for job in ("cook", "nurse") for g in ("f", "m")]
    table = Table.create(tmp_path / "sets", rows, axes=["gender"])
    path, out = tmp_path / "pairs.csv", tmp_path / "remedy"

    def fitted(text, **more):
        path.write_text(text, encoding="utf-8")
        remedy, prompts = Projection("equalised"), read_prompts(path, ["gender"])
        return fit_into_folder(remedy, PlantedVectors(), table, ["gender"], out, prompts=prompts, **more)[0]

    wrong = "set,gender,text\n1,female,a nurse\n1,male,a female nurse\n1,male,a male nurse\n"
    right = wrong.replace("female,a nurse", ",a nurse").replace("male,a female", "female,a female")
    first = fitted(wrong)
    assert np.array_equal(fitted(wrong).matrix, first.matrix)
    with pytest.raises(InputError, match="holds another remedy"):
        fitted(right)
    assert not np.allclose(fitted(right, overwrite=True).matrix, first.matrix)


def test_a_named_group_stands_before_the_noun():
    assert named("a picture of an usher", "old") == "a picture of an old usher"
    assert not names_group("a photo of a nurse", {"gender": ("female", "male")})
    assert names_group("he is a nurse", {"gender": ("female", "male")})


def images_of(seed=0, n=200, d=12):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 2
    vectors = rng.normal(size=(n, d)) + np.outer(1 - 2 * codes, np.eye(d)[0])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), ["female" if c == 0 else "male" for c in codes]


def test_bend_is_the_nearest_query_with_equal_means():
    vectors, gender = images_of()
    remedy = Bend(nearest=20).fit(vectors, {"gender": gender})
    query = np.random.default_rng(1).normal(size=12)
    query /= np.linalg.norm(query)
    bent = remedy.transform([query], "text")[0].astype(float)
    means = []
    for group in ("female", "male"):
        mine = vectors[np.array(gender) == group]
        means.append(mine[np.argsort(-(mine @ query))[:20]].mean(axis=0))
    gap = means[0] - means[1]
    assert abs(bent @ gap) < 1e-6
    for seed in range(50):  # no other unit vector with equal means is nearer
        other = query + 0.3 * np.random.default_rng(seed).normal(size=12)
        other -= gap * (other @ gap) / (gap @ gap)
        assert other @ query / np.linalg.norm(other) <= bent @ query + 1e-6


def test_bend_has_references_of_rare_groups_on_every_axis():
    vectors, gender = images_of(n=400)
    age = ["old" if i in (5, 8) else "middle" if i % 3 else "young" for i in range(400)]
    remedy = Bend(nearest=5, references=20).fit(vectors, {"gender": gender, "age": age})
    state = remedy.state()
    assert [np.bincount(codes).min() for codes in state["codes"]] >= [20, 2]
    query = np.random.default_rng(1).normal(size=(1, 12))
    assert np.isfinite(remedy.transform(query, "text")).all()
    rare = state["codes"][1] == 1  # middle, old, young
    assert rare.sum() == 2
    older = {"vectors": state["vectors"][~rare], "codes": state["codes"][:, ~rare]}
    with pytest.raises(InputError, match="no reference image of age 'old'; fit it anew in another folder"):
        Bend().restore(older, remedy.fitted_on)


def test_bend_on_one_axis_draws_as_ever():
    vectors, gender = images_of(n=100)
    rng, kept = np.random.default_rng(3), np.zeros(100, dtype=bool)
    for group in ("female", "male"):
        kept[rng.choice(np.flatnonzero(np.array(gender) == group), 10, replace=False)] = True
    drawn = Bend(references=10, seed=3).fit(vectors, {"gender": gender}).state()["vectors"]
    np.testing.assert_allclose(drawn, vectors[kept], atol=1e-6)


def test_bend_uses_named_queries_and_leaves_alone_what_names_a_group():
    vectors, gender = images_of()
    remedy = Bend().fit(vectors, {"gender": gender})
    rows = np.random.default_rng(2).normal(size=(2, 12))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    texts = ["a photo of a nurse", "a photo of a female nurse"]
    named_vectors = np.random.default_rng(3).normal(size=(2, 2, 12))
    out = remedy.transform(rows, "text", Queries(texts, named_vectors))
    np.testing.assert_allclose(out[1], rows[1], atol=1e-6)
    assert not np.allclose(out[0], remedy.transform(rows, "text", Queries(texts))[0], atol=1e-3)
    assert remedy.naming("a photo of a nurse") == ["a photo of a female nurse", "a photo of a male nurse"]
    np.testing.assert_allclose(remedy.transform(rows, "image"), rows, atol=1e-6)


def test_a_repaired_encoder_gives_a_query_its_named_texts():
    class Words(PlantedVectors):
        logit_scale = 1.0

        def encode_texts(self, texts):
            self.asked |= set(texts)
            return super().text_vectors(texts)

        def encode_images(self, images):
            raise AssertionError

        image_vectors = text_vectors = property()

    model = Words()
    vectors, gender = images_of(d=24)
    better = repaired(model, Bend().fit(vectors, {"gender": gender}))
    better.encode_texts(["a photo of a nurse"])
    assert "a photo of a male nurse" in model.asked


@pytest.mark.slow
def test_the_residual_hides_the_group_and_moves_little():
    vectors, gender = images_of(n=600)
    remedy = Residual(steps=200).fit(vectors, {"gender": gender})
    after = remedy.transform(vectors)
    sign = np.where(np.array(gender) == "female", 1, -1)
    gap = lambda rows: np.linalg.norm(rows[sign > 0].mean(axis=0) - rows[sign < 0].mean(axis=0))  # noqa: E731
    assert gap(after) < 0.3 * gap(vectors)
    assert np.square(after - vectors).sum(axis=1).mean() < 1
    np.testing.assert_allclose(remedy.transform(vectors[:3], "text"), vectors[:3], atol=1e-6)


def test_the_neutraliser_equalises_neutral_texts_and_keeps_named_ones():
    model = PlantedVectors()
    found = default_prompts({"gender": ["female", "male"]}, [f"job{i}" for i in range(12)])
    remedy = fit_on_prompts(Neutraliser(steps=300), model, found)
    neutral, women, men = (model.text_vectors(found.texts[i::3]) for i in range(3))
    unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)  # noqa: E731

    def gaps(rows):
        return np.abs((unit(rows) * (unit(women) - unit(men))).sum(axis=1)).mean()

    assert gaps(remedy.transform(neutral, "text")) < 0.3 * gaps(neutral)
    moved = np.linalg.norm(remedy.transform(women, "text") - unit(women), axis=1).mean()
    assert moved < 0.1
    told = Queries(["a photo of a woman"])
    np.testing.assert_allclose(remedy.transform(women[:1], "text", told), unit(women[:1]), atol=1e-6)
    with pytest.raises(InputError, match="no set has a prompt that names nobody"):
        Neutraliser().fit(women[:2], {"gender": ["female", "male"]}, sets=["a", "a"])
