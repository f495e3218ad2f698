"""``hf:``: checkpoints that ``transformers`` loads, from a folder or the Hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from equipoise.errors import InputError
from equipoise.models.folders import Checkpoint, find_checkpoint, key_of, open_checkpoint
from equipoise.models.hf.families import FAMILIES, Family, Tokens, context_length
from equipoise.models.images import processed, rgb_images
from equipoise.models.protocols import Vectors
from equipoise.models.runtime import Settings, from_transformers, in_batches, quiet, torch_device, torch_dtype
from equipoise.models.trust import check_built, on_disk

__all__ = [
    "CheckpointAdapter",
    "HuggingFaceEncoder",
    "from_folder",
    "from_hugging_face",
    "image_processor",
    "reopening",
    "stock_model",
    "tokenizer",
]


def from_hugging_face(rest: str, *, kind: str = "encoder", **options: Any) -> Any:
    """What ``hf:<rest>`` names, as an encoder, captioner, classifier, detector or filler."""
    known = {field.name for field in fields(Settings)}
    Settings(**{name: value for name, value in options.items() if name in known})  # refused before a long download
    checkpoint = find_checkpoint(rest, allow_pickle=bool(options.get("allow_pickle")))
    return from_folder(checkpoint, name=f"hf:{rest}", kind=kind, **options)


def from_folder(checkpoint: Checkpoint, *, name: str, kind: str = "encoder", **options: Any) -> Any:
    """The adapter of ``kind`` for a checkpoint that was found."""
    try:
        return _adapter(checkpoint, name=name, kind=kind, **options)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # settings that no one foresaw: whatever it is, the folder is at fault
        raise InputError(f"{checkpoint.folder}: cannot be loaded as {kind}: {_line(error)}") from error


def _adapter(checkpoint: Checkpoint, *, name: str, kind: str, **options: Any) -> Any:
    if kind == "captioner":
        from equipoise.models.hf.captioners import captioner

        return captioner(checkpoint, name=name, **options)
    if kind == "classifier":
        from equipoise.models.hf.classifiers import ImageClassifier

        return ImageClassifier(checkpoint, name=name, settings=Settings(**options))
    if kind == "detector":
        from equipoise.models.hf.detectors import detector

        return detector(checkpoint, name=name, settings=Settings(**options))
    if kind == "filler":
        from equipoise.models.hf.fillers import MaskFiller

        return MaskFiller(checkpoint, name=name, settings=Settings(**options))
    from equipoise.models.hf.classifiers import Backbone, ImageEncoder

    how = _family_of(checkpoint)
    if isinstance(how, Backbone):
        return ImageEncoder(checkpoint, how, name=name, settings=Settings(**options))
    return HuggingFaceEncoder(checkpoint, how, name=name, settings=Settings(**options))


class CheckpointAdapter:
    """What adapters of ``transformers`` checkpoints have in common: where they run, their key, the way elsewhere."""

    kind: ClassVar[str]
    """As what the checkpoint was loaded."""

    def __init__(self, checkpoint: Checkpoint, *, name: str, settings: Settings | None = None) -> None:
        self.name = name
        self.family = checkpoint.model_type
        self.checkpoint = checkpoint
        self.settings = settings or Settings()
        self.device = torch_device(self.settings.device)
        self.dtype = torch_dtype(self.settings.dtype, self.device)

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
        return {
            name: value.to(self.device, self.dtype if value.is_floating_point() else None)
            for name, value in inputs.items()
        }

    def _unit_vectors(self, run: Callable[[Sequence[Any]], Any], items: Sequence[Any]) -> list[Vectors]:
        """What ``run`` gives for batches of ``items``, each row scaled to unit length; none may be NaN."""
        import torch

        def unit(batch: Sequence[Any]) -> Vectors:
            with torch.inference_mode():
                vectors = run(batch).float()
                made = torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy()
            return np.asarray(made, dtype=np.float32)

        made = in_batches(unit, items, self.settings.batch_size)
        for vectors in made:
            if not np.isfinite(vectors).all():
                first = sum(map(len, made[: next(i for i, v in enumerate(made) if v is vectors)]))
                bad = first + int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
                hint = "; try dtype='float32'" if self.settings.dtype != "float32" and "16" in str(self.dtype) else ""
                raise InputError(f"{self.name} gave a vector that is not finite for item {bad}{hint}")
        return made

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.key})>"

    def __reduce__(self) -> Any:
        return reopening(self.checkpoint, self.name, self.kind, asdict(self.settings))


class HuggingFaceEncoder(CheckpointAdapter):
    """A dual encoder of ``transformers``, asked for unit vectors; see :class:`~equipoise.models.protocols.Encoder`.

    Images go through the checkpoint's own processor once, in its Pillow form. Texts longer than ``context`` tokens
    lose their tail and keep their end token; ``tokens.n_cut`` counts them.
    """

    kind = "encoder"

    def __init__(self, checkpoint: Checkpoint, how: Family, *, name: str, settings: Settings | None = None) -> None:
        checkpoint.needs_images()
        checkpoint.needs_texts()
        super().__init__(checkpoint, name=name, settings=settings)
        with quiet():
            self.processor = image_processor(checkpoint)
            words = tokenizer(checkpoint)
            model = (
                how.build(checkpoint)
                if how.build
                else stock_model(checkpoint, how.model_class, attention=how.attention)
            )
        self.logit_scale = how.scale(model)  # before 16 bits round it
        self.tokens = Tokens(words, context_length(words, model.config, how.context), how.padding, how.masked)
        self._how = how
        reading = [self.tokens.context, how.padding, how.masked]
        self._take(model, self.processor.to_dict(), _tokenizer_settings(words), reading)

    @property
    def context(self) -> int:
        """The most tokens of a text, start and end included."""
        return self.tokens.context

    def encode_images(self, images: Sequence[Any]) -> Vectors:
        """(n, d) unit vectors of n images: Pillow images, or 8-bit arrays (height, width, 3)."""
        return self._vectors(self._image_batch, rgb_images(images))

    def encode_texts(self, texts: Sequence[str]) -> Vectors:
        """(m, d) unit vectors of m texts."""
        if isinstance(texts, str):
            raise InputError(f"texts must be a list of texts, not the one text {texts!r}")
        return self._vectors(self._text_batch, list(texts))

    def _image_batch(self, images: Sequence[Any]) -> Any:
        # The processor alone, and with one size: its processor class may carry defaults of other checkpoints.
        inputs = processed(self.processor, images)
        return self._how.images(self.model, self._placed(inputs))

    def _text_batch(self, texts: Sequence[str]) -> Any:
        return self._how.texts(self.model, self._placed(self.tokens(texts)))

    def _vectors(self, run: Callable[[Sequence[Any]], Any], items: Sequence[Any]) -> Vectors:
        made = self._unit_vectors(run, items)
        return np.concatenate(made) if made else np.zeros((0, self.dim), np.float32)

    @property
    def dim(self) -> int:
        """The length of a vector."""
        return int(self.encode_texts(["a"]).shape[1])


def reopening(checkpoint: Checkpoint, name: str, kind: str, options: dict[str, Any]) -> Any:
    """How an adapter is sent to another process: its folder is opened there again; weights do not travel."""
    return _reopened, (str(checkpoint.folder.absolute()), name, kind, options)


def _reopened(folder: str, name: str, kind: str, options: dict[str, Any]) -> Any:
    checkpoint = open_checkpoint(Path(folder), allow_pickle=options["allow_pickle"])
    return from_folder(checkpoint, name=name, kind=kind, **options)


def _family_of(checkpoint: Checkpoint) -> Any:
    kind = checkpoint.model_type
    if kind not in FAMILIES:
        known = ", ".join(FAMILIES.names())
        raise InputError(
            f"{checkpoint.folder}: a {kind!r} model, which is no encoder that is known here ({known}); a "
            "captioner is loaded with kind='captioner', a classifier with kind='classifier'"
        )
    return FAMILIES.load(kind)


def image_processor(checkpoint: Checkpoint) -> Any:
    """The checkpoint's own image processor in its Pillow form, which needs no torchvision."""
    auto = from_transformers("AutoImageProcessor")
    try:
        return auto.from_pretrained(checkpoint.folder, backend="pil", local_files_only=True, trust_remote_code=False)
    except MemoryError:
        raise
    except Exception as error:  # settings of the wrong type fail in every way there is
        raise InputError(f"{checkpoint.folder}: its image processor cannot be made: {_line(error)}") from error


def tokenizer(checkpoint: Checkpoint) -> Any:
    """The checkpoint's own tokenizer."""
    auto = from_transformers("AutoTokenizer")
    try:
        return auto.from_pretrained(checkpoint.folder, local_files_only=True, trust_remote_code=False)
    except ImportError as error:
        package = next((name for name in ("sentencepiece", "protobuf", "tiktoken") if name in str(error).lower()), "")
        advice = f"the package {package}; install it with: pip install {package}" if package else _line(error)
        raise InputError(f"{checkpoint.folder}: its tokenizer needs {advice}") from error
    except Exception as error:  # tokenizers report damaged files as plain exceptions
        raise InputError(f"{checkpoint.folder}: its tokenizer cannot be read: {_line(error)}") from error


def stock_model(checkpoint: Checkpoint, model_class: str, *, attention: str | None = None, **parts: Any) -> Any:
    """The model as ``transformers`` loads it, in float32; refuses one that lacks weights, which would be random.

    ``parts`` are arguments of the class that say which parts to make, such as ``add_pooling_layer``.
    """
    import torch
    from safetensors import SafetensorError

    try:
        made = from_transformers(model_class)
        check_built(checkpoint.folder, lambda: _empty(made, checkpoint.folder, parts), on_disk(checkpoint.weights))
        model, report = made.from_pretrained(
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
    except SafetensorError as error:
        raise InputError(f"{checkpoint.weights[0]}: damaged or cut off ({_line(error)}); download it again") from error
    except (InputError, MemoryError):
        raise
    except Exception as error:  # settings of the wrong type fail in every way there is
        raise InputError(f"{checkpoint.folder}: cannot be loaded as {model_class}: {_line(error)}") from error
    missing = sorted(report["missing_keys"])
    wrong = sorted(str(key) for key in report.get("mismatched_keys", ()))
    if missing or wrong:
        what = f"lacks {len(missing)} weights of {model_class}, such as {missing[0]!r}" if missing else ""
        what = what or f"holds weights of another shape than {model_class} has, such as {wrong[0]}"
        raise InputError(f"{checkpoint.folder}: {what}; with random numbers in their place it would mean nothing")
    return model


def _empty(made: Any, folder: Path, parts: dict[str, Any]) -> Any:
    """The model that the folder's settings ask for; the caller sees to it that its numbers take no memory."""
    if hasattr(made, "from_config"):  # one of the classes that choose by the settings
        config = from_transformers("AutoConfig").from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return made.from_config(config, trust_remote_code=False, **parts)
    return made(made.config_class.from_pretrained(folder, local_files_only=True, trust_remote_code=False), **parts)


def _tokenizer_settings(words: Any) -> Any:
    backend = getattr(words, "backend_tokenizer", None)
    inside = backend.to_str() if backend is not None else sorted(words.get_vocab().items())
    return [type(words).__name__, inside, words.padding_side]


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:400] or type(error).__name__
