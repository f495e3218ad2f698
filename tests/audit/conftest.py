"""Models with a known bias, as scores or as vectors, for suites that must find it again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equipoise.audit.evidence import Evidence
from equipoise.data import Table


class HashedWords:
    """An encoder of texts that adds up one random vector per word, and of images by their id: knows nothing."""

    name = "hashed-words"
    key = "hashed-words"
    logit_scale = 100.0

    def __init__(self, dim: int = 64) -> None:
        self.dim = dim

    def _vector(self, word: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).normal(size=self.dim)

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        # sorted: the order of summing must not tell two texts of the same words apart
        rows = [sum(self._vector(w) for w in sorted(t.lower().split())) for t in texts]
        return np.array([r / np.linalg.norm(r) for r in rows], dtype=np.float32)

    def image_vectors(self, ids: Sequence[str]) -> np.ndarray:
        return np.array([self._vector("image " + i) for i in ids], dtype=np.float32)

    text_vectors = encode_texts


@pytest.fixture(autouse=True)
def _no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """No page after each audit: pages have tests of their own, and drawing one takes longer than most of these."""
    from equipoise.audit import running
    from equipoise.cli import audit

    monkeypatch.setattr(running, "write_page_into", lambda folder: None)
    monkeypatch.setattr(audit, "write_page", lambda folder: None)


@pytest.fixture
def hashed_words() -> HashedWords:
    return HashedWords()


@pytest.fixture
def scored() -> Callable[..., Evidence]:
    """Evidence from a rule: ``score(row of the table, text)`` for every image and text of a suite."""

    def make(suite, frame: pd.DataFrame, score: Callable[[dict, str], float], config=None) -> Evidence:
        texts = list(suite.texts(frame, config or suite.defaults))
        rows = frame.to_dict("records")
        matrix = np.array([[score(row, text) for row in rows] for text in texts])
        return Evidence(frame, texts, model="rule", scores=matrix)

    return make


@pytest.fixture
def embeddings_table(tmp_path: Path) -> Callable[..., Table]:
    """A table of embeddings from ids (images, texts) and vectors."""

    def make(name: str, ids: Sequence[str], vectors: np.ndarray) -> Table:
        rows = [{"id": i, "vector": v.tolist(), "model": name} for i, v in zip(ids, vectors, strict=True)]
        return Table.create(tmp_path / name, rows, kind="embeddings", dim=vectors.shape[1])

    return make


class Toy:
    """A table of images and a table of embeddings on disk, and the audit of one with the other."""

    def __init__(self, home: Path, rows: Sequence[dict], vectors: dict[str, np.ndarray], axes=(), columns=()) -> None:
        self.home, self.table = home, home / "images"
        Table.create(self.table, rows, axes=axes, columns=columns)
        dim = len(next(iter(vectors.values())))
        made = [{"id": k, "vector": (v / np.linalg.norm(v)).tolist(), "model": "toy"} for k, v in vectors.items()]
        Table.create(home / "vectors", made, kind="embeddings", dim=dim)
        self.model = f"table:{home / 'vectors'}"

    def run(self, suite, out: str | None = None, **config):
        from equipoise.audit import run

        return run(self.model, suite, self.table, None if out is None else self.home / out, config=config)


@pytest.fixture
def toy(tmp_path: Path) -> Callable[..., Toy]:
    """Builds a :class:`Toy` from rows, vectors by image id and text, and axes; several are numbered."""
    made: list[Toy] = []

    def make(*given, **named) -> Toy:
        home = tmp_path / f"toy{len(made)}"
        home.mkdir()
        made.append(Toy(home, *given, **named))
        return made[-1]

    return make


@pytest.fixture
def picked() -> Callable[..., pd.Series]:
    """The one row of a results table with these keys; ``None`` stands for an empty cell."""

    def pick(results: pd.DataFrame, **keys) -> pd.Series:
        for name, value in ({"subject": None, "group": None} | keys).items():
            results = results[results[name].isna()] if value is None else results[results[name] == value]
        assert len(results) == 1, (keys, len(results))
        return results.iloc[0]

    return pick
