"""Equal scores say nothing about anybody, in whatever order the rows of a table lie."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.suites import SUITES


def sorted_by_group(jobs: int = 4, n: int = 12) -> pd.DataFrame:
    """Sets of two, all images of the first group before all of the second."""
    rows = [
        {"image_id": f"{job}-{i}-{gender}", "set_id": f"{job}-{i}", "subject": f"job{job}", "gender": gender}
        for gender in ("female", "male")
        for job in range(jobs)
        for i in range(n)
    ]
    frame = pd.DataFrame(rows)
    frame.attrs["axes"] = ["gender"]
    return frame


def measured(frame: pd.DataFrame, scores: dict[tuple[str, str], float], config: AuditConfig) -> pd.DataFrame:
    suite = SUITES.load("intersectional")
    texts = list(suite.texts(frame, config))
    matrix = np.array([[scores.get((text, name), 1.0) for name in frame["image_id"]] for text in texts])
    return suite.measure(Evidence(frame, texts, model="rule", scores=matrix), config).frame()


@pytest.mark.parametrize("variant", ["equipoise", "gensynth", "berg", "visogender"])
def test_the_order_of_the_rows_changes_nothing(variant):
    frame, config = sorted_by_group(), AuditConfig(draws=20, k=(5,), variants=(variant,))
    other = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    other.attrs["axes"] = ["gender"]
    suite = SUITES.load("intersectional")
    # five images lead and the others are equal: all ties, but not a model that ranks nothing
    scores = {(text, name): 2.0 for text in suite.texts(frame, config) for name in frame["image_id"].iloc[::7]}
    one, two = (measured(some, scores, config) for some in (frame, other))
    some = one["metric"].isin(["max_skew", "ndkl", "representation", "bias_at_k"])
    assert some.sum() > 2
    assert one["value"][some].tolist() == two["value"][some].tolist()


@pytest.mark.parametrize("with_sets", [True, False])
def test_equal_scores_are_no_bias(picked, with_sets):
    frame = sorted_by_group()
    if not with_sets:
        frame = frame.drop(columns="set_id")
    frame.attrs["axes"] = ["gender"]
    config = AuditConfig(draws=60, k=(5,))
    suite = SUITES.load("intersectional")
    texts = list(suite.texts(frame, config))
    found = suite.measure(Evidence(frame, texts, model="rule", scores=np.ones((len(texts), len(frame)))), config)
    assert "max_skew" not in set(found.frame()["metric"])
    assert any("the model gives all images the same score" in note for note in found.notes)


@pytest.mark.slow
def test_ratings_of_one_and_two_blind_to_the_group_are_no_bias(picked):
    frame, small = sorted_by_group(), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        config = AuditConfig(draws=60, k=(5,), seed=seed, prompts=("A photo of {a}",))
        texts = SUITES.load("intersectional").texts(frame, config)
        scores = {(text, name): float(rng.integers(1, 3)) for text in texts for name in frame["image_id"]}
        small.append(picked(measured(frame, scores, config), metric="max_skew", axis="gender").p_value < 0.05)
    assert sum(small) <= 4


def test_equal_scores_find_every_group_as_often(picked):
    suite, small = SUITES.load("recall-gap"), []
    frame = pd.DataFrame(
        [{"image_id": f"{g}{i}", "gender": g, "captions": [f"{g} {i}"]} for g in ("female", "male") for i in range(30)]
    )
    frame.attrs["axes"] = ["gender"]
    for seed in range(20):
        config = AuditConfig(draws=60, k=(10,), seed=seed)
        texts = list(suite.texts(frame, config))
        evidence = Evidence(frame, texts, model="rule", scores=np.ones((len(texts), len(frame))))
        small.append(picked(suite.measure(evidence, config).frame(), metric="recall_gap").p_value < 0.05)
    assert sum(small) <= 4
