from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from equipoise.data.atomic import atomic_file, locked
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
