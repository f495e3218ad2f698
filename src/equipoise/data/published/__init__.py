"""Published numbers of the papers, to be shown beside measured ones: every one with its table, row, column and doubt.

One CSV file per paper, as printed; :func:`published_numbers` reads one. ``--published`` of a command and the studies
read them through this module alone.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import pandas as pd

from equipoise.errors import InputError, UnknownNameError

__all__ = [
    "CAPTION_PAPERS",
    "PAPERS",
    "Paper",
    "PublishedValues",
    "add_published",
    "doubt_sentence",
    "models_named",
    "models_of",
    "published_cell",
    "published_numbers",
    "published_values",
]

PAPERS = ("gensynth", "lic", "libra", "inpainting", "socialcounterfactuals", "gabinsight", "contamination")
"""The papers whose numbers are here, by name."""
CAPTION_PAPERS = ("lic", "libra")
"""Those whose numbers are of captioning models, for ``equipoise captions --published``."""
_AS_GIVEN = ("lic", "lic_m", "lic_d", "ratio")
_METRICS = {
    "LIC": "lic",
    "LIC_M": "lic_m",
    "LIC_D": "lic_d",
    "Ratio": "ratio",
    "Error": "error",
}
_WORDS_OF_TRAINING = {"BA": "ba", "BiasAmp": "ba"}
"""What depends on which words count: comparable only if these were chosen from the training captions."""
_ST10 = ("ratio", "error")
"""What the paper measured on NIC's captions that were decoded without a frequency threshold."""


@dataclass(frozen=True)
class Paper:
    """One paper and all of its numbers."""

    name: str
    title: str
    citation: str
    notes: str
    numbers: pd.DataFrame
    """``table``, ``row``, ``column``, ``value``, ``sd`` (may be missing), ``unit``, ``doubt`` (codes, or empty)."""

    def cell(self, table: str, row: str, column: str) -> pd.Series | None:
        """The number in this cell, or nothing."""
        numbers = self.numbers
        there = numbers[(numbers["table"] == table) & (numbers["row"] == row) & (numbers["column"] == column)]
        return there.iloc[0] if len(there) else None

    def value(self, table: str, row: str, column: str) -> float | None:
        """The value alone."""
        cell = self.cell(table, row, column)
        return None if cell is None else float(cell["value"])


@dataclass(frozen=True)
class PublishedValues:
    """What a paper reports of captioning models on one axis."""

    citation: str
    notes: str
    values: Mapping[str, Mapping[str, tuple[float, ...]]]
    """By model and metric: the value, and its standard deviation where the paper gives one."""

    def of(self, model: str, metric: str) -> tuple[float, ...]:
        """The value (and standard deviation) of a model, or nothing."""
        return self.values.get(model_key(model), {}).get(metric, ())


def model_key(model: str) -> str:
    """A model's name as files spell it.

    >>> model_key("NIC+Equalizer")
    'nic_plus_equalizer'
    """
    return re.sub(r"_+", "_", model.lower().replace("+", "_plus_").replace("-", "_")).strip("_ ")


@cache
def published_numbers(name: str) -> Paper:
    """Every number of the paper called ``name``.

    >>> paper = published_numbers("gensynth")
    >>> paper.value("T1", "TF-IDF", "natural / MaxSkew@25")
    0.29
    """
    if name not in PAPERS:
        raise UnknownNameError("paper", name, PAPERS)
    home = files("equipoise.data.published")
    about = _about()["papers"][name]
    with (home / f"{name}.csv").open(encoding="utf-8") as file:
        numbers = pd.read_csv(file, dtype={"table": str, "row": str, "column": str, "doubt": str})
    numbers["doubt"] = numbers["doubt"].fillna("")
    return Paper(name, about["title"], about["citation"], about.get("notes", ""), numbers)


def models_of(name: str) -> dict[str, str]:
    """The models of a paper that can be loaded by name, with what the paper calls them.

    >>> models_of("socialcounterfactuals")["hf:facebook/flava-full"]
    'FLAVA'
    """
    if name not in PAPERS:
        raise UnknownNameError("paper", name, PAPERS)
    return dict(_about()["papers"][name].get("models", {}))


def models_named(given: Iterable[str]) -> list[str]:
    """Models by name; ``@PAPER`` stands for those of a paper that can be loaded. Each comes once.

    >>> models_named(["mini", "@socialcounterfactuals", "mini"])[:2]
    ['mini', 'hf:openai/clip-vit-base-patch32']
    """
    named: dict[str, None] = {}
    for model in given:
        own = models_of(model[1:]) if model.startswith("@") else {model: ""}
        if not own:
            having = ", ".join(f"@{paper}" for paper in PAPERS if models_of(paper))
            raise InputError(f"{model}: the paper's models cannot be loaded by name; give them one by one, or {having}")
        named |= dict.fromkeys(own)
    return list(named)


def published_cell(name: str, table: str, row: str, column: str) -> dict[str, Any]:
    """Columns for a results row or a table of a study, from one cell of a paper.

    A cell that the paper does not have is refused: a study that names one has a slip of the pen in it.

    Args:
        name: of the paper, one of ``PAPERS``.
        table: as the paper's CSV file has it, such as ``T2.2`` for Table 2.2 or ``3.1`` for a section.
        row: as that file has it, such as the name of a model.
        column: as that file has it, often of several parts with a slash between them.

    Returns:
        The value (``published``), its standard deviation (``published_sd``, NaN where the paper gives none), where it
        stands (``published_at``), and what is doubtful about it in words (``doubt``, which may be empty).

    >>> published_cell("lic", "T2.2", "NIC", "gender / LIC_M / LSTM")["published_at"]
    'LIC, Table 2.2, NIC, gender / LIC_M / LSTM'
    """
    paper = published_numbers(name)
    cell = paper.cell(table, row, column)
    if cell is None:
        raise InputError(f"{paper.title} has no cell {row!r}, {column!r} in {table}")
    place = f"{paper.title}, {'Table ' + table[1:] if table.startswith('T') else 'Section ' + table}, {row}, {column}"
    return {
        "published": float(cell["value"]),
        "published_sd": float(cell["sd"]),
        "published_at": place,
        "doubt": doubt_sentence(cell["doubt"]),
    }


def doubt_sentence(codes: str) -> str:
    """What is doubtful about a number, in words.

    >>> doubt_sentence("scale approximate")
    'no unit is printed; the scale is read from the size of the numbers; printed as about, over or at least'
    """
    known = _about()["doubts"]
    return "; ".join(known[code] for code in codes.split())


def add_published(rows: Iterable[MutableMapping[str, Any]], values: PublishedValues) -> None:
    """Give the first row of each whole model and metric its published value, in the unit of the row's own.

    Papers give rates in points; a results table holds shares of 1, but for LIC, which is in points there too.

    Args:
        rows: of a results table, changed in place; those of one ``group``, ``subject`` or ``pool`` are left alone.
        values: what the paper reports, as :func:`published_values` gives it.

    >>> rows = [{"model": "nic_st10", "metric": "error", "group": None, "subject": None, "pool": None}]
    >>> add_published(rows, published_values("lic", "gender"))
    >>> round(rows[0]["published"], 3)
    0.143
    """
    seen: set[tuple[str, str]] = set()
    for row in rows:
        key = str(row["model"]), str(row["metric"])
        if key in seen or any(row[name] is not None for name in ("group", "subject", "pool")):
            continue
        seen.add(key)
        known = values.of(*key)
        if known:
            row["published"] = known[0] if key[1] in _AS_GIVEN else known[0] / 100


def published_values(name: str, axis: str, *, training_words: bool = False) -> PublishedValues:
    """What a paper reports of captioning models on one axis.

    Args:
        name: of the paper, one of ``CAPTION_PAPERS``.
        axis: told by how it begins (``gender``, ``skin`` or ``race``); one that the paper has not gives no values.
        training_words: whether BA stands among them; the papers chose its words from the training captions, and over
            other words it is another number.

    Returns:
        The values by model and metric as they are printed, with the paper's citation.

    >>> published_values("lic", "gender").of("nic", "lic_m")
    (43.2, 1.5)
    """
    if name not in CAPTION_PAPERS:
        raise UnknownNameError("list of published values", name, CAPTION_PAPERS)
    paper = published_numbers(name)
    values: dict[str, dict[str, tuple[float, ...]]] = {}
    metrics = _METRICS | (_WORDS_OF_TRAINING if training_words else {})
    for row, metric, value, sd in _caption_cells(paper, axis, metrics):
        model = model_key(row)
        if name == "lic" and model == "nic" and metric in _ST10:
            model = "nic_st10"
        values.setdefault(model, {})[metric] = (value,) if pd.isna(sd) else (value, float(sd))
    return PublishedValues(paper.citation, paper.notes, values)


def _caption_cells(paper: Paper, axis: str, metrics: Mapping[str, str]) -> Iterable[tuple[str, str, float, float]]:
    """Model, metric, value and standard deviation: the paper's main table, then the one with deviations."""
    numbers = paper.numbers
    gender, skin = axis.startswith("gender"), axis.startswith(("skin", "race"))
    tables = {"lic": {"T2.1": "", "T2.2": "LSTM"} if gender else {"T2.3": "LSTM"} if skin else {}}
    tables["libra"] = {"T3.2": ""} if gender else {}
    for table, classifier in tables[paper.name].items():
        for cell in numbers[numbers["table"] == table].to_dict("records"):
            parts = str(cell["column"]).split(" / ")
            if classifier and parts[-1] != classifier:
                continue
            name = next((metrics[part] for part in parts if part in metrics), None)
            if name is not None:
                yield str(cell["row"]), name, float(cell["value"]), float(cell["sd"])


@cache
def _about() -> dict[str, Any]:
    return tomllib.loads((files("equipoise.data.published") / "papers.toml").read_text(encoding="utf-8"))
