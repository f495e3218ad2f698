"""Attention of the source in the targets: on the tensors, for exactly the chosen steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from equipoise.errors import InputError, UnknownNameError
from equipoise.models.diffusers.attention import aligned, run_set, sampled_by, shared_steps, words_of

WORDS = "a an photo of male female tall asian black doctor nurse".split()
LENGTH = 12
SET = ["a photo of an asian male doctor", "a photo of a black female doctor", "a photo of a tall black male nurse"]


@pytest.fixture(scope="module")
def pipeline() -> Any:
    """A Stable Diffusion as diffusers ships it, tiny and random."""
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    from equipoise.recipes.train_mini.tokenizer import tokenizer

    torch.manual_seed(0)
    words = tokenizer(WORDS)
    words.model_max_length = LENGTH
    unet = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
        norm_num_groups=4,
    )
    with torch.no_grad():  # a random network hardly looks at its text
        for name, weight in unet.named_parameters():
            if "attn" in name and weight.ndim == 2:
                weight.mul_(3)
    vae = AutoencoderKL(
        block_out_channels=(8, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        norm_num_groups=4,
    )
    text = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(words),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=LENGTH,
            bos_token_id=words.bos_token_id,
            eos_token_id=words.eos_token_id,
            pad_token_id=words.pad_token_id,
        )
    )
    made = StableDiffusionPipeline(
        vae=vae.eval(),
        text_encoder=text.eval(),
        tokenizer=words,
        unet=unet.eval(),
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    made.set_progress_bar_config(disable=True)
    return made


def stock(pipeline: Any, prompts: list[str], seed: int, **call: Any) -> list[np.ndarray]:
    noise = [torch.Generator().manual_seed(seed) for _ in prompts]
    return [np.asarray(image) for image in pipeline(prompts, generator=noise, **call).images]


def arrays(images: list[Any]) -> list[np.ndarray]:
    return [np.asarray(image) for image in images]


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch, pipeline: Any) -> Iterator[list[tuple[int, str, torch.Tensor]]]:
    """Every attention map that is used in the U-Net: (step, kind, maps of the batch)."""
    seen: list[tuple[int, str, torch.Tensor]] = []
    step = [-1]
    plain, forward = functional.scaled_dot_product_attention, pipeline.unet.forward

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **other: Any) -> torch.Tensor:
        maps = (query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5).softmax(-1)
        seen.append((step[0], "cross" if key.shape[-2] == LENGTH else "self", maps))
        return plain(query, key, value, **other)

    def counted(*inputs: Any, **named: Any) -> Any:
        step[0] += 1
        monkeypatch.setattr(functional, "scaled_dot_product_attention", attention)
        try:
            return forward(*inputs, **named)
        finally:
            monkeypatch.setattr(functional, "scaled_dot_product_attention", plain)

    monkeypatch.setattr(pipeline.unet, "forward", counted)
    try:
        yield seen
    finally:
        monkeypatch.undo()


def steps_with_the_source_everywhere(seen: list[tuple[int, str, torch.Tensor]], kind: str, n: int) -> set[int]:
    """The steps in which every layer of a kind gives all prompts of each half the map of the first."""
    equal: dict[int, bool] = {}
    for step, found, maps in seen:
        if found == kind:
            runs = maps.view(-1, n, *maps.shape[1:])
            # Cross-attention shares in the conditional half alone, which may have come in a call of its own.
            same = bool((runs[-1:] == runs[-1:, :1]).all()) if kind == "cross" else bool((runs == runs[:, :1]).all())
            equal[step] = equal.get(step, True) and same
    return {step for step, same in equal.items() if same}


@pytest.mark.parametrize(
    ("share", "steps", "wanted"),
    [(0.5, 20, 10), *(pytest.param(n / 100, 100, n, marks=pytest.mark.slow) for n in (10, 50, 90))],
)
def test_anchor_counts_on_the_tensors(
    share: float, steps: int, wanted: int, pipeline: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(monkeypatch, pipeline) as seen:
        run_set(pipeline, SET[:2], seed=1, share=share, inject="self", steps=steps, output_type="latent")
    assert steps_with_the_source_everywhere(seen, "self", 2) == set(range(wanted))
    assert steps_with_the_source_everywhere(seen, "cross", 2) == set()
    assert shared_steps(share, steps) == wanted


def test_both_halves_share_self_attention_and_each_target_keeps_its_values(
    pipeline: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(monkeypatch, pipeline) as seen:
        run_set(pipeline, SET, seed=1, share=0.5, steps=4)
    assert all(len(maps) == 2 * len(SET) for _, kind, maps in seen if kind == "self")
    assert steps_with_the_source_everywhere(seen, "self", len(SET)) == {0, 1}
    images = arrays(run_set(pipeline, SET, seed=1, share=0.5, steps=4))
    assert not np.array_equal(images[0], images[1])


def test_cross_shares_in_the_conditional_half_alone(pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    swaps = ["a photo of an asian male doctor", "a photo of a black female nurse"]
    with watched(monkeypatch, pipeline) as seen:
        run_set(pipeline, swaps, seed=1, share=0.5, inject="cross", steps=5)
    n = len(swaps)
    lent = {step for step, kind, maps in seen if kind == "cross" and len(maps) == n and (maps == maps[:1]).all()}
    assert lent == {0, 1} == set(range(shared_steps(0.5, 5)))
    assert steps_with_the_source_everywhere(seen, "self", n) == set()


def test_both_shares_both(pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch, pipeline) as seen:
        run_set(pipeline, SET[:2], seed=1, share=0.5, inject="both", steps=5)
    assert steps_with_the_source_everywhere(seen, "self", 2) == {0, 1}
    lent = {step for step, kind, maps in seen if kind == "cross" and len(maps) == 2 and (maps == maps[:1]).all()}
    assert lent == {0, 1}


def test_cross_equals_maps_written_out(pipeline: Any) -> None:
    """Prompt-to-Prompt with the maps in full: map of the source times the alignment, own maps for new words."""
    from equipoise.models.diffusers.attention import _Control, _Processor

    attn = next(m for name, m in pipeline.unet.named_modules() if name.endswith("attn2"))
    torch.manual_seed(3)
    n, hidden = len(SET), torch.randn(2 * len(SET), 16, attn.to_q.in_features)
    text = torch.randn(2 * n, LENGTH, 16)
    control = _Control(pipeline, SET, 1.0, "cross", False)
    pipeline._num_timesteps = 10
    with torch.no_grad():
        made = _Processor(control, None, "cross")(attn, hidden, text)
        q, k, v = (
            part.view(2 * n, -1, attn.heads, part.shape[-1] // attn.heads).transpose(1, 2)
            for part in (attn.to_q(hidden), attn.to_k(text), attn.to_v(text))
        )
        maps = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1)
        words = [words_of(pipeline.tokenizer, prompt) for prompt in SET]
        for j in range(n):
            found = aligned(words[0], words[j], LENGTH)
            own = torch.from_numpy(found.own.astype(np.float32))
            maps[n + j] = maps[n] @ torch.from_numpy(found.weights) * (1 - own) + maps[n + j] * own
            if j == 0:
                source = maps[n].clone()
            maps[n] = source
        wanted = attn.to_out[0]((maps @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(
        made,
        _Processor(_Control(pipeline, SET, 0.0, "cross", False), attn.processor, "cross")(attn, hidden, text),
        atol=1e-3,
    )


@pytest.mark.parametrize("inject", ["self", "cross", "both"])
def test_nothing_shared_is_the_stock_call(pipeline: Any, inject: str) -> None:
    before = pipeline.unet.attn_processors
    made = run_set(pipeline, SET, seed=7, share=0, inject=inject, guidance=7.5, steps=3)
    for mine, theirs in zip(
        arrays(made), stock(pipeline, SET, 7, guidance_scale=7.5, num_inference_steps=3), strict=True
    ):
        assert np.array_equal(mine, theirs)
    assert pipeline.unet.attn_processors == before


def test_stock_processors_do_the_work_where_nothing_is_shared(pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("a processor of ours ran")

    monkeypatch.setattr("equipoise.models.diffusers.attention._Processor.__call__", refused)
    run_set(pipeline, SET, seed=7, share=0, steps=2)
    with pytest.raises(AssertionError, match="ours"):
        run_set(pipeline, SET, seed=7, share=0.5, steps=2)


@pytest.mark.parametrize("inject", ["self", "cross", "both"])
def test_the_source_is_what_the_stock_call_gives(pipeline: Any, inject: str) -> None:
    """Lending costs the source nothing, and the stock processors are back afterwards."""
    before = pipeline.unet.attn_processors
    plain = stock(pipeline, SET, 7, num_inference_steps=4)
    made = arrays(run_set(pipeline, SET, seed=7, share=0.9, inject=inject, steps=4))
    assert np.array_equal(made[0], plain[0])
    assert not np.array_equal(made[1], plain[1])
    assert pipeline.unet.attn_processors == before


def test_processors_come_back_after_an_error(pipeline: Any) -> None:
    before = pipeline.unet.attn_processors
    with pytest.raises(ValueError, match="divisible by 8"):
        run_set(pipeline, SET, seed=7, share=0.9, steps=4, height=13, width=13)
    assert pipeline.unet.attn_processors == before


TWELVE = [
    f"a photo of a {height} {race} {gender} doctor"
    for height in ("tall", "tall tall", "")
    for race in ("black", "asian")
    for gender in ("male", "female")
]


def agreeing(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    """The share of pixel values that differ by 1/255 at most."""
    off = np.abs(np.stack(one).astype(int) - np.stack(other).astype(int))
    return float((off <= 1).mean())


@pytest.mark.parametrize(
    ("share", "inject", "size"),
    [
        pytest.param(0.5, "both", 2, marks=pytest.mark.slow),
        (0.5, "both", 12),
        (0.0, "self", 5),
        *(pytest.param(0.0, "self", size, marks=pytest.mark.slow) for size in (2, 12)),
        *(pytest.param(0.5, "self", size, marks=pytest.mark.slow) for size in (2, 5, 12)),
        pytest.param(0.5, "both", 5, marks=pytest.mark.slow),
    ],
)
def test_batches_agree(pipeline: Any, share: float, inject: str, size: int) -> None:
    """A set of twelve that is split, its source repeated, gives the same pictures to 1/255."""
    from equipoise.generate.sets import batches_of

    how = {"seed": 7, "share": share, "inject": inject, "steps": 4}
    whole = arrays(run_set(pipeline, TWELVE, **how))
    parts = [arrays(run_set(pipeline, batch, **how)) for batch in batches_of(TWELVE, size)]
    split = [parts[0][0], *(image for part in parts for image in part[1:])]
    assert agreeing(whole, split) >= 0.999
    if share:  # what must not agree: batches whose first prompt is another
        alone = arrays(run_set(pipeline, TWELVE[6:8], **how))
        assert agreeing(whole[7:8], alone[1:]) < 0.999


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Euler's, of diffusers
@pytest.mark.parametrize("sampler", ["euler-ancestral", "ddim"])
def test_samplers_share_the_noise_of_every_step(pipeline: Any, sampler: str) -> None:
    own = pipeline.scheduler
    twice = arrays(run_set(pipeline, [SET[0]] * 2, seed=3, share=0.5, sampler=sampler, steps=3))
    assert np.array_equal(*twice)
    assert pipeline.scheduler is own
    other = arrays(run_set(pipeline, [SET[0]] * 2, seed=4, share=0.5, sampler=sampler, steps=3))
    assert not np.array_equal(twice[0], other[0])


def test_blend_keeps_the_source_where_nothing_differs(pipeline: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("equipoise.models.diffusers.attention.BLEND_ABOVE", 0.97)  # a random network looks everywhere
    made = run_set(pipeline, [SET[0], SET[0], SET[1]], seed=3, share=0.5, steps=5, blend=True, output_type="latent")
    source, same, target = made
    assert torch.equal(source, same)
    kept = (source == target).all(0).float().mean()
    assert 0 < kept < 1, "some of the picture is the source's, and not all"


def test_the_mask_is_where_the_source_or_the_target_looks() -> None:
    """By the source: the top left corner of 4 x 4; by the target: the bottom right; even maps say nothing."""
    from equipoise.models.diffusers.attention import _Blend

    blend = _Blend()
    maps = torch.zeros(2, 2, 16)
    maps[0, 1, 0], maps[1, 1, 15] = 0.5, 0.2
    blend._seen = {16: maps, 64: torch.ones(2, 2, 64)}
    mask = blend.mask(8, 8)[:, 0]
    assert not mask[0].any(), "the source differs from itself nowhere"
    assert mask[1, :2, :2].all()
    assert mask[1, -2:, -2:].all()
    assert not mask[1, :3, -3:].any()


def test_the_change_is_what_attention_gives_and_not_where_it_looks() -> None:
    """Two pixels, two tokens: the first looks at a word that is the same, the second at one that differs."""
    from equipoise.models.diffusers.attention import _Blend

    query = torch.tensor([[9.0, 0.0], [0.0, 9.0]]).view(1, 1, 2, 2).expand(2, 1, 2, 2)
    key = 9 * torch.eye(2).view(1, 1, 2, 2).expand(2, 1, 2, 2)
    value = torch.zeros(2, 1, 2, 2)
    value[1, 0, 1] = torch.tensor([3.0, 4.0])
    blend = _Blend()
    blend.note(query, key, value)
    torch.testing.assert_close(blend._seen[2], torch.tensor([[[0.0, 0.0], [0.0, 5.0]]] * 2))


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_euler_ancestral_step_of_the_papers_sampler(pipeline: Any) -> None:
    """From sigma 10 to 8: down to 6.4, and 4.8 of new noise."""
    with sampled_by(pipeline, "euler-ancestral"):
        sampler = pipeline.scheduler
        sampler.set_timesteps(2)
        sampler.sigmas = torch.tensor([10.0, 8.0, 0.0])
        zero, one = torch.zeros(1, 4), torch.ones(1, 4)
        sampler.is_scale_input_called = True
        noise = torch.Generator().manual_seed(5)
        made = sampler.step(one, sampler.timesteps[0], zero, generator=noise).prev_sample
    drawn = torch.randn(1, 4, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(made, (6.4 - 10) + 4.8 * drawn)


def test_refusals(pipeline: Any) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'self'"):
        run_set(pipeline, SET, seed=0, share=0.5, inject="sel")
    with pytest.raises(UnknownNameError, match="sampler"):
        run_set(pipeline, SET, seed=0, share=0.5, sampler="dpm")
    with pytest.raises(InputError, match=r"share=1\.5"):
        run_set(pipeline, SET, seed=0, share=1.5)
    with pytest.raises(InputError, match="prompts"):
        run_set(pipeline, [" "], seed=0, share=0.5)
    with pytest.raises(InputError, match="no U-Net"):
        run_set(object(), SET, seed=0, share=0.5)


word = st.sampled_from("the a man woman old doctor".split()).flatmap(lambda w: st.just((w, 2 if w == "doctor" else 1)))


@given(st.lists(word, max_size=6), st.lists(word, max_size=6))
def test_alignment_properties(source: list[tuple[str, int]], target: list[tuple[str, int]]) -> None:
    length = 10
    found = aligned(source, target, length)
    assert (found.weights >= 0).all()
    assert (found.weights.sum(axis=1) <= 1 + 1e-6).all(), "no map is lent twice"
    assert (found.own == (found.weights.sum(axis=0) == 0)).all()
    same = aligned(source, source, length)
    assert np.array_equal(same.weights, np.eye(length))
    assert not same.own.any()


def test_words_and_their_tokens(pipeline: Any) -> None:
    assert words_of(pipeline.tokenizer, "a tall xyz doctor") == [("a", 1), ("tall", 1), ("xyz", 3), ("doctor", 1)]
