"""A table: a folder of Parquet shards and ``_table.json``, opened, read in batches, and joined with its layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from equipoise.data.arrays import batches_of
from equipoise.data.manifest import Manifest, check_columns, fingerprint_of
from equipoise.data.rows import Row
from equipoise.data.schema import TableSchema, schema_for
from equipoise.data.shards import ERRORS_FOLDER, ShardInfo, open_parquet
from equipoise.data.writer import TableWriter
from equipoise.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    import pandas as pd
    from PIL import Image

__all__ = ["Table"]

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

    def __init__(self, path: Path, manifest: Manifest, fingerprint: str) -> None:
        self.path = path
        self.fingerprint = fingerprint
        """The SHA-256 of ``_table.json``: the table's name for its descendants."""
        self._manifest = manifest

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
        :func:`equipoise.data.schema.schema_for`. Use :class:`TableWriter` to write shards one by one.
        """
        if rows_per_shard < 1:
            raise InputError(f"rows_per_shard must be at least 1, not {rows_per_shard}")
        schema = schema_for(kind, axes=axes, columns=columns, dim=dim)
        with TableWriter(path, schema, config=config, parents=parents, resume=False, wait=wait) as writer:
            source = _Rebatched(batches_of([] if rows is None else rows, schema, where=str(path)))
            index = 0
            while source.more():
                writer.write_shard(index, source.take(rows_per_shard))
                index += 1
            return writer.finish()

    @classmethod
    def open(cls, path: str | Path) -> Table:
        """Open the table at ``path``: its ``_table.json``, its files and their sizes, and the first shard's columns.

        The columns of the other shards are checked when they are read; :meth:`validate` checks everything.
        """
        folder = Path(path)
        manifest = Manifest.load(folder)
        for shard in manifest.shards:
            _check_size(folder / shard.file, shard)
        table = cls(folder, manifest, fingerprint_of(folder))
        if manifest.shards:
            table.open_shard(0).close()
        return table

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
        """The axes that groups are shown on."""
        return self.schema.axes

    @property
    def columns(self) -> list[str]:
        """The column names."""
        return self.schema.names

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
        file = open_parquet(path)
        check_columns(path, file.schema_arrow, self.schema)
        return file

    def shard_batches(
        self, index: int, columns: Sequence[str] | None = None, *, batch_size: int | None = None
    ) -> Iterator[Any]:
        """The rows of one shard as Arrow ``RecordBatch`` es; see :meth:`batches`."""
        names = self._asked(columns)
        size = batch_size or (_BATCH_WITH_IMAGES if "image" in names else _BATCH_WITHOUT)
        with self.open_shard(index) as file:
            for batch in file.iter_batches(batch_size=size, columns=names, use_threads=False):
                yield batch.select(names)

    def batches(self, columns: Sequence[str] | None = None, *, batch_size: int | None = None) -> Iterator[Any]:
        """All rows in order as Arrow ``RecordBatch`` es with the ``columns`` asked for (default: all).

        Only those columns are read from disk: labels cost no image bytes. ``batch_size`` is at most the number of
        rows of a batch; by default 256 with images and 65,536 without. A batch never spans two shards.
        """
        for index in range(len(self.shards)):
            yield from self.shard_batches(index, columns, batch_size=batch_size)

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[Row]:
        """All rows in order as dictionaries."""
        for batch in self.batches(columns):
            yield from batch.to_pylist()

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """The ``columns`` asked for as one Arrow table; by default all but ``image``, which must be asked for."""
        names = [name for name in self.columns if name != "image"] if columns is None else self._asked(columns)
        schema = pa.schema([self.schema.arrow.field(name) for name in names])
        return pa.Table.from_batches(self.batches(names), schema=schema)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The ``columns`` asked for as a DataFrame; by default all but ``image``, which must be asked for."""
        frame: pd.DataFrame = self.to_arrow(columns).to_pandas()
        return frame

    def images(self, *, batch_size: int | None = None) -> Iterator[tuple[str, Image.Image]]:
        """``(image_id, RGB image)`` of every row; a row whose image cannot be decoded raises, naming it."""
        from equipoise.data.images import decode

        for batch in self.batches(["image_id", "image"], batch_size=batch_size):
            for row in batch.to_pylist():
                try:
                    yield row["image_id"], decode(row["image"], root=self.image_root)
                except InputError as error:
                    raise InputError(f"{self.path}: image {row['image_id']!r}: {error}") from None

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
                failed = open_parquet(self.path / ERRORS_FOLDER / shard.file).read().to_pandas()
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
        found = path.stat().st_size
    except FileNotFoundError:
        raise InputError(f"{path} is missing; the table is not complete, write it again") from None
    if found != shard.bytes:
        raise InputError(
            f"{path} has {found} bytes, expected {shard.bytes}; the file was changed or cut, write it again"
        )
