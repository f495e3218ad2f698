"""``equipoise tournament``: every remedy at several strengths, judged on the same held-out subjects."""

from __future__ import annotations

import typer

from equipoise.cli.making import (
    CACHE,
    ENGINE,
    LAYER,
    LIMIT,
    OVERWRITE,
    SAMPLE,
    WORKERS,
    asking,
    listed,
    one_axis,
    opened,
)
from equipoise.errors import InputError


def tournament(
    model: str = typer.Argument(..., metavar="MODEL", help="mini:clip, hf:<repo or folder>, table:<folder>, ..."),
    table: str = typer.Option("", "--table", "-t", help="The table of counterfactual sets."),
    layer: list[str] = LAYER,
    limit: int = LIMIT,
    sample: int = SAMPLE,
    natural: str = typer.Option("", "--natural", help="A table of natural images of the same subjects."),
    remedies: str = typer.Option(
        "all", "--remedies", help="all, or names separated by commas: leace, projection:calibrated, a remedy's folder."
    ),
    checkpoints: str = typer.Option("", "--checkpoints", help="Repaired models, separated by commas: hf:DIR, ..."),
    axis: list[str] = typer.Option(["gender"], "--axis", help="The axis to repair; others show what else moves."),
    k: int = typer.Option(12, "--k", min=2, help="How many images MaxSkew looks at."),
    prompt: str = typer.Option("A photo of {a}", "--prompt", help="The neutral prompt."),
    shown: float = typer.Option(0.4, "--shown", help="The share of subjects that the table shows."),
    most_loss: float = typer.Option(0.03, "--most-loss", help="How much zero-shot accuracy a strength may cost."),
    draws: int = typer.Option(1000, "--draws", min=2, help="Draws of every chance level."),
    seed: int = typer.Option(0, "--seed", min=0, help="Which subjects are fitted on, chosen on and shown."),
    out: str = typer.Option("", "--out", "-o", help="The folder for the table, the page and its figure."),
    device: str = typer.Option("", "--device", help="Where the model runs, such as cuda or cpu."),
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    cache: bool = CACHE,
    overwrite: bool = OVERWRITE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Say who takes part and on which subjects, and stop."),
) -> None:
    """Compare remedies: what each repairs, what else it moves, what it costs, and whether that shows on fair images.

    Examples:

    [bold]equipoise world render sets --counterfactual -n 3360[/bold]

    [bold]equipoise world render natural --preset biased -n 4000[/bold]

    [bold]equipoise tournament mini:clip --table sets --natural natural -o runs/tournament[/bold]

    [bold]equipoise tournament mini:clip -t sets --remedies leace,clip-clip --checkpoints hf:tuned -o runs/few[/bold]

    A run that was stopped resumes where it stopped. The subjects that are shown are those that equipoise mitigate keeps
    apart with --held-out of the same share and the same --seed.
    """
    from equipoise.data.runs import check_folder
    from equipoise.mitigate.tournament import TournamentSettings
    from equipoise.mitigate.tournament import tournament as run
    from equipoise.mitigate.tournament.contenders import contenders
    from equipoise.mitigate.tournament.running import splits_of
    from equipoise.models import load

    if not table:
        raise InputError("give a table of counterfactual sets with --table")
    if not out and not dry_run:
        raise InputError("say where the results go with -o")
    settings = TournamentSettings(
        axis=one_axis(axis, "a tournament repairs one axis, and shows what moves along on the others"),
        k=k,
        prompt=prompt,
        shown=shown,
        most_loss=most_loss,
        draws=draws,
        seed=seed,
    )
    sets = opened(table, layer, limit, sample, seed)
    beside = opened(natural, [], limit, sample, seed) if natural else None
    who, trained = listed(remedies), listed(checkpoints)
    if dry_run:
        parts = splits_of(sets, settings)
        for contender in contenders(who, trained):
            if contender.data and beside is None:
                continue
            typer.echo(f"{contender.name:28} {len(contender.strengths)} strengths")
        for name in ("fitted", "choosing", "shown"):
            typer.echo(f"{name}: {', '.join(getattr(parts, name))}")
        return
    check_folder(out, "tournament", overwrite=overwrite)
    encoder = load(model, **({"device": device} if device else {}))
    outcome = run(
        encoder,
        sets,
        out,
        remedies=who,
        natural=beside,
        checkpoints=trained,
        settings=settings,
        asking=asking(engine, workers, cache),
        device=device,
        say=lambda line: typer.echo(line, err=True),
        overwrite=overwrite,
    )
    typer.echo(outcome.table)
    typer.echo("")
    for sentence in outcome.sentences:
        typer.echo(sentence)
    typer.echo(f"page in {out}/report.html", err=True)
