"""Words hidden at random: as many as the share says, never a full stop, and nothing else changes."""

import re
from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.text.english.hiding import mask_count, with_hidden_words


@pytest.mark.parametrize(("tokens", "masks"), [(7, 1), (8, 2), (10, 2), (12, 2), (13, 3), (1, 1)])
def test_the_counts_of_libra(tokens, masks):
    assert mask_count(tokens, 0.2) == masks


@given(st.integers(1, 60), st.sampled_from([5, 10, 15, 20, 25, 50, 100]))
def test_halves_are_rounded_up_and_one_is_the_least(tokens, percent):
    assert mask_count(tokens, percent / 100) == max(1, floor((2 * percent * tokens + 100) / 200))


@given(
    st.lists(st.sampled_from("a man's t-shirt is red and he rides".split()), min_size=1, max_size=30),
    st.integers(0, 99),
)
def test_so_many_words_are_hidden_and_the_rest_stays(words, seed):
    text = " ".join(words) + "."
    hidden = with_hidden_words(text, 0.2, "[MASK]", np.random.default_rng(seed))
    after = hidden.removesuffix(".").split()
    assert hidden.endswith(".")
    assert len(after) == len(words)
    assert all(new in (old, "[MASK]") for old, new in zip(words, after, strict=True))
    assert len(re.findall(r"\[MASK\]", hidden)) == mask_count(len(words), 0.2)


def test_none_is_hidden_where_the_share_is_nothing():
    assert with_hidden_words("A man.", 0.0, "[MASK]", np.random.default_rng(0)) == "A man."
