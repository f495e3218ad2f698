"""Ray gives the table that the local engine gives, also when its worker processes are killed."""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import engine
from equipoise.data import Table
from equipoise.errors import InputError, MissingExtraError

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="ray is not installed: pip install 'equipoise[ray]'")

on_ray = functools.partial(engine.map, engine="ray", progress=False)
here = functools.partial(engine.map, progress=False)


def test_without_ray_the_sentence_says_what_to_install(
    people: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"engine='ray' needs .*pip install .*\[ray\]'"):
        on_ray(lambda rows: rows, people, tmp_path / "out")


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    if not HAS_RAY:
        pytest.skip("ray is not installed: pip install 'equipoise[ray]'")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield ray
    ray.shutdown()


# The functions are local to each test: Ray can import no test module, but it takes local functions as they are.


@needs_ray
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
class TestRay:
    def test_the_same_bytes_as_local(self, ray: Any, people: Table, tmp_path: Path, files: Any) -> None:
        def shrunk(rows: list[dict[str, Any]]) -> list[Any]:
            return [
                ValueError("three") if row["seed"] % 7 == 3 else {"image": row["image"].resize((8, 8))} for row in rows
            ]

        local = here(shrunk, people, tmp_path / "local", decode=True, batch_size=4)
        made = on_ray(shrunk, people, tmp_path / "ray", decode=True, batch_size=4)
        assert files(made.path) == files(local.path)
        assert made.n_errors == 4
        # What one engine began the other finishes: the engine is not part of the plan.
        assert on_ray(shrunk, people, tmp_path / "local", decode=True, batch_size=4).fingerprint == local.fingerprint

    def test_the_model_is_built_once_a_worker(self, ray: Any, tmp_path: Path) -> None:
        table = Table.create(tmp_path / "in", [{"image_id": str(i), "seed": i} for i in range(40)], rows_per_shard=4)
        built = tmp_path / "built"
        built.mkdir()

        class Model:
            def __init__(self) -> None:
                (built / f"{os.getpid()}-{time.monotonic_ns()}").touch()

            def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
                time.sleep(0.05)
                return [{"model": "m", "caption": str(row["seed"])} for row in rows]

        made = on_ray(Model, table, tmp_path / "out", schema="captions", workers=2)
        assert [row["caption"] for row in made.rows()] == [str(i) for i in range(40)]
        assert 1 <= len(list(built.iterdir())) <= 2

    @pytest.mark.parametrize("delay", [0.0, 0.004, 0.012, 0.03])
    def test_a_killed_worker_process_changes_nothing(
        self, ray: Any, people: Table, tmp_path: Path, files: Any, delay: float
    ) -> None:
        """The worker that meets row 12 is killed a moment later: in the function, the writer, or between them."""
        flag = str(tmp_path / "killed")

        def deadly(rows: list[dict[str, Any]]) -> list[Any]:
            if any(row["seed"] == 12 for row in rows) and os.environ.get("DEADLY") == "1":
                try:
                    os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
                    threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
                    time.sleep(min(delay, 0.002) if delay else 1)
                except FileExistsError:
                    pass
            return [{"image": row["image"].resize((8, 8))} for row in rows]

        local = here(deadly, people, tmp_path / "local", decode=True, batch_size=4)
        assert not os.path.exists(flag)
        options = {"resources": {"runtime_env": {"env_vars": {"DEADLY": "1"}}}}
        made = on_ray(deadly, people, tmp_path / "ray", decode=True, batch_size=4, **options)
        assert os.path.exists(flag)
        assert files(made.path) == files(local.path)

    def test_a_worker_that_always_dies_stops_the_run(self, ray: Any, people: Table, tmp_path: Path) -> None:
        def crashes(rows: list[dict[str, Any]]) -> list[Any]:
            if rows[0]["seed"] >= 20:
                os.kill(os.getpid(), signal.SIGKILL)
            return [{"model": "m", "caption": "x"} for _ in rows]

        with pytest.raises(engine.JobError, match=r"died 4 times over part-00002.parquet"):
            on_ray(crashes, people, tmp_path / "out", schema="captions", workers=1)
        assert sorted(p.name for p in (tmp_path / "out").glob("part-*")) == ["part-00000.parquet", "part-00001.parquet"]

    def test_errors_of_the_job_are_the_same_sentences(self, ray: Any, people: Table, tmp_path: Path) -> None:
        def broken(rows: list[dict[str, Any]]) -> list[Any]:
            return [row["nothing"] for row in rows]

        with pytest.raises(engine.JobError, match=r"every row failed in .*KeyError: 'nothing'"):
            on_ray(broken, people, tmp_path / "a", schema="captions")
        with pytest.raises(engine.JobError, match="returned 2 items for 10 rows"):
            on_ray(lambda rows: [1, 2], people, tmp_path / "b", schema="captions")

        def unloadable() -> Any:
            raise InputError("there is no such model; download it first")

        with pytest.raises(InputError, match="download it first"):
            on_ray(lambda rows, model: rows, people, tmp_path / "c", schema="captions", setup=unloadable)
        with pytest.raises(InputError, match="cannot hold a worker"):
            on_ray(lambda rows: rows, people, tmp_path / "d", schema="captions", resources={"num_gpus": 99})

    def test_workers_share_the_embedding_store(self, ray: Any, tmp_path: Path, make_rows: Any, files: Any) -> None:
        table = Table.create(tmp_path / "in", make_rows(48), axes=["gender"], rows_per_shard=6)

        class Colours:
            key = "colours"

            def encode_images(self, images: Any) -> Any:
                return np.array([np.asarray(image, np.float32).mean(axis=(0, 1)) for image in images])

            def encode_texts(self, texts: Any) -> Any:
                return np.zeros((len(texts), 3))

        options = {"batch_size": 3, "progress": False}
        local = engine.embed_images(table, Colours(), tmp_path / "local", store=tmp_path / "s1", **options)
        made = engine.embed_images(table, Colours(), tmp_path / "ray", store=tmp_path / "s2", engine="ray", **options)
        assert files(made.path) == files(local.path)
        assert len(engine.EmbeddingStore(tmp_path / "s2", "colours")) == 48

    def test_ctrl_c_finishes_the_shards_in_hand(self, ray: Any, tmp_path: Path) -> None:
        table = Table.create(tmp_path / "in", [{"image_id": str(i), "seed": i} for i in range(40)], rows_per_shard=2)

        def slow(rows: list[dict[str, Any]]) -> list[Any]:
            time.sleep(0.2)
            return [{"model": "m", "caption": str(row["seed"])} for row in rows]

        threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(engine.Interrupted, match="of 20 shards"):
            on_ray(slow, table, tmp_path / "out", schema="captions", workers=2, on_interrupt=lambda s: None)
        done = len(list((tmp_path / "out").glob("part-*")))
        assert done < 20
        assert not list((tmp_path / "out").glob(".part*"))
        made = on_ray(slow, table, tmp_path / "out", schema="captions", workers=2)
        assert [row["caption"] for row in made.rows()] == [str(i) for i in range(40)]


SCRIPT = """
import sys, time
from equipoise import engine

def slow(rows):
    time.sleep(0.1)
    return [{"model": "m", "caption": str(row["seed"])} for row in rows]

if __name__ == "__main__":
    engine.map(slow, sys.argv[1], sys.argv[2], schema="captions", engine=sys.argv[3], workers=None, progress=False)
"""


@needs_ray
@pytest.mark.slow
def test_a_killed_driver_resumes_to_the_same_bytes(tmp_path: Path, files: Any) -> None:
    rows = [{"image_id": str(i), "seed": i} for i in range(60)]
    table = Table.create(tmp_path / "in", rows, rows_per_shard=2)
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)

    def command(name: str, which: str) -> list[str]:
        return [sys.executable, str(script), str(table.path), str(tmp_path / name), which]

    subprocess.run(command("local", "local"), check=True)
    driver = subprocess.Popen(
        command("ray", "ray"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while len(list((tmp_path / "ray").glob("part-*"))) < 3:
        assert time.monotonic() < deadline
        assert driver.poll() is None
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    assert not (tmp_path / "ray" / "_table.json").exists()
    subprocess.run(command("ray", "ray"), check=True, stderr=subprocess.DEVNULL, timeout=120)
    with suppress(ProcessLookupError):  # Ray's own helpers outlive a driver that was killed
        os.killpg(driver.pid, signal.SIGKILL)
    assert files(tmp_path / "ray") == files(tmp_path / "local")
