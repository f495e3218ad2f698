"""A table's folder while it is written: one process at a time, resumable, finished only when all of it is there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from equipoise.data.atomic import clear_after_kill, locked, reached, write_whole
from equipoise.data.manifest import MANIFEST, UNFINISHED, Manifest, dumped
from equipoise.data.schema import Rejected, TableSchema
from equipoise.data.shards import (
    ERRORS_FOLDER,
    ShardInfo,
    existing_shards,
    first_repeated_key,
    open_parquet,
    shard_info,
    shard_name,
    write_shard,
)
from equipoise.errors import InputError, OtherSettingsError

LOCK = ".lock"


def is_finished(folder: Path) -> bool:
    """Whether a finished table is in ``folder``, so that a run which goes on need not write it.

    If its writer was killed between its last steps, what it left is cleared away.
    """
    if not (folder / MANIFEST).is_file():
        return False
    clear_after_kill(folder / LOCK, folder / UNFINISHED)
    return True


class ShardWriter:
    """What every writer of a table does; :class:`equipoise.data.TableWriter` is the one to use."""

    def __init__(
        self,
        path: str | Path,
        schema: TableSchema,
        *,
        config: Mapping[str, Any] | None = None,
        parents: Iterable[str] = (),
        plan: Mapping[str, Any] | None = None,
        resume: bool = True,
        wait: float = 0.0,
    ) -> None:
        self.path = Path(path)
        self.schema = schema
        self.finished = False
        self._manifest = Manifest(schema, parents=tuple(parents), config=dict(config or {}))
        self._plan = dict(plan or {})
        self._resume = resume
        self._wait = wait
        self._infos: dict[int, ShardInfo] = {}
        self._held: ExitStack | None = None
        self._made_folder = False
        self._abandoned = False

    def __enter__(self) -> Self:
        head = dumped({**self._manifest.head(), "plan": self._plan})
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file, and a table needs a folder of its own; choose another path")
        try:
            self.path.mkdir(parents=True)
            self._made_folder = True
        except FileExistsError:
            self._made_folder = False
        with ExitStack() as stack:
            stack.enter_context(locked(self.path / LOCK, what=f"the table at {self.path}", wait=self._wait))
            self._clear_temporary_files()
            if (self.path / MANIFEST).exists():
                self._accept_finished()
            else:
                self._start(head)
            self._held = stack.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()
        if self._abandoned and self._made_folder:
            with suppress(OSError):  # whoever took it over meanwhile keeps it
                self.path.rmdir()

    def abandon(self) -> None:
        """Throw away what was written; a folder that this writer made goes at the end of the ``with`` block."""
        self._check_open()
        self._discard()
        (self.path / UNFINISHED).unlink(missing_ok=True)
        self._clear_temporary_files()
        self._abandoned = True

    def completed_shards(self) -> list[int]:
        """The indexes of the shards that are there already, in order."""
        return existing_shards(self.path)

    def write_shard(self, index: int, rows: Any, errors: Iterable[Rejected] = ()) -> ShardInfo:
        """Write shard ``index``: ``rows`` are mappings, Arrow data or a DataFrame; ``errors`` the rows that failed."""
        self._check_open()
        info = write_shard(self.path, index, rows, self.schema, errors=errors)
        self._infos[index] = info
        return info

    def add(self, info: ShardInfo) -> None:
        """Note a shard that another process wrote into this folder with :func:`equipoise.data.shards.write_shard`."""
        self._check_open()
        self._infos[info.index] = info

    def publish(self, n_shards: int | None = None) -> None:
        """Write ``_table.json``; see :meth:`equipoise.data.TableWriter.finish`."""
        if self.finished:
            return
        self._check_open()
        there = self.completed_shards()
        if not there and not n_shards:
            self.write_shard(0, [])
            there, n_shards = [0], 1
        expected = range(len(there) if n_shards is None else n_shards)
        missing = sorted(set(expected) - set(there))
        if missing or len(there) != len(expected):
            detail = shard_name(missing[0]) + " is missing" if missing else f"{len(there)} shards are there"
            raise InputError(f"the table at {self.path} cannot be finished with {len(expected)} shards: {detail}")
        self._refuse_repeated_keys(there)
        infos = tuple(self._infos.get(i) or shard_info(self.path, i) for i in there)
        reached("table.before_finish")
        write_whole(self.path / MANIFEST, replace(self._manifest, shards=infos).to_bytes())
        reached("table.after_finish")
        (self.path / UNFINISHED).unlink()
        self.finished = True

    def _refuse_repeated_keys(self, shards: list[int]) -> None:
        """Score tables are left to ``validate``: they have a row for every image and text."""
        if self.schema.kind in ("images", "embeddings"):
            repeated = first_repeated_key(self.path, shards, self.schema.key)
            if repeated:
                raise InputError(f"{repeated}; every row needs a name of its own")

    def _check_open(self) -> None:
        if self._held is None:
            raise InputError("a TableWriter works inside a with block: with TableWriter(...) as writer: ...")
        if self.finished:
            raise InputError(f"the table at {self.path} is finished; nothing is added to a table in place")

    def _accept_finished(self) -> None:
        there = Manifest.load(self.path)
        # Left over when a writer died between its last two steps; whoever finds the table refused should not find it.
        (self.path / UNFINISHED).unlink(missing_ok=True)
        if not self._resume or there.head() != json.loads(dumped(self._manifest.head())):
            raise OtherSettingsError(
                f"there is a finished table at {self.path} already; choose another path or delete it"
            )
        self.finished = True

    def _start(self, head: bytes) -> None:
        note = self.path / UNFINISHED
        if not note.exists():
            self._refuse_other_files()
        elif not self._resume:
            self._discard()
        elif note.read_bytes() != head:
            raise OtherSettingsError(
                f"{self.path} holds an unfinished table that was made with other settings; "
                "repeat those settings to finish it, choose another path, or delete it"
            )
        else:
            self._drop_unreadable()
            return
        write_whole(note, head)

    def _refuse_other_files(self) -> None:
        others = [p.name for p in self.path.iterdir() if not p.name.startswith(".")]
        if others:
            raise InputError(
                f"{self.path} holds other files (such as {sorted(others)[0]!r}); a table needs a folder of its own"
            )

    def _drop_unreadable(self) -> None:
        """Forget shards that the disk lost although they had been written; they are made again."""
        for index in self.completed_shards():
            try:
                open_parquet(self.path / shard_name(index)).close()
            except InputError:
                (self.path / shard_name(index)).unlink()

    def _discard(self) -> None:
        for index in self.completed_shards():
            (self.path / shard_name(index)).unlink()
        shutil.rmtree(self.path / ERRORS_FOLDER, ignore_errors=True)

    def _clear_temporary_files(self) -> None:
        for folder in (self.path, self.path / ERRORS_FOLDER):
            for leftover in folder.glob(".*.tmp"):
                leftover.unlink(missing_ok=True)
