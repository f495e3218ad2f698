"""No command writes over a file that it did not write, unless it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.errors import InputError


def call(*words: object) -> str:
    done = CliRunner().invoke(app, list(map(str, words)))
    if isinstance(done.exception, InputError):
        return str(done.exception)
    assert done.exit_code == 0, (done.output, done.exception)
    return ""


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["text", "label", "IN", "-o"], "labelled.txt"),
        (["text", "neutralise", "IN", "-o"], "out.txt"),
        (["text", "captions", "-p", "race-gender", "--subject", "doctor", "-f", "lines", "-o"], "_table.json"),
        (["world", "preview", "--sample", "1", "--size", "16"], "sheet.png"),
    ],
)
def test_a_file_that_is_there_is_refused(command: list[str], name: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a man runs\n")
    words = [str(tmp_path / "in.txt") if word == "IN" else word for word in command]
    out = tmp_path / name
    out.write_text("mine")
    assert call(*words, out) == f"{out}: is there already; give another name, or say --overwrite"
    assert out.read_text() == "mine"
    assert call(*words, out, "--overwrite") == ""
    assert out.read_bytes() != b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "in.txt"])


def test_a_page_replaces_its_own_kind_alone(tmp_path: Path) -> None:
    from equipoise.audit.findings import Findings
    from equipoise.data.runs import claimed
    from equipoise.measure.stats.estimate import Estimate

    findings = Findings("intersectional", "m")
    findings.add(Estimate(0.2, 0.1, 0.3, null_mean=0.1, null_sd=0.05, p_value=0.01, n=9), metric="max_skew", axis="a")
    with claimed(tmp_path / "run", "audit", suite="intersectional", axes=["a"]) as run:
        findings.save(run.stage)
        run.publish()
    page = tmp_path / "page.html"
    page.write_text("<p>mine")
    assert "is there already" in call("report", tmp_path / "run", "-o", page)
    assert page.read_text() == "<p>mine"
    assert call("report", tmp_path / "run", "-o", page, "--overwrite") == ""
    first = page.read_bytes()
    assert call("report", tmp_path / "run", "-o", page) == ""
    assert page.read_bytes() == first
    assert "holds an audit" in call("dataset", tmp_path / "in.json", "-o", tmp_path / "run")
