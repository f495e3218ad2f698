"""Adapters: one way to ask any encoder, captioner, classifier, generator, detector or filler, by name.

``load("mini")`` gives the packaged CLIP, ``load("hf:<repo or folder>")`` any dual encoder of ``transformers``,
``load("table:<folder>")`` precomputed embeddings. A model is loaded only when asked for, from safetensors; the error
for a name that cannot be had says what was tried and what to install or download.
"""

from equipoise.array_types import Vectors
from equipoise.models.checking import Check, CheckReport, check
from equipoise.models.loading import SCHEMES, load
from equipoise.models.protocols import (
    KINDS,
    Answers,
    Captioner,
    Classifier,
    Detections,
    Detector,
    Encoder,
    Filler,
    Generator,
    Precomputed,
)

__all__ = [
    "KINDS",
    "SCHEMES",
    "Answers",
    "Captioner",
    "Check",
    "CheckReport",
    "Classifier",
    "Detections",
    "Detector",
    "Encoder",
    "Filler",
    "Generator",
    "Precomputed",
    "Vectors",
    "check",
    "load",
]
