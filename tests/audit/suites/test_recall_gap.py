"""The suite ``recall-gap``: images of a group that the model knows less well are found less often."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.audit import compare
from equipoise.errors import InputError
from equipoise.measure.notes import independent

DIM = 16


def photos(noise: dict[str | None, float], n: int = 80, seed: int = 0):
    """``n`` images per group, two captions each; ``noise`` blurs the images of a group."""
    rng = np.random.default_rng(seed)
    rows, vectors = [], {}
    for group, blur in noise.items():
        for number in range(n):
            name = f"{group}-{number}"
            meaning = rng.normal(size=DIM)
            captions = [f"{name} seen", f"{name} told"]
            rows.append({"image_id": name, "race": group, "captions": captions})
            vectors[name] = meaning + blur * rng.normal(size=DIM)
            vectors |= {caption: meaning + 0.3 * rng.normal(size=DIM) for caption in captions}
    return rows, vectors


def test_groups_are_ordered_by_how_well_they_are_known(toy, picked):
    found = toy(*photos({"A": 0.9, "B": 1.5, "C": 2.5}), axes=["race"]).run("recall-gap", draws=300).results
    for k in (1, 5, 10):
        values = [picked(found, metric="recall_at_k", group=group, k=k) for group in "ABC"]
        assert values[0].value > values[1].value > values[2].value
        for row in values:
            assert row.ci_low < row.value < row.ci_high
            assert row.n == 160
            assert np.isnan(row.null_mean)
            assert row.notes.startswith(
                "no null: quality of one group; n counts 160 queries from 80 independent sources"
            )
            assert independent(row) == 80
        gap = picked(found, metric="recall_gap", k=k)
        assert gap.value == pytest.approx(values[0].value - values[2].value)
        assert gap.p_value < 0.01
        assert gap.notes.startswith("A minus C")


def test_without_a_difference_the_gap_is_what_shuffled_labels_give(toy, picked):
    found = toy(*photos({"A": 0.8, "B": 0.8, "C": 0.8}), axes=["race"]).run("recall-gap", draws=300).results
    for k in (1, 5, 10):
        gap = picked(found, metric="recall_gap", k=k)
        assert gap.null_mean > 0
        assert abs(gap.excess) < 3.5 * gap.null_sd
        assert gap.p_value > 0.02


def test_recall_equals_counting_by_hand(toy, picked):
    rows, vectors = photos({"A": 0.5, "B": 1.0}, n=12)
    found = toy(rows, vectors, axes=["race"]).run("recall-gap", draws=20).results
    unit = {name: v / np.linalg.norm(v) for name, v in vectors.items()}
    images = np.array([unit[row["image_id"]] for row in rows])
    hits = {"A": [], "B": []}
    for place, row in enumerate(rows):
        for caption in row["captions"]:
            scores = images @ unit[caption]
            hits[row["race"]].append(np.argsort(-scores)[:5].tolist().count(place))
    for group, values in hits.items():
        assert picked(found, metric="recall_at_k", group=group, k=5).value == pytest.approx(np.mean(values))


def test_images_without_a_label_stay_in_the_pool(toy, picked):
    rows, vectors = photos({"A": 0.2, "B": 0.2, None: 0.2}, n=10)
    gap = picked(toy(rows, vectors, axes=["race"]).run("recall-gap", draws=50).results, metric="recall_gap", k=1)
    assert gap.n == 40
    assert "dropped 20 (query of an undefined group)" in gap.notes


def test_two_models_compare_on_the_same_captions(toy):
    good, poor = photos({"A": 0.2, "B": 0.2}), photos({"A": 0.2, "B": 1.5})
    a = toy(*good, axes=["race"]).run("recall-gap", "a", draws=20).folder
    b = toy(*poor, axes=["race"]).run("recall-gap", "b", draws=20).folder
    found = compare(a, b).frame().set_index(["group", "k"])
    assert found.loc[("B", 1), "value"] > 0.2
    assert found.loc[("B", 1), "p_value"] < 0.01
    assert abs(found.loc[("A", 1), "value"]) < 0.1


def test_images_of_a_person_count_as_one(toy, picked):
    """Four people with six pictures each, two of them known well: of six splits two are as uneven."""
    rng = np.random.default_rng(0)
    rows, vectors = [], {}
    for person, group in enumerate("AABB"):
        for number in range(6):
            name = f"{person}-{number}"
            rows.append({"image_id": name, "set_id": f"person {person}", "race": group, "captions": [f"{name} seen"]})
            vectors[f"{name} seen"] = meaning = rng.normal(size=DIM)
            vectors[name] = meaning if group == "A" else -meaning
    pools = rows, [row | {"set_id": None} for row in rows]
    people, images = (toy(some, vectors, axes=["race"]).run("recall-gap", draws=600, k=[1]).results for some in pools)
    gap = picked(people, metric="recall_gap")
    assert gap.value == 1
    assert gap.p_value == pytest.approx(1 / 3, abs=0.06)
    assert picked(images, metric="recall_gap").p_value < 0.01
    assert independent(gap) == 4
    known, unknown = (picked(found, metric="recall_at_k", group="B") for found in (people, images))
    assert known.ci_high > 0.5 > unknown.ci_high


def test_two_axes_need_a_choice(toy):
    rows, vectors = photos({"A": 0.2, "B": 0.2}, n=4)
    rows = [row | {"gender": "f"} for row in rows]
    with pytest.raises(InputError, match="asks about one axis and its axes are: race, gender; say which with --axis"):
        toy(rows, vectors, axes=["race", "gender"]).run("recall-gap")


def test_captions_are_needed(toy):
    rows, vectors = photos({"A": 0.2, "B": 0.2}, n=4)
    rows = [row | {"captions": None} for row in rows]
    with pytest.raises(InputError, match="suite 'recall-gap' asks by captions, but no image has one"):
        toy(rows, vectors, axes=["race"]).run("recall-gap")
