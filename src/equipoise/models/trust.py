"""What a checkpoint folder may ask for: no code of its own, no pickle in disguise, nothing outside the folder.

Every loader calls :func:`check_folder` before another library sees the folder. It reads settings and file names only,
so it costs milliseconds; the sizes that settings ask for are checked in :mod:`equipoise.models.sizes`.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from equipoise.errors import InputError

__all__ = ["check_folder", "read_settings", "walked"]

_DEEPEST = 4
_MOST_FILES = 5_000
_MOST_SETTINGS = 8 << 20
_MOST_NESTED = 40
_OTHER_PLACES = ("vocab_file", "merges_file", "tokenizer_file", "spm_file", "source_spm", "target_spm", "gguf_file")
_LIBRARIES = (None, "diffusers", "transformers", "stable_diffusion", "stable_diffusion_xl")


def check_folder(folder: Path) -> None:
    """Refuse a checkpoint folder that would run code, or read anything outside itself, when a library opens it.

    Links may lead anywhere inside the folder; those of a Hub cache may lead to its ``blobs``.
    """
    if (folder / "adapter_config.json").exists():
        raise InputError(
            f"{folder}: an adapter (adapter_config.json), whose model lies elsewhere; merge it into its model and save "
            "the whole"
        )
    for path in _files(folder):
        if path.name.endswith(".index.json"):
            _check_index(path)
        elif path.suffix == ".json":
            _check_json(path, folder)


def _check_json(path: Path, folder: Path) -> None:
    if _is_settings(path):
        _check_settings(path, read_settings(path), folder)
        return
    try:
        content = read_settings(path)
    except InputError:  # a vocabulary, or damaged: whoever reads it says so
        return
    _check_settings(path, content, folder)


def read_settings(path: Path) -> Any:
    """What a JSON file says; one sentence for what is too large, nested too deeply, or no JSON."""
    try:
        if path.stat().st_size > _MOST_SETTINGS:
            raise InputError(f"{path}: has {path.stat().st_size} bytes; no settings of a model are that long")
        content = json.loads(path.read_text(encoding="utf-8"))
        for _ in walked(content):
            pass
    except InputError:
        raise
    except RecursionError:
        raise InputError(f"{path}: nested too deeply to be the settings of a model") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not the settings of a model ({' '.join(str(error).split())[:200]})") from None
    return content


def walked(content: Any) -> Iterator[tuple[str, Any]]:
    """Every (name, value) in settings, however deep; the items of a list have the list's name.

    >>> list(walked({"a": {"b": [1, 2]}}))
    [('a', {'b': [1, 2]}), ('b', [1, 2]), ('b', 1), ('b', 2)]
    """
    waiting = [("", content, 0)]
    while waiting:
        name, value, depth = waiting.pop()
        if depth:
            yield name, value
        if depth > _MOST_NESTED:
            raise RecursionError
        if isinstance(value, dict):
            waiting += [(str(key), inner, depth + 1) for key, inner in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [(name, inner, depth + 1) for inner in reversed(value)]


def _files(folder: Path) -> Iterator[Path]:
    """The folder's files, hidden ones and those far below left out; refuses links out of it, and what is no file."""
    home = folder.resolve()
    # A snapshot in the Hub's cache is made of links to the files beside it.
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    waiting, seen = [(home, 0)], 0
    while waiting:
        place, depth = waiting.pop()
        for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
            if entry.name.startswith("."):
                continue
            seen += 1
            if seen > _MOST_FILES:
                raise InputError(f"{folder}: holds more than {_MOST_FILES} files; it is not the folder of a checkpoint")
            path = Path(entry.path)
            kind = _kind(path, folder, (home, blobs))
            if stat.S_ISREG(kind):
                yield path
            elif not stat.S_ISDIR(kind):
                raise InputError(f"{path}: neither a file nor a folder; remove it")
            elif depth < _DEEPEST and not entry.is_symlink():
                waiting.append((path, depth + 1))


def _kind(path: Path, folder: Path, allowed: tuple[Path, Path]) -> int:
    try:
        if path.is_symlink():
            target = path.resolve(strict=True)
            if not any(target.is_relative_to(place) for place in allowed):
                raise InputError(
                    f"{path}: a link that leads out of {folder}; put the file itself there, if you trust it"
                )
        return path.stat().st_mode
    except (OSError, RuntimeError) as error:  # a loop, or nothing at its end
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: a link that leads nowhere ({reason.lower()}); remove it") from None


def _is_settings(path: Path) -> bool:
    return "config" in path.name or path.name == "model_index.json"


def _check_settings(path: Path, content: Any, folder: Path) -> None:
    if _is_settings(path) and not isinstance(content, dict):
        raise InputError(f"{path}: not the settings of a model (it holds a {type(content).__name__})")
    for name, value in walked(content):
        if name in ("auto_map", "custom_pipelines") and value:
            raise InputError(
                f"{path}: it asks to run Python code of its own ({name}), which is never done here; if the model's "
                f"class is part of transformers, take {name} out of the file"
            )
        if name.strip("_").startswith("attn_implementation") and "/" in str(value):
            raise InputError(f"{path}: it asks to download and run the kernel {str(value)[:80]!r}; take it out")
        if name == "init_inputs" and value and path.name == "tokenizer_config.json":
            raise InputError(f"{path}: it hands arguments of its own to the tokenizer (init_inputs); take them out")
        if name in _OTHER_PLACES and isinstance(value, str):
            _check_inside(path, name, value, folder)
    if path.name == "model_index.json":
        _check_parts(path, content)


def _check_inside(path: Path, name: str, value: str, folder: Path) -> None:
    """A file that is named beside the folder and exists; what old savers left behind leads nowhere and is not read."""
    try:
        target = (path.parent / os.path.expanduser(value)).resolve()
        outside = target.exists() and not target.is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        outside = True
    if outside:
        raise InputError(f"{path}: its {name} leads out of {folder} ({value[:80]!r}); take it out")


def _check_parts(path: Path, index: dict[str, Any]) -> None:
    for name, value in index.items():
        if name.startswith("_") or not isinstance(value, list):
            continue
        if not value or not all(word is None or isinstance(word, str) for word in value):
            raise InputError(f"{path}: the part {name!r} is not a library and a class")
        if value[0] not in _LIBRARIES:
            raise InputError(
                f"{path}: the part {name!r} is of {str(value[0])[:80]!r}, which is neither diffusers nor transformers; "
                "code that comes with a checkpoint is never run"
            )
        if name != Path(name).name or name in ("", ".", ".."):
            raise InputError(f"{path}: the part {name[:80]!r} is no folder's name")


def _check_index(path: Path) -> None:
    """The files that an index of weights names lie beside it and are what the index's own name says."""
    content = read_settings(path)
    ending = ".safetensors" if ".safetensors" in path.name else ".bin"
    parts = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(parts, dict):
        raise InputError(f"{path}: damaged; download it again")
    for part in parts.values():
        if not isinstance(part, str) or not part.endswith(ending) or part != Path(part).name:
            raise InputError(
                f"{path}: names {str(part)[:80]!r} as weights; only {ending} files in the same folder are opened"
            )
