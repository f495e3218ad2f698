from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.examples import examples

from equipoise.data.atomic import locked
from equipoise.data.images import decode, encode
from equipoise.engine import EmbeddingStore, segments
from equipoise.engine import store as store_module
from equipoise.engine.content import as_ids, hex_of, ids_from_hex, image_ids, text_ids
from equipoise.errors import InputError


@pytest.fixture
def store(tmp_path: Path) -> EmbeddingStore:
    return EmbeddingStore(tmp_path, "enc")


def vectors_of(values: list[int]) -> Any:
    return np.array([[v, -v, 0.5] for v in values], np.float32)


def reopened(store: EmbeddingStore) -> EmbeddingStore:
    return EmbeddingStore(store.root, store.key)


class TestContentIds:
    def test_a_file_and_its_bytes_are_the_same_and_a_text_is_not(self, tmp_path: Path) -> None:
        data = encode(Image.new("RGB", (3, 2), "red"))
        (tmp_path / "a.png").write_bytes(data)
        ids = image_ids([data, {"bytes": data, "path": "x"}, {"bytes": None, "path": "a.png"}], root=tmp_path)
        assert ids.shape == (3, 16)
        assert len(set(hex_of(ids))) == 1
        assert hex_of(text_ids(["a"])) != hex_of(image_ids([b"a"]))
        assert hex_of(text_ids(["a", "b"]))[0] != hex_of(text_ids(["a", "b"]))[1]

    def test_pixels_are_named_as_they_look(self) -> None:
        """The numbers of a palette, or of a picture on its side, are not all that there is to see."""
        red, blue, plain, turned = (Image.new(mode, (4, 2)) for mode in ("P", "P", "RGB", "RGB"))
        red.putpalette([255, 0, 0] * 256)
        blue.putpalette([0, 0, 255] * 256)
        turned.info["exif"] = Image.Exif()
        turned.info["exif"][0x0112] = 6
        turned.info["exif"] = turned.info["exif"].tobytes()
        assert len(set(hex_of(image_ids([red, blue, plain, turned])))) == 4
        assert hex_of(image_ids([red])) == hex_of(image_ids([red.convert("RGB")]))

    def test_pixels_are_named_by_size_too(self) -> None:
        pictures = [Image.new("L", (2, 3), 9), Image.new("L", (3, 2), 9), Image.new("RGB", (2, 1), (9, 9, 9))]
        assert len(set(hex_of(image_ids(pictures)))) == 3
        assert hex_of(image_ids([Image.new("L", (2, 3), 9)])) == hex_of(image_ids(pictures[:1]))

    def test_the_digest_is_blake2b_of_16_bytes_over_type_and_content(self) -> None:
        import hashlib

        assert text_ids(["é"])[0].tobytes() == hashlib.blake2b(b"text\0\xc3\xa9", digest_size=16).digest()
        assert image_ids([b"xy"])[0].tobytes() == hashlib.blake2b(b"image\0xy", digest_size=16).digest()

    @pytest.mark.parametrize("bad", [["ab"], np.zeros((2, 15), np.uint8), np.zeros((2, 16)), [b"short"]])
    def test_anything_else_is_refused(self, bad: Any) -> None:
        with pytest.raises(InputError, match=r"ids must be an array of shape \(n, 16\)"):
            as_ids(bad)
        with pytest.raises(InputError, match="is not a content id"):
            ids_from_hex(["zz"])


IDS = st.builds(lambda high, low: bytes([high] * 8 + [0] * 7 + [low]), st.integers(0, 3), st.integers(0, 3))
STEPS = st.lists(st.lists(st.tuples(IDS, st.integers(-50, 50)), max_size=5), max_size=8)


class TestAgainstADictionary:
    @settings(max_examples=examples(25), deadline=None)
    @given(steps=STEPS, asked=st.lists(IDS, max_size=12))
    def test_the_first_vector_of_an_id_stays(
        self, tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[bytes, int]]], asked: list[bytes]
    ) -> None:
        """Ids that share their first eight bytes, repeated ids, and merges: all as a dictionary would have it."""
        store = EmbeddingStore(tmp_path_factory.mktemp("store"), "enc")
        truth: dict[bytes, int] = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_module, "MOST_SEGMENTS", 3)
            for step in steps:
                new = {key for key, _ in step} - set(truth)
                for key, value in step:
                    truth.setdefault(key, value)
                added = store.add([key for key, _ in step], vectors_of([v for _, v in step]).reshape(-1, 3))
                assert added == len(new)
        assert len(store) == len(truth)
        assert len(segments.segment_names(store.path)) <= 3
        for view in (store, reopened(store)):
            found, missing = view.get(asked)
            assert missing.tolist() == [key not in truth for key in asked]
            assert view.has(asked).tolist() == [key in truth for key in asked]
            for vector, key in zip(found, asked, strict=True):
                assert np.isnan(vector).all() if key not in truth else vector.tolist() == [truth[key], -truth[key], 0.5]


class TestEncode:
    def test_only_what_is_new_is_loaded_and_encoded(self, store: EmbeddingStore) -> None:
        pictures = [encode(Image.new("RGB", (4, 4), (i, 0, 0))) for i in range(7)]
        loaded: list[bytes] = []
        batches: list[int] = []

        def load(data: bytes) -> Any:
            loaded.append(data)
            return decode(data)

        def red(images: list[Any]) -> Any:
            batches.append(len(images))
            return np.array([[image.getpixel((0, 0))[0], 1] for image in images], np.float32)

        first = store.encode([pictures[i] for i in (0, 1, 2, 1, 0)], red, batch_size=2, load=load)
        assert first[:, 0].tolist() == [0, 1, 2, 1, 0]
        assert (loaded, batches) == (pictures[:3], [2, 1])
        second = reopened(store).encode(pictures, red, batch_size=8, load=load)
        assert second[:, 0].tolist() == list(range(7))
        assert (loaded, batches) == (pictures, [2, 1, 4])
        assert second.dtype == np.float32

    def test_what_was_encoded_before_a_failure_is_kept(self, store: EmbeddingStore) -> None:
        def fails_at_c(texts: list[str]) -> Any:
            if "c" in texts:
                raise RuntimeError("broken")
            return [[ord(t)] for t in texts]

        with pytest.raises(RuntimeError, match="broken"):
            store.encode(["a", "b", "c", "d"], fails_at_c, batch_size=1)
        assert store.has(text_ids(["a", "b", "c", "d"])).tolist() == [True, True, False, False]

    def test_batches_halve_when_memory_runs_out(self, store: EmbeddingStore) -> None:
        def greedy(texts: list[str]) -> Any:
            if len(texts) > 3:
                raise MemoryError
            return [[ord(t)] for t in texts]

        assert store.encode(list("abcdefg"), greedy, batch_size=7)[:, 0].tolist() == [ord(c) for c in "abcdefg"]

    def test_known_ids_are_taken(self, store: EmbeddingStore) -> None:
        ids = text_ids(["x", "y"])
        store.encode([1, 2], lambda batch: [[float(b)] for b in batch], ids=ids)
        assert store.get(ids)[0].tolist() == [[1.0], [2.0]]

    def test_nothing_to_encode(self, store: EmbeddingStore) -> None:
        assert store.encode([], lambda batch: 1 / 0).shape == (0, 0)

    @pytest.mark.parametrize(
        ("items", "fn", "options", "sentence"),
        [
            (["a", b"b"], None, {}, "items must be all texts or all images, but item 1 is not a text"),
            (["a", "b"], lambda b: [[1.0]], {}, "encode_fn gave 1 vectors for 2 items"),
            (["a"], lambda b: [[float("nan")]], {}, "vector 0 holds values that are not finite"),
            (["a"], lambda b: [1.0], {}, r"vectors must have the shape \(n, d\), not \(1,\)"),
            (["a"], lambda b: [[1.0]], {"batch_size": 0}, "batch_size must be at least 1, not 0"),
            (["a"], lambda b: [[1.0]], {"ids": text_ids(["a", "b"])}, "2 ids were given for 1 items"),
        ],
    )
    def test_wrong_input_is_named(
        self, store: EmbeddingStore, items: Any, fn: Any, options: dict[str, Any], sentence: str
    ) -> None:
        with pytest.raises(InputError, match=sentence):
            store.encode(items, fn, **options)
        assert len(store) == 0


class TestFiles:
    def test_another_length_is_another_encoder(self, store: EmbeddingStore) -> None:
        store.add(text_ids(["a"]), [[1.0, 2.0]])
        with pytest.raises(InputError, match="holds vectors of length 2, not 3; another encoder needs another key"):
            store.add(text_ids(["b"]), [[1.0, 2.0, 3.0]])
        with pytest.raises(InputError, match="2 ids were given for 1 vectors"):
            store.add(text_ids(["b", "c"]), [[1.0, 2.0]])

    def test_keys_do_not_mix_even_where_their_folder_names_look_alike(self, tmp_path: Path) -> None:
        one, two = EmbeddingStore(tmp_path, "a/b"), EmbeddingStore(tmp_path, "a_b")
        one.add(text_ids(["x"]), [[1.0]])
        assert one.path != two.path
        assert two.get(text_ids(["x"]))[1].all()
        with pytest.raises(InputError, match="key must be"):
            EmbeddingStore(tmp_path, "")

    def test_one_process_sees_what_another_wrote(self, store: EmbeddingStore) -> None:
        other = reopened(store)
        assert other.dim is None
        store.add(text_ids(["a"]), [[1.0]])
        assert other.get(text_ids(["a"]))[0].tolist() == [[1.0]]
        assert other.dim == 1

    @pytest.mark.parametrize("part", ["ids", "vectors"])
    @pytest.mark.parametrize("damage", ["cut", "empty", "gone", "garbage"])
    def test_a_torn_segment_is_ignored_and_mended(self, store: EmbeddingStore, part: str, damage: str) -> None:
        store.add(text_ids(["a", "b"]), vectors_of([1, 2]))
        store.add(text_ids(["c", "d", "e"]), vectors_of([3, 4, 5]))
        path = sorted(store.path.glob(f"seg-*.{part}.npy"))[1]
        content = path.read_bytes()
        path.unlink()
        if damage != "gone":
            path.write_bytes({"cut": content[:-5], "empty": b"", "garbage": b"x" * len(content)}[damage])
        torn = reopened(store)
        found, missing = torn.get(text_ids(list("abcde")))
        assert missing.tolist() == [False, False, True, True, True]
        assert found[:2].tolist() == vectors_of([1, 2]).tolist()
        encoded: list[str] = []

        def again(texts: list[str]) -> Any:
            encoded.extend(texts)
            return vectors_of([" abcde".index(t) for t in texts])

        assert torn.encode(list("abcde"), again).tolist() == vectors_of([1, 2, 3, 4, 5]).tolist()
        assert encoded == ["c", "d", "e"]
        assert len(list(torn.path.glob("seg-*"))) == 4, "what is torn is removed"

    def test_a_folder_of_something_else_is_refused(self, tmp_path: Path) -> None:
        store = EmbeddingStore(tmp_path, "enc")
        store.path.mkdir()
        (store.path / "thesis.txt").write_text("years of work")
        with pytest.raises(InputError, match="holds files but is not an embedding store"):
            EmbeddingStore(tmp_path, "enc")

    def test_a_future_version_is_refused(self, store: EmbeddingStore) -> None:
        store.add(text_ids(["a"]), [[1.0]])
        marker = store.path / "store.json"
        marker.write_text(marker.read_text().replace('"version": 1', '"version": 9'))
        with pytest.raises(InputError, match=r"store version 9, but .*pip install -U equipoise"):
            reopened(store)

    def test_a_pickle_holds_no_vectors(self, store: EmbeddingStore) -> None:
        store.add(text_ids([str(i) for i in range(1000)]), np.ones((1000, 8)))
        assert len(pickle.dumps(store)) < 1000
        assert len(pickle.loads(pickle.dumps(store))) == 1000

    def test_a_lookup_holds_only_what_is_asked_for(self, store: EmbeddingStore) -> None:
        n = 200_000
        ids = np.random.default_rng(0).integers(0, 256, (n, 16), dtype=np.uint8)
        store.add(ids, np.arange(n * 4, dtype=np.float32).reshape(n, 4))
        view = reopened(store)
        tracemalloc.start()
        found, missing = view.get(ids[::2000])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert not missing.any()
        assert found[:, 0].tolist() == (np.arange(0, n, 2000) * 4.0).tolist()
        assert peak < 200_000  # the ids alone are 3.2 MB


class TestExchange:
    def test_export_and_back(self, store: EmbeddingStore, tmp_path: Path) -> None:
        ids = text_ids([str(i) for i in range(20)])
        store.add(ids[:12], vectors_of(list(range(12))))
        store.add(ids[12:], vectors_of(list(range(12, 20))))
        table = store.export(tmp_path / "table")
        table.validate()
        assert {row["model"] for row in table.rows()} == {"enc"}
        assert [row["id"] for row in table.rows()] == sorted(hex_of(ids))
        other = EmbeddingStore(tmp_path / "elsewhere", "enc")
        assert other.add_table(table) == 20
        assert other.get(ids)[0].tolist() == vectors_of(list(range(20))).tolist()
        assert other.add_table(tmp_path / "table") == 0
        with pytest.raises(InputError, match="holds vectors of 'enc', but this store is for 'another'"):
            EmbeddingStore(tmp_path / "elsewhere", "another").add_table(table)

    def test_some_under_names_of_their_own(self, store: EmbeddingStore, tmp_path: Path) -> None:
        store.add(text_ids(["a", "b", "c"]), vectors_of([1, 2, 3]))
        table = store.export(tmp_path / "t", ids=text_ids(["c", "a"]), names=["img-c", "img-a"])
        assert [(row["id"], row["vector"][0]) for row in table.rows()] == [("img-c", 3.0), ("img-a", 1.0)]

    def test_what_cannot_be_exported_is_named(self, store: EmbeddingStore, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="nothing to export"):
            store.export(tmp_path / "t")
        store.add(text_ids(["a"]), vectors_of([1]))
        with pytest.raises(InputError, match="1 of 2 ids are not in the embedding store 'enc', such as"):
            store.export(tmp_path / "t", ids=text_ids(["a", "z"]))
        with pytest.raises(InputError, match="1 names were given for 2 ids"):
            store.export(tmp_path / "t", ids=text_ids(["a", "a"]), names=["x"])


@pytest.fixture
def small_store(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    return lambda: monkeypatch.setattr(store_module, "MOST_SEGMENTS", 4)


def test_many_small_additions_leave_few_files(store: EmbeddingStore, small_store: Callable[[], None]) -> None:
    small_store()
    for i in range(40):
        store.add(text_ids([str(i)]), vectors_of([i]))
    assert store.info().n_segments <= 4
    assert store.info().n == 40
    found, missing = store.get(text_ids([str(i) for i in range(40)]))
    assert not missing.any()
    assert found[:, 0].tolist() == list(range(40))


def test_what_a_killed_writer_left_is_cleared_when_the_store_is_opened(tmp_path: Path) -> None:
    """Also where nothing more is to be added, and before there is a marker; but not while somebody writes."""
    folder = EmbeddingStore(tmp_path, "enc").path
    folder.mkdir()
    left = folder / ".store.json.1a2b3c.tmp"
    left.touch()
    with locked(tmp_path / f".{folder.name}.lock", what="it"):
        EmbeddingStore(tmp_path, "enc")
        assert left.exists()
    EmbeddingStore(tmp_path, "enc")
    assert not list(folder.iterdir())
