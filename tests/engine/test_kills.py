"""Whenever a run is killed, the next one goes on and the result is the same to the byte."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from equipoise.data import Table

SERVER = Path(__file__).with_name("kill_server.py")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")


class Children:
    """Child processes of the kill server."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, job: str, failpoint: str = "", **arguments: Any) -> int:
        """Start a job and return its process id."""
        assert self._server.stdin is not None
        order = {"job": job, "arguments": arguments, "failpoint": failpoint}
        self._server.stdin.write(json.dumps(order) + "\n")
        self._server.stdin.flush()
        return int(self._line())

    def end(self) -> int:
        """Wait for the job and return its exit code."""
        return int(self._line())

    def run(self, job: str, failpoint: str = "", **arguments: Any) -> int:
        self.start(job, failpoint, **arguments)
        return self.end()

    def close(self) -> None:
        self._server.communicate()

    def _line(self) -> str:
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        assert line, "the kill server has died"
        return line


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    made = Children()
    yield made
    made.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, children: Children) -> tuple[Path, Path, float]:
    """An input of 30 images in 5 shards, what becomes of it when nobody interferes, and how long that takes."""
    folder = tmp_path_factory.mktemp("kills")
    rows = []
    for i in range(30):
        picture = io.BytesIO()
        Image.new("RGB", (32, 24), (i * 8, 90, 200 - i)).save(picture, format="JPEG")
        rows.append({"image": picture.getvalue(), "image_id": f"{i:03d}", "caption": f"person {i}", "seed": i})
    rows[21]["image"] = b"no image"
    Table.create(folder / "in", rows, rows_per_shard=6)
    times = []
    for name in ("first", "out"):
        start = time.monotonic()
        assert children.run("map", input=str(folder / "in"), output=str(folder / name)) == 0
        times.append(time.monotonic() - start)
    return folder / "in", folder / "out", min(times)


POINTS = [
    "map.before_shard:1",
    "map.before_shard:3",
    "map.before_batch:4",
    "map.before_write:2",
    "shard.before_errors:2",
    "shard.before_write:1",
    "shard.before_write:3",
    "shard.before_rename:1",
    "shard.before_rename:4",
    "file.before_rename:1",
    "file.before_rename:2",
    "file.before_rename:5",
    "shard.after_rename:2",
    "map.after_write:5",
    "map.before_finish:1",
    "table.before_finish:1",
    "table.after_finish:1",
]


def check_result(folder: Path, expected: Path, files: Any) -> None:
    assert files(folder) == files(expected)
    made = Table.open(folder)
    made.validate()
    failed = {3, 10, 16, 17, 21, 24}
    assert [row["seed"] for row in made.rows(["seed"])] == [i for i in range(30) if i not in failed]
    assert made.errors()["where"].tolist() == [f"{i:03d}" for i in sorted(failed)]


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_named_moment(
    point: str, undisturbed: tuple[Path, Path, float], children: Children, tmp_path: Path, files: Any
) -> None:
    source, expected, _ = undisturbed
    out = tmp_path / "out"
    assert children.run("map", point, input=str(source), output=str(out)) == -signal.SIGKILL
    assert children.run("map", input=str(source), output=str(out)) == 0
    check_result(out, expected, files)


def test_killed_again_and_again_at_the_same_moment(
    undisturbed: tuple[Path, Path, float], children: Children, tmp_path: Path, files: Any
) -> None:
    """Each run gets one shard further and dies; in the end all of it is there."""
    source, expected, _ = undisturbed
    for _ in range(5):
        assert children.run("map", "map.after_write:1", input=str(source), output=str(tmp_path)) == -signal.SIGKILL
    assert children.run("map", "map.after_write:1", input=str(source), output=str(tmp_path)) == 0
    check_result(tmp_path, expected, files)


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_moments(
    seed: int, undisturbed: tuple[Path, Path, float], children: Children, tmp_path: Path, files: Any
) -> None:
    source, expected, seconds = undisturbed
    rng = random.Random(seed)
    out = tmp_path / "out"
    kills = 0
    for _ in range(60):
        if (out / "_table.json").exists():  # finished between two kills; begin anew, so that every kill disturbs
            assert children.run("map", input=str(source), output=str(out)) == 0
            check_result(out, expected, files)
            shutil.rmtree(out)
        pid = children.start("map", input=str(source), output=str(out))
        time.sleep(rng.uniform(0, 0.7 * seconds))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        kills += children.end() == -signal.SIGKILL
        if kills == 5:
            break
    assert kills == 5, "the kills came too late to disturb anything"
    assert children.run("map", input=str(source), output=str(out)) == 0
    check_result(out, expected, files)
