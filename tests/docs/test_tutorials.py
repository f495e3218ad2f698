"""Every command and every line of Python in the tutorials runs, from top to bottom, on the miniatures."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.data import read_results
from equipoise.models.miniatures import FOLDER

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
NAMES = sorted(path.stem for path in TUTORIALS.glob("*.md"))
LONG = ("add-a-metric", "audit-my-captioner", "audit-my-clip", "coco-photographs", "compare-two-models")
LONG += ("make-and-filter-sets", "my-own-embeddings", "my-own-photographs", "my-own-prompts", "people-look")
"""Run by `make test-all`: other tests run each of their commands on less."""
NEEDS = {"make-and-filter-sets": "diffusion", "coco-photographs": "edit"}
LEAVES = {
    "audit-my-clip": ["runs/clip/report.html", "clip.html", "runs/clip-berg/report.html"],
    "compare-two-models": ["two.html", "repair.html", "remedies/gender/run.json"],
    "audit-my-captioner": ["captions.html", "runs/captions/words.csv"],
    "make-and-filter-sets": ["made.html", "runs/filter/funnel.csv"],
    "add-a-metric": ["runs/clip/results.parquet"],
    "my-own-photographs": ["people/_table.json", "people-again/_table.json", "runs/people/report.html"],
    "my-own-embeddings": ["runs/faces/report.html", "runs/again/report.html", "runs/scores/report.html"],
    "my-own-prompts": ["runs/prompts/report.html", "runs/vectors/report.html"],
    "coco-photographs": ["runs/photos/report.html", "both/_table.json", "runs/contrast/report.html"],
    "people-look": ["labels.csv", "pages-dan/index.html"],
}


def blocks_of(name):
    """The fenced blocks that are run: (kind, code), in order."""
    text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    return re.findall(r"(?m)^```(sh|python)\n(.*?)^```", text, re.DOTALL)


def run_commands(code):
    for line in code.replace("\\\n", " ").strip().splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "equipoise", f"only equipoise is run here: {line}"
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"


def test_there_is_a_tutorial_for_each_kind_of_user():
    assert set(NAMES) == set(LEAVES)
    for name in NAMES:
        kinds = [kind for kind, _ in blocks_of(name)]
        assert "sh" in kinds, name
        assert "python" in kinds, name


def test_nothing_that_looks_like_a_command_escapes():
    """A fence of another kind would not be run; prose may name commands, a block may not hide one."""
    for name in NAMES:
        text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
        for kind, code in re.findall(r"(?m)^```(\w*)\n(.*?)^```", text, re.DOTALL):
            assert kind in ("sh", "python"), (name, kind, code)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in NAMES]
)
def test_every_command_runs(name, tmp_path, monkeypatch):
    part = NEEDS.get(name)
    if part and not (FOLDER / part).is_dir():
        pytest.skip(f"the miniature {part} is not in this installation")
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "tutorial"}
    for kind, code in blocks_of(name):
        if kind == "sh":
            run_commands(code)
        else:
            exec(compile(code, f"{name}.md", "exec"), names)
    for file in LEAVES[name]:
        assert (tmp_path / file).is_file(), file
    if name == "audit-my-clip":
        rows = read_results("runs/clip")
        assert rows[(rows["metric"] == "max_skew") & rows["subject"].isna()]["p_value"].iloc[0] < 0.01
    if name == "compare-two-models":
        assert not Path("runs/biased/report.html").exists()  # --no-report
    if name == "add-a-metric":
        assert names["found"]["p_value"] < 0.01
