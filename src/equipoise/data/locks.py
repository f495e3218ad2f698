"""One writer at a time: a lock that the kernel lets go of when its process dies.

The lock is an advisory ``flock`` on a small file that says who holds it. A process that is killed, however, leaves
nothing behind that must be cleaned up: the kernel releases the lock, and the next writer takes the file over.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equipoise.errors import InputError

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl

__all__ = ["locked"]

_PAUSE = 0.1


@contextmanager
def locked(path: Path, *, what: str, wait: float = 0.0) -> Iterator[None]:
    """Hold the lock file ``path`` during the block.

    ``what`` names the thing being written, for the message. Where another process holds the lock this one
    says so on standard error and waits up to ``wait`` seconds, then raises :class:`InputError`; with ``wait=0``
    it raises at once.

    >>> import tempfile
    >>> lock = Path(tempfile.mkdtemp()) / ".lock"
    >>> with locked(lock, what="the table"):
    ...     with locked(lock, what="the table"):
    ...         pass
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: the table is being written by process ...; wait until it ends, or stop it
    """
    descriptor = _acquire(path, what, wait)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()} on {socket.gethostname()}".encode())
        yield
    finally:
        # Unlinked while still held: whoever opened the old file meanwhile notices in `_is_current` and tries again.
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _acquire(path: Path, what: str, wait: float) -> int:
    deadline = time.monotonic() + wait
    announced = False
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        if _try_lock(descriptor):
            if _is_current(descriptor, path):
                return descriptor
            os.close(descriptor)
            continue
        holder = os.read(descriptor, 200).decode(errors="replace") or "unknown"
        os.close(descriptor)
        if time.monotonic() >= deadline:
            raise InputError(f"{what} is being written by process {holder}; wait until it ends, or stop it")
        if not announced:
            print(f"equipoise: {what} is being written by process {holder}; waiting", file=sys.stderr, flush=True)
            announced = True
        time.sleep(min(_PAUSE, max(0.0, deadline - time.monotonic())))


def _is_current(descriptor: int, path: Path) -> bool:
    """Whether the file we locked is still the one under its name."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (there.st_ino, there.st_dev) == (ours.st_ino, ours.st_dev)


def _try_lock(descriptor: int) -> bool:
    try:
        if sys.platform == "win32":  # pragma: no cover
            os.lseek(descriptor, 4096, os.SEEK_SET)  # past the text, which others must be able to read
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True
