"""The demonstration's made pictures: counterfactual sets by the miniature generator, and what the sieve leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.filters import FilterRun, Means, Step
from equipoise.filters import run as sieve
from equipoise.generate import SetsConfig, plan_sets, run, world_sets
from equipoise.models import load
from equipoise.world import WorldConfig, prompts

__all__ = ["GeneratedFound", "make_and_sieve"]

AXES = ("gender", "skin_tone")
SEES_WITH = "mini:clip-fair"
LEAST = 0.9
"""The share of a set's pictures that the sieve must recognise."""


@dataclass(frozen=True)
class GeneratedFound:
    """What was made and what stayed; all ``None`` where there was no generator."""

    table: Table | None = None
    sieve: FilterRun | None = None
    kept: Table | None = None
    """The table with the sieve's layer; ``None`` if nothing stayed."""


def make_and_sieve(
    folder: Path, generator: Any, *, subjects: int, candidates: int, say: Callable[[str], None]
) -> GeneratedFound:
    """Make ``candidates`` sets of four (two genders, two skin tones) of each of ``subjects``, and put them through the
    sieve: do pictures fit their captions and each other, and does the fair CLIP recognise subject, gender and tone?
    """
    if generator is None:
        say("   left out, as asked.")
        return GeneratedFound()
    try:
        model = load(generator, kind="generator", device="cpu") if isinstance(generator, str) else generator
    except InputError as error:
        say(f"   left out: {error}")
        return GeneratedFound()
    world = WorldConfig(skin_tone={"light": 0.5, "dark": 0.5}, activity_share=0.0, visible=1.0)
    names = sorted(world.occupations)
    chosen = [names[i * len(names) // subjects] for i in range(subjects)]
    captions = world_sets(world, chosen, AXES, seed=79)
    # The miniature was trained for a guidance of 3; the paper's 7.5 to 15 would burn its pictures.
    plan = plan_sets(captions, SetsConfig(candidates=candidates, share=(0.1, 0.9), guidance=(2.0, 4.0), seed=79))
    say(f"   {plan.n_images} pictures by {model.name}: {len(chosen)} occupations x 4 groups x {candidates} candidates")
    table = run(plan, folder / "generated", model, progress=True)
    words = {axis: prompts(axis, world) for axis in AXES}
    detect = {"axes": AXES, "least": LEAST, "subject_least": LEAST, "prompts": words}
    steps = [Step.of("similarity", preset="socialcf"), Step.of("detectability", detect)]
    done = sieve(table, steps, folder / "sieve", means=Means(encoder=SEES_WITH), axes=AXES, draws=499)
    for line in str(done).splitlines():
        say(f"   {line}")
    stays = bool(done.table.to_pandas(["keep"])["keep"].fillna(False).any())
    if not stays:
        say("   nothing stays, so there is nothing to audit.")
    return GeneratedFound(table, done, done.table if stays else None)
