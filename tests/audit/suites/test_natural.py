"""The suite ``natural``: every caption over its pool, against a brute force, with its nulls."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from tests.simulations.bands import within

from equipoise.audit import AuditConfig, compare
from equipoise.audit.evidence import Evidence
from equipoise.audit.suites import SUITES
from equipoise.audit.suites._caption_pool import RankedCaptions

DIM = 16


def pool(*, lean: float = 0.0, male: int = 60, female: int = 30, undefined: int = 30, seed: int = 0):
    """Images with two captions each; with ``lean`` every text leans to images perceived as male."""
    rng = np.random.default_rng(seed)
    look = rng.normal(size=DIM)
    rows, vectors = [], {}
    for number, gender in enumerate(["male"] * male + ["female"] * female + [None] * undefined):
        own = rng.normal(size=DIM)
        captions = [f"a man at place {number}", f"somebody doing {number}"]
        rows.append({"image_id": f"i{number}", "gender": gender, "captions": captions})
        vectors[f"i{number}"] = own + lean * look * (gender == "male")
        for text in (f"a person at place {number}", captions[1]):
            vectors[text] = own + rng.normal(size=DIM) + lean * look
    return rows, vectors


def brute_force(rows, vectors, k):
    """Bias@K over all images, MaxSkew@K over the labelled, and recall, query by query."""
    unit = {name: v / np.linalg.norm(v) for name, v in vectors.items()}
    images = np.stack([unit[row["image_id"]] for row in rows])
    gender = [row["gender"] for row in rows]
    labelled = [i for i, name in enumerate(gender) if name]
    share = {name: gender.count(name) / len(labelled) for name in ("male", "female")}
    bias, skew, hits = [], [], []
    for own, row in enumerate(rows):
        for text in (f"a person at place {own}", row["captions"][1]):
            order = np.argsort(-(images @ unit[text]))
            first = [gender[i] for i in order[:k]]
            men, women = first.count("male"), first.count("female")
            bias.append((men - women) / (men + women) if men + women else 0.0)
            best = [gender[i] for i in order if i in labelled][:k]
            skew.append(max(math.log(best.count(g) / len(best) / share[g]) for g in share if g in best))
            hits.append(own in order[:5])
    return np.mean(bias), np.mean(skew), np.mean(hits)


def test_it_is_the_brute_force(toy, picked):
    rows, vectors = pool(lean=0.4)
    found = toy(rows, vectors, axes=["gender"]).run("natural", k=(7,), draws=20, seeds=[]).results
    bias, skew, recall = brute_force(rows, vectors, 7)
    assert picked(found, metric="bias_at_k", k=7).value == pytest.approx(bias, abs=1e-9)
    assert picked(found, metric="max_skew", k=7).value == pytest.approx(skew, abs=1e-9)
    assert picked(found, metric="recall_at_k", k=5).value == pytest.approx(recall, abs=1e-9)
    assert picked(found, metric="recall_at_k", k=5).null_mean == pytest.approx(5 / 120)


def test_a_leaning_model_shows_in_both_pools_and_a_fair_one_in_none(toy, picked):
    biased = toy(*pool(lean=1.0), axes=["gender"]).run("natural", draws=200, seeds=[0, 1]).results
    fair = toy(*pool(), axes=["gender"]).run("natural", draws=200, seeds=[0, 1]).results
    for name in ("natural", "balanced"):
        row = picked(biased, metric="bias_at_k", pool=name, k=10)
        assert row.excess > 0.2
        assert row.p_value < 0.03
        assert abs(picked(fair, metric="bias_at_k", pool=name, k=10).excess) < 0.1
        assert picked(fair, metric="max_skew", pool=name, k=25).p_value > 0.02


def test_the_balanced_pool_has_both_groups_as_often(toy, picked):
    """In a natural pool Bias@K of chance is the pool's own lean; balanced, it is none."""
    found = toy(*pool(), axes=["gender"]).run("natural", draws=60, seeds=[0, 1, 2]).results
    assert picked(found, metric="bias_at_k", pool="natural", k=10).null_mean == pytest.approx(1 / 3, abs=0.05)
    assert picked(found, metric="bias_at_k", pool="balanced", k=10).null_mean == pytest.approx(0, abs=0.05)


def test_more_groups_have_no_bias_at_k_unless_two_are_named(toy, picked):
    rows, vectors = pool()
    for row in rows[:20]:
        row["gender"] = "nonbinary"
    run = toy(rows, vectors, axes=["gender"]).run
    found = run("natural", draws=10, seeds=[])
    assert "bias_at_k" not in set(found.results["metric"])
    assert any("no Bias@K" in text for text in found.notes)
    named = run("natural", draws=10, seeds=[], pair=("male", "female")).results
    assert picked(named, metric="bias_at_k", k=5).n == 240


def test_draws_are_as_many_as_asked_and_intervals_as_wide_as_chance_spreads(toy, picked):
    found = toy(*pool(lean=6.0), axes=["gender"]).run("natural", k=(5,), draws=999, seeds=[0, 1, 2]).results
    for name in ("natural", "balanced"):
        row = picked(found, metric="bias_at_k", pool=name, k=5)
        assert row.p_value == pytest.approx(2 / 1000, rel=0.01)
        assert row.ci_high - row.ci_low >= 1.9 * row.null_sd
    natural, balanced = (picked(found, metric="max_skew", pool=p, k=5).null_sd for p in ("natural", "balanced"))
    assert balanced > 0.4 * natural, "pools of several seeds share their images"


def test_two_audits_are_paired_by_caption_whatever_the_order_of_the_rows(toy, picked):
    rows, vectors = pool(lean=0.5)
    first = toy(rows, vectors, axes=["gender"]).run("natural", "a", k=(7,), draws=50, seeds=[])
    again = toy(rows[::-1], vectors, axes=["gender"]).run("natural", "b", k=(7,), draws=50, seeds=[])
    same = compare(first.folder, again.folder).frame()
    assert (same["value"] == 0).all()
    assert (same[["ci_low", "ci_high"]].fillna(0) == 0).all(axis=None)
    blind = toy(rows, pool(seed=1)[1], axes=["gender"]).run("natural", "c", k=(7,), draws=50, seeds=[])
    row = picked(compare(first.folder, blind.folder).frame(), metric="bias_at_k")
    values = [picked(a.results, metric="bias_at_k", k=7).value for a in (first, blind)]
    assert row.value == pytest.approx(values[0] - values[1])
    assert "labels shuffled alike for both" in row.notes
    assert "240 queries from 120 independent sources" in row.notes


@pytest.mark.slow
def test_a_blind_model_is_not_called_biased_in_the_balanced_pool():
    """Seeds share most of their images, so that their mean is hardly less a matter of luck than one of them."""
    alarms, runs = {"natural": 0, "balanced": 0}, 200
    settings = AuditConfig(axes=("gender",), k=(5,), draws=199, lexicon="none")
    for number in range(runs):
        rng = np.random.default_rng([11, number])
        gender = rng.permutation(np.array(["male"] * 70 + ["female"] * 30, dtype=object))
        frame = pd.DataFrame({"image_id": [f"i{i}" for i in range(100)], "caption": [f"x {i}" for i in range(100)]})
        frame = frame.assign(gender=gender)
        frame.attrs["axes"] = ["gender"]
        images, texts = rng.normal(size=(100, 8)), rng.normal(size=(100, 8)) + 0.7  # captions point one way
        unit = [(v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.float32) for v in (images, texts)]
        evidence = Evidence(frame, frame["caption"].tolist(), model="m", image_vectors=unit[0], text_vectors=unit[1])
        for row in SUITES.load("natural").measure(evidence, settings).rows:
            if row["metric"] == "bias_at_k":
                alarms[row["pool"]] += row["p_value"] <= 0.05
    assert within(alarms["natural"] / runs, 0.03, 0.07, runs)
    assert within(alarms["balanced"] / runs, 0.01, 0.07, runs), "a little too few: each pool counts as the only one"


def test_a_pool_no_larger_than_k_shows_nothing_and_has_no_row(toy, picked):
    """All labelled images are retrieved whatever the model does: a skew of 0 would pass for parity."""
    rows, vectors = pool(male=30, female=20, undefined=40)
    audit = toy(rows, vectors, axes=["gender"]).run("natural", draws=20, seeds=[0, 1])
    skews = audit.results[audit.results["metric"] == "max_skew"]
    assert set(zip(skews["pool"], skews["k"], strict=True)) == {("natural", 25), ("balanced", 25)}
    assert [note for note in audit.notes if "left out" in note] == [
        f"{name}, K = 100: max_skew left out, no query can show anything: no pool has more than K images with a group "
        f"(the largest has {n})"
        for name, n in (("natural", 50), ("balanced", 40))
    ]
    assert "over 6 tests" in picked(audit.results, metric="max_skew", k=25, pool="natural").notes


def test_recall_has_an_interval_inside_its_range(toy, picked):
    rows, vectors = pool(male=12, female=12, undefined=0)
    vectors = {name: v if name.startswith("i") else -v for name, v in vectors.items()}  # nothing is found
    found = toy(rows, vectors, axes=["gender"]).run("natural", draws=9, seeds=[], k=[5]).results
    recall = picked(found, metric="recall_at_k", k=1)
    assert recall.value == recall.ci_low == 0 < recall.ci_high < 0.5
    assert recall.null_mean == pytest.approx(1 / 24)


class Relabelled(RankedCaptions):
    """Gives the labels that it would be measured with."""

    def values(self, labels):
        return labels


def test_chance_moves_labels_inside_sets_or_with_them():
    nothing = np.zeros((0, 1), dtype=np.int64)
    sets = np.repeat(np.arange(6), 2)
    people, twins = np.repeat([0, 0, 0, 1, 1, 1], 2), np.tile([0, 1], 6)

    def draws(labels, cells):
        given = nothing, nothing, np.arange(12), nothing[:, 0], labels.astype(np.int32)
        return np.array(list(Relabelled(*given, sets=sets, cells=cells).null(200, 0)))

    whole = draws(people, None)
    assert (whole[:, ::2] == whole[:, 1::2]).all()
    assert (whole.sum(axis=1) == 6).all()
    assert len(np.unique(whole, axis=0)) == 20
    inside = draws(twins, sets)
    assert (inside[:, ::2] + inside[:, 1::2] == 1).all()
    assert len(np.unique(inside, axis=0)) > 50


def test_images_of_a_person_count_as_one(toy, picked):
    rows, vectors = pool(male=24, female=24, undefined=0)
    with_people = [row | {"set_id": f"{row['gender']}-{place // 6}"} for place, row in enumerate(rows)]
    asked = {"draws": 30, "seeds": [], "k": [5]}
    people = toy(with_people, vectors, axes=["gender"]).run("natural", **asked).results
    images = toy(rows, vectors, axes=["gender"]).run("natural", **asked).results
    for metric in ("bias_at_k", "max_skew"):
        ours, theirs = (picked(found, metric=metric, k=5) for found in (people, images))
        assert ours.value == theirs.value
        assert "n counts 96 queries from 8 independent sources" in ours.notes
        assert "n counts 96 queries from 48 independent sources" in theirs.notes
