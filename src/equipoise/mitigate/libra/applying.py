"""Revise the captions of any captioner: every caption of a file, whoever wrote it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.runs import claimed
from equipoise.engine.answers import Asked, revisions
from equipoise.engine.asking import Asking, image_batches
from equipoise.engine.unreadable import Unreadable
from equipoise.errors import InputError
from equipoise.formatting import for_spreadsheet

REVISED = "captions"
"""The name of the file of revised captions, without its ending."""
EMPTY, MISSING, UNREADABLE = "empty caption", "image missing", "image cannot be read"
Pictures = Table | Mapping[str, Path]
"""A table of images, or the files by image id."""


@dataclass(frozen=True)
class CaptionRow:
    """One caption of a file, and what else its row says."""

    image_id: str
    caption: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Revised:
    """The captions in the order of the file, and what could not be revised, which stays as it was."""

    rows: tuple[CaptionRow, ...]
    counts: dict[str, int]
    notes: tuple[str, ...] = ()


def revise_all(
    reviser: Any, rows: Sequence[CaptionRow], pictures: Pictures, how: Asking | None = None, *, seed: int = 0
) -> Revised:
    """Every caption revised after a look at its image.

    An empty caption, one whose image is not there and one whose image cannot be read stay as they are and are counted.
    No image at all, or more unreadable ones than ``how.max_broken``, is an InputError.

    Args:
        reviser: an open model of kind ``reviser``.
        rows: the captions, each with the id of its image.
        pictures: a table of images, or the files by image id.
        how: how the reviser is asked, on the local engine alone; what it has said before is not asked again.
        seed: which words the reviser does not see, where it hides some.

    Returns:
        The captions in the order of ``rows``, with counts of what was revised, changed and left as it was.
    """
    chosen = how or Asking()
    known = _there(pictures)
    wanted = [row for row in rows if row.caption.strip() and row.image_id in known]
    unrevised: Counter[str] = Counter()
    unrevised[EMPTY] = sum(not row.caption.strip() for row in rows)
    unrevised[MISSING] = sum(bool(row.caption.strip()) and row.image_id not in known for row in rows)
    if not wanted:
        example = next((row.image_id for row in rows if row.caption.strip()), "")
        if not example:
            raise InputError(f"all {len(rows):,} captions are empty; there is nothing to revise")
        raise InputError(
            f"none of the {len(rows):,} captions has its image; a caption's image id looks like {example!r}, an "
            f"image's like {next(iter(known), '')!r}; give the images that the captions are of with --images"
        )
    revised: dict[tuple[str, str], str] = {}
    broken = Unreadable("the images", len({row.image_id for row in wanted}), chosen.max_broken)
    root = pictures.image_root if isinstance(pictures, Table) else Path()
    items = _items(pictures, wanted, chosen.batch_size)
    for item, answer in revisions(reviser, items, chosen, total=len(wanted), root=root, seed=seed):
        if isinstance(answer, InputError):
            broken.add(item.image_id, answer)
        else:
            revised[item.image_id, item.caption] = answer or item.caption
    unrevised[UNREADABLE] = sum(row.image_id in broken.reasons for row in wanted)
    new = tuple(
        CaptionRow(row.image_id, revised.get((row.image_id, row.caption), row.caption), row.fields) for row in rows
    )
    changed = sum(before.caption != after.caption for before, after in zip(rows, new, strict=True))
    counts = {"captions": len(rows), "revised": len(wanted) - unrevised[UNREADABLE], "changed": changed, **unrevised}
    return Revised(new, counts, tuple(broken.notes()))


def apply_into(
    out: str | Path,
    reviser: Any,
    rows: Sequence[CaptionRow],
    pictures: Pictures,
    *,
    kind: str = ".jsonl",
    source: str = "",
    seed: int = 0,
    asking: Asking | None = None,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Revised:
    """:func:`revise_all` into a folder: a file of captions, and ``run.json``.

    A run that was killed is started again by the same call and ends with the same bytes: finished captions are kept.

    Args:
        out: the folder; revised captions that it holds are replaced.
        reviser: an open model of kind ``reviser``.
        rows: the captions, each with the id of its image; their other fields are written with them.
        pictures: a table of images, or the files by image id.
        kind: the ending of ``captions``, ``.json`` (COCO results), ``.jsonl``, ``.csv`` or ``.tsv``.
        source: where the captions come from, for ``run.json``.
        seed: which words the reviser does not see, where it hides some.
        asking: how the reviser is asked, on the local engine alone.
        overwrite: take a folder that holds something else too; one with a table is refused all the same.
        say: told which images could not be read, once all is written.

    Returns:
        What was written, as ``revise_all`` gives it.
    """
    texts = json.dumps([[row.image_id, row.caption] for row in rows], ensure_ascii=True).encode()
    of = {"captions": source, "sha256": hashlib.sha256(texts).hexdigest(), "reviser": reviser.key}
    settings = {"reviser": reviser.name, "seed": seed}
    with claimed(out, "revised", of=of, settings=settings, overwrite=overwrite) as home:
        revised = revise_all(reviser, rows, pictures, asking, seed=seed)
        write_whole(home.stage / f"{REVISED}{kind}", written(revised.rows, kind).encode())
        home.publish(counts=revised.counts)
    for note in revised.notes:
        say(note)
    return revised


def written(rows: Sequence[CaptionRow], kind: str) -> str:
    """The captions as a file of one ``kind``: COCO results (``.json``), ``.jsonl``, ``.csv`` or ``.tsv``.

    >>> written([CaptionRow("7", "a dog")], ".json")
    '[{"image_id": 7, "caption": "a dog"}]\\n'
    """
    own = ({"image_id": row.image_id, "caption": row.caption} for row in rows)
    # the two come first, and a field of the file that happens to have the same name never replaces them
    plain = [names | {**row.fields, **names} for names, row in zip(own, rows, strict=True)]
    if kind == ".json":
        numbered = [row | {"image_id": _number(str(row["image_id"]))} for row in plain]
        return json.dumps(numbered, ensure_ascii=False, default=str) + "\n"
    if kind in (".csv", ".tsv"):
        out = io.StringIO()
        names = list(dict.fromkeys(name for row in plain for name in row))
        # Before Python 3.13 the writer leaves a lone carriage return unquoted, and a reader ends the line there.
        returns = any("\r" in str(cell) for row in plain for cell in row.values())
        comma = "\t" if kind == ".tsv" else ","
        lines = csv.DictWriter(
            out,
            names,
            delimiter=comma,
            lineterminator="\n",
            quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL,
        )
        lines.writeheader()
        lines.writerows({name: for_spreadsheet(value) for name, value in row.items()} for row in plain)
        return out.getvalue()
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in plain)


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and str(int(text)) == text else text


def _there(pictures: Pictures) -> Mapping[str, Any]:
    if isinstance(pictures, Table):
        return dict.fromkeys(pictures.to_pandas(["image_id"])["image_id"].tolist())
    return pictures


def _items(pictures: Pictures, rows: Sequence[CaptionRow], batch_size: int) -> Iterator[Asked]:
    """Each caption once with its image: in the order of the file, or in that of the table, whose images are read so."""
    if not isinstance(pictures, Table):
        for image, caption in dict.fromkeys((row.image_id, row.caption) for row in rows):
            yield Asked(image, str(pictures[image].absolute()), caption)
        return
    by_image: dict[str, dict[str, None]] = {}
    for row in rows:
        by_image.setdefault(row.image_id, {})[row.caption] = None
    for names, images in image_batches(pictures, batch_size, by_image.keys()):
        for name, image in zip(names, images, strict=True):
            for caption in by_image[name]:
                yield Asked(name, image, caption)
