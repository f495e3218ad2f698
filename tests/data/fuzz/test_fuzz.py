"""Malformed inputs: each ends in a clear error or a rejected row, never another exception, a hang or a wrong row."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from equipoise.data import import_table
from equipoise.errors import InputError

PROGRAM = Path(__file__).with_name("fuzzing.py")
CHILDREN = 2
CASES = 9_000  # in each child


@pytest.fixture(scope="module")
def fuzzing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzzing", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fuzzing"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def targets(fuzzing: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return fuzzing.valid_targets(tmp_path_factory.mktemp("fuzz"))


def test_a_few_hundred_malformed_inputs(fuzzing: ModuleType, targets: Any) -> None:
    outcomes: Counter[str] = Counter()
    for name, number in fuzzing.case_names(targets, 0, 336):
        outcomes[fuzzing.run_case(targets, name, number)] += 1
    assert outcomes["refused"] + outcomes["rejected"] > 200


def test_what_was_rejected_is_kept_in_the_errors_of_the_table(
    fuzzing: ModuleType, targets: Any, tmp_path: Path
) -> None:
    made = refused = with_errors = 0
    for name, number in fuzzing.case_names(targets, 1000, 56):
        target = targets[name]
        if target.kind == "image":
            continue
        target.file.write_bytes(fuzzing.mutate(target, fuzzing.random.Random(f"{name}:{number}"))[0])
        try:
            found = import_table(target.reader, target.path, tmp_path / str(number), **target.options)
        except InputError:
            refused += 1
            assert not (tmp_path / str(number)).exists()
            continue
        finally:
            target.file.write_bytes(target.valid)
        made += 1
        found.table.validate()
        assert len(found.table.errors()) == found.n_rejected
        assert len(found.table) == found.n_rows
        with_errors += found.n_rejected > 0
    assert made > 10
    assert refused > 3
    assert with_errors > 10


def test_the_oracle_can_fail(fuzzing: ModuleType, targets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that let a bad number through, or fell over, would be found."""
    from equipoise.data.readers import scores

    cases = [case for case in fuzzing.case_names(targets, 0, 28 * 40) if case[0] == "scores-long"]
    monkeypatch.setattr(scores, "number", lambda value, name: float(value))
    with pytest.raises((ValueError, AssertionError)):
        [fuzzing.run_case(targets, name, number) for name, number in cases]


@pytest.mark.slow
def test_ten_thousand_malformed_inputs_under_limits(tmp_path: Path) -> None:
    found = _run(tmp_path, *([str(i * CASES), str(CASES)] for i in range(CHILDREN)))
    outcomes = sum((Counter(f["outcomes"]) for f in found), Counter())
    assert sum(outcomes.values()) == CHILDREN * CASES
    assert outcomes["refused"] + outcomes["rejected"] >= 10_000
    assert max(f["peak_mib"] for f in found) < 2048


@pytest.mark.slow
def test_every_damaged_byte_of_a_parquet_file(tmp_path: Path) -> None:
    (found,) = _run(tmp_path, ["bits"])
    assert sum(found["outcomes"].values()) > 10_000


def _run(folder: Path, *arguments: list[str]) -> list[dict[str, Any]]:
    """What each child prints; its words go to files, so that no child waits for us to read them."""
    children = []
    for i, words in enumerate(arguments):
        with (folder / f"{i}.out").open("w") as out, (folder / f"{i}.err").open("w") as errors:
            children.append(subprocess.Popen([sys.executable, str(PROGRAM), *words], stdout=out, stderr=errors))
    codes = [child.wait(timeout=1800) for child in children]
    for i, code in enumerate(codes):
        assert code == 0, f"ended with {code}; last words:\n{(folder / f'{i}.err').read_text()[-3000:]}"
    return [json.loads((folder / f"{i}.out").read_text()) for i in range(len(children))]
