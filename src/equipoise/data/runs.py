"""One folder per run: ``run.json`` says what made it, one process at a time writes it, and results appear whole.

Everything that leaves results in a folder (audits, captions, datasets, filters, remedies, comparisons, the demo) takes
it with :func:`claimed`. The folder is marked when work begins, what is made lies on a hidden stage until all of it is
there, and is then moved into place. A run that was killed is simply started again: what it left is cleared away.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from glob import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any, NamedTuple

from equipoise import __version__
from equipoise.data.atomic import clear_after_kill, lock_of, locked, reached, sync_folder, write_whole
from equipoise.data.manifest import MANIFEST, UNFINISHED
from equipoise.errors import InputError, system_reason

RUN = "run.json"
PAGE = ("report.html", "report_files")
"""What a report in the folder leaves there; it stays until the next one replaces it."""
_LOCK = ".lock"
"""The name that tables use: a table and a run never write into one folder at the same time."""
_STAGE = ".stage"
_OLD_STAGES = ".audit-*"
_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "torch", "transformers", "accelerate", "peft")


class _Kind(NamedTuple):
    noun: str
    old_name: str = ""
    """The file that said the same before there was ``run.json``; it is read for one release."""
    work: tuple[str, ...] = ()
    """Folders that outlive a single run: evidence, and work that is finished."""


KINDS: Mapping[str, _Kind] = {
    "audit": _Kind("an audit", "audit.json", ("_evidence",)),
    "captions": _Kind("an audit of captions", "config.json", ("_work",)),
    "dataset": _Kind("an audit of a dataset", "dataset.json"),
    "classification": _Kind("an audit of predictions"),
    "filter": _Kind("a filter run", "filter.json", ("steps", "evidence", "layer")),
    "remedy": _Kind("a remedy", "remedy.json"),
    "training": _Kind("a trained model", work=("_work",)),
    "comparison": _Kind("a comparison"),
    "report": _Kind("the files of a report", "_files.json"),
    "dossier": _Kind("a dossier"),
    "checkpoint": _Kind("a repaired checkpoint", work=("_work",)),
    "conversion": _Kind("a converted checkpoint"),
    "tournament": _Kind("a tournament", work=("_work",)),
    "demo": _Kind("a demo", "demo.json"),
    "study": _Kind("a study", work=("steps",)),
    "sets": _Kind("a study of sets", work=("sets", "filter")),
    "miniature": _Kind("a miniature"),
    "errors": _Kind("a count of errors"),
    "review": _Kind("a review"),
    "pairs": _Kind("pairs of captions"),
    "revised": _Kind("revised captions"),
}


@dataclass(frozen=True)
class Run:
    """What a folder says of the run that made it."""

    folder: Path
    kind: str
    state: str = "finished"
    """``finished``, ``running`` (begun, and perhaps killed), or ``measuring`` (only its results are being replaced)."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Everything that ``run.json`` says: ``of``, ``settings``, ``parents``, ``versions``, ``files`` and more."""
    file: str = RUN

    @property
    def finished(self) -> bool:
        """Whether all results are there."""
        return self.state == "finished"

    @property
    def of(self) -> dict[str, Any]:
        """What the run is of: a model, a table, files."""
        return self._mapping("of")

    @property
    def settings(self) -> dict[str, Any]:
        """How it was done."""
        return self._mapping("settings")

    @property
    def files(self) -> frozenset[str]:
        """The names that the run wrote into its folder."""
        names = self.about.get("files")
        return frozenset(map(str, names)) if isinstance(names, list) else frozenset()

    def _mapping(self, name: str) -> dict[str, Any]:
        value = self.about.get(name)
        return value if isinstance(value, dict) else {}


def find_run(folder: str | Path) -> Run | None:
    """The run that ``folder`` belongs to; ``None`` where nothing says so. A damaged ``run.json`` is refused."""
    home = Path(folder)
    if (home / RUN).is_file():
        about = _read(home / RUN)
        kind, state = about.get("kind"), about.get("state")
        if not isinstance(kind, str) or state not in ("running", "measuring", "finished"):
            raise InputError(f"{home / RUN}: damaged (it names no kind or state); delete the folder, or give another")
        return Run(home, kind, state, about)
    for kind, (_, old_name, _) in KINDS.items():
        if old_name and (home / old_name).is_file():
            if kind == "report":
                return Run(home, kind, file=old_name)
            about = _read(home / old_name)
            if kind != "captions" or about.get("command") == "captions":  # checkpoints have a config.json as well
                return Run(home, kind, "finished", about, old_name)
    return None


def read_run(folder: str | Path, kind: str, *needs: str, unfinished: str = "") -> Run:
    """The run of this ``kind`` in ``folder``; anything else is refused in one sentence.

    ``needs`` are entries that must be there. ``unfinished`` is the state, besides ``finished``, that will do.
    """
    home = Path(folder)
    noun = KINDS[kind].noun
    run = find_run(home)
    if run is None:
        raise InputError(f"{home}: {noun.replace('an ', 'no ', 1).replace('a ', 'no ', 1)} here ({RUN} is missing)")
    if run.kind != kind:
        raise InputError(f"{home}: holds {_noun(run.kind)}, not {noun}; give the folder of {noun}")
    if run.state not in ("finished", unfinished):
        raise InputError(f"{home}: {noun} was begun here and is not finished; run its command again")
    for name in needs:
        if name not in run.about:
            raise InputError(f"{home / run.file}: damaged ({name!r} is missing); run it again in a new folder")
    return run


def check_folder(out: str | Path, kind: str, *, overwrite: bool = False) -> Path:
    """The folder ``out``: new, empty, or that of a run of this ``kind``; anything else is refused.

    >>> check_folder("", "audit")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: the folder for the results has no name; give one with -o
    """
    if not str(out).strip():
        raise InputError("the folder for the results has no name; give one with -o")
    folder = Path(out)
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: is a file; give a folder with -o")
    if not folder.is_dir():
        return folder
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    if names & {MANIFEST, UNFINISHED}:
        raise InputError(f"{folder}: holds a table; give another folder with -o")
    if overwrite:
        return folder
    run = find_run(folder)
    if run is None and names - set(KINDS[kind].work):
        what = KINDS[kind].noun.removeprefix("an ").removeprefix("a ").removeprefix("the ")
        raise InputError(
            f"{folder}: holds files but no {what} ({RUN}); give a new or an empty folder with -o, or --overwrite"
        )
    if run is not None and run.kind != kind:
        raise InputError(f"{folder}: holds {_noun(run.kind)}; give another folder with -o, or --overwrite")
    return folder


def beside(out: str | Path, what: str) -> Path:
    """The folder for ``what`` a run in ``out`` needs besides, such as its checkpoints.

    >>> beside("runs/dcg/", "pairs").as_posix()
    'runs/dcg-pairs'
    >>> beside("", "pairs")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: '' names no folder; give one with -o
    """
    folder = Path(out)
    if not folder.name:  # such as . or /
        raise InputError(f"{str(out)!r} names no folder; give one with -o")
    return folder.with_name(f"{folder.name}-{what}")


@dataclass
class RunFolder:
    """A folder that this process alone writes into, with a stage for what is made until all of it is there."""

    folder: Path
    stage: Path
    about: dict[str, Any]
    before: Run | None
    """The run whose folder it was, if its results may still be there."""
    overwrite: bool = False
    state: str = "running"
    published: bool = False
    kept_if_refused: tuple[str, ...] = ()
    """Folders on the stage that cost so much that they are kept even if nothing comes of them."""

    def mark(self, state: str, files: frozenset[str] = frozenset()) -> None:
        """Write ``run.json``: whose folder it is, and how far it got."""
        record = {"kind": self.about["kind"], "state": state, **self.about, "files": sorted(files)}
        write_whole(self.folder / RUN, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
        if self.before is not None and self.before.file != RUN and self.before.kind != "report":
            (self.folder / self.before.file).unlink(missing_ok=True)

    def keep(self, name: str) -> None:
        """Move the folder ``name`` from the stage to its place; that of an earlier run goes."""
        home = self.folder / name
        if home.is_dir():
            shutil.rmtree(home)
        reached("run.before_rename")
        os.replace(self.stage / name, home)

    def publish(self, **more: Any) -> None:
        """Move what lies on the stage into the folder, clear what only an earlier run wrote, and mark it finished.

        ``more`` goes into ``run.json``. While files are moved it says that they may not belong together; if the process
        dies then, the same command does it again.
        """
        self.about |= more
        names = sorted(path.name for path in self.stage.iterdir())
        earlier = self.before.files if self.before is not None else frozenset()
        self._refuse_strangers(names, earlier)
        self.mark(self.state, earlier | {name for name in names if not self._is_work(name)})
        for name in names:
            if (self.stage / name).is_dir():
                self.keep(name)
            else:
                reached("run.before_rename")
                os.replace(self.stage / name, self.folder / name)
        for name in earlier - set(names):
            _remove(self.folder / name)
        sync_folder(self.folder)
        self.mark("finished", frozenset(name for name in names if not self._is_work(name)))
        self.published = True

    def _is_work(self, name: str) -> bool:
        return name in KINDS[self.about["kind"]].work

    def _refuse_strangers(self, names: list[str], earlier: frozenset[str]) -> None:
        if self.overwrite or (self.before is not None and self.before.file != RUN):
            return
        for name in names:
            if (self.folder / name).exists() and name not in earlier and not self._is_work(name):
                raise InputError(
                    f"{self.folder / name}: was not written by this command; move it away, or say --overwrite"
                )


@contextmanager
def claimed(
    out: str | Path,
    kind: str,
    *,
    of: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    parents: Mapping[str, str | None] | None = None,
    accept: Callable[[Run], None] | None = None,
    overwrite: bool = False,
    state: str = "running",
    **more: Any,
) -> Iterator[RunFolder]:
    """The folder ``out`` for one run of this ``kind``: nobody else writes into it meanwhile.

    A new folder is marked at once, so that a killed run is known for what it is; one that holds a finished run of the
    same kind keeps its results until :meth:`RunFolder.publish`. ``accept`` raises an InputError where the run there
    must not be replaced; ``overwrite`` clears it away instead, of whatever kind it is. ``state`` is what the folder
    says until all is there. If the block fails, what was made goes again, except folders that keep finished work.

    >>> import tempfile
    >>> with claimed(tempfile.mkdtemp() + "/new", "comparison", settings={"level": 0.95}) as run:
    ...     _ = (run.stage / "numbers.csv").write_text("1,2")
    ...     run.publish()
    >>> sorted(path.name for path in run.folder.iterdir()), find_run(run.folder).settings
    (['numbers.csv', 'run.json'], {'level': 0.95})
    """
    folder = check_folder(out, kind, overwrite=overwrite)
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        with ExitStack() as held:
            _lock(held, folder)
            check_folder(folder, kind, overwrite=overwrite)
            _clear_left_overs(folder, kind)
            before = _before(folder, kind, accept, overwrite)
            about = {"kind": kind, **more, "of": dict(of or {}), "settings": dict(settings or {})}
            about |= {"parents": dict(parents or {}), "versions": versions()}
            run = RunFolder(folder, folder / _STAGE, about, before, overwrite, state)
            run.stage.mkdir()
            if before is None or not before.finished:
                run.mark(state, before.files if before is not None else frozenset())
            try:
                yield run
            finally:
                shutil.rmtree(run.stage, ignore_errors=True)
                if not run.published and {path.name for path in folder.iterdir()} <= {RUN, _LOCK}:
                    (folder / RUN).unlink(missing_ok=True)
    finally:
        for path in created:
            with suppress(OSError):  # it holds something: kept work, or the lock of whoever came next
                path.rmdir()


def same_only(what: str, of: Mapping[str, Any], settings: Mapping[str, Any]) -> Callable[[Run], None]:
    """For ``accept`` of :func:`claimed`: only the same run again goes on, or is replaced."""

    def accept(run: Run) -> None:
        if run.of != of or run.settings != settings:
            raise InputError(f"{run.folder}: holds another {what}; give another folder with -o, or --overwrite")

    return accept


@contextmanager
def file_to_write(path: str | Path, *, overwrite: bool = False, own: bytes = b"") -> Iterator[Path]:
    """The one file that a command writes: never over another's unless ``overwrite`` says so, and by one process.

    ``own`` stands near the beginning of every file that the command writes, if it can be told by that; such a file is
    replaced. What a killed run left beside it is cleared away.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder; name a file in it")
    if not target.absolute().parent.is_dir():
        raise InputError(f"{target}: the folder {target.parent} does not exist; make it first")
    if target.exists() and not target.is_file():  # a pipe or a device: nothing is lost
        yield target
        return
    if target.exists() and not overwrite and not (own and own in _beginning(target)):
        clear_after_kill(lock_of(target))
        raise InputError(f"{target}: is there already; give another name, or say --overwrite")
    with ExitStack() as held:
        with _written(target):
            held.enter_context(locked(lock_of(target), what=str(target)))
        for left in target.parent.glob(f".{escape(target.name)}.*.tmp"):
            left.unlink(missing_ok=True)
        yield target


def versions() -> dict[str, str]:
    """The versions of everything that numbers can depend on."""
    return dict(_versions())


@cache
def _versions() -> Mapping[str, str]:
    """Read once: every version is parsed out of a file of its package, and they cannot change while this one runs."""
    known = {"equipoise": __version__, "python": python_version()}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            known[name] = version(name)
    return known


def _before(folder: Path, kind: str, accept: Callable[[Run], None] | None, overwrite: bool) -> Run | None:
    """The run of this kind that is replaced; with ``overwrite``, what may not be replaced is cleared away first."""
    try:
        run = find_run(folder)
        if run is not None and run.kind == kind:
            if accept is not None:
                accept(run)
            return run
    except InputError:
        if not overwrite:
            raise
        run = None
        with suppress(InputError):
            run = find_run(folder)
    if overwrite and run is not None:
        for name in {*run.files, *KINDS.get(run.kind, _Kind("")).work, *PAGE, run.file} - {RUN}:
            _remove(folder / name)
    return None


def _lock(held: ExitStack, folder: Path) -> None:
    with _written(folder):
        for _ in range(100):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                held.enter_context(locked(folder / _LOCK, what=f"the folder {folder}"))
                return
            except FileNotFoundError:  # whoever made the folder has just taken it away again
                continue
    raise InputError(f"{folder}: another process keeps removing it; give another folder with -o")


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({system_reason(error)})") from None


def _clear_left_overs(folder: Path, kind: str) -> None:
    """What a killed run left: its stage, and files that had no name yet."""
    for left in (_STAGE, _OLD_STAGES, ".*.tmp", *(f"{name}/**/.*.tmp" for name in ("report_files", *KINDS[kind].work))):
        for path in folder.glob(left):
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({error}); delete the folder, or give another") from None
    if not isinstance(about, dict):
        raise InputError(f"{path}: damaged (it is not a JSON object); delete the folder, or give another")
    return about


def _noun(kind: str) -> str:
    return KINDS[kind].noun if kind in KINDS else f"a run of another kind ({kind})"


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)
