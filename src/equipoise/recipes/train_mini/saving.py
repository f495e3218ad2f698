"""Save a miniature so that stock ``transformers`` or ``diffusers`` loads it with no code of ours: half-size weights,
full-size use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.models.pipeline_folders import GENERATION

__all__ = ["save_autoencoder", "save_language_model", "save_pipeline", "save_transformers"]


def save_transformers(
    model: Any, target: Path, *, tokenizer: Any = None, mean: float, std: float, size: int, processor: str = "clip"
) -> None:
    """Write weights (float16 safetensors), config, tokenizer and image processor to ``target``."""
    save_language_model(model, target, tokenizer=tokenizer)
    _image_processor(processor, mean, std, size).save_pretrained(target)


def save_language_model(model: Any, target: Path, *, tokenizer: Any = None) -> None:
    """Write weights (float16 safetensors), config and tokenizer to ``target``."""
    target.mkdir(parents=True, exist_ok=True)
    _half(model).save_pretrained(target)
    _load_as_float32(target / "config.json")
    if tokenizer is not None:
        tokenizer.save_pretrained(target)


def save_autoencoder(model: Any, target: Path) -> None:
    """Write a ``diffusers`` model to ``target``, which loads as float32."""
    target.mkdir(parents=True, exist_ok=True)
    _half(model).save_pretrained(target)
    _forget_where_it_was(target)


def save_pipeline(
    pipeline_class: str, target: Path, *, parts: Mapping[str, Any], generation: Mapping[str, float]
) -> None:
    """Write a Stable Diffusion pipeline of ``parts`` (vae, text_encoder, tokenizer, unet, scheduler) to ``target``.

    ``generation`` holds the guidance and the steps that it is meant to be used with.
    """
    import diffusers
    import torch

    halves = {name: _half(part) if isinstance(part, torch.nn.Module) else part for name, part in parts.items()}
    pipeline = getattr(diffusers, pipeline_class)(
        **halves, safety_checker=None, feature_extractor=None, requires_safety_checker=False
    )
    target.mkdir(parents=True, exist_ok=True)
    pipeline.save_pretrained(target)
    _load_as_float32(target / "text_encoder" / "config.json")
    _forget_where_it_was(target)
    (target / GENERATION).write_text(json.dumps(dict(generation), indent=2) + "\n", encoding="utf-8")


def _half(model: Any) -> Any:
    import copy

    import torch

    # Module's own method: that of diffusers warns of parts that it would rather keep, and these models have none.
    return torch.nn.Module.to(copy.deepcopy(model), torch.float16)


def _forget_where_it_was(folder: Path) -> None:
    """Take the path that a part was loaded from out of the settings."""
    for path in sorted(folder.rglob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and content.pop("_name_or_path", None) is not None:
            path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _load_as_float32(path: Path) -> None:
    # Half-size weights would otherwise load as float16, which crawls or fails on a CPU.
    config = json.loads(path.read_text(encoding="utf-8"))

    def say_float32(part: Any) -> None:
        if isinstance(part, dict):
            part.pop("_name_or_path", None)  # the folder of whoever trained it is nobody's business
            if "dtype" in part or "torch_dtype" in part or "model_type" in part:
                part.pop("torch_dtype", None)
                part["dtype"] = "float32"
            for value in part.values():
                say_float32(value)

    say_float32(config)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _image_processor(kind: str, mean: float, std: float, size: int) -> Any:
    values = {"image_mean": [mean] * 3, "image_std": [std] * 3}
    if kind == "clip":
        from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

        return CLIPImageProcessorPil(
            size={"shortest_edge": size}, crop_size={"height": size, "width": size}, do_convert_rgb=True, **values
        )
    if kind == "segformer":
        from transformers.models.segformer.image_processing_pil_segformer import SegformerImageProcessorPil

        return SegformerImageProcessorPil(size={"height": size, "width": size}, do_reduce_labels=False, **values)
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    return ViTImageProcessorPil(size={"height": size, "width": size}, do_convert_rgb=True, **values)
