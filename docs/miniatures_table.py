"""The figures of ``miniatures.md``, from the model cards of the parts: run it after a part was trained.

python docs/miniatures_table.py       # writes the table into docs/miniatures.md
"""

from __future__ import annotations

from pathlib import Path

from equipoise.models.miniatures import miniatures
from equipoise.recipes.train_mini.parts import wanted

PAGE = Path(__file__).with_name("miniatures.md")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def table() -> str:
    """Every figure that has a rule, of every part that is there."""
    rows = ["| part | figure | value | wanted |", "| --- | --- | --- | --- |"]
    missing = []
    for part in miniatures():
        figures = dict(part.figures)
        if not figures:
            missing.append(f"`{part.name}`")
        for name, rule in wanted(part.name).items():
            if name in figures:
                rows.append(f"| `{part.name}` | {name} | {figures[name]} | {rule} |")
    text = "\n".join(rows)
    return text + (f"\n\nNot trained yet: {', '.join(missing)}." if missing else "")


def page(text: str) -> str:
    """The page with the table of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
