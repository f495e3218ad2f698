"""Generators: tiny random pipelines in the layout of real ones, asked through the adapter."""

import functools
import json
import pickle
import shutil
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")
diffusers = pytest.importorskip("diffusers")

from PIL import Image  # noqa: E402

from equipoise.errors import InputError  # noqa: E402
from equipoise.models import check, load, miniatures  # noqa: E402
from equipoise.models.protocols import Generator  # noqa: E402
from equipoise.recipes.train_mini.tokenizer import tokenizer  # noqa: E402

WORDS = "a photo of person doctor nurse man woman at the market with hat make this".split()
FAMILIES = {
    "StableDiffusionPipeline": 4,
    "StableDiffusionInpaintPipeline": 9,
    "StableDiffusionInstructPix2PixPipeline": 8,
    "StableDiffusionXLPipeline": 4,
}


def text_encoder(words, *, projected=False):
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=12,
        projection_dim=16,
        eos_token_id=words.eos_token_id,
        bos_token_id=words.bos_token_id,
        pad_token_id=words.pad_token_id,
    )
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)


def parts(family):
    torch.manual_seed(0)
    words = tokenizer(WORDS)
    words.model_max_length = 12
    xl = "XL" in family
    more = {}
    if xl:
        more = {
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 4,
            "projection_class_embeddings_input_dim": 16 + 6 * 4,
        }
    unet = diffusers.UNet2DConditionModel(
        sample_size=8,
        in_channels=FAMILIES[family],
        block_out_channels=(8, 16),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=1,
        norm_num_groups=4,
        cross_attention_dim=32 if xl else 16,
        attention_head_dim=4,
        **more,
    )
    vae = diffusers.AutoencoderKL(
        block_out_channels=(8, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=4,
        sample_size=16,
    )
    found = {"unet": unet, "vae": vae, "tokenizer": words, "text_encoder": text_encoder(words)}
    found["scheduler"] = diffusers.DDIMScheduler(clip_sample=False, steps_offset=1)
    if xl:
        return found | {"tokenizer_2": words, "text_encoder_2": text_encoder(words, projected=True)}
    return found | {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    home = tmp_path_factory.mktemp("pipelines")
    for family in FAMILIES:
        getattr(diffusers, family)(**parts(family)).save_pretrained(home / family)
    return home


@functools.cache
def generator(folders, family, **options):
    """Opened once; whoever changes it puts it back."""
    return load(f"diffusers:{folders / family}", kind="generator", **options)


def picture(size=(16, 16), seed=0):
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8))


def same(a, b, within=1):
    return np.abs(np.asarray(a, dtype=int) - np.asarray(b, dtype=int)).max() <= within


@pytest.mark.parametrize("family", ["StableDiffusionPipeline", "StableDiffusionXLPipeline"])
def test_text_to_image_depends_on_seed_and_place_and_not_on_the_batch(folders, family):
    model = generator(folders, family)
    assert isinstance(model, Generator)
    assert model.can == {"generate", "generate_set"}
    assert model.size == (16, 16)
    texts = ["a photo of a nurse", "a man with a hat", "a photo of a nurse"]
    made = model.generate(texts, seed=3, steps=2)
    again = generator(folders, family, batch_size=1).generate(texts, seed=3, steps=2)
    assert [image.size for image in made] == [(16, 16)] * 3
    assert all(same(a, b) for a, b in zip(made, again, strict=True))
    assert not same(made[0], made[2])
    assert not same(made[0], model.generate(texts[:1], seed=4, steps=2)[0])


def test_it_is_the_stock_pipeline(folders):
    from equipoise.models.diffusers.generator import seed_of

    stock = diffusers.StableDiffusionPipeline.from_pretrained(folders / "StableDiffusionPipeline")
    stock.set_progress_bar_config(disable=True)
    noise = torch.Generator().manual_seed(seed_of(7, 0))
    wanted = stock("a nurse", num_inference_steps=3, guidance_scale=2.0, generator=noise).images[0]
    model = generator(folders, "StableDiffusionPipeline")
    assert same(model.generate(["a nurse"], seed=7, steps=3, guidance=2.0)[0], wanted, within=0)


def test_the_models_own_settings_are_taken_and_an_argument_wins(folders, tmp_path, monkeypatch):
    folder = tmp_path / "own"
    shutil.copytree(folders / "StableDiffusionPipeline", folder)
    (folder / "generation.json").write_text(json.dumps({"guidance": 2.0, "steps": 3}))
    model = load(f"diffusers:{folder}", kind="generator")
    asked = []
    monkeypatch.setattr(model, "_made", lambda **call: asked.append(call) or [picture()])
    model.generate(["a"], seed=0)
    model.generate(["a"], seed=0, steps=5, guidance=9.0)
    assert [(call["num_inference_steps"], call["guidance_scale"]) for call in asked] == [(3, 2.0), (5, 9.0)]
    with pytest.raises(InputError, match="at least one step"):
        model.generate(["a"], seed=0, steps=0)
    assert model.own == {"guidance": 2.0, "steps": 3}
    assert generator(folders, "StableDiffusionPipeline").own == {"guidance": 7.5, "steps": 50}, "the pipeline's"
    (folder / "generation.json").write_text("[")
    with pytest.raises(InputError, match="guidance, image_guidance and steps are expected"):
        load(f"diffusers:{folder}", kind="generator")


def test_other_settings_of_its_own_are_another_model(folders, tmp_path):
    folder = tmp_path / "own"
    shutil.copytree(folders / "StableDiffusionPipeline", folder)
    keys = [load(f"diffusers:{folder}", kind="generator").key]
    for own in ({"guidance": 2.0, "steps": 3}, {"guidance": 2.0, "steps": 4}, {}):
        (folder / "generation.json").write_text(json.dumps(own))
        keys.append(load(f"diffusers:{folder}", kind="generator").key)
    assert len(set(keys)) == 3
    assert keys[-1] == keys[0], "a file that says nothing changes nothing"


def test_a_set_goes_through_shared_attention(folders, monkeypatch):
    import equipoise.models.diffusers as package

    asked = {}

    def run_set(pipeline, prompts, **told):
        asked.update(told, prompts=prompts)
        return [picture(), picture()]

    monkeypatch.setattr(package, "attention", types.SimpleNamespace(run_set=run_set), raising=False)
    model = generator(folders, "StableDiffusionPipeline")
    how = {"inject": "both", "steps": 2, "blend": True, "sampler": "ddim"}
    assert len(model.generate_set(["a man", "a woman"], seed=1, share=0.4, **how)) == 2
    assert asked == {
        "prompts": ["a man", "a woman"],
        "seed": 1,
        "share": 0.4,
        "inject": "both",
        "steps": 2,
        "guidance": 7.5,
        "blend": True,
        "sampler": "ddim",
    }
    with pytest.raises(TypeError, match="blnd"):
        model.generate_set(["a man"], seed=1, share=0.4, blnd=True)


def test_a_set_with_nothing_shared_is_made_of_the_same_noise(folders):
    pytest.importorskip("equipoise.models.diffusers.attention")
    model = generator(folders, "StableDiffusionPipeline")
    one, other = model.generate_set(["a man", "a man"], seed=1, share=0.0, steps=2)
    assert same(one, other)


def test_editing_keeps_each_images_size(folders):
    model = generator(folders, "StableDiffusionInstructPix2PixPipeline", batch_size=2)
    assert model.can == {"edit"}
    images = [picture(), picture((32, 16), 1), picture((16, 16), 2)]
    made = model.edit(images, ["make this a woman"] * 3, seed=1, steps=2, image_guidance=1.2)
    assert [image.size for image in made] == [(16, 16), (32, 16), (16, 16)]
    assert not same(made[0], made[2])
    alone = model.edit(images[:1], ["make this a woman"], seed=1, steps=2, image_guidance=1.2)[0]
    assert same(made[0], alone)
    with pytest.raises(InputError, match="2 images, 1 instructions"):
        model.edit(images[:2], ["make this a woman"], seed=1)
    with pytest.raises(InputError, match="which can edit, not generate; load a StableDiffusionPipeline or"):
        model.generate(["a"], seed=1)


def test_inpainting_takes_a_mask_of_the_images_size(folders):
    model = generator(folders, "StableDiffusionInpaintPipeline")
    image, mask = picture((32, 32)), np.zeros((32, 32), bool)
    mask[8:20, 8:20] = True
    made = model.inpaint([image], [mask], ["a woman"], seed=2, steps=2)[0]
    assert made.size == (32, 32)
    other = model.inpaint([image], [~mask], ["a woman"], seed=2, steps=2)[0]
    assert not same(made, other)
    with pytest.raises(InputError, match=r"mask 0 is uint8 of shape \(32, 32\)"):
        model.inpaint([image], [mask.astype(np.uint8)], ["a woman"], seed=2)
    with pytest.raises(InputError, match=r"truth values of shape \(32, 32\)"):
        model.inpaint([image], [mask[:5]], ["a woman"], seed=2)


def test_photographs_inpainted_together_come_out_as_alone(folders):
    model = generator(folders, "StableDiffusionInpaintPipeline")
    mask = np.zeros((16, 16), dtype=bool)
    mask[4:12, 4:12] = True
    images, texts = [picture(seed=1), picture(seed=2), picture(seed=1)], ["a woman", "a man", "a woman"]
    places = [(7, 0), (8, 1), (7, 1)]
    together = model.inpaint(images, [mask] * 3, texts, seed=places, steps=2)
    alone = model.inpaint([images[0]] * 2, [mask] * 2, ["a woman"] * 2, seed=7, steps=2)
    assert same(together[0], alone[0])
    assert same(together[2], alone[1])
    assert same(together[1], model.inpaint([images[1]] * 2, [mask] * 2, ["a man"] * 2, seed=8, steps=2)[1])
    with pytest.raises(InputError, match="3 images, 2 seeds"):
        model.inpaint(images, [mask] * 3, texts, seed=places[:2])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_generator_keeps_its_promises(folders, family, monkeypatch):
    """What each can do: generate and joint sets (of XL, too), inpaint, edit."""
    model = generator(folders, family)
    report = check(model)
    assert report.ok, str(report)
    assert len(report.checks) == len(model.can)
    calls = iter(range(99))
    drawn = lambda **call: [picture(model.size, seed=next(calls)) for _ in call["prompt"]]  # noqa: E731
    monkeypatch.setattr(model, "_made", drawn)
    assert not check(model).ok


def test_an_adapter_travels_to_another_process(folders):
    model = generator(folders, "StableDiffusionPipeline", batch_size=3)
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.key, copy.name, copy.settings) == (model.key, model.name, model.settings)
    assert model.key != generator(folders, "StableDiffusionInpaintPipeline").key


def test_folders_that_are_not_whole_are_refused_in_a_sentence(folders, tmp_path):
    def broken(change):
        folder = tmp_path / change.__name__
        shutil.copytree(folders / "StableDiffusionPipeline", folder)
        change(folder)
        return f"diffusers:{folder}"

    def no_index(folder):
        (folder / "model_index.json").unlink()

    def no_unet(folder):
        shutil.rmtree(folder / "unet")

    def no_weights(folder):
        (folder / "unet" / "diffusion_pytorch_model.safetensors").unlink()

    def only_a_pickle(folder):
        no_weights(folder)
        (folder / "unet" / "diffusion_pytorch_model.bin").write_bytes(b"")

    def another_class(folder):
        index = json.loads((folder / "model_index.json").read_text()) | {"_class_name": "FluxPipeline"}
        (folder / "model_index.json").write_text(json.dumps(index))

    def cut_off(folder):
        path = folder / "vae" / "diffusion_pytorch_model.safetensors"
        path.write_bytes(path.read_bytes()[:500])

    def half_a_text_encoder(folder):
        from safetensors.torch import load_file, save_file

        path = folder / "text_encoder" / "model.safetensors"
        weights = {name: value for name, value in load_file(path).items() if ".layers.1." not in name}
        save_file(weights, path, {"format": "pt"})

    for change, words in (
        (no_index, "model_index.json is missing"),
        (half_a_text_encoder, "text_encoder: lacks 16 weights of CLIPTextModel, such as"),
        (no_unet, "the part 'unet' is missing"),
        (no_weights, "the weights are missing"),
        (only_a_pickle, "only there as a pickle"),
        (another_class, "a FluxPipeline, which is not known here"),
        (cut_off, "damaged|cannot be loaded"),
    ):
        with pytest.raises(InputError, match=words):
            load(broken(change), kind="generator")


@pytest.mark.parametrize("length", [None, 10**30, 4096])
def test_a_tokenizer_without_a_limit_reads_what_the_text_encoder_can(folders, tmp_path, length):
    """Without model_max_length transformers takes a number that its own tokenizer cannot hold."""
    folder = shutil.copytree(folders / "StableDiffusionPipeline", tmp_path / "long")
    path = folder / "tokenizer" / "tokenizer_config.json"
    about = json.loads(path.read_text())
    about.pop("model_max_length", None)
    path.write_text(json.dumps(about if length is None else about | {"model_max_length": length}))
    same = generator(folders, "StableDiffusionPipeline").generate(["a cat"], seed=0, steps=1)
    [made] = load(f"diffusers:{folder}", kind="generator").generate(["a cat"], seed=0, steps=1)
    assert np.array_equal(np.asarray(made), np.asarray(same[0]))


def test_a_pipeline_that_cannot_be_run_says_so_in_a_sentence(folders, monkeypatch):
    model = generator(folders, "StableDiffusionPipeline")

    def overflows(**call):
        raise OverflowError("int too big to convert")

    monkeypatch.setattr(model, "pipeline", overflows)
    with pytest.raises(InputError, match="its settings do not fit its weights"):
        model.generate(["a cat"], seed=0, steps=1)


def test_what_cannot_be_had_says_what_to_download(folders):
    with pytest.raises(InputError, match="hf download nobody/no-such-pipeline"):
        load("diffusers:nobody/no-such-pipeline", kind="generator")
    with pytest.raises(InputError, match="diffusers: gives a generator"):
        load(f"diffusers:{folders}")
    with pytest.raises(InputError, match="seed=-1"):
        generator(folders, "StableDiffusionPipeline").generate(["a"], seed=-1)
    with pytest.raises(InputError, match="must be a list of texts"):
        generator(folders, "StableDiffusionPipeline").generate("a", seed=1)


def test_mini_generators_are_found_by_their_part(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(miniatures, "FOLDER", tmp_path)
    shutil.copytree(folders / "StableDiffusionPipeline", tmp_path / "diffusion")
    shutil.copytree(folders / "StableDiffusionInpaintPipeline", tmp_path / "inpaint")
    assert load("mini", kind="generator").key == load("mini:diffusion", kind="generator").key
    assert load("mini:inpaint", kind="generator").can == {"inpaint"}
    with pytest.raises(InputError, match="train it with: equipoise mini train edit"):
        load("mini:edit", kind="generator")
    with pytest.raises(InputError, match="AutoencoderKL loads"):
        load("mini:vae", kind="generator")
