"""Images that cannot be read: each costs its own row, is counted and named, and too many of them stop the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike

from equipoise.errors import InputError

MOST = 0.05
"""The share of images that may be unreadable before a run stops, unless it is told another."""
_NAMED = 5


@dataclass
class Unreadable:
    """The images of a table, or of a folder, that could not be read, with the reasons."""

    where: str | PathLike[str]
    n: int
    """How many images are asked for."""
    most: float = MOST
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, reason: object) -> None:
        """Note one more; an InputError with the first names where they are too many.

        >>> found = Unreadable("sets", n=40)
        >>> found.add("a", "it is truncated"), found.add("b", "it is missing")
        (None, None)
        >>> print(*found.notes())
        2 of 40 images left out that cannot be read: 'a' (it is truncated), 'b' (it is missing)
        >>> found.add("c", "it is empty")
        Traceback (most recent call last):
            ...
        equipoise.errors.InputError: sets: 3 of 40 images cannot be read so far, more than 5%: 'a' (it is truncated), \
'b' (it is missing), 'c' (it is empty); fix them, or allow more with --max-broken
        """
        self.reasons[name] = " ".join(str(reason).split())
        if len(self.reasons) > self.most * self.n:
            raise InputError(
                f"{self.where}: {len(self.reasons):,} of {self.n:,} images cannot be read so far, more than "
                f"{100 * self.most:.3g}%: {self._named()}; fix them, or allow more with --max-broken"
            )

    def notes(self) -> list[str]:
        """What a reader of the results must know; nothing where every image could be read."""
        if not self.reasons:
            return []
        return [f"{len(self.reasons):,} of {self.n:,} images left out that cannot be read: {self._named()}"]

    def _named(self) -> str:
        first = [f"{name!r} ({reason})" for name, reason in list(self.reasons.items())[:_NAMED]]
        return ", ".join(first) + (", ..." if len(self.reasons) > _NAMED else "")
