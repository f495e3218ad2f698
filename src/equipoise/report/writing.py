"""One self-contained page from result folders, with its figures, their data and the cards beside it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from equipoise import __version__
from equipoise.data.atomic import write_whole
from equipoise.engine.progress import Heartbeat
from equipoise.errors import InputError, system_sentence
from equipoise.formatting import csv_text, one_line
from equipoise.report.cards import cards
from equipoise.report.page.contents import PageContents, gather
from equipoise.report.sources import Given, Series, folder_of, read_given, with_names
from equipoise.report.svg import asset, standalone
from equipoise.report.truth import is_stated, read_truth
from equipoise.report.verdict.judging import BiasVerdict

if TYPE_CHECKING:
    from jinja2 import Template

MANIFEST = "_files.json"
"""The list of what a page put beside itself, so that the next one clears that and nothing else."""
Folders = Sequence[str | Path] | Mapping[str, str | Path]


def write(
    folders: str | Path | Folders,
    out: str | Path,
    *,
    title: str | None = None,
    truth: str | Path | pd.DataFrame | None = None,
    before_after: Sequence[str | Path] | None = None,
    naive: str | Path | Folders = (),
    tables: Sequence[str | Path] = (),
) -> Path:
    """Write a page from result folders.

    Beside ``report.html`` lies ``report_files``: every figure as SVG with its data as CSV, ``subjects.csv``, a model
    card for each model and a dataset card for each table in the format of the Hugging Face hub, and ``_files.json``,
    the list of these files: a page that is written again clears those of the page before, and no other.

    Args:
        folders: result folders (of ``audit``, ``captions``, ``dataset`` or ``compare``), tables of images, whose
            pictures are shown, and folders with a ``funnel.csv``, in any order; or a mapping from the name to show to
            the folder. The table of an audit is found by itself where it was when it was audited, or beside the
            results.
        out: the file of the page, such as ``report.html``.
        title: the page's title; its models or folders unless given.
        truth: what is expected or known to be true, as a table or CSV file with ``subject, axis, group, log_odds``, or
            ``world:PRESET``, what was put into a world; the page says which of the two it is.
        before_after: folders, of these or others: the audit before a remedy, the audit after it, and those after
            further remedies, to be shown beside it.
        naive: one or more folders of audits on a natural pool, shown as what they would have said without a chance
            level; a mapping gives the names of the models, as in ``folders``.
        tables: the tables that were audited, where they lie elsewhere by now; any other is refused.

    Returns:
        The path of the page.
    """
    told: dict[str, Any] = {"title": title, "truth": truth, "before_after": before_after, "naive": naive}
    return write_and_tell(folders, out, tables=tables, **told)[0]


def write_and_tell(folders: str | Path | Folders, out: str | Path, **told: Any) -> tuple[Path, BiasVerdict]:
    """Write the page as :func:`write` does, with the same options.

    Also returns its verdict, which would be worked out twice otherwise.
    """
    page = Path(out)
    if page.is_dir() or not page.name:
        raise InputError(f"{out}: is a folder; give the name of the page, such as {page / 'report.html'}")
    with Heartbeat("making the page"):
        given, contents = _gathered(folders, **told)
    beside = page.with_name(f"{page.stem}_files")
    if beside.exists() and not beside.is_dir():
        raise InputError(f"{beside}: is a file, but figures go to a folder of that name; give another name with -o")
    beside.mkdir(parents=True, exist_ok=True)
    files = cards(given, contents)
    for figure in contents.all_figures():
        files |= {f"{figure.name}.svg": standalone(figure.svg), f"{figure.name}.csv": figure.csv}
    if len(contents.subject_data):
        files["subjects.csv"] = csv_text(contents.subject_data)
    for stale in _written_before(beside) - set(files):
        (beside / stale).unlink(missing_ok=True)
    for name, text in files.items():
        write_whole(beside / name, text.encode())
    write_whole(beside / MANIFEST, (json.dumps(sorted(files), indent=1, ensure_ascii=False) + "\n").encode())
    write_whole(page, rendered(contents, beside.name).encode())
    return page, contents.verdict


def verdict_of(
    folders: str | Path | Folders,
    *,
    truth: str | Path | pd.DataFrame | None = None,
    before_after: Sequence[str | Path] | None = None,
    naive: str | Path | Folders = (),
) -> BiasVerdict:
    """The verdict that :func:`write` puts on the page, for a terminal; nothing is written.

    Args:
        folders: result folders and others, or a mapping from the name to show to the folder, as in :func:`write`.
        truth: a table, a CSV file or ``world:PRESET``, as in :func:`write`.
        before_after: folders of the audits before a remedy, after it, and after further ones.
        naive: one or more folders of audits on a natural pool, or a mapping from the names of the models.

    Returns:
        The verdict, whose ``text`` is its paragraph.
    """
    told: dict[str, Any] = {"truth": truth, "before_after": before_after, "naive": naive}
    return _gathered(folders, verdict_alone=True, **told)[1].verdict


def _gathered(
    folders: str | Path | Folders,
    *,
    title: str | None = None,
    truth: str | Path | pd.DataFrame | None = None,
    before_after: Sequence[str | Path] | None = None,
    naive: str | Path | Folders = (),
    tables: Sequence[str | Path] = (),
    verdict_alone: bool = False,
) -> tuple[Given, PageContents]:
    if before_after is not None and (isinstance(before_after, str | Path) or len(before_after) < 2):
        raise InputError(
            "before_after names too few folders; give two or more: before, after one remedy, after another"
        )
    known = read_truth(truth)
    given = read_given(_with_pair(folders, before_after))
    given.add_tables(tables)
    pair = () if before_after is None else _pair(given, before_after)
    shown = read_given(naive).series if naive else []
    options: dict[str, Any] = {"title": title, "truth": known, "stated": is_stated(truth), "pair": pair}
    return given, gather(given, **options, naive=shown, verdict_alone=verdict_alone)


def _written_before(folder: Path) -> set[str]:
    """The files of an earlier page: those that its list names, and no other; the rest of a folder is its owner's."""
    try:
        listed = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return {name for name in names if Path(name).name == name and (folder / name).is_file()}


def write_into(folder: str | Path) -> tuple[Path | None, str]:
    """Write ``report.html`` into a result folder: its page, or nothing and the reason in a sentence.

    What was measured is already kept when the page is made, so a page that cannot be made is no failure of the audit.
    """
    home = Path(folder)
    try:
        return write([home], home / "report.html"), ""
    except InputError as error:
        return None, one_line(error)
    except OSError as error:
        return None, system_sentence(error)
    except Exception as error:  # hours of measuring must not end in a traceback over a page
        return None, f"the page could not be made ({type(error).__name__}: {one_line(error)})"


def rendered(contents: PageContents, files: str) -> str:
    """The page as text."""
    script = asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    style = asset("colours.css") + asset("figure.css") + asset("page.css")
    text = _template().render(
        **contents.for_template(), style=style, script=script, script_hash=digest, version=__version__, files=files
    )
    return text.lstrip()


@cache
def _template() -> Template:
    """Compiled once: that takes longer than filling it in."""
    from jinja2 import Environment

    return Environment(autoescape=True, trim_blocks=True).from_string(asset("page.html"))


def _with_pair(folders: str | Path | Folders, pair: Sequence[str | Path] | None) -> Folders:
    """The folders with those of the pair, each once."""
    if isinstance(folders, (str, Path)):
        folders = [folders]
    if isinstance(folders, Mapping):
        there = {folder_of(path).resolve() for path in folders.values()}
        more = [path for path in pair or () if folder_of(path).resolve() not in there]
        return with_names([*((path, label) for label, path in folders.items()), *((path, "") for path in more)])
    every = {folder_of(path).resolve(): path for path in [*folders, *(pair or ())]}
    return list(every.values())


def _pair(given: Given, pair: Sequence[str | Path]) -> tuple[Series, ...]:
    chosen = []
    for path in pair:
        mine = [series for series in given.series if series.source.path.resolve() == folder_of(path).resolve()]
        if not mine:
            raise InputError(f"{path}: no results here; before and after are two result folders")
        chosen.append(mine[0])
    return tuple(chosen)
