"""Training the generative miniatures: resumed runs end at the same weights; stock classes run them."""

import json
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("diffusers")

from equipoise.errors import InputError  # noqa: E402
from equipoise.recipes.train_mini import (  # noqa: E402
    clip,
    detector,
    diffusion,
    edit,
    editions,
    inpaint,
    language,
    latents,
    safety,
    train,
    vae,
)
from equipoise.recipes.train_mini.editions import refined, with_difference  # noqa: E402
from equipoise.recipes.train_mini.saving import save_transformers  # noqa: E402
from equipoise.recipes.train_mini.tokenizer import LENGTH, tokenizer, with_words  # noqa: E402
from equipoise.train.schedule import Schedule  # noqa: E402
from equipoise.world import WorldConfig, preset, render, sample, what_is_where  # noqa: E402

TINY = Schedule(steps=4, batch=4, warmup=2, save_every=2, average=0.9)
PIPELINES = ("diffusion", "diffusion-biased", "inpaint", "edit")
SMALL = ("vae", "text", "detector", "safety")
quiet = [].append


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with every generative part, trained for four steps, each from the ones before."""
    folder = tmp_path_factory.mktemp("parts")
    with pytest.MonkeyPatch.context() as patch:
        _tiny(patch, folder)
        words = tokenizer()
        save_transformers(clip.build(words), folder / "clip-fair", tokenizer=words, mean=0.5, std=0.25, size=64)
        for part in (*SMALL, *PIPELINES):
            train(part, folder / "work" / part, folder / part, quiet, **edition_of(part))
        yield folder


def edition_of(part):
    """The parts of ``home`` are of the coarser grid, from which those of the finer one begin."""
    return {"edition": "first"} if part == "vae" else {}


def _tiny(patch, folder):
    for module in (diffusion, inpaint, edit, language, detector, safety):
        patch.setattr(module, "SCHEDULE", TINY)
    for name in ("BIASED", "FROM_COARSER", "ON_BIASED"):
        patch.setattr(diffusion, name, TINY)
    for module in (diffusion, inpaint, edit):
        patch.setattr(module, "CARRIED", TINY)
    for module in (detector, diffusion, edit, inpaint):
        patch.setattr(module, "ON", TINY)
    for name, plan in editions.EDITIONS.items():
        short = replace(plan, schedule=TINY, crops_until=2, decoder=plan.decoder and TINY)
        patch.setitem(editions.EDITIONS, name, short)
    patch.setattr(vae, "_MEASURED", 64)
    patch.setattr(latents, "CHUNK", 8)
    patch.setattr(latents, "VAE", folder / "vae")
    patch.setattr(diffusion, "TOWER", folder / "clip-fair")
    patch.setattr(diffusion, "START", folder / "diffusion")


@pytest.fixture(scope="module")
def second(home):
    """The second edition's autoencoder and the generators upon it, trained for four steps."""
    parents = {"vae": home / "vae2"}
    train("vae", home / "work" / "vae2", home / "vae2", quiet, edition="second")
    train("diffusion", home / "work" / "diffusion2", home / "diffusion2", quiet, **parents)
    for part in ("inpaint", "edit"):
        train(part, home / "work" / f"{part}2", home / f"{part}2", quiet, **parents, start=home / "diffusion2")
    return home


def weights(folder):
    from safetensors.torch import load_file

    found = {}
    for path in sorted(folder.rglob("*.safetensors")):
        found |= {f"{path.relative_to(folder).parent}/{name}": value for name, value in load_file(path).items()}
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [*SMALL, "diffusion", *(pytest.param(part, marks=pytest.mark.slow) for part in PIPELINES[1:])]
)
def test_a_stopped_run_goes_on_to_the_same_weights(home, tmp_path, part):
    train(part, tmp_path / "work", tmp_path / "made", quiet, stop_at=2, **edition_of(part))
    assert not (tmp_path / "made").exists()
    train(part, tmp_path / "work", tmp_path / "made", quiet, **edition_of(part))
    straight, resumed = weights(home / part), weights(tmp_path / "made")
    assert straight.keys() == resumed.keys()
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)
    assert {value.dtype for value in straight.values()} <= {torch.float16, torch.int64}


@pytest.mark.slow
@pytest.mark.parametrize("part", PIPELINES)
def test_no_folder_says_where_it_was_made(home, part):
    texts = [path.read_text() for path in (home / part).rglob("*.json")]
    assert not any(str(home) in text for text in texts)


@pytest.mark.slow
def test_stock_diffusers_makes_pictures_from_words(home):
    from diffusers import StableDiffusionPipeline

    for part in ("diffusion", "diffusion-biased"):
        pipeline = StableDiffusionPipeline.from_pretrained(home / part, local_files_only=True)
        assert {pipeline.unet.dtype, pipeline.vae.dtype, pipeline.text_encoder.dtype} == {torch.float32}
        pipeline.set_progress_bar_config(disable=True)
        image = pipeline("a photo of a nurse", num_inference_steps=2, guidance_scale=3.0).images[0]
        assert image.size == (64, 64)
    different = weights(home / "diffusion"), weights(home / "diffusion-biased")
    assert any(not torch.equal(different[0][name], different[1][name]) for name in different[0] if "unet" in name)


@pytest.mark.slow
def test_stock_diffusers_inpaints_and_edits(home):
    from diffusers import StableDiffusionInpaintPipeline, StableDiffusionInstructPix2PixPipeline
    from PIL import Image

    picture = Image.new("RGB", (64, 64), "teal")
    mask = Image.fromarray(np.pad(np.full((32, 32), 255, np.uint8), 16))
    pipeline = StableDiffusionInpaintPipeline.from_pretrained(home / "inpaint", local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    assert pipeline.unet.config.in_channels == 9
    assert pipeline("a man", image=picture, mask_image=mask, num_inference_steps=2).images[0].size == (64, 64)
    pipeline = StableDiffusionInstructPix2PixPipeline.from_pretrained(home / "edit", local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    assert pipeline.unet.config.in_channels == 8
    told = edit.instructions({"gender": "female"})[0]
    assert pipeline(told, image=picture, num_inference_steps=2).images[0].size == (64, 64)


@pytest.mark.slow
def test_stock_classes_load_the_small_parts(home):
    from diffusers import AutoencoderKL
    from transformers import AutoModelForImageClassification, AutoModelForSemanticSegmentation, pipeline

    coder = AutoencoderKL.from_pretrained(home / "vae", local_files_only=True)
    assert coder.dtype == torch.float32
    assert coder.config.scaling_factor != 0.18215
    scenes = sample(preset("fair"), 2)
    spread = coder.encode(vae.pictures(scenes)).latent_dist.mode()
    assert spread.shape == (2, 4, 16, 16)
    assert AutoModelForSemanticSegmentation.from_pretrained(home / "detector").dtype == torch.float32
    assert AutoModelForImageClassification.from_pretrained(home / "safety").config.id2label[1] == "unsafe"
    fill = pipeline("fill-mask", model=str(home / "text"), device="cpu")
    assert len(fill("this is a [MASK]", top_k=3)) == 3


@pytest.mark.slow
def test_the_second_edition_has_a_finer_grid_and_runs_in_stock_pipelines(second):
    from diffusers import (
        AutoencoderKL,
        StableDiffusionInpaintPipeline,
        StableDiffusionInstructPix2PixPipeline,
        StableDiffusionPipeline,
    )
    from PIL import Image

    coder = AutoencoderKL.from_pretrained(second / "vae2", local_files_only=True)
    assert coder.encode(vae.pictures(sample(preset("fair"), 2))).latent_dist.mode().shape == (2, 4, 32, 32)
    assert editions.edition_of(coder).name == "second"
    picture, mask = Image.new("RGB", (64, 64), "teal"), Image.new("L", (64, 64), 255)
    made = {
        "diffusion2": (StableDiffusionPipeline, {}),
        "inpaint2": (StableDiffusionInpaintPipeline, {"image": picture, "mask_image": mask}),
        "edit2": (StableDiffusionInstructPix2PixPipeline, {"image": picture}),
    }
    for folder, (stock, given) in made.items():
        pipeline = stock.from_pretrained(second / folder, local_files_only=True)
        pipeline.set_progress_bar_config(disable=True)
        assert pipeline.unet.config.sample_size == 32
        assert len(pipeline.tokenizer("an elderly darker-skinned lady")["input_ids"]) == 8
        image = pipeline("a dark-skinned woman", num_inference_steps=2, **given).images[0]
        assert image.size == (64, 64)


@pytest.mark.slow
def test_the_second_edition_resumes_to_the_same_weights(second, tmp_path):
    train("vae", tmp_path / "work", tmp_path / "made", quiet, stop_at=2, edition="second")
    train("vae", tmp_path / "work", tmp_path / "made", quiet, edition="second")
    straight, resumed = weights(second / "vae2"), weights(tmp_path / "made")
    assert straight.keys() == resumed.keys()
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)


@pytest.mark.slow
def test_editions_do_not_mix(second, tmp_path):
    with pytest.raises(InputError, match="of one edition"):
        train("inpaint", tmp_path / "work", tmp_path / "made", quiet, vae=second / "vae2")
    with pytest.raises(InputError, match="to vae alone"):
        train("diffusion", tmp_path / "work", tmp_path / "made", quiet, edition="second")
    with pytest.raises(InputError, match="takes no --start"):
        train("text", tmp_path / "work", tmp_path / "made", quiet, start=second / "diffusion2")
    with pytest.raises(InputError, match="do not fit inside"):
        train("diffusion", tmp_path / "work", tmp_path / "made", quiet, start=second / "diffusion2")
    with pytest.raises(InputError, match="third"):
        train("vae", tmp_path / "work", tmp_path / "made", quiet, edition="third")
    deep = type("Deep", (), {"config": type("Config", (), {"block_out_channels": (8, 8, 8, 8)})})
    with pytest.raises(InputError, match="8 pixels wide"):
        editions.edition_of(deep)


@pytest.mark.slow
def test_the_command_trains_another_edition_into_a_folder_of_its_own(home, tmp_path):
    from typer.testing import CliRunner

    from equipoise.cli.mini import app

    refused = CliRunner().invoke(app, ["train", "vae", "--edition", "second"])
    assert refused.exit_code == 2
    assert "--out" in refused.output
    done = CliRunner().invoke(app, ["train", "vae", "--edition", "second", "-o", str(tmp_path / "vae2")])
    assert done.exit_code == 0, done.output
    assert editions.edition_in(tmp_path / "vae2").name == "second"
    assert editions.edition_in(home / "diffusion").name == "first"


@pytest.mark.slow
@pytest.mark.parametrize("part", ["detector", "diffusion", "diffusion-biased"])
def test_a_part_learns_on_from_itself_for_the_steps_it_is_given(home, tmp_path, part):
    train(part, tmp_path / "work", tmp_path / "made", quiet, start=home / part, steps=2)
    before, after = weights(home / part), weights(tmp_path / "made")
    shared = [n for n in before if n in after and before[n].shape == after[n].shape]
    assert len(shared) > 100
    assert any(not torch.equal(before[name], after[name]) for name in shared)
    with pytest.raises(InputError, match="--start"):
        train(part, tmp_path / "work", tmp_path / "made", quiet, steps=2)


@pytest.mark.slow
def test_a_detector_that_knew_no_heads_keeps_what_it_knew(home, tmp_path):
    from transformers import SegformerForSemanticSegmentation

    old = SegformerForSemanticSegmentation.from_pretrained(home / "detector")
    old.config.id2label = {i: name for i, name in enumerate(detector.LABELS) if name != "head"}
    rows = old.decode_head.classifier
    rows.weight.data, rows.bias.data = rows.weight.data[:-1].clone(), rows.bias.data[:-1].clone()
    old.save_pretrained(tmp_path / "old")
    on = detector.learnt(tmp_path / "old")
    assert on.config.part_of == {"head": "person"}
    assert torch.equal(on.decode_head.classifier.weight[:-1], rows.weight)
    assert on.decode_head.classifier.weight.shape[0] == len(detector.LABELS)


def test_blurred_edges_cost_more_than_a_shifted_colour():
    sharp = (torch.arange(8) >= 4).float().expand(1, 1, 8, 8)
    blurred = torch.nn.functional.avg_pool2d(sharp, (1, 3), stride=1, padding=(0, 1), count_include_pad=False)
    shifted = sharp + (blurred - sharp).abs().mean()
    assert float(vae.edge_errors(blurred, sharp)) > 0.1
    assert float(vae.edge_errors(shifted, sharp)) < 1e-6


@pytest.mark.slow
def test_the_pipelines_tokens_are_those_of_training(home):
    from diffusers import StableDiffusionPipeline

    pipeline = StableDiffusionPipeline.from_pretrained(home / "diffusion", local_files_only=True)
    seen = []
    pipeline.text_encoder.register_forward_hook(lambda _m, given, _o: seen.append(given[0]))
    pipeline.encode_prompt(["a nurse at the beach"], "cpu", 1, True)
    trained = [diffusion.ids_of(tokenizer(), [text]) for text in ("a nurse at the beach", "")]
    assert [ids.shape[1] for ids in seen] == [LENGTH, LENGTH]
    assert all(torch.equal(a, b) for a, b in zip(seen, trained, strict=True))


@pytest.mark.slow
def test_the_decoder_learns_on_alone(home, tmp_path, monkeypatch):
    without = replace(editions.EDITIONS["first"], decoder=None)
    monkeypatch.setitem(editions.EDITIONS, "first", without)
    train("vae", home / "work" / "vae", tmp_path / "made", quiet, edition="first")
    before, after = weights(tmp_path / "made"), weights(home / "vae")
    moved = {name.split("/")[1].split(".")[0] for name in after if not torch.equal(before[name], after[name])}
    assert moved == {"decoder", "post_quant_conv"}


@pytest.mark.slow
def test_the_edit_words_are_single_tokens_and_keep_their_vectors(home):
    from transformers import CLIPTextModel, CLIPTokenizer

    words = edit.edit_tokenizer()
    longest = [text for t in ("light", "dark") for text in edit.instructions({"gender": "male", "tone": t})]
    assert max(map(len, words(longest)["input_ids"])) <= LENGTH
    assert len(words("Make this person look like a woman")["input_ids"]) == 9
    old = CLIPTokenizer.from_pretrained(home / "diffusion" / "tokenizer")
    text = CLIPTextModel.from_pretrained(home / "diffusion" / "text_encoder")
    wide = with_words(text, old, words)
    ids = [t.convert_tokens_to_ids("woman</w>") for t in (old, words)]
    vectors = [m.get_input_embeddings().weight[i] for m, i in zip((text, wide), ids, strict=True)]
    assert torch.equal(*vectors)
    assert old("a woman")["input_ids"] != words("a woman")["input_ids"]


def test_a_chunk_that_was_lost_is_made_again_alike(tmp_path):
    def make(scenes):
        return {"seed": torch.from_numpy(scenes.columns["seed"] % 97)[:, None]}

    pool = latents.LatentPool(WorldConfig(), 3, tmp_path, make, n_chunks=3, chunk=8)
    first = [pool.batch(step, 4) for step in range(12)]
    seeds = [scene.seed for scenes, _ in first[:6] for scene in scenes]
    assert sorted(seeds) == sorted(scene.seed for scene in sample(WorldConfig(), 24, seed=3))
    (tmp_path / "pool-00001.safetensors").unlink()
    again = [
        latents.LatentPool(WorldConfig(), 3, tmp_path, make, n_chunks=3, chunk=8).batch(step, 4) for step in range(12)
    ]
    for (scenes, made), (scenes_2, made_2) in zip(first, again, strict=True):
        assert [s.seed for s in scenes] == [s.seed for s in scenes_2]
        assert torch.equal(made["seed"], made_2["seed"])
        assert made["seed"][:, 0].tolist() == [s.seed % 97 for s in scenes]
    assert [s.seed for s in first[0][0]] != [s.seed for s in first[6][0]]
    with pytest.raises(InputError, match="larger than a chunk"):
        pool.batch(0, 9)


def test_the_terminal_step_is_learnt_and_people_count_for_more():
    noises = diffusion.noise_schedule()
    assert float(noises.alphas_cumprod[-1]) == 0.0

    class Still(torch.nn.Module):
        def forward(self, given, *_, **__):
            return type("Out", (), {"sample": given * 0, "last_hidden_state": given})

    model = torch.nn.ModuleDict({"text": Still(), "unet": Still()})
    picture = torch.zeros(4, 4, 16, 16)
    picture[:, :, :4] = 3.0
    here, there = torch.zeros(4, 1, 16, 16), torch.zeros(4, 1, 16, 16)
    here[:, :, :4], there[:, :, 4:8] = 1, 1
    losses = [float(diffusion.denoising_loss(model, noises, picture, picture, where, 0)) for where in (here, there)]
    assert losses[0] > losses[1]


def test_edits_change_what_they_say_and_nothing_else():
    scenes = sample(diffusion.world_of(preset("fair")), 60, seed=2)
    kinds = set()
    for scene in scenes:
        changes, after = edit.changes_of(scene), edit.edited(scene)
        kinds.add(tuple(changes))
        for axis, group in changes.items():
            assert after.group({"tone": "skin_tone"}.get(axis, axis)) == group
        assert (after.objects, after.scene, len(after.people)) == (scene.objects, scene.scene, len(scene.people))
        assert edit.instructions(changes)
    assert kinds == {("gender",), ("tone",), ("age",), ("gender", "tone")}


def test_masks_hide_the_person():
    scenes = sample(preset("fair"), 8, seed=1)
    hidden, person = inpaint.hidden(scenes), latents.person_masks(scenes)
    assert hidden.shape == (8, 1, 64, 64)
    assert ((hidden >= person).all(axis=(1, 2, 3)) & (hidden.sum((1, 2, 3)) > person.sum((1, 2, 3)))).all()


def test_a_part_that_needs_another_says_which(tmp_path, monkeypatch):
    _tiny(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="starts from vae"):
        train("diffusion", tmp_path / "work", tmp_path / "made", quiet)
    with pytest.raises(InputError, match="fair world alone"):
        train("vae", tmp_path / "work", tmp_path / "made", quiet, strength=2.0)
    with pytest.raises(InputError, match="starts from diffusion"):
        diffusion.learned(tmp_path / "diffusion", None)


def test_every_text_hides_a_word_and_labels_it():
    words = language.word_tokenizer()
    tokens, labels = language.masked(words, ["a nurse at the beach", "this is a man"], step=3)
    asked = labels >= 0
    assert asked.any(dim=1).all()
    kept = ~asked & tokens["attention_mask"].bool()
    plain = words(["a nurse at the beach", "this is a man"], padding="max_length", max_length=language.LENGTH)
    assert torch.equal(tokens["input_ids"][kept], torch.tensor(plain["input_ids"])[kept])
    assert torch.equal(labels[asked], torch.tensor(plain["input_ids"])[asked])


@pytest.mark.slow
def test_every_generation_file_says_how_to_run(home):
    for part in PIPELINES:
        settings = json.loads((home / part / "generation.json").read_text())
        assert settings["steps"] == 20
        assert settings["guidance"] >= 1  # 1 is no guidance: the biased generator shows the shares that it learnt


@pytest.mark.slow
def test_a_finer_generator_begins_as_a_coarser_one(second, tmp_path):
    coarse, _, _ = diffusion.opened(second / "diffusion")
    fine = refined(coarse, diffusion.build_unet(plan=editions.SECOND), editions.SECOND)
    before, after = coarse.state_dict(), fine.state_dict()
    inner = [name for name in before if name.startswith("down_blocks.0.")]
    assert inner
    assert all(torch.equal(before[n], after[n.replace("down_blocks.0.", "down_blocks.1.", 1)]) for n in inner)
    assert all(torch.equal(before[n], after[n]) for n in before if n.startswith(("mid_block.", "up_blocks.0.")))
    with pytest.raises(InputError, match="do not fit inside"):
        refined(fine, fine, editions.SECOND)
    train("diffusion", tmp_path / "w", tmp_path / "d", quiet, vae=second / "vae2", start=second / "diffusion")
    assert (tmp_path / "d" / "model_index.json").is_file()


@pytest.mark.slow
def test_what_a_generator_learnt_beyond_diffusion_is_added_to_another(second):
    start = diffusion.opened(second / "diffusion2")
    plain = {name: value.clone() for name, value in start[0].state_dict().items()}
    said = {name: value.clone() for name, value in start[1].state_dict().items()}
    unet, text = with_difference(start, second, "edit", diffusion.opened)
    (learnt, learnt_text, _), (base, base_text, _) = (diffusion.opened(second / part) for part in ("edit", "diffusion"))
    inner, layer = "mid_block.resnets.0.conv1.weight", "encoder.layers.0.mlp.fc1.weight"
    moved = learnt.state_dict()[inner] - base.state_dict()[inner]
    assert moved.abs().max() > 0
    assert torch.allclose(unet.state_dict()[inner] - plain[inner], moved, atol=1e-6)
    assert torch.equal(unet.state_dict()["conv_in.weight"], plain["conv_in.weight"]), "the grids differ there"
    spoken = next(name for name in said if name.endswith(layer))
    assert torch.allclose(
        text.state_dict()[spoken] - said[spoken],
        learnt_text.state_dict()[spoken] - base_text.state_dict()[spoken],
        atol=1e-6,
    )


@pytest.mark.slow
def test_a_part_takes_over_what_it_had_learnt_in_the_edition_before(second, tmp_path):
    parents = {"vae": second / "vae2", "start": second / "diffusion2", "before": second}
    for part in ("diffusion-biased", "inpaint", "edit"):
        train(part, tmp_path / "work" / part, tmp_path / part, quiet, **parents)
        assert (tmp_path / part / "model_index.json").is_file()
    with pytest.raises(InputError, match="takes no --before"):
        train("diffusion", tmp_path / "w", tmp_path / "d", quiet, before=second)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["edit", "inpaint"])
def test_an_editor_and_an_inpainter_learn_on_with_more_words(home, tmp_path, part):
    from transformers import CLIPTokenizer

    train(part, tmp_path / "work", tmp_path / part, quiet, start=home / part)
    words = CLIPTokenizer.from_pretrained(tmp_path / part / "tokenizer")
    assert len(words("darker-skinned")["input_ids"]) == 5, "darker, a hyphen and skinned, each one token"


def _around(mask):
    """Left, top, right, bottom of what is true, in whole pixels."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


@pytest.mark.slow
@pytest.mark.parametrize(("autoencoder", "grid"), [("vae", 32), ("vae2", 16)])
def test_boxes_are_given_as_the_edit_command_gives_them(second, autoencoder, grid):
    from PIL import Image

    from equipoise.models.diffusers.generator import fitted

    coder = latents.autoencoder(second / autoencoder)
    scenes = sample(preset("fair").changed(two_people=0.0), 12, 5)
    pairs = edit._pairs(coder, scenes)
    for i, scene in enumerate(scenes):
        left, top, right, bottom = _around(what_is_where(scene).people[0])
        size = fitted((right - left, bottom - top), 64, grid)
        assert int(pairs["width of box"][i, 0]) * grid == size[0] * 8
        cut = Image.fromarray(render(scene)).crop((left, top, right, bottom)).resize(size, Image.Resampling.LANCZOS)
        given = torch.from_numpy(np.asarray(cut).copy()).permute(2, 0, 1)[None].float() / 127.5 - 1
        with torch.no_grad():
            wanted = coder.encode(given).latent_dist.mode()[0]
        assert torch.allclose(pairs["source in box"][i, :, :, : wanted.shape[-1]], wanted, atol=1e-4)
    parts = list(edit._shapes(pairs, np.ones(12, dtype=bool)))
    assert sorted(int(row) for rows, *_ in parts for row in rows) == list(range(12))
    assert {after.shape[-1] * grid for _, after, *_ in parts} <= {8 * 32, 8 * 48, 8 * 64}
