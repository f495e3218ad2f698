"""The figures of the miniatures, on renders no part has seen; model cards hold them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.measure.arrays import unit_rows
from equipoise.models.runtime import quiet
from equipoise.recipes.train_mini.batches import pixels
from equipoise.recipes.train_mini.judge import HEADS, labels_of
from equipoise.text.english.articles import with_article
from equipoise.world import SceneArrays, WorldConfig, draw, neutral_prompt, preset, sample, truth
from equipoise.world.captions import prompts
from equipoise.world.catalog import OCCUPATIONS
from equipoise.world.draws import seeds_for

UNSEEN = 90_001
"""The seed of evaluation scenes; training uses 1, 2 and 3."""
_BATCH = 256
Figures = dict[str, float]
_FIGURES = {
    "judge": "train_mini.evaluate:judge_figures",
    "captioner": "train_mini.evaluate:captioner_figures",
    "clip-binding": "train_mini.binding:binding_figures",
    "dcg": "libra.figures:dcg_figures",
    "vae": "train_mini.evaluate_generative:vae_figures",
    "diffusion": "train_mini.evaluate_generative:diffusion_figures",
    "diffusion-biased": "train_mini.evaluate_generative:biased_figures",
    "inpaint": "train_mini.evaluate_generative:inpaint_figures",
    "edit": "train_mini.evaluate_generative:edit_figures",
    "text": "train_mini.evaluate_helpers:text_figures",
    "detector": "train_mini.evaluate_helpers:detector_figures",
    "safety": "train_mini.evaluate_helpers:safety_figures",
}
"""Of every part but the CLIPs."""


def figures_of(part: str, folder: Path, clip: Path | None = None) -> Figures:
    """The figures of a part in ``folder``; the control's are compared with those of the folder ``clip``."""
    if part in _FIGURES:
        module, function = _FIGURES[part].split(":")
        figures: Figures = getattr(import_module(f"equipoise.recipes.{module}"), function)(folder)
        return figures
    figures = clip_figures(folder)
    if part == "clip-fair" and clip is not None and (clip / "config.json").is_file():
        biased, _, _ = slope(injected(), gender_gaps(ClipFolder(clip)))
        figures["gap-odds slope over clip's"] = abs(figures["gap-odds slope"] / biased)
    return figures


def judge_figures(folder: Path, n: int = 4000) -> Figures:
    """Accuracy of every head, and of single objects, on held-out renders of the fair world."""
    import torch
    from transformers import AutoModelForImageClassification

    with quiet():
        model = AutoModelForImageClassification.from_pretrained(folder).eval()
    scenes = sample(WorldConfig(activity_share=0.35, visible=1.0), n, UNSEEN)
    with torch.no_grad():
        logits = np.concatenate([model(pixel_values=pixels(part)).logits.numpy() for part in _parts(scenes)])
    values, objects = labels_of(scenes)
    figures, start = {}, 0
    for head, names in HEADS.items():
        chosen = logits[:, start : start + len(names)].argmax(axis=1)
        figures[head] = float((chosen == values[head]).mean())
        start += len(names)
    figures["objects"] = float(((logits[:, start:] > 0) == (objects > 0.5)).mean())
    return figures


def clip_figures(folder: Path, n: int = 3000) -> Figures:
    """Zero-shot accuracy on unbiased renders, and how the score gap of occupations follows the injected log-odds.

    An occupation is asked for by two prompts, whose vectors are averaged (Radford 2021, prompt ensembling), and by the
    first of them alone.
    """
    clip = ClipFolder(folder)
    alone = WorldConfig(activity_share=0.0, visible=1.0)
    scenes = sample(alone, n, UNSEEN)
    images = clip.images(scenes)
    values, _ = labels_of(scenes)
    figures = {}
    for axis in ("gender", "skin_tone", "age", "occupation", "scene"):
        asked = prompts(axis)
        right = np.array(HEADS[axis])[values[axis]]

        def share_right(vectors: NDArray[np.float64], names: list[str], right: NDArray[np.str_]) -> float:
            return float((np.array(names)[(images @ vectors.T).argmax(axis=1)] == right).mean())

        vectors = clip.texts(list(asked.values()))
        if axis == "occupation":
            figures["zero-shot occupation, one prompt"] = share_right(vectors, list(asked), right)
            also = clip.texts([f"a photo of a person who works as {with_article(name)}" for name in asked])
            vectors = unit_rows(vectors + also, "prompts")
        figures[f"zero-shot {axis}"] = share_right(vectors, list(asked), right)
    return figures | odds_figures("gap-odds", injected(), gender_gaps(clip))


def injected() -> NDArray[np.float64]:
    """The biased world's log-odds that an occupation's person is a woman, in the order of ``OCCUPATIONS``."""
    table = truth(preset("biased"))
    rows = table[(table["kind"] == "occupation") & (table["axis"] == "gender") & (table["group"] == "female")]
    return rows.set_index("subject")["log_odds"].reindex(list(OCCUPATIONS)).to_numpy(dtype=float)


def gender_gaps(clip: ClipFolder, sets: int = 24) -> NDArray[np.float64]:
    """For each occupation, the mean score of its women less that of its men, in counterfactual pairs."""
    world = WorldConfig(activity_share=0.0, visible=1.0)
    gaps = []
    for i, occupation in enumerate(OCCUPATIONS):
        scenes = draw(world, seeds_for(UNSEEN + 1 + i, sets), subject=occupation)
        text = clip.texts([neutral_prompt(occupation)])[0]
        scores = {}
        for code, gender in enumerate(("male", "female")):
            columns = scenes.columns | {
                "gender": np.full(sets, code),
                "noted_gender": np.full(sets, code),
            }
            scores[gender] = clip.images(SceneArrays(world, columns)) @ text
        gaps.append(float((scores["female"] - scores["male"]).mean()))
    return np.array(gaps)


def slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float, float]:
    """The slope of y on x with its 95% interval."""
    from scipy import stats

    fit = stats.linregress(x, y)
    half = stats.t.ppf(0.975, len(x) - 2) * fit.stderr
    return float(fit.slope), float(fit.slope - half), float(fit.slope + half)


def odds_figures(name: str, odds: NDArray[np.float64], measured: NDArray[np.float64]) -> Figures:
    """How what was measured follows the log-odds that were put in: the correlation, and the slope with its interval."""
    steep, low, high = slope(odds, measured)
    figures = {f"{name} correlation": float(np.corrcoef(odds, measured)[0, 1])}
    return figures | {f"{name} slope": steep, f"{name} slope low": low, f"{name} slope high": high}


def captioner_figures(folder: Path, n: int = 2000) -> Figures:
    """How often the caption names the occupation and the place of an unbiased render, and how often the wrong gender.

    Error is that of Burns (2018): captions that name another gender, of all captions; a caption that names none is not
    wrong. It is also given for pictures seen from afar (shrunk to 16 pixels and enlarged again): where the figure is
    hard to tell, a captioner says what it expects.
    """
    from equipoise.text import Lexicon

    scenes = sample(WorldConfig(activity_share=0.0, visible=1.0), n, UNSEEN)
    texts = generated(folder, scenes)
    places = {name: p.removeprefix("a photo of a person ") for name, p in prompts("scene").items()}
    said = [
        (scene.people[0].occupation in text, places[scene.scene] in text)
        for scene, text in zip(scenes, texts, strict=True)
    ]
    lexicon = Lexicon.load("equipoise")
    genders = scenes.labels("gender")

    def named_and_wrong(captions: list[str]) -> tuple[float, float]:
        labels = lexicon.label_all(captions)
        wrong = [label is not None and label != gender for label, gender in zip(labels, genders, strict=True)]
        return float(np.mean([label is not None for label in labels])), float(np.mean(wrong))

    named, wrong = named_and_wrong(texts)
    named_afar, wrong_afar = named_and_wrong(generated(folder, scenes, seen_at=16))
    return {
        "occupation": float(np.mean([o for o, _ in said])),
        "scene": float(np.mean([s for _, s in said])),
        "both": float(np.mean([o and s for o, s in said])),
        "gender named": named,
        "gender Error": wrong,
        "gender named from afar": named_afar,
        "gender Error from afar": wrong_afar,
    }


def generated(folder: Path, scenes: SceneArrays, seen_at: int | None = None) -> list[str]:
    """The captions of stock greedy decoding, of pictures as they are or shrunk to ``seen_at`` pixels."""
    import torch
    from transformers import AutoTokenizer, VisionEncoderDecoderModel

    with quiet():
        model = VisionEncoderDecoderModel.from_pretrained(folder).eval()
        words = AutoTokenizer.from_pretrained(folder)
    texts: list[str] = []
    with torch.no_grad():
        for part in _parts(scenes):
            shown = pixels(part) if seen_at is None else _from_afar(pixels(part), seen_at)
            ids = model.generate(shown, do_sample=False, num_beams=1)
            texts += words.batch_decode(ids, skip_special_tokens=True)
    return texts


def _from_afar(shown: Any, size: int) -> Any:
    from torch.nn.functional import adaptive_avg_pool2d, interpolate

    small = adaptive_avg_pool2d(shown, size)
    return interpolate(small, size=shown.shape[-2:], mode="bicubic", align_corners=False)


class ClipFolder:
    """A CLIP folder, asked for unit vectors."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer, CLIPModel

        with quiet():
            self.model: Any = CLIPModel.from_pretrained(folder).eval()
            self.words: Any = AutoTokenizer.from_pretrained(folder)

    def images(self, scenes: SceneArrays) -> NDArray[np.float64]:
        """Of the pictures of scenes."""
        return np.concatenate([self.of_pixels(pixels(part)) for part in _parts(scenes)])

    def of_pixels(self, shown: Any) -> NDArray[np.float64]:
        """Of pictures as the model sees them."""
        import torch

        with torch.no_grad():
            return _unit(self.model.get_image_features(shown))

    def texts(self, texts: list[str]) -> NDArray[np.float64]:
        """Of texts."""
        import torch

        with torch.no_grad():
            return _unit(self.model.get_text_features(**self.words(texts, padding=True, return_tensors="pt")))


def _unit(vectors: Any) -> NDArray[np.float64]:
    return unit_rows(getattr(vectors, "pooler_output", vectors), "vectors")


def _parts(scenes: SceneArrays) -> Iterator[SceneArrays]:
    for start in range(0, len(scenes), _BATCH):
        yield scenes[start : start + _BATCH]
