"""Every command that writes can be killed at any moment; started again it ends with the same bytes, nothing more."""

from __future__ import annotations

import random
import signal
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SAMPLE = ("audit", "captions", "mitigate", "filter", "import", "export-folder", "label")
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

    def undisturbed(self, name: str) -> tuple[Any, dict[str, str]]:
        """How the command ends when nobody interferes, and what it leaves; in seconds without imports."""
        ended, left = None, {}
        for number in range(2):
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
        finished = self.files(folder) == expected
        again = self.started(name, folder)
        if not (finished and again.code == 2 and "already" in again.told):  # it was killed when all had been done
            assert again.code == 0, (name, how, again.told)
        assert self.files(folder) == expected, (name, how, set(self.files(folder).items()) ^ set(expected.items()))
        for beside in ("cache", "temporary"):
            left = [path for path in folder.with_name(f"{number}-{beside}").rglob("*") if path.name.endswith(".tmp")]
            assert not left, (name, how, left)
        return True

    def attack(self, name: str, moments: int, renames: range | None = None) -> None:
        """Kill it at these renames, or at each, and at so many random moments."""
        ended, expected = self.undisturbed(name)
        numbers = renames or range(1, ended.renames + 1)
        for at in numbers:
            assert self.killed_and_started_again(name, at, expected, kill_at_rename=at), f"rename {at} did not come"
        rng = random.Random(name)
        wanted = self.kills[name] + moments
        for number in range(1000, 1000 + 4 * moments):
            if self.kills[name] < wanted:
                after = rng.uniform(0.01, ended.seconds)
                self.killed_and_started_again(name, number, expected, kill_after=after)
        assert self.kills[name] == wanted, f"{name} was too quick for most kills"


@pytest.mark.parametrize("name", SAMPLE)
def test_a_killed_command_is_started_again(
    name: str, equipoise: Any, home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    Killer(equipoise, home, tmp_path, commands, all_files).attack(
        name, 0, range(2, 3) if name != "label" else range(1, 2)
    )


@pytest.mark.slow
def test_revising_captions_goes_on_after_every_kill(
    equipoise: Any, whole_home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    Killer(equipoise, whole_home, tmp_path, commands, all_files).attack("libra-apply", MOMENTS)


@pytest.mark.slow
def test_at_least_five_hundred_kills(
    equipoise: Any, whole_home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    kills: Counter[str] = Counter()
    for name in commands.all_commands_of(whole_home):
        killer = Killer(equipoise, whole_home, tmp_path, commands, all_files)
        killer.attack(name, MOMENTS)
        kills += killer.kills
        print(name, killer.kills[name], flush=True)
    assert kills.total() >= 500, kills
