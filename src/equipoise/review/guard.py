"""What stands before the app: whose page may write, how much and how slowly, and what a browser may do with a page.

Requests must name this server as their host (a page elsewhere cannot rebind a name to it), writes must come from its
own pages as JSON of at most 64 kB within ten seconds, and no answer may be framed, cached, sniffed or run as script.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MOST_BYTES = 64 * 1024
MOST_SECONDS = 10.0

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""Sent with every answer."""
_RAW = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """The app behind it sees only requests that may be answered; every answer gets :data:`HEADERS`."""

    def __init__(self, app: Any, hosts: frozenset[str]) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_RAW]
            await send(message)

        given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["method"], given)
        body: bytes | int = b""
        if refusal is None and scope["method"] not in ("GET", "HEAD"):
            body = await self._body(receive)
            refusal = _TOO[body] if isinstance(body, int) else None
        if refusal is not None:
            await _refuse(guarded, *refusal)
            return
        await self.app(scope, _replayed(body if isinstance(body, bytes) else b"", receive), guarded)

    def _refusal(self, method: str, given: dict[str, str]) -> tuple[int, str] | None:
        host = given.get("host", "").lower()
        if host not in self.hosts:
            return 421, "this server answers under its own address only"
        if method in ("GET", "HEAD"):
            return None
        origin = given.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            return 403, "pages of other sites may not write here"
        if given.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "pages of other sites may not write here"
        if given.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return 415, "send JSON"
        length = given.get("content-length", "0")
        if not length.isdecimal() or int(length[:12]) > MOST_BYTES:
            return _TOO[413]
        return None

    async def _body(self, receive: Receive) -> bytes | int:
        """The whole body, or the number of the error where it is too long or too slow."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(MOST_SECONDS):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return 408
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > MOST_BYTES:
                        return 413
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return 408


_TOO = {413: (413, f"an answer has at most {MOST_BYTES // 1024} kB"), 408: (408, "the request took too long")}


def _replayed(body: bytes, receive: Receive) -> Receive:
    """``receive`` with a body that was read already."""
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, status: int, why: str) -> None:
    content = json.dumps({"detail": why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    headers.append((b"connection", b"close"))  # what is left of a long body is not read
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


class Buckets:
    """How many requests somebody may make: ``burst`` at once, and ``rate`` more each second.

    >>> clock = iter([0.0, 0.0, 0.0, 1.0]).__next__
    >>> few = Buckets(rate=1, burst=2, clock=clock)
    >>> few.take("ana"), few.take("ana"), few.take("ana"), few.take("ana")
    (True, True, False, True)
    """

    def __init__(
        self, rate: float, burst: float, *, most: int = 4096, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.rate, self.burst, self.most, self._clock = rate, burst, most, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> bool:
        """Whether ``who`` may make one more request now."""
        now = self._clock()
        left, at = self._left.pop(who, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.rate)
        allowed = left >= 1
        self._left[who] = (left - 1 if allowed else left, now)
        if len(self._left) > self.most:
            self._left.popitem(last=False)
        return allowed
