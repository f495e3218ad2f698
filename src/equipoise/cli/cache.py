"""``equipoise cache``: what is kept so that it need not be computed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from equipoise.cli.making import size_told
from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.engine.cache import StoreInfo

app = typer.Typer(no_args_is_help=True, help="See and clear the models' answers that are kept between runs.")

ROOT = typer.Option(
    None,
    "--root",
    help="The folder of stores of embeddings; by default 'embeddings' in EQUIPOISE_CACHE or the system's cache, with "
    "captions and detections beside it.",
)


@app.command()
def info(
    root: str | None = ROOT, as_json: bool = typer.Option(False, "--json", help="Print JSON for a program to read.")
) -> None:
    """Say which models' embeddings, captions and detections are kept, how many, and how much room they take.

    Example: [bold]equipoise cache info[/bold]
    """
    from equipoise.engine.cache import default_store_root
    from equipoise.engine.store import stores

    _check_root(root)
    embeddings, answers = stores(root), _answers(root)
    if as_json:
        entries = [
            {"key": i.key, "path": str(i.path), "n": i.n, "dim": i.dim, "segments": i.n_segments, "bytes": i.n_bytes}
            for i in [*embeddings, *answers]
        ]
        typer.echo(json.dumps(entries, indent=2))
        return
    typer.echo(f"embeddings in {root or default_store_root()}:")
    typer.echo(_listing(embeddings))
    if answers:
        typer.echo(f"captions and detections:\n{_listing(answers)}")


@app.command()
def clear(
    root: str | None = ROOT,
    key: str | None = typer.Option(None, "--key", help="Only what is kept under this key, as info prints it."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
) -> None:
    """Delete kept embeddings, captions and detections; they are computed again when they are needed.

    Only folders that are stores are deleted, and none that holds anything else.

    Example: [bold]equipoise cache clear --key clip-2a02e0de7ab0db3b[/bold]
    """
    from equipoise.engine.answers import answer_stores
    from equipoise.engine.store import chosen_stores, clear_stores

    _check_root(root)
    answers = [info for info in _answers(root) if key in (None, info.key)]
    embeddings = [] if key is not None and answers else chosen_stores(root, key=key)
    if not embeddings and not answers:
        typer.echo("there is nothing to clear")
        return
    together = [*embeddings, *answers]
    typer.echo(_listing(together))
    if not yes:
        which = "this store" if len(together) == 1 else f"these {len(together)} stores"
        typer.confirm(f"Delete {which}?", abort=True)
    removed = clear_stores(root, key=key) if embeddings else []
    for store in answer_stores() if answers else ():
        if store.key in [info.key for info in answers]:
            removed.append(store.info())
            store.delete()
    room = size_told(sum(info.n_bytes for info in removed))
    typer.echo(f"deleted {len(removed)} {'store' if len(removed) == 1 else 'stores'}, {room}")


def _answers(root: str | None) -> list[StoreInfo]:
    """The stores of captions and detections, which are only in the cache."""
    from equipoise.engine.answers import answer_stores

    return [] if root is not None else [store.info() for store in answer_stores()]


def _check_root(root: str | None) -> None:
    """A folder that was named must be there; the default one appears with the first embedding."""
    if root is not None and not Path(root).is_dir():
        wrong = "is a file" if Path(root).exists() else "does not exist"
        raise InputError(f"--root {root} {wrong}; give the folder that holds the stores")


def _listing(infos: list[StoreInfo]) -> str:
    width = max((len(info.key) for info in infos), default=0)
    lines = [f"  {info.key:<{width}}  {_content(info)}  {size_told(info.n_bytes):>9}" for info in infos]
    return "\n".join(lines) or "  none"


def _content(info: StoreInfo) -> str:
    if info.dim is None and info.path.parent.name == "answers":
        return f"{info.n:>10,} answers         "
    return f"{info.n:>10,} vectors of {info.dim or 0:>5}"
