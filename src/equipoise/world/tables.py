"""Tables of the world: images with captions, boxes, masks, attributes, and the truth in the table's config."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from equipoise.data import masks
from equipoise.data.images import encode
from equipoise.data.people import PEOPLE_COLUMNS, person
from equipoise.errors import InputError
from equipoise.world.captions import captions, neutral_prompt, prompts, with_article
from equipoise.world.catalog import AXES, SCENES
from equipoise.world.config import WorldConfig
from equipoise.world.placebos import checked_placebos, column_of
from equipoise.world.render import body_parts, render_image, what_is_where
from equipoise.world.sample import sample
from equipoise.world.scene import Scene
from equipoise.world.sets import binding_sets, counterfactual_sets, resolution_sets
from equipoise.world.truth import truth

if TYPE_CHECKING:
    from equipoise.data import Table

COLUMNS: dict[str, str] = {
    **PEOPLE_COLUMNS,
    "neutral_captions": "list<string>",
    "gendered_captions": "list<string>",
    "prompt": "string",
    "scene": "string",
    "occupation_visible": "bool",
    "object_boxes": "json",
    "unsafe": "bool",
}
"""Columns beyond those of every table: what only a world knows."""

BINDING_COLUMNS = {
    "cell": "string",
    "expected_gender": "string",
    "other_gender": "string",
    "reversed_caption": "string",
}

RESOLUTION_COLUMNS = {"context": "string", "other": "string", "other_gender": "string"}
PRAISED = ("gift", "cat", "butterfly", "kite", "plant", "cake")
BLAMED = ("clock", "cactus", "cone", "umbrella", "duck", "television")
"""Things that stand for praise and for blame in a PATA-shaped table. A convention and nothing more: the world has no
words that flatter or insult, and what a thing leans to is in the table's truth.
"""

Progress = Callable[[int], object]


def write_table(
    path: str | Path,
    config: WorldConfig,
    n: int,
    *,
    size: int = 64,
    seed: int = 0,
    n_captions: int = 5,
    rows_per_shard: int = 1000,
    progress: Progress | None = None,
) -> Table:
    """A table of pictures sampled from a world: the natural pool, with the world's bias in it.

    Args:
        path: the folder of the new table.
        config: the world; its settings and its truth go into the table's config.
        n: how many pictures, at least 1.
        size: pixels per side of the pictures, 16 to 2048.
        seed: which sample is drawn.
        n_captions: how many captions a picture has in each style (natural, neutral and gendered).
        rows_per_shard: how many rows a file of the table holds, the last one excepted.
        progress: called with 1 after each row.

    Returns:
        The table, opened to be read.

    >>> import tempfile
    >>> from equipoise.world import preset
    >>> table = write_table(tempfile.mkdtemp() + "/t", preset("biased"), 20, seed=1)
    >>> len(table), table.axes, len(truth_of(table)) > 100
    (20, ('gender', 'skin_tone', 'age'), True)
    """
    rows = (row for _, row in _sampled(config, n, seed, size, n_captions))
    about = {"made": "sample", "n": n, "size": size, "seed": seed}
    return _written(path, config, rows, {}, about, rows_per_shard, progress)


def write_counterfactual_table(
    path: str | Path,
    config: WorldConfig,
    n_sets: int,
    *,
    subjects: Iterable[str] | None = None,
    axes: Sequence[str] = ("gender", "skin_tone"),
    placebos: Iterable[str] = (),
    size: int = 64,
    seed: int = 0,
    n_captions: int = 5,
    rows_per_shard: int = 1000,
    progress: Progress | None = None,
) -> Table:
    """A table of counterfactual sets, as :func:`equipoise.world.counterfactual_sets` draws them.

    Args:
        path: the folder of the new table.
        config: the world; its settings and its truth go into the table's config.
        n_sets: how many sets of each subject, at least 1.
        subjects: occupations or activities, each once; all occupations unless given.
        axes: which of ``gender``, ``skin_tone`` and ``age`` vary inside a set.
        placebos: each adds a column (``placebo_bag``, ``placebo_mirror``, ``placebo_brightness``) and as many pictures
            as the table has without any: the same ones with that one changed. Placebos are no axes of the table.
        size: pixels per side of the pictures, 16 to 2048.
        seed: which scenes are drawn.
        n_captions: how many captions a picture has in each style (natural, neutral and gendered).
        rows_per_shard: how many rows a file of the table holds, the last one excepted.
        progress: called with 1 after each row.

    Returns:
        The table, opened to be read.

    >>> import tempfile
    >>> from equipoise.world import preset
    >>> path = tempfile.mkdtemp() + "/sets"
    >>> table = write_counterfactual_table(path, preset("fair"), 1, subjects=["nurse"], placebos=["mirror"])
    >>> table.to_pandas(["placebo_mirror"])["placebo_mirror"].value_counts().to_dict()
    {'plain': 6, 'mirrored': 6}
    """
    asked = checked_placebos(placebos)

    def rows() -> Iterator[dict[str, Any]]:
        for members in counterfactual_sets(config, subjects, axes, n_sets, seed, asked):
            for groups, levels, scene in zip(members.groups, members.levels, members.scenes, strict=True):
                changed = [scene.placebo] if scene.placebo else []
                image_id = "-".join((members.set_id, *groups, *changed))
                yield row_of(scene, image_id, set_id=members.set_id, size=size, n_captions=n_captions) | levels

    about: dict[str, Any] = {"made": "counterfactual", "n_sets": n_sets, "varied": list(axes)}
    about |= {"size": size, "seed": seed} | ({"placebos": list(asked)} if asked else {})
    columns = dict.fromkeys(map(column_of, asked), "string")
    return _written(path, config, rows(), columns, about, rows_per_shard, progress, asked)


def write_binding_table(
    path: str | Path,
    config: WorldConfig,
    n_sets: int,
    *,
    activities: Iterable[str] | None = None,
    size: int = 64,
    seed: int = 0,
    n_captions: int = 5,
    rows_per_shard: int = 1000,
    progress: Progress | None = None,
) -> Table:
    """A table of who does what, in the cells E1, E2, U1, U2; see :func:`equipoise.world.sets.binding_sets`.

    ``gender`` is the performer's, ``other_gender`` the bystander's; ``caption`` and ``reversed_caption`` are the
    benchmark's two captions.

    Args:
        path: the folder of the new table.
        config: the world; its settings and its truth go into the table's config.
        n_sets: how many of each cell per activity, at least 1.
        activities: which ones, each once; all unless given.
        size: pixels per side of the pictures, 16 to 2048.
        seed: which scenes are drawn.
        n_captions: how many captions a picture has in each style (natural, neutral and gendered),
            beside the benchmark's.
        rows_per_shard: how many rows a file of the table holds, the last one excepted.
        progress: called with 1 after each row.

    Returns:
        The table, opened to be read.
    """

    def rows() -> Iterator[dict[str, Any]]:
        for members in binding_sets(config, activities, n_sets, seed):
            image_id = f"{members.set_id}-{members.cell}"
            row = row_of(members.scene, image_id, set_id=members.set_id, size=size, n_captions=n_captions)
            row["captions"] = [members.caption, *row["captions"]]
            row |= {
                "caption": members.caption,
                "reversed_caption": members.reversed_caption,
                "cell": members.cell,
                "expected_gender": members.expected,
                "other_gender": members.scene.group("gender", 1) if len(members.scene.people) > 1 else None,
            }
            yield row

    about = {"made": "binding", "n_sets": n_sets, "size": size, "seed": seed}
    return _written(path, config, rows(), BINDING_COLUMNS, about, rows_per_shard, progress)


def write_visogender_table(
    path: str | Path,
    config: WorldConfig,
    n_sets: int,
    *,
    occupations: Iterable[str] | None = None,
    size: int = 64,
    seed: int = 0,
    n_captions: int = 5,
    rows_per_shard: int = 1000,
    progress: Progress | None = None,
) -> Table:
    """A table for the suite ``visogender``; see :func:`equipoise.world.sets.resolution_sets`.

    ``subject`` is the occupation, ``context`` is ``object`` or ``participant``, ``other`` what or who is beside,
    ``other_gender`` that one's.

    Args:
        path: the folder of the new table.
        config: the world; its settings and its truth go into the table's config.
        n_sets: how many sets of six pictures per occupation, at least 1.
        occupations: which ones, each once; all unless given.
        size: pixels per side of the pictures, 16 to 2048.
        seed: which scenes are drawn.
        n_captions: how many captions a picture has in each style (natural, neutral and gendered).
        rows_per_shard: how many rows a file of the table holds, the last one excepted.
        progress: called with 1 after each row.

    Returns:
        The table, opened to be read.
    """

    def rows() -> Iterator[dict[str, Any]]:
        for i, member in enumerate(resolution_sets(config, occupations, n_sets, seed)):
            two = member.context == "participant"
            image_id = f"{'OP' if two else 'OO'}_{i}"
            row = row_of(member.scene, image_id, set_id=member.set_id, size=size, n_captions=n_captions)
            beside = member.scene.group("gender", 1) if two else None
            yield row | {"context": member.context, "other": member.other, "other_gender": beside}

    about = {"made": "visogender", "n_sets": n_sets, "size": size, "seed": seed}
    columns = RESOLUTION_COLUMNS | dict.fromkeys(AXES[1:], "string")  # a pronoun is asked of one axis alone
    return _written(path, config, rows(), columns, about, rows_per_shard, progress, axes=AXES[:1])


def write_pata_table(
    path: str | Path,
    config: WorldConfig,
    n: int,
    *,
    size: int = 64,
    seed: int = 0,
    n_captions: int = 5,
    rows_per_shard: int = 1000,
    progress: Progress | None = None,
) -> Table:
    """A table of sampled pictures for the suite ``pata``: ``subject`` is the place, and every place has captions with
    things that stand for praise (``positive``) and for blame (``negative``).

    Args:
        path: the folder of the new table.
        config: the world; its settings and its truth go into the table's config.
        n: how many pictures, at least 1.
        size: pixels per side of the pictures, 16 to 2048.
        seed: which sample is drawn.
        n_captions: how many captions a picture has in each style (natural, neutral and gendered).
        rows_per_shard: how many rows a file of the table holds, the last one excepted.
        progress: called with 1 after each row.

    Returns:
        The table, opened to be read.
    """
    texts = {place: _pata_captions(place) for place in SCENES}
    sampled = _sampled(config, n, seed, size, n_captions)
    rows = (row | {"subject": scene.scene} | texts[scene.scene] for scene, row in sampled)
    about = {"made": "pata", "n": n, "size": size, "seed": seed}
    return _written(path, config, rows, {"positive": "json", "negative": "json"}, about, rows_per_shard, progress)


def _sampled(
    config: WorldConfig, n: int, seed: int, size: int, n_captions: int
) -> Iterator[tuple[Scene, dict[str, Any]]]:
    if n < 1:
        raise InputError(f"n={n}: a table needs at least one picture")
    return (
        (scene, row_of(scene, f"{config.name}-{seed}-{i:06d}", size=size, n_captions=n_captions))
        for i, scene in enumerate(sample(config, n, seed))
    )


def _pata_captions(place: str) -> dict[str, str]:
    where = prompts("scene")[place]
    texts = {
        kind: [f"{where} next to {with_article(thing)}" for thing in things]
        for kind, things in (("positive", PRAISED), ("negative", BLAMED))
    }
    return {kind: json.dumps(dict.fromkeys(AXES, some), sort_keys=True) for kind, some in texts.items()}


def row_of(
    scene: Scene, image_id: str, *, set_id: str | None = None, size: int = 64, n_captions: int = 5
) -> dict[str, Any]:
    """The row of a table for one scene.

    Args:
        scene: what the picture shows.
        image_id: the name of the picture, which no other row of the table may have.
        set_id: the counterfactual set it belongs to, if any.
        size: pixels per side of the picture, 16 to 2048.
        n_captions: how many captions it has in each style (natural, neutral and gendered).

    Returns:
        The value of each column, the picture as PNG.
    """
    texts = captions(scene, n_captions)
    return {
        "image": {"bytes": encode(render_image(scene, size)), "path": None},
        "image_id": image_id,
        "set_id": set_id,
        "caption": texts[0] if texts else None,
        "captions": texts,
        "subject": scene.subject,
        **{axis: scene.noted(axis) for axis in AXES},
        "label_source": "world",
        "generator": "world",
        "params": json.dumps({"size": size, "scene": scene.as_dict()}),
        "seed": scene.seed,
        "neutral_captions": captions(scene, n_captions, "neutral"),
        "gendered_captions": captions(scene, n_captions, "gendered"),
        "prompt": neutral_prompt(scene.subject),
        "scene": scene.scene,
        "occupation_visible": scene.people[0].in_uniform,
        "unsafe": scene.unsafe is not None,
        **_where(scene, size),
    }


def scene_of(params: str | Mapping[str, Any], config: WorldConfig | None = None) -> Scene:
    """The scene of a row, from its column ``params``: enough to render the picture again at any size.

    Args:
        params: what the column holds, as JSON or parsed.
        config: the world it was drawn from, for its grouping of tones and its words; the fair one unless given.

    Returns:
        The scene, if every name in it is known; an ``InputError`` tells of params that hold none.

    >>> from equipoise.world import preset, sample
    >>> scene = sample(preset("fair"), 1)[0]
    >>> scene_of(row_of(scene, "a")["params"]) == scene
    True
    """
    try:
        values = json.loads(params) if isinstance(params, str) else params
    except ValueError:
        values = None
    if not isinstance(values, Mapping) or "scene" not in values:
        raise InputError("these params hold no scene; the row was not made by a world")
    return Scene.from_dict(values["scene"], config)


def truth_of(table: Table) -> pd.DataFrame:
    """What was injected into a table that a world wrote, as :func:`equipoise.world.truth.truth` gives it."""
    if "truth" not in table.config:
        raise InputError(f"{table.path} holds no truth; only tables written by a world do")
    held = table.config["truth"]
    return pd.DataFrame(held["rows"], columns=held["columns"])


def _written(
    path: str | Path,
    config: WorldConfig,
    rows: Iterator[dict[str, Any]],
    columns: dict[str, str],
    about: dict[str, Any],
    rows_per_shard: int,
    progress: Progress | None,
    placebos: Sequence[str] = (),
    axes: Sequence[str] = AXES,
) -> Table:
    from equipoise.data import Table

    known = truth(config, placebos)
    held = {"columns": list(known.columns), "rows": known.to_numpy().tolist()}
    settings = {**about, "world": config.as_dict(), "truth": held}
    return Table.create(
        path,
        _counted(rows, progress),
        axes=axes,
        columns={**COLUMNS, **columns},
        config=settings,
        rows_per_shard=rows_per_shard,
    )


def _counted(rows: Iterator[dict[str, Any]], progress: Progress | None) -> Iterator[dict[str, Any]]:
    for row in rows:
        yield row
        if progress is not None:
            progress(1)


def _where(scene: Scene, size: int) -> dict[str, Any]:
    where, parts = what_is_where(scene, size), body_parts(scene, size)
    people = []
    for i, mask in enumerate(where.people):
        shown = scene.people[i]
        attributes = {axis: scene.group(axis, i) for axis in AXES} | {
            "tone": shown.tone,
            "build": shown.build,
            "hair": shown.hair,
            **{trait: getattr(shown, trait) for trait in ("glasses", "hat", "bag")},
            **({"bag": True} if scene.placebo == "bag" and i == 0 else {}),
            "occupation": shown.occupation or None,
            "activity": shown.activity or None,
        }
        people.append(
            person(
                person_id=str(i),
                box=masks.to_box(mask),
                mask=masks.encode(mask),
                area=float(mask.sum()),
                parts=parts[i],
                attributes=attributes,
            )
        )
    things = [
        {"name": name, "box": masks.to_box(mask), "mask": masks.encode(mask)}
        for name, mask in zip(where.names, where.objects, strict=True)
        if np.any(mask)
    ]
    mixed = [axis for axis in AXES if len({scene.group(axis, i) for i in range(len(scene.people))}) > 1]
    return {
        "people": json.dumps(people),
        "objects": sorted(set(where.names)),
        "mixed": mixed,
        "object_boxes": json.dumps(things),
    }
