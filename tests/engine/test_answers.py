"""Captions are asked for once, kept, and found again after a kill; embeddings of a table and texts open as a model."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from equipoise import engine
from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.engine import Asking, embed
from equipoise.engine.answers import AnswerStore, answer_stores
from equipoise.errors import InputError
from equipoise.models import load


class Reds:
    """Says how red an image is; notes how many it was asked for."""

    name = key = "reds"

    def __init__(self) -> None:
        self.n = 0

    def caption(self, images: Sequence[Any], *, seed: int) -> list[str]:
        self.n += len(images)
        return [f"red {image.getpixel((0, 0))[0]}, seed {seed}" for image in images]


class Colours:
    name = key = "colours 3"

    def __init__(self) -> None:
        self.n = 0

    def encode_images(self, images: Sequence[Any]) -> Any:
        self.n += len(images)
        return np.array([np.asarray(image, np.float32).mean(axis=(0, 1)) for image in images])

    def encode_texts(self, texts: Sequence[str]) -> Any:
        return np.array([[len(text), 1.0, 2.0] for text in texts])


QUIET = Asking(batch_size=4, progress=False)


def test_captions_are_asked_for_once(people: Table) -> None:
    captioner = Reds()
    said = list(engine.captions(captioner, people, QUIET))
    assert [name for name, _ in said] == [f"img-{i:04d}" for i in range(25)]
    assert said[0][1].startswith("red ")
    assert captioner.n == 25
    assert list(engine.captions(captioner, people, QUIET)) == said
    assert captioner.n == 25
    assert dict(engine.captions(captioner, people, QUIET, seed=1))["img-0000"].endswith("seed 1")
    assert [(store.key, len(store)) for store in answer_stores()] == [
        ("reds caption seed 0", 25),
        ("reds caption seed 1", 25),
    ]
    list(engine.captions(captioner, people, Asking(keep=False, progress=False)))
    assert captioner.n == 75


def test_an_image_that_cannot_be_read_gets_no_caption(make_rows: Any, tmp_path: Path) -> None:
    rows = make_rows(5)
    rows[3]["image"] = b"no image"
    table = Table.create(tmp_path / "in", rows, axes=["gender"])
    with pytest.raises(InputError, match="1 of 5 images cannot be read so far, more than 5%: 'img-0003'"):
        dict(engine.captions(Reds(), table, QUIET))
    said = dict(engine.captions(Reds(), table, replace(QUIET, max_broken=0.2)))
    assert isinstance(said["img-0003"], InputError)
    assert sum(isinstance(text, str) for text in said.values()) == 4


def test_a_store_that_was_killed_before_its_first_answer(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path, "toy")
    store.path.mkdir()
    (store.path / "answers.sqlite").touch()
    assert (len(store), store.get([b"a"])) == (0, {})
    store.add({b"a": "x"})
    assert store.get([b"a"]) == {b"a": "x"}


def test_a_captioner_that_gives_too_few_is_refused(people: Table) -> None:
    class Short(Reds):
        def caption(self, images: Sequence[Any], *, seed: int) -> list[str]:
            return super().caption(images, seed=seed)[1:]

    with pytest.raises(InputError, match="gave 3 captions for 4 images"):
        list(engine.captions(Short(), people, QUIET))


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
@pytest.mark.parametrize("batches", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 5))])
def test_captions_go_on_after_a_kill(batches: int, people: Table, children: Any, tmp_path: Path) -> None:
    order = {"table": str(people.path), "out": str(tmp_path / "said.json"), "cache": str(tmp_path / "cache")}
    pid = children.start("captions", **order, log=str(tmp_path / "first"))
    while not (tmp_path / "first").exists() or len((tmp_path / "first").read_text().splitlines()) < batches:
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    assert children.end() == -signal.SIGKILL
    kept = len(AnswerStore(tmp_path / "cache" / "answers", "colours caption seed 0"))
    assert 4 * (batches - 1) - 2 <= kept < 25  # shards of 10 end in batches of two
    assert children.run("captions", **order, log=str(tmp_path / "second")) == 0
    asked = sum(int(line.split()[1]) for line in (tmp_path / "second").read_text().splitlines())
    assert asked == 25 - kept
    assert len(json.loads((tmp_path / "said.json").read_text())) == 25


def test_embeddings_of_images_and_texts_open_as_a_model(people: Table, tmp_path: Path) -> None:
    encoder = Colours()
    texts = ["a doctor", "a nurse", "a doctor"]
    made = embed(encoder, people, tmp_path / "out", texts=texts, how=QUIET)
    assert (len(made), made.n_errors, encoder.n) == (27, 0, 25)
    model = load(f"table:{tmp_path / 'out'}")
    ids = [f"img-{i:04d}" for i in range(25)]
    np.testing.assert_array_equal(model.image_vectors(ids), engine.vectors(encoder, people, QUIET))
    assert model.text_vectors(["a nurse", "a doctor"])[:, 0].tolist() == [7, 8]
    assert embed(encoder, people, tmp_path / "out", texts=texts, how=QUIET).fingerprint == made.fingerprint
    again = embed(encoder, people, tmp_path / "again", texts=texts, how=QUIET)
    assert again.fingerprint == made.fingerprint
    assert encoder.n == 25
    with pytest.raises(InputError, match="finished table"):
        embed(encoder, people, tmp_path / "out", texts=["another"], how=QUIET)


def test_an_image_that_cannot_be_read_is_noted_beside_the_embeddings(make_rows: Any, tmp_path: Path) -> None:
    rows = make_rows(5)
    rows[3]["image"] = b"no image"
    table = Table.create(tmp_path / "in", rows, axes=["gender"])
    with pytest.raises(InputError, match="more than 5%: 'img-0003'"):
        embed(Colours(), table, tmp_path / "out", how=QUIET)
    made = embed(Colours(), table, tmp_path / "out", how=replace(QUIET, max_broken=0.2))
    assert len(made) == 4
    assert made.errors()["where"].tolist() == ["img-0003"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")
@pytest.mark.parametrize("point", ["store.after_vectors:2", "shard.before_rename:2", "table.before_finish:1"])
def test_embeddings_go_on_after_a_kill(point: str, people: Table, children: Any, tmp_path: Path, files: Any) -> None:
    order = {"table": str(people.path), "cache": str(tmp_path / "cache"), "log": str(tmp_path / "log")}
    assert children.run("embed", out=str(tmp_path / "whole"), **order | {"cache": str(tmp_path / "other")}) == 0
    (tmp_path / "log").unlink()
    assert children.run("embed", point, out=str(tmp_path / "out"), **order) == -signal.SIGKILL
    asked = (tmp_path / "log").read_text().splitlines()
    kept = len(engine.EmbeddingStore(tmp_path / "cache" / "embeddings", "colours"))
    assert children.run("embed", out=str(tmp_path / "out"), **order) == 0
    more = (tmp_path / "log").read_text().splitlines()[len(asked) :]
    n_images = sum(int(line.split()[1]) for line in more if line.startswith("images"))
    assert n_images == 25 - min(kept, 25)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


def invoked(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def test_the_commands(people: Table, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "texts.txt").write_text("a photo of a doctor\n\na photo of a nurse\n")
    told = invoked("embed", "mini", people.path, "-o", tmp_path / "vectors", "--texts", tmp_path / "texts.txt")
    assert "25 images and 2 texts" in told.output
    model = load(f"table:{tmp_path / 'vectors'}")
    both = ["a photo of a doctor", "a photo of a nurse"]
    np.testing.assert_array_equal(model.text_vectors(both), load("mini").encode_texts(both))
    told = invoked("caption", "mini", people.path, "-o", tmp_path / "said.jsonl", "--batch-size", "8")
    assert "25 captions in" in told.output
    rows = [json.loads(line) for line in (tmp_path / "said.jsonl").read_text().splitlines()]
    assert [row["image_id"] for row in rows] == [f"img-{i:04d}" for i in range(25)]
    assert rows[1]["gender"] == "female"
    assert "gender" not in rows[0]
    from equipoise.audit.captions.inputs import read_inputs

    inputs = read_inputs([tmp_path / "said.jsonl"], None, "gender")
    assert inputs.models[0].captions["img-0001"] == rows[1]["caption"]
    listed = invoked("cache", "info").output
    assert "27 vectors of" in listed
    assert "25 answers" in listed
    assert "deleted 2 stores" in invoked("cache", "clear", "--yes").output
    assert "nothing to clear" in invoked("cache", "clear", "--yes").output
    with pytest.raises(InputError, match=r"ends in \.jsonl"):
        invoked("caption", "mini", people.path, "-o", tmp_path / "said.txt")
    with pytest.raises(InputError, match="holds embeddings already"):
        invoked("embed", f"table:{tmp_path / 'vectors'}", people.path, "-o", tmp_path / "x")
    with pytest.raises(InputError, match="3 workers were asked for, but the local engine is one"):
        invoked("audit", "mini", "-s", "faces", "-t", people.path, "-o", tmp_path / "run", "--workers", 3)


def test_what_several_suites_ask_is_embedded_at_once(tmp_path: Path) -> None:
    rows = [
        {"image_id": f"i{i}", "subject": "cook", "gender": "fm"[i % 2], "race": "AB"[i // 2], "caption": f"place {i}"}
        for i in range(4)
    ]
    Table.create(tmp_path / "in", rows, axes=["gender", "race"])
    (tmp_path / "own.txt").write_text("a hero\na thief\n")
    order = ["embed", "mini", tmp_path / "in", "-o", tmp_path / "out", "--dry-run"]
    asked = [*order, "--suite", "natural", "--suite", "utility", "--suite", "prompts"]
    told = invoked(*asked, "--axis", "race", "--prompts", tmp_path / "own.txt").output
    assert told.startswith("4 images and 6 texts would be asked about")
    with pytest.raises(InputError, match="asks about one axis and its axes are: gender, race; say which with --axis"):
        invoked(*order, "--suite", "natural")
    for flag, more in (("--axis", ["race", "--suite", "utility"]), ("--prompts", [tmp_path / "own.txt"])):
        with pytest.raises(InputError, match=f"{flag} is for what a suite asks; name one that reads it with --suite"):
            invoked(*order, flag, *more)


@pytest.mark.slow
def test_a_second_audit_by_the_command_encodes_nothing(
    people: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from equipoise.models.hf.encoder import HuggingFaceEncoder

    asked: list[int] = []
    whole = HuggingFaceEncoder.encode_images

    def counted(self: Any, images: Sequence[Any]) -> Any:
        asked.append(len(images))
        return whole(self, images)

    monkeypatch.setattr(HuggingFaceEncoder, "encode_images", counted)
    order = ["audit", "mini", "-s", "faces", "-t", people.path, "--axis", "gender", "--draws", 20, "--no-report"]
    for name, seen in (("first", 25), ("second", 25), ("third", 50)):
        done = invoked(*order, "-o", tmp_path / name, *(["--no-cache"] if name == "third" else []))
        assert done.exit_code == 0
        assert sum(asked) == seen
    read = [(tmp_path / name / "results.parquet").read_bytes() for name in ("first", "second", "third")]
    assert read[0] == read[1] == read[2]
