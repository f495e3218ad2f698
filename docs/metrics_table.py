"""The tables of ``measure.md``, from what the registry says of each metric: run it after a metric was added.

python docs/metrics_table.py          # writes the tables into docs/measure.md
"""

from __future__ import annotations

from pathlib import Path

from equipoise.measure import METRICS
from equipoise.registry import Entry

PAGE = Path(__file__).with_name("measure.md")
BEGIN, END = "<!-- metrics: begin -->", "<!-- metrics: end -->"
ROOMS = {
    "retrieval": ("Retrieval: who is found when nobody was asked for", "measure-retrieval.md"),
    "counterfactual": ("Counterfactual sets: how a score changes when only the group does", "measure-retrieval.md"),
    "embedding": ("Embeddings: what vectors say about groups", "measure-embedding.md"),
    "binding": ("Binding: who does what", "measure-binding.md"),
    "captions": ("Captions: what a captioner's words give away", "measure-captions.md"),
    "captions.quality": ("Captions: how good they are, against references", "measure-quality.md"),
    "captions.java": ("Captions: how good they are, through Java", "measure-quality.md"),
    "dataset": ("Datasets: where data are lopsided", "measure-dataset.md"),
    "activities": ("Activities in captions", "measure-dataset.md"),
    "images": ("Quality of images and captions", "measure-quality.md"),
    "agreement": ("Agreement between annotators", "measure-quality.md"),
}
HEAD = ("metric", "formula", "range", "direction", "chance", "when it lies", "source")


def tables() -> str:
    """One table a room, in the order of ``ROOMS``; a metric of a room that is not listed comes last."""
    by_room: dict[str, list[Entry]] = {room: [] for room in ROOMS}
    for entry in METRICS:
        if entry.target.startswith("equipoise."):  # what a plugin adds is not this page's to tell
            by_room.setdefault(_room(entry), []).append(entry)
    return "\n".join(_section(room, entries) for room, entries in by_room.items() if entries)


def _room(entry: Entry) -> str:
    module = entry.target.partition(":")[0].split(".")[2:]
    names = [".".join(module[:2]), *module[1::-1]] if len(module) > 1 else module
    return next((name for name in (*names, *module[::-1]) if name in ROOMS), module[0])


def _section(room: str, entries: list[Entry]) -> str:
    title, page = ROOMS.get(room, (room.capitalize(), ""))
    lines = [f"## {title}", ""]
    if page:
        lines += [f"More, with examples: [{page.removesuffix('.md')}]({page}).", ""]
    lines += [_row(HEAD), _row(("---",) * len(HEAD))]
    lines += [_row(_cells(entry)) for entry in sorted(entries, key=lambda e: e.name)]
    return "\n".join([*lines, ""])


def _cells(entry: Entry) -> tuple[str, ...]:
    function = entry.target.partition(":")[2]
    name = f"`{entry.name}`" if function == entry.name else f"`{entry.name}` · `{function}`"
    info = entry.info
    said = (info["formula"], info["range"], info["direction"], info["chance"], info["when_it_lies"])
    return (f"{name}<br>{entry.summary}", *said, entry.citation)


def _row(cells: tuple[str, ...]) -> str:
    # a bar would end the cell, and Markdown would take a lone < for the beginning of a tag
    return "| " + " | ".join(c.replace("|", "\\|").replace(" <", " &lt;") for c in cells) + " |"


def page(text: str) -> str:
    """``text`` of the page with the tables as they are now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
