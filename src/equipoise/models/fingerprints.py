"""The key of a model: what decides its answers, hashed. Equal keys mean equal answers, so caches go by them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["file_digest", "key_of", "settings_digest"]

_LENGTH = 16
# Where a checkpoint lay, who wrote it and how wide its numbers were stored: none of it changes an answer.
_IGNORED = {"_name_or_path", "transformers_version", "torch_dtype", "dtype", "_commit_hash", "auto_map"}


def key_of(family: str, weights: Iterable[Path], *settings: Any, dtype: str = "float32") -> str:
    """``family-hash``, with the number type where it is not float32.

    The hash is of the whole weight files (hashing costs less than loading) and of ``settings``: the model's, the
    image processor's, the tokenizer's.
    """
    digest = hashlib.sha256()
    for path in weights:
        digest.update(file_digest(path).encode())
    for setting in settings:
        digest.update(settings_digest(setting).encode())
    suffix = "" if dtype == "float32" else f"-{dtype}"
    return f"{family}-{digest.hexdigest()[:_LENGTH]}{suffix}"


def file_digest(path: Path) -> str:
    """SHA-256 of a file; the Hub's cache names large files by it, so that those need not be read."""
    real = path.resolve()
    if real.parent.name == "blobs" and re.fullmatch("[0-9a-f]{64}", real.name):
        return real.name
    with real.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def settings_digest(settings: Any) -> str:
    """A hash of settings (texts, numbers, lists, dictionaries) that does not depend on their order.

    >>> settings_digest({"a": 1, "b": [2]}) == settings_digest({"b": [2], "a": 1, "transformers_version": "5.0"})
    True
    """
    text = json.dumps(_cleaned(settings), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _cleaned(settings: Any) -> Any:
    if isinstance(settings, dict):
        return {str(name): _cleaned(value) for name, value in settings.items() if name not in _IGNORED}
    if isinstance(settings, list | tuple):
        return [_cleaned(value) for value in settings]
    return settings
