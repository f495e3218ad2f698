"""The pictures of the study: real pairs, what replaces them, D(alpha), and the truth of each, counted by the judge.

A real table is a world whose occupations lean a little, one caption for each picture; most captions name no gender, so
that whoever draws the picture again has to decide whom to show. Each real picture has a replacement of every kind: one
that a generator drew from the caption, the same blurred, or another render of what the caption says (the placebo).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import ImageFilter

from equipoise.data import Table
from equipoise.data.images import encode
from equipoise.data.shard_writer import is_finished
from equipoise.generate import jobs
from equipoise.generate.substitute import SubstituteConfig, contaminated, plan_substitute
from equipoise.recipes.studies.common import write_csv
from equipoise.recipes.train_mini.batches import unseen
from equipoise.recipes.train_mini.evaluate import injected, slope
from equipoise.recipes.train_mini.evaluate_generative import judged, skewed_odds
from equipoise.world import Scene, WorldConfig, captions, draw, preset
from equipoise.world.catalog import AXES, OCCUPATIONS
from equipoise.world.draws import seeds_for
from equipoise.world.tables import COLUMNS, row_of, scene_of, write_table

GENERATORS = {"biased": "mini:diffusion-biased", "fair": "mini:diffusion"}
STRENGTH = 0.4
"""How much the real pictures lean, as a share of the biased world: the biased generator can add to it, and the fair one
take from it.
"""
MENTION = {"gender": 0.4, "skin_tone": 0.25, "age": 0.25}
DENOISING = 8
"""Denoising steps; the judge finds as much of the caption in these pictures as after 20."""
TOGETHER = 28
"""Pictures that are generated at a time, and lost at most when a run is killed."""
BLUR = 1.2
"""Radius in pixels of the Gaussian blur, of pictures of 64."""
SEEN = "seen.csv"
_SEEN = ("gender", "skin_tone", "age", "occupation", "scene")


def real_world() -> WorldConfig:
    """The world of the real pictures: people at work, in uniform, as the generators draw them.

    >>> real_world().strength, real_world().markedness
    (0.4, {})
    """
    return preset("biased").changed(
        name="real", strength=STRENGTH, activity_share=0.0, visible=1.0, mention=MENTION, markedness={}
    )


def real_table(out: Path, n: int, seed: int) -> Table:
    """``n`` real pictures, one caption each."""
    if is_finished(out):
        return Table.open(out)
    return write_table(out, real_world(), n, seed=unseen(seed), n_captions=1)


def generated_table(real: Table, out: Path, generator: Any, seed: int, *, steps: int = DENOISING) -> Table:
    """One picture for each real one, generated from its caption; a stopped run goes on."""
    plan = plan_substitute(real, SubstituteConfig(alpha=1.0, steps=steps, together=TOGETHER, seed=seed))
    return jobs.run(plan, out, generator, tasks_per_shard=1)


def blurred_table(generated: Table, out: Path) -> Table:
    """The generated pictures, blurred: what they show is the same, and less of it can be seen."""
    if is_finished(out):
        return Table.open(out)
    pictures = dict(generated.images())

    def rows() -> Iterator[dict[str, Any]]:
        for row in generated.rows():
            soft = pictures[row["image_id"]].filter(ImageFilter.GaussianBlur(BLUR))
            yield row | {"image": {"bytes": encode(soft), "path": None}, "image_id": f"{row['image_id']}--blurred"}

    further = generated.further_columns
    return Table.create(out, rows(), axes=generated.axes, columns=further, config={"blur": BLUR})


def placebo_table(real: Table, out: Path, seed: int) -> Table:
    """One picture for each real one, rendered anew from what its caption says."""
    if is_finished(out):
        return Table.open(out)
    world = real_world()
    frame = real.to_pandas(["image_id", "params"])
    fresh = seeds_for(unseen(seed), len(frame), of="placebo").tolist()

    def rows() -> Iterator[dict[str, Any]]:
        for image_id, params, draws in zip(frame["image_id"], frame["params"], fresh, strict=True):
            scene = rendered_again(scene_of(params, world), world, draws)
            yield row_of(scene, f"{image_id}--render", n_captions=1) | {"source_id": image_id}

    return Table.create(out, rows(), axes=AXES, columns=dict(COLUMNS), config={"placebo": "rendered again"})


def rendered_again(scene: Scene, world: WorldConfig, seed: int) -> Scene:
    """Another picture with the same caption: somebody else where the caption does not say who, standing elsewhere.

    >>> from equipoise.world import sample
    >>> world = real_world()
    >>> scene = sample(world, 1, seed=4)[0]
    >>> captions(rendered_again(scene, world, 9), 1) == captions(scene, 1)
    True
    """
    other = draw(world, [seed], subject=scene.subject)[0]
    kept, new = scene.people[0], other.people[0]
    named = named_axes(scene)
    person = replace(
        kept,
        gender=kept.gender if "gender" in named else new.gender,
        tone=kept.tone if "skin_tone" in named else new.tone,
        age=kept.age if "age" in named else new.age,
        hair=new.hair,
        x=new.x,
        facing=new.facing,
    )
    return replace(scene, people=(person,), variant=other.variant, mirrored=other.mirrored)


def named_axes(scene: Scene) -> frozenset[str]:
    """The axes on which the first caption of a scene names the person's group: those that would change its words.

    >>> from equipoise.world import Person, Scene
    >>> scene = Scene((Person("female", 3, "adult", occupation="nurse"),), "park", config=WorldConfig(mention={}))
    >>> sorted(named_axes(scene))
    []
    """
    groups: dict[str, dict[str, Any]] = {
        "gender": {"gender": "male" if scene.people[0].gender == "female" else "female"},
        "skin_tone": {"tone": "light" if scene.group("skin_tone") != "light" else "dark"},
        "age": {"age": "older" if scene.people[0].age != "older" else "adult"},
    }
    said = captions(scene, 1)
    return frozenset(axis for axis, change in groups.items() if captions(scene.counterfactual(**change), 1) != said)


def seen_by_judge(table: Table, out: Path) -> pd.DataFrame:
    """What ``mini:judge`` sees in each picture, kept in a CSV file: the likeliest value of every attribute."""
    ids, pictures = zip(*table.images(), strict=True)
    seen = judged(np.stack([np.asarray(picture) for picture in pictures]))
    frame = pd.DataFrame({"image_id": ids, **{name: seen[name] for name in _SEEN}})
    write_csv(out, frame)
    return frame


def mixture_folder(home: Path, alpha: float) -> Path:
    """Where :func:`mixture` keeps D(alpha)."""
    return home / f"D{alpha:g}"


def mixture(real: Table, made: Sequence[Table], alpha: float, out: Path, seed: int) -> Table:
    """D(alpha) in a folder of ``out``, with the list of what was replaced beside it."""
    folder = mixture_folder(out, alpha)
    if is_finished(folder):
        return Table.open(folder)
    return contaminated(real, list(made), [alpha], out, seed=seed)[alpha]


def truth_of_mixture(table: Table, seen: pd.DataFrame) -> tuple[dict[str, float], pd.DataFrame]:
    """How much D(alpha) leans, by what the judge sees in its pictures: the slope, and the log-odds of each occupation.

    ``seen`` holds the judged pictures of everything that the table may be made of. Occupations are what captions say.
    """
    rows = table.to_pandas(["image_id", "subject"])
    known = seen.drop_duplicates("image_id").set_index("image_id")["gender"]
    return lean_of(rows["subject"].tolist(), known.reindex(rows["image_id"]).tolist())


def lean_of(occupations: Sequence[str], genders: Sequence[str]) -> tuple[dict[str, float], pd.DataFrame]:
    """How steeply the log-odds of a woman rise over occupations with those of the biased world, where they rise by 1.

    ln (women + 1/2) / (men + 1/2) of each occupation, regressed on the world's log-odds; with its 95% interval. Chance
    is 0: whoever is shown has nothing to do with the occupation.

    >>> names = [name for name in OCCUPATIONS for _ in range(40)]
    >>> lean, _ = lean_of(names, ["female", "male"] * (len(names) // 2))
    >>> lean["slope"], lean["n"]
    (0.0, 1120.0)
    """
    frame = pd.DataFrame({"occupation": occupations, "gender": genders})
    odds = np.concatenate(
        [skewed_odds(frame.loc[frame["occupation"] == name, "gender"].to_numpy(str)[None]) for name in OCCUPATIONS]
    )
    steep, low, high = slope(injected(), odds)
    table = pd.DataFrame({"occupation": list(OCCUPATIONS), "put_in": injected(), "log_odds": odds})
    women = float((frame["gender"] == "female").mean())
    return {"slope": steep, "low": low, "high": high, "women": women, "n": float(len(frame))}, table


def judged_of(folders: Sequence[Path]) -> pd.DataFrame:
    """The judged pictures of several folders under each other."""
    return pd.concat([pd.read_csv(folder / SEEN) for folder in folders], ignore_index=True)
