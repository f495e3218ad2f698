"""``equipoise mini``: train the embedded miniatures, and print their figures."""

from __future__ import annotations

import typer

from equipoise.errors import InputError, UnknownNameError

app = typer.Typer(
    no_args_is_help=True, help="The miniature models that run everything offline: train and evaluate them."
)


@app.command()
def train(
    part: str = typer.Argument(..., help="clip, clip-fair, judge or captioner."),
    out: str = typer.Option("", "--out", "-o", help="The folder for the model; the package's own unless given."),
    work: str = typer.Option("", "--work", help="The folder for checkpoints; a stopped run goes on from them."),
) -> None:
    """Train a miniature on the pictogram world: one thread, deterministic, resumable.

    Example: [bold]equipoise mini train clip-fair -o runs/clip-fair[/bold]
    """
    from pathlib import Path

    from equipoise.models.miniatures import FOLDER
    from equipoise.recipes.train_mini import train as run

    target = Path(out) if out else FOLDER / part
    if target.exists() and not target.is_dir():
        raise InputError(f"{target}: is a file; give a folder for the model")
    run(part, Path(work) if work else target.with_name(f"{target.name}-work"), target, typer.echo)
    typer.echo(f"saved {target}")


@app.command()
def evaluate(
    part: str = typer.Argument(..., help="clip, clip-fair, judge or captioner."),
    folder: str = typer.Argument("", help="The folder of the model; the package's own unless given."),
) -> None:
    """Print a miniature's figures on renders it has not seen.

    Example: [bold]equipoise mini evaluate clip-fair runs/clip-fair[/bold]
    """
    from pathlib import Path

    from equipoise.models.miniatures import FOLDER
    from equipoise.recipes.train_mini import PARTS
    from equipoise.recipes.train_mini import evaluate as figures

    if part not in PARTS:
        raise UnknownNameError("miniature", part, PARTS)
    of = {"judge": figures.judge_figures, "captioner": figures.captioner_figures}.get(part, figures.clip_figures)
    home = Path(folder) if folder else FOLDER / part
    if not (home / "config.json").is_file():
        raise InputError(f"{home}: no trained miniature here; train it with: equipoise mini train {part}")
    for name, value in of(home).items():
        typer.echo(f"{name:24} {value:.4f}")
