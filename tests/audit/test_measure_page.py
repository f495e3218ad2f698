"""The page of all metrics is the registry's, and links to pages that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from equipoise.audit.suites import SUITES
from equipoise.measure import METRICS

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not beside the tests")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("metrics_table", DOCS / "metrics_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_as_the_registry_says(script):
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.page(text) == text, "run: python docs/metrics_table.py"
    for entry in METRICS:
        if entry.target.startswith("equipoise."):
            assert f"`{entry.name}`" in text


def test_a_changed_table_is_written_between_the_marks(script):
    made = script.page(f"before {script.BEGIN} old {script.END} after")
    assert made.startswith("before ")
    assert made.endswith(" after")
    assert " old " not in made


def test_every_row_has_every_column(script):
    rows = [line for line in script.tables().splitlines() if line.startswith("|")]
    assert len(rows) > 50
    for row in rows:
        assert len(re.split(r"(?<!\\)\|", row)) == len(script.HEAD) + 2, row


@pytest.mark.parametrize("name", ["measure.md", "dataset.md"])
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / name).read_text(encoding="utf-8")):
        assert (DOCS / target).exists(), target


def test_the_metrics_of_our_suites_are_on_the_page():
    text = (DOCS / "measure.md").read_text(encoding="utf-8")
    for name in ("binding", "faces"):
        assert name in SUITES
        source = Path(SUITES.load(name).measure.__code__.co_filename).read_text(encoding="utf-8")
        metrics = set(re.findall(r'metric="(\w+)"', source)) | set(re.findall(r'on\.add\w*\([^,]+, "(\w+)"', source))
        assert len(metrics) > 4
        for metric in metrics:
            assert f"`{metric}`" in text, metric
