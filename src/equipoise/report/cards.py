"""Model cards and dataset cards in the format of the Hugging Face hub, from what was measured."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Collection
from typing import TYPE_CHECKING

import pandas as pd

from equipoise import __version__
from equipoise.data.exports.card import card as dataset_card
from equipoise.data.summary import as_text
from equipoise.errors import InputError
from equipoise.formatting import amount, excess_interval, markdown_table, p_number, signed
from equipoise.measure.notes import counted
from equipoise.report.findings import main_metric, main_rows, metric_name
from equipoise.report.page.method import limits
from equipoise.report.sources import Given, Series

if TYPE_CHECKING:
    from equipoise.report.page.contents import PageContents

_COLUMNS = ("axis", "metric", "value", "chance", "excess", "interval of the excess", "p", "n")


def model_card(series: Series, verdict: str = "") -> str:
    """The card of a model: a YAML head with a ``model-index`` that the hub reads, the numbers, and their limits.

    Every number of the index is an excess over chance or a value whose chance level stands in its name, so that the
    hub shows none without its null. The card is about bias alone: paste it into the model's own.

    Args:
        series: the numbers of one model in one result folder.
        verdict: a paragraph to stand below the title, such as the ``text`` of a report's verdict; empty for none.

    Returns:
        The card as Markdown.
    """
    metric = main_metric([series])
    rows = main_rows(series, metric) if metric is not None else pd.DataFrame()
    suite = str(series.results["suite"].dropna().iloc[0]) if series.results["suite"].notna().any() else "equipoise"
    head = ["---", "tags:", "- equipoise", "- bias", "- fairness"]
    if len(rows):
        head += ["model-index:", f"- name: {_quoted(series.label)}", "  results:"]
        head += ["  - task:", "      type: bias-audit", f"      name: {_quoted(f'Equipoise suite {suite}')}"]
        head += ["    dataset:", f"      type: {_quoted(series.source.fingerprint or 'unknown')}"]
        head += [f"      name: {_quoted(_pool(series))}", "    metrics:"]
        for _, row in rows.iterrows():
            name = f"{metric_name(str(row['metric']), row['k'])} on {row['about']}, excess over chance"
            head += [f"    - type: {_quoted(str(row['metric']))}", f"      name: {_quoted(name)}"]
            head += [f"      value: {float(row['excess']):.4f}"]
    lines = []
    for _, row in rows.iterrows():
        cells = [
            as_text(row["about"]),
            metric_name(str(row["metric"]), row["k"]),
            amount(row["value"], 3),
            amount(row["null_mean"], 3),
            signed(row["excess"], 3),
            excess_interval(row, 3) or "–",
            p_number(row["p_value"]),
            counted(row),
        ]
        lines.append(cells)
    parts = [
        "\n".join([*head, "---"]),
        f"# Bias of {as_text(series.label)}",
        *([as_text(verdict)] if verdict else []),
        markdown_table(_COLUMNS, lines, (0, 1)) if lines else "No number has a chance level.",
        "## Limits\n\n" + "\n".join(f"- {line}" for line in limits([series])),
        f"Measured with Equipoise {__version__}, suite `{suite}`.",
    ]
    return "\n\n".join(parts) + "\n"


def cards(given: Given, contents: PageContents) -> dict[str, str]:
    """A model card for each model and a dataset card for each table: their text by the name of the file."""
    texts: dict[str, str] = {}
    for series in contents.series:
        if series.source.kind not in ("audit", "results", "captions") or series.is_yardstick:
            continue
        words = contents.verdict.text if any(series is of for of in contents.verdict.of) else ""
        texts[_free(f"model_card_{_file_name(series.label)}", texts)] = model_card(series, words)
    for table in given.tables:
        try:
            text = dataset_card(table)
        except InputError as error:
            given.problems.append(f"{table.path.name}: no dataset card ({error})")
            continue
        texts[_free(f"dataset_card_{_file_name(table.path.name)}", texts)] = text
    return texts


def _free(stem: str, taken: Collection[str]) -> str:
    """The name of a card that no other has, also where files do not tell large letters from small.

    >>> _free("model_card_clip", ["model_card_CLIP.md"])
    'model_card_clip_2.md'
    """
    used = {name.lower() for name in taken}
    names = (f"{stem}{'' if n == 1 else f'_{n}'}.md" for n in itertools.count(1))
    return next(name for name in names if name.lower() not in used)


def _pool(series: Series) -> str:
    pools = series.results["pool"].dropna().unique()
    return f"{pools[0]} pictures" if len(pools) else series.source.path.name


def _file_name(label: str) -> str:
    """A label as a file's name.

    >>> _file_name("hf:openai/clip")
    'hf_openai_clip'
    """
    return re.sub(r"[^\w.-]+", "_", label).strip("._")[:80] or "model"


def _quoted(text: str) -> str:
    """Text as YAML: JSON strings are YAML, whatever is in them."""
    return json.dumps(text, ensure_ascii=False)
