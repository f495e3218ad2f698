"""Group labels: integers with names, any number of groups, any intersection of axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Codes
from equipoise.errors import InputError, UnknownNameError
from equipoise.text.labels import read_labels

UNDEFINED = -1
"""The label of an image whose group is not known; never a guess."""


@dataclass(frozen=True)
class Groups:
    """One label per image: ``labels`` (N,) index into ``names``; -1 is undefined.

    A name without an image is a group all the same: it is reported, not renumbered.

    >>> g = Groups.from_values(["f", "m", None, "m"], axis="gender")
    >>> g.names, g.labels.tolist(), g.counts().tolist(), g.n_undefined
    (('f', 'm'), [0, 1, -1, 1], [1, 2], 1)
    >>> g.index("x")
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no group named 'x'; known: f, m
    """

    labels: Codes
    names: tuple[str, ...]
    axis: str = ""
    notes: tuple[str, ...] = ()
    """What was joined or taken for unknown when the labels were read, for whoever reports on these groups."""

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        if labels.ndim != 1:
            raise InputError(f"labels has shape {labels.shape}; give one integer per image")
        if labels.size and not np.issubdtype(labels.dtype, np.integer):
            raise InputError(f"labels has type {labels.dtype}; give integers, -1 for undefined, or use from_values")
        names = tuple(str(name) for name in self.names)
        if not names:
            raise InputError("names is empty; a set of groups has at least one name")
        if len(set(names)) < len(names):
            raise InputError(f"names holds {next(n for n in names if names.count(n) > 1)!r} twice")
        wrong = (labels < UNDEFINED) | (labels >= len(names))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(
                f"labels[{at}] = {labels[at]}: with {len(names)} groups a label is 0 to {len(names) - 1}, "
                "or -1 for undefined"
            )
        object.__setattr__(self, "labels", labels.astype(np.int32))
        object.__setattr__(self, "names", names)

    @classmethod
    def from_values(cls, values: ArrayLike, names: Sequence[str] | None = None, *, axis: str = "") -> Groups:
        """Labels from a column of names or numbers, read as :func:`equipoise.text.labels.read_labels` says.

        Spellings that differ in case or space are one group; ``None``, NaN and words such as "N/A" or "unknown" are
        undefined; whole numbers are groups named "0", "1", … ``names`` fixes the groups and their order; a value that
        is not among them is an error. Without it the groups are the values found, sorted. ``notes`` says what was
        joined.

        >>> g = Groups.from_values(["male", "Male", "female", "male", "N/A"], axis="gender")
        >>> g.names, g.labels.tolist(), g.notes
        (('female', 'male'), [1, 1, 0, 1, -1], ("gender: 'Male' read as 'male'; 1 'N/A' read as unknown",))
        """
        read = read_labels(values, names)
        note = read.note(axis)
        return cls(read.codes.astype(np.int32), read.names, axis, (note,) if note else ())

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n_groups(self) -> int:
        """How many groups have a name."""
        return len(self.names)

    @property
    def n_undefined(self) -> int:
        """How many images have no group."""
        return int((self.labels == UNDEFINED).sum())

    @property
    def defined(self) -> NDArray[np.bool_]:
        """(N,) whether each image has a group."""
        return np.asarray(self.labels >= 0)

    def index(self, name: str) -> int:
        """The label of the group called ``name``."""
        if name not in self.names:
            raise UnknownNameError("group", name, self.names)
        return self.names.index(name)

    def counts(self) -> NDArray[np.int64]:
        """(G,) images of each group."""
        return np.bincount(self.labels + 1, minlength=self.n_groups + 1)[1:].astype(np.int64)

    def take(self, which: ArrayLike) -> Groups:
        """The groups of some of the images: a mask or indices; the names stay."""
        return Groups(self.labels[np.asarray(which)], self.names, self.axis, self.notes)

    def check_length(self, n_images: int) -> None:
        """Refuse labels that are not one per image."""
        if len(self.labels) != n_images:
            raise InputError(f"labels has {len(self.labels)} entries for {n_images} images; give one per image")


def intersect(*axes: Groups) -> Groups:
    """The joint groups of any number of axes, in the order of their product; undefined on one axis is undefined.

    >>> race = Groups.from_values(["A", "B", "B"], axis="race")
    >>> gender = Groups.from_values(["f", "f", None], axis="gender")
    >>> both = intersect(race, gender)
    >>> both.names, both.labels.tolist(), both.axis
    (('A & f', 'B & f'), [0, 1, -1], 'race & gender')
    """
    if not axes:
        raise InputError("intersect needs at least one axis")
    labels = axes[0].labels.astype(np.int64)
    names = list(axes[0].names)
    for axis in axes[1:]:
        if len(axis) != len(labels):
            raise InputError(
                f"axis {(axis.axis or axis.names)!r} has {len(axis)} labels and {(axes[0].axis or axes[0].names)!r} "
                f"has {len(labels)}; intersecting axes label the same images"
            )
        undefined = (labels < 0) | (axis.labels < 0)
        labels = np.where(undefined, UNDEFINED, labels * axis.n_groups + axis.labels)
        names = [f"{left} & {right}" for left in names for right in axis.names]
    title = " & ".join(axis.axis for axis in axes if axis.axis)
    notes = dict.fromkeys(note for axis in axes for note in axis.notes)
    return Groups(labels.astype(np.int32), tuple(names), title, tuple(notes))
