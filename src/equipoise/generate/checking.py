"""Table 7 of GenSynth from tables: does each pool of images show what it should, and is it found by its captions?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from equipoise import engine
from equipoise.data.table import Table
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate.verify import EditCheck, Vectors, verify_edits
from equipoise.text.articles import with_article
from equipoise.text.templates import edit_groups, inpainting_prompt

__all__ = ["check_pool"]


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
    """:func:`~equipoise.generate.verify.verify_edits` of one pool: the edits, those a filter kept (``only_kept``),
    face swaps, or the originals themselves (``images=source``).

    ``images`` has the axis, and ``source_id`` unless it is the source; ``source`` has the captions, which are said of
    each image's group; ``reference`` is the pool of real images, from which the sources are left out. ``prompts``: a
    text for each group, by default "a photo of a woman" and the like. Images without a label, or without a caption
    that can be said of their group, are left out. ``asking`` says how the encoder is asked.
    """
    texts = _captions(source)
    names, groups, sources, said, vectors = [], [], [], [], []
    for row, vector in _embedded(images, encoder, axis, only_kept, asking):
        own = row.get("source_id") or row["image_id"]
        captions = _said_of(texts.get(own, ()), axis, row[axis]) if row[axis] is not None else []
        if captions:
            names.append(row["image_id"])
            groups.append(str(row[axis]))
            sources.append(own)
            said.append(captions)
            vectors.append(vector)
    if not names:
        raise InputError(f"{images.path} has no image with a label on {axis!r} and a caption that can be said of it")
    known = prompts or _prompts(sorted(set(groups)))
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


def _captions(source: Table) -> dict[str, list[str]]:
    columns = [name for name in ("captions", "caption") if name in source.columns]
    return {
        row["image_id"]: [c for c in (row.get("captions") or [row.get("caption")]) if c]
        for row in source.rows(["image_id", *columns])
    }


def _said_of(captions: Any, axis: str, group: str) -> list[str]:
    """The captions that name a group, said of ``group``."""
    found = (inpainting_prompt(caption, {axis: group}) for caption in captions)
    return [one.text for one in found if one.text is not None and one.how[axis] != "inserted"]


def _prompts(groups: list[str]) -> dict[str, str]:
    words = edit_groups()
    for group in groups:
        if group not in words:
            raise UnknownNameError("group with a prompt of its own", group, words)
    return {group: f"a photo of {with_article(words[group]['noun'])}" for group in groups}


def _embedded(
    table: Table, encoder: Any, axis: str | None, only_kept: bool, how: engine.Asking | None
) -> Iterator[tuple[dict[str, Any], Vectors]]:
    rows = list(table.rows(["image_id", "source_id", *([axis] if axis else [])], only_kept=only_kept))
    for at, vectors in engine.vector_batches(encoder, table, [row["image_id"] for row in rows], how):
        yield from zip((rows[i] for i in at), vectors, strict=True)
