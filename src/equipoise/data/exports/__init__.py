"""Exports: a table, with its layers joined and dropped rows left out, in the forms that other tools open.

``EXPORTS`` names them; each is ``export(table, out, **options) -> Path``. The target appears whole or not at all, and
an existing one is never touched.

>>> EXPORTS.names()
['card', 'csv', 'folder', 'huggingface', 'webdataset']
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import Any

from equipoise.data.exports.card import card
from equipoise.data.exports.source import Exportable, alone
from equipoise.errors import InputError, closest
from equipoise.registry import Registry

__all__ = ["EXPORTS", "Exportable", "export"]

EXPORTS = Registry("export")
for _name, _module, _summary, _citation in (
    (
        "folder",
        "folder",
        "Images as files with metadata.jsonl, by split (Hugging Face imagefolder).",
        "Lhoest et al., Datasets: A Community Library, EMNLP 2021",
    ),
    (
        "huggingface",
        "hugging_face",
        "Parquet shards by split and a dataset card, ready for the Hugging Face hub.",
        "Lhoest et al., Datasets: A Community Library, EMNLP 2021",
    ),
    (
        "webdataset",
        "webdataset",
        "Tar shards of image, JSON and text, the same bytes every time.",
        "Aizman, Maltby and Breuel, High Performance I/O For Large Scale Deep Learning, 2019",
    ),
    ("csv", "csv", "Everything but the images as one CSV file.", "RFC 4180"),
    (
        "card",
        "card",
        "The dataset card alone: README.md with the head the hub reads, counts, origin, limits.",
        "Gebru et al., Datasheets for Datasets, 2021",
    ),
):
    _target = f"equipoise.data.exports.{_module}:export"
    EXPORTS.add(_name, _target, summary=_summary, citation=_citation, licence="that of the data")


def export(name: str, table: Exportable, out: str | os.PathLike[str], **options: Any) -> Path:
    """Write a table in a form that other tools open.

    Args:
        name: of the export, one of ``EXPORTS``.
        table: opened with the layers that are to be joined.
        out: the new file or folder; for the export ``card`` also a folder, which gets a ``README.md``.
        **options: the export's own, such as ``rows`` (``"kept"``, what no filter dropped, or ``"all"``) and, but for
            ``csv``, those of the dataset card (``title``, ``licence``, ...).

    Returns:
        The file or folder that was written.
    """
    writer = EXPORTS.load(name)
    known = _options(writer)
    for option in options:
        if option not in known:
            near = closest(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known)}"
            raise InputError(f"the export {name!r} has no option {option!r}; {hint}")
    path = Path(out)
    with alone(path / "README.md" if name == "card" and path.is_dir() else path):
        written: Path = writer(table, out, **options)
    return written


def _options(writer: Any) -> list[str]:
    """The options of an export, those of its card included."""
    parameters = inspect.signature(writer).parameters.values()
    names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        about = inspect.signature(card).parameters.values()
        names += [p.name for p in about if p.kind is p.KEYWORD_ONLY and p.name not in ("data_files", *names)]
    return names
