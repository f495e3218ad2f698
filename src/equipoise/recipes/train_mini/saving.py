"""Save a miniature so that stock ``transformers`` loads it with no code of ours: half-size weights, full-size use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

__all__ = ["save_transformers"]


def save_transformers(
    model: Any, target: Path, *, tokenizer: Any = None, mean: float, std: float, size: int, processor: str = "clip"
) -> None:
    """Write weights (float16 safetensors), config, tokenizer and image processor to ``target``."""
    import copy

    import torch

    target.mkdir(parents=True, exist_ok=True)
    half = copy.deepcopy(model).to(torch.float16)
    half.save_pretrained(target)
    _load_as_float32(target / "config.json")
    if tokenizer is not None:
        tokenizer.save_pretrained(target)
    _image_processor(processor, mean, std, size).save_pretrained(target)


def _load_as_float32(path: Path) -> None:
    # Half-size weights would otherwise load as float16, which crawls or fails on a CPU.
    config = json.loads(path.read_text(encoding="utf-8"))

    def say_float32(part: Any) -> None:
        if isinstance(part, dict):
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
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    return ViTImageProcessorPil(size={"height": size, "width": size}, do_convert_rgb=True, **values)
