"""Images that are made and checked on Ray are those of one process, byte for byte."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.world import preset
from equipoise.world.tables import write_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: equipoise[ray]"),
]

EDITS = ["edits", "street", "-g", "mini:edit", "--steps", "2", "--instructions", "1", "--guidance", "7.5", "--whole"]


def generate(folder: Path, *arguments: str) -> str:
    """What ``equipoise generate`` prints in ``folder``."""
    line = [sys.executable, "-m", "equipoise", "generate", *arguments]
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}  # as Ray gives its workers: more of them round otherwise
    done = subprocess.run(line, cwd=folder, env=one_thread, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_table(tmp_path / "street", preset("fair"), 20, seed=3)
    return tmp_path


@pytest.mark.parametrize(
    "line", [["perturb", "street", "--blur", "0.05"], [*EDITS, "--check", "mini:clip-fair", "--preview-every", "10"]]
)
def test_the_same_bytes_on_ray(home: Path, line: list[str]) -> None:
    here = generate(home, *line, "-o", "here")
    there = generate(home, *line, "-o", "there", "--engine", "ray", "--workers", "2")
    assert there == here.replace("here", "there")
    assert files_of(home / "there") == files_of(home / "here") != {}
    # What Ray made is finished here: the engine is no setting of the images.
    assert generate(home, *line, "-o", "there") == there
