"""Malformed inputs to every command that reads: one sentence each, never a traceback, a hang or gigabytes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("malformed.py")
CHILDREN = 2
CASES = 5_000  # in each child


def run(folder: Path, *arguments: list[str]) -> list[dict[str, Any]]:
    """What each child prints; its words go to files, so that no child waits for us to read them."""
    children = []
    for number, words in enumerate(arguments):
        with (folder / f"{number}.out").open("w") as out, (folder / f"{number}.err").open("w") as errors:
            children.append(subprocess.Popen([sys.executable, str(PROGRAM), *words], stdout=out, stderr=errors))
    codes = [child.wait(timeout=7200) for child in children]
    for number, code in enumerate(codes):
        assert code == 0, (folder / f"{number}.err").read_text()[-6000:]
    return [json.loads((folder / f"{number}.out").read_text()) for number in range(len(children))]


def test_some_malformed_inputs(equipoise: Any, home: Path) -> None:
    """Three of each kind but models, which take seconds to import and have their own sample in ``tests/models``."""
    kinds = ("reader", "run", "table", "settings", "captions", "arguments", "service")
    ended = equipoise("0", "21", *kinds, "--home", home, program="malformed", seconds=120)
    assert ended.code == 0, ended.told[-6000:]
    found = json.loads(ended.sentence)
    assert sum(found["outcomes"].values()) == 21
    assert sum(n for outcome, n in found["outcomes"].items() if outcome.endswith("refused")) > 3


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_ten_thousand_malformed_inputs(tmp_path: Path) -> None:
    found = run(tmp_path, *([str(1000 + i * CASES), str(CASES)] for i in range(CHILDREN)))
    outcomes = sum((Counter(one["outcomes"]) for one in found), Counter())
    assert sum(outcomes.values()) == CHILDREN * CASES
    assert max(one["peak_mib"] for one in found) < 2048
    assert max(one["slowest"] for one in found) < 20
    for kind in ("reader", "run", "table", "settings", "captions", "arguments", "model", "service"):
        assert outcomes[f"{kind} refused"] > 150, outcomes  # every kind is among them, in numbers
