"""``equipoise table join`` and ``combine``: new tables out of several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from equipoise.errors import InputError
from equipoise.formatting import shown

if TYPE_CHECKING:
    from equipoise.data import Table

LAYERS = typer.Option([], "--layer", "-l", help="A layer to join, by name or path; repeat it, or say all.")


def join(
    tables: list[str] = typer.Argument(..., metavar="TABLES...", help="Two tables of images or more."),
    out: str = typer.Option(..., "--out", "-o", help="The folder of the new table."),
    layers: list[str] = LAYERS,
) -> None:
    """Put the rows of several tables into one: edits with their sources, or several pools; equal ids are refused.

    A layer is joined to the tables that have it, and one given by its path to the table that it was made for: rows
    that a filter dropped are left out.

    Examples:

    [bold]equipoise table join photos edits -o both --layer labels[/bold]

    [bold]equipoise table join photos edits -o both --layer labels --layer edits-checked/layer[/bold]
    """
    from equipoise.data.layers import unread_axes
    from equipoise.data.mixing import join_tables

    opened = _with_layers(tables, layers)
    joined = join_tables(opened, out)
    for path, table in zip(tables, opened, strict=True):
        for axis, name in unread_axes(table).items():
            typer.echo(
                f"note: {path} has a layer {name!r} with {axis} that was not joined; add --layer {name}", err=True
            )
    typer.echo(f"{out}: rows {len(joined)}, axes {', '.join(joined.axes) or 'none'}")


def combine(
    real: str = typer.Argument(..., metavar="REAL", help="The table of photographs."),
    made: str = typer.Argument(..., metavar="MADE", help="The table made from them, one image per group."),
    axis: list[str] = typer.Option(..., "--axis", "-a", help="The axis that was changed; repeat it for several."),
    mode: str = typer.Option(
        "augment", "--mode", help="synthetic: made images only; augment: photographs and made ones of other groups."
    ),
    out: str = typer.Option(..., "--out", "-o", help="The folder of the new table."),
    layers: list[str] = LAYERS,
) -> None:
    """Make a training set of photographs and of images made from them, as text-guided inpainting does.

    Rows that a filter dropped stay out, if its layer is joined.

    Example: [bold]equipoise table combine photos inpainted --axis gender --mode synthetic -o balanced[/bold]
    """
    from equipoise.data import mixing

    photographs, inpainted = _with_layers([real, made], layers)
    if "source_id" not in inpainted.columns:
        raise InputError(f"{made}: no column 'source_id', which says what each image was made from")
    whole = photographs.to_pandas(["image_id", *axis], only_kept="keep" in photographs.columns)
    parts = inpainted.to_pandas(["image_id", "source_id", *axis], only_kept="keep" in inpainted.columns)
    chosen = mixing.combine(whole, parts, axis, mode=mode)
    written = mixing.write_mixture(photographs, inpainted, chosen, out)
    typer.echo(f"{out}: {len(chosen.real)} photographs and {len(chosen.generated)} made images, {len(written)} rows")
    for name in axis:
        print_columns([["  " + (group or "(undefined)"), str(n)] for group, n in written.group_counts(name).items()])
    for some, what in ((chosen.incomplete, "lack an image of some group"), (chosen.unlabelled, "have no label")):
        if some:
            typer.echo(f"note: {len(some)} photographs {what}, such as {some[0]}", err=True)


def _with_layers(paths: list[str], layers: list[str]) -> list[Table]:
    """The tables, each with those of ``layers`` that it has beside it or that were made for it; others are refused."""
    from equipoise.data import Table
    from equipoise.data.manifest import MANIFEST

    whole = [Table.open(path) for path in paths]
    joined: list[list[str | Table]] = [[] for _ in whole]
    for name in layers:
        beside = [table.layer_names() for table in whole]
        if name == "all":
            chosen: list[list[str | Table]] = [list(names) for names in beside]
        elif "/" not in name and any(name in names for names in beside):
            chosen = [[name] if name in names else [] for names in beside]
        elif "/" in name or (Path(name) / MANIFEST).is_file():
            layer = Table.open(name)
            chosen = [[layer] if table.fingerprint in layer.parents[:1] else [] for table in whole]
            if not any(chosen):
                raise InputError(
                    f"the layer {name} was made for none of {', '.join(paths)}; give the table that was filtered, or "
                    "make the layer again for one of these"
                )
        else:
            filtered = (Path(name) / "layer" / MANIFEST).is_file()
            how = f"type --layer {name}/layer, the filter's own" if filtered else f"leave out --layer {name}"
            raise InputError(f"none of the tables has a layer {name!r}; {how}")
        for mine, more in zip(joined, chosen, strict=True):
            mine += [entry for entry in more if entry not in mine]
    return [table.with_layers(mine) for table, mine in zip(whole, joined, strict=True)]


def print_columns(lines: list[list[str]]) -> None:
    """Print cells under each other."""
    lines = [[shown(text) for text in line] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))] if lines else []
    for line in lines:
        typer.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
