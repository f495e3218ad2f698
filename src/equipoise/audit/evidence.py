"""What a suite measures from: labels of the images, and vectors or scores that a model gave.

An audit writes its evidence beside its results, so that everything can be measured again without the model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.findings import write_frame
from equipoise.data.atomic import atomic_file
from equipoise.errors import InputError, closest
from equipoise.measure.groups import Groups, intersect
from equipoise.measure.retrieval import Embeddings, Scores

__all__ = ["Evidence", "unit"]

FOLDER = "_evidence"
Source = Any


def unit(vectors: NDArray[Any], what: str) -> NDArray[np.float32]:
    """Rows of length 1; a row that is not finite or has no length is refused with its number."""
    rows = np.asarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise InputError(f"{what}: the vector in row {bad[0]} is not finite or has no length ({len(bad)} such)")
    return np.asarray(rows / lengths[:, None], dtype=np.float32)


class Evidence:
    """Images with their labels, texts, and what the model makes of both."""

    def __init__(
        self,
        frame: pd.DataFrame,
        texts: Sequence[str],
        *,
        model: str,
        image_vectors: NDArray[Any] | None = None,
        text_vectors: NDArray[Any] | None = None,
        scores: NDArray[Any] | None = None,
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
        if (image_vectors is None) == (scores is None):
            raise InputError("evidence is made of vectors or of scores, one of the two")

    # Labels

    def column(self, name: str, suite: str) -> pd.Series[Any]:
        """A column of labels; a missing one is answered with the closest names."""
        if name not in self.frame:
            near = closest(name, map(str, self.frame.columns), n=2)
            hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise InputError(f"suite {suite!r} needs the column {name!r}, which the table lacks{hint}")
        return self.frame[name]

    def groups(self, axes: Iterable[str], suite: str, rows: NDArray[Any] | None = None) -> Groups:
        """The groups on one axis, or on the intersection of several, of all images or of ``rows``."""
        made = [Groups.from_values(self.column(a, suite).to_numpy(dtype=object), axis=a) for a in axes]
        for groups in made:
            if groups.n_undefined == len(groups):
                raise InputError(f"every image is undefined on the axis {groups.axis!r}")
        joint = made[0] if len(made) == 1 else intersect(*made)
        return joint if rows is None else joint.take(rows)

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

    def source(self, texts: Sequence[str], rows: NDArray[Any] | None = None) -> Source:
        """Scores of ``texts`` over all images, or over ``rows``: what the retrieval metrics take."""
        wanted = self._rows(texts)
        if self._scores is not None:
            part = self._scores[wanted]
            return Scores(part if rows is None else part[:, rows])
        assert self._images is not None
        assert self._text_vectors is not None
        images = self._images if rows is None else self._images[rows]
        return Embeddings(unit(self._text_vectors[wanted], "texts"), images)

    def pooled_source(self, prompts: Sequence[Sequence[str]], how: str, rows: NDArray[Any] | None = None) -> Source:
        """One query a subject from its several ``prompts``, joined as ``how`` says (not for ``metric_mean``)."""
        if self._scores is not None:
            # Scores are linear in the text vector: the mean of the scores ranks as the mean of the vectors does.
            means = np.stack([self._scores[self._rows(p)].mean(axis=0) for p in prompts])
            return Scores(means if rows is None else means[:, rows])
        assert self._images is not None
        assert self._text_vectors is not None
        queries = []
        for some in prompts:
            vectors = self._text_vectors[self._rows(some)]
            vectors = vectors if how == "embed_mean_raw" else unit(vectors, "texts")
            queries.append(vectors.mean(axis=0))
        images = self._images if rows is None else self._images[rows]
        return Embeddings(unit(np.stack(queries), "texts"), images)

    def own_scores(
        self, prompts: Sequence[Sequence[str]], how: str, rows: NDArray[Any], query: NDArray[Any]
    ) -> NDArray[np.float64]:
        """(len(rows),) each image's score with its own query: ``query[i]`` says which of ``prompts`` asks for row i."""
        if self._scores is not None:
            means = np.stack([self._scores[self._rows(p)].mean(axis=0) for p in prompts])
            return np.asarray(means[query, rows], dtype=np.float64)
        queries = self.pooled_source(prompts, how, rows[:1]).queries
        assert self._images is not None
        scores = np.empty(len(rows))
        for start in range(0, len(rows), 65_536):
            part = slice(start, start + 65_536)
            scores[part] = np.einsum("ij,ij->i", self._images[rows[part]], queries[query[part]])
        return scores

    def scores(self, texts: Sequence[str]) -> NDArray[Any]:
        """(m, N) the scores of ``texts`` with every image; for suites with few texts."""
        wanted = self._rows(texts)
        if self._scores is not None:
            return np.asarray(self._scores[wanted])
        assert self._images is not None
        assert self._text_vectors is not None
        return np.asarray(unit(self._text_vectors[wanted], "texts") @ self._images.T)

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
        home = folder / FOLDER
        home.mkdir(parents=True, exist_ok=True)
        write_frame(home / "frame.parquet", self.frame)
        for name, array in (("images", self._images), ("texts", self._text_vectors), ("scores", self._scores)):
            if array is not None and not _is_file(array, home / f"{name}.npy"):
                with atomic_file(home / f"{name}.npy") as file:
                    np.save(file, np.asarray(array))
        about = {"model": self.model, "texts": self.texts, "logit_scale": self.logit_scale}
        with atomic_file(home / "evidence.json") as file:
            file.write(json.dumps(about, ensure_ascii=False).encode())

    @classmethod
    def open(cls, folder: Path) -> Evidence:
        """The evidence that an audit left in ``folder``."""
        home = folder / FOLDER
        if not (home / "evidence.json").is_file():
            raise InputError(f"{folder}: no evidence of an audit here ({FOLDER}/evidence.json is missing)")
        try:
            about = json.loads((home / "evidence.json").read_text(encoding="utf-8"))
            paths = {name: home / f"{name}.npy" for name in ("images", "texts", "scores")}
            arrays = {name: np.load(path, mmap_mode="r") for name, path in paths.items() if path.exists()}
            frame = pd.read_parquet(home / "frame.parquet")
        except (OSError, ValueError) as error:
            raise InputError(f"{home}: the evidence is damaged ({error}); run the audit again") from None
        return cls(
            frame,
            about["texts"],
            model=about["model"],
            image_vectors=arrays.get("images"),
            text_vectors=arrays.get("texts"),
            scores=arrays.get("scores"),
            logit_scale=about["logit_scale"],
        )


def _is_file(array: NDArray[Any], path: Path) -> bool:
    return isinstance(array, np.memmap) and array.filename is not None and Path(array.filename) == path.resolve()
