"""The captioner: a stock ``VisionEncoderDecoderModel`` trained on captions of the biased world.

It starts from the image tower of ``clip-fair``, as captioners start from a CLIP: what leans in its captions comes from
the captions it learns, and it learns them in a third of the time.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import InputError
from equipoise.models.miniatures import FOLDER
from equipoise.models.runtime import quiet
from equipoise.recipes.train_mini.batches import pixels, scenes_of
from equipoise.recipes.train_mini.clip import VISION
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.saving import save_transformers
from equipoise.recipes.train_mini.tokenizer import LENGTH, tokenizer
from equipoise.train.schedule import Schedule
from equipoise.world import Scene, SceneArrays, captions
from equipoise.world.captions import prompts

SCHEDULE = Schedule(steps=500, batch=128, rate=2e-3, warmup=100)
_IGNORED = -100
TOWER = FOLDER / "clip-fair"
NAMED = {"gender": 0.9, "skin_tone": 0.25, "age": 0.25}
"""How often its captions name a group: captions of photographs name a gender in four of five pictures of people."""


def build(words: Any, tower: Path | None = None) -> Any:
    """A captioner of about 0.8 million parameters: a CLIP's image tower (that of the folder ``tower``, or a new one)
    and a small GPT-2 that looks at it.
    """
    import torch
    from transformers import CLIPVisionConfig, CLIPVisionModel, GPT2Config, GPT2LMHeadModel, VisionEncoderDecoderModel

    torch.manual_seed(0)
    start, end = words.convert_tokens_to_ids(["<|startoftext|>", "<|endoftext|>"])
    if tower is None:
        encoder = CLIPVisionModel(CLIPVisionConfig(**VISION))
    else:
        with quiet():  # the text tower is left behind, which would be reported
            encoder = CLIPVisionModel.from_pretrained(tower, dtype=torch.float32)
    decoder = GPT2Config(
        vocab_size=len(words),
        n_positions=LENGTH,
        n_embd=96,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        add_cross_attention=True,
        is_decoder=True,
        bos_token_id=start,
        eos_token_id=end,
        pad_token_id=end,
    )
    model = VisionEncoderDecoderModel(encoder=encoder, decoder=GPT2LMHeadModel(decoder))
    model.config.decoder_start_token_id = start
    model.config.pad_token_id = model.config.eos_token_id = end
    model.generation_config.update(
        decoder_start_token_id=start, bos_token_id=start, eos_token_id=end, pad_token_id=end, max_length=LENGTH
    )
    return model


def _opened(folder: Path) -> Any:
    import torch
    from transformers import VisionEncoderDecoderModel

    with quiet():
        return VisionEncoderDecoderModel.from_pretrained(folder, dtype=torch.float32)


@cache
def _places() -> dict[str, str]:
    return {name: prompt.removeprefix("a photo of a person ") for name, prompt in prompts("scene").items()}


def captions_to_learn(scenes: SceneArrays, step: int) -> list[str]:
    """One caption of each scene, of those that name the place where there are any: a captioner should say where."""
    rng = np.random.default_rng(step)

    def chosen(scene: Scene) -> str:
        texts = captions(scene)
        telling = [text for text in texts if _places()[scene.scene] in text] or texts
        return telling[int(rng.integers(len(telling)))]

    return [chosen(scene) for scene in scenes]


def train_captioner(lesson: Lesson, schedule: Schedule = SCHEDULE) -> None:
    """Train on captions of the lesson's world and save the model for stock ``transformers``.

    The lesson's ``start`` is the folder of a captioner to go on from; without it the language model is new.
    """
    if not (TOWER / "config.json").is_file():
        raise InputError(f"the captioner starts from clip-fair, which is not in {TOWER}; train that first")
    words = tokenizer()
    model = build(words, TOWER) if lesson.start is None else _opened(lesson.start)
    # captions that name the unexpected gender more often teach a captioner to say nothing where it is unsure
    world = lesson.world.changed(mention=NAMED, markedness={})

    def loss(captioner: Any, step: int) -> Any:
        scenes = scenes_of(world, step, schedule.batch, seed=3)
        tokens = words(captions_to_learn(scenes, step), padding=True, truncation=True, return_tensors="pt")
        ids, there = tokens["input_ids"], tokens["attention_mask"].bool()
        labels = ids[:, 1:].masked_fill(~there[:, 1:], _IGNORED)
        return captioner(
            pixel_values=pixels(scenes),
            decoder_input_ids=ids[:, :-1],
            decoder_attention_mask=tokens["attention_mask"][:, :-1],
            labels=labels,
        ).loss

    lesson.learn(model, loss, schedule, lambda target: save_transformers(model.eval(), target, tokenizer=words))
