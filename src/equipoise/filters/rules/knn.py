"""Do edited people lie among real ones, and among those of the group they should now show? (GenSynth)

Exact nearest neighbours in blocks: no index, no approximation, memory bounded by the block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Flags, Floats, Ints
from equipoise.errors import InputError, UnknownNameError
from equipoise.filters.protocol import FilterVerdict
from equipoise.filters.remaining import RemainingImages
from equipoise.measure.retrieval.select import Best
from equipoise.text.labels import read_labels

_QUERIES = 1024
_GALLERY = 8192


def nearest(queries: Any, gallery: Any, k: int) -> Ints:
    """The nearest vectors of a gallery to each query, by Euclidean distance.

    Distances are compared by float32 products, as |g|^2 / 2 - q.g: for unit vectors the order of cosines.

    Args:
        queries: (q, d) finite vectors.
        gallery: (N, d) finite vectors; a query that is among them is its own neighbour.
        k: how many neighbours, at least 1.

    Returns:
        (q, min(k, N)) row numbers in the gallery, nearest first; of two at the same distance the lower one.

    >>> nearest([[0.0, 0.0]], [[3.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 2).tolist()
    [[1, 2]]
    """
    q, g = _matrix(queries, "queries"), _matrix(gallery, "gallery")
    if q.shape[1] != g.shape[1]:
        raise InputError(f"queries have {q.shape[1]} dimensions and the gallery {g.shape[1]}")
    if k < 1:
        raise InputError(f"k = {k}: give a whole number of at least 1")
    k = min(k, len(g))
    half = (np.einsum("nd,nd->n", g, g, dtype=np.float64) / 2).astype(np.float32)
    codes = np.zeros(len(g), dtype=np.int32)
    width = max(_GALLERY, 2 * k)
    out = np.empty((len(q), k), dtype=np.int64)
    for start in range(0, len(q), _QUERIES):
        part = q[start : start + _QUERIES]
        best = Best(len(part), k, codes, 1)
        for left in range(0, len(g), width):
            block = slice(left, min(left + width, len(g)))
            scores = part @ g[block].T
            scores -= half[block]
            best.add(scores, np.arange(block.start, block.stop, dtype=np.int64))
        out[start : start + _QUERIES] = best.result()[0]
    return out


def without(neighbours: Ints, forbidden: Any, k: int) -> Ints:
    """(q, k) the first ``k`` of each row of ``neighbours`` that are not in its row of ``forbidden`` (q, m); -1 fills.

    Exact if ``neighbours`` holds at least k + m neighbours, or all there are.

    >>> without(np.array([[4, 2, 7]]), [[2, -1]], 2).tolist()
    [[4, 7]]
    """
    bad = (neighbours[:, :, None] == np.asarray(forbidden, dtype=np.int64)[:, None, :]).any(axis=2)
    order = np.argsort(bad, axis=1, kind="stable")
    kept = np.where(np.take_along_axis(bad, order, axis=1), -1, np.take_along_axis(neighbours, order, axis=1))
    return np.asarray(kept[:, :k])


def _matrix(values: Any, name: str) -> NDArray[np.float32]:
    matrix = np.ascontiguousarray(values, dtype=np.float32)
    if matrix.ndim != 2 or not len(matrix):
        raise InputError(f"{name} must have shape (n, d) with n >= 1, not {np.shape(values)}")
    if not np.isfinite(matrix).all():
        raise InputError(f"{name} holds values that are not finite; leave those rows out")
    return matrix


INEQUALITIES = (">", ">=")
_TIE = 1e-12
HELD = 10_000_000
"""Neighbours that are held at a time: 80 MB of their numbers, and a few times that on the way."""


@dataclass(frozen=True)
class Neighbourhood:
    """An edit stays if enough of its K nearest person crops are real, and enough show its group.

    The neighbours are among real crops and edits, by Euclidean distance of unit vectors. A source stays only if an
    edit of every group was accepted; one of each is drawn. GenSynth (arXiv 2305.15407): CLIP, K = 50, more than 0.08
    real, more than 0.5 of the group; preset ``dino``: K = 5000 and at least 0.0002, K = 50 and at least 0.4.
    """

    axis: str = "gender"
    k: int = 50
    real_above: float = 0.08
    group_above: float = 0.5
    k_group: int = 0
    """K of the group's share; 0 is the same."""
    inequality: str = ">"
    """Whether a share must be above its limit, or may equal it (``>=``)."""
    exclude_self: bool = True
    exclude_siblings: bool = False
    """Whether other edits of the same source are no neighbours; a dozen near-copies else fill the neighbourhood."""
    select: str = "one"
    """``one`` accepted edit of each group for each source, drawn by the seed; ``all`` of them; or ``images``, which
    does not ask for every group."""
    crop: str = "person"
    model: str = ""
    model_group: str = ""
    """Another encoder for the group's share."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "gensynth": {},
        "dino": {
            "k": 5000,
            "real_above": 0.0002,
            "k_group": 50,
            "group_above": 0.4,
            "inequality": ">=",
            "model": "hf:facebook/dino-vitb16",
        },
    }

    def __post_init__(self) -> None:
        if self.inequality not in INEQUALITIES:
            raise UnknownNameError("inequality", self.inequality, INEQUALITIES)
        if self.select not in ("one", "all", "images"):
            raise UnknownNameError("selection", self.select, ("one", "all", "images"))
        if self.k < 1 or self.k_group < 0:
            raise InputError(f"k = {self.k}, k_group = {self.k_group}: give at least 1 neighbour")

    @property
    def columns(self) -> tuple[str, ...]:
        """The source of each edit, and the group it should show."""
        return ("source_id", self.axis)

    @property
    def needs(self) -> tuple[str, ...]:
        """Vectors of person crops."""
        what = "person crops" if self.crop == "person" else "images"
        return (f"vectors of {what}{f' of {self.model}' if self.model else ''}", "real images")

    def judge(self, remaining: RemainingImages) -> FilterVerdict:
        """Scores ``real`` and ``group``: shares of the neighbours; real images are not judged and stay."""
        pool = _pool(self, remaining)
        looked_at = partial(
            neighbourhood,
            is_real=pool.is_real,
            groups=pool.groups,
            sources=pool.sources,
            exclude_self=self.exclude_self,
            exclude_siblings=self.exclude_siblings,
        )
        neighbours = looked_at(pool.vectors[self.model], k=self.k)
        share_real, share_group = neighbours.real, neighbours.group
        if self.model_group or self.k_group:
            share_group = looked_at(pool.vectors[self.model_group or self.model], k=self.k_group or self.k).group
        n = len(remaining)
        judged = np.zeros(n, dtype=bool)
        judged[pool.rows] = True
        real, group = np.full(n, np.nan), np.full(n, np.nan)
        real[pool.rows], group[pool.rows] = share_real, share_group
        good = np.zeros(n, dtype=bool)
        good[pool.rows] = accepted(
            share_real, share_group, self.real_above, self.group_above, inequality=self.inequality
        )
        unseen = _edits(remaining) & ~judged  # edits without a vector or a group
        frame = remaining.labelled(self.axis)
        kept = good
        files: dict[str, pd.DataFrame] = {}
        if self.select != "images":
            kept = chosen_pairs(good, frame, self.axis, every=self.select == "all", seed=remaining.seed)
            deciles = realness_deciles(real, kept, frame, self.axis)
            if len(deciles):
                files["knn_deciles"] = deciles
        judged |= unseen
        notes = [f"{int(good.sum())} of {int(judged.sum())} edits are accepted, {int(kept.sum())} are chosen"]
        if unseen.any():
            notes.append(f"{int(unseen.sum())} edits could not be encoded or have no group")
        if pool.n_uncropped:
            notes.append(f"{pool.n_uncropped} images have no box of a person and were compared whole, not cropped")
        if neighbours.k < self.k:
            notes.append(f"only {neighbours.k} neighbours there are, fewer than K = {self.k}")
        return FilterVerdict(judged & ~good, judged & ~kept, {"real": real, "group": group}, judged, notes, files=files)


@dataclass(frozen=True)
class Neighbours:
    """(e,) shares of the neighbours of each edit."""

    real: Floats
    group: Floats
    k: int
    """The fewest neighbours an edit had: K, or all there are."""


def neighbourhood(
    vectors: Any,
    is_real: Any,
    groups: Any,
    *,
    k: int = 50,
    sources: Any = None,
    exclude_self: bool = True,
    exclude_siblings: bool = False,
) -> Neighbours:
    """Shares of real images, and of images of the same group, among the ``k`` nearest of each edit.

    ``vectors`` (N, d), ``is_real`` (N,), ``groups`` (N,) numbers (-1 undefined: never of a group), ``sources`` (N,)
    numbers of the source of each edit (-1 for none). The edits are the rows that are not real, in their order.

    >>> found = neighbourhood([[0.0], [1.0], [1.1]], [True, False, False], [0, 1, 1], k=2)
    >>> found.real.tolist(), found.group.tolist()
    ([0.5, 0.5], [0.5, 0.5])
    """
    v, real, g = np.asarray(vectors, dtype=np.float32), np.asarray(is_real, dtype=bool), np.asarray(groups)
    edits = np.flatnonzero(~real)
    if not len(edits):
        raise InputError("there is no edit to judge; every image is real")
    forbidden = _forbidden(edits, real, sources, exclude_self, exclude_siblings)
    wide = k + forbidden.shape[1]
    shares, fewest = np.empty((2, len(edits))), k
    step = max(1, HELD // min(wide, len(v)))
    for start in range(0, len(edits), step):  # with K = 5000, the neighbours of all edits are gigabytes
        block = slice(start, start + step)
        neighbours = without(nearest(v[edits[block]], v, wide), forbidden[block], k)
        there = neighbours >= 0
        n_there = there.sum(axis=1)
        if not n_there.all():
            raise InputError("an edit has no neighbour that counts; give more real images")
        same = (g[neighbours] == g[edits[block]][:, None]) & (g[neighbours] >= 0) & there
        shares[:, block] = (real[neighbours] & there).sum(axis=1) / n_there, same.sum(axis=1) / n_there
        fewest = min(fewest, int(n_there.min()))
    return Neighbours(shares[0], shares[1], fewest)


def accepted(
    real: Any, group: Any, real_above: float = 0.08, group_above: float = 0.5, *, inequality: str = ">"
) -> Flags:
    """Which edits have enough real neighbours and enough of their group.

    >>> accepted([4 / 50, 5 / 50], [0.6, 0.6]).tolist(), accepted([4 / 50], [0.5], inequality=">=").tolist()
    ([False, True], [True])
    """
    edge = _TIE if inequality == ">" else -_TIE
    return np.asarray((np.asarray(real) > real_above + edge) & (np.asarray(group) > group_above + edge))


def chosen_pairs(good: Flags, frame: pd.DataFrame, axis: str, *, every: bool = False, seed: int = 0) -> Flags:
    """Of each source with an accepted edit of every group, one edit per group drawn by ``seed`` (or ``every`` one).

    The draw depends on the seed and the image's id alone, so rows may come in any order.

    >>> frame = pd.DataFrame({"image_id": list("abcd"), "source_id": ["s", "s", "t", "t"], "gender": list("fmfm")})
    >>> chosen_pairs(np.array([True, True, True, False]), frame, "gender").tolist()
    [True, True, False, False]
    """
    edits = frame["source_id"].notna() & frame[axis].notna()
    wanted = frame.loc[edits, axis].nunique()
    candidates = frame.loc[good & edits.to_numpy(), ["image_id", "source_id", axis]].copy()
    complete = candidates.groupby("source_id")[axis].transform("nunique") == wanted
    candidates = candidates[complete]
    if not every and len(candidates):
        candidates["draw"] = [hashlib.sha256(f"{seed}:{name}".encode()).hexdigest() for name in candidates["image_id"]]
        candidates = candidates.sort_values("draw").drop_duplicates(["source_id", axis])
    kept = np.zeros(len(frame), dtype=bool)
    kept[candidates.index.to_numpy()] = True
    return kept


def realness_deciles(real: Floats, kept: Flags, frame: pd.DataFrame, axis: str) -> pd.DataFrame:
    """The realness of pairs, in ten bins of the score (GenSynth, Appendix J): 1 is [0, 0.1), 10 is [0.9, 1].

    A pair is an edit of every group from one source; the first of each group make a pair, then the second, and so on.
    Its realness is the mean over its edits. Every candidate pair has a row, and once more, with ``chosen``, the pair
    that stays of a source.

    >>> frame = pd.DataFrame({"image_id": list("abcd"), "source_id": ["s"] * 4, "gender": list("fmfm")})
    >>> realness_deciles(np.array([0.1, 0.3, 0.5, 0.9]), np.array([1, 1, 0, 0], bool), frame, "gender").values.tolist()
    [['s', 0.2, 3, False], ['s', 0.7, 8, False], ['s', 0.2, 3, True]]
    """
    edits = pd.DataFrame(
        {"source_id": frame["source_id"], "group": frame[axis], "image_id": frame["image_id"], "real": real}
    )
    known = edits["source_id"].notna() & edits["group"].notna() & edits["real"].notna()
    candidates = edits[known].sort_values("image_id", kind="stable")
    candidates["pair"] = candidates.groupby(["source_id", "group"]).cumcount()
    by_pair = candidates.groupby(["source_id", "pair"], sort=True)
    whole = by_pair["group"].nunique() == candidates["group"].nunique()
    all_pairs = by_pair["real"].mean()[whole].reset_index().drop(columns="pair").assign(chosen=False)
    stays = edits[kept & known.to_numpy()].groupby("source_id", sort=True)["real"].mean()
    both = pd.concat([all_pairs, stays.reset_index().assign(chosen=True)], ignore_index=True)
    both["decile"] = np.minimum(np.floor(both["real"] * 10 + 1e-9), 9).astype(int) + 1
    return both[["source_id", "real", "decile", "chosen"]]


@dataclass(frozen=True)
class _Pool:
    """Real crops first, then edits."""

    vectors: dict[str, NDArray[np.float32]]
    is_real: Flags
    groups: NDArray[np.int64]
    sources: NDArray[np.int64]
    rows: NDArray[np.int64]
    """The edits' rows among the remaining images."""
    n_uncropped: int
    """Images that were to be cropped to a person and have no box of one."""


def _edits(remaining: RemainingImages) -> Flags:
    return np.asarray(remaining.column("source_id").notna())


def _pool(settings: Neighbourhood, remaining: RemainingImages) -> _Pool:
    models = list(dict.fromkeys([settings.model, settings.model_group or settings.model]))
    own = {model: remaining.image_vectors(model, crop=settings.crop) for model in models}
    frame = remaining.labelled(settings.axis)[["source_id", settings.axis]]
    looked_at = [remaining]
    if remaining.models.reference is not None:
        reference = remaining.reference()
        looked_at.append(reference)
        if settings.axis not in reference.table.types:
            raise InputError(
                f"{reference.table.path} has no axis {settings.axis!r}, which the neighbours are asked for"
            )
        others = {model: reference.image_vectors(model, crop=settings.crop) for model in models}
        real = reference.labelled(settings.axis)[[settings.axis]].assign(source_id=None)
    else:
        own_real = ~_edits(remaining)
        if not own_real.any():
            raise InputError("no image is real (without source_id); give a table of real images as reference")
        others = {model: vectors[own_real] for model, vectors in own.items()}
        real = frame[own_real]
    rows = np.flatnonzero(_edits(remaining) & frame[settings.axis].notna().to_numpy())
    rows = rows[np.all([np.isfinite(own[model][rows]).all(axis=1) for model in models], axis=0)]
    seen = np.all([np.isfinite(others[model]).all(axis=1) for model in models], axis=0)
    together = pd.concat([real[seen], frame.iloc[rows]], ignore_index=True)
    n_real = int(seen.sum())
    return _Pool(
        {model: np.concatenate([others[model][seen], own[model][rows]]) for model in models},
        np.arange(len(together)) < n_real,
        read_labels(together[settings.axis]).codes,  # "Male" of one table and "male" of the other are one group
        pd.factorize(together["source_id"])[0].astype(np.int64),
        rows,
        sum(some.n_uncropped(settings.model) for some in looked_at) if settings.crop == "person" else 0,
    )


def _forbidden(
    edits: NDArray[np.int64], real: Flags, sources: Any, exclude_self: bool, exclude_siblings: bool
) -> NDArray[np.int64]:
    """(e, m) what is no neighbour of each edit, -2 for padding."""
    if not exclude_siblings or sources is None:
        return edits[:, None] if exclude_self else np.full((len(edits), 1), -2, dtype=np.int64)
    codes = np.where(real, -1, np.asarray(sources, dtype=np.int64))
    by_source = pd.Series(codes).groupby(codes).indices
    lists = [by_source[codes[e]] if codes[e] >= 0 else np.array([e]) for e in edits]
    out = np.full((len(edits), max(map(len, lists))), -2, dtype=np.int64)
    for row, (edit, siblings) in enumerate(zip(edits, lists, strict=True)):
        chosen = siblings if exclude_self else siblings[siblings != edit]
        out[row, : len(chosen)] = chosen
    return out
