from __future__ import annotations

import io
import re
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from equipoise.data import Table
from equipoise.engine import Asking, EmbeddingStore, embed, vector_batches, vectors
from equipoise.engine.asking import file_vectors
from equipoise.engine.progress import Progress
from equipoise.engine.store import stores
from equipoise.errors import InputError, UnknownNameError
from equipoise.models import load


class Colours:
    """The mean colour of an image, and lengths of texts; notes the batches it was asked for."""

    name = "colours"
    key = "colours 2"

    def __init__(self) -> None:
        self.images: list[int] = []
        self.texts: list[int] = []

    def encode_images(self, images: Sequence[Any]) -> Any:
        self.images.append(len(images))
        return np.array([np.asarray(image, np.float32).mean(axis=(0, 1)) for image in images])

    def encode_texts(self, texts: Sequence[str]) -> Any:
        self.texts.append(len(texts))
        return np.array([[len(text), 1.0, 2.0] for text in texts])


QUIET = Asking(batch_size=4, progress=False)


def test_images_are_asked_about_once_in_batches_of_one_shard(people: Table) -> None:
    encoder = Colours()
    found = vectors(encoder, people, QUIET)
    truth = np.stack([np.asarray(image, np.float32).mean(axis=(0, 1)) for _, image in people.images()])
    np.testing.assert_array_equal(found, truth)
    assert encoder.images == [4, 4, 2, 4, 4, 2, 4, 1]  # shards of 10, 10 and 5
    np.testing.assert_array_equal(vectors(encoder, people.path, QUIET), truth)
    assert len(encoder.images) == 8
    assert len(EmbeddingStore(None, "colours 2")) == 25


def test_some_images_in_the_order_asked_for(people: Table) -> None:
    encoder = Colours()
    ids = ["img-0023", "img-0001", "img-0002"]
    some = vectors(encoder, people, QUIET, ids=ids)
    np.testing.assert_array_equal(some, vectors(encoder, people, Asking(keep=False, progress=False))[[23, 1, 2]])
    with pytest.raises(InputError, match="holds 1 of the 2 images that were asked for"):
        vectors(encoder, people, QUIET, ids=["img-0003", "nobody"])


def test_what_a_filter_dropped_is_not_encoded(people: Table) -> None:
    keep = [{"image_id": f"img-{i:04d}", "keep": i % 5 != 0, "dropped_by": None} for i in range(25)]
    kept = people.add_layer("some", keep, columns={"keep": "bool", "dropped_by": "string"})
    encoder = Colours()
    assert len(vectors(encoder, kept, QUIET)) == 20
    assert sum(encoder.images) == 20


def test_texts_are_asked_about_once(tmp_path: Path) -> None:
    encoder = Colours()
    how = Asking(store=tmp_path / "s")
    assert vectors(encoder, ["a", "bcd", "a"], how)[:, 0].tolist() == [1, 3, 1]
    assert vectors(encoder, ["bcd", "ef"], how)[:, 0].tolist() == [3, 2]
    assert encoder.texts == [2, 1]
    vectors(encoder, ["a"], Asking(keep=False))
    assert encoder.texts == [2, 1, 1]
    assert vectors(encoder, [], how).shape == (0, 0)


def test_texts_of_a_table_may_be_repeated_and_may_be_none(tmp_path: Path) -> None:
    rows = [{"id": text, "model": "m", "vector": [float(len(text)), 1.0]} for text in ("a man", "a dog")]
    Table.create(tmp_path / "v", rows, kind="embeddings", dim=2)
    given = load(f"table:{tmp_path / 'v'}")
    found = vectors(given, ["a dog", "a man", "a dog"])
    np.testing.assert_array_equal(found, given.text_vectors(["a dog", "a man"])[[0, 1, 0]])
    assert len(vectors(given, [])) == 0


def test_an_image_that_cannot_be_read_is_named(make_rows: Any, tmp_path: Path) -> None:
    rows = make_rows(6)
    rows[4]["image"] = b"no image"
    table = Table.create(tmp_path / "in", rows, axes=["gender"])
    for how in (QUIET, Asking(keep=False, progress=False)):
        with pytest.raises(InputError, match=r"in: image 'img-0004': cannot read 8 bytes as an image"):
            vectors(Colours(), table, how)
    # What was encoded is kept, the rest of its batch too.
    assert len(EmbeddingStore(None, "colours 2")) == 5


def test_what_is_not_finite_is_not_kept(people: Table) -> None:
    class Broken(Colours):
        def encode_images(self, images: Sequence[Any]) -> Any:
            made = super().encode_images(images)
            made[0, 0] = np.nan
            return made

    assert np.isnan(vectors(Broken(), people, QUIET)).sum() == 8
    assert len(EmbeddingStore(None, "colours 2")) == 25 - 8


def test_wrong_shapes_are_refused(people: Table) -> None:
    class Short(Colours):
        def encode_images(self, images: Sequence[Any]) -> Any:
            return super().encode_images(images)[1:]

    with pytest.raises(InputError, match=re.escape("colours gave vectors of shape (3, 3) for 4 images")):
        vectors(Short(), people, QUIET)


def test_a_remedy_is_put_behind_the_vectors_in_the_cache(people: Table) -> None:
    class Doubled:
        name, key = "doubled", "doubled"

        def __init__(self, encoder: Colours) -> None:
            self.encoder = encoder

        def changed_images(self, made: Any) -> Any:
            return 2 * made

        def changed_texts(self, made: Any, texts: Sequence[str]) -> Any:
            assert len(made) == len(texts), "a remedy that asks for the texts gets those of the vectors"
            return 2 * made

    encoder = Colours()
    plain = vectors(encoder, people, QUIET)
    np.testing.assert_array_equal(vectors(Doubled(encoder), people, QUIET), 2 * plain)
    assert sum(encoder.images) == 25
    assert vectors(Doubled(encoder), ["abc"], QUIET)[0].tolist() == [6, 2, 4]
    assert [info.key for info in stores()] == ["colours 2"]


def test_an_encoder_without_a_key_is_not_kept(people: Table) -> None:
    class Nameless(Colours):
        key = ""

    encoder = Nameless()
    vectors(encoder, people, QUIET)
    vectors(encoder, people, QUIET)
    assert sum(encoder.images) == 50


def test_a_batch_that_does_not_fit_into_memory_is_halved(people: Table) -> None:
    class Greedy(Colours):
        def encode_images(self, images: Sequence[Any]) -> Any:
            if len(images) > 2:
                raise MemoryError
            return super().encode_images(images)

    np.testing.assert_array_equal(
        vectors(Greedy(), people, QUIET), vectors(Colours(), people, Asking(keep=False, progress=False))
    )


def test_memory_holds_a_batch(make_rows: Any, tmp_path: Path) -> None:
    """No more images are alive than those of a batch, however many there are."""
    table = Table.create(tmp_path / "in", make_rows(60), axes=["gender"])
    seen: list[Any] = []
    alive = []

    class Counting(Colours):
        def encode_images(self, images: Sequence[Any]) -> Any:
            seen.extend(weakref.ref(image) for image in images)
            alive.append(sum(image() is not None for image in seen))
            return super().encode_images(images)

    ids = [f"img-{i:04d}" for i in range(60)]
    n_at_once = [len(at) for at, _ in vector_batches(Counting(), table, ids, QUIET)]
    assert n_at_once == [4] * 15
    assert max(alive) <= 8  # the batch in hand, and at most the one before it


def test_files_in_batches_and_what_is_wrong_with_some(tmp_path: Path) -> None:
    from PIL import Image

    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for i, path in enumerate(paths):
        Image.new("RGB", (4, 4), (i, 0, 0)).save(path)
    paths[3].write_bytes(b"no image")
    encoder = Colours()
    for _ in range(2):
        found = list(file_vectors(encoder, paths, QUIET))
        assert [at.tolist() for at, _, _ in found] == [[0, 1, 2], [4]]
        assert [some[:, 0].tolist() for _, some, _ in found] == [[0, 1, 2], [4]]
        assert {place: str(error) for _, _, errors in found for place, error in errors.items()} == {
            3: f"cannot read {paths[3]} as an image: it is not a known format, or it is damaged"
        }
    assert encoder.images == [3, 1]


def test_settings_are_checked() -> None:
    with pytest.raises(UnknownNameError, match="rai"):
        Asking(engine="rai")
    with pytest.raises(InputError, match="batch_size must be at least 1"):
        Asking(batch_size=0)


def test_progress_that_is_brief_says_nothing_of_quick_work() -> None:
    for seconds, told in ((1.0, ""), (10.0, "encode: 2/2 images (100%), 0.2 images/s\n")):
        out, now = io.StringIO(), iter([0.0, seconds, seconds, seconds])
        with Progress(
            "encode", total=2, unit="images", brief=True, stream=out, clock=lambda now=now: next(now)
        ) as progress:
            progress.advance(2)
        assert out.getvalue() == told


def test_ray_workers_encode_the_same_batches_and_the_driver_none(
    people: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's part is played by the local engine: the same function, batches and store, as pickled for a worker."""
    import pickle

    from equipoise.engine import asking as encoding
    from equipoise.engine import map as map_table

    batches: list[int] = []
    needed: list[dict[str, int]] = []

    def in_a_worker(fn: Any, *given: Any, **options: Any) -> Table:
        assert options.pop("engine") == "ray"
        assert options.pop("workers") == 2
        needed.append(options.pop("resources"))
        copy = pickle.loads(pickle.dumps(fn))
        made = map_table(copy, *given, **options)
        batches.extend(copy.keep.encoder.images)
        return made

    monkeypatch.setattr(encoding, "map_table", in_a_worker)
    truth = vectors(Colours(), people, Asking(batch_size=4, keep=False, progress=False))
    ray = Asking(batch_size=4, engine="ray", workers=2, progress=False)
    for how in (ray, replace(ray, keep=False)):
        encoder, batches[:] = Colours(), []
        np.testing.assert_array_equal(vectors(encoder, people, how), truth)
        assert encoder.images == []
        assert batches == [4, 4, 2, 4, 4, 2, 4, 1]
    assert len(EmbeddingStore(None, "colours 2")) == 25
    made = embed(Colours(), people, tmp_path / "ray", how=ray)
    assert made.fingerprint == embed(Colours(), people, tmp_path / "local", how=QUIET).fingerprint

    assert needed == [{}] * len(needed) != []
    monkeypatch.setattr(Colours, "device", SimpleNamespace(type="cuda"), raising=False)
    vectors(Colours(), people, replace(ray, keep=False))
    assert needed[-1] == {"num_gpus": 1}, "a worker without a GPU would compute other numbers, and slowly"

    class Nameless(Colours):
        key = ""

    with pytest.raises(InputError, match="needs an encoder with a key"):
        vectors(Nameless(), people, ray)
