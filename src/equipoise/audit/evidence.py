"""What a suite measures from: labels of the images, and vectors or scores that a model gave.

An audit writes its evidence beside its results, so that everything can be measured again without the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import AnyVectors
from equipoise.audit.findings import write_frame
from equipoise.data.atomic import atomic_file
from equipoise.data.results import draw_order
from equipoise.errors import InputError, closest
from equipoise.measure.arrays import unit_vectors
from equipoise.measure.groups import Groups, intersect
from equipoise.measure.retrieval import Embeddings, Scores
from equipoise.measure.retrieval.blocks import Source
from equipoise.text.labels import read_labels

EVIDENCE = "_evidence"
ARRAYS = ("images", "texts", "scores")
Rows = NDArray[np.integer]
"""Row numbers of images."""

_BLOCK_CELLS = 4_000_000
_ROWS = 8192


def places_by_name(names: Sequence[str], seed: int) -> NDArray[np.int64]:
    """(n,) the place of each name among equal scores, by a seeded hash: the order of the rows says nothing.

    >>> places_by_name(["a", "b", "c"], 0).tolist() == places_by_name(["c", "b", "a"], 0)[::-1].tolist()
    True
    """
    places = np.empty(len(names), dtype=np.int64)
    places[draw_order(names, seed, "ties")] = np.arange(len(names))
    return places


class Evidence:
    """Images with their labels, texts, and what the model makes of both."""

    def __init__(
        self,
        frame: pd.DataFrame,
        texts: Sequence[str],
        *,
        model: str,
        image_vectors: AnyVectors | None = None,
        text_vectors: AnyVectors | None = None,
        scores: AnyVectors | None = None,
        logit_scale: float | None = None,
    ) -> None:
        self.frame = frame.reset_index(drop=True)
        self.texts = list(texts)
        self.model = model
        self.logit_scale = logit_scale
        self._images = image_vectors
        self._text_vectors = text_vectors
        self._scores = scores
        self._place = {text: i for i, text in enumerate(self.texts)}
        self._groups: dict[str, Groups] = {}
        self._tie_orders: dict[int, NDArray[np.int64]] = {}
        self._check()

    def _check(self) -> None:
        if (self._images is None) == (self._scores is None):
            raise InputError("evidence is made of vectors or of scores, one of the two")
        n, m = len(self.frame), len(self.texts)
        if self._scores is not None:
            if self._scores.shape != (m, n):
                raise InputError(f"the scores have shape {self._scores.shape} for {m} texts and {n} labelled images")
            return
        assert self._images is not None
        if self._images.ndim != 2 or len(self._images) != n:
            raise InputError(
                f"there are labels of {n} images and vectors of shape {self._images.shape}; give one vector per label"
            )
        if self._text_vectors is None:
            return
        if self._text_vectors.ndim != 2 or len(self._text_vectors) != m:
            raise InputError(f"there are {m} texts and vectors of shape {self._text_vectors.shape}; give one per text")
        if self._text_vectors.shape[1] != self._images.shape[1]:
            raise InputError(
                f"vectors of images have {self._images.shape[1]} numbers and those of texts "
                f"{self._text_vectors.shape[1]}; both must come from the same model"
            )

    def some(self, rows: Rows) -> Evidence:
        """The evidence of some images alone, by row number; their vectors or scores are copied."""
        frame = self.frame.iloc[rows]
        frame.attrs.update(self.frame.attrs)
        return Evidence(
            frame,
            self.texts,
            model=self.model,
            image_vectors=None if self._images is None else np.asarray(self._images[rows]),
            text_vectors=self._text_vectors,
            scores=None if self._scores is None else np.asarray(self._scores[:, rows]),
            logit_scale=self.logit_scale,
        )

    # Labels

    @property
    def label_notes(self) -> list[str]:
        """What was joined or taken for unknown when the labels were read."""
        return list(self.frame.attrs.get("label_notes", ()))

    def column(self, name: str, suite: str) -> pd.Series[Any]:
        """A column of labels; a missing one is answered with the closest names."""
        if name not in self.frame:
            near = closest(name, map(str, self.frame.columns), n=2)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise InputError(f"suite {suite!r} needs the column {name!r}, which the table lacks{hint}")
        return self.frame[name]

    def groups(self, axes: Iterable[str], suite: str, rows: Rows | None = None) -> Groups:
        """The groups on one axis, or on the intersection of several, of all images or of ``rows``."""
        by_axis = [self._on_axis(axis, suite) for axis in axes]
        joint = by_axis[0] if len(by_axis) == 1 else intersect(*by_axis)
        return joint if rows is None else joint.take(rows)

    def levels(self, placebo: str, suite: str, rows: Rows | None = None) -> Groups:
        """The levels of a placebo column as they stand: "none" is one of them, and no word for an unknown group."""
        codes, levels = pd.factorize(self.column(placebo, suite), sort=True)
        every = Groups(codes.astype(np.int32), tuple(map(str, levels)), placebo)
        return every if rows is None else every.take(rows)

    def _on_axis(self, axis: str, suite: str) -> Groups:
        if axis not in self._groups:
            read = read_labels(self.column(axis, suite))
            if not read.names:
                raise InputError(f"every image is undefined on the axis {axis!r}")
            self._groups[axis] = Groups(read.codes.astype(np.int32), read.names, axis)
        return self._groups[axis]

    def tie_order(self, seed: int) -> NDArray[np.int64]:
        """(N,) the place of each image among images of equal score; see :func:`places_by_name`."""
        if seed not in self._tie_orders:
            self._tie_orders[seed] = places_by_name(self.frame["image_id"].astype(str).tolist(), seed)
        return self._tie_orders[seed]

    # What the model says

    @property
    def has_vectors(self) -> bool:
        """Whether embeddings are there, and not only scores."""
        return self._images is not None

    def image_vectors(self, suite: str) -> NDArray[np.float32]:
        """(N, d) the images' vectors, of unit length; memory-mapped when read from disk."""
        if self._images is None:
            raise InputError(f"suite {suite!r} needs embeddings; from scores alone it cannot be measured")
        return self._images

    def text_vectors(self, texts: Sequence[str], suite: str) -> NDArray[np.float32]:
        """(m, d) the vectors of ``texts``, as the model gave them."""
        if self._text_vectors is None:
            raise InputError(f"suite {suite!r} needs embeddings; from scores alone it cannot be measured")
        return np.asarray(self._text_vectors[self._rows(texts)])

    def source(self, texts: Sequence[str]) -> Source:
        """Scores of ``texts`` (queries) over all images: what the retrieval metrics take.

        To ask over some images only, give pools (:class:`equipoise.measure.retrieval.Candidates`): taking rows out
        would copy memory-mapped vectors.
        """
        if self._scores is not None:
            return Scores(self._scores[self._rows(texts)])
        return Embeddings(self._unit_texts(texts), self._unit_images)

    def pooled_source(self, prompts: Sequence[Sequence[str]], how: str) -> Source:
        """One query per subject from its several ``prompts``, joined as ``how`` says (not for ``metric_mean``)."""
        if self._scores is not None:
            return Scores(self._mean_scores(prompts, how))
        return Embeddings(self._mean_vectors(prompts, how), self._unit_images)

    def reversed_source(self, texts: Sequence[str]) -> Source:
        """Scores of all images (queries) over ``texts``: what image-to-text retrieval takes."""
        if self._scores is not None:
            return Scores(self._scores[self._rows(texts)].T)
        return Embeddings(self._unit_images, self._unit_texts(texts))

    def own_scores(self, prompts: Sequence[Sequence[str]], how: str, rows: Rows, query: Rows) -> NDArray[np.float64]:
        """(len(rows),) each image's score with its own query: ``query[i]`` says which of ``prompts`` asks for row i."""
        if self._scores is not None:
            return np.asarray(self._mean_scores(prompts, how)[query, rows], dtype=np.float64)
        queries = self._mean_vectors(prompts, how)
        scores = np.empty(len(rows))
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
            scores[part] = np.einsum("ij,ij->i", self._unit_images[rows[part]], queries[query[part]])
        return scores

    def scores(self, texts: Sequence[str], images: Rows) -> AnyVectors:
        """(m, n) the scores of ``texts`` with some ``images``, by row number."""
        if self._scores is not None:
            return np.asarray(self._scores[np.ix_(self._rows(texts), images)])
        return np.asarray(self._unit_texts(texts) @ np.asarray(self._unit_images[images]).T)

    def image_blocks(self, prompts: Sequence[Sequence[str]], how: str) -> Iterator[tuple[slice, AnyVectors]]:
        """Block after block of images: which rows, and their scores (n, C) with each of C classes' ``prompts``."""
        step = max(1, _BLOCK_CELLS // max(len(prompts), 512))
        means = self._mean_scores(prompts, how) if self._scores is not None else self._mean_vectors(prompts, how)
        for start in range(0, len(self.frame), step):
            rows = slice(start, min(start + step, len(self.frame)))
            if self._scores is not None:
                yield rows, means[:, rows].T
            else:
                yield rows, np.asarray(self._unit_images[rows]) @ means.T

    @property
    def _unit_images(self) -> AnyVectors:
        """The vectors of images where there are no scores: one of the two is always there."""
        assert self._images is not None
        return self._images

    def _unit_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = self._rows(texts)
        if self._text_vectors is None:
            raise InputError("the evidence has no vectors of texts; run the audit again with the model")
        return unit_vectors(self._text_vectors[rows], self.model, [self.texts[row] for row in rows])

    def _mean_scores(self, prompts: Sequence[Sequence[str]], how: str) -> AnyVectors:
        # Scores are linear in the text vector: the mean of the scores ranks as the mean of the vectors does.
        assert self._scores is not None
        if how == "embed_mean_raw" and any(len(some) > 1 for some in prompts):
            raise InputError(
                "prompt_pool = embed_mean_raw weighs prompts by the length of their vectors, and scores have none; "
                "leave it out, or audit embeddings"
            )
        return np.stack([self._scores[self._rows(some)].mean(axis=0) for some in prompts])

    def _mean_vectors(self, prompts: Sequence[Sequence[str]], how: str) -> NDArray[np.float32]:
        means = []
        for some in prompts:
            raw = self._text_vectors if how == "embed_mean_raw" else None
            vectors = self._unit_texts(some) if raw is None else raw[self._rows(some)]
            means.append(vectors.mean(axis=0))
        return unit_vectors(np.stack(means), self.model, [some[0] for some in prompts])

    def _rows(self, texts: Sequence[str]) -> NDArray[np.int64]:
        missing = [t for t in texts if t not in self._place]
        if missing:
            raise InputError(
                f"the evidence has no {missing[0]!r} ({len(missing)} texts missing); run the audit again with the model"
            )
        return np.array([self._place[t] for t in texts], dtype=np.int64)

    # On disk

    def save(self, folder: Path) -> None:
        """Write everything to ``folder/_evidence``; images' vectors that are already there stay."""
        home = folder / EVIDENCE
        home.mkdir(parents=True, exist_ok=True)
        # The description goes first and comes back last: what lies between is never taken for a whole.
        (home / "evidence.json").unlink(missing_ok=True)
        write_frame(home / "frame.parquet", self.frame)
        for name, array in zip(ARRAYS, (self._images, self._text_vectors, self._scores), strict=True):
            path = home / f"{name}.npy"
            if array is None:
                path.unlink(missing_ok=True)
            elif not _is_file(array, path):
                with atomic_file(path) as file:
                    np.save(file, np.asarray(array))
        about: dict[str, Any] = {"model": self.model, "texts": self.texts, "logit_scale": self.logit_scale}
        if self.label_notes:  # the frame on disk has the labels as they were read
            about["label_notes"] = self.label_notes
        with atomic_file(home / "evidence.json") as file:
            file.write(json.dumps(about, ensure_ascii=False).encode())

    @classmethod
    def open(cls, folder: Path) -> Evidence:
        """The evidence that an audit left in ``folder``."""
        home = folder / EVIDENCE
        if not (home / "evidence.json").is_file():
            raise InputError(
                f"{folder}: no evidence of an audit here ({EVIDENCE}/evidence.json is missing); run the audit again"
            )
        try:
            about = json.loads((home / "evidence.json").read_text(encoding="utf-8"))
            paths = {name: home / f"{name}.npy" for name in ARRAYS}
            arrays = {name: np.load(path, mmap_mode="r") for name, path in paths.items() if path.exists()}
            frame = pd.read_parquet(home / "frame.parquet")
            frame.attrs["label_notes"] = [str(note) for note in about.get("label_notes", ())]
            return cls(
                frame,
                [str(text) for text in about["texts"]],
                model=str(about["model"]),
                image_vectors=arrays.get("images"),
                text_vectors=arrays.get("texts"),
                scores=arrays.get("scores"),
                logit_scale=about["logit_scale"],
            )
        except KeyError as error:
            raise InputError(f"{home}: the evidence is damaged ({error} is missing); run the audit again") from None
        except (OSError, EOFError, ValueError, TypeError) as error:
            raise InputError(f"{home}: the evidence is damaged ({error}); run the audit again") from None


def _is_file(array: AnyVectors, path: Path) -> bool:
    return isinstance(array, np.memmap) and array.filename is not None and Path(array.filename) == path.resolve()
