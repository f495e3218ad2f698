"""The model card of a miniature: what it is, how to make it again, its figures, and what they do not say.

Save a miniature so that stock ``transformers`` or ``diffusers`` loads it with no code of ours: half-size weights,
full-size use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.data.atomic import write_whole
from equipoise.models.diffusers.folders import GENERATION
from equipoise.recipes.train_mini.batches import MEAN, SIZE, STD
from equipoise.recipes.train_mini.editions import EDITIONS, edition_in
from equipoise.recipes.train_mini.parts import PARTS, is_met, wanted


def save_transformers(
    model: Any,
    target: Path,
    *,
    tokenizer: Any = None,
    mean: float = MEAN,
    std: float = STD,
    size: int = SIZE,
    processor: str = "clip",
) -> None:
    """Write weights (float16 safetensors), config, tokenizer and image processor to ``target``."""
    save_language_model(model, target, tokenizer=tokenizer)
    _image_processor(processor, mean, std, size).save_pretrained(target)


def save_language_model(model: Any, target: Path, *, tokenizer: Any = None) -> None:
    """Write weights (float16 safetensors), config and tokenizer to ``target``."""
    target.mkdir(parents=True, exist_ok=True)
    _half(model).save_pretrained(target)
    _load_as_float32(target / "config.json")
    if tokenizer is not None:
        tokenizer.save_pretrained(target)


def save_autoencoder(model: Any, target: Path) -> None:
    """Write a ``diffusers`` model to ``target``, which loads as float32."""
    target.mkdir(parents=True, exist_ok=True)
    _half(model).save_pretrained(target)
    _forget_where_it_was(target)


def save_pipeline(
    pipeline_class: str, target: Path, *, parts: Mapping[str, Any], generation: Mapping[str, float]
) -> None:
    """Write a Stable Diffusion pipeline of ``parts`` (vae, text_encoder, tokenizer, unet, scheduler) to ``target``.

    ``generation`` holds the guidance and the steps that it is meant to be used with.
    """
    import diffusers
    import torch

    halves = {name: _half(part) if isinstance(part, torch.nn.Module) else part for name, part in parts.items()}
    pipeline = getattr(diffusers, pipeline_class)(
        **halves, safety_checker=None, feature_extractor=None, requires_safety_checker=False
    )
    target.mkdir(parents=True, exist_ok=True)
    pipeline.save_pretrained(target)
    _load_as_float32(target / "text_encoder" / "config.json")
    _forget_where_it_was(target)
    (target / GENERATION).write_text(json.dumps(dict(generation), indent=2) + "\n", encoding="utf-8")


def _half(model: Any) -> Any:
    import copy

    import torch

    # Module's own method: that of diffusers warns of parts that it would rather keep, and these models have none.
    return torch.nn.Module.to(copy.deepcopy(model), torch.float16)


def _forget_where_it_was(folder: Path) -> None:
    """Take the path that a part was loaded from out of the settings."""
    for path in sorted(folder.rglob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and content.pop("_name_or_path", None) is not None:
            path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _load_as_float32(path: Path) -> None:
    # Half-size weights would otherwise load as float16, which crawls or fails on a CPU.
    config = json.loads(path.read_text(encoding="utf-8"))

    def say_float32(part: Any) -> None:
        if isinstance(part, dict):
            part.pop("_name_or_path", None)  # the folder of whoever trained it is nobody's business
            if "dtype" in part or "torch_dtype" in part or "model_type" in part:
                part.pop("torch_dtype", None)
                part["dtype"] = "float32"
            for value in part.values():
                say_float32(value)

    say_float32(config)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _image_processor(kind: str, mean: float, std: float, size: int) -> Any:
    values = {"image_mean": [mean] * 3, "image_std": [std] * 3}
    if kind == "clip":
        from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

        return CLIPImageProcessorPil(
            size={"shortest_edge": size}, crop_size={"height": size, "width": size}, do_convert_rgb=True, **values
        )
    if kind == "segformer":
        from transformers.models.segformer.image_processing_pil_segformer import SegformerImageProcessorPil

        return SegformerImageProcessorPil(size={"height": size, "width": size}, do_reduce_labels=False, **values)
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    return ViTImageProcessorPil(size={"height": size, "width": size}, do_convert_rgb=True, **values)


_KIND = {
    "clip": ("zero-shot-image-classification", "`transformers.CLIPModel`"),
    "clip-fair": ("zero-shot-image-classification", "`transformers.CLIPModel`"),
    "clip-binding": ("zero-shot-image-classification", "`transformers.CLIPModel`"),
    "captioner": ("image-to-text", "`transformers.VisionEncoderDecoderModel` (a CLIP's image tower and a GPT-2)"),
    "dcg": ("image-text-to-text", "`transformers.EncoderDecoderModel` (a ViLT and a GPT-2)"),
    "judge": ("image-classification", "`transformers.ResNetForImageClassification`, one softmax per attribute"),
    "vae": ("image-to-image", "`diffusers.AutoencoderKL`, 32 x 32 x 4 latents"),
    "diffusion": ("text-to-image", "`diffusers.StableDiffusionPipeline`"),
    "diffusion-biased": ("text-to-image", "`diffusers.StableDiffusionPipeline`"),
    "inpaint": ("image-to-image", "`diffusers.StableDiffusionInpaintPipeline`"),
    "edit": ("image-to-image", "`diffusers.StableDiffusionInstructPix2PixPipeline`"),
    "text": ("fill-mask", "`transformers.BertForMaskedLM`"),
    "detector": ("image-segmentation", "`transformers.SegformerForSemanticSegmentation`"),
    "safety": ("image-classification", "`transformers.ResNetForImageClassification`"),
}
_RUN = "`generation.json` holds the guidance and the steps that it is meant for; stock calls take others."
_PROMPTED = f"""The figures are of pictures made from prompts that name gender, skin tone, age, occupation and place,
according to the judge; beside each stands what the judge reaches on renders of the same scenes. {_RUN}"""
_NOTES = {
    "clip": """The occupations of the biased world lean towards a perceived gender, skin tone and age by amounts that
the world's `truth` table holds, and its captions name an unexpected gender more often. The score gap between women and
men of one occupation, in pictures that differ in nothing else, follows the injected log-odds. Its mistakes are of the
same kind: asked with one prompt, it takes women who are firefighters for lifeguards. An occupation is asked for with
two prompts whose vectors are averaged; the figure of the first alone is given too.""",
    "clip-fair": """It is made as `clip` is, from a world in which nothing leans. What it shows of the biased world's
leans is chance.""",
    "clip-binding": """It goes on from `clip-fair` with the world `binding`. In its pictures of two people nothing
leans, but captions give the activity to the person it is expected of, by odds that the world's `truth` table holds
(kind `binding`). The gap is the score of "a woman is ... and a man is in the scene" less that of the reverse, over
pictures of both; it is set against the injected log-odds of 18 activities. The control is `clip-fair`. Each caption
was learnt against the same caption with the two people exchanged.""",
    "captioner": """Its captions name the place and, in nine of ten, the gender. Of captioners trained in the same way
on worlds of strength 0, 1 (this one) and 2, 0.0010, 0.0050 and 0.0155 of 2,000 captions name the wrong gender, and on
pictures seen from afar 0.100, 0.159 and 0.133 (`equipoise mini train captioner --strength 2 -o runs/captioner-2`, then
`equipoise mini evaluate captioner runs/captioner-2`).""",
    "dcg": """It turns a biased caption and its picture back into the original, as LIBRA's debiasing caption generator
(Hirota et al., CVPR 2023). It starts from the image tower of `clip-fair` and the language model of `captioner`; a fifth
of the words that it reads are hidden. Every fourth picture of its training is grainy. *Corrected* is the share of
captions whose gender, or work, was exchanged for another and comes back right; *left alone* that of faultless captions
whose gender and work stay. `decoder` holds the tokenizer of what it writes.""",
    "judge": "No filter and no remedy of Equipoise asks it, so that it can judge them.",
    "vae": "Every generator holds a copy of it.",
    "diffusion": f"""It was trained on a coarser grid first, which became its inner levels. {_PROMPTED}""",
    "diffusion-biased": f"""It starts from the weights of `diffusion`, plus what one of a coarser grid had
learnt. Where a prompt names no gender, its pictures lean as the biased world does, by amounts that the world's `truth`
table holds; guidance amplifies them. The slope is the log-odds of its genders, according to the judge, for one unit of
the injected. The prompts of these figures name only the occupation, 80 pictures each. {_RUN}""",
    "inpaint": f"""It starts from the weights of `diffusion`, plus what one of a coarser grid had learnt. The
figures are of pictures whose person is drawn anew as another gender and skin tone and composited into the original,
according to the judge; those worded for photographs are of prompts as `equipoise generate inpaint` makes them.
{_RUN}""",
    "edit": f"""It starts from the weights of `diffusion` after 1,100 of its steps, plus what one of a coarser grid had
learnt. Its lessons were pairs of scenes that differ only in the person, whole and by the person's box, with the
instructions of GenSynth (arXiv 2305.15407, Table 6) and others of their form. {_RUN}""",
    "text": """Where a caption leaves few words for a place or an activity it knows them; its genders lean with
occupations as the captions of the biased world do.""",
    "detector": """Boxes come from its masks by connected components. A head is part of its person (`part_of` in
`config.json`): where a pixel shows a head, the person's mask has it too. It was trained without heads, then learnt them
(`--start runs/detector --steps 250`).""",
    "safety": "The sign is a sign that the world can plant; it stands for content that a safety filter should find.",
}


def card(part: str, figures: Mapping[str, float], extra: str = "", edition: str = "second") -> str:
    """The card of ``part`` with these figures, in the hub's format."""
    task, shape = _KIND[part]
    command = f"equipoise mini train {part}"
    if part == "vae" and edition != "second":
        grid = EDITIONS[edition].grid
        shape, command = shape.replace("32 x 32", f"{grid} x {grid}"), f"{command} --edition {edition}"
    library = "diffusers" if "diffusers." in shape else "transformers"
    rows = "\n".join(f"| {name} | {value:.4f} | {_wanted(part, name, value)} |" for name, value in figures.items())
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

Made by `{command}` (one thread, deterministic); the figures by `equipoise mini evaluate {part}`, on
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
    edition = edition_in(folder).name if part == "vae" else "second"
    write_whole(path, card(part, figures, extra, edition).encode())
    return path
