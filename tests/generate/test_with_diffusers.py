"""Sets from a real pipeline folder, through the adapter and the engine."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.engine import JobError
from equipoise.generate import SetsConfig, plan_sets, run
from equipoise.text.templates import Axis, caption_sets

QUIET = {"progress": False}
WORDS = "a photo of male female tall short doctor nurse".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Stable-Diffusion-shaped checkpoint, tiny and random, in the real files."""
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    from equipoise.recipes.train_mini.tokenizer import tokenizer

    torch.set_num_threads(1)
    torch.manual_seed(0)
    words = tokenizer(WORDS)
    words.model_max_length = 12
    blocks = {"block_out_channels": (8, 16), "norm_num_groups": 4}
    text = CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=12,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )
    made = StableDiffusionPipeline(
        vae=AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, **blocks
        ),
        text_encoder=CLIPTextModel(text),
        tokenizer=words,
        unet=UNet2DConditionModel(
            sample_size=8,
            layers_per_block=1,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=16,
            attention_head_dim=4,
            **blocks,
        ),
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    made.save_pretrained(tmp_path_factory.mktemp("sd") / "tiny")
    return tmp_path_factory.getbasetemp() / "sd0" / "tiny"


class Interrupted:
    """The generator, which goes away at its n-th set."""

    def __init__(self, inner: Any, after: int | None = None) -> None:
        self.name, self.key, self.can, self.size = inner.name, inner.key, inner.can, inner.size
        self._inner, self._left = inner, after

    def generate_set(self, prompts: Any, **how: Any) -> list[Any]:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise SystemExit(3)
        return list(self._inner.generate_set(prompts, **how))


def sets() -> list[Any]:
    axes = [Axis.of("height", ["tall", "short"]), Axis.of("gender", ["male", "female"])]
    return list(caption_sets(["doctor", "nurse"], axes, prefixes=["a photo of"]))


def files_of(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*") if p.is_file()
    }


@pytest.mark.slow
def test_interrupted_sets_of_a_pipeline_end_with_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    from equipoise.models.diffusers.generator import open_pipeline

    model = open_pipeline(folder, name="diffusers:tiny", device="cpu")
    config = SetsConfig(candidates=2, inject="both", steps=3, batch_size=3, guidance=(3, 5))
    plan = plan_sets(sets(), config)
    whole = run(plan, tmp_path / "whole", Interrupted(model), tasks_per_shard=1, **QUIET)
    with pytest.raises(JobError, match="asked to exit"):
        run(plan, tmp_path / "broken", Interrupted(model, after=3), tasks_per_shard=1, **QUIET)
    assert not (tmp_path / "broken" / "_table.json").exists()
    again = run(plan, tmp_path / "broken", Interrupted(model), tasks_per_shard=1, **QUIET)
    assert len(again) == len(whole) == 16
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")
    first = next(plan.tasks())
    prompts = [text for text, _ in first["captions"]][:3]
    direct = model.generate_set(
        prompts, seed=first["seed"], share=first["share"], guidance=first["guidance"], steps=3, inject="both"
    )
    for (_, stored), made in zip(whole.images(), direct, strict=False):
        assert np.array_equal(np.asarray(stored), np.asarray(made)), "a table holds what the generator gave"


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Euler's, of diffusers
def test_the_sampler_and_the_blend_reach_the_pipeline(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from equipoise.models.diffusers.generator import open_pipeline

    monkeypatch.setattr("equipoise.models.diffusers.attention.BLEND_ABOVE", 0.97)  # a random network looks everywhere
    model = open_pipeline(folder, name="diffusers:tiny", device="cpu")
    made = {}
    for name, config in (
        ("plain", SetsConfig(candidates=1, steps=4, share=(0, 0))),
        ("self", SetsConfig(candidates=1, steps=4, share=(0.5, 0.5))),
        ("euler", SetsConfig(candidates=1, steps=4, share=(0, 0), sampler="euler-ancestral")),
        ("blend", SetsConfig(candidates=1, steps=4, share=(0, 0), blend=True)),
    ):
        table = run(plan_sets(sets()[:1], config), tmp_path / name, model, **QUIET)
        made[name] = [np.asarray(image).astype(int) for _, image in table.images()]
    assert np.array_equal(made["plain"][0], made["self"][0]), "the source lends and loses nothing"
    assert not np.array_equal(made["plain"][3], made["self"][3])
    for other in ("euler", "blend"):
        assert not np.array_equal(made["plain"][3], made[other][3]), other
