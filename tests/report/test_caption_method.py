"""The method of a page on captions says what was done: words masked or not, references or none."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from equipoise.report.page.method import method


def series(kind, metrics, settings=None, suite="captions"):
    results = pd.DataFrame({"metric": metrics, "suite": suite})
    return SimpleNamespace(source=SimpleNamespace(kind=kind, settings=settings or {}), results=results)


@pytest.mark.parametrize(
    ("settings", "masked"),
    [
        ({"words_masked": True}, True),
        ({"words_masked": False, "settings": {"mask": True}}, False),  # asked for, but the lexicon had no such words
        ({"settings": {"mask": False}}, False),
        ({"settings": {"mask": True}}, True),
    ],
)
def test_masked_is_said_where_words_were_masked(settings, masked):
    (text,) = method([series("captions", ["lic", "lic_m"], settings)])
    assert ("are masked" in text) == masked
    assert ("all words left in" in text) != masked


def test_without_references_nothing_is_said_of_amplification():
    (with_them,) = method([series("captions", ["lic", "lic_m"])])
    (without,) = method([series("captions", ["lic_m"])])
    assert "than with the reference captions" in with_them
    assert "Without reference captions it does not say" in without


def test_tfidf_speaks_of_captions():
    (text,) = method([series("audit", ["max_skew"], suite="captions-tfidf")])
    assert "Every caption" in text
    assert "picture" not in text
    assert "pictures are ranked" in method([series("audit", ["max_skew"], suite="marginal")])[0].replace(" \n", " ")
