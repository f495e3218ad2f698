"""``equipoise text captions``: write counterfactual caption sets, edit instructions and binding captions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from equipoise.text.templates.tables import CaptionTable


def captions(
    preset: str = typer.Option("", "--preset", "-p", help="A named preset; --list shows them."),
    axes: Path | None = typer.Option(None, "--axes", help="A TOML file with axes of your own, instead of a preset."),
    prefix: list[str] = typer.Option(
        [], "--prefix", help="A prefix, such as 'A photo of'; 'A/An' for none. Repeat for several."
    ),
    subject: list[str] = typer.Option([], "--subject", help="A subject, such as 'doctor'. Repeat for several."),
    subjects: Path | None = typer.Option(None, "--subjects", help="A text file with one subject a line."),
    order: str = typer.Option("", "--order", help="The word order, such as 'gender,race,subject'."),
    format: str = typer.Option(
        "", "--format", "-f", help="csv, jsonl or lines; by default what the output's name says, else csv."
    ),
    out: str = typer.Option("-", "--out", "-o", help="Where to write; - is standard output."),
    list_presets: bool = typer.Option(False, "--list", help="Show the presets and where they come from."),
) -> None:
    """Write captions that say the same thing of different groups of people.

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
    from equipoise.text.templates import tables
    from equipoise.text.whole_files import opened

    if list_presets:
        for note in tables.preset_notes():
            typer.echo(f"{note.name}\n    {note.summary}\n    {note.citation}")
        return
    words = {
        "subjects": [*subject, *_subjects_in(subjects)],
        "prefixes": prefix,
        "order": [name.strip() for name in order.split(",") if name.strip()],
    }
    table = _table(preset, axes, words)
    form = format or tables.format_of(None if out == "-" else out)
    if out == "-":
        tally = tables.write(table, form, sys.stdout)
        sys.stdout.flush()
    else:
        with opened(out) as file:
            tally = tables.write(table, form, file)
    typer.echo(str(tally), err=True)


def _table(preset: str, axes: Path | None, words: dict[str, list[str]]) -> CaptionTable:
    from equipoise.errors import InputError
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
    found, twins = read_subjects(path)
    if twins:
        typer.echo(f"{path}: {len(twins)} subjects given twice are used once: {', '.join(twins[:5])}", err=True)
    return found
