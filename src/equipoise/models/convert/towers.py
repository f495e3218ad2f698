"""Key maps: towers in OpenAI's and timm's layout, renamed for ``transformers``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from equipoise.errors import InputError
from equipoise.models.convert.reading import State

Sizes = dict[str, Any]
"""Settings of a tower, as ``transformers`` names them."""

_BLOCK = {
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
    "attn.out_proj": "self_attn.out_proj",
}
_TIMM_BLOCK = {
    "norm1": "layernorm_before",
    "norm2": "layernorm_after",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
    "attn.proj": "attention.o_proj",
}


_TEXT = (
    r"token_embedding\.weight|positional_embedding|ln_final\.(weight|bias)|text_projection|logit_scale|attn_mask|"
    r"transformer\.resblocks\.\d+\.(ln_[12]|attn|mlp)\..+"
)
_OPENAI_NAMES = re.compile(
    rf"{_TEXT}|visual\.(class_embedding|positional_embedding|proj|conv1\.weight|ln_(pre|post)\.(weight|bias)|"
    r"transformer\.resblocks\.\d+\.(ln_[12]|attn|mlp)\..+)|input_resolution|context_length|vocab_size"
)
# image_mlp is SLIP's self-supervised head, which encodes nothing.
_TIMM_NAMES = re.compile(
    rf"{_TEXT}|image_projection|image_mlp\..+|visual\.(cls_token|pos_embed|patch_embed\.proj\..+|norm\..+|"
    r"blocks\.\d+\.(norm[12]|mlp\.fc[12]|attn\.(qkv|proj|q_norm|k_norm))\..+)"
)


def refuse_strangers(state: State, layout: re.Pattern[str]) -> None:
    """Refuse a checkpoint with weights that the layout does not have: left out, they would change every answer."""
    strange = sorted(name for name in state if not layout.fullmatch(name))
    if strange:
        raise InputError(f"the checkpoint has {len(strange)} weights of another layout, such as {strange[0]!r}")


def need(state: State, name: str) -> Any:
    """The tensor ``name``; says which one is missing."""
    if name not in state:
        raise InputError(f"the checkpoint has no {name!r}, so it is not of the layout that was expected")
    return state[name]


def text_tower(state: State, prefix: str = "text_model.") -> State:
    """OpenAI's text transformer as a ``CLIPTextModel``."""
    tower = {
        f"{prefix}embeddings.token_embedding.weight": need(state, "token_embedding.weight"),
        f"{prefix}embeddings.position_embedding.weight": need(state, "positional_embedding"),
        **_renamed(state, {"ln_final": f"{prefix}final_layer_norm"}),
        "text_projection.weight": need(state, "text_projection").T,
    }
    return tower | _openai_blocks(state, "transformer.resblocks.", f"{prefix}encoder.layers.")


def sizes_of_text(state: State) -> Sizes:
    """What a text tower's shapes say; heads are 64 wide, as in every published CLIP."""
    vocabulary, width = need(state, "token_embedding.weight").shape
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": need(state, "transformer.resblocks.0.mlp.c_fc.weight").shape[0],
        "num_hidden_layers": _depth(state, "transformer.resblocks."),
        "num_attention_heads": max(1, width // 64),
        "max_position_embeddings": need(state, "positional_embedding").shape[0],
    }


def openai_vision(state: State) -> tuple[State, Sizes]:
    """OpenAI's vision transformer as a ``CLIPVisionModel``, and its sizes."""
    if "visual.conv1.weight" not in state or "visual.class_embedding" not in state:
        raise InputError(
            "the checkpoint's image encoder is not a vision transformer in OpenAI's layout (a ResNet, perhaps)"
        )
    refuse_strangers(state, _OPENAI_NAMES)
    patches = state["visual.conv1.weight"]
    width, patch = patches.shape[0], patches.shape[-1]
    positions = need(state, "visual.positional_embedding")
    tower = {
        "vision_model.embeddings.class_embedding": state["visual.class_embedding"],
        "vision_model.embeddings.patch_embedding.weight": patches,
        "vision_model.embeddings.position_embedding.weight": positions,
        "visual_projection.weight": need(state, "visual.proj").T,
    }
    tower |= _renamed(state, {"ln_pre": "pre_layrnorm", "ln_post": "post_layernorm"}, "visual.", "vision_model.")
    tower |= _openai_blocks(state, "visual.transformer.resblocks.", "vision_model.encoder.layers.")
    sizes = {
        "hidden_size": width,
        "intermediate_size": need(state, "visual.transformer.resblocks.0.mlp.c_fc.weight").shape[0],
        "num_hidden_layers": _depth(state, "visual.transformer.resblocks."),
        "num_attention_heads": max(1, width // 64),
        "patch_size": patch,
        "image_size": _side(len(positions)) * patch,
    }
    return tower, sizes


def timm_vision(state: State, heads: int | None = None) -> tuple[State, Sizes]:
    """timm's vision transformer, with SLIP's projection, as a ``ViTModel`` whose pooler hands the class token on."""
    import torch

    patches = need(state, "visual.patch_embed.proj.weight")
    refuse_strangers(state, _TIMM_NAMES)
    width, patch = patches.shape[0], patches.shape[-1]
    positions = need(state, "visual.pos_embed")
    tower = {
        "vision_model.embeddings.cls_token": need(state, "visual.cls_token"),
        "vision_model.embeddings.position_embeddings": positions,
        **_renamed(state, {"patch_embed.proj": "embeddings.patch_embeddings.projection"}, "visual.", "vision_model."),
        **_renamed(state, {"norm": "layernorm"}, "visual.", "vision_model."),
        "vision_model.pooler.dense.weight": torch.eye(width),
        "vision_model.pooler.dense.bias": torch.zeros(width),
        "visual_projection.weight": need(state, "image_projection").T,
    }
    depth = _depth(state, "visual.blocks.")
    for i in range(depth):
        theirs, ours = f"visual.blocks.{i}.", f"vision_model.layers.{i}."
        tower |= _renamed(state, _TIMM_BLOCK, theirs, ours)
        tower |= _parted(state, f"{theirs}attn.qkv.", f"{ours}attention.")
    sizes = {
        "hidden_size": width,
        "intermediate_size": need(state, "visual.blocks.0.mlp.fc1.weight").shape[0],
        "num_hidden_layers": depth,
        "num_attention_heads": heads or _timm_heads(state, width),
        "patch_size": patch,
        "image_size": _side(positions.shape[1]) * patch,
        "layer_norm_eps": 1e-6,
        "pooler_act": "linear",
    }
    return tower, sizes


def head_norms(state: State) -> State:
    """LaCLIP's norms of queries and keys; the projections before them move to where the norms leave them."""
    norms: State = {}
    for i in range(_depth(state, "visual.blocks.")):
        for name in "qk":
            for part in ("weight", "bias"):
                norm = need(state, f"visual.blocks.{i}.attn.{name}_norm.{part}")
                norms[f"vision_model.layers.{i}.attention.{name}_proj.1.{part}"] = norm
    return norms


def _timm_heads(state: State, width: int) -> int:
    """Heads cannot be seen in the shapes, except where each has a norm; else as the published sizes have them."""
    norm = state.get("visual.blocks.0.attn.q_norm.weight")
    if norm is not None:
        return int(width // len(norm))
    published = {384: 12, 768: 12, 1024: 16}
    if width not in published:
        raise InputError(f"an image encoder of width {width}: say how many attention heads it has, as vision_heads=...")
    return published[width]


def _openai_blocks(state: State, theirs: str, ours: str) -> State:
    blocks: State = {}
    for i in range(_depth(state, theirs)):
        blocks |= _renamed(state, _BLOCK, f"{theirs}{i}.", f"{ours}{i}.")
        blocks |= _parted(state, f"{theirs}{i}.attn.in_proj_", f"{ours}{i}.self_attn.")
    return blocks


def _renamed(state: State, names: Mapping[str, str], theirs: str = "", ours: str = "") -> State:
    """Weight and bias of each part under its new name."""
    pairs = [(a, b, part) for a, b in names.items() for part in ("weight", "bias")]
    return {f"{ours}{b}.{part}": need(state, f"{theirs}{a}.{part}") for a, b, part in pairs}


def _parted(state: State, theirs: str, ours: str) -> State:
    """The projections of queries, keys and values, which stand in one tensor there."""
    whole = {part: need(state, theirs + part).chunk(3) for part in ("weight", "bias")}
    return {f"{ours}{name}_proj.{part}": whole[part][i] for part in whole for i, name in enumerate("qkv")}


def _depth(state: State, prefix: str) -> int:
    numbers = [int(match[1]) for name in state if (match := re.match(re.escape(prefix) + r"(\d+)\.", name))]
    if not numbers:
        raise InputError(f"the checkpoint has no {prefix}0, so it is not of the layout that was expected")
    if max(numbers) >= len(state):
        raise InputError(f"the checkpoint's weights name a layer {max(numbers)}, but there are {len(state)} of them")
    return max(numbers) + 1


def _side(n_positions: int) -> int:
    side = round((n_positions - 1) ** 0.5)
    if side * side + 1 != n_positions:
        raise InputError(f"{n_positions} position embeddings do not make a square of patches and a class token")
    return int(side)
