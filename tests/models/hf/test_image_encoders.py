"""Backbones of images alone: what the stock classes give, unit length, and no words."""

import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from equipoise.data import Table  # noqa: E402
from equipoise.errors import InputError  # noqa: E402
from equipoise.models import check, load  # noqa: E402
from equipoise.models.hf.classifiers import Backbone  # noqa: E402
from equipoise.models.hf.families import FAMILIES  # noqa: E402
from equipoise.models.protocols import Encoder  # noqa: E402

LAYERS = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 32, "patch_size": 8}
STAGES = {"depths": [1, 1], "hidden_sizes": [8, 16]}
MADE = {
    "vit": ("ViT", LAYERS | {"intermediate_size": 32}),
    "deit": ("DeiT", LAYERS | {"intermediate_size": 32}),
    "vit_msn": ("ViTMSN", LAYERS | {"intermediate_size": 32}),
    "dinov2": ("Dinov2", LAYERS),
    "dinov2_with_registers": ("Dinov2WithRegisters", LAYERS),
    "dinov3_vit": ("DINOv3ViT", LAYERS | {"intermediate_size": 32}),
    "swin": ("Swin", {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2]}),
    "convnext": ("ConvNext", STAGES | {"num_stages": 2, "image_size": 32}),
    "resnet": ("ResNet", STAGES | {"embedding_size": 8}),
}


def built(kind):
    """A tiny random backbone of a type, without the pooling layer that published ones lack."""
    name, settings = MADE[kind]
    more = {"window_size": 4} if kind == "swin" else {}
    config = getattr(transformers, f"{name}Config")(**settings, **more)
    torch.manual_seed(0)
    plain = {"add_pooling_layer": False} if kind in ("vit", "deit") else {}
    model = getattr(transformers, f"{name}Model")(config, **plain).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.3)
    return model


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    made = {}

    def folder(kind):
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind)
            built(kind).save_pretrained(made[kind])
            size = {"height": 32, "width": 32}
            transformers.ViTImageProcessorPil(size=size).save_pretrained(made[kind])
        return made[kind]

    return folder


@pytest.mark.parametrize("kind", MADE)
def test_vectors_are_those_of_the_stock_class(kind, folder_of, pictures):
    encoder = load(f"hf:{folder_of(kind)}")
    assert isinstance(encoder, Encoder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the stock classes may warn as they like
        pixels = transformers.AutoImageProcessor.from_pretrained(folder_of(kind))(images=pictures, return_tensors="pt")
        with torch.no_grad():
            out = built(kind)(pixels["pixel_values"])
    wanted = out.pooler_output.flatten(1) if kind in ("swin", "convnext", "resnet") else out.last_hidden_state[:, 0]
    wanted = torch.nn.functional.normalize(wanted, dim=-1).numpy()
    made = encoder.encode_images(pictures)
    np.testing.assert_allclose(made, wanted, atol=1e-5)
    assert np.ptp(made @ made.T) > 1e-4, "else the comparison says nothing"
    assert encoder.dim == made.shape[1]
    assert encoder.encode_images([]).shape == (0, encoder.dim)


@pytest.mark.parametrize("kind", ["vit", "dinov2", "resnet"])
def test_promises_are_kept(kind, folder_of):
    report = check(load(f"hf:{folder_of(kind)}"))
    assert report.ok, str(report)
    assert "refused" in str(report)


def test_every_backbone_is_tested_and_described():
    known = {entry.name: FAMILIES.load(entry.name) for entry in FAMILIES}
    backbones = {name: how for name, how in known.items() if isinstance(how, Backbone)}
    assert set(backbones) == set(MADE)
    for name, how in backbones.items():
        assert "images alone" in FAMILIES.get(name).summary
        assert hasattr(transformers, how.model_class)


def test_words_are_refused_and_the_adapter_travels(folder_of, pictures):
    encoder = load(f"hf:{folder_of('dinov2')}")
    with pytest.raises(InputError, match="encodes images and no texts; for captions or prompts name a dual encoder"):
        encoder.encode_texts(["a nurse"])
    again = pickle.loads(pickle.dumps(encoder))
    assert again.key == encoder.key
    assert np.array_equal(again.encode_images(pictures), encoder.encode_images(pictures))


def test_a_backbone_with_a_classifier_on_top_is_read_below_it(folder_of, tmp_path, pictures):
    """Published vision transformers often come with a head; the backbone's weights have a prefix then."""
    torch.manual_seed(0)
    config = transformers.ViTConfig(**LAYERS, intermediate_size=32, num_labels=3)
    model = transformers.ViTForImageClassification(config).eval()
    model.save_pretrained(tmp_path)
    transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    encoder = load(f"hf:{tmp_path}")
    pixels = encoder.processor(images=pictures, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        wanted = torch.nn.functional.normalize(model.vit(pixels).last_hidden_state[:, 0], dim=-1).numpy()
    np.testing.assert_allclose(encoder.encode_images(pictures), wanted, atol=1e-5)


def test_the_knn_filter_sees_with_a_backbone_by_name(folder_of, tmp_path):
    """The preset ``dino`` names its model; here the same with a tiny one, on person crops and on whole images."""
    import json

    from PIL import Image

    from equipoise.data.people import person
    from equipoise.filters import Models, Step, run
    from equipoise.filters.rules.knn import Neighbourhood

    assert Neighbourhood.presets["dino"]["model"] == "hf:facebook/dino-vitb16"
    assert FAMILIES.get("vit").info["example"] == "facebook/dino-vitb16"
    rng = np.random.default_rng(0)
    rows = [
        {
            "image": Image.fromarray(rng.integers(0, 256, (40, 40, 3), dtype=np.uint8)),
            "image_id": f"{source}-{group}" if source else f"real-{i}",
            "source_id": source or None,
            "gender": group,
            "people": json.dumps([person(box=[4, 4, 20, 30])]),
        }
        for i, (source, group) in enumerate([("", "female"), ("", "male"), *[("s", "female"), ("s", "male")] * 1])
    ]
    table = Table.create(tmp_path / "in", rows, axes=["gender"], columns={"people": "json"})
    settings = {"k": 3, "k_group": 3, "model": f"hf:{folder_of('dinov2')}", "group_above": 0.0, "select": "all"}
    vectors = {}
    for crop in ("person", "none"):
        step = Step.of("knn", settings | {"crop": crop}, preset="dino")
        done = run(table, [step], tmp_path / crop, models=Models(), axes=("gender",))
        frame = done.table.to_pandas(["image_id", "keep", "score_real"])
        assert frame["keep"].all()
        assert frame["score_real"].dropna().tolist() == pytest.approx([2 / 3, 2 / 3])
        found = next((tmp_path / crop / "evidence").glob(f"vectors-{crop}-*"))
        vectors[crop] = np.stack(Table.open(found).to_pandas()["vector"])
    assert not np.allclose(vectors["person"], vectors["none"]), "crops are not whole images"
