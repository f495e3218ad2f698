"""``dcg``: a small reviser of captions, ViLT and GPT-2, that learns from biased captions of the biased world.

It starts from miniatures that are there: ViLT's blocks are those of the image tower of ``clip-fair``, the language
model that of ``captioner``. Everything that reads text is new. Its biased captions are made by ``mini:text``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.images import encode
from equipoise.data.shard_writer import is_finished
from equipoise.errors import InputError
from equipoise.mitigate.libra import CaptionPair, SynthesisSettings, synthesise
from equipoise.mitigate.libra.synthesis import filler_named
from equipoise.models.hf.revisers import joined_model, save_reviser
from equipoise.models.miniatures import FOLDER
from equipoise.models.runtime import quiet
from equipoise.recipes.demo_parts import grainy
from equipoise.recipes.train_mini.batches import MEAN, SIZE, STD
from equipoise.recipes.train_mini.captioner import NAMED
from equipoise.recipes.train_mini.clip import VISION
from equipoise.recipes.train_mini.language import word_tokenizer
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.train.fitting import fit
from equipoise.world import WorldConfig, captions, render_image, sample

SCENES = 12_000
"""Pictures that it learns from, five captions each."""
SEED = 11
GRAINY = 4
"""Every so many pictures one is grainy, so that it knows when not to trust its eyes."""
SYNTHESIS = SynthesisSettings(filler="mini:text", tries=4)
TRAINING: dict[str, Any] = {
    "steps": 500,
    "batch": 64,
    "rate": 1e-3,
    "weight_decay": 0.05,
    "val_share": 0.05,
    "save_every": 50,
    "average": 0.99,
    "seed": 0,
}
_READ = 40


def learning_world(config: WorldConfig) -> WorldConfig:
    """The world that captions are learnt from: as the captioner's."""
    return config.changed(mention=NAMED, markedness={})


def world_captions(config: WorldConfig, n: int, seed: int) -> tuple[list[str], list[str]]:
    """Five captions of each of ``n`` scenes, and the ids of their pictures."""
    texts, images = [], []
    for number, scene in enumerate(sample(learning_world(config), n, seed)):
        for text in captions(scene):
            texts.append(text)
            images.append(f"{number:06d}")
    return texts, images


def pair_table(folder: Path, config: WorldConfig, n: int, seed: int, pairs: Sequence[CaptionPair]) -> Table:
    """The pictures that pairs are about, with their biased captions and originals; every fourth picture is grainy."""
    by_image: dict[str, list[CaptionPair]] = {}
    for pair in pairs:
        by_image.setdefault(pair.image_id, []).append(pair)

    def rows() -> Iterator[dict[str, Any]]:
        for number, scene in enumerate(sample(learning_world(config), n, seed)):
            some = by_image.get(f"{number:06d}")
            if some:
                picture = render_image(scene)
                if number % GRAINY == 0:
                    (picture,) = grainy([picture], seed=number)
                yield {
                    "image": encode(picture),
                    "image_id": f"{number:06d}",
                    "biased": [pair.biased for pair in some],
                    "original": [pair.original for pair in some],
                }

    columns = {"biased": "list<string>", "original": "list<string>"}
    return Table.create(folder, rows(), columns=columns)


def start_folder(folder: Path, *, seed: int = 0) -> Path:
    """Write the reviser that training starts from: the towers of two miniatures, joined."""
    import torch
    from transformers import AutoTokenizer, CLIPVisionModel, ViltConfig, ViltModel, VisionEncoderDecoderModel
    from transformers.models.vilt.image_processing_pil_vilt import ViltImageProcessorPil

    torch.manual_seed(seed)
    words, tongue = word_tokenizer(), AutoTokenizer.from_pretrained(FOLDER / "captioner")
    words.model_max_length = _READ
    config = ViltConfig(
        vocab_size=len(words),
        pad_token_id=words.pad_token_id,
        hidden_size=VISION["hidden_size"],
        intermediate_size=VISION["intermediate_size"],
        num_hidden_layers=VISION["num_hidden_layers"],
        num_attention_heads=VISION["num_attention_heads"],
        image_size=SIZE,
        patch_size=VISION["patch_size"],
        max_position_embeddings=_READ,
        type_vocab_size=1,
        hidden_act="quick_gelu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    reader = ViltModel(config)
    with quiet():
        _take_tower(reader, CLIPVisionModel.from_pretrained(FOLDER / "clip-fair", dtype=torch.float32))
        whole = VisionEncoderDecoderModel.from_pretrained(FOLDER / "captioner", dtype=torch.float32)
    processor = ViltImageProcessorPil(
        size={"shortest_edge": SIZE},
        size_divisor=VISION["patch_size"],
        image_mean=[MEAN] * 3,
        image_std=[STD] * 3,
        do_convert_rgb=True,
    )
    save_reviser(joined_model(reader, whole.decoder, tongue), folder, processor, words, tongue)
    return folder


def _take_tower(reader: Any, tower: Any) -> None:
    """Give ViLT the blocks of a CLIP's image tower.

    CLIP normalises what enters its blocks and ViLT does not: the mean is taken out and the gain put into the weights of
    the patches, and the spread, which differs from patch to patch, is replaced by a usual one.
    """
    import torch

    state = {name.removeprefix("vision_model."): value for name, value in tower.state_dict().items()}
    gain, shift = state["pre_layrnorm.weight"], state["pre_layrnorm.bias"]
    kernel, places = state["embeddings.patch_embedding.weight"], state["embeddings.position_embedding.weight"]
    usual = torch.sqrt(places[1:].var(dim=1).mean() + kernel.flatten(1).var(dim=0).sum())
    first = state["embeddings.class_embedding"]
    with torch.no_grad():
        scaled = gain / usual
        inner = reader.embeddings
        centred = kernel - kernel.mean(dim=0, keepdim=True)
        inner.patch_embeddings.projection.weight.copy_(centred * scaled[:, None, None, None])
        inner.patch_embeddings.projection.bias.zero_()
        centred_places = (places - places.mean(dim=1, keepdim=True)) * scaled
        inner.position_embeddings.copy_((centred_places + shift)[None])
        begin = first + places[0]
        begin = (begin - begin.mean()) / begin.std() * gain + shift
        inner.cls_token.copy_((begin - inner.position_embeddings[0, 0])[None, None])
        for number, block in enumerate(reader.encoder.layer):
            own = {
                name.removeprefix(f"encoder.layers.{number}."): value
                for name, value in state.items()
                if name.startswith(f"encoder.layers.{number}.")
            }
            for ours, theirs in (
                (block.attention.attention.query, "self_attn.q_proj"),
                (block.attention.attention.key, "self_attn.k_proj"),
                (block.attention.attention.value, "self_attn.v_proj"),
                (block.attention.output.dense, "self_attn.out_proj"),
                (block.intermediate.dense, "mlp.fc1"),
                (block.output.dense, "mlp.fc2"),
                (block.layernorm_before, "layer_norm1"),
                (block.layernorm_after, "layer_norm2"),
            ):
                ours.weight.copy_(own[f"{theirs}.weight"])
                ours.bias.copy_(own[f"{theirs}.bias"])


def train_dcg(lesson: Lesson) -> None:
    """Synthesise, train and save the model for stock ``transformers``; what is finished is not done again."""
    from equipoise.models.folders import open_checkpoint
    from equipoise.models.hf.revisers import DECODER, parts_of
    from equipoise.recipes.train_mini.saving import save_language_model

    if lesson.stop_at is not None:
        raise InputError("the dcg is trained in one go, and goes on by itself after it was killed; leave stop_at out")
    trained = fitted(lesson.folder, lesson.world, say=lesson.say)
    with quiet():
        processor, words, tongue, model = parts_of(open_checkpoint(trained))
        save_language_model(model.eval(), lesson.target, tokenizer=words)
        processor.save_pretrained(lesson.target)
        tongue.save_pretrained(lesson.target / DECODER)


def fitted(folder: Path, config: WorldConfig, *, say: Callable[[str], None]) -> Path:
    """The folder of the trained reviser: pairs, pictures, start and training, each done once."""
    pictures, start = folder / "pictures", folder / "start"
    if not is_finished(pictures):
        texts, images = world_captions(config, SCENES, SEED)
        synthesis = synthesise(texts, images, SYNTHESIS, filler=filler_named(SYNTHESIS.filler), say=say)
        say(", ".join(f"{n:,} {kind}" for kind, n in synthesis.counts["taken"].items()))
        write_whole(folder / "counts.json", json.dumps(synthesis.counts).encode())
        pair_table(pictures, config, SCENES, SEED, synthesis.pairs)
    if not (start / "config.json").is_file():
        start_folder(start)
    fit("dcg", pictures, folder / "run", init=f"hf:{start}", options={"share": 0.2}, readers=1, **TRAINING)
    return folder / "run"
