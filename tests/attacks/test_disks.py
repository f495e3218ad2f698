"""Disks that are full or read-only, odd names and odd streams: each command ends in one sentence, and goes on later."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

POINTS = 20
"""So many parts of the room that a command needs are there."""
_ROOM = 24 << 20


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a small file system in memory; skipped where that is not allowed."""
    places: list[Path] = []

    def mount(options: str, where: Path | None = None) -> Path:
        place = where or tmp_path / f"disk-{len(places)}"
        place.mkdir(exist_ok=True)
        line = ["mount", "-o", options, *(["-t", "tmpfs", "tmpfs"] if "remount" not in options else []), str(place)]
        done = subprocess.run(line, capture_output=True, text=True) if shutil.which("mount") else None
        if done is None or done.returncode:
            pytest.skip(f"mounting is not allowed here: {done.stderr.strip() if done else 'there is no mount'}")
        if where is None:
            places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", "-l", str(place)], check=False)


def filled(disk: Path, room: int) -> None:
    """Leave so much room on the disk."""
    ballast = disk / ".ballast"
    ballast.unlink(missing_ok=True)
    size = room_on(disk) - room
    if size > 0:
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)


def room_on(disk: Path) -> int:
    state = os.statvfs(disk)
    return state.f_bavail * state.f_frsize


def fill_and_go_on(
    name: str, points: Iterable[int], run: Any, disk: Path, home: Path, commands: ModuleType, files: Any
) -> int:
    """Run ``name`` with a part of the room it needs, in twentieths, then with enough; how often it was too little."""
    cache, folder = str(disk / "cache"), disk / "out" / name
    expected: dict[str, str] = {}
    needed = failed = 0
    for point in (None, *points):
        words = commands.line_into(name, folder, home)
        if point is None:
            needed = room_on(disk)
            ended = run(*words, cache=cache, disk=str(disk), seconds=120)
            assert ended.code == 0, ended.told
            needed -= min(ended.least_room, room_on(disk))
            expected = files(folder)
        else:
            filled(disk, needed * point // POINTS)
            ended = run(*words, cache=cache, seconds=120).check_in_order()
        if ended.code:
            failed += 1
            assert "full" in ended.told or "room" in ended.told, (name, point, ended.told)
            filled(disk, _ROOM)
            again = run(*words, cache=cache, seconds=120)
            assert again.code == 0, (name, point, again.told)
        assert files(folder) == expected, (name, point)
        shutil.rmtree(disk / "out")
        shutil.rmtree(cache, ignore_errors=True)
    return failed


@pytest.mark.parametrize("name", ["mitigate", "export-folder"])
def test_a_disk_that_fills_up(
    name: str, equipoise: Any, home: Path, commands: ModuleType, all_files: Any, mounted: Any
) -> None:
    disk = mounted(f"size={_ROOM}")
    assert fill_and_go_on(name, (1, 10), equipoise, disk, home, commands, all_files)


@pytest.fixture(scope="module")
def full_disks(commands: ModuleType) -> Iterator[Counter[str]]:
    """How often the disk was full for each command; ``pytest -s`` shows it."""
    counted: Counter[str] = Counter()
    yield counted
    print(f"\n{counted.total()} full disks over {len(counted)} commands: {dict(counted)}", flush=True)
    assert len(counted) < len(commands.names()) or counted.total() > 400


@pytest.mark.slow
def test_a_disk_that_fills_up_at_twenty_points(
    every_name: str,
    equipoise: Any,
    whole_home: Path,
    commands: ModuleType,
    all_files: Any,
    mounted: Any,
    full_disks: Counter[str],
) -> None:
    """All twenty points for commands that take a fraction of a second; four of them for the others, by turns."""
    number = commands.names().index(every_name)
    points = range(number % 5, POINTS, 5) if every_name in commands.SECONDS_LONG else range(POINTS)
    disk = mounted(f"size={_ROOM}")
    found = fill_and_go_on(every_name, points, equipoise, disk, whole_home, commands, all_files)
    full_disks[every_name] = found
    print(f"{every_name}: full {found} times of {len(points)}", flush=True)
    assert found >= 1


SAMPLE = ("mitigate", "import", "export-csv", "label", "render")


def refused_on_a_read_only_disk(names: Iterable[str], run: Any, home: Path, commands: ModuleType, mounted: Any) -> None:
    disk = mounted("size=16m")
    lines = {name: commands.line_into(name, disk / name, home) for name in names}
    mounted("remount,ro", disk)
    for name, words in lines.items():
        ended = run(*words).check_in_order()
        assert ended.code == 2, (name, ended.told)
        assert "read-only" in ended.told, (name, ended.told)


def test_a_read_only_disk(equipoise: Any, home: Path, commands: ModuleType, mounted: Any) -> None:
    refused_on_a_read_only_disk(SAMPLE, equipoise, home, commands, mounted)


@pytest.mark.slow
def test_every_command_on_a_read_only_disk(
    equipoise: Any, whole_home: Path, commands: ModuleType, mounted: Any
) -> None:
    names = commands.all_commands_of(whole_home)
    refused_on_a_read_only_disk(names, equipoise, whole_home, commands, mounted)


NAMES = {"a name too long": "x" * 300, "a path too long": "/".join(["y" * 200] * 30), "a file as a folder": "file/made"}


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_names_that_no_disk_takes(kind: str, equipoise: Any, home: Path, commands: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for name in ("mitigate", "import", "export-folder", "label"):
        ending = Path(commands.ENDINGS.get(name, "")).suffix
        target = f"{tmp_path}/{NAMES[kind]}{ending}"
        ended = equipoise(*commands.line_of(commands.commands_of(home)[name], Path(target))).check_in_order()
        assert ended.code == 2, (name, ended.told)
    assert (tmp_path / "file").read_text() == "mine"


def test_links_that_lead_in_a_circle(equipoise: Any, home: Path, commands: ModuleType, tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    lines = commands.commands_of(home)
    for words in (
        *(commands.line_of(lines[name], loop) for name in ("audit", "import", "export-folder", "label")),
        ["table", "info", loop],
        ["report", loop, "-o", tmp_path / "page.html"],
        ["text", "label", loop],
        ["captions", loop, "--labels", loop, "-o", tmp_path / "made"],
        ["audit", f"table:{loop}", "-s", "marginal", "-t", loop, "-o", tmp_path / "made"],
    ):
        ended = equipoise(*words).check_in_order()
        assert ended.code == 2, ended
    assert loop.is_symlink()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_is_full(equipoise: Any, home: Path) -> None:
    for words in (["table", "info", home / "sets"], ["text", "label", home / "lines.txt"], ["suites"], ["--help"]):
        ended = equipoise(*words, out="/dev/full").check_in_order()
        assert ended.code == 2, (words, ended)
        assert ended.sentence.startswith("equipoise: standard output: the disk is full"), ended.told
    ended = equipoise("text", "label", home / "lines.txt", "-o", "/dev/full").check_in_order()
    assert ended.code == 2
    ended = equipoise("text", "captions", "--axes", "/dev/full").check_in_order()  # it gives zeros without end
    assert (ended.code, "is not a file" in ended.told) == (2, True), ended.told


def test_no_input_and_a_terminal_of_plain_letters(equipoise: Any, home: Path, tmp_path: Path) -> None:
    ended = equipoise("text", "label", "-", no_input=True).check_in_order()
    assert ended.code == 2 or "0" in ended.told
    (tmp_path / "accents.txt").write_text("a man in a café 😀\n")
    ended = equipoise("text", "label", tmp_path / "accents.txt", encoding="ascii").check_in_order()
    assert (ended.code, ended.told.count("caf\\xe9")) == (0, 1), ended.told
    for words in (["--help"], ["table", "info", home / "sets"], ["report", home / "nothing é"]):
        equipoise(*words, encoding="ascii").check_in_order()
