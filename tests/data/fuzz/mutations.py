"""What is done to valid files: bytes, JSON, CSV, PNG and Parquet."""

from __future__ import annotations

import io
import json
import random
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    -(10**400),
    float("nan"),
    float("inf"),
    1e308,
    "",
    " \t",
    "\ud800",
    "a\x00b",
    "../../etc/passwd",
    "x" * 200_000,
    [],
    {},
    [[[[[[[[[[1]]]]]]]]]],
    {"size": [10**9, 10**9], "counts": [1]},
    {"size": [4, 6], "counts": "~~~~"},
    [1, 2, 3],
    ["a", None],
)


def truncated(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def flipped(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def cut_out(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[start + rng.randrange(1, 40) :]


def doubled(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data))
    part = data[start : start + rng.randrange(1, 60)]
    return data[:start] + part * rng.choice((2, 3, 50)) + data[start + len(part) :]


def inserted(data: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(data) + 1)
    junk = rng.choice((b"\x00", b"\xff\xfe", b'"', b"\r", b"\n\n", b",", b"\t", b"\xe9", b"{" * 2000, rng.randbytes(9)))
    return data[:start] + junk + data[start:]


def overwritten(data: bytes, rng: random.Random) -> bytes:
    start, length = rng.randrange(len(data)), rng.randrange(1, 30)
    return data[:start] + rng.choice((b"\x00", b"\xff", b" ", b"9")) * length + data[start + length :]


def re_encoded(data: bytes, rng: random.Random) -> bytes:
    how = rng.choice(("utf-16", "utf-32", "utf-8-sig", "latin-1-é", "crlf", "cr", "nul"))
    text = data.decode("utf-8", "replace")
    if how == "latin-1-é":
        return text.replace("a", "é").encode("latin-1", "replace")
    if how in ("crlf", "cr"):
        return data.replace(b"\n", b"\r\n" if how == "crlf" else b"\r")
    return b"\x00".join(bytes([b]) for b in data) if how == "nul" else text.encode(how)


BYTES = (truncated, flipped, cut_out, doubled, inserted, overwritten)


def junk_in_json(document: Any, rng: random.Random) -> Any:
    """The document with one node replaced, removed, doubled or renamed."""
    places = list(_places(document))
    holder, key = rng.choice(places)
    how = rng.randrange(10)
    if how < 7:
        holder[key] = rng.choice(JUNK)
    elif how == 7:
        del holder[key]
    elif how == 8 and isinstance(holder, list):
        holder.append(holder[key])
    elif isinstance(holder, dict):
        holder[f"{key}_"] = holder.pop(key)
    if how < 7 and rng.random() < 0.03:
        nested: Any = []
        for _ in range(3000):
            nested = [nested]
        holder[key] = nested
    return document


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    items = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in items:
        yield node, key
        yield from _places(value)


def dumped(document: Any) -> bytes:
    limit = sys.getrecursionlimit()
    digits = sys.get_int_max_str_digits()
    sys.setrecursionlimit(20_000)
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(document).encode()
    finally:
        sys.setrecursionlimit(limit)
        sys.set_int_max_str_digits(digits)


def junk_in_csv(data: bytes, rng: random.Random, separator: str) -> tuple[bytes, int]:
    """One line with a wrong field, and which line it is."""
    lines = data.decode().split("\n")
    number = rng.randrange(1, len(lines) - 1)
    fields = lines[number].split(separator)
    how = rng.randrange(8)
    position = rng.randrange(len(fields))
    junk = str(rng.choice([j for j in JUNK if not isinstance(j, int) or abs(j) < 10**31]))
    if how < 4:
        fields[position] = junk
    elif how == 4:
        del fields[position]
    elif how == 5:
        fields.insert(position, "extra")
    elif how == 6:
        fields[position] = rng.choice(('"', '"open', 'a"b', '"a"b', "'", "\r", "1e999", "-inf", "0x10", "1_000"))
    else:
        fields[position] = "y" * 2_000_000
    lines[number] = separator.join(fields)
    return "\n".join(lines).encode("utf-8", "surrogatepass"), number


def junk_in_png(data: bytes, rng: random.Random) -> bytes:
    """A chunk with a wrong length, type or content, its checksum put right."""
    made, position = bytearray(data[:8]), 8
    chunks = []
    while position < len(data):
        (length,) = struct.unpack(">I", data[position : position + 4])
        chunks.append((data[position + 4 : position + 8], data[position + 8 : position + 8 + length]))
        position += 12 + length
    index = rng.randrange(len(chunks))
    kind, content = chunks[index]
    how = rng.randrange(5)
    if how == 0:
        kind, content = b"IHDR", struct.pack(">IIBBBBB", rng.choice((0, 1, 2**31 - 1, 60_000)), 60_000, 8, 2, 0, 0, 0)
    elif how == 1:
        content = flipped(content, rng) if content else b"x"
    elif how == 2:
        kind = rng.choice((b"IDAT", b"PLTE", b"tRNS", b"iCCP", b"eXIf", b"acTL", b"zTXt"))
    elif how == 3:
        content = zlib.compress(b"\0" * rng.choice((10, 10**7)))
    else:
        chunks.insert(index, (kind, content))
    chunks[index] = (kind, content)
    for name, body in chunks:
        made += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return bytes(made)


def junk_in_parquet(data: bytes, rng: random.Random) -> bytes:
    """A column of another type, missing, null, or with values that are not text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(data))
    position = rng.randrange(table.num_columns)
    name, n = table.column_names[position], len(table)
    columns: list[Callable[[], Any]] = [
        lambda: pa.array([None] * n, pa.string()),
        lambda: pa.array([float("nan")] * n),
        lambda: pa.array([b"caf\xe9"] * n),
        lambda: pa.array([b"caf\xe9"] * n).view(pa.string()),
        lambda: pa.array([2**64 - 1] * n, pa.uint64()),
        lambda: pa.array([["x"]] * n),
        lambda: pa.array([{"bytes": b"", "path": "../../etc/passwd"}] * n),
        lambda: pa.array([2**60] * n, pa.timestamp("us")),
        lambda: pa.array([rng.choice(("", " ", "a\x00", "x" * 200_000))] * n),
        lambda: pa.array(["same"] * n),
    ]
    if rng.random() < 0.15:
        table = table.drop_columns([name])
    elif rng.random() < 0.15:
        table = table.rename_columns([f"{c}_" if c == name else c for c in table.column_names])
    else:
        table = table.set_column(position, name, rng.choice(columns)())
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()
