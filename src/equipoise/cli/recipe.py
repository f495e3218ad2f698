"""``equipoise recipe``: whole studies in one command.

``equipoise demo``: the best end-to-end job, offline.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from equipoise.cli.making import OVERWRITE, listed
from equipoise.errors import InputError
from equipoise.recipes.studies import STUDIES

EXAMPLES = {
    "gensynth": "gensynth --from captions_val2017.json -o runs/gensynth",
    "lic": "lic --from captions/ -o runs/lic",
    "libra": "libra --quick -o runs/libra",
    "inpainting": "inpainting --quick -o runs/inpainting",
    "socialcounterfactuals": "socialcounterfactuals --scale full --dry-run",
    "gabinsight": "gabinsight -o runs/gabinsight",
    "contamination": "contamination --quick -o runs/contamination",
}


def demo(
    out: str = typer.Option("runs/demo", "--out", "-o", help="The folder for what the demo makes."),
) -> None:
    """Everything once, offline: audit a CLIP that was taught a bias and its fair twin, check the numbers against the
    truth, repair it, audit a captioner, make and filter sets, and write a page. Minutes on one CPU.

    Example: [bold]equipoise demo -o runs/demo[/bold]
    """
    from equipoise.recipes.demo import demo as run

    run(Path(out), typer.echo)


app = typer.Typer(no_args_is_help=True, help="Whole studies in one command: made, filtered, measured, shown.")


@app.callback()
def recipes() -> None:
    """Keep the names of recipes, even while there is only one."""


@app.command("counterfactual-sets")
def counterfactual_sets(
    out: Path = typer.Option(Path("runs/counterfactual-sets"), "--out", "-o", help="The folder for everything."),
    generator: str = typer.Option("mini:diffusion", "--generator", "-g", help="A generator that knows the world."),
    subjects: int = typer.Option(10, "--subjects", min=1, help="How many occupations."),
    sets: int = typer.Option(6, "--sets", min=1, help="Caption sets for each."),
    candidates: int = typer.Option(4, "-n", min=1, help="Candidates for each caption set."),
    inject: str = typer.Option("self", "--inject", help="Attention to share: self, cross or both."),
    blend: bool = typer.Option(True, "--blend/--no-blend", help="Keep the first picture where words change little."),
    share: tuple[float, float] = typer.Option((0.1, 0.9), "--share", help="Shares of steps, LOW HIGH."),
    guidance: tuple[float, float] = typer.Option((2.0, 4.0), "--guidance", help="Guidance scales, LOW HIGH."),
    steps: int | None = typer.Option(None, "--steps", min=1, help="Denoising steps; the model's own by default."),
    compare: str = typer.Option("", "--compare", help="Other kinds beside it, such as self,cross,both+blend."),
    pictures: Path | None = typer.Option(None, "--pictures", help="The folder for contact sheets, such as docs/img."),
    page: Path | None = typer.Option(None, "--page", help="A page to put the table into, such as docs/generate.md."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of captions, noise and choices."),
    overwrite: bool = OVERWRITE,
) -> None:
    """Make counterfactual sets of pictograms jointly, filter them, and let an independent judge say what they show.

    Ten subjects, six sets of twelve each and four candidates for each make 3,600 pictures with the comparison without
    sharing: about a quarter of an hour on one core. If stopped, it goes on with the same command.

    Example: [bold]equipoise recipe counterfactual-sets --subjects 2 --sets 1 -n 2 -o runs/try[/bold]
    """
    from equipoise.recipes.counterfactual_sets import SetsSettings, put_into
    from equipoise.recipes.counterfactual_sets import counterfactual_sets as study
    from equipoise.report import write

    settings = SetsSettings(
        subjects=subjects,
        sets=sets,
        candidates=candidates,
        inject=inject,
        blend=blend,
        share=share,
        guidance=guidance,
        steps=steps,
        compare=tuple(listed(compare)),
        seed=seed,
    )
    outcome = study(out, settings, typer.echo, generator=generator, pictures=pictures, overwrite=overwrite)
    typer.echo(str(outcome))
    if page is not None:
        put_into(page, outcome)
    report = write([out / "filter", out / "sets"], out / "report.html", title="Counterfactual sets, made and filtered")
    for path in (*outcome.pictures, *([page] if page else []), report):
        typer.echo(f"wrote {path}")


@app.command("list")
def list_recipes(name: str = typer.Argument("", help="One paper; all of them unless given.")) -> None:
    """Which tables and figures of each paper are regenerated, from what, and which cannot be and why.

    Example: [bold]equipoise recipe list gensynth[/bold]
    """
    from equipoise.recipes.studies.frame import coverage_text

    for entry in [STUDIES.get(name)] if name else STUDIES.entries().values():
        typer.echo(coverage_text(entry.load()) + "\n")


@app.command("chance-table")
def chance_table(
    metadata: str = typer.Option("", "--metadata", help="A folder with the public metadata: exact sizes of the pools."),
    out: str = typer.Option("", "--out", "-o", help="A CSV file for the table."),
) -> None:
    """What chance alone gives for MaxSkew@K and NDKL on the pools of SocialCounterfactuals, beside published rows.

    Example: [bold]equipoise recipe chance-table -o chance.csv[/bold]
    """
    from equipoise.data.atomic import write_whole
    from equipoise.data.runs import file_to_write
    from equipoise.formatting import csv_text
    from equipoise.recipes.studies.chance import chance_part

    part = chance_part(metadata or None)
    typer.echo(str(part))
    if out:
        with file_to_write(out) as path:
            write_whole(path, csv_text(part.tables[0].frame).encode())


OUT = typer.Option(None, "--out", "-o", help="The folder for the study; runs/NAME unless given.")
SCALE = typer.Option("mini", "--scale", help="mini: offline, on a CPU. full: the paper's models and data.")
GIVEN = typer.Option(
    [], "--from", metavar="[NAME=]PATH", help="Tables, captions or files made earlier; see recipe list."
)
DRY_RUN = typer.Option(False, "--dry-run", help="Print every step with its cost, and do nothing.")
QUICK = typer.Option(False, "--quick", help="Less of everything, where the study has a smaller form.")
SEED = typer.Option(0, "--seed", min=0, help="Seed of everything that is drawn.")


def _carried_out(name: str, out: Path | None, *, dry_run: bool, overwrite: bool, **options: Any) -> None:
    """Do a study, or print its plan."""
    from equipoise.recipes.studies.frame import plan_text, run_study

    study = STUDIES.load(name)
    chosen = study.options(**options)
    if dry_run:
        typer.echo(plan_text(study, chosen))
        return
    folder = out or Path(f"runs/{name}")
    done = run_study(study, folder, chosen, lambda text: typer.echo(text, err=True), overwrite=overwrite)
    typer.echo(str(done))
    typer.echo(f"wrote {done.page}, {folder / 'tables'} and {folder / 'figures'}", err=True)


def _study(name: str, summary: str, citation: str, example: str) -> None:
    """One command for one paper."""

    def command(
        out: Path = OUT,
        scale: str = SCALE,
        models: str = typer.Option(
            "", "--models", "-m", help="The models to ask, separated by commas; @PAPER: those of a paper."
        ),
        given: list[str] = GIVEN,
        dry_run: bool = DRY_RUN,
        quick: bool = QUICK,
        seed: int = SEED,
        overwrite: bool = OVERWRITE,
    ) -> None:
        from equipoise.data.published import models_named

        chosen = models_named(listed(models))
        options = {"scale": scale, "models": chosen, "given": given, "seed": seed, "quick": quick}
        _carried_out(name, out, dry_run=dry_run, overwrite=overwrite, **options)

    command.__doc__ = _told(summary, citation, example)
    app.command(name)(command)


def _told(summary: str, citation: str, example: str) -> str:
    return (
        f"{summary}\n\n{citation}. Ends in one page and a folder of tables and figures, with the published numbers "
        "beside the measured ones. If stopped, it goes on with the same command.\n\n"
        f"Example: [bold]equipoise recipe {example}[/bold]\n"
    )


def contamination(
    out: Path = OUT,
    scale: str = SCALE,
    alpha: str = typer.Option(
        "",
        "--alpha",
        help="Shares of generated images, such as 0,0.3,1; unless given 0 to 1 in fifths, with --quick 0,0.5,1.",
    ),
    seeds: int = typer.Option(
        None, "--seeds", min=1, help="How many seeds; unless given 3, with --quick 1. More reuse those that are done."
    ),
    generations: int = typer.Option(
        None,
        "--generations",
        min=0,
        help="How often the generator learns from its own pictures, 0 for never; unless given 3, with --quick 1.",
    ),
    mode: str = typer.Option(
        "both", "--mode", help="accumulate: beside the real ones; replace: instead of them; or both."
    ),
    dry_run: bool = DRY_RUN,
    quick: bool = QUICK,
    seed: int = SEED,
    overwrite: bool = OVERWRITE,
) -> None:
    """(Its words are set below.)"""
    typed = {"alphas": _shares(alpha) if alpha else None, "seeds": seeds, "generations": generations, "mode": mode}
    own = {name: value for name, value in typed.items() if value is not None}
    options = {"scale": scale, "seed": seed, "quick": quick, "own": own}
    _carried_out("contamination", out, dry_run=dry_run, overwrite=overwrite, **options)


def _shares(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InputError(f"--alpha {text}: give shares from 0 to 1, separated by commas, as 0,0.5,1") from None


for _name in sorted(EXAMPLES):  # asked for by name, so that --help does not look for plug-ins
    _entry = STUDIES.get(_name)
    if _name == "contamination":  # it has options of its own
        contamination.__doc__ = _told(_entry.summary, _entry.citation, EXAMPLES[_name])
        app.command(_name)(contamination)
    else:
        _study(_name, _entry.summary, _entry.citation, EXAMPLES[_name])


if __name__ == "__main__":
    app()
