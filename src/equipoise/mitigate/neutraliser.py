"""A neutraliser of texts, after SANER (Hirota et al.): t + r(t) is equally near to every group, unless t names one.

It learns from sets of prompts: one that names nobody, and the same naming each group. For the neutral ones, r is to
make the similarity to the named ones equal (the variance over groups of cos(t', t_g), in each set), and to
move the text as little as can be; for the named ones it is to do nothing. At test time a text that names a group by its
words is not changed at all, where the words are known. Images are not changed.

No image is needed, and no label of an image, as in the paper.

When it lies: it makes texts neutral as the text encoder sees groups. What the image encoder adds is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError
from equipoise.mitigate.base import checked_share
from equipoise.mitigate.learning import LearnedMapRemedy, ResidualMap, trained
from equipoise.mitigate.prompts import names_group
from equipoise.mitigate.protocol import Axes, FittedOn, Queries, checked_side, checked_vectors, unit_rows


class Neutraliser(LearnedMapRemedy):
    """Adds a learned vector to each text's; see the module."""

    name = "neutraliser"
    changes = "texts"
    learns_from = "texts"
    names_subjects = True

    def __init__(
        self,
        share: float = 1.0,
        steps: int = 400,
        hidden: int = 128,
        rate: float = 2e-3,
        move: float = 0.05,
        seed: int = 0,
    ) -> None:
        if min(steps, hidden) < 1 or not rate > 0 or move < 0:
            raise InputError("steps, hidden and rate are numbers above 0, and move is not below")
        self.share, self.steps, self.hidden = checked_share(share), int(steps), int(hidden)
        self.rate, self.move, self.seed = float(rate), float(move), int(seed)

    def fit(self, vectors: ArrayLike, groups: Axes, *, sets: Sequence[Any] | None = None) -> Self:
        """Train on (n, d) ``vectors`` of prompts; those without a group on any axis are the neutral ones of a set."""
        every = unit_rows(checked_vectors(vectors))
        neutral, named, names = _prompt_sets(every, groups, sets)
        self._map = self._trained(every, neutral, named)
        used = len(neutral) + sum(map(len, named))
        self.fitted_on = FittedOn(used, len(neutral), names, n_left_out=len(every) - used, learnt_from=self.learns_from)
        return self

    def transform(self, vectors: ArrayLike, side: str = "image", query: Queries | None = None) -> NDArray[np.float32]:
        """(m, d) vectors of texts with what is added to them, of unit length; those of images as they are."""
        added, about = self.learnt(self._map), self.learnt(self.fitted_on)
        if checked_side(side) == "image":
            return unit_rows(checked_vectors(vectors, added.width))
        out = added.moved(vectors, self.share)
        if query is not None:
            alone = np.array([names_group(text, about.groups) for text in query.texts], dtype=bool)
            out[alone] = unit_rows(checked_vectors(vectors, added.width)[alone])
        return out

    def _trained(self, rows: NDArray[np.float32], neutral: list[int], named: list[list[int]]) -> ResidualMap:
        import torch
        from torch.nn.functional import normalize

        texts = torch.from_numpy(rows)
        plain = texts[neutral]
        groups = [texts[rows_of_group] for rows_of_group in named]
        explicit = torch.cat(groups)

        def loss(module: Any, generator: Any, step: int) -> Any:
            changed = normalize(plain + module(plain), dim=1)
            apart = [(of @ vector).var(correction=0) for vector, of in zip(changed, groups, strict=True)]
            moved = (changed - plain).square().sum(dim=1).mean()
            kept = module(explicit).square().sum(dim=1).mean()
            return torch.stack(apart).mean() * 10 + self.move * moved + kept

        return trained(rows.shape[1], self.hidden, self.steps, self.rate, self.seed, loss)


def _prompt_sets(
    rows: NDArray[np.float32], groups: Axes, sets: Sequence[Any] | None
) -> tuple[list[int], list[list[int]], dict[str, tuple[str, ...]]]:
    """The neutral row of each set, the rows of its groups, and the groups of each axis."""
    if not groups or any(len(labels) != len(rows) for labels in groups.values()):
        raise InputError("groups: name at least one axis, with the group of every vector")
    if sets is None or len(sets) != len(rows):
        raise InputError("a neutraliser learns from sets of prompts; say which belong together with sets=...")
    is_named = [any(labels[i] is not None for labels in groups.values()) for i in range(len(rows))]
    neutral, named = [], []
    members: dict[Any, list[int]] = {}
    for i, name in enumerate(sets):
        members.setdefault(name, []).append(i)
    for mine in members.values():
        plain, said = [i for i in mine if not is_named[i]], [i for i in mine if is_named[i]]
        if plain and len(said) > 1:
            neutral.append(plain[0])
            named.append(said)
    if not neutral:
        raise InputError("no set has a prompt that names nobody and two that name groups; see --prompts")
    names = {axis: tuple(sorted({str(g) for g in labels if g is not None})) for axis, labels in groups.items()}
    return neutral, named, names
