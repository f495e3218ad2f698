"""What a checkpoint folder may ask for: no code of its own, no pickle in disguise, nothing outside the folder.

Every loader calls :func:`check_folder` before another library sees the folder. It reads settings and file names only,
so it costs milliseconds. The sizes that a checkpoint's settings ask for are held against the weights on disk before
anything is built.

A ``config.json`` of a hundred bytes can ask for ten million layers. A model whose weights are all there has no more
layers than tensors on disk, and no more numbers than they hold; what asks for more would be refused later anyway, after
minutes and gigabytes.
"""

from __future__ import annotations

import json
import os
import re
import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from equipoise.errors import InputError

MOST_LAYERS = 2_000
"""More than any published model has."""
_MOST_OF_A_KIND = 1_000_000
_LONGEST = 20_000_000
_LARGEST = 10**12
_MOST_HEADER = 100_000_000
_SLACK = 4
"""Packed numbers count as one on disk; four of them in a byte is the most that is common."""
_SMALL = 20_000_000
"""Buffers that are computed, and models so small that none of this matters: 80 MB."""
MOST_PIXELS_A_SIDE = 4_096
_EDGES = {"height", "width", "shortest_edge"}
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
_LAYERS = re.compile(r"(^|_)(layers?|depths?|blocks?|stages?)($|_per_\w+$)")
_SIDES = re.compile(r"(image|patch|sample|crop|window)_size$|^stride$")
_NEVER_BELOW_0 = re.compile(r"(^|_)(heads?|layers|channels)$|(hidden|intermediate|vocab|image|patch)_size$")
_POSITIONS = re.compile(r"max_position|^n_(positions|ctx)$|max_(source|target)_positions|context_length")


@dataclass(frozen=True)
class OnDisk:
    """How much the weight files of a checkpoint hold."""

    tensors: int
    numbers: int

    @property
    def most(self) -> int:
        """The most numbers that a model with these weights may have."""
        return _SLACK * self.numbers + _SMALL


def on_disk(files: Sequence[Path]) -> OnDisk:
    """The number of tensors and of numbers in ``files``: from the heads of safetensors, from the size of others."""
    tensors = numbers = 0
    for path in files:
        if path.suffix != ".safetensors":
            tensors, numbers = tensors + MOST_LAYERS, numbers + path.stat().st_size
            continue
        shapes = [entry["shape"] for name, entry in _head(path).items() if name != "__metadata__"]
        tensors += len(shapes)
        numbers += sum(prod(shape) for shape in shapes)
    return OnDisk(tensors, numbers)


def _head(path: Path) -> dict[str, Any]:
    """The head of a safetensors file: shapes by name, none larger than the file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(_MOST_HEADER, size):
                raise ValueError("its head is longer than the file")
            head = json.loads(file.read(length))
        for name, entry in head.items():
            if name != "__metadata__" and not _fits(entry, size):
                raise ValueError(f"the tensor {name[:80]!r} is larger than the file")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: damaged or cut off ({reason}); download it again") from None
    return dict(head)


def _fits(entry: dict[str, Any], size: int) -> bool:
    shape = entry["shape"]
    whole = all(type(side) is int and 0 <= side <= size for side in shape)
    return whole and len(shape) < 10 and prod(shape) <= 8 * size


def check_sizes(path: Path, config: Any, weights: OnDisk) -> None:
    """Refuse settings that ask for more layers than there are tensors, or for any number beyond all reason.

    >>> check_sizes(Path("config.json"), {"num_hidden_layers": 12}, OnDisk(tensors=200, numbers=10**6))
    >>> check_sizes(Path("config.json"), {"num_hidden_layers": 10**7}, OnDisk(tensors=200, numbers=10**6))
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: config.json: num_hidden_layers = 10000000, but the weights hold no more than 200 \
tensors; take the file from the checkpoint's source
    """
    for name, value in walked(config):
        if isinstance(value, list) and name.endswith("_types") and len(value) > weights.tensors:
            raise InputError(
                f"{path}: {name} lists {len(value):,} parts, but the weights hold {weights.tensors:,} tensors"
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if value != value or value in (float("inf"), float("-inf")):
            if isinstance(value, float) and _counts(name):
                raise InputError(f"{path}: {name} = {value}, which is not a size; take the file from the source")
            continue
        if value < 0 and _NEVER_BELOW_0.search(name):
            raise InputError(
                f"{path}: {name} = {value}, which is not a size; take the file from the checkpoint's source"
            )
        most = _most(name, weights)
        if most is not None and value > most:
            why = f"the weights hold no more than {weights.tensors:,} tensors" if _LAYERS.search(name) else ""
            why = why or f"no model has more than {most:,}"
            raise InputError(f"{path}: {name} = {value}, but {why}; take the file from the checkpoint's source")


def _counts(name: str) -> bool:
    return name.startswith(("num_", "n_")) or bool(_LAYERS.search(name) or name.endswith("_size"))


def _most(name: str, weights: OnDisk) -> int | None:
    if "max_length" in name or name.endswith(("_id", "theta")):
        return None
    if _LAYERS.search(name) and "norm" not in name and "scale" not in name:
        return min(weights.tensors, MOST_LAYERS)
    if _POSITIONS.search(name):
        return _LONGEST
    if _SIDES.search(name):
        return 100_000
    return _MOST_OF_A_KIND if name.startswith("num_") else _LARGEST


def check_pixels(path: Path, settings: Any) -> None:
    """Refuse an image processor that would blow every image up beyond what any model looks at.

    >>> check_pixels(Path("preprocessor_config.json"), {"crop_size": {"height": 224, "width": 10**6}})
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: preprocessor_config.json: width = 1000000, but no model looks at images of more than \
4,096 pixels per side; take the file from the checkpoint's source
    """
    for name, value in walked(settings):
        inside = value if isinstance(value, dict) else {name: value}
        if "longest_edge" in inside and "shortest_edge" in inside:
            continue  # bounds on the number of pixels, not on a side
        for side in _EDGES & inside.keys():
            asked = inside[side]
            if isinstance(asked, int | float) and not asked <= MOST_PIXELS_A_SIDE:
                raise InputError(
                    f"{path}: {side} = {asked}, but no model looks at images of more than {MOST_PIXELS_A_SIDE:,} "
                    "pixels per side; take the file from the checkpoint's source"
                )


def check_open_clip(path: Path, config: Any, weights: OnDisk) -> None:
    """Refuse an OpenCLIP configuration that names models elsewhere, or sizes that the weights do not have."""
    check_sizes(path, config, weights)
    for name, value in walked(config):
        if name in ("hf_model_name", "hf_tokenizer_name", "timm_model_name") and not _is_public(value):
            raise InputError(f"{path}: its {name} is {str(value)[:80]!r}, which is not the name of a public model")
        if isinstance(value, dict) and not _can_be(value, weights):
            raise InputError(f"{path}: {name} asks for more than the {weights.numbers:,} numbers that the weights hold")


def _is_public(name: Any) -> bool:
    """An organisation and a name at most: what OpenCLIP would open otherwise is a folder of this machine."""
    return name is None or (isinstance(name, str) and bool(_NAME.fullmatch(name)) and not Path(name).exists())


def _can_be(part: dict[str, Any], weights: OnDisk) -> bool:
    """Whether a tower's layers, words and positions fit into the weights."""
    width = part.get("width", 0)
    layers, words, length = (part.get(name, 0) for name in ("layers", "vocab_size", "context_length"))
    layers = sum(layers) if isinstance(layers, list) and all(isinstance(n, int) for n in layers) else layers
    if not all(isinstance(value, int) for value in (width, layers, words, length)):
        return False
    return bool(max(4 * width * width * max(1, layers), words * width, length * width, length * length) <= weights.most)


def check_built(where: Path, build: Any, weights: OnDisk) -> None:
    """Refuse a model that is larger than its weights; ``build`` makes it without memory for its numbers."""
    import torch

    with torch.device("meta"):
        empty = build()
    asked = sum(value.numel() for value in empty.parameters())
    beside = sum(value.numel() for value in empty.buffers())
    if max(asked, beside) > weights.most:
        raise InputError(
            f"{where}: config.json asks for a model of {max(asked, beside):,} numbers, but the weights hold "
            f"{weights.numbers:,}; take config.json from the checkpoint's source"
        )


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
    try:
        content = read_settings(path)
    except InputError:
        if _is_settings(path):
            raise
        return  # a vocabulary, or damaged: whoever reads it says so
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
    # data_config.json of sentence-transformers lists what a model was trained on, and no loader reads it
    known = "config" in path.name or path.name == "model_index.json"
    return known and path.name != "data_config.json"


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
            raise InputError(f"{path}: the part {name[:80]!r} is not a folder's name")


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
