"""What generators of one edition take over from the edition before, whose grid is half as fine.

A UNet for the finer grid has one level more, outside; the levels of the coarser one become its inner levels. What an
inpainter, an editor or a biased generator learnt beyond the ``diffusion`` that it came from is the difference between
their weights; added to the new ``diffusion``, it is a start from which far less is left to learn.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from equipoise.errors import InputError
from equipoise.recipes.train_mini.editions import Edition

__all__ = ["finer_name", "refined", "with_difference"]

Opened = tuple[Any, Any, Any]
"""UNet, text encoder and tokenizer of a pipeline."""


def finer_name(name: str) -> str | None:
    """What a weight of a UNet is called where there is one level more outside it; none for its outermost layers.

    >>> finer_name("down_blocks.0.resnets.0.conv1.weight"), finer_name("conv_in.weight")
    ('down_blocks.1.resnets.0.conv1.weight', None)
    """
    block, _, rest = name.partition(".")
    if block.startswith("conv_"):
        return None
    if block != "down_blocks":
        return name
    number, _, inner = rest.partition(".")
    return f"down_blocks.{int(number) + 1}.{inner}"


def refined(coarse: Any, fine: Any, plan: Edition) -> Any:
    """An untrained UNet ``fine`` of ``plan`` with the levels of ``coarse``, which draws on a grid half as fine."""
    if tuple(coarse.config.block_out_channels) != tuple(plan.unet_blocks[1:]):
        raise InputError(
            f"levels of {tuple(coarse.config.block_out_channels)} channels do not fit inside {plan.unet_blocks}; "
            "start from a generator of the edition before"
        )
    there, weights = fine.state_dict(), {}
    for name, value in coarse.state_dict().items():
        place = finer_name(name)
        if place is not None and there[place].shape == value.shape:
            weights[place] = value
    fine.load_state_dict(there | weights)
    return fine


def with_difference(start: Opened, before: Path, part: str, opened: Callable[[Path], Opened]) -> tuple[Any, Any]:
    """UNet and text encoder of ``start``, plus what ``part`` had learnt beyond ``diffusion`` in the folder ``before``.

    ``opened`` opens a pipeline's folder. Words that ``start`` knows and the ``diffusion`` of before did not keep the
    vectors that the part of before had for them, or else their own.
    """
    unet, text, words = start
    learnt_unet, learnt_text, learnt_words = opened(before / part)
    base_unet, base_text, base_words = opened(before / "diffusion")
    finer = unet.config.sample_size != base_unet.config.sample_size
    weights, base = unet.state_dict(), base_unet.state_dict()
    for name, value in learnt_unet.state_dict().items():
        place = finer_name(name) if finer else name
        if place in weights and base[name].shape == value.shape == weights[place].shape:
            weights[place] = weights[place] + (value - base[name])
    unet.load_state_dict(weights)
    text.load_state_dict(_plus(text.state_dict(), learnt_text.state_dict(), base_text.state_dict()))
    _add_words(text, words, (learnt_text, learnt_words), (base_text, base_words))
    return unet, text


def _plus(weights: dict[str, Any], learnt: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """The weights, plus the difference wherever it is one of weights and not of words."""
    return {
        name: value + (learnt[name] - base[name])
        if name in learnt and "token_embedding" not in name and value.is_floating_point()
        else value
        for name, value in weights.items()
    }


def _add_words(text: Any, words: Any, learnt: tuple[Any, Any], base: tuple[Any, Any]) -> None:
    table = text.get_input_embeddings().weight.data
    learnt_table, base_table = (encoder.get_input_embeddings().weight.data for encoder, _ in (learnt, base))
    learnt_known, base_known = (tokens.get_vocab() for _, tokens in (learnt, base))
    for token, place in words.get_vocab().items():
        if token in learnt_known and token in base_known:
            table[place] += learnt_table[learnt_known[token]] - base_table[base_known[token]]
        elif token in learnt_known:
            table[place] = learnt_table[learnt_known[token]]
