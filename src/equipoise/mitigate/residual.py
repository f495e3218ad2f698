"""An additive residual with an adversary: e + r(e), so that the group cannot be told from it (after DeAR, Seth et al.).

A small network r is added to each image's vector. It learns against an adversary, a classifier of the groups of every
axis on e + r(e), which learns all the while: r is to leave the adversary with equal shares for all groups, and to move
vectors as little as can be: loss = |e' - e|^2 + weight * CE(adversary(e'), equal shares). In the paper the classifiers
are trained first and then frozen; an adversary that goes on learning cannot be left behind by a map that only fools one
classifier. Texts are not changed.

When it lies: the adversary is as strong as it was trained to be. A probe that is fitted anew may still find the group;
the tournament judges by rankings and gaps, not by the adversary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError
from equipoise.mitigate.base import BaseRemedy, fitted_on
from equipoise.mitigate.learning import ResidualMap, trained
from equipoise.mitigate.protocol import (
    Axes,
    FittedOn,
    Labelled,
    Queries,
    checked_groups,
    checked_side,
    checked_vectors,
    unit_rows,
)

__all__ = ["Residual"]

ADVERSARY_STEPS = 4
"""Steps of the adversary for each of the map: one that lags behind is chased round in circles."""


class Residual(BaseRemedy):
    """Adds a learned vector to each image's; see the module."""

    name = "residual"
    changes = "images"

    def __init__(
        self,
        weight: float = 1.0,
        steps: int = 300,
        hidden: int = 128,
        batch: int = 512,
        rate: float = 5e-4,
        seed: int = 0,
    ) -> None:
        if not weight > 0 or min(steps, hidden, batch) < 1 or not rate > 0:
            raise InputError("weight, steps, hidden, batch and rate are numbers above 0")
        self.weight, self.steps, self.hidden = float(weight), int(steps), int(hidden)
        self.batch, self.rate, self.seed = int(batch), float(rate), int(seed)
        self.fitted_on = None
        self._map: ResidualMap | None = None

    def fit(self, vectors: ArrayLike, groups: Axes, *, sets: Sequence[Any] | None = None) -> Self:
        """Train the map on (n, d) ``vectors``; ``sets`` do not matter to it."""
        every = checked_vectors(vectors)
        known = checked_groups(every, groups, sets, compares=False)
        self._map = self._trained(known)
        self.fitted_on = fitted_on(known, len(every), self.learns_from)
        return self

    def transform(self, vectors: ArrayLike, side: str = "image", query: Queries | None = None) -> NDArray[np.float32]:
        """(m, d) vectors of images with what is added to them, of unit length; those of texts as they are."""
        if self._map is None:
            raise InputError("this residual is not fitted; call fit first")
        if checked_side(side) == "text":
            return unit_rows(checked_vectors(vectors, self._map.width))
        return self._map.moved(vectors)

    def settings(self) -> dict[str, Any]:
        """The keywords that make such a remedy again."""
        names = ("weight", "steps", "hidden", "batch", "rate", "seed")
        return {name: getattr(self, name) for name in names}

    def state(self) -> dict[str, NDArray[Any]]:
        """The map's weights."""
        if self._map is None:
            raise InputError("this residual is not fitted; call fit first")
        return self._map.state()

    def restore(self, state: Mapping[str, NDArray[Any]], fitted_on: FittedOn) -> Self:
        """Take a state that was kept."""
        self._map, self.fitted_on = ResidualMap.from_state(state), fitted_on
        return self

    def _trained(self, known: Labelled) -> ResidualMap:
        import torch
        from torch.nn.functional import cross_entropy, normalize

        images = torch.from_numpy(unit_rows(known.vectors))
        codes = [torch.from_numpy(numbers) for numbers in known.codes.values()]
        sizes = [len(names) for names in known.names.values()]
        d, batch = images.shape[1], min(self.batch, len(images))

        def adversaries(generator: Any) -> Any:
            body = torch.nn.Sequential(
                torch.nn.Linear(d, self.hidden), torch.nn.ReLU(), torch.nn.Linear(self.hidden, sum(sizes))
            )
            return body, torch.optim.Adam(body.parameters(), lr=2 * self.rate)

        def guesses_of(body: Any, vectors: Any) -> Any:
            # unit vectors of a wide space have tiny numbers; the adversary sees them at unit variance
            return body(vectors * d**0.5).split(sizes, dim=1)

        def loss(module: Any, generator: Any, step: int) -> Any:
            body, optimiser = module.against
            rows = torch.randint(len(images), (batch,), generator=generator)
            chosen = images[rows]
            changed = normalize(chosen + module(chosen), dim=1)
            for _ in range(ADVERSARY_STEPS):
                optimiser.zero_grad(set_to_none=True)
                guesses = guesses_of(body, changed.detach())
                sum(cross_entropy(guess, mine[rows]) for guess, mine in zip(guesses, codes, strict=True)).backward()
                optimiser.step()
            fooled = [-guess.log_softmax(dim=1).mean() for guess in guesses_of(body, changed)]
            return (changed - chosen).square().sum(dim=1).mean() + self.weight * sum(fooled)

        return trained(d, self.hidden, self.steps, self.rate, self.seed, loss, adversaries)
