"""Many people at once, and a server that is killed: no confirmed answer is lost, and none is there twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from tests.review.annotating import LEAST, Log, annotate
from tests.review.conftest import rows_of

from equipoise.data import Table
from equipoise.review import ReviewSettings, ReviewStore, open_review, prepare, preset

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are forked and killed")


def made(home: Path, items: int, people: int) -> tuple[ReviewStore, dict[str, str]]:
    table = Table.create(home / "table", rows_of(items), axes=["gender"])
    store = prepare(table, preset("perceived-group", axis="gender"), home / "review", ReviewSettings(shared=1.0))
    return store, store.add(*(f"p{i}" for i in range(people)))


class Forks:
    """A server that is started and killed at once."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, str(HERE / "serving_forks.py"), str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self) -> tuple[int, int]:
        """The id of the process, and its port."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        pid, port = self.process.stdout.readline().split()
        return int(pid), int(port)


@contextmanager
def forks(folder: Path) -> Iterator[Forks]:
    made_of = Forks(folder)
    try:
        yield made_of
    finally:
        assert made_of.process.stdin is not None
        assert made_of.process.stdout is not None
        made_of.process.stdin.close()
        made_of.process.wait(20)
        made_of.process.stdout.close()


def kept(store: ReviewStore) -> dict[tuple[str, int], str]:
    rows = store.rows("SELECT annotator, item, answer FROM answers")
    found = {(name, item): answer for name, item, answer in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("people", "seconds", "think", "items"),
    [pytest.param(8, 0.7, 0.05, 40, id="short"), pytest.param(50, 60, 0.5, 160, id="fifty")],
)
def test_many_people_at_once(tmp_path, people, seconds, think, items, record_property):
    store, tokens = made(tmp_path, items, people)
    with forks(tmp_path / "review") as server:
        pid, port = server.start()
        log = annotate(tokens, port, seconds, think)
        used = Path(f"/proc/{pid}/stat").read_text().split() if sys.platform == "linux" else []
        os.kill(pid, signal.SIGTERM)
    figures = {"answers": len(log.confirmed), "requests": len(log.seconds)}
    figures |= {f"p{percent}": round(log.slowest(percent / 100), 4) for percent in (50, 95, 99)}
    if used:  # what the server itself needed, however busy the machine is
        figures["cpu_ms_per_request"] = round(
            1000 * (int(used[13]) + int(used[14])) / os.sysconf("SC_CLK_TCK") / len(log.seconds), 2
        )
    print(figures)
    record_property("figures", figures)
    assert set(log.statuses) == {200}
    assert kept(store) == log.confirmed  # nothing lost, nothing doubled, nothing else
    assert store.rows("SELECT count(*) FROM history") == [(len(log.confirmed),)]
    assert len(log.confirmed) >= people * LEAST
    if people >= 50:  # a short run is all starting up
        assert log.slowest(0.95) < 0.2
    store.close()


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_what_was_confirmed_survives_being_killed(tmp_path, times):
    rng = random.Random(times)
    people = 6
    store, tokens = made(tmp_path, 60 * times, people)
    store.close()
    confirmed: dict[tuple[str, int], str] = {}
    doubtful: dict[tuple[str, int], str] = {}
    with forks(tmp_path / "review") as server:
        for _ in range(times):
            pid, port = server.start()
            log = Log()
            people_at_work = threading.Thread(target=annotate, args=(tokens, port, 30, 0, log))
            people_at_work.start()
            while not log.confirmed and people_at_work.is_alive():
                time.sleep(0.005)
            time.sleep(rng.uniform(0, 0.3))
            os.kill(pid, signal.SIGKILL)
            people_at_work.join()
            confirmed |= log.confirmed
            doubtful |= log.doubtful
            again = open_review(tmp_path / "review")
            there = kept(again)
            assert again.rows("PRAGMA integrity_check") == [("ok",)]
            again.close()
            lost = {key for key, answer in confirmed.items() if there.get(key) != answer}
            assert lost == set()
            assert set(there) - set(confirmed) <= set(doubtful)
    assert len(confirmed) >= times
