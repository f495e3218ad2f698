"""ClipCap's published checkpoints as folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from equipoise.errors import InputError
from equipoise.models.convert.reading import in_a_sentence, state_of
from equipoise.models.folders import Checkpoint, find_checkpoint
from equipoise.models.runtime import from_transformers, in_one_sentence, quiet
from equipoise.models.trust import check_built, on_disk


@in_a_sentence
def clipcap(
    source: str | Path,
    target: str | Path,
    *,
    clip: str | Path,
    gpt2: str | Path,
    normalize: bool | None = None,
    allow_pickle: bool = False,
) -> Path:
    """ClipCap (Mokady et al., 2021) with its mapper of any form: two layers, one layer, or a transformer.

    Args:
        source: the checkpoint's file.
        target: the folder to write.
        clip: the CLIP whose image vectors it was trained on (``openai/clip-vit-base-patch32`` for the published
            ones), a folder or a repository.
        gpt2: the GPT-2 whose settings and tokenizer it has, a folder or a repository; where the checkpoint holds the
            mapper alone, its weights are used as well.
        normalize: whether image vectors are brought to unit length first, by default only for the transformer mapper.
        allow_pickle: read ``source`` and the weights of ``clip`` and ``gpt2`` even from pickles.

    Returns:
        The folder.
    """
    from safetensors.torch import save_file

    from equipoise.models.hf.captioners import mapper
    from equipoise.models.hf.checkpoint import image_processor, stock_model, tokenizer

    state = state_of(source, allow_pickle=allow_pickle)
    mapped = {n.removeprefix("clip_project."): v.float() for n, v in state.items() if n.startswith("clip_project.")}
    if not mapped:
        raise InputError(f"{source}: no weights named clip_project.*; it is no ClipCap checkpoint")
    folder = Path(target)
    eyes, tongue = (find_checkpoint(str(part), allow_pickle=allow_pickle) for part in (clip, gpt2))
    config = _gpt_settings(tongue)
    mapper(mapped, config.n_embd)  # refuses what cannot be loaded later
    with quiet():
        _image_encoder(stock_model(eyes, "CLIPModel")).save_pretrained(folder / "clip")
        image_processor(eyes).save_pretrained(folder / "clip")
        writer = _language_model(state, config) or stock_model(tongue, "GPT2LMHeadModel")
        writer.save_pretrained(folder / "gpt2")
        tokenizer(tongue).save_pretrained(folder / "gpt2")
    save_file({name: value.contiguous() for name, value in mapped.items()}, folder / "model.safetensors")
    unit = "prefix_const" in mapped if normalize is None else normalize
    about = {"model_type": "clipcap", "normalize": unit, "stop": "."}
    (folder / "config.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return folder


def _gpt_settings(tongue: Checkpoint) -> Any:
    """The settings of a GPT-2 that is no larger than its weights."""
    config_class, model_class = from_transformers("GPT2Config", "GPT2LMHeadModel")
    with in_one_sentence(f"{tongue.folder}: not the settings of a GPT-2"):
        config = config_class.from_dict(tongue.config)
        check_built(tongue.folder, lambda: model_class(config), on_disk(tongue.weights))
    return config


def _image_encoder(clip: Any) -> Any:
    """The half of a CLIP that looks."""
    config = clip.config.vision_config
    config.projection_dim = clip.config.projection_dim  # the half's own setting may be another
    half = from_transformers("CLIPVisionModelWithProjection")(config)
    names = half.state_dict()
    half.load_state_dict({name: value for name, value in clip.state_dict().items() if name in names}, strict=True)
    return half


def _language_model(state: dict[str, Any], config: Any) -> Any:
    """The tuned GPT-2, where the checkpoint has one; where only the mapper was trained, the stock one is used."""
    weights = {n.removeprefix("gpt."): v for n, v in state.items() if n.startswith("gpt.")}
    # Old versions of transformers saved their causal masks along.
    weights = {n: v for n, v in weights.items() if not n.endswith((".attn.bias", ".attn.masked_bias"))}
    if not weights:
        return None
    model = from_transformers("GPT2LMHeadModel")(config)
    with in_one_sentence("the checkpoint's GPT-2 does not fit"):
        model.load_state_dict(weights, strict=True)
    return model
