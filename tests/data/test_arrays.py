from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

from equipoise.data.arrays import batches_of, checked_row, conform
from equipoise.data.images import decode
from equipoise.data.schema import schema_for
from equipoise.errors import InputError

SCHEMA = schema_for(
    "images",
    axes=["gender"],
    columns={"width": "int64", "score_x": "float64", "keep": "bool", "boxes": "list<list<float64>>"},
)


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("seed", 3.5, "column 'seed' expects int64 but found 3.5 (float)"),
        ("seed", 3.0, "column 'seed' expects int64 but found 3.0 (float)"),
        ("seed", "3", "column 'seed' expects int64 but found '3' (str)"),
        ("seed", True, "column 'seed' expects int64 but found True (bool)"),
        ("seed", 2**63, "which does not fit in 64 bits"),
        ("caption", b"text", "column 'caption' expects string but found 4 bytes"),
        ("caption", 5, "column 'caption' expects string but found 5 (int)"),
        ("caption", "\ud800", "which is not valid Unicode"),
        ("gender", 1.5, "column 'gender' expects string but found 1.5 (float)"),
        ("gender", True, "column 'gender' expects string but found True (bool)"),
        ("captions", "one text", "column 'captions' expects list<string> but found 'one text' (str)"),
        ("captions", ["a", 2], "column 'captions' expects list<string>"),
        ("boxes", [[1, "2"]], "column 'boxes' expects list<list<float64>>"),
        ("score_x", "0.5", "column 'score_x' expects float64 but found '0.5' (str)"),
        ("score_x", True, "column 'score_x' expects float64 but found True (bool)"),
        ("keep", 1, "column 'keep' expects bool but found 1 (int)"),
        ("params", {"x": float("nan")}, "which is not JSON"),
        ("params", {"x": object()}, "which is not JSON"),
        ("image", 7, "column 'image' expects image but found 7 (int)"),
        ("image", {"data": b""}, "with keys other than 'bytes' and 'path'"),
        ("image_id", "", "column 'image_id' is empty"),
        ("image_id", None, "column 'image_id' is empty"),
        ("captoin", "x", "column 'captoin' is not in the table's schema; did you mean 'caption'?"),
    ],
)
def test_a_wrong_value_is_refused_with_column_type_and_value(column: str, value: Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        checked_row({"image_id": "a", column: value}, SCHEMA)
    assert sentence in str(caught.value)


def test_values_of_numpy_and_other_forms_are_stored_as_their_column_wants() -> None:
    picture = Image.new("RGB", (2, 2), (1, 2, 3))
    row = {
        "image_id": np.str_("a"),
        "seed": np.int32(4),
        "score_x": np.float32(0.5),
        "keep": np.bool_(True),
        "boxes": np.array([[1.0, 2.0]]),
        "params": {"b": 1, "a": 2},
        "image": picture,
    }
    checked = checked_row(row, SCHEMA)
    assert checked["params"] == '{"a": 2, "b": 1}'
    assert decode(checked["image"]).tobytes() == picture.tobytes()
    (batch,) = batches_of([row], SCHEMA)
    stored = batch.to_pylist()[0]
    assert (stored["image_id"], stored["seed"], stored["score_x"], stored["keep"]) == ("a", 4, 0.5, True)
    assert stored["boxes"] == [[1.0, 2.0]]


def test_the_error_of_a_batch_names_the_row() -> None:
    with pytest.raises(InputError, match=r"t: image_id 'b': column 'seed' expects int64"):
        list(batches_of([{"image_id": "a"}, {"image_id": "b", "seed": "x"}], SCHEMA, where="t"))
    with pytest.raises(InputError, match="row 1: column 'image_id' is empty"):
        list(batches_of([{"image_id": "a"}, {"seed": 1}], SCHEMA))


def test_rows_dataframe_and_arrow_give_the_same_batches() -> None:
    rows = [
        {"image_id": "a", "seed": 1, "gender": None, "image": {"bytes": b"x", "path": None}, "score_x": 0.5},
        {"image_id": "b", "seed": None, "gender": "male", "image": {"bytes": None, "path": "p.jpg"}, "score_x": None},
    ]
    expected = pa.Table.from_batches(batches_of(rows, SCHEMA))
    frame = pd.DataFrame(rows)
    assert str(frame["seed"].dtype) == "float64", "pandas makes whole numbers with a gap into floats"
    assert pa.Table.from_batches(batches_of(frame, SCHEMA)).equals(expected)
    arrow = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    assert pa.Table.from_batches(batches_of(arrow, SCHEMA)).equals(expected)
    assert pa.Table.from_batches(batches_of(iter(arrow.to_batches()), SCHEMA)).equals(expected)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"image_id": ["a"], "seed": ["1"]}, "column 'seed' expects int64 but found string"),
        ({"image_id": ["a"], "seed": [1.5]}, "column 'seed' expects int64 but found float64: Float value 1.5"),
        ({"image_id": [1]}, "column 'image_id' expects string but found int64"),
        ({"image_id": ["a", None]}, "column 'image_id' is empty in some rows"),
        ({"image_id": ["a"], "captions": ["x"]}, r"column 'captions' expects list<string> but found string"),
        ({"image_id": ["a"], "keep": [1]}, "column 'keep' expects bool but found int64"),
        ({"image_id": ["a"], "image": [3]}, "column 'image' expects image"),
        ({"image_id": ["a"], "zzz": [3]}, "column 'zzz' is not in the table's schema"),
    ],
)
def test_an_arrow_column_of_the_wrong_type_is_refused(columns: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        conform(pa.table(columns), SCHEMA)


def test_vectors_must_have_the_right_length_and_be_finite() -> None:
    schema = schema_for("embeddings", dim=3)
    with pytest.raises(InputError, match=r"expects vector<3> but found .* of shape \(2,\)"):
        checked_row({"id": "a", "model": "m", "vector": [1.0, 2.0]}, schema)
    with pytest.raises(InputError, match="not finite"):
        checked_row({"id": "a", "model": "m", "vector": [1.0, np.nan, 0.0]}, schema)


def test_a_score_must_be_a_finite_number() -> None:
    schema = schema_for("scores")
    for bad in (float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"column 'score' is .*finite"):
            checked_row({"image_id": "a", "text_id": "t", "score": bad}, schema)
        with pytest.raises(InputError, match="column 'score' holds values that are not finite"):
            conform(pa.table({"image_id": ["a"], "text_id": ["t"], "score": [bad]}), schema)
    vectors = pa.array([[1.0, float("inf")]], pa.list_(pa.float32(), 2))
    with pytest.raises(InputError, match="column 'vector' holds values that are not finite"):
        conform(pa.table({"id": ["a"], "model": ["m"], "vector": vectors}), schema_for("embeddings", dim=2))


def test_things_that_are_not_rows_are_refused(tmp_path: Path) -> None:
    for thing in (5, {"image_id": "a"}, ["text"], [3]):
        with pytest.raises(InputError):
            list(batches_of(thing, SCHEMA))
    mixed = pd.DataFrame({"image_id": ["a", "b"], "caption": ["x", 5]})
    with pytest.raises(InputError, match="mixes types"):
        list(batches_of(mixed, SCHEMA))
