"""``hf:``: checkpoints that ``transformers`` loads, from a folder or the Hub."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from operator import attrgetter
from typing import Any

from equipoise.models.folders import Checkpoint, find_checkpoint
from equipoise.models.hf.checkpoint import opened_as
from equipoise.models.runtime import ModelSettings

_OPENERS = {
    "encoder": ("encoder", "encoder"),
    "captioner": ("captioners", "captioner"),
    "classifier": ("classifiers", "ImageClassifier.opened"),
    "detector": ("detectors", "detector"),
    "filler": ("span_fillers", "filler"),
    "reviser": ("revisers", "reviser"),
}
"""For each kind of model the module and the function that opens it; imported when it is asked for."""


def from_hugging_face(rest: str, *, kind: str = "encoder", **options: Any) -> Any:
    """What ``hf:<rest>`` names, as an encoder, captioner, classifier, detector, filler or reviser."""
    known = {field.name for field in fields(ModelSettings)}
    ModelSettings(**{name: value for name, value in options.items() if name in known})  # refused before a long download
    checkpoint = find_checkpoint(rest, allow_pickle=bool(options.get("allow_pickle")))
    return from_folder(checkpoint, name=f"hf:{rest}", kind=kind, **options)


def from_folder(checkpoint: Checkpoint, *, name: str, kind: str = "encoder", **options: Any) -> Any:
    """The adapter of ``kind`` for a checkpoint that was found."""
    module, opener = _OPENERS[kind]
    open_it = attrgetter(opener)(import_module(f"equipoise.models.hf.{module}"))
    return opened_as(kind, open_it, checkpoint, name=name, **options)
