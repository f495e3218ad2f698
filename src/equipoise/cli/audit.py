"""``equipoise audit``, ``measure``, ``compare`` and ``suites``: ask a model, measure again, compare two."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import typer

from equipoise.cli.making import CACHE, ENGINE, LAYER, LIMIT, MAX_BROKEN, OVERWRITE, SAMPLE, WORKERS, asking, opened
from equipoise.cli.report import tell_notes, tell_verdict, write_page, write_page_of
from equipoise.errors import InputError

PROMPT_HELP = (
    "A neutral prompt: {} for the bare subject, {a} for it with its article, {A} with a capital article; behind 'a' or "
    "'an' the article that fits is chosen. Repeat for several. Suites with prompts of their own refuse it; the suite "
    "prompts asks each as it stands."
)
PROMPTS = typer.Option(
    "", "--prompts", help="A file of prompts: one per line, or CSV with the columns prompt and, if you like, kind."
)
PAIR = typer.Option(("", ""), "--pair", help="The two groups of Bias@K, the positive one first.", show_default=False)
ALL_ROWS = typer.Option(False, "--all-rows", help="Print all rows of the results, not only the most telling.")
EVERYTHING = typer.Option(False, "--all", help="Print every row: subjects, groups, secondary metrics.")


def audit(
    model: list[str] = typer.Argument(
        None,
        metavar="[MODEL...]",
        help="mini, hf:<repo or folder>, open_clip:<arch>/<tag>, table:<folder or file>, @<paper> for a paper's. "
        "Several are asked the same, each into a folder of its own below --out, with one page of all.",
        show_default=False,
    ),
    suite: str = typer.Option(
        "", "--suite", "-s", help="What to ask; 'equipoise suites' lists them. Must be given.", show_default=False
    ),
    table: str = typer.Option("", "--table", "-t", help="The table of images."),
    layer: list[str] = LAYER,
    limit: int = LIMIT,
    sample: int = SAMPLE,
    captions: str = typer.Option("", "--captions", help="A COCO captions file, for suites that need no model."),
    from_embeddings: str = typer.Option(
        "", "--from-embeddings", help="A table of embeddings, or a file (npz, npy, Parquet, safetensors, CSV)."
    ),
    from_scores: str = typer.Option("", "--from-scores", help="A table or file of scores in place of a model."),
    out: str = typer.Option("", "--out", "-o", help="The folder for results and evidence; without it, only printed."),
    config: str = typer.Option("", "--config", help="Settings in a TOML file."),
    axis: list[str] = typer.Option([], "--axis", help="An axis to ask about; repeat for several."),
    k: list[int] = typer.Option([], "--k", help="How many images count as retrieved; repeat for several."),
    variant: list[str] = typer.Option([], "--variant", help="A definition by name; repeat for several."),
    prompt: list[str] = typer.Option([], "--prompt", help=PROMPT_HELP),
    prompts: str = PROMPTS,
    pair: tuple[str, str] = PAIR,
    placebo: list[str] = typer.Option(
        [],
        "--placebo",
        help="A column that varies inside sets and is not a group, beside placebo_*; repeat for several.",
    ),
    margin: float | None = typer.Option(
        None, "--margin", help="The largest gap too small to matter, in spreads between sets; 0.2 unless given."
    ),
    min_sets: int | None = typer.Option(
        None,
        "--min-sets",
        help="Leave out subjects with fewer counterfactual sets; 2 unless given (intersectional and marginal).",
    ),
    link: str = typer.Option(
        "",
        "--link",
        help="The column that sets of different subjects share if they show the same people or come from one seed.",
    ),
    draws: int | None = typer.Option(
        None,
        "--draws",
        help="Draws of the null; 1000 unless given (captions-tfidf, contrast and natural: 200). More than 50 own "
        "prompts need about 50 each.",
    ),
    seed: int | None = typer.Option(None, "--seed", help="Seed of the null and of random choices; 0 unless given."),
    device: str = typer.Option("", "--device", help="Where the model runs, such as cuda or cpu."),
    dtype: str = typer.Option("", "--dtype", help="The model's numbers: float32, float16 or bfloat16."),
    allow_pickle: bool = typer.Option(False, "--allow-pickle", help="Load weights that are not safetensors."),
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    cache: bool = CACHE,
    max_broken: float = MAX_BROKEN,
    remedy: str = typer.Option("", "--remedy", help="A remedy to put behind the model: a folder of mitigate."),
    page: bool = typer.Option(True, "--report/--no-report", help="Whether to write report.html into the folder."),
    overwrite: bool = OVERWRITE,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Say how many images and texts would be asked; load nothing."
    ),
    all_rows: bool = ALL_ROWS,
    everything: bool = EVERYTHING,
) -> None:
    """Ask a model what a suite asks, over a table of images; every number with its chance level.

    Examples:

    [bold]equipoise audit hf:openai/clip-vit-base-patch32 --suite intersectional --table sets -o runs/clip[/bold]

    [bold]equipoise audit mini mini:clip-fair --suite intersectional --table sets -o runs/both[/bold]

    [bold]equipoise audit --from-embeddings my.npz -s prompts --prompts traits.txt --table faces -o runs/traits[/bold]

    [bold]equipoise audit hf:openai/clip-vit-base-patch32 -s marginal -t sets --prompt "art of {a}" -o runs/art[/bold]

    [bold]equipoise audit --suite captions-tfidf --captions captions_val2017.json -o runs/tfidf[/bold]
    """
    from equipoise.audit import run, run_captions
    from equipoise.audit.suites import SUITES
    from equipoise.data.published import models_named
    from equipoise.data.settings import toml_of

    if not suite:
        known = ", ".join(entry.name for entry in SUITES)
        raise InputError(f"what to ask is missing; give one of these with --suite: {known} (see: equipoise suites)")
    chosen = SUITES.load(suite)
    _refuse_table_for_model(model or [], table, suite)
    typed = {"axes": axis, "k": k, "variants": variant, "prompts": prompt, "draws": draws, "seed": seed}
    typed |= {"pair": pair if any(pair) else (), "min_sets": min_sets, "placebos": placebo, "margin": margin}
    typed |= {"link": link or None}
    settings = chosen.configured({**(toml_of(config) if config else {}), **_told(typed), **_listed(prompt, prompts)})
    if not chosen.needs_model:
        unread: dict[str, Any] = {"MODEL": model, "--table": table, "--layer": layer}
        unread |= {"--from-embeddings": from_embeddings, "--from-scores": from_scores}
        unread |= {"--device": device, "--dtype": dtype, "--allow-pickle": allow_pickle, "--remedy": remedy}
        unread |= {"--engine": "" if engine == "local" else engine, "--workers": workers}
        _refuse_all(unread, f"suite {suite!r} reads captions and asks no model; leave out")
        if not captions:
            raise InputError(f"suite {suite!r} reads captions; give a file with --captions")
        subset: dict[str, Any] = {"limit": limit, "sample": sample}
        if dry_run:
            _tell_captions_dry_run(captions, subset, settings.seed)
            return
        done = run_captions(chosen, captions, out or None, config=settings, overwrite=overwrite, **subset)
    else:
        if not table:
            raise InputError(f"suite {suite!r} asks about images; give a table with --table")
        _refuse_all({"--captions": captions}, f"suite {suite!r} asks a model about the images of a table; leave out")
        sources = {"MODEL": model, "--from-embeddings": from_embeddings, "--from-scores": from_scores}
        several = [name for name, value in sources.items() if value]
        if len(several) > 1:
            raise InputError(f"{' and '.join(several)} are given; an audit is of one of them, so give one")
        if not model and not from_embeddings and not from_scores and not dry_run:
            raise InputError("give a MODEL (such as mini or hf:<folder>), --from-embeddings or --from-scores")
        images = opened(table, layer, limit, sample, settings.seed)
        if dry_run:
            _tell_dry_run(chosen, images, settings)
        if warned := chosen.advice(settings) if chosen.advice else "":  # before hours of asking, not only after them
            typer.echo(f"note: {warned}", err=True)
        if dry_run:
            return
        if remedy:
            _refuse_all({"--from-scores": from_scores}, "a remedy changes vectors, and scores have none; leave out")
        options = {"device": device, "dtype": dtype, "allow_pickle": allow_pickle}
        options = {name: value for name, value in options.items() if value}
        how = asking(engine, workers, cache, max_broken=max_broken)
        arguments: dict[str, Any] = {"scores": from_scores or None, "model_options": options, "asking": how}
        arguments |= {"config": settings, "overwrite": overwrite, "page": False}

        def ask(spec: str, folder: str) -> Any:
            asked = _repaired(spec, remedy, images, options) if remedy else spec or None
            return run(asked, chosen, images, folder or None, **arguments)

        specs = models_named(model or []) or [f"table:{from_embeddings}" if from_embeddings else ""]
        if len(specs) > 1:
            _ask_several(specs, ask, out, overwrite=overwrite, page=page, all_rows=all_rows, everything=everything)
            return
        done = ask(specs[0], out)
    _tell(done, page=page, all_rows=all_rows, everything=everything)


def measure(
    folder: str = typer.Argument(..., metavar="DIR", help="The folder of an audit."),
    out: str | None = typer.Option(None, "--out", "-o", help="Another folder for the new results."),
    k: list[int] = typer.Option([], "--k", help="How many images count as retrieved."),
    variant: list[str] = typer.Option([], "--variant", help="A definition by name."),
    pair: tuple[str, str] = PAIR,
    placebo: list[str] = typer.Option([], "--placebo", help="A column that varies inside sets and is not a group."),
    margin: float | None = typer.Option(None, "--margin", help="The largest gap too small to matter, in spreads."),
    draws: int | None = typer.Option(None, "--draws", help="Draws of the null; as in the audit unless given."),
    replace: bool = typer.Option(False, "--replace", help="Let results with other settings replace the audit's own."),
    page: bool = typer.Option(True, "--report/--no-report", help="Whether to write report.html into the folder."),
    overwrite: bool = OVERWRITE,
    all_rows: bool = ALL_ROWS,
    everything: bool = EVERYTHING,
) -> None:
    """Measure an audit again from its evidence, without the model: other K, other definitions, more draws.

    Example: [bold]equipoise measure runs/clip --k 5 --variant berg -o runs/clip-berg[/bold]
    """
    from equipoise.audit import measure_again

    given = {"k": k, "variants": variant, "draws": draws, "pair": pair if any(pair) else ()}
    given |= {"placebos": placebo, "margin": margin}
    done = measure_again(folder, config=_told(given), out=out, replace=replace, overwrite=overwrite)
    _tell(done, page=page, all_rows=all_rows, everything=everything)


_FEW_DIFFERENCES = 60
"""How many rows of a comparison are printed where the others are in its folder."""


def compare(
    a: str = typer.Argument(..., metavar="A", help="The folder of an audit, of captions, a dataset, or a filter run."),
    b: str = typer.Argument(..., metavar="B", help="The folder of another one of the same kind and data."),
    out: str | None = typer.Option(None, "--out", "-o", help="A folder for the differences as a results table."),
    overwrite: bool = OVERWRITE,
) -> None:
    """Compare two audits query by query, two audits of captions image by image, or two datasets or filter runs.

    Every difference has its interval and p-value; what cannot be paired is compared as if the two were independent.

    Example: [bold]equipoise compare runs/clip runs/clip-fair[/bold]
    """
    from equipoise.audit import compare as paired
    from equipoise.audit.printing import table_of

    differences = paired(a, b, out, overwrite=overwrite)
    typer.echo(f"A - B, A = {a}, B = {b}; above 0: A has more")
    limit = _FEW_DIFFERENCES if out else None  # without a folder, what is printed is all there is
    _show(differences.notes, table_of(differences.frame(), limit=limit), out or "")


def suites(
    name: str = typer.Argument("", metavar="[SUITE]", help="A suite whose texts to list."),
    table: str = typer.Option("", "--table", "-t", help="The table of images that it would ask about."),
    axis: list[str] = typer.Option([], "--axis", help="An axis to ask about; repeat for several."),
    prompt: list[str] = typer.Option([], "--prompt", help=PROMPT_HELP),
    prompts: str = PROMPTS,
) -> None:
    """List the suites; or, for one suite and table, the texts that a model must read, one per line.

    Examples:

    [bold]equipoise suites[/bold]

    [bold]equipoise suites intersectional --table sets > texts.txt[/bold]
    """
    from equipoise.audit import texts_asked
    from equipoise.audit.suites import SUITES

    if name:
        if not SUITES.load(name).needs_model:
            raise InputError(f"suite {name!r} asks no texts: it needs no model, only captions (audit --captions)")
        if not table:
            raise InputError(f"which texts suite {name!r} asks depends on the images; give a table with --table")
        given = {"axes": axis, "prompts": prompt} | _listed(prompt, prompts)
        for text in texts_asked(name, table, config={key: value for key, value in given.items() if value}):
            typer.echo(text)
        return
    for entry in SUITES:
        suite = entry.load()
        typer.echo(f"{entry.name:16} {suite.question}")
        typer.echo(f"{'':16} {suite.citation}; columns: {', '.join((*suite.columns, *suite.reads))}")


def _ask_several(
    specs: list[str], ask: Callable[[str, str], Any], out: str, *, overwrite: bool, page: bool, **rows: bool
) -> None:
    """Audit every model into its own folder, and write one page of all; one that fails costs only itself."""
    from equipoise.audit.folders import short_name

    if not out:
        raise InputError(f"{len(specs)} models are given; give a folder for their results with -o")
    folders, failed = [], []
    for place, spec in enumerate(specs, start=1):
        folder = str(Path(out) / short_name(spec))
        typer.echo(f"[{place} of {len(specs)}] {spec}", err=True)
        try:
            done = ask(spec, folder)
        except InputError as problem:
            failed.append(f"{spec}: {problem}")
            continue
        folders.append(folder)
        _tell(done, page=page, **rows)
    if page and len(folders) > 1:
        write_page_of(folders, Path(out) / "report.html", of=folders, overwrite=overwrite)
    if failed:
        asked = f"{len(folders)} of {len(specs)} models were audited; not these: "
        raise InputError(asked + "; ".join(failed))


def _refuse_table_for_model(models: list[str], table: str, suite: str) -> None:
    """Refuse a table of images where a model goes, with the command as it should be."""
    from equipoise.data.manifest import MANIFEST, Manifest

    tables = [name for name in models if (Path(name) / MANIFEST).is_file()]
    if not tables or Manifest.load(Path(tables[0])).schema.kind != "images":
        return
    rest = [name for name in models if name not in tables]
    rest += [table] if table and not Path(table).exists() else []
    raise InputError(
        f"{tables[0]} is a table of images, not a model; type: equipoise audit {' '.join(rest) or 'MODEL'} --suite "
        f"{suite} --table {tables[0]}"
    )


def _repaired(spec: str, remedy: str, images: Any, options: dict[str, Any]) -> Any:
    """The model with its remedy; subjects that the remedy was fitted on are reported."""
    from equipoise.mitigate import load, repaired
    from equipoise.mitigate.fitting import seen_subjects

    fitted = load(remedy)
    model = repaired(spec, fitted, **options)
    seen = seen_subjects(fitted, images)
    if seen:  # said at once, before hours of asking; the audit's own notes keep it
        of = images.to_pandas(["subject"], only_kept="keep" in images.columns)["subject"].nunique()
        typer.echo(
            f"note: the remedy has seen {len(seen)} of {of} subjects; judge it on others, as with --layer "
            f"{remedy}/held_out",
            err=True,
        )
    return model


def _told(given: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given; 0 is one, an empty list is not."""
    return {name: value for name, value in given.items() if value is not None and value not in ([], ())}


def _listed(prompt: list[str], file: str) -> dict[str, Any]:
    """The settings that a file of prompts gives; prompts are given one way or the other."""
    from equipoise.audit.asking import prompts_of

    for text in prompt:
        if os.path.isfile(text):  # False, not an error, for a text that no file could be named
            raise InputError(f"{text} is a file; type --prompts {text}")
    if prompt and file:
        raise InputError("--prompt and --prompts are given; put all prompts into the file, or give each with --prompt")
    return dict(prompts_of(file)) if file else {}


def _tell_dry_run(suite: Any, images: Any, settings: Any) -> None:
    """What an audit would ask, without the model."""
    from equipoise.audit import texts_asked
    from equipoise.engine.asking import kept_ids

    texts = texts_asked(suite, images, config=settings)
    typer.echo(
        f"suite {suite.name}: {len(kept_ids(images)):,} images and {len(texts):,} texts would be asked, such as:"
    )
    for text in texts[:3]:
        typer.echo(f"  {text}")


def _tell_captions_dry_run(captions: str, some: dict[str, Any], seed: int) -> None:
    """How many images and captions would be read, and nothing more."""
    from equipoise.audit.running import captions_of_images
    from equipoise.data.sampling import some_ids

    frame = captions_of_images(captions)
    ids = frame["image_id"].astype(str)
    names = some_ids(ids.drop_duplicates().tolist(), seed=seed, **some)
    n = int(ids.isin(names).sum())
    typer.echo(f"{n:,} captions of {len(names):,} images would be read; no model is asked")


def _tell(done: Any, *, page: bool, all_rows: bool, everything: bool) -> None:
    """The rows, the notes, the verdict and where everything is."""
    from equipoise.audit.printing import TELLING

    text = done.table(everything=everything, most=None if all_rows else TELLING, limit=None)
    text = f"{done.k_told}\n{text}" if done.k_told else text
    _show(done.notes, text, str(done.folder or ""))
    _tell_more_draws(done)
    if done.folder is None:
        typer.echo(
            "nothing was written; give a folder with -o to keep the results and get a verdict and a page", err=True
        )
        return
    tell_verdict(done.folder)
    if page:
        write_page(done.folder)


def _tell_more_draws(done: Any) -> None:
    """The line to type where single prompts had too few draws to stand out, for an audit that can be measured again."""
    from equipoise.audit.evidence import EVIDENCE
    from equipoise.measure.notes import facts_of
    from equipoise.measure.retrieval.single import draws_for, too_few_draws

    single = [facts_of(row, "holm_over") for row in done.results[done.results["subject"].notna()].to_dict("records")]
    few = [fact["tests"] for fact in single if fact and "draws" in fact and too_few_draws(fact["tests"], fact["draws"])]
    enough = draws_for(max(few)) if few else None
    if enough and done.folder is not None and (done.folder / EVIDENCE).exists():
        typer.echo(f"type: equipoise measure {quote(str(done.folder))} --draws {enough} --replace", err=True)


def _refuse_all(unread: dict[str, Any], why: str) -> None:
    """Refuse what was given and would not be read."""
    for name, value in unread.items():
        if value:
            raise InputError(f"{why} {name}")


def _show(notes: tuple[str, ...] | list[str], text: str, folder: str) -> None:
    from equipoise.measure.notes import joined_over_k

    typer.echo(text)
    tell_notes(joined_over_k(notes))
    if folder:
        typer.echo(f"results in {folder}", err=True)
