"""``equipoise audit``, ``measure``, ``compare`` and ``suites``: ask a model, measure again, compare two."""

from __future__ import annotations

import typer

from equipoise.errors import InputError


def audit(
    model: str = typer.Argument(
        "", metavar="[MODEL]", help="hf:<repo or folder>, open_clip:<arch>/<tag>, table:<folder>."
    ),
    suite: str = typer.Option(..., "--suite", "-s", help="What to ask; 'equipoise suites' lists them."),
    table: str = typer.Option("", "--table", "-t", help="The table of images."),
    layer: list[str] = typer.Option([], "--layer", help="A layer of the table (labels, a filter); repeat for several."),
    captions: str = typer.Option("", "--captions", help="A COCO captions file, for suites that need no model."),
    from_embeddings: str = typer.Option("", "--from-embeddings", help="A table of embeddings; the same as table:…"),
    from_scores: str = typer.Option("", "--from-scores", help="A table of scores in place of a model."),
    out: str = typer.Option(..., "--out", "-o", help="The folder for results and evidence."),
    config: str = typer.Option("", "--config", help="Settings in a TOML file."),
    axis: list[str] = typer.Option([], "--axis", help="An axis to ask about; repeat for several."),
    k: list[int] = typer.Option([], "--k", help="How many images count as retrieved; repeat for several."),
    variant: list[str] = typer.Option([], "--variant", help="A definition by name; repeat for several."),
    prompt: list[str] = typer.Option([], "--prompt", help="A neutral prompt, {} for the subject; repeat for several."),
    pair: tuple[str, str] = typer.Option(("", ""), "--pair", help="The two groups of Bias@K, the positive one first."),
    min_sets: int = typer.Option(0, "--min-sets", help="Leave out subjects with fewer counterfactual sets (2)."),
    draws: int = typer.Option(0, "--draws", help="Draws of the null."),
    seed: int = typer.Option(0, "--seed", help="Seed of the null and of balanced pools."),
    device: str = typer.Option("", "--device", help="Where the model runs, such as cuda or cpu."),
    dtype: str = typer.Option("", "--dtype", help="The model's numbers: float32, float16 or bfloat16."),
    allow_pickle: bool = typer.Option(False, "--allow-pickle", help="Load weights that are not safetensors."),
    everything: bool = typer.Option(False, "--all", help="Print every row: subjects, groups, secondary metrics."),
) -> None:
    """Ask a model what a suite asks, over a table of images; every number with its chance level.

    Examples:

    [bold]equipoise audit hf:openai/clip-vit-base-patch32 --suite intersectional --table sets -o runs/clip[/bold]

    [bold]equipoise audit table:embeddings/closed --suite intersectional --table sets -o runs/closed[/bold]

    [bold]equipoise audit --suite captions-tfidf --captions captions_val2017.json -o runs/tfidf[/bold]
    """
    from equipoise.audit import run, run_captions
    from equipoise.audit.printing import table_of
    from equipoise.audit.suites import SUITES
    from equipoise.data import Table

    chosen = SUITES.load(suite)
    settings = chosen.defaults.having_toml(config) if config else chosen.defaults
    given = {"axes": axis, "k": k, "variants": variant, "prompts": prompt, "draws": draws, "seed": seed}
    given |= {"pair": pair if any(pair) else (), "min_sets": min_sets}
    settings = settings.having({name: value for name, value in given.items() if value})
    if not chosen.needs_model:
        if not captions:
            raise InputError(f"suite {suite!r} reads captions; give a file with --captions")
        done = run_captions(chosen, captions, out, config=settings)
    else:
        if not table:
            raise InputError(f"suite {suite!r} asks about images; give a table with --table")
        spec = model or (f"table:{from_embeddings}" if from_embeddings else "")
        if not spec and not from_scores:
            raise InputError("give a MODEL, --from-embeddings or --from-scores")
        images = Table.open(table, layers=layer)
        options = {"device": device, "dtype": dtype, "allow_pickle": allow_pickle}
        options = {name: value for name, value in options.items() if value}
        scores = from_scores or None
        done = run(spec or None, chosen, images, out, config=settings, scores=scores, model_options=options)
    _show(done.results, done.notes, table_of(done.results, everything=everything), str(done.folder))


def measure(
    folder: str = typer.Argument(..., metavar="DIR", help="The folder of an audit."),
    out: str = typer.Option("", "--out", "-o", help="Another folder for the new results."),
    k: list[int] = typer.Option([], "--k", help="How many images count as retrieved."),
    variant: list[str] = typer.Option([], "--variant", help="A definition by name."),
    pair: tuple[str, str] = typer.Option(("", ""), "--pair", help="The two groups of Bias@K, the positive one first."),
    draws: int = typer.Option(0, "--draws", help="Draws of the null."),
    everything: bool = typer.Option(False, "--all", help="Print every row: subjects, groups, secondary metrics."),
) -> None:
    """Measure an audit again from its evidence, without the model: other K, other definitions, more draws.

    Example: [bold]equipoise measure runs/clip --k 5 --variant berg -o runs/clip-berg[/bold]
    """
    from equipoise.audit import measure_again
    from equipoise.audit.printing import table_of

    given = {"k": k, "variants": variant, "draws": draws, "pair": pair if any(pair) else ()}
    done = measure_again(folder, config={n: v for n, v in given.items() if v}, out=out or None)
    _show(done.results, done.notes, table_of(done.results, everything=everything), str(done.folder))


def compare(
    a: str = typer.Argument(..., metavar="A", help="The folder of an audit."),
    b: str = typer.Argument(..., metavar="B", help="The folder of another audit of the same suite and table."),
    out: str = typer.Option("", "--out", "-o", help="A folder for the differences as a results table."),
) -> None:
    """Compare two audits query by query: paired differences with intervals and p-values.

    Example: [bold]equipoise compare runs/clip runs/clip-fair[/bold]
    """
    from pathlib import Path

    from equipoise.audit import compare as paired
    from equipoise.audit.printing import table_of

    found = paired(a, b)
    if out:
        found.save(Path(out))
    typer.echo(f"A - B, A = {a}, B = {b}; above 0: A has more")
    _show(found.frame(), found.notes, table_of(found.frame()), out)


def suites(
    name: str = typer.Argument("", metavar="[SUITE]", help="A suite whose texts to list."),
    table: str = typer.Option("", "--table", "-t", help="The table of images that it would ask about."),
    axis: list[str] = typer.Option([], "--axis", help="An axis to ask about; repeat for several."),
    prompt: list[str] = typer.Option([], "--prompt", help="A neutral prompt, {} for the subject; repeat for several."),
) -> None:
    """List the suites; or, of one suite and table, the texts that a model must read, one a line.

    Examples:

    [bold]equipoise suites[/bold]

    [bold]equipoise suites intersectional --table sets > texts.txt[/bold]
    """
    from equipoise.audit import texts_asked
    from equipoise.audit.suites import SUITES

    if name:
        if not table:
            raise InputError(f"which texts suite {name!r} asks depends on the images; give a table with --table")
        given = {"axes": axis, "prompts": prompt}
        for text in texts_asked(name, table, config={key: value for key, value in given.items() if value}):
            typer.echo(text)
        return
    for entry in SUITES:
        suite = entry.load()
        typer.echo(f"{entry.name:16} {suite.question}")
        typer.echo(f"{'':16} {suite.citation}; columns: {', '.join((*suite.columns, *suite.reads))}")


def _show(results: object, notes: tuple[str, ...] | list[str], text: str, folder: str) -> None:
    typer.echo(text)
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    if folder:
        typer.echo(f"results in {folder}", err=True)
