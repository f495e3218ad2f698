"""``equipoise text captions``: write counterfactual caption sets, edit instructions and binding captions.

``equipoise text``: whom captions speak of, and the same in other words.
"""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equipoise.cli.making import OVERWRITE, listed
from equipoise.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from equipoise.text.caption_files import Summary
    from equipoise.text.lexicon import Lexicon
    from equipoise.text.templates.tables import CaptionTable


app = typer.Typer(
    no_args_is_help=True,
    help="Who do captions say is in the picture? Label them, say the same about nobody in particular, "
    "or about someone else.",
)

SOURCE = typer.Argument(
    ..., metavar="FILE", help="Captions: .txt (one per line), .jsonl, .csv, .tsv, COCO .json, or - ."
)
OUT = typer.Option("-", "--out", "-o", help="Where to write; the same kind of file. - is standard output.")
LEXICON = typer.Option("equipoise", "--lexicon", "-l", help="A lexicon's id, or a TOML file of your own.")
COMPAT = typer.Option(None, "--compat", help="Reproduce published code: gensynth, lic or dba.")
FORMAT = typer.Option(None, "--format", help="lines, jsonl, csv, tsv or coco; taken from the file's name unless given.")
_LOOKED_AT = 20_000
"""Captions in which words are sought that still tell a group."""
_LOOKED_AT_FOR_LANGUAGE = 500
COLUMN = typer.Option(
    "caption", "--caption-column", "--column", help="The JSON field or CSV column that holds the caption."
)


@app.command()
def label(
    source: str = SOURCE,
    out: str = OUT,
    lexicon: str = LEXICON,
    compat: str | None = COMPAT,
    format: str | None = FORMAT,
    column: str = COLUMN,
    overwrite: bool = OVERWRITE,
) -> None:
    """Say which group each caption speaks of (none or several: left empty).

    In COCO files each image is labelled too, from all its captions together.

    Example: [bold]equipoise text label captions_val2017.json -o labelled.json[/bold]
    """
    words = _load(lexicon)

    def work(records: list[list[str]]) -> list[Any]:
        return words.label_images(records, compat=compat)

    _run(source, out, words, work, format, column, overwrite, label=words.axis)


@app.command()
def neutralise(
    source: str = SOURCE,
    out: str = OUT,
    agree: bool = typer.Option(False, "--agree", help="Make the verb follow: 'she is' -> 'they are'."),
    lexicon: str = LEXICON,
    compat: str | None = COMPAT,
    format: str | None = FORMAT,
    column: str = COLUMN,
    overwrite: bool = OVERWRITE,
) -> None:
    """Say the same without saying who it is.

    Example: [bold]echo "She is an actress." | equipoise text neutralise --agree -[/bold]
    prints "They are a performer."
    """
    words = _load(lexicon)
    seen: list[tuple[str, str | None]] = []

    def work(texts: list[str]) -> list[str]:
        done = words.neutralise_all(texts, agree=agree, compat=compat)
        if words.language != "en" and len(seen) < _LOOKED_AT:
            seen.extend(zip(done, words.label_all(texts), strict=True))
        return done

    _run(source, out, words, _flat(work), format, column, overwrite)
    still = words.still_told([text for text, _ in seen], [group for _, group in seen])
    for note in filter(None, (words.warning, still)):
        typer.echo(f"note: {note}", err=True)


@app.command()
def swap(
    source: str = SOURCE,
    out: str = OUT,
    to: str | None = typer.Option(None, "--to", help="The group to speak of; without it, two groups are exchanged."),
    lexicon: str = LEXICON,
    compat: str | None = COMPAT,
    format: str | None = FORMAT,
    column: str = COLUMN,
    overwrite: bool = OVERWRITE,
) -> None:
    """Say the same about someone else.

    Example: [bold]equipoise text swap captions.csv --to female -o swapped.csv[/bold]
    """
    words = _load(lexicon)
    _run(source, out, words, _flat(lambda t: words.swap_all(t, to, compat=compat)), format, column, overwrite)


@app.command()
def mask(
    source: str = SOURCE,
    out: str = OUT,
    token: str | None = typer.Option(None, "--token", help="What to write instead; <axis> unless given."),
    lexicon: str = LEXICON,
    compat: str | None = COMPAT,
    format: str | None = FORMAT,
    column: str = COLUMN,
    overwrite: bool = OVERWRITE,
) -> None:
    """Hide the words that say who it is.

    Example: [bold]equipoise text mask captions.jsonl --lexicon lic --compat lic -o masked.jsonl[/bold]
    """
    words = _load(lexicon)
    _run(source, out, words, _flat(lambda t: words.mask_all(t, token, compat=compat)), format, column, overwrite)


@app.command()
def lexicons() -> None:
    """List the lexicons by name, with their groups, size and source.

    Example: [bold]equipoise text lexicons[/bold]
    """
    from equipoise.text import LEXICONS

    for entry in LEXICONS:
        words = _load(entry.name)
        typer.echo(f"{entry.name:16} {words.axis:8} {len(words.words()):4} words  {', '.join(words.groups)}")
        typer.echo(f"{'':16} {entry.summary} {entry.citation}.")


def _load(lexicon: str) -> Lexicon:
    from equipoise.text import Lexicon

    return Lexicon.load(lexicon)


def _flat(work: Callable[[list[str]], list[str]]) -> Callable[[list[list[str]]], list[Any]]:
    """Apply ``work`` to the texts of all records in one go and give each record its own back."""

    def on_records(records: list[list[str]]) -> list[Any]:
        done = iter(work([text for texts in records for text in texts]))
        return [[next(done) for _ in texts] for texts in records]

    return on_records


def _run(
    source: str,
    out: str,
    words: Lexicon,
    work: Callable[[list[list[str]]], list[Any]],
    format: str | None,
    column: str,
    overwrite: bool,
    label: str | None = None,
) -> None:
    from tqdm import tqdm

    from equipoise.text.caption_files import Operation, process

    seen: list[str] = []

    def watched(records: list[list[str]]) -> list[Any]:
        if len(seen) < _LOOKED_AT_FOR_LANGUAGE:
            seen.extend(text for texts in records for text in texts)
        return work(records)

    size = os.path.getsize(source) if source != "-" and os.path.isfile(source) else 0
    # A bar only where someone watches and the work is long enough to wait for.
    hidden = not sys.stderr.isatty() or 0 < size < 20_000_000
    with (
        _output(out, overwrite),
        tqdm(total=size or None, unit="B", unit_scale=True, desc="captions", disable=hidden) as bar,
    ):
        operation = Operation(watched, label)
        summary = process(source, out, operation, format=format, column=column, on_progress=bar.update)
    _tell(summary, words, out)
    if unfit := words.unfit_for(seen):
        typer.echo(f"note: {unfit}", err=True)


def _output(out: str, overwrite: bool) -> AbstractContextManager[Any]:
    """The file to write, which may not be there yet; nothing for standard output."""
    from equipoise.data.runs import file_to_write

    return nullcontext() if out == "-" else file_to_write(out, overwrite=overwrite)


def _tell(summary: Summary, words: Lexicon, out: str) -> None:
    from equipoise.formatting import plural

    captions = plural(summary.captions, "caption")
    lines = [f"{captions} read with lexicon {words.id!r}" + ("" if out == "-" else f", wrote {out}")]
    if summary.groups:
        if summary.unit != "captions":
            lines.append(f"  of {summary.records:,} {summary.unit}, each by all its captions:")
        for group in (*words.groups, None):
            n = summary.groups[group]
            name = group if group is not None else "undefined"
            lines.append(f"  {name:14} {n:>10,}  {n / summary.records:6.1%}")
        if summary.replaced:
            others = plural(summary.replaced, "other label")
            lines.append(f"note: the file had {others}, replaced in the output by what the words say")
    else:
        lines.append(f"  {summary.changed:,} changed ({summary.changed / summary.captions:.1%})")
        lines += [f"  {old}\n    -> {new}" for old, new in summary.examples]
    typer.echo("\n".join(lines), err=True)


@app.command()
def captions(
    preset: str = typer.Option("", "--preset", "-p", help="A named preset; --list shows them."),
    axes: Path | None = typer.Option(None, "--axes", help="A TOML file with axes of your own, instead of a preset."),
    prefix: list[str] = typer.Option(
        [], "--prefix", help="A prefix, such as 'A photo of'; 'A/An' for none. Repeat for several."
    ),
    subject: list[str] = typer.Option([], "--subject", help="A subject, such as 'doctor'. Repeat for several."),
    subjects: Path | None = typer.Option(None, "--subjects", help="A text file with one subject per line."),
    order: str = typer.Option("", "--order", help="The word order, such as 'gender,race,subject'."),
    format: str = typer.Option(
        "", "--format", "-f", help="csv, jsonl or lines; by default what the output's name says, else csv."
    ),
    out: str = typer.Option("-", "--out", "-o", help="Where to write; - is standard output."),
    overwrite: bool = OVERWRITE,
    list_presets: bool = typer.Option(False, "--list", help="Show the presets and where they come from."),
) -> None:
    """Write captions that say the same thing about different groups of people.

    Every set has one subject (an occupation), one prefix, all combinations of the groups, and a neutral prompt
    that names none. Articles agree: "an Asian female doctor", "a university student".

    [bold]Example[/bold]

    \b
    $ equipoise text captions -p race-gender --subject doctor -f lines
    A White male doctor
    A White female doctor
    ...
    4 sets, 48 captions
      race: White 8, Black 8, Indian 8, Asian 8, Middle Eastern 8, Latino 8
      gender: male 24, female 24

    All 54,080 captions of SocialCounterfactuals' three segments, as a table:

    \b
    $ equipoise text captions -p socialcounterfactuals -o captions.csv

    Axes of your own come in a TOML file, and words in any order:

    \b
    $ cat mine.toml
    subjects = ["chef", "umpire"]
    \\[axes]
    age = {young = "young", old = "elderly"}
    gender = ["male", "female"]
    $ equipoise text captions --axes mine.toml --order gender,age,subject

    Each preset's file has a note on the harm its words can do.
    """
    from equipoise.text.caption_files import opened
    from equipoise.text.templates import tables

    if list_presets:
        for note in tables.preset_notes():
            typer.echo(f"{note.name}\n    {note.summary}\n    {note.citation}")
        return
    words = {
        "subjects": [*subject, *_subjects_in(subjects)],
        "prefixes": prefix,
        "order": listed(order),
    }
    table = _table(preset, axes, words)
    form = format or tables.format_of(None if out == "-" else out)
    if out == "-":
        tally = tables.write(table, form, sys.stdout)
        sys.stdout.flush()
    else:
        with _output(out, overwrite), opened(out) as file:
            tally = tables.write(table, form, file)
    typer.echo(str(tally), err=True)


@app.command()
def activities(
    candidates: Path | None = typer.Argument(None, help="A text file with one activity per line: riding a horse."),
    mine: Path | None = typer.Option(None, "--mine", help="Captions (COCO JSON) to mine lopsided activities from."),
    filler: str = typer.Option("mini:text", "--filler", "-f", help="A masked language model, as hf:roberta-large."),
    tail: int = typer.Option(0, "--tail", min=0, help="Keep this many from each end; all unless given."),
    z: float = typer.Option(1.96, "--z", help="How far from the mean a mined activity must lie."),
    min_count: int = typer.Option(5, "--min-count", min=1, help="How often a mined activity must occur."),
    lexicon: str = LEXICON,
    out: str = typer.Option("-", "--out", "-o", help="A CSV file; - is standard output."),
    overwrite: bool = OVERWRITE,
) -> None:
    """Choose activities that a masked language model expects of one gender, as GABInsight does.

    Candidates come from a file, or are mined from captions by a Z-test on verb-object pairs, or both. Each is asked for
    as "a <mask> is riding a horse"; the log ratio is of the probabilities of man, boy, male and woman, girl, female.

    Example: [bold]equipoise text activities --mine captions_val2017.json --filler hf:roberta-large --tail 20[/bold]
    """
    from equipoise.audit.dataset.activities import mined_activities, read_candidates, selected_activities
    from equipoise.audit.running import caption_frame
    from equipoise.data.atomic import write_whole
    from equipoise.formatting import csv_text
    from equipoise.models import load

    named = [] if candidates is None else read_candidates(candidates)
    if mine is not None:
        texts = caption_frame(mine)["caption"].tolist()
        named += mined_activities(texts, lexicon, z=z, min_count=min_count)
    if mine is not None and not named:
        raise InputError(f"{mine}: no activity leans far enough and occurs often enough; lower --z or --min-count")
    if not named:
        raise InputError("give a file of activities, or captions to mine them from with --mine")
    table = selected_activities(list(dict.fromkeys(named)), load(filler, kind="filler"), tail=tail)
    content = csv_text(table, float_format="%.4f")
    if out == "-":
        sys.stdout.write(content)
        sys.stdout.flush()
    else:
        with _output(out, overwrite):
            write_whole(Path(out), content.encode())
    typer.echo(f"{len(named):,} candidates, {len(table):,} activities", err=True)


def _table(preset: str, axes: Path | None, words: dict[str, list[str]]) -> CaptionTable:
    from equipoise.text.templates import captions_from_file, tables

    if bool(preset) == (axes is not None):
        raise InputError("give either --preset NAME (--list shows them) or --axes FILE.toml")
    if axes is not None:
        return tables.caption_table(captions_from_file(axes).having(**words))
    return tables.preset_table(preset, **words)


def _subjects_in(path: Path | None) -> list[str]:
    from equipoise.text.templates.files import read_subjects

    if path is None:
        return []
    subjects, twins = read_subjects(path)
    if twins:
        typer.echo(f"{path}: {len(twins)} subjects given twice are used once: {', '.join(twins[:5])}", err=True)
    return subjects
