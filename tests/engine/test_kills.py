"""Whenever a run is killed, the next one goes on and the result is the same to the byte."""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.engine import EmbeddingStore
from equipoise.engine.content import text_ids

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, children: Any) -> tuple[Path, Path, float]:
    """An input of 30 images in 5 shards, what becomes of it when nobody interferes, and how long that takes."""
    folder = tmp_path_factory.mktemp("kills")
    rows = []
    for i in range(30):
        picture = io.BytesIO()
        Image.new("RGB", (32, 24), (i * 8, 90, 200 - i)).save(picture, format="JPEG")
        rows.append({"image": picture.getvalue(), "image_id": f"{i:03d}", "caption": f"person {i}", "seed": i})
    rows[21]["image"] = b"no image"
    Table.create(folder / "in", rows, rows_per_shard=6)
    times = []
    for name in ("first", "out"):
        start = time.monotonic()
        assert children.run("map", input=str(folder / "in"), output=str(folder / name)) == 0
        times.append(time.monotonic() - start)
    return folder / "in", folder / "out", min(times)


POINTS = [
    "map.before_shard:1",
    "map.before_shard:3",
    "map.before_batch:4",
    "map.before_write:2",
    "shard.before_errors:2",
    "shard.before_write:1",
    "shard.before_write:3",
    "shard.before_rename:1",
    "shard.before_rename:4",
    "file.before_rename:1",
    "file.before_rename:2",
    "file.before_rename:5",
    "shard.after_rename:2",
    "map.after_write:5",
    "map.before_finish:1",
    "table.before_finish:1",
    "table.after_finish:1",
]


def check_result(folder: Path, expected: Path, files: Any) -> None:
    assert files(folder) == files(expected)
    made = Table.open(folder)
    made.validate()
    failed = {3, 10, 16, 17, 21, 24}
    assert [row["seed"] for row in made.rows(["seed"])] == [i for i in range(30) if i not in failed]
    assert made.errors()["where"].tolist() == [f"{i:03d}" for i in sorted(failed)]


@pytest.mark.parametrize(
    "point", [p if i % 3 == 0 else pytest.param(p, marks=pytest.mark.slow) for i, p in enumerate(POINTS)]
)
def test_killed_at_a_named_moment(
    point: str, undisturbed: tuple[Path, Path, float], children: Any, tmp_path: Path, files: Any
) -> None:
    source, expected, _ = undisturbed
    out = tmp_path / "out"
    assert children.run("map", point, input=str(source), output=str(out)) == -signal.SIGKILL
    assert children.run("map", input=str(source), output=str(out)) == 0
    check_result(out, expected, files)


def test_killed_again_and_again_at_the_same_moment(
    undisturbed: tuple[Path, Path, float], children: Any, tmp_path: Path, files: Any
) -> None:
    """Each run gets one shard further and dies; in the end all of it is there."""
    source, expected, _ = undisturbed
    for _ in range(5):
        assert children.run("map", "map.after_write:1", input=str(source), output=str(tmp_path)) == -signal.SIGKILL
    assert children.run("map", "map.after_write:1", input=str(source), output=str(tmp_path)) == 0
    check_result(tmp_path, expected, files)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_killed_at_random_moments(
    seed: int, undisturbed: tuple[Path, Path, float], children: Any, tmp_path: Path, files: Any
) -> None:
    source, expected, seconds = undisturbed
    rng = random.Random(seed)
    out = tmp_path / "out"
    kills = 0
    for _ in range(60):
        if (out / "_table.json").exists():  # finished between two kills; begin anew, so that every kill disturbs
            assert children.run("map", input=str(source), output=str(out)) == 0
            check_result(out, expected, files)
            shutil.rmtree(out)
        pid = children.start("map", input=str(source), output=str(out))
        time.sleep(rng.uniform(0, 0.7 * seconds))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        kills += children.end() == -signal.SIGKILL
        if kills == 5:
            break
    assert kills == 5, "the kills came too late to disturb anything"
    assert children.run("map", input=str(source), output=str(out)) == 0
    check_result(out, expected, files)


STORE_POINTS = [
    "file.before_rename:1",
    "file.before_rename:2",
    "file.before_rename:3",
    "store.after_vectors:1",
    "store.after_vectors:3",
    "store.after_ids:2",
    "store.after_note:1",
    "store.after_vectors:6",
    "store.after_ids:6",
]


def check_store(root: Path, numbers: list[int]) -> None:
    store = EmbeddingStore(root, "kill-test")
    found, missing = store.get(text_ids(map(str, numbers)))
    assert not missing.any()
    assert found.tolist() == np.array([[n, 1.0] for n in numbers], np.float32).tolist()
    assert len(store) == len(set(numbers)), "no vector twice"


@pytest.mark.parametrize("point", STORE_POINTS)
def test_a_store_killed_at_a_named_moment(point: str, children: Any, tmp_path: Path) -> None:
    """The fifth addition merges four segments, so the later moments are in the middle of a merge."""
    numbers = list(range(30))
    order = {"root": str(tmp_path), "numbers": numbers, "at_once": 5}
    assert children.run("store", point, **order) == -signal.SIGKILL
    after = EmbeddingStore(tmp_path, "kill-test")
    known = after.has(text_ids(map(str, numbers)))
    assert len(after) == known.sum(), "whatever the moment, a vector counts once"
    assert children.run("store", **order) == 0
    check_store(tmp_path, numbers)
    left = [path.name for path in (tmp_path / after.path).iterdir() if not path.name.startswith("seg-")]
    assert left == ["store.json"]


@pytest.mark.slow
def test_two_processes_fill_one_store(children: Any, other_children: Any, tmp_path: Path) -> None:
    up, down = list(range(80)), list(range(100, 19, -1))
    children.start("store", root=str(tmp_path), numbers=up, at_once=4)
    other_children.start("store", root=str(tmp_path), numbers=down, at_once=3)
    assert children.end() == 0
    assert other_children.end() == 0
    check_store(tmp_path, sorted({*up, *down}))
