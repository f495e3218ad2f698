"""How many examples a property is tried on."""

import os

__all__ = ["examples"]


def examples(number: int) -> int:
    """``number`` of them where they are thrown anew (``make test-all``), half as many where they are always the same.

    The examples of the default suite do not change from run to run, so more of them find nothing new; it is the ones
    that differ each time that do.
    """
    return number if os.environ.get("EQUIPOISE_RANDOM") else max(10, number // 2)
