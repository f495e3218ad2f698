"""Files that appear whole or not at all.

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from equipoise.errors import InputError

__all__ = ["HashingFile", "atomic_file", "reached", "sha256_of", "write_whole"]


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
