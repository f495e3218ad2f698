"""Training on a table: what it writes opens as hf:, and a stopped run goes on to the same weights."""

import csv

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.data.runs import read_run  # noqa: E402
from equipoise.errors import InputError, UnknownNameError  # noqa: E402
from equipoise.models import load  # noqa: E402
from equipoise.train import fitting  # noqa: E402
from equipoise.train.fitting import fit, prepared_training  # noqa: E402
from equipoise.train.settings import TrainSettings  # noqa: E402

GIVEN = {"init": "mini:clip", "steps": 4, "batch": 6, "rate": 1e-4, "quiet": True, "device": "cpu", "save_every": 2}


def weights(folder):
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


@pytest.fixture(scope="module")
def trained(world_sets, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit") / "clip"
    return fit("clip", world_sets, folder, **GIVEN, val_share=0.4)


def test_the_folder_opens_as_a_model_and_says_what_it_has_seen(trained, world_sets):
    encoder = load(f"hf:{trained.folder}", device="cpu")
    before = load("mini:clip", device="cpu").encode_texts(["a photo of a chef"])
    assert not np.allclose(encoder.encode_texts(["a photo of a chef"]), before, atol=1e-4)
    about = read_run(trained.folder, "training").about
    seen, judged = set(about["fitted_on"]["subjects"]), set(about["fitted_on"]["judged_by"])
    assert len(seen) == 3
    assert len(judged) == 2
    assert not seen & judged
    assert about["fitted_on"]["n"] == 36
    with (trained.folder / "losses.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["1", "2", "3", "4"]
    assert all(float(row["loss"]) > 0 for row in rows)
    assert float(rows[-1]["validation"]) == trained.validation
    assert not (trained.folder / "_work").exists()


def test_a_stopped_run_goes_on_to_the_same_weights(trained, world_sets, tmp_path, monkeypatch):
    real = fitting.run

    def killed(*given, **more):
        real(*given, **more, stop_at=3)  # the checkpoint is of step 2
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        fit("clip", world_sets, tmp_path / "b", **GIVEN, val_share=0.4)
    assert (tmp_path / "b" / "_work" / "checkpoint.safetensors").exists()
    monkeypatch.setattr(fitting, "run", real)
    with pytest.raises(InputError, match="holds another training"):
        fit("clip", world_sets, tmp_path / "b", **(GIVEN | {"rate": 1e-3}), val_share=0.4)
    again = fit("clip", world_sets, tmp_path / "b", **GIVEN, val_share=0.4)
    assert again.loss == trained.loss
    one, other = weights(trained.folder), weights(tmp_path / "b")
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (trained.folder / "losses.csv").read_bytes() == (tmp_path / "b" / "losses.csv").read_bytes()


def test_a_finished_run_is_given_back(trained, world_sets, monkeypatch):
    monkeypatch.setattr(fitting, "run", None)
    assert fit("clip", world_sets, trained.folder, **GIVEN, val_share=0.4) == trained


def test_reading_ahead_changes_nothing(trained, world_sets, tmp_path):
    fit("clip", world_sets, tmp_path / "c", **GIVEN, val_share=0.4, readers=0)
    assert (trained.folder / "losses.csv").read_bytes() == (tmp_path / "c" / "losses.csv").read_bytes()


def test_patience_ends_it_and_the_best_weights_are_kept(world_sets, tmp_path, monkeypatch):
    looks = iter([3.0, 1.0, 2.0, 2.5, 0.0])
    snapshots = []
    real = fitting.Training.validation

    def scripted(training):
        def loss(model):
            snapshots.append({n: p.detach().clone() for n, p in model.named_parameters()})
            return next(looks)

        from dataclasses import replace

        return replace(real(training), loss=loss)

    monkeypatch.setattr(fitting.Training, "validation", scripted)
    given = GIVEN | {"steps": 10, "val_share": 0.4, "val_every": 1, "patience": 2}
    done = fit("clip", world_sets, tmp_path / "p", **given)
    assert done.steps == 4
    assert done.validation == 1.0
    kept = weights(tmp_path / "p")
    assert all(torch.equal(kept[name], value) for name, value in snapshots[1].items() if name in kept)


def test_further_tables_take_their_share_of_every_batch_and_count_as_seen(world_sets, tmp_path):
    from equipoise.train.tasks.clip import ClipTask
    from equipoise.world import preset
    from equipoise.world.tables import write_counterfactual_table

    batches = []

    class Recording(ClipTask):
        def inputs(self, rows, step):
            batches.append([row["subject"] for row in rows])
            return super().inputs(rows, step)

    other = write_counterfactual_table(tmp_path / "other", preset("fair"), 1, subjects=["judge"], seed=9)
    given = GIVEN | {"steps": 2, "batch": 8, "val_share": 0.0}
    done = fit(Recording(), world_sets, tmp_path / "m", mixture={other: 0.25}, **given)
    assert [(len(batch), batch.count("judge")) for batch in batches] == [(8, 2), (8, 2)]
    assert "judge" in done.subjects
    about = read_run(done.folder, "training")
    assert "judge" in about.about["fitted_on"]["subjects"]
    assert about.of["mixture"] == [[list(other.fingerprints), 0.25]]
    with pytest.raises(InputError, match="above 0 and together below 1"):
        fit("clip", world_sets, tmp_path / "n", mixture={other: 1.0}, **given)


def test_of_further_tables_only_train_rows_that_share_nothing_with_those_that_judge_are_learnt_from(tmp_path):
    from equipoise.data import Table

    def a_table(name, *rows):
        made = [
            {"image_id": f"{name}{i}", "caption": "a person", "subject": subject, "split": split}
            for i, (subject, split) in enumerate(rows)
        ]
        return Table.create(tmp_path / name, made)

    def prepared(other):
        settings = TrainSettings(steps=2, batch=8)
        return prepared_training("clip", main, init="mini:clip", mixture={other: 0.5}, device="cpu", settings=settings)

    main = a_table("main", ("cook", "train"), ("nurse", "val"), ("pilot", "test"))
    other = a_table("other", ("judge", "train"), ("nurse", "train"), ("guard", "test"), ("pilot", "val"))
    training = prepared(other)
    taken = np.concatenate([training.streams[1].stream.batch_at(step) for step in range(2)])
    assert taken.tolist() == [0] * 8
    assert training.learnt_subjects == ("cook", "judge")
    with pytest.raises(InputError, match="no row is left to mix in"):
        prepared(a_table("nurses", ("nurse", "train"), ("cook", "test")))
    with pytest.raises(InputError, match="no row is of the split train"):
        prepared(a_table("tests", ("cook", "test")))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"epochs": 1.0}, "give steps or epochs, not both"),
        ({"patience": 1, "val_share": 0.0}, "give val_share above 0"),
        ({"freeze": ("vison_model",)}, "its parts are logit_scale, text_model"),
        ({"last_layers": 9}, "has 4 layers|has 2 layers"),
        ({"init": "table:x"}, "training starts from a checkpoint"),
        ({"init": "mini:judge"}, "not a dual encoder"),
        ({"options": {"loss": "sigmoid"}}, "no bias"),
        ({"val_share": 0.1}, "5 units .* too few .* give another val_share"),
        ({"rate": 0.0}, "rate = 0.0: give a number above 0"),
    ],
)
def test_what_cannot_be_done_is_said(world_sets, tmp_path, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        fit("clip", world_sets, tmp_path / "x", **(GIVEN | {"val_share": 0.4} | changes))
    assert not (tmp_path / "x").exists()


def test_unknown_names_are_answered_with_the_closest(world_sets, tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean 'clip'"):
        fit("clp", world_sets, tmp_path / "x", **GIVEN)
    with pytest.raises(UnknownNameError, match="did you mean 'steps'"):
        fit("clip", world_sets, tmp_path / "x", **GIVEN, step=3)


@pytest.mark.parametrize("chosen", [{"low_rank": 2}, {"last_layers": 1}, {"freeze": ("vision_model",)}])
def test_only_the_chosen_weights_move_and_stock_classes_load_them(world_sets, tmp_path, chosen):
    if "low_rank" in chosen:
        pytest.importorskip("peft")
    from transformers import CLIPModel

    from equipoise.models.miniatures import FOLDER

    fit("clip", world_sets, tmp_path / "m", **GIVEN, **chosen, val_share=0.0)
    before = CLIPModel.from_pretrained(FOLDER / "clip", dtype=torch.float32).state_dict()
    after = CLIPModel.from_pretrained(tmp_path / "m").state_dict()
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    embeddings = {name for name in before if ".embeddings." in name and "position_ids" not in name}
    if "low_rank" in chosen:
        assert "visual_projection.weight" in moved
        assert all(name.endswith("weight") for name in moved)
        rank = torch.linalg.matrix_rank(
            after["visual_projection.weight"] - before["visual_projection.weight"], tol=1e-6
        )
        assert 1 <= int(rank) <= 2
    elif "last_layers" in chosen:
        assert not moved & embeddings
        assert not any("layers.0." in name for name in moved)
        assert any("vision_model.encoder.layers.3" in name for name in moved)
    else:
        assert not any(name.startswith("vision_model") for name in moved)
        assert any(name.startswith("text_model") for name in moved)


@pytest.mark.parametrize(("task", "init", "options"), [("captioner", "mini:captioner", {}), ("mlm", "mini:text", {})])
def test_adapters_beside_shared_matrices_do_not_change_what_was_trained(world_sets, task, init, options):
    """The matrix that says the next word embeds words, too: an adapter of one side must not be merged into both."""
    pytest.importorskip("peft")
    how = TrainSettings(steps=1, batch=4, low_rank=2, val_share=0.0)
    training = prepared_training(task, world_sets, init=init, options=options, device="cpu", settings=how)
    moved = [(name, p) for name, p in training.model.named_parameters() if p.requires_grad]
    assert moved
    with torch.no_grad():
        for _, weights_of_adapter in moved:
            weights_of_adapter.copy_(torch.randn(weights_of_adapter.shape, generator=torch.Generator().manual_seed(1)))
        training.model.eval()
        inputs = fitting.placed(training.inputs_at(0), training.processes.device)
        before = float(training.loss(training.model, inputs))
        training.merge()
        assert float(training.loss(training.model, inputs)) == pytest.approx(before, rel=1e-3)


def test_a_blank_caption_among_others_is_passed_over():
    from equipoise.train.task import drawn_texts

    rows = [{"image_id": "a", "caption": ["", "a man", " "]}]
    assert {drawn_texts(rows, "caption", step)[0] for step in range(9)} == {"a man"}
    with pytest.raises(InputError, match="has no text"):
        drawn_texts([{"image_id": "a", "caption": ["", " "]}], "caption", 0)


def test_an_estimate_measures_the_training_that_will_run(world_sets, monkeypatch):
    from equipoise.train import estimate, loop

    monkeypatch.setattr(loop, "bfloat16_is_fast", lambda: True)
    how = TrainSettings(steps=4, batch=4, half=True, val_share=0.0)
    training = prepared_training("clip", world_sets, init="mini:clip", device="cpu", settings=how)
    seen, real = set(), type(training.task).loss

    def watched(task, *given):
        seen.add((torch.get_num_threads(), torch.is_autocast_enabled("cpu")))
        return real(task, *given)

    monkeypatch.setattr(type(training.task), "loss", watched)
    estimate.estimated(training)
    assert seen == {(1, True)}
