"""Do edits show what they should? Zero-shot group accuracy and retrieval, as Table 7 of GenSynth has them.

For each edited image: is its group the nearest of the group prompts, and is it found by its own captions (said of the
target group) in a reference pool of real images *plus that image alone*? The pool is never filled with all edits at
once, which would let near-copies compete.

Table 7 of GenSynth from tables: does each pool of images show what it should, and is it found by its captions?
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise import engine
from equipoise.array_types import AnyVectors
from equipoise.data.table import Table
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.notes import codes_of, independent, of_sources
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.shares import share_estimate
from equipoise.text.english.articles import with_article
from equipoise.text.templates import edit_groups, inpainting_prompt, shipped_wording


def check_pool(
    images: Table,
    source: Table,
    reference: Table,
    encoder: Any,
    *,
    axis: str = "gender",
    prompts: Mapping[str, str] | None = None,
    only_kept: bool = False,
    pool: str = "",
    seed: int = 0,
    asking: engine.Asking | None = None,
) -> EditCheck:
    """:func:`~equipoise.generate.verify.verify_edits` of one pool, from tables.

    Images without a label, or without a caption that can be said of their group, are left out.

    Args:
        images: the pool, with the axis, and ``source_id`` unless it is the source: the edits, those a filter kept, face
            swaps, or the originals themselves (``images=source``).
        source: has the captions, which are said of each image's group.
        reference: real images among which each is looked for; the sources are left out.
        encoder: what reads images and texts.
        axis: the axis of the groups.
        prompts: a text for each group, by default "a photo of a woman" and the like.
        only_kept: leave out the images that a filter dropped.
        pool: what the result calls the pool.
        seed: which sources the bootstrap draws.
        asking: how the encoder is asked.

    Returns:
        Accuracy, and recall at 1, 5 and 10 as far as the reference is large enough.
    """
    texts = _captions(source)
    groups, sources, said, vectors = [], [], [], []
    for row, vector in _embedded(images, encoder, axis, only_kept, asking):
        own = row.get("source_id") or row["image_id"]
        captions = _said_of(texts.get(own, ()), axis, row[axis]) if row[axis] is not None else []
        if captions:
            groups.append(str(row[axis]))
            sources.append(own)
            said.append(captions)
            vectors.append(vector)
    if not vectors:
        raise InputError(f"{images.path} has no image with a label on {axis!r} and a caption that can be said of it")
    known = prompts or _prompts(axis, groups)
    taken = set(sources)
    others = [
        vector for row, vector in _embedded(reference, encoder, None, False, asking) if row["image_id"] not in taken
    ]
    flat = engine.vectors(encoder, [text for captions in said for text in captions], asking)
    ends = np.cumsum([len(captions) for captions in said])[:-1]
    return verify_edits(
        np.stack(vectors),
        groups,
        dict(zip(known, engine.vectors(encoder, list(known.values()), asking), strict=True)),
        np.split(np.asarray(flat), ends),
        np.stack(others) if others else np.zeros((0, len(vectors[0]))),
        sources=sources,
        ks=[k for k in (1, 5, 10) if k <= len(others) + 1],
        pool=pool,
        seed=seed,
    )


LEAST_SOURCES = 5
"""Of fewer photographs a bootstrap gives no interval worth the name: of one, a point."""


@dataclass(frozen=True)
class Recognised:
    """How many images an encoder takes for the group that they should show."""

    share: Estimate
    """With its interval by source image, and the share of the commonest group as its chance level."""
    axis: str
    by: str
    """The encoder's name."""

    @property
    def problem(self) -> str:
        """Why the images cannot be said to show their group; empty where they can."""
        share = self.share
        if share.value > (share.null_mean or 0.0) and share.p_value is not None and share.p_value < 0.05:
            return ""
        if share.value > (share.null_mean or 0.0) and self.sources < LEAST_SOURCES:
            return f"{self.sources} photographs are too few to tell that from chance"
        return f"no more than chance: by this encoder the images do not show their {self.axis}"

    @property
    def sources(self) -> int:
        """From how many photographs the images are."""
        return independent({"n": self.share.n, "codes": codes_of(self.share.notes)}) or 0

    def __str__(self) -> str:
        share = self.share
        span = "no interval" if share.ci_low is None else f"[{share.ci_low:.3f}, {share.ci_high:.3f}]"
        of = f"{share.n:,} images of {self.sources:,} photographs"
        return (
            f"{self.by} recognises the {self.axis} of {share.value:.3f} {span} (chance {share.null_mean:.3f}) of {of}"
        )


def recognised(
    images: Table,
    encoder: Any,
    *,
    axis: str = "gender",
    prompts: Mapping[str, str] | None = None,
    asking: engine.Asking | None = None,
) -> Recognised:
    """Whether images show the group of their label: the share for which its prompt is nearer than every other.

    The first half of :func:`check_pool`, which needs neither captions nor other photographs.

    Args:
        images: a table with the axis; images without a label are left out, and those of one ``source_id`` count
            together in the interval.
        encoder: what reads images and texts.
        axis: the axis of the groups, of which there must be two or more.
        prompts: a text for each group, by default "a photo of a woman" and the like.
        asking: how the encoder is asked.

    Returns:
        The share that is recognised, tested against the share of the commonest group.
    """
    pairs = [(row, vector) for row, vector in _embedded(images, encoder, axis, False, asking) if row[axis] is not None]
    groups = [str(row[axis]) for row, _ in pairs]
    if len(set(groups)) < 2:
        raise InputError(f"{images.path} has {len(set(groups))} groups on {axis!r}; there is nothing to tell apart")
    known = prompts or _prompts(axis, groups)
    _refuse_unprompted(groups, known)
    texts = np.asarray(engine.vectors(encoder, list(known.values()), asking))
    nearest = (np.stack([vector for _, vector in pairs]) @ texts.T).argmax(1)
    right = [list(known)[at] == group for at, group in zip(nearest, groups, strict=True)]
    sources = [str(row.get("source_id") or row["image_id"]) for row, _ in pairs]
    chance = max(groups.count(group) for group in set(groups)) / len(groups)
    share = share_estimate(right, clusters=sources, null_value=chance, alternative="greater", notes=of_sources(sources))
    return Recognised(share, axis, str(getattr(encoder, "name", "the encoder")))


def _captions(source: Table) -> dict[str, list[str]]:
    columns = [name for name in ("captions", "caption") if name in source.columns]
    return {
        row["image_id"]: [c for c in (row.get("captions") or [row.get("caption")]) if c]
        for row in source.rows(["image_id", *columns])
    }


def _said_of(captions: Any, axis: str, group: str) -> list[str]:
    """The captions that name a group, said of ``group``."""
    prompts = (inpainting_prompt(caption, {axis: group}) for caption in captions)
    return [prompt.text for prompt in prompts if prompt.text is not None and prompt.how[axis] != "inserted"]


def _prompts(axis: str, groups: Sequence[str]) -> dict[str, str]:
    """A text for each group, under the name that the table has for it ("M", "man")."""
    words, wording, prompts = edit_groups(), shipped_wording(), {}
    for group in sorted(set(groups)):
        meant = group if group in words else wording.meant(axis, group)
        if meant not in words:
            raise UnknownNameError("group with a prompt of its own", group, words)
        prompts[group] = f"a photo of {with_article(words[meant]['noun'])}"
    return prompts


def _embedded(
    table: Table, encoder: Any, axis: str | None, only_kept: bool, how: engine.Asking | None
) -> Iterator[tuple[dict[str, Any], AnyVectors]]:
    rows = list(table.rows(["image_id", "source_id", *([axis] if axis else [])], only_kept=only_kept))
    for at, vectors in engine.vector_batches(encoder, table, [row["image_id"] for row in rows], how):
        yield from zip((rows[i] for i in at), vectors, strict=True)


@dataclass(frozen=True)
class EditCheck:
    """One row of the table: a pool of images (``original``, ``swapped``, ``unfiltered``, ``filtered``)."""

    pool: str
    n: int
    accuracy: float
    """Share of images whose group is the nearest prompt."""
    accuracy_interval: tuple[float, float]
    """95%, by bootstrap of source images, for edits of one photograph resemble each other; infinite on both sides
    where there are fewer than five photographs, or no draws."""
    chance: float
    """The accuracy of a guess that knows how often each group occurs: the largest share."""
    recall: Mapping[int, float]
    """Mean over captions of being among the first K."""
    recall_interval: Mapping[int, tuple[float, float]]
    recall_chance: Mapping[int, float]
    """K / (size of the pool + 1)."""
    n_captions: int

    def __str__(self) -> str:
        recalls = ", ".join(
            f"R@{k} {value:.3f} (chance {self.recall_chance[k]:.4f})" for k, value in self.recall.items()
        )
        low, high = self.accuracy_interval
        interval = f"[{low:.3f}, {high:.3f}]" if np.isfinite(low) else "(no interval: too few photographs or draws)"
        return (
            f"{self.pool}: accuracy {self.accuracy:.3f} {interval} (chance {self.chance:.3f}), {recalls}; n = {self.n}"
        )


def verify_edits(
    images: AnyVectors,
    groups: Sequence[str],
    prompts: Mapping[str, AnyVectors],
    captions: Sequence[AnyVectors],
    reference: AnyVectors,
    *,
    sources: Sequence[str] | None = None,
    ks: Sequence[int] = (1, 5, 10),
    pool: str = "",
    seed: int = 0,
    n_boot: int = 1000,
) -> EditCheck:
    """Check the images of one pool.

    Args:
        images: (n, d) unit vectors.
        groups: (n,) what each should show.
        prompts: a unit vector for each group ("a photo of a woman").
        captions: for each image the (m, d) unit vectors of its captions, said of its group; at least one each.
        reference: (N, d) unit vectors of the other images of the pool.
        sources: (n,) the photograph each was made from; each image is its own unless given.
        ks: the K of recall, each from 1 to N + 1.
        pool: what the result calls the pool.
        seed: which sources the bootstrap draws.
        n_boot: how many draws the intervals rest on; with none, or of fewer than five sources, they are infinite.

    Returns:
        Accuracy and recall at each K, with intervals and chance levels.

    >>> e = np.eye(3)
    >>> made = verify_edits(e[:2], ["f", "m"], {"f": e[0], "m": e[1]}, [e[:1], e[2:]], e[2:], ks=[1], n_boot=0)
    >>> made.accuracy, made.recall[1]
    (1.0, 0.5)
    """
    n = len(images)
    _check(images, groups, prompts, captions, reference, ks)
    names = list(prompts)
    scores = images @ np.stack([np.asarray(prompts[name]) for name in names]).T
    right = np.array([names[i] == group for i, group in zip(scores.argmax(1), groups, strict=True)])
    hits = [recalls(text, image, reference, ks) for text, image in zip(captions, images, strict=True)]
    ids = np.unique([str(s) for s in (sources or range(n))], return_inverse=True)[1]
    draws = _draws(ids, n_boot, seed)
    counts = np.array([len(h) for h in hits])
    sums = np.stack([h.sum(0) for h in hits])
    shares = [list(groups).count(name) / n for name in names]
    return EditCheck(
        pool,
        n,
        float(right.mean()),
        _interval(right.astype(float), np.ones(n), draws),
        max(shares),
        {k: float(sums[:, j].sum() / counts.sum()) for j, k in enumerate(ks)},
        {k: _interval(sums[:, j], counts, draws) for j, k in enumerate(ks)},
        {k: min(1.0, k / (len(reference) + 1)) for k in ks},
        int(counts.sum()),
    )


def recalls(captions: AnyVectors, image: AnyVectors, reference: AnyVectors, ks: Sequence[int]) -> NDArray[np.float64]:
    """(m, len(ks)): whether each caption finds the image among the first K of the pool plus it; ties count half.

    >>> recalls(np.eye(2)[:1], np.eye(2)[0], np.eye(2), [1])
    array([[0.5]])
    """
    own = captions @ image
    others = captions @ reference.T
    above, alike = (others > own[:, None]).sum(1), (others == own[:, None]).sum(1)
    # With t others alike, the image is equally likely to be in any of the t + 1 places.
    return np.stack([np.clip((k - above) / (alike + 1), 0, 1) for k in ks], axis=1)


def _draws(ids: NDArray[np.integer[Any]], n_boot: int, seed: int) -> NDArray[np.float64]:
    """(n_boot, n): how often each image counts when its source is drawn with replacement; no draws of few sources."""
    n = int(ids.max()) + 1
    if n < LEAST_SOURCES:
        n_boot = 0
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=n_boot)
    return weights[:, ids].astype(float)


def _interval(sums: AnyVectors, counts: AnyVectors, draws: NDArray[np.float64]) -> tuple[float, float]:
    if not len(draws):
        return (float("-inf"), float("inf"))
    values = (draws @ sums) / np.maximum(draws @ counts, 1e-12)
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _refuse_unprompted(groups: Sequence[str], prompts: Mapping[str, Any]) -> None:
    missing = sorted(set(groups) - set(prompts))
    if missing:
        raise InputError(f"there is no prompt for the group {missing[0]!r}")


def _check(
    images: AnyVectors,
    groups: Sequence[str],
    prompts: Mapping[str, AnyVectors],
    captions: Sequence[AnyVectors],
    reference: AnyVectors,
    ks: Sequence[int],
) -> None:
    if not len(images) or len(images) != len(groups) or len(images) != len(captions):
        raise InputError(
            f"there are {len(images)} images, {len(groups)} groups and {len(captions)} lists of captions; as many of "
            "each are needed, and at least one"
        )
    _refuse_unprompted(groups, prompts)
    if not all(len(text) for text in captions):
        raise InputError("an image has no caption to be found by")
    if min(ks) < 1 or max(ks) > len(reference) + 1:
        raise InputError(f"ks={list(ks)}: each must be from 1 to the size of the pool, {len(reference) + 1}")
    for name, vectors in (("images", images), ("reference", reference)):
        if not np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3):
            raise InputError(f"{name} must be unit vectors")
