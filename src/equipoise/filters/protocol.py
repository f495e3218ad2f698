"""What a filter is, and what it says.

The filters, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from equipoise.array_types import Flags
from equipoise.errors import InputError
from equipoise.registry import Registry

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

    from equipoise.filters.remaining import RemainingImages

FILTERS = Registry("filter")
"""A target is a dataclass whose fields are the settings; see :class:`equipoise.filters.protocol.Filter`."""

for _name, _target, _summary, _citation in (
    (
        "similarity",
        "rules.similarity:Similarity",
        "Do image and caption fit, and do the images of a set resemble each other?",
        "SocialCounterfactuals (Howard et al., CVPR 2024); InstructPix2Pix (Brooks et al., CVPR 2023)",
    ),
    (
        "knn",
        "rules.knn:Neighbourhood",
        "Do edited people lie among real ones, and among those of their group?",
        "GenSynth (Smith et al., arXiv 2305.15407), Section 4.2",
    ),
    (
        "safety",
        "rules.safety:Safety",
        "Does a classifier call an image unsafe, or did a safety checker blacken it?",
        "SocialCounterfactuals (Howard et al., CVPR 2024), Section 8.2",
    ),
    (
        "detectability",
        "rules.detectability:Detectability",
        "Can the groups, and the subject, be seen in enough images of a set?",
        "SocialCounterfactuals (Howard et al., CVPR 2024), Section 8.3",
    ),
    (
        "fidelity",
        "rules.fidelity:Fidelity",
        "Which of several edits of an image is best: prompt, objects, colours?",
        "Hirota et al., Resampled Datasets Are Not Enough (EMNLP 2024)",
    ),
    (
        "people",
        "rules.people:People",
        "How many people are there, are they what the image shows, can a face be seen?",
        "GABInsight (Abdollahi et al., arXiv 2407.21001)",
    ),
    (
        "sharpness",
        "rules.sharpness:Sharpness",
        "Are faces, or people, sharp?",
        "Pech-Pacheco et al., variance of the Laplacian (ICPR 2000)",
    ),
    (
        "duplicates",
        "rules.duplicates:Duplicates",
        "Is the image nearly the same as one that is there already?",
        "Equipoise",
    ),
    (
        "quality",
        "rules.quality:Quality",
        "How real and how varied is what is left, for each group? It drops nothing.",
        "GABInsight (Abdollahi et al., arXiv 2407.21001); FID (Heusel et al., NeurIPS 2017)",
    ),
):
    FILTERS.add(_name, f"equipoise.filters.{_target}", summary=_summary, citation=_citation, licence="Apache-2.0")


@dataclass
class FilterVerdict:
    """What a filter says of n images, in the order of the remaining images.

    >>> FilterVerdict(failed=[True, False], dropped=[True, True], scores={"unsafe": [0.9, 0.1]}).dropped.tolist()
    [True, True]
    """

    failed: Any
    """(n,) which images failed themselves; a set may go because of one of them."""
    dropped: Any
    """(n,) which images go."""
    scores: dict[str, Any] = field(default_factory=dict)
    """(n,) values by name, written as ``score_<name>``; NaN where there is none."""
    judged: Any = None
    """(n,) which images were asked about at all (not the real ones, say); all unless given."""
    notes: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    """Rows of a results table, for filters that also measure."""
    files: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Small tables for the reader, by file name without ending."""
    pictures: dict[str, Image.Image] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.failed, self.dropped = np.asarray(self.failed, dtype=bool), np.asarray(self.dropped, dtype=bool)
        n = len(self.failed)
        self.judged = np.ones(n, dtype=bool) if self.judged is None else np.asarray(self.judged, dtype=bool)
        self.scores = {name: np.asarray(values, dtype=np.float64) for name, values in self.scores.items()}
        for name, values in {"dropped": self.dropped, "judged": self.judged, **self.scores}.items():
            if len(values) != n:
                raise InputError(f"a verdict has {len(values)} entries of {name!r} for {n} images")


class Filter(Protocol):
    """A frozen dataclass whose fields are the settings, each with the paper's value as default."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    """Settings by name: what a paper or a code base used."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns the table must have."""

    @property
    def needs(self) -> tuple[str, ...]:
        """What must be computed or given, in words, for the dry run."""

    def judge(self, remaining: RemainingImages) -> FilterVerdict:
        """What this filter says of the images that are still there."""


def below(values: Any, least: float | None) -> Flags:
    """(n,) which values are under ``least``, or missing; none where ``least`` is ``None``.

    A share such as 4/50 that equals the limit up to rounding is not under it.

    >>> below([0.1, float("nan"), 0.2], 0.2).tolist()
    [True, True, False]
    """
    numbers = np.asarray(values, dtype=np.float64)
    if least is None:
        return np.zeros(len(numbers), dtype=bool)
    return np.asarray(~(numbers >= least - 1e-12))


def whole_sets(failed: Any, sets: Any) -> Flags:
    """(n,) which images are in a set (n,) of which one failed.

    >>> whole_sets([True, False, False], [0, 0, 1]).tolist()
    [True, True, False]
    """
    bad, codes = np.asarray(failed, dtype=bool), np.asarray(sets, dtype=np.int64)
    if not len(codes):
        return bad
    hit = np.zeros(int(codes.max()) + 1, dtype=bool)
    hit[codes[bad]] = True
    return np.asarray(hit[codes])
