"""``equipoise filter``: which images and sets may stay, and whether the filter itself is even-handed."""

from __future__ import annotations

from typing import Any

import typer

from equipoise.cli.making import CACHE, ENGINE, LAYER, LIMIT, MAX_BROKEN, OVERWRITE, SAMPLE, WORKERS, opened
from equipoise.errors import InputError


def filter(
    table: str = typer.Argument("", metavar="TABLE", help="The table of images."),
    steps: str = typer.Option(
        "", "--steps", "-s", help="Filters in order, with commas; name:preset for a paper's settings."
    ),
    config: str = typer.Option("", "--config", help="Steps and settings in a TOML file instead."),
    out: str = typer.Option("", "--out", "-o", help="The folder for layers, scores and the report."),
    model: str = typer.Option("", "--model", "-m", help="The encoder: hf:…, open_clip:…, table:<embeddings>, mini:…"),
    detector: str = typer.Option(
        "", "--detector", help="annotations (what the table says), detections (a column), or a detector's name."
    ),
    faces: str = typer.Option("", "--faces", help="A detector of faces."),
    classifier: str = typer.Option("", "--classifier", help="An image classifier that knows unsafe images."),
    reference: str = typer.Option("", "--reference", help="A table of real images, if the table has none itself."),
    layer: list[str] = LAYER,
    limit: int = LIMIT,
    sample: int = SAMPLE,
    axis: list[str] = typer.Option([], "--axis", help="An axis to count and test by; all of the table unless given."),
    setting: list[str] = typer.Option(
        [], "--set", help="A setting, such as similarity.text_least=0.25; repeat for several."
    ),
    draws: int = typer.Option(
        999,
        "--draws",
        min=19,
        help="Shuffles for the test of whether a step is biased; more where many tests need them.",
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of shuffles and random choices."),
    device: str = typer.Option("", "--device", help="Where models run, such as cuda or cpu."),
    batch_size: int = typer.Option(32, "--batch-size", min=1, help="Images a model sees at a time."),
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    cache: bool = CACHE,
    max_broken: float = MAX_BROKEN,
    overwrite: bool = OVERWRITE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done; load no model, write nothing."),
    names: bool = typer.Option(False, "--list", help="List filters, presets and settings, and stop."),
) -> None:
    """Score images and sets, drop what fails, and say how many of each group and subject each step dropped.

    Every step is tested: does it drop one group more than another within the same sets or subjects?

    Examples:

    [bold]equipoise filter sets -s similarity,detectability -m hf:openai/clip-vit-large-patch14 -o runs/filter[/bold]

    [bold]equipoise filter edits -s people:gensynth,knn --reference real -m table:crops -o runs/knn --dry-run[/bold]

    A run that was stopped goes on with the same command. Read what is left with --layer runs/filter/layer.
    """
    from equipoise.data.settings import fitting
    from equipoise.filters.remaining import Models
    from equipoise.filters.running import run
    from equipoise.filters.steps import planned, read_steps, settings_from_toml

    if names:
        typer.echo(_catalogue())
        return
    if not table:
        raise InputError("which table? give its folder: equipoise filter TABLE --steps similarity -o runs/filter")
    if bool(steps) == bool(config):
        raise InputError("say what to do with --steps or with --config, one of them")
    given: dict[str, Any] = {"model": model, "detector": detector, "faces": faces}
    given |= {"classifier": classifier, "reference": reference, "axes": axis}
    if config:
        if setting:
            raise InputError("--set belongs to --steps; write the setting into the file")
        chosen, from_file = settings_from_toml(config)
        for name in from_file:
            if name not in given:
                raise InputError(f"{config}: {name!r} is not understood; known are: step, {', '.join(given)}")
            from_file[name] = fitting(
                from_file[name], tuple[str, ...] if name == "axes" else str, f"{config}: {name}", alone=True
            )
        given |= {name: value for name, value in from_file.items() if not given[name]}
    else:
        chosen = read_steps(steps, setting)
    images = opened(table, layer, limit, sample, seed)
    if dry_run:
        named = {name: value for name, value in given.items() if name not in ("axes", "reference")}
        typer.echo(planned(images, chosen, reference=given["reference"], named=named))
        return
    if not out:
        raise InputError("say where to write with -o")
    models = Models(
        encoder=given["model"],
        detector=given["detector"] or "annotations",
        faces=given["faces"],
        classifier=given["classifier"],
        reference=given["reference"] or None,
        options={"device": device} if device else {},
        batch_size=batch_size,
        progress=True,
        engine=engine,
        workers=workers,
        cache=cache,
        max_broken=max_broken,
    )
    done = run(
        images,
        chosen,
        out,
        models=models,
        axes=tuple(given["axes"]),
        draws=draws,
        seed=seed,
        overwrite=overwrite,
        say=lambda text: typer.echo(text, err=True),
    )
    typer.echo(str(done))
    typer.echo(f"results in {done.folder}; read what is left with --layer {done.folder / 'layer'}", err=True)


def _catalogue() -> str:
    from dataclasses import fields

    from equipoise.filters import FILTERS

    lines = []
    for entry in FILTERS:
        step = entry.load()
        lines.append(f"{entry.name}: {entry.summary}")
        lines.append(f"  from {entry.citation}")
        if step.presets:
            lines.append(f"  presets: {', '.join(step.presets)}")
        lines.append(f"  settings: {', '.join(f.name for f in fields(step))}")
    return "\n".join(lines)
