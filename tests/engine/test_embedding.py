from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.data import Table
from equipoise.data.writer import TableWriter
from equipoise.engine import Asking, EmbeddingStore, embed_images, embedding, read_notes
from equipoise.engine.embedding import embed
from equipoise.engine.progress import NoProgress


class Colours:
    """The mean colour of an image; counts what it was asked for."""

    key = "colours 1"

    def __init__(self) -> None:
        self.batches: list[int] = []

    def encode_images(self, images: Any) -> Any:
        self.batches.append(len(images))
        return np.array([np.asarray(image, np.float32).mean(axis=(0, 1)) for image in images], np.float32)

    def encode_texts(self, texts: Any) -> Any:
        return np.zeros((len(texts), 3), np.float32)


def test_an_image_is_encoded_once_in_its_life(people: Table, make_rows: Any, tmp_path: Path) -> None:
    encoder = Colours()
    made = embed_images(people, encoder, tmp_path / "a", store=tmp_path / "s", batch_size=4, progress=False)
    assert (sum(encoder.batches), len(made)) == (25, 25)
    truth = {name: np.asarray(image, np.float32).mean(axis=(0, 1)) for name, image in people.images()}
    for row in made.rows():
        np.testing.assert_array_equal(np.float32(row["vector"]), truth[row["id"]])
    # Another table with the same images under other names, and five new ones.
    rows = [row | {"image_id": "other " + row["image_id"]} for row in make_rows(30)]
    other = Table.create(tmp_path / "other", rows, axes=["gender"])
    again = embed_images(other, encoder, tmp_path / "b", store=tmp_path / "s", batch_size=10, progress=False)
    assert (sum(encoder.batches), len(again)) == (30, 30)
    vectors = [row["vector"] for row in again.rows()]
    assert vectors[:25] == [row["vector"] for row in made.rows()]
    assert len(EmbeddingStore(tmp_path / "s", "colours 1")) == 30


class Shorter:
    """Colours without the last number, as a remedy that drops some."""

    key, name = "colours 1 without blue", "shorter"

    def __init__(self) -> None:
        self.encoder = Colours()

    def changed_images(self, vectors: Any) -> Any:
        return vectors[:, :2]

    def changed_texts(self, vectors: Any, texts: Any = None) -> Any:
        return vectors[:, :2]

    def encode_images(self, images: Any) -> Any:
        return self.changed_images(self.encoder.encode_images(images))

    def encode_texts(self, texts: Any) -> Any:
        return self.changed_texts(self.encoder.encode_texts(texts))


def test_an_encoder_that_drops_numbers_embeds_from_a_store_of_the_whole_vectors(people: Table, tmp_path: Path) -> None:
    how = Asking(store=tmp_path / "s", progress=False)
    whole = embed(Colours(), people, tmp_path / "whole", texts=["a"], how=how)
    shorter = embed(Shorter(), people, tmp_path / "shorter", texts=["a"], how=how)
    assert [row["vector"] for row in shorter.rows()] == [row["vector"][:2] for row in whole.rows()]
    again = embed_images(people, Shorter(), tmp_path / "again", store=tmp_path / "s", progress=False)
    assert again.types["vector"] == shorter.types["vector"]


def test_broken_images_cost_their_rows(make_rows: Any, tmp_path: Path) -> None:
    rows = make_rows(6)
    rows[1]["image"] = None
    rows[4]["image"] = b"no image"
    table = Table.create(tmp_path / "in", rows, axes=["gender"])
    made = embed_images(table, Colours(), tmp_path / "out", store=tmp_path / "s", progress=False)
    assert [row["id"] for row in made.rows()] == ["img-0000", "img-0002", "img-0003", "img-0005"]
    assert made.errors()["where"].tolist() == ["img-0001", "img-0004"]


def test_what_is_done_already_counts_as_far_as_it_is_wanted(
    make_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counted(NoProgress):
        def advance(self, n: int, *, failed: int = 0) -> None:
            done.append(n)

    done: list[int] = []
    table = Table.create(tmp_path / "in", make_rows(6), axes=["gender"])
    judged = [{"image_id": f"img-000{i}", "keep": i < 4} for i in range(6)]
    kept = table.add_layer("four", judged, columns=["keep"])
    monkeypatch.setattr(embedding, "progress_of", lambda what, total, how: Counted(what, total=total))
    monkeypatch.setattr(TableWriter, "finish", lambda self, n: 1 / 0)
    how = Asking(store=tmp_path / "s", progress=False)
    for _ in range(2):
        done.clear()
        with pytest.raises(ZeroDivisionError):
            embed(Colours(), kept, tmp_path / "out", texts=["one", "two"], how=how)
        assert done == [4, 2]


def test_where_the_cache_lies_does_not_change_the_table(people: Table, tmp_path: Path) -> None:
    made = [embed_images(people, Colours(), tmp_path / n, store=tmp_path / f"s{n}", progress=False) for n in "ab"]
    assert made[0].fingerprint == made[1].fingerprint


def test_a_batch_that_is_halved_is_noted(people: Table, tmp_path: Path) -> None:
    class Greedy(Colours):
        def encode_images(self, images: Any) -> Any:
            if len(images) > 4:
                raise MemoryError
            return super().encode_images(images)

    made = embed_images(people, Greedy(), tmp_path / "out", store=tmp_path / "s", batch_size=8, progress=False)
    assert len(made) == 25
    assert read_notes(made.path)["part-00000.parquet"] == [{"row": 0, "out_of_memory_with": 8, "batch_size": 4}]


def test_the_same_image_twice_in_a_batch(make_rows: Any, tmp_path: Path) -> None:
    rows = make_rows(3)
    rows[2]["image"] = rows[0]["image"]
    encoder = Colours()
    table = Table.create(tmp_path / "in", rows, axes=["gender"])
    made = embed_images(table, encoder, tmp_path / "out", store=tmp_path / "s", progress=False)
    vectors = [row["vector"] for row in made.rows()]
    assert vectors[0] == vectors[2] != vectors[1]
    assert encoder.batches == [2]
