"""What the adapters of ``transformers`` checkpoints share: loading, the key, where they run, the way elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np

from equipoise.array_types import Vectors
from equipoise.errors import InputError, one_line
from equipoise.models.folders import Checkpoint, key_of, open_checkpoint
from equipoise.models.runtime import (
    ModelSettings,
    fitting_settings,
    from_transformers,
    in_batches,
    in_one_sentence,
    quiet,
    refuse_not_finite,
    torch_device,
    torch_dtype,
    unbroken,
)
from equipoise.models.trust import check_built, on_disk

Opener = Callable[..., Any]
"""Makes an adapter: ``(checkpoint, *, name, **options)``."""


def opened_as(what: str, opener: Opener, checkpoint: Checkpoint, *, name: str, **options: Any) -> Any:
    """What ``opener`` makes of a checkpoint; whatever goes wrong is an InputError that names the folder."""
    with in_one_sentence(f"{checkpoint.folder}: cannot be loaded as {what}"):
        return opener(checkpoint, name=name, **options)


def reopening(opener: Opener, checkpoint: Checkpoint, name: str, options: dict[str, Any]) -> Any:
    """How an adapter is sent to another process: its folder is opened there again; weights do not travel."""
    return _reopened, (opener, str(checkpoint.folder.absolute()), name, options)


def _reopened(opener: Opener, folder: str, name: str, options: dict[str, Any]) -> Any:
    checkpoint = open_checkpoint(Path(folder), allow_pickle=options["allow_pickle"])
    return opened_as(name, opener, checkpoint, name=name, **options)


def placed(inputs: Mapping[str, Any], device: Any, dtype: Any) -> dict[str, Any]:
    """The tensors among ``inputs`` on the device, those of floating-point numbers in this number type."""
    return {
        name: value.to(device, dtype if value.is_floating_point() else None)
        for name, value in inputs.items()
        if hasattr(value, "to")
    }


class CheckpointAdapter:
    """What adapters of ``transformers`` checkpoints have in common: where they run, their key, the way elsewhere."""

    def __init__(self, checkpoint: Checkpoint, *, name: str, settings: ModelSettings | None = None) -> None:
        self.name = name
        self.family = checkpoint.model_type
        self.checkpoint = checkpoint
        self.settings = settings or ModelSettings()
        self.device = torch_device(self.settings.device)
        self.dtype = torch_dtype(self.settings.dtype, self.device)

    def _loaded(self, model_class: str, *, images: bool = False, texts: bool = False, **parts: Any) -> Any:
        """The stock model of the checkpoint; its image processor and its tokenizer are kept where they are needed."""
        if images:
            self.checkpoint.needs_images()
        if texts:
            self.checkpoint.needs_texts()
        with quiet():
            if images:
                self.processor = image_processor(self.checkpoint)
            if texts:
                self.words = tokenizer(self.checkpoint)
            return stock_model(self.checkpoint, model_class, **parts)

    def _take(self, model: Any, *preprocessing: Any) -> None:
        """Keep ``model`` where it runs; its weights, its settings and the ``preprocessing`` make the key."""
        self.model = model.to(device=self.device, dtype=self.dtype).eval()
        self.key = key_of(
            self.family,
            self.checkpoint.weights,
            self.checkpoint.config,
            *preprocessing,
            dtype=str(self.dtype).removeprefix("torch."),
        )

    def _placed(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Inputs where the model is, in its number type."""
        return placed(inputs, self.device, self.dtype)

    def _fitting(self) -> AbstractContextManager[None]:
        """Say in one sentence that the model cannot be run."""
        return fitting_settings(self.name)

    def _unit_vectors(self, run: Callable[[Sequence[Any]], Any], items: Sequence[Any]) -> list[Vectors]:
        """What ``run`` gives for batches of ``items``, each row scaled to unit length; none may be NaN."""
        import torch

        def unit(batch: Sequence[Any]) -> Vectors:
            with self._fitting(), torch.inference_mode():
                vectors = run(batch).float()
                of_length_1 = torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy()
            return np.asarray(of_length_1, dtype=np.float32)

        batches = in_batches(unit, items, self.settings.batch_size)
        refuse_not_finite(batches, self, "a vector that is not finite")
        return batches

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.key})>"

    def __reduce__(self) -> Any:
        return reopening(type(self).opened, self.checkpoint, self.name, asdict(self.settings))

    @classmethod
    def opened(cls, checkpoint: Checkpoint, *, name: str, **options: Any) -> Self:
        """The adapter of a checkpoint with these ``options`` of :class:`ModelSettings`."""
        return cls(checkpoint, name=name, settings=ModelSettings(**options))


def refuse_others(checkpoint: Checkpoint, known: str, what: str) -> None:
    """Refuse a model whose type is not among those that ``transformers`` lists under the name ``known``."""
    from_transformers("PreTrainedModel")
    from transformers.models.auto import modeling_auto

    if checkpoint.model_type not in getattr(modeling_auto, known):
        raise InputError(f"{checkpoint.folder}: a {checkpoint.model_type!r} model, which is not {what}")


def image_processor(checkpoint: Checkpoint) -> Any:
    """The checkpoint's own image processor in its Pillow form, which needs no torchvision."""
    auto = from_transformers("AutoImageProcessor")
    with in_one_sentence(f"{checkpoint.folder}: its image processor cannot be made"):
        return auto.from_pretrained(checkpoint.folder, backend="pil", local_files_only=True, trust_remote_code=False)


def without_padding(part: Any) -> Any:
    """A tokenizer that pads and cuts nothing by itself; another part of a model as it is.

    The first text that a tokenizer is given clears what its file says of padding, so a file that is written after a
    resume, when no text was left to be read, would differ from one that is written without.
    """
    backend = getattr(part, "backend_tokenizer", None)
    if backend is not None:
        backend.no_padding()
        backend.no_truncation()
    return part


def tokenizer(checkpoint: Checkpoint) -> Any:
    """The checkpoint's own tokenizer."""
    auto = from_transformers("AutoTokenizer")
    try:
        return auto.from_pretrained(checkpoint.folder, local_files_only=True, trust_remote_code=False)
    except ImportError as error:
        package = next((name for name in ("sentencepiece", "protobuf", "tiktoken") if name in str(error).lower()), "")
        advice = f"the package {package}; install it with: pip install {package}" if package else one_line(error)
        raise InputError(f"{checkpoint.folder}: its tokenizer needs {advice}") from error
    except Exception as error:  # tokenizers report damaged files as plain exceptions
        raise InputError(f"{checkpoint.folder}: its tokenizer cannot be read: {one_line(error)}") from error


def tokenizer_settings(words: Any) -> list[Any]:
    """What of a tokenizer decides how texts are read, for a key."""
    backend = getattr(words, "backend_tokenizer", None)
    inside = backend.to_str() if backend is not None else sorted(words.get_vocab().items())
    return [type(words).__name__, inside, words.padding_side]


def writing_settings(model: Any, words: Any) -> list[Any]:
    """What besides its weights decides which text a model writes, for a key: generation settings and tokenizer."""
    said = getattr(model, "generation_config", None)
    # a setting that is not given is left out: each release of transformers brings new ones
    given = {n: v for n, v in said.to_dict().items() if v is not None and not n.startswith("_")} if said else {}
    spaces = getattr(words, "clean_up_tokenization_spaces", None)
    return [given, None if words is None else tokenizer_settings(words), spaces]


def stock_model(checkpoint: Checkpoint, model_class: str, *, attention: str | None = None, **parts: Any) -> Any:
    """The model as ``transformers`` loads it, in float32; refuses one that lacks weights, which would be random.

    ``parts`` are arguments of the class that say which parts to make, such as ``add_pooling_layer``.
    """
    import torch

    with in_one_sentence(f"{checkpoint.folder}: cannot be loaded as {model_class}"), unbroken(checkpoint.weights[0]):
        loader = from_transformers(model_class)
        check_built(checkpoint.folder, lambda: _empty(loader, checkpoint.folder, parts), on_disk(checkpoint.weights))
        model, report = loader.from_pretrained(
            checkpoint.folder,
            trust_remote_code=False,
            dtype=torch.float32,
            attn_implementation=attention,
            local_files_only=True,
            use_safetensors=not checkpoint.pickled,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # reported, and refused below with their names
            **parts,
        )
    missing = sorted(report["missing_keys"])
    wrong = sorted(str(key) for key in report.get("mismatched_keys", ()))
    if missing or wrong:
        what = f"lacks {len(missing)} weights of {model_class}, such as {missing[0]!r}" if missing else ""
        what = what or f"holds weights of another shape than {model_class} has, such as {wrong[0]}"
        raise InputError(f"{checkpoint.folder}: {what}; with random numbers in their place it would mean nothing")
    return model


def _empty(loader: Any, folder: Path, parts: dict[str, Any]) -> Any:
    """The model that the folder's settings ask for; the caller sees to it that its numbers take no memory."""
    if hasattr(loader, "from_config"):  # one of the classes that choose by the settings
        config = from_transformers("AutoConfig").from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return loader.from_config(config, trust_remote_code=False, **parts)
    return loader(loader.config_class.from_pretrained(folder, local_files_only=True, trust_remote_code=False), **parts)
