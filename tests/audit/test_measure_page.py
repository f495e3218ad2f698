"""The page of all metrics is the registry's, and links to pages that exist."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.suites import SUITES
from equipoise.measure import METRICS
from equipoise.measure.arrays import unit_vectors

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not beside the tests")


@pytest.fixture(scope="module")
def script(docs_script):
    return docs_script("metrics_table")


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


def people_at_work() -> pd.DataFrame:
    rows = []
    for activity, cell, i in itertools.product(("singing", "sewing"), ("E1", "E2", "U1", "U2"), range(2)):
        performer = "female" if (activity == "sewing") == (cell[0] == "E") else "male"
        rows.append({"image_id": f"{activity}{cell}{i}", "activity": activity, "gender": performer, "scenario": cell})
    frame = pd.DataFrame(rows)
    frame.attrs["axes"] = ["gender"]
    return frame


@pytest.mark.parametrize("name", ["binding", "faces"])
def test_the_metrics_of_our_suites_are_on_the_page(name):
    text = (DOCS / "measure.md").read_text(encoding="utf-8")
    suite, frame, rng = SUITES.load(name), people_at_work(), np.random.default_rng(0)
    texts = suite.texts(frame, AuditConfig())
    vectors = [unit_vectors(rng.normal(size=(n, 8)) + 1, "noise") for n in (len(frame), len(texts))]
    evidence = Evidence(frame, texts, model="noise", image_vectors=vectors[0], text_vectors=vectors[1])
    metrics = set(suite.measure(evidence, AuditConfig(draws=9)).frame()["metric"])
    assert len(metrics) >= 9
    for metric in metrics:
        assert f"`{metric}`" in text, metric
