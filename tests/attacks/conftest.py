"""Helpers of the attacks: commands in child processes, and inputs that all of them read."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent
_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    words: list[str]
    code: int | None
    """Negative where a signal ended it; ``None`` where it took too long."""
    told: str
    """What it said, on both streams."""
    seconds: float
    peak_mib: int
    renames: int
    least_room: int | None
    """In bytes, on the disk that was watched."""

    def check_in_order(self) -> Ended:
        """It ended by itself, without a traceback, and said what is wrong in one sentence if it failed."""
        assert self.code is not None, f"it hangs: {self.words}"
        assert self.code in (0, 1, 2), (self.code, self.words, self.told[-3000:])
        assert "Traceback" not in self.told, (self.words, self.told[-3000:])
        assert self.code == 0 or self.told.strip(), f"it says nothing: {self.words}"
        assert self.peak_mib < 2048, (self.peak_mib, self.words)
        return self

    @property
    def sentence(self) -> str:
        """The last line that it said."""
        return self.told.strip().splitlines()[-1] if self.told.strip() else ""


def _told(file: Path) -> str:
    told = file.read_text(errors="replace") if file.exists() else ""  # it was killed before it spoke
    file.unlink(missing_ok=True)
    return told


class CommandLine:
    """A server that forks a child for each command."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._errors = (folder / "server.err").open("w")
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def at_once(self, *lines: Sequence[object], **order: Any) -> list[Ended]:
        """How commands end that are started at the same time."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        order.setdefault("cache", str(self.folder / "cache"))
        orders = [
            {"words": [str(word) for word in words], "told": str(self.folder / f"told-{next(_NUMBERS)}"), **order}
            for words in lines
        ]
        self._server.stdin.write(json.dumps(orders) + "\n")
        self._server.stdin.flush()
        answers = self._server.stdout.readline()
        assert answers, (self.folder / "server.err").read_text()[-3000:]
        return [
            Ended(one["words"], told=_told(Path(one["told"])), **answer)
            for one, answer in zip(orders, json.loads(answers), strict=True)
        ]

    def __call__(self, *words: object, **order: Any) -> Ended:
        return self.at_once(words, **order)[0]

    def close(self) -> None:
        self._server.communicate()
        self._errors.close()


@pytest.fixture(scope="session")
def equipoise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """Runs a command line in a child process."""
    if sys.platform == "win32":
        pytest.skip("needs fork and SIGKILL")
    made = CommandLine(tmp_path_factory.mktemp("server"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Everything that the commands read: tables, vectors, captions, and runs to compare, report and repair."""
    place = tmp_path_factory.mktemp("attacked")
    opened("commands").make_inputs(place)
    return place


@pytest.fixture(scope="session")
def whole_home(home: Path) -> Path:
    """The same, with what the commands read that take longer."""
    pytest.importorskip("diffusers")
    opened("commands").make_more_inputs(home)
    return home


def opened(name: str) -> ModuleType:
    """A module beside this one."""
    known = f"attacks_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``every_name`` is run for every command that writes."""
    if "every_name" in metafunc.fixturenames:
        metafunc.parametrize("every_name", opened("commands").names())


@pytest.fixture(scope="session")
def commands() -> ModuleType:
    """The command lines that are attacked."""
    return opened("commands")


def files_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below ``folder``; of a file, its own."""
    paths = sorted(folder.rglob("*")) if folder.is_dir() else [folder]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()
    }


@pytest.fixture(scope="session")
def all_files() -> Callable[[Path], dict[str, str]]:
    return files_of
