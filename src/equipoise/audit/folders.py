"""The folder of an audit: never over what is not its own, and nothing at all when it is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import EVIDENCE
from equipoise.data.manifest import TABLE_AT, path_between
from equipoise.data.runs import Run, RunFolder, claimed, read_run
from equipoise.errors import InputError

_Wanted = TypeVar("_Wanted")


@dataclass(frozen=True)
class AuditOf:
    """What an audit is of, and how it was asked: all that its ``run.json`` says."""

    suite: str
    of: Mapping[str, Any]
    settings: AuditConfig
    axes: list[str]
    parents: Mapping[str, str | None]
    table_at: Path | None = None
    """Where the table of images lies, for whoever shows its pictures."""


@contextmanager
def audit_folder(
    out: str | Path, about: AuditOf, *, overwrite: bool = False, state: str = "running"
) -> Iterator[RunFolder]:
    """The folder ``out``, claimed for an audit; that of another model, suite or table is refused.

    If nothing can be measured, the evidence that a model spent time on (``kept_if_refused``) stays there all the same.
    """
    found = {} if about.table_at is None else {TABLE_AT: path_between(out, about.table_at)}
    with claimed(
        out,
        "audit",
        of=about.of,
        settings=about.settings.plain(),
        parents=about.parents,
        accept=nothing_else(_another, about),
        overwrite=overwrite,
        state=state,
        suite=about.suite,
        axes=about.axes,
        **found,
    ) as run:
        try:
            yield run
        except InputError as error:
            if EVIDENCE not in run.kept_if_refused or run.published or (run.before and run.before.finished):
                raise
            run.keep(EVIDENCE)
            raise InputError(f"{error} (what the model gave is kept in {run.folder / EVIDENCE})") from None


def read_audit(folder: str | Path) -> Run:
    """The audit in ``folder``, with whole evidence: finished, or with its results being replaced."""
    return read_run(folder, "audit", "suite", "settings", "of", "axes", unfinished="measuring")


def short_name(model: str) -> str:
    """A model's name as a folder can have it.

    >>> short_name("hf:openai/clip-vit-base-patch32")
    'openai-clip-vit-base-patch32'
    """
    return model.removeprefix("hf:").replace(":", "-").replace("/", "-").strip("-.")


def nothing_else(another: Callable[[_Wanted, Run], str], wanted: _Wanted) -> Callable[[Run], None]:
    """Refuses a run of something else than ``wanted``: of what, ``another`` says, and nothing where it is the same."""

    def accept(run: Run) -> None:
        if held := another(wanted, run):
            raise InputError(f"{run.folder}: holds {held}; give another folder with -o")

    return accept


def _another(about: AuditOf, run: Run) -> str:
    """The audit of another suite, model, remedy, table or caption file, in words; its own it may replace."""
    there = {"suite": run.about.get("suite"), **run.of}
    wanted = {"suite": about.suite, **about.of}
    for name in [*wanted, *(name for name in _SOME if name in there and name not in wanted)]:
        if name != "fitted_on" and _resolved(name, there.get(name)) != _resolved(name, wanted.get(name)):
            return f"the audit of {_other(name, there.get(name))}"
    return ""


_SOME = ("limit", "sample", "images")
"""What says that only some images, or captions, were asked about."""


def _other(name: str, there: Any) -> str:
    """What a folder holds the audit of, which is not what is to be written.

    >>> _other("limit", 200), _other("sample", None), _other("model", "clip"), _other("images", "limit 40")
    ('some of them (limit 200)', 'all of them', 'another model (clip)', 'some of them (limit 40)')
    """
    if name in _SOME:
        told = there if name == "images" else f"{name} {there}"
        return f"some of them ({told})" if there else "all of them"
    return f"another {name}" if name in ("table", "remedy") else f"another {name} ({there})"


def _resolved(name: str, value: Any) -> Any:
    return str(Path(value).resolve()) if name == "captions" and isinstance(value, str) else value
