"""``equipoise world``: pictures of signs with a bias that was put in on purpose, and is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from equipoise.cli.making import OUT, OUT_OPTION, OVERWRITE, listed, one_out
from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.world import WorldConfig

app = typer.Typer(
    no_args_is_help=True,
    help="Render the pictogram world: scenes with captions, masks and labels in which every correlation is known. "
    "These are signs, not people, and they say nothing about anyone.",
)

PRESET = typer.Option(
    "fair", "--preset", "-p", help="fair, biased, spurious, imbalanced, strong, binding or background."
)
CONFIG = typer.Option(None, "--config", "-c", help="A TOML file with settings of your own, instead of a preset.")
SIZE = typer.Option(64, "--size", help="Pixels per side, 16 to 2048.")
AXES = "gender,skin_tone"
PLACEBOS = "Changes that nobody calls a group, separated by commas: bag, mirror, brightness."
SEED = typer.Option(0, "--seed", help="The same seed gives the same pictures.")


@app.command()
def render(
    out: str = OUT,
    out_option: str = OUT_OPTION,
    preset: str = PRESET,
    config: Path | None = CONFIG,
    n: int = typer.Option(
        1000,
        "-n",
        help="How many pictures. With --counterfactual, --binding and --visogender: whole sets, as many of every "
        "subject as fit, and at least one; so there may be fewer or more. Each placebo adds as many again.",
    ),
    size: int = SIZE,
    seed: int = SEED,
    counterfactual: bool = typer.Option(False, "--counterfactual", help="Sets that differ only in the person."),
    axes: str | None = typer.Option(
        None,
        "--axes",
        help="What the sets of --counterfactual vary, separated by commas.",
        show_default=AXES,
    ),
    placebo: str | None = typer.Option(
        None,
        "--placebo",
        help=f"{PLACEBOS} The sets of --counterfactual hold their pictures again with each of them changed, "
        "one at a time.",
    ),
    binding: bool = typer.Option(False, "--binding", help="Who does what: the cells E1, E2, U1, U2."),
    visogender: bool = typer.Option(
        False, "--visogender", help="People at work beside a thing or beside somebody, for the suite visogender."
    ),
    pata: bool = typer.Option(
        False, "--pata", help="Pictures by place, with captions of praise and of blame, for the suite pata."
    ),
) -> None:
    """Write a table of pictures with captions, boxes, masks, labels and the injected truth.

    Example: [bold]equipoise world render runs/biased --preset biased -n 5000[/bold]
    """
    from tqdm import tqdm

    from equipoise import world
    from equipoise.world.catalog import ACTIVITIES, OCCUPATIONS

    kinds = {"counterfactual": counterfactual, "binding": binding, "visogender": visogender, "pata": pata}
    asked = [f"--{name}" for name, wanted in kinds.items() if wanted]
    if len(asked) > 1:
        raise InputError(f"{asked[0]} and {asked[1]} are two kinds of table; choose one")
    if axes is not None and not counterfactual:
        raise InputError(f"--axes {axes} says what counterfactual sets vary; add --counterfactual, or leave it out")
    if placebo is not None and not counterfactual:
        raise InputError(
            f"--placebo {placebo} says what counterfactual sets change besides; add --counterfactual, or leave it out"
        )
    if n < 1:
        raise InputError(f"-n {n}: a table needs at least one picture")
    place = Path(one_out(out, out_option, "world render"))
    settings = _config(preset, config)
    placebos = [] if placebo is None else _placebos(placebo)
    with tqdm(unit="img", disable=None) as bar:
        if binding:
            n_sets = max(1, n // (4 * len(ACTIVITIES)))
            table = world.write_binding_table(place, settings, n_sets, size=size, seed=seed, progress=bar.update)
        elif visogender:
            n_sets = max(1, n // (6 * len(OCCUPATIONS)))
            table = world.write_visogender_table(place, settings, n_sets, size=size, seed=seed, progress=bar.update)
        elif pata:
            table = world.write_pata_table(place, settings, n, size=size, seed=seed, progress=bar.update)
        elif counterfactual:
            varied = listed(AXES if axes is None else axes)
            members = math.prod(len(settings.groups(axis)) for axis in varied)
            n_sets = max(1, n // (members * len(OCCUPATIONS)))
            table = world.write_counterfactual_table(
                place, settings, n_sets, axes=varied, placebos=placebos, size=size, seed=seed, progress=bar.update
            )
        else:
            table = world.write_table(place, settings, n, size=size, seed=seed, progress=bar.update)
    typer.echo(f"{len(table):,} pictures of the world {settings.name!r} at {size} px in {place}")
    for axis in table.axes:
        counts = ", ".join(f"{group} {count:,}" for group, count in table.group_counts(axis).items())
        typer.echo(f"  {axis:10} {counts}")
    for name in placebos:
        changed = world.PLACEBOS[name][1]
        typer.echo(f"  placebo {name}: {len(table) // (1 + len(placebos)):,} of the pictures, {changed}")


@app.command()
def preview(
    out: str = typer.Argument("", metavar="[OUT.png]", help="The image file to write; or give it with -o."),
    out_option: str = typer.Option("", "--out", "-o", help="The image file to write.", show_default=False),
    preset: str = PRESET,
    config: Path | None = CONFIG,
    size: int = SIZE,
    seed: int = SEED,
    zoom: int = typer.Option(1, "--zoom", min=1, max=8, help="How many times each picture is enlarged."),
    sampled: int = typer.Option(0, "--sample", min=0, help="Show this many sampled pictures instead of the catalogue."),
    placebo: str | None = typer.Option(
        None, "--placebo", help=f"Show one counterfactual set with placebos instead. {PLACEBOS}"
    ),
    overwrite: bool = OVERWRITE,
) -> None:
    """Draw one sheet of everything the world shows, of a sample, or of one set with placebos.

    Example: [bold]equipoise world preview world.png --preset fair[/bold]
    """
    from io import BytesIO

    from equipoise import world
    from equipoise.data.atomic import write_whole
    from equipoise.data.runs import file_to_write

    place = Path(one_out(out, out_option, "world preview"))
    if place.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp"):
        raise InputError(f"{place}: name a .png, .jpg or .webp file")
    if sampled and placebo is not None:
        raise InputError("--sample and --placebo are two kinds of sheet; choose one")
    settings = _config(preset, config)
    if placebo is not None:
        sheet = world.set_sheet(settings, _placebos(placebo), size=size, zoom=zoom, seed=seed)
    elif sampled:
        tiles = [("", scene) for scene in world.sample(settings, sampled, seed)]
        sheet = world.contact_sheet(tiles, size=size, zoom=zoom, columns=max(1, round(sampled**0.5 * 1.15)))
    else:
        sheet = world.catalogue(settings, size=size, zoom=zoom, seed=seed)
    place.parent.mkdir(parents=True, exist_ok=True)
    drawn = BytesIO()
    sheet.save(drawn, format={".jpg": "jpeg"}.get(place.suffix.lower(), place.suffix[1:].lower()))
    with file_to_write(place, overwrite=overwrite):
        write_whole(place, drawn.getvalue())
    typer.echo(f"wrote {place} ({sheet.width} x {sheet.height})")


def _placebos(text: str) -> list[str]:
    from equipoise.world.placebos import PLACEBOS, checked_placebos

    placebos = list(checked_placebos(listed(text)))
    if not placebos:
        raise InputError(f"--placebo {text}: name at least one of {', '.join(PLACEBOS)}")
    return placebos


def _config(preset: str, config: Path | None) -> WorldConfig:
    from equipoise import world

    return world.load(config) if config is not None else world.preset(preset)
