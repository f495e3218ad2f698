"""What is trained on what: the rows of the paper's tables, and how much of everything a run takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TrainingArm:
    """One way to train: on which set, with which loss."""

    published: str
    """What the paper calls it, in the rows of its tables."""
    training_set: str = "original"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the task ``multilabel``, beside its labels."""
    names_group: bool = True
    """Whether the group is predicted, too; without it there is no Ratio."""


def _loss(published: str, name: str, **more: Any) -> TrainingArm:
    return TrainingArm(published, options={"loss": name}, **more)


ARMS: dict[str, TrainingArm] = {
    "original": TrainingArm("Original"),
    # the group is no label here: an adversary against what is to be predicted would fight the task itself
    "adversarial": _loss("Adversarial", "adversarial", names_group=False),
    "domain-discriminative": _loss("DomDisc", "domain-discriminative"),
    "domain-independent": _loss("DomInd", "domain-independent"),
    "upweight": _loss("Upweight", "upweight"),
    "focal": _loss("Focal", "focal"),
    "class-balanced": _loss("CB", "class-balanced"),
    "group-dro": _loss("GroupDRO", "group-dro"),
    "over-sampling": TrainingArm("Over-sampling", "over"),
    "sub-sampling": TrainingArm("Sub-sampling", "sub"),
    "augment": TrainingArm("S_augment", "augment"),
    "synthetic": TrainingArm("S_synthetic", "synthetic"),
    # no row of the paper: every drawn picture has a visible mark, which the artefact test must find
    "planted": TrainingArm("S_augment with a mark", "planted"),
}
"""Classifiers that learn things, places and gender together."""

TONE_ARMS: dict[str, TrainingArm] = {f"tone-{name}": ARMS[name] for name in ("original", "synthetic")}
"""The same of skin tone, and captioners."""

SECOND_ARMS: dict[str, TrainingArm] = {
    f"second-{name}": ARMS[name] for name in ("original", "over-sampling", "sub-sampling", "augment", "synthetic")
}
"""Classifiers by gender on photographs of a second world."""

EVERY_ARM = ARMS | TONE_ARMS | SECOND_ARMS

CAPTION_ARMS = ("original", "over-sampling", "sub-sampling", "augment", "synthetic")
"""Captioners; LIBRA revises the captions of the first."""

BALANCED = {"over": "oversample", "sub": "undersample"}
"""Sets in which every thing and place is to be shown equally often with every gender."""


@dataclass(frozen=True)
class StudySize:
    """How much of everything."""

    photographs: int
    test: int
    candidates: int
    """Drawn of each photograph and gender; one is chosen."""
    tones: int
    """Photographs that are drawn with each skin tone."""
    both: int
    """Photographs that are drawn as each gender with each skin tone."""
    parts: int
    """Test photographs of which a body part is drawn anew."""
    pictures: int
    """The backbone learns from these."""
    warming: int
    """Steps of the backbone."""
    steps: int
    """Of a classifier at most; early stopping may end before."""
    speaking: int
    """Steps of a captioner."""
    seeds: tuple[int, ...]
    further_seeds: tuple[int, ...]
    """Of captioners, and of classifiers by skin tone or on the second world."""
    arms: tuple[str, ...] = tuple(ARMS)
    caption_arms: tuple[str, ...] = CAPTION_ARMS
    tone_captions: tuple[str, ...] = tuple(TONE_ARMS)
    """Captioners by skin tone."""
    second: int = 0
    """Photographs of the second world; none leave it out."""


MINI = StudySize(
    photographs=320,
    test=400,
    candidates=2,
    tones=160,
    both=25,
    parts=150,
    pictures=2000,
    warming=600,
    steps=120,
    speaking=60,
    seeds=(0, 1, 2),
    further_seeds=(0,),
    second=160,
)
QUICK = StudySize(
    photographs=60,
    test=120,
    candidates=2,
    tones=30,
    both=10,
    parts=60,
    pictures=1200,
    warming=300,
    steps=40,
    speaking=15,
    seeds=(0,),
    further_seeds=(0,),
    arms=("original", "augment", "synthetic", "planted"),
    caption_arms=("original", "synthetic"),
    tone_captions=(),
)
