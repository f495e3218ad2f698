"""Two commands into one folder at the same time: one runs, the other is refused with a sentence, nothing is mixed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from equipoise.data.runs import claimed

SAME_KIND = {"audit", "measure", "audit-of-captions"}
"""Both are audits: the second may take the place of the first, whole, once that is finished."""
TRIALS = 100


WITH_MODELS = ("audit-of-a-model", "embed", "caption")
DRAWN = ("generate-sets", "generate-edits", "generate-inpaint", "generate-scenes", "generate-substitute")
"""They write tables as the other generators do, and take longer."""
KINDS = {
    "audit": "audit",
    "measure": "audit",
    "captions": "captions",
    "dataset": "dataset",
    "mitigate": "remedy",
    "compare": "comparison",
    "filter": "filter",
}
"""Commands that leave a run in a folder, and its kind."""


def folders(commands: ModuleType, home: Path) -> list[str]:
    """The commands that leave a folder of their own; of those that ask a model, some of each kind."""
    others = {*commands.ENDINGS, *commands.INTO_A_TABLE, *WITH_MODELS, *DRAWN}
    return [name for name in commands.all_commands_of(home) if name not in others]


class Arena:
    """Starts two commands at once, and knows what each leaves alone."""

    def __init__(self, run: Any, home: Path, commands: ModuleType, files: Any, place: Path) -> None:
        self.run, self.home, self.commands, self.files, self.place = run, home, commands, files, place
        self._known: dict[tuple[str, bool], dict[str, str]] = {}

    def line(self, name: str, other: bool, out: Path) -> list[Any]:
        out.parent.mkdir(parents=True, exist_ok=True)
        known = self.commands.commands_of(self.home, other) if other else self.commands.all_commands_of(self.home)
        return self.commands.line_of(known[name], out)

    def alone(self, name: str, other: bool) -> dict[str, str]:
        if (name, other) not in self._known:
            out = self.place / f"alone-{name}-{other}" / "made"
            assert self.run(*self.line(name, other, out), seconds=120).code == 0
            self._known[name, other] = self.files(out)
        return self._known[name, other]

    def meet(self, number: int, first: tuple[str, bool], second: tuple[str, bool]) -> None:
        expected = [self.alone(*first), self.alone(*second)]
        out = self.place / str(number) / "made"
        ends = self.run.at_once(self.line(*first, out), self.line(*second, out), seconds=120)
        for ended in ends:
            ended.check_in_order()
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


@pytest.mark.slow
def test_two_commands_of_different_kinds(
    equipoise: Any, home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    arena = Arena(equipoise, home, commands, all_files, tmp_path)
    arena.meet(0, ("import", False), ("mitigate", False))


@pytest.mark.parametrize("name", sorted(KINDS))
def test_a_folder_that_is_being_written_is_refused(
    name: str, equipoise: Any, home: Path, commands: ModuleType, tmp_path: Path
) -> None:
    with claimed(tmp_path / "made", KINDS[name]):
        ended = equipoise(*commands.line_into(name, tmp_path, home)).check_in_order()
        assert (ended.code, "is being written by process" in ended.sentence) == (2, True), ended.told
        assert {path.name for path in (tmp_path / "made").iterdir()} == {"run.json", ".lock", ".stage"}


def test_another_kind_of_run_is_refused_by_name(
    equipoise: Any, home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    shutil.copytree(home / "one", tmp_path / "made")
    before = all_files(tmp_path)
    for name in sorted(set(KINDS) - {"audit", "measure"}):
        ended = equipoise(*commands.line_into(name, tmp_path, home)).check_in_order()
        assert (ended.code, "holds an audit; give another folder" in ended.sentence) == (2, True), ended.told
    assert all_files(tmp_path) == before


@pytest.mark.slow
def test_a_hundred_trials_over_all_kinds(
    equipoise: Any, whole_home: Path, commands: ModuleType, all_files: Any, tmp_path: Path
) -> None:
    rng = random.Random(16)
    names = folders(commands, whole_home)
    with_another = commands.commands_of(whole_home)  # the same kind, with other inputs or settings
    arena = Arena(equipoise, whole_home, commands, all_files, tmp_path)
    for number in range(TRIALS):
        first = (names[number % len(names)], False)
        alike = number % 3 == 0 and first[0] in with_another
        second = (first[0], True) if alike else (rng.choice([n for n in names if n != first[0]]), False)
        if first[0].startswith("export-") and second[0] == first[0]:
            second = (rng.choice([n for n in names if not n.startswith("export-")]), False)
        arena.meet(number, first, second)
