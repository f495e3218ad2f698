"""The settings of an audit of captions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from equipoise.audit.captions.lic import SEEDS
from equipoise.data.settings import Settings
from equipoise.errors import InputError
from equipoise.models.caption_classifiers import classifier

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class CaptionSettings(Settings):
    """How captions are measured.

    >>> CaptionSettings(classifier="lsmt")
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no caption classifier named 'lsmt'; did you mean 'lstm'?
    """

    what: ClassVar[str] = "setting of captions"

    classifier: str = "fast"
    """``lstm`` is the paper's, ``bert:NAME`` and ``bert-frozen:NAME`` any text encoder, ``fast`` a linear screen."""
    lexicon: str = "lic"
    """Whose words are masked for LIC, and name a group in Ratio, Error and BA."""
    mask: bool = True
    seeds: Annotated[int, Field(ge=1)] | None = None
    """How many of the paper's ten seeds; all of them unless given."""
    reference_seeds: Count | None = None
    """The same for human captions, so for LIC_D and LIC; 0 leaves them out."""
    folds: Annotated[int, Field(ge=2)] | None = None
    """Cross-fit over so many folds, instead of one split per seed."""
    permutations: Count | None = None
    """Classifiers trained on shuffled labels, for the chance level: 200 for ``fast`` and 3 for others unless given."""
    ba_least: Annotated[int, Field(ge=1)] = 100
    """A word counts in BA if it stands in at least so many human captions of each group."""
    quality: bool = True
    java: bool = False
    """Also METEOR and SPICE, through the ``java-metrics`` extra."""
    seed: Count = 0

    def check(self) -> None:
        """Refuse a classifier that is not there, and more seeds than the paper has."""
        classifier(self.classifier)
        for name, value in (("seeds", self.seeds), ("reference_seeds", self.reference_seeds)):
            if value is not None and value > len(SEEDS):
                raise InputError(f"{name} = {value}: the paper has {len(SEEDS)} seeds; give at most {len(SEEDS)}")
