"""Balancing and splitting: which rows of a table to take, as pure functions on its labels, and as layers.

Draws are by id and seed (:mod:`equipoise.data.results`): the same rows in another order give the same answer. A table
is not copied: :func:`balance_layer` and :func:`split_layer` write a layer beside it.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Ints
from equipoise.data.labels import set_names, set_numbers
from equipoise.data.results import axis_names, draw_order, ids_of, labels_of
from equipoise.errors import InputError, UnknownNameError
from equipoise.formatting import plural

if TYPE_CHECKING:
    from equipoise.data.table import Table

METHODS = ("undersample", "gensynth", "oversample")

Group = tuple[Any, ...]


@dataclass(frozen=True)
class Balanced:
    """Which rows to take, and the counts of each group before and after."""

    positions: Ints
    """Row numbers for ``frame.iloc``, in order; a row that is taken twice is there twice."""
    before: Mapping[Group | None, int]
    after: Mapping[Group | None, int]
    missing: tuple[Group, ...]
    """Combinations of groups that no row shows, so that no sampling can balance them."""


def balance(frame: pd.DataFrame, axis: str | Sequence[str], *, method: str = "undersample", seed: int = 0) -> Balanced:
    """Rows in which every group of ``axis`` (of all axes together, if several) is shown equally often.

    - ``undersample``: every group as often as the rarest; rows without a label are left out.
    - ``gensynth``: the same, and of the rows without a label so many that they keep their share, rounded down, as
      GenSynth does (arXiv 2305.15407): ``undefined * taken // defined``.
    - ``oversample``: every group as often as the most frequent: each row is taken the same number of times, and
      some once more; rows without a label are left out.

    One of the axes may be a column of lists, such as ``objects``: then every object is to be shown equally often with
    every group. An image has several objects, so that this may be out of reach: rows are repeated (``oversample``) or
    left out (``undersample``) one at a time, as long as that lowers the number of images that object and group lack,
    or have too many of, in all. Objects that some group is never shown with are passed over (``missing``).

    >>> frame = pd.DataFrame({"image_id": list("abcde"), "gender": ["m", "m", "m", "f", None]})
    >>> chosen = balance(frame, "gender")
    >>> dict(chosen.after), len(chosen.positions)
    ({('f',): 1, ('m',): 1}, 2)
    >>> dict(balance(frame, "gender", method="oversample").after)
    {('f',): 3, ('m',): 3}
    """
    if method not in METHODS:
        raise UnknownNameError("method of balancing", method, METHODS)
    listed = [name for name in axis_names(axis) if name in frame and _holds_lists(frame[name])]
    if listed:
        return _balance_lists(frame, axis_names(axis), listed, method, seed)
    names, labels = labels_of(frame, axis)
    order = draw_order(ids_of(frame), seed, "balance")
    members: dict[Group, list[int]] = {}
    undefined: list[int] = []
    for position in order.tolist():
        label = labels[position]
        (undefined if label is None else members.setdefault(label, [])).append(position)
    if not members:
        raise InputError(f"no row has a label on {' and '.join(names)}, so there is nothing to balance")
    sizes = {group: len(rows) for group, rows in members.items()}
    wanted = max(sizes.values()) if method == "oversample" else min(sizes.values())
    taken = [position for rows in members.values() for position in _repeated(rows, wanted)]
    if method == "gensynth":
        taken += undefined[: len(undefined) * len(taken) // sum(sizes.values())]
    before = _ordered(Counter(labels))
    after = _ordered(Counter(labels[position] for position in taken))
    values = [sorted({group[i] for group in members}, key=str) for i in range(len(names))]
    missing = tuple(group for group in product(*values) if group not in members)
    return Balanced(np.sort(np.asarray(taken, dtype=np.int64)), before, after, missing)


def _holds_lists(column: pd.Series[Any]) -> bool:
    known = column.dropna()
    return len(known) > 0 and isinstance(known.iloc[0], list | tuple | np.ndarray)


def _balance_lists(frame: pd.DataFrame, names: tuple[str, ...], listed: list[str], method: str, seed: int) -> Balanced:
    """Rows in which items of a column of lists are shown with all groups alike, as nearly as can be had."""
    axes = [name for name in names if name not in listed]
    if len(listed) > 1 or not axes:
        raise InputError(f"{listed[0]!r} holds lists; balance it with groups, as in --axis {listed[0]} --axis gender")
    if method == "gensynth":
        raise InputError(f"{listed[0]!r} holds lists, which gensynth does not balance; say oversample or undersample")
    labels = labels_of(frame, axes)[1]
    order = [position for position in draw_order(ids_of(frame), seed, "balance") if labels[position] is not None]
    groups = sorted({label for label in labels if label is not None}, key=str)
    if len(groups) < 2:
        raise InputError(f"{' and '.join(axes)} has {len(groups)} group with a label; there is nothing to balance")
    items = [sorted({str(item) for item in (() if value is None else value)}) for value in frame[listed[0]]]
    known = sorted({item for position in order for item in items[position]})
    group_of = {position: groups.index(label) for position in order if (label := labels[position]) is not None}
    counts = np.zeros((len(known), len(groups)), dtype=np.int64)
    held = {position: np.array([known.index(item) for item in items[position]], dtype=np.intp) for position in order}
    for position in order:
        counts[held[position], group_of[position]] += 1
    before, possible = counts.copy(), np.asarray((counts > 0).all(axis=1))
    if not possible.any():
        raise InputError(f"no value of {listed[0]!r} is shown with every group of {' and '.join(axes)}")
    held = {position: some[possible[some]] for position, some in held.items()}
    copies = _moved(order, held, group_of, counts, adds=method == "oversample")
    taken = [position for position in order for _ in range(copies[position])]
    cells = {(item, *group): (i, g) for i, item in enumerate(known) for g, group in enumerate(groups)}
    after = np.zeros_like(before)
    for position in taken:
        after[[known.index(item) for item in items[position]], group_of[position]] += 1
    return Balanced(
        np.sort(np.asarray(taken, dtype=np.int64)),
        {cell: int(before[at]) for cell, at in cells.items() if before[at]},
        {cell: int(after[at]) for cell, at in cells.items() if after[at]},
        tuple(cell for cell, at in cells.items() if not before[at]),
    )


def _moved(
    order: Sequence[int], held: Mapping[int, Any], group_of: Mapping[int, int], counts: Any, *, adds: bool
) -> dict[int, int]:
    """How often each row is taken, after all moves that bring ``counts`` (items, groups) nearer to equal rows.

    Adding a row to a group that is behind the largest lowers the sum of what is lacking by 1 for each such item; where
    its group is the largest, all others fall one further behind. Leaving a row out is the same from above.
    """
    copies = dict.fromkeys(order, 1)
    others, step = counts.shape[1] - 1, 1 if adds else -1

    def gain(position: int) -> int:
        rows = counts[held[position]]
        own, end = rows[:, group_of[position]], rows.max(axis=1) if adds else rows.min(axis=1)
        return int(np.where(own == end, -others, 1).sum())

    moved = True
    while moved:
        moved = False
        gains = {position: gain(position) for position in order if adds or copies[position]}
        for position in sorted(gains, key=lambda p: (copies[p], -gains[p])):
            # counts have changed since: move only what still helps as much
            if gains[position] > 0 and gain(position) >= gains[position]:
                counts[held[position], group_of[position]] += step
                copies[position] += step
                moved = True
    return copies


def split(
    frame: pd.DataFrame,
    *,
    by: str = "subject",
    fractions: Mapping[str, float] | None = None,
    seed: int = 0,
) -> pd.Series[str]:
    """The split of each row, as a Series with the frame's index; what belongs together stays together.

    ``by``: ``"subject"``, ``"set_id"``, or any column whose values must not be torn apart. Whatever it is, a
    counterfactual set (:func:`~equipoise.data.labels.set_numbers`) and an image with what was made from it
    (``source_id``) are never torn apart either. ``fractions`` (default 0.8 train, 0.1 val, 0.1 test) are of the number
    of such units, rounded so that they add up. The answer depends on names and seed, not on the order of the rows.

    >>> frame = pd.DataFrame({"image_id": list("abcd"), "subject": ["cook", "cook", "nurse", "pilot"]})
    >>> split(frame, fractions={"train": 0.67, "test": 0.33}).tolist()
    ['train', 'train', 'train', 'test']
    """
    parts = _checked_fractions(fractions or {"train": 0.8, "val": 0.1, "test": 0.1})
    units = units_of(frame, by)
    names = sorted(set(units))
    if not names:
        return pd.Series([], index=frame.index, dtype=object, name="split")
    order = draw_order(names, seed, "split")
    split_of: dict[str, str] = {}
    start, reached = 0, Fraction(0)
    for part, fraction in parts.items():
        reached += fraction
        stop = int(reached * len(names) + Fraction(1, 2))  # halves up
        if stop == start:
            raise InputError(
                f"{plural(len(names), 'unit')} to split by {by!r}{_joined(frame, by, len(names))}: too few for a share "
                f"of {float(fraction):.3g} in {part!r}"
            )
        split_of |= {names[position]: part for position in order[start:stop]}
        start = stop
    return pd.Series([split_of[unit] for unit in units], index=frame.index, dtype=object, name="split")


def _joined(frame: pd.DataFrame, by: str, n_units: int) -> str:
    """Why there are fewer units than values of ``by``, and what to do where sets only seem to be shared."""
    n = frame[by].nunique()
    if n <= n_units:
        return ""
    return (
        f" (its {n:,} values are joined by images of one set_id or source_id, which stay together; where sets are "
        "numbered anew, give each a name of its own, such as cook-1)"
    )


def balance_layer(
    table: Table, axis: str | Sequence[str], *, name: str = "balance", method: str = "undersample", seed: int = 0
) -> Table:
    """Write :func:`balance` of a table's labels as a layer and return the table read with it.

    The layer says how often each image is taken (``copies``) and drops those that are not (``keep``); exports repeat
    rows accordingly. Rows that an earlier layer dropped are not drawn from. Combinations of groups that no row shows
    are in the layer's config as ``missing``, and how many sets lost some of their images but not all as ``torn_sets``.
    """
    axes = list(axis_names(axis))
    if len(axes) == 1 and table.types.get(axes[0], "").startswith("list"):
        if len(table.axes) != 1:
            raise InputError(f"{axes[0]!r} holds lists; say with which groups to balance it, as in --axis gender")
        axes += table.axes
    beside = [name for name in ("set_id", "subject") if name in table.columns]
    frame = table.to_pandas(list(dict.fromkeys(["image_id", *axes, *beside])), only_kept="keep" in table.columns)
    chosen = balance(frame, axes, method=method, seed=seed)
    copies = np.bincount(chosen.positions, minlength=len(frame))
    rows = pd.DataFrame({"image_id": frame["image_id"], "copies": copies, "keep": copies > 0})
    config: dict[str, Any] = {"balance": axes, "method": method, "seed": seed}
    if chosen.missing:
        config["missing"] = [list(group) for group in chosen.missing]
    if torn := _torn(set_numbers(frame), copies > 0):
        config["torn_sets"] = torn
    columns = {"copies": "int64", "keep": "bool"}
    return table.add_layer(name, rows, columns=columns, config=config, uses=table.fingerprints[1:])


def _torn(sets: Ints, taken: NDArray[np.bool_]) -> int:
    """Of how many sets (n,), numbered, with -1 for none, some images are taken and others are not."""
    inside = sets >= 0
    return len(np.intersect1d(sets[inside & taken], sets[inside & ~taken]))


def split_layer(
    table: Table,
    *,
    name: str = "split",
    by: str = "subject",
    fractions: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Table:
    """Write :func:`split` of a table as a layer and return the table read with it."""
    beside = [name for name in ("set_id", "subject", "source_id") if name in table.columns]
    columns = list(dict.fromkeys(["image_id", by, *beside]))
    frame = table.to_pandas(columns)
    parts = split(frame, by=by, fractions=fractions, seed=seed)
    rows = pd.DataFrame({"image_id": frame["image_id"], "split": parts})
    config = {"split": by, "fractions": dict(fractions) if fractions else None, "seed": seed}
    return table.add_layer(name, rows, columns=["split"], config=config, uses=table.fingerprints[1:])


def refuse_two_choices(limit: int, sample: int) -> None:
    """Refuse ``limit`` and ``sample`` together: each says which images are taken."""
    if limit and sample:
        raise InputError("--limit takes the first images and --sample draws some; give one of the two")


def some_ids(names: Sequence[str], *, limit: int = 0, sample: int = 0, seed: int = 0) -> list[str]:
    """The first ``limit`` of some names, or ``sample`` of them drawn, in their own order; 0 takes all.

    >>> some_ids(["a", "b", "c"], limit=2), len(some_ids(["a", "b", "c"], sample=2))
    (['a', 'b'], 2)
    """
    refuse_two_choices(limit, sample)
    if sample:
        return [names[i] for i in np.sort(draw_order(list(names), seed, "sample")[:sample])]
    return list(names[:limit]) if limit else list(names)


def some_of(table: Table, *, limit: int = 0, sample: int = 0, seed: int = 0) -> Table:
    """``table`` with only its first ``limit`` images kept, or about ``sample`` drawn; 0 keeps all.

    A draw takes counterfactual sets whole, because half a set says nothing: sets are taken until there are ``sample``
    images or more. The verdict is a layer in a temporary folder; the table is not changed.
    """
    if not limit and not sample:
        return table
    refuse_two_choices(limit, sample)
    columns = ["image_id", *(name for name in ("set_id", "subject") if name in table.columns)]
    frame = table.to_pandas(columns, only_kept="keep" in table.columns)
    keep = pd.Series(np.arange(len(frame)) < limit)
    if sample:
        own = pd.Series(ids_of(frame), index=frame.index)
        sets = pd.Series(set_names(frame), index=frame.index, dtype="string") if "set_id" in frame else own
        units = sets.fillna(own)
        names = list(dict.fromkeys(units))
        order = [names[i] for i in draw_order(names, seed, "sample")]
        before = units.value_counts().reindex(order).cumsum().shift(fill_value=0)
        keep = units.map(before < sample)
    rows = pd.DataFrame({"image_id": frame["image_id"], "keep": keep.to_numpy(dtype=bool)})
    folder = tempfile.mkdtemp(prefix="equipoise-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config = {"limit": limit} if limit else {"sample": sample, "seed": seed}
    place = f"{folder}/{'first' if limit else 'sample'}"
    return table.add_layer("some", rows, columns=["keep"], config=config, uses=table.fingerprints[1:], path=place)


def _repeated(rows: Sequence[int], wanted: int) -> list[int]:
    """The first ``wanted`` of the rows, beginning again from the first when they run out."""
    whole, rest = divmod(wanted, len(rows))
    return [*rows] * whole + [*rows[:rest]]


def _ordered(counts: Counter[Group | None]) -> dict[Group | None, int]:
    return dict(sorted(counts.items(), key=lambda item: (item[0] is None, str(item[0]))))


def _checked_fractions(fractions: Mapping[str, float]) -> dict[str, Fraction]:
    checked = {}
    for name, value in fractions.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            raise InputError(f"fractions: {name!r} is {value!r}; a number above 0 and at most 1 is expected")
        checked[name] = Fraction(str(value))
    total = sum(checked.values(), Fraction(0))
    if abs(total - 1) > Fraction(1, 10**6):
        raise InputError(f"fractions add up to {float(total):g}; they must add up to 1")
    checked[name] += 1 - total  # thirds written as 0.333333
    return checked


def units_of(frame: pd.DataFrame, by: str) -> list[str]:
    """The name of the unit each row belongs to: rows that share a value of ``by``, a set or a source are one unit."""
    if by not in frame:
        raise InputError(f"the frame has no column {by!r} to split by; its columns are: {', '.join(map(str, frame))}")
    # The smallest name leads a unit: values of ``by`` come before sets and ids, so that a unit is called the same
    # whatever its rows and their order
    ties = [f"2:{i}" for i in ids_of(frame)]
    links: list[tuple[str, str]] = []
    for column, kind in ((by, "0"), ("set_id", "1"), ("source_id", "2")):
        if column in frame:
            # a column that was asked for counts as it stands, also where two subjects have a set of one name
            values = set_names(frame) if kind == "1" else frame[column].to_numpy(dtype=object)
            cells = zip(ties, values, pd.isna(values), strict=True)
            links += [(tie, f"{kind}:{value}") for tie, value, is_missing in cells if not is_missing]
    return least_linked(ties, links)


def least_linked(names: Iterable[str], links: Iterable[tuple[str, str]]) -> list[str]:
    """For each of ``names`` the smallest of those that ``links`` tie it to, directly or through others.

    >>> least_linked(["d", "b", "e"], [("d", "c"), ("b", "c")])
    ['b', 'b', 'e']
    """
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for link in links:
        low, high = sorted(map(root, link))
        parent[high] = low
    return [root(name) for name in names]
