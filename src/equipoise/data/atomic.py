"""Files that appear whole or not at all, and one writer at a time.

The lock is an advisory ``flock`` on a small file that says who holds it. A process that is killed leaves nothing behind
that must be cleaned up: the kernel releases the lock, and the next writer takes the file over.

Named moments at which a test can kill the process, to show that nothing is lost whenever it dies.

Set ``EQUIPOISE_FAILPOINT=shard.before_rename`` (or ``shard.before_rename:3`` for the third time that moment is
reached) and the process kills itself there, without any clean-up, as a power cut would. Unset, it costs nothing.

>>> reached("shard.before_rename")
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from equipoise.errors import InputError

if sys.platform == "win32":  # pragma: no cover
    import msvcrt
else:
    import fcntl

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


_CHUNK = 1 << 20


class HashingFile:
    """A file open for writing that knows the SHA-256 and the size of what went into it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0
        self.mode = "wb"

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    @property
    def sha256(self) -> str:
        """The hash of all that was written, in hexadecimal."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> int:
        """Write ``data`` after what is there."""
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def tell(self) -> int:
        """How many bytes were written."""
        return self.size

    def flush(self) -> None:
        """Hand everything to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Do nothing: the file is closed by :func:`atomic_file`, after it is safe on disk."""


@contextmanager
def atomic_file(path: Path) -> Iterator[HashingFile]:
    """A file to write to that takes its name ``path`` only when the block ends without an error.

    Until then it has a name of its own beginning with ``.``, which no reader takes for data. It is on disk before it
    is renamed, and the folder is on disk after, so that a power cut leaves the whole file or none.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with atomic_file(target) as file:
    ...     _ = file.write(b"all of it")
    ...     print(target.exists())
    False
    >>> target.read_bytes(), file.size
    (b'all of it', 9)
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("wb") as raw:
            file = HashingFile(raw)
            yield file
            raw.flush()
            os.fsync(raw.fileno())
        reached("file.before_rename")
        os.replace(temporary, path)
        sync_folder(path.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(f"{path} cannot be written: the disk is full; free some space and run it again") from error
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable, where the operating system can."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``, whole or not at all."""
    with atomic_file(path) as file:
        file.write(data)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal, read in small pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


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


def lock_of(path: Path) -> Path:
    """The lock file of a file that one process at a time writes: beside it, hidden.

    >>> lock_of(Path("runs/page.html")).name
    '.page.html.lock'
    """
    return path.with_name(f".{path.name}.lock")


def clear_after_kill(lock: Path, *others: Path) -> None:
    """Remove what a writer left that was killed when its work was done: its lock file, and ``others``.

    While another process holds the lock, everything stays; so it does where nothing may be written.

    >>> import tempfile
    >>> lock = Path(tempfile.mkdtemp()) / ".lock"
    >>> lock.touch()
    >>> clear_after_kill(lock)
    >>> lock.exists()
    False
    """
    if lock.exists():
        with suppress(InputError, OSError), locked(lock, what=str(lock)):
            for path in others:
                path.unlink(missing_ok=True)


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
