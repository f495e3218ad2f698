"""``open_clip:<arch>/<tag or file>``: models of OpenCLIP; EVA, CoCa and NegCLIP come this way.

OpenCLIP needs torchvision, so it is an extra of its own. ``open_clip:hf-hub:<repo>`` and
``open_clip:local-dir:<folder>`` are understood as OpenCLIP itself writes them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.array_types import Vectors
from equipoise.errors import InputError, MissingExtraError, UnknownNameError, one_line
from equipoise.models.folders import key_of, refuse_pickle
from equipoise.models.images import rgb_images
from equipoise.models.runtime import (
    ModelSettings,
    explained,
    in_batches,
    in_one_sentence,
    never_asking,
    refuse_not_finite,
    torch_device,
    torch_dtype,
)
from equipoise.models.trust import check_folder, check_open_clip, on_disk, read_settings

_SAFE = ".safetensors"
_SETTINGS = "open_clip_config.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")
_FORMS = ("hf-hub:", "local-dir:")


def from_open_clip(rest: str, **options: Any) -> OpenClipEncoder:
    """The encoder that ``open_clip:<rest>`` names."""
    return OpenClipEncoder(rest, settings=ModelSettings(**options))


class OpenClipEncoder:
    """A model of OpenCLIP, asked for unit vectors; see :class:`~equipoise.models.protocols.Encoder`."""

    def __init__(self, rest: str, *, settings: ModelSettings | None = None) -> None:
        self.name = f"open_clip:{rest}"
        self.family = "open_clip"
        self.settings = settings or ModelSettings()
        arch, weights = _parted(rest)
        if arch.startswith("local-dir:"):
            check_local(Path(arch.removeprefix("local-dir:")), allow_pickle=self.settings.allow_pickle)
        library = _open_clip()
        file = _weight_file(library, arch, weights)
        if file.suffix != _SAFE and not self.settings.allow_pickle:
            raise InputError(
                f"{self.name}: the weights are a pickle ({file.name}), which can run code when it is opened; allow it "
                "with --allow-pickle (allow_pickle=True) if you trust the source"
            )
        self.device = torch_device(self.settings.device)
        self.dtype = torch_dtype(self.settings.dtype, self.device)
        kind = str(self.dtype).removeprefix("torch.")
        precision = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}[kind]
        self.model, self._pixels = _created(library, arch, weights, precision, self.device)
        self.tokens = Tokens(library.get_tokenizer(arch))
        self.logit_scale = float(self.model.logit_scale.exp().item())
        about = getattr(self.model.visual, "preprocess_cfg", {})
        # a folder's settings lie beside its weights; its name says nothing of an activation that was changed
        beside = file.with_name(_SETTINGS)
        settings_of_arch = library.get_model_config(arch) if not arch.startswith(_FORMS) else arch
        settings_of_arch = read_settings(beside) if arch.startswith(_FORMS) and beside.is_file() else settings_of_arch
        self.key = key_of("open_clip", [file], settings_of_arch, about, self.tokens.context, dtype=kind)

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
        import torch

        pixels = torch.stack([self._pixels(image) for image in images])
        return self.model.encode_image(pixels.to(self.device, self.dtype))

    def _text_batch(self, texts: Sequence[str]) -> Any:
        return self.model.encode_text(self.tokens(texts).to(self.device))

    def _vectors(self, run: Any, items: Sequence[Any]) -> Vectors:
        import torch

        def unit(batch: Sequence[Any]) -> Any:
            with torch.inference_mode():
                return torch.nn.functional.normalize(run(batch).float(), dim=-1).cpu().numpy()

        if not items:
            return np.zeros((0, self.encode_texts(["a"]).shape[1]), np.float32)
        batches = in_batches(unit, items, self.settings.batch_size)
        refuse_not_finite(batches, self, "a vector that is not finite")
        return np.asarray(np.concatenate(batches), dtype=np.float32)

    def __reduce__(self) -> Any:
        return partial(OpenClipEncoder, settings=self.settings), (self.name.removeprefix("open_clip:"),)


@dataclass
class Tokens:
    """OpenCLIP's own tokenizer, which keeps the end token of a text it cuts, and a count of those texts."""

    tokenizer: Any
    n_texts: int = field(default=0, init=False)
    n_cut: int = field(default=0, init=False)

    @property
    def context(self) -> int:
        """The most tokens of a text, start and end included."""
        return int(self.tokenizer.context_length)

    def __call__(self, texts: Sequence[str]) -> Any:
        """(n, context) token numbers."""
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"text {i} is a {type(text).__name__}, not a text: {text!r}")
        self.n_texts += len(texts)
        # A token has a character at least, so short texts need not be counted.
        self.n_cut += sum(self._length(text) > self.context for text in texts if len(text) > self.context - 2)
        return self.tokenizer(list(texts))

    def _length(self, text: str) -> int:
        inner = getattr(self.tokenizer, "tokenizer", None)
        if inner is not None:
            return len(inner(text)["input_ids"])
        return len(self.tokenizer.encode(text)) + 2


def _open_clip() -> Any:
    try:
        import open_clip
    except ModuleNotFoundError as error:
        if error.name not in ("open_clip", "torchvision", "timm", "torch"):
            raise
        raise MissingExtraError("open_clip: models", "open-clip") from error
    except (ImportError, RuntimeError) as error:
        raise explained(error) from error
    return open_clip


def _parted(rest: str) -> tuple[str, str]:
    """The architecture, and the tag or file; nothing where the architecture says both."""
    if rest.startswith(_FORMS):
        return rest, ""
    arch, slash, weights = rest.partition("/")
    if not slash or not weights:
        raise InputError(f"open_clip:{rest}: say which weights, as in open_clip:ViT-B-32/laion2b_s34b_b79k")
    return arch, weights


def check_local(folder: Path, *, allow_pickle: bool) -> None:
    """Refuse a folder whose settings or weights OpenCLIP should not be given."""
    path = folder / _SETTINGS
    if not path.is_file():
        raise InputError(f"{folder}: open_clip_config.json is missing; local-dir: takes a folder that OpenCLIP saved")
    check_folder(folder)
    files = sorted(folder.glob("*.safetensors"))
    pickles = [path for path in sorted(folder.iterdir()) if path.suffix in _PICKLES]
    if not files and pickles and not allow_pickle:
        refuse_pickle(str(folder), pickles[0].name)
    if not files and not pickles:
        raise InputError(f"{folder}: the weights are missing (open_clip_model.safetensors)")
    check_open_clip(path, read_settings(path), on_disk(files or pickles))


def _weight_file(library: Any, arch: str, weights: str) -> Path:
    """The weights on this machine, downloaded if they are a tag."""
    try:
        if arch.startswith("local-dir:"):
            from open_clip.factory import _find_checkpoint_in_dir

            return Path(_find_checkpoint_in_dir(Path(arch.removeprefix("local-dir:"))) or "")
        if arch.startswith("hf-hub:"):
            return Path(library.pretrained.download_pretrained_from_hf(arch.removeprefix("hf-hub:")))
        if arch not in library.list_models():
            raise UnknownNameError("OpenCLIP architecture", arch, library.list_models())
        if Path(weights).is_file():
            return Path(weights)
        tag = library.get_pretrained_cfg(arch, weights)
        if not tag:
            known = ", ".join(library.list_pretrained_tags_by_model(arch)) or "none"
            raise InputError(f"{weights!r} is neither a file nor a tag of {arch}; its tags are: {known}")
        return Path(library.download_pretrained(tag))
    except InputError:
        raise
    except Exception as error:  # downloads fail in every way there is
        reason = one_line(error)
        where = f"open_clip:{arch}/{weights}".rstrip("/")
        raise InputError(
            f"{where}: its weights are not on this machine and cannot be downloaded ({reason}); give the path of a "
            "file instead of the tag"
        ) from error


def _created(library: Any, arch: str, weights: str, precision: str, device: Any) -> tuple[Any, Any]:
    named = f"open_clip:{arch}/{weights}"
    with in_one_sentence(f"{named}: cannot be loaded"), warnings.catch_warnings(), never_asking():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="QuickGELU mismatch")
        try:
            model, _, pixels = library.create_model_and_transforms(
                arch, pretrained=weights or None, precision=precision, device=device, weights_only=True
            )
        except UserWarning as error:
            raise InputError(
                f"{named}: {error} With the wrong activation every vector is off; name the "
                f"architecture {arch}-quickgelu instead (or without -quickgelu)"
            ) from error
    return model.eval(), pixels
