"""Classifiers that read a group off captions: what LIC is measured with.

``fast`` is linear on words and pairs of words (a screen, an approximation), ``lstm`` the published one, ``bert:NAME``
and ``bert-frozen:NAME`` any text encoder of ``transformers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Positions
from equipoise.errors import InputError, MissingExtraError, UnknownNameError
from equipoise.measure.captions.linear import LinearModel, NgramTable, rarity, regress
from equipoise.models.caption_classifiers.bert import BertClassifier
from equipoise.models.caption_classifiers.lstm import LstmSettings, lstm_probabilities

__all__ = [
    "CLASSIFIERS",
    "BertClassifier",
    "CaptionClassifier",
    "CaptionReader",
    "FastClassifier",
    "LstmClassifier",
    "classifier",
]

CLASSIFIERS = ("fast", "lstm", "bert", "bert-frozen")


class CaptionReader(Protocol):
    """A classifier that has read its captions, and can be trained on any of them and asked about others."""

    def probabilities(
        self, train: Positions, labels: NDArray[np.int64], test: Positions, groups: int, seed: int
    ) -> NDArray[np.float64]:
        """(n, groups) for the captions ``test``, trained on the captions ``train`` whose groups are ``labels``."""
        ...


class CaptionClassifier(Protocol):
    """Makes readers of captions."""

    @property
    def id(self) -> str:
        """What a results table calls it."""
        ...

    @property
    def approximate(self) -> bool:
        """Whether it only stands in for the published classifier."""
        ...

    def read(self, tokens: Sequence[Sequence[str]]) -> CaptionReader:
        """A reader of these captions."""
        ...


@dataclass(frozen=True)
class FastClassifier:
    """Linear on words and pairs of words: an approximation of the published classifier."""

    id: str = "fast"
    approximate: bool = True

    def read(self, tokens: Sequence[Sequence[str]]) -> CaptionReader:
        """Counts the words of all captions once."""
        return _FastReader(NgramTable.of(tokens))


@dataclass
class _FastReader:
    table: NgramTable
    weighted: dict[tuple[bytes, bytes], tuple[LinearModel, Any, Any]] = field(default_factory=dict)
    """Weighted counts by split, for shuffled labels come back to the same splits."""

    def probabilities(
        self, train: Positions, labels: NDArray[np.int64], test: Positions, groups: int, seed: int
    ) -> NDArray[np.float64]:
        key = train.tobytes(), test.tobytes()
        if key not in self.weighted:
            trained, tested = self.table.counts[train], self.table.counts[test]
            model = LinearModel(rarity(trained), None, groups)
            made = model, model.features(trained), model.features(tested)
            self.weighted = {**dict(list(self.weighted.items())[-15:]), key: made}
        model, first, last = self.weighted[key]
        return replace(model, regression=regress(first, labels, groups)).of_features(last)


@dataclass(frozen=True)
class LstmClassifier:
    """The published classifier."""

    settings: LstmSettings = field(default_factory=LstmSettings)
    id: str = "lstm"
    approximate: bool = False

    def read(self, tokens: Sequence[Sequence[str]]) -> CaptionReader:
        """Nothing is shared between splits."""
        if find_spec("torch") is None:
            raise MissingExtraError("the lstm classifier", "models")
        return _LstmReader(tokens, self.settings)


@dataclass(frozen=True)
class _LstmReader:
    tokens: Sequence[Sequence[str]]
    settings: LstmSettings

    def probabilities(
        self, train: Positions, labels: NDArray[np.int64], test: Positions, groups: int, seed: int
    ) -> NDArray[np.float64]:
        first, last = ([self.tokens[row] for row in rows] for rows in (train, test))
        return lstm_probabilities(first, labels, last, groups, seed, self.settings)


def classifier(name: str | CaptionClassifier, **options: Any) -> CaptionClassifier:
    """A classifier of captions by its name.

    Args:
        name: ``fast``, ``lstm``, ``bert:NAME`` or ``bert-frozen:NAME`` (``bert-base-uncased`` where there is no NAME);
            or a classifier, which is given back and takes no settings.
        **options: settings of ``lstm`` (:class:`~equipoise.models.caption_classifiers.lstm.LstmSettings`), or
            ``device`` and ``rate`` of the other two; ``fast`` has none.

    Returns:
        The classifier, not yet trained.

    >>> classifier("fast").approximate, classifier("bert-frozen:my-encoder").id
    (True, 'bert-frozen:my-encoder')
    """
    if not isinstance(name, str):
        _refuse_others(options, (), f"a classifier that is made already ({type(name).__name__})")
        return name
    kind, colon, rest = name.partition(":")
    if kind not in CLASSIFIERS:
        raise UnknownNameError("caption classifier", name, CLASSIFIERS)
    if colon and kind in ("fast", "lstm"):
        raise InputError(f"classifier {name!r}: {kind} reads no text encoder; write {kind!r}, or 'bert:NAME'")
    taken = {"fast": (), "lstm": tuple(f.name for f in fields(LstmSettings))}.get(kind, ("device", "rate"))
    _refuse_others(options, taken, f"the caption classifier {kind!r}")
    if kind == "fast":
        return FastClassifier()
    if kind == "lstm":
        return LstmClassifier(LstmSettings(**options))
    return BertClassifier(rest or "bert-base-uncased", frozen=kind == "bert-frozen", **options)


def _refuse_others(options: Iterable[str], taken: tuple[str, ...], who: str) -> None:
    """Refuse settings that ``who`` does not read."""
    for option in options:
        if option not in taken:
            raise InputError(f"{who} has no setting {option!r}; it takes {', '.join(taken) or 'none'}")
