from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from equipoise.data import Table
from equipoise.data.atomic import atomic_file, clear_after_kill, lock_of, locked
from equipoise.data.exports.source import free
from equipoise.data.runs import file_to_write
from equipoise.data.shard_writer import is_finished
from equipoise.errors import InputError

HOLD = """
import sys, time
from pathlib import Path
from equipoise.data.atomic import locked
with locked(Path(sys.argv[1]), what="it"):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def holder(path: Path, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_lock_that_is_held_is_refused_with_who_holds_it(tmp_path: Path) -> None:
    process = holder(tmp_path / ".lock", 30)
    try:
        with (
            pytest.raises(InputError, match=f"it is being written by process {process.pid} on "),
            locked(tmp_path / ".lock", what="it"),
        ):
            pass
    finally:
        process.kill()
        process.communicate()
    with locked(tmp_path / ".lock", what="it"):
        assert (tmp_path / ".lock").read_text().startswith(f"{os.getpid()} on ")
    assert not (tmp_path / ".lock").exists()


def test_waiting_ends_when_the_other_ends_or_the_time_is_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    process = holder(tmp_path / ".lock", 0.5)
    started = time.monotonic()
    with locked(tmp_path / ".lock", what="it", wait=30):
        waited = time.monotonic() - started
    process.communicate()
    assert waited < 10
    assert capsys.readouterr().err.count("waiting") == 1
    with locked(tmp_path / ".lock", what="it"):
        started = time.monotonic()
        with pytest.raises(InputError), locked(tmp_path / ".lock", what="it", wait=0.3):
            pass
        assert 0.3 <= time.monotonic() - started < 5


def test_only_one_of_many_holds_it_at_a_time(tmp_path: Path) -> None:
    holding, most, done = 0, 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal holding, most, done
        for _ in range(15):
            with locked(tmp_path / ".lock", what="it", wait=60):
                with guard:
                    holding += 1
                    most = max(most, holding)
                time.sleep(0.001)
                with guard:
                    holding -= 1
                    done += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (most, done) == (1, 60)


def test_a_lock_that_is_held_is_not_cleared_away(tmp_path: Path) -> None:
    lock, other = tmp_path / ".lock", tmp_path / "_writing.json"
    other.touch()
    process = holder(lock, 30)
    try:
        clear_after_kill(lock, other)
        assert lock.exists()
        assert other.exists()
    finally:
        process.kill()
        process.communicate()
    clear_after_kill(lock, other)
    assert not lock.exists()
    assert not other.exists()


@pytest.mark.parametrize("refused", [free, lambda path: file_to_write(path).__enter__()])
def test_a_file_that_is_refused_has_no_lock_of_a_killed_writer_beside_it(tmp_path: Path, refused) -> None:
    target = tmp_path / "table.csv"
    target.write_text("whole")
    lock_of(target).touch()
    with pytest.raises(InputError, match="already"):
        refused(target)
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_writer_killed_after_its_table_was_finished_leaves_nothing_to_whoever_goes_on(tmp_path: Path) -> None:
    script = (
        "import sys; from equipoise.data import Table;"
        "Table.create(sys.argv[1], [{'image_id': 'a', 'caption': 'a dog', 'image': None}])"
    )
    table = tmp_path / "table"
    environment = os.environ | {"EQUIPOISE_FAILPOINT": "table.after_finish"}
    killed = subprocess.run([sys.executable, "-c", script, str(table)], env=environment, capture_output=True)
    assert killed.returncode == -9
    assert {".lock", "_writing.json"} <= {path.name for path in table.iterdir()}
    assert is_finished(table)
    assert not {".lock", "_writing.json"} & {path.name for path in table.iterdir()}
    assert len(Table.open(table)) == 1
    assert not is_finished(tmp_path)


def test_a_file_is_synced_before_it_is_renamed_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    rename = os.replace

    def synced(descriptor: int) -> None:
        found = os.fstat(descriptor)
        happened.append("folder synced" if stat.S_ISDIR(found.st_mode) else f"{found.st_size} bytes synced")

    def renamed(source: Path, target: Path) -> None:
        happened.append("renamed")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    with atomic_file(tmp_path / "a.txt") as file:
        file.write(b"all of it")
    assert happened == ["9 bytes synced", "renamed", "folder synced"]
    with pytest.raises(TypeError), atomic_file(tmp_path / "b.txt") as file:
        file.write("not bytes")
    assert len(happened) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
