"""Every command in the README and the pages is one that the program has, and runs as it is printed.

``scenery.py`` lays out what the pages read. A page that asks a model is slow; ``make test-all`` runs it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.docs.printed import MODEL, PAGES, ROOT, calls_of, mentions_of, parts_of, resolved, words_of
from tests.docs.scenery import FEWER, QUICK, STAGES, STAND_INS, Stage, common_ground, quick_ground
from typer.testing import CliRunner

from equipoise.cli.main import app

ALL = [(page.name, line) for page in PAGES for line in calls_of(page)]
BY_PAGE = {page.name: page for page in PAGES if calls_of(page)}
WHERE = (
    "If it reads files that are not there, lay them out in tests/docs/scenery.py: for one page in STAGES, for all in "
    "common_ground. A model of the hub needs a stand-in in STAND_INS. What nobody could run should be printed as prose."
)


def test_there_are_commands_and_the_program_has_all_that_are_printed() -> None:
    assert len(ALL) > 150
    for page, line in ALL:
        command, words = resolved(words_of(line))
        try:
            "--help" in words or command.make_context(command.name, list(words))
        except Exception as error:
            raise AssertionError(f"{page}: {line}") from error


def test_the_program_has_every_command_and_option_that_a_sentence_names() -> None:
    for page in [*PAGES, *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]:
        for text in mentions_of(page):
            command, rest = resolved([w for w in shlex.split(text)[1:] if not re.match(r"[A-Z|…]+$", w)])
            known = {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
            assert all(word in known for word in rest if word.startswith("-")), f"{page.name}: {text}"


def test_every_model_that_is_printed_can_be_had() -> None:
    """Without a network: it has a stand-in, or a command of the page makes it."""
    for page in BY_PAGE.values():
        made: set[str] = set()
        for line in calls_of(page):
            for name in (n.removeprefix("./") for n in MODEL.findall(line)):
                assert name in STAND_INS or name in made, f"{page.name}: {line}\nhf:{name} has no stand-in. {WHERE}"
            words = words_of(line)
            made |= {words[at + 1] for at, word in enumerate(words[:-1]) if word == "-o"}
            made |= set(words[4:5]) if words[:2] == ["models", "convert"] else set()


def test_a_page_sends_every_result_into_a_folder_of_its_own() -> None:
    """A folder of another result is never written over, so the second of two such commands would be refused."""
    for page in BY_PAGE.values():
        filled: dict[str, str] = {}
        for line in calls_of(page):
            words = words_of(line)
            if words[0] in {"audit", "captions", "classify", "compare", "dataset", "measure"} and "-o" in words:
                folder = words[words.index("-o") + 1]
                assert filled.setdefault(folder, line) == line, f"{page.name}: {filled[folder]}\n{line}"


def test_other_programs_are_called_with_what_there_is() -> None:
    """Targets of make, extras of pip and modules of Python that the pages name."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "CONTRIBUTING.md"])
    targets = set(re.findall(r"(?m)^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))
    asked = set(re.findall(r"(?m)(?:^\$ |`)make ([a-z-]+)", text))
    assert len(asked) > 4
    assert asked <= targets
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    wanted = {
        one for found in re.findall(r"pip install '(?:equipoise|\.)\[([\w,-]+)\]", text) for one in found.split(",")
    }
    assert len(wanted) > 2
    assert wanted <= set(extras)
    for name in set(re.findall(r"python -m ([\w.]+)", text)) - {"pytest"}:
        place = name.removeprefix("equipoise.").replace(".", "/")
        roots = [ROOT / "src" / "equipoise", ROOT, ROOT / "src"]
        assert any((root / f"{place}.py").is_file() or (root / place).is_dir() for root in roots), name


@pytest.fixture(scope="session")
def grounds(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], None]], Path]:
    """A folder with what most pages read, or with what quick ones do; each laid out once."""
    laid: dict[str, Path] = {}

    def laid_out_by(lay: Callable[[Path], None]) -> Path:
        if lay.__name__ not in laid:
            laid[lay.__name__] = tmp_path_factory.mktemp(lay.__name__)
            lay(laid[lay.__name__])
        return laid[lay.__name__]

    return laid_out_by


@pytest.fixture
def stage(
    page: str,
    grounds: Callable[[Callable[[Path], None]], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Stage]:
    """The working folder of a page, laid out as its reader's would be."""
    found = STAGES.get(page, Stage())
    ground = grounds(quick_ground if page in QUICK else common_ground)
    shutil.copytree(ground, tmp_path, symlinks=True, dirs_exist_ok=True)
    for name in found.without:
        path = tmp_path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for lay in found.lays:
        lay(tmp_path)
    monkeypatch.chdir(tmp_path)
    with found.around():
        yield found


# A reader's shell shows no warning of what another library will change one day.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("page", [pytest.param(p, marks=[] if p in QUICK else [pytest.mark.slow]) for p in BY_PAGE])
def test_every_command_runs_as_printed(page: str, stage: Stage) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    waiting = list(stage.before)

    def make_ready_for(text: str) -> None:
        for pattern, lay in [one for one in waiting if re.search(one[0], text)]:
            lay(Path.cwd())
            waiting.remove((pattern, lay))

    for part in parts_of(BY_PAGE[page]):
        if part.kind == "python" and re.search(stage.python, part.text):
            make_ready_for(part.text)
            exec(compile(part.text, page, "exec"), names)
        elif part.kind == "toml" and stage.toml:
            Path(stage.toml).write_text(part.text, encoding="utf-8")
        for line in part.calls():
            make_ready_for(line)
            run_line(page, line)
    assert not waiting, f"{page} has no command that {waiting[0][0]!r} matches; take it out of tests/docs/scenery.py"


def run_line(page: str, line: str) -> None:
    """Run one printed line: the numbers in it as printed, or smaller ones where FEWER has them."""
    if not os.environ.get("EQUIPOISE_AS_PRINTED"):
        for pattern, fewer in FEWER.get(page, ()):
            line = re.sub(pattern, fewer, line)
    if re.match(r"equipoise review (?!.*--prepare-only)(?:\S+ )?-o", line):
        look_at_the_review(line)
        return
    if re.match(r"accelerate|torchrun", line):
        program, *words = shlex.split(line)
        here = Path(sys.executable).with_name(program)
        made = subprocess.run([here, *words], capture_output=True, text=True, timeout=900, check=False)
        assert made.returncode == 0, f"{page}: {line}\n{made.stderr[-2000:]}"
        return
    said = re.match(r'echo "(.*)" \| ', line)
    env = dict(word.split("=", 1) for word in re.findall(r"^(?:[A-Z_]+=\S+ )+", line)[:1] for word in word.split())
    done = CliRunner(env=env).invoke(app, words_of(line), input=f"{said[1]}\n" if said else "y\n")
    if target := re.search(r"\s>\s*(\S+)", line):
        Path(target[1]).write_text(done.stdout, encoding="utf-8")
    answers = re.match(r"equipoise (table diff|check)", line)  # by its exit code
    said_no = answers and done.exit_code in (1, 3) and isinstance(done.exception, SystemExit)
    assert done.exit_code == 0 or said_no, f"{page}: {line}\n{done.output}\n{done.exception!r}\n{WHERE}"


def look_at_the_review(line: str) -> None:
    """Serve a review as printed, open the first link that it prints, and stop it as Ctrl-C does."""
    words = [sys.executable, "-m", "equipoise", *words_of(line)]
    for _ in range(30):  # another test may be serving at the same port
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as served:
            assert served.stdout is not None
            told = ""
            link = None
            while link is None and (one := served.stdout.readline()):
                told += one
                link = re.search(r"http://127\.0\.0\.1:\d+/\S*", one)
            if link is not None:
                try:
                    with urlopen(link[0], timeout=60) as answer:
                        assert answer.status == 200
                finally:
                    served.send_signal(signal.SIGINT)
                    served.wait(60)
                return
        assert "port" in told, f"{line}\n{told}"
        time.sleep(2)
    pytest.fail(f"{line}\n{told}")
