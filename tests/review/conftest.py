"""A small table, a review of it, and a server in this process."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.chromium import browser

from equipoise.data import Table
from equipoise.data.images import encode
from equipoise.review import Questionnaire, ReviewSettings, ReviewStore, prepare, preset
from equipoise.review.serving import listening, server_of

__all__ = ["browser"]

ORGANISER = "the-organiser-token"


def rows_of(n: int = 12) -> list[dict[str, Any]]:
    """``n`` pictures in sets of two, female and male; the odd ones have blue in them."""
    made = []
    for i in range(n):
        gender = ("female", "male")[i % 2]
        image = Image.new("RGB", (64, 48), (200 - 10 * (i % 10), 90, 200 * (i % 2)))
        made.append(
            {
                "image_id": f"{gender}-{i}",
                "set_id": f"set-{i // 2}",
                "source_id": f"female-{i - i % 2}" if i % 2 else None,
                "subject": "nurse",
                "caption": f"a {gender} nurse, number {i}",
                "gender": gender,
                "label_source": "world",
                "image": {"bytes": encode(image), "path": None},
            }
        )
    return made


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table.create(tmp_path / "table", rows_of(), axes=["gender"])


@pytest.fixture
def review_of(tmp_path: Path) -> Iterator[Callable[..., ReviewStore]]:
    """Makes a review of a table; closed when the test ends."""
    made: list[ReviewStore] = []

    def make(table: Table, sheet: Questionnaire | None = None, name: str = "review", **settings: Any) -> ReviewStore:
        chosen = sheet or preset("perceived-group", axis="gender")
        made.append(prepare(table, chosen, tmp_path / name, ReviewSettings(**settings)))
        return made[-1]

    yield make
    for store in made:
        store.close()


@dataclass
class Served:
    """A server in a thread of this process."""

    store: ReviewStore
    port: int
    organiser: str = ORGANISER

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def link(self, token: str, page: str = "") -> str:
        return f"{self.home}/{page}#{token}"

    def client(self, token: str = "", **more: Any) -> Any:
        httpx = pytest.importorskip("httpx")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.home, headers=headers, timeout=20, trust_env=False, **more)


@contextmanager
def running(store: ReviewStore) -> Iterator[Served]:
    """The server of a review while the block lasts."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    with listening(0) as listener:
        server = server_of(store, listener, ORGANISER)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.005)
        try:
            yield Served(store, listener.getsockname()[1])
        finally:
            server.should_exit = True
            server.force_exit = True
            thread.join(20)


@pytest.fixture
def serving() -> Iterator[Callable[[ReviewStore], Served]]:
    """Starts a server for a review; stopped when the test ends."""
    with ExitStack() as held:
        yield lambda store: held.enter_context(running(store))


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests of a file: everybody sees all of 12 images; each test lets in people of its own."""
    home = tmp_path_factory.mktemp("lasting")
    table = Table.create(home / "table", rows_of(), axes=["gender"])
    sheet = preset("perceived-group", axis="gender")
    store = prepare(table, sheet, home / "review", ReviewSettings(shared=1.0))
    with running(store) as served:
        yield served
    store.close()


_NAMES = itertools.count()


@pytest.fixture
def newcomer(lasting: Served) -> tuple[Served, str, str]:
    """The lasting server, and the name and token of somebody new."""
    name = f"p{next(_NAMES)}"
    return lasting, name, lasting.store.add(name)[name]
