"""Vectors and scores as other programs save them, read directly and imported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from equipoise.data import import_table
from equipoise.data.readers.files.vectors import named_vectors
from equipoise.errors import InputError
from equipoise.models import load

IDS = ["a.png", "b.png", "a photo of a cook"]
VECTORS = np.array([[1.0, 0.5], [0.25, 2.0], [3.0, -1.0]], dtype=np.float32)


def npz(path: Path) -> Path:
    np.savez(path / "v.npz", ids=np.array(IDS), vectors=VECTORS)
    return path / "v.npz"


def npz_by_kind(path: Path) -> Path:
    of = {"image_ids": np.array(IDS[:2]), "image_embeddings": VECTORS[:2]}
    np.savez(path / "v.npz", **of, texts=np.array(IDS[2:]), text_embeddings=VECTORS[2:])
    return path / "v.npz"


def npz_by_name(path: Path) -> Path:
    np.savez(path / "v.npz", **dict(zip(IDS, VECTORS, strict=True)))
    return path / "v.npz"


def npy(path: Path) -> Path:
    np.save(path / "v.npy", VECTORS)
    (path / "v.ids.txt").write_text("\n".join(IDS) + "\n")
    return path / "v.npy"


def parquet(path: Path) -> Path:
    pd.DataFrame({"id": IDS, "embedding": VECTORS.tolist()}).to_parquet(path / "v.parquet")
    return path / "v.parquet"


def wide_parquet(path: Path) -> Path:
    pd.DataFrame(VECTORS, columns=["d0", "d1"]).assign(name=IDS).to_parquet(path / "v.parquet")
    return path / "v.parquet"


def jsonl(path: Path) -> Path:
    pd.DataFrame({"id": IDS, "vector": VECTORS.tolist()}).to_json(path / "v.jsonl", orient="records", lines=True)
    return path / "v.jsonl"


def csv(path: Path) -> Path:
    pd.DataFrame({"id": IDS, "x": VECTORS[:, 0], "y": VECTORS[:, 1]}).to_csv(path / "v.csv", index=False)
    return path / "v.csv"


def safetensors(path: Path) -> Path:
    save = pytest.importorskip("safetensors.numpy").save_file
    save({"vectors": VECTORS}, path / "v.safetensors")
    (path / "ids.txt").write_text("\n".join(IDS))
    return path / "v.safetensors"


def safetensors_by_name(path: Path) -> Path:
    pytest.importorskip("safetensors.numpy").save_file(dict(zip(IDS, VECTORS, strict=True)), path / "v.safetensors")
    return path / "v.safetensors"


KINDS = [npz, npz_by_kind, npz_by_name, npy, parquet, wide_parquet, jsonl, csv, safetensors, safetensors_by_name]


@pytest.mark.parametrize("make", KINDS)
def test_every_kind_of_file_is_read_directly_and_imported(make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    direct = load(f"table:{path}")
    assert direct.image_vectors(["b.png", "a.png"]).tolist() == VECTORS[[1, 0]].tolist()
    assert direct.text_vectors(IDS[2:]).tolist() == VECTORS[2:].tolist()
    imported = import_table("embeddings", path, tmp_path / "t", model="mine").table
    assert load(f"table:{imported.path}").image_vectors(IDS).tolist() == VECTORS.tolist()
    assert set(imported.to_pandas(["model"])["model"]) == {"mine"}


def test_of_two_columns_of_vectors_none_is_guessed(tmp_path: Path) -> None:
    """The first would be taken: vectors of texts for the images, if they stand before those of the images."""
    rows = {"image_id": ["a", "b"], "text_emb": [[0.0, 1.0]] * 2, "image_emb": [[1.0, 0.0]] * 2}
    pd.DataFrame(rows).to_parquet(tmp_path / "v.parquet")
    with pytest.raises(InputError, match=r"several columns of vectors \(text_emb, image_emb\)"):
        load(f"table:{tmp_path / 'v.parquet'}").image_vectors(["a"])
    pd.DataFrame(rows).rename(columns={"image_emb": "vector"}).to_parquet(tmp_path / "v.parquet")
    assert load(f"table:{tmp_path / 'v.parquet'}").image_vectors(["a"]).tolist() == [[1.0, 0.0]]


def test_a_column_names_the_model_of_each_vector_in_every_kind_of_file(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "model": ["clip", "siglip", None],
            "id": ["a.png", "a.png", "b.png"],
            "vector": [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]],
        }
    )
    frame.to_csv(tmp_path / "v.csv", index=False)
    frame.to_parquet(tmp_path / "v.parquet")
    frame.to_json(tmp_path / "v.jsonl", orient="records", lines=True)
    for kind in ("csv", "parquet", "jsonl"):
        found = import_table("embeddings", tmp_path / f"v.{kind}", tmp_path / kind)
        assert found.table.to_pandas(["id", "model"]).to_numpy().tolist() == [["a.png", "clip"], ["a.png", "siglip"]]
        assert list(found.examples.values()) == ["no model is named; fill the column 'model' or give model="], kind
        told = import_table("embeddings", tmp_path / f"v.{kind}", tmp_path / f"{kind}-told", model="own").table
        assert told.to_pandas(["model"])["model"].tolist() == ["clip", "siglip", "own"]
        assert [row["vector"] for row in told.rows(["vector"])] == frame["vector"].tolist()


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_vector_without_an_id_is_refused(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"id": ["a.png", None], "vector": [[1.0, 0.0], [0.0, 1.0]]})
    if kind == "parquet":
        frame.to_parquet(tmp_path / "v.parquet")
    else:
        frame.to_json(tmp_path / "v.jsonl", orient="records", lines=True)
    with pytest.raises(InputError, match="has no id; give each vector an id, or leave the row out"):
        import_table("embeddings", tmp_path / f"v.{kind}", tmp_path / "t")


def test_bfloat16_is_read_as_it_is(tmp_path: Path) -> None:
    halves = (VECTORS.view(np.uint32) >> 16).astype("<u2").tobytes()  # these numbers need no more bits
    about = {"v": {"dtype": "BF16", "shape": list(VECTORS.shape), "data_offsets": [0, len(halves)]}}
    header = json.dumps(about).encode()
    (tmp_path / "v.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + halves)
    (tmp_path / "ids.txt").write_text("\n".join(IDS))
    assert load(f"table:{tmp_path / 'v.safetensors'}").image_vectors(IDS).tolist() == VECTORS.tolist()


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": VECTORS}, "no list of as many names"),
        ({"x": VECTORS, "ids": np.array(["a"])}, r"there is ids of 1"),
        ({"x": VECTORS, "one": np.array(IDS), "two": np.array(IDS)}, "could both name the rows"),
        ({"x": np.array(IDS)}, "no matrix with one vector per row"),
        ({"x": np.array([{"a": 1}], dtype=object)}, "Python objects, which are not opened"),
    ],
)
def test_an_npz_that_cannot_be_read_says_how_to_save_one(arrays: Any, said: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(InputError, match=said):
        list(named_vectors(tmp_path / "v.npz"))


def test_damage_and_missing_ids_are_told(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS)
    with pytest.raises(InputError, match=r"one id per line, .* into v\.ids\.txt beside it"):
        list(named_vectors(tmp_path / "v.npy"))
    (tmp_path / "ids.txt").write_text("a\nb\n")
    with pytest.raises(InputError, match="3 vectors and there are 2 ids"):
        list(named_vectors(tmp_path / "v.npy"))
    for name in ("v.npz", "w.npy", "v.safetensors", "v.parquet"):
        (tmp_path / name).write_bytes(b"\x00\x01 damaged")
        with pytest.raises(InputError, match=name):
            list(named_vectors(tmp_path / name))
    with pytest.raises(InputError, match="vectors are read from files that end in"):
        list(named_vectors(tmp_path / "ids.txt"))
    with pytest.raises(InputError, match="leave out ids"):
        list(named_vectors(npz(tmp_path), tmp_path / "ids.txt"))
    (tmp_path / "v.jsonl").write_text('{"id": "a", "vector": [1, 2]}\n{"id": "b", "vector": [1]}\n')
    with pytest.raises(InputError, match="the vector of 'b' is not 2 numbers"):
        list(named_vectors(tmp_path / "v.jsonl"))


def test_a_vector_that_is_not_finite_costs_itself(tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", ids=np.array(["a", "b"]), vectors=np.array([[1.0, np.nan], [1.0, 2.0]]))
    found = import_table("embeddings", tmp_path / "v.npz", tmp_path / "t")
    assert (found.n_rows, found.n_rejected) == (1, 1)


def test_what_is_missing_is_shown_beside_what_is_there(tmp_path: Path) -> None:
    model = load(f"table:{npz(tmp_path)}")
    with pytest.raises(InputError, match=r"lacks 1 of 1 image ids, for example 'a' \(it has 'a\.png' and 'b\.png'\)"):
        model.image_vectors(["a"])
    with pytest.raises(InputError, match="equipoise suites SUITE --table TABLE lists them"):
        model.text_vectors(["a nurse"])


def long(path: Path) -> Path:
    rows = [("a", "x", 1.0), ("a", "y", 2.0), ("b", "x", 3.0), ("b", "y", 4.0)]
    pd.DataFrame(rows, columns=["image_id", "text_id", "score"]).to_parquet(path / "s.parquet")
    return path / "s.parquet"


def wide(path: Path) -> Path:
    (path / "s.tsv").write_text("image_id\tx\ty\na\t1\t2\nb\t3\t4\n")
    return path / "s.tsv"


def arrays(path: Path) -> Path:
    scores = np.array([[1.0, 3.0], [2.0, 4.0]])
    np.savez(path / "s.npz", image_ids=np.array(["a", "b"]), texts=np.array(["x", "y"]), scores_by_text=scores)
    return path / "s.npz"


def arrays_by_image(path: Path) -> Path:
    scores = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.savez(path / "s.npz", image_ids=np.array(["a", "b"]), texts=np.array(["x", "y"]), scores_by_image=scores)
    return path / "s.npz"


@pytest.mark.parametrize("make", [long, wide, arrays, arrays_by_image])
def test_scores_of_every_kind(make: Callable[[Path], Path], tmp_path: Path) -> None:
    table = import_table("scores", make(tmp_path), tmp_path / "t").table
    found = table.to_pandas(["image_id", "text_id", "score"]).set_index(["image_id", "text_id"])["score"].to_dict()
    assert found == {("a", "x"): 1, ("a", "y"): 2, ("b", "x"): 3, ("b", "y"): 4}


@pytest.mark.parametrize("by", ["text", "image"])
def test_the_rows_of_scores_are_texts_or_images_by_their_number(by: str, tmp_path: Path) -> None:
    scores = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])  # two texts, three images
    ids = {"image_ids": np.array(["a", "b", "c"]), "texts": np.array(["x", "y"])}
    np.savez(tmp_path / "s.npz", vectors=np.ones((2, 3)), **ids, scores=scores if by == "text" else scores.T)
    table = import_table("scores", tmp_path / "s.npz", tmp_path / "t").table.to_pandas()
    assert table.pivot(index="text_id", columns="image_id", values="score").to_numpy().tolist() == scores.tolist()


def test_a_square_of_scores_must_say_what_its_rows_are(tmp_path: Path) -> None:
    """Either way it fits; taken the wrong way round, every score would be another pair's."""
    ids = {"image_ids": np.array(["a", "b"]), "texts": np.array(["x", "y"])}
    np.savez(tmp_path / "s.npz", scores=np.array([[1.0, 2.0], [3.0, 4.0]]), **ids)
    with pytest.raises(InputError, match=r"it as scores_by_text= if each row is a text, as scores_by_image="):
        import_table("scores", tmp_path / "s.npz", tmp_path / "t")


def test_scores_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "s.npz", scores=VECTORS)
    with pytest.raises(InputError, match=r"image_ids=\.\.\., texts="):
        import_table("scores", tmp_path / "s.npz", tmp_path / "t")
    np.savez(tmp_path / "s.npz", scores=VECTORS, image_ids=np.array(["a"]), texts=np.array(["b"]))
    with pytest.raises(InputError, match=r"shape \(3, 2\) do not fit 1 texts and 1 images"):
        import_table("scores", tmp_path / "s.npz", tmp_path / "t")
