"""``equipoise mini``: train the embedded miniatures, and print their figures."""

from __future__ import annotations

import typer

app = typer.Typer(
    no_args_is_help=True, help="The miniature models that run everything offline: train and evaluate them."
)


@app.command()
def train(
    part: str = typer.Argument(..., help="clip, clip-fair, judge or captioner."),
    out: str = typer.Option(..., "--out", "-o", help="The folder for the finished model."),
    work: str = typer.Option("", "--work", help="The folder for checkpoints; a stopped run goes on from them."),
) -> None:
    """Train a miniature on the pictogram world: one thread, deterministic, resumable.

    Example: [bold]equipoise mini train clip-fair -o runs/clip-fair[/bold]
    """
    from pathlib import Path

    from equipoise.recipes.train_mini import train as run

    target = Path(out)
    run(part, Path(work) if work else target.with_name(f"{target.name}-work"), target, typer.echo)
    typer.echo(f"saved {target}")


@app.command()
def evaluate(
    part: str = typer.Argument(..., help="clip, clip-fair, judge or captioner."),
    folder: str = typer.Argument(..., help="The folder of the model."),
) -> None:
    """Print a miniature's figures on renders it has not seen.

    Example: [bold]equipoise mini evaluate clip-fair runs/clip-fair[/bold]
    """
    from pathlib import Path

    from equipoise.errors import UnknownNameError
    from equipoise.recipes.train_mini import PARTS
    from equipoise.recipes.train_mini import evaluate as figures

    if part not in PARTS:
        raise UnknownNameError("miniature", part, PARTS)
    of = {"judge": figures.judge_figures, "captioner": figures.captioner_figures}.get(part, figures.clip_figures)
    for name, value in of(Path(folder)).items():
        typer.echo(f"{name:24} {value:.4f}")
