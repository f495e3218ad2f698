"""The settings of an audit of captions."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.audit.captions.classifiers import classifier
from equipoise.audit.captions.lic import SEEDS
from equipoise.errors import InputError

__all__ = ["CaptionSettings"]


@dataclass(frozen=True)
class CaptionSettings:
    """How captions are measured.

    >>> CaptionSettings(classifier="lsmt")
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no caption classifier named 'lsmt'; did you mean 'lstm'?
    """

    classifier: str = "fast"
    """``lstm`` is the paper's, ``bert:NAME`` and ``bert-frozen:NAME`` any text encoder, ``fast`` a linear screen."""
    lexicon: str = "lic"
    """Whose words are masked for LIC, and name a group in Ratio, Error and BA."""
    mask: bool = True
    seeds: int | None = None
    """How many of the paper's ten seeds; all of them unless given."""
    reference_seeds: int | None = None
    """The same for human captions, so for LIC_D and LIC; 0 leaves them out."""
    folds: int | None = None
    """Cross-fit over so many folds, instead of one split a seed."""
    permutations: int | None = None
    """Classifiers trained on shuffled labels, for the chance level: 200 for ``fast`` and 3 for others unless given."""
    ba_least: int = 100
    """A word counts in BA if it stands in at least so many human captions of each group."""
    quality: bool = True
    java: bool = False
    """Also METEOR and SPICE, through the ``java-metrics`` extra."""
    seed: int = 0

    def __post_init__(self) -> None:
        classifier(self.classifier)
        for name in ("seeds", "folds", "reference_seeds", "permutations", "ba_least", "seed"):
            value = getattr(self, name)
            least = {"seeds": 1, "folds": 2, "ba_least": 1}.get(name, 0)
            if value is None and name not in ("ba_least", "seed"):
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"{name} = {value!r}: give a whole number of at least {least}")
            if name in ("seeds", "reference_seeds") and value > len(SEEDS):
                raise InputError(f"{name} = {value}: the paper has {len(SEEDS)} seeds; give at most {len(SEEDS)}")
