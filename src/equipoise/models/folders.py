"""Checkpoint folders: where one is, what it must hold, and one sentence for what it lacks.

A local folder never touches the network. A repository of the Hugging Face Hub becomes a folder first (downloaded, or
found in the cache), so that everything after is the same for both.

The key of a model: what decides its answers, hashed. Equal keys mean equal answers, so caches go by them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from equipoise.errors import InputError, nearest, one_line
from equipoise.models.trust import check_folder, check_pixels, check_sizes, on_disk, read_settings

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


def local_contents(spec: str) -> str:
    """A hash of the files of a model that lies here (``hf:<folder>`` and the like), without loading it.

    Empty for names of the Hub, for the miniatures and for services: these names mean the same model tomorrow. Of a
    folder, files that no adapter reads (logs, optimiser states) do not count.

    >>> local_contents("hf:openai/clip-vit-base-patch32"), local_contents("mini:clip-fair")
    ('', '')
    """
    scheme, _, rest = spec.partition(":")
    places = [rest.partition("/")[2], rest.removeprefix("local-dir:")] if scheme == "open_clip" else rest.split(",")
    if not rest or scheme not in _LOCAL_SCHEMES:
        return ""
    paths = [Path(place).expanduser() for place in places if place]
    files = [file for path in paths if path.exists() for file in _model_files(path)]
    about = [[name, file_digest(file)] for name, file in files]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest() if about else ""


def _model_files(path: Path) -> list[tuple[str, Path]]:
    """The files that decide what a model in ``path`` says, with their names in it."""
    if path.is_file():
        return [("", path)]
    files = sorted(file for file in path.rglob("*") if file.suffix in _MODEL_ENDINGS and file.is_file())
    return [(file.relative_to(path).as_posix(), file) for file in files if not file.match("optimizer.*")]


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


_LOCAL_SCHEMES = ("hf", "diffusers", "open_clip", "table", "mediapipe")
_MODEL_ENDINGS = (
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".json",
    ".txt",
    ".model",
    ".jinja",
    ".parquet",
    ".npz",
    ".npy",
)
_SAFE = ("model.safetensors", "model.safetensors.index.json")
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_PICKLE_ENDINGS = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_IMAGE_SETTINGS = ("preprocessor_config.json", "processor_config.json")
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "spiece.model")
_WANTED = ("*.json", "*.jinja", "*.txt", "*.model", "model*.safetensors")
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


@dataclass(frozen=True)
class Checkpoint:
    """A folder with a whole model: its settings and its weights."""

    folder: Path
    config: dict[str, Any]
    """What ``config.json`` says."""
    weights: tuple[Path, ...]
    pickled: bool = False
    """Whether the weights are a pickle, which the user allowed."""

    @property
    def model_type(self) -> str:
        """The family, as ``transformers`` names it."""
        return str(self.config.get("model_type", ""))

    def needs_images(self) -> None:
        """Refuse a folder without the settings of an image processor."""
        if not _any_of(self.folder, _IMAGE_SETTINGS):
            raise InputError(
                f"{self.folder}: preprocessor_config.json is missing, so it is not known how images are resized and "
                "normalised; take it from the checkpoint's source"
            )

    def needs_texts(self) -> None:
        """Refuse a folder without a tokenizer."""
        if not _any_of(self.folder, _TOKENIZERS):
            raise InputError(
                f"{self.folder}: the tokenizer is missing (tokenizer.json, or vocab files); take it from the "
                "checkpoint's source"
            )


def find_checkpoint(rest: str, *, allow_pickle: bool = False) -> Checkpoint:
    """The checkpoint that ``hf:<rest>`` means: a local folder, or ``<repo>`` or ``<repo>@<revision>`` of the Hub."""
    folder = find_folder(rest, _WANTED, holds="config.json")
    if Path(rest).expanduser().is_dir():
        return open_checkpoint(folder, allow_pickle=allow_pickle)
    if allow_pickle and not _any_of(folder, _SAFE):
        folder = find_folder(rest, (*_WANTED, "pytorch_model*.bin"), holds="config.json")
    return open_checkpoint(folder, allow_pickle=allow_pickle, source=rest)


def find_folder(rest: str, wanted: tuple[str, ...], *, scheme: str = "hf", holds: str) -> Path:
    """The local folder ``rest``, or ``<repo>`` or ``<repo>@<revision>`` of the Hub: the files of it that are wanted.

    ``holds`` names a file that every such folder has, for the error messages.
    """
    folder = Path(rest).expanduser()
    if folder.is_dir():
        return folder
    if folder.is_file():
        raise InputError(f"{rest}: a file; {scheme}: takes the folder of a checkpoint, with {holds} in it")
    repository, _, revision = rest.partition("@")
    near = nearest(folder)
    meant = (
        f"{rest}: there is no such folder; did you mean {scheme}:{near}?"
        if near and (Path(near) / holds).is_file()
        else ""
    )
    if rest.startswith((".", "/", "~")) or not _REPOSITORY.fullmatch(repository):
        other = f"{rest}: there is no such folder, and it is not the name of a Hub repository (owner/name)"
        raise InputError(meant or other)
    try:
        return _downloaded(repository, revision or None, wanted)
    except _NotThereError as problem:
        raise InputError(meant or str(problem)) from None


class _NotThereError(InputError):
    """A repository that is neither here nor, as far as can be told, on the Hub."""


def open_checkpoint(folder: Path, *, allow_pickle: bool = False, source: str = "") -> Checkpoint:
    """The checkpoint in ``folder``; refuses one that is not whole, or that holds weights only as a pickle.

    Also one that asks for code, for files outside or for sizes that its weights do not have, see
    :mod:`equipoise.models.trust`.
    """
    name = source or str(folder)
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(
            f"{name}: config.json is missing; a checkpoint folder holds config.json, model.safetensors, the tokenizer "
            "and preprocessor_config.json"
        )
    config = read_settings(path)
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str) or not config["model_type"]:
        raise InputError(f"{path}: not the settings of a model (it does not say model_type)")
    check_folder(folder)
    safe = _weights(folder, _SAFE, name)
    pickled = _weights(folder, _PICKLES, name)
    if safe or (pickled and allow_pickle):
        check_sizes(path, config, on_disk(safe or pickled))
        for settings in (folder / file for file in _IMAGE_SETTINGS):
            if settings.is_file():
                check_pixels(settings, read_settings(settings))
        return Checkpoint(folder, config, safe or pickled, pickled=not safe)
    pickle = pickled[0].name if pickled else _pickle_in(folder) or _pickle_on_hub(source)
    if pickle:
        refuse_pickle(name, pickle)
    raise InputError(f"{name}: the weights are missing (model.safetensors)")


def refuse_pickle(name: str, file: str) -> NoReturn:
    """Say that the weights of ``name`` are only there as the pickle ``found``."""
    raise InputError(
        f"{name}: the weights are only there as a pickle ({file}), which can run any code when it is opened; "
        "convert them to safetensors, or, if you trust the source, allow it (allow_pickle=True, or --allow-pickle "
        "where a command has it)"
    )


def _weights(folder: Path, names: tuple[str, str], source: str) -> tuple[Path, ...]:
    """The one weights file, or the parts that the index lists."""
    whole, index = (folder / name for name in names)
    if whole.is_file():
        return (whole,)
    if not index.is_file():
        return ()
    try:
        parts = sorted(set(read_settings(index)["weight_map"].values()))
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{index}: damaged; download it again") from None
    missing = [part for part in parts if not (folder / part).is_file()]
    if missing or not parts:
        raise InputError(f"{source}: {len(missing)} of {len(parts)} weight files are missing, such as {missing[:1]}")
    return tuple(folder / part for part in parts)


def _any_of(folder: Path, names: tuple[str, ...]) -> bool:
    return any((folder / name).is_file() for name in names)


def _pickle_in(folder: Path) -> str:
    return next((path.name for path in sorted(folder.iterdir()) if path.suffix in _PICKLE_ENDINGS), "")


def _pickle_on_hub(repository: str) -> str:
    """A pickle that the repository has and that was not downloaded."""
    if not repository:
        return ""
    from huggingface_hub import list_repo_files

    name, _, revision = repository.partition("@")
    try:
        files = list_repo_files(name, revision=revision or None)
    except Exception:  # offline, or gone: then nothing more can be said
        return ""
    return next((file for file in sorted(files) if file.endswith(_PICKLE_ENDINGS)), "")


def _downloaded(repository: str, revision: str | None, wanted: tuple[str, ...]) -> Path:
    """The repository's files that are needed, in the Hub's cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    where = f"https://huggingface.co/{repository}"
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(wanted)))
    except GatedRepoError:
        raise InputError(f"{repository}: ask for access at {where} and log in with: hf auth login") from None
    except RepositoryNotFoundError:
        raise _NotThereError(f"{repository}: there is no such folder here and no such repository at {where}") from None
    except LocalEntryNotFoundError:
        at = f" at revision {revision}" if revision else ""
        raise _NotThereError(
            f"{repository}: there is no such folder here, the Hub's cache does not hold it{at}, and {where} cannot be "
            f"reached; on a machine with a network run: hf download {repository}"
            + (f" --revision {revision}" if revision else "")
            + ", or give the path of a folder with its files"
        ) from None
    except (HfHubHTTPError, OSError, ValueError) as error:
        reason = one_line(error)
        raise InputError(f"{repository}: cannot be had from {where}: {reason}") from None
