"""Detectors and fillers: tiny random checkpoints in the layout of real ones, and answers that are known."""

import json
import pickle
import shutil

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from PIL import Image  # noqa: E402

from equipoise.errors import InputError  # noqa: E402
from equipoise.models import check, load  # noqa: E402
from equipoise.models.hf.detectors import components  # noqa: E402
from equipoise.models.protocols import Detector, Filler  # noqa: E402

NAMES = {0: "N/A", 1: "person", 2: "dog"}


@pytest.fixture(scope="module")
def detr(tmp_path_factory):
    folder = tmp_path_factory.mktemp("detr")
    torch.manual_seed(0)
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        backbone=None,
        backbone_config=backbone,
        num_queries=5,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        id2label=NAMES,
        label2id={name: i for i, name in NAMES.items()},
    )
    model = transformers.DetrForObjectDetection(config).eval()
    with torch.no_grad():
        for weight in model.model.decoder.parameters():
            weight.normal_(0, 0.5)  # so that the queries differ
        model.class_labels_classifier.weight.normal_(0, 0.5)
        model.class_labels_classifier.bias.copy_(torch.tensor([-3.0, 1.0, 1.0, 0.0]))  # "N/A" is rare
    model.save_pretrained(folder)
    transformers.DetrImageProcessorPil(size={"shortest_edge": 32, "longest_edge": 64}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def segformer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segformer")
    torch.manual_seed(0)
    config = transformers.SegformerConfig(
        depths=[1, 1],
        hidden_sizes=[8, 16],
        num_encoder_blocks=2,
        num_attention_heads=[1, 2],
        strides=[2, 2],
        patch_sizes=[3, 3],
        sr_ratios=[2, 1],
        mlp_ratios=[2, 2],
        decoder_hidden_size=8,
        id2label={0: "background", 1: "person", 2: "dog"},
    )
    transformers.SegformerForSemanticSegmentation(config).eval().save_pretrained(folder)
    transformers.SegformerImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = "a nurse doctor is she he ##s at beach".split()
    vocab = {word: i for i, word in enumerate([*marks, *words])}
    tokenizer = transformers.BertTokenizer(vocab=vocab, model_max_length=12)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocab),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=12,
    )
    transformers.BertForMaskedLM(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def pictures():
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 255, size, dtype=np.uint8)) for size in ((40, 60, 3), (32, 32, 3))]


def test_boxes_of_a_detr_lie_in_the_image_the_surest_first(detr):
    model = load(f"hf:{detr}", kind="detector")
    assert isinstance(model, Detector)
    assert model.labels == ("person", "dog")
    every = model.detect(pictures(), threshold=0.0)
    some = model.detect(pictures(), threshold=0.4)
    for image, found, sure in zip(pictures(), every, some, strict=True):
        assert len(found.labels) == len(found.scores) == len(found.boxes)
        assert set(found.labels) <= {"person", "dog"}
        assert (np.diff(found.scores) <= 0).all()
        assert (found.boxes >= 0).all()
        assert (found.boxes <= [image.width, image.height] * 2).all()
        assert list(sure.scores) == [score for score in found.scores if score > 0.4]
    assert sum(len(found.labels) for found in every) > 0
    with pytest.raises(InputError, match="threshold=2"):
        model.detect(pictures(), threshold=2)


def test_a_detr_is_asked_as_its_own_processor_asks(detr):
    model = load(f"hf:{detr}", kind="detector")
    processor = transformers.AutoImageProcessor.from_pretrained(detr, backend="pil")
    stock = transformers.DetrForObjectDetection.from_pretrained(detr).eval()
    image = pictures()[0]
    with torch.no_grad():
        out = stock(**processor(images=[image], return_tensors="pt"))
    wanted = processor.post_process_object_detection(out, threshold=0.0, target_sizes=[(40, 60)])[0]
    kept = wanted["scores"][wanted["labels"] != 0]
    np.testing.assert_allclose(
        model.detect([image], threshold=0.0)[0].scores, sorted(kept.tolist(), reverse=True), rtol=1e-4
    )


@pytest.fixture(scope="module")
def yolos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("yolos")
    torch.manual_seed(0)
    config = transformers.YolosConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=[32, 32],
        patch_size=8,
        num_detection_tokens=5,
        initializer_range=0.5,
        id2label={0: "person", 1: "dog"},
        label2id={"person": 0, "dog": 1},
    )
    transformers.YolosForObjectDetection(config).eval().save_pretrained(folder)
    transformers.YolosImageProcessorPil(size={"shortest_edge": 32, "longest_edge": 64}).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("form", ["detr", "yolos"])
def test_what_is_found_does_not_depend_on_the_pictures_beside(form, request):
    """A wide, a tall and a square picture, which a processor would pad to one size."""
    model = load(f"hf:{request.getfixturevalue(form)}", kind="detector")
    rng = np.random.default_rng(0)
    sizes = ((32, 64, 3), (64, 32, 3), (32, 32, 3), (32, 64, 3))
    images = [Image.fromarray(rng.integers(0, 255, size, dtype=np.uint8)) for size in sizes]
    for image, together in zip(images, model.detect(images, threshold=0.0), strict=True):
        (alone,) = model.detect([image], threshold=0.0)
        assert together.labels == alone.labels
        np.testing.assert_allclose(together.boxes, alone.boxes, atol=1e-3)
        np.testing.assert_allclose(together.scores, alone.scores, atol=1e-5)


def test_patches_of_a_segmentation_have_boxes_masks_and_scores(segformer, monkeypatch):
    model = load(f"hf:{segformer}", kind="detector")
    assert model.labels == ("person", "dog")
    logits = torch.zeros(1, 3, 16, 16)
    logits[:, 0] = 4.0
    logits[:, 1, 2:6, 2:6] = 9.0
    logits[:, 1, 10:14, 9:15] = 6.0
    logits[:, 2, 2:5, 10:13] = 8.0
    monkeypatch.setattr(model, "_outputs", lambda images: type("Out", (), {"logits": logits}))
    found = model.detect([Image.new("RGB", (32, 32))], threshold=0.5)[0]
    assert found.labels[:2] in (("person", "dog"), ("dog", "person"))
    assert sorted(found.labels) == ["dog", "person", "person"]
    assert (np.diff(found.scores) <= 0).all()
    assert found.masks.shape == (3, 32, 32)
    boxes = {tuple(np.round(box / 2).astype(int)) for box in found.boxes}
    assert (2, 2, 6, 6) in boxes
    assert (9, 10, 15, 14) in boxes
    assert (10, 2, 13, 5) in boxes
    for box, mask in zip(found.boxes, found.masks, strict=True):
        left, top, right, bottom = box.astype(int)
        assert mask[top:bottom, left:right].sum() == mask.sum() > 0
    sure = model.detect([Image.new("RGB", (32, 32))], threshold=0.95)[0]
    assert len(sure.labels) < 3


def test_a_person_has_the_head_that_is_a_class_of_its_own(segformer, tmp_path, monkeypatch):
    folder = shutil.copytree(segformer, tmp_path / "parts")
    config = json.loads((folder / "config.json").read_text())
    config["id2label"], config["label2id"] = {"0": "background", "1": "person", "2": "head"}, {}
    (folder / "config.json").write_text(json.dumps({**config, "part_of": {"head": "person"}}))
    model = load(f"hf:{folder}", kind="detector")
    logits = torch.zeros(1, 3, 16, 16)
    logits[:, 0] = 4.0
    logits[:, 1, 6:14, 4:8] = 9.0
    logits[:, 2, 2:6, 4:8] = 9.0
    logits[:, 2, 2:6, 11:15] = 9.0  # nothing is seen of this person but the head
    monkeypatch.setattr(model, "_outputs", lambda images: type("Out", (), {"logits": logits}))
    found = model.detect([Image.new("RGB", (16, 16))])[0]
    boxes = sorted((label, tuple(box.astype(int))) for label, box in zip(found.labels, found.boxes, strict=True))
    heads = [("head", (4, 2, 8, 6)), ("head", (11, 2, 15, 6))]
    assert boxes == [*heads, ("person", (4, 2, 8, 14)), ("person", (11, 2, 15, 6))]
    assert found.scores.min() > 0.9
    for wrong in ({"head": "robot"}, ["head"], {"tail": "person"}):
        (folder / "config.json").write_text(json.dumps({**config, "part_of": wrong}))
        with pytest.raises(InputError, match="part_of"):
            load(f"hf:{folder}", kind="detector")


def test_a_segmentation_model_runs_on_images_of_any_size(segformer):
    model = load(f"hf:{segformer}", kind="detector")
    for image, found in zip(pictures(), model.detect(pictures(), threshold=0.0), strict=True):
        assert found.masks.shape[1:] == (image.height, image.width)
    assert pickle.loads(pickle.dumps(model)).key == model.key


def test_nothing_found_is_empty_and_not_an_error(segformer):
    model = load(f"hf:{segformer}", kind="detector")
    found = model.detect([Image.new("RGB", (16, 16))], threshold=1.0)[0]
    assert (found.boxes.shape, found.labels, found.masks.shape) == ((0, 4), (), (0, 16, 16))
    assert model.detect([]) == []


def test_specks_are_no_things():
    mask = np.zeros((64, 64), bool)
    mask[0, 0] = mask[10:20, 10:20] = True
    assert [int(patch.sum()) for patch in components(mask)] == [100]


def test_a_filler_gives_whole_words_with_their_probabilities(bert):
    model = load(f"hf:{bert}", kind="filler")
    assert isinstance(model, Filler)
    assert model.mask == "[MASK]"
    texts = ["she is a [MASK] at a beach", "[MASK] is a nurse"]
    found = model.fill(texts, top=4)
    stock = transformers.AutoModelForMaskedLM.from_pretrained(bert).eval()
    words = transformers.AutoTokenizer.from_pretrained(bert)
    tokens = words(texts[:1], return_tensors="pt")
    with torch.no_grad():
        shares = stock(**tokens).logits[tokens["input_ids"] == words.mask_token_id][0].softmax(-1)
    for word, share in found[0]:
        assert share == pytest.approx(float(shares[words.convert_tokens_to_ids(word)]), rel=1e-3)
    assert [len(row) for row in found] == [4, 4]
    assert all(not word.startswith(("[", "##")) for row in model.fill(texts, top=50) for word, _ in row)
    assert [share for _, share in found[0]] == sorted((share for _, share in found[0]), reverse=True)
    assert model.fill(texts[1:], top=4)[0] == [(word, pytest.approx(share, rel=1e-3)) for word, share in found[1]]


def test_a_filler_draws_a_word_for_every_mask_of_a_text(bert):
    model = load(f"hf:{bert}", kind="filler")
    texts = ["[MASK] is a [MASK] .", "she is a [MASK]"]
    rows = model.sample(texts, seed=3)
    assert [len(row) for row in rows] == [2, 1]
    assert model.sample(texts[1:], seed=3) == rows[1:]
    shares = dict(model.fill(texts[1:], top=100)[0])
    assert model.sample(texts[1:], top_k=1) == [[max(shares, key=shares.get)]]
    drawn = [model.sample(texts[1:], seed=seed, top_k=3)[0][0] for seed in range(60)]
    assert set(drawn) == set(sorted(shares, key=shares.get)[-3:])
    cold = {model.sample(texts[1:], seed=seed, temperature=1e-3)[0][0] for seed in range(5)}
    assert cold == {max(shares, key=shares.get)}
    with pytest.raises(InputError, match="give a temperature above 0"):
        model.sample(texts, temperature=0)
    with pytest.raises(InputError, match=r"does not hold \[MASK\]"):
        model.sample(["she is a nurse"])
    with pytest.raises(InputError, match=r"reads 12 tokens, and \[MASK\] comes after"):
        model.sample(["[MASK] " + "a " * 20 + "[MASK]"])


def test_a_filler_refuses_what_it_cannot_fill(bert, detr):
    model = load(f"hf:{bert}", kind="filler")
    with pytest.raises(InputError, match=r"holds \[MASK\] 0 times"):
        model.fill(["she is a nurse"])
    with pytest.raises(InputError, match=r"holds \[MASK\] 2 times"):
        model.fill(["[MASK] is a [MASK]"])
    with pytest.raises(InputError, match=r"reads 12 tokens, and \[MASK\] comes after"):
        model.fill(["a " * 20 + "[MASK]"])
    with pytest.raises(InputError, match="must be a list"):
        model.fill("[MASK]")
    with pytest.raises(InputError, match="not a masked language model"):
        load(f"hf:{detr}", kind="filler")
    with pytest.raises(InputError, match="neither detects objects nor segments images"):
        load(f"hf:{bert}", kind="detector")


def test_detectors_and_fillers_keep_their_promises(detr, segformer, bert):
    for folder, kind in ((detr, "detector"), (segformer, "detector")):
        report = check(load(f"hf:{folder}", kind=kind))
        assert report.ok, str(report)
    filler = load(f"hf:{bert}", kind="filler")
    assert check(filler).ok
    filler.fill = lambda texts, top: [[("nurse", 1.5)] * 3] * len(texts)
    assert not check(filler).ok
