"""A caption and a biased version of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

__all__ = ["KINDS", "CaptionPair", "Kind"]

Kind = Literal["swap", "fill", "merged"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class CaptionPair:
    """What is wrong with ``biased``, and how sure the classifiers are of it."""

    image_id: str
    biased: str
    original: str
    kind: Kind
    group: str
    """The group that the original names."""
    says: str
    """The group that the biased caption names."""
    p_before: float
    """The probability of ``group`` by the other words of the original."""
    p_after: float
    """The same by the other words of the biased caption."""
    p_authentic: float | None
    """The probability that people wrote the filled caption; none for a swap, which is not filled."""
    replaced: tuple[tuple[str, str], ...] = ()
    """The content words that were filled: old and new."""

    def plain(self) -> dict[str, Any]:
        """As a row of the file of pairs."""
        return asdict(self)
