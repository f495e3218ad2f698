import numpy as np
import pandas as pd
import pytest

from equipoise.errors import InputError
from equipoise.filters import Models, RemainingImages, Step
from equipoise.filters.rules.detectability import SOCIALCF_THRESHOLDS, Detectability, recognised_share, zero_shot

RACES = ("White", "Black", "Asian")


@pytest.fixture
def sets(images, embedded):
    """Sets of six (three races by two genders); how many images show their race is what each set is called."""
    rows, vectors = [], []
    e = np.eye(8)
    for shown in (6, 4, 3):
        for i, (race, gender) in enumerate((r, g) for r in RACES for g in ("male", "female")):
            rows.append(
                {"image_id": f"{shown}-{i}", "set_id": f"s{shown}", "subject": "chef", "race": race, "gender": gender}
            )
            seen = RACES.index(race) if i < shown else (RACES.index(race) + 1) % 3
            vectors.append(e[seen] + e[3 + ("male", "female").index(gender)])
    table = images(pd.DataFrame(rows))
    prompts = {"a White person": e[0], "a Black person": e[1], "an Asian person": e[2]}
    prompts |= {"a male person": e[3], "a female person": e[4]}
    return table, embedded("v", [r["image_id"] for r in rows], vectors, list(prompts), list(prompts.values()))


def judge(sets, **settings):
    table, spec = sets
    return Detectability(look_at_subject=False, **settings).judge(RemainingImages(table, models=Models(encoder=spec)))


def kept_sets(sets, verdict):
    return set(sets[0].to_pandas(["set_id"])["set_id"][~verdict.dropped])


def test_a_set_stays_if_enough_images_are_recognised(sets):
    assert kept_sets(sets, judge(sets, thresholds={"race": 4})) == {"s6", "s4"}
    assert kept_sets(sets, judge(sets, thresholds={"race": 5})) == {"s6"}
    assert kept_sets(sets, judge(sets, least=0.5)) == {"s6", "s4", "s3"}
    assert kept_sets(sets, judge(sets)) == {"s6"}  # three quarters of six is more than four


def test_failures_are_the_images_not_recognised_whatever_becomes_of_the_set(sets):
    verdict = judge(sets, thresholds={"race": 3})
    assert not verdict.dropped.any()
    assert verdict.failed.reshape(3, 6).sum(axis=1).tolist() == [0, 2, 3]
    assert (verdict.scores["detect_gender"] > 0).all()


def test_the_papers_thresholds_by_pair(sets):
    assert SOCIALCF_THRESHOLDS[frozenset({"race", "gender"})] == {"gender": 12, "race": 9}
    preset = Step.of("detectability", preset="socialcf").filter
    assert preset._thresholds(("race", "gender")) == {"gender": 12, "race": 9}
    assert preset._thresholds(("physical", "race")) == {"race": 13, "physical": 8}
    with pytest.raises(InputError, match="not for gender and age"):
        preset._thresholds(("gender", "age"))


def test_confusions_are_counted(sets):
    found = judge(sets).files["confusions_race"]
    wrong = found[found["shown"] != found["taken_for"]].set_index(["shown", "taken_for"])["images"]
    assert wrong.to_dict() == {("Asian", "White"): 4, ("Black", "Asian"): 1}
    assert found.groupby("shown")["share"].sum().tolist() == pytest.approx([1, 1, 1])
    rows = pd.DataFrame(judge(sets).rows).set_index("group")
    assert rows.loc["White", "value"] == 1.0
    assert rows.loc["White", "null_mean"] == pytest.approx(1 / 3)


def test_the_subject_is_looked_at_too(images, embedded):
    e = np.eye(6)
    rows = [
        {"image_id": f"{s}{i}", "set_id": s, "subject": s, "gender": g}
        for s in ("chef", "nurse")
        for i, g in enumerate(("m", "f"))
    ]
    vectors = [e[0] + e[2], e[0] + e[3], e[0] + e[2], e[1] + e[3]]  # one nurse looks like a chef
    prompts = {"a photo of a chef": e[0], "a photo of a nurse": e[1], "a m person": e[2], "an f person": e[3]}
    table = images(rows)
    remaining = RemainingImages(
        table,
        models=Models(
            encoder=embedded("v", [r["image_id"] for r in rows], vectors, list(prompts), list(prompts.values()))
        ),
    )
    own = {"gender": {"m": "a m person", "f": "an f person"}}
    verdict = Detectability(prompts=own).judge(remaining)
    assert not verdict.dropped.any()
    assert verdict.files["confusions_subject"].iloc[0].tolist() == ["nurse", "chef", 1, 0.5]
    assert Detectability(prompts=own, subject_least=1.0).judge(remaining).dropped.tolist() == [False, False, True, True]


def test_a_tie_and_a_missing_vector_are_not_recognised():
    seen = zero_shot([[1.0, 1.0], [np.nan, 0.0], [0.0, 1.0]], np.eye(2), ["a", "b"], ["a", "a", None])
    assert seen.hit.tolist() == [False, False, False]
    assert seen.asked.tolist() == [True, True, False]
    assert seen.best.tolist() == [0, -1, 1]


def test_wrong_settings_are_answered(sets, images, embedded):
    with pytest.raises(InputError, match="thresholds names 'age'"):
        judge(sets, thresholds={"age": 3})
    with pytest.raises(InputError, match="lack the group 'Asian'"):
        judge(sets, prompts={"race": {"White": "x", "Black": "y"}})
    lone = images([{"image_id": "a", "gender": "m"}], name="lone")
    with pytest.raises(InputError, match="no axis varies within a set"):
        Detectability().judge(RemainingImages(lone, models=Models(encoder=embedded("w", ["a"], [[1.0, 0.0]]))))


def test_one_prompt_is_no_choice(images, embedded):
    table = images([{"image_id": "a", "gender": "male"}], name="men")
    remaining = RemainingImages(table, models=Models(encoder=embedded("m", ["a", "a man"], [[1.0, 0.0]] * 2)))
    with pytest.raises(InputError, match="'gender' has 1 group; a zero-shot choice needs two"):
        Detectability(axes=("gender",), prompts={"gender": {"male": "a man"}}).judge(remaining)


def test_images_of_a_set_are_not_independent():
    # ten sets of three equal images, recognised by the toss of a coin
    rng = np.random.default_rng(0)
    sets = np.repeat(np.arange(10), 3)
    found = [recognised_share(rng.integers(0, 2, 10).astype(bool)[sets], sets, 0.5) for _ in range(300)]
    assert np.mean([one.p_value < 0.05 for one in found]) < 0.08
    assert np.mean([one.ci_low <= 0.5 <= one.ci_high for one in found]) > 0.9
    alone = recognised_share(np.array([True, True, False]), np.arange(3), 0.5)
    assert alone.p_value == pytest.approx(0.5)  # the binomial's
    assert (alone.ci_low, alone.ci_high) == pytest.approx((0.2077, 0.9385), abs=1e-4)  # Wilson's


def test_the_results_are_by_set(images, embedded):
    rows = [
        {"image_id": f"{s}-{i}", "set_id": f"s{s}", "gender": "female" if i < 3 else "male"}
        for s in range(10)
        for i in range(6)
    ]
    vectors = [[1.0, 0.0] if (row["gender"] == "female") == (i // 6 < 5) else [0.0, 1.0] for i, row in enumerate(rows)]
    spec = embedded("s", [row["image_id"] for row in rows], vectors, ["F", "M"], np.eye(2))
    settings = Detectability(prompts={"gender": {"female": "F", "male": "M"}})
    verdict = settings.judge(RemainingImages(images(rows), models=Models(encoder=spec)))
    row = pd.DataFrame(verdict.rows).set_index("group").loc["female"]
    assert (row.value, row.n) == (0.5, 30)
    assert row.ci_high - row.ci_low > 0.7  # ten answers, not thirty


@pytest.mark.slow
def test_the_fair_clip_recognises_the_world(world, fair_clip, tmp_path):
    own = {
        "gender": {"female": "a photo of a woman", "male": "a photo of a man"},
    }
    settings = Detectability(axes=("gender",), prompts=own, least=0.5)
    verdict = settings.judge(RemainingImages(world, models=Models(encoder=fair_clip), folder=tmp_path))
    assert (verdict.scores["detect_gender"] > 0).mean() > 0.8
    assert "confusions_subject" in verdict.files


def test_one_wrong_label_does_not_make_an_axis_one_that_must_be_seen(images, embedded):
    rows = [{"image_id": f"{s}-{g}", "set_id": f"s{s}", "gender": g, "race": "Asian"} for s in range(20) for g in "fm"]
    rows[0]["race"] = "Black"
    e = np.eye(4)
    spec = embedded("v", [row["image_id"] for row in rows], np.tile(e[:2], (20, 1)), ["F", "M"], e[:2])
    step = Detectability(prompts={"gender": {"f": "F", "m": "M"}}, look_at_subject=False)
    verdict = step.judge(RemainingImages(images(pd.DataFrame(rows)), models=Models(encoder=spec)))
    assert list(verdict.scores) == ["detect_gender"]
    assert not verdict.dropped.any()
