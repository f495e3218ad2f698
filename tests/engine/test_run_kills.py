"""Whatever leaves results in a folder can be killed, and two of them never share one."""

from __future__ import annotations

import itertools
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from equipoise.data.runs import claimed
from equipoise.errors import InputError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")

KINDS = ("audit", "measure", "captions", "dataset", "mitigate", "compare", "filter", "report")
MOMENTS = ("file.before_rename", "run.before_rename")
"""Before every file takes its name, and before everything moves from the stage into the folder."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, running: Any) -> Path:
    made = tmp_path_factory.mktemp("runs")
    assert running.run("inputs", home=str(made)) == 0
    return made


@pytest.fixture(scope="module")
def undisturbed(home: Path, running: Any, all_files: Any) -> Any:
    """The files of a run that nobody disturbs, by kind and by which of its two jobs."""
    known: dict[tuple[str, bool], dict[str, str]] = {}

    def files_of(kind: str, other: bool = False) -> dict[str, str]:
        if (kind, other) not in known:
            # Not beside the tables: a page also shows the card of a table that lies beside its results.
            out = home / f"done-{kind}-{other}" / "out"
            out.parent.mkdir()
            assert running.run("run", kind=kind, home=str(home), out=str(out), other=other) == 0
            known[kind, other] = all_files(out)
        return known[kind, other]

    return files_of


def killed_and_started_again(kind: str, moment: str, home: Path, out: Path, running: Any) -> bool:
    """Kill a job at this moment and start it again; whether the moment came at all."""
    order = {"kind": kind, "home": str(home), "out": str(out)}
    code = running.run("run", moment, **order)
    if code == 0:
        return False
    assert code == -signal.SIGKILL
    assert running.run("run", **order) == 0
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_is_started_again(
    kind: str, home: Path, undisturbed: Any, running: Any, files: Any, tmp_path: Path
) -> None:
    expected = undisturbed(kind)
    moment = "file.before_rename:3" if kind == "report" else "run.before_rename:2"
    moment = "run.before_rename:1" if kind == "mitigate" else moment
    assert killed_and_started_again(kind, moment, home, tmp_path / "out", running)
    assert files(tmp_path / "out") == expected
    assert not [name for name in expected if name.startswith(".") and not name.startswith("./")]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_run_killed_at_any_rename_is_started_again(
    kind: str, moment: str, home: Path, undisturbed: Any, running: Any, files: Any, tmp_path: Path
) -> None:
    for number in itertools.count(1):
        out = tmp_path / str(number)
        if not killed_and_started_again(kind, f"{moment}:{number}", home, out, running):
            break
        assert files(out) == undisturbed(kind), number
    assert number > 1 or (kind, moment) == ("report", "run.before_rename")


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_is_being_written_is_refused(kind: str, home: Path, running: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    taken = out / "page_files" if kind == "report" else out
    with claimed(taken, "report" if kind == "report" else "comparison"):
        assert running.run("run", kind=kind, home=str(home), out=str(out)) == 1
        assert not list(out.glob("*results*"))
    assert not taken.exists()


def two_at_once(
    kind: str, home: Path, out: Path, undisturbed: Any, running: Any, also_running: Any, files: Any
) -> None:
    order = {"kind": kind, "home": str(home), "out": str(out)}
    running.start("run", **order)
    also_running.start("run", **order, other=True)
    codes = (running.end(), also_running.end())
    assert 0 in codes
    left = files(out)
    if kind in ("measure", "report"):  # the second may take the place of the first, whole
        assert left in (undisturbed(kind), undisturbed(kind, True))
    else:
        assert sorted(codes) == [0, 1]
        assert left == undisturbed(kind, codes[1] == 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_never_mix_their_results_in_a_hundred_trials(
    kind: str, home: Path, undisturbed: Any, running: Any, also_running: Any, files: Any, tmp_path: Path
) -> None:
    for trial in range(13):
        two_at_once(kind, home, tmp_path / str(trial), undisturbed, running, also_running, files)


def test_another_kind_of_run_is_refused_by_name(home: Path, running: Any, files: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert running.run("run", kind="audit", home=str(home), out=str(out)) == 0
    before = files(out)
    for kind in KINDS:
        if kind not in ("audit", "measure", "report"):
            assert running.run("run", kind=kind, home=str(home), out=str(out)) == 1
    assert files(out) == before
    with pytest.raises(InputError, match="holds an audit; give another folder"), claimed(out, "dataset"):
        pass
