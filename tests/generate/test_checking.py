"""Pools of edits checked from tables, with an encoder whose answers are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.data.people import person
from equipoise.data.sampling import some_of
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate import EditsConfig, plan_edits, run
from equipoise.generate.verify import _prompts, check_pool, recognised

COLOURS = {"female": (255, 0, 0), "male": (0, 255, 0)}


class Colours:
    """Red is woman, green is man, blue is anything else."""

    def encode_images(self, images: Any) -> np.ndarray:
        found = np.stack([np.asarray(image).reshape(-1, 3).mean(0) for image in images]) + 1e-3
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def encode_texts(self, texts: Any) -> np.ndarray:
        rows = [[float("woman" in t), float(" man" in t), float("man" not in t)] for t in texts]
        found = np.array(rows) + 1e-3
        return found / np.linalg.norm(found, axis=1, keepdims=True)


class Editor:
    """Does what it is told, except with the template of look-alikes, where it does nothing."""

    name, key, can, size = "fake:editor", "editor-1", frozenset({"edit"}), (8, 8)

    def edit(self, images: Any, instructions: Any, **_: Any) -> list[Any]:
        wanted = ["female" if "wom" in t or "fem" in t else "male" for t in instructions]
        return [
            image if "look like" in text else Image.new("RGB", image.size, COLOURS[group])
            for image, text, group in zip(images, instructions, wanted, strict=True)
        ]


@pytest.fixture
def source(tmp_path: Path) -> Table:
    rows = [
        {
            "image": Image.new("RGB", (16, 16), COLOURS["male"]),
            "image_id": f"s{i}",
            "gender": "male",
            "captions": ["A man sits.", "A bench."],
            "people": json.dumps([person(box=[0, 0, 16, 16])]),
        }
        for i in range(6)
    ]
    return Table.create(tmp_path / "source", rows, axes=["gender"], columns={"people": "json"})


@pytest.fixture
def reference(tmp_path: Path) -> Table:
    rows = [{"image": Image.new("RGB", (8, 8), (200, 190, 255)), "image_id": f"r{i}"} for i in range(30)]
    return Table.create(tmp_path / "reference", rows)


def test_the_four_pools(source: Table, reference: Table, tmp_path: Path) -> None:
    edits = run(plan_edits(source, EditsConfig()), tmp_path / "edits", Editor(), progress=False)
    before = check_pool(source, source, reference, Colours(), prompts={"female": "a woman", "male": "a man"})
    assert (before.accuracy, before.n, before.n_captions) == (1.0, 6, 6), "captions without a person do not count"
    unfiltered = check_pool(edits, source, reference, Colours(), pool="unfiltered")
    # A quarter of the edits does nothing, so the female half of that quarter still shows a man.
    assert unfiltered.accuracy == pytest.approx(7 / 8)
    assert unfiltered.recall[1] == pytest.approx(7 / 8)
    assert unfiltered.chance == 0.5
    frame = edits.to_pandas()
    keep = ["look like" not in text for text in frame["caption"]]
    layered = edits.add_layer("good", frame[["image_id"]].assign(keep=keep), columns=["keep"])
    filtered = check_pool(layered, source, reference, Colours(), only_kept=True, pool="filtered")
    assert (filtered.accuracy, filtered.recall[1], filtered.n) == (1.0, 1.0, 72)
    assert "filtered: accuracy 1.000" in str(filtered)


def test_sources_are_not_their_own_rivals(source: Table) -> None:
    told = check_pool(source, source, source, Colours())
    assert told.recall == {1: 1.0}, "the pool is empty but for the image"


def test_groups_under_the_names_of_a_table_have_prompts(source: Table, reference: Table, tmp_path: Path) -> None:
    rows = [row | {"gender": "M"} for row in source.rows()]
    called = Table.create(tmp_path / "called", rows, axes=["gender"], columns={"people": "json"})
    prompts = _prompts("gender", ["M", "woman", "F", "M"])
    assert prompts == {"F": "a photo of a woman", "M": "a photo of a man", "woman": "a photo of a woman"}
    both = run(plan_edits(called, EditsConfig(guidance=(9.5,))), tmp_path / "both", Editor(), progress=False)
    assert set(both.to_pandas(["gender"])["gender"]) == {"M", "female"}
    assert recognised(both, Colours()).share.value == pytest.approx(7 / 8)
    assert check_pool(both, called, reference, Colours()).n == 48


def test_refusals(source: Table, reference: Table, tmp_path: Path) -> None:
    rows = [{"image": Image.new("RGB", (4, 4)), "image_id": "x", "gender": "other", "captions": ["A man sits."]}]
    odd = Table.create(tmp_path / "odd", rows, axes=["gender"])
    with pytest.raises(UnknownNameError, match="other"):
        check_pool(odd, odd, reference, Colours())
    nobody = Table.create(tmp_path / "nobody", [rows[0] | {"gender": None}], axes=["gender"])
    with pytest.raises(InputError, match="no image with a label"):
        check_pool(nobody, nobody, reference, Colours())


class Idle(Editor):
    """An editor that gives every picture back as it was."""

    key = "editor-idle"

    def edit(self, images: Any, instructions: Any, **_: Any) -> list[Any]:
        return list(images)


def test_edits_are_recognised_or_said_not_to_be(source: Table, tmp_path: Path) -> None:
    """By hand: of eight edits of a photograph of a man, one in four templates does nothing, so 7 of 8 show the group;
    where the editor does nothing at all, the four that should show a man do."""
    for editor, share in ((Editor(), 7 / 8), (Idle(), 1 / 2)):
        plan = plan_edits(source, EditsConfig(guidance=(9.5,)), editor=editor)
        made = run(plan, tmp_path / editor.key, editor, progress=False)
        found = recognised(made, Colours())
        assert found.share.value == pytest.approx(share)
        assert (found.share.n, found.share.null_mean) == (48, 0.5)
        assert ("no more than chance" in found.problem) == (share == 0.5)
        assert bool(found.problem) == (share == 0.5)
        assert "48 images of 6 photographs" in str(found)
    few = plan_edits(some_of(source, limit=2), EditsConfig(guidance=(9.5,)), editor=Editor())
    found = recognised(run(few, tmp_path / "few", Editor(), progress=False), Colours())
    assert found.problem == "2 photographs are too few to tell that from chance"


@pytest.mark.parametrize("editor", [Editor(), Idle()])
def test_generate_edits_says_whether_they_show_the_group(
    editor: Any, source: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: Any
) -> None:
    from equipoise import models

    encoder = Colours()
    encoder.name = "fake:colours"  # type: ignore[attr-defined]
    monkeypatch.setattr(models, "load", lambda spec, **how: editor if how.get("kind") == "generator" else encoder)
    out = tmp_path / "edits"
    unchecked = command_line("generate", "edits", source.path, out)
    said = f"nothing has checked whether they show the gender that was asked for; type: equipoise filter {out}"
    assert said in unchecked.stdout
    checked = command_line("generate", "edits", source.path, out, "--check", "fake:colours")
    assert checked.returncode == 0
    assert "fake:colours recognises the gender of" in checked.stdout
    assert ("no more than chance" in checked.stderr) == isinstance(editor, Idle)


def test_one_group_is_nothing_to_tell_apart(source: Table) -> None:
    with pytest.raises(InputError, match="has 1 groups on 'gender'"):
        recognised(source, Colours())


def test_own_prompts_that_lack_a_group_are_refused(source: Table, tmp_path: Path) -> None:
    rows = [{"image": Image.new("RGB", (8, 8), COLOURS[g]), "image_id": g, "gender": g} for g in COLOURS]
    both = Table.create(tmp_path / "both", rows, axes=["gender"])
    with pytest.raises(InputError, match="there is no prompt for the group 'male'"):
        recognised(both, Colours(), prompts={"female": "a woman"})
