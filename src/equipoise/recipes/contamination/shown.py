"""What the pictures themselves show: how sharp the figures are, and whom a caption is given that names nobody.

The paper's Figures 7 and 8, as tables and galleries.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.images import encode
from equipoise.filters.rules.sharpness import sharpness_of
from equipoise.measure.stats import compare, summarise
from equipoise.recipes.contamination.data import lean_of, named_axes, real_world
from equipoise.recipes.studies.common import write_csv
from equipoise.recipes.train_mini.evaluate import injected
from equipoise.world.catalog import OCCUPATIONS
from equipoise.world.tables import scene_of

SHARPENED = 112
"""Pictures of each kind whose figures are found and measured."""
ROWS_SHOWN = 8
_SIDE, _GAP, _LEFT = 64, 6, 190


def write_shown(out: Path, tables: Mapping[str, Table], seen: Mapping[str, pd.DataFrame]) -> None:
    """Measure the pictures of one seed: ``sharpness.csv``, ``people.csv`` and the pictures of a gallery.

    ``tables`` and ``seen`` hold the real pictures and everything that can take their place, by name.
    """
    from equipoise.models import load

    real = tables["real"].to_pandas(["image_id", "caption", "subject", "params"])
    world = real_world()
    open_to_all = ["gender" not in named_axes(scene_of(params, world)) for params in real["params"]]
    detector = load("mini:detector", kind="detector")
    pictures = {kind: in_order(table, real["image_id"].tolist()) for kind, table in tables.items()}
    sharp = {kind: _sharpness(detector, some[:SHARPENED]) for kind, some in pictures.items()}
    write_csv(out / "sharpness.csv", pd.DataFrame(sharp))
    people = real[["image_id", "subject", "caption"]].assign(open=open_to_all)
    for kind, table in tables.items():
        names = _names_in_order(table, real["image_id"].tolist())
        known = seen[kind].drop_duplicates("image_id").set_index("image_id")["gender"]
        people[kind] = known.reindex(names).tolist()
    write_csv(out / "people.csv", people)
    odds = dict(zip(OCCUPATIONS, injected(), strict=True))
    asked = people[people["open"]].assign(odds=lambda rows: rows["subject"].map(odds)).sort_values("odds")
    asked = asked.drop_duplicates("subject")
    half = ROWS_SHOWN // 2
    chosen = pd.concat([asked.head(half), asked.tail(half)])
    for place, number in enumerate(chosen.index):
        for kind, some in pictures.items():
            write_whole(out / f"{place:02d}-{kind}.png", encode(some[int(number)]))
    texts = "".join(f"{text}\n" for text in chosen["caption"])
    write_whole(out / "captions.txt", texts.encode())


def shown_rows(folders: Sequence[Path]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sharpness by kind, less that of the real pictures; and whom captions are given that name nobody."""
    sharp = pd.concat([pd.read_csv(folder / "sharpness.csv") for folder in folders], ignore_index=True)
    rows: list[dict[str, Any]] = []
    for kind in sharp:
        both = sharp[["real", kind]].dropna()
        level = summarise(sharp[kind].dropna().to_numpy(float))
        row: dict[str, Any] = {"pictures": kind, "measured": level.value, "low": level.ci_low, "high": level.ci_high}
        if kind != "real" and len(both) > 1:
            less = compare(both[kind].to_numpy(float), both["real"].to_numpy(float))
            row |= {"less than real by": -less.value, "p": less.p_value}
        rows.append(row | {"n": level.n})
    people = pd.concat([pd.read_csv(folder / "people.csv") for folder in folders], ignore_index=True)
    free = people[people["open"].astype(bool)]
    odds = free["subject"].map(dict(zip(OCCUPATIONS, injected(), strict=True)))
    thirds = {"leans to men": odds < -0.8, "neither": odds.abs() <= 0.8, "leans to women": odds > 0.8}
    leans = []
    for kind in sharp:
        lean, _ = lean_of(free["subject"].tolist(), free[kind].tolist())
        women = free[kind] == "female"
        shares = {f"women, {name}": float(women[inside].mean()) for name, inside in thirds.items()}
        cells = {"measured": lean["slope"], "low": lean["low"], "high": lean["high"], "chance": 0.0, "n": len(free)}
        leans.append({"pictures": kind, **shares, **cells})
    return pd.DataFrame(rows), pd.DataFrame(leans)


def gallery(folder: Path, name: str) -> str:
    """The pictures of ``folder`` as one SVG: a row for each caption, a column for each kind."""
    texts = (folder / "captions.txt").read_text(encoding="utf-8").splitlines()
    kinds = list(dict.fromkeys(path.stem[3:] for path in sorted(folder.glob("00-*.png"))))
    first = [kind for kind in ("real", "placebo", "biased", "fair", "blurred") if kind in kinds]
    width, height = _LEFT + len(first) * (_SIDE + _GAP), 22 + len(texts) * (_SIDE + _GAP)
    words = [
        f'<text class="soft" x="{_LEFT + i * (_SIDE + _GAP)}" y="14">{escape(kind)}</text>'
        for i, kind in enumerate(first)
    ]
    for row, text in enumerate(texts):
        top = 22 + row * (_SIDE + _GAP)
        for line, part in enumerate(wrap(text, 26)):
            words.append(f'<text class="t" x="0" y="{top + 18 + 16 * line}">{escape(part)}</text>')
        for i, kind in enumerate(first):
            data = base64.b64encode((folder / f"{row:02d}-{kind}.png").read_bytes()).decode()
            words.append(
                f'<image x="{_LEFT + i * (_SIDE + _GAP)}" y="{top}" width="{_SIDE}" height="{_SIDE}" '
                f'href="data:image/png;base64,{data}"><title>{escape(kind)}: {escape(text)}</title></image>'
            )
    inside = "".join(words)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" id="{name}" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="Pictures of {len(texts)} captions that name nobody">{inside}</svg>'
    )


def _names_in_order(table: Table, sources: Sequence[str]) -> list[str]:
    frame = table.to_pandas(["image_id", "source_id"])
    of = frame["source_id"].fillna(frame["image_id"])
    place = dict(zip(of, frame["image_id"], strict=True))
    return [place[name] for name in sources]


def in_order(table: Table, sources: Sequence[str]) -> list[Image.Image]:
    """The pictures of a table, in the order of the real ones that they are or replace."""
    shown = dict(table.images())
    return [shown[name] for name in _names_in_order(table, sources)]


def _sharpness(detector: Any, pictures: Sequence[Image.Image]) -> list[float]:
    """Of the surest person in each picture; missing where none is found."""
    sharpness = []
    for picture, detections in zip(pictures, detector.detect(list(pictures)), strict=True):
        box = next((b for b, label in zip(detections.boxes, detections.labels, strict=True) if label == "person"), None)
        if box is None:
            sharpness.append(float("nan"))
            continue
        left, top, right, bottom = (float(v) for v in box)
        area = (max(0, int(left)), max(0, int(top)), int(np.ceil(right)), int(np.ceil(bottom)))
        sharpness.append(sharpness_of(picture.crop(area)))
    return sharpness
