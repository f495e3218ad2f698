"""SAM, tiny and random, in the files that a real one has."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from PIL import Image  # noqa: E402

from equipoise.errors import InputError  # noqa: E402
from equipoise.models import load  # noqa: E402
from equipoise.models.protocols import Outliner  # noqa: E402

SIDE = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sam")
    torch.manual_seed(0)
    vision = {"hidden_size": 16, "output_channels": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "mlp_dim": 16}
    vision |= {"image_size": SIDE, "patch_size": 8, "window_size": 2, "global_attn_indexes": [0], "num_pos_feats": 4}
    prompts = {"hidden_size": 8, "image_size": SIDE, "patch_size": 8, "mask_input_channels": 4}
    decoder = {"hidden_size": 8, "mlp_dim": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    decoder |= {"iou_head_hidden_dim": 8, "iou_head_depth": 2}
    config = transformers.SamConfig(
        vision_config=vision,
        prompt_encoder_config=prompts | {"image_embedding_size": 8},
        mask_decoder_config=decoder,
    )
    model = transformers.SamModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1 and "embed" not in name:
                weight.normal_(0, 0.4)
    model.save_pretrained(path)
    transformers.SamImageProcessorPil(
        size={"longest_edge": SIDE},
        pad_size={"height": SIDE, "width": SIDE},
        mask_size={"longest_edge": SIDE // 4},
        mask_pad_size={"height": SIDE // 4, "width": SIDE // 4},
    ).save_pretrained(path)
    return path


def picture(size=(40, 30)):
    rng = np.random.default_rng(0)
    return Image.fromarray(rng.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8))


def test_outlines_are_those_of_the_stock_processor(folder):
    """The stock ``SamProcessor`` brings boxes to the model's size itself."""
    model = load(f"hf:{folder}", kind="detector")
    assert isinstance(model, Outliner)
    boxes = [[2.0, 3.0, 20.0, 25.0], [10.0, 1.0, 39.0, 29.0]]
    made = model.outline(picture(), boxes)
    assert made.shape == (2, 30, 40)
    assert made.dtype == bool
    stock = transformers.SamProcessor(transformers.SamImageProcessorPil.from_pretrained(folder))
    inputs = stock(images=picture(), input_boxes=[boxes], return_tensors="pt")
    with torch.no_grad():
        out = transformers.SamModel.from_pretrained(folder).eval()(
            pixel_values=inputs["pixel_values"], input_boxes=inputs["input_boxes"].float(), multimask_output=False
        )
    sizes = inputs["original_sizes"], inputs["reshaped_input_sizes"]
    wanted = stock.image_processor.post_process_masks(out.pred_masks, *sizes)[0][:, 0].numpy()
    assert np.array_equal(made, wanted)
    assert 0 < wanted.mean() < 1, "else the comparison says nothing"
    assert model.outline(picture(), []).shape == (0, 30, 40)


def test_it_finds_nothing_by_itself(folder):
    with pytest.raises(InputError, match="outlines what is in a box and finds nothing by itself"):
        load(f"hf:{folder}", kind="detector").detect([picture()])
