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

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError
from equipoise.mitigate.learning import LearnedMapRemedy, trained
from equipoise.mitigate.protocol import Labelled, Queries, checked_side, checked_vectors, unit_rows

ADVERSARY_STEPS = 4
"""Steps of the adversary for each of the map: one that lags behind is chased round in circles."""


class Residual(LearnedMapRemedy):
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

    def transform(self, vectors: ArrayLike, side: str = "image", query: Queries | None = None) -> NDArray[np.float32]:
        """(m, d) vectors of images with what is added to them, of unit length; those of texts as they are."""
        added = self.learnt(self._map)
        if checked_side(side) == "text":
            return unit_rows(checked_vectors(vectors, added.width))
        return added.moved(vectors)

    def learn(self, known: Labelled) -> None:
        """Train the map, and the adversary beside it."""
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

        self._map = trained(d, self.hidden, self.steps, self.rate, self.seed, loss, adversaries)
