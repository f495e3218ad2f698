"""What a command prints of many rows: all of them where it is asked for all, or where no file holds the others."""

from __future__ import annotations

import pytest

from equipoise.audit.findings import Findings
from equipoise.audit.printing import TELLING, table_of
from equipoise.audit.running import Audit
from equipoise.cli import audit as commands
from equipoise.measure.stats.estimate import Estimate

ROWS = 70


@pytest.fixture
def many() -> Findings:
    findings = Findings("intersectional", "m")
    for k in range(1, ROWS + 1):
        estimate = Estimate(0.3, 0.2, 0.4, null_mean=0.1, null_sd=0.05, p_value=0.01, n=28, n_groups=2)
        findings.add(estimate, metric="max_skew", variant="equipoise", pool="rendered", axis="gender", k=k)
    return findings


def printed_rows(text: str) -> int:
    return sum(line.startswith("max_skew") for line in text.splitlines())


@pytest.mark.parametrize(("all_rows", "rows"), [(True, ROWS), (False, TELLING)])
def test_all_rows_are_all(many, capsys, all_rows, rows):
    done = Audit("intersectional", "m", many.frame(), (), None)
    commands._tell(done, page=False, all_rows=all_rows, everything=False)
    assert printed_rows(capsys.readouterr().out) == rows


@pytest.mark.parametrize(("out", "rows"), [(None, ROWS), ("runs/difference", 60)])
def test_a_comparison_without_a_folder_is_printed_whole(many, capsys, monkeypatch, out, rows):
    monkeypatch.setattr("equipoise.audit.compare", lambda *_, **__: many)
    commands.compare("a", "b", out, overwrite=False)
    text = capsys.readouterr().out
    assert printed_rows(text) == rows
    assert ("more rows in results.parquet" in text) == (rows < ROWS)


def test_an_interval_stands_beside_the_value_that_it_is_of(many):
    heading = table_of(many.frame().head(1)).splitlines()[0]
    assert heading.index("value") < heading.index("95% interval") < heading.index("chance") < heading.index("excess")
