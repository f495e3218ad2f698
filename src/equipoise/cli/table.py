"""``equipoise table``: look at tables, check them, make them from datasets, and give them to other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equipoise.cli.making import (
    OUT,
    OUT_OPTION,
    numbers_from_text,
    one_axis,
    one_out,
    only_some,
    opened,
    options_from_text,
    pair_from_text,
    size_told,
)
from equipoise.cli.mixing import LAYERS, combine, join, print_columns
from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.data import Table, TableDiff
    from equipoise.data.summary import TableSummary

app = typer.Typer(
    no_args_is_help=True,
    help="Tables of images: what is in them, whether they are intact, and how to make, share and compare them.",
)

app.command()(join)
app.command()(combine)

TABLE = typer.Argument(..., metavar="TABLE", help="The table's folder.")


@app.command()
def info(table: str = TABLE, layers: list[str] = LAYERS) -> None:
    """Say what a table holds: counts by axis and group, size, layers, errors, fingerprint.

    Example: [bold]equipoise table info people --layer all[/bold]
    """
    from equipoise.data.summary import summarise

    _print_summary(summarise(opened(table, layers)))


@app.command()
def validate(
    table: str = TABLE,
    layers: list[str] = LAYERS,
    quick: bool = typer.Option(False, "--quick", help="Only files, columns and counts; no hashes, no keys."),
    decode: bool = typer.Option(False, "--decode", help="Also decode every image."),
) -> None:
    """Check a table, and the layers beside it, against what they say of themselves; exit code 1 if anything is wrong.

    Example: [bold]equipoise table validate people --decode[/bold]
    """
    from equipoise.data.validation import problems

    n_problems = 0
    for problem in problems(opened(table, layers or ["all"]), deep=not quick, decode=decode):
        typer.echo(problem)
        n_problems += 1
    typer.echo(f"problems in {table}: {n_problems}" if n_problems else f"{table} is in order")
    if n_problems:
        raise typer.Exit(1)


@app.command()
def head(
    table: str = TABLE,
    n: int = typer.Option(5, "-n", help="How many rows."),
    columns: str | None = typer.Option(
        None, "--columns", "-c", help="Names separated by commas; without it, all that hold something."
    ),
    layers: list[str] = LAYERS,
) -> None:
    """Show the first rows; images by their size, never by their bytes.

    Example: [bold]equipoise table head people -n 3 -c image_id,gender,caption[/bold]
    """
    from equipoise.data.summary import first_rows

    names = [name.strip() for name in columns.split(",")] if columns else None
    rows = first_rows(opened(table, layers), n, names)
    if not rows:
        typer.echo("the table has no rows")
    elif columns or len(rows[0]) <= 6:
        print_columns([list(rows[0]), *(list(row.values()) for row in rows)])
    else:
        for row in rows:
            print_columns([[name, text] for name, text in row.items()])
            typer.echo("")


@app.command()
def readers(
    name: str | None = typer.Argument(None, metavar="[NAME]", help="One reader; without it, all are listed."),
) -> None:
    """List the datasets that can be imported; with NAME, the options of that reader, its columns and its harms.

    Example: [bold]equipoise table readers coco[/bold]
    """
    from equipoise.data.readers import READERS, about

    if name is None:
        print_columns([[entry.name, f"{entry.summary} [{entry.licence}]"] for entry in READERS])
        typer.echo("\nmore about one, with its options: equipoise table readers NAME")
        return
    reader = about(name)
    print_columns([[key, value] for key, value in reader.facts.items()])
    typer.echo("\noptions" if reader.options else "\nno options")
    for option in reader.options:
        typer.echo(f"  {option.name}={option.default}  ({option.kind})")
        if option.text:
            typer.echo(f"      {option.text}")
    typer.echo(f"\nuse it with: equipoise table import {name} PATH OUT" + reader.example)


@app.command("import")
def import_(
    reader: str = typer.Argument(..., metavar="READER", help="What reads it; equipoise table readers lists them."),
    path: str = typer.Argument(..., metavar="PATH", help="The dataset's folder or file."),
    out: str = OUT,
    out_option: str = OUT_OPTION,
    image: str = typer.Option("", "--image", help="The column that holds the images' paths."),
    caption: str = typer.Option("", "--caption", help="The column that holds the captions."),
    subject: str = typer.Option("", "--subject", help="The column that says what is shown, such as an occupation."),
    axis: list[str] = typer.Option(
        [], "--axis", help="A column of groups, or AXIS=COLUMN where the column has another name; repeat for several."
    ),
    bands: list[str] = typer.Option(
        [], "--bands", help="Numbers put into groups, as in age=30,60: under 30, 30 to 59, 60 and over; repeat it."
    ),
    id_column: str = typer.Option("", "--id-column", help="The column that names each image; its path unless given."),
    column: list[str] = typer.Option(
        [], "--column", help="Another column by our name, as in set_id=scene or split=part; repeat for several."
    ),
    images: str = typer.Option("", "--images", help="The folder that paths start from; the file's own unless given."),
    option: list[str] = typer.Option([], "--option", help="key=value; see: equipoise table readers READER."),
    limit: int = only_some("Only the first N rows, to try things out."),
    paths: bool = typer.Option(False, "--paths", help="Store the paths of the images instead of the images."),
    rows_per_shard: int = typer.Option(1000, "--rows-per-shard", help="Rows per file."),
    wait: float = typer.Option(0.0, "--wait", help="Seconds to wait for another process that writes OUT."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an existing table, finished or not."),
) -> None:
    """Make a table of your own images, vectors or scores, or of a public dataset; what cannot be used is reported.

    Run it again after an interruption: it goes on where it stopped. An import in which no row can be used leaves
    nothing behind.

    Examples:

    [bold]equipoise table import csv photos.csv photos --image path --subject job --axis gender=sex --axis age[/bold]

    [bold]equipoise table import coco coco2017 people --option split=val2017[/bold]

    [bold]equipoise table import embeddings vectors.npz vectors[/bold]
    """
    from equipoise.data.importing import import_table
    from equipoise.data.readers import READERS

    named = {"image": image, "caption": caption, "subject": subject, "image_id": id_column}
    given = _columns_given({name: value for name, value in named.items() if value}, column, axis, images)
    given |= {"bands": {text.partition("=")[0]: text.partition("=")[2] for text in bands}} if bands else {}
    place = _one_place(reader, path, out, out_option)
    options = options_from_text(READERS.load(reader), option) | _for_reader(reader, given)
    summary = import_table(
        reader,
        path,
        place,
        store="paths" if paths else "bytes",
        overwrite=overwrite,
        limit=limit,
        rows_per_shard=rows_per_shard,
        wait=wait,
        **options,
    )
    typer.echo(str(summary))
    if summary.n_rejected:
        typer.echo(f"the rejected rows are in {place}/_errors")
    if summary.warning:
        typer.echo(f"note: {summary.warning}", err=True)
    if not summary.n_rows:  # the dataset itself has none
        raise typer.Exit(1)
    if summary.table.kind == "images":
        typer.echo(f"look at it with: equipoise table info {place}")


def _one_place(reader: str, path: str, out: str, option: str) -> str:
    """The folder to write, given as an argument or with ``-o``."""
    from equipoise.data.readers import READERS

    if reader not in READERS and (path in READERS or Path(reader).exists()):
        wanted = f"{path} {reader}" if path in READERS else f"csv {reader}"
        raise InputError(f"{reader!r} is not a reader; the reader comes first: equipoise table import {wanted} OUT")
    if out and not Path(path).exists() and Path(out).is_file():
        raise InputError(
            f"there is nothing at {path!r}, and {out!r} is a file; what is read comes first: equipoise table import "
            f"{reader} {out} {path}"
        )
    return one_out(out, option, f"table import {reader} {path}")


def _columns_given(named: dict[str, str], column: list[str], axis: list[str], images: str) -> dict[str, Any]:
    """What the flags say of columns, as the options of a reader."""
    from equipoise.data.readers.files.mapped import axes_named

    axes = axes_named(axis, "--axis")
    columns = named | dict(pair_from_text(text, "--column") for text in column)
    columns |= {name: theirs for name, theirs in axes.items() if name != theirs}
    given: dict[str, Any] = {"columns": columns} if columns else {}
    given |= {"axes": list(axes)} if axes else {}
    return given | ({"images": images} if images else {})


def _for_reader(reader: str, given: dict[str, Any]) -> dict[str, Any]:
    """The same, if the reader has these options; one that reads a fixed layout knows its columns."""
    from equipoise.data.readers import about

    known = {option.name for option in about(reader).options}
    for name in given:
        if name not in known:
            flag = {"columns": "--image, --caption, --subject, --id-column or --column", "axes": "--axis"}
            raise InputError(
                f"the reader {reader!r} knows which column is which and takes no {flag.get(name, '--' + name)}; leave "
                "it out, or use the reader 'csv' for a list of your own"
            )
    return given


@app.command()
def export(
    kind: str = typer.Argument(..., metavar="KIND", help="What to make; a wrong name lists the known ones."),
    table: str = TABLE,
    out: str = typer.Argument("", metavar="[OUT]", help="The new folder or file; or give it with -o."),
    out_option: str = typer.Option("", "--out", "-o", help="The new folder or file.", show_default=False),
    layers: list[str] = LAYERS,
    option: list[str] = typer.Option([], "--option", help="An option of the export, key=value; repeat it."),
) -> None:
    """Give a table to other tools: folder, huggingface, webdataset, csv, or card (only the dataset card).

    The joined layers become columns, and rows that a filter dropped are left out.

    Example: [bold]equipoise table export folder people people-folder --layer all[/bold]
    """
    from equipoise.data.exports import EXPORTS, export

    options = options_from_text(EXPORTS.load(kind), option)
    place = one_out(out, out_option, f"table export {kind} {table}")
    typer.echo(str(export(kind, opened(table, layers), place, **options)))


@app.command()
def balance(
    table: str = TABLE,
    axis: list[str] = typer.Option(
        ..., "--axis", "-a", help="The axis to balance; repeat it to balance them together. Also a column of lists."
    ),
    method: str = typer.Option("undersample", "--method", help="undersample, gensynth or oversample."),
    seed: int = typer.Option(0, "--seed", help="Which rows are drawn."),
    name: str = typer.Option("balance", "--name", help="The layer's name."),
    layers: list[str] = LAYERS,
) -> None:
    """Choose rows so that every group is shown equally often; written as a layer, no image is copied.

    With a column of lists, every object is shown with all groups equally, as nearly as images of several objects allow.

    Examples:

    [bold]equipoise table balance people --axis gender --method gensynth[/bold]

    [bold]equipoise table balance people --axis objects --axis gender --method oversample[/bold]
    """
    from equipoise.data.sampling import balance_layer

    before = opened(table, layers)
    _refuse_layer_again(before, name)
    after = balance_layer(before, axis, name=name, method=method, seed=seed)
    n_after = sum(int(copies) for batch in after.batches(["copies"], only_kept=True) for copies in batch[0].to_pylist())
    typer.echo(f"{len(before)} rows, {n_after} taken; layer {name!r} of {table}")
    missing = [" and ".join(map(str, group)) for group in after.layers[-1].config.get("missing", [])]
    if missing:
        typer.echo(
            f"note: no row shows {', '.join(missing[:10])}{', ...' if missing[10:] else ''}, so the groups of "
            f"{' and '.join(axis)} are equal together, where there are rows, but not one by one",
            err=True,
        )
    if torn := after.layers[-1].config.get("torn_sets"):
        from equipoise.formatting import plural

        typer.echo(
            f"note: {plural(torn, 'counterfactual set')} lost some images but not all, and some audits count whole "
            "sets only; sets that show every group equally often need no balancing",
            err=True,
        )
    typer.echo(f"use it with: equipoise table export folder {table} OUT --layer {name}")


@app.command()
def split(
    table: str = TABLE,
    by: str = typer.Option("subject", "--by", help="What must not be torn apart: subject, set_id or any column."),
    fractions: str = typer.Option("train=0.8,val=0.1,test=0.1", "--fractions", help="Shares that add up to 1."),
    seed: int = typer.Option(0, "--seed", help="Which units go where."),
    name: str = typer.Option("split", "--name", help="The layer's name."),
    layers: list[str] = LAYERS,
) -> None:
    """Split a table into train, val and test by subject or set, never inside a set; written as a layer.

    Example: [bold]equipoise table split people --by subject --fractions train=0.8,test=0.2[/bold]
    """
    from equipoise.data.sampling import split_layer

    shares = numbers_from_text(fractions, "--fractions")
    before = opened(table, layers)
    _refuse_layer_again(before, name)
    if before.types.get(by) == "string" and set(before.group_counts(by)) == {None}:
        typer.echo(
            f"note: the column {by!r} is empty in every row, so only sets and sources are kept together and all other "
            "rows are dealt out one by one; choose another column with --by",
            err=True,
        )
    dealt = split_layer(before, name=name, by=by, fractions=shares, seed=seed)
    print_columns([[part or "(none)", str(n)] for part, n in dealt.group_counts("split").items()])
    typer.echo(f"layer {name!r} of {table}")


@app.command()
def label(
    table: str = TABLE,
    lexicon: str = typer.Option("equipoise", "--lexicon", help="Whose words name a group: equipoise text lexicons."),
    axis: list[str] = typer.Option([], "--axis", help="The column to write; the lexicon's axis unless given."),
    compat: str = typer.Option("", "--compat", help="A paper's tokens, such as gensynth."),
    name: str = typer.Option("labels", "--name", help="The layer's name."),
    layers: list[str] = LAYERS,
) -> None:
    """Label images by the group that their captions name, if it is one and none names another; written as a layer.

    Example: [bold]equipoise table label coco --lexicon gensynth_code --axis gender[/bold]
    """
    from equipoise.data.labels import label_layer

    before = opened(table, layers)
    _refuse_layer_again(before, name)
    labelled = label_layer(
        before, lexicon, axis=one_axis(axis, "a lexicon labels one axis") or None, name=name, compat=compat or None
    )
    column = labelled.layers[-1].axes[0]
    print_columns([[group or "(undefined)", f"{n}"] for group, n in labelled.group_counts(column).items()])
    typer.echo(f"layer {name!r} of {table}; use it with --layer {name}")


@app.command()
def diff(
    a: str = typer.Argument(..., metavar="A", help="A table's folder."),
    b: str = typer.Argument(..., metavar="B", help="The folder of another table."),
) -> None:
    """Compare two tables row by row: rows only one has, columns that changed; exit code 1 if they differ.

    Example: [bold]equipoise table diff people people-balanced[/bold]
    """
    from equipoise.data import Table, diff

    difference = diff(Table.open(a), Table.open(b))
    _print_diff(difference, a, b)
    if not difference.same:
        raise typer.Exit(1)


def _refuse_layer_again(table: Table, name: str) -> None:
    from equipoise.data.shard_writer import is_finished

    if is_finished(table.path / "_layers" / name):
        raise InputError(
            f"{table.path} has a layer {name!r} already; write another with --name, or delete "
            f"{table.path / '_layers' / name}"
        )


def _print_summary(summary: TableSummary) -> None:
    lines = [
        ["table", summary.path],
        ["kind", summary.kind],
        ["rows", f"{summary.n_rows}"],
        ["files", f"{summary.n_shards}, {size_told(summary.n_bytes, 'bytes')}"],
        ["layers", ", ".join(summary.layers) or "none"],
        ["errors", f"{summary.n_errors}"],
        ["fingerprint", summary.fingerprint],
        ["columns", ", ".join(summary.columns)],
    ]
    if summary.n_kept is not None:
        lines.insert(3, ["kept", f"{summary.n_kept}"])
    print_columns(lines)
    for axis, counts in summary.groups.items():
        typer.echo(f"\n{axis}")
        print_columns([["  " + (group or "(undefined)"), str(n)] for group, n in counts.items()])
    if summary.reasons:
        typer.echo("\nwhy rows failed")
        print_columns([[f"  {n}", reason] for reason, n in summary.reasons.items()])


def _print_diff(difference: TableDiff, a: str, b: str) -> None:
    if difference.same:
        typer.echo(f"the same {difference.n_a} rows")
        return
    for name, n, some in ((a, difference.n_only_a, difference.only_a), (b, difference.n_only_b, difference.only_b)):
        if n:
            typer.echo(f"only in {name}: {n}: {', '.join(some)}{', ...' if n > len(some) else ''}")
    for name, columns in ((a, difference.columns_only_a), (b, difference.columns_only_b)):
        if columns:
            typer.echo(f"columns only in {name}: {', '.join(columns)}")
    print_columns(
        [[f"{column} changed: {n}", difference.examples.get(column, "")] for column, n in difference.changed.items()]
    )
