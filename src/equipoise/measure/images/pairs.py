"""How alike two images are: structural similarity from pixels, perceptual distance from features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, as_vector, row_blocks
from equipoise.measure.metric import metric
from equipoise.measure.stats.shares import ItemScores

SSIM_WINDOW = 11
SSIM_SIGMA = 1.5
SSIM_K1 = 0.01
SSIM_K2 = 0.03
LPIPS_EPS = 1e-10


@metric(
    "ssim",
    takes="images",
    summary="Structural similarity of pairs of images.",
    citation="Wang 2004",
    formula="mean of the local luminance-contrast-structure product, Gaussian 11 x 11",
    bounds=(-1.0, 1.0),
    direction="1: identical",
    better="higher",
    chance="none",
    when_it_lies="Falls with a shift of one pixel.",
)
def ssim(
    first: Any, second: Any, *, data_range: float | None = None, clusters: Any = None, level: float = 0.95
) -> ItemScores:
    """Structural similarity of pairs of images (Wang 2004), one value per pair.

    Gaussian window 11 x 11, sigma 1.5, K1 0.01, K2 0.03, weighted (not sample) covariances; mean over the
    positions where the window fits, then over channels. Range [-1, 1], 1 = identical.

    Args:
        first: (n, H, W) or (n, H, W, C) one image of each pair.
        second: the other image of each pair, of the same shape.
        data_range: the distance between black and white: 255 for uint8 arrays, otherwise it must be given.
        clusters: (n,) pairs that share an image.
        level: confidence level of the interval.

    Returns:
        The similarity of each pair, and their mean.

    >>> flat = np.zeros((1, 11, 11)); ssim(flat, flat, data_range=1.0).values.tolist()
    [1.0]
    """
    a, b = _as_images(first, "first"), _as_images(second, "second")
    if a.shape != b.shape:
        raise InputError(f"first has shape {a.shape} and second {b.shape}; pairs must have the same size")
    if data_range is None:
        if np.asarray(first).dtype != np.uint8 or np.asarray(second).dtype != np.uint8:
            raise InputError("data_range is needed for images that are not uint8: 1.0 for [0, 1], 255 for [0, 255]")
        data_range = 255.0
    if not data_range > 0:
        raise InputError(f"data_range must be above 0, not {data_range}")
    n, height, width, channels = a.shape
    if min(height, width) < SSIM_WINDOW:
        raise InputError(f"images of {height} x {width} are smaller than the window of {SSIM_WINDOW} x {SSIM_WINDOW}")
    values = np.empty(n)
    for rows in row_blocks(n, height * width * channels):
        values[rows] = _ssim_block(a[rows].astype(np.float64), b[rows].astype(np.float64), data_range)
    return ItemScores.of(values, clusters=clusters, level=level)


def _ssim_block(a: Floats, b: Floats, data_range: float) -> Floats:
    mean_a, mean_b = _windowed(a), _windowed(b)
    square = mean_a**2 + mean_b**2
    spread = _windowed(a**2 + b**2) - square
    shared = _windowed(a * b) - mean_a * mean_b
    c1, c2 = (SSIM_K1 * data_range) ** 2, (SSIM_K2 * data_range) ** 2
    local = (2 * mean_a * mean_b + c1) * (2 * shared + c2) / ((square + c1) * (spread + c2))
    return np.asarray(local.mean(axis=(1, 2, 3)))


def _windowed(images: Floats) -> Floats:
    """Gaussian-weighted mean around every pixel where the whole window fits."""
    reach = SSIM_WINDOW // 2
    offsets = np.arange(-reach, reach + 1)
    weights = np.exp(-(offsets**2) / (2 * SSIM_SIGMA**2))
    weights /= weights.sum()
    once = ndimage.correlate1d(images, weights, axis=1, mode="constant")[:, reach:-reach]
    return np.asarray(ndimage.correlate1d(once, weights, axis=2, mode="constant")[:, :, reach:-reach])


def _as_images(images: Any, name: str) -> NDArray[Any]:
    array = np.asarray(images)
    if array.ndim == 3:
        array = array[..., None]
    if array.ndim != 4 or len(array) == 0:
        raise InputError(f"{name} must have shape (n, H, W) or (n, H, W, C) with n >= 1, not {np.shape(images)}")
    if not np.issubdtype(array.dtype, np.number) or not np.isfinite(array).all():
        raise InputError(f"{name} holds values that are not finite numbers; decode the image again or drop it")
    return array


@metric(
    "perceptual_distance",
    takes="features",
    summary="LPIPS-style distance from features the caller supplies.",
    citation="Zhang 2018",
    formula="sum over layers of the mean weighted squared difference of unit channels",
    range="[0, inf)",
    direction="0: same features",
    chance="none",
    when_it_lies="Without the published weights it is not LPIPS.",
)
def perceptual_distance(
    first: Sequence[Any],
    second: Sequence[Any],
    weights: Sequence[Any] | None = None,
    *,
    clusters: Any = None,
    level: float = 0.95,
) -> ItemScores:
    """LPIPS-style distance of pairs of images from the features of any network (Zhang 2018, Eq. 1).

    Features are scaled to unit length along channels at each position; the squared difference is weighted, summed
    over channels, averaged over positions and summed over layers. Range [0, inf), 0 = same features.

    Args:
        first: one array (n, C, H, W) a layer, of one image of each pair.
        second: the same of the other image of each pair.
        weights: one (C,) a layer, of the squared differences; None = 1.
        clusters: (n,) pairs that share an image.
        level: confidence level of the interval.

    Returns:
        The distance of each pair, and their mean.

    >>> a, b = np.array([[[[1.0]], [[0.0]]]]), np.array([[[[0.0]], [[1.0]]]])
    >>> perceptual_distance([a], [b]).values.round(6).tolist()
    [2.0]
    """
    if len(first) != len(second) or len(first) == 0:
        raise InputError(f"first has {len(first)} layers and second {len(second)}; give the same, at least one")
    if weights is not None and len(weights) != len(first):
        raise InputError(f"weights has {len(weights)} layers for {len(first)} layers of features")
    total: Floats | None = None
    for layer, (left, right) in enumerate(zip(first, second, strict=True)):
        a, b = _as_features(left, f"first[{layer}]"), _as_features(right, f"second[{layer}]")
        if a.shape != b.shape or (total is not None and len(a) != len(total)):
            raise InputError(f"layer {layer}: shapes {a.shape} and {b.shape} differ from each other or from layer 0")
        scale = np.ones(a.shape[1])
        if weights is not None:
            scale = as_vector(weights[layer], f"weights[{layer}]", length=a.shape[1])
        squares = np.einsum("nchw,c->nhw", (_unit_channels(a) - _unit_channels(b)) ** 2, scale)
        distance = squares.mean(axis=(1, 2))
        total = distance if total is None else total + distance
    assert total is not None
    return ItemScores.of(total, clusters=clusters, level=level)


def _as_features(features: Any, name: str) -> Floats:
    array = np.asarray(features, dtype=np.float64)
    if array.ndim != 4 or array.size == 0:
        raise InputError(f"{name} must have shape (n, C, H, W), not {array.shape}")
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds values that are not finite; compute those features again")
    return array


def _unit_channels(features: Floats) -> Floats:
    norm = np.sqrt((features**2).sum(axis=1, keepdims=True))
    return np.asarray(features / (norm + LPIPS_EPS))


def disjoint_pairs(n: int, *, seed: int = 0) -> NDArray[np.intp]:
    """Random pairs of ``n`` items in which no item occurs twice, to measure how varied a set is.

    The pairs are independent, so the interval of their mean needs no clusters.

    Args:
        n: how many items there are, at least 2.
        seed: which pairs are drawn.

    Returns:
        (n // 2, 2) the indices of the items of each pair.

    >>> pairs = disjoint_pairs(5)
    >>> pairs.shape, len(set(pairs.ravel().tolist()))
    ((2, 2), 4)
    """
    as_count(n, "n", least=2)
    order = np.random.default_rng(seed).permutation(n)
    return np.asarray(order[: n // 2 * 2].reshape(-1, 2))
