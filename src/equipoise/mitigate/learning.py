"""The small map that learned remedies add to vectors: r(x) = W2 max(0, W1 x + b1) + b2, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InputError, MissingExtraError
from equipoise.mitigate.base import BaseRemedy
from equipoise.mitigate.protocol import NOTHING, FittedOn, as_single, unit_block

_ROWS = 2048


@dataclass(frozen=True)
class ResidualMap:
    """What is added to a vector; numpy alone is needed to apply it."""

    first: NDArray[np.float32]
    """(h, d)"""
    first_offset: NDArray[np.float32]
    second: NDArray[np.float32]
    """(d, h)"""
    second_offset: NDArray[np.float32]

    def __call__(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, d) what is added to each."""
        hidden = vectors @ self.first.T
        hidden += self.first_offset
        np.maximum(hidden, 0, out=hidden)
        added = hidden @ self.second.T
        added += self.second_offset
        return np.asarray(added, dtype=np.float32)

    def moved(self, vectors: ArrayLike, share: float = 1.0) -> NDArray[np.float32]:
        """(n, d) vectors, brought to unit length, with a ``share`` of what is added, and of unit length again.

        So many at a time that what is between the products stays in the processor's cache.
        """
        rows = as_single(vectors, self.width)
        out = np.empty(rows.shape, dtype=np.float32)
        for start in range(0, len(rows), _ROWS):
            some = unit_block(rows[start : start + _ROWS], start)
            added = self(some)
            if share != 1:
                added *= np.float32(share)
            added += some
            lengths = np.sqrt(np.einsum("ij,ij->i", added, added))
            bad = np.flatnonzero(~(lengths > NOTHING))
            if len(bad):
                raise InputError(f"of the vector in row {start + bad[0]} nothing is left; fit the remedy again")
            np.divide(added, lengths[:, None], out=out[start : start + _ROWS])
        return out

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return int(self.first.shape[1])

    def state(self) -> dict[str, NDArray[Any]]:
        """As arrays."""
        return {name: getattr(self, name) for name in ("first", "first_offset", "second", "second_offset")}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> ResidualMap:
        """The reverse."""
        names = ("first", "first_offset", "second", "second_offset")
        arrays = [np.asarray(state[name], dtype=np.float32) for name in names]
        h, d = arrays[0].shape if arrays[0].ndim == 2 else (0, 0)
        if [array.shape for array in arrays] != [(h, d), (h,), (d, h), (d,)]:
            raise InputError("the arrays of this remedy do not belong together; fit it again")
        return cls(*arrays)


class LearnedMapRemedy(BaseRemedy):
    """A remedy that learns such a map, and keeps its weights."""

    _map: ResidualMap | None = None

    def state(self) -> dict[str, NDArray[Any]]:
        """The map's weights."""
        return self.learnt(self._map).state()

    def restore(self, state: Mapping[str, NDArray[Any]], fitted_on: FittedOn) -> Self:
        """Take a state that was kept."""
        self._map, self.fitted_on = ResidualMap.from_state(state), fitted_on
        return self


def trained(
    d: int, hidden: int, steps: int, rate: float, seed: int, loss: Callable[[Any, Any, int], Any], more: Any = None
) -> ResidualMap:
    """A map that begins as no change and follows the gradient of ``loss(map, generator, step)``.

    ``more(generator)`` gives further modules that learn against it: it is called once, and ``loss`` gets what it gave
    as ``map.against``. The generator is a torch generator, so that a seed gives the same map on one machine.
    """
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingExtraError("a learned remedy", "models") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            module = torch.nn.Sequential(torch.nn.Linear(d, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, d))
            torch.nn.init.zeros_(module[2].weight)
            torch.nn.init.zeros_(module[2].bias)
            generator = torch.Generator().manual_seed(seed)
            module.against = None if more is None else more(generator)
            own = [*module[0].parameters(), *module[2].parameters()]
            optimiser = torch.optim.Adam(own, lr=rate)
            for step in range(steps):
                optimiser.zero_grad(set_to_none=True)
                value = loss(module, generator, step)
                value.backward()
                optimiser.step()
        finally:
            torch.set_num_threads(threads)
    weights = [module[0].weight, module[0].bias, module[2].weight, module[2].bias]
    return ResidualMap(*(np.array(weight.detach().numpy(), dtype=np.float32) for weight in weights))
