"""The encoder adapter: what it takes, refuses and promises, on one tiny CLIP."""

import json
import pickle
import shutil
from unittest import TestCase

import numpy as np
import pytest
from PIL import Image

from equipoise.errors import InputError
from equipoise.models import load


@pytest.fixture(scope="module")
def folder(tiny_checkpoint):
    return tiny_checkpoint("clip")


@pytest.fixture(scope="module")
def encoder(folder):
    return load(f"hf:{folder}")


@pytest.fixture
def broken(folder, tmp_path):
    """A copy to break."""
    return shutil.copytree(folder, tmp_path / "copy")


def refused(path, **options):
    with pytest.raises(InputError) as error:
        load(f"hf:{path}", **options)
    return str(error.value)


def test_vectors_are_float32_of_unit_length(encoder, pictures):
    for vectors in (encoder.encode_images(pictures), encoder.encode_texts(["a man", "a woman"])):
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_no_images_or_texts_give_no_vectors(encoder):
    assert encoder.encode_images([]).shape == encoder.encode_texts([]).shape == (0, 16)


def test_texts_too_long_keep_their_end_and_are_counted(folder):
    encoder = load(f"hf:{folder}")
    inside = "a photo of a man at the market"
    long = inside + " with a hat" * 20
    with TestCase().assertLogs() as logged:
        vectors = encoder.encode_texts([inside, long, long + " at the market", "a nurse"])
    assert (encoder.tokens.n_texts, encoder.tokens.n_cut) == (4, 2)
    assert [r.getMessage() for r in logged.records] == [
        f"texts are cut to the model's 12 tokens, such as: {long[:80]}…"
    ]
    np.testing.assert_array_equal(vectors[1], vectors[2])
    tokens = encoder.tokens([long])["input_ids"][0].tolist()
    words = encoder.tokens.tokenizer
    # 12 tokens: start, ten words, end.
    assert words.decode(tokens[1:-1]).split() == (inside + " with a hat").split()[:10]
    assert (tokens[0], tokens[-1], len(tokens)) == (words.bos_token_id, words.eos_token_id, 12)


def test_our_cut_is_the_one_of_the_tokenizer(encoder):
    words = encoder.tokens.tokenizer
    long = ["a hat " * 30, "a man", "the market " * 40]
    expected = words(long, truncation=True, max_length=12, padding=True, return_tensors="pt")
    made = encoder.tokens(long)
    for name in ("input_ids", "attention_mask"):
        assert made[name].tolist() == expected[name].tolist()


def test_greyscale_and_tiny_images_are_read_as_colours(encoder, pictures):
    grey = pictures[0].convert("L")
    np.testing.assert_array_equal(encoder.encode_images([grey]), encoder.encode_images([grey.convert("RGB")]))
    dot, wide = Image.new("RGB", (1, 1), (200, 10, 30)), Image.new("RGB", (64, 64), (200, 10, 30))
    np.testing.assert_allclose(encoder.encode_images([dot]), encoder.encode_images([wide]), atol=1e-5)


@pytest.mark.parametrize("size", [(5, 3), (3, 5), (1, 4), (4, 1), (3, 3)])
def test_images_as_high_as_there_are_channels_are_not_misread(encoder, size):
    """Three rows of pixels look like three channels to a processor that guesses."""
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8))
    width, height = (round(side * 32 / min(size)) for side in size)
    large = small.resize((width, height), Image.Resampling.BICUBIC)
    np.testing.assert_allclose(encoder.encode_images([small]), encoder.encode_images([large]), atol=1e-4)


def test_arrays_of_bytes_are_images(encoder, pictures):
    import torch

    expected = encoder.encode_images(pictures[:1])
    array = np.asarray(pictures[0])
    np.testing.assert_array_equal(encoder.encode_images([array]), expected)
    np.testing.assert_array_equal(encoder.encode_images([torch.from_numpy(array.copy())]), expected)


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "float16"])
def test_pixels_that_may_be_scaled_already_are_refused(encoder, pictures, kind):
    pixels = (np.asarray(pictures[0]) / 255).astype(kind)
    with pytest.raises(InputError, match=f"image 1 holds pixels of type {kind}, as if they were scaled already"):
        encoder.encode_images([pictures[0], pixels])


def test_what_is_no_image_is_refused(encoder, pictures):
    import torch

    with pytest.raises(InputError, match="image 0 is a str"):
        encoder.encode_images(["cat.jpg"])
    with pytest.raises(InputError, match=r"image 0 has the shape \(3, 32, 32\)"):
        encoder.encode_images([np.zeros((3, 32, 32), np.uint8)])
    with pytest.raises(InputError, match="pixels of type float32"):
        encoder.encode_images([Image.new("F", (4, 4))])
    for batch in (torch.zeros(2, 3, 32, 32), np.zeros((2, 32, 32, 3), np.uint8), pictures[0]):
        with pytest.raises(InputError, match="images must be a list of images"):
            encoder.encode_images(batch)
    with pytest.raises(InputError, match="texts must be a list"):
        encoder.encode_texts("a man")
    with pytest.raises(InputError, match="text 1 is a float, not a text: nan"):
        encoder.encode_texts(["a man", float("nan")])


def test_a_turned_photo_is_turned_upright(encoder, pictures, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    pictures[0].save(tmp_path / "turned.png", exif=exif)
    with Image.open(tmp_path / "turned.png") as opened:
        made = encoder.encode_images([opened])
    np.testing.assert_array_equal(made, encoder.encode_images([pictures[0].transpose(Image.Transpose.ROTATE_270)]))


def test_memory_that_runs_out_halves_the_batch(folder, pictures, monkeypatch):
    encoder = load(f"hf:{folder}", batch_size=4)
    expected = encoder.encode_images(pictures)
    sizes, read = [], encoder.model.get_image_features

    def small(pixel_values, **rest):
        sizes.append(len(pixel_values))
        if len(pixel_values) > 2:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")
        return read(pixel_values=pixel_values, **rest)

    monkeypatch.setattr(encoder.model, "get_image_features", small)
    np.testing.assert_allclose(encoder.encode_images(pictures), expected, atol=1e-6)
    assert sizes == [4, 2, 2, 1]


def test_sixteen_bits_are_another_key_and_nearly_the_same_vectors(folder, encoder, pictures):
    half = load(f"hf:{folder}", dtype="bfloat16")
    vectors = half.encode_images(pictures)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, encoder.encode_images(pictures), atol=0.05)
    assert half.key == f"{encoder.key}-bfloat16"
    assert half.logit_scale == encoder.logit_scale  # not rounded


def test_the_key_follows_weights_and_preprocessing_not_the_place(folder, encoder, broken):
    from safetensors.torch import load_file, save_file

    assert load(f"hf:{broken}").key == encoder.key
    settings = json.loads((broken / "preprocessor_config.json").read_text())
    settings["image_mean"] = [0.5, 0.5, 0.5]
    (broken / "preprocessor_config.json").write_text(json.dumps(settings))
    other_pixels = load(f"hf:{broken}").key
    weights = load_file(broken / "model.safetensors")
    weights["logit_scale"] += 1
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(folder / "preprocessor_config.json", broken)
    other_weights = load(f"hf:{broken}").key
    assert len({encoder.key, other_pixels, other_weights}) == 3


def test_an_encoder_survives_the_way_to_another_process(encoder, pictures):
    again = pickle.loads(pickle.dumps(encoder))
    assert (again.key, again.name) == (encoder.key, encoder.name)
    np.testing.assert_array_equal(again.encode_images(pictures), encoder.encode_images(pictures))


def test_loading_is_silent(folder, capfd):
    with TestCase().assertNoLogs():
        load(f"hf:{folder}").encode_texts(["a man"])
    out = capfd.readouterr()
    assert (out.out, out.err) == ("", "")


def test_a_local_folder_never_touches_the_network(folder, monkeypatch):
    import socket

    def refuse(*args, **options):
        raise AssertionError("the network was asked")

    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    load(f"hf:{folder}")


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("config.json", "config.json is missing; a checkpoint folder holds"),
        ("model.safetensors", r"the weights are missing \(model.safetensors\)"),
        ("preprocessor_config.json", "preprocessor_config.json is missing, so it is not known how images are resized"),
    ],
)
def test_a_missing_file_is_named(broken, missing, sentence):
    (broken / missing).unlink()
    with pytest.raises(InputError, match=sentence):
        load(f"hf:{broken}")


def test_a_missing_tokenizer_is_named(broken):
    for path in broken.glob("tokenizer*"):
        path.unlink()
    assert "the tokenizer is missing" in refused(broken)


def test_a_tokenizer_that_needs_a_package_says_which(tmp_path, tiny_parts):
    from importlib.util import find_spec

    if find_spec("sentencepiece"):
        pytest.skip("sentencepiece is installed here")
    model, _, pixels = tiny_parts("siglip")
    model.save_pretrained(tmp_path)
    pixels.save_pretrained(tmp_path)
    (tmp_path / "spiece.model").write_bytes(b"x")
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "SiglipTokenizer"}')
    assert refused(tmp_path).endswith(
        "its tokenizer needs the package sentencepiece; install it with: pip install sentencepiece"
    )


def test_a_damaged_file_is_named(broken):
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:200])
    assert "damaged or cut off" in refused(broken)
    (broken / "config.json").write_text("{]")
    assert "not the settings of a model" in refused(broken)


def test_weights_that_are_missing_are_not_made_up(broken):
    from safetensors.torch import load_file, save_file

    weights = load_file(broken / "model.safetensors")
    del weights["visual_projection.weight"]
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    assert "lacks 1 weights of CLIPModel, such as 'visual_projection.weight'" in refused(broken)


def test_weights_of_another_shape_are_refused(broken):
    from safetensors.torch import load_file, save_file

    weights = load_file(broken / "model.safetensors")
    weights["visual_projection.weight"] = weights["visual_projection.weight"][:, :8].contiguous()
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    assert "visual_projection.weight" in refused(broken)


def test_a_pickle_is_refused_until_it_is_allowed(broken, encoder, pictures):
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(broken / "model.safetensors"), broken / "pytorch_model.bin")
    (broken / "model.safetensors").unlink()
    sentence = refused(broken)
    assert "only there as a pickle (pytorch_model.bin)" in sentence
    assert "--allow-pickle" in sentence
    allowed = load(f"hf:{broken}", allow_pickle=True)
    np.testing.assert_array_equal(allowed.encode_images(pictures), encoder.encode_images(pictures))


def test_a_folder_of_another_kind_says_what_it_is(tmp_path, broken):
    assert "config.json is missing" in refused(tmp_path)
    assert "a file; hf: takes the folder" in refused(broken / "config.json")
    assert "no such folder, and it is not the name of a Hub repository" in refused(tmp_path / "nowhere")
    settings = json.loads((broken / "config.json").read_text()) | {"model_type": "gpt2"}
    (broken / "config.json").write_text(json.dumps(settings))
    assert "a 'gpt2' model, which is not an encoder that is known here (" in refused(broken)


def test_a_repository_out_of_reach_says_what_was_tried(monkeypatch, tmp_path):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    sentence = refused("some/clip@v2")
    assert "the Hub's cache does not hold it at revision v2" in sentence
    assert "hf download some/clip --revision v2" in sentence


def test_a_repository_in_the_cache_is_loaded_without_a_network(folder, monkeypatch, tmp_path, encoder):
    import huggingface_hub.constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    home = tmp_path / "models--some--clip"
    shutil.copytree(folder, home / "snapshots" / commit)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    cached = load("hf:some/clip")
    assert (cached.name, cached.key) == ("hf:some/clip", encoder.key)


def test_options_are_checked(folder):
    assert "there is no dtype named 'float8'" in refused(folder, dtype="float8")
    assert "batch_size must be a whole number above 0, not 0" in refused(folder, batch_size=0)
    assert "there is no dtype named 'float8'" in refused("not/downloaded", dtype="float8")
    assert "device 'cuda:7' cannot be used" in refused(folder, device="cuda:7")


@pytest.mark.slow
def test_a_torchvision_of_another_build_is_explained(folder, tmp_path):
    """With a torchvision that cannot be imported, the reader is told what to uninstall."""
    import subprocess
    import sys

    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text('raise RuntimeError("operator torchvision::nms does not exist")\n')
    about = tmp_path / "torchvision-0.99.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.99.0\n")
    code = f"from equipoise.models import load; load('hf:{folder}')"
    paths = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); "
    done = subprocess.run([sys.executable, "-c", paths + code], capture_output=True, text=True, timeout=120)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("equipoise.errors.InputError: torchvision 0.99.0 was built for another torch")
    assert "pip uninstall torchvision" in last
