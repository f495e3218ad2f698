"""When memory runs out: how an error says so, and what can be given back. torch is asked only where it is there."""

from __future__ import annotations

import gc
import sys


def is_out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` says that memory ran out; torch's errors are known by name, for torch may not be there.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("out of memory"))
    (True, False)
    """
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


def free_memory() -> None:
    """Give back what nothing holds any more, on the GPU as well."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():  # pragma: no cover
        torch.cuda.empty_cache()
