"""Published numbers: whole, well-formed, and consistent with what the papers say of them."""

import itertools

import numpy as np
import pandas as pd
import pytest

from equipoise.data.published import (
    PAPERS,
    add_published,
    doubt_sentence,
    published_cell,
    published_numbers,
    published_values,
)
from equipoise.errors import InputError


@pytest.mark.parametrize("name", PAPERS)
def test_every_number_has_a_place_and_a_known_doubt(name):
    paper = published_numbers(name)
    numbers = paper.numbers
    assert paper.citation
    assert paper.title
    assert numbers["value"].map(np.isfinite).all()
    assert not numbers[["table", "row", "column", "unit"]].isna().any().any()
    for codes in numbers["doubt"].unique():
        doubt_sentence(codes)  # an unknown code would be a KeyError


def test_a_cell_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="has no cell 'CLIP', 'natural / MaxSkew@7' in T1"):
        published_cell("gensynth", "T1", "CLIP", "natural / MaxSkew@7")
    with pytest.raises(InputError, match="did you mean 'gensynth'"):
        published_numbers("gensyth")


def test_lic_is_the_difference_of_its_parts():
    """LIC = LIC_M - LIC_D holds in every cell of Tables 2.2 and 2.3, within rounding."""
    paper = published_numbers("lic")
    numbers = paper.numbers
    rows = numbers[numbers["table"].isin(["T2.2", "T2.3"]) & numbers["column"].str.contains(" / LIC_M / ")]
    assert len(rows) == 36
    for row in rows.itertuples():
        human = paper.value(row.table, row.row, row.column.replace("LIC_M", "LIC_D"))
        both = paper.value(row.table, row.row, row.column.replace("LIC_M", "LIC"))
        assert row.value - human == pytest.approx(both, abs=0.051), row


def test_the_normalised_self_similarity_sums_to_zero():
    """Table 5 of the contamination paper: in each block the scores are centred on the mean of the groups."""
    numbers = published_numbers("contamination").numbers
    table = numbers[numbers["table"] == "T5"]
    kinds = table["column"].str.extract(r"/ (\w+):")[0]
    sums = table.groupby([table["row"], kinds])["value"].sum()
    assert len(sums) == 18
    assert sums.abs().max() <= 0.0011


def test_the_doubtful_cells_say_so():
    """The printed +23.2 does not follow from 48.5 - 25."""
    cell = published_cell("lic", "T2.4", "OSCAR / Original", "gender / Delta_Unbias")
    assert cell["published"] == 23.2
    assert "misprint" in cell["doubt"]
    assert published_cell("lic", "T2.2", "NIC", "gender / LIC / LSTM")["doubt"] == ""


def test_caption_values_keep_what_the_old_file_said():
    lic = published_values("lic", "gender")
    assert lic.of("NIC+", "lic_d") == (39.5, 0.6)
    assert lic.of("nic_st10", "ratio") == (2.47,)
    assert lic.of("nic", "ratio") == ()
    assert lic.of("nic", "ba") == ()
    assert published_values("lic", "gender", training_words=True).of("sat", "ba") == (1.14,)
    assert published_values("lic", "skin").of("fc", "lic_m") == (33.6, 1.0)
    assert published_values("libra", "gender").of("nic", "error") == (23.6,)


def test_published_values_go_to_the_whole_model_once():
    keys = ("model", "metric", "group", "subject", "pool")
    rows = [
        dict(zip(keys, row, strict=True)) for row in itertools.product(["sat"], ["lic"], [None, "man"], [None], [None])
    ]
    rows.append(dict(rows[0]))
    add_published(rows, published_values("lic", "gender"))
    assert [row.get("published") for row in rows] == [5.1, None, None]


def test_numbers_of_a_table_are_unique():
    for name in PAPERS:
        numbers = published_numbers(name).numbers
        tables = numbers[numbers["table"].str.match(r"T\d")]
        again = tables[tables.duplicated(["table", "row", "column"])]
        assert again.empty, f"{name}: {again.to_dict('records')[:3]}"
        assert isinstance(numbers, pd.DataFrame)
