"""Pipeline folders of ``diffusers``: what one must hold, what it can do, and one sentence for what it lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, MissingExtraError
from equipoise.models.folders import refuse_pickle
from equipoise.models.runtime import from_transformers, in_one_sentence, quiet, silenced, unbroken
from equipoise.models.trust import OnDisk, check_built, check_folder, check_sizes, on_disk, read_settings

CAN: dict[str, tuple[str, ...]] = {
    "StableDiffusionPipeline": ("generate", "generate_set"),
    "StableDiffusionXLPipeline": ("generate", "generate_set"),
    "StableDiffusionInpaintPipeline": ("inpaint",),
    "StableDiffusionXLInpaintPipeline": ("inpaint",),
    "StableDiffusionInstructPix2PixPipeline": ("edit",),
    "StableDiffusionXLInstructPix2PixPipeline": ("edit",),
}
"""What a pipeline can do, by its class."""
GENERATION = "generation.json"
"""A file beside the index that may hold the model's own ``guidance``, ``image_guidance`` and ``steps``."""
INDEX = "model_index.json"
NAMES = {"guidance": "guidance_scale", "image_guidance": "image_guidance_scale", "steps": "num_inference_steps"}
"""What pipelines call the settings of generation."""


def index_of(folder: Path) -> dict[str, Any]:
    """What ``model_index.json`` says: the class of the pipeline and of its parts."""
    path = folder / INDEX
    if not path.is_file():
        raise InputError(
            f"{folder}: {INDEX} is missing; a pipeline folder holds it beside unet, vae, text_encoder, tokenizer and "
            "scheduler (a folder with config.json alone is loaded with hf:)"
        )
    content = read_settings(path)
    if not isinstance(content, dict) or not isinstance(content.get("_class_name"), str):
        raise InputError(f"{path}: not the index of a pipeline (it does not say _class_name)")
    check_folder(folder)
    return content


def can_do(folder: Path, family: str) -> tuple[str, ...]:
    """What a pipeline of the class ``family`` can do; refuses a class that is not known."""
    if family not in CAN:
        raise InputError(f"{folder}: a {family}, which is not known here; known are {', '.join(CAN)}")
    return CAN[family]


def weights_of(folder: Path, index: dict[str, Any], *, allow_pickle: bool) -> list[Path]:
    """The weight files of every model in the pipeline: safetensors, or pickles where those are allowed."""
    files: list[Path] = []
    for part, value in sorted(index.items()):
        if part.startswith("_") or not isinstance(value, list) or value[0] is None:
            continue
        home = folder / part
        if not home.is_dir():
            raise InputError(f"{folder}: the part {part!r} is missing; take it from the checkpoint's source")
        if not (home / "config.json").is_file():
            for path in sorted(home.glob("*config.json")):  # a tokenizer or a scheduler, which has no weights
                check_sizes(path, read_settings(path), OnDisk(0, 0))
            continue
        safe, pickles = (sorted(home.glob(pattern)) for pattern in ("*.safetensors", "*.bin"))
        if not safe and pickles and not allow_pickle:
            refuse_pickle(str(home), pickles[0].name)
        if not safe and not pickles:
            raise InputError(
                f"{home}: the weights are missing (diffusion_pytorch_model.safetensors, model.safetensors)"
            )
        check_sizes(home / "config.json", read_settings(home / "config.json"), on_disk(safe or pickles))
        files += safe or pickles
    if not files:
        raise InputError(f"{folder / INDEX}: it names no model")
    return sorted(files, key=lambda path: path.suffix == ".safetensors")


def loaded(folder: Path, family: str, dtype: Any, *, safe: bool) -> Any:
    """The pipeline as ``diffusers`` loads it, from safetensors where it is ``safe``."""
    import diffusers

    how = {"dtype": dtype, "local_files_only": True, "use_safetensors": True if safe else None}
    with in_one_sentence(f"{folder}: cannot be loaded as {family}"), unbroken(folder):
        check_parts(folder)
        parts = whole_parts(folder, how)
        return getattr(diffusers, family).from_pretrained(folder, trust_remote_code=False, **how, **parts)


def _models(folder: Path) -> Iterator[tuple[Path, list[Any]]]:
    """The folder of each model in a pipeline, and what the index says of it."""
    for part, value in index_of(folder).items():
        if not part.startswith("_") and isinstance(value, list) and (folder / part / "config.json").is_file():
            yield folder / part, value


def check_parts(folder: Path) -> None:
    """Refuse a pipeline one of whose models is larger than its weights."""
    for home, value in _models(folder):
        files = sorted(home.glob("*.safetensors")) or sorted(home.glob("*.bin"))
        check_built(home, lambda home=home, value=value: _empty(home, value), on_disk(files))


def whole_parts(folder: Path, how: dict[str, Any]) -> dict[str, Any]:
    """The models of a pipeline by their part; refuses one that lacks weights, which would be random and never told."""
    parts: dict[str, Any] = {}
    for home, value in _models(folder):
        parts[home.name], report = _class_of(value).from_pretrained(
            home, trust_remote_code=False, output_loading_info=True, **how
        )
        missing = sorted(report["missing_keys"])
        if missing:
            raise InputError(
                f"{home}: lacks {len(missing)} weights of {value[1]}, such as {missing[0]!r}; with random numbers in "
                "their place it would mean nothing: download it again"
            )
    return parts


def _class_of(value: list[Any]) -> Any:
    """The class that an entry of the index names."""
    import diffusers

    library, name = value
    if library == "diffusers":
        return getattr(diffusers, name)
    if library == "transformers":
        return from_transformers(name)
    from diffusers.pipelines.stable_diffusion import safety_checker

    return getattr(safety_checker, name)


def _empty(home: Path, value: list[Any]) -> Any:
    """The model of one part; the caller sees to it that its numbers take no memory."""
    model_class = _class_of(value)
    if value[0] == "diffusers":
        return model_class.from_config(read_settings(home / "config.json"))
    return model_class(model_class.config_class.from_pretrained(home, local_files_only=True, trust_remote_code=False))


def own_settings(folder: Path) -> dict[str, Any]:
    """The guidance and the steps that the model was tuned for, where the folder says so."""
    path = folder / GENERATION
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {name: content[name] for name in NAMES if name in content}
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: guidance, image_guidance and steps are expected ({error})") from None


def settings_in(folder: Path) -> dict[str, Any]:
    """Every settings file of the pipeline, by its place, and the model's own guidance and steps."""
    files = sorted(path for path in folder.glob("*/*") if path.suffix in (".json", ".txt", ".model"))
    settings: dict[str, Any] = {}
    for path in [folder / INDEX, *files]:
        if path.suffix == ".json":
            settings[str(path.relative_to(folder))] = json.loads(path.read_text(encoding="utf-8"))
        else:
            settings[str(path.relative_to(folder))] = path.read_bytes().hex()
    own = own_settings(folder)
    return settings | ({GENERATION: own} if own else {})


@contextmanager
def silent() -> Iterator[None]:
    """Without the bars and warnings of diffusers and transformers."""
    with quiet():
        try:
            from diffusers.utils import logging
        except ModuleNotFoundError as error:
            raise MissingExtraError("generating images", "models") from error
        with silenced(logging):
            yield
