import functools
import gc
import importlib.util
import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

# The same examples in every run, so that a failure is a change of the code and not of the dice; `make test-all` (or
# EQUIPOISE_RANDOM=1) throws them anew, and more of them.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=15)
settings.register_profile("random", deadline=None, max_examples=200)
settings.load_profile("random" if os.environ.get("EQUIPOISE_RANDOM") else "repeatable")


# Collecting it for doctests would import it, and its metric would be in every audit of the other tests.
collect_ignore = ["toy_plugin"]

_CACHES = itertools.count()


# Thousands of tests and the libraries they import stay until the end: the collector need not look at them while they
# are gathered, nor again. Otherwise every full collection, such as that of a test that runs out of memory, takes a
# second.
gc.disable()


def pytest_collection_finish() -> None:
    """From here on there is something to throw away."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache for fixtures that serve several tests; nobody's own cache is read or written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIPOISE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_are_read_once() -> Iterator[None]:
    """The parser of a command line is made once: a shell makes it once too, and hundreds of tests would make it again.

    It takes a tenth of a second, for the types of every option of every command are read.
    """
    import typer.main
    import typer.testing

    once = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", once)
        patch.setattr(typer.testing, "_get_command", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def _nobody_waits_for_the_disk() -> Iterator[None]:
    """Files of tests need not outlive a power cut; tests/data/test_atomic.py sees that files are synced in order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _cache_of_the_test(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache for each test: encoders of different tests may share a key."""
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path_factory.getbasetemp() / f"cache-{next(_CACHES)}"))


@pytest.fixture
def command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess]:
    """Runs ``equipoise`` with these words as a shell would, in this process: another takes two seconds to start."""
    from equipoise.cli.main import run

    def called(*words: object) -> subprocess.CompletedProcess:
        line = ["equipoise", *map(str, words)]
        monkeypatch.setattr(sys, "argv", line)
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            run()
        told = capsys.readouterr()
        return subprocess.CompletedProcess(line, stopped.value.code or 0, told.out, told.err)

    return called


SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public data of the papers, beside the checkout where the project is developed; not part of the repository."""
    if not SHARED.is_dir():
        pytest.skip("the papers' public data is not on this machine")
    return SHARED


@pytest.fixture(scope="session")
def coco_captions(shared_data: Path) -> dict:
    import json

    path = shared_data / "coco" / "captions_val2017.json"
    if not path.exists():
        pytest.skip("COCO val2017 captions are not on this machine")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def docs_script() -> Callable[[str], ModuleType]:
    """Opens a script of the documentation by name, such as ``metrics_table``, which writes tables into a page."""
    docs = Path(__file__).resolve().parents[1] / "docs"
    if not docs.is_dir():
        pytest.skip("the documentation is not beside the tests")

    def opened(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, docs / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return opened


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The page of recipes, by far the longest test, comes first: last, it would run alone while other workers wait."""
    items.sort(
        key=lambda item: not item.nodeid.endswith("test_commands.py::test_every_command_runs_as_printed[recipes.md]")
    )
