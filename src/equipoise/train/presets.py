"""Trainings by name: which model a paper starts from, and with which settings.

The classifiers and captioners of Hirota et al. (EMNLP 2024), Section 4.6. What the paper does not say (epochs, when it
gives up, warm-up) is ours; Adam is AdamW without weight decay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from equipoise.errors import UnknownNameError

__all__ = ["PRESETS", "TrainPreset", "preset_of"]


@dataclass(frozen=True)
class TrainPreset:
    """What is trained, from which model, and how."""

    task: str
    init: str
    """The model to start from; empty where it must be given."""
    settings: Mapping[str, Any]
    """Fields of :class:`~equipoise.train.settings.TrainSettings`."""
    gpu_hours: float
    """Of one training on about 28,000 photographs; an estimate for one A100."""
    disk_gb: float


_CLASSIFIER: Mapping[str, Any] = {
    "rate": 1e-5,
    "batch": 32,
    "weight_decay": 0.0,
    "warmup": 0,
    "constant": True,
    "val_share": 0.2,
    "epochs": 30.0,
    "patience": 3,
}
PRESETS: dict[str, TrainPreset] = {
    "resnet-50": TrainPreset("multilabel", "hf:microsoft/resnet-50", _CLASSIFIER, 1.0, 0.1),
    "swin-t": TrainPreset("multilabel", "hf:microsoft/swin-tiny-patch4-window7-224", _CLASSIFIER, 1.5, 0.12),
    "convnext-b": TrainPreset("multilabel", "hf:facebook/convnext-base-224", _CLASSIFIER, 3.0, 0.36),
    # Mokady et al. (2021): AdamW 2e-5, 5,000 steps of warm-up, batches of 40, ten epochs; its weights are released as
    # pickles, so --init names the folder that equipoise.models.convert made of them
    "clipcap": TrainPreset("captioner", "", {"rate": 2e-5, "batch": 40, "warmup": 5000, "epochs": 10.0}, 6.0, 1.2),
    # with a decoder, which stays as it is: the image encoder and the querying transformer learn
    "blip-2": TrainPreset("captioner", "hf:Salesforce/blip2-opt-2.7b", {"rate": 2e-6, "batch": 8}, 20.0, 15.0),
    "vit-gpt2": TrainPreset(
        "captioner", "hf:nlpconnect/vit-gpt2-image-captioning", {"rate": 1e-4, "batch": 64}, 5.0, 1.0
    ),
}


def preset_of(name: str, task: str) -> TrainPreset:
    """The preset ``name`` of ``task``.

    >>> preset_of("swin-t", "multilabel").settings["rate"]
    1e-05
    >>> preset_of("swin-t", "captioner")
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no preset of captioner named 'swin-t'; known: blip-2, clipcap, vit-gpt2
    """
    known = sorted(one for one, preset in PRESETS.items() if preset.task == task)
    if name not in known:
        raise UnknownNameError(f"preset of {task}", name, known)
    return PRESETS[name]
