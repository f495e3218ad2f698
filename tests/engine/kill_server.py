"""Runs jobs in child processes that can be killed; started by the kill tests, once for many jobs.

Imports cost more than the job itself, so this process imports everything and then forks a child for each line of
JSON on standard input: ``{"job": ..., "arguments": {...}, "failpoint": "name:count"}``. It answers with the child's
process id and, when it has ended, with its exit status. It starts no thread, so that it may fork.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from typing import Any


def thumbnails(rows: list[dict[str, Any]]) -> list[Any]:
    """A small picture of each; every seventh row fails, and one row breaks its whole batch."""
    if any(row["seed"] == 16 for row in rows):
        raise ValueError("16 breaks its batch")
    return [
        ValueError(f"no {row['seed']}")
        if row["seed"] % 7 == 3
        else {"image": row["image"].resize((12, 12)), "caption": row["caption"], "seed": row["seed"]}
        for row in rows
    ]


def run_map(input: str, output: str) -> None:
    from equipoise import engine

    engine.map(thumbnails, input, output, decode=True, batch_size=4, progress=False, config={"size": 12})


def run_store(root: str, numbers: list[int], at_once: int) -> None:
    """Add a vector for each number, a few at a time; a small limit makes it merge often."""
    import numpy as np

    from equipoise.engine import EmbeddingStore, store
    from equipoise.engine.content import text_ids

    store.MOST_SEGMENTS = 4
    opened = EmbeddingStore(root, "kill-test")
    for first in range(0, len(numbers), at_once):
        some = numbers[first : first + at_once]
        opened.add(text_ids(map(str, some)), np.array([[n, 1.0] for n in some], np.float32))


class Colours:
    """The mean colours of the corners of an image; slow, and writes down how many images and texts it was asked for."""

    name = key = "colours"
    logit_scale = 100.0

    def __init__(self, log: str) -> None:
        self.log = log

    def _note(self, what: str, n: int) -> None:
        with open(self.log, "a") as file:
            file.write(f"{what} {n}\n")

    def encode_images(self, images: list[Any]) -> Any:
        import numpy as np

        time.sleep(0.01)
        small = [np.asarray(image.resize((2, 2)), np.float32).ravel() + 1 for image in images]
        self._note("images", len(images))
        return np.stack(small)

    def caption(self, images: list[Any], *, seed: int) -> list[str]:
        time.sleep(0.01)
        self._note("captions", len(images))
        return [f"red {image.getpixel((0, 0))[0]}" for image in images]

    def encode_texts(self, texts: list[str]) -> Any:
        import numpy as np

        self._note("texts", len(texts))
        return np.array([[len(text) + i % 7 for i in range(12)] for text in texts], np.float32)


def run_audit(table: str, out: str, log: str, engine: str = "local", keep: bool = True) -> None:
    """An audit whose every batch of four is kept at once."""
    from equipoise.audit import run
    from equipoise.engine import Asking, asking

    asking.SECONDS_BETWEEN_SAVES = 0
    how = Asking(batch_size=4, progress=False, engine=engine, keep=keep)
    run(Colours(log), "intersectional", table, out, config={"draws": 20}, asking=how)


def run_captions(table: str, out: str, log: str) -> None:
    from equipoise.data import Table
    from equipoise.engine import Asking, captions

    said = dict(captions(Colours(log), Table.open(table), Asking(batch_size=4, progress=False)))
    with open(out, "w") as file:
        json.dump(said, file)


def run_embed(table: str, out: str, log: str) -> None:
    from equipoise.engine import Asking, asking, embed

    asking.SECONDS_BETWEEN_SAVES = 0
    embed(Colours(log), table, out, texts=["a", "bc"], how=Asking(batch_size=4, progress=False))


JOBS = {"map": run_map, "store": run_store, "audit": run_audit, "captions": run_captions, "embed": run_embed}


def child(order: dict[str, Any]) -> int:
    os.environ["EQUIPOISE_FAILPOINT"] = order.get("failpoint", "")
    os.environ["EQUIPOISE_CACHE"] = order["arguments"].pop("cache", os.devnull)
    try:
        JOBS[order["job"]](**order["arguments"])
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve() -> None:
    from PIL import Image

    import equipoise.audit.running
    import equipoise.audit.suites.intersectional
    import equipoise.data.layers
    import equipoise.data.validation
    import equipoise.engine.answers
    import equipoise.engine.embedding
    import equipoise.engine.mapping
    import equipoise.engine.store
    import equipoise.report.writing  # noqa: F401

    Image.init()  # reading a picture imports the modules of every format
    gc.freeze()  # or the child's collector would copy what it only looks at
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os._exit(child(json.loads(line)))
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
