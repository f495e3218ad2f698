"""The tables of ``measure.md``, from what the registry says of each metric: run it after a metric was added.

python docs/metrics_table.py            # writes the tables into docs/measure.md
python docs/metrics_table.py --plugins  # prints the tables, with the metrics of installed plug-ins
"""

from __future__ import annotations

import sys
from pathlib import Path

from equipoise.measure import METRICS, Metric

PAGE = Path(__file__).with_name("measure.md")
BEGIN, END = "<!-- metrics: begin -->", "<!-- metrics: end -->"
PACKAGES = {
    "retrieval": ("Retrieval: who is found when nobody was asked for", "measure-retrieval.md"),
    "counterfactual": ("Counterfactual sets: how a score changes when only the group does", "measure-retrieval.md"),
    "embedding": ("Embeddings: what vectors say about groups", "measure-embedding.md"),
    "binding": ("Binding: who does what", "measure-binding.md"),
    "captions": ("Captions: what a captioner's words give away", "measure-captions.md"),
    "captions.quality": ("Captions: how good they are, against references", "measure-quality.md"),
    "captions.java": ("Captions: how good they are, through Java", "measure-quality.md"),
    "english": ("Captions: how kindly they speak", "measure-captions.md"),
    "classify": ("Classifiers: what predicted objects give away, and whom they miss", "measure-classify.md"),
    "dataset": ("Datasets: where data are lopsided", "measure-dataset.md"),
    "activities": ("Activities in captions", "measure-dataset.md"),
    "images": ("Quality of images and captions", "measure-quality.md"),
    "agreement": ("Agreement between annotators", "measure-quality.md"),
}
HEAD = ("metric", "formula", "range", "direction", "chance", "when it lies", "source")


def tables(*, plugins: bool = False) -> str:
    """One table per package, in the order of ``PACKAGES``; those of other packages, if asked for, come last."""
    by_package: dict[str, list[Metric]] = {package: [] for package in PACKAGES}
    for metric in METRICS:
        if metric.target.startswith("equipoise."):
            by_package.setdefault(_package(metric), []).append(metric)
        elif plugins:
            by_package.setdefault(metric.target.partition(":")[0], []).append(metric)
    return "\n".join(_section(package, metrics) for package, metrics in by_package.items() if metrics)


def _package(metric: Metric) -> str:
    module = metric.target.partition(":")[0].split(".")[2:]
    names = [".".join(module[:2]), *module[1::-1]] if len(module) > 1 else module
    return next((name for name in (*names, *module[::-1]) if name in PACKAGES), module[0])


def _section(package: str, metrics: list[Metric]) -> str:
    title, page = PACKAGES.get(package, (package.capitalize(), ""))
    lines = [f"## {title}", ""]
    if page:
        lines += [f"More, with examples: [{page.removesuffix('.md')}]({page}).", ""]
    lines += [_row(HEAD), _row(("---",) * len(HEAD))]
    lines += [_row(_cells(metric)) for metric in metrics]
    return "\n".join([*lines, ""])


def _cells(metric: Metric) -> tuple[str, ...]:
    function = metric.target.partition(":")[2]
    name = f"`{metric.name}`" if function == metric.name else f"`{metric.name}` · `{function}`"
    told = (metric.formula, metric.range, metric.direction, metric.chance, metric.when_it_lies)
    return (f"{name}<br>{metric.summary}", *told, metric.citation)


def _row(cells: tuple[str, ...]) -> str:
    # a bar would end the cell, and Markdown would take a lone < for the beginning of a tag
    return "| " + " | ".join(c.replace("|", "\\|").replace(" <", " &lt;") for c in cells) + " |"


def page(text: str) -> str:
    """``text`` of the page with the tables as they are now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    if "--plugins" in sys.argv:
        print(tables(plugins=True))
    else:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
