"""The captions of images as queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.errors import InputError

__all__ = ["Captions", "captions_of", "distinct", "known_captions"]


@dataclass(frozen=True)
class Captions:
    """Every caption, the row number of its image, and a name for it that two audits of one table share."""

    texts: list[str]
    image: NDArray[np.int64]
    names: list[str]

    def __len__(self) -> int:
        return len(self.texts)

    def of_images(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
        """The numbers of the captions whose image is among ``rows``."""
        return np.flatnonzero(np.isin(self.image, np.flatnonzero(rows) if rows.dtype == bool else rows))


def known_captions(frame: pd.DataFrame) -> list[list[str]]:
    """``captions`` of each image, else its one ``caption``; empty ones and repetitions on the same image left out.

    >>> known_captions(pd.DataFrame({"captions": [["x", "y", "x"], None], "caption": [None, "z"]}))
    [['x', 'y'], ['z']]
    """
    several = frame["captions"].tolist() if "captions" in frame else [None] * len(frame)
    single = frame["caption"].tolist() if "caption" in frame else [None] * len(frame)
    captions = []
    for many, caption in zip(several, single, strict=True):
        known = many if isinstance(many, (list, tuple, np.ndarray)) and len(many) else [caption]
        captions.append(distinct([text for text in known if isinstance(text, str) and text.strip()]))
    return captions


def captions_of(ids: Sequence[str], known: Sequence[Sequence[str]], suite: str) -> Captions:
    """The captions of some images as queries.

    Args:
        ids: the image ids, by which the captions are named.
        known: the captions of each image, as :func:`known_captions` gives them; empty for an image without any.
        suite: who asks, for the error where no image has a caption.

    Returns:
        All captions, image by image.

    >>> captions = captions_of(["a", "b"], [["x", "y"], ["z"]], "example")
    >>> captions.texts, captions.image.tolist(), captions.names
    (['x', 'y', 'z'], [0, 0, 1], ['a/0', 'a/1', 'b/0'])
    """
    texts = [text for some in known for text in some]
    if not texts:
        raise InputError(f"suite {suite!r} asks by captions, but no image has one in 'captions' or 'caption'")
    image = np.repeat(np.arange(len(ids)), [len(some) for some in known])
    names = [f"{name}/{number}" for name, some in zip(ids, known, strict=True) for number in range(len(some))]
    return Captions(texts, image, names)


def distinct(texts: Sequence[str]) -> list[str]:
    """Each text once, in order."""
    return list(dict.fromkeys(texts))
