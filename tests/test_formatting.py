"""What is cut to fit a table is never taken for something else; cells of a CSV file read back as they were written."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.audit.printing import table_of
from equipoise.formatting import for_spreadsheet, from_spreadsheet, text_table, told_apart
from equipoise.measure.stats.estimate import RESULT_COLUMNS, Estimate

HOME = "hf:/data/models/of-a-department/with-a-long-name"
PATHS = {
    "at the end": (f"{HOME}/bbb-v1", f"{HOME}/bbb-v2"),
    "in the middle": (f"{HOME}/run-1/weights/of/the/last/checkpoint", f"{HOME}/run-2/weights/of/the/last/checkpoint"),
    "at the beginning": (f"hf:/a/{HOME}", f"hf:/b/{HOME}"),
    "one as the other is cut": (f"{HOME}/bbb-v1", told_apart([f"{HOME}/bbb-v1"], 40, "...")[f"{HOME}/bbb-v1"]),
}


@pytest.mark.parametrize("where", PATHS)
def test_rows_of_different_models_never_look_alike(where: str) -> None:
    rows = [Estimate(0.5, n=9).row(metric="max_skew", suite="prompts", model=model) for model in PATHS[where]]
    head, *lines = table_of(pd.DataFrame(rows, columns=list(RESULT_COLUMNS))).splitlines()
    assert "model" in head
    assert len(set(lines)) == len(lines) == 2


def test_a_column_is_no_wider_than_it_must_be() -> None:
    head, *lines = text_table([["model", "n"], [PATHS["at the end"][0], "1"], [PATHS["at the end"][1], "2"]], most=40)
    assert {len(line) for line in (head, *lines)} == {40 + 2 + 1}
    assert [line[:40].endswith(end) for line, end in zip(lines, ("-v1", "-v2"), strict=True)] == [True, True]


@given(st.text(alphabet="'=+-@\t\r1a", max_size=6))
def test_a_cell_reads_back_as_it_was_written_and_runs_nothing(text: str) -> None:
    cell = for_spreadsheet(text)
    assert from_spreadsheet(cell) == text
    assert cell == text or cell == "'" + text
