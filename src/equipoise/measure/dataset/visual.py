"""Do pictures of different groups differ in colour, light, size or place? Simple statistics that a model can
cheat by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_matrix
from equipoise.measure.groups import Groups
from equipoise.measure.metric import metric
from equipoise.measure.stats.group_means import GroupMeans, group_means
from equipoise.measure.stats.permutation import holm

COLOURS = ("red", "green", "blue", "brightness", "contrast", "saturation", "colourfulness")
POSITIONS = ("area", "width", "height", "centre_x", "centre_y", "off_centre")


def colour_statistics(images: Sequence[Any]) -> Floats:
    """(n, 7) the columns of ``COLOURS`` for each RGB image (H, W, 3), uint8 or floats in [0, 1], of any sizes.

    Mean of red, green and blue; brightness = mean luma (.299 R + .587 G + .114 B); contrast = its standard
    deviation; saturation = mean of (max - min) / max; all in [0, 1]. Colourfulness is Hasler and Süsstrunk's
    (2003), on [0, 255].

    >>> grey = np.full((2, 2, 3), 128, dtype=np.uint8)
    >>> colour_statistics([grey]).round(3).tolist()
    [[0.502, 0.502, 0.502, 0.502, 0.0, 0.0, 0.0]]
    """
    if len(images) == 0:
        raise InputError("images is empty")
    return np.array([_colours(np.asarray(image), index) for index, image in enumerate(images)])


def _colours(image: Any, index: int) -> list[float]:
    if image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise InputError(f"images[{index}] has shape {image.shape}; RGB images have shape (H, W, 3)")
    pixels = image.reshape(-1, 3).astype(np.float64)
    if image.dtype == np.uint8:
        pixels /= 255
    if not np.isfinite(pixels).all() or pixels.min() < 0 or pixels.max() > 1:
        raise InputError(f"images[{index}] has values outside [0, 1]; pass uint8, or floats between 0 and 1")
    red, green, blue = pixels.T
    luma = pixels @ np.array([0.299, 0.587, 0.114])
    top = pixels.max(axis=1)
    saturation = np.divide(top - pixels.min(axis=1), top, out=np.zeros_like(top), where=top > 0)
    opponents = 255 * np.stack([red - green, (red + green) / 2 - blue])
    spread, shift = np.hypot(*opponents.std(axis=1)), np.hypot(*opponents.mean(axis=1))
    means = pixels.mean(axis=0).tolist()
    return [*means, luma.mean(), luma.std(), saturation.mean(), spread + 0.3 * shift]


def position_statistics(boxes: Any, sizes: Any) -> Floats:
    """Where the person of each image is, and how large: the columns of ``POSITIONS``.

    Area, width, height and centre as shares of the image; ``off_centre`` is the distance of the two centres
    over half the diagonal, 0 in the middle, 1 in a corner.

    Args:
        boxes: (n, 4) = x0, y0, x1, y1 of the person, inside the image.
        sizes: (n, 2) = width, height of the image, in the units of ``boxes``.

    Returns:
        (n, 6) one row per image.

    >>> position_statistics([[0, 0, 50, 100]], [[100, 100]]).round(3).tolist()
    [[0.5, 0.5, 1.0, 0.25, 0.5, 0.354]]
    """
    box, size = as_matrix(boxes, "boxes"), as_matrix(sizes, "sizes")
    if box.shape[1] != 4 or size.shape != (len(box), 2):
        raise InputError(f"boxes must be (n, 4) and sizes (n, 2), not {box.shape} and {size.shape}")
    wrong = (box[:, 2] <= box[:, 0]) | (box[:, 3] <= box[:, 1]) | (box[:, :2] < 0).any(axis=1)
    wrong |= (box[:, 2:] > size + 1e-9).any(axis=1)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(
            f"boxes[{at}] = {box[at].tolist()} is not x0, y0, x1, y1 inside an image of {size[at].tolist()}"
        )
    low, high = box[:, :2] / size, box[:, 2:] / size
    extent, centre = high - low, (low + high) / 2
    away = np.hypot(*((centre - 0.5) * size).T) / (np.hypot(*size.T) / 2)
    return np.column_stack([extent.prod(axis=1), extent, centre, away])


@dataclass(frozen=True)
class GroupStatistics:
    """Each statistic's mean by group, the gap, and a p-value corrected for asking many."""

    by_statistic: Mapping[str, GroupMeans]
    effect: Mapping[str, float | None]
    """The gap in standard deviations within groups; None where the groups have no spread of their own."""
    p_holm: Mapping[str, float]


@metric(
    "colour_position",
    takes="images",
    summary="Gaps between groups in colour, light, size and place.",
    citation="Hasler and Suesstrunk 2003",
    formula="highest minus lowest group mean of each statistic",
    range="depends on the statistic",
    direction="0: no difference",
    chance="shuffled labels, Holm over statistics",
    when_it_lies="Skin is part of the picture: compare backgrounds.",
)
def statistics_by_group(
    values: Any,
    names: Sequence[str],
    groups: Groups,
    *,
    clusters: Any = None,
    shuffle_within: Any = None,
    permutations: int = 999,
    seed: int = 0,
    level: float = 0.95,
) -> GroupStatistics:
    """The gap between groups in each column of ``values``, against shuffled groups; Holm over the columns.

    Args:
        values: (n, m) the statistics of each image, such as those of :func:`colour_statistics`.
        names: (m,) what the columns are called, no two alike.
        groups: of the images; images of undefined group are left out.
        clusters: (n,) images that are not independent, such as those of one person, exchange their labels as wholes,
            inside ``shuffle_within`` too.
        shuffle_within: (n,) shuffle inside a set or subject, where the images of a set differ by the group alone.
        permutations: how many times groups are shuffled for chance.
        seed: which shuffles are drawn.
        level: confidence level of the intervals.

    Returns:
        For each statistic the mean of each group, the gap, its size in standard deviations, and its corrected p-value.

    >>> groups = Groups.from_values(["a", "a", "b", "b"])
    >>> found = statistics_by_group([[0.1], [0.2], [0.8], [0.9]], ["brightness"], groups)
    >>> round(found.by_statistic["brightness"].gap.value, 3), found.by_statistic["brightness"].highest
    (0.7, 'b')
    """
    table = as_matrix(values, "values")
    if table.shape[1] != len(names) or len(set(names)) < len(names):
        raise InputError(f"values has {table.shape[1]} columns for names {list(names)}; give each column its own name")
    by_statistic = {
        name: group_means(
            table[:, column],
            groups,
            clusters=clusters,
            shuffle_within=shuffle_within,
            permutations=permutations,
            seed=seed,
            level=level,
        )
        for column, name in enumerate(names)
    }
    adjusted = holm([1.0 if means.gap.p_value is None else means.gap.p_value for means in by_statistic.values()])
    effect = {name: _effect(by_statistic[name], groups) for name in names}
    return GroupStatistics(by_statistic, effect, dict(zip(names, adjusted.tolist(), strict=True)))


def _effect(means: GroupMeans, groups: Groups) -> float | None:
    inside = [means.values[groups.labels == groups.index(name)] for name in means.by_group]
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in inside)
    freedom = sum(len(part) for part in inside) - len(inside)
    spread = np.sqrt(squares / freedom) if freedom > 0 else 0.0
    return float(means.gap.value / spread) if spread > 0 else None
