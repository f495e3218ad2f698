"""VisoGender (Hall et al., NeurIPS 2023): occupations with a participant or an object, perceived gender of each.

Files: ``OP_Visogender_*.tsv`` (occupation and participant) and ``OO_Visogender_*.tsv`` (occupation and object), tab
separated. Columns used: ``IDX``, ``Sector``, ``Specialisation``, ``Occupation``, ``Participant`` or ``Object``,
``URL type (Type NA if can't find)``, ``Occupation_perceived_gender`` (masculine, feminine; ``Occupation_Gender``
with man, woman in older files), ``Participant_perceived_gender`` (``Participant_Gender``), as in the public
repository from 2023 to 2025. The licence columns differ between versions and are not read. ``gender`` is that of the
person with the occupation.

The images are web addresses, and many are dead: fetch them yourself and name each after its ``IDX``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from equipoise.data.readers.files import existing, text_lines
from equipoise.data.readers.files.records import csv_rows
from equipoise.data.readers.files.values import GivenIds, Pictures, RowError, address, group, optional_text, row, text
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

GROUPS = ("feminine", "man", "masculine", "woman")
_OWN_GENDER = ("Occupation_perceived_gender", "Occupation_Gender")
_OTHER_GENDER = ("Participant_perceived_gender", "Participant_Gender")


def read(path: str | os.PathLike[str], *, images: str | os.PathLike[str] | None = None) -> Iterator[Row | Rejected]:
    """One row per image; ``subject`` is the occupation, ``other`` the participant or object beside it.

    ``path``: a file, or a folder (searched below for TSV files of this form). ``images``: a folder with
    ``<IDX>.jpg`` (or another image suffix); without it the rows have an address and no image.
    """
    start = existing(path)
    files = [start] if start.is_file() else [f for f in sorted(start.rglob("*.tsv")) if "IDX" in _columns(f)]
    if not files:
        raise InputError(f"{start} has no TSV file with a column 'IDX'; give VisoGender's data folder")
    pictures = Pictures.at(images)
    seen = GivenIds()
    for file in files:
        columns = _columns(file)
        url = next((name for name in columns if name.startswith("URL")), None)
        own = next((name for name in _OWN_GENDER if name in columns), None)
        if url is None or own is None:
            shown = ", ".join(columns)[:200].encode("utf-8", "replace").decode()
            raise InputError(f"{file} is not a VisoGender file; its columns are: {shown}")
        yield from csv_rows(file, ("IDX", "Occupation"), _row, url, own, pictures, delimiter="\t", seen=seen)


def _columns(file: Path) -> list[str]:
    first = next(text_lines(file), (0, ""))[1]
    return [] if isinstance(first, Rejected) else [name.strip() for name in first.split("\t")]


def _row(fields: dict[str, str], url_column: str, own: str, pictures: Pictures) -> Row:
    image_id = text(fields["IDX"], "IDX")
    if not re.fullmatch(r"O[OP]_\d+", image_id):
        raise RowError(f"the IDX is {image_id[:40]!r}; OO_<number> or OP_<number> is expected")
    if fields[url_column].strip().casefold() in ("", "na"):
        raise RowError("no image was found for this entry when the dataset was made")
    other = optional_text(fields.get("Participant") or fields.get("Object"), "participant or object")
    theirs = next((fields[name] for name in _OTHER_GENDER if name in fields), None)
    return row(
        image=pictures.any_suffix(image_id),
        image_id=image_id,
        subject=text(fields["Occupation"], "occupation"),
        label_source="annotator",
        gender=group(fields[own], "gender", ("na",), GROUPS),
        url=address(fields[url_column]),
        context="participant" if "Participant" in fields else "object",
        sector=optional_text(fields.get("Sector"), "sector"),
        specialisation=optional_text(fields.get("Specialisation"), "specialisation"),
        other=other,
        other_gender=group(theirs, "participant's gender", ("na",), GROUPS),
    )
