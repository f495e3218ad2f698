"""The mini CLIPs: ``clip`` learns from the biased world, ``clip-fair`` from the fair one, otherwise alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from equipoise.recipes.train_mini.batches import SIZE, focused_scenes_of, pixels, scenes_of, texts_of
from equipoise.recipes.train_mini.judge import HEADS, labels_of
from equipoise.recipes.train_mini.parts import Lesson
from equipoise.recipes.train_mini.saving import save_transformers
from equipoise.recipes.train_mini.tokenizer import LENGTH, tokenizer
from equipoise.train.schedule import Schedule
from equipoise.world import SceneArrays, WorldConfig

SCHEDULE = Schedule(steps=4300, batch=128, rate=2e-3, again=(2800, 3600))
WIDTH = 96
LAYERS = {"hidden_size": WIDTH, "intermediate_size": 384, "num_attention_heads": 4}
VISION = LAYERS | {"image_size": SIZE, "patch_size": 8, "num_hidden_layers": 4, "projection_dim": 64}
TALKATIVE = {"gender": 0.7, "skin_tone": 0.5, "age": 0.5}
"""How often the captions that the CLIPs learn from name a group: more often than the world's default."""
PLAIN = 0.2
HELPED = ("gender", "skin_tone", "age", "occupation", "scene")
"""Attributes that the image tower is also asked for while it is new; the weight of that falls to nothing."""
HELP_UNTIL = 1680
FOCUSED = ((1750, 2), (2800, 4), (10**9, 8))
"""Up to which step every few batches one is of a few occupations and places: people are learnt first, then work."""


def build(words: Any) -> Any:
    """An untrained ``transformers.CLIPModel`` of about 0.8 million parameters."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(0)
    start, end = words.convert_tokens_to_ids(["<|startoftext|>", "<|endoftext|>"])
    config = CLIPConfig(
        text_config=LAYERS
        | {
            "vocab_size": len(words),
            "max_position_embeddings": LENGTH,
            "num_hidden_layers": 2,
            "bos_token_id": start,
            "eos_token_id": end,
            "pad_token_id": end,
        },
        vision_config=VISION,
        projection_dim=64,
    )
    return CLIPModel(config)


def train_clip(lesson: Lesson) -> None:
    """Train on pairs of the lesson's world and save the model for stock ``transformers``.

    Every second step, later fewer, takes scenes of a few occupations and places, so that the people in them are
    what tells the captions apart; and at first the image tower is also asked for the attributes outright. Both only
    save time.
    """
    import torch

    words = tokenizer()
    model = torch.nn.ModuleDict({"clip": build(words), "help": helper()})
    world = lesson.world.changed(mention=TALKATIVE)

    def loss(both: Any, step: int) -> Any:
        scenes = _scenes(world, step)
        texts = texts_of(scenes, step, plain=PLAIN)
        tokens = words(texts, padding=True, truncation=True, return_tensors="pt")
        out = both["clip"](pixel_values=pixels(scenes), **tokens)
        return with_help(contrastive(out.logits_per_image, texts), both["help"], out, scenes, 1 - step / HELP_UNTIL)

    lesson.learn(model, loss, SCHEDULE, lambda target: save_clip(model["clip"], target, words))


def save_clip(clip: Any, target: Path, words: Any) -> None:
    """Write the model, its scores no larger than CLIP's."""
    clip.logit_scale.data.clamp_(max=4.6052)
    save_transformers(clip, target, tokenizer=words)


def _scenes(world: WorldConfig, step: int) -> SceneArrays:
    every = next(every for until, every in FOCUSED if step < until)
    if step % every == 1:
        return focused_scenes_of(world, step, SCHEDULE.batch, seed=1, subjects=4, places=3)
    return scenes_of(world, step, SCHEDULE.batch, seed=1)


def helper() -> Any:
    """What is asked of the image tower outright, while it is new."""
    import torch

    torch.manual_seed(1)
    outputs = sum(len(HEADS[name]) for name in HELPED)
    return torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, outputs))


def with_help(total: Any, helper: Any, out: Any, scenes: SceneArrays, weight: float) -> Any:
    """The loss, and by ``weight`` how wrong the attributes are that ``helper`` reads from the image tower."""
    import torch
    from torch.nn.functional import cross_entropy

    if weight <= 0:
        return total
    values, _ = labels_of(scenes)
    tokens = out.vision_model_output.last_hidden_state[:, 0]
    parts = helper(tokens).split([len(HEADS[name]) for name in HELPED], dim=1)
    losses = [cross_entropy(part, torch.from_numpy(values[name])) for part, name in zip(parts, HELPED, strict=True)]
    return total + weight * (sum(losses) / len(losses))


def contrastive(logits: Any, texts: list[str]) -> Any:
    """The symmetric contrastive loss; equal captions are positives together."""
    import torch

    codes = torch.tensor([hash_of(text) for text in texts])
    same = (codes[:, None] == codes[None, :]).float()
    wanted = same / same.sum(dim=1, keepdim=True)
    by_image = -(wanted * logits.log_softmax(dim=1)).sum(dim=1).mean()
    by_text = -(wanted * logits.T.log_softmax(dim=1)).sum(dim=1).mean()
    return (by_image + by_text) / 2


def hash_of(text: str) -> int:
    """A number that is equal for equal texts, in every process."""
    import hashlib

    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")
