"""Text files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from equipoise.errors import InputError

__all__ = ["opened"]


@contextmanager
def opened(path: str | Path) -> Iterator[TextIO]:
    """A text file at ``path`` that appears whole when the block ends well, and not at all when it fails."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; make it first")
    if path.exists() and not path.is_file():
        # A pipe or a device cannot be replaced by a file.
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
