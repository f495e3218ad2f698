"""The suite ``binding``: planted bindings are found again, chance is chance, and bad tables are told what they lack."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig, compare, measure_again, run
from equipoise.audit.evidence import Evidence
from equipoise.audit.suites import SUITES
from equipoise.audit.suites._scenarios import contrasts, gab_activity
from equipoise.data import Table
from equipoise.data.importing import import_table
from equipoise.errors import InputError
from equipoise.text.templates.binding import activities

SUITE = SUITES.load("binding")
PHRASES = {
    "guitar": "playing a guitar",
    "baby": "holding a baby",
    "wall": "painting a wall",
    "drum": "playing a drum",
    "fish": "catching a fish",
    "wood": "chopping wood",
}
EXPECTED = dict(zip(PHRASES, ["male", "female"] * 3, strict=True))
OTHER = {"male": "female", "female": "male"}
NOUN = {"male": "man", "female": "woman"}
CAPTION = re.compile(r"A (man|woman|person) is (.*?)(?: and a (man|woman) is in the scene)?$")


def world(n: int = 20, scenarios: tuple[str, ...] = ("E1", "E2", "U1", "U2")) -> pd.DataFrame:
    rows = []
    for activity, expected in EXPECTED.items():
        for scenario in scenarios:
            performer = expected if scenario[0] == "E" else OTHER[expected]
            for i in range(n):
                rows.append(
                    {
                        "image_id": f"{activity}-{scenario}-{i}",
                        "activity": activity,
                        "phrase": PHRASES[activity],
                        "gender": performer,
                        "other_gender": OTHER[performer] if scenario[1] == "2" else None,
                        "expected_gender": expected,
                        "scenario": scenario,
                        "label_source": "world",
                    }
                )
    frame = pd.DataFrame(rows)
    frame.attrs["axes"] = ["gender"]
    return frame


def one(results: pd.DataFrame, **keys) -> pd.Series:
    """The one overall row with these keys."""
    keys = {"subject": None} | keys
    for name, value in keys.items():
        results = results[results[name].isna()] if value is None else results[results[name] == value]
    assert len(results) == 1, keys
    return results.iloc[0]


def stereotyped(row: dict, text: str) -> float:
    """Sees the activity and the only person, but with two people takes the expected one for the performer."""
    noun, phrase, _ = CAPTION.match(text).groups()
    who = row["gender"] if pd.isna(row["other_gender"]) else row["expected_gender"]
    return (phrase == row["phrase"]) + 0.1 * (noun == NOUN[who])


def binds(row: dict, text: str) -> float:
    """Knows who does it; "person" fits everyone alike."""
    noun, phrase, _ = CAPTION.match(text).groups()
    return (phrase == row["phrase"]) + 0.1 * (noun == NOUN[row["gender"]])


def test_a_model_that_guesses_by_stereotype_is_found_out(scored):
    found = SUITE.measure(scored(SUITE, world(), stereotyped), AuditConfig()).frame()
    for variant in ("one_person", "two_person"):
        right = {s: one(found, metric="binding_accuracy", variant=variant, group=s).value for s in ("E2", "U1", "U2")}
        assert right == {"E2": 1.0, "U1": 1.0, "U2": 0.0}
        assert one(found, metric="binding_drop", variant=variant).value == 1.0
    for variant in ("one_person", "two_person", "matching"):
        assert one(found, metric="presence_drop", variant=variant).value == 1.0
    assert one(found, metric="binding_accuracy", variant="one_person", group="E1").value == 1.0
    # with two people it cannot tell the images apart; alone it can
    assert one(found, metric="text_to_image", variant="all_pairs", group="E2 over U2").value == 0.5
    assert one(found, metric="text_to_image", variant="all_pairs", group="E1 over U1").value == 1.0
    assert one(found, metric="activity_recall", group="U2", k=1).value == 1.0


def test_a_model_that_binds_is_right_everywhere_and_drops_nothing(scored):
    found = SUITE.measure(scored(SUITE, world(), binds), AuditConfig()).frame()
    overall = found[found["subject"].isna()].set_index("metric")
    assert (overall.loc["binding_accuracy", "value"] == 1).all()
    assert (overall.loc[["presence_drop", "binding_drop"], "value"] == 0).all()
    assert (overall.loc["text_to_image", "value"] == 1).all()
    assert (overall.loc["neutral_preference", "value"] == 0.5).all()
    assert (overall.loc["activity_mrr", "value"] == 1).all()
    assert overall.loc["activity_mrr", "null_mean"].iloc[0] == pytest.approx(sum(1 / i for i in range(1, 7)) / 6)


def test_planted_shares_are_inside_their_intervals(scored):
    rng = np.random.default_rng(5)
    frame = world(n=80)
    share = {"E1": 0.95, "E2": 0.85, "U1": 0.9, "U2": 0.6}
    frame["right"] = rng.random(len(frame)) < frame["scenario"].map(share)

    def score(row: dict, text: str) -> float:
        noun, phrase, _ = CAPTION.match(text).groups()
        seen = row["gender"] if row["right"] else OTHER[row["gender"]]
        return (phrase == row["phrase"]) + 0.1 * (noun == NOUN[seen])

    found = SUITE.measure(scored(SUITE, frame, score), AuditConfig()).frame()
    for scenario in ("E2", "U1", "U2"):
        row = one(found, metric="binding_accuracy", variant="two_person", group=scenario)
        assert row.ci_low <= share[scenario] <= row.ci_high
        assert row.null_mean == 0.5
        assert row.n == 6
    drop = one(found, metric="binding_drop", variant="two_person")
    assert drop.ci_low <= 0.25 <= drop.ci_high
    assert drop.p_value <= 0.04
    presence = one(found, metric="presence_drop", variant="two_person")
    assert presence.ci_low <= 0.3 <= presence.ci_high


@pytest.mark.slow
def test_a_model_that_knows_nothing_is_at_chance():
    rng = np.random.default_rng(11)
    frame = world(n=10)
    texts = SUITE.texts(frame, SUITE.defaults)
    excess = []
    for _ in range(8):
        evidence = Evidence(frame, texts, model="noise", scores=rng.normal(size=(len(texts), len(frame))))
        found = SUITE.measure(evidence, AuditConfig(draws=50)).frame()
        rows = found[found["subject"].isna()].set_index(["metric", "variant", "group", "k"])
        excess.append(rows["excess"])
    many = pd.concat(excess, axis=1).to_numpy()
    error = many.std(axis=1, ddof=1) / np.sqrt(many.shape[1])
    assert len(many) == 48
    assert (np.abs(many.mean(axis=1)) < 4 * error).all()


def test_gab_is_known_by_name(scored):
    rows = []
    for of in activities()[:6]:
        expected, other = ("woman", "man") if of.expected == "female" else ("man", "woman")
        for cell in ("E1", "E2", "U1", "U2"):
            performer, bystander = (expected, other) if cell[0] == "E" else (other, expected)
            rows += [
                {
                    "image_id": f"{of.id}-{cell}-{i}",
                    "subject": of.printed,
                    "gender": performer,
                    "other_gender": bystander if cell[1] == "2" else None,
                    "cell": cell,
                }
                for i in range(4)
            ]
    frame = pd.DataFrame(rows)
    by_cell, derived = contrasts(frame, AuditConfig()), contrasts(frame.drop(columns="cell"), AuditConfig())
    assert by_cell[0].scenes.scenario.tolist() == derived[0].scenes.scenario.tolist() == frame["cell"].tolist()
    assert dict(by_cell[0].scenes.expected) == dict(derived[0].scenes.expected)
    texts = SUITE.texts(frame, AuditConfig())
    assert "A woman is applying nail polish and a man is in the scene" in texts
    assert "A man is removing nail polish" in texts  # a near activity
    found = SUITE.measure(scored(SUITE, frame, lambda row, text: float(len(text))), AuditConfig()).frame()
    assert set(found["subject"].dropna()) == {of.printed for of in activities()[:6]}  # one category only: no such rows


def test_all_37_activities_have_categories():
    frame = pd.DataFrame(
        [
            {"image_id": f"{of.id}{cell}", "subject": of.phrase, "gender": g, "cell": cell}
            for of in activities()
            for cell, g in (("E2", of.expected), ("U2", OTHER[of.expected]))
        ]
    )
    (contrast,) = contrasts(frame, AuditConfig())
    assert len(contrast.activities) == 37
    assert sorted(contrast.scenes.categories) == ["everyday", "laion", "stereotypical"]
    rng = np.random.default_rng(0)
    texts = SUITE.texts(frame, AuditConfig())
    evidence = Evidence(frame, texts, model="noise", scores=rng.normal(size=(len(texts), len(frame))))
    found = SUITE.measure(evidence, AuditConfig())
    row = one(found.frame(), metric="binding_accuracy", variant="two_person", group="U2", subject="category: laion")
    assert row.n == 10
    assert any("no text-to-image choice of E1 and U1" in note for note in found.notes)


def test_activities_of_a_table_of_its_own_use_its_phrases_and_each_other(scored):
    frame = world(2)
    texts = SUITE.texts(frame, AuditConfig())
    assert "A man is catching a fish and a woman is in the scene" in texts
    assert not any("nail" in text for text in texts)
    (contrast,) = contrasts(frame.drop(columns="phrase"), AuditConfig())
    assert contrast.activities["wood"].phrase == "wood"  # the activity's own text, as it is
    assert set(contrast.activities["fish"].near) == set(PHRASES) - {"fish"}
    frame["near"] = [["sleeping"]] * len(frame)
    assert contrasts(frame, AuditConfig())[0].activities["fish"].near == ("sleeping",)


def test_who_is_expected_can_be_told_by_scenarios_alone():
    frame = world(2).drop(columns=["expected_gender", "other_gender"])
    (contrast,) = contrasts(frame, AuditConfig())
    assert dict(contrast.scenes.expected) == dict(sorted(EXPECTED.items()))
    only_unexpected = frame[frame["scenario"].str[0] == "U"].reset_index(drop=True)
    assert dict(contrasts(only_unexpected, AuditConfig())[0].scenes.expected) == dict(sorted(EXPECTED.items()))


def test_three_groups_are_compared_two_by_two(scored):
    frame = world(3)
    third = frame[frame["scenario"] == "U1"].assign(gender="neutral")
    third["image_id"] += "-n"
    both = pd.concat([frame, third], ignore_index=True)
    found = contrasts(both, AuditConfig())
    assert [c.groups for c in found] == [("female", "male"), ("female", "neutral"), ("male", "neutral")]
    assert any("A neutral person is painting a wall" in text for text in SUITE.texts(both, AuditConfig()))
    rng = np.random.default_rng(0)
    texts = SUITE.texts(both, AuditConfig())
    evidence = Evidence(both, texts, model="noise", scores=rng.normal(size=(len(texts), len(both))))
    axes = set(SUITE.measure(evidence, AuditConfig()).frame()["axis"])
    assert axes == {"gender (female, male)", "gender (female, neutral)", "gender (male, neutral)"}
    assert len(contrasts(both, AuditConfig(pair=("male", "female")))) == 1
    with pytest.raises(InputError, match="no group on the axis 'gender' named 'x'"):
        contrasts(both, AuditConfig(pair=("male", "x")))


def test_a_bag_of_words_cannot_bind(tmp_path, hashed_words):
    table = table_of_world(tmp_path / "images", world(4))
    done = run(hashed_words, "binding", table, tmp_path / "audit")
    # performer and bystander exchanged is the same bag: a tie, and a tie is wrong
    assert one(done.results, metric="binding_accuracy", variant="two_person", group="U2").value == 0
    assert one(done.results, metric="text_encoder_bias", variant="equipoise").n == 6
    again = measure_again(tmp_path / "audit", out=tmp_path / "again")
    pd.testing.assert_frame_equal(done.results, again.results)
    same = compare(tmp_path / "audit", tmp_path / "again").frame()
    assert (same["value"] == 0).all()
    assert len(same) > 30


def table_of_world(path, frame: pd.DataFrame) -> Table:
    columns = dict.fromkeys(("activity", "phrase", "other_gender", "expected_gender", "scenario"), "string")
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return Table.create(path, rows, axes=["gender"], columns=columns)


def test_the_released_code_by_name(scored):
    def close(row: dict, text: str) -> float:
        return 0.001 * binds(row, text)  # a tenth of a thousandth apart: a tie after rounding

    found = SUITE.measure(scored(SUITE, world(3), close), AuditConfig()).frame()
    assert one(found, metric="text_to_image", variant="all_pairs", group="E2 over U2").value == 1
    # ties go to the man's image: right for the three activities expected of men
    assert one(found, metric="text_to_image", variant="gab_code", group="E2 over U2").value == 0.5


def test_the_readers_table_runs_as_it_is(tmp_path, hashed_words, make_image):
    for activity in ("Drinking Beer", "Baking_Bread"):
        for who in ("Man", "Woman", "Man Woman", "Woman Man"):
            for i in range(2):
                make_image(tmp_path / "gab" / activity / who / f"{i}.png")
    table = import_table("gab", tmp_path / "gab", tmp_path / "table").table
    done = run(hashed_words, "binding", table)
    assert one(done.results, metric="binding_accuracy", variant="one_person", group="E1").n == 2
    assert set(done.results["pool"]) == {"generated"}
    assert "16 images of 2 activities: 4 E1, 4 E2, 4 U1, 4 U2" in done.notes


@pytest.fixture
def make_image():
    from PIL import Image

    def make(path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (len(str(path)) % 255, 1, 2)).save(path)

    return make


def test_a_rendered_world_runs_as_it_is(tmp_path, hashed_words):
    from equipoise.world import preset
    from equipoise.world.tables import write_binding_table

    table = write_binding_table(tmp_path / "world", preset("biased"), 3, activities=["catching_fish", "playing_drum"])
    frame = table.to_pandas()
    texts = SUITE.texts(frame, AuditConfig())
    captions = set(frame["caption"]) | set(frame["reversed_caption"])
    assert captions <= {text[0].lower() + text[1:] for text in texts}  # the same captions as the world's own
    done = run(hashed_words, "binding", table)
    assert set(done.results["pool"]) == {"rendered"}
    assert one(done.results, metric="activity_recall", group="U2", k=1).null_mean == 0.5  # one near activity


def test_from_scores_the_text_encoder_is_left_out_and_said_so(scored):
    found = SUITE.measure(scored(SUITE, world(2), binds), AuditConfig())
    assert "text_encoder_bias" not in set(found.frame()["metric"])
    assert any("needs embeddings of the texts" in note for note in found.notes)


def test_text_encoder_bias_is_found():
    frame = world(2)
    texts = SUITE.texts(frame, AuditConfig())
    vectors = np.zeros((len(texts), 4), dtype=np.float32)
    expected = {PHRASES[a]: NOUN[g] for a, g in EXPECTED.items()}
    for i, text in enumerate(texts):
        noun, phrase, _ = CAPTION.match(text).groups()
        vectors[i] = [1, noun == "man", noun == "woman", 0.01]
        if noun == "person":
            vectors[i, 1:3] = [expected.get(phrase) == "man", expected.get(phrase) == "woman"]
    images = np.eye(4, dtype=np.float32)[np.arange(len(frame)) % 4]
    found = SUITE.measure(Evidence(frame, texts, model="t", image_vectors=images, text_vectors=vectors), AuditConfig())
    assert one(found.frame(), metric="text_encoder_bias", variant="equipoise").value == 1
    assert one(found.frame(), metric="text_encoder_margin").p_value == pytest.approx(2 / 64)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f: f.drop(columns="activity"), "needs the activity in a column 'activity' or 'subject'"),
        (lambda f: f.drop(columns="gender"), "needs the performer's group in a column 'gender'"),
        (lambda f: f.assign(scenario="E3"), "no scenario named 'E3'"),
        (lambda f: f.assign(gender="male"), "is in scenario U1, but its performer is 'male' and 'male' is expected"),
        (lambda f: f.assign(scenario=None), "scenario in 48 rows"),
        (lambda f: f.drop(columns=["scenario", "expected_gender"]), "does not know who is expected to do 'guitar'"),
        (lambda f: f.drop(columns=["scenario", "other_gender"]), "cannot tell how many people"),
        (
            lambda f: f.drop(columns="expected_gender").assign(scenario="E1"),
            "'guitar' is expected of female and of male by the column",
        ),
        (lambda f: f.assign(expected_gender=f["gender"], scenario="E1"), "is expected of several groups"),
        (lambda f: f.assign(phrase=f["image_id"]), "'baby' has two values of 'phrase'"),
        (lambda f: f.assign(category=np.where(f["activity"] == "wood", None, "x")), "'wood' has no category"),
        (
            lambda f: f[f["gender"] == "male"].assign(expected_gender="male", scenario="E1"),
            "shows one group only, 'male'",
        ),
    ],
)
def test_bad_tables_are_told_what_they_lack(change, sentence):
    frame = change(world(2)).reset_index(drop=True)
    with pytest.raises(InputError) as caught:
        SUITE.texts(frame, AuditConfig())
    assert sentence in str(caught.value)


def test_one_axis_at_a_time():
    with pytest.raises(InputError, match="one axis at a time"):
        SUITE.texts(world(1), AuditConfig(axes=("gender", "age")))


def test_images_without_labels_are_left_out_and_counted(scored):
    frame = world(3)
    frame.loc[0:4, "gender"] = None
    frame.loc[7, "activity"] = None
    found = SUITE.measure(scored(SUITE, frame, lambda row, text: 0.0), AuditConfig())
    assert "5 images left out (no performer)" in found.notes
    assert "1 images left out (no activity)" in found.notes


def test_names_of_gab_in_any_dress():
    assert gab_activity("tying_childs_hair_into_a_ponytail").id == gab_activity("Tying Child’s Hair into a Ponytail").id
    assert gab_activity("juggling") is None


def test_two_people_of_one_group_are_left_out_and_counted():
    frame = world(3).drop(columns=["scenario"])
    alike = frame.copy()
    alike["image_id"] += "-alike"
    alike["other_gender"] = alike["gender"].where(alike["other_gender"].notna(), None)
    both = pd.concat([frame, alike[alike["other_gender"].notna()]], ignore_index=True)
    both.attrs["axes"] = ["gender"]
    (contrast,) = contrasts(both, AuditConfig())
    assert contrast.rows.tolist() == list(range(len(frame)))
    assert contrast.dropped == {"the two people are of one group": 36}
    with pytest.raises(InputError, match="missing are images of two people who differ in gender"):
        contrasts(both[len(frame) :].reset_index(drop=True), AuditConfig())
