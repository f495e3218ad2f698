"""A picture of edits by how real they are: one line a decile of the pair's realness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from equipoise.data.images import decode
from equipoise.errors import InputError
from equipoise.filters.evidence import Evidence
from equipoise.filters.protocol import Verdict

__all__ = ["decile_gallery"]

_SIDE = 96
_PAIRS = 4
_MARGIN = 40


def decile_gallery(evidence: Evidence, verdict: Verdict) -> Any:
    """A contact sheet: for each decile of realness (1 the least real) some sources with their chosen edits.

    ``None`` where no picture can be shown.
    """
    from PIL import Image, ImageDraw

    deciles = verdict.files["knn_deciles"]
    kept = evidence.frame[~verdict.dropped & np.asarray(verdict.judged)]
    shown: list[tuple[int, list[str]]] = []
    for decile, part in deciles.groupby("decile"):
        sources = part["source_id"].tolist()[:_PAIRS]
        ids = [name for source in sources for name in kept.loc[kept["source_id"] == source, "image_id"]]
        shown.append((int(str(decile)), ids))
    pictures = _pictures(evidence, {name for _, ids in shown for name in ids})
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


def _pictures(evidence: Evidence, wanted: set[str]) -> dict[str, Any]:
    from PIL import Image

    found: dict[str, Any] = {}
    if "image" not in evidence.table.types:
        return found
    for batch in evidence.table.batches(["image_id", "image"]):
        ids = pd.Index(batch.column("image_id").to_pylist())
        for i in np.flatnonzero(ids.isin(list(wanted))):
            try:
                image = decode(batch.column("image")[int(i)].as_py(), root=evidence.table.image_root)
            except InputError:
                continue
            image.thumbnail((_SIDE, _SIDE), Image.Resampling.BILINEAR)
            found[ids[i]] = image
    return found
