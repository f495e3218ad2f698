from __future__ import annotations

import pytest

from equipoise.data.schema import KINDS, RESULT_COLUMNS, arrow_type, schema_for, type_name
from equipoise.errors import InputError, UnknownNameError


def test_an_image_table_has_the_columns_of_the_design_in_order() -> None:
    schema = schema_for("images", axes=["gender", "skin_tone"])
    assert schema.names == [
        *("image", "image_id", "source_id", "set_id", "caption", "captions", "subject"),
        *("gender", "skin_tone", "label_source", "generator", "params", "seed", "split"),
    ]


def test_results_have_the_columns_of_the_design_in_order() -> None:
    expected = (
        "metric, variant, suite, pool, model, subject, axis, group, k, value, null_mean, null_sd, excess, "
        "ci_low, ci_high, p_value, n, n_groups, notes, dropped, published, side, codes"
    )
    assert list(RESULT_COLUMNS) == expected.split(", ")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_schema_that_arrow_and_hugging_face_understand(kind: str) -> None:
    from datasets import Features

    schema = schema_for(kind, dim=3 if kind == "embeddings" else None)
    features = Features.from_arrow_schema(schema.arrow)
    assert list(features) == schema.names


@pytest.mark.parametrize(
    "text",
    ["string", "int64", "float64", "float32", "bool", "binary", "list<string>", "list<list<int64>>", "vector<7>"],
)
def test_a_type_can_be_written_as_text_and_read_back(text: str) -> None:
    assert type_name(arrow_type(text)) == text


@pytest.mark.parametrize("text", ["strng", "vector<0>", "vector<-1>", "list<>", "list<what>", ""])
def test_an_unknown_type_is_refused(text: str) -> None:
    with pytest.raises(UnknownNameError):
        arrow_type(text)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"kind": "image"}, "no kind of table named 'image'; did you mean 'images'"),
        ({"axes": "gender"}, r"write axes=\['gender'\]"),
        ({"columns": "keep"}, r"columns must be a list of names, not the text 'keep'; write columns=\['keep'\]"),
        ({"axes": ["seed"]}, "axis 'seed' has the name of a column"),
        ({"axes": ["keep"]}, "axis 'keep' has the name of a column"),
        ({"axes": ["age", "age"]}, "named twice"),
        ({"axes": ["perceived age"]}, "column name 'perceived age' is not usable"),
        ({"columns": {"_x": "string"}}, "column name '_x' is not usable"),
        ({"columns": {"caption": "string"}}, "'caption' is in every table of kind 'images' already"),
        ({"columns": ["width"]}, "type of column 'width' is not known"),
        ({"columns": {"width": "int"}}, "column type named 'int'; did you mean"),
        ({"kind": "embeddings"}, "needs the length of its vectors"),
        ({"kind": "scores", "axes": ["gender"]}, "has no axes"),
    ],
)
def test_a_bad_schema_is_refused_in_a_sentence(arguments: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        schema_for(**arguments)  # type: ignore[arg-type]
