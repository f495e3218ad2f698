"""Images from a service with OpenAI's interface: ``api:<url>#<model>``, such as ``api:https://api.openai.com/v1#dall-e-3``.

Knows what an image costs, so that a dry run can say it; how the service is asked is in
:mod:`equipoise.models.services`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from PIL import Image

from equipoise.data.images import decode
from equipoise.errors import InputError
from equipoise.models.services import Service


class ImageService:
    """A :class:`~equipoise.models.protocols.Generator` behind a service; it makes single images and nothing else.

    A service draws as it likes: the same prompt gives another image next time, so only images that are in a table
    stay the same.
    """

    can = frozenset({"generate"})

    def __init__(
        self,
        service: Service,
        *,
        size: tuple[int, int] = (1024, 1024),
        quality: str | None = None,
        price: float | None = None,
    ) -> None:
        if price is not None and not price >= 0:
            raise InputError(f"price={price}: US dollars per image, from 0 up, are expected")
        self.name = f"api:{service.url}#{service.model}"
        self.size = size
        self.price = price
        """US dollars per image, as the caller knows it."""
        self.key = hashlib.sha256(json.dumps([self.name, list(size), quality]).encode()).hexdigest()
        self._service = service
        self._quality = quality

    @property
    def per_minute(self) -> float | None:
        """At most so many images per minute."""
        return self._service.per_minute

    def generate(
        self, prompts: Sequence[str], *, seed: int, guidance: float | None = None, steps: int | None = None
    ) -> list[Image.Image]:
        """One image per prompt; the service takes no seed, guidance or steps."""
        for name, value in (("guidance", guidance), ("steps", steps)):
            if value is not None:
                raise InputError(f"{name}={value} was given, but {self.name} takes none; leave it out")
        return [self._image(prompt) for prompt in prompts]

    def generate_set(self, prompts: Sequence[str], **_: Any) -> list[Image.Image]:
        """Not to be had from a service: attention cannot be reached."""
        raise self._cannot("share attention inside a set")

    def edit(self, images: Sequence[Image.Image], instructions: Sequence[str], **_: Any) -> list[Image.Image]:
        """Not to be had."""
        raise self._cannot("edit")

    def inpaint(
        self, images: Sequence[Image.Image], masks: Sequence[Any], prompts: Sequence[str], **_: Any
    ) -> list[Image.Image]:
        """Not to be had."""
        raise self._cannot("inpaint")

    def _cannot(self, what: str) -> InputError:
        return InputError(f"{self.name} cannot {what}; it can: generate. Use a diffusers: model for that")

    def _image(self, prompt: str) -> Image.Image:
        content: dict[str, Any] = {"prompt": prompt, "n": 1, "size": f"{self.size[0]}x{self.size[1]}"}
        if self._quality is not None:
            content["quality"] = self._quality
        answer = self._service.post("images/generations", content)
        try:
            picture = answer["data"][0]
            data = picture.get("b64_json")
            return decode(base64.b64decode(data) if data else self._service.fetched(picture["url"]))
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"{self.name} answered without an image: {self._service.without_key(str(answer))[:120]}"
            ) from None


def from_api(
    rest: str,
    *,
    kind: str = "generator",
    size: tuple[int, int] | str = (1024, 1024),
    quality: str | None = None,
    price: float | None = None,
    device: str = "auto",
    dtype: str = "auto",
    batch_size: int | None = None,
    allow_pickle: bool = False,
    **options: Any,
) -> ImageService:
    """The generator of ``api:<url>#<model>``; ``options`` are those of :class:`Service`. Nothing runs on this machine,
    so device, number type and batch size do not matter.

    >>> from_api("https://api.openai.com/v1#dall-e-3", price=0.04).name
    'api:https://api.openai.com/v1#dall-e-3'
    """
    if isinstance(size, str):
        width, _, height = size.partition("x")
        if not (width.isdigit() and height.isdigit()):
            raise InputError(f"size={size!r} must be <width>x<height>, such as 1024x1024")
        size = (int(width), int(height))
    return ImageService(Service.named(rest, **options), size=size, quality=quality, price=price)
