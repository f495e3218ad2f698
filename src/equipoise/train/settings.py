"""How a model is trained on a table; every run folder holds these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from equipoise.data.settings import Settings
from equipoise.errors import InputError
from equipoise.train.schedule import Schedule

__all__ = ["TrainSettings"]


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
