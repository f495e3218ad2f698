import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.filters.thresholds import learn_thresholds


def planted(n, thresholds, wrong, seed, top=(12, 12)):
    rng = np.random.default_rng(seed)
    counts = {f"axis{i}": rng.integers(0, high + 1, n) for i, high in enumerate(top[: len(thresholds)])}
    accepted = np.all([counts[f"axis{i}"] >= t for i, t in enumerate(thresholds)], axis=0)
    return counts, accepted ^ (rng.random(n) < wrong)


@pytest.mark.parametrize("thresholds", [(9,), (12, 9), (10, 5), (3, 11)])
@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_planted_thresholds_come_back(thresholds, wrong):
    counts, accepted = planted(3000, thresholds, wrong, seed=sum(thresholds))
    found = learn_thresholds(counts, accepted)
    assert tuple(found.thresholds.values()) == thresholds
    assert found.agreement == pytest.approx(1 - wrong, abs=0.03)
    assert found.crossfitted == pytest.approx(1 - wrong, abs=0.03)


@settings(max_examples=examples(20))
@given(st.integers(0, 10**6), st.integers(1, 40))
def test_the_curve_is_the_agreement_of_every_choice(seed, n):
    rng = np.random.default_rng(seed)
    counts = {"a": rng.integers(0, 4, n), "b": rng.integers(0, 3, n)}
    accepted = rng.random(n) < 0.5
    found = learn_thresholds(counts, accepted)
    for a, b, agreement in found.curve.itertuples(index=False):
        says = (counts["a"] >= a) & (counts["b"] >= b)
        assert agreement == pytest.approx((says == accepted).mean())
    assert found.agreement == pytest.approx(found.curve["agreement"].max())
    assert found.agreement >= found.majority - 1e-12  # accepting all or none is among the choices


def test_the_curve_of_one_axis_has_its_top_at_the_threshold():
    counts, accepted = planted(2000, (10, 5), 0.05, seed=0)
    curve = learn_thresholds(counts, accepted).curve_of("axis0")
    assert curve.loc[curve["agreement"].idxmax(), "axis0"] == 10
    assert len(curve) == 14


def test_labels_without_a_rule_do_not_beat_the_commoner_answer_when_cross_fitted():
    counts, _ = planted(400, (10, 5), 0.0, seed=0)
    accepted = np.random.default_rng(1).random(400) < 0.5
    found = learn_thresholds(counts, accepted)
    assert found.agreement > found.majority  # flattered by the search
    assert found.crossfitted < found.agreement
    assert found.crossfitted == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize(
    ("counts", "accepted", "message"),
    [
        ({}, [True], "counts is empty"),
        ({"a": [1, 2]}, [True], "accepted has shape"),
        ({"a": [0.5, 1]}, [True, False], "whole number"),
        ({"a": [1, 2]}, [0, 2], "yes and no"),
    ],
)
def test_what_cannot_be_learned_is_said(counts, accepted, message):
    with pytest.raises(InputError, match=message):
        learn_thresholds(counts, accepted)


def test_counts_come_from_a_run_of_detectability(images, embedded, tmp_path):
    """From pictures to thresholds: sets in which k of four images look like their group, accepted from k = 3 on."""
    from equipoise.filters import Models, Step, recognised_counts, run

    rows, vectors = [], []
    for k in (0, 1, 2, 3, 4, 3, 4, 2):
        for i in range(4):
            group = ("female", "male")[i % 2]
            shown = group if i < k else ("male", "female")[i % 2]
            rows.append({"image_id": f"{len(rows)}", "set_id": f"s{len(rows) // 4}", "gender": group})
            vectors.append(np.eye(2)[["female", "male"].index(shown)])
    table = images(rows)
    texts = ["a photo of a woman", "a photo of a man"]
    spec = embedded("v", [row["image_id"] for row in rows], vectors, texts, np.eye(2))
    prompts = {"gender": {"female": texts[0], "male": texts[1]}}
    settings = {"axes": ("gender",), "least": 0.0, "prompts": prompts}
    done = run(table, [Step.of("detectability", settings)], tmp_path / "out", models=Models(encoder=spec))
    counts = recognised_counts(done.table)
    assert counts["gender"].tolist() == [0, 1, 2, 3, 4, 3, 4, 2]
    found = learn_thresholds(counts, counts["gender"] >= 3)
    assert (dict(found.thresholds), found.agreement) == ({"gender": 3}, 1.0)
    with pytest.raises(InputError, match="read it with the layer of a detectability run"):
        recognised_counts(table)
    with pytest.raises(InputError, match="race"):
        recognised_counts(done.table, ["race"])


def test_sets_of_one_name_are_counted_by_subject(images):
    from equipoise.filters import learned_from_people, recognised_counts

    rows = [
        {"image_id": f"{job}-{number}-{i}", "subject": job, "set_id": number, "gender": "female", "score": i < hits}
        for job, number, hits in (("nurse", "1", 2), ("cook", "1", 0), ("cook", "2", 1))
        for i in range(2)
    ]
    scores = pd.DataFrame(rows)[["image_id", "score"]].rename(columns={"score": "score_detect_gender"})
    scores["score_detect_gender"] = scores["score_detect_gender"].astype(float)
    table = images(pd.DataFrame(rows).drop(columns="score"))
    table.add_layer("found", scores, columns={"score_detect_gender": "float64"})
    read = Table.open(table.path, layers=["found"])
    counts = recognised_counts(read)["gender"]
    assert counts.to_dict() == {"cook: 1": 0, "cook: 2": 1, "nurse: 1": 2}
    learned = learned_from_people(read, counts > 1)
    assert (dict(learned.thresholds), learned.n, learned.ambiguous) == ({"gender": 2}, 3, 0)
    bare = learned_from_people(read, pd.Series({"1": True, "2": False, "elsewhere": True}))
    assert (bare.n, bare.ambiguous) == (1, 1)  # cook alone has a set 2
    with pytest.raises(InputError, match="several subjects have a set of the same name"):
        learned_from_people(read, pd.Series({"1": True}))


def test_sets_that_an_earlier_filter_dropped_teach_nothing(images):
    from equipoise.filters import learned_from_people, recognised_counts

    n_seen = {"a": 4, "b": 4, "c": 3, "d": 1, "e": 1, "f": 0}
    scores = {(name, i): 1.0 if i < n else -1.0 for name, n in n_seen.items() for i in range(4)}
    scores["c", 3] = None  # one image that could not be read counts as not recognised
    scores |= {(name, i): None for name in "uvwxyz" for i in range(4)}  # dropped before anybody looked
    rows = [
        {"image_id": f"{name}{i}", "set_id": name, "gender": "fm"[i % 2], "score_detect_gender": score}
        for (name, i), score in scores.items()
    ]
    read = images(rows, columns={"score_detect_gender": "float64"})
    assert recognised_counts(read)["gender"].to_dict() == n_seen
    accepted = pd.Series({name: n_seen.get(name, 4) > 2 for name in "abcdefuvwxyz"})
    learned = learned_from_people(read, accepted)
    assert (learned.n, learned.agreement) == (6, 1.0)
    assert learned.thresholds["gender"] in (2, 3)


def test_learned_thresholds_are_a_preset_of_ones_own(tmp_path):
    """What is written is read back by the filter's --config, on any axes."""
    from equipoise.filters.steps import steps_from_toml

    found = learn_thresholds({"skin tone": [6, 5, 6, 2], "age": [3, 6, 6, 6]}, [True, False, True, False])
    path = tmp_path / "learned.toml"
    path.write_text(found.toml())
    (step,) = steps_from_toml(path)
    assert step.name == "detectability"
    assert dict(step.filter.thresholds) == dict(found.thresholds)
    assert tuple(step.filter.axes) == ("skin tone", "age")
    assert f"cross-fitted {found.crossfitted:.3f}" in path.read_text()
