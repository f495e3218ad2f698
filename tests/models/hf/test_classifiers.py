"""Image classifiers as the library's own pipeline runs them: one output, several inputs, numbers that are none."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.models.conftest import LAYERS, PATCH, VISION, livened, square  # noqa: E402

from equipoise.errors import InputError  # noqa: E402
from equipoise.models import load  # noqa: E402


def saved(folder, model, pixels):
    model.save_pretrained(folder)
    pixels.save_pretrained(folder)
    return load(f"hf:{folder}", kind="classifier")


def vit(**settings):
    return livened(transformers.ViTForImageClassification(transformers.ViTConfig(**VISION, **settings)))


def pipelined(folder, pictures):
    """(n, k) what the library's pipeline says, in the order of the labels."""
    pixels = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    model = transformers.AutoModelForImageClassification.from_pretrained(folder)
    ask = transformers.pipeline("image-classification", model=model, image_processor=pixels)
    rows = [{answer["label"]: answer["score"] for answer in ask(picture)} for picture in pictures]
    return [[row[label] for label in model.config.id2label.values()] for row in rows]


@pytest.mark.parametrize("labels", [["unsafe"], ["safe", "unsafe"]])
def test_one_output_is_a_share_of_its_own_and_several_are_shares_of_one(labels, tmp_path, pictures):
    model = vit(id2label=dict(enumerate(labels)), label2id={label: i for i, label in enumerate(labels)})
    said = saved(tmp_path, model, square("ViTImageProcessorPil")).classify(pictures)["label"]
    assert said.labels == tuple(labels)
    np.testing.assert_allclose(said.probabilities, pipelined(tmp_path, pictures), atol=1e-5)
    assert np.ptp(said.probabilities[:, 0]) > 1e-3


def test_a_classifier_is_given_all_that_its_processor_makes(tmp_path, pictures):
    """SigLIP 2 at any size needs to know which patches are there, and how they lie."""
    vision = LAYERS | {"patch_size": PATCH, "num_patches": 16}
    config = transformers.Siglip2Config(vision_config=vision, text_config=dict(LAYERS))
    config.num_labels = 3
    pixels = transformers.Siglip2ImageProcessorPil(patch_size=PATCH, max_num_patches=16)
    classifier = saved(tmp_path, livened(transformers.Siglip2ForImageClassification(config)), pixels)
    said = classifier.classify(pictures)["label"].probabilities
    np.testing.assert_allclose(said, pipelined(tmp_path, pictures), atol=1e-5)


def test_an_answer_that_is_not_finite_is_refused_and_not_the_first_label(tmp_path, pictures):
    model = vit(num_labels=2)
    with torch.no_grad():
        model.classifier.weight.fill_(float("inf"))
    with pytest.raises(InputError, match="gave an answer that is not finite for item 0"):
        saved(tmp_path, model, square("ViTImageProcessorPil")).classify(pictures)
