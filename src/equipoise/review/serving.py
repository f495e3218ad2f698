"""Listening: on this machine alone, and for nobody who only holds the line."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from equipoise.data.atomic import locked
from equipoise.errors import InputError, MissingExtraError
from equipoise.review.store import ReviewStore

if TYPE_CHECKING:
    import uvicorn

_ADDRESS = "127.0.0.1"
_WAIT = 10.0
"""Seconds that a client has for the first line and the headers of a request."""


def link(port: int, token: str, *, page: str = "", behind: str = "") -> str:
    """A personal link; what stands behind the ``#`` is never sent by a browser.

    >>> link(8321, "secret")
    'http://127.0.0.1:8321/#secret'
    """
    home = behind if "//" in behind else f"https://{behind}" if behind else f"http://{_ADDRESS}:{port}"
    return f"{home.rstrip('/')}/{page}#{token}"


def serve(
    store: ReviewStore,
    *,
    port: int = 8321,
    behind: Sequence[str] = (),
    started: Callable[[int, str], None] = lambda port, token: None,
) -> None:
    """Serve a review until it is interrupted.

    Args:
        store: the review; it is closed at the end.
        port: of this machine alone; 0 is any that is free.
        behind: further names under which a proxy on this machine hands requests on, such as ``review.example.org``.
        started: told the port and the organiser's token, just before requests are answered.
    """
    folder = store.path.parent
    with locked(folder / ".serving", what=f"the review in {folder}"), listening(port) as listener:
        organiser = secrets.token_urlsafe(24)
        server = server_of(store, listener, organiser, behind)
        started(listener.getsockname()[1], organiser)
        try:
            server.run(sockets=[listener])
        finally:
            store.close()


def server_of(
    store: ReviewStore, listener: socket.socket, organiser: str, behind: Sequence[str] = ()
) -> uvicorn.Server:
    """The server of a review on a socket of this machine, not yet running."""
    try:
        import uvicorn

        from equipoise.review.app import create_app
    except ImportError:
        raise MissingExtraError("the review app", "review") from None
    port = listener.getsockname()[1]
    names = {f"{name}:{port}" for name in (_ADDRESS, "localhost")}
    names |= {name.partition("//")[2] if "//" in name else name for name in behind}
    app = create_app(store, organiser, frozenset(name.lower().rstrip("/") for name in names))
    config = uvicorn.Config(
        app,
        http=_impatient(),
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=15,
        limit_concurrency=2000,
        h11_max_incomplete_event_size=16 * 1024,
    )
    return uvicorn.Server(config)


def listening(port: int) -> socket.socket:
    """A socket on this machine alone; port 0 is any that is free."""
    # Named as TCP, so that asyncio turns Nagle's algorithm off: answers would wait 40 ms for an acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_ADDRESS, port))
        listener.listen(256)  # whoever follows a link at once waits for the server instead of being refused
    except OSError as error:
        listener.close()
        raise InputError(f"port {port}: {(error.strerror or 'error').lower()}; choose another with --port") from None
    return listener


def _impatient() -> type[asyncio.Protocol]:
    """uvicorn's protocol, which hangs up on a client that does not say what it wants."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            asyncio.get_running_loop().call_later(_WAIT, self._hang_up, transport)

        def _hang_up(self, transport: Any) -> None:
            if self.cycle is None and not transport.is_closing():
                transport.close()

    return Impatient
