"""The captions that LIC compares: a captioner's, and those of people on the same images."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.measure.captions.masking import hide_unknown, masked, tokens_of
from equipoise.text import Lexicon


@dataclass(frozen=True)
class Side:
    """The captions of one side, as tokens, with their groups."""

    name: str
    ids: Sequence[Hashable]
    tokens: Sequence[Sequence[str]]
    labels: NDArray[np.int64]
    caption: int = 0


def reference_sides(
    ours: Side, references: Mapping[Any, Sequence[str]], lexicon: Lexicon | None, vocabulary: frozenset[str]
) -> tuple[list[Side], Side]:
    """The references, one side per caption of an image, and the captioner on the same images."""
    rows = [row for row, i in enumerate(ours.ids) if references.get(i)]
    if not rows:
        raise InputError("no image of the captions has references: their ids have nothing in common")
    ids = [ours.ids[row] for row in rows]
    labels = ours.labels[rows]
    most = max(len(references[i]) for i in ids)
    sides = []
    for k in range(most):  # an image with fewer captions gives one of its own again
        texts = masked([references[i][k % len(references[i])] for i in ids], lexicon)
        sides.append(Side("references", ids, hide_unknown(tokens_of(texts), vocabulary), labels, k))
    if len(rows) == len(ours.ids):
        return sides, ours
    return sides, Side("model on images with references", ids, [ours.tokens[row] for row in rows], labels)
