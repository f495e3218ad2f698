"""What a user must know of a reader before using it: its options, its columns, its licence and its harms."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Any

from equipoise.data.readers import READERS

__all__ = ["About", "Option", "about"]


@dataclass(frozen=True)
class Option:
    """One option of a reader, as its signature and its docstring tell it."""

    name: str
    kind: str
    default: str
    text: str


@dataclass(frozen=True)
class About:
    """Facts by name, and the options."""

    facts: dict[str, str]
    options: tuple[Option, ...]

    @property
    def example(self) -> str:
        """The first option as the command line takes it, with a space before it; empty if there is none."""
        return f" --option {self.options[0].name}=..." if self.options else ""


def about(name: str) -> About:
    """What the registry, the signature and the docstring say of the reader ``name``.

    >>> about("coco").options[0]
    Option(name='split', kind='text', default='', text='for example "val2017"; needed when the folder has several.')
    >>> about("fairface").facts["axes"]
    'gender, race, age'
    """
    entry = READERS.get(name)
    by_data = "by the data" if "shape" in entry.info else "none"
    facts = {
        "reader": entry.name,
        "reads": entry.summary,
        "axes": ", ".join(entry.info.get("axes", ())) or by_data,
        "columns": ", ".join(f"{c} ({kind})" for c, kind in entry.info.get("columns", {}).items()) or by_data,
        "licence": entry.licence,
        "harms": str(entry.info.get("harms", "")),
        "citation": entry.citation,
        "written for": str(entry.info.get("revision", "")),
    }
    reader = entry.load()
    texts = _documented(inspect.getdoc(reader) or "")
    options = tuple(
        Option(p.name, _kind(str(p.annotation)), _default(p.default), texts.get(p.name, ""))
        for p in inspect.signature(reader).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    )
    return About({key: value for key, value in facts.items() if value}, options)


def _documented(doc: str) -> dict[str, str]:
    """What follows ````name``:`` in a docstring, up to the next name or the end of the paragraph.

    >>> _documented("Rows.\\n\\n``split``: which part. ``images``: their\\nfolder.")
    {'split': 'which part.', 'images': 'their folder.'}
    """
    found: dict[str, str] = {}
    for paragraph in doc.split("\n\n"):
        pieces = re.split(r"``(\w+)``: ", " ".join(paragraph.split()))
        found |= {name: text.strip().replace("``", "") for name, text in zip(pieces[1::2], pieces[2::2], strict=True)}
    return found


def _kind(annotation: str) -> str:
    if "Sequence[str]" in annotation or "Iterable[str]" in annotation:
        return "names with commas"
    if "PathLike" in annotation:
        return "path"
    kinds = {"str": "text", "bool": "true or false", "int": "number", "float": "number"}
    return next((kinds[part] for part in annotation.split(" | ") if part in kinds), "JSON")


def _default(value: Any) -> str:
    if value is None or value is inspect.Parameter.empty:
        return ""
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
