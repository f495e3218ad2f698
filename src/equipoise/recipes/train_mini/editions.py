"""The editions of the generative miniatures: how fine the grid is that the generators draw on, and what they read.

The first edition is what ships. The second has four times as many cells, so that edges come back sharp; its generators
are to be trained on it together, because none can read the grid of the other edition.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.recipes.train_mini.batches import SIZE
from equipoise.recipes.train_mini.loop import Schedule

__all__ = ["EDITIONS", "FIRST", "SECOND", "Edition", "edition", "edition_in", "edition_of"]


@dataclass(frozen=True)
class Edition:
    """One edition: the shape and the schooling of its autoencoder, and the shape of the generators upon it."""

    name: str
    blocks: tuple[int, ...]
    """Channels of the autoencoder's levels; each level after the first halves the sides of the picture."""
    unet_blocks: tuple[int, ...]
    """Channels of the levels of a generator's UNet."""
    unet_reads: tuple[bool, ...]
    """Which of those levels read the prompt; attention over the finest grid would cost more than all else."""
    schedule: Schedule
    crops_until: int
    """Up to this step a batch is of two crops of each picture, a quarter of it each; after it, of whole pictures, half
    as many. Both cost the same.
    """
    decoder: Schedule | None
    """Then the decoder alone learns on, for squared errors: what it is given stays as it is."""
    kl_weight: float
    noise: float
    """How much noise the decoder is given beside the latents, as a share of their spread: what a generator draws is
    never exact, and a decoder that knows this keeps its edges sharp.
    """
    edges: float
    """What an error in the differences of neighbouring pixels counts beside one in the pixels: blur costs extra."""
    phrased: bool
    """Whether generators read the captions in several phrasings (:mod:`equipoise.recipes.train_mini.phrasings`)."""

    @property
    def factor(self) -> int:
        """Pixels per side of one cell of the latent grid.

        >>> FIRST.factor, SECOND.factor
        (4, 2)
        """
        return int(2 ** (len(self.blocks) - 1))

    @property
    def grid(self) -> int:
        """Cells per side of the latent grid.

        >>> FIRST.grid, SECOND.grid
        (16, 32)
        """
        return SIZE // self.factor


FIRST = Edition(
    name="first",
    blocks=(16, 32, 64),
    unet_blocks=(32, 64, 96),
    unet_reads=(True, True, False),
    schedule=Schedule(steps=6000, batch=48, rate=2e-3, weight_decay=0.0, save_every=250, average=0.998, half=True),
    crops_until=4000,
    decoder=Schedule(steps=800, batch=48, rate=6e-4, warmup=50, weight_decay=0.0, average=0.99, half=True),
    kl_weight=1e-6,
    noise=0.0,
    edges=0.0,
    phrased=False,
)
SECOND = Edition(
    name="second",
    blocks=(16, 32),
    unet_blocks=(32, 32, 64, 96),
    unet_reads=(False, True, True, False),
    schedule=Schedule(
        steps=5000, batch=16, rate=2e-3, weight_decay=0.0, save_every=50, again=(2000,), average=0.995, half=True
    ),
    crops_until=1300,
    decoder=None,
    kl_weight=1e-4,
    noise=0.05,
    edges=1.0,
    phrased=True,
)
EDITIONS = {each.name: each for each in (FIRST, SECOND)}


def edition(name: str) -> Edition:
    """The edition called ``name``.

    >>> edition("second").grid
    32
    """
    if name not in EDITIONS:
        raise UnknownNameError("edition", name, EDITIONS)
    return EDITIONS[name]


def edition_of(vae: Any) -> Edition:
    """The edition that an autoencoder belongs to, by the fineness of its grid."""
    return _by_levels(len(vae.config.block_out_channels))


def edition_in(folder: Path) -> Edition:
    """The edition of the autoencoder, or of the generator that holds one, in ``folder``."""
    path = next(p for p in (folder / "vae" / "config.json", folder / "config.json") if p.is_file())
    return _by_levels(len(json.loads(path.read_text(encoding="utf-8"))["block_out_channels"]))


def _by_levels(levels: int) -> Edition:
    factor = 2 ** (levels - 1)
    fitting = [each for each in EDITIONS.values() if each.factor == factor]
    if not fitting:
        known = " or ".join(f"{each.factor} ({each.name})" for each in EDITIONS.values())
        raise InputError(f"the autoencoder's cells are {factor} pixels wide; those of an edition are {known}")
    return fitting[0]
