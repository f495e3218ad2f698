"""Mixing real and generated images: contaminated, synthetic-only and augmented training sets.

:func:`substitute` replaces a share of real images by images generated from the same captions, as in "Would Deep
Generative Models Amplify Bias in Future Models?" (CVPR 2024); :func:`combine` makes the training sets of text-guided
inpainting (Hirota et al., EMNLP 2024). Both are pure functions on the labels of two tables; :func:`write_mixture`
writes the table.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from equipoise.array_types import Ints
from equipoise.data.images import anchored
from equipoise.data.results import draw_order, ids_of, labels_of
from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.data.table import Table

UNITS = ("image", "caption")
MODES = ("synthetic", "augment")
_VERDICT = ("keep", "dropped_by", "copies")


@dataclass(frozen=True)
class Substitution:
    """Which real images (or captions of them) are replaced, and by which generated images."""

    alpha: float
    seed: int
    unit: str
    n: int
    """How many units there are."""
    replacement: Mapping[str, str]
    """Real unit to generated image id, in the order of the draw; a caption's unit is ``<image id>#<number>``."""

    @property
    def replaced(self) -> tuple[str, ...]:
        """The replaced units, sorted."""
        return tuple(sorted(self.replacement))

    @property
    def sha256(self) -> str:
        """The hash of the replaced units, one per line: two people with the same hash replaced the same."""
        return hashlib.sha256("\n".join(self.replaced).encode()).hexdigest()

    def manifest(self) -> dict[str, Any]:
        """Everything needed to make the same set again, for JSON."""
        return {
            "alpha": self.alpha,
            "seed": self.seed,
            "unit": self.unit,
            "n": self.n,
            "n_replaced": len(self.replacement),
            "sha256": self.sha256,
            "replacement": dict(sorted(self.replacement.items())),
        }


@dataclass(frozen=True)
class Combined:
    """Rows of the real and of the generated table that make a training set."""

    mode: str
    real: Ints
    generated: Ints
    names: tuple[str, ...]
    """The ids of these rows, the real ones first."""
    unlabelled: tuple[str, ...]
    """Real images without a label on the axis: whether a generated image of them differs is not known."""
    incomplete: tuple[str, ...]
    """Real images that lack a generated image of some group."""


def substitution_count(n: int, alpha: float) -> int:
    """How many of ``n`` units are replaced: ``floor(alpha * n + 0.5)``, exactly.

    >>> [substitution_count(2_772_289, alpha) for alpha in (0.2, 0.4, 0.6, 0.8, 1)]
    [554458, 1108916, 1663373, 2217831, 2772289]
    """
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float)) or not 0 <= alpha <= 1:
        raise InputError(f"alpha={alpha!r}: a number from 0 to 1 is expected")
    return math.floor(Fraction(str(alpha)) * n + Fraction(1, 2))


def substitute(
    real: pd.DataFrame, generated: pd.DataFrame, alpha: float, *, seed: int = 0, unit: str = "image"
) -> Substitution:
    """Replace a share ``alpha`` of the real images by images generated from them.

    ``real`` has ``image_id`` (and ``captions`` for ``unit="caption"``); ``generated`` has ``image_id`` and
    ``source_id``, the real image whose caption it was made from (and ``caption``, to tell which). The draw is one
    permutation a seed, so the sets are nested: what is replaced at 0.2 is replaced at 0.4. Of several generated
    images of a unit one is drawn.

    >>> real = pd.DataFrame({"image_id": ["a", "b"]})
    >>> fake = pd.DataFrame({"image_id": ["a1", "b1"], "source_id": ["a", "b"]})
    >>> sorted(substitute(real, fake, 1.0).replacement.items())
    [('a', 'a1'), ('b', 'b1')]
    """
    if unit not in UNITS:
        raise InputError(f"unit={unit!r}: 'image' or 'caption' is expected")
    units, makes = (_images if unit == "image" else _captions)(real, generated)
    count = substitution_count(len(units), alpha)
    chosen = [units[position] for position in draw_order(units, seed, "substitute")[:count]]
    missing = [name for name in chosen if name not in makes]
    if missing:
        raise InputError(
            f"{len(missing)} of the {count} units to replace have no generated image, the first is {missing[0]!r}"
        )
    names = ids_of(generated)
    several = sorted({names[position] for unit in chosen if len(makes[unit]) > 1 for position in makes[unit]})
    rank = {several[position]: i for i, position in enumerate(draw_order(several, seed, "substitute-which"))}
    replacement = {}
    for name in chosen:
        candidates = [names[position] for position in makes[name]]
        replacement[name] = min(candidates, key=rank.__getitem__) if len(candidates) > 1 else candidates[0]
    return Substitution(float(alpha), int(seed), unit, len(units), replacement)


def combine(
    real: pd.DataFrame, generated: pd.DataFrame, axis: str | Sequence[str], *, mode: str = "augment"
) -> Combined:
    """The training sets of text-guided inpainting.

    ``mode="synthetic"``: the generated images of all groups and no real one. ``mode="augment"``: all real images,
    and the generated ones that show another group than the image they were made from. ``generated`` has
    ``source_id`` and the axis; it holds the images that were selected, one per group.

    >>> real = pd.DataFrame({"image_id": ["a"], "gender": ["f"]})
    >>> fake = pd.DataFrame({"image_id": ["a_f", "a_m"], "source_id": ["a", "a"], "gender": ["f", "m"]})
    >>> combine(real, fake, "gender").generated.tolist(), combine(real, fake, "gender", mode="synthetic").real.tolist()
    ([1], [])
    """
    if mode not in MODES:
        raise InputError(f"mode={mode!r}: 'synthetic' or 'augment' is expected")
    names = labels_of(real, axis)[0]
    labels_of(generated, names)  # names the frame that lacks an axis
    # both together, so that "Male" of one and "male" of the other are one group
    together = labels_of(pd.concat([frame[list(names)].astype(object) for frame in (real, generated)]), names)[1]
    own, shown = together[: len(real)], together[len(real) :]
    generated_ids = ids_of(generated)
    sources = _sources(generated)
    label_of = dict(zip(ids_of(real), own, strict=True))
    groups_of: dict[str, set[Any]] = {name: set() for name in label_of}
    for source, group in zip(sources, shown, strict=True):
        if source not in label_of:
            raise InputError(f"a generated image was made from {source!r}, which is not among the real images")
        if group is None:
            raise InputError(f"a generated image of {source!r} has no label on {' and '.join(names)}")
        groups_of[source].add(group)
    groups = set().union(*groups_of.values())
    incomplete = tuple(sorted(name for name, groups_of_set in groups_of.items() if groups_of_set != groups))
    unlabelled = tuple(sorted(name for name, label in label_of.items() if label is None))
    if mode == "synthetic":
        return Combined(
            mode, _positions([]), _positions(range(len(generated))), tuple(generated_ids), unlabelled, incomplete
        )
    pairs = enumerate(zip(sources, shown, strict=True))
    other = [i for i, (source, group) in pairs if label_of[source] not in (None, group)]
    both = (*label_of, *(generated_ids[i] for i in other))
    return Combined(mode, _positions(range(len(real))), _positions(other), both, unlabelled, incomplete)


def write_mixture(
    real: Table, generated: Table | Sequence[Table], chosen: Substitution | Combined, out: str | Path
) -> Table:
    """Write the table that ``chosen`` describes: the real rows that stay, then the generated rows that come in.

    A generated image that replaces a real one takes its captions, because contamination changes images and nothing
    else. Columns are those of the real table; what the generated table does not have is null. Rows that a filter
    dropped do not come in, and its verdict (``keep``, ``dropped_by``, ``copies``) is no column of the mixture, so that
    tables with images to be taken more than once are refused. A substitution must have been chosen among the rows that
    are kept; its generated images may lie in several tables. An id that would then name two images is refused.
    """
    from equipoise.data.table import Table as TableClass

    tables = [generated] if isinstance(generated, TableClass) else list(generated)
    _refuse_copies([real, *tables])
    if isinstance(chosen, Combined):
        if len(tables) != 1:
            raise InputError(f"real images are combined with one table of generated ones, not with {len(tables)}")
        n_real = len(chosen.real)
        _refuse_one_name(real, tables, set(chosen.names[:n_real]), set(chosen.names[n_real:]))
        rows = _combined_rows(real, tables[0], chosen)
        config: dict[str, Any] = {"combine": chosen.mode}
    elif chosen.unit == "caption":
        raise InputError("a table has one row per image; a substitution by caption is used through its manifest")
    else:
        stay = set(ids_of(real.to_pandas(["image_id"], only_kept="keep" in real.columns))) - chosen.replacement.keys()
        _refuse_one_name(real, tables, stay, chosen.replacement.values())
        rows = _substituted_rows(real, tables, chosen)
        config = {"substitute": {key: value for key, value in chosen.manifest().items() if key != "replacement"}}
    known = {**_standard(), **dict.fromkeys(real.axes, "string")}
    further = {name: kind for name, kind in real.types.items() if name not in known and name not in _VERDICT}
    parents = (*real.fingerprints, *(name for table in tables for name in table.fingerprints))
    return TableClass.create(out, rows, axes=real.axes, columns=further, config=config, parents=parents)


def join_tables(tables: Sequence[Table], out: str | Path) -> Table:
    """All rows of several tables, one table after the other: edits with their sources, or pools of several kinds.

    An id that two tables share is refused: which of the two images it means could not be said later. Columns are those
    of all tables, null where a table has none; one that has another type elsewhere is refused. Rows that a filter
    dropped stay out; images that are to be taken more than once are refused, for which balance what is joined.
    """
    from equipoise.data.table import Table as TableClass

    if len(tables) < 2:
        raise InputError("joining takes two tables or more")
    _refuse_copies(tables)
    owner: dict[str, Table] = {}
    for table in tables:
        for name in ids_of(table.to_pandas(["image_id"], only_kept="keep" in table.columns)):
            if name in owner:
                if owner[name].path == table.path:
                    raise InputError(
                        f"{table.path} is given twice; give another table beside it, such as edits of its images: "
                        f"equipoise table join {table.path} EDITS -o OUT"
                    )
                _refuse_id(name, owner[name], table)
            owner[name] = table
    axes = tuple(dict.fromkeys(axis for table in tables for axis in table.axes))
    types: dict[str, str] = {}
    for table in tables:
        for name, kind in table.types.items():
            if types.setdefault(name, kind) != kind:
                raise InputError(f"the column {name!r} is {types[name]} in one table and {kind} in {table.path}")
    known = {*_standard(), *axes, *_VERDICT}
    further = {name: kind for name, kind in types.items() if name not in known}

    def rows() -> Iterator[dict[str, Any]]:
        empty = dict.fromkeys(types)
        for table in tables:
            for row in _kept_rows(table, table):
                yield {name: value for name, value in (empty | row).items() if name not in _VERDICT}

    parents = tuple(name for table in tables for name in table.fingerprints)
    config = {"join": [str(table.path.name) for table in tables]}
    return TableClass.create(out, rows(), axes=axes, columns=further, config=config, parents=parents)


def _standard() -> dict[str, str]:
    from equipoise.data.schema import schema_for

    return schema_for("images").types


def _substituted_rows(real: Table, generated: Sequence[Table], chosen: Substitution) -> Iterator[dict[str, Any]]:
    source_of = {copy: source for source, copy in chosen.replacement.items()}
    texts: dict[str, dict[str, Any]] = {}
    for row in _kept_rows(real, real):
        if row["image_id"] in chosen.replacement:
            texts[row["image_id"]] = {name: row[name] for name in ("caption", "captions", "split")}
        else:
            yield row
    _refuse_dropped(real, chosen.replacement.keys() - texts.keys())
    for table in generated:
        for row in _kept_rows(table, real):
            if row["image_id"] in source_of:
                source = source_of.pop(row["image_id"])
                yield row | texts[source] | {"source_id": source}
    _refuse_dropped(generated[-1] if generated else real, source_of.keys())


def _refuse_copies(tables: Sequence[Table]) -> None:
    """Refuse tables of which a balancing layer takes images more than once; the new table would hold each once."""
    for table in tables:
        if "copies" in table.columns:
            often = table.to_pandas(["image_id", "copies"], only_kept="keep" in table.columns)
            again = often["image_id"][often["copies"].fillna(1) > 1]
            if len(again):
                raise InputError(
                    f"{table.path}: a balancing layer takes {len(again)} images more than once, such as "
                    f"{again.iloc[0]!r}; leave that layer out, and balance the new table: equipoise table balance OUT"
                )


def _refuse_one_name(real: Table, generated: Sequence[Table], stay: set[str], come_in: Collection[str]) -> None:
    """Refuse a generated image with the id of a real one that stays, or of another generated one."""
    owner = dict.fromkeys(stay, real)
    wanted = set(come_in)
    for table in generated:
        for name in ids_of(table.to_pandas(["image_id"], only_kept="keep" in table.columns)):
            if name in wanted and owner.setdefault(name, table) is not table:
                _refuse_id(name, owner[name], table)
    twice = next((name for name, n in Counter(come_in).items() if n > 1), None)
    if twice is not None:
        raise InputError(f"the generated image {twice!r} takes the place of several real ones; one image takes one")


def _refuse_id(name: str, one: Table, other: Table) -> NoReturn:
    raise InputError(
        f"the id {name!r} is in {one.path} and in {other.path}, and ids of joined tables must differ; import one of "
        "the two with other ids (--id-column COLUMN)"
    )


def _refuse_dropped(table: Table, names: Collection[str]) -> None:
    if names:
        raise InputError(
            f"{len(names)} images of the substitution are not in {table.path} or were dropped by a filter, such as "
            f"{min(names)!r}; choose among those of to_pandas([...], only_kept=True)"
        )


def _combined_rows(real: Table, generated: Table, chosen: Combined) -> Iterator[dict[str, Any]]:
    n_real = len(chosen.real)
    for table, names in ((real, chosen.names[:n_real]), (generated, chosen.names[n_real:])):
        wanted = set(names)
        yield from (row for row in _kept_rows(table, real) if row["image_id"] in wanted)


def _kept_rows(table: Table, like: Table) -> Iterator[dict[str, Any]]:
    """The rows that no filter dropped, with the columns of ``like``; image paths mean the same in another folder."""
    columns = [name for name in table.columns if name in like.columns and name not in _VERDICT]
    for row in table.rows(columns, only_kept="keep" in table.columns):
        yield row | {"image": anchored(row["image"], table.image_root)}


def _images(real: pd.DataFrame, generated: pd.DataFrame) -> tuple[list[str], dict[str, list[int]]]:
    makes: dict[str, list[int]] = {}
    for position, source in enumerate(_sources(generated)):
        makes.setdefault(source, []).append(position)
    return ids_of(real), makes


def _captions(real: pd.DataFrame, generated: pd.DataFrame) -> tuple[list[str], dict[str, list[int]]]:
    for frame, column, whose in ((real, "captions", "real"), (generated, "caption", "generated")):
        if column not in frame:
            raise InputError(f"unit='caption' needs the column {column!r} of the {whose} table")
    by_text: dict[tuple[str, str], list[int]] = {}
    texts = generated["caption"].tolist()
    for position, (source, text) in enumerate(zip(_sources(generated), texts, strict=True)):
        by_text.setdefault((source, text), []).append(position)
    units: list[str] = []
    makes: dict[str, list[int]] = {}
    for name, captions in zip(ids_of(real), real["captions"].tolist(), strict=True):
        for number, caption in enumerate([] if captions is None else captions):
            unit = f"{name}#{number}"
            units.append(unit)
            if (name, caption) in by_text:
                makes[unit] = by_text[name, caption]
    return units, makes


def _sources(generated: pd.DataFrame) -> list[str]:
    if "source_id" not in generated:
        raise InputError("the generated table has no column 'source_id', the real image each was made from")
    sources = generated["source_id"].tolist()
    for position, source in enumerate(sources):
        if not isinstance(source, str):
            raise InputError(f"column 'source_id' of the generated table holds {source!r} in row {position}")
    return sources


def _positions(values: Sequence[int]) -> Ints:
    return np.asarray(list(values), dtype=np.int64)
