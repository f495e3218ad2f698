"""Where an export writes: a new folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.errors import InputError

__all__ = ["free", "new_folder"]


def free(out: str | os.PathLike[str]) -> Path:
    """``out`` as a Path, if nothing is there and its parent can hold it."""
    path = Path(out)
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already; give another name or remove it first")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent} cannot be made: {error.strerror or error}") from error
    return path


@contextmanager
def new_folder(out: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder beside ``out`` that takes its name when the block ends without an error.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "set"
    >>> with new_folder(target) as folder:
    ...     _ = (folder / "a.txt").write_text("all of it")
    ...     print(target.exists())
    False
    >>> (target / "a.txt").read_text()
    'all of it'
    """
    path = free(out)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for folder, _, files in os.walk(temporary):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    os.fsync(file.fileno())
        try:
            os.rename(temporary, path)
        except OSError as error:
            raise InputError(f"{path} appeared while it was being written; nothing was changed there") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
