"""Statistics of summed counts on two sides (what images show, what captions say): their intervals and their null.

Bias amplification, of whatever kind, compares a table of counts of the reference with one of the predictions. Both
are sums over images. So the interval is a bootstrap over images, and the null exchanges, image by image, what was
predicted with what was there: a model that amplifies nothing could as well have written the reference. Zero is not
the chance level: pairs counted as biased because the reference happened to lean fall back by chance alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import as_count, row_blocks
from equipoise.measure.metric import Alternative
from equipoise.measure.stats.bootstrap import no_width_note, resampling_weights
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import LEAST_VARYING, in_clusters, permuted_labels
from equipoise.measure.stats.laws import normal_above
from equipoise.measure.stats.permutation import p_values

Statistic = Callable[[Floats, Floats, Floats], Floats]
"""Counts of the reference (b, K), of the predictions (b, K), of what does not change (b, M) -> values (b,)."""


@dataclass(frozen=True)
class Amplification:
    """An amplification and the pairs of item and group that it is the mean of."""

    estimate: Estimate
    table: pd.DataFrame
    """One row per item and group, with what the reference has, what the predictions have, and what it adds."""


@dataclass(frozen=True)
class TwoSides:
    """Counts by row (an image, or a caption): sparse (n, K) of each row, on which side, of which image."""

    cells: Any
    predicted: NDArray[np.bool_]
    """(n,) whether the row is the model's."""
    images: NDArray[np.intp]
    """(n,) whose rows may exchange sides; rows of one image are drawn together."""
    fixed: Any = None
    """(I, M) counts by image that belong to neither side."""

    @classmethod
    def paired(cls, reference: Any, predicted: Any, fixed: Any = None) -> TwoSides:
        """One row per image on each side."""
        n = reference.shape[0]
        cells = sparse.vstack([sparse.csr_matrix(reference), sparse.csr_matrix(predicted)]).tocsr()
        return cls(cells, np.repeat([False, True], n), np.tile(np.arange(n), 2), fixed)

    @classmethod
    def stacked(
        cls,
        reference: Any,
        predicted: Any,
        reference_images: Sequence[Hashable] | None,
        predicted_images: Sequence[Hashable] | None,
    ) -> TwoSides:
        """Any number of rows per image on each side; without ids every row is an image of its own."""
        n, m = reference.shape[0], predicted.shape[0]
        if (reference_images is None) != (predicted_images is None):
            raise InputError("give the images of both sides, or of neither")
        names = [f"r{i}" for i in range(n)] + [f"p{i}" for i in range(m)]
        if reference_images is not None and predicted_images is not None:
            if len(reference_images) != n or len(predicted_images) != m:
                raise InputError(
                    f"reference_images has {len(reference_images)} ids for {n} captions and predicted_images "
                    f"{len(predicted_images)} for {m}; give one per caption"
                )
            names = [str(image) for image in (*reference_images, *predicted_images)]
        images = np.unique(np.array(names), return_inverse=True)[1]
        cells = sparse.vstack([sparse.csr_matrix(reference), sparse.csr_matrix(predicted)]).tocsr()
        return cls(cells, np.repeat([False, True], [n, m]), images)

    @property
    def n_images(self) -> int:
        """How many images there are."""
        return int(self.images.max()) + 1

    def totals(self) -> tuple[Floats, Floats, Floats]:
        """The summed counts (1, K) of the reference, (1, K) of the predictions, (1, M) of what is fixed."""
        return self._weighted(np.ones((1, self.n_images)))

    def resampled(self, replicates: int, rng: np.random.Generator, statistic: Statistic) -> Floats:
        """(B,) ``statistic`` of images drawn with replacement, both sides of an image together."""
        blocks = resampling_weights(self.n_images, as_count(replicates, "replicates"), rng)
        return np.concatenate([statistic(*self._weighted(block)) for block in blocks])

    def _weighted(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        by_image = self._by_image
        fixed = np.zeros((len(weights), 0)) if self.fixed is None else np.asarray(weights @ self.fixed)
        return np.asarray(weights @ by_image[0]), np.asarray(weights @ by_image[1]), fixed

    @cached_property
    def _by_image(self) -> tuple[Any, Any]:
        n, rows = len(self.images), np.arange(len(self.images))
        sides = []
        for inside in (~self.predicted, self.predicted):
            where = sparse.csr_matrix((np.ones(n)[inside], (self.images[inside], rows[inside])), (self.n_images, n))
            sides.append((where @ self.cells).tocsr())
        return sides[0], sides[1]

    def exchanged(self, draws: int, rng: np.random.Generator, statistic: Statistic) -> Floats:
        """(R,) ``statistic`` with the sides dealt anew inside each image.

        Where fewer than a tenth have both sides, the others, of one side each, change sides as wholes.
        """
        as_count(draws, "draws")
        reference, predicted, fixed = self.totals()
        total = reference + predicted
        values = []
        for chosen_rows in self._dealt(draws, rng):
            now = np.asarray((chosen_rows @ self.cells).toarray())
            values.append(statistic(total - now, now, np.broadcast_to(fixed, (len(now), fixed.shape[1]))))
        return np.concatenate(values)

    def _dealt(self, draws: int, rng: np.random.Generator) -> Any:
        """Blocks of sparse (b, n): which rows play the model."""
        counts = np.bincount(self.images, minlength=self.n_images)
        ours = np.bincount(self.images, self.predicted, minlength=self.n_images)
        both = (ours > 0) & (ours < counts)
        n = len(self.images)
        paired = both.mean() >= LEAST_VARYING  # and not by a few images that both sides happen to have
        if paired and (ours[both] == 1).all():
            order = np.argsort(self.images, kind="stable")
            starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
            fixed_rows = np.flatnonzero(self.predicted & ~both[self.images])
            for rows in row_blocks(draws, max(1, int(both.sum()))):
                size = rows.stop - rows.start
                picks = starts[both] + (rng.random((size, int(both.sum()))) * counts[both]).astype(np.intp)
                columns = np.hstack([order[picks], np.tile(fixed_rows, (size, 1))])
                pointers = np.arange(size + 1) * columns.shape[1]
                yield sparse.csr_matrix((np.ones(columns.size), columns.ravel(), pointers), (size, n))
            return
        if paired:
            for block in permuted_labels(self.predicted.astype(np.int8), draws, rng, self.images):
                yield sparse.csr_matrix(block.astype(np.float64))
            return
        exchange = in_clusters(self.predicted.astype(np.int8), self.images)
        for block in exchange.draws(draws, rng):
            yield sparse.csr_matrix(block[:, exchange.unit].astype(np.float64))


def image_keys(images: Sequence[Hashable], n: int) -> NDArray[np.intp]:
    """(n,) a number for each distinct image id; an id is what it prints as, so that 7 and "7" are one image.

    >>> image_keys([7, "7", "b"], 3).tolist()
    [0, 0, 1]
    """
    if len(images) != n:
        raise InputError(f"images has {len(images)} ids for {n} captions; give one per caption")
    return np.unique(np.array([str(image) for image in images]), return_inverse=True)[1]


def image_labels(keys: NDArray[np.intp], labels: NDArray[Any], images: Sequence[Hashable]) -> NDArray[np.int64]:
    """(images,) the label of each image, from its captions' ``keys`` (n,) and ``labels`` (n,), which must agree.

    ``images`` (n,) are the ids, for the message.

    >>> image_labels(np.array([0, 1, 0]), np.array([2, 5, 2]), "aba").tolist()
    [2, 5]
    """
    by_image = np.zeros(int(keys.max()) + 1, dtype=np.int64)
    by_image[keys] = labels
    mixed = by_image[keys] != labels
    if mixed.any():
        image = images[int(np.argmax(mixed))]
        raise InputError(f"image {image!r} has captions of two groups; an image is of one group or undefined")
    return by_image


@dataclass(frozen=True)
class ImagesOfCaptions:
    """Which image each caption is of, and the image's label: what chance may deal anew."""

    keys: NDArray[np.intp]
    """(n,) the number of each caption's image, in the order in which images first come."""
    labels: NDArray[np.int64]
    """(images,) their labels."""
    several: bool
    """Whether an image has several captions: then captions are not independent."""

    @classmethod
    def of(cls, images: Sequence[Hashable] | None, labels: NDArray[Any]) -> ImagesOfCaptions:
        """From the id of each caption's image (each its own, if None) and the captions' ``labels`` (n,).

        >>> found = ImagesOfCaptions.of(["b", "a", "b"], np.array([1, 0, 1]))
        >>> found.keys.tolist(), found.labels.tolist(), found.several
        ([0, 1, 0], [1, 0], True)
        """
        truth = np.asarray(labels, dtype=np.int64)
        if images is None:
            return cls(np.arange(len(truth)), truth, False)
        given = image_keys(images, len(truth))
        first, codes = np.unique(given, return_index=True, return_inverse=True)[1:]
        order = np.argsort(first)
        keys = np.argsort(order)[codes]
        by_image = image_labels(keys, truth, images)
        return cls(keys, by_image, len(by_image) < len(keys))

    @property
    def clusters(self) -> NDArray[np.intp] | None:
        """(n,) the captions that belong together; ``None`` where each has an image of its own."""
        return self.keys if self.several else None

    def shuffled(self, count: int, rng: np.random.Generator) -> Iterator[NDArray[Any]]:
        """Blocks (b, n) of the captions' labels, dealt anew over whole images, ``count`` rows in all."""
        for block in permuted_labels(self.labels, count, rng):
            yield block[:, self.keys] if self.several else block


def moved_interval(
    value: float, draws: Floats, level: float, *, least: float = -np.inf, most: float = np.inf
) -> tuple[float | None, float | None, tuple[str, ...]]:
    """Percentile interval of bootstrap ``draws`` moved by their bias, cut at the metric's range, holding ``value``.

    A statistic with a maximum, an absolute value or a selection in it is off in a resample as it is off in the
    sample; moving the interval by mean(draws) - value takes that out, to first order. Both ends are ``None``, and a
    note says why, where the interval would have no width.

    >>> moved_interval(1.0, np.array([1.0, 1.2, 1.4]), 0.5)
    (0.9, 1.1, ())
    >>> moved_interval(1.0, np.ones(3), 0.5)
    (None, None, ('no interval: the resamples do not differ',))
    """
    if draws.size == 0 or np.ptp(draws) <= 1e-12:
        return None, None, (no_width_note(draws),)
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail]) - (draws.mean() - value)
    low, high = round(float(low), 12), round(float(high), 12)
    low, high = max(least, min(low, value)), min(most, max(high, value))
    return (low, high, ()) if low < high else (None, None, (no_width_note(draws),))


def two_sided_estimate(
    sides: TwoSides,
    statistic: Statistic,
    *,
    n: int,
    n_groups: int,
    draws: int,
    replicates: int,
    seed: int,
    level: float,
    alternative: Alternative,
    least: float = -1.0,
    most: float = 1.0,
    dropped: dict[str, int] | None = None,
    notes: tuple[str, ...] = (),
) -> Estimate:
    """``statistic`` of two sides with bootstrap interval over images, and the null that exchanges the sides.

    Exchange says that the model could have written the reference, word for word. A model that leans no more than
    the reference but uses a word less often is noisier than that; so the p-value is the larger of the exchange's
    and that of a normal test of the excess with the bootstrap's standard error.
    """
    rng = np.random.default_rng(seed)
    value = float(statistic(*sides.totals())[0])
    null = sides.exchanged(draws, rng, statistic)
    resampled = sides.resampled(replicates, rng, statistic)
    low, high, why = moved_interval(value, resampled, level, least=least, most=most)
    p_value = max(
        p_values(value, null, alternative=alternative, rng=rng).value,
        _normal_p(value - float(null.mean()), float(resampled.std()), alternative),
    )
    return Estimate(
        value,
        low,
        high,
        null_mean=float(null.mean()),
        null_sd=float(null.std(ddof=1)) if len(null) > 1 else None,
        p_value=p_value,
        n=n,
        n_groups=n_groups,
        dropped=dict(dropped or {}),
        notes=(*notes, *why),
        level=level,
    )


def _normal_p(excess: float, error: float, alternative: Alternative) -> float:
    if error == 0:
        return 0.0  # nothing varies in the resamples: the exchange alone decides
    if alternative == "two-sided":
        return float(min(1.0, 2 * normal_above(abs(excess) / error)))
    return float(normal_above((excess if alternative == "greater" else -excess) / error))
