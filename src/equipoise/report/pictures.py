"""Pictures inside the page: thumbnails as data, read from a table in one pass, each shown with the groups it has."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from equipoise.data import Table
from equipoise.data.images import decode
from equipoise.data.twins import without_twins
from equipoise.errors import InputError

__all__ = ["SetShown", "Shown", "set_gallery", "thumbnails"]

SIDE = 96
"""Pixels of the longer side of a thumbnail."""


@dataclass(frozen=True)
class Shown:
    """One picture of the page."""

    uri: str
    alt: str
    label: str
    frame: int
    """The number of the frame's colour; -1 for none."""


@dataclass(frozen=True)
class SetShown:
    """One counterfactual set of the page."""

    title: str
    pictures: list[Shown]


def thumbnails(table: Table, wanted: Iterable[str], problems: list[str]) -> dict[str, str]:
    """The pictures with these ids as small data URIs; a picture that cannot be had is told and left out."""
    ids, made, broken = set(wanted), {}, []
    for batch in table.batches(["image_id", "image"]):
        names = batch.column("image_id").to_pylist()
        places = [i for i, name in enumerate(names) if name in ids]
        for i in places:
            try:
                picture = decode(batch.column("image")[i].as_py(), root=table.image_root)
            except (InputError, OSError):
                broken.append(names[i])
                continue
            picture.thumbnail((SIDE, SIDE))
            out = io.BytesIO()
            picture.save(out, "WEBP", quality=82, method=4)
            made[names[i]] = "data:image/webp;base64," + b64encode(out.getvalue()).decode()
        if len(made) + len(broken) == len(ids):
            break
    missing = len(ids) - len(made)
    if missing:
        problems.append(f"{table.path.name}: {missing} of {len(ids)} pictures to show could not be read; left out")
    return made


def set_gallery(frame: pd.DataFrame, axes: Sequence[str], n: int = 4) -> list[tuple[str, pd.DataFrame]]:
    """``n`` counterfactual sets of different subjects, the members in the order of their groups."""
    if "set_id" not in frame:
        return []
    known = frame[frame["set_id"].notna() & without_twins(frame)]
    sizes = known.groupby("set_id", sort=False).size()
    known = known[known["set_id"].isin(sizes[sizes > 1].index)]
    if known.empty:
        return []
    firsts = known.drop_duplicates("subject" if "subject" in known else "set_id")
    step = max(1, len(firsts) // n)
    sets = []
    for row in firsts.iloc[::step].head(n).to_dict("records"):
        members = known[known["set_id"] == row["set_id"]].sort_values(list(axes)).head(12)
        sets.append((str(row.get("subject") or row["set_id"]), members))
    return sets
