"""The page on adding a metric works as pasted, in the repository and as a package; so does an installed plug-in."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.data import read_results

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding-a-metric.md"
TOY = ROOT / "tests" / "toy_plugin"
NEW = "src/equipoise/measure/retrieval/first_streak.py"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not beside the tests")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def run(*arguments: str, path: str = "", start: str = "", **options) -> subprocess.CompletedProcess[str]:
    """``equipoise`` with ``arguments``, ``start`` done first and ``path`` on the path."""
    code = f"{start}\nfrom equipoise.cli.main import run\nrun()"
    paths = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))
    environment = os.environ | {"PYTHONPATH": paths, "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, done.stderr
    return done


def distribution(folder: Path, points: str) -> str:
    """A folder on the path whose metadata say that a package with these entry points is installed."""
    info = folder / "installed-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    return str(folder)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The table that the page renders, and the audit that it runs, as arguments."""
    folder = tmp_path_factory.mktemp("adding")
    render, audit = (line.split()[1:] for line in blocks("sh")[0].strip().splitlines())
    run(*render, cwd=folder)
    return folder, [*audit, "--no-report"]


@pytest.mark.parametrize("action", [["check"], ["format", "--check"]])
def test_the_pasted_file_is_clean(action):
    code = blocks("python")[0]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *action, "--stdin-filename", NEW, "-"], input=code, text=True, cwd=ROOT,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout in (code, "All checks passed!\n", "")


@pytest.mark.slow
def test_the_pasted_file_alone_is_in_the_audit_and_in_the_report(sets, tmp_path):
    folder, audit = sets
    (tmp_path / "first_streak.py").write_text(blocks("python")[0], encoding="utf-8")
    beside_ours = f"import equipoise.measure.retrieval as ours\nours.__path__.append({str(tmp_path)!r})"
    printed = run(*[part for part in audit if part != "--no-report"], start=beside_ours, cwd=folder).stdout
    line = next(line for line in printed.splitlines() if line.startswith("first_streak"))
    assert re.search(r"equipoise +rendered +gender +8 +\d\.\d+ +\[.*\] +\d\.\d+ +[+-]\d\.\d+ +\d\.\d+ +\d+$", line), (
        line
    )
    page = next((folder / "runs/mini").rglob("*.html")).read_text(encoding="utf-8")
    assert "first streak@8" in page
    assert "1: another group comes second; higher: more one-sided" in page


@pytest.mark.slow  # the toy plug-in below goes the same way
def test_the_same_file_as_a_package(sets, tmp_path):
    folder, audit = sets
    code, register = blocks("python")
    (tmp_path / "my_metrics.py").write_text(f"{code}\n\n{register}", encoding="utf-8")
    point = re.search(r"^mine = \"(.*)\"$", blocks("toml")[0], re.MULTILINE)[1]
    path = distribution(tmp_path, f"[equipoise]\nmine = {point}\n")
    run(*audit[:-2], str(tmp_path / "run"), "--no-report", path=path, cwd=folder)
    rows = read_results(tmp_path / "run")
    assert rows[rows["metric"] == "first_streak"]["p_value"].notna().all()


@pytest.mark.slow
def test_a_plug_ins_metric_is_in_audit_results_and_docs(sets, tmp_path):
    folder, audit = sets
    path = os.pathsep.join([distribution(tmp_path / "site", (TOY / "entry_points.txt").read_text()), str(TOY)])
    done = run(*audit[:-2], str(tmp_path / "run"), "--no-report", path=path, cwd=folder)
    assert re.search(r"^toy_lead +equipoise", done.stdout, re.MULTILINE)
    assert "the metric 'toy_broken' of 'toy'" in done.stderr
    rows = read_results(tmp_path / "run")
    whole = rows[(rows["metric"] == "toy_lead") & rows["subject"].isna()]
    assert len(whole) == 1
    assert 0 < whole["null_mean"].item() < 8
    assert whole[["ci_low", "ci_high", "p_value", "excess"]].notna().all(axis=None)
    assert "toy_mean" not in set(rows["metric"])  # not decorated: it has no null
    code = "import runpy, sys; sys.argv.append('--plugins'); runpy.run_path(sys.argv[1], run_name='__main__')"
    table = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(ROOT / "docs/metrics_table.py")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([path, os.environ.get("PYTHONPATH", "")])},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "`toy_lead` · `lead`" in table.stdout
    assert json.dumps("toy_lead") not in (ROOT / "docs/measure.md").read_text(encoding="utf-8")
