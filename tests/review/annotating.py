"""A bounded generator of load: annotators who fetch a picture, think, and answer, each over one kept connection."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from typing import Any

LEAST = 3
"""Everybody answers so many times, however slow the machine is."""


@dataclass
class Log:
    """What was confirmed, and how long each request took."""

    confirmed: dict[tuple[str, int], str] = field(default_factory=dict)
    doubtful: dict[tuple[str, int], str] = field(default_factory=dict)
    """Sent, but the server died before it answered: may be kept or not."""
    seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)

    def slowest(self, share: float) -> float:
        return sorted(self.seconds)[int(share * (len(self.seconds) - 1))]


class Line:
    """One connection that is kept."""

    def __init__(self, port: int, token: str, log: Log) -> None:
        self.port, self.token, self.log = port, token, log
        self.reader: Any = None
        self.writer: Any = None

    async def ask(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        head += f"Authorization: Bearer {self.token}\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        begun = time.perf_counter()
        self.writer.write(head.encode() + b"\r\n" + content)
        await self.writer.drain()
        told = await self.reader.readuntil(b"\r\n\r\n")
        length = int(told.lower().split(b"content-length:")[1].split()[0])
        answer = await self.reader.readexactly(length)
        self.log.seconds.append(time.perf_counter() - begun)
        self.log.statuses.append(int(told.split()[1]))
        return answer


async def look(name: str, token: str, port: int, log: Log, until: float, think: float) -> None:
    """Answer until the time is over, all is done, or the server is gone."""
    rng = random.Random(name)
    line = Line(port, token, log)
    sent: tuple[tuple[str, int], str] | None = None
    try:
        now = json.loads(await line.ask("/api/next"))
        answered = 0
        while now["next"] and (time.monotonic() < until or answered < LEAST):
            answered += 1
            item = now["next"]
            await line.ask(f"/api/pictures/{item['pictures'][0]['id']}")
            if think:
                await asyncio.sleep(think * (0.5 + rng.random()))
            answer = rng.choice(["female", "male", "unsure"])
            sent = ((name, item["item"]), answer)
            now = json.loads(await line.ask("/api/answer", {"item": item["item"], "answers": {"gender": answer}}))
            assert now["saved"] == item["item"], now
            log.confirmed[sent[0]] = answer
            sent = None
    except (OSError, asyncio.IncompleteReadError):
        if sent is not None:
            log.doubtful[sent[0]] = sent[1]
    finally:
        if line.writer is not None:
            line.writer.close()


def annotate(tokens: dict[str, str], port: int, seconds: float, think: float, log: Log | None = None) -> Log:
    """Everybody at once for so many seconds; ``log`` is filled meanwhile."""
    log = Log() if log is None else log

    async def all_of_them() -> None:
        until = time.monotonic() + seconds
        await asyncio.gather(*(look(name, token, port, log, until, think) for name, token in tokens.items()))

    asyncio.run(all_of_them())
    return log
