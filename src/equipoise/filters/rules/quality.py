"""How real and how varied is what is left, and is it so for every group? Figures; nothing is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from equipoise.array_types import Floats
from equipoise.data.table import Table
from equipoise.errors import InputError, install_line, one_line
from equipoise.filters.pictures import decoded
from equipoise.filters.protocol import FilterVerdict
from equipoise.filters.remaining import RemainingImages
from equipoise.filters.thresholds import EXPECTED, columns_for, compared, mean_rows
from equipoise.measure.groups import Groups
from equipoise.measure.images import disjoint_pairs, frechet_distance, inception_score, kid, ssim
from equipoise.measure.notes import no_interval, no_null
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import p_values

LEAST = 20
"""Images a group needs for a Fréchet distance."""


@dataclass(frozen=True)
class Quality:
    """Fréchet distance to real images, SSIM and LPIPS of random pairs, each also by group, with the gap against chance.

    ``by`` names the columns whose values are compared; the axes unless given. ``expected`` compares expected with
    unexpected scenes, from the column ``cell`` (preset ``gab``). SSIM and LPIPS are of disjoint random pairs of the
    same value: lower SSIM and higher LPIPS is more varied. LPIPS needs its package (the extra ``lpips``).

    The Fréchet distance is of the encoder's unit vectors. ``features="inception"`` (or ``inception:FILE``) adds what
    papers print as FID, KID and IS, of Inception's own features (:mod:`equipoise.models.inception`).
    """

    by: tuple[str, ...] = ()
    frechet: bool = True
    pairs: int = 500
    """Random pairs of each value for SSIM and LPIPS; 0 leaves them out."""
    size: int = 64
    """Pictures are brought to this many pixels' width and height for SSIM."""
    draws: int = 199
    model: str = ""
    features: str = ""
    """``inception``, or ``inception:FILE`` with its weights; nothing is measured by it unless given."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"gab": {"by": (EXPECTED,)}}

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are compared."""
        return columns_for(self.by)

    @property
    def needs(self) -> tuple[str, ...]:
        """Vectors for the Fréchet distance, pixels for the rest."""
        vectors = ("image vectors", "real images") if self.frechet else ()
        inception = ("Inception's weights",) if self.features else ()
        return (*vectors, *(("pictures",) if self.pairs else ()), *inception)

    def judge(self, remaining: RemainingImages) -> FilterVerdict:
        """Rows ``frechet``, ``ssim``, ``lpips`` by group, and their gaps."""
        nothing = np.zeros(len(remaining), dtype=bool)
        verdict = FilterVerdict(nothing, nothing)
        if self.frechet:
            self._frechet(remaining, verdict)
        if self.pairs:
            self._pairs(remaining, verdict)
        if self.features:
            self._inception(remaining, verdict)
        return verdict

    def _inception(self, remaining: RemainingImages, verdict: FilterVerdict) -> None:
        """FID and KID to the real images where there are any, and the Inception Score; notes say what was found."""
        from equipoise.models.inception import open_inception

        network = open_inception(self.features)
        mine, probabilities = network.features(_readable(remaining.table, verdict, set(remaining.frame["image_id"])))
        verdict.notes.append(
            f"Inception features of {len(mine):,} images by {network.name}, {mine.shape[1]} numbers each"
        )
        keys = {"variant": "inception"}
        measures: list[tuple[str, Any]] = [("inception_score", lambda: inception_score(probabilities))]
        if remaining.models.reference is None:
            verdict.notes.append("no FID or KID: no table of real images was given as reference")
        else:
            real, _ = network.features(_readable(remaining.reference().table, verdict))
            verdict.notes.append(f"Inception features of {len(real):,} real images")
            measures += [("frechet", lambda: frechet_distance(real, mine)), ("kid", lambda: kid(real, mine))]
        for metric, measured in measures:
            try:
                verdict.rows.append(measured().row(metric=metric, **keys))
            except InputError as error:
                verdict.notes.append(f"no {metric} of Inception features: {error}")

    def _frechet(self, remaining: RemainingImages, verdict: FilterVerdict) -> None:
        if remaining.models.reference is None:
            verdict.notes.append("no Fréchet distance: no table of real images was given as reference")
            return
        real = remaining.reference().image_vectors(self.model)
        mine = remaining.image_vectors(self.model)
        real = real[np.isfinite(real).all(axis=1)]
        seen = np.isfinite(mine).all(axis=1)
        try:
            verdict.rows.append(frechet_distance(real, mine[seen]).row(metric="frechet", variant="equipoise"))
        except InputError as error:
            verdict.notes.append(f"no Fréchet distance: {error}")
            return
        for axis, groups in compared(remaining, self.by):
            try:
                by_group, gap = frechet_gap(
                    real, mine[seen], Groups(groups.labels[seen], groups.names, axis), self.draws, remaining.seed
                )
            except InputError as error:
                verdict.notes.append(f"no Fréchet distance by {axis}: {error}")
                continue
            for name, distance in by_group.items():
                verdict.rows.append(distance.row(metric="frechet", variant="equipoise", axis=axis, group=name))
            verdict.rows.append(gap.row(metric="frechet_gap", variant="equipoise", axis=axis))

    def _pairs(self, remaining: RemainingImages, verdict: FilterVerdict) -> None:
        distance, why = _lpips()
        if distance is None:
            verdict.notes.append(f"no LPIPS: {why}")
        pictures = _Pictures(remaining, self.size)
        parts = compared(remaining, self.by)
        everything = Groups(np.zeros(len(remaining), dtype=np.int32), ("all",))
        for axis, groups in [("", everything), *parts]:
            first, second, owner = self._drawn(groups, remaining.seed)
            if not len(first):
                continue
            a, b = pictures.of(first), pictures.of(second)
            seen = pictures.there(first) & pictures.there(second)
            if not seen.any():
                verdict.notes.append("no SSIM: no picture could be decoded")
                return
            measures = {"ssim": ssim(a[seen], b[seen]).values}
            if distance is not None:
                measures["lpips"] = distance(a[seen], b[seen])
            for metric, values in measures.items():
                try:
                    shown = Groups(owner[seen], groups.names, axis)
                    verdict.rows += _told(metric, values, shown, self.draws, remaining.seed)
                except InputError as error:
                    verdict.notes.append(f"no {metric.upper()} by {axis}: {error}")

    def _drawn(self, groups: Groups, seed: int) -> tuple[Any, Any, Any]:
        first, second, owner = ([np.zeros(0, dtype=kind)] for kind in (np.int64, np.int64, np.int32))
        for g in range(groups.n_groups):
            rows = np.flatnonzero(groups.labels == g)
            if len(rows) >= 2:
                pairs = rows[disjoint_pairs(len(rows), seed=seed)][: self.pairs]
                first.append(pairs[:, 0])
                second.append(pairs[:, 1])
                owner.append(np.full(len(pairs), g, dtype=np.int32))
        return np.concatenate(first), np.concatenate(second), np.concatenate(owner)


def frechet_gap(
    real: Any, images: Any, groups: Groups, draws: int = 199, seed: int = 0
) -> tuple[dict[str, Estimate], Estimate]:
    """The Fréchet distance of each group's images to ``real``, and the gap between the largest and the smallest.

    Every group gives the same number of images (a random part), for the distance falls with their number. Chance:
    labels shuffled.
    """
    from equipoise.measure.images.frechet import _frechet_of_rows

    counts = groups.counts()
    kept = [g for g in range(groups.n_groups) if counts[g] >= LEAST]
    if len(kept) < 2:
        raise InputError(f"fewer than two groups have {LEAST} images")
    n = int(min(counts[g] for g in kept))
    rng = np.random.default_rng(seed)
    rows = [rng.permutation(np.flatnonzero(groups.labels == g))[:n] for g in kept]
    v = np.asarray(images, dtype=np.float64)
    note = f"{n} images of each group, since the distance falls with their number"
    by_group = {
        groups.names[g]: frechet_distance(real, v[at]).with_notes(note) for g, at in zip(kept, rows, strict=True)
    }
    values = [distance.value for distance in by_group.values()]
    pool = np.concatenate(rows)
    null = np.empty(draws)
    for draw in range(draws):
        order = rng.permutation(pool).reshape(len(kept), n)
        shuffled = [_frechet_of_rows(np.asarray(real, dtype=np.float64), v[at]) for at in order]
        null[draw] = max(shuffled) - min(shuffled)
    gap = max(values) - min(values)
    return by_group, Estimate(
        gap,
        null_mean=float(null.mean()),
        null_sd=float(null.std(ddof=1)),
        p_value=p_values(gap, null).value,
        n=len(pool),
        n_groups=len(kept),
        notes=(f"largest {max(by_group, key=lambda k: by_group[k].value)}", note, no_interval("a gap of extremes")),
    )


def _told(metric: str, values: Floats, groups: Groups, draws: int, seed: int) -> list[dict[str, Any]]:
    if groups.n_groups < 2:
        from equipoise.measure.stats import summarise

        whole = summarise(values, notes=(no_null("how varied a pool is, is not a bias"),))
        return [whole.row(metric=metric, variant="random_pairs")]
    return mean_rows(metric, values, groups, variant="random_pairs", draws=draws, seed=seed)


class _Pictures:
    """Pictures of some rows at one size, each decoded once."""

    def __init__(self, remaining: RemainingImages, size: int) -> None:
        self._remaining = remaining
        self._size = size
        self._held: dict[int, Any] = {}

    def of(self, rows: Any) -> Any:
        """(n, size, size, 3) bytes; zeros where a picture cannot be decoded."""
        self._load(rows)
        blank = np.zeros((self._size, self._size, 3), dtype=np.uint8)
        return np.stack([blank if self._held[int(r)] is None else self._held[int(r)] for r in rows])

    def there(self, rows: Any) -> Any:
        """(n,) which could be decoded."""
        self._load(rows)
        return np.array([self._held[int(r)] is not None for r in rows])

    def _load(self, rows: Any) -> None:
        from PIL import Image

        wanted = {int(r) for r in rows} - set(self._held)
        if not wanted:
            return
        at = {self._remaining.frame["image_id"].iloc[r]: r for r in wanted}
        for name, image in decoded(self._remaining.table, at):
            self._held[at[name]] = None
            if not isinstance(image, InputError):
                small = image.resize((self._size, self._size), Image.Resampling.BILINEAR)
                self._held[at[name]] = np.asarray(small, dtype=np.uint8)


def _readable(table: Table, verdict: FilterVerdict, ids: set[str] | None = None) -> list[Any]:
    """The pictures of a table, or of some of its rows; a note counts those that cannot be decoded."""
    found = [picture for _, picture in decoded(table, ids)]
    pictures = [picture for picture in found if not isinstance(picture, InputError)]
    if broken := len(found) - len(pictures):
        verdict.notes.append(f"{broken:,} pictures of {table.path} cannot be decoded; Inception did not see them")
    return pictures


def _lpips() -> tuple[Any, str]:
    """The LPIPS distance of two stacks of pictures; or nothing, and why."""
    if find_spec("lpips") is None or find_spec("torch") is None:
        return None, f"the package lpips is not installed; type: {install_line('lpips')}"
    import torch

    try:
        import lpips  # type: ignore[import-not-found,unused-ignore]

        network = lpips.LPIPS(net="squeeze", verbose=False).eval()
    except OSError as error:  # its backbone is downloaded the first time
        return None, f"the weights of its SqueezeNet are not here and cannot be downloaded ({one_line(error)})"
    except (ImportError, RuntimeError) as error:  # a torchvision that was built for another torch
        return None, f"the package lpips cannot be used ({one_line(error)})"

    def distance(a: Any, b: Any) -> Floats:
        def pixels(images: Any) -> Any:
            return torch.from_numpy(images.astype(np.float32) / 127.5 - 1).permute(0, 3, 1, 2)

        with torch.inference_mode():
            return np.asarray(network(pixels(a), pixels(b)).flatten().numpy(), dtype=np.float64)

    return distance, ""
