"""Images from a service with OpenAI's interface: ``api:<url>#<model>``, such as ``api:https://api.openai.com/v1#dall-e-3``.

Waits and tries again when the service is busy or down, keeps to a number of requests a minute, and knows what an image
costs, so that a dry run can say it. Only the standard library is needed. The key is taken from the environment variable
``OPENAI_API_KEY`` and is sent nowhere but to the service; services on this machine need none.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from PIL import Image

from equipoise.data.images import decode
from equipoise.errors import InputError, UnknownNameError

__all__ = ["ImageService", "Service", "from_api"]

KEY = "OPENAI_API_KEY"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504)
_MOST_BYTES = 64 << 20


@dataclass
class Service:
    """One model of one service: requests that wait their turn and are tried again."""

    url: str
    model: str
    tries: int = 6
    first_wait: float = 1.0
    """Seconds before the second try; doubled each time, unless the service says how long."""
    per_minute: float | None = None
    """At most so many requests a minute."""
    timeout: float = 180.0
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    _next: float = field(default=0.0, repr=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def named(cls, rest: str, **options: Any) -> Service:
        """The service of ``<url>#<model>``."""
        url, _, model = rest.partition("#")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not model:
            raise InputError(f"api:{rest} must be api:<url>#<model>, such as api:https://api.openai.com/v1#dall-e-3")
        if parts.scheme == "http" and parts.hostname not in _LOCAL:
            raise InputError(f"api:{rest} would send the key and prompts unencrypted; use https")
        known = {"tries", "first_wait", "per_minute", "timeout", "sleep"}
        for name in options:
            if name not in known:
                raise UnknownNameError("option of a service", name, known)
        if options.get("per_minute") is not None and not options["per_minute"] > 0:
            raise InputError(f"per_minute={options['per_minute']}: a number above 0 is expected")
        return cls(url.rstrip("/"), model, **options)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {**state, "_turn": threading.Lock()}

    def post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        """The answer of ``path`` to ``content``; InputError with the service's own words where it refuses."""
        body = json.dumps({"model": self.model, **content}).encode()
        request = Request(f"{self.url}/{path}", data=body, headers={"Content-Type": "application/json"}, method="POST")
        for name, value in self._authorization().items():
            # Not an ordinary header: urllib would send that along wherever the service redirects to.
            request.add_unredirected_header(name, value)
        data = self._asked(request)
        try:
            found = json.loads(data)
        except ValueError:
            raise InputError(f"{self.url}/{path} did not answer with JSON: {data[:80]!r}") from None
        if not isinstance(found, dict):
            raise InputError(f"{self.url}/{path} did not answer with an object")
        return found

    def fetched(self, address: str) -> bytes:
        """A file that the service put somewhere; the key is not sent along."""
        if urlsplit(address).scheme not in ("https", "http"):
            raise InputError(f"{self.url} answered with the address {address[:80]!r}, which is not on the web")
        return self._asked(Request(address))

    def chat(self, text: str, *, temperature: float, seed: int) -> str:
        """The model's answer to one message."""
        messages = [{"role": "user", "content": text}]
        found = self.post("chat/completions", {"messages": messages, "temperature": temperature, "seed": seed})
        try:
            return str(found["choices"][0]["message"]["content"])
        except (KeyError, IndexError, TypeError):
            raise InputError(f"{self.url} answered without a message: {str(found)[:120]}") from None

    def _authorization(self) -> dict[str, str]:
        key = os.environ.get(KEY, "")
        if not key and urlsplit(self.url).hostname not in _LOCAL:
            raise InputError(f"{self.url} needs a key; put it into the environment variable {KEY}")
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _asked(self, request: Request) -> bytes:
        wait = self.first_wait
        for attempt in range(1, self.tries + 1):
            self._take_turn()
            try:
                with urlopen(request, timeout=self.timeout) as answer:
                    data: bytes = answer.read(_MOST_BYTES + 1)
                if len(data) > _MOST_BYTES:
                    raise InputError(f"{self.url} answered with more than {_MOST_BYTES} bytes")
                return data
            except HTTPError as error:
                reason = f"{error.code} {_told(error)}"
                if error.code not in _AGAIN:
                    raise InputError(f"{self.url} refused: {reason}") from None
                wait = max(wait, _asked_wait(error))
            except (URLError, TimeoutError, ConnectionError) as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
            if attempt < self.tries:
                self.sleep(wait)
                wait = min(2 * wait, 60.0)
        # Not an InputError: the service is at fault, not the prompt, and the next run may have better luck.
        raise ConnectionError(f"{self.url} did not answer in {self.tries} tries; the last said: {reason}")

    def _take_turn(self) -> None:
        if self.per_minute is None:
            return
        with self._turn:
            now = time.monotonic()
            pause = max(0.0, self._next - now)
            self._next = max(now, self._next) + 60.0 / self.per_minute
        if pause:
            self.sleep(pause)


def _asked_wait(error: HTTPError) -> float:
    try:
        return min(float(error.headers.get("Retry-After", 0)), 300.0)
    except (TypeError, ValueError):
        return 0.0


def _told(error: HTTPError) -> str:
    """The service's own sentence about what is wrong."""
    try:
        found = json.loads(error.read(10_000))
        return " ".join(str(found["error"]["message"]).split())[:300]
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)


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
            raise InputError(f"price={price}: US dollars an image, from 0 up, are expected")
        self.name = f"api:{service.url}#{service.model}"
        self.size = size
        self.price = price
        """US dollars an image, as the caller knows it."""
        self.key = hashlib.sha256(json.dumps([self.name, list(size), quality]).encode()).hexdigest()
        self._service = service
        self._quality = quality

    @property
    def per_minute(self) -> float | None:
        """At most so many images a minute."""
        return self._service.per_minute

    def generate(
        self, prompts: Sequence[str], *, seed: int, guidance: float | None = None, steps: int | None = None
    ) -> list[Image.Image]:
        """One image a prompt; the service takes no seed, guidance or steps."""
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
        found = self._service.post("images/generations", content)
        try:
            made = found["data"][0]
            data = made.get("b64_json")
            return decode(base64.b64decode(data) if data else self._service.fetched(made["url"]))
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{self.name} answered without an image: {str(found)[:120]}") from None


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
