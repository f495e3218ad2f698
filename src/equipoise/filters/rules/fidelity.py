"""Which of several edits of the same image is best: one that follows the prompt and leaves the rest as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from equipoise.array_types import Flags, Floats
from equipoise.data.results import draw_order
from equipoise.errors import InputError, UnknownNameError
from equipoise.filters.protocol import FilterVerdict
from equipoise.filters.remaining import RemainingImages

SIDE = 14
"""Colours are compared on an image of 14 x 14."""
PARTS = ("prompt", "objects", "colour")


@dataclass(frozen=True)
class Fidelity:
    """Of the edits of one image that show one group, the one with the least weighted sum of ranks stays.

    Ranked are the cosine with the prompt, the F1 of detected classes against the original, and how near the colours of
    14 x 14 means are (Hirota et al., EMNLP 2024). Colours are left out where the axis is skin tone: an edit should
    change them. Ties have their average rank; among equal sums the first wins. With no weight at all nothing is ranked
    and one is drawn at random, the "no filter" that the paper compares with; no model is then asked.
    """

    axis: str = "gender"
    weights: Mapping[str, float] = field(default_factory=dict)
    """``prompt``, ``objects``, ``colour``: 1 unless given; 0 leaves one out. All 0: one is drawn at random."""
    colour: str = "auto"
    """``on``, ``off``, or ``auto``: off for skin tone and race."""
    keep: int = 1
    """How many of each image and group stay."""
    threshold: float = 0.5
    """How sure a detection must be."""
    detector: str = ""
    model: str = ""
    seed: int = 0
    """Of the draw, where nothing is ranked; added to the seed of the run."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "inpainting": {},
        "no-filter": {"weights": dict.fromkeys(PARTS, 0.0)},
    }

    def __post_init__(self) -> None:
        for name in self.weights:
            if name not in PARTS:
                raise UnknownNameError("weight of a fidelity score", name, PARTS)
        if self.colour not in ("auto", "on", "off"):
            raise UnknownNameError("choice for colour", self.colour, ("auto", "on", "off"))
        if self.keep < 1:
            raise InputError(f"keep = {self.keep}: at least one edit must stay")

    @property
    def columns(self) -> tuple[str, ...]:
        """Source, prompt and group of each edit."""
        return ("source_id", "caption", self.axis)

    @property
    def needs(self) -> tuple[str, ...]:
        """What the parts with a weight need."""
        by_part = {
            "prompt": "image and caption vectors",
            "objects": "detections",
            "colour": "every image decoded",
        }
        return tuple(by_part[name] for name, weight in self._weights().items() if weight)

    def judge(self, remaining: RemainingImages) -> FilterVerdict:
        """Scores ``prompt``, ``objects``, ``colour`` and ``rank_sum``; originals are not judged and stay."""
        frame = remaining.labelled(self.axis)
        edits = frame["source_id"].notna().to_numpy() & frame[self.axis].notna().to_numpy()
        if not edits.any():
            raise InputError("no image is an edit (with source_id and a group); there is nothing to rank")
        weights = {name: weight for name, weight in self._weights().items() if weight}
        originals = _Originals.of(remaining)
        scores: dict[str, Floats] = {}
        for name in weights:
            scores[name] = getattr(self, f"_{name}")(remaining, originals, edits)
        # What looks at the pixels says which edits are there; annotations know of a broken image, too.
        looks = [scores[name] for name in ("prompt", "colour") if name in scores] or list(scores.values())
        blind = edits & np.isnan(looks).all(axis=0) if looks else np.zeros(len(frame), dtype=bool)
        lot = np.empty(len(frame))
        seed = self.seed + remaining.seed
        lot[draw_order(frame["image_id"].tolist(), seed, "fidelity")] = np.arange(len(frame))
        total = np.full(len(frame), np.nan)
        kept = np.zeros(len(frame), dtype=bool)
        for rows in frame[edits].groupby(["source_id", self.axis], sort=False).indices.values():
            at = np.flatnonzero(edits)[rows]
            sums = rank_sum({name: scores[name][at] for name in weights}, weights) if weights else rankdata(lot[at])
            total[at] = sums
            best = np.argsort(np.where(blind[at], np.inf, sums), kind="stable")[: self.keep]
            kept[at[best]] = True
        kept &= ~blind
        notes = [] if "colour" in weights else ["colours are not compared"]
        if not weights:
            notes = ["nothing is ranked: which edit stays is drawn at random"]
        if blind.any():
            notes.append(f"{int(blind.sum())} edits (or their originals) could not be looked at and go")
        dropped = edits & ~kept
        return FilterVerdict(dropped, dropped, {**scores, "rank_sum": total}, edits, notes)

    def _weights(self) -> dict[str, float]:
        weights = {name: float(self.weights.get(name, 1.0)) for name in PARTS}
        if self.colour == "off" or (self.colour == "auto" and self.axis in ("skin_tone", "race")):
            weights["colour"] = 0.0
        return weights

    def _prompt(self, remaining: RemainingImages, originals: _Originals, edits: Flags) -> Floats:
        of_text, distinct = pd.factorize(remaining.column("caption"))
        if (of_text[edits] < 0).any():
            raise InputError("an edit has no caption, which its prompt score needs")
        texts = remaining.text_vectors([str(text) for text in distinct], self.model)
        images = remaining.image_vectors(self.model)
        return np.where(edits, np.einsum("nd,nd->n", images, texts[np.clip(of_text, 0, None)]), np.nan)

    def _objects(self, remaining: RemainingImages, originals: _Originals, edits: Flags) -> Floats:
        mine = remaining.detections(self.detector, threshold=self.threshold)
        theirs = mine if originals.same else originals.remaining.detections(self.detector, threshold=self.threshold)
        out = np.full(len(mine), np.nan)
        for i in np.flatnonzero(edits):
            edit, original = mine[i], theirs[originals.of_edit[i]]
            if edit is not None and original is not None:
                out[i] = object_f1(set(edit.labels), set(original.labels))
        return out

    def _colour(self, remaining: RemainingImages, originals: _Originals, edits: Flags) -> Floats:
        mine = _thumbnails(remaining)
        theirs = mine if originals.same else _thumbnails(originals.remaining)
        out = np.full(len(mine), np.nan)
        out[edits] = colour_fidelity(mine[edits], theirs[originals.of_edit[edits]])
        return out


@dataclass(frozen=True)
class _Originals:
    """Where the original of each edit is: in the table itself, or in the reference."""

    remaining: RemainingImages
    of_edit: NDArray[np.int64]
    same: bool

    @classmethod
    def of(cls, remaining: RemainingImages) -> _Originals:
        same = remaining.models.reference is None
        home = remaining if same else remaining.reference()
        place = pd.Index(home.frame["image_id"]).get_indexer(pd.Index(remaining.frame["source_id"]))
        lost = (place < 0) & remaining.frame["source_id"].notna().to_numpy()
        if lost.any():
            name = remaining.frame["source_id"][lost].iloc[0]
            if same and name in set(remaining.table.to_pandas(["image_id"])["image_id"]):
                raise InputError(
                    f"the original {name!r} was dropped by an earlier filter; put fidelity first, or give the table of "
                    "originals as reference"
                )
            raise InputError(f"the original {name!r} is neither in the table nor in a reference; give its table")
        return cls(home, place.astype(np.int64), same)


def rank_sum(scores: Mapping[str, Any], weights: Mapping[str, float] | None = None) -> Floats:
    """The weighted sum of the ranks of each candidate over several scores.

    Args:
        scores: by name, (j,) the score of each candidate, higher is better; a missing one (NaN) ranks last.
        weights: by name, what the ranks of a score are multiplied with; 1 where nothing is said.

    Returns:
        (j,) sums of ranks, of which 1 is the highest score; ties share their average rank, so the least sum is best.

    >>> rank_sum({"prompt": [0.30, 0.28, 0.25], "objects": [0.5, 1, 0.8], "colour": [0.2, 0.1, 0.4]}).tolist()
    [6.0, 6.0, 6.0]
    """
    total: Floats | None = None
    for name, values in scores.items():
        numbers = np.asarray(values, dtype=np.float64)
        ranks = rankdata(-np.where(np.isnan(numbers), -np.inf, numbers), method="average")
        part = (1.0 if weights is None else float(weights.get(name, 1.0))) * ranks
        total = part if total is None else total + part
    if total is None:
        raise InputError("rank_sum needs at least one score")
    return total


def object_f1(edited: set[str], original: set[str]) -> float:
    """F1 of the classes found in an edit against those in its original; two empty images agree.

    >>> object_f1({"dog", "cat"}, {"dog"}), object_f1(set(), set())
    (0.6666666666666666, 1.0)
    """
    if not edited and not original:
        return 1.0
    return 2 * len(edited & original) / (len(edited) + len(original))


def colour_fidelity(edited: Any, original: Any) -> Floats:
    """(n,) 1 / distance of the colour means (n, 588) of two images; the same image has infinity.

    >>> colour_fidelity([[0.0, 0.5]], [[0.0, 0.0]]).tolist()
    [2.0]
    """
    distance = np.linalg.norm(np.asarray(edited, dtype=np.float64) - np.asarray(original, dtype=np.float64), axis=1)
    with np.errstate(divide="ignore"):
        return np.asarray(1 / distance)


def thumbnail(image: Any) -> NDArray[np.float32]:
    """(588,) the mean colours of 14 x 14 equal areas of an RGB image, from 0 to 1.

    >>> from PIL import Image
    >>> thumbnail(Image.new("RGB", (28, 28), "white")).mean()
    np.float32(1.0)
    """
    from PIL import Image

    bands = [
        np.asarray(band.convert("F").resize((SIDE, SIDE), Image.Resampling.BOX), dtype=np.float32)
        for band in image.split()
    ]
    return np.stack(bands, axis=-1).ravel() / np.float32(255)


@dataclass(frozen=True)
class Thumbnails:
    """Mapped over a table: the colour means of every image."""

    key: str = "colour means 14 x 14"

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """One list of 588 numbers for each image."""
        return [{"thumbnail": [float(v) for v in thumbnail(row["image"])]} for row in rows]


def _thumbnails(remaining: RemainingImages) -> Floats:
    thumbnails = remaining.measured("colours", Thumbnails(), {"thumbnail": "list<float32>"})["thumbnail"]
    empty = np.full(3 * SIDE * SIDE, np.nan)
    return np.stack([np.asarray(v, dtype=np.float64) if np.ndim(v) == 1 else empty for v in thumbnails])
