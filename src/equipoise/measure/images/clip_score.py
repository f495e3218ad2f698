"""How well images and texts fit: CLIPScore, RefCLIPScore, prompt adherence, direction of an edit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.errors import InputError
from equipoise.measure.arrays import COSINE_TIE, as_keys, as_matrix, same_length, same_width, unit_rows
from equipoise.measure.metric import metric
from equipoise.measure.stats import summarise
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.shares import ItemScores, share_estimate

CLIPSCORE_WEIGHT = 2.5


@metric(
    "clip_score",
    takes="vectors",
    title="CLIPScore",
    summary="Fit of image and caption.",
    citation="Hessel 2021",
    formula="2.5 max(cos, 0)",
    bounds=(0.0, 2.5),
    direction="higher fits better",
    better="higher",
    chance="none: depends on the encoder",
    when_it_lies="Circular when the judge guided the generator; the judge has biases.",
    unit="score",
)
def clip_score(
    images: Any, texts: Any, *, weight: float = CLIPSCORE_WEIGHT, clusters: Any = None, level: float = 0.95
) -> ItemScores:
    """``weight`` * max(cos(image, text), 0) of pairs (Hessel 2021; ViT-B/32, "A photo depicts ...").

    Range [0, 2.5]; higher fits better. Papers' tables often show it times 100.

    Args:
        images: (n, d) embeddings.
        texts: (n, d) embeddings of the captions, one per image.
        weight: what the cosine is multiplied by; the paper's 2.5 gives the range above.
        clusters: (n,) pairs that are not independent, such as captions of one image.
        level: confidence level of the interval.

    Returns:
        The score of each pair, and their mean.

    >>> clip_score([[1.0, 0.0], [1.0, 0.0]], [[0.6, 0.8], [-1.0, 0.0]]).values.tolist()
    [1.5, 0.0]
    """
    return ItemScores.of(weight * _paired_cosine(images, "images", texts, "texts"), clusters=clusters, level=level)


@metric(
    "ref_clip_score",
    takes="vectors",
    title="RefCLIPScore",
    column="RefCLIPS.",
    summary="Fit of caption to image and references.",
    citation="Hessel 2021",
    formula="harmonic mean of CLIPScore and best max(cos(text, reference), 0)",
    range="[0, 1.43]",
    bounds=(0.0, 10 / 7),
    direction="higher fits better",
    better="higher",
    chance="none",
    when_it_lies="As clip_score.",
    unit="score",
)
def ref_clip_score(
    images: Any,
    texts: Any,
    references: Any,
    reference_of: Any,
    *,
    weight: float = CLIPSCORE_WEIGHT,
    clusters: Any = None,
    level: float = 0.95,
) -> ItemScores:
    """Harmonic mean of CLIPScore and the best max(cos(text, reference), 0) (Hessel 2021).

    A zero on either side gives 0.

    Args:
        images: (n, d) embeddings.
        texts: (n, d) embeddings of the captions, one per image.
        references: (r, d) embeddings of all reference captions.
        reference_of: (r,) which of the n items each belongs to; every item needs at least one.
        weight: of the cosine in CLIPScore, as in :func:`clip_score`.
        clusters: (n,) items that are not independent, such as captions of one image.
        level: confidence level of the interval.

    Returns:
        The score of each item, and their mean.

    >>> one = [[1.0, 0.0]]
    >>> ref_clip_score(one, one, one, [0]).values.round(6).tolist()
    [1.428571]
    """
    fit = weight * _paired_cosine(images, "images", texts, "texts")
    candidate = unit_rows(texts, "texts")
    reference = unit_rows(references, "references")
    same_width(candidate, "texts", reference, "references")
    owner = _as_indices(reference_of, "reference_of", len(reference), len(candidate))
    missing = np.flatnonzero(np.bincount(owner, minlength=len(candidate)) == 0)
    if len(missing):
        raise InputError(f"item {missing[0]} has no reference; give one for every item or leave the item out")
    best = np.zeros(len(candidate))
    np.maximum.at(best, owner, (candidate[owner] * reference).sum(axis=1))
    both = fit + best
    values = np.divide(2 * fit * best, both, out=np.zeros_like(both), where=both > 0)
    return ItemScores.of(values, clusters=clusters, level=level)


@dataclass(frozen=True)
class PromptAdherence:
    """Whether images show what their prompts asked for."""

    hit: Estimate
    """Share of images whose own prompt fits best among the candidates; chance is 1 / candidates."""
    cosine: Estimate
    """Mean cosine between image and own prompt."""
    margin: Estimate
    """Mean cosine with the own prompt minus that with the best other candidate; below 0 = another fits better."""
    hits: Floats
    cosines: Floats
    margins: Floats


@metric(
    "prompt_adherence",
    takes="vectors",
    summary="Share of images closest to their own prompt.",
    citation="SocialCounterfactuals (CVPR 2024)",
    formula="share with cos(image, own prompt) highest among candidates, ties 1 / t",
    bounds=(0.0, 1.0),
    better="higher",
    chance="1 / candidates",
    when_it_lies="The judge may prefer one group.",
    unit="share",
)
def prompt_adherence(
    images: Any,
    texts: Any,
    prompt_of: Any,
    *,
    candidates: Any = None,
    clusters: Any = None,
    level: float = 0.95,
) -> PromptAdherence:
    """How often each of ``images`` is closest to its own prompt among ``texts``.

    A tie for the best place counts 1 / (number tied).

    Args:
        images: (n, d) embeddings.
        texts: (m, d) embeddings of the prompts, two or more.
        prompt_of: (n,) the index of each image's prompt.
        candidates: (n, m) which prompts compete for an image (default all); the own prompt always does.
        clusters: (n,) images that are not independent, such as those of one prompt.
        level: confidence level of the intervals.

    Returns:
        The share of hits with its chance level, and the mean cosine and margin, with each image's own.

    >>> scores = prompt_adherence(np.eye(3), np.eye(3), [0, 1, 0])
    >>> scores.hits.tolist(), round(scores.hit.null_mean, 4)
    ([1.0, 1.0, 0.0], 0.3333)
    """
    unit_images, unit_texts = unit_rows(images, "images"), unit_rows(texts, "texts", min_rows=2)
    same_width(unit_images, "images", unit_texts, "texts")
    n, m = len(unit_images), len(unit_texts)
    own = _as_indices(prompt_of, "prompt_of", n, m)
    allowed = np.ones((n, m), dtype=bool)
    if candidates is not None:
        allowed = np.array(candidates, dtype=bool)
        if allowed.shape != (n, m):
            raise InputError(f"candidates has shape {allowed.shape}; it must be (images, texts) = ({n}, {m})")
    rows = np.arange(n)
    allowed[rows, own] = True
    alone = np.flatnonzero(allowed.sum(axis=1) < 2)
    if len(alone):
        raise InputError(f"image {alone[0]} has no candidate besides its own prompt; leave it out or give one")
    scores = unit_images @ unit_texts.T
    cosines = scores[rows, own]
    others = np.where(allowed, scores, -np.inf)
    others[rows, own] = -np.inf
    margins = cosines - others.max(axis=1)
    tied = (np.abs(others - cosines[:, None]) <= COSINE_TIE).sum(axis=1)
    hits = np.where(margins >= -COSINE_TIE, 1.0 / (1 + tied), 0.0)
    chance = float((1.0 / allowed.sum(axis=1)).mean())
    return PromptAdherence(
        hit=share_estimate(hits, clusters=clusters, null_value=chance, alternative="greater", level=level),
        cosine=summarise(cosines, clusters=clusters, level=level),
        margin=summarise(margins, clusters=clusters, level=level),
        hits=hits,
        cosines=np.asarray(cosines),
        margins=np.asarray(margins),
    )


@metric(
    "directional_similarity",
    takes="vectors",
    summary="Did the image change as the text did?",
    citation="Gal 2022; Brooks 2023",
    formula="cos(image change, text change)",
    bounds=(-1.0, 1.0),
    direction="higher: changed as asked",
    better="higher",
    chance="0",
    when_it_lies="An edit that changes nothing has no direction and is left out.",
    unit="cosine",
)
def directional_similarity(
    images_from: Any, images_to: Any, texts_from: Any, texts_to: Any, *, clusters: Any = None, level: float = 0.95
) -> ItemScores:
    """cos(image_to - image_from, text_to - text_from): did the image change as the text did (Gal 2022; Brooks 2023)?

    All four are (n, d) embeddings, scaled to unit length first. Range [-1, 1], chance 0. A pair whose image or
    text did not change at all has no direction: it is left out of ``values`` and counted in ``estimate.dropped``.

    Args:
        images_from: the images before the edit.
        images_to: the images after it.
        texts_from: what describes the images before.
        texts_to: what the edit asks for.
        clusters: (n,) pairs that are not independent, such as edits of one image.
        level: confidence level of the interval.

    Returns:
        The similarity of each pair that changed, and their mean.

    >>> a, b = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> directional_similarity(a, b, a, b).values.round(6).tolist()
    [1.0]
    """
    names = ("images_from", "images_to", "texts_from", "texts_to")
    given = (images_from, images_to, texts_from, texts_to)
    sides = [unit_rows(values, name) for values, name in zip(given, names, strict=True)]
    for side, name in zip(sides[1:], names[1:], strict=True):
        same_length(sides[0], "images_from", side, name)
        same_width(sides[0], "images_from", side, name)
    moved, asked = sides[1] - sides[0], sides[3] - sides[2]
    sizes = np.linalg.norm(moved, axis=1) * np.linalg.norm(asked, axis=1)
    kept = sizes > 1e-12
    if not kept.any():
        raise InputError("no pair changed in both image and text; a direction needs a change")
    values = (moved[kept] * asked[kept]).sum(axis=1) / sizes[kept]
    groups = None if clusters is None else as_keys(clusters, "clusters", len(kept), "pair")[kept]
    dropped = {"image or text unchanged": int((~kept).sum())}
    return ItemScores.of(values, clusters=groups, kept=kept, dropped=dropped, level=level)


def _paired_cosine(left: Any, left_name: str, right: Any, right_name: str) -> Floats:
    a, b = unit_rows(left, left_name), unit_rows(right, right_name)
    same_length(a, left_name, b, right_name)
    same_width(a, left_name, b, right_name)
    return np.asarray(np.clip((a * b).sum(axis=1), 0, None))


def _as_indices(values: Any, name: str, length: int, limit: int) -> NDArray[np.intp]:
    given = as_matrix(np.reshape(values, (-1, 1)), name)[:, 0]
    if len(given) != length:
        raise InputError(f"{name} has {len(given)} entries where {length} are needed")
    bad = np.flatnonzero((given < 0) | (given >= limit) | (given != np.floor(given)))
    if len(bad):
        raise InputError(f"{name}[{bad[0]}] = {given[bad[0]]:g} is not an index from 0 to {limit - 1}")
    return given.astype(np.intp)
