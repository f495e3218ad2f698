"""Labels in random order: over everything, inside sets, or as whole clusters of related items.

Which labels may change places when chance is asked: images of a pool, twins of a set, people of linked sets.

A null that shuffles labels is valid only if the labels that change places could have been each other's. Two images of
one counterfactual set that differ in gender and agree on everything else could; an image of another skin tone could
not, because a model may react to the tone. Hence labels move inside *cells*: one set and one combination of the levels
of all other axes that vary. An image without a partner of another group in its cell keeps its label.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.array_types import Ints
from equipoise.measure.arrays import as_keys, occurrence, row_blocks
from equipoise.measure.groups import UNDEFINED, Groups

LEAST_VARYING = 0.1
"""If the groups vary inside fewer sets than this share, sets are taken to show one group each, and exchanged whole."""


MOSTLY = 0.5
"""If more than this share of clusters hold several groups, they are taken for sets, else for people or sources."""


@dataclass(frozen=True)
class Exchange:
    """Units carry one label each; units of one block exchange their labels."""

    unit: Ints
    """(n,) the unit of each image: itself, a person seen in several linked sets, or a whole set."""
    labels: NDArray[np.int32]
    """(U,) the label of each unit."""
    block: Ints
    """(U,) the block of each unit."""
    person: Ints | None = None
    """(U,) units that are the same person in linked sets move together; ``None``: every unit moves on its own."""
    notes: tuple[str, ...] = ()

    @property
    def movable(self) -> NDArray[np.bool_]:
        """(U,) whether a unit's label can change at all: its block holds another one."""
        return ~_one_label(self.block, self.labels)[self.block]

    def draws(self, count: int, rng: np.random.Generator) -> Iterator[NDArray[Any]]:
        """Blocks (b, U) of exchanged labels, ``count`` rows in all; people of linked sets do not move together here."""
        single = int(self.block.min()) == int(self.block.max())
        yield from permuted_labels(self.labels, count, rng, None if single else self.block)


def keys_of(values: ArrayLike, n: int, name: str) -> Ints:
    """Names as whole numbers, one for each of ``n`` images.

    >>> keys_of(["b", "a", "b"], 3, "sets").tolist()
    [1, 0, 1]
    """
    return named_keys(values, n, name)[1]


def named_keys(values: ArrayLike, n: int, name: str) -> tuple[NDArray[Any], Ints]:
    """:func:`keys_of` with the names that the numbers stand for.

    >>> named_keys(["b", "a", "b"], 3, "sets")[0].tolist()
    ['a', 'b']
    """
    array = as_keys(values, name, n)
    names, numbers = np.unique(array.astype(str) if array.dtype == object else array, return_inverse=True)
    return names, numbers.astype(np.int64)


def codes(*keys: NDArray[Any]) -> Ints:
    """(n,) one whole number for each distinct combination of ``keys``, each (n,).

    >>> codes(np.array([0, 0, 1]), np.array([5, 5, 5])).tolist()
    [0, 0, 1]
    """
    joint = np.unique(keys[0], return_inverse=True)[1].astype(np.int64)
    for key in keys[1:]:
        part = np.unique(key, return_inverse=True)[1].astype(np.int64)
        joint = np.unique(joint * (int(part.max(initial=0)) + 1) + part, return_inverse=True)[1].astype(np.int64)
    return joint


def commonest(clusters: Ints, values: Ints) -> Ints:
    """(n,) the value that most items of each item's cluster have; of equals the lowest.

    >>> commonest(np.array([0, 0, 0, 1, 1]), np.array([7, 5, 7, 9, 8])).tolist()
    [7, 7, 7, 8, 8]
    """
    cluster = codes(clusters)
    joint = codes(cluster, values)
    first = _first(joint)
    order = np.lexsort((-values[first], np.bincount(joint), cluster[first]))  # each cluster's commonest comes last
    shared = np.empty(int(cluster.max(initial=-1)) + 1, dtype=np.int64)
    shared[cluster[first][order]] = values[first][order]
    return np.asarray(shared[cluster], dtype=np.int64)


def with_partners(groups: Groups, sets: ArrayLike, strata: ArrayLike | None, links: ArrayLike) -> Groups:
    """``groups`` of linked sets without the images that lack a partner: they become undefined.

    An image whose cell does not show every group that its link shows at that level still tells what its person is like
    in the sets that show them all, so that it must not stand among the images whose labels move together.

    Args:
        groups: the group of each of n images.
        sets: (n,) the counterfactual set of each image.
        strata: (n,) the levels of the other axes that vary, as whole numbers; -1, levels not known, leaves an image
            without a partner. ``None``: all images are of one level.
        links: (n,) sets that show the same people share a key.

    Returns:
        The same groups, with -1 for the images that lack a partner.

    >>> with_partners(Groups.from_values([*"fmf"]), [1, 1, 2], None, [0, 0, 0]).labels.tolist()
    [0, 1, -1]
    """
    n = len(groups)
    level = np.zeros(n, dtype=np.int64) if strata is None else np.asarray(strata, dtype=np.int64)
    usable = np.flatnonzero(groups.defined & (level >= 0))
    names = groups.labels[usable]
    cell = codes(keys_of(sets, n, "sets")[usable], level[usable])
    link = codes(keys_of(links, n, "links")[usable], level[usable])
    shown, possible = _n_labels(cell, names)[cell], _n_labels(link, names)[link]
    there = usable[(shown == possible) & (shown > 1)]
    labels = np.full(n, UNDEFINED, dtype=np.int32)
    labels[there] = groups.labels[there]
    return Groups(labels, groups.names, groups.axis)


def _n_labels(block: Ints, labels: NDArray[np.int32]) -> Ints:
    """(blocks,) how many different labels a block holds."""
    pairs = np.unique(np.stack([block, labels.astype(np.int64)], axis=1), axis=0)
    return np.bincount(pairs[:, 0], minlength=int(block.max(initial=-1)) + 1).astype(np.int64)


def in_pools(labels: NDArray[np.int32], pools: Ints) -> Exchange:
    """All images of a pool exchange labels: what a model without any structure behind its images would allow."""
    return Exchange(np.arange(len(labels)), labels, pools)


def in_sets(
    labels: NDArray[np.int32], pools: Ints, sets: Ints, strata: Ints | None = None, links: Ints | None = None
) -> Exchange:
    """Labels move inside each set, among the images that agree on ``strata`` (n,); -1 there keeps an image's label.

    ``links`` (n,): sets of different subjects that show the same people share a link. A person is the n-th image of a
    group at a level in each set of a link; if two people change places in one set, they do in all that show both.

    Where hardly any set shows two groups, whole sets of one group are the units: they exchange labels with sets of the
    same pool, size and levels (or, linked, with those that are seen in the same places).
    """
    n = len(labels)
    level = np.zeros(n, dtype=np.int64) if strata is None else strata
    own = int(level.max(initial=0)) + 1
    level = np.where(level < 0, own + np.arange(n), level)  # a level of its own: no partner
    whole = codes(pools, sets)
    cell = codes(whole, level)
    varied = ~_one_label(cell, labels)[cell]
    sets_that_vary = np.zeros(int(whole.max(initial=0)) + 1, dtype=bool)
    sets_that_vary[whole[varied]] = True
    if sets_that_vary.mean() < LEAST_VARYING:
        return _whole_sets(labels, pools, whole if links is None else links, level, cell, varied)
    still = int((~varied).sum())
    note = f"{still:,} of {n:,} images keep their label under chance: no partner that differs in it alone"
    person = None if links is None else codes(links, level, labels, occurrence(codes(cell, labels)))
    return Exchange(np.arange(n), labels, cell, person, (note,) if still else ())


def _whole_sets(
    labels: NDArray[np.int32], pools: Ints, link: Ints, level: Ints, cell: Ints, varied: NDArray[np.bool_]
) -> Exchange:
    """The units are sets (or linked sets) of one group; images of the few sets that show several move inside them."""
    alone = _one_label(link, labels)[link] & ~varied
    unit = codes(np.where(alone, -1 - link, np.arange(len(labels))))
    first = _first(unit)
    seen_in = _signature(unit, codes(pools, level))
    block = codes(np.where(alone[first], -1, cell[first]), np.where(alone[first], seen_in, 0))
    exchange = Exchange(unit, labels[first], block)
    n_sets = len(np.unique(link))
    moving = int((exchange.movable & alone[first]).sum())
    still = int((~exchange.movable & alone[first]).sum())
    notes = []
    if moving:
        notes.append(f"{moving:,} of {n_sets:,} sets show one group; chance exchanges the labels of such sets")
    if still:
        notes.append(f"{still:,} of {n_sets:,} sets cannot move under chance: the excess is too low")
    return Exchange(unit, labels[first], block, None, tuple(notes))


def _one_label(block: Ints, labels: NDArray[np.int32]) -> NDArray[np.bool_]:
    """(blocks,) whether all of a block have the same label."""
    lowest = np.full(int(block.max(initial=0)) + 1, np.iinfo(np.int32).max, dtype=np.int32)
    highest = np.full(len(lowest), np.iinfo(np.int32).min, dtype=np.int32)
    np.minimum.at(lowest, block, labels)
    np.maximum.at(highest, block, labels)
    return np.asarray(lowest >= highest)


def _first(unit: Ints) -> Ints:
    """(U,) the first image of each unit."""
    first = np.empty(int(unit.max(initial=-1)) + 1, dtype=np.int64)
    first[unit[::-1]] = np.arange(len(unit))[::-1]
    return first


def _signature(unit: Ints, place: Ints) -> Ints:
    """(U,) one number for each distinct bag of places that a unit's images are seen in: a sum of 64-bit hashes."""
    mixed = place.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    sums = np.zeros(int(unit.max(initial=-1)) + 1, dtype=np.uint64)
    np.add.at(sums, unit, mixed)
    return np.unique(sums, return_inverse=True)[1].astype(np.int64)


def in_clusters(labels: NDArray[Any], clusters: NDArray[Any] | None) -> Exchange:
    """Whole clusters (n,) of one group exchange their label (block 0); in each other one its images do.

    >>> exchange = in_clusters(np.array([0, 0, 1, 0, 1]), np.array([0, 0, 1, 2, 2]))
    >>> exchange.unit.tolist(), exchange.labels.tolist(), exchange.block.tolist()
    ([0, 0, 1, 2, 3], [0, 1, 0, 1], [0, 0, 1, 1])
    """
    n = len(labels)
    cluster = np.arange(n) if clusters is None else codes(clusters)
    mixed = ~_one_label(cluster, labels.astype(np.int32))[cluster]
    # whole clusters first, then the images of mixed ones, in the order given
    keys = np.where(mixed, int(cluster.max()) + 1 + np.arange(n), cluster)
    first, unit = np.unique(keys, return_index=True, return_inverse=True)[1:]
    block = codes(np.where(mixed, cluster + 1, 0)[first])
    if mixed.all():
        block = block + 1
    return Exchange(unit.astype(np.int64), labels[first].astype(np.int32), block)


class LabelShuffler:
    """Shuffles labels (N,) inside blocks: the counterfactual sets, the pools, or everything as one block.

    ``together`` (N,): entries with the same key move together. Two of them that change places in one block do so in
    every block that holds both, as far as the blocks' labels allow: what linked sets need, that show the same people.

    >>> shuffle = LabelShuffler(np.array([0, 1, 0, 1]), ["a", "a", "b", "b"])
    >>> rows = shuffle(100, np.random.default_rng(0))
    >>> rows.shape, bool((rows[:, :2].sum(axis=1) == 1).all())
    ((100, 4), True)
    >>> alike = LabelShuffler(np.array([0, 1, 0, 1]), ["a", "a", "b", "b"], [7, 8, 7, 8])(100, np.random.default_rng(0))
    >>> bool((alike[:, :2] == alike[:, 2:]).all())
    True
    """

    def __init__(self, labels: ArrayLike, blocks: ArrayLike | None = None, together: ArrayLike | None = None) -> None:
        self.labels = np.asarray(labels, dtype=np.int32)
        n = len(self.labels)
        keys = np.zeros(n, dtype=np.int64) if blocks is None else as_keys(blocks, "blocks", n, "label")
        if keys.dtype == object:
            keys = keys.astype(str)
        _, codes, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        self._together: NDArray[np.int64] | None = None
        order = np.argsort(codes, kind="stable")
        if together is not None:
            self._together = np.unique(np.asarray(together), return_inverse=True)[1].astype(np.int64)
            # equal ranks must mean equal labels in every block, whatever the order of the rows
            order = np.lexsort((self._together, self.labels, codes))
        starts = np.cumsum(sizes) - sizes
        self._members: list[NDArray[np.int64]] = [
            order[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes) if size > 1
        ]

    def __call__(self, draws: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """(draws, N) shuffled labels."""
        out = np.tile(self.labels, (draws, 1))
        luck = None if self._together is None else rng.random((draws, int(self._together.max(initial=-1)) + 1))
        for members in self._members:
            if luck is not None and self._together is not None:
                ranks = np.argsort(np.argsort(luck[:, self._together[members]], axis=2), axis=2)
                out[:, members] = self.labels[members][np.arange(len(members))[None, :, None], ranks]
            elif members.shape[1] == 2:  # twins change places or not: one coin each
                swapped = rng.integers(0, 2, size=(draws, len(members)), dtype=np.int8).astype(bool)
                first, second = self.labels[members].T
                out[:, members[:, 0]] = np.where(swapped, second, first)
                out[:, members[:, 1]] = np.where(swapped, first, second)
            else:
                block = np.broadcast_to(self.labels[members], (draws, *members.shape))
                out[:, members] = rng.permuted(block, axis=2)
        return out


def permuted_labels(
    labels: NDArray[Any], count: int, rng: np.random.Generator, within: NDArray[Any] | None = None
) -> Iterator[NDArray[Any]]:
    """Blocks (b, n) of ``labels`` (n,) in random order, ``count`` rows in all; ``within`` (n,) keeps them in
    their set.

    >>> rng = np.random.default_rng(0)
    >>> next(permuted_labels(np.array([0, 1, 2, 3]), 5, rng, np.array([0, 0, 1, 1])))[:, :2].max()
    np.int64(1)
    """
    n = len(labels)
    sets = np.zeros(n) if within is None else np.unique(within, return_inverse=True)[1].astype(np.float64)
    by_set = np.argsort(sets, kind="stable")
    for rows in row_blocks(count, n):
        order = np.argsort(sets + rng.random((rows.stop - rows.start, n)), axis=1)
        shuffled = np.empty(order.shape, dtype=labels.dtype)
        shuffled[:, by_set] = labels[order]
        yield shuffled


def mostly_mixed(labels: NDArray[Any], clusters: NDArray[Any]) -> bool:
    """Whether more than half of the clusters hold two labels, as counterfactual sets do and people do not.

    >>> mostly_mixed(np.array([0, 1, 1]), np.array([5, 5, 6])), mostly_mixed(np.array([0, 1]), np.array([5, 5]))
    (False, True)
    """
    return len(labels) > 0 and bool((~_one_label(codes(clusters), labels.astype(np.int32))).mean() > MOSTLY)


def share_mixed(labels: NDArray[Any], clusters: NDArray[Any]) -> float:
    """Of the clusters of several items the share that hold several labels; 0 where each has one item.

    >>> share_mixed(np.array([0, 1, 1, 1, 0]), np.array([5, 5, 6, 6, 7]))
    0.5
    """
    cluster = codes(clusters)
    several = np.bincount(cluster) > 1
    mixed = ~_one_label(cluster, codes(labels).astype(np.int32))[: len(several)]
    return float(mixed[several].mean()) if several.any() else 0.0


def shuffled_labels(
    labels: NDArray[Any],
    count: int,
    rng: np.random.Generator,
    within: NDArray[Any] | None = None,
    clusters: NDArray[Any] | None = None,
) -> Iterator[NDArray[Any]]:
    """Blocks (b, n) of ``labels`` (n,): inside ``within`` where given, else over all, and as whole ``clusters``.

    With both, clusters exchange inside ``within`` as :func:`shuffled_clusters` says, or, where each stratum lies in one
    cluster (paired data), labels move freely inside strata.

    >>> [len(block) for block in shuffled_labels(np.array([0, 1]), 3, np.random.default_rng(0))]
    [3]
    """
    if clusters is None:
        return permuted_labels(labels, count, rng, within)
    if within is not None:
        n_clusters, n_strata = int(codes(clusters).max(initial=-1)), int(codes(within).max(initial=-1))
        if n_clusters + 1 == len(labels) or int(codes(within, clusters).max(initial=-1)) == n_strata:
            return permuted_labels(labels, count, rng, within)
    return shuffled_clusters(labels, clusters, count, rng, within)


def shuffled_clusters(
    labels: NDArray[Any],
    clusters: NDArray[Any],
    count: int,
    rng: np.random.Generator,
    within: NDArray[Any] | None = None,
) -> Iterator[NDArray[Any]]:
    """Blocks (b, n) of ``labels`` (n,) in which whole ``clusters`` (n,) have exchanged their labels.

    Clusters of one label (a person, a source) and of similar size exchange it: of 1, of 2 to 3, of 4 to 7 items and so
    on; in the others labels move inside. Where most hold several, clusters of the same size exchange all their labels,
    in random order. Labels shuffled item by item would take the images of one person for independent.

    All this happens inside each stratum of ``within`` (n,) where it is given. A cluster of one label belongs to the
    stratum of most of its items and stays whole; one of several labels is a cluster of its own in each stratum.

    >>> rng = np.random.default_rng(0)
    >>> block = next(shuffled_clusters(np.array([0, 0, 1, 1, 1, 1]), np.array([5, 5, 6, 6, 7, 7]), 50, rng))
    >>> bool((block[:, ::2] == block[:, 1::2]).all()), sorted(set(block.sum(axis=1).tolist()))
    (True, [4])
    """
    stratum = np.zeros(len(labels), dtype=np.int64) if within is None else _home_stratum(labels, clusters, within)
    cluster = codes(stratum, clusters)
    varied = ~_one_label(cluster, labels.astype(np.int32))[cluster]
    if (np.bincount(codes(clusters), varied) > 0).mean() <= MOSTLY:
        exchange = in_clusters(labels, cluster)
        sizes = np.bincount(exchange.unit)
        alike = codes(exchange.block, np.floor(np.log2(sizes)), stratum[_first(exchange.unit)])
        for block in permuted_labels(exchange.labels.astype(labels.dtype), count, rng, alike):
            yield block[:, exchange.unit]
        return
    sizes = np.bincount(cluster)
    alike = codes(sizes, stratum[_first(cluster)])
    by_cluster = np.argsort(cluster, kind="stable")
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    for rows in row_blocks(count, len(labels)):
        drawn = rows.stop - rows.start
        shuffled = np.empty((drawn, len(labels)), dtype=labels.dtype)
        for kind in range(int(alike.max()) + 1):
            mine = alike == kind
            items = by_cluster[start[mine][:, None] + np.arange(sizes[mine][0])]
            order = rng.random((drawn, len(items))).argsort(axis=1)
            exchanged = rng.permuted(labels[items][order], axis=2)
            shuffled[:, items] = exchanged
        yield shuffled


def _home_stratum(labels: NDArray[Any], clusters: NDArray[Any], within: NDArray[Any]) -> Ints:
    """(n,) the stratum of each item; of a cluster of one label the stratum of most of its items (of equals the first).

    A person seen in several strata must get one label in all of them, or the person's images count as independent.
    """
    cluster, stratum = codes(clusters), codes(within)
    return np.where(_one_label(cluster, labels.astype(np.int32))[cluster], commonest(cluster, stratum), stratum)
