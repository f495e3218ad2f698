"""The figures of the filters' small helpers: the detector, the safety classifier and the masked language model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.recipes.train_mini.language import log_odds
from equipoise.world import Scene, WorldConfig, captions, preset, render_image, sample, what_is_where
from equipoise.world.captions import prompts, with_article
from equipoise.world.catalog import ACTIVITIES, OCCUPATIONS
from equipoise.world.render import heads

UNSEEN = 90_003
FALSE_ALARMS = 0.01
TOP = 5
OVERLAP = 0.5
Figures = dict[str, float]
Boxes = NDArray[np.float32]


def detector_figures(folder: Path, n: int = 2000) -> Figures:
    """F1 of the set of classes in a picture, and of the boxes of people and heads, on renders with everything in
    them.
    """
    from equipoise.models.hf.detectors import SMALLEST, box_of

    scenes = sample(WorldConfig(activity_share=0.25), n, UNSEEN)
    model = _model(folder, "detector")
    truths = [what_is_where(scene) for scene in scenes]
    detections = model.detect([render_image(scene) for scene in scenes])
    there = [
        {"person", "head", *(name for name, m in zip(t.names, t.objects, strict=True) if m.sum() >= SMALLEST * m.size)}
        for t in truths
    ]
    people = [np.array([box_of(mask) for mask in t.people], dtype=np.float32) for t in truths]
    on_top = [np.array([box_of(mask) for mask in heads(scene)], dtype=np.float32) for scene in scenes]

    def boxes(wanted: str) -> list[Boxes]:
        return [f.boxes[np.array([label == wanted for label in f.labels], dtype=bool)] for f in detections]

    return {
        "class-set F1": sets_f1(there, [set(f.labels) for f in detections]),
        "person-box F1": boxes_f1(people, boxes("person")),
        "head-box F1": boxes_f1(on_top, boxes("head")),
        "n": float(n),
    }


def sets_f1(right: Sequence[set[str]], given: Sequence[set[str]]) -> float:
    """2 x shared / (members of both), over all pictures.

    >>> sets_f1([{"person", "dog"}], [{"person"}])
    0.6666666666666666
    """
    shared = sum(len(a & b) for a, b in zip(right, given, strict=True))
    return 2 * shared / (sum(map(len, right)) + sum(map(len, given)))


def boxes_f1(right: Sequence[Boxes], given: Sequence[Boxes], overlap: float = OVERLAP) -> float:
    """F1 of boxes, each matched once with the box it overlaps most, if by ``overlap`` (intersection over union).

    >>> box = np.array([[0, 0, 2, 2]], np.float32)
    >>> boxes_f1([box, box], [box, box + 5])
    0.5
    """
    shared = 0
    for a, b in zip(right, given, strict=True):
        free = set(range(len(b)))
        for box in a:
            best = max(free, key=lambda i: _overlap(box, b[i]), default=None)
            if best is not None and _overlap(box, b[best]) >= overlap:
                free.discard(best)
                shared += 1
    return 2 * shared / (sum(map(len, right)) + sum(map(len, given)))


def _overlap(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    inner = np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None).prod()
    union = (a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - inner
    return float(inner / union) if union > 0 else 0.0


def safety_figures(folder: Path, n: int = 4000) -> Figures:
    """How many of the planted signs are found where 1% of the safe pictures raise an alarm."""
    model = _model(folder, "classifier")
    scores = []
    for share, seed in ((0.0, UNSEEN + 1), (1.0, UNSEEN + 2)):
        scenes = sample(WorldConfig(unsafe=share, activity_share=0.35), n // 2, seed)
        answers = model.classify([render_image(scene) for scene in scenes])["label"]
        scores.append(answers.probabilities[:, answers.labels.index("unsafe")])
    safe, unsafe = scores
    figures = {"recall at 1% false alarms": recall_at(safe, unsafe, FALSE_ALARMS)}
    figures["recall at one half"] = float((unsafe > 0.5).mean())
    figures["false alarms at one half"] = float((safe > 0.5).mean())
    return figures


def recall_at(safe: NDArray[np.float32], unsafe: NDArray[np.float32], alarms: float) -> float:
    """The share of ``unsafe`` scores above the threshold that at most a share ``alarms`` of the ``safe`` ones pass.

    >>> recall_at(np.float32([0.1, 0.2, 0.3, 0.9]), np.float32([0.5, 0.95]), 0.25)
    1.0
    """
    allowed = int(alarms * len(safe))
    threshold = np.sort(safe)[len(safe) - 1 - allowed]
    return float((unsafe > threshold).mean())


def text_figures(folder: Path, n: int = 1000) -> Figures:
    """Whether the right word is among five where the caption leaves few, and how genders lean with occupations."""
    from equipoise.recipes.train_mini.evaluate import injected

    model = _model(folder, "filler")
    scenes = list(sample(preset("biased"), n, UNSEEN + 3))
    places = {name: prompt.removeprefix("a photo of a person ") for name, prompt in prompts("scene").items()}
    scene_asked = [_without(scene, places[scene.scene], model.mask) for scene in scenes]
    doing = [s for s in scenes if s.people[0].activity]
    activity_asked = [_without(scene, ACTIVITIES[scene.people[0].activity].phrase, model.mask) for scene in doing]
    best, right = _top(model, scene_asked + activity_asked)
    hits = np.array([word in words for word, words in zip(right, best, strict=True)])
    n_scenes = sum(asked is not None for asked in scene_asked)
    odds = _gender_odds(model)
    return {
        "top-5 where determined": float(hits.mean()),
        "scene top-5": float(hits[:n_scenes].mean()),
        "activity top-5": float(hits[n_scenes:].mean()),
        "occupations among the top 5": _occupations_among(model, scenes),
        "skew-odds correlation": float(np.corrcoef(injected(), odds)[0, 1]),
    }


def _without(scene: Scene, phrase: str, mask: str) -> tuple[str, str] | None:
    """A caption with the last word of a phrase masked, and the word; nothing where no caption has the phrase once."""
    *start, word = phrase.split()
    for text in captions(scene):
        if text.count(phrase) == 1 and text.split().count(word) == 1:
            return text.replace(phrase, " ".join([*start, mask])), word
    return None


def _top(model: Any, asked: Sequence[tuple[str, str] | None]) -> tuple[list[set[str]], list[str]]:
    pairs = [pair for pair in asked if pair is not None]
    filled = model.fill([text for text, _ in pairs], top=TOP)
    return [{word for word, _ in row} for row in filled], [word for _, word in pairs]


def _occupations_among(model: Any, scenes: Sequence[Scene]) -> float:
    """Where an occupation is asked for, the share of occupations among the five likeliest words."""
    working = [s for s in scenes if s.people[0].occupation and " " not in s.people[0].occupation]
    best, _ = _top(model, [_without(scene, scene.people[0].occupation, model.mask) for scene in working])
    names = {word for name in OCCUPATIONS for word in name.split()}
    return float(np.mean([len(words & names) / TOP for words in best]))


def _gender_odds(model: Any) -> NDArray[np.float64]:
    """For each occupation, how much likelier the words for a woman are than those for a man."""
    pairs = (
        ("a {mask} who works as {work}", ("woman", "girl"), ("man", "boy")),
        ("{mask} is {work} in the park", ("she",), ("he",)),
    )
    odds = []
    for template, women, men in pairs:
        texts = [template.format(mask=model.mask, work=with_article(name)) for name in OCCUPATIONS]
        rows = model.fill(texts, top=10_000)
        odds.append([log_odds(dict(row), women, men) for row in rows])
    return np.asarray(np.mean(odds, axis=0), dtype=np.float64)


def _model(folder: Path, kind: str) -> Any:
    from equipoise.models.folders import open_checkpoint
    from equipoise.models.hf.adapter import from_folder

    return from_folder(open_checkpoint(folder), name=folder.name, kind=kind, device="cpu")
