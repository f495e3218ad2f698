"""Captioners of the study: trained on the same sets, asked about whole, masked and redrawn test photographs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.audit.captions.run import audit_captions
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.measure.captions.mentions import Mentions
from equipoise.measure.captions.ratio import ratio
from equipoise.measure.classify import artefact_delta
from equipoise.measure.groups import Groups
from equipoise.measure.stats.estimate import Estimate
from equipoise.recipes.inpainting.arms import EVERY_ARM
from equipoise.recipes.inpainting.photographs import set_of
from equipoise.recipes.studies.caption_files import HUMAN, read_lines
from equipoise.text import Lexicon
from equipoise.train import fit

INIT, ENCODER, LEXICON = "mini:captioner", "mini:clip-fair", "equipoise"
LEXICONS = {"gender": LEXICON, "skin_tone": "skin_tone"}
"""Whose words are hidden from the classifier of LIC, by axis."""


def train_captioner_arm(arm: str, sets: Path, out: Path, steps: int, seed: int) -> None:
    """Train the miniature captioner on the set of an arm."""
    table = set_of(EVERY_ARM[arm], sets)
    settings: dict[str, Any] = {"steps": steps, "batch": 32, "rate": 5e-4, "val_share": 0.0, "seed": seed}
    fit("captioner", table, out, init=INIT, options={"caption": HUMAN}, quiet=True, **settings)


def captions_in(path: Path) -> dict[str, str]:
    """Captions by image."""
    return {row["image_id"]: row["caption"] for row in read_lines(path)}


def audit_of(captions: Path, people: Path, images: Path, out: Path, seed: int, axis: str = "gender") -> None:
    """LIC by ``axis``, quality and CLIPScore of the captions of whole pictures."""
    settings = CaptionSettings(lexicon=LEXICONS[axis], permutations=20, ba_least=20, seeds=5, seed=seed)
    audit_captions([f"captions={captions}"], people, axis, out, images=images, encoder=ENCODER, settings=settings)


def caption_ratio(path: Path, pair: tuple[str, str]) -> Any:
    """Captions of masked pictures that name ``pair[0]`` over those that name ``pair[1]``, folded."""
    said = Mentions.of(captions_in(path).values(), LEXICON)
    return ratio(said, pair, convention="folded").estimate


def caption_delta(before: Path, after: Path, sources: Mapping[str, str], pair: tuple[str, str]) -> Estimate:
    """The artefact test on captions: which group they name before and after a body part was drawn anew."""
    lexicon = Lexicon.load(LEXICON)
    whole, redrawn = captions_in(before), captions_in(after)

    def group(text: str) -> str | None:
        groups = lexicon.groups_in(text) & set(pair)
        return next(iter(groups)) if len(groups) == 1 else None

    twins = [(whole[sources[name]], text) for name, text in redrawn.items()]
    named: list[Any] = [[group(texts[side]) for texts in twins] for side in (0, 1)]
    first, second = (Groups.from_values(some, list(pair)) for some in named)
    return artefact_delta(first, second, pair)
