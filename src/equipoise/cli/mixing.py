"""``equipoise table join`` and ``combine``: new tables out of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

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

    A layer is joined to the tables that have it.

    Example: [bold]equipoise table join photos edits -o both --layer labels[/bold]
    """
    from equipoise.data.mixing import join_tables

    opened = [_with_some(path, layers) for path in tables]
    _refuse_unknown(opened, layers)
    made = join_tables(opened, out)
    typer.echo(f"{out}: rows {len(made)}, axes {', '.join(made.axes) or 'none'}")


def combine(
    real: str = typer.Argument(..., metavar="REAL", help="The table of photographs."),
    made: str = typer.Argument(..., metavar="MADE", help="The table made from them, one image per group."),
    axis: list[str] = typer.Option(..., "--axis", "-a", help="The axis that was changed; repeat it for several."),
    mode: str = typer.Option(
        "augment", "--mode", help="synthetic: made images alone; augment: photographs and made ones of other groups."
    ),
    out: str = typer.Option(..., "--out", "-o", help="The folder of the new table."),
    layers: list[str] = LAYERS,
) -> None:
    """Make a training set of photographs and of images made from them, as text-guided inpainting does.

    Rows that a filter dropped stay out, if its layer is joined.

    Example: [bold]equipoise table combine photos inpainted --axis gender --mode synthetic -o balanced[/bold]
    """
    from equipoise.data import mixing
    from equipoise.errors import InputError

    photographs, inpainted = _with_some(real, layers), _with_some(made, layers)
    _refuse_unknown([photographs, inpainted], layers)
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


def _with_some(path: str, layers: list[str]) -> Table:
    """A table with those of ``layers`` that it has."""
    from equipoise.data import Table

    whole = Table.open(path)
    return whole.with_layers("all" if layers == ["all"] else [n for n in layers if n in whole.layer_names()])


def _refuse_unknown(tables: list[Table], layers: list[str]) -> None:
    """Refuse a layer that no table has."""
    from equipoise.errors import InputError

    for name in layers:
        if name != "all" and not any(name in table.layer_names() for table in tables):
            raise InputError(f"none of the tables has a layer {name!r}; leave out --layer {name}")


def print_columns(lines: list[list[str]]) -> None:
    """Print cells under each other."""
    lines = [[shown(text) for text in line] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))] if lines else []
    for line in lines:
        typer.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
