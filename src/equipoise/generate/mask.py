"""Photographs with the person, the objects or both blacked out, to see what a model reads from the rest.

Hirota et al. (LIC, CVPR 2022; thesis 2.5.4) and GenSynth (arXiv 2305.15407, appendix D.4).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from equipoise.array_types import Mask
from equipoise.data import masks
from equipoise.data.people import people_of
from equipoise.data.table import Table
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate.keeping import Kept, kept
from equipoise.generate.persons import mask_of, placed_rows
from equipoise.generate.plans import Task, WorkPlan, settings_of, task_of
from equipoise.generate.tools import Tools
from equipoise.measure.captions.amplification import bias_table
from equipoise.text.labels import read_labels

NAMES = {"person": "person", "object": "object", "both": "person or object"}
BY = ("box", "segment")
_KEPT = ("caption", "captions", "set_id", "label_source")


@dataclass(frozen=True)
class MaskConfig:
    """What is blacked out, and by which outline."""

    what: str = "person"
    by: str = "box"
    find: bool = False
    """Let a detector find what the columns do not say: the persons for ``person``, else the objects."""
    most_correlated: str = ""
    """An axis: of the objects, only the one in each image that is most correlated with it over the table (thesis T2.4,
    see :func:`object_shares`); all objects without it."""
    least: int = 20
    """Objects on fewer labelled images are not thought correlated: a rare thing leans by chance."""

    def __post_init__(self) -> None:
        if self.most_correlated and (self.what == "person" or self.find):
            raise InputError(
                "most_correlated chooses among the objects that a table names; give what=object or both, and no finder"
            )
        if self.least < 1:
            raise InputError(f"least={self.least}: images that an object must be on, at least 1")
        for kind, value, known in (("thing to black out", self.what, NAMES), ("outline", self.by, BY)):
            if value not in known:
                raise UnknownNameError(kind, value, known)


def plan_mask(source: Table, config: MaskConfig | None = None) -> WorkPlan:
    """The plan of one masked copy of every image that shows what is to be masked.

    Args:
        source: images with the column ``people`` for persons, crowds among them, and ``object_boxes`` (JSON: a list of
            ``{name, box, mask}``) for objects, unless a detector finds these. An image in which it finds nothing is in
            the errors of the new table.
        config: what is masked, and by which outline; persons by their boxes unless given.

    Returns:
        A plan of one task per image.
    """
    settings = config or MaskConfig()
    columns = ["image_id", *_columns(settings)]
    keeps = Kept(source, made={"drawn_mask": "json"})
    names = [*(name for name in _KEPT if name in source.columns), *keeps.names]
    chosen: list[tuple[list[int], dict[str, Any]]] = []
    left_out: Counter[str] = Counter()
    ranks = _ranks(source, settings) if settings.most_correlated else None
    for place, row in placed_rows(source, columns):
        things = _things(row, ranks)
        if things or settings.find:
            chosen.append((place, {"id": row["image_id"], "things": things, "keeps": names}))
        else:
            left_out[f"no {NAMES[settings.what]} to black out"] += 1

    def tasks() -> Iterator[Task]:
        for place, task in chosen:
            yield {"place": place, **task, "what": settings.what, "by": settings.by, "find": settings.find}

    return WorkPlan(
        kind="mask",
        tasks=tasks,
        n_tasks=len(chosen),
        n_images=len(chosen),
        make=make_masked,
        config=settings_of(settings),
        axes=keeps.axes,
        columns=keeps.columns,
        source=source,
        left_out=dict(left_out),
        by_finder=settings.find,
    )


def _columns(config: MaskConfig) -> list[str]:
    """The columns that say where things are; a detector finds the rest."""
    wanted = {"person": ["people"], "object": ["object_boxes"], "both": ["people", "object_boxes"]}[config.what]
    return wanted[:-1] if config.find else wanted


def object_shares(
    objects: Sequence[Collection[str]], groups: Sequence[str | None], *, least: int = 20
) -> pd.Series[float]:
    """How correlated each object is with the groups, the most first: the largest b(a, l) of bias amplification.

    b(a, l) = c(a, l) / sum_a c(a, l), c the images of group a with the object l (Zhao et al., EMNLP 2017); 1 / A is no
    correlation, 1 an object that one group alone has. ``objects`` (n,) are the names on each image, ``groups`` (n,) its
    label, ``None`` for none. Objects on fewer than ``least`` labelled images are left out.

    >>> object_shares([{"tie", "cup"}, {"tie"}, {"cup"}, {"cup"}], ["m", "m", "f", None], least=2).to_dict()
    {'tie': 1.0, 'cup': 0.5}
    """
    names = sorted({group for group in groups if group is not None})
    if len(names) < 2:
        raise InputError("the axis shows fewer than two groups; no object can be correlated with it")
    counts: dict[str, Counter[str]] = {}
    for on_image, group in zip(objects, groups, strict=True):
        for name in set(on_image) if group is not None else ():
            counts.setdefault(name, Counter())[str(group)] += 1
    often = sorted(name for name, by_group in counts.items() if by_group.total() >= least)
    if not often:
        raise InputError(f"no object is on {least} labelled images; lower --least")
    table = np.array([[counts[name][group] for group in names] for name in often], dtype=np.float64)
    largest = bias_table(table, table, often, names).groupby("item", sort=True)["reference"].max()
    return largest.sort_values(ascending=False, kind="stable")


def _ranks(source: Table, config: MaskConfig) -> dict[str, int]:
    """The place of every object in the order of its correlation, the most correlated first."""
    axis = config.most_correlated
    if axis not in source.columns:
        raise UnknownNameError(f"column of {source.path}", axis, source.columns)
    frame = source.to_pandas(["object_boxes", axis], only_kept="keep" in source.columns)
    objects = [{str(thing.get("name")) for thing in json.loads(cell or "[]")} for cell in frame["object_boxes"]]
    groups = read_labels(frame[axis]).values().tolist()
    return {str(name): i for i, name in enumerate(object_shares(objects, groups, least=config.least).index)}


def _things(row: dict[str, Any], ranks: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
    people, objects = people_of(row.get("people")), json.loads(row.get("object_boxes") or "[]")
    if ranks is not None:
        known = [str(thing.get("name")) for thing in objects if str(thing.get("name")) in ranks]
        chosen = min(known, key=ranks.__getitem__, default=None)
        objects = [thing for thing in objects if str(thing.get("name")) == chosen]
    return [thing for thing in [*people, *objects] if thing.get("box") is not None or thing.get("mask") is not None]


def make_masked(rows: list[dict[str, Any]], tools: Tools) -> list[Any]:
    """The masked copy of each image."""
    return [_made(task_of(row), tools) for row in rows]


def _made(task: Task, tools: Tools) -> list[dict[str, Any]]:
    photo = tools.source(task["place"])
    mask = _mask(task, photo, tools)
    masked = {
        "image": blacked_out(photo, mask),
        "image_id": task["id"],
        "source_id": task["id"],
        **kept(tools.labels(task["place"]), task["keeps"]),
        "generator": "mask",
        "params": json.dumps({"what": task["what"], "by": task["by"]}, sort_keys=True),
        "drawn_mask": json.dumps(masks.encode(mask)),
    }
    return tools.finished([masked])


def _mask(task: Task, photo: Image.Image, tools: Tools) -> Mask:
    whole = np.zeros((photo.height, photo.width), bool)
    for thing in task["things"]:
        whole |= mask_of(thing, *photo.size, by=task["by"])
    if task["find"]:
        whole |= _found(task, photo, tools.finder)
    if not whole.any():
        raise InputError(f"no {NAMES[task['what']]} to black out was found in the image")
    return whole


def _found(task: Task, photo: Image.Image, finder: Any) -> Mask:
    if finder is None:
        raise InputError("finding persons or objects needs a detector; name one")
    persons = task["what"] == "person"
    if persons and finder.labels and "person" not in finder.labels:
        raise UnknownNameError(f"label of {finder.name}", "person", finder.labels)
    whole = np.zeros((photo.height, photo.width), bool)
    detections = finder.detect([photo])[0]
    parts = getattr(finder, "part_of", {})  # the head of a person is not an object
    for i, label in enumerate(detections.labels):
        if (label == "person") == persons and label not in parts:
            left, top, right, bottom = (float(v) for v in detections.boxes[i])
            box = [left, top, right - left, bottom - top]
            exact = task["by"] == "segment" and detections.masks is not None
            whole |= detections.masks[i] if exact else masks.from_box(box, photo.height, photo.width)
    return whole


def blacked_out(photo: Image.Image, mask: Mask) -> Image.Image:
    """``photo`` with black where ``mask`` is true, untouched elsewhere.

    >>> blacked_out(Image.new("RGB", (2, 1), "white"), np.array([[True, False]])).getpixel((0, 0))
    (0, 0, 0)
    """
    pixels = np.asarray(photo.convert("RGB")).copy()
    pixels[mask] = 0
    return Image.fromarray(pixels)
