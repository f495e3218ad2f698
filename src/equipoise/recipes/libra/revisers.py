"""The revisers that the study compares: one editor that has seen no biased caption, taught on by pairs of many kinds.

All begin from the same editor and learn for the same number of steps, so that their rows differ by the pairs alone. The
pairs of a seed are found once; a mix takes its share of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.images import encode
from equipoise.mitigate.libra import CaptionPair, SynthesisSettings, fit_reviser, mixed, pairs_in, synthesise
from equipoise.mitigate.libra.baselines import perturbed_pairs, unchanged_pairs
from equipoise.mitigate.libra.synthesis import PAIRS, filler_named
from equipoise.recipes.demo_parts import grainy
from equipoise.recipes.libra.dcg import GRAINY, SYNTHESIS, TRAINING, learning_world, start_folder, world_captions
from equipoise.recipes.studies.frame import StepCost, StudyHome, StudyStep
from equipoise.world import preset, render_image, sample

SEEDS = 3
"""How many: each has other pictures, another reviser, and other words hidden."""
SCENES = 3000
"""Pictures that revisers of the study learn from, five captions each; ``mini:dcg`` has seen 12,000."""
EDITOR_STEPS, STEPS, BATCH = 150, 40, 48
_SCENES_SEED = 500


@dataclass(frozen=True)
class ReviserVariant:
    """A reviser by the pairs that it learns from and how."""

    about: str
    mix: str = "0:1:1"
    """Of the pairs that were found; empty takes all."""
    pool: str = "found"
    """``found`` by the synthesis, ``perturbed`` at random, ``unchanged``, or found without a filter."""
    share: float = 0.2
    """Of the words that are hidden."""


VARIANTS = {
    "libra": ReviserVariant("fill and merged, 1:1, as the paper's"),
    "random": ReviserVariant("words perturbed at random, 15%, no filter", "", pool="perturbed"),
    "editor": ReviserVariant("an editor without biased captions", "", pool="unchanged"),
    "1-1-0": ReviserVariant("without merged: swap and fill", "1:1:0"),
    "1-0-1": ReviserVariant("without fill: swap and merged", "1:0:1"),
    "no-mask": ReviserVariant("no words hidden (eta = 0)", share=0.0),
    "no-margin": ReviserVariant("without the group filter", pool="no-margin"),
    "no-authenticity": ReviserVariant("without the authenticity filter", pool="no-authenticity"),
    "1-2-1": ReviserVariant("swap, fill and merged", "1:2:1"),
}
_UNFILTERED: Mapping[str, Mapping[str, Any]] = {"no-authenticity": {"authenticity": 0.0}, "no-margin": {"margin": -1.0}}


def reviser_steps(name: str, seed: int) -> list[StudyStep]:
    """The pictures and pairs of a variant, and its training from the editor; see :func:`editor_steps`."""
    variant = VARIANTS[name]
    pool = f"pairs-{variant.pool}-{seed}"

    def work(home: StudyHome, out: Path) -> None:
        pairs = read_pairs(home.step(pool) / PAIRS)
        taken = mixed(pairs, variant.mix, seed=seed) if variant.mix else pairs
        _write_pairs(out, taken, {"taken": _by_kind(taken)})
        _fitted(home, out, seed, f"hf:{home.step('editor') / 'run'}", STEPS, variant.share)

    settings = {"mix": variant.mix, "share": variant.share, "seed": seed, "steps": STEPS, "batch": BATCH}
    title = f"A reviser: {variant.about}, seed {seed}"
    needs = (pool, f"scenes-{seed}", "editor")
    own = StudyStep(f"reviser-{name}-{seed}", title, work, settings, needs, True, StepCost(cpu_minutes=0.5))
    return [_scenes(seed), _pairs(variant.pool, seed), own]


def editor_steps(seed: int) -> list[StudyStep]:
    """The editor that all begin from: it has learnt what is hidden of right captions, and nothing of bias."""

    def work(home: StudyHome, out: Path) -> None:
        start = out / "start"
        if not (start / "config.json").is_file():
            start_folder(start, seed=seed)
        _write_pairs(out, read_pairs(home.step(f"pairs-unchanged-{seed}") / PAIRS), {})
        _fitted(home, out, seed, f"hf:{start}", EDITOR_STEPS, 0.2)

    settings = {"steps": EDITOR_STEPS, "batch": BATCH, "seed": seed}
    needs = (f"pairs-unchanged-{seed}", f"scenes-{seed}")
    cost = StepCost(("mini:clip-fair", "mini:captioner"), cpu_minutes=1.4)
    own = StudyStep("editor", "An editor, from which all revisers begin", work, settings, needs, True, cost)
    return [_scenes(seed), _pairs("unchanged", seed), own]


def _fitted(home: StudyHome, out: Path, seed: int, init: str, steps: int, share: float) -> None:
    how = TRAINING | {"steps": steps, "batch": BATCH, "seed": seed, "average": 0.9, "val_share": 0.0}
    pictures = Table.open(home.step(f"scenes-{seed}") / "table")
    fit_reviser(
        pairs_in(out / PAIRS),
        pictures,
        out / "run",
        init=init,
        options={"share": share},
        device="cpu",
        quiet=True,
        **how,
    )


def _scenes(seed: int) -> StudyStep:
    def work(home: StudyHome, out: Path) -> None:
        def rows() -> Any:
            scenes = sample(learning_world(preset("biased")), SCENES, _SCENES_SEED + seed)
            for number, scene in enumerate(scenes):
                picture = render_image(scene)
                if number % GRAINY == 0:
                    (picture,) = grainy([picture], seed=number)
                yield {"image": encode(picture), "image_id": f"{number:06d}"}

        Table.create(out / "table", rows())

    title = f"Pictures that revisers learn from, seed {seed}"
    cost = StepCost(images=SCENES, cpu_minutes=0.3, disk_gb=0.03)
    return StudyStep(f"scenes-{seed}", title, work, {"n": SCENES, "grainy": GRAINY}, (), False, cost)


def _pairs(pool: str, seed: int) -> StudyStep:
    how = SYNTHESIS.having({"mix": "1:1:1", "seed": seed, "tries": 2, **_UNFILTERED.get(pool, {})})

    def work(home: StudyHome, out: Path) -> None:
        texts, images = world_captions(preset("biased"), SCENES, _SCENES_SEED + seed)
        pairs, counts = _found(pool, texts, images, how)
        _write_pairs(out, pairs, counts)

    title = f"Pairs: {pool}, seed {seed}"
    cost = StepCost(() if pool == "unchanged" else ("mini:text",), cpu_minutes=0.1 if pool == "unchanged" else 0.4)
    return StudyStep(f"pairs-{pool}-{seed}", title, work, {"pool": pool, **how.plain()}, (), False, cost)


def _found(
    pool: str, texts: Sequence[str], images: Sequence[str], how: SynthesisSettings
) -> tuple[Sequence[CaptionPair], dict[str, Any]]:
    if pool == "unchanged":
        return unchanged_pairs(texts, images, how), {}
    if pool == "perturbed":
        return perturbed_pairs(texts, images, how, filler=filler_named(how.filler)), {}
    synthesis = synthesise(texts, images, how, filler=filler_named(how.filler))
    return synthesis.found, synthesis.counts


def _by_kind(pairs: Sequence[CaptionPair]) -> dict[str, int]:
    return {kind: sum(pair.kind == kind for pair in pairs) for kind in dict.fromkeys(pair.kind for pair in pairs)}


def _write_pairs(folder: Path, pairs: Sequence[CaptionPair], counts: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(pair.plain(), ensure_ascii=False) + "\n" for pair in pairs)
    write_whole(folder / PAIRS, "".join(lines).encode())
    write_whole(folder / "counts.json", json.dumps({"found": _by_kind(pairs), **counts}).encode())


def read_pairs(path: Path) -> list[CaptionPair]:
    """The pairs of a file that this study wrote, with all that is known of them."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [CaptionPair(**{**row, "replaced": tuple(map(tuple, row["replaced"]))}) for row in rows]
