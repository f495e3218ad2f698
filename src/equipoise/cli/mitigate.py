"""``equipoise mitigate``: fit a remedy on some subjects, keep it, and keep the other subjects apart to judge it by."""

from __future__ import annotations

import typer

from equipoise.cli.making import CACHE, ENGINE, WORKERS, asking
from equipoise.errors import InputError


def mitigate(
    remedy: str = typer.Argument("", metavar="REMEDY", help="Which remedy: projection. --list shows all."),
    model: str = typer.Argument("", metavar="MODEL", help="mini:clip, hf:<repo or folder>, table:<folder>, ..."),
    table: str = typer.Option("", "--table", "-t", help="The table of images to fit it on, best of sets."),
    layer: list[str] = typer.Option([], "--layer", help="A layer of the table (labels, a filter); repeat for several."),
    axis: list[str] = typer.Option([], "--axis", help="An axis to repair; repeat for several."),
    out: str = typer.Option("", "--out", "-o", help="The folder for the remedy."),
    held_out: float = typer.Option(0.5, "--held-out", help="The share of subjects kept apart; 0 keeps none apart."),
    variant: str = typer.Option(
        "differences", "--variant", help="Which directions: differences. Those of prompts are for Python."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Which subjects are kept apart."),
    device: str = typer.Option("", "--device", help="Where the model runs, such as cuda or cpu."),
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    cache: bool = CACHE,
    names: bool = typer.Option(False, "--list", help="List the remedies, and stop."),
) -> None:
    """Fit a remedy for an encoder; audit with --remedy, on the subjects that it has not seen.

    Examples:

    [bold]equipoise mitigate projection mini:clip --table sets --axis gender -o remedies/gender[/bold]

    [bold]equipoise audit mini:clip --remedy remedies/gender --layer remedies/gender/held_out -s intersectional -t sets
    -o runs/fixed[/bold]
    """
    from pathlib import Path

    from equipoise.data import Table
    from equipoise.mitigate import REMEDIES, fit_on_table, held_out_layer, save
    from equipoise.mitigate.fitting import held_out_subjects
    from equipoise.mitigate.wrapping import check_free
    from equipoise.models import load

    if names:
        for entry in REMEDIES:
            typer.echo(f"{entry.name:16} {entry.summary}\n{'':16} {entry.citation}")
        return
    for given, told in ((remedy, "a REMEDY, such as projection"), (model, "a MODEL"), (table, "a table with --table")):
        if not given:
            raise InputError(f"give {told}: equipoise mitigate projection mini:clip --table sets --axis gender -o DIR")
    if not out:
        raise InputError("say where to keep the remedy with -o")
    made = REMEDIES.load(remedy)(variant=variant)
    if variant != "differences":
        raise InputError(
            f"--variant {variant}: it takes out what its vectors span, and here that would be the images themselves; "
            "fit it on vectors of prompts in Python, or leave --variant out"
        )
    home = Path(out)
    check_free(home)
    if (home / "held_out").exists():
        raise InputError(f"{home}: holds a remedy with its held-out subjects; give another folder with -o")
    opened = Table.open(table, layers=layer)
    apart = held_out_subjects(opened, held_out, seed=seed) if held_out else []
    how = asking(engine, workers, cache)
    encoder = load(model, **({"device": device} if device else {}))
    fit_on_table(made, encoder, opened, axis, held_out=apart, asking=how)
    save(made, home)
    about = made.fitted_on
    typer.echo(
        f"{made.name} fitted on {about.n:,} images in {about.n_sets:,} sets of {len(about.subjects)} subjects, "
        f"in {home}" + (f"; {about.n_left_out:,} images could not be used" if about.n_left_out else "")
    )
    if not apart:
        typer.echo("note: no subject is kept apart, so judge the remedy on another table", err=True)
        return
    held_out_layer(opened, apart, home / "held_out")
    typer.echo(f"kept apart to judge it by ({home / 'held_out'}): {', '.join(apart)}")
    layers = "".join(f" --layer {one}" for one in [*layer, str(home / "held_out")])
    axes = "".join(f" --axis {one}" for one in axis)
    audit = f"equipoise audit {model} -s intersectional -t {table}{layers}{axes}"
    typer.echo(f"now audit the model before and after it, on those:\n  {audit} -o runs/before")
    typer.echo(f"  {audit} --remedy {home} -o runs/after")
    typer.echo("  equipoise report runs/before runs/after --before-after runs/before runs/after -o repair.html")
