"""Reading what others saved: state dictionaries, and the byte-pair vocabulary of CLIP."""

from __future__ import annotations

import argparse
import functools
import gzip
import inspect
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from equipoise.errors import InputError, one_line, system_error
from equipoise.models.folders import find_folder
from equipoise.models.runtime import from_transformers, in_one_sentence, quiet, unbroken
from equipoise.models.trust import check_folder

Convert = TypeVar("Convert", bound=Callable[..., Any])

State = dict[str, Any]
"""Tensors by name."""

_TOKENIZER_FILES = ("*.json", "*.txt", "*.model")
_SPECIALS = ("<|startoftext|>", "<|endoftext|>")
_MERGES = 49152 - 256 - 2


def in_a_sentence(convert: Convert) -> Convert:
    """The converter, with one sentence for whatever goes wrong with weights of other shapes than it knows."""

    first = next(iter(inspect.signature(convert).parameters))

    @functools.wraps(convert)
    def converted(*arguments: Any, **options: Any) -> Any:
        try:
            return convert(*arguments, **options)
        except (InputError, MemoryError, OSError, ImportError):
            raise
        except Exception as error:
            refused = system_error(error)
            if refused is not None:
                raise refused from error
            source = arguments[0] if arguments else options.get(first)
            raise InputError(f"{source}: cannot be converted: {one_line(error)}") from error

    return converted  # type: ignore[return-value]


def state_of(path: str | Path, *, allow_pickle: bool = False) -> State:
    """The tensors of a checkpoint file, without the ``module.`` that parallel training puts before each name."""
    content = _loaded(Path(path), allow_pickle)
    for wrapper in ("state_dict", "model_state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
    if not isinstance(content, Mapping):
        raise InputError(f"{path}: holds a {type(content).__name__}, not weights by name")
    tensors = {str(name).removeprefix("module."): value for name, value in content.items() if hasattr(value, "shape")}
    if not tensors:
        raise InputError(f"{path}: holds no weights; its entries are {', '.join(map(str, list(content)[:5]))}")
    return tensors


def tensor_of(path: str | Path, *, allow_pickle: bool = False) -> Any:
    """The one tensor of a file."""
    content = _loaded(Path(path), allow_pickle)
    if isinstance(content, Mapping):
        tensors = [value for value in content.values() if hasattr(value, "shape")]
        content = tensors[0] if len(tensors) == 1 else None
    if not hasattr(content, "shape"):
        raise InputError(f"{path}: holds not one tensor")
    return content


def _loaded(path: Path, allow_pickle: bool) -> Any:
    import torch

    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        with unbroken(path):
            return load_file(path)
    if not allow_pickle:
        raise InputError(
            f"{path}: a pickle; allow it with --allow-pickle (allow_pickle=True) if you trust where it comes from"
        )
    # Training scripts save their arguments along; a namespace is plain data.
    with in_one_sentence(f"{path}: cannot be read as weights"), torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(path, map_location="cpu", weights_only=True)


def any_tokenizer(source: str | Path) -> Any:
    """CLIP's tokenizer from a folder, a repository, or its published merges (``bpe_simple_vocab_16e6.txt.gz``)."""
    path = Path(source).expanduser()
    if path.is_file():
        return _from_merges(path)
    auto = from_transformers("AutoTokenizer")
    try:
        folder = find_folder(str(source), _TOKENIZER_FILES, scheme="tokenizer", holds="tokenizer.json")
        check_folder(folder)
        with quiet():
            return auto.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # tokenizers report missing and damaged files in many ways
        raise InputError(
            f"tokenizer {source}: cannot be had ({' '.join(str(error).split())[:200]}); give a folder with CLIP's "
            "tokenizer, or the file bpe_simple_vocab_16e6.txt.gz of the CLIP code"
        ) from error


def _from_merges(path: Path) -> Any:
    data = path.read_bytes()
    try:
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: damaged, or not a list of byte-pair merges ({one_line(error)})") from error
    lines = text.split("\n")[1 : _MERGES + 1]
    merges = [tuple(line.split()) for line in lines if line.strip()]
    if not merges or any(len(pair) != 2 for pair in merges):
        raise InputError(f"{path}: not a list of byte-pair merges, two pieces per line after the first")
    pieces = _byte_letters()
    tokens = [*pieces, *(f"{piece}</w>" for piece in pieces), *("".join(pair) for pair in merges), *_SPECIALS]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    return from_transformers("CLIPTokenizer")(vocab=vocab, merges=merges, model_max_length=77)


def _byte_letters() -> list[str]:
    """One visible character for each byte, in the order of GPT-2's and CLIP's vocabularies."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return [chr(byte) for byte in visible] + [chr(256 + i) for i in range(len(hidden))]
