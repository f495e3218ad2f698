"""Converters, on random weights in the published key layouts, against the forward passes written out by hand."""

import gzip

import pytest

from equipoise.errors import InputError
from equipoise.models import convert

WIDTH, TEXT, OUT, LAYERS, PATCH, SIDE, CONTEXT = 64, 128, 24, 2, 8, 32, 12


def test_pickles_are_opened_only_when_allowed_and_never_run_code(tmp_path, tiny_checkpoint):
    import pickle

    class Evil:
        def __reduce__(self):
            return (eval, (f"open({str(tmp_path / 'ran')!r}, 'w')",))

    tokenizer = tiny_checkpoint("clip")
    path = tmp_path / "evil.pt"
    path.write_bytes(pickle.dumps({"state_dict": Evil()}, protocol=2))
    with pytest.raises(InputError, match="a pickle; allow it with --allow-pickle"):
        convert.slip(path, tmp_path / "out", tokenizer=tokenizer)
    with pytest.raises(InputError, match="cannot be read as weights"):
        convert.slip(path, tmp_path / "out", tokenizer=tokenizer, allow_pickle=True)
    assert not (tmp_path / "ran").exists()


def test_damaged_files_are_named(tmp_path):
    from equipoise.models.convert.reading import any_tokenizer, state_of

    weights = tmp_path / "x.safetensors"
    weights.write_bytes(b"garbage" * 10)
    with pytest.raises(InputError, match=r"x\.safetensors: damaged or cut off"):
        state_of(weights)
    good = gzip.compress(b"#version\na b\n")
    for name, data in (("x.txt", b"\xff\xfe\x00bad"), ("no.gz", b"plain"), ("cut.gz", good[:-9]), ("z.gz", good[:15])):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=f"{name}: damaged, or not a list of byte-pair merges"):
            any_tokenizer(tmp_path / name)


def test_what_is_converted_may_be_given_by_its_own_name(tmp_path):
    with pytest.raises(InputError, match=r"tokens\.pt: there is no such file"):
        convert.debias_clip(target=tmp_path / "out", tokens=tmp_path / "tokens.pt", clip="unused")


def test_the_published_merges_make_clips_tokenizer(tmp_path):
    """A small file in the form of bpe_simple_vocab_16e6.txt.gz: a heading, then a merge a line."""
    from equipoise.models.convert.reading import any_tokenizer

    merges = ["d o", "c t", "do ct", "o r</w>", "doct or</w>"]
    path = tmp_path / "bpe.txt.gz"
    path.write_bytes(gzip.compress("\n".join(["#version: 0.2", *merges]).encode()))
    words = any_tokenizer(path)
    assert len(words) == 512 + 5 + 2
    ids = words("Doctor!")["input_ids"]
    assert words.convert_ids_to_tokens(ids) == ["<|startoftext|>", "doctor</w>", "!</w>", "<|endoftext|>"]
    assert ids[0] == 517
    assert words.convert_tokens_to_ids("!") == 0
    path.write_bytes(gzip.compress(b"one\ntwo three four\n"))
    with pytest.raises(InputError, match="not a list of byte-pair merges"):
        any_tokenizer(path)
