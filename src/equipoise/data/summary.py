"""A table at a glance: counts by axis and group, size, layers, errors; and its first rows as text.

Words of others in Markdown: shown as they are, never taken for markup.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.data.table import Table
from equipoise.errors import InputError
from equipoise.formatting import shown


def as_text(text: str) -> str:
    """``text`` for a line or a cell of a table: what would be markup is shown as it is.

    >>> print(as_text("<b>a|b</b> ![x](http://y) skin_tone"))
    &lt;b&gt;a\\|b&lt;/b&gt; !\\[x\\](http://y) skin_tone
    """
    plain = re.sub(r"[\r\n]+", " ", text)
    plain = re.sub(r"[\\`*~|\[\]]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", plain)
    return shown(plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))


def as_code(text: str) -> str:
    """``text`` between backticks, more of them than it has itself.

    >>> print(as_code("sd-v1-5"), as_code("a`b"))
    `sd-v1-5` `` a`b ``
    """
    line = shown(re.sub(r"[\r\n]+", " ", text))
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    return f"`{line}`" if not longest else f"{'`' * (longest + 1)} {line} {'`' * (longest + 1)}"


_WIDTH = 40


@dataclass(frozen=True)
class TableSummary:
    """What ``equipoise table info`` says."""

    path: str
    kind: str
    fingerprint: str
    n_rows: int
    n_shards: int
    n_bytes: int
    n_errors: int
    reasons: Mapping[str, int]
    """Why rows failed, and how many for each reason; the commonest few."""
    layers: Sequence[str]
    columns: Mapping[str, str]
    groups: Mapping[str, Mapping[str | None, int]]
    """Images of each group by axis; ``None`` is undefined."""
    n_kept: int | None = None
    """Images that every joined filter keeps, where there is one."""


def summarise(table: Table) -> TableSummary:
    """Count a table; no image is read.

    >>> import tempfile
    >>> rows = [{"image_id": "a", "gender": "female"}, {"image_id": "b"}]
    >>> summarise(Table.create(tempfile.mkdtemp() + "/t", rows, axes=["gender"])).groups
    {'gender': {'female': 1, None: 1}}
    """
    n_kept = sum(len(b) for b in table.batches(["keep"], only_kept=True)) if "keep" in table.columns else None
    reasons = Counter(str(reason) for reason in table.errors()["reason"])
    return TableSummary(
        path=str(table.path),
        kind=table.kind,
        fingerprint=table.fingerprint,
        n_rows=len(table),
        n_shards=len(table.shards),
        n_bytes=sum(shard.bytes for shard in table.shards),
        n_errors=table.n_errors,
        reasons=dict(reasons.most_common(5)),
        layers=table.layer_names(),
        columns=dict(table.types),
        groups={axis: table.group_counts(axis) for axis in table.axes},
        n_kept=n_kept,
    )


def first_rows(table: Table, n: int = 5, columns: Sequence[str] | None = None) -> list[dict[str, str]]:
    """The first ``n`` rows as short text, without columns that are empty in all of them.

    An image is shown by its size in bytes or its path, never by its content.

    >>> import tempfile
    >>> table = Table.create(tempfile.mkdtemp() + "/t", [{"image_id": "a", "image": b"12345", "seed": 7}])
    >>> first_rows(table)
    [{'image': '5 bytes', 'image_id': 'a', 'seed': '7'}]
    """
    if n < 1:
        raise InputError(f"the number of rows must be at least 1, not {n}")
    rows: list[dict[str, Any]] = []
    for batch in table.batches(columns, batch_size=min(n, 256)):
        rows += batch.slice(0, n - len(rows)).to_pylist()
        if len(rows) >= n:
            break
    filled = [name for name in (rows[0] if rows else ()) if any(row[name] is not None for row in rows)]
    return [{name: _shown(row[name], table.types[name]) for name in filled} for row in rows]


def _shown(value: Any, kind: str) -> str:
    if value is None:
        return "-"
    if kind == "image":
        data = value["bytes"]
        return shown(str(value["path"] or "-")) if data is None else f"{len(data)} bytes"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list) and kind.startswith("vector<"):
        value = [round(x, 3) for x in value[:4]] + (["..."] if len(value) > 4 else [])
    text = shown(" ".join(("; ".join(map(str, value)) if isinstance(value, list) else str(value)).split()))
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
