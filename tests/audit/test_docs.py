"""The pages on audits show what the code does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np

from equipoise.audit.suites import SUITES
from equipoise.data import read_results

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_worked_example_runs_from_top_to_bottom(tmp_path, monkeypatch, command_line):
    monkeypatch.chdir(tmp_path)
    section = (DOCS / "audit.md").read_text(encoding="utf-8").split("## A model behind an API")[1].split("\n## ")[0]
    names: dict = {}
    for kind, code in re.findall(r"```(python|console)\n(.*?)```", section, re.DOTALL):
        if kind == "python":
            exec(code, names)
            continue
        for line in code.strip().splitlines():
            command, _, target = line.removeprefix("$ equipoise ").partition(" > ")
            done = command_line(*shlex.split(command))
            assert done.returncode == 0, done.stderr
            if target:
                Path(target).write_text(done.stdout, encoding="utf-8")
    assert len(Path("texts.txt").read_text().splitlines()) == 12
    assert len(read_results("runs/api")) == len(read_results("runs/scores"))


def test_the_table_of_suites_names_every_suite():
    page = (DOCS / "audit.md").read_text(encoding="utf-8")
    for name in SUITES.names():
        assert re.search(rf"(?m)^\| `{name}` \| ", page), name


def test_the_example_suite_finds_what_was_planted(toy, picked):
    page = (DOCS / "adding-a-suite.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)    ```", page, re.DOTALL)[1]
    names: dict = {}
    exec("\n".join(line.removeprefix("    ") for line in code.splitlines()), names)
    rng = np.random.default_rng(0)
    texts = dict(zip(names["TEXTS"], rng.normal(size=(2, 8)), strict=True))
    rows, vectors = [], dict(texts)
    for number in range(200):
        group = "ab"[number % 2]
        rows.append({"image_id": f"i{number}", "gender": group})
        lean = texts[names["TEXTS"][0]] - texts[names["TEXTS"][1]]
        vectors[f"i{number}"] = rng.normal(size=8) + (0.5 if group == "a" else -0.5) * lean
    audit = toy(rows, vectors, axes=["gender"]).run(names["SUITE"], draws=200)
    assert picked(audit.results, metric="leader_share", group="a").value > 0.7
    assert picked(audit.results, metric="leader_gap").p_value < 0.01
