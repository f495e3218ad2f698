from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from equipoise.data import Rejected, Table, TableWriter, schema_for, write_shard
from equipoise.errors import InputError

Rows = Callable[..., list[dict[str, Any]]]
SCHEMA = schema_for("images", axes=["gender"])

# What the children of these tests do: write a table of N shards, with errors, resuming what is there.
CHILD = """
import sys, time
import numpy as np
from equipoise.data import Rejected, TableWriter, schema_for

def rows(shard):
    rng = np.random.default_rng(shard)
    return [{"image_id": f"{shard}-{i}", "image": rng.bytes(3000), "seed": i, "gender": "x"} for i in range(40)]

path, n_shards, pause, wait = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
with TableWriter(path, schema_for("images", axes=["gender"]), config={"n": n_shards}, wait=wait) as writer:
    print("started", flush=True)
    if not writer.finished:
        done = set(writer.completed_shards())
        for shard in range(n_shards):
            if shard not in done:
                time.sleep(pause)
                errors = [Rejected(f"row {shard}", "unlucky", {"shard": shard})] if shard % 2 else []
                writer.write_shard(shard, rows(shard), errors)
        writer.finish(n_shards)
"""

# The same by the one call that writes a whole table.
CREATE = """
import sys
from equipoise.data import Table

rows = ({"image_id": str(i), "image": b"x" * 5000} for i in range(400))
Table.create(sys.argv[1], rows, rows_per_shard=40)
"""

# Imports cost more than the work: this process imports once and forks a child for each line [path, failpoint, code].
SERVER = """
import json, os, sys, traceback
import numpy as np
import pandas, equipoise.data.layers, equipoise.data.validation, equipoise.data.writer  # pyarrow asks for pandas

for line in sys.stdin:
    path, failpoint, code = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.environ["EQUIPOISE_FAILPOINT"] = failpoint
        sys.argv, sys.stdout = ["-c", path, "12", "0", "0"], open(os.devnull, "w")
        try:
            exec(code, {})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def forked() -> Iterator[Callable[..., int]]:
    """Writes the table of the children in a process of its own, killed at a failpoint; gives its exit code."""
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None

    def run(path: Path, failpoint: str = "", code: str = CHILD) -> int:
        print(json.dumps([str(path), failpoint, code]), file=server.stdin, flush=True)
        return int(server.stdout.readline())

    yield run
    server.communicate(timeout=60)


def child(
    path: Path, n_shards: int = 12, pause: float = 0.0, wait: float = 0.0, **environment: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), str(n_shards), str(pause), str(wait)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, stderr = process.communicate(timeout=60)
    return process.returncode, stderr


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("undisturbed") / "t"
    assert finish(child(folder))[0] == 0
    Table.open(folder).validate()
    return files_of(folder)


def assert_no_half_shard(folder: Path) -> None:
    for path in folder.glob("part-*.parquet"):
        assert pq.read_table(path).num_rows == 40, path
    if not (folder / "_table.json").exists() and folder.exists():
        with pytest.raises(InputError):
            Table.open(folder)


FAILPOINTS = [
    *("shard.before_errors:4", "shard.before_write:3", "shard.before_rename:5", "shard.after_rename:6"),
    *(
        "file.before_rename:1",
        "file.before_rename:2",
        "file.before_rename:7",
        "table.before_finish",
        "table.after_finish",
    ),
]


@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_a_writer_killed_at_a_named_moment_leaves_no_half_shard_and_resumes_to_the_same_bytes(
    failpoint: str, tmp_path: Path, undisturbed: dict[str, bytes], forked: Callable[..., int]
) -> None:
    folder = tmp_path / "t"
    assert forked(folder, failpoint) == -signal.SIGKILL, "the failpoint was reached"
    assert_no_half_shard(folder)
    assert forked(folder) == 0
    assert files_of(folder) == undisturbed


def test_a_table_that_is_refused_because_it_is_finished_keeps_nothing_of_a_writer_that_died_after_it(
    tmp_path: Path, make_rows: Rows
) -> None:
    folder = tmp_path / "t"
    Table.create(folder, make_rows(3), axes=["gender"])
    before = files_of(folder)
    (folder / "_writing.json").write_text("{}")  # the last thing that a writer removes
    with pytest.raises(InputError, match="finished table"):
        Table.create(folder, make_rows(3), axes=["gender"])
    assert files_of(folder) == before


@pytest.mark.slow
def test_a_writer_killed_again_and_again_at_random_ends_with_the_same_bytes(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    folder = tmp_path / "t"
    rng = random.Random(5)
    kills = 0
    while kills < 6:
        process = child(folder, pause=0.03)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.uniform(0.0, 0.2))
        process.kill()
        kills += finish(process)[0] == -signal.SIGKILL
        assert_no_half_shard(folder)
        if (folder / "_table.json").exists():
            break
    assert finish(child(folder))[0] == 0
    assert files_of(folder) == undisturbed


def test_create_killed_leaves_no_half_shard_and_can_start_again(tmp_path: Path, forked: Callable[..., int]) -> None:
    for moment in ("shard.before_rename:3", "file.before_rename:6", "table.before_finish"):
        folder = tmp_path / moment.replace(":", "-")
        assert forked(folder, moment, CREATE) == -signal.SIGKILL
        assert_no_half_shard(folder)
        assert forked(folder, code=CREATE) == 0
        table = Table.open(folder)
        table.validate()
        assert len(table) == 400
        assert not list(folder.glob(".*"))


def test_a_second_writer_stops_with_a_sentence_or_waits(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    folder = tmp_path / "t"
    first = child(folder, pause=0.1)
    assert first.stdout is not None
    assert first.stdout.readline() == "started\n"
    with pytest.raises(InputError, match=rf"is being written by process {first.pid} on .*; wait until it ends"):
        Table.create(folder, [])
    waiting = child(folder, wait=60.0)
    code, stderr = finish(waiting)
    assert code == 0, stderr
    assert f"is being written by process {first.pid}" in stderr
    assert "waiting" in stderr
    assert finish(first)[0] == 0
    assert files_of(folder) == undisturbed


def test_two_writers_at_once_write_one_table(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    folder = tmp_path / "t"
    both = [child(folder, wait=60.0) for _ in range(2)]
    assert [finish(process)[0] for process in both] == [0, 0]
    assert files_of(folder) == undisturbed


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    process = child(folder, pause=5.0)
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    finish(process)
    assert (folder / ".lock").exists()
    with TableWriter(folder, SCHEMA, config={"n": 12}) as writer:
        assert writer.completed_shards() == []
    assert not (folder / ".lock").exists()


def test_an_unfinished_table_is_continued_with_the_same_settings_only(tmp_path: Path, make_rows: Rows) -> None:
    folder = tmp_path / "t"
    with TableWriter(folder, SCHEMA, config={"a": 1}, plan={"size": 5}) as writer:
        writer.write_shard(1, make_rows(5, start=5))
    for other in ({"config": {"a": 2}}, {"plan": {"size": 6}}, {"parents": ["f" * 64]}):
        arguments = {"config": {"a": 1}, "plan": {"size": 5}, **other}
        with (
            pytest.raises(InputError, match="unfinished table that was made with other settings"),
            TableWriter(folder, SCHEMA, **arguments),  # type: ignore[arg-type]
        ):
            pass
    with TableWriter(folder, SCHEMA, config={"a": 1}, plan={"size": 5}) as writer:
        assert writer.completed_shards() == [1]
        with pytest.raises(InputError, match=r"cannot be finished with 1 shards: part-00000.parquet is missing"):
            writer.finish()
        writer.write_shard(0, make_rows(5))
        with pytest.raises(InputError, match=r"with 3 shards: part-00002.parquet is missing"):
            writer.finish(3)
        table = writer.finish(2)
    assert len(table) == 10
    assert not (folder / "_writing.json").exists()
    with TableWriter(folder, SCHEMA, config={"a": 1}) as again:
        assert again.finished
        assert again.finish().fingerprint == table.fingerprint
        with pytest.raises(InputError, match="nothing is added to a table in place"):
            again.write_shard(2, [])


def test_shards_written_by_other_processes_are_taken_in(tmp_path: Path, make_rows: Rows) -> None:
    with TableWriter(tmp_path / "a", SCHEMA) as writer:
        info = write_shard(tmp_path / "a", 0, make_rows(5), SCHEMA, errors=[Rejected("w", "r")])
        writer.add(info)
        write_shard(tmp_path / "a", 1, make_rows(5, start=5), SCHEMA, errors=[Rejected("w", "r")])
        a = writer.finish()
    with TableWriter(tmp_path / "b", SCHEMA) as writer:
        for index in (1, 0):
            writer.write_shard(index, make_rows(5, start=5 * index), [Rejected("w", "r")])
        b = writer.finish()
    assert a.fingerprint == b.fingerprint
    assert a.n_errors == 2


def test_a_shard_done_again_without_errors_forgets_the_old_ones(tmp_path: Path, make_rows: Rows) -> None:
    with TableWriter(tmp_path / "a", SCHEMA) as writer:
        writer.write_shard(0, make_rows(5), [Rejected("w", "r")])
        writer.write_shard(0, make_rows(5))
        assert writer.finish().n_errors == 0


def test_a_shard_that_fails_leaves_nothing(tmp_path: Path, make_rows: Rows) -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield from make_rows(150)
        raise RuntimeError("the source broke")

    with TableWriter(tmp_path / "t", SCHEMA) as writer:
        with pytest.raises(RuntimeError, match="the source broke"):
            writer.write_shard(0, broken())
        assert writer.completed_shards() == []
        assert sorted(p.name for p in (tmp_path / "t").iterdir()) == [".lock", "_writing.json"]


def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, make_rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with TableWriter(tmp_path / "t", SCHEMA) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(InputError, match=r"part-00000.parquet cannot be written: the disk is full; free"):
                writer.write_shard(0, make_rows(5))
        assert writer.completed_shards() == []
        writer.write_shard(0, make_rows(5))
        writer.finish()


def test_a_file_is_no_place_for_a_table(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("notes")
    with pytest.raises(InputError, match="is a file, and a table needs a folder"):
        Table.create(tmp_path / "t")


def test_an_unreadable_shard_is_made_again(tmp_path: Path, make_rows: Rows) -> None:
    with TableWriter(tmp_path / "t", SCHEMA) as writer:
        writer.write_shard(0, make_rows(5))
        writer.write_shard(1, make_rows(5, start=5))
    (tmp_path / "t" / "part-00001.parquet").write_bytes(b"")
    with TableWriter(tmp_path / "t", SCHEMA) as writer:
        assert writer.completed_shards() == [0]


def test_a_writer_needs_its_with_block(tmp_path: Path) -> None:
    writer = TableWriter(tmp_path / "t", SCHEMA)
    with pytest.raises(InputError, match="inside a with block"):
        writer.write_shard(0, [])


def test_failed_rows_are_kept_beside_their_shard(tmp_path: Path) -> None:
    with TableWriter(tmp_path / "t", schema_for("images")) as writer:
        writer.write_shard(0, [{"image_id": "a"}])
        failed = Rejected("file.csv line 3", "the image is missing", {"image_id": "b", "image": b"123"})
        writer.write_shard(1, [{"image_id": "c"}], errors=[failed])
        table = writer.finish()
    assert table.n_errors == 1
    assert table.errors().to_dict("records") == [
        {
            "shard": "part-00001.parquet",
            "where": "file.csv line 3",
            "reason": "the image is missing",
            "row": '{"image": "<3 bytes>", "image_id": "b"}',
        }
    ]
    assert sorted(p.name for p in (tmp_path / "t" / "_errors").iterdir()) == ["part-00001.parquet"]
    assert Table.create(tmp_path / "u").errors().empty


def test_a_failed_row_with_strange_text_does_not_fail_again(tmp_path: Path) -> None:
    odd = Rejected("bad \ud800 name", "why \udfff", {"x": "\ud800", 5: {1, 2}, "nan": float("nan")})
    with TableWriter(tmp_path / "t", schema_for("images")) as writer:
        writer.write_shard(0, [], errors=[odd])
        table = writer.finish()
    assert "\\ud800" in table.errors()["where"][0]
