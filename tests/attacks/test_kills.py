"""Every command that writes can be killed at any moment; started again it ends with the same bytes, nothing more."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SAMPLE = ("audit", "mitigate", "filter", "import", "label")
MOMENTS = 10
"""Random moments at which each command is killed, besides every rename."""


@dataclass
class Killer:
    """Kills commands, starts them again, and compares with what they leave when nobody interferes."""

    run: Any
    home: Path
    place: Path
    commands: ModuleType
    files: Any
    kills: Counter[str] = field(default_factory=Counter)

    def undisturbed(self, name: str, times: int) -> tuple[Any, dict[str, str]]:
        """How the command ends when nobody interferes, and what it leaves; the second time without imports."""
        ended, left = None, {}
        for number in range(times):
            folder = self.place / name / f"undisturbed-{number}"
            ended = self.started(name, folder)
            assert ended.code == 0, ended.told
            assert left in ({}, self.files(folder)), f"{name} gives other bytes each time"
            left = self.files(folder)
        return ended, left

    def started(self, name: str, folder: Path, **how: Any) -> Any:
        temporary = folder.with_name(f"{folder.name}-temporary")
        temporary.mkdir(parents=True, exist_ok=True)
        words = self.commands.line_into(name, folder, self.home)
        cache = str(folder.with_name(f"{folder.name}-cache"))
        return self.run(*words, cache=cache, temporary=str(temporary), **({"seconds": 120} | how))

    def killed_and_started_again(self, name: str, number: int, expected: dict[str, str], **how: Any) -> bool:
        """Whether it was killed at all: it may have been quicker."""
        folder = self.place / name / str(number)
        if self.started(name, folder, **how).code != -signal.SIGKILL:
            return False
        self.kills[name] += 1
        again = self.started(name, folder)
        # It may have been killed when all had been done; then the bytes below are whole as well.
        assert again.code == 0 or (again.code == 2 and "already" in again.told), (name, how, again.told)
        assert self.files(folder) == expected, (name, how, set(self.files(folder).items()) ^ set(expected.items()))
        for beside in ("cache", "temporary"):
            left = [path for path in folder.with_name(f"{number}-{beside}").rglob("*") if path.name.endswith(".tmp")]
            assert not left, (name, how, left)
        return True

    def attack(self, name: str, moments: int, renames: range | None = None) -> None:
        """Kill it at these renames, or at each, and at so many random moments."""
        ended, expected = self.undisturbed(name, 2 if moments else 1)
        numbers = renames or range(1, ended.renames + 1)
        for at in numbers:
            if not self.killed_and_started_again(name, at, expected, kill_at_rename=at):
                # Answers of a model are also kept after some seconds: a run on a busier machine has a few renames more.
                assert at > 0.8 * numbers[-1], f"rename {at} did not come"
                break
        rng = random.Random(name)
        wanted = self.kills[name] + moments
        latest = ended.seconds
        for number in range(1000, 1000 + 10 * moments):
            if self.kills[name] < wanted and not self.killed_and_started_again(
                name, number, expected, kill_after=rng.uniform(0.005, latest)
            ):
                latest *= 0.9  # the machine has less to do than when it was timed
        assert self.kills[name] == wanted, f"{name} was too quick for most kills"


@pytest.mark.parametrize("name", SAMPLE)
def test_a_killed_command_is_started_again(
    name: str, equipoise: Any, home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    Killer(equipoise, home, tmp_path, commands, all_files).attack(
        name, 0, range(2, 3) if name != "label" else range(1, 2)
    )


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[str]]]:
    """Every command by its words, with the names of its parameters."""
    if hasattr(command, "commands"):
        for name, child in command.commands.items():
            yield from leaves(child, (*path, name))
    else:
        yield " ".join(path), [parameter.name for parameter in command.params]


def test_every_command_that_writes_is_attacked(commands: ModuleType) -> None:
    """Whoever adds a command with ``-o`` puts it among those that are attacked, or says where else it is."""
    import typer

    from equipoise.cli.main import app

    attacked = {" ".join(map(str, line[:3])) + " " for line in commands.all_commands_of(Path("home")).values()}
    known = tuple(f"{name} " for name in commands.ELSEWHERE)
    writing = {name for name, parameters in leaves(typer.main.get_command(app)) if "out" in parameters}
    assert len(writing) > 40
    missing = {n for n in writing if not any(line.startswith(f"{n} ") for line in attacked)}
    assert not {name for name in missing if not f"{name} ".startswith(known)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mitigate", "filter", "export-huggingface"])
def test_the_command_itself_leaves_what_a_forked_one_leaves(
    name: str, equipoise: Any, home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    """A new interpreter instead of a fork of one that is warm; killed as soon as there is something on the disk."""
    _, expected = Killer(equipoise, home, tmp_path, commands, all_files).undisturbed(name, 1)
    environment = os.environ | {"EQUIPOISE_CACHE": str(tmp_path / "cache")}

    def started(folder: Path) -> subprocess.Popen[bytes]:
        words = map(str, commands.line_into(name, folder, home))
        return subprocess.Popen([sys.executable, "-m", "equipoise", *words], env=environment, stdout=subprocess.DEVNULL)

    assert started(tmp_path / "whole").wait() == 0
    assert all_files(tmp_path / "whole") == expected
    child = started(tmp_path / "killed")
    while child.poll() is None and not list((tmp_path / "killed").iterdir()):
        time.sleep(0.001)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    assert started(tmp_path / "killed").wait() == 0
    assert all_files(tmp_path / "killed") == expected


@pytest.fixture(scope="module")
def kills(commands: ModuleType) -> Iterator[Counter[str]]:
    """How often each command was killed; ``pytest -s`` shows it."""
    counted: Counter[str] = Counter()
    yield counted
    print(f"\n{counted.total()} kills over {len(counted)} commands: {dict(counted)}", flush=True)
    assert len(counted) < len(commands.names()) or counted.total() >= 500


@pytest.mark.slow
def test_killed_at_every_rename_and_at_ten_random_moments(
    every_name: str,
    equipoise: Any,
    whole_home: Path,
    commands: ModuleType,
    all_files: Any,
    tmp_path: Path,
    kills: Counter[str],
) -> None:
    killer = Killer(equipoise, whole_home, tmp_path, commands, all_files)
    try:
        killer.attack(every_name, MOMENTS)
    finally:
        kills += killer.kills
        print(f"{every_name}: {killer.kills[every_name]} kills", flush=True)
        shutil.rmtree(tmp_path)
