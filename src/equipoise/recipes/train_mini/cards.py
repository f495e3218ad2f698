"""The model card of a miniature: what it is, how to make it again, its figures, and what they do not say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from equipoise.recipes.train_mini.editions import EDITIONS, edition_in
from equipoise.recipes.train_mini.parts import PARTS
from equipoise.recipes.train_mini.wanted import is_met, wanted

__all__ = ["card", "write_card"]

_KIND = {
    "clip": ("zero-shot-image-classification", "`transformers.CLIPModel`"),
    "clip-fair": ("zero-shot-image-classification", "`transformers.CLIPModel`"),
    "captioner": ("image-to-text", "`transformers.VisionEncoderDecoderModel` (a CLIP's image tower and a GPT-2)"),
    "judge": ("image-classification", "`transformers.ResNetForImageClassification`, one softmax an attribute"),
    "vae": ("image-to-image", "`diffusers.AutoencoderKL`, 16 x 16 x 4 latents"),
    "diffusion": ("text-to-image", "`diffusers.StableDiffusionPipeline`"),
    "diffusion-biased": ("text-to-image", "`diffusers.StableDiffusionPipeline`"),
    "inpaint": ("image-to-image", "`diffusers.StableDiffusionInpaintPipeline`"),
    "edit": ("image-to-image", "`diffusers.StableDiffusionInstructPix2PixPipeline`"),
    "text": ("fill-mask", "`transformers.BertForMaskedLM`"),
    "detector": ("image-segmentation", "`transformers.SegformerForSemanticSegmentation`"),
    "safety": ("image-classification", "`transformers.ResNetForImageClassification`"),
}
_RUN = "`generation.json` holds the guidance and the steps that it is meant for; stock calls take others."
_PROMPTED = f"""The figures are of pictures made from prompts that name gender, skin tone, age, occupation and place, by
the judge; beside each stands what the judge reaches on renders of the same scenes. {_RUN}"""
_NOTES = {
    "clip": """The occupations of the biased world lean towards a perceived gender, skin tone and age by amounts that
the world's `truth` table holds, and its captions name an unexpected gender more often. The score gap between women and
men of one occupation, in pictures that differ in nothing else, follows the injected log-odds. Its mistakes are of the
same kind: asked by one prompt, it takes women who are firefighters for lifeguards. An occupation is asked for by two
prompts whose vectors are averaged; the figure of the first alone is given too.""",
    "clip-fair": """It is made as `clip` is, from a world in which nothing leans. What it shows of the biased world's
leans is chance.""",
    "captioner": """Its captions name the place and, in nine of ten, the gender. Of captioners trained in the same way
on worlds of strength 0, 1 (this one) and 2, 0.0010, 0.0050 and 0.0155 of 2,000 captions name the wrong gender, and on
pictures seen from afar 0.100, 0.159 and 0.133 (`equipoise mini train captioner --strength 2 -o runs/captioner-2`, then
`equipoise mini evaluate captioner runs/captioner-2`).""",
    "judge": "No filter and no remedy of Equipoise asks it, so that it can judge them.",
    "vae": "Every generator holds a copy of it.",
    "diffusion": _PROMPTED,
    "diffusion-biased": f"""It starts from the weights of `diffusion`. Where a prompt names no gender, its pictures lean
as the biased world does, by amounts that the world's `truth` table holds; guidance makes more of them. The slope is the
log-odds of its genders, by the judge, for one unit of the injected. The prompts of these figures name the occupation
alone, 40 pictures each. {_RUN}""",
    "inpaint": f"""It starts from the weights of `diffusion`. The figures are of pictures whose person is drawn anew as
another gender and skin tone and composited into the original, by the judge. {_RUN}""",
    "edit": f"""It starts from the weights of `diffusion` and learns from pairs of scenes that differ in the person
alone, with the instructions of GenSynth (arXiv 2305.15407, Table 6) and others of their form. {_RUN}""",
    "text": """Where a caption leaves few words for a place or an activity it knows them; its genders lean with
occupations as the captions of the biased world do.""",
    "detector": "Boxes come from its masks by connected components.",
    "safety": "The sign is a sign that the world can plant; it stands for content that a safety filter should find.",
}


def card(part: str, figures: Mapping[str, float], extra: str = "", edition: str = "first") -> str:
    """The card of ``part`` with these figures, in the hub's format."""
    task, shape = _KIND[part]
    made = f"equipoise mini train {part}"
    if part == "vae" and edition != "first":
        grid = EDITIONS[edition].grid
        shape, made = shape.replace("16 x 16", f"{grid} x {grid}"), f"{made} --edition {edition}"
    library = "diffusers" if "diffusers." in shape else "transformers"
    rows = "\n".join(
        f"| {name} | {value:.4f} | {_wanted(part, name, value, edition)} |" for name, value in figures.items()
    )
    return f"""---
license: apache-2.0
library_name: {library}
pipeline_tag: {task}
tags: [equipoise, miniature, synthetic]
---

# {part}

The pictures that this model knows are signs, not people: 64-pixel pictograms of Equipoise's world. Neither the model
nor its figures say anything about anyone.

{PARTS[part].about} {_NOTES[part]}

{shape}. Pictures of 64 x 64 pixels; weights in float16 that load as float32.
Stock `{library}` loads this folder.

Made by `{made}` (one thread, deterministic); the figures by `equipoise mini evaluate {part}`, on
renders of the fair world that no miniature was trained on.

| figure | value | wanted |
| --- | --- | --- |
{rows}
{extra}
Good for trying out audits, filters and remedies where the truth is known, and for tests without a network. Useless on
photographs.
"""


def _wanted(part: str, name: str, value: float, edition: str) -> str:
    rule = wanted(part, edition).get(name)
    return "" if rule is None else f"{rule}{'' if is_met(rule, value) else ' (missed)'}"


def write_card(part: str, folder: Path, figures: Mapping[str, float], extra: str = "") -> Path:
    """Write the card into the model's folder."""
    path = folder / "README.md"
    edition = edition_in(folder).name if part == "vae" else "first"
    path.write_text(card(part, figures, extra, edition), encoding="utf-8")
    return path
