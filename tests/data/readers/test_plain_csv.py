"""Embeddings and scores as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read, shape_of
from equipoise.errors import InputError


def test_embeddings_wide_and_narrow(tmp_path: Path, collect: Any) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_bytes(b"\xef\xbb\xbfid,0,1,2\r\na,1,0.5,-2\r\nb,1,nan,0\r\nc,1,2\r\na,0,0,0\r\n,1,1,1\r\nd,1e39,0,0\r\n")
    good, bad = collect("embeddings-csv", wide, model="clip")
    assert good == [{"id": "a", "vector": [1.0, 0.5, -2.0], "model": "clip"}]
    assert [b.where.rpartition(" ")[2] for b in bad] == ["3", "4", "5", "6", "7"]
    assert shape_of("embeddings-csv", wide, model="clip").dim == 3
    narrow = tmp_path / "narrow.csv"
    narrow.write_text('id,vector,model\na,"[1, 2]",m\nb,3 4,m\nc,5;6,\nd,,m\ne,1 2 3,m\na,"[1, 2]",n\n')
    good, bad = collect("embeddings-csv", narrow)
    assert [(r["id"], r["vector"], r["model"]) for r in good] == [
        ("a", [1, 2], "m"),
        ("b", [3, 4], "m"),
        ("a", [1, 2], "n"),
    ]
    assert [b.reason for b in bad] == [
        "no model is named; fill the column 'model' or give model=",
        "the vector is empty",
        "the vector has 3 numbers, but the first has 2",
    ]


def test_embeddings_without_one_good_line(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("id,0\na,x\n")
    with pytest.raises(InputError, match=r"no embedding that can be read .* first reason: e.csv.*'x'"):
        shape_of("embeddings-csv", path, model="m")
    path.write_text("id,0\n")
    with pytest.raises(InputError, match="no line below the header"):
        shape_of("embeddings-csv", path)


@pytest.mark.parametrize("header", [",id,0,1", "id,0,1,", '"",id,0,1', "Unnamed: 0,id,0,1"])
def test_line_numbers_of_pandas_are_no_part_of_a_vector(tmp_path: Path, header: str, collect: Any) -> None:
    path = tmp_path / "e.csv"
    path.write_text(f"{header}\n0,a,1,2\n")
    with pytest.raises(InputError, match=r"e.csv: column [14] has no name .* index=False"):
        collect("embeddings-csv", path)
    path.write_text(",id,vector\n0,a,1 2\n")
    assert collect("embeddings-csv", path)[0][0]["vector"] == [1, 2]


def test_the_model_is_named_after_the_file_where_nothing_else_names_it(tmp_path: Path, collect: Any) -> None:
    (tmp_path / "vectors.csv").write_text("id,0,1\na,1,2\n")
    assert shape_of("embeddings-csv", tmp_path / "vectors.csv").dim == 2
    good, bad = collect("embeddings-csv", tmp_path / "vectors.csv")
    assert (good[0]["model"], bad) == ("vectors", [])


def test_scores_long_and_wide(tmp_path: Path, collect: Any) -> None:
    long = tmp_path / "long.csv"
    long.write_text("image_id,text_id,score\n1,t,0.5\n1,u,x\n1,t,0.6\n2,t,inf\n2,,1\n")
    good, bad = collect("scores-csv", long)
    assert good == [{"image_id": "1", "text_id": "t", "score": 0.5}]
    assert len(bad) == 4
    wide = tmp_path / "wide.csv"
    wide.write_text('image_id,a doctor,"a nurse, smiling"\n1,0.1,0.2\n2,,0.4\n1,5,5\n3,x,1\n')
    good, bad = collect("scores-csv", wide)
    assert [(r["image_id"], r["text_id"], r["score"]) for r in good] == [
        ("1", "a doctor", 0.1),
        ("1", "a nurse, smiling", 0.2),
        ("2", "a nurse, smiling", 0.4),
    ]
    assert len(bad) == 2
    half = tmp_path / "half.csv"
    half.write_text("image_id,text_id\n1,2\n")
    with pytest.raises(InputError, match="only one of the columns 'text_id' and 'score'"):
        list(read("scores-csv", half))
