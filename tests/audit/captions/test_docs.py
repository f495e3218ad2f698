"""The page on captioning models shows what the command does."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from equipoise.cli.captions import captions
from equipoise.data import read_results

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "captions.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_examples_run_and_print_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(captions)
    shown = []
    for kind, code in re.findall(r"```(python|console|text)\n(.*?)```", PAGE, re.DOTALL):
        if kind == "python":
            exec(code, {})
        elif kind == "text":
            # numbers may move in the last digit with the library versions; the shape and the first digits may not
            assert _shape(code) in _shape(shown[-1])
        else:
            (line,) = code.strip().splitlines()
            done = CliRunner().invoke(app, shlex.split(line.removeprefix("$ equipoise captions ")))
            assert done.exit_code == 0, (done.output, done.exception)
            shown.append(done.stdout)
    assert len(shown) == 2
    found = read_results("runs/world")
    wrong = found[(found["metric"] == "error") & (found["model"] == "lazy") & found["group"].isna()]["value"]
    assert 0.06 < wrong.iloc[0] < 0.1


def _shape(text: str) -> str:
    """The words of a table without its numbers and marks."""
    return " ".join(re.findall(r"[A-Za-z_~%|][\w~%|-]*", text))


def test_every_metric_of_the_table_is_explained():
    from equipoise.audit.captions.printing import BIAS, QUALITY

    for name in (*BIAS, *QUALITY):
        if name not in ("meteor", "spice"):
            assert re.search(rf"\| .*`{name}`", PAGE) or f"`{name}`" in PAGE, name


def test_every_file_of_the_folder_is_explained(tmp_path):
    from equipoise.audit.captions.run import audit_captions
    from equipoise.audit.captions.settings import CaptionSettings
    from equipoise.data.runs import read_run

    rows = [
        (i, "male" if i % 2 else "female", f"a {'man' if i % 2 else 'woman'} with thing {i % 7}") for i in range(80)
    ]
    said = "".join(json.dumps({"image_id": i, "gender": group, "caption": text}) + "\n" for i, group, text in rows)
    (tmp_path / "said.jsonl").write_text(said)
    settings = CaptionSettings(permutations=2, seeds=2, quality=False)
    audit_captions([tmp_path / "said.jsonl"], None, "gender", tmp_path / "out", settings=settings)
    written = read_run(tmp_path / "out", "captions").files
    assert len(written) > 5
    for name in written - {"report.txt"}:
        assert f"`{name}`" in PAGE, name
