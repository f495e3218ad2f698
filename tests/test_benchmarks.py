"""`make bench` fails for a limit that is missed each time it is measured, not for one busy second."""

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.mark.parametrize(("outcomes", "code", "measured"), [("+", 0, 1), ("-+", 0, 2), ("--+", 0, 3), ("---", 1, 3)])
def test_what_misses_a_limit_is_measured_again(
    outcomes: str, code: int, measured: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent))
    runner = importlib.import_module("benchmarks.__main__")
    left = list(outcomes)

    def run() -> list[dict[str, Any]]:
        return [{"name": "cost", "value": 1.0, "limit": 1.0, "ok": left.pop(0) == "+"}]

    monkeypatch.setattr(runner, "import_module", lambda name: SimpleNamespace(run=run))
    assert runner.main(["world"]) == code
    told = capsys.readouterr().out
    assert told.count("cost") == measured
    assert ("limits missed each time: world" in told) == (code == 1)
