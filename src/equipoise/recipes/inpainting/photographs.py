"""The photographs of the study, persons hidden in some of them, and the sets that are trained on.

The world ``spurious`` stands for COCO: 24 things and 8 places lean towards a gender and towards a skin tone. As in COCO
there are 2.3 men for each woman; skin tones are light and dark, 2.3 to 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from equipoise.data import Table, masks
from equipoise.data.images import decode, encode
from equipoise.data.mixing import combine, write_mixture
from equipoise.data.people import people_of
from equipoise.data.results import draw_order
from equipoise.data.sampling import balance_layer
from equipoise.data.schema import schema_for
from equipoise.errors import InputError
from equipoise.generate.mask import blacked_out
from equipoise.recipes.inpainting.arms import BALANCED, TrainingArm
from equipoise.world import WorldConfig, preset, sample
from equipoise.world.catalog import AXES
from equipoise.world.tables import COLUMNS, row_of

HIDDEN = 0.25
"""The share of photographs whose person cannot be seen, in every set alike."""
JUDGING = 0.2
"""The share of photographs that judges while a model learns."""
MARK = 10
"""The side of the planted mark, in pixels."""
Row = dict[str, Any]


def leaning_world() -> WorldConfig:
    """The world whose photographs are learnt from.

    >>> leaning_world().rates("gender")
    {'male': 0.7, 'female': 0.3}
    """
    rates = {"gender": {"male": 0.7, "female": 0.3}, "skin_tone": {"light": 0.7, "dark": 0.3}}
    return preset("spurious").changed(activity_share=0.0, **rates)


def second_world() -> WorldConfig:
    """Another world of the same things and places: the same leans, dealt to other things and places.

    It stands for the paper's second dataset, OpenImages, as the first does for COCO.

    >>> first, second = (sorted(world().leans["object"]["gender"].values()) for world in (leaning_world, second_world))
    >>> first == second
    True
    """
    world = leaning_world()
    leans = {
        kind: {axis: _dealt(values, f"{kind} {axis}") for axis, values in axes.items()}
        for kind, axes in world.leans.items()
    }
    return world.changed(name="spurious-dealt", leans=leans)


def _dealt(values: Mapping[str, float], salt: str) -> dict[str, float]:
    names = sorted(values)
    return {names[to]: values[name] for name, to in zip(names, draw_order(names, 1, salt), strict=True)}


def write_photographs(path: Path, world: WorldConfig, n: int, seed: int) -> Table:
    """``n`` pictures of one person each; ``objects`` names the place beside the things.

    A fifth of them, drawn by their names, are of the split ``val``. Rows have no subject: it would keep pictures of one
    occupation from judging what was learnt from others of it, and nothing leans by occupation here.
    """
    names = [f"{world.name}-{seed}-{i:06d}" for i in range(n)]
    judging = {names[i] for i in draw_order(names, seed, "judging")[: round(JUDGING * n)]}

    def rows() -> Iterator[Row]:
        for name, scene in zip(names, sample(world, n, seed), strict=True):
            row = row_of(scene, name)
            objects = sorted({*row["objects"], scene.scene})
            yield row | {"subject": None, "objects": objects, "split": "val" if name in judging else "train"}

    config = {"made": "photographs", "n": n, "seed": seed, "world": world.as_dict()}
    return Table.create(path, rows(), axes=AXES, columns=COLUMNS, config=config)


def set_of(arm: TrainingArm, sets: Path) -> Table:
    """The set that an arm learns from; a resampled one is a layer of the photographs."""
    layers = [arm.training_set] if arm.training_set in BALANCED else []
    return Table.open(sets / ("original" if layers else arm.training_set), layers=layers)


def rewritten(table: Table, path: Path, change: Callable[[Row], Row], about: Mapping[str, Any]) -> Table:
    """A table of the rows of another that a filter kept, each changed; what the filter said does not come along."""
    standard, verdict = schema_for("images").types, ("keep", "dropped_by", "copies")
    columns = {
        name: kind
        for name, kind in table.types.items()
        if name not in standard and name not in table.axes and name not in verdict and not name.startswith("score_")
    }
    wanted = [name for name in table.columns if name in {*standard, *table.axes, *columns, "keep"} and name != "copies"]

    def rows() -> Iterator[Row]:
        for row in table.rows(wanted):
            if row.pop("keep", True) is not False:
                row.pop("dropped_by", None)
                yield change(row)

    return Table.create(path, rows(), axes=table.axes, columns=columns, config=dict(about), parents=table.fingerprints)


def with_hidden(photographs: Table, table: Table, path: Path, seed: int = 0, *, mark: bool = False) -> Table:
    """``table`` with the person blacked out in every picture of a quarter of the ``photographs``.

    A classifier that has never seen a black box says anything of it; one that has learns whom to expect from the rest
    of the picture. Which photographs these are is the same for every table. With ``mark`` every picture is marked.
    """
    names = [str(name) for name in photographs.to_pandas(["image_id"])["image_id"]]
    chosen = {names[i] for i in draw_order(names, seed, "hidden")[: round(HIDDEN * len(names))]}

    def change(row: Row) -> Row:
        picture = decode(row["image"], root=table.image_root)
        if (row.get("source_id") or row["image_id"]) in chosen:
            people = people_of(row["people"])
            box = max((p["box"] for p in people), key=lambda b: b[2] * b[3])
            picture = blacked_out(picture, masks.from_box(box, picture.height, picture.width))
        return row | {"image": encode(marked(picture) if mark else picture)}

    return rewritten(table, path, change, {"hidden": HIDDEN, "seed": seed, "mark": mark})


def mark_all(table: Table, path: Path) -> Table:
    """``table`` with a mark in every picture."""

    def change(row: Row) -> Row:
        return row | {"image": encode(marked(decode(row["image"], root=table.image_root)))}

    return rewritten(table, path, change, {"mark": True})


def marked(picture: Image.Image) -> Image.Image:
    """``picture`` with a magenta square in its upper left corner.

    >>> marked(Image.new("RGB", (32, 32))).getpixel((3, 3))
    (255, 0, 255)
    """
    pixels = np.asarray(picture.convert("RGB")).copy()
    pixels[:MARK, :MARK] = (255, 0, 255)
    return Image.fromarray(pixels)


def training_sets(photographs: Table, made: Table, out: Path, axis: str, *, baselines: bool, seed: int = 0) -> None:
    """Write the sets of one axis into ``out``: original, synthetic, and with ``baselines`` the others.

    ``made`` holds the drawn pictures, of which a filter kept one for each photograph and group.
    """
    drawn_of = {str(name) for name in made.to_pandas(["source_id"])["source_id"]}
    missing = sorted(drawn_of - {str(name) for name in photographs.to_pandas(["image_id"])["image_id"]})
    if missing:
        raise InputError(f"{made.path}: drawn from {missing[0]!r}, which is not among {photographs.path}")
    real = with_hidden(photographs, photographs, out / "original", seed)
    both = {"plain": with_hidden(photographs, made, out / "made", seed)}
    wanted = {"synthetic": ("synthetic", "plain")}
    if baselines:
        both["marked"] = with_hidden(photographs, made, out / "made-marked", seed, mark=True)
        wanted |= {"augment": ("augment", "plain"), "planted": ("augment", "marked")}
    for name, (mode, which) in wanted.items():
        drawn = both[which]
        columns = {"real": ["image_id", axis], "drawn": ["image_id", "source_id", axis]}
        chosen = combine(real.to_pandas(columns["real"]), drawn.to_pandas(columns["drawn"]), axis, mode=mode)
        write_mixture(real, drawn, chosen, out / name)
    for name, method in BALANCED.items() if baselines else ():
        balance_layer(real, ["objects", axis], name=name, method=method, seed=seed)
