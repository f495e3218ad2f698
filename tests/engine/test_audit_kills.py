"""An audit that is killed while a model encodes goes on with what was missing, and ends with the same bytes."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from equipoise.data import Table
from equipoise.engine import EmbeddingStore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")

N_IMAGES = 48


def asked_for(log: Path) -> dict[str, int]:
    """How many images and texts an encoder was asked for, from its log."""
    counts = {"images": 0, "texts": 0}
    for line in log.read_text().splitlines() if log.exists() else ():
        what, n = line.split()
        counts[what] += int(n)
    return counts


@dataclass
class Undisturbed:
    table: Path
    results: dict[str, str]
    home: Path

    def order(self, home: Path, log: str, **more: Any) -> dict[str, Any]:
        folders = {"table": str(self.table), "out": str(home / "out"), "cache": str(home / "cache")}
        return folders | {"log": str(home / log)} | more


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, children: Any, made_rows: Any, all_files: Any) -> Undisturbed:
    home = tmp_path_factory.mktemp("audit")
    rows = made_rows(N_IMAGES)
    for i, row in enumerate(rows):
        row |= {"subject": f"job{i // 8}", "set_id": f"set{i // 2}", "gender": ("female", "male")[i % 2]}
    # run.json says where the table lies, as a path from the results: the same from every folder that is compared here
    table = tmp_path_factory.mktemp("tables") / "in"
    Table.create(table, rows, axes=["gender"], rows_per_shard=20)
    found = Undisturbed(table, {}, home)
    assert children.run("audit", **found.order(home, "log")) == 0
    assert asked_for(home / "log")["images"] == N_IMAGES
    found.results = all_files(home / "out")
    assert {"results.parquet", "queries.parquet", "_evidence/images.npy"} <= set(found.results)
    return found


def kill_and_go_on(seed: int, undisturbed: Undisturbed, children: Any, home: Path, files: Any) -> None:
    rng = random.Random(seed)
    wanted = rng.randrange(1, 11)  # batches that are encoded before the kill, of twelve
    pid = children.start("audit", **undisturbed.order(home, "first"))
    while not (home / "first").exists() or (home / "first").read_text().count("images") < wanted:
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.01))
    os.kill(pid, signal.SIGKILL)
    assert children.end() == -signal.SIGKILL, "the kill came too late"
    assert not (home / "out" / "results.parquet").exists()
    # What is in the store when it is killed: all texts, and so many images.
    kept = len(EmbeddingStore(home / "cache" / "embeddings", "colours")) - asked_for(home / "first")["texts"]
    # A batch that was noted may not be in the store yet, and the one in hand may be there.
    assert 4 * (wanted - 1) <= kept < N_IMAGES
    assert children.run("audit", **undisturbed.order(home, "second")) == 0
    assert asked_for(home / "second") == {"images": N_IMAGES - kept, "texts": 0}
    assert files(home / "out") == undisturbed.results


def test_an_audit_that_is_killed_goes_on(undisturbed: Undisturbed, children: Any, tmp_path: Path, files: Any) -> None:
    kill_and_go_on(0, undisturbed, children, tmp_path, files)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_an_audit_that_is_killed_at_twenty_moments_goes_on(
    seed: int, undisturbed: Undisturbed, children: Any, tmp_path: Path, files: Any
) -> None:
    kill_and_go_on(seed, undisturbed, children, tmp_path, files)


def test_a_second_audit_asks_the_model_nothing(
    undisturbed: Undisturbed, children: Any, tmp_path: Path, files: Any
) -> None:
    again = undisturbed.order(undisturbed.home, "again") | {"out": str(tmp_path / "out")}
    assert children.run("audit", **again) == 0
    assert asked_for(undisturbed.home / "again") == {"images": 0, "texts": 0}
    assert files(tmp_path / "out") == undisturbed.results


def test_without_the_cache_nothing_is_kept_and_the_results_are_the_same(
    undisturbed: Undisturbed, children: Any, tmp_path: Path, files: Any
) -> None:
    assert children.run("audit", **undisturbed.order(tmp_path, "log", keep=False)) == 0
    assert not (tmp_path / "cache").exists()
    assert asked_for(tmp_path / "log")["images"] == N_IMAGES
    assert files(tmp_path / "out") == undisturbed.results


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install 'equipoise[ray]'"
)
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("keep", [True, False])
def test_ray_gives_the_same_bytes(
    keep: bool, undisturbed: Undisturbed, children: Any, tmp_path: Path, files: Any
) -> None:
    assert children.run("audit", **undisturbed.order(tmp_path, "log", engine="ray", keep=keep)) == 0
    assert files(tmp_path / "out") == undisturbed.results
    assert (tmp_path / "cache").exists() == keep
