"""OpenCLIP, in an environment of its own: it pulls torchvision, which may break the torch that is here.

The same environment has timm, so the converters are checked there against the code the checkpoints were made with.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from equipoise.errors import MissingExtraError
from equipoise.models import convert, load

SOURCE = Path(__file__).parents[2] / "src"

# PyPI's torchvision is built for CUDA; beside a CPU torch its operators are missing when it is imported.
OPERATORS = """
import torch
if not torch.cuda.is_available():
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
torch.manual_seed(0)
torch.set_num_threads(1)
"""

ASK = (
    OPERATORS
    + """
import json, pickle, sys
from pathlib import Path
import numpy as np
import open_clip, timm
from PIL import Image
from safetensors.torch import save_file
from equipoise.errors import InputError
from equipoise.models import check, load

folder = Path(sys.argv[1])
text = {"context_length": 16, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 2}
vision = {"image_size": 32, "layers": 2, "width": 64, "head_width": 64, "patch_size": 8}
configs = {
    "tiny": {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text},
    "tiny-quickgelu": {"embed_dim": 24, "quick_gelu": True, "vision_cfg": vision, "text_cfg": text},
    "tiny-coca": {
        "embed_dim": 24,
        "vision_cfg": vision | {"attentional_pool": True, "attn_pooler_heads": 1, "output_tokens": True},
        "text_cfg": text | {"embed_cls": True, "output_tokens": True},
        "multimodal_cfg": {"context_length": 16, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 1,
                           "attn_pooler_heads": 1},
        "custom_text": True,
    },
    "tiny-eva": {
        "embed_dim": 24,
        "vision_cfg": {"image_size": 224, "timm_model_name": "eva02_tiny_patch14_224", "timm_pool": "token",
                       "timm_proj": "linear"},
        "text_cfg": text,
    },
}
for name, config in configs.items():
    (folder / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder / f"{name}.json")
rng = np.random.default_rng(0)
images = [Image.fromarray(rng.integers(0, 255, (s, s, 3), dtype=np.uint8)) for s in (32, 32, 32)]
for i, image in enumerate(images):
    image.save(folder / f"{i}.png")
texts = ["a photo of a doctor", "a nurse at work"]
results = {}
for name in configs:
    model, _, pixels = open_clip.create_model_and_transforms(name, pretrained=None, pretrained_text=False)
    model = model.eval()
    save_file({n: v.contiguous() for n, v in model.state_dict().items()}, folder / f"{name}.safetensors")
    encoder = load(f"open_clip:{name}/{folder / name}.safetensors")
    words = open_clip.get_tokenizer(name)
    with torch.no_grad():
        by_hand = model.encode_image(torch.stack([pixels(i) for i in images]), normalize=True).numpy()
        said = model.encode_text(words(texts), normalize=True).numpy()
    assert np.abs(encoder.encode_images(images) - by_hand).max() < 1e-5, name
    assert np.abs(encoder.encode_texts(texts) - said).max() < 1e-5, name
    report = check(encoder)
    assert report.ok, f"{name}: {report}"
    assert encoder.tokens.n_cut > 0
    assert pickle.loads(pickle.dumps(encoder)).key == encoder.key
    np.savez(folder / f"{name}.npz", images=by_hand, texts=said)
    results[name] = encoder.key
assert len(set(results.values())) == len(configs)

def refused(spec, **options):
    try:
        load(spec, **options)
    except InputError as error:
        return str(error)
    raise AssertionError(f"{spec} was taken")

torch.save(model.state_dict(), folder / "tiny-eva.pt")
assert "--allow-pickle" in refused(f"open_clip:tiny-eva/{folder}/tiny-eva.pt")
assert load(f"open_clip:tiny-eva/{folder}/tiny-eva.pt", allow_pickle=True).encode_texts(texts).shape == (2, 24)
assert "say which weights" in refused("open_clip:ViT-B-32")
assert "no OpenCLIP architecture named 'ViT-B-33'" in refused("open_clip:ViT-B-33/openai")
assert "neither a file nor a tag of ViT-B-32; its tags are:" in refused("open_clip:ViT-B-32/laion3b")
assert "cannot be downloaded" in refused("open_clip:ViT-B-32-quickgelu/metaclip_400m")
assert "cannot be loaded" in refused(f"open_clip:tiny/{folder}/tiny-eva.safetensors")

broken = load(f"open_clip:tiny/{folder}/tiny.safetensors")
for weights in broken.model.parameters():
    weights.data.fill_(float("nan"))
try:
    broken.encode_texts(texts)
except InputError as error:
    assert "a vector that is not finite for item 0" in str(error)
else:
    raise AssertionError("NaN was taken for a vector")

# SLIP and LaCLIP: timm's image encoder, CLIP's text encoder with the quick activation.
clip = open_clip.create_model("tiny-quickgelu", pretrained=None).eval()
for name, head_norms in (("slip", False), ("laclip", True)):
    tower = timm.models.vision_transformer.VisionTransformer(
        img_size=32, patch_size=8, embed_dim=64, depth=2, num_heads=4, num_classes=0, qk_norm=head_norms,
        qkv_bias=True, global_pool="token",
    ).eval()
    state = {f"visual.{n}": v for n, v in tower.state_dict().items()}
    state |= {n: v for n, v in clip.state_dict().items() if not n.startswith("visual.") and n != "attn_mask"}
    state["image_projection"] = torch.randn(64, 24)
    torch.save({"state_dict": {f"module.{n}": v for n, v in state.items()}}, folder / f"{name}.pt")
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    scaled = [(torch.from_numpy(np.asarray(i).copy()) / 255 - mean) / std for i in images]
    with torch.no_grad():
        seen = tower(torch.stack(scaled).permute(0, 3, 1, 2)) @ state["image_projection"]
        said = clip.encode_text(open_clip.get_tokenizer("tiny-quickgelu")(texts))
    np.savez(folder / f"{name}.npz", images=seen.numpy(), texts=said.numpy())
merges = Path(open_clip.__file__).parent / "bpe_simple_vocab_16e6.txt.gz"
print(json.dumps({"merges": str(merges)}))
"""
)


def run(python: Path, code: str, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code, *arguments], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def other_python(tmp_path_factory):
    """A Python with open_clip, timm and torchvision, apart from this one."""
    given = os.environ.get("EQUIPOISE_OPEN_CLIP_PYTHON")
    if given:
        return Path(given)
    import torch

    home = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=120)
    python = home / "bin" / "python"
    wanted = [f"torch=={torch.__version__.split('+')[0]}", "open_clip_torch"]
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", *wanted], capture_output=True, text=True, timeout=1200
    )
    if done.returncode:
        pytest.skip(f"pip cannot install open_clip here: {done.stderr.strip().splitlines()[-1][:200]}")
    return python


@pytest.fixture(scope="module")
def asked(other_python, tmp_path_factory):
    """The folder of what the other environment made and measured, and CLIP's published merges in it."""
    folder = tmp_path_factory.mktemp("open_clip")
    told = json.loads(run(other_python, ASK, str(folder)).strip().splitlines()[-1])
    return folder, told["merges"]


@pytest.mark.slow
def test_the_adapter_equals_open_clip_and_keeps_its_promises(asked):
    folder, _ = asked  # the assertions are made there
    assert (folder / "tiny-coca.npz").exists()


def compared(encoder, folder, name):
    from PIL import Image

    expected = np.load(folder / f"{name}.npz")
    images = [Image.open(folder / f"{i}.png").convert("RGB") for i in range(3)]
    for made, raw in (
        (encoder.encode_images(images), expected["images"]),
        (encoder.encode_texts(["a photo of a doctor", "a nurse at work"]), expected["texts"]),
    ):
        np.testing.assert_allclose(made, raw / np.linalg.norm(raw, axis=1, keepdims=True), atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "form"), [("tiny", "alip"), ("tiny-quickgelu", "openai-clip")])
def test_open_clips_weights_convert_to_a_stock_clip(name, form, asked, tmp_path):
    folder, merges = asked
    made = convert.CONVERTERS[form](folder / f"{name}.safetensors", tmp_path / name, tokenizer=merges)
    compared(load(f"hf:{made}"), folder, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slip", "laclip"])
def test_timms_image_encoders_convert_exactly(name, asked, tmp_path):
    folder, merges = asked
    heads = {"vision_heads": 4} if name == "slip" else {}
    made = convert.CONVERTERS[name](
        folder / f"{name}.pt", tmp_path / name, tokenizer=merges, allow_pickle=True, **heads
    )
    compared(load(f"hf:{made}"), folder, name)


def test_without_the_extra_the_pip_line_is_told():
    try:
        import open_clip  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtraError, match=r"pip install .*\[open-clip\]'"):
            load("open_clip:ViT-B-32/openai")
    else:
        pytest.skip("open_clip is installed here")


def test_the_settings_in_a_folder_are_part_of_the_key_and_where_it_lies_is_not(tmp_path, monkeypatch):
    """With a stand-in for the library, of which the key needs little."""
    import shutil
    from types import ModuleType, SimpleNamespace

    import torch
    from safetensors.torch import save_file

    model = SimpleNamespace(eval=lambda: model, logit_scale=torch.zeros(()), visual=SimpleNamespace(preprocess_cfg={}))
    library, factory = ModuleType("open_clip"), ModuleType("open_clip.factory")
    library.get_tokenizer = lambda arch: SimpleNamespace(context_length=77)
    library.create_model_and_transforms = lambda arch, **options: (model, None, None)
    factory._find_checkpoint_in_dir = lambda folder: str(folder / "open_clip_model.safetensors")
    monkeypatch.setitem(sys.modules, "open_clip", library)
    monkeypatch.setitem(sys.modules, "open_clip.factory", factory)

    def key_of_folder(name, **settings):
        folder = tmp_path / name
        folder.mkdir()
        save_file({"weight": torch.zeros(64, 64)}, folder / "open_clip_model.safetensors")
        (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": {"embed_dim": 8, **settings}}))
        return load(f"open_clip:local-dir:{folder}").key

    plain = key_of_folder("plain")
    shutil.move(tmp_path / "plain", tmp_path / "moved")
    assert load(f"open_clip:local-dir:{tmp_path / 'moved'}").key == plain
    assert key_of_folder("plain", quick_gelu=True) != plain
