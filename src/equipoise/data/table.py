"""A table: a folder of Parquet shards and ``_table.json``, opened, read in batches, and joined with its layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from equipoise.data.arrays import batches_of
from equipoise.data.layers import check_layer, combined_types, joined_batches, layer_names, layer_path, write_layer
from equipoise.data.manifest import Manifest, fingerprint_of
from equipoise.data.schema import Row, TableSchema, arrow_type, schema_for
from equipoise.data.shard_writer import ShardWriter
from equipoise.data.shards import ERRORS_FOLDER, ShardInfo, open_checked, read_batches, read_columns
from equipoise.data.validation import problems
from equipoise.errors import InputError, UnknownNameError
from equipoise.text.labels import read_labels

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

_BATCH_WITH_IMAGES = 256
_BATCH_WITHOUT = 65_536


class Table:
    """An open table; make one with :meth:`create`, read one with :meth:`open`.

    >>> import tempfile
    >>> rows = [{"image_id": "a", "gender": "female"}, {"image_id": "b", "gender": None}]
    >>> table = Table.create(tempfile.mkdtemp() + "/people", rows, axes=["gender"])
    >>> len(table), table.axes
    (2, ('gender',))
    >>> table.to_pandas(columns=["image_id", "gender"])["gender"].tolist()[0]
    'female'
    """

    def __init__(self, path: Path, manifest: Manifest, fingerprint: str, layers: tuple[Table, ...] = ()) -> None:
        self.path = path
        self.fingerprint = fingerprint
        """The SHA-256 of ``_table.json``: the table's name for its descendants. Layers do not change it."""
        self.layers = layers
        """The layers that are joined when this table is read."""
        self._manifest = manifest
        self.types = combined_types(self)
        """The type of every column, those of the layers included."""

    @classmethod
    def create(
        cls,
        path: str | Path,
        rows: Any = None,
        *,
        axes: Iterable[str] = (),
        kind: str = "images",
        columns: Mapping[str, str] | Iterable[str] = (),
        dim: int | None = None,
        config: Mapping[str, Any] | None = None,
        parents: Iterable[str] = (),
        rows_per_shard: int = 1000,
        wait: float = 0.0,
    ) -> Table:
        """Write a whole table and return it.

        ``rows``: mappings from column to value (any iterable), an Arrow table, or a DataFrame; ``None`` makes an
        empty table. ``axes``, ``kind``, ``columns`` and ``dim`` give the schema, see
        :func:`equipoise.data.schema.schema_for`. Use :class:`equipoise.data.TableWriter` to write shards one by one.
        """
        if rows_per_shard < 1:
            raise InputError(f"rows_per_shard must be at least 1, not {rows_per_shard}")
        schema = schema_for(kind, axes=axes, columns=columns, dim=dim)
        with ShardWriter(path, schema, config=config, parents=parents, resume=False, wait=wait) as writer:
            try:
                source = _Rebatched(batches_of([] if rows is None else rows, schema, where=str(path)))
                index = 0
                while source.more():
                    writer.write_shard(index, source.take(rows_per_shard))
                    index += 1
                writer.publish()
            except InputError:  # nothing of it can be continued, so nothing of it is left
                if not writer.finished:
                    writer.abandon()
                raise
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path, *, layers: Iterable[str | Path | Table] = ()) -> Table:
        """Open the table at ``path``: its ``_table.json``, its files and their sizes, and the first shard's columns.

        ``layers``: names of layers beside the table, paths of layers elsewhere, or ``"all"`` that are beside it;
        their columns are joined at reading, see :mod:`equipoise.data.layers`. The columns of the other shards are
        checked when they are read; :meth:`validate` checks everything.
        """
        folder = Path(path)
        manifest = Manifest.load(folder)
        for shard in manifest.shards:
            _check_size(folder / shard.file, shard)
        table = cls(folder, manifest, fingerprint_of(folder))
        if manifest.shards:
            table.open_shard(0).close()
        return table.with_layers(layers)

    def with_layers(self, layers: Iterable[str | Path | Table]) -> Table:
        """This table read with these ``layers``, in this order, and no others."""
        if isinstance(layers, str):
            if layers != "all":
                raise InputError(
                    f"layers must be a list of names or 'all', not the text {layers!r}; write [{layers!r}]"
                )
            layers = self.layer_names()
        opened = []
        for layer in layers:
            opened.append(layer if isinstance(layer, Table) else Table.open(layer_path(self, layer)))
            check_layer(self, opened[-1])
        return Table(self.path, self._manifest, self.fingerprint, tuple(opened))

    def without_layers(self) -> Table:
        """This table as it is on disk."""
        return Table(self.path, self._manifest, self.fingerprint)

    def add_layer(
        self,
        name: str,
        data: Any,
        *,
        columns: Mapping[str, str] | Iterable[str] = (),
        axes: Iterable[str] = (),
        config: Mapping[str, Any] | None = None,
        uses: Iterable[str] = (),
        path: str | Path | None = None,
        wait: float = 0.0,
    ) -> Table:
        """Write a layer beside this table (or at ``path``) and return this table read with it as the last layer.

        ``data``: ``image_id`` and the layer's columns, as rows, an Arrow table or a DataFrame, in any order.
        ``uses``: fingerprints of other tables or layers that the values depend on. Nothing of the table is copied
        or changed. Use :class:`equipoise.data.LayerWriter` to write a layer shard by shard.
        """
        place = write_layer(
            self, name, data, columns=columns, axes=axes, config=config, uses=uses, path=path, wait=wait
        )
        return self.with_layers([*self.layers, place])

    def layer_names(self) -> list[str]:
        """The layers that are beside this table, joined or not."""
        return layer_names(self.path)

    def __len__(self) -> int:
        return sum(shard.rows for shard in self.shards)

    def __repr__(self) -> str:
        return f"Table({str(self.path)!r}, kind={self.kind!r}, rows={len(self)}, fingerprint={self.fingerprint[:12]!r})"

    @property
    def schema(self) -> TableSchema:
        """Kind, axes and columns."""
        return self._manifest.schema

    @property
    def kind(self) -> str:
        """What the rows are, one of :data:`equipoise.data.schema.KINDS`."""
        return self.schema.kind

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes that groups are shown on, those of the layers included."""
        further = [axis for layer in self.layers for axis in layer.axes]
        return tuple(dict.fromkeys([*self.schema.axes, *further]))

    @property
    def columns(self) -> list[str]:
        """The column names, those of the layers included."""
        return list(self.types)

    @property
    def further_columns(self) -> dict[str, str]:
        """The columns that not every table of this kind has, as ``columns=`` of :meth:`create` takes them."""
        dim = int(self.types["vector"][len("vector<") : -1]) if self.kind == "embeddings" else None
        base = schema_for(self.kind, axes=self.axes, dim=dim).types
        return {name: kind for name, kind in self.types.items() if name not in base}

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """The fingerprints of this table and of its joined layers: the ``parents`` of what is made from it."""
        return (self.fingerprint, *(layer.fingerprint for layer in self.layers))

    @property
    def shards(self) -> tuple[ShardInfo, ...]:
        """What ``_table.json`` says of each shard."""
        return self._manifest.shards

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings the table was made with."""
        return self._manifest.config

    @property
    def parents(self) -> tuple[str, ...]:
        """The fingerprints of the tables this one was made from."""
        return self._manifest.parents

    @property
    def n_errors(self) -> int:
        """How many rows failed and are in ``_errors``."""
        return sum(shard.n_errors for shard in self.shards)

    def open_shard(self, index: int) -> Any:
        """The ``pyarrow.parquet.ParquetFile`` of a shard, its columns checked."""
        path = self.path / self.shards[index].file
        return open_checked(path, self.schema)

    def own_batches(self, index: int, columns: Sequence[str], batch_size: int) -> Iterator[Any]:
        """The rows of one shard as they are on disk, no layer joined."""
        return read_batches(self.path / self.shards[index].file, columns, batch_size, self.schema)

    def own_columns(self, index: int, columns: Sequence[str]) -> Any:
        """Some columns of one shard as an Arrow table, as they are on disk, no layer joined."""
        return read_columns(self.path / self.shards[index].file, columns, self.schema)

    def shard_batches(
        self,
        index: int,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
        only_kept: bool = False,
    ) -> Iterator[Any]:
        """The rows of one shard as Arrow ``RecordBatch`` es; see :meth:`batches`."""
        names = self._asked(columns)
        size = batch_size or (_BATCH_WITH_IMAGES if "image" in names else _BATCH_WITHOUT)
        if only_kept:
            self._asked(["keep"])
            read = names if "keep" in names else [*names, "keep"]
            for batch in joined_batches(self, index, read, size):
                kept = batch.filter(batch.column("keep")).select(names)
                if len(kept):
                    yield kept
        else:
            yield from joined_batches(self, index, names, size)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
        only_kept: bool = False,
        layers: Iterable[str | Path | Table] | None = None,
    ) -> Iterator[Any]:
        """All rows in order as Arrow ``RecordBatch`` es with the ``columns`` asked for (default: all).

        Only those columns are read from disk: labels cost no image bytes. ``batch_size`` is at most the number of
        rows of a batch; by default 256 with images and 65,536 without. A batch never spans two shards.
        ``only_kept`` leaves out what a filter dropped or could not judge. ``layers``, if given, are joined instead
        of those the table was opened with.
        """
        view = self if layers is None else self.with_layers(layers)
        for index in range(len(self.shards)):
            yield from view.shard_batches(index, columns, batch_size=batch_size, only_kept=only_kept)

    def rows(self, columns: Sequence[str] | None = None, *, only_kept: bool = False) -> Iterator[Row]:
        """All rows in order as dictionaries."""
        for batch in self.batches(columns, only_kept=only_kept):
            yield from batch.to_pylist()

    def to_arrow(self, columns: Sequence[str] | None = None, *, only_kept: bool = False) -> Any:
        """The ``columns`` asked for as one Arrow table; by default all but ``image``, which must be asked for."""
        names = [name for name in self.columns if name != "image"] if columns is None else self._asked(columns)
        schema = pa.schema([pa.field(name, arrow_type(self.types[name])) for name in names])
        return pa.Table.from_batches(self.batches(names, only_kept=only_kept), schema=schema)

    def to_pandas(self, columns: Sequence[str] | None = None, *, only_kept: bool = False) -> pd.DataFrame:
        """The ``columns`` asked for as a DataFrame; by default all but ``image``, which must be asked for."""
        frame: pd.DataFrame = self.to_arrow(columns, only_kept=only_kept).to_pandas()
        return frame

    def images(self, *, batch_size: int | None = None, only_kept: bool = False) -> Iterator[tuple[str, Image.Image]]:
        """``(image_id, RGB image)`` of every row; a row whose image cannot be decoded raises, naming it."""
        from equipoise.data.images import decode

        for batch in self.batches(["image_id", "image"], batch_size=batch_size, only_kept=only_kept):
            for row in batch.to_pylist():
                try:
                    yield row["image_id"], decode(row["image"], root=self.image_root)
                except InputError as error:
                    raise InputError(f"{self.path}: image {row['image_id']!r}: {error}") from None

    def validate(self, *, deep: bool = True, decode: bool = False) -> None:
        """Raise :class:`InputError` with what is wrong with the files, if anything is; see
        :func:`equipoise.data.validation.problems`.
        """
        sentences = list(islice(problems(self, deep=deep, decode=decode), 2))
        if sentences:
            raise InputError(sentences[0] + (" (and there is more: equipoise table validate)" if sentences[1:] else ""))

    def group_counts(self, axis: str) -> dict[str | None, int]:
        """How many images show each group of ``axis``, most first; ``None`` stands for undefined.

        On an axis, spellings of one group are counted together, see :func:`equipoise.text.labels.read_labels`.
        """
        counts: Counter[str | None] = Counter()
        for batch in self.batches([axis]):
            for entry in batch.column(axis).value_counts().to_pylist():
                counts[entry["values"]] += entry["counts"]
        if axis in self.axes and counts:
            cells = np.repeat(np.array(list(counts), dtype=object), list(counts.values()))
            counts = Counter(read_labels(cells).values().tolist())
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0] is None, str(item[0]))))

    @property
    def image_root(self) -> Path:
        """The folder that relative image paths start from: ``config["image_root"]``, or the table's own."""
        return Path(self.config.get("image_root") or self.path)

    def errors(self) -> pd.DataFrame:
        """The rows that failed: shard, where, reason, and the row as JSON."""
        import pandas as pd

        frames = []
        for shard in self.shards:
            if shard.n_errors:
                failed = read_columns(self.path / ERRORS_FOLDER / shard.file, ["where", "reason", "row"]).to_pandas()
                frames.append(failed.assign(shard=shard.file))
        names = ["shard", "where", "reason", "row"]
        return pd.concat(frames, ignore_index=True)[names] if frames else pd.DataFrame(columns=names)

    def _asked(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return self.columns
        if isinstance(columns, str):
            raise InputError(f"columns must be a list of names, not the text {columns!r}; write [{columns!r}]")
        for name in columns:
            if name not in self.columns:
                raise UnknownNameError(f"column in {self.path}", name, self.columns)
        return list(columns)


class _Rebatched:
    """Batches of any size, taken as runs of an exact number of rows."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._held: Any = None

    def more(self) -> bool:
        """Whether a row is left."""
        while self._held is None or not len(self._held):
            self._held = next(self._batches, None)
            if self._held is None:
                return False
        return True

    def take(self, n_rows: int) -> Iterator[Any]:
        """The next ``n_rows`` rows, or what is left."""
        while n_rows and self.more():
            piece = self._held.slice(0, n_rows)
            self._held = self._held.slice(len(piece))
            n_rows -= len(piece)
            yield piece


def _check_size(path: Path, shard: ShardInfo) -> None:
    try:
        n_bytes = path.stat().st_size
    except FileNotFoundError:
        raise InputError(f"{path} is missing; the table is not complete, write it again") from None
    if n_bytes != shard.bytes:
        raise InputError(
            f"{path} has {n_bytes} bytes, expected {shard.bytes}; the file was changed or cut, write it again"
        )
