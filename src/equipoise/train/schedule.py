"""How long and how fast a model learns: the rate of every step."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a part learns."""

    steps: int
    batch: int
    rate: float = 1e-3
    warmup: int = 200
    weight_decay: float = 0.05
    save_every: int = 250
    again: tuple[int, ...] = ()
    """The steps at which the rate rises once more, to three tenths, for another descent."""
    average: float = 0.0
    """How much of the running average of the weights each step keeps; above 0 the model ends as that average."""
    half: bool = False
    """Multiply in bfloat16 where the processor has instructions for it; weights and sums stay in float32."""
    constant: bool = False
    """After the warm-up the rate stays as it is."""

    def rate_at(self, step: int) -> float:
        """Linear warm-up, then a cosine to a fiftieth; the same from three tenths each time ``again`` is reached.

        >>> twice = Schedule(steps=40, batch=8, rate=1.0, warmup=10, again=(30,))
        >>> [round(twice.rate_at(step), 3) for step in (4, 10, 29, 30, 39)]
        [0.5, 1.0, 0.026, 0.3, 0.013]
        >>> Schedule(steps=40, batch=8, rate=1.0, warmup=0, constant=True).rate_at(39)
        1.0
        """
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        if self.constant:
            return self.rate
        starts = (self.warmup, *self.again)
        descent = sum(step >= start for start in self.again)
        end = (*self.again, self.steps)[descent]
        top = self.rate * (0.3 if descent else 1.0)
        share = (step - starts[descent]) / max(1, end - starts[descent])
        return top * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * share)))
