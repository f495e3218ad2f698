"""Messy labels: one rule for spellings and for words that mean "not known"."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise.data.labels import with_joined_labels
from equipoise.errors import UnknownNameError
from equipoise.measure.groups import Groups
from equipoise.text.labels import UNKNOWN_WORDS, is_missing, means_unknown, read_labels

WORDS = (
    "male",
    "Male",
    "MALE",
    " male ",
    "female",
    "FEMALE",
    "East Asian",
    "east  asian",
    "other",
    "Nonbinary",
    "0",
    "1",
)
NOTHING = (
    "N/A",
    "n/a",
    "NaN",
    "none",
    "None",
    "NULL",
    "unknown",
    "Undefined",
    "",
    "  ",
    None,
    float("nan"),
    pd.NA,
    pd.NaT,
)
CELLS = st.lists(st.sampled_from([*WORDS, *NOTHING, 0, 1, 1.0, np.int64(1), np.float32(0.0)]), max_size=40)


def plain(cell: object) -> str | None:
    """The rule by brute force: what a cell has in common with others of its group."""
    if cell is None or (not isinstance(cell, str) and pd.isna(cell)):
        return None
    text = str(int(cell)) if not isinstance(cell, str) else " ".join(cell.split()).lower()
    return None if text in UNKNOWN_WORDS else text


@given(CELLS)
def test_cells_share_a_group_if_they_differ_in_case_and_space_alone(cells):
    read = read_labels(cells)
    keys = [plain(cell) for cell in cells]
    assert (read.codes < 0).tolist() == [key is None for key in keys]
    for i, first in enumerate(keys):
        for j in range(i):
            if first is not None and keys[j] is not None:
                assert (read.codes[i] == read.codes[j]) == (first == keys[j])
    assert set(read.values().tolist()) - {None} == set(read.names)
    assert sum(read.unknown.values()) == sum(
        isinstance(c, str) and key is None for c, key in zip(cells, keys, strict=True)
    )


@given(CELLS)
def test_the_name_is_the_most_frequent_spelling_and_of_equals_the_one_in_small_letters(cells):
    read = read_labels(cells)
    said = [" ".join(c.split()) if isinstance(c, str) else str(int(c)) for c in cells if plain(c) is not None]
    counts = Counter(said)
    for name in read.names:
        rivals = [text for text in counts if text.lower() == name.lower()]
        assert counts[name] == max(counts[text] for text in rivals)
        if name != name.lower():
            assert counts[name.lower()] < counts[name]


@given(CELLS)
def test_reading_again_changes_nothing_and_the_order_of_rows_says_nothing(cells):
    read = read_labels(cells)
    again = read_labels(read.values())
    assert again.names == read.names
    assert again.codes.tolist() == read.codes.tolist()
    assert again.note() == ""
    assert read_labels(cells[::-1]).codes.tolist() == read.codes.tolist()[::-1]


@given(st.lists(st.text(max_size=8), max_size=12))
@settings(max_examples=examples(60))
def test_any_text_is_a_group_or_unknown(cells):
    read = read_labels(cells)
    for cell, value in zip(cells, read.values(), strict=True):
        assert (value is None) == means_unknown(cell)


def test_groups_keep_the_names_that_the_data_gives_them():
    names = ["White", "East Asian", "Middle Eastern", "other", "prefer not to say", "nonbinary", "Noneya"]
    read = read_labels(names)
    assert sorted(read.names) == sorted(names)
    assert read.as_given
    assert read.note("race") == ""


def test_the_note_says_what_was_joined_and_what_was_taken_for_unknown():
    read = read_labels(["male"] * 9 + ["Male", "MALE", " male "] + ["N/A"] * 12 + ["", None])
    assert read.note("gender") == (
        "gender: ' male ', 'MALE' and 'Male' read as 'male'; 1 empty and 12 'N/A' read as unknown"
    )


@pytest.mark.parametrize(
    "cells",
    [
        [0, 1, 1, None],
        np.array([0.0, 1.0, 1.0, np.nan]),
        pd.Series([0, 1, 1, None], dtype="Int64"),
        [np.int8(0), np.int64(1), 1.0, float("nan")],
        ["0", "1.0", "1", "nan"],
        pd.Series(["0", "1", "1", None], dtype="category"),
    ],
)
def test_whole_numbers_are_groups_named_as_they_are_written(cells):
    groups = Groups.from_values(cells)
    assert groups.names == ("0", "1")
    assert groups.labels.tolist() == [0, 1, 1, -1]


def test_numbers_are_in_their_order():
    assert read_labels([10, 9, 1]).names == ("1", "9", "10")


def test_declared_names_win_over_every_rule():
    hats = Groups.from_values(["none", "Hat", "hat", None, "n/a"], ["none", "hat"])
    assert hats.labels.tolist() == [0, 1, 1, -1, -1]
    assert Groups.from_values(["A", "a"], ["a", "A"]).labels.tolist() == [1, 0]
    with pytest.raises(UnknownNameError, match="no group named 'cap'"):
        Groups.from_values(["cap"], ["none", "hat"])


def test_the_second_person_is_spelled_as_the_first():
    frame = pd.DataFrame({"gender": ["Male", "Male", "female"], "other_gender": ["male", None, "N/A"], "n": [1, 2, 3]})
    joined, notes = with_joined_labels(frame, ["gender", "absent"])
    assert joined["gender"].tolist() == ["Male", "Male", "female"]
    assert joined["other_gender"].tolist() == ["Male", None, None]
    assert notes == ["gender: 'male' read as 'Male'; 1 'N/A' read as unknown"]
    assert frame["other_gender"].tolist()[0] == "male"


def test_what_needs_no_joining_is_left_as_it_is():
    frame = pd.DataFrame({"gender": pd.Series(["f", "m", None], dtype="string"), "boxes": [[1], [2], [3]]})
    joined, notes = with_joined_labels(frame, ["gender", "boxes"])
    assert joined is frame
    assert notes == []


def test_a_million_rows_are_read_by_their_distinct_cells():
    cells = np.random.default_rng(0).choice(np.array([*WORDS, "N/A", None], dtype=object), 1_000_000)
    started = time.process_time()
    read = read_labels(cells)
    assert time.process_time() - started < 1.0
    assert len(read.codes) == len(cells)


def test_missing_values_are_told_from_text():
    assert [is_missing(cell) for cell in (None, float("nan"), pd.NA, pd.NaT, np.float32("nan"))] == [True] * 5
    assert not any(is_missing(cell) for cell in ("nan", 0, "", False))
