"""A run folder: whose it is, how far it got, and what stays of it whatever happens."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from equipoise.data import Table
from equipoise.data.runs import KINDS, RUN, check_folder, claimed, file_to_write, find_run, read_run
from equipoise.errors import InputError

OLD = [(kind, old) for kind, (_, old, _) in KINDS.items() if old and kind != "report"]


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def write(folder: Path, *names: str, kind: str = "captions", **how: Any) -> None:
    with claimed(folder, kind, **how) as run:
        for name in names:
            (run.stage / name).parent.mkdir(exist_ok=True)
            (run.stage / name).write_text(f"{name} of {kind}")
        run.publish()


def refusing(message: str) -> Any:
    def accept(run: Any) -> None:
        raise InputError(message)

    return accept


def test_a_folder_says_what_made_it(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "out"
    write(home, "results.csv", of={"model": "m"}, settings={"k": [1]}, parents={"table": "abc"}, suite="s")
    assert sorted(path.name for path in home.iterdir()) == ["results.csv", RUN]
    run = read_run(home, "captions", "suite", "of")
    assert (run.kind, run.state, run.of, run.settings) == ("captions", "finished", {"model": "m"}, {"k": [1]})
    assert run.files == {"results.csv"}
    assert run.about["parents"] == {"table": "abc"}
    assert run.about["versions"]["equipoise"]


@pytest.mark.parametrize(("kind", "old_name"), OLD)
def test_old_names_are_read_and_replaced(kind: str, old_name: str, tmp_path: Path) -> None:
    (tmp_path / old_name).write_text(json.dumps({"command": "captions", "settings": {"k": 1}}))
    (tmp_path / "results.csv").write_text("old")
    assert read_run(tmp_path, kind).settings == {"k": 1}
    write(tmp_path, "results.csv", kind=kind)
    assert sorted(contents(tmp_path)) == ["results.csv", RUN]


def test_a_run_is_marked_before_it_is_done_and_leaves_nothing_when_it_fails(tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"

    def fail() -> None:
        with claimed(home, "audit") as run:
            assert find_run(home).state == "running"
            (run.stage / "results.csv").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not (tmp_path / "a").exists()
    write(home, "results.csv", kind="audit")
    before = contents(home)
    with pytest.raises(AssertionError, match="on purpose"), claimed(home, "audit", settings={"other": True}):
        assert not find_run(home).finished, "on purpose: whole results stay what they are until new ones are there"
    assert contents(home) == before


def test_finished_work_outlives_a_failure(tmp_path: Path) -> None:
    home = tmp_path / "out"

    def work() -> None:
        (home / "_work").mkdir()
        (home / "_work" / "done.json").write_text("{}")
        raise RuntimeError

    with pytest.raises(RuntimeError), claimed(home, "captions"):
        work()
    assert find_run(home).state == "running"
    write(home, "results.csv")
    assert sorted(contents(home)) == ["_work/done.json", "results.csv", RUN]


def test_what_only_an_earlier_run_wrote_goes_and_the_rest_stays(tmp_path: Path) -> None:
    write(tmp_path, "results.csv", "figure.svg", "held_out/part")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "report.html").write_text("page")
    write(tmp_path, "results.csv")
    assert sorted(contents(tmp_path)) == ["notes.txt", "report.html", "results.csv", RUN]


def test_a_file_of_the_user_is_never_replaced(tmp_path: Path) -> None:
    write(tmp_path, "results.csv")
    (tmp_path / "figure.svg").write_text("mine")
    with pytest.raises(InputError, match=r"figure\.svg: was not written by this command; move it away"):
        write(tmp_path, "results.csv", "figure.svg")
    assert (tmp_path / "figure.svg").read_text() == "mine"
    write(tmp_path, "results.csv", "figure.svg", overwrite=True)
    assert (tmp_path / "figure.svg").read_text() == "figure.svg of captions"


def test_what_a_killed_run_left_is_cleared(tmp_path: Path) -> None:
    write(tmp_path, "results.csv")
    before = contents(tmp_path)
    for name in (".stage/images.npy", ".audit-0a1b2c/images.npy", ".results.csv.0a1b.tmp", "_work/.x.json.0a1b.tmp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("half")
    write(tmp_path, "results.csv")
    assert contents(tmp_path) == before


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="holds files but no audit of captions"):
        check_folder(tmp_path / "mine", "captions")
    with pytest.raises(InputError, match="is a file"):
        check_folder(tmp_path / "mine" / "thesis.tex" / "deeper", "captions")
    with pytest.raises(InputError, match="has no name"):
        check_folder(" ", "captions")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "clip"}')
    with pytest.raises(InputError, match="holds files but no"):
        check_folder(tmp_path / "model", "captions")
    Table.create(tmp_path / "table", [{"image_id": "a"}])
    for overwrite in (False, True):
        with pytest.raises(InputError, match="holds a table; give another folder"):
            check_folder(tmp_path / "table", "dataset", overwrite=overwrite)


@pytest.mark.parametrize(("kind", "other"), [*zip(KINDS, [*list(KINDS)[1:], "audit"], strict=True)])
def test_a_folder_belongs_to_one_kind_of_run(kind: str, other: str, tmp_path: Path) -> None:
    write(tmp_path, f"{kind}.csv", kind=kind)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="give another folder with -o, or --overwrite"):
        write(tmp_path, f"{other}.csv", kind=other)
    assert contents(tmp_path) == before
    write(tmp_path, f"{other}.csv", kind=other, overwrite=True)
    assert sorted(contents(tmp_path)) == sorted([f"{other}.csv", RUN])


def test_the_run_of_something_else_is_refused_unless_told(tmp_path: Path) -> None:
    write(tmp_path, "results.csv", "more.csv")
    before = contents(tmp_path)
    with pytest.raises(InputError, match="holds another model"):
        write(tmp_path, "results.csv", accept=refusing("holds another model"))
    assert contents(tmp_path) == before
    write(tmp_path, "results.csv", accept=refusing("holds another model"), overwrite=True)
    assert sorted(contents(tmp_path)) == ["results.csv", RUN]


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"kind": "captions", "state": 3}', "\0", "[" * 100_000])
def test_a_damaged_note_is_one_sentence(damage: str, tmp_path: Path) -> None:
    (tmp_path / RUN).write_text(damage)
    for use in (find_run, lambda folder: read_run(folder, "captions"), lambda folder: write(folder, "a.csv")):
        with pytest.raises(InputError, match="damaged") as told:
            use(tmp_path)
        assert "\n" not in str(told.value)
    write(tmp_path, "a.csv", overwrite=True)
    assert read_run(tmp_path, "captions").finished


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with claimed(tmp_path / "out", "audit"):
        for kind in ("audit", "dataset"):
            with pytest.raises(InputError, match=r"being written by process|holds an audit"):
                write(tmp_path / "out", "a.csv", kind=kind)
        with pytest.raises(InputError, match="being written by process"):
            write(tmp_path / "out", "a.csv", kind="dataset", overwrite=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs permissions")
def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    import os

    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / "out", "a.csv")


def test_a_file_is_never_written_over_unasked(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    with pytest.raises(InputError, match=r"mine\.txt: is there already; give another name, or say --overwrite"):
        file_to_write(mine).__enter__()
    (tmp_path / ".mine.txt.0a1b.tmp").write_text("half")
    with file_to_write(mine, overwrite=True), pytest.raises(InputError, match="is being written by process"):
        file_to_write(mine, overwrite=True).__enter__()
    with file_to_write(mine, own=b"mi"):
        pass
    with pytest.raises(InputError, match="is a folder"):
        file_to_write(tmp_path).__enter__()
    with pytest.raises(InputError, match="does not exist"):
        file_to_write(tmp_path / "none" / "a").__enter__()
    assert contents(tmp_path) == {"mine.txt": "mine"}
