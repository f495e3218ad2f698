"""Requests over HTTP that end by a given moment, however slowly the other side sends.

A socket's timeout bounds each read and starts anew with every byte: a server that sends one byte a minute keeps its
caller for ever. Here a timer ends the connection itself, while it greets, sends its head or its body.
"""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPSConnection
from types import TracebackType
from typing import Any
from urllib.request import HTTPHandler, HTTPSHandler, Request, build_opener

__all__ = ["Watched"]


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
        opener = build_opener(_Plain(self), _Encrypted(self))
        return opener.open(request, timeout=max(0.001, min(timeout, self._end - time.monotonic())))

    def connected(self, *address: Any, **options: Any) -> socket.socket:
        """A new connection that is cut when the time is up."""
        made = socket.create_connection(*address, **options)
        with self._lock:
            # A second handle of the same connection: it reaches the socket inside an encrypted one, too.
            self._copies.append(made.dup())
        if self.ran_out:
            self._cut()
        return made

    def _cut(self) -> None:
        with self._lock:
            self.ran_out = True
            for copy in self._copies:
                with suppress(OSError):
                    copy.shutdown(socket.SHUT_RDWR)


class _Plain(HTTPHandler):
    def __init__(self, watch: Watched) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, req: Request) -> Any:
        return self.do_open(_connections(HTTPConnection, self._watch), req)


class _Encrypted(HTTPSHandler):
    def __init__(self, watch: Watched) -> None:
        super().__init__()
        self._watch = watch

    def https_open(self, req: Request) -> Any:
        return self.do_open(_connections(HTTPSConnection, self._watch), req)


def _connections(kind: Any, watch: Watched) -> Any:
    def made(*arguments: Any, **options: Any) -> Any:
        connection = kind(*arguments, **options)
        connection._create_connection = watch.connected
        return connection

    return made
