"""Progress with rate and time left: a bar on a terminal, a plain line every few seconds elsewhere.

Ctrl-C: the first lets the current shard finish, the second stops at once.

What a reader should know about how a shard was made, kept beside the table in ``_notes/<shard>.json``.

So far one thing is noted: a batch that was made smaller because memory ran out. Such a shard may differ in the last
digits from one made with whole batches, and is therefore exempt from "the same bytes again".
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import IO, Any

from equipoise.data.atomic import write_whole
from equipoise.data.shards import shard_name
from equipoise.pace import listening


def told_on_stderr(sentence: str) -> None:
    """Print ``sentence`` to standard error."""
    print(f"equipoise: {sentence}", file=sys.stderr, flush=True)


class Interrupts:
    """While the block runs, a first SIGINT sets :attr:`requested`; a second raises ``KeyboardInterrupt``.

    Outside the main thread, where Python does not allow signal handlers, it changes nothing.
    """

    def __init__(self, tell: Callable[[str], None] = told_on_stderr) -> None:
        self.requested = False
        self._tell = tell
        self._before: Any = None
        self._installed = False

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._on_signal)
            self._installed = True
        return self

    def __exit__(self, *raised: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._before or signal.SIG_DFL)
            self._installed = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._tell("finishing the shard in hand; press Ctrl-C again to stop at once")


NOTES_FOLDER = "_notes"


def write_notes(folder: Path, index: int, notes: list[dict[str, Any]]) -> None:
    """Write the notes of a shard, or remove old ones where there are none."""
    path = folder / NOTES_FOLDER / f"{shard_name(index)}.json"
    if notes:
        path.parent.mkdir(exist_ok=True)
        write_whole(path, (json.dumps(notes, sort_keys=True, indent=1) + "\n").encode())
    else:
        path.unlink(missing_ok=True)


def read_notes(folder: str | Path) -> dict[str, list[dict[str, Any]]]:
    """The notes of a table by shard file name; empty for a table that was made without incident.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_notes(folder, 2, [{"row": 0, "out_of_memory_with": 32, "batch_size": 16}])
    >>> read_notes(folder)["part-00002.parquet"][0]["batch_size"]
    16
    """
    paths = sorted((Path(folder) / NOTES_FOLDER).glob("part-*.parquet.json"))
    return {path.name.removesuffix(".json"): json.loads(path.read_bytes()) for path in paths}


SECONDS_BETWEEN_LINES = 5.0
_SECONDS_ON_A_TERMINAL = 0.5


class Progress:
    """Counts ``total`` units of work of which ``done`` were done before; use it in a ``with`` block.

    ``brief``: without a terminal nothing is said of work that was done before the first line was due.

    >>> import io
    >>> now = iter([0.0, 10.0, 10.0])
    >>> out = io.StringIO()
    >>> with Progress("encode", total=300, done=100, stream=out, clock=lambda: next(now)) as progress:
    ...     progress.advance(100, failed=2)
    >>> print(out.getvalue(), end="")
    encode: 200/300 rows (67%), 10 rows/s, 10 s left, 2 failed
    """

    def __init__(
        self,
        what: str,
        *,
        total: int,
        done: int = 0,
        unit: str = "rows",
        brief: bool = False,
        stream: IO[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.what = what
        self.total = total
        self.unit = unit
        self.n_done = done
        self.n_failed = 0
        self._brief = brief
        self._before = done
        self._stream = stream if stream is not None else sys.stderr
        self._clock = clock
        self._bar: Any = None

    def __enter__(self) -> Progress:
        self._started = self._clock()
        self._last_line = self._started
        self._told = self.n_done
        if self._stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                total=self.total, initial=self.n_done, desc=self.what, unit=f" {self.unit}", file=self._stream
            )
        return self

    def __exit__(self, *raised: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._told != self.n_done and not (self._brief and self._last_line == self._started):
            self._print_line(self._clock())

    def advance(self, n: int, *, failed: int = 0) -> None:
        """Note that ``n`` more units are done, ``failed`` of them in vain."""
        self.n_done += n
        self.n_failed += failed
        if self._bar is not None:
            if failed:
                self._bar.set_postfix(failed=self.n_failed, refresh=False)
            self._bar.update(n)
            return
        now = self._clock()
        if now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._print_line(now)

    def line(self, now: float) -> str:
        """The state in one line."""
        share = 100 * self.n_done / self.total if self.total else 100
        rate = (self.n_done - self._before) / max(now - self._started, 1e-9)
        parts = [f"{self.what}: {self.n_done}/{self.total} {self.unit} ({share:.0f}%)", f"{_short(rate)} {self.unit}/s"]
        if self.n_done < self.total and rate > 0:
            parts.append(f"{duration((self.total - self.n_done) / rate)} left")
        if self.n_failed:
            parts.append(f"{self.n_failed} failed")
        return ", ".join(parts)

    def _print_line(self, now: float) -> None:
        self._last_line = now
        self._told = self.n_done
        print(self.line(now), file=self._stream, flush=True)


class Heartbeat:
    """Says every few seconds how far work has come, as its loops tell (:mod:`equipoise.pace`), and what time is left.

    Nothing is said of work that is done in a moment. On a terminal one line is written again and again.

    >>> import io
    >>> from equipoise.pace import stages
    >>> out = io.StringIO()
    >>> with Heartbeat("measuring", stream=out, first=0.2, then=60):
    ...     for part in stages(range(4)):
    ...         time.sleep(0.5 if part == 1 else 0)
    >>> print(out.getvalue(), end="")
    measuring: 25%, about 1 s left
    """

    def __init__(
        self, what: str, *, stream: IO[str] | None = None, first: float = SECONDS_BETWEEN_LINES, then: float = 30.0
    ) -> None:
        self.what = what
        self._stream = stream if stream is not None else sys.stderr
        self._first, self._then = first, then
        self._done = threading.Event()
        self._held = ExitStack()

    def __enter__(self) -> Heartbeat:
        self._started = time.monotonic()
        self._pace = self._held.enter_context(listening())
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._done.set()
        self._thread.join()
        self._held.close()

    def _beat(self) -> None:
        pause, on_terminal, written = self._first, self._stream.isatty(), 0
        while not self._done.wait(pause):
            text = f"{self.what}: {self.told(time.monotonic() - self._started)}"
            pause = _SECONDS_ON_A_TERMINAL if on_terminal else self._then
            print(f"\r{text:{written}}" if on_terminal else text, end="" if on_terminal else "\n", file=self._stream)
            self._stream.flush()
            written = len(text)
        if on_terminal and written:
            print(f"\r{'':{written}}\r", end="", file=self._stream, flush=True)

    def told(self, seconds: float) -> str:
        """How far the work has come after so many seconds, and what time is left where that can be said."""
        share, part = self._pace.share, self._pace.of_this_loop
        if share:
            left = duration(seconds * (1 - share) / share)
            return f"{100 * share:.0f}%" + (f", about {left} left" if share < 1 else "")
        passed = f"still at work after {duration(seconds)}"
        return passed if part is None or share is not None else f"{passed}, {100 * part:.0f}% of the part in hand"


class NoProgress(Progress):
    """Counts, and says nothing."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        return

    def advance(self, n: int, *, failed: int = 0) -> None:
        """Note that ``n`` more units are done."""
        self.n_done += n
        self.n_failed += failed


def duration(seconds: float) -> str:
    """A time span in the two units that matter.

    >>> duration(42), duration(95), duration(3 * 3600 + 120), duration(200_000)
    ('42 s', '1 min 35 s', '3 h 2 min', '2 d 7 h')
    """
    whole = round(seconds)
    for size, unit, smaller, name in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {name}"
    return f"{whole} s"


def _short(rate: float) -> str:
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"
