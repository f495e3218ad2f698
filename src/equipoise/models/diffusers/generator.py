"""``diffusers:``: Stable Diffusion pipelines of the 1.x, 2.x and XL families, from a folder or the Hub.

A pipeline's class, which its ``model_index.json`` names, says what it can do: text to image, inpainting, or editing as
an instruction says. A safety checker that comes with a checkpoint stays on; it blackens what it objects to.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from equipoise.errors import InputError
from equipoise.models.diffusers.folders import (
    CAN,
    GENERATION,
    INDEX,
    NAMES,
    can_do,
    index_of,
    loaded,
    own_settings,
    settings_in,
    silent,
    weights_of,
)
from equipoise.models.folders import find_folder, key_of
from equipoise.models.images import rgb_images
from equipoise.models.runtime import (
    ModelSettings,
    fitting_settings,
    in_batches,
    in_one_sentence,
    torch_device,
    torch_dtype,
)

_BATCH = 16
_WANTED = (
    INDEX,
    GENERATION,
    "*/*.json",
    "*/*.txt",
    "*/*.model",
    "*/model.safetensors",
    "*/model-0*.safetensors",
    "*/diffusion_pytorch_model.safetensors",
    "*/diffusion_pytorch_model-0*.safetensors",
)
"""The files that are downloaded: not the copies of the weights in other number types."""
_PICKLES = ("*/pytorch_model*.bin", "*/diffusion_pytorch_model*.bin")


def from_diffusers(rest: str, *, kind: str = "generator", **options: Any) -> DiffusersGenerator:
    """The generator that ``diffusers:<rest>`` names."""
    ModelSettings(**{"batch_size": _BATCH} | options)  # refused before a long download
    folder = find_folder(rest, _WANTED, scheme="diffusers", holds=INDEX)
    if options.get("allow_pickle") and not any(folder.glob("unet/*.safetensors")):
        folder = find_folder(rest, (*_WANTED, *_PICKLES), scheme="diffusers", holds=INDEX)
    return open_pipeline(folder, name=f"diffusers:{rest}", **options)


def open_pipeline(folder: Path, *, name: str, **options: Any) -> DiffusersGenerator:
    """The generator in ``folder``; ``options`` are those of :class:`~equipoise.models.runtime.ModelSettings`."""
    settings = ModelSettings(**{"batch_size": _BATCH} | options)
    with in_one_sentence(f"{folder}: cannot be loaded as a pipeline", ImportError):
        return DiffusersGenerator(folder, name=name, settings=settings)


class DiffusersGenerator:
    """A Stable Diffusion pipeline; see :class:`~equipoise.models.protocols.Generator`.

    Image i of a call depends on the seed, on i and on what is asked for it, not on the batch that it was made in (up
    to the last bits of floating-point arithmetic). Inpainting takes a seed and a place of their own for each image too
    (``many_seeds``). Images to change are brought to a size that the model knows, and
    the result back to their own.
    """

    many_seeds = True

    def __init__(self, folder: Path, *, name: str, settings: ModelSettings | None = None) -> None:
        self.name = name
        self.folder = folder
        self.settings = settings or ModelSettings(batch_size=_BATCH)
        index = index_of(folder)
        self.family = str(index["_class_name"])
        self.can = frozenset(can_do(folder, self.family))
        weights = weights_of(folder, index, allow_pickle=self.settings.allow_pickle)
        self.device = torch_device(self.settings.device)
        self.dtype = torch_dtype(self.settings.dtype, self.device)
        with silent():
            self.pipeline = loaded(folder, self.family, self.dtype, safe=weights[0].suffix == ".safetensors")
            self.pipeline.to(self.device)
            if self.device.type == "cpu":
                _lay_out_for_cpu(self.pipeline)
        self.pipeline.set_progress_bar_config(disable=True)
        _bound_texts(self.pipeline)
        self.brings = own_settings(folder)
        """The guidance and steps that come with the checkpoint (``generation.json``); often none."""
        self.own = _defaults(self.pipeline) | self.brings
        """The guidance and steps that are taken where none are asked for: the model's own, else the pipeline's."""
        side = self.pipeline.unet.config.sample_size
        height, width = (side, side) if isinstance(side, int) else side
        factor = self.pipeline.vae_scale_factor
        self.size = (width * factor, height * factor)
        self.key = key_of(self.family, weights, settings_in(folder), dtype=str(self.dtype).removeprefix("torch."))

    def generate(
        self, prompts: Sequence[str], *, seed: int, guidance: float | None = None, steps: int | None = None
    ) -> list[Image.Image]:
        """One image per prompt, each from noise of its own."""
        self._needs("generate")
        numbers = self._told(guidance=guidance, steps=steps)

        def run(batch: Sequence[tuple[int, str]]) -> list[Image.Image]:
            noise = [_noise_at(seed, place) for place, _ in batch]
            return self._made(prompt=[text for _, text in batch], generator=noise, **numbers)

        return _joined(in_batches(run, list(enumerate(_texts("prompts", prompts))), self.settings.batch_size))

    def generate_set(
        self,
        prompts: Sequence[str],
        *,
        seed: int,
        share: float,
        inject: str = "self",
        guidance: float | None = None,
        steps: int | None = None,
        blend: bool = False,
        sampler: str | None = None,
    ) -> list[Image.Image]:
        """One image per prompt from the same noise, with the first one's attention for a ``share`` of the steps.

        See :func:`equipoise.models.diffusers.attention.run_set`.
        """
        from equipoise.models.diffusers import attention

        self._needs("generate_set")
        own = self._told(guidance=guidance, steps=steps)
        with silent(), fitting_settings(self.name):
            return attention.run_set(
                self.pipeline,
                _texts("prompts", prompts),
                seed=seed,
                share=share,
                inject=inject,
                guidance=own["guidance_scale"],
                steps=own["num_inference_steps"],
                blend=blend,
                sampler=sampler,
            )

    def edit(
        self,
        images: Sequence[Image.Image],
        instructions: Sequence[str],
        *,
        seed: int,
        guidance: float | None = None,
        image_guidance: float | None = None,
        steps: int | None = None,
    ) -> list[Image.Image]:
        """Each image changed as its instruction says, at its own size."""
        self._needs("edit")
        pictures, texts = rgb_images(images), _texts("instructions", instructions)
        _same_number(images=pictures, instructions=texts)
        numbers = self._told(guidance=guidance, image_guidance=image_guidance, steps=steps)

        def run(batch: Sequence[int], size: tuple[int, int]) -> list[Image.Image]:
            given = [pictures[i].resize(size, Image.Resampling.LANCZOS) for i in batch]
            more = {"height": size[1], "width": size[0]} if "XL" in self.family else {}
            noise = [_noise_at(seed, i) for i in batch]
            return self._made(prompt=[texts[i] for i in batch], image=given, generator=noise, **numbers, **more)

        return self._by_size(pictures, run)

    def inpaint(
        self,
        images: Sequence[Image.Image],
        masks: Sequence[NDArray[np.bool_]],
        prompts: Sequence[str],
        *,
        seed: int | Sequence[tuple[int, int]],
        guidance: float | None = None,
        steps: int | None = None,
    ) -> list[Image.Image]:
        """Each image drawn anew where its mask is true, at its own size; the caller composites.

        ``seed``: one for the call, or for each image a seed and a place: its noise is then that of the image at this
        place in a call with this seed, so that photographs can be drawn together and come out as if alone.
        """
        self._needs("inpaint")
        pictures, texts = rgb_images(images), _texts("prompts", prompts)
        _same_number(images=pictures, masks=masks, prompts=texts)
        places = [(seed, i) for i in range(len(pictures))] if isinstance(seed, int) else list(seed)
        _same_number(images=pictures, seeds=places)
        hidden = [_mask(mask, image, i) for i, (mask, image) in enumerate(zip(masks, pictures, strict=True))]
        numbers = self._told(guidance=guidance, steps=steps)

        def run(batch: Sequence[int], size: tuple[int, int]) -> list[Image.Image]:
            given = [pictures[i].resize(size, Image.Resampling.LANCZOS) for i in batch]
            covers = [hidden[i].resize(size, Image.Resampling.NEAREST) for i in batch]
            more = {"height": size[1], "width": size[0], "generator": [_noise_at(*places[i]) for i in batch]}
            return self._made(prompt=[texts[i] for i in batch], image=given, mask_image=covers, **more, **numbers)

        return self._by_size(pictures, run)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} ({self.key})>"

    def __reduce__(self) -> Any:
        return partial(open_pipeline, name=self.name, **asdict(self.settings)), (self.folder.absolute(),)

    def _needs(self, what: str) -> None:
        if what not in self.can:
            others = sorted(family for family, can in CAN.items() if what in can)
            raise InputError(
                f"{self.name} is a {self.family}, which can {' and '.join(sorted(self.can))}, not {what}; "
                f"load a {' or '.join(others)} for that"
            )

    def _told(self, **asked: float | None) -> dict[str, Any]:
        """What the pipeline is told: what was asked for, else its own."""
        numbers = {NAMES[name]: self.own[name] if value is None else value for name, value in asked.items()}
        if not numbers["num_inference_steps"] >= 1:
            raise InputError(f"steps={numbers['num_inference_steps']!r}: at least one step is needed")
        return numbers

    def _made(self, **call: Any) -> list[Image.Image]:
        with silent(), fitting_settings(self.name):
            return list(self.pipeline(**call).images)

    def _by_size(
        self, pictures: list[Image.Image], run: Callable[[Sequence[int], tuple[int, int]], list[Image.Image]]
    ) -> list[Image.Image]:
        """``run`` of pictures that are brought to one size, and the results at their own sizes, in order."""
        grid = self.pipeline.vae_scale_factor * 8
        groups: dict[tuple[int, int], list[int]] = {}
        for i, picture in enumerate(pictures):
            groups.setdefault(fitted(picture.size, max(self.size), grid), []).append(i)
        by_place: dict[int, Image.Image] = {}
        for size, places in groups.items():
            drawn = _joined(in_batches(lambda batch, s=size: run(batch, s), places, self.settings.batch_size))  # type: ignore[misc]
            for i, image in zip(places, drawn, strict=True):
                same = image.size == pictures[i].size
                by_place[i] = image if same else image.resize(pictures[i].size, Image.Resampling.LANCZOS)
        return [by_place[i] for i in range(len(pictures))]


def _lay_out_for_cpu(pipeline: Any) -> None:
    """Keep the channels of a pixel beside each other: a CPU is then a tenth to a third faster."""
    import torch

    for part in (pipeline.unet, pipeline.vae):
        part.to(memory_format=torch.channels_last)


def _bound_texts(pipeline: Any) -> None:
    """Cut texts to what the text encoders can read: a tokenizer whose settings do not say how much has no limit."""
    for end in ("", "_2"):
        words, reader = getattr(pipeline, f"tokenizer{end}", None), getattr(pipeline, f"text_encoder{end}", None)
        most = getattr(getattr(reader, "config", None), "max_position_embeddings", None)
        if words is not None and most:
            words.model_max_length = min(words.model_max_length, most)


def fitted(size: tuple[int, int], longest: int, grid: int) -> tuple[int, int]:
    """Width and height with the longer side at ``longest``, both on a grid of pixels.

    >>> fitted((640, 427), 512, 64), fitted((64, 64), 64, 32)
    ((512, 320), (64, 64))
    """
    scale = longest / max(size)
    return max(grid, round(size[0] * scale / grid) * grid), max(grid, round(size[1] * scale / grid) * grid)


def seed_of(seed: int, place: int) -> int:
    """The seed of the noise of image ``place`` in a call with ``seed``.

    >>> seed_of(0, 1) != seed_of(1, 0), seed_of(3, 2) == seed_of(3, 2)
    (True, True)
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"seed={seed!r}: a whole number from 0 up is expected")
    return int(np.random.SeedSequence([int(seed), place]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _defaults(pipeline: Any) -> dict[str, Any]:
    known = inspect.signature(type(pipeline).__call__).parameters
    return {name: known[theirs].default for name, theirs in NAMES.items() if theirs in known}


def _noise_at(seed: int, place: int) -> Any:
    import torch

    # On the CPU wherever the model is: the same noise on every machine.
    return torch.Generator("cpu").manual_seed(seed_of(seed, place))


def _texts(name: str, texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        raise InputError(f"{name} must be a list of texts, not the one text {texts!r}")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"{name}: number {i} is {text!r}, not a text")
    return list(texts)


def _same_number(**lists: Sequence[Any]) -> None:
    if len({len(items) for items in lists.values()}) > 1:
        counts = ", ".join(f"{len(items)} {name}" for name, items in lists.items())
        raise InputError(f"there must be as many of each: {counts}")


def _mask(mask: Any, image: Image.Image, place: int) -> Image.Image:
    values = np.asarray(mask)
    if values.dtype != np.bool_ or values.shape != (image.height, image.width):
        raise InputError(
            f"mask {place} is {values.dtype} of shape {values.shape}; truth values of shape "
            f"{(image.height, image.width)}, as its image has, are expected"
        )
    return Image.fromarray(values.astype(np.uint8) * 255)


def _joined(batches: list[list[Image.Image]]) -> list[Image.Image]:
    return [image for batch in batches for image in batch]
