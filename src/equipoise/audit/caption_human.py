"""The human captions of a run, cut into words and read once for all models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from equipoise.measure.caption_mentions import Mentions
from equipoise.measure.groups import Groups
from equipoise.text import Lexicon
from equipoise.text.ptb import ptb_tokens
from equipoise.text.tagging import content_vocabulary

__all__ = ["HumanCaptions"]


@dataclass(frozen=True)
class HumanCaptions:
    """All reference captions one after the other, each with its image."""

    owners: tuple[str, ...]
    texts: tuple[str, ...]
    lexicon: Lexicon

    @classmethod
    def of(cls, references: Mapping[str, Sequence[str]], ids: Collection[str], lexicon: Lexicon) -> HumanCaptions:
        """The captions of the images ``ids``.

        >>> human = HumanCaptions.of({"1": ("A man.", "A dog"), "2": ("x",)}, {"1"}, Lexicon.load("lic"))
        >>> human.owners, human.tokens, sorted(human.content)
        (('1', '1'), (('a', 'man'), ('a', 'dog')), ['dog', 'man'])
        """
        pairs = [(name, text) for name, texts in references.items() if name in ids for text in texts]
        return cls(tuple(name for name, _ in pairs), tuple(text for _, text in pairs), lexicon)

    @cached_property
    def tokens(self) -> tuple[tuple[str, ...], ...]:
        """The words of each caption."""
        return tuple(tuple(ptb_tokens(text)) for text in self.texts)

    @cached_property
    def by_image(self) -> dict[str, list[tuple[str, ...]]]:
        """The words of each caption of each image."""
        found: dict[str, list[tuple[str, ...]]] = {}
        for name, tokens in zip(self.owners, self.tokens, strict=True):
            found.setdefault(name, []).append(tokens)
        return found

    @cached_property
    def named(self) -> Groups:
        """The one group that each caption names."""
        return Mentions.of(self.texts, self.lexicon).groups

    @cached_property
    def content(self) -> frozenset[str]:
        """The content words among the thousand commonest."""
        return frozenset(word.word for word in content_vocabulary(self.tokens))

    def rows_of(self, ids: Collection[str]) -> list[int]:
        """Which captions are of the images ``ids``."""
        wanted = set(ids)
        return np.flatnonzero([name in wanted for name in self.owners]).tolist()
