"""The suite ``faces``: planted similarity, preference and accuracy are found again; a blind model has no excess."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.examples import examples

from equipoise.audit import AuditConfig, run
from equipoise.audit.evidence import Evidence
from equipoise.audit.subjects import moving_cells
from equipoise.audit.suites import SUITES
from equipoise.audit.suites._probes import own_text_means, prompt_sensitivity
from equipoise.data import Table
from equipoise.data.labels import set_numbers
from equipoise.errors import InputError
from equipoise.measure.arrays import unit_vectors
from equipoise.measure.embedding import person_preference, self_similarity
from equipoise.measure.groups import Groups
from equipoise.measure.stats.group_means import group_means
from equipoise.text.templates.persons import group_nouns, group_phrases, worded_by_rule

SUITE = SUITES.load("faces")
FAST = AuditConfig(draws=99)


def faces(n: int = 200, **axes: list[str]) -> pd.DataFrame:
    axes = axes or {"gender": ["Female", "Male"]}
    frame = pd.DataFrame({"image_id": [f"f{i}" for i in range(n)]})
    for step, (axis, groups) in enumerate(axes.items(), 1):
        frame[axis] = [groups[(i // step) % len(groups)] for i in range(n)]
    frame.attrs["axes"] = list(axes)
    return frame


def rows(found, metric: str, variant: str | None = None, *, subject: str | None = None) -> pd.DataFrame:
    frame = found.frame() if hasattr(found, "frame") else found
    frame = frame[(frame["metric"] == metric) & (frame["variant"] == (variant or frame["variant"]))]
    frame = frame[frame["subject"].isna()] if subject is None else frame[frame["subject"] == subject]
    return frame.set_index("group")


def with_vectors(frame: pd.DataFrame, images: np.ndarray, rng, config: AuditConfig = FAST) -> Evidence:
    texts = SUITE.texts(frame, config)
    vectors = rng.normal(size=(len(texts), images.shape[1]))
    return Evidence(
        frame, texts, model="m", image_vectors=unit_vectors(images, "i"), text_vectors=unit_vectors(vectors, "t")
    )


def alike(n: int, cosine: float, rng, dim: int = 300) -> np.ndarray:
    """Unit vectors with a mean cosine of about ``cosine``, around the same direction for every group."""
    noise = rng.normal(size=(n, dim))
    noise[:, 0] = 0
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    out = np.sqrt(1 - cosine) * noise
    out[:, 0] += np.sqrt(cosine)
    return out


def test_planted_self_similarity_is_found():
    rng = np.random.default_rng(0)
    frame = faces(400)
    images = np.where((frame["gender"] == "Female").to_numpy()[:, None], alike(400, 0.6, rng), alike(400, 0.4, rng))
    found = SUITE.measure(with_vectors(frame, images, rng), FAST)
    by_group = rows(found, "self_similarity_normalised")
    for group, planted in {"Female": 0.2, "Male": -0.2}.items():
        assert by_group.loc[group, "ci_low"] <= planted <= by_group.loc[group, "ci_high"]
    gap = rows(found, "self_similarity_gap").iloc[0]
    assert gap.value == pytest.approx(0.4, abs=0.02)
    assert gap.p_value == 0.01
    exact = self_similarity(images, Groups.from_values(frame["gender"]), permutations=2)
    assert by_group.loc["Male", "value"] == pytest.approx(exact.normalised["Male"].value, abs=1e-6)


@pytest.mark.slow
def test_a_blind_model_has_no_excess():
    rng = np.random.default_rng(1)
    frame = faces(300, race=["White", "Black", "Indian"])
    p_values = []
    for _ in range(5):
        found = SUITE.measure(with_vectors(frame, rng.normal(size=(300, 8)) + 1, rng), FAST).frame()
        over = found[found["subject"].isna()].set_index(["metric", "variant"])
        for key in (
            ("self_similarity_gap", "group_mean"),
            ("person_preference_gap", "all_labels"),
            ("person_preference_gap", "texts_kept"),
            ("zero_shot_accuracy_gap", "texts_kept"),
            ("leakage_auc", "ridge"),
        ):
            p_values.append(over.loc[[key], "p_value"].iloc[0])
    assert len(p_values) == 25
    assert 0.3 < np.mean(p_values) < 0.7
    assert np.mean(np.array(p_values) <= 0.05) < 0.15


def test_texts_that_differ_are_no_gap_between_images(scored):
    """Every image prefers "person" to one text and the other text to "person": chance says so, one half does not."""
    frame = faces(100)

    def score(row: dict, text: str) -> float:
        return 1.0 * ("female" in text) + 0.5 * text.endswith(("a person", " person")) * ("male" not in text)

    found = SUITE.measure(scored(SUITE, frame, score), FAST)
    plain, kept = rows(found, "person_preference_gap", "own_label"), rows(found, "person_preference_gap", "texts_kept")
    assert plain.iloc[0].value == kept.iloc[0].value == 1
    assert plain.iloc[0].p_value == 0.01  # against labels shuffled over fixed answers it looks like a finding
    assert kept.iloc[0].excess == 0
    assert kept.iloc[0].p_value == 1


def test_planted_preference_is_found_by_vectors_and_by_scores(scored):
    rng = np.random.default_rng(2)
    frame = faces(600, race=["White", "Black"])
    share = frame["race"].map({"White": 0.8, "Black": 0.3})
    frame["neutral"] = rng.random(600) < share

    def score(row: dict, text: str) -> float:
        neutral = "white" not in text and "black" not in text
        return 0.5 + 0.1 * (neutral == row["neutral"])

    found = SUITE.measure(scored(SUITE, frame, score), FAST)
    for variant in ("own_label", "all_labels", "texts_kept"):
        by_group = rows(found, "person_preference", variant)
        for group, planted in {"White": 0.8, "Black": 0.3}.items():
            assert by_group.loc[group, "ci_low"] <= planted <= by_group.loc[group, "ci_high"]
            assert by_group.loc[group, "n"] == 300
        gap = rows(found, "person_preference_gap", variant).iloc[0]
        assert gap.ci_low <= 0.5 <= gap.ci_high
        assert gap.p_value == 0.01
    # all templates agree here
    assert (rows(found, "prompt_sensitivity")["value"] == 0).all()
    assert rows(found, "person_preference", "own_label", subject="a picture of a person").loc["White", "n"] == 300
    assert any("need embeddings, not scores" in note for note in found.notes)


def test_scores_and_vectors_agree_and_the_definition_is_the_measure_rooms():
    rng = np.random.default_rng(3)
    frame = faces(80, age=["0-2", "3-9", "20-29"])
    images = rng.normal(size=(80, 8))
    by_vectors = with_vectors(frame, images, rng)
    texts = by_vectors.texts
    matrix = by_vectors.scores(texts, np.arange(80))
    by_scores = Evidence(frame, texts, model="m", scores=matrix)
    first, second = SUITE.measure(by_vectors, FAST), SUITE.measure(by_scores, FAST)
    for metric in ("person_preference", "prompt_sensitivity"):
        pd.testing.assert_frame_equal(rows(first, metric), rows(second, metric), rtol=1e-6)
    # the first template by the measure room's own function
    groups = Groups.from_values(frame["age"])
    text = dict(zip(texts, by_vectors.text_vectors(texts, "faces"), strict=True))
    own = [text[f"a photo of a person aged {name}"] for name in groups.names]
    direct = person_preference(images, text["a photo of a person"], own, groups)
    ours = rows(first, "person_preference", "own_label", subject="a photo of a person")
    assert {g: e.value for g, e in direct.by_group.items()} == ours["value"].to_dict()


def test_wording_that_matters_is_reported(scored):
    frame = faces(50)
    # one template of five lets the neutral text win
    found = SUITE.measure(scored(SUITE, frame, lambda row, text: float(text == "a picture of a person")), FAST)
    spread = rows(found, "prompt_sensitivity", "own_label")
    assert (spread["value"] == 1).all()
    assert spread["notes"].str.contains('highest with "a picture of a person"').all()
    assert rows(found, "person_preference", "own_label").loc["Male", "value"] == pytest.approx(0.2)


def test_zero_shot_accuracy_and_leakage_are_found():
    rng = np.random.default_rng(4)
    frame = faces(300, gender=["Female", "Male"])
    texts = SUITE.texts(frame, FAST)
    vectors = np.zeros((len(texts), 4))
    for i, text in enumerate(texts):
        vectors[i] = [1, "woman" in text, text.endswith(" man"), 0.1]
    is_woman = (frame["gender"] == "Female").to_numpy()
    seen_as_woman = np.where(is_woman, rng.random(300) < 0.9, rng.random(300) < 0.4)
    images = np.column_stack([np.ones(300), seen_as_woman, ~seen_as_woman, rng.normal(size=300)])
    evidence = Evidence(
        frame, texts, model="m", image_vectors=unit_vectors(images, "i"), text_vectors=unit_vectors(vectors, "t")
    )
    found = SUITE.measure(evidence, FAST)
    by_group = rows(found, "zero_shot_accuracy", "equipoise")
    right = {"Female": seen_as_woman[is_woman].mean(), "Male": 1 - seen_as_woman[~is_woman].mean()}
    for group, share in right.items():
        assert by_group.loc[group, "value"] == pytest.approx(share)
        assert by_group.loc[group, "ci_low"] < share < by_group.loc[group, "ci_high"]
    kept = rows(found, "zero_shot_accuracy", "texts_kept")
    assert kept.loc["Female", "null_mean"] == pytest.approx(seen_as_woman.mean(), abs=0.02)
    auc = rows(found, "leakage_auc").iloc[0]
    # one bit is all there is to read
    assert auc.ci_low <= (right["Female"] + right["Male"]) / 2 <= auc.ci_high
    assert auc.p_value == 0.01


def test_a_table_with_sets_shuffles_inside_them(tmp_path, hashed_words):
    frame = faces(60)
    frame["set_id"] = [f"s{i // 2}" for i in range(60)]
    table = Table.create(tmp_path / "t", frame.to_dict("records"), axes=["gender"])
    done = run(hashed_words, "faces", table, tmp_path / "audit", config={"draws": 50})
    assert (tmp_path / "audit" / "results.parquet").exists()
    assert set(done.results["metric"]) >= {"self_similarity", "person_preference", "zero_shot_accuracy", "leakage_auc"}
    assert done.results["value"].notna().all()
    assert done.results.loc[done.results["subject"].isna(), "null_mean"].notna().all()


def test_an_axis_that_does_not_vary_inside_sets_is_shuffled_over_all():
    rng = np.random.default_rng(8)
    frame = faces(120, gender=["Female", "Male"], race=["White", "Black"])
    frame["set_id"] = [f"s{i // 2}" for i in range(120)]  # one woman, one man, of one race
    images = rng.normal(size=(120, 8)) + 1
    found = SUITE.measure(with_vectors(frame, images, rng), FAST)
    assert any(note.startswith("race: the group does not vary inside the sets") for note in found.notes)
    assert not any(note.startswith("gender: the group does not") for note in found.notes)
    over = found.frame()
    over = over[over["subject"].isna() & over["null_sd"].notna()]
    assert (over["null_sd"] > 0).all()


def test_one_set_of_two_groups_does_not_hold_the_others():
    rng = np.random.default_rng(9)
    frame = faces(120, gender=["Female"] * 4 + ["Male"] * 4)
    frame["set_id"] = [f"s{i // 4}" for i in range(120)]
    frame.loc[0, "gender"] = "Male"
    images = rng.normal(size=(120, 8)) + np.where(frame["gender"] == "Male", 2.0, 0.3)[:, None]
    found = SUITE.measure(with_vectors(frame, images, rng), FAST)
    assert "gender: the group varies inside 1 of 30 sets; the others exchange it" in found.notes
    assert rows(found, "self_similarity_gap").iloc[0].p_value < 0.05


def test_one_wrong_label_among_tones_does_not_hold_the_other_sets():
    rng = np.random.default_rng(9)
    frame = faces(120, gender=["Female"] * 4 + ["Male"] * 4, tone=["light", "dark"])
    frame["set_id"] = [f"s{i // 4}" for i in range(120)]
    frame.loc[0, "gender"] = "Male"
    images = rng.normal(size=(120, 8)) + np.where(frame["gender"] == "Male", 2.0, 0.3)[:, None]
    found = SUITE.measure(with_vectors(frame, images, rng), FAST)
    assert "gender: the group varies inside 1 of 30 sets; the others exchange it" in found.notes
    shown = found.frame()
    gap = shown[(shown["metric"] == "self_similarity_gap") & (shown["axis"] == "gender")].iloc[0]
    assert gap.p_value < 0.05


def test_own_prompts_are_the_templates():
    frame = faces(4)
    config = AuditConfig(prompts=("a drawing of a {}", "the {}", "sketch: {}"))
    texts = SUITE.texts(frame, config)
    assert "a drawing of a female person" in texts
    assert "a drawing of a man" in texts
    assert "the man" in texts
    assert "sketch: man" in texts
    assert not any("photo" in text for text in texts)
    rng = np.random.default_rng(0)
    config = AuditConfig(prompts=config.prompts[:2])
    found = SUITE.measure(with_vectors(faces(40), rng.normal(size=(40, 6)) + 1, rng, config), config)
    assert "2 templates: ask in three wordings or more to know how much they matter" in found.notes
    with pytest.raises(InputError, match="at most 10 templates"):
        SUITE.texts(frame, AuditConfig(prompts=tuple(f"{i} {{}}" for i in range(11))))
    with pytest.raises(InputError, match=r"no \{\} where the subject goes"):
        SUITE.texts(frame, AuditConfig(prompts=("a person",)))


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        (faces(4, gender=["Male"]), "the axis 'gender' shows one group, 'Male'"),
        (faces(4).assign(gender=None), "the axis 'gender' shows no group at all"),
        (faces(4).drop(columns="gender"), "the table has no axis 'gender'"),
    ],
)
def test_bad_tables_are_told_what_they_lack(frame, sentence):
    frame.attrs["axes"] = ["gender"]
    with pytest.raises(InputError) as caught:
        SUITE.texts(frame, FAST)
    assert sentence in str(caught.value)


def test_groups_outside_the_lists_are_worded_by_rule_and_said_so(scored):
    assert group_nouns("gender", ["man", "Female"]) == {"man": "man", "Female": "woman"}
    assert group_phrases("age", ["child", "more than 70"]) == {
        "child": "child",
        "more than 70": "person aged 70 or more",
    }
    assert worded_by_rule("skin_tone", ["dark"]) == ["dark"]
    frame = faces(8, skin_tone=["dark", "light"])
    found = SUITE.measure(scored(SUITE, frame, lambda row, text: 0.0), FAST)
    assert any("'person with dark skin'" in note for note in found.notes)


def test_undefined_faces_and_lone_groups_are_counted():
    rng = np.random.default_rng(5)
    frame = faces(41)
    frame.loc[:9, "gender"] = None
    frame.loc[40, "gender"] = "other"
    found = SUITE.measure(with_vectors(frame, rng.normal(size=(41, 8)) + 1, rng), FAST)
    assert "gender: 10 images of undefined group left out" in found.notes
    assert any("'other' has fewer than 2" in note for note in found.notes)
    assert rows(found, "leakage_auc").iloc[0].n == 30


@settings(deadline=None, max_examples=examples(40))
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(6, 20), st.just(3)), elements=st.sampled_from([0.0, 0.5, 1.0])),
    st.integers(0, 99),
)
def test_own_text_means_against_a_plain_loop(worth, seed):
    labels = np.arange(len(worth)) % 3
    groups = Groups(labels.astype(np.int32), ("a", "b", "c"))
    found = own_text_means(worth, groups, permutations=2000, seed=seed)
    for g, name in enumerate(groups.names):
        assert found.by_group[name].value == pytest.approx(
            np.mean([worth[i, g] for i in range(len(worth)) if labels[i] == g])
        )
        everybody = worth[:, g].mean()  # what shuffled labels give on average, exactly
        error = worth[:, g].std() / np.sqrt(2000) + 1e-12
        assert abs(found.by_group[name].null_mean - everybody) < 6 * error


@settings(deadline=None, max_examples=examples(30))
@given(hnp.arrays(np.int64, st.tuples(st.integers(1, 12), st.integers(2, 4)), elements=st.integers(0, 1)))
def test_prompt_sensitivity_against_shuffled_rows(outcomes):
    names = [str(i) for i in range(outcomes.shape[1])]
    found = prompt_sensitivity(outcomes, names, replicates=1500)
    rng = np.random.default_rng(0)
    plain = []
    for _ in range(1500):
        means = rng.permuted(outcomes, axis=1).mean(axis=0)
        plain.append(means.max() - means.min())
    error = np.hypot(found.null_sd, np.std(plain)) / np.sqrt(1500) + 1e-9
    assert abs(found.null_mean - np.mean(plain)) < 6 * error
    assert found.value == pytest.approx(outcomes.mean(axis=0).max() - outcomes.mean(axis=0).min())
    if found.ci_low is None:  # answers that differ by the same amount for every image show no spread
        assert found.notes[-1].startswith("no interval")
        return
    assert 0 <= found.ci_low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.ci_high <= 1


def test_prompt_sensitivity_refuses_one_template():
    with pytest.raises(InputError, match="2 to 10 templates"):
        prompt_sensitivity([[1], [0]], ["a"])


def test_images_of_a_set_are_no_independent_images():
    """Twelve sets of ten alike, each for or against by the toss of a coin."""
    frame = pd.DataFrame(
        [
            {"image_id": f"{n}-{i}", "set_id": f"s{n}", "gender": ["female", "male"][i % 2]}
            for n in range(12)
            for i in range(10)
        ]
    )
    frame.attrs["axes"] = ["gender"]
    texts = list(SUITE.texts(frame, FAST))
    coin = np.random.default_rng(0).random(12) < 0.4
    named = np.array([[any(word in text for word in ("man", "male"))] for text in texts])
    scores = np.where(named, 0.5, np.repeat(coin, 10)[None, :].astype(float))
    config = AuditConfig(draws=50)
    found = SUITE.measure(Evidence(frame, texts, model="m", scores=scores), config)
    results = found.frame()
    one = results[(results["metric"] == "person_preference") & results["subject"].notna()]
    one = one[(one["variant"] == "own_label") & (one["group"] == "male")].iloc[0]
    share = coin.mean()
    assert one.value == pytest.approx(share)
    assert one.ci_high - one.ci_low > 0.4  # 12 tosses; 60 images taken for independent give 0.25
    queries = found.query_frame()
    assert set(queries["cluster"]) == set(frame["set_id"])
    twice = pd.concat([frame.assign(subject=job, image_id=job + frame["image_id"]) for job in ("cook", "nurse")])
    twice = twice.reset_index(drop=True)
    twice.attrs["axes"] = ["gender"]
    found = SUITE.measure(Evidence(twice, texts, model="m", scores=np.hstack([scores, scores])), config)
    assert found.query_frame()["cluster"].nunique() == 24  # sets of one name and two subjects are two


def test_one_image_of_no_set_leaves_the_others_together():
    rng = np.random.default_rng(0)
    frame = faces(121)
    frame["set_id"] = [f"s{i // 10}" for i in range(120)] + [None]  # twelve people, ten images of each, alike
    images = np.repeat(alike(13, 0.4, rng), 10, axis=0)[:121]

    def width(some: pd.DataFrame, vectors: np.ndarray) -> float:
        some.attrs["axes"] = ["gender"]
        found = SUITE.measure(with_vectors(some, vectors, np.random.default_rng(1)), FAST)
        row = rows(found, "person_preference", "all_labels").loc["Female"]
        assert any("1 image of no set" in note for note in found.notes) == some["set_id"].isna().any()
        return float(row.ci_high - row.ci_low)

    assert width(frame, images) == pytest.approx(width(frame[:120].copy(), images[:120]), rel=0.15)
    assert width(frame, images) > 1.5 * width(frame.assign(set_id=frame["image_id"]), images)


def test_labels_move_only_among_images_alike_on_the_other_axes():
    rng = np.random.default_rng(0)
    n_sets, effect = 40, 3.0
    frame = pd.DataFrame(
        {
            "image_id": [f"f{i}" for i in range(4 * n_sets)],
            "set_id": np.repeat([f"s{i}" for i in range(n_sets)], 4),
            "gender": ["female", "male", "female", "male"] * n_sets,
            "race": ["x", "x", "y", "y"] * n_sets,
        }
    )
    frame.attrs["axes"] = ["gender", "race"]
    codes = moving_cells(frame, set_numbers(frame), "gender")
    assert (codes[::2] == codes[1::2]).all()
    assert len(np.unique(codes)) == 2 * n_sets
    # race moves every value far, gender a little: shuffled across races the gap of gender would drown
    values = effect * (frame["race"] == "y") + 0.3 * (frame["gender"] == "male") + 0.5 * rng.normal(size=len(frame))
    groups = Groups.from_values(frame["gender"])
    sets = set_numbers(frame)
    held = group_means(values, groups, clusters=sets, shuffle_within=codes, permutations=199).gap
    loose = group_means(values, groups, clusters=sets, shuffle_within=sets, permutations=199).gap
    assert held.p_value < 0.02 < 0.1 < loose.p_value


def test_an_image_of_unknown_level_stays():
    frame = pd.DataFrame({"set_id": ["s"] * 5, "gender": [*"fmfmf"], "race": ["x", "x", "y", "y", None]})
    frame.attrs["axes"] = ["gender", "race"]
    codes = moving_cells(frame, set_numbers(frame), "gender")
    assert codes.tolist() == [0, 0, 1, 1, 2]
