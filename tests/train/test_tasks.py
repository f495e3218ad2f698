"""The tasks: each learns from a rendered table, and what it writes opens as what it is."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from equipoise.errors import InputError  # noqa: E402
from equipoise.models import load  # noqa: E402
from equipoise.train.fitting import fit  # noqa: E402
from equipoise.train.losses import LOSSES, Head, LabelBatch, row_losses  # noqa: E402
from equipoise.train.losses.adversarial import Adversarial  # noqa: E402
from equipoise.train.losses.domain_discriminative import DomainDiscriminative  # noqa: E402
from equipoise.train.losses.group_dro import GroupDRO  # noqa: E402
from equipoise.train.losses.weighted import Focal, Plain, Upweight  # noqa: E402
from equipoise.train.processes import Processes  # noqa: E402
from equipoise.train.tasks.clip import contrastive_loss, sigmoid_loss  # noqa: E402

GIVEN = {"steps": 3, "batch": 6, "rate": 1e-3, "quiet": True, "device": "cpu", "val_share": 0.4}
ALONE = Processes()


def images_of(table, n=3):
    return [image for _, image in zip(range(n), (image for _, image in table.images()), strict=False)]


def test_a_captioner_learns_and_captions(world_sets, tmp_path):
    done = fit("captioner", world_sets, tmp_path / "c", init="mini:captioner", options={"caption": "captions"}, **GIVEN)
    texts = load(f"hf:{done.folder}", kind="captioner", device="cpu").caption(images_of(world_sets, 2))
    assert all(text for text in texts)
    assert done.loss < 3  # the miniature knows these captions; a random one starts at ln 645 = 6.5


def test_a_language_model_learns_and_fills(world_sets, tmp_path):
    done = fit("mlm", world_sets, tmp_path / "m", init="mini:text", **GIVEN)
    filler = load(f"hf:{done.folder}", kind="filler", device="cpu")
    assert filler.fill([f"a {filler.mask} who works as a nurse"])[0]


@pytest.mark.parametrize(
    "loss", ["plain", "domain-independent", pytest.param("domain-discriminative", marks=pytest.mark.slow), "group-dro"]
)
def test_a_classifier_learns_columns_together(world_sets, tmp_path, loss):
    options = {"labels": ["gender", "objects"], "groups": "gender", "loss": loss, "balance": "over"}
    done = fit("multilabel", world_sets, tmp_path / "k", init="mini:judge", options=options, **GIVEN)
    answers = load(f"hf:{done.folder}", kind="classifier", device="cpu").classify(images_of(world_sets))
    assert answers["gender"].labels == ("female", "male")
    assert answers["gender"].probabilities.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
    assert len(answers["object"].labels) > 2
    assert not np.allclose(answers["object"].probabilities.sum(axis=1), 1.0)


def test_groups_are_counted_in_the_rows_that_are_learnt_from(tmp_path):
    from equipoise.data import Table
    from equipoise.train.fitting import prepared_training
    from equipoise.train.settings import TrainSettings

    def prepared(name, counts):
        shown = [(split, gender) for (split, gender), n in counts.items() for _ in range(n)]
        rows = [{"image_id": f"i{i}", "split": split, "gender": gender} for i, (split, gender) in enumerate(shown)]
        table = Table.create(tmp_path / name, rows, axes=["gender"])
        options = {"labels": ["gender"], "groups": "gender", "loss": "upweight"}
        settings = TrainSettings(steps=1, batch=4)
        return prepared_training(
            "multilabel", table, init="mini:judge", options=options, device="cpu", settings=settings
        ).task

    counts = {("train", "f"): 10, ("train", "m"): 90, ("test", "f"): 85, ("test", "m"): 10, ("val", "f"): 5}
    task = prepared("two", counts)
    assert task.fair_loss.weights.tolist() == pytest.approx([100 / (2 * 10), 100 / (2 * 90)])
    task = prepared("three", counts | {("val", "x"): 3})  # nothing is learnt about x, which weighs nobody
    assert task.group_names == ["f", "m"]
    assert task.fair_loss.weights.tolist() == pytest.approx([5.0, 100 / 180])
    with pytest.raises(InputError, match="rows to learn from show fewer than two groups of 'gender'"):
        prepared("one", counts | {("train", "f"): 0})


def multilabel_task(folder, genders, *, layers=(), **options):
    """The task as it stands before the first step, on rows of these genders."""
    from equipoise.data import Table
    from equipoise.train.fitting import prepared_training
    from equipoise.train.settings import TrainSettings

    if not folder.exists():
        Table.create(folder, [{"image_id": f"i{i}", "gender": g} for i, g in enumerate(genders)], axes=["gender"])
    options = {"labels": ["gender"], "groups": "gender", **options}
    settings = TrainSettings(steps=1, batch=4, val_share=0.0)
    return prepared_training(
        "multilabel", folder, init="mini:judge", layers=layers, options=options, device="cpu", settings=settings
    ).task


def test_sets_of_one_name_in_two_subjects_are_kept_whole_apart(tmp_path):
    from equipoise.data import Table
    from equipoise.train.fitting import prepared_training
    from equipoise.train.settings import TrainSettings

    rows = [
        {"image_id": f"{subject}{k}{i}", "subject": subject, "set_id": str(k), "caption": "x"}
        for subject in ("cook", "nurse", "pilot")
        for k in range(2)
        for i in range(2)
    ]
    table = Table.create(tmp_path / "t", rows)
    settings = TrainSettings(steps=1, batch=4, val_share=0.0, whole_sets=True)
    training = prepared_training("clip", table, init="mini:clip", device="cpu", settings=settings)
    stream = training.streams[0].stream
    assert stream.steps_per_epoch == 3  # two sets of two images fit into a batch
    for step in range(3):
        batch = training.rows.labels.iloc[stream.batch_at(step)]
        assert set(batch.groupby(["subject", "set_id"]).size()) == {2}


def test_balanced_rows_are_not_weighed_once_more(tmp_path):
    from equipoise.data import Table
    from equipoise.data.sampling import balance_layer

    genders = ["f"] * 2 + ["m"] * 8
    plain = multilabel_task(tmp_path / "t", genders, loss="upweight")
    assert plain.fair_loss.weights.tolist() == pytest.approx([10 / 4, 10 / 16])
    for balance in ("over", "sub"):
        task = multilabel_task(tmp_path / "t", genders, loss="upweight", balance=balance)
        assert task.fair_loss.weights.tolist() == [1.0, 1.0]
        task = multilabel_task(tmp_path / "t", genders, loss="class-balanced", balance=balance)
        assert task.fair_loss.weights.tolist() == [1.0, 1.0]
    balance_layer(Table.open(tmp_path / "t"), "gender", method="oversample")
    layered = multilabel_task(tmp_path / "t", genders, loss="upweight", layers=["balance"])
    assert layered.fair_loss.weights.tolist() == [1.0, 1.0]


def test_groups_are_read_as_everywhere(tmp_path):
    from PIL import Image

    genders = ["female"] * 3 + ["male"] * 4 + ["Male"] + ["unknown"] * 2 + [None]
    task = multilabel_task(tmp_path / "t", genders, loss="group-dro")
    assert task.group_names == ["female", "male"]
    assert task.heads[0].labels == ("female", "male")
    image = Image.new("RGB", (64, 64))
    cells = ["female", "Male", " MALE ", "unknown", None, "other"]
    inputs = task.inputs([{"image_id": "x", "image": image, "gender": cell} for cell in cells], 0)
    assert inputs["groups"].tolist() == [0, 1, 1, -1, -1, -1]
    assert inputs["wanted"][:3].tolist() == [[1, 0], [0, 1], [0, 1]]
    assert inputs["wanted"][3:5].isnan().all()


def test_the_saved_classifier_averages_those_of_the_groups():
    from equipoise.train.tasks.multilabel import MultilabelTask

    layer = torch.nn.Linear(3, 4)
    features = torch.randn(5, 3)
    both = layer(features).unflatten(1, (2, 2)).mean(dim=1)
    merged = features @ layer.weight.unflatten(0, (2, -1)).mean(dim=0).T + layer.bias.unflatten(0, (2, -1)).mean(dim=0)
    assert torch.allclose(both, merged, atol=1e-6)
    with pytest.raises(InputError, match="name their axis"):
        MultilabelTask(["objects"], loss="group-dro")
    with pytest.raises(InputError, match="name the columns to predict"):
        MultilabelTask([])


def test_the_contrastive_loss_by_hand():
    images = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    texts = torch.tensor([[0.8, 0.6], [0.0, 1.0], [0.0, 1.0]])
    codes = torch.tensor([4, 9, 9])  # the second and the third caption are equal
    logits = (10 * images @ texts.T).numpy()
    wanted = np.array([[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]])

    def side(scores):
        return -(wanted * (scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))).sum(axis=1).mean()

    by_hand = (side(logits) + side(logits.T)) / 2
    assert float(contrastive_loss(images, texts, codes, 10.0, ALONE)) == pytest.approx(by_hand, rel=1e-5)
    signs = np.where(wanted > 0, 1, -1)
    pairwise = np.log1p(np.exp(-signs * (logits - 5))).sum() / 3
    assert float(sigmoid_loss(images, texts, codes, 10.0, -5.0, ALONE)) == pytest.approx(pairwise, rel=1e-5)


def a_batch():
    heads = (Head("gender", ("f", "m"), 0, False), Head("object", ("cup", "dog"), 2, True))
    logits = torch.tensor([[2.0, 0.0, 1.0, -1.0], [0.0, 1.0, 0.0, 3.0]])
    wanted = torch.tensor([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, float("nan"), float("nan")]])
    return LabelBatch(heads, logits, torch.ones(2, 3), wanted, torch.tensor([0, 1]))


def test_row_losses_by_hand():
    softmax = [np.log1p(np.exp(-2.0)), np.log1p(np.exp(1.0))]
    sigmoid = np.log1p(np.exp(-1.0))
    expected = [(softmax[0] + sigmoid) / 2, softmax[1]]  # the second row's objects are not known
    batch = a_batch()
    assert row_losses(batch, batch.logits).tolist() == pytest.approx(expected, rel=1e-5)
    right = [1 / (1 + np.exp(-2.0)), 1 / (1 + np.exp(1.0))]
    focal = [(softmax[0] * (1 - right[0]) ** 2 + sigmoid * (1 - 1 / (1 + np.exp(-1.0))) ** 2) / 2]
    focal.append(softmax[1] * (1 - right[1]) ** 2)
    assert float(Focal(2.0).loss(batch, None, ALONE)) == pytest.approx(np.mean(focal), rel=1e-4)
    assert float(Plain().loss(batch, None, ALONE)) == pytest.approx(np.mean(expected), rel=1e-5)
    heavier = Upweight()
    heavier.see(np.array([0, 0, 0, 1]), 2)
    weighted = (expected[0] * 2 / 3 + expected[1] * 2) / 2
    assert float(heavier.loss(batch, None, ALONE)) == pytest.approx(weighted, rel=1e-5)


def test_group_dro_turns_to_the_group_with_the_larger_loss():
    batch = a_batch()
    loss = GroupDRO(step=0.5)
    loss.see(np.array([0, 1]), 2)
    kept = loss.module(3)
    rows = row_losses(batch, batch.logits).detach().numpy()
    q = np.array([0.5, 0.5]) * np.exp(0.5 * rows)
    q /= q.sum()
    assert float(loss.loss(batch, kept, ALONE)) == pytest.approx(float((q * rows).sum()), rel=1e-5)
    assert kept.q.tolist() == pytest.approx(q.tolist(), rel=1e-5)
    kept.eval()
    loss.loss(batch, kept, ALONE)
    assert kept.q.tolist() == pytest.approx(q.tolist(), rel=1e-5)  # looking does not change it


def test_the_adversary_learns_forwards_and_the_features_backwards():
    features = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    heads = (Head("x", ("a", "b"), 0, False),)
    known = torch.full((4, 2), float("nan"))
    batch = LabelBatch(heads, torch.zeros(4, 2), features, known, torch.tensor([0, 1, 0, -1]))
    loss = Adversarial(weight=2.0)
    loss.see(np.array([0, 1]), 2)
    adversary = loss.module(3)
    loss.loss(batch, adversary, ALONE).backward()
    turned = features.grad.clone()
    features.grad = None
    torch.nn.functional.cross_entropy(adversary(features[:3]), torch.tensor([0, 1, 0])).backward()
    assert torch.allclose(turned, -2 * features.grad, atol=1e-6)
    assert turned[3].abs().max() == 0


def test_every_loss_can_be_made():
    for entry in LOSSES:
        loss = entry.load()()
        loss.see(np.array([0, 1, 1]), 2)
        assert loss.copies == (2 if entry.name.startswith("domain-") else 1)


def test_values_and_groups_are_guessed_together_by_hand():
    heads = (Head("x", ("a", "b"), 0, False), Head("object", ("cup",), 2, True))
    loss = DomainDiscriminative()
    loss.see(np.array([0, 1]), 2, heads)
    assert loss.copies == 4
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    wanted = torch.tensor([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]])
    kept = loss.module(5)
    found = loss.loss(LabelBatch(heads, logits, None, wanted, torch.tensor([1, -1])), kept, ALONE)
    z = logits.double().numpy()
    four = np.exp(z[:, :2, :2]) / np.exp(z[:, :2, :2]).sum(axis=(1, 2), keepdims=True)  # group, value
    cup = np.exp(z[:, :, 2]) / np.exp(z[:, :, 2]).sum(axis=1, keepdims=True)  # yes in two groups, no in two groups
    first = -(np.log(four[0, 1, 1]) + np.log(cup[0, 1])) / 2
    second = -(np.log(four[1, :, 0].sum()) + np.log(cup[1, 2:].sum())) / 2  # whose it is, is not known
    assert float(found) == pytest.approx((first + second) / 2, rel=1e-5)
    assert kept.counts.tolist() == [[0, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 0]]  # rows without a group do not count
    kept.eval()
    loss.loss(LabelBatch(heads, logits, None, wanted, torch.tensor([1, 0])), kept, ALONE)
    assert kept.counts.sum() == 2
    unknown = torch.full((2, 3), float("nan"))
    logits.requires_grad_(True)
    nothing = loss.loss(LabelBatch(heads, logits, None, unknown, torch.tensor([1, 0])), kept, ALONE)
    nothing.backward()
    assert float(nothing.detach()) == 0
    assert logits.grad.abs().max() == 0


def test_what_is_said_is_added_up_over_the_groups():
    from equipoise.models.hf.classifiers import JointOutputs, heads_of

    heads = (Head("x", ("a", "b"), 0, False), Head("object", ("cup",), 2, True))
    loss = DomainDiscriminative()
    loss.see(np.array([0, 1]), 2, heads)
    kept = loss.module(5)
    kept.counts.copy_(torch.tensor([[3.0, 1, 2], [1, 5, 4], [0, 0, 2], [0, 0, 2]]))
    saved = loss.saved(kept, heads, ["f", "m"])
    assert saved.names[:5] == ["x:a|f", "x:b|f", "x:a|m", "x:b|m", "object:cup|f"]
    assert saved.names[5:] == ["object:no cup|f", "object:cup|m", "object:no cup|m"]
    assert list(saved.places) == [0, 1, 3, 4, 2, 8, 5, 11]
    assert saved.config["joint_counts"] == [3, 1, 1, 5, 2, 2, 4, 2]
    counts = np.array(saved.config["joint_counts"])
    joint = JointOutputs(heads_of(dict(enumerate(saved.names))), frozenset({"object"}), 2, counts)
    logits = np.log(np.array([[0.3, 0.1, 0.1, 0.5, 0.2, 0.1, 0.4, 0.3]], dtype=np.float32))
    said = joint.answers("x", logits)
    assert said.labels == ("a", "b")
    assert said.probabilities[0].tolist() == pytest.approx([0.5, 0.5], abs=1e-6)  # each is as likely as it is frequent
    there = joint.answers("object", logits)
    assert there.labels == ("cup",)
    assert float(there.probabilities[0, 0]) == pytest.approx((0.1 + 0.1) / (0.1 + 0.05 + 0.1 + 0.15), rel=1e-6)
