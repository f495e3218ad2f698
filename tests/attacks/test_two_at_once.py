"""Two commands into one folder at the same time: one runs, the other is refused with a sentence, nothing is mixed."""

from __future__ import annotations

import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SAME_KIND = {"audit", "measure", "audit-of-captions"}
"""Both are audits: the second may take the place of the first, whole, once that is finished."""
TRIALS = 100


def folders(commands: ModuleType, home: Path) -> list[str]:
    """The commands that leave a folder, and need no model in memory."""
    return [name for name in commands.commands_of(home) if name not in {*commands.ENDINGS, *commands.WITH_MODELS}]


class Arena:
    """Starts two commands at once, and knows what each leaves alone."""

    def __init__(self, one: Any, two: Any, home: Path, commands: ModuleType, files: Any, place: Path) -> None:
        self.one, self.two, self.home, self.commands, self.files, self.place = one, two, home, commands, files, place
        self._known: dict[tuple[str, bool], dict[str, str]] = {}

    def line(self, name: str, other: bool, out: Path) -> list[Any]:
        out.parent.mkdir(parents=True, exist_ok=True)
        return self.commands.line_of(self.commands.commands_of(self.home, other)[name], out)

    def alone(self, name: str, other: bool) -> dict[str, str]:
        if (name, other) not in self._known:
            out = self.place / f"alone-{name}-{other}" / "made"
            assert self.one(*self.line(name, other, out), seconds=120).code == 0
            self._known[name, other] = self.files(out)
        return self._known[name, other]

    def meet(self, number: int, first: tuple[str, bool], second: tuple[str, bool]) -> None:
        expected = [self.alone(*first), self.alone(*second)]
        out = self.place / str(number) / "made"
        self.one.start(*self.line(*first, out), seconds=120)
        self.two.start(*self.line(*second, out), seconds=120)
        ends = [self.one.end().check_in_order(), self.two.end().check_in_order()]
        codes = [ended.code for ended in ends]
        assert 0 in codes, [ended.told for ended in ends]
        left = self.files(out)
        assert left in expected, (first, second, codes, sorted(left), [ended.told[-300:] for ended in ends])
        if codes == [0, 0]:
            assert first == second or {first[0], second[0]} <= SAME_KIND, (first, second)
        else:
            assert left == expected[codes.index(0)], (first, second, codes)
            refused = ends[1 - codes.index(0)]
            assert refused.sentence.startswith("equipoise: "), refused.told


def test_two_commands_of_different_kinds(
    equipoise: Any, also_equipoise: Any, home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    arena = Arena(equipoise, also_equipoise, home, commands, all_files, tmp_path)
    arena.meet(0, ("import", False), ("mitigate", False))


@pytest.mark.slow
def test_a_hundred_trials_over_all_kinds(
    equipoise: Any, also_equipoise: Any, home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    rng = random.Random(16)
    names = folders(commands, home)
    arena = Arena(equipoise, also_equipoise, home, commands, all_files, tmp_path)
    for number in range(TRIALS):
        first = (names[number % len(names)], False)
        second = (first[0], True) if number % 3 == 0 else (rng.choice([n for n in names if n != first[0]]), False)
        if first[0].startswith("export-") and second[0] == first[0]:
            second = (rng.choice([n for n in names if not n.startswith("export-")]), False)
        arena.meet(number, first, second)
