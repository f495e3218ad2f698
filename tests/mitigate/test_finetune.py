"""Counterfactual fine-tuning: what its loss is, which subjects it sees, and that its folder says so."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.audit.running import fitted_on  # noqa: E402
from equipoise.data import Table  # noqa: E402
from equipoise.errors import InputError, UnknownNameError  # noqa: E402
from equipoise.mitigate.counterfactual_task import set_spread  # noqa: E402
from equipoise.mitigate.finetune import PRESETS, finetune, prepared_finetuning  # noqa: E402
from equipoise.mitigate.fitting import held_out_subjects  # noqa: E402
from equipoise.models import load  # noqa: E402
from equipoise.train.fitting import placed  # noqa: E402
from equipoise.world import preset  # noqa: E402
from equipoise.world.tables import write_counterfactual_table  # noqa: E402

SUBJECTS = ("chef", "nurse", "pilot", "farmer", "teacher")


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    return write_counterfactual_table(tmp_path_factory.mktemp("cf") / "sets", preset("fair"), 2, subjects=SUBJECTS)


@pytest.fixture(scope="module")
def prepared(sets):
    settings = {"steps": 2, "batch": 12, "val_share": 0.25}
    return prepared_finetuning("mini:clip", sets, ["gender"], device="cpu", caption="captions", settings=settings)


def test_the_spread_of_a_cell_by_brute_force():
    rng = np.random.default_rng(0)
    scores, cells = rng.standard_normal((9, 4)), np.array([1, 1, 2, 2, 2, 3, 4, 4, 4])
    expected = []
    for cell in (1, 2, 4):  # an image alone is compared with none
        mine = scores[cells == cell]
        pairs = [(i, j) for i in range(len(mine)) for j in range(i)]
        expected.append(np.mean([(mine[i] - mine[j]) ** 2 for i, j in pairs], axis=0))
    found = set_spread(torch.from_numpy(scores), torch.from_numpy(cells))
    assert float(found) == pytest.approx(float(np.mean(expected)))


def test_subjects_are_in_three_parts_and_those_apart_are_not_named(prepared):
    training, apart = prepared
    seen, judges = (set(training.subjects(places)) for places in (training.parts.train, training.parts.validation))
    assert (len(apart), len(seen), len(judges)) == (1, 3, 1)
    assert seen | judges | set(apart) == set(SUBJECTS)
    rows = training.rows.rows(training.parts.train.tolist(), images=False)
    texts = training.task.neutral_texts(rows, ["a man who works as a chef"], 0)
    assert not any(name in text for text in texts for name in (set(apart) | judges))
    assert all(any(name in text for text in texts) for name in seen)
    assert "a person who works as a chef" in texts


def test_rows_that_the_table_keeps_for_testing_are_not_learnt_from(sets):
    from equipoise.data.sampling import split_layer
    from equipoise.train.rows import TrainingRows

    table = split_layer(sets, by="subject", fractions={"train": 0.6, "test": 0.4})
    frame = table.to_pandas(["subject", "split"])
    tested, others = (set(frame["subject"][frame["split"] == name]) for name in ("test", "train"))
    training, apart = prepared_finetuning(
        "mini:clip", table, ["gender"], held_out=[min(others)], device="cpu", settings={"steps": 1, "val_share": 0.5}
    )
    learnt, judged = training.learnt_subjects, training.subjects(training.parts.validation)
    assert tested
    assert not tested & {*learnt, *judged}
    assert not set(apart) & {*learnt, *judged}
    rows = TrainingRows(table, ["subject"])
    assert set(rows.labels["split"].iloc[training.parts.train]) == {"train"}


def test_whole_sets_stay_in_a_batch(prepared):
    training, _ = prepared
    labels = training.rows.labels
    for step in range(2):
        batch = labels.iloc[training.streams[0].stream.batch_at(step)]
        assert (batch.groupby("set_id").size() == 6).all()


def test_sets_that_are_numbered_anew_in_each_subject_are_as_good_as_others(sets, prepared, tmp_path):
    frame = sets.to_pandas(["image_id", "subject", "set_id"])
    numbers = frame.groupby("subject")["set_id"].transform(lambda names: names.factorize()[0]).astype(str)
    anew = sets.add_layer("anew", frame[["image_id"]].assign(set_id=numbers), columns=["set_id"], path=tmp_path / "l")
    assert anew.to_pandas(["set_id"])["set_id"].nunique() == 2
    assert held_out_subjects(anew, 0.5) == held_out_subjects(sets, 0.5)
    settings = {"steps": 2, "batch": 12, "val_share": 0.25}
    given = {"device": "cpu", "caption": "captions", "settings": settings}
    (training, apart), (named, named_apart) = prepared_finetuning("mini:clip", anew, ["gender"], **given), prepared
    assert apart == named_apart
    for step in range(2):
        assert np.array_equal(training.streams[0].stream.batch_at(step), named.streams[0].stream.batch_at(step))
    assert torch.equal(training.task._differing, named.task._differing)


def test_what_images_should_be_is_the_mean_of_their_twins_but_for_the_words(prepared):
    training, _ = prepared
    task = training.task
    inputs = placed(training.inputs_at(0), torch.device("cpu"))
    images, texts, prompts = task._wanted(inputs)
    old, _ = task.vectors(task._teacher, inputs)
    naming = task._naming
    assert torch.allclose(naming @ naming.T, torch.eye(1), atol=1e-5)
    outside = old - old @ naming.T @ naming
    twins = inputs["twins"]
    for code in twins.unique():
        mine = twins == code
        assert int(mine.sum()) == 2  # a woman and a man of one skin tone
        common = outside[mine].mean(dim=0) + old[mine] @ naming.T @ naming
        assert torch.allclose(images[mine], torch.nn.functional.normalize(common, dim=-1), atol=1e-5)
    differing = task._differing
    assert len(differing) == 1
    assert torch.allclose(differing @ differing.T, torch.eye(len(differing)), atol=1e-5)
    assert float((prompts @ differing.T).abs().max()) < 1e-5
    named = inputs["names_group"]
    assert 0 < int(named.sum()) < len(named)
    assert float((texts[named] @ differing.T).abs().max()) > 0.1
    assert float((texts[~named] @ differing.T).abs().max()) < 1e-5


def test_the_folder_is_a_model_that_says_which_subjects_it_has_seen(sets, tmp_path):
    given = {"settings": {"steps": 2, "batch": 12, "rate": 1e-3, "val_share": 0.25}, "caption": "captions"}
    done = finetune("mini:clip", sets, ["gender"], tmp_path / "m", device="cpu", **given)
    encoder, before = load(done.model, device="cpu"), load("mini:clip", device="cpu")
    images = [image for _, image in sets.images()][:2]
    assert np.array_equal(encoder.encode_images(images), before.encode_images(images))  # texts alone learn
    assert not np.allclose(encoder.encode_texts(["a chef"]), before.encode_texts(["a chef"]), atol=1e-4)
    seen = fitted_on(encoder)["fitted_on"]["subjects"]
    assert sorted([*seen, *done.held_out]) == sorted(SUBJECTS)
    kept = Table.open(sets.path, layers=[tmp_path / "m" / "held_out"]).to_pandas(["subject"], only_kept=True)
    assert set(kept["subject"]) == set(done.held_out)
    assert fitted_on(load("mini:clip", device="cpu")) == {}


def test_presets_and_refusals(sets):
    given = {"device": "cpu", "variant": "contrastive"}
    training, _ = prepared_finetuning("mini:clip", sets, ["gender"], preset="race-gender", **given)
    assert training.settings.rate == PRESETS["race-gender"] == 7e-6
    assert training.settings.batch == 32
    assert not len(training.parts.validation)
    assert training.task.weights == {"contrastive": 1.0, "equalise": 0.0, "distil": 0.0}
    with pytest.raises(UnknownNameError, match="did you mean 'gender'"):
        prepared_finetuning("mini:clip", sets, ["gendr"], device="cpu")
    with pytest.raises(UnknownNameError, match="did you mean 'equalised'"):
        prepared_finetuning("mini:clip", sets, ["gender"], variant="equalized")
    with pytest.raises(InputError, match="name the axes to repair"):
        prepared_finetuning("mini:clip", sets, [])
    with pytest.raises(InputError, match="one of them above 0"):
        prepared_finetuning("mini:clip", sets, ["gender"], weights={"equalise": 0.0, "distil": 0.0})
