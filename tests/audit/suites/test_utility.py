"""The suite ``utility``: a better model has better numbers, by hand-counted values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig, compare, run
from equipoise.audit.asking import neutral_prompts
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import read_queries
from equipoise.audit.suites import SUITES
from equipoise.audit.suites.utility import PROMPTS
from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.measure.stats.shares import share_estimate

DIM = 16
CLASSES = ("cat", "dog", "owl")


def photos(blur: float, n: int = 40, seed: int = 0):
    rng = np.random.default_rng(seed)
    rows, vectors = [], {}
    for label in CLASSES:
        direction = rng.normal(size=DIM)
        vectors |= {t: direction + 0.1 * rng.normal(size=DIM) for t in neutral_prompts([label], PROMPTS)[0]}
        for number in range(n):
            name = f"{label}{number}"
            meaning = direction + rng.normal(size=DIM)
            rows.append({"image_id": name, "subject": label, "captions": [f"{name} a", f"{name} b"]})
            vectors[name] = meaning + blur * rng.normal(size=DIM)
            vectors |= {f"{name} {x}": meaning + 0.5 * rng.normal(size=DIM) for x in "ab"}
    return rows, vectors


def test_numbers_equal_counting_by_hand(toy, picked):
    rows, vectors = photos(1.0)
    found = toy(rows, vectors).run("utility").results
    unit = {name: v / np.linalg.norm(v) for name, v in vectors.items()}
    images = np.array([unit[row["image_id"]] for row in rows])
    prompts = neutral_prompts(CLASSES, PROMPTS)
    means = np.array([np.mean([unit[t] for t in some], axis=0) for some in prompts])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    right = [CLASSES[int(np.argmax(means @ image))] == row["subject"] for image, row in zip(images, rows, strict=True)]
    accuracy = picked(found, metric="zero_shot_accuracy")
    assert accuracy.value == pytest.approx(np.mean(right))
    captions = [(caption, place) for place, row in enumerate(rows) for caption in row["captions"]]
    texts = np.array([unit[caption] for caption, _ in captions])
    scores = texts @ images.T
    for k in (1, 5, 10):
        to_image = [place in np.argsort(-scores[q])[:k] for q, (_, place) in enumerate(captions)]
        to_text = [any(captions[c][1] == p for c in np.argsort(-scores[:, p])[:k]) for p in range(len(rows))]
        assert picked(found, metric="text_to_image_recall", k=k).value == pytest.approx(np.mean(to_image))
        assert picked(found, metric="image_to_text_recall", k=k).value == pytest.approx(np.mean(to_text))


def test_every_quality_has_interval_and_n_and_says_why_it_has_no_null(toy):
    found = toy(*photos(1.0)).run("utility").results
    assert len(found) == 7
    assert found["ci_low"].notna().all()
    assert (found["ci_low"] <= found["value"]).all()
    assert (found["value"] <= found["ci_high"]).all()
    assert found[["null_mean", "null_sd", "excess", "p_value"]].isna().all().all()
    assert found["notes"].str.startswith("no null: a quality, not a bias").all()
    assert found["n"].tolist() == [120, *[240] * 3, *[120] * 3]
    assert "blind guessing gives 0.3333 of 3 classes (subject)" in found["notes"].iloc[0]


def test_what_a_remedy_costs_shows_in_a_comparison(toy):
    before = toy(*photos(0.3)).run("utility", "before").folder
    after = toy(*photos(2.0)).run("utility", "after").folder
    found = compare(before, after).frame()
    assert len(found) == 7
    assert (found["value"] > 0.1).all()
    assert (found["p_value"] < 0.05).all()


def test_a_label_column_comes_before_the_subject(toy, picked):
    rows, vectors = photos(0.1, n=10)
    rows = [row | {"label": row["subject"], "subject": "animal"} for row in rows]
    found = toy(rows, vectors, columns={"label": "string"}).run("utility").results
    row = picked(found, metric="zero_shot_accuracy")
    assert row.value > 0.9
    assert "(label)" in row.notes


def test_classes_may_be_numbers(scored):
    frame = pd.DataFrame({"image_id": ["a", "b", "c"], "label": [0, 1, 1]})
    suite = SUITES.load("utility")
    found = suite.measure(scored(suite, frame, lambda row, text: str(row["label"]) in text), AuditConfig()).frame()
    assert found[["value", "n"]].to_numpy().tolist() == [[1.0, 3]]


def test_ties_share_their_credit_and_missing_classes_are_dropped(scored):
    frame = pd.DataFrame({"image_id": ["a", "b", "c"], "subject": ["cat", "dog", None]})
    suite = SUITES.load("utility")
    found = suite.measure(scored(suite, frame, lambda row, text: 1.0), AuditConfig()).frame()
    assert found["value"].tolist() == [0.5]
    assert found["n"].tolist() == [2]
    assert "dropped 1 (image without a class)" in found["notes"].iloc[0]


def test_images_of_one_set_are_not_independent():
    rng = np.random.default_rng(0)
    suite = SUITES.load("utility")
    frame = pd.DataFrame({"image_id": [f"i{i}" for i in range(200)], "subject": ["cat", "dog"] * 100})
    frame["set_id"] = [f"s{i // 20}" for i in range(200)]
    texts = suite.texts(frame, AuditConfig())
    known = np.repeat(rng.random(10) < 0.5, 20)
    right = np.array([[text.endswith(subject) for subject in frame["subject"]] for text in texts]) ^ ~known
    apart = Evidence(frame.drop(columns="set_id"), texts, model="m", scores=right.astype(float))
    together = Evidence(frame, texts, model="m", scores=right.astype(float))
    widths = []
    for evidence in (apart, together):
        row = suite.measure(evidence, AuditConfig()).frame().iloc[0]
        widths.append(row.ci_high - row.ci_low)
    assert widths[1] > 2 * widths[0]


def test_sets_of_one_name_and_two_subjects_are_two(scored):
    suite = SUITES.load("utility")
    rows = [("cat", "1"), ("cat", "1"), ("cat", "2"), ("dog", "1"), ("dog", "2"), ("dog", "2")]
    frame = pd.DataFrame(rows, columns=["subject", "set_id"]).assign(image_id=[*"abcdef"])
    found = suite.measure(scored(suite, frame, lambda row, text: 1.0), AuditConfig())
    clusters = found.query_frame()["cluster"].tolist()
    assert clusters == ["cat: 1", "cat: 1", "cat: 2", "dog: 1", "dog: 2", "dog: 2"]


def test_images_without_captions_ask_for_none(toy, picked):
    rows, vectors = photos(0.1, n=6)
    rows[0]["captions"] = None
    audit = toy(rows, vectors).run("utility")
    assert picked(audit.results, metric="image_to_text_recall", k=1).n == 17
    assert picked(audit.results, metric="text_to_image_recall", k=1).n == 34
    assert "1 images have no caption and ask for none" in audit.notes


def test_a_table_with_nothing_to_ask_is_refused(toy):
    rows, vectors = photos(0.1, n=2)
    bare = [{"image_id": row["image_id"]} for row in rows]
    with pytest.raises(InputError, match="needs captions, or a column 'label' or 'subject' with two classes or more"):
        toy(bare, vectors).run("utility")


@pytest.mark.slow
def test_two_models_that_differ_by_sets_are_compared_by_sets(tmp_path):
    """Ten images per set, each model right or wrong on a whole set by the toss of a coin: no difference in law."""
    rows = [
        {"image_id": f"{job}{n}-{i}", "set_id": f"{job}{n}", "subject": job}
        for job in ("cook", "nurse")
        for n in range(8)
        for i in range(10)
    ]
    Table.create(tmp_path / "t", rows)

    class Coin:
        def __init__(self, seed):
            self.name = self.key = f"coin{seed}"
            rng = np.random.default_rng(seed)
            self.right = {name: rng.random() < 0.5 for name in sorted({row["set_id"] for row in rows})}

        def image_vectors(self, ids):
            sides = [int(("nurse" in name) == self.right[name.split("-")[0]]) for name in ids]
            return np.eye(2, dtype=np.float32)[sides]

        def text_vectors(self, texts):
            return np.eye(2, dtype=np.float32)[[int("nurse" in text) for text in texts]]

    small = []
    for seed in range(10):
        folders = [tmp_path / f"{seed}{side}" for side in "ab"]
        for side, folder in enumerate(folders):
            run(Coin(2 * seed + side), "utility", tmp_path / "t", folder)
        small.append(compare(*folders).frame()["p_value"].iloc[0] < 0.05)
    assert sum(small) <= 2


def test_images_of_a_set_count_as_one(toy, picked):
    """Also where some images have no set: each of these stands for itself."""
    rows, vectors = photos(1.0)
    in_sets = [row | {"set_id": None if place % 40 < 8 else f"{place // 4}"} for place, row in enumerate(rows)]
    sets = [row["set_id"] or row["image_id"] for row in in_sets]
    alone, together = (toy(some, vectors).run("utility", k=[1]).results for some in (rows, in_sets))
    for metric in ("zero_shot_accuracy", "text_to_image_recall", "image_to_text_recall"):
        ours, theirs = picked(together, metric=metric), picked(alone, metric=metric)
        assert ours.value == theirs.value
        assert (ours.ci_low, ours.ci_high) != (theirs.ci_low, theirs.ci_high)
    kept = toy(in_sets, vectors).run("utility", "out", k=[1]).folder
    hits = read_queries(kept).query("metric == 'image_to_text_recall'")
    expected = share_estimate(hits["value"].to_numpy(), clusters=pd.factorize(np.array(sets))[0])
    assert picked(together, metric="image_to_text_recall").ci_low == pytest.approx(expected.ci_low)
    assert hits["cluster"].tolist() == sets
