"""Encoded scenes on disk: the first epoch encodes each chunk of them, later ones read it.

Which scenes a step takes depends on the step alone, and a chunk that was lost is made again to the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError
from equipoise.models.miniatures import FOLDER
from equipoise.recipes.train_mini.batches import SIZE
from equipoise.world import SceneArrays, WorldConfig, sample, what_is_where

VAE = FOLDER / "vae"
CHUNK = 512
"""Scenes that are encoded together and kept in one file."""
Made = Mapping[str, Any]


@dataclass
class LatentPool:
    """Scenes of a world with what was computed of them, chunk by chunk.

    ``make`` gives for the scenes of a chunk one tensor per name, one row per scene; they are kept in float16.
    """

    config: WorldConfig
    seed: int
    folder: Path
    make: Callable[[SceneArrays], Made]
    n_chunks: int = 128
    chunk: int = field(default_factory=lambda: CHUNK)
    _open: tuple[int, SceneArrays, Made] | None = field(default=None, repr=False)

    def batch(self, step: int, size: int) -> tuple[SceneArrays, dict[str, Any]]:
        """The scenes of a training step, ``size`` of them, and their tensors in float32.

        Each epoch goes through all chunks in another order, and through each chunk's scenes in another order.
        """
        if size > self.chunk:
            raise InputError(f"a batch of {size} is larger than a chunk of {self.chunk} scenes")
        in_chunk = self.chunk // size
        place, part = divmod(step, in_chunk)
        epoch, place = divmod(place, self.n_chunks)
        order = np.arange(self.n_chunks) if epoch == 0 else np.random.default_rng([7, epoch]).permutation(self.n_chunks)
        number = int(order[place])
        scenes, tensors = self._chunk(number)
        rows = np.random.default_rng([8, epoch, number]).permutation(self.chunk)[part * size : (part + 1) * size]
        chosen = SceneArrays(self.config, {name: values[rows] for name, values in scenes.columns.items()})
        return chosen, {name: values[rows].float() for name, values in tensors.items()}

    def _chunk(self, number: int) -> tuple[SceneArrays, Made]:
        if self._open is None or self._open[0] != number:
            scenes = sample(self.config, self.chunk, self.seed, start=number * self.chunk)
            self._open = (number, scenes, self._read_or_made(number, scenes))
        return self._open[1], self._open[2]

    def _read_or_made(self, number: int, scenes: SceneArrays) -> Made:
        import torch
        from safetensors.torch import load_file, save_file

        path = self.folder / f"pool-{number:05}.safetensors"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            hidden = path.with_name(f".{path.name}")
            tensors = {name: values.to(torch.float16).contiguous() for name, values in self.make(scenes).items()}
            save_file(tensors, hidden)
            hidden.replace(path)
        return load_file(path)


def autoencoder(folder: Path | None = None) -> Any:
    """The mini autoencoder, frozen."""
    from diffusers import AutoencoderKL

    home = folder or VAE
    if not (home / "config.json").is_file():
        raise InputError(f"this part starts from vae, which is not in {home}; train it with equipoise mini train vae")
    model = AutoencoderKL.from_pretrained(home, local_files_only=True, low_cpu_mem_usage=False)
    return model.eval().requires_grad_(False)


def encoded(vae: Any, images: Any, batch: int = 64) -> Any:
    """(n, 4, grid, grid) the latents of images (from -1 to 1), scaled as the diffusion models see them."""
    import torch

    with torch.no_grad():
        parts = [vae.encode(images[i : i + batch]).latent_dist.mode() for i in range(0, len(images), batch)]
    return torch.cat(parts) * vae.config.scaling_factor


def person_masks(scenes: SceneArrays) -> NDArray[np.float32]:
    """(n, 1, 64, 64) one where the first person is drawn."""
    return np.stack([what_is_where(scene, SIZE).people[0] for scene in scenes]).astype(np.float32)[:, None]


def coarse(masks: NDArray[np.float32], factor: int) -> Any:
    """(n, 1, grid, grid) how much of each cell of the latent grid, ``factor`` pixels wide, is masked."""
    import torch

    return torch.nn.functional.avg_pool2d(torch.from_numpy(masks), factor)
