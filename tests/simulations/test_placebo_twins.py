"""A picture and its placebo twins are one observation: ranked as several, chance looks smaller than it is."""

import numpy as np
import pandas as pd
import pytest
from tests.simulations.bands import within

from equipoise.audit.subjects import strata
from equipoise.data.labels import without_twins
from equipoise.measure import retrieval as r

SUBJECTS, SETS, TWINS = 12, 4, ("", "bag", "mirror", "brightness")
USUAL = {"bag": "none", "mirror": "plain", "brightness": "plain"}


def pictures():
    """One row per picture: 12 subjects, 4 sets, two genders, and each picture again with each of three placebos."""
    rows = []
    for subject in range(SUBJECTS):
        for number in range(SETS):
            for changed in TWINS:
                for gender in "fm":
                    levels = {f"placebo_{name}": "yes" if name == changed else usual for name, usual in USUAL.items()}
                    rows.append({"subject": subject, "set_id": f"{subject}-{number}", "gender": gender, **levels})
    return pd.DataFrame(rows)


def share_of_alarms(frame, *, twins, repetitions, seed=0):
    """How often max_skew has p <= .05 for a model that is blind to gender and likes each picture in its own way."""
    rng = np.random.default_rng(seed)
    own = frame.groupby(["set_id", "gender"], sort=False).ngroup().to_numpy()  # a picture is liked as its twins are
    pools = np.where(twins | without_twins(frame), frame["subject"].to_numpy(), -1)
    groups = r.Groups((frame["gender"] == "m").to_numpy().astype(np.int32), ("f", "m"))
    sets, levels = pd.factorize(frame["set_id"])[0], strata(frame, ["gender"], ["gender"])
    alarms = 0
    for repetition in range(repetitions):
        liked = rng.normal(size=own.max() + 1)[own] + 0.1 * rng.normal(size=len(frame))
        found = r.evaluate(
            r.Scores(np.broadcast_to(liked, (SUBJECTS, len(frame)))),
            groups,
            k=8 if twins else 2,
            candidates=r.Candidates(image_pool=pools, query_pool=np.arange(SUBJECTS)),
            metrics=["max_skew"],
        )
        null = r.chance(found, sets=sets, strata=levels, draws=199, seed=repetition)
        rows = [row for row in r.summary(found, null) if row.metric == "max_skew"]
        alarms += rows[0].estimate.p_randomised <= 0.05  # MaxSkew@2 has few levels, and the plain p-value is cautious
    return alarms / repetitions


@pytest.mark.slow
def test_twins_in_the_pool_raise_false_alarms_and_are_left_out():
    frame = pictures()
    assert share_of_alarms(frame, twins=True, repetitions=60) > 0.2
    assert share_of_alarms(frame, twins=False, repetitions=150) < 0.11


@pytest.mark.slow
def test_without_twins_false_alarms_are_nominal():
    assert within(share_of_alarms(pictures(), twins=False, repetitions=600, seed=1), 0.03, 0.07, 600)
