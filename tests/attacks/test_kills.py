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

SAMPLE = ("mitigate", "import", "export-folder", "label")
MOMENTS = 12
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

    def line(self, name: str, folder: Path) -> list[Any]:
        folder.mkdir(parents=True)
        target = folder / self.commands.ENDINGS.get(name, "made")
        return self.commands.line_of(self.commands.commands_of(self.home)[name], target)

    def undisturbed(self, name: str) -> tuple[Any, dict[str, str]]:
        folder = self.place / name / "undisturbed"
        ended = self.run(*self.line(name, folder), cache=str(self.place / name / "cache"), seconds=120)
        assert ended.code == 0, ended.told
        return ended, self.files(folder)

    def killed_and_started_again(self, name: str, number: int, expected: dict[str, str], **how: Any) -> None:
        folder, cache = self.place / name / str(number), str(self.place / name / f"cache-{number}")
        words = self.line(name, folder)
        if self.run(*words, cache=cache, **how).code != -signal.SIGKILL:
            return  # it was quicker
        self.kills[name] += 1
        again = self.run(*words, cache=cache, seconds=120)
        assert again.code == 0, (name, how, again.told)
        assert self.files(folder) == expected, (name, how)

    def attack(self, name: str, renames: range, moments: int) -> None:
        ended, expected = self.undisturbed(name)
        number = 0
        for at in renames or range(1, ended.renames + 1):
            number += 1
            self.killed_and_started_again(name, number, expected, kill_at_rename=at)
        assert self.kills[name] == number, "a rename did not come"
        rng = random.Random(name)
        for _ in range(moments):
            number += 1
            after = rng.uniform(0.01, ended.seconds)
            self.killed_and_started_again(name, number, expected, kill_after=after)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_killed_command_is_started_again(
    name: str, equipoise: Any, home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    Killer(equipoise, home, tmp_path, commands, all_files).attack(name, range(1, 2), 0)


@pytest.mark.slow
def test_at_least_five_hundred_kills(
    equipoise: Any, with_models: Any, home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    kills: Counter[str] = Counter()
    for name in commands.commands_of(home):
        run = with_models if name in commands.WITH_MODELS else equipoise
        killer = Killer(run, home, tmp_path, commands, all_files)
        killer.attack(name, range(0), MOMENTS)
        kills += killer.kills
        print(name, killer.kills[name], flush=True)
    assert kills.total() >= 500, kills
