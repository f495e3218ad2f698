"""The room is light to import, and every registered metric says what a reader must know."""

import subprocess
import sys

import pytest

from equipoise import measure

TELLS = ("formula", "range", "direction", "chance", "when_it_lies")


@pytest.mark.parametrize("entry", list(measure.METRICS), ids=lambda entry: entry.name)
def test_every_metric_loads_and_says_when_it_lies(entry):
    assert callable(entry.load())
    for name in TELLS:
        assert entry.info[name], f"{entry.name} lacks {name}"


def test_importing_the_room_brings_no_torch_and_no_tables():
    code = (
        "import sys; from equipoise import measure; measure.retrieval; measure.counterfactual; measure.stats;"
        "print([m for m in ('torch', 'transformers', 'matplotlib', 'pyarrow', 'PIL', 'typer') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_an_unknown_face_is_an_attribute_error():
    with pytest.raises(AttributeError, match="retrival"):
        measure.retrival
