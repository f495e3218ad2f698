"""``equipoise report``: one page to look at, from the folders of audits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer

from equipoise.cli.making import OVERWRITE
from equipoise.errors import InputError

_OWN = b'<meta name="generator" content="Equipoise'
"""What every page of ours says of itself: such a page is written again, another one is not."""

BEFORE_AFTER = typer.Option(
    ("", ""), "--before-after", help="The audit before a remedy, and the one after it.", show_default=False
)


def report(
    folders: list[str] = typer.Argument(
        ...,
        metavar="DIR...",
        help="Folders of audit, captions or dataset; tables whose pictures to show; folders with a funnel.csv. "
        "NAME=DIR gives a result the name that the page shows.",
    ),
    table: list[str] = typer.Option(
        [], "--table", "-t", help="The table that was audited, where it lies elsewhere by now; its pictures are shown."
    ),
    out: str = typer.Option(
        "report.html",
        "--out",
        "-o",
        help="The page to write; its name ends in .html, which is added if it is left out.",
    ),
    title: str = typer.Option("", "--title", help="The page's title."),
    truth: str = typer.Option(
        "",
        "--truth",
        help="What is expected: a CSV file with subject, axis, group, log_odds; or world:PRESET, what was put in.",
    ),
    before_after: tuple[str, str] = BEFORE_AFTER,
    naive: list[str] = typer.Option(
        [], "--naive", help="NAME=DIR: an audit of that model on a natural pool, shown without its chance level."
    ),
    overwrite: bool = OVERWRITE,
) -> None:
    """Write one self-contained page: a verdict in plain words, figures, tables, pictures, method and limits.

    Figures as SVG, their data as CSV, model cards and dataset cards go to a folder beside it.

    Examples:

    [bold]equipoise report runs/clip -o clip.html[/bold]

    [bold]equipoise report runs/clip runs/fixed tables/sets --before-after runs/clip runs/fixed[/bold]
    """
    from equipoise.report.sources import with_names

    named = []
    for given in folders:
        name, sign, path = given.partition("=")
        whole = not sign or Path(given).exists()
        named.append((given, "") if whole else (path, name))
    page = Path(out)
    if page.is_dir() or not page.name:
        raise InputError(f"{out}: is a folder; give the name of the page, such as {page / 'report.html'}")
    if page.suffix.lower() not in (".html", ".htm"):  # a browser shows another name as text
        page = page.with_name(f"{page.name}.html")
    write_page_of(
        with_names(named) if any(name for _, name in named) else folders,
        page,
        of=[path for path, _ in named],
        overwrite=overwrite,
        title=title or None,
        truth=truth or None,
        before_after=before_after if all(before_after) else None,
        naive=_named(naive),
        tables=table,
    )


def write_page_of(given: Any, page: Path, *, of: list[str], overwrite: bool, **how: Any) -> None:
    """Write the page of several folders, and say where; ``of`` names them, so that a page of others is not replaced."""
    from equipoise.data.runs import claimed, file_to_write
    from equipoise.report import write

    page.parent.mkdir(parents=True, exist_ok=True)
    beside = page.with_name(f"{page.stem}_files")
    with (
        file_to_write(page, overwrite=overwrite, own=_OWN),
        claimed(beside, "report", of={"folders": of}, overwrite=overwrite) as home,
    ):
        write(given, page, **how)
        home.publish()
    typer.echo(f"wrote {page} ({page.stat().st_size / 1e6:.1f} MB); figures, data and cards in {page.stem}_files")


def _named(pairs: list[str]) -> dict[str, str]:
    """NAME=DIR as a mapping; the name says beside which model a number stands."""
    folders: dict[str, str] = {}
    for pair in pairs:
        name, sign, path = pair.partition("=")
        if not sign or not name or not path:
            raise InputError(f"--naive {pair}: give the model's name as the page shows it, and the folder: NAME=DIR")
        if name in folders:
            raise InputError(f"--naive {pair}: {name} already has the folder {folders[name]}; give one for each model")
        folders[name] = path
    return folders


def tell_notes(notes: Iterable[str]) -> None:
    """Print notes beside the results, for whoever sits at the terminal."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)


def tell_verdict(folder: object) -> None:
    """Print the verdict on what a result folder holds."""
    from equipoise.report import verdict_of

    typer.echo(verdict_of([str(folder)]).text)


def write_page(folder: object) -> None:
    """Write the page of one result folder into it, and say where; what was measured is kept if that fails.

    A disk that is full fails the command: it is to be run again when there is room.
    """
    from equipoise.errors import DISK_IS_FULL
    from equipoise.report import write_into

    page, problem = write_into(str(folder))
    if page is None and DISK_IS_FULL in problem:
        raise InputError(f"no report was written, only the results: {problem}")
    typer.echo(f"report in {page}" if page else f"note: no report was written: {problem}", err=True)


def tell_results(done: Any, page: bool) -> None:
    """Print what an audit found, with its notes and its verdict, and write its page where one is wanted."""
    from equipoise.measure.notes import joined_over_k

    typer.echo(str(done))
    tell_notes(joined_over_k(done.notes))
    if done.folder is not None:
        tell_verdict(done.folder)
        typer.echo(f"results in {done.folder}", err=True)
        if page:
            write_page(done.folder)
