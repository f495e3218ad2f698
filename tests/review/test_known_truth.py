"""Simulated annotators of known accuracy on pictures of the world: what was put in is found again."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equipoise.data import Table
from equipoise.filters import learned_from_people
from equipoise.review import ReviewSettings, accepted_items, prepare, preset, summary_of
from equipoise.world import preset as world
from equipoise.world.tables import write_counterfactual_table

SUBJECTS = ["nurse", "pilot", "chef", "judge", "teacher", "builder"]


def spoilt(sets: Table, path, rng) -> tuple[Table, pd.Series]:
    """Sets of which half have pictures of another figure than they say; and how many are right in each."""
    rows = list(sets.rows())
    by_set: dict[str, list[dict]] = {}
    for row in rows:
        by_set.setdefault(row["set_id"], []).append(row)
    right = {}
    for name, those in by_set.items():
        images = {(row["gender"], row["skin_tone"]): row["image"] for row in those}
        wrong = rng.choice(len(those), rng.integers(1, len(those) + 1), replace=False) if rng.random() < 0.5 else []
        for place in wrong:
            other = {"female": "male", "male": "female"}[those[place]["gender"]]
            those[place]["image"] = images[other, those[place]["skin_tone"]]
        right[name] = len(those) - len(wrong)
    made = Table.create(path, rows, axes=sets.axes, columns=sets.further_columns)
    return made, pd.Series(right)


def answer(store, accuracy, truth, rng, question, words):
    """Everybody answers everything, each with their own accuracy."""
    for name, share in accuracy.items():
        while (item := store.next_item(name)) is not None:
            good = truth[store.item(item)["name"]]
            said = good if rng.random() < share else not good
            store.record(name, item, {(question, 0): words[not said]}, seconds=float(rng.uniform(1, 3)))


def rendered(path, sets: int) -> Table:
    config = world("fair").changed(activity_share=0.0, visible=1.0)
    return write_counterfactual_table(path, config, sets, subjects=SUBJECTS, seed=5)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> Table:
    return rendered(tmp_path_factory.mktemp("world") / "sets", 50)


def test_agreement_and_gold_accuracy_are_what_was_put_in(tmp_path):
    """Two symmetric annotators of accuracy p and q on even labels: kappa is (2p - 1)(2q - 1)."""
    accuracy = {"ana": 0.95, "ben": 0.9, "cem": 0.75}
    settings = ReviewSettings(items=240, shared=1.0, gold=100)
    pictures = rendered(tmp_path / "sets", 7)
    store = prepare(pictures, preset("perceived-group", axis="gender"), tmp_path / "r", settings)
    store.add(*accuracy)
    genders = pictures.to_pandas(["image_id", "gender"]).set_index("image_id")["gender"]
    answer(store, accuracy, genders == "female", np.random.default_rng(1), "gender", ("female", "male"))
    summary = summary_of(store)
    for one in summary.people:
        assert one.gold.n == 100
        assert one.gold.ci_low <= accuracy[one.name] <= one.gold.ci_high
        assert one.gold.null_mean == 0.5
        assert 1 <= one.seconds <= 3
    [question] = summary.questions
    for pair, kappa in question.kappas.items():
        first, second = (2 * accuracy[name] - 1 for name in pair.split(", "))
        assert kappa.ci_low <= first * second <= kappa.ci_high, pair
    pairs = [(0.9 * 0.8), (0.9 * 0.5), (0.8 * 0.5)]
    assert question.alpha.ci_low <= np.mean(pairs) <= question.alpha.ci_high
    assert summary.finished == summary.items == 240
    store.close()


@pytest.mark.slow
def test_thresholds_are_what_was_put_in(pictures, tmp_path):
    """People accept a set when at least five of its six pictures are right, and err now and then."""
    rng = np.random.default_rng(2)
    sets, right = spoilt(pictures, tmp_path / "spoilt", rng)
    frame = sets.to_pandas(["image_id", "set_id"])
    order = frame.groupby("set_id").cumcount()
    hits = np.where(order < frame["set_id"].map(right), 1.0, -1.0)  # as many recognised as are right
    scores = [{"image_id": i, "score_detect_gender": s} for i, s in zip(frame["image_id"], hits, strict=True)]
    view = sets.add_layer("detect", scores, columns=["score_detect_gender"])
    store = prepare(sets, preset("counterfactual-set"), tmp_path / "r", ReviewSettings(items=200, shared=1.0))
    accuracy = {"ana": 0.95, "ben": 0.9, "cem": 0.85}
    store.add(*accuracy)
    answer(store, accuracy, right >= 5, rng, "same_except", ("yes", "no"))
    accepted = accepted_items(store)
    assert len(accepted) == 200
    found = learned_from_people(view, accepted)
    assert dict(found.thresholds) == {"gender": 5}
    # a majority of three is wrong with probability .05*.1 + .05*.15 + .1*.15 - 2*.05*.1*.15 = .026
    assert abs(found.agreement - 0.974) < 3 * np.sqrt(0.974 * 0.026 / 200)
    assert found.majority < found.crossfitted <= found.agreement
    store.close()


@pytest.mark.slow
def test_review_learn_filter_raises_the_judges_accuracy_on_the_rest(pictures, tmp_path):
    """The loop, with a real encoder as the filter's eyes and an independent judge on sets that nobody looked at."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from equipoise.data.images import decode
    from equipoise.filters import Models, read_steps, run
    from equipoise.models import load

    rng = np.random.default_rng(3)
    sets, right = spoilt(pictures, tmp_path / "spoilt", rng)
    models = Models(encoder="mini:clip-fair")
    scored = run(
        sets,
        read_steps("detectability", ["detectability.axes=gender", "detectability.least=0"]),
        tmp_path / "a",
        models=models,
    )
    store = prepare(sets, preset("counterfactual-set"), tmp_path / "r", ReviewSettings(items=200, shared=1.0))
    accuracy = {"ana": 0.95, "ben": 0.9, "cem": 0.85}
    store.add(*accuracy)
    answer(store, accuracy, right >= 5, rng, "same_except", ("yes", "no"))
    accepted = accepted_items(store)
    store.close()
    found = learned_from_people(Table.open(tmp_path / "spoilt", layers=[scored.folder / "layer"]), accepted, ["gender"])
    setting = [f"detectability.thresholds={{gender={found.thresholds['gender']}}}", "detectability.axes=gender"]
    done = run(sets, read_steps("detectability", setting), tmp_path / "b", models=models)
    frame = Table.open(tmp_path / "spoilt", layers=[done.folder / "layer"]).to_pandas(
        ["set_id", "gender", "keep", "image"]
    )
    rest = frame[~frame["set_id"].isin(accepted.index)]
    judge = load("mini:judge", kind="classifier")
    said = judge.classify([decode(image) for image in rest["image"]])["gender"]
    hit = np.array([word == gender for word, gender in zip(said.best, rest["gender"], strict=True)])
    before, after = hit.mean(), hit[rest["keep"].to_numpy(dtype=bool)].mean()
    print({"before": before, "after": after, "thresholds": dict(found.thresholds), "crossfitted": found.crossfitted})
    assert before < 0.85
    assert after > 0.95
