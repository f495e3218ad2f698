"""Helpers of the engine room's tests."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

SERVER = Path(__file__).with_name("kill_server.py")


def jpeg_of(i: int, size: tuple[int, int] = (24, 16)) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size, (i * 7 % 256, i * 13 % 256, 40)).save(target, format="JPEG")
    return target.getvalue()


def rows_of(n: int) -> list[dict[str, Any]]:
    return [
        {
            "image": jpeg_of(i),
            "image_id": f"img-{i:04d}",
            "caption": f"a photo of person {i}",
            "subject": ("doctor", "nurse")[i % 2],
            "gender": (None, "female", "male")[i % 3],
            "seed": i,
        }
        for i in range(n)
    ]


def files_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below ``folder``."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


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


@pytest.fixture(scope="session")
def children() -> Iterator[Children]:
    made = Children()
    yield made
    made.close()


@pytest.fixture(scope="session")
def other_children() -> Iterator[Children]:
    """A second kill server, for two jobs at the same time."""
    made = Children()
    yield made
    made.close()


@pytest.fixture
def make_rows() -> Callable[[int], list[dict[str, Any]]]:
    return rows_of


@pytest.fixture
def files() -> Callable[[Path], dict[str, str]]:
    return files_of


@pytest.fixture(scope="module")
def made_rows() -> Callable[[int], list[dict[str, Any]]]:
    """As ``make_rows``, for fixtures of a module."""
    return rows_of


@pytest.fixture(scope="module")
def all_files() -> Callable[[Path], dict[str, str]]:
    """As ``files``, for fixtures of a module."""
    return files_of


@pytest.fixture
def people(tmp_path: Path) -> Any:
    """A table of 25 images in three shards of 10, 10 and 5."""
    from equipoise.data import Table

    return Table.create(tmp_path / "people", rows_of(25), axes=["gender"], rows_per_shard=10)
