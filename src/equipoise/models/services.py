"""Services with OpenAI's interface: asked in turn, asked again when they are busy or break off, and never for ever.

Only the standard library is needed. The key is taken from the environment variable ``OPENAI_API_KEY``, is sent nowhere
but to the service, and is never printed, whatever the service answers; services on this machine need none.

Requests over HTTP that end by a given moment, however slowly the other side sends.

A socket's timeout bounds each read and starts anew with every byte: a server that sends one byte per minute keeps its
caller for ever. Here a timer ends the connection itself, while it greets, sends its head or its body.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import TracebackType
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, Request, build_opener

from equipoise.errors import InputError, UnknownNameError


class Watched:
    """A stretch of ``seconds`` in which requests may be made; at its end their connections are cut.

    >>> with Watched(5.0) as watch:
    ...     watch.ran_out
    False
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._timer = threading.Timer(max(0.0, seconds), self._cut)
        self._timer.daemon = True
        self._copies: list[socket.socket] = []
        self._lock = threading.Lock()
        self.ran_out = False
        """Whether the time was up before the requests were done."""

    def __enter__(self) -> Watched:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for copy in self._copies:
                copy.close()
            self._copies.clear()

    def open(self, request: Request, timeout: float) -> Any:
        """As ``urllib.request.urlopen``, with redirects and proxies; ``timeout`` is that of each read."""
        opener = build_opener(_Connecting(self))
        return opener.open(request, timeout=max(0.001, min(timeout, self._end - time.monotonic())))

    def connected(self, *address: Any, **options: Any) -> socket.socket:
        """A new connection that is cut when the time is up."""
        connection = socket.create_connection(*address, **options)
        with self._lock:
            # A second handle of the same connection: it reaches the socket inside an encrypted one, too.
            self._copies.append(connection.dup())
        if self.ran_out:
            self._cut()
        return connection

    def _cut(self) -> None:
        with self._lock:
            self.ran_out = True
            for copy in self._copies:
                with suppress(OSError):
                    copy.shutdown(socket.SHUT_RDWR)


class _Connecting(HTTPHandler, HTTPSHandler):
    """Opens plain and encrypted connections, in the place of both stock handlers."""

    def __init__(self, watch: Watched) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, req: Request) -> Any:
        return self.do_open(_connections(HTTPConnection, self._watch), req)

    def https_open(self, req: Request) -> Any:
        return self.do_open(_connections(HTTPSConnection, self._watch), req)


def _connections(kind: Any, watch: Watched) -> Any:
    def connection_of(*arguments: Any, **options: Any) -> Any:
        connection = kind(*arguments, **options)
        connection._create_connection = watch.connected
        return connection

    return connection_of


KEY = "OPENAI_API_KEY"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_AGAIN = (408, 409, 425, 429, 500, 502, 503, 504)
_MOST_BYTES = 64 << 20
_PIECE = 1 << 16
_TRIES_IN_A_DEADLINE = 3


@dataclass
class Service:
    """One model of one service: requests that wait their turn and are tried again."""

    url: str
    model: str
    tries: int = 6
    first_wait: float = 1.0
    """Seconds before the second try; doubled each time, unless the service says how long."""
    per_minute: float | None = None
    """At most so many requests per minute."""
    timeout: float = 180.0
    """Seconds without a byte after which a try is given up."""
    deadline: float = 900.0
    """Seconds for one question, with all its tries and the waits between them; a single try may take a third of it."""
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    _next: float = field(default=0.0, repr=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def named(cls, rest: str, **options: Any) -> Service:
        """The service of ``<url>#<model>``."""
        url, _, model = rest.partition("#")
        try:
            parts = urlsplit(url)
            secret = parts.username is not None or parts.password is not None
            usable = parts.scheme in ("http", "https") and parts.hostname and model and (parts.port or True)
        except ValueError:  # a bracket or a port that is none
            secret, usable = False, False
        if secret:
            raise InputError(f"the address of a service holds a password; put the key into the variable {KEY} instead")
        if not usable:
            raise InputError(f"api:{rest} must be api:<url>#<model>, such as api:https://api.openai.com/v1#dall-e-3")
        if parts.scheme == "http" and parts.hostname not in _LOCAL:
            raise InputError(f"api:{rest} would send the key and prompts unencrypted; use https")
        known = {"tries", "first_wait", "per_minute", "timeout", "deadline", "sleep"}
        for name in options:
            if name not in known:
                raise UnknownNameError("option of a service", name, known)
        for name in ("per_minute", "timeout", "deadline"):
            if options.get(name) is not None and not options[name] > 0:
                raise InputError(f"{name}={options[name]}: a number above 0 is expected")
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
        data = self._asked(request, _is_json)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            said = self.without_key(data[:4096].decode(errors="replace"))
            raise InputError(f"{self.url}/{path} did not answer with JSON: {said[:80]!r}") from None
        if not isinstance(answer, dict):
            raise InputError(f"{self.url}/{path} did not answer with an object")
        return answer

    def fetched(self, address: str) -> bytes:
        """A file that the service put somewhere; the key is not sent along."""
        if urlsplit(address).scheme not in ("https", "http"):
            said = self.without_key(address)[:80]
            raise InputError(f"{self.url} answered with the address {said!r}, which is not on the web")
        return self._asked(Request(address))

    def chat(self, text: str, *, temperature: float, seed: int) -> str:
        """The model's answer to one message."""
        messages = [{"role": "user", "content": text}]
        answer = self.post("chat/completions", {"messages": messages, "temperature": temperature, "seed": seed})
        try:
            return str(answer["choices"][0]["message"]["content"])
        except (KeyError, IndexError, TypeError):
            said = self.without_key(str(answer))[:120]
            raise InputError(f"{self.url} answered without a message: {said}") from None

    def without_key(self, text: str) -> str:
        """``text`` with the key taken out, for what a service says may be printed, stored and passed on."""
        key = _key()
        for form in {key, quote(key), quote(key, safe="")} - {""}:
            text = text.replace(form, "[key]")
        return text

    def _authorization(self) -> dict[str, str]:
        key = _key()
        if not key and urlsplit(self.url).hostname not in _LOCAL:
            raise InputError(f"{self.url} needs a key; put it into the environment variable {KEY}")
        if not (key.isascii() and key.isprintable()):
            # http.client would refuse it, too, and print it.
            raise InputError(
                f"the key in the environment variable {KEY} holds characters that no key has; set it again"
            )
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _asked(self, request: Request, is_whole: Callable[[bytes], bool] | None = None) -> bytes:
        wait, left = self.first_wait, self.deadline
        for attempt in range(1, self.tries + 1):
            self._take_turn()
            start = time.monotonic()
            try:
                return self._answer(request, min(left, self.deadline / _TRIES_IN_A_DEADLINE), is_whole)
            except _AgainError as error:
                reason = self.without_key(str(error))[:300]
                wait = max(wait, error.wait)
            left -= time.monotonic() - start + wait
            if left <= 0:
                raise ConnectionError(
                    f"{self.url} did not answer within {self.deadline:g} seconds, in {attempt} "
                    f"{'try' if attempt == 1 else 'tries'}; the last said: {reason}"
                )
            if attempt < self.tries:
                self.sleep(wait)
                wait = min(2 * wait, 60.0)
        # Not an InputError: the service is at fault, not the prompt, and the next run may have better luck.
        raise ConnectionError(f"{self.url} did not answer in {self.tries} tries; the last said: {reason}")

    def _answer(self, request: Request, seconds: float, is_whole: Callable[[bytes], bool] | None) -> bytes:
        """What one try gives; :class:`_AgainError` where another may do better."""
        with Watched(seconds) as watch:
            try:
                with watch.open(request, self.timeout) as answer:
                    data = _read(answer)
            except HTTPError as error:
                with error:
                    reason = f"{error.code} {_told(error)}"
                if error.code not in _AGAIN:
                    raise InputError(f"{self.url} refused: {self.without_key(reason)[:300]}") from None
                raise _AgainError(reason, _asked_wait(error)) from None
            except (OSError, HTTPException, _CutOffError) as error:
                reason = str(getattr(error, "reason", error)) or type(error).__name__
                if watch.ran_out:
                    reason = f"no whole answer within {seconds:g} seconds"
                raise _AgainError(reason) from None
            if watch.ran_out:
                raise _AgainError(f"no whole answer within {seconds:g} seconds")
        if data is None:
            raise InputError(f"{self.url} answered with more than {_MOST_BYTES} bytes")
        if not _says_its_length(answer) and is_whole is not None and not is_whole(data):
            raise _AgainError(f"its answer breaks off after {len(data)} bytes")
        return data

    def _take_turn(self) -> None:
        if self.per_minute is None:
            return
        with self._turn:
            now = time.monotonic()
            pause = max(0.0, self._next - now)
            self._next = max(now, self._next) + 60.0 / self.per_minute
        if pause:
            self.sleep(pause)


class _AgainError(Exception):
    """A try that failed in a way that may pass; ``wait`` is how long the service wants to be left alone."""

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class _CutOffError(Exception):
    """An answer shorter than it promised to be."""


def _key() -> str:
    return os.environ.get(KEY, "").strip()


def _read(answer: Any) -> bytes | None:
    """The body; ``None`` if it is longer than any answer should be."""
    pieces, size = [], 0
    while piece := answer.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > _MOST_BYTES:
            return None
    if getattr(answer, "length", None):  # what http.client still waits for
        raise _CutOffError(f"its answer breaks off after {size} bytes")
    return b"".join(pieces)


def _says_its_length(answer: Any) -> bool:
    return answer.headers.get("Content-Length") is not None or bool(getattr(answer, "chunked", False))


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _asked_wait(error: HTTPError) -> float:
    try:
        return max(0.0, min(float(error.headers.get("Retry-After", 0)), 300.0))
    except (TypeError, ValueError):
        return 0.0


def _told(error: HTTPError) -> str:
    """The service's own sentence about what is wrong."""
    try:
        answer = json.loads(error.read(10_000))
        return " ".join(str(answer["error"]["message"]).split())
    except (ValueError, KeyError, TypeError, RecursionError, OSError, HTTPException):
        return str(error.reason)
