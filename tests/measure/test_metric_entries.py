"""Every metric that the registry lists exists, says how to be read, and is described in the docs."""

from pathlib import Path

import pytest

from equipoise.measure.bias_entries import BIAS_ENTRIES
from equipoise.measure.captions.entries import CAPTION_ENTRIES
from equipoise.measure.captions.quality.entries import CAPTION_QUALITY_ENTRIES
from equipoise.measure.images.entries import QUALITY_ENTRIES
from equipoise.measure.metric import add_metrics
from equipoise.registry import Registry

ENTRIES = (*BIAS_ENTRIES, *CAPTION_ENTRIES, *CAPTION_QUALITY_ENTRIES, *QUALITY_ENTRIES)
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_every_entry_loads_and_is_in_the_docs(entry):
    metrics = Registry("metric")
    add_metrics(metrics, ENTRIES)
    assert callable(metrics.load(entry.name))
    for field in ("formula", "range", "direction", "chance", "when_it_lies"):
        assert metrics.get(entry.name).info[field].strip()
    function = entry.target.partition(":")[2]
    pages = "".join(page.read_text() for page in DOCS.glob("measure-*.md"))
    assert f"`{function}`" in pages or f"{function}(" in pages


def test_names_are_unique():
    names = [entry.name for entry in ENTRIES]
    assert len(set(names)) == len(names)
