"""Inception features for FID, KID and the Inception Score: the network of 2015 that these distances were defined with.

Szegedy et al., Rethinking the Inception Architecture (CVPR 2016), in the form of Heusel et al. (FID, NeurIPS 2017):
padding is left out of average pools, the last block pools by maximum, and images are brought to 299 pixels the way
TensorFlow 1 did. The weights are a file of tensors by name, as torch-fidelity distributes them
(``weights-inception-2015-12-05-6726825d.pth``) or the same as safetensors; widths follow from the file, so that a small
file of the same form is a small network. No further package is needed: torch-fidelity's own needs a torchvision that
was built for the installed torch, and lays its network out alike.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.array_types import Floats
from equipoise.errors import InputError, MissingExtraError, one_line

if TYPE_CHECKING:
    from PIL import Image

NAME = "inception"
WEIGHTS = "weights-inception-2015-12-05-6726825d.pth"
_SIDE = 299
_BATCH = 16
_EPS = 1e-3
_VALID = ("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_4a_3x3")
"""Convolutions of stride 1 or 2 that pad nothing; the others of stride 1 pad half their size."""
_BLOCKS_A = ("Mixed_5b", "Mixed_5c", "Mixed_5d")
_BLOCKS_C = ("Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e")
_DOUBLED = ("branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3")
_LONG = ("branch7x7dbl_1", "branch7x7dbl_2", "branch7x7dbl_3", "branch7x7dbl_4", "branch7x7dbl_5")
_BRANCHES_A = (("branch1x1",), ("branch5x5_1", "branch5x5_2"), _DOUBLED)
_BRANCHES_C = (("branch1x1",), ("branch7x7_1", "branch7x7_2", "branch7x7_3"), _LONG)
"""The chains of convolutions in every block of a kind; a pool stands beside them."""


def open_inception(spec: str = NAME) -> InceptionNetwork:
    """The network of ``inception:FILE``; ``inception`` alone looks where torch keeps what it downloads.

    >>> open_inception("inception:nowhere.pth")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: nowhere.pth is missing; give Inception's weights as inception:FILE
    """
    head, _, place = spec.partition(":")
    if head != NAME:
        raise InputError(f"features={spec}: inception, or inception:FILE, is expected")
    if place:
        path = Path(place)
        if not path.is_file():
            raise InputError(f"{place} is missing; give Inception's weights as inception:FILE")
    else:
        home = Path(os.environ.get("TORCH_HOME") or Path.home() / ".cache" / "torch")
        path = home / "hub" / "checkpoints" / WEIGHTS
        if not path.is_file():
            raise InputError(
                f"Inception's weights are not at {path}: download {WEIGHTS} from torch-fidelity's release v0.2.0 and "
                "put it there, or give it as inception:FILE"
            )
    return InceptionNetwork(_tensors(path), path.name)


def _tensors(path: Path) -> dict[str, Any]:
    try:
        import torch
        from safetensors.torch import load_file
    except ImportError:
        raise MissingExtraError("Inception", "models") from None
    try:
        if path.suffix == ".safetensors":
            return dict(load_file(path))
        held = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # files of other kinds fail in every way there is
        raise InputError(f"{path}: holds no weights that can be read safely ({one_line(error)})") from None
    if not isinstance(held, dict):
        raise InputError(f"{path}: holds no tensors by name")
    return held


class InceptionNetwork:
    """Images to features (n, 2048) and probabilities (n, 1008)."""

    def __init__(self, weights: dict[str, Any], name: str = NAME) -> None:
        self.name = name
        self.weights = weights
        for wanted in ("Conv2d_1a_3x3.conv.weight", "Mixed_7c.branch_pool.conv.weight", "fc.weight"):
            if wanted not in weights:
                raise InputError(f"{name}: lacks {wanted!r}; are these weights of Inception, as torch-fidelity's are?")

    def features(self, images: Sequence[Image.Image]) -> tuple[Floats, Floats]:
        """What the last pool gives of each image, and the probabilities that the Inception Score reads."""
        import torch

        pooled, probabilities = [], []
        for start in range(0, len(images), _BATCH):
            batch = [np.asarray(image.convert("RGB"), dtype=np.float32) for image in images[start : start + _BATCH]]
            with torch.inference_mode():
                pixels = torch.stack([_resized(torch.from_numpy(array).permute(2, 0, 1)) for array in batch])
                last = self._last((pixels - 128) / 128)
                # without the offsets, as the published score has it
                probabilities.append((last @ self.weights["fc.weight"].T).softmax(dim=1).double().numpy())
                pooled.append(last.double().numpy())
        return np.concatenate(pooled), np.concatenate(probabilities)

    def _conv(self, x: Any, name: str, stride: int = 1) -> Any:
        import torch.nn.functional as nn

        try:
            kernel = self.weights[f"{name}.conv.weight"]
            mean, variance, scale, offset = (
                self.weights[f"{name}.bn.{part}"] for part in ("running_mean", "running_var", "weight", "bias")
            )
        except KeyError as error:
            raise InputError(f"{self.name}: lacks {error.args[0]!r}") from None
        valid = stride > 1 or name in _VALID
        padding = (0, 0) if valid else (kernel.shape[2] // 2, kernel.shape[3] // 2)
        seen = nn.conv2d(x, kernel, stride=stride, padding=padding)
        return nn.relu(nn.batch_norm(seen, mean, variance, scale, offset, eps=_EPS))

    def _chain(self, x: Any, block: str, *names: str, last_stride: int = 1) -> Any:
        for i, name in enumerate(names):
            x = self._conv(x, f"{block}.{name}", last_stride if i == len(names) - 1 else 1)
        return x

    def _last(self, x: Any) -> Any:
        """(n, 2048) from pixels (n, 3, 299, 299) between -1 and 1."""
        import torch
        import torch.nn.functional as nn

        def average(y: Any) -> Any:
            return nn.avg_pool2d(y, 3, stride=1, padding=1, count_include_pad=False)

        x = self._conv(x, "Conv2d_1a_3x3", 2)
        x = self._conv(self._conv(x, "Conv2d_2a_3x3"), "Conv2d_2b_3x3")
        x = self._conv(self._conv(nn.max_pool2d(x, 3, 2), "Conv2d_3b_1x1"), "Conv2d_4a_3x3")
        x = nn.max_pool2d(x, 3, 2)
        for block in _BLOCKS_A:
            x = self._joined(block, [self._chain(x, block, *names) for names in _BRANCHES_A], average(x))
        doubled = self._chain(x, "Mixed_6a", *_DOUBLED, last_stride=2)
        x = torch.cat([self._conv(x, "Mixed_6a.branch3x3", 2), doubled, nn.max_pool2d(x, 3, 2)], dim=1)
        for block in _BLOCKS_C:
            x = self._joined(block, [self._chain(x, block, *names) for names in _BRANCHES_C], average(x))
        short = self._chain(x, "Mixed_7a", "branch3x3_1", "branch3x3_2", last_stride=2)
        names = ("branch7x7x3_1", "branch7x7x3_2", "branch7x7x3_3", "branch7x7x3_4")
        long = self._chain(x, "Mixed_7a", *names, last_stride=2)
        x = torch.cat([short, long, nn.max_pool2d(x, 3, 2)], dim=1)
        x = self._wide(x, "Mixed_7b", average(x))
        x = self._wide(x, "Mixed_7c", nn.max_pool2d(x, 3, stride=1, padding=1))
        return x.mean(dim=(2, 3))

    def _wide(self, x: Any, block: str, pooled: Any) -> Any:
        single = self._chain(x, block, "branch3x3_1")
        double = self._chain(x, block, "branch3x3dbl_1", "branch3x3dbl_2")
        parts = [self._chain(x, block, "branch1x1")]
        parts += [self._chain(single, block, f"branch3x3_2{side}") for side in "ab"]
        parts += [self._chain(double, block, f"branch3x3dbl_3{side}") for side in "ab"]
        return self._joined(block, parts, pooled)

    def _joined(self, block: str, parts: list[Any], pooled: Any) -> Any:
        import torch

        return torch.cat([*parts, self._chain(pooled, block, "branch_pool")], dim=1)


def _resized(pixels: Any, side: int = _SIDE) -> Any:
    """(c, h, w) to (c, side, side), bilinear as TensorFlow 1 did it: the place of pixel i is i times the scale."""
    for axis in (1, 2):
        pixels = _resized_along(pixels, axis, side)
    return pixels


def _resized_along(pixels: Any, axis: int, side: int) -> Any:
    import torch

    size = pixels.shape[axis]
    place = torch.arange(side, dtype=torch.float32) * (size / side)
    low = place.floor().long()
    high = (low + 1).clamp(max=size - 1)
    part = (place - low).reshape([-1 if i == axis else 1 for i in range(3)])
    return torch.lerp(pixels.index_select(axis, low), pixels.index_select(axis, high), part)
