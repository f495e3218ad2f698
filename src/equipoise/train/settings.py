"""How a model is trained on a table, which every run folder holds; and trainings by name, as papers have them.

The presets are the classifiers and captioners of Hirota et al. (EMNLP 2024), Section 4.6. What the paper does not say
(epochs, when it gives up, warm-up) is ours; Adam is AdamW without weight decay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from equipoise.data.settings import Settings
from equipoise.errors import InputError, UnknownNameError
from equipoise.train.schedule import Schedule


@dataclass(frozen=True)
class TrainSettings(Settings):
    """How long, how fast, on what part of the rows, and which weights move.

    >>> TrainSettings(steps=100, batch=8).schedule(100).warmup
    10
    >>> TrainSettings(steps=5, epochs=1.0)
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: give steps or epochs, not both
    """

    what: ClassVar[str] = "setting of training"

    steps: Annotated[int, Field(ge=1)] | None = None
    epochs: Annotated[float, Field(gt=0)] | None = None
    """Times through the main table; 1 unless steps are given."""
    batch: Annotated[int, Field(ge=2)] = 32
    """Rows of a step, over all processes and all tables of a mixture."""
    rate: Annotated[float, Field(gt=0)] = 1e-5
    warmup: Annotated[int, Field(ge=0)] | None = None
    """Steps until the rate is reached; a tenth of them, at most 200, unless given."""
    constant: bool = False
    """Keep the rate after that; else it falls as a cosine does."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.05
    average: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """How much of the running average of the weights each step keeps; above 0 the model ends as that average."""
    half: bool = False
    """Multiply in bfloat16 on a GPU, or where the processor is fast at it."""
    seed: Annotated[int, Field(ge=0)] = 0
    val_share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """The share of subjects (else sets, else images) that judges and is not learnt from; 0 for none."""
    patience: Annotated[int, Field(ge=0)] = 0
    """Stop after so many validations without a new least loss and take the best weights; 0 goes on to the end."""
    val_every: Annotated[int, Field(ge=1)] | None = None
    """Steps between validations; a tenth of all unless given."""
    whole_sets: bool = False
    """Keep the images of a counterfactual set in one batch."""
    save_every: Annotated[int, Field(ge=1)] = 100
    """Steps between checkpoints; a killed run goes on from the last."""
    fresh: bool = False
    """Begin with new weights in the form of the model, not with its own."""
    freeze: tuple[str, ...] = ()
    """Parts of the model that stay as they are, by the beginning of their names, such as vision_model."""
    last_layers: Annotated[int, Field(ge=0)] = 0
    """Train only so many layers at the end of each tower, and what comes after them; 0 for all."""
    low_rank: Annotated[int, Field(ge=0, le=4096)] = 0
    """Train adapters of this rank beside the matrices (LoRA), merged into them at the end; 0 for none."""

    def check(self) -> None:
        """Refuse what excludes each other."""
        if self.steps is not None and self.epochs is not None:
            raise InputError("give steps or epochs, not both")
        if self.patience and not self.val_share:
            raise InputError("patience needs rows to judge by; give val_share above 0")
        if self.patience and self.average:
            raise InputError("give patience or average: a model cannot end both at its best and as its average")
        if self.low_rank and self.last_layers:
            raise InputError("give low_rank or last_layers, not both")

    def schedule(self, steps: int) -> Schedule:
        """The schedule of so many steps."""
        warmup = min(200, steps // 10) if self.warmup is None else self.warmup
        return Schedule(
            steps=steps,
            batch=self.batch,
            rate=self.rate,
            warmup=warmup,
            weight_decay=self.weight_decay,
            save_every=self.save_every,
            average=self.average,
            half=self.half,
            constant=self.constant,
        )


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
    known = sorted(key for key, preset in PRESETS.items() if preset.task == task)
    if name not in known:
        raise UnknownNameError(f"preset of {task}", name, known)
    return PRESETS[name]
