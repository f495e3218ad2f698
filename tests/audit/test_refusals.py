"""What cannot be audited is refused in one sentence: by the functions, and by the command line with exit code 2."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from equipoise.audit import run
from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.models.precomputed import EmbeddingTable

DIM = 6
JOBS = ("cook", "nurse")


def world():
    rng = np.random.default_rng(0)
    rows, vectors = [], {f"A {job}": rng.normal(size=DIM) for job in JOBS}
    for job in JOBS:
        for number in range(4):
            for gender in ("female", "male"):
                for race in ("A", "B"):
                    name = f"{job}{number}{gender}{race}"
                    rows.append(
                        {"image_id": name, "set_id": f"{job}{number}", "subject": job, "gender": gender, "race": race}
                    )
                    vectors[name] = rng.normal(size=DIM)
    return rows, vectors


@pytest.fixture
def made(toy):
    return toy(*world(), axes=["gender", "race"])


@pytest.fixture
def refused(command_line):
    """The one sentence on standard error; no traceback, nothing on standard output."""

    def sentence(*arguments: object) -> str:
        done = command_line(*arguments)
        assert done.returncode == 2, done.stderr
        assert done.stdout == ""
        lines = done.stderr.strip().splitlines()
        assert lines[0].startswith("equipoise: ")
        assert len(lines) == 1
        return lines[0]

    return sentence


CASES = [
    (
        {"pair": ["male", "femail"]},
        ["--pair", "male", "femail"],
        "there is no group named 'femail'; did you mean 'female'",
    ),
    ({"axes": ["gander"]}, ["--axis", "gander"], "the table has no axis 'gander'; did you mean 'gender'?"),
    (
        {"axes": ["skin"]},
        ["--axis", "skin"],
        "the table has no axis 'skin'; its axes are: gender, race",
    ),
    ({"k": [0]}, ["--k", "0"], "k = 0: give whole numbers of at least 1"),
]


@pytest.mark.parametrize(("config", "flags", "sentence"), CASES)
def test_settings_that_do_not_fit_the_table(made, refused, tmp_path, config, flags, sentence):
    with pytest.raises(InputError) as error:
        run(made.model, "intersectional", made.table, config={"prompts": ["{A}"]} | config)
    assert sentence in str(error.value)
    told = refused(
        "audit", made.model, "-s", "intersectional", "-t", made.table, "-o", tmp_path / "o", "--prompt", "{A}", *flags
    )
    assert sentence in told
    assert not (tmp_path / "o" / "results.parquet").exists()


def spoil(folder, row: int, value: float) -> str:
    """Another program wrote this embeddings table: one number of it is not finite. Returns the id of that row."""
    shard = folder / "part-00000.parquet"
    table = pq.read_table(shard)
    vectors = np.array(table["vector"].combine_chunks().flatten()).reshape(-1, DIM).copy()
    vectors[row] = value
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), type=table.schema.field("vector").type)
    pq.write_table(table.set_column(1, table.schema.field("vector"), column), shard)
    manifest = json.loads((folder / "_table.json").read_text())
    manifest["shards"][0]["bytes"] = shard.stat().st_size
    (folder / "_table.json").write_text(json.dumps(manifest))
    return table["id"][row].as_py()


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_a_vector_that_is_no_direction(made, refused, tmp_path, value):
    name = spoil(made.home / "vectors", 11, value)
    sentence = f"the vector of {name!r} is not finite or has no length (1 such); compute it again or drop it"
    for out in (None, tmp_path / "run"):
        with pytest.raises(InputError) as error:
            run(made.model, "intersectional", made.table, out, config={"prompts": ["{A}"]})
        assert sentence in str(error.value)
    assert not list((tmp_path / "run").rglob("*.npy*"))
    if np.isnan(value):
        told = refused(
            "audit", made.model, "-s", "intersectional", "-t", made.table, "-o", tmp_path / "o", "--prompt", "{A}"
        )
        assert sentence in told


def test_a_text_that_is_no_direction(made):
    name = spoil(made.home / "vectors", 0, np.nan)
    with pytest.raises(InputError, match=f"the vector of {name!r} is not finite or has no length"):
        run(made.model, "intersectional", made.table, config={"prompts": ["{A}"]})


def test_labels_of_the_wrong_length(made, refused, tmp_path):
    run(made.model, "intersectional", made.table, tmp_path / "o", config={"prompts": ["{A}"], "draws": 20})
    path = tmp_path / "o" / "_evidence" / "frame.parquet"
    pd.read_parquet(path).iloc[1:].to_parquet(path)
    told = refused("measure", tmp_path / "o")
    assert "there are labels of 31 images and vectors of shape (32, 6); give one vector per label" in told


class Model:
    """Gives what it is told to give."""

    name, key = "model", "model"

    def __init__(self, images: np.ndarray, texts: np.ndarray) -> None:
        self.images, self.texts = images, texts

    def image_vectors(self, ids):
        return self.images

    def text_vectors(self, texts):
        return self.texts


@pytest.mark.parametrize(
    ("images", "texts", "sentence"),
    [
        ((31, 6), (2, 6), "model gave vectors of shape (31, 6) for 32 images; one each is expected"),
        ((32, 6), (3, 6), "model gave vectors of shape (3, 6) for 2 texts"),
        ((32,), (2, 6), "model gave vectors of shape (32,) for 32 images"),
        ((32, 6), (2, 5), "vectors of images have 6 numbers and those of texts 5; both must come from the same model"),
    ],
)
def test_a_model_that_gives_something_else(made, images, texts, sentence):
    with pytest.raises(InputError) as error:
        run(Model(np.ones(images), np.ones(texts)), "intersectional", made.table, config={"prompts": ["{A}"]})
    assert sentence in str(error.value)


def test_embeddings_that_are_missing_or_there_twice(made, toy, tmp_path):
    with pytest.raises(
        InputError, match=r"lacks 2 of 2 texts, for example 'A photo of a cook' .it has 2 other texts, such as 'A cook'"
    ):
        run(made.model, "intersectional", made.table, config={"prompts": ["A photo of {a}"]})
    rows, vectors = world()
    other = toy(rows, vectors, axes=["gender", "race"])
    both = f"{made.model},{other.home / 'vectors'}"
    with pytest.raises(InputError, match="has two vectors; keep those of one model in one table"):
        run(both, "intersectional", made.table, config={"prompts": ["{A}"]})


def test_tables_of_vectors_of_two_models_are_not_joined(tmp_path):
    def of(folder, key):
        rows = [{"id": folder, "vector": [1.0, 0.0], "model": key}]
        Table.create(tmp_path / folder, rows, kind="embeddings", dim=2, config={"model": key})
        return tmp_path / folder

    images, texts, half = of("images", "clip-1"), of("texts", "siglip-2"), of("half", "clip-1-float16")
    with pytest.raises(
        InputError, match=r"images holds vectors of clip-1, .*texts those of siglip-2; .* the same model"
    ):
        EmbeddingTable(images, texts)
    assert EmbeddingTable(images, half).text_vectors(["half"]).shape == (1, 2)
    renamed = tmp_path / "named-by-its-file.csv"
    renamed.write_text("id,vector,model\na text,1 0,named-by-its-file\n")
    assert EmbeddingTable(images, renamed).text_vectors(["a text"]).shape == (1, 2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["audit", "-s", "intersectionl", "-o", "x"], "there is no suite named 'intersectionl'; did you mean"),
        (["audit", "-s", "utility", "-o", "x"], "suite 'utility' asks about images; give a table with --table"),
        (["compare", "nowhere", "nowhere"], "nowhere"),
    ],
)
def test_a_command_that_lacks_something(refused, arguments, sentence):
    assert sentence in refused(*arguments)


def test_a_suite_whose_columns_the_table_lacks(made):
    with pytest.raises(InputError, match="suite 'visogender' needs the column 'context', which the table lacks"):
        run(made.model, "visogender", made.table)
    with pytest.raises(InputError, match="suite 'pata' needs the column 'positive', which the table lacks"):
        run(made.model, "pata", made.table)


def test_the_whole_way_on_the_command_line(made, command_line, tmp_path):
    common = ["-s", "intersectional", "-t", made.table, "--prompt", "{A}", "--draws", "20", "--all-rows"]
    done = command_line("audit", made.model, *common, "-o", tmp_path / "a", "--pair", "male", "female")
    assert done.returncode == 0, done.stderr
    assert "max_skew" in done.stdout
    assert "bias_at_k" in done.stdout
    done = command_line("measure", tmp_path / "a", "--k", "3", "-o", tmp_path / "b")
    assert done.returncode == 0, done.stderr
    done = command_line("compare", tmp_path / "a", tmp_path / "a", "-o", tmp_path / "c")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c" / "results.parquet").exists()
    listed = command_line("suites").stdout
    for name in ("marginal", "contrast", "recall-gap", "visogender", "pata", "utility", "captions-tfidf"):
        assert name in listed
