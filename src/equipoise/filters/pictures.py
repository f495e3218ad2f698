"""The pictures behind the ids that a filter looks at, and a sheet of edits by how real they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from equipoise.data import Table
from equipoise.data.images import decode, refuse_outside
from equipoise.errors import InputError
from equipoise.filters.protocol import FilterVerdict
from equipoise.filters.remaining import RemainingImages

_SIDE = 96
_PAIRS = 4
_MARGIN = 40


def decoded(table: Table, ids: Collection[str] | None = None, *, inside: bool = False) -> Iterator[tuple[str, Any]]:
    """Id and picture of the rows of a table, or of those with these ``ids``; the error of one that cannot be decoded.

    ``inside``: a picture that lies outside the table's folder is not opened, for what is made of them to be shown.
    """
    for batch in table.batches(["image_id", "image"]):
        for i, name in enumerate(batch.column("image_id").to_pylist()):
            if ids is not None and name not in ids:
                continue
            stored = batch.column("image")[i].as_py()
            try:
                if inside:
                    refuse_outside(stored, table.path, table.image_root)
                yield name, decode(stored, root=table.image_root)
            except InputError as error:
                yield name, error


def decile_gallery(remaining: RemainingImages, verdict: FilterVerdict) -> Any:
    """A contact sheet: for each tenth of realness (1 the least real) some sources with their chosen edits.

    ``None`` where no picture can be shown.
    """
    from PIL import Image, ImageDraw

    deciles = verdict.files["knn_deciles"]
    deciles = deciles[deciles["chosen"]]
    kept = remaining.frame[~verdict.dropped & np.asarray(verdict.judged)]
    shown: list[tuple[int, list[str]]] = []
    for decile, part in deciles.groupby("decile"):
        sources = part["source_id"].tolist()[:_PAIRS]
        ids = [name for source in sources for name in kept.loc[kept["source_id"] == source, "image_id"]]
        shown.append((int(str(decile)), ids))
    pictures = _thumbnails(remaining.table, {name for _, ids in shown for name in ids})
    if not pictures:
        return None
    widest = max(len(ids) for _, ids in shown)
    sheet = Image.new("RGB", (_MARGIN + widest * _SIDE, len(shown) * _SIDE), "white")
    pen = ImageDraw.Draw(sheet)
    for line, (decile, ids) in enumerate(shown):
        pen.text((6, line * _SIDE + _SIDE // 2 - 6), str(decile), fill="black")
        for place, name in enumerate(ids):
            if name in pictures:
                sheet.paste(pictures[name], (_MARGIN + place * _SIDE, line * _SIDE))
    return sheet


def _thumbnails(table: Table, wanted: set[str]) -> dict[str, Any]:
    from PIL import Image

    pictures: dict[str, Any] = {}
    if "image" not in table.types:
        return pictures
    for name, image in decoded(table, wanted, inside=True):
        if not isinstance(image, InputError):
            image.thumbnail((_SIDE, _SIDE), Image.Resampling.BILINEAR)
            pictures[name] = image
    return pictures
