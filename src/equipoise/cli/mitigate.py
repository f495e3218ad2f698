"""``equipoise mitigate``: fit a remedy on some subjects, keep it, and keep the other subjects apart to judge it by."""

from __future__ import annotations

import typer

from equipoise.cli.making import CACHE, ENGINE, MAX_BROKEN, OVERWRITE, WORKERS, asking
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
    max_broken: float = MAX_BROKEN,
    overwrite: bool = OVERWRITE,
    settings: list[str] = typer.Option([], "--set", help="NAME=VALUE: a setting of counterfactual-finetune; repeat."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Of counterfactual-finetune: measure a few steps, and stop."),
    names: bool = typer.Option(False, "--list", help="List the remedies, and stop."),
) -> None:
    """Fit a remedy for an encoder; audit with --remedy, on the subjects that it has not seen.

    Examples:

    [bold]equipoise mitigate projection mini:clip --table sets --axis gender -o remedies/gender[/bold]

    [bold]equipoise audit mini:clip --remedy remedies/gender --layer remedies/gender/held_out -s intersectional -t sets
    -o runs/fixed[/bold]

    [bold]equipoise mitigate counterfactual-finetune mini:clip --table sets --axis gender --held-out 0.2 -o
    runs/tuned[/bold]: writes a model, hf:runs/tuned.
    """
    from equipoise.cli.finetune import NAME, finetune_command
    from equipoise.data import Table
    from equipoise.data.runs import check_folder
    from equipoise.data.settings import fitting_all
    from equipoise.mitigate import REMEDIES
    from equipoise.mitigate.fitting import HELD_OUT, fit_into_folder
    from equipoise.models import load

    if names:
        for entry in REMEDIES:
            typer.echo(f"{entry.name:16} {entry.summary}\n{'':16} {entry.citation}")
        return
    for given, told in ((remedy, "a REMEDY, such as projection"), (model, "a MODEL"), (table, "a table with --table")):
        if not given:
            raise InputError(f"give {told}: equipoise mitigate projection mini:clip --table sets --axis gender -o DIR")
    if not out and not dry_run:
        raise InputError("say where to keep the remedy with -o")
    if remedy == NAME:
        finetune_command(
            model,
            table,
            layer,
            axis,
            out,
            held_out=held_out,
            variant=variant,
            seed=seed,
            device=device,
            overwrite=overwrite,
            settings=settings,
            dry_run=dry_run,
        )
        return
    if settings or dry_run:
        raise InputError(f"--set and --dry-run belong to {NAME}; {remedy} takes neither")
    chosen = REMEDIES.load(remedy)
    made = chosen(**fitting_all(chosen, {"variant": variant}, what=f"setting of the remedy {remedy}"))
    if variant != "differences":
        raise InputError(
            f"--variant {variant}: it takes out what its vectors span, and here that would be the images themselves; "
            "fit it on vectors of prompts in Python, or leave --variant out"
        )
    home = check_folder(out, "remedy", overwrite=overwrite)
    opened = Table.open(table, layers=layer)
    encoder = load(model, **({"device": device} if device else {}))
    how = asking(engine, workers, cache, max_broken=max_broken)
    made, apart = fit_into_folder(
        made, encoder, opened, axis, home, share=held_out, seed=seed, asking=how, overwrite=overwrite
    )
    about = made.fitted_on
    assert about is not None
    typer.echo(
        f"{made.name} fitted on {about.n:,} images in {about.n_sets:,} sets of {len(about.subjects)} subjects, "
        f"in {home}" + (f"; {about.n_left_out:,} images could not be used" if about.n_left_out else "")
    )
    for note in about.notes:
        typer.echo(f"note: {note}", err=True)
    if not apart:
        typer.echo("note: no subject is kept apart, so judge the remedy on another table", err=True)
        return
    typer.echo(f"kept apart to judge it by ({home / HELD_OUT}): {', '.join(apart)}")
    layers = "".join(f" --layer {one}" for one in [*layer, str(home / HELD_OUT)])
    axes = "".join(f" --axis {one}" for one in axis)
    audit = f"equipoise audit {model} -s intersectional -t {table}{layers}{axes}"
    typer.echo(f"now audit the model before and after it, on those:\n  {audit} -o runs/before")
    typer.echo(f"  {audit} --remedy {home} -o runs/after")
    typer.echo("  equipoise report runs/before runs/after --before-after runs/before runs/after -o repair.html")
