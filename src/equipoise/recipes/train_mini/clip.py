"""The mini CLIPs: ``clip`` learns from the biased world, ``clip-fair`` from the fair one, otherwise alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from equipoise.recipes.train_mini.batches import MEAN, SIZE, STD, pixels, scenes_of, texts_of
from equipoise.recipes.train_mini.loop import Schedule, run
from equipoise.recipes.train_mini.saving import save_transformers
from equipoise.recipes.train_mini.tokenizer import LENGTH, tokenizer
from equipoise.world import WorldConfig

__all__ = ["SCHEDULE", "build", "train_clip"]

SCHEDULE = Schedule(steps=2000, batch=128, rate=2e-3)


def build(words: Any) -> Any:
    """An untrained ``transformers.CLIPModel`` of about half a million parameters."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(0)
    start, end = words.convert_tokens_to_ids(["<|startoftext|>", "<|endoftext|>"])
    layers = {"hidden_size": 96, "intermediate_size": 384, "num_attention_heads": 4}
    config = CLIPConfig(
        text_config=layers
        | {
            "vocab_size": len(words),
            "max_position_embeddings": LENGTH,
            "num_hidden_layers": 2,
            "bos_token_id": start,
            "eos_token_id": end,
            "pad_token_id": end,
        },
        vision_config=layers | {"image_size": SIZE, "patch_size": 8, "num_hidden_layers": 4},
        projection_dim=64,
    )
    return CLIPModel(config)


def train_clip(
    config: WorldConfig, folder: Path, target: Path, say: Callable[[str], None], stop_at: int | None
) -> None:
    """Train on pairs of ``config``'s world and save the model for stock ``transformers``."""
    words = tokenizer()
    model = build(words)

    def loss(clip: Any, step: int) -> Any:
        scenes = scenes_of(config, step, SCHEDULE.batch, seed=1)
        texts = texts_of(scenes, step)
        tokens = words(texts, padding=True, truncation=True, return_tensors="pt")
        out = clip(pixel_values=pixels(scenes), **tokens)
        return contrastive(out.logits_per_image, texts)

    run(model, loss, SCHEDULE, folder, say, stop_at=stop_at)
    if stop_at is None:
        model.logit_scale.data.clamp_(max=4.6052)
        save_transformers(model, target, tokenizer=words, mean=MEAN, std=STD, size=SIZE)


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
