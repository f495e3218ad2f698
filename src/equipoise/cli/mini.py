"""``equipoise mini``: train the embedded miniatures, and print their figures."""

from __future__ import annotations

from pathlib import Path

import typer

from equipoise.cli.making import OVERWRITE, one_out
from equipoise.errors import InputError, UnknownNameError

app = typer.Typer(
    no_args_is_help=True, help="The miniature models that run everything offline: train and evaluate them."
)


PART = (
    "clip, clip-fair, then clip-binding; judge, captioner, then dcg; vae, then diffusion, then diffusion-biased, "
    "inpaint and edit; text, detector or safety."
)


@app.command()
def train(
    part: str = typer.Argument(..., help=PART),
    out: str = typer.Option(..., "--out", "-o", help="The folder for the model; nothing is written elsewhere."),
    work: str = typer.Option("", "--work", help="The folder for checkpoints; a stopped run goes on from them."),
    strength: float = typer.Option(
        None, "--strength", min=0.0, help="How much the world leans; 1 is the biased world, 0 the fair one."
    ),
    edition: str = typer.Option(
        "", "--edition", help="For the vae: second (32 x 32 cells, which ships) or first (16 x 16)."
    ),
    vae: str = typer.Option(
        "", "--vae", help="The folder of the autoencoder of a generator, which decides its edition."
    ),
    start: str = typer.Option(
        "", "--start", help="The folder to train on from: the part itself, or the diffusion for another generator."
    ),
    before: str = typer.Option(
        "",
        "--before",
        help="A folder of miniatures of another edition: what this generator learnt there beyond diffusion is added.",
    ),
    steps: int = typer.Option(None, "--steps", min=1, help="With --start: for how many more steps it trains."),
    overwrite: bool = OVERWRITE,
) -> None:
    """Train a miniature on the pictogram world: one thread, deterministic, resumable.

    Examples: [bold]equipoise mini train clip-fair -o runs/clip-fair[/bold] ·
    [bold]equipoise mini train captioner --strength 2 -o runs/captioner-2[/bold] ·
    [bold]equipoise mini train vae --edition first -o runs/vae1[/bold] ·
    [bold]equipoise mini train diffusion --vae runs/vae1 -o runs/diffusion1[/bold] ·
    [bold]equipoise mini train detector --start runs/detector --steps 300 -o runs/detector2[/bold]
    """
    from equipoise.recipes.train_mini.parts import train_into

    target = Path(out)
    train_into(
        part,
        target,
        typer.echo,
        work=Path(work) if work else None,
        overwrite=overwrite,
        strength=strength,
        edition=edition or None,
        vae=Path(vae) if vae else None,
        start=Path(start) if start else None,
        before=Path(before) if before else None,
        steps=steps,
    )
    typer.echo(f"saved {target}")


@app.command()
def evaluate(
    part: str = typer.Argument(..., help=PART),
    folder: str = typer.Argument("", help="The folder of the model; the package's own unless given."),
    card: bool = typer.Option(False, "--card", help="Write the figures into the model card (README.md) beside it."),
) -> None:
    """Print a miniature's figures on renders it has not seen, and what they should be.

    Example: [bold]equipoise mini evaluate clip-fair runs/clip-fair[/bold]
    """
    from equipoise.models.miniatures import FOLDER
    from equipoise.recipes.train_mini import PARTS
    from equipoise.recipes.train_mini.evaluate import figures_of
    from equipoise.recipes.train_mini.parts import is_met, wanted
    from equipoise.recipes.train_mini.saving import write_card

    if part not in PARTS:
        raise UnknownNameError("miniature", part, PARTS)
    home = Path(folder) if folder else FOLDER / part
    if not any((home / name).is_file() for name in ("config.json", "model_index.json")):
        raise InputError(f"{home}: no trained miniature here; train it with: equipoise mini train {part} -o {home}")
    figures = figures_of(part, home, FOLDER / "clip")
    rules = wanted(part)
    for name, value in figures.items():
        rule = rules.get(name)
        verdict = "" if rule is None else f"  wanted {rule}{'' if is_met(rule, value) else '  MISSED'}"
        typer.echo(f"{name:28} {value:.4f}{verdict}")
    if card:
        typer.echo(f"wrote {write_card(part, home, figures)}")


@app.command()
def pictures(
    out: str = typer.Argument("", help="The folder for the pictures, such as docs/img; or give it with -o."),
    out_option: str = typer.Option("", "--out", "-o", help="The folder for the pictures.", show_default=False),
    home: str = typer.Option("", "--home", help="The folder of the miniatures; the package's own unless given."),
    overwrite: bool = OVERWRITE,
) -> None:
    """Draw contact sheets of what the generative miniatures make; a red frame where the judge sees something else.

    Example: [bold]equipoise mini pictures docs/img[/bold]
    """
    from equipoise.models.miniatures import FOLDER
    from equipoise.recipes.train_mini.pictures import write_sheets

    place = Path(one_out(out, out_option, "mini pictures"))
    written = write_sheets(place, Path(home) if home else FOLDER, overwrite=overwrite)
    if not written:
        raise InputError("no generative miniature is here; train one with: equipoise mini train diffusion -o DIR")
    for path in written:
        typer.echo(f"wrote {path}")
