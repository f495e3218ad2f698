"""The page that leads a stranger through one audit names files and functions that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-a-number-is-made.md"
PLACES = re.findall(r"`([a-z_/]+\.py)`(?: `([A-Za-z_]+)`)?", PAGE.read_text(encoding="utf-8"))


def test_the_page_names_places() -> None:
    assert len(PLACES) >= 20


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_every_place_is_where_the_page_says(file: str, name: str) -> None:
    tree = ast.parse((ROOT / "src" / "equipoise" / file).read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    names |= {
        t.id for node in tree.body if isinstance(node, ast.Assign) for t in node.targets if isinstance(t, ast.Name)
    }
    assert not name or name in names
