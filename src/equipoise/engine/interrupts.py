"""Ctrl-C: the first lets the current shard finish, the second stops at once."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Interrupts", "told_on_stderr"]


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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._before or signal.SIG_DFL)
            self._installed = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._tell("finishing the shard in hand; press Ctrl-C again to stop at once")
