"""SLIP, LaCLIP, ALIP, DebiasCLIP, and any ViT CLIP in OpenAI's layout.

Families that no class of ``transformers`` can read, as :mod:`equipoise.models.convert` writes them.

Their ``config.json`` names a ``model_type`` of its own, so that stock ``transformers`` refuses the folder instead of
loading half of the model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, one_line
from equipoise.models.convert.reading import State, any_tokenizer, in_a_sentence, state_of, tensor_of
from equipoise.models.convert.towers import head_norms, need, openai_vision, sizes_of_text, text_tower, timm_vision
from equipoise.models.folders import Checkpoint, find_checkpoint
from equipoise.models.hf.families import EncoderFamily
from equipoise.models.runtime import from_transformers, in_one_sentence, quiet
from equipoise.models.trust import OnDisk, check_built, on_disk


def add_head_norms(model: Any) -> None:
    """Give each attention of a ViT a layer norm over every head's queries and keys, as LaCLIP has."""
    from torch import nn

    class HeadNorm(nn.LayerNorm):  # type: ignore[misc]
        """A layer norm over each head alone; (n, tokens, heads * width) in and out."""

        def forward(self, input: Any) -> Any:
            parted = input.unflatten(-1, (-1, self.normalized_shape[0]))
            return super().forward(parted).flatten(-2)

    for layer in model.vision_model.layers:
        attention = layer.attention
        for name in ("q_proj", "k_proj"):
            normed = nn.Sequential(getattr(attention, name), HeadNorm(attention.head_dim, eps=1e-6))
            setattr(attention, name, normed)


def add_learned_tokens(model: Any, n: int) -> None:
    """Give a CLIP ``n`` learned tokens, as DebiasCLIP puts before each text."""
    from torch import nn

    model.learned_tokens = nn.Embedding(n, model.config.text_config.hidden_size)


def _laclip(checkpoint: Checkpoint) -> Any:
    converted = _base(checkpoint, "VisionTextDualEncoderConfig", "VisionTextDualEncoderModel")
    add_head_norms(converted)
    return _filled(converted, checkpoint)


def _debias_clip(checkpoint: Checkpoint) -> Any:
    converted = _base(checkpoint, "CLIPConfig", "CLIPModel")
    n_tokens = checkpoint.config.get("learned_tokens")
    if not isinstance(n_tokens, int) or not 0 <= n_tokens <= converted.config.text_config.max_position_embeddings:
        raise InputError(f"{checkpoint.folder / 'config.json'}: learned_tokens must be a whole number that fits a text")
    add_learned_tokens(converted, n_tokens)
    return _filled(converted, checkpoint)


def _base(checkpoint: Checkpoint, config_class: str, model_class: str) -> Any:
    """The stock model that a converted one is built on, once it is known to be no larger than the weights."""
    config, model = from_transformers(config_class, model_class)
    base = checkpoint.config.get("base")
    if not isinstance(base, dict):
        raise InputError(f"{checkpoint.folder / 'config.json'}: does not say its base; convert the checkpoint again")
    with in_one_sentence(f"{checkpoint.folder}: its base cannot be built"):
        check_built(checkpoint.folder, lambda: model(config.from_dict(base)), on_disk(checkpoint.weights))
        return model(config.from_dict(base))


def _filled(model: Any, checkpoint: Checkpoint) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    weights: dict[str, Any] = {}
    try:
        for path in checkpoint.weights:
            weights |= load_file(path)
        model.load_state_dict(weights, strict=True)
    except (SafetensorError, RuntimeError) as error:
        reason = one_line(error)
        raise InputError(f"{checkpoint.folder}: not the weights that config.json promises ({reason})") from error
    return model.float()


def texts_after_learned_tokens(model: Any, inputs: dict[str, Any]) -> Any:
    """DebiasCLIP's text vectors.

    The learned tokens stand before the start token and have no position; the text keeps its own positions; what does
    not fit any more at the end is cut; the read-out moves along (Berg et al., 2022).
    """
    import torch

    ids, text = inputs["input_ids"], model.text_model
    learned = model.learned_tokens.weight
    most = text.embeddings.position_embedding.num_embeddings
    rows = torch.cat([learned.expand(len(ids), -1, -1), text.embeddings(input_ids=ids)], dim=1)[:, :most]
    length = rows.shape[1]
    later = torch.full((length, length), torch.finfo(rows.dtype).min, device=rows.device, dtype=rows.dtype).triu(1)
    states = text.encoder(inputs_embeds=rows, attention_mask=later[None, None].expand(len(ids), -1, -1, -1))
    end = (ids == model.config.text_config.eos_token_id).int().argmax(dim=1) + len(learned)
    states = text.final_layer_norm(states.last_hidden_state)
    return model.text_projection(states[torch.arange(len(ids), device=ids.device), end.clamp(max=length - 1)])


LACLIP = EncoderFamily("VisionTextDualEncoderModel", build=_laclip)
DEBIAS_CLIP = EncoderFamily("CLIPModel", texts=texts_after_learned_tokens, build=_debias_clip)


_IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 2}
_OPENAI = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "resample": 3,
}


@in_a_sentence
def slip(
    source: str | Path,
    target: str | Path,
    *,
    tokenizer: str | Path,
    vision_heads: int | None = None,
    allow_pickle: bool = False,
) -> Path:
    """SLIP, and the CLIP of the same code (Mu et al., ECCV 2022), as a stock vision-text-dual-encoder.

    The image encoder is timm's, so the pooler hands the class token on unchanged (identity weights, no activation).
    The self-supervised head is left out: it is not used to encode.

    Args:
        source: the checkpoint's file.
        target: the folder to write.
        tokenizer: CLIP's, as a folder, a repository, or the published merges (``bpe_simple_vocab_16e6.txt.gz``).
        vision_heads: attention heads of the image encoder; by default those of the published widths (384, 768, 1024).
        allow_pickle: read ``source`` even if it is a pickle.

    Returns:
        The folder.
    """
    return _timm_clip(state_of(source, allow_pickle=allow_pickle), Path(target), tokenizer, vision_heads)


@in_a_sentence
def laclip(source: str | Path, target: str | Path, *, tokenizer: str | Path, allow_pickle: bool = False) -> Path:
    """LaCLIP (Fan et al., NeurIPS 2023), in either of its two layouts.

    The models of CC3M, CC12M and RedCaps have timm's image encoder with norms of queries and keys, which no class of
    ``transformers`` has: their folder is of the form ``laclip``. Those of LAION-400M are OpenCLIP's and become a CLIP.

    Args:
        source: the checkpoint's file.
        target: the folder to write.
        tokenizer: CLIP's, as for :func:`slip`.
        allow_pickle: read ``source`` even if it is a pickle.

    Returns:
        The folder.
    """
    state = state_of(source, allow_pickle=allow_pickle)
    if "visual.conv1.weight" in state:
        return _openai_layout(state, Path(target), tokenizer, "gelu")
    return _timm_clip(state, Path(target), tokenizer, None)


@in_a_sentence
def alip(source: str | Path, target: str | Path, *, tokenizer: str | Path, allow_pickle: bool = False) -> Path:
    """ALIP (Yang et al., ICCV 2023): OpenCLIP's layout with plain GELU, as a stock CLIP.

    Args:
        source: the checkpoint's file.
        target: the folder to write.
        tokenizer: CLIP's, as for :func:`slip`.
        allow_pickle: read ``source`` even if it is a pickle.

    Returns:
        The folder.
    """
    return _openai_layout(state_of(source, allow_pickle=allow_pickle), Path(target), tokenizer, "gelu")


@in_a_sentence
def openai_clip(
    source: str | Path,
    target: str | Path,
    *,
    tokenizer: str | Path,
    hidden_act: str = "quick_gelu",
    allow_pickle: bool = False,
) -> Path:
    """Any ViT CLIP in OpenAI's key layout, such as NegCLIP, as a stock CLIP.

    Args:
        source: the checkpoint's file.
        target: the folder to write.
        tokenizer: CLIP's, as for :func:`slip`.
        hidden_act: "quick_gelu" for what was trained from OpenAI's weights, "gelu" for most of OpenCLIP's own.
        allow_pickle: read ``source`` even if it is a pickle.

    Returns:
        The folder.
    """
    return _openai_layout(state_of(source, allow_pickle=allow_pickle), Path(target), tokenizer, hidden_act)


@in_a_sentence
def debias_clip(tokens: str | Path, target: str | Path, *, clip: str | Path, allow_pickle: bool = False) -> Path:
    """DebiasCLIP (Berg et al., AACL 2022): a CLIP with the published learned tokens before its texts.

    Texts are cut so that the end token still fits behind the learned ones; the published code reads another token
    there.

    Args:
        tokens: the file of the learned tokens (n, width), its one tensor.
        target: the folder to write.
        clip: the CLIP that they were learned on, a folder or a repository; ``openai/clip-vit-base-patch16`` for the
            released tokens.
        allow_pickle: read ``tokens`` and ``clip`` even from pickles.

    Returns:
        The folder.
    """
    from equipoise.models.hf.checkpoint import image_processor, stock_model
    from equipoise.models.hf.checkpoint import tokenizer as tokenizer_of

    learned = tensor_of(tokens, allow_pickle=allow_pickle).float()
    base = find_checkpoint(str(clip), allow_pickle=allow_pickle)
    if base.model_type != "clip":
        raise InputError(f"{clip}: a {base.model_type!r} model; DebiasCLIP's tokens go before the texts of a CLIP")
    with quiet():
        model, words, pixels = stock_model(base, "CLIPModel"), tokenizer_of(base), image_processor(base)
    width = model.config.text_config.hidden_size
    if learned.ndim != 2 or learned.shape[1] != width:
        raise InputError(f"{tokens}: tokens of shape {tuple(learned.shape)}; {clip} needs (n, {width})")
    return with_learned_tokens(model, learned, words, pixels, Path(target))


def with_learned_tokens(model: Any, learned: Any, words: Any, pixels: Any, target: Path) -> Path:
    """Write the CLIP ``model`` with ``learned`` tokens (n, width) to ``target``, with its tokenizer and processor."""
    add_learned_tokens(model, len(learned))
    model.learned_tokens.weight.data = learned
    # Old configurations say 2 where they mean the tokenizer's end.
    model.config.text_config.eos_token_id = words.eos_token_id
    words.model_max_length = model.config.text_config.max_position_embeddings - len(learned)
    return _own_form(model, target, words, pixels, {"model_type": "debias-clip", "learned_tokens": len(learned)})


def _timm_clip(state: State, target: Path, tokenizer: str | Path, heads: int | None) -> Path:
    dual, model_class, vit, clip_text = from_transformers(
        "VisionTextDualEncoderConfig", "VisionTextDualEncoderModel", "ViTConfig", "CLIPTextConfig"
    )
    words = any_tokenizer(tokenizer)
    vision, sizes = timm_vision(state, heads)
    text = sizes_of_text(state) | _ends(words, state)
    config = dual.from_vision_text_configs(
        vit(**sizes), clip_text(**text), projection_dim=need(state, "text_projection").shape[1]
    )
    weights = vision | text_tower(state) | {"logit_scale": need(state, "logit_scale")}
    model = _built(model_class, config, state)
    pixels = _clip_pixels(sizes["image_size"], _IMAGENET)
    if "visual.blocks.0.attn.q_norm.weight" not in state:
        return _stock_form(model, weights, target, words, pixels)
    add_head_norms(model)
    for name in [n for n in weights if n.startswith("vision_model.") and (".q_proj." in n or ".k_proj." in n)]:
        weights[name.replace("_proj.", "_proj.0.")] = weights.pop(name)
    _fill(model, weights | head_norms(state))
    return _own_form(model, target, words, pixels, {"model_type": "laclip"})


def _openai_layout(state: State, target: Path, tokenizer: str | Path, hidden_act: str) -> Path:
    config_class, model_class = from_transformers("CLIPConfig", "CLIPModel")
    words = any_tokenizer(tokenizer)
    vision, sizes = openai_vision(state)
    text = sizes_of_text(state) | _ends(words, state) | {"hidden_act": hidden_act}
    config = config_class(
        text_config=text,
        vision_config=sizes | {"hidden_act": hidden_act},
        projection_dim=need(state, "text_projection").shape[1],
    )
    weights = vision | text_tower(state) | {"logit_scale": need(state, "logit_scale")}
    return _stock_form(
        _built(model_class, config, state), weights, target, words, _clip_pixels(sizes["image_size"], _OPENAI)
    )


def _built(model_class: Any, config: Any, state: State) -> Any:
    """The model for the weights, once it is known to be no larger than they are."""
    held = OnDisk(len(state), sum(int(value.numel()) for value in state.values()))
    check_built(Path("the checkpoint"), lambda: model_class(config), held)
    return model_class(config)


def _ends(words: Any, state: State) -> dict[str, int]:
    """The tokenizer's start and end, which must fit the embeddings."""
    known = need(state, "token_embedding.weight").shape[0]
    if len(words) != known:
        raise InputError(f"the tokenizer has {len(words)} tokens, the checkpoint {known}; give the one it learned with")
    return {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id}


def _clip_pixels(side: int, how: dict[str, Any]) -> Any:
    from_transformers("AutoImageProcessor")
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    return CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side}, **how)


def _fill(model: Any, weights: State) -> None:
    with in_one_sentence("the checkpoint does not fit"):
        model.load_state_dict({name: value.float() for name, value in weights.items()}, strict=True)


def _stock_form(model: Any, weights: State, target: Path, words: Any, pixels: Any) -> Path:
    _fill(model, weights)
    with quiet():
        for part in (model.eval(), words, pixels):
            part.save_pretrained(target)
    return target


def _own_form(model: Any, target: Path, words: Any, pixels: Any, config: dict[str, Any]) -> Path:
    from safetensors.torch import save_file

    target.mkdir(parents=True, exist_ok=True)
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, target / "model.safetensors")
    text = json.dumps(config | {"base": model.config.to_dict()}, indent=2, sort_keys=True)
    (target / "config.json").write_text(text + "\n", encoding="utf-8")
    with quiet():
        for part in (words, pixels):
            part.save_pretrained(target)
    return target
