"""What a synthesis can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from equipoise.data.settings import Settings
from equipoise.mitigate.libra.mixes import mix_of
from equipoise.models.caption_classifiers import classifier

__all__ = ["SynthesisSettings"]

Probability = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class SynthesisSettings(Settings):
    """Settings of a synthesis; 15%, 0.3, 0.2 and the mixes are the paper's, the others are chosen here.

    >>> SynthesisSettings().having({"mix": "1:2:1"}).mix
    '1:2:1'
    """

    what: ClassVar[str] = "setting of a synthesis"

    lexicon: str = "equipoise"
    """The words by group: an id, or a TOML file of your own."""
    filler: str = "captions"
    """Where replacements come from: ``captions`` (the words that stand between the same neighbours in these captions),
    or a masked language model or T5, as ``hf:bert-base-uncased``, ``hf:t5-base`` or ``mini:text``."""
    classifier: str = "fast"
    """Who reads the group off the other words, and tells filled captions from others: ``fast`` (linear on words and
    pairs of words), ``bert:NAME`` (the paper's), ``bert-frozen:NAME`` or ``lstm``."""
    mix: str = "0:1:1"
    """Shares of swap, fill and merged: 1:1:0, 0:1:1, 1:2:1, or any three whole numbers."""
    count: Annotated[int, Field(ge=0)] = 0
    """At most so many pairs; 0 is the paper's count for its three mixes, and no limit for others."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.15
    """The share of content words that are replaced, at least one."""
    tries: Annotated[int, Field(ge=1)] = 4
    """Fillings of each caption."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    top_k: Annotated[int, Field(ge=1)] = 50
    authenticity: Probability = 0.3
    """A filled caption must look written by people with a probability above this; 0 lets all through."""
    margin: Annotated[float, Field(ge=-1, lt=1)] = 0.2
    """A filled caption must tell its group with a probability higher by more than this; -1 lets all through."""
    folds: Annotated[int, Field(ge=2)] = 5
    """Of the classifiers; no caption is judged by one that was trained on its image's captions."""
    synonyms: Literal["auto", "wordnet", "allowed"] = "auto"
    """Whether WordNet's synonyms are refused as replacements: ``auto`` does where nltk has WordNet."""
    tagger: Literal["rules", "spacy"] = "rules"
    seed: Annotated[int, Field(ge=0)] = 0

    def check(self) -> None:
        """Refuse a mix that is none, and a classifier that is not there."""
        mix_of(self.mix)
        classifier(self.classifier)
