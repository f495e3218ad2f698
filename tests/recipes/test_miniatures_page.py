"""The page of the miniatures holds the figures of their cards, and says first what the pictures are."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from equipoise.models.miniatures import PARTS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_figures_are_those_of_the_cards(docs_script):
    text = (DOCS / "miniatures.md").read_text(encoding="utf-8")
    assert docs_script("miniatures_table").page(text) == text, "run: python docs/miniatures_table.py"


def test_the_page_says_what_they_are_and_names_every_part():
    text = (DOCS / "miniatures.md").read_text(encoding="utf-8")
    first = text.split("\n\n")[1]
    assert first.startswith("These are signs, not people")
    assert [part for part in PARTS if f"| `{part}` |" not in text] == []
