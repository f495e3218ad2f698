"""Named moments at which a test can kill the process, to show that nothing is lost whenever it dies.

Set ``EQUIPOISE_FAILPOINT=shard.before_rename`` (or ``shard.before_rename:3`` for the third time that moment is
reached) and the process kills itself there, without any clean-up, as a power cut would. Unset, it costs nothing.

>>> reached("shard.before_rename")
"""

from __future__ import annotations

import os
import signal

__all__ = ["reached"]

_counts: dict[str, int] = {}


def reached(name: str) -> None:
    """Die here, by SIGKILL, if ``EQUIPOISE_FAILPOINT`` names this moment; otherwise do nothing."""
    wanted = os.environ.get("EQUIPOISE_FAILPOINT", "")
    if not wanted:
        return
    wanted_name, _, times = wanted.partition(":")
    if wanted_name != name:
        return
    _counts[name] = _counts.get(name, 0) + 1
    if _counts[name] >= int(times or 1):
        os.kill(os.getpid(), signal.SIGKILL)
