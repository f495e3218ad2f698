"""BendVLM: move each query to where reference images of all groups are equally near (Gerych et al., 2024).

For a query z, at test time, in two steps:

1. With the vectors of the same text naming each group ("a female nurse", "a male nurse"), what differs from z along
   their span is taken out of it: z' = z - A A^+ z, the columns of A the differences of those vectors from z. Without
   an encoder at hand (precomputed vectors, or an axis whose groups cannot be named by one word) this step is left out.
2. Of the reference images, those that the remedy was fitted on, the ``nearest`` to z' of every group stand for it. The
   nearest unit vector to z' with the same mean similarity to each group's is z' projected on what is orthogonal to the
   differences of the groups' means: a closed form.

Images are not changed. A text that names a group itself is left alone: whoever asks for women is not shown men.

When it lies: equal means are not equal rankings. And the reference images are of other subjects: what the model
believes of this one may not show in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError
from equipoise.mitigate.base import BaseRemedy
from equipoise.mitigate.prompts import named, names_group
from equipoise.mitigate.protocol import FittedOn, Labelled, Queries, checked_side, checked_vectors, unit_rows

_RANK = 1e-6
_LEAST = 1e-3


class Bend(BaseRemedy):
    """Equalises each query's similarity to groups of reference images; see the module.

    >>> images = [[1.0, 0.2, 0.0], [1.0, -0.2, 0.0], [0.9, 0.3, 0.1], [0.9, -0.3, 0.1]]
    >>> remedy = Bend(nearest=2).fit(images, {"gender": ["f", "m", "f", "m"]})
    >>> query = remedy.transform([[0.8, 0.6, 0.0]], "text")
    >>> means = np.array(images)[[0, 2]].mean(0), np.array(images)[[1, 3]].mean(0)
    >>> bool(abs(query[0] @ (means[0] - means[1])) < 1e-6)
    True
    """

    name = "bend"
    changes = "texts"

    def __init__(self, nearest: int = 100, references: int = 2000, seed: int = 0) -> None:
        if nearest < 1 or references < 1:
            raise InputError(f"nearest={nearest}, references={references}: give at least 1 of each")
        self.nearest, self.references, self.seed = int(nearest), int(references), int(seed)
        self._references: tuple[NDArray[np.float32], NDArray[np.int64]] | None = None

    def learn(self, known: Labelled) -> None:
        """Take so many ``references`` of each group of every axis, drawn by ``seed``, as reference images."""
        rng = np.random.default_rng(self.seed)
        codes = np.stack(list(known.codes.values()))
        kept = np.zeros(len(known.vectors), dtype=bool)
        for of_axis in codes:  # a draw by one axis alone may leave out a rare group of another
            for group in range(int(of_axis.max()) + 1):
                mine = np.flatnonzero(of_axis == group)
                kept[mine if len(mine) <= self.references else rng.choice(mine, self.references, replace=False)] = True
        self._references = unit_rows(known.vectors[kept]), codes[:, kept]

    def transform(self, vectors: ArrayLike, side: str = "image", query: Queries | None = None) -> NDArray[np.float32]:
        """(m, d) queries at the same mean similarity to each group's images; those of images as they are."""
        reference, _ = self.learnt(self._references)
        rows = unit_rows(checked_vectors(vectors, reference.shape[1]))
        if checked_side(side) == "image":
            return rows
        assert self.fitted_on is not None
        out = rows.copy()
        for i, row in enumerate(rows):
            if query is not None and names_group(query.texts[i], self.fitted_on.groups):
                continue
            local = row if query is None or query.naming is None else _away_from(row, unit_rows(query.naming[i]))
            out[i] = unit_rows(self._equalised(local)[None], np.ones(1))[0]
        return out

    def naming(self, text: str) -> list[str]:
        """The text with each group named, for the first step; nothing where a group is no word to put before a noun."""
        assert self.fitted_on is not None
        if set(self.fitted_on.groups) != {"gender"}:
            return []
        return [named(text, group) for group in self.fitted_on.groups["gender"]]

    def state(self) -> dict[str, NDArray[Any]]:
        """The reference images' vectors and groups."""
        reference, codes = self.learnt(self._references)
        return {"vectors": reference, "codes": codes}

    def restore(self, state: Mapping[str, NDArray[Any]], fitted_on: FittedOn) -> Self:
        """Take a state that was kept."""
        codes = np.asarray(state["codes"], dtype=np.int64)
        for (axis, names), of_axis in zip(fitted_on.groups.items(), codes, strict=False):
            lacking = sorted(set(range(len(names))) - set(of_axis.tolist()))
            if lacking:  # older releases drew by the first axis alone
                raise InputError(
                    f"this bend has no reference image of {axis} {names[lacking[0]]!r}; fit it anew in another folder"
                )
        self._references, self.fitted_on = (np.asarray(state["vectors"], dtype=np.float32), codes), fitted_on
        return self

    def _equalised(self, row: NDArray[Any]) -> NDArray[np.float64]:
        reference, codes = self.learnt(self._references)
        scores = reference @ row
        apart = []
        for of_axis in codes:
            means = []
            for group in range(int(of_axis.max()) + 1):
                mine = np.flatnonzero(of_axis == group)
                n = min(self.nearest, len(mine))
                near = mine[np.argpartition(-scores[mine], n - 1)[:n]]
                means.append(reference[near].mean(axis=0, dtype=np.float64))
            apart += [mean - means[0] for mean in means[1:]]
        return _without(row, np.stack(apart))


def _away_from(row: NDArray[Any], named: NDArray[Any]) -> NDArray[Any]:
    """The first step; a query that lies in the span of its differences altogether stays, or nothing would be left."""
    left = _without(row, named - row)
    return left if np.linalg.norm(left) > _LEAST else row


def _without(row: NDArray[Any], directions: NDArray[Any]) -> NDArray[np.float64]:
    """``row`` without what lies in the span of the rows of ``directions``."""
    _, sizes, rows = np.linalg.svd(np.asarray(directions, dtype=np.float64), full_matrices=False)
    rows = rows[sizes > _RANK * max(float(sizes[0]), 1e-12)]
    return np.asarray(row - rows.T @ (rows @ row))
