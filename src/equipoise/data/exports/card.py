"""The dataset card: ``README.md`` with the YAML head that the Hugging Face hub reads, counts, origin and limits."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.atomic import atomic_file
from equipoise.data.exports.source import Exportable, free, kept_batches, unassigned
from equipoise.data.summary import as_code, as_text
from equipoise.errors import InputError
from equipoise.text.labels import read_labels

_SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"), (10**7, "1M<n<10M"))
_MANY = 60
"""Rows of a table of counts; the rest are summed."""

_LONG, _TEXT, _ENTRIES = 2000, 300, 20
"""Settings of a card: characters of all, characters of a text, entries of a list; a world's truth has thousands."""

_ELSEWHERE = "see _table.json"

_TOLD = {"citation": "Origin", "licence": "Licence of the origin", "harms": "Known harms", "revision": "Revision"}

LIMITS = (
    "Groups are *perceived* or were asked for in a prompt; nobody shown was asked who they are.",
    "A group that is missing here was not looked for or did not pass the filters; it is not absent from the world.",
    "An image without a label on an axis is *undefined* there, which is not a group.",
    "A low bias score measured with these images does not prove that a model is fair.",
)
ETHICS = (
    "Use it to measure and reduce bias, not to recognise people or to guess anything about a person.",
    "Words for groups are those of the data it came from and may be crude or hurtful.",
    "Remove an image when the person shown asks for it, and rebuild what was made from it.",
)


def export(table: Exportable, out: str | os.PathLike[str], *, rows: str = "kept", **about: Any) -> Path:
    """Write the card alone, to ``out`` or, if that is a folder, to its ``README.md``; return the file."""
    path = Path(out)
    path = free(path / "README.md" if path.is_dir() else path)
    write_card(table, path, rows=rows, **about)
    return path


def write_card(table: Exportable, path: Path, **about: Any) -> None:
    """Write :func:`card` to ``path``, whole or not at all."""
    with atomic_file(path) as file:
        file.write(card(table, **about).encode())


def card(
    table: Exportable,
    *,
    rows: str = "kept",
    title: str | None = None,
    licence: str = "other",
    language: str = "en",
    tasks: Sequence[str] = ("text-to-image", "image-to-text", "zero-shot-image-classification"),
    tags: Sequence[str] = ("fairness", "bias", "counterfactual"),
    data_files: Mapping[str, str | Sequence[str]] | None = None,
    description: str = "",
) -> str:
    """The text of the card: what is in the table, how many of each group, how it was made, and its limits.

    ``licence``: an identifier of the hub (``cc-by-4.0``, ``mit``, ...). ``data_files``: files by split.
    """
    for name, value in (("title", title), ("licence", licence), ("description", description)):
        if value is not None and not isinstance(value, str):
            raise InputError(f"{name} of the card must be text, not {value!r}")
    counts = _Counts(table, rows)
    name = title or table.path.name
    head = _head(name, licence, language, tasks, tags, data_files, counts.n)
    parts = [
        head,
        f"# {as_text(name)}\n",
        *([description.strip() + "\n"] if description.strip() else []),
        f"{counts.n} images{', one row each' if counts.n else ''}. Made with Equipoise.\n",
        "## Columns\n\n" + ", ".join(map(as_code, table.columns)) + "\n",
        _groups(table, counts),
        _origin(table, counts),
        "## Limits\n\n" + "".join(f"- {line}\n" for line in LIMITS),
        "## Ethics\n\n" + "".join(f"- {line}\n" for line in ETHICS),
    ]
    return "\n".join(parts)


class _Counts:
    """One pass over the labels of a table."""

    def __init__(self, table: Exportable, rows: str) -> None:
        have = set(table.columns)
        self.columns = [c for c in (*table.axes, "split", "label_source", "subject", "generator") if c in have]
        self.n = 0
        self.of: dict[str, Counter[Any]] = {c: Counter() for c in self.columns}
        self.joint: Counter[Any] = Counter()
        self.dropped: Counter[Any] = Counter()
        for batch in kept_batches(table, self.columns or ["image_id"], rows):
            self.n += batch.num_rows
            values = {c: batch.column(c).to_pylist() for c in self.columns}
            for column, cells in values.items():
                self.of[column].update(cells)
            if len(table.axes) > 1:
                self.joint.update(zip(*(values[axis] for axis in table.axes), strict=True))
        self._join_spellings(table.axes)
        if {"keep", "dropped_by"} <= have:
            for batch in kept_batches(table, ["keep", "dropped_by"], "all"):
                kept, by = batch.column("keep").to_pylist(), batch.column("dropped_by").to_pylist()
                self.dropped.update(who or "not judged" for k, who in zip(kept, by, strict=True) if not k)

    def _join_spellings(self, axes: Sequence[str]) -> None:
        """Count spellings of a group together, and words for "unknown" as undefined, as tables and audits do."""
        group_of: dict[str, dict[Any, Any]] = {axis: {} for axis in axes}
        for axis in axes if self.n else ():
            spelt = self.of[axis]
            cells, times = list(spelt), list(spelt.values())
            groups = read_labels(np.repeat(np.array(cells, dtype=object), times)).values()
            group_of[axis] = dict(zip(cells, groups[np.cumsum(times) - 1], strict=True))
            self.of[axis] = Counter()
            for cell, n in zip(cells, times, strict=True):
                self.of[axis][group_of[axis][cell]] += n
        spelt, self.joint = self.joint, Counter()
        for key, n in spelt.items():
            self.joint[tuple(group_of[axis][cell] for axis, cell in zip(axes, key, strict=True))] += n


def _head(
    title: str,
    licence: str,
    language: str,
    tasks: Sequence[str],
    tags: Sequence[str],
    data_files: Mapping[str, str | Sequence[str]] | None,
    n: int,
) -> str:
    size = next((name for limit, name in _SIZES if n < limit), "n>10M")
    lines = [
        "---",
        f"pretty_name: {_quoted(title)}",
        f"license: {_quoted(licence)}",
        f"language:\n- {_quoted(language)}",
    ]
    lines += ["task_categories:", *(f"- {_quoted(task)}" for task in tasks)]
    lines += ["size_categories:", f"- {_quoted(size)}", "tags:", *(f"- {_quoted(tag)}" for tag in tags)]
    if data_files:
        lines += ["configs:", "- config_name: default", "  data_files:"]
        for split, pattern in data_files.items():
            lines += [f"  - split: {_quoted(split)}", f"    path: {json.dumps(pattern, ensure_ascii=False)}"]
    return "\n".join([*lines, "---\n"])


def _groups(table: Exportable, counts: _Counts) -> str:
    text = "## Groups\n"
    for axis in table.axes:
        text += f"\n### {as_text(axis)}\n\n" + _table((axis, "images", "share"), _shares(counts.of[axis], counts.n))
    if len(table.axes) > 1:
        names = " and ".join(table.axes)
        joint: Counter[str] = Counter()
        for key, count in counts.joint.items():
            joint[" / ".join("*undefined*" if v is None else str(v) for v in key)] += count
        text += f"\n### {names}\n\n" + _table((names, "images", "share"), _shares(joint, counts.n))
    if not table.axes:
        text += "\nNo axis is labelled.\n"
    for column, title in (("split", "Splits"), ("label_source", "Who labelled")):
        if set(counts.of.get(column, {})) - {None}:
            none = unassigned(counts.of[column])
            shown = Counter({none if key is None else key: count for key, count in counts.of[column].items()})
            text += f"\n### {title}\n\n" + _table((column, "images", "share"), _shares(shown, counts.n))
    subjects = len(set(counts.of.get("subject", {})) - {None})
    return text + (f"\n{subjects} subjects.\n" if subjects else "")


def _origin(table: Exportable, counts: _Counts) -> str:
    text = f"## How it was made\n\nFrom the table with fingerprint {as_code(table.fingerprint)}"
    parents = tuple(getattr(table, "parents", ()))
    text += f", made from {', '.join(map(as_code, parents))}.\n" if parents else ".\n"
    generators = sorted(str(g) for g in set(counts.of.get("generator", {})) - {None})
    if generators:
        text += f"\nImages were generated by: {', '.join(as_code(_public(name)) for name in generators)}.\n"
    config = dict(getattr(table, "config", {}))
    origin = {name: config.pop(key) for key, name in _TOLD.items() if config.get(key)}
    text += ("\n" + "".join(f"- {name}: {as_text(str(value))}\n" for name, value in origin.items())) if origin else ""
    if config:
        text += f"\nSettings:\n\n```json\n{_settings(_public(config))}\n```\n"
    if counts.dropped:
        left_out = _shares(counts.dropped, sum(counts.dropped.values()))
        text += "\nRows left out by the filters:\n\n" + _table(("filter", "images", "share"), left_out)
    return text


def _settings(config: Mapping[str, Any]) -> str:
    """Settings as JSON of at most about 2,000 characters; what is longer is elided, the largest entries first."""

    def dumped(value: Any) -> str:
        return json.dumps(value, indent=2, sort_keys=True, default=str, ensure_ascii=False)

    shown = {key: _elided(value) for key, value in config.items()}
    for shorter in (_flat, lambda _: _ELSEWHERE):
        for key in sorted(shown, key=lambda k: -len(dumped(shown[k]))):
            if len(dumped(shown)) > _LONG:
                shown[key] = shorter(shown[key])
    return _cut(dumped(shown), _LONG)


def _elided(value: Any) -> Any:
    """A value without its long lists and texts.

    >>> _elided({"rows": list(range(100)), "seed": 3})
    {'rows': '100 entries, see _table.json', 'seed': 3}
    """
    if isinstance(value, Mapping) and len(value) <= _MANY:
        return {key: _elided(item) for key, item in value.items()}
    if isinstance(value, Mapping):
        return f"{len(value)} entries, {_ELSEWHERE}"
    if isinstance(value, list):
        return f"{len(value)} entries, {_ELSEWHERE}" if len(value) > _ENTRIES else [_elided(item) for item in value]
    return _cut(value, _TEXT) if isinstance(value, str) else value


def _flat(value: Any) -> Any:
    """A mapping with its plain values alone."""
    if not isinstance(value, Mapping):
        return value
    return {k: _ELSEWHERE if isinstance(v, (Mapping, list)) else v for k, v in value.items()}


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({_ELSEWHERE})"


def _public(value: Any) -> Any:
    """Settings without the folders of the machine they were made on.

    >>> _public({"source": "/home/ada/photos", "options": {"split": "val2017"}})
    {'source': 'photos', 'options': {'split': 'val2017'}}
    >>> _public("diffusers:/home/ada/sd-turbo"), _public("hf:openai/clip-vit-base-patch32")
    ('diffusers:sd-turbo', 'hf:openai/clip-vit-base-patch32')
    """
    if isinstance(value, Mapping):
        return {key: _public(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_public(item) for item in value]
    if isinstance(value, str):
        scheme = match[0] if (match := re.match(r"[a-z_]+:(?=~|/(?!/))", value)) else ""
        place = value.removeprefix(scheme)
        return scheme + Path(place).name if os.path.isabs(place) or place.startswith("~") else value
    return value


def _shares(counts: Counter[Any], total: int) -> list[tuple[str, str, str]]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0] is None, str(item[0])))
    lines = [(_group(key), str(n), f"{n / total:.1%}") for key, n in ordered[:_MANY]]
    if rest := sum(n for _, n in ordered[_MANY:]):
        lines.append((f"{len(ordered) - _MANY} more", str(rest), f"{rest / total:.1%}"))
    return lines


def _group(value: Any) -> str:
    return "*undefined*" if value is None else as_text(str(value))


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [header, ["---", *("---:" for _ in header[1:])], *lines]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _quoted(text: str) -> str:
    """Text as YAML: JSON strings are YAML, whatever is in them."""
    return json.dumps(text, ensure_ascii=False)
