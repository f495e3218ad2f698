"""Every reader says what it is."""

from __future__ import annotations

import inspect

import pytest

from equipoise.data.readers import READERS, read, shape_of
from equipoise.data.schema import schema_for
from equipoise.errors import InputError, UnknownNameError

NAMES = """cc3m cifar classfolder coco coco-gender-skin coco-wholebody csv datasets embeddings embeddings-csv fairface
flickr30k gab imagefolder jsonl laion openimages parquet pata phase scores scores-csv tsv visogender""".split()


def test_the_readers() -> None:
    assert READERS.names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_says_licence_citation_harms_and_revision(name: str) -> None:
    entry = READERS.get(name)
    assert entry.licence
    assert entry.citation
    assert entry.info["harms"]
    assert entry.info["revision"]
    reader = entry.load()
    module = inspect.getmodule(reader)
    assert module is not None
    assert module.__doc__
    if "shape" not in entry.info:
        shape = shape_of(name, ".")
        schema_for(shape.kind, axes=shape.axes, columns=shape.columns)


@pytest.mark.parametrize("name", NAMES)
def test_a_path_with_nothing_is_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match="there is nothing at '/no/such/place'"):
        list(read(name, "/no/such/place"))


def test_an_unknown_reader_is_answered_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'fairface'"):
        read("fair-face", ".")
