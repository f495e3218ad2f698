"""Writing a table or a layer shard by shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from equipoise.data.arrays import batches_of
from equipoise.data.layers import check_once, layer_place, layer_schema
from equipoise.data.schema import Rejected
from equipoise.data.shard_writer import ShardWriter
from equipoise.data.shards import ShardInfo
from equipoise.data.table import Table
from equipoise.errors import InputError


class TableWriter(ShardWriter):
    """The one writer of the table at ``path``; use it in a ``with`` block and call :meth:`finish` at the end.

    ``config`` and ``parents`` (fingerprints) are recorded in ``_table.json``. ``plan`` is whatever else must be
    the same for an interrupted write to be continued; it is forgotten when the table is finished.

    With ``resume=True`` a write that was interrupted is continued (see :meth:`completed_shards`), and a finished
    table of the same schema, config and parents is accepted as it is (``writer.finished``). With ``resume=False``
    an unfinished write is thrown away and a finished table refused.

    Leaving the block without :meth:`finish` keeps the shards for later. Where another process is writing the same
    table this one waits up to ``wait`` seconds and then raises :class:`InputError`.

    >>> import tempfile
    >>> from equipoise.data.schema import schema_for
    >>> folder = tempfile.mkdtemp() + "/captions"
    >>> with TableWriter(folder, schema_for("captions")) as writer:
    ...     _ = writer.write_shard(0, [{"image_id": "a", "model": "mini", "caption": "a dog"}])
    ...     table = writer.finish()
    >>> len(table)
    1
    """

    def finish(self, n_shards: int | None = None) -> Table:
        """Write ``_table.json`` and return the table; a missing shard is refused.

        ``n_shards``: how many there must be. A table without a row gets one empty shard, so that every tool can
        open it.
        """
        self.publish(n_shards)
        return Table.open(self.path)


class LayerWriter(TableWriter):
    """Writes a layer of ``table`` shard by shard, as :class:`TableWriter` writes a table.

    Shard ``i`` of the layer may hold only images of shard ``i`` of the table, each once; images may be left out.
    ``uses``: fingerprints of other tables or layers that the values depend on.

    >>> import tempfile
    >>> from equipoise.data import Table
    >>> table = Table.create(tempfile.mkdtemp() + "/t", [{"image_id": "a"}, {"image_id": "b"}])
    >>> with LayerWriter(table, "sharp", columns=["score_sharp", "keep"]) as writer:
    ...     _ = writer.write_shard(0, [{"image_id": "b", "score_sharp": 0.1, "keep": False}])
    ...     layer = writer.finish()
    >>> Table.open(table.path, layers=["sharp"]).to_arrow(["image_id", "keep", "dropped_by"]).to_pylist()[1]
    {'image_id': 'b', 'keep': False, 'dropped_by': 'sharp'}
    """

    def __init__(
        self,
        table: Table,
        name: str,
        *,
        columns: Mapping[str, str] | Iterable[str] = (),
        axes: Iterable[str] = (),
        config: Mapping[str, Any] | None = None,
        uses: Iterable[str] = (),
        path: str | Path | None = None,
        resume: bool = True,
        wait: float = 0.0,
    ) -> None:
        schema = layer_schema(table, name, columns=columns, axes=axes)
        place = layer_place(table, name, path)
        super().__init__(place, schema, config=config, parents=(table.fingerprint, *uses), resume=resume, wait=wait)
        self.table = table

    def write_shard(self, index: int, rows: Any, errors: Iterable[Rejected] = ()) -> ShardInfo:
        """Write shard ``index``; an image that is not in that shard of the table is refused."""
        batches = batches_of(rows, self.schema, where=f"layer {self.path.name}, shard {index}")
        content = pa.Table.from_batches(batches, schema=self.schema.arrow)
        self._check_ids(index, content["image_id"])
        return super().write_shard(index, content, errors)

    def finish(self, n_shards: int | None = None) -> Table:
        """Write the layer's ``_table.json``; it must have a shard for each shard of the table."""
        return super().finish(len(self.table.shards) if n_shards is None else n_shards)

    def _check_ids(self, index: int, ids: Any) -> None:
        own = self.table.own_columns(index, ["image_id"])["image_id"]
        strange = ids.filter(pc.invert(pc.is_in(ids, value_set=own.combine_chunks())))
        if len(strange):
            raise InputError(
                f"image {strange[0].as_py()!r} is not in {self.table.path / self.table.shards[index].file}"
            )
        check_once(ids, f"shard {index} of the layer {self.path.name!r}")
