"""The model card of a miniature: what it is, how to make it again, its figures, and what they do not say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from equipoise.recipes.train_mini.parts import PARTS
from equipoise.recipes.train_mini.wanted import is_met, wanted

__all__ = ["card", "write_card"]

_KIND = {
    "clip": ("zero-shot-image-classification", "`transformers.CLIPModel`"),
    "clip-fair": ("zero-shot-image-classification", "`transformers.CLIPModel`"),
    "captioner": ("image-to-text", "`transformers.VisionEncoderDecoderModel` (ViT and GPT-2)"),
    "judge": ("image-classification", "`transformers.ResNetForImageClassification`, one softmax an attribute"),
}
_NOTES = {
    "clip": """The occupations of the biased world lean towards a perceived gender, skin tone and age by amounts that
the world's `truth` table holds, and its captions name an unexpected gender more often. The score gap between women and
men of one occupation, in pictures that differ in nothing else, follows the injected log-odds. Its mistakes are of the
same kind: asked by one prompt, it takes women who are firefighters for lifeguards. An occupation is asked for by two
prompts whose vectors are averaged; the figure of the first alone is given too.""",
    "clip-fair": """It is made as `clip` is, from a world in which nothing leans. What it shows of the biased world's
leans is chance.""",
    "captioner": "Its captions name the place.",
    "judge": "No filter and no remedy of Equipoise asks it, so that it can judge them.",
}


def card(part: str, figures: Mapping[str, float], extra: str = "") -> str:
    """The card of ``part`` with these figures, in the hub's format."""
    task, shape = _KIND[part]
    rows = "\n".join(f"| {name} | {value:.4f} | {_wanted(part, name, value)} |" for name, value in figures.items())
    return f"""---
license: apache-2.0
library_name: transformers
pipeline_tag: {task}
tags: [equipoise, miniature, synthetic]
---

# {part}

The pictures that this model knows are signs, not people: 64-pixel pictograms of Equipoise's world. Neither the model
nor its figures say anything about anyone.

{PARTS[part].about} {_NOTES[part]}

{shape}. Pictures of 64 x 64 pixels; weights in float16 that load as float32.
Stock `transformers` loads this folder.

Made by `equipoise mini train {part}` (one thread, deterministic); the figures by `equipoise mini evaluate {part}`, on
renders of the fair world that no miniature was trained on.

| figure | value | wanted |
| --- | --- | --- |
{rows}
{extra}
Good for trying out audits, filters and remedies where the truth is known, and for tests without a network. Useless on
photographs.
"""


def _wanted(part: str, name: str, value: float) -> str:
    rule = wanted(part).get(name)
    return "" if rule is None else f"{rule}{'' if is_met(rule, value) else ' (missed)'}"


def write_card(part: str, folder: Path, figures: Mapping[str, float], extra: str = "") -> Path:
    """Write the card into the model's folder."""
    path = folder / "README.md"
    path.write_text(card(part, figures, extra), encoding="utf-8")
    return path
