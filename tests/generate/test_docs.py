"""The page on making images shows what runs."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from equipoise.data import Table
from equipoise.data.people import person

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "generate.md").read_text(encoding="utf-8")


def test_the_examples_run(painter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from equipoise import models
    from equipoise.cli.main import app

    real = models.load
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(models, "load", lambda *a, **k: painter if k.get("kind") == "generator" else real(*a, **k))
    people = json.dumps([person(box=[2, 2, 9, 9])])
    rows = [
        {"image": Image.new("RGB", (16, 16)), "image_id": str(i), "captions": ["A man"], "people": people}
        for i in range(10)
    ]
    Table.create("photos", rows, columns={"people": "json"})
    names: dict[str, Any] = {}
    for kind, code in re.findall(r"```(python|console)\n(.*?)```", PAGE, re.DOTALL):
        if kind == "python":
            exec(code, names)
        else:
            for line in code.splitlines():
                done = CliRunner().invoke(app, shlex.split(line.removeprefix("$ equipoise "), comments=True))
                assert done.exit_code == 0, f"{line}\n{done.output}"
                assert "--dry-run" not in line or "4,800 images" in done.output
    assert len(names["table"]) == 48
    assert [len(t) for t in names["tables"].values()] == [10, 10]
    assert len(Table.open("both")) == 10 + len(Table.open("edits"))


def test_every_command_is_on_the_page() -> None:
    from equipoise.cli.generate import app

    for command in app.registered_commands:
        assert command.callback is not None
        assert f"| `{command.callback.__name__}` |" in PAGE
