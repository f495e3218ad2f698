"""The one object that leans most, blacked out: how objects are ranked, and what is left of a picture."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.examples import examples
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.data.people import person
from equipoise.errors import InputError, UnknownNameError
from equipoise.generate import MaskConfig, plan_mask, run
from equipoise.generate.mask import object_shares

TIE, CUP, HAT = [2, 2, 4, 4], [12, 2, 4, 4], [22, 2, 4, 4]
"""Boxes that do not touch."""


def thing(name, box):
    return {"name": name, "box": box}


@pytest.fixture
def desk(tmp_path):
    """Ties are of men in three of four images, cups of both, a hat of one woman; white pictures."""
    held = [
        ("a", "male", [thing("tie", TIE), thing("cup", CUP)]),
        ("b", "male", [thing("tie", TIE), thing("cup", CUP)]),
        ("c", "male", [thing("tie", TIE)]),
        ("d", "female", [thing("tie", TIE), thing("cup", CUP)]),
        ("e", "female", [thing("cup", CUP), thing("hat", HAT)]),
        ("f", None, [thing("tie", TIE)]),
        ("g", "female", [thing("hat", HAT)]),
    ]
    rows = [
        {
            "image_id": name,
            "image": Image.new("RGB", (30, 10), "white"),
            "gender": group,
            "object_boxes": json.dumps(things),
            "people": json.dumps([person(box=[0, 7, 30, 3])]),
        }
        for name, group, things in held
    ]
    return Table.create(tmp_path / "desk", rows, axes=["gender"], columns={"object_boxes": "json", "people": "json"})


def dark(table):
    """By image, which boxes are black in their middle."""
    found = {}
    for name, image in table.images():
        pixels = np.asarray(image)[:, :, 0]
        spots = {"tie": (4, 4), "cup": (4, 14), "hat": (4, 24), "person": (8, 15)}
        found[name] = {spot for spot, at in spots.items() if pixels[at] == 0}
    return found


def test_shares_are_those_of_bias_amplification():
    shares = object_shares(
        [{"tie", "cup"}, {"tie", "cup"}, {"tie"}, {"tie", "cup"}, {"cup"}, {"tie"}], [*"mmmff", None], least=2
    )
    assert shares.to_dict() == {"tie": 0.75, "cup": 0.5}
    assert shares.index.tolist() == ["tie", "cup"]


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.sampled_from(["f", "m", "x", None])), min_size=1))
def test_shares_equal_a_loop(images):
    objects, groups = zip(*images, strict=True)
    known = {group for group in groups if group is not None}
    counts = {name: Counter(g for some, g in images if name in some and g is not None) for name in "abcd"}
    often = {name: found for name, found in counts.items() if found.total() >= 2}
    if len(known) < 2 or not often:
        with pytest.raises(InputError):
            object_shares(objects, groups, least=2)
        return
    expected = {name: max(found.values()) / found.total() for name, found in often.items()}
    assert object_shares(objects, groups, least=2).to_dict() == pytest.approx(expected)


def test_only_the_one_that_leans_most_is_blacked_out(desk, tmp_path):
    config = MaskConfig(what="object", most_correlated="gender", least=3)  # the hat is on two images only
    plan = plan_mask(desk, config)
    assert plan.left_out == {"no object to black out": 1}
    assert dark(run(plan, tmp_path / "one", None, progress=False)) == {
        **{name: {"tie"} for name in "abcdf"},
        "e": {"cup"},
    }
    both = run(
        plan_mask(desk, MaskConfig(what="both", most_correlated="gender", least=2)),
        tmp_path / "two",
        None,
        progress=False,
    )
    assert dark(both) == {name: {"hat" if name in "eg" else "tie", "person"} for name in "abcdefg"}


def test_what_cannot_be_is_refused(desk):
    with pytest.raises(InputError, match="give what=object or both, and no finder"):
        MaskConfig(most_correlated="gender")
    with pytest.raises(InputError, match="no object is on 20 labelled images"):
        plan_mask(desk, MaskConfig(what="object", most_correlated="gender"))
    with pytest.raises(UnknownNameError, match="age"):
        plan_mask(desk, MaskConfig(what="object", most_correlated="age"))


def test_the_command_takes_it(desk, tmp_path):
    out = tmp_path / "made"
    given = [
        "generate",
        "mask",
        str(desk.path),
        str(out),
        "--what",
        "object",
        "--most-correlated",
        "gender",
        "--least",
        "3",
    ]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert dark(Table.open(out))["a"] == {"tie"}


def test_objects_lean_by_the_images_that_are_there_and_by_known_groups(tmp_path):
    from equipoise.generate.mask import _ranks

    held = [("male", ["tie"], True), ("Male", ["tie"], True), ("female", ["tie"], True), ("male", ["cup"], True)]
    held += [("female", ["cup"], True), ("female", ["hat", "tie"], True), ("male", ["hat", "hat"], True)]
    held += [("unknown", ["cup"], True)] * 6 + [("female", ["hat"], False)] * 6  # not known whose; dropped by a filter
    rows = [
        {"image_id": f"i{i}", "gender": g, "object_boxes": json.dumps([thing(n, TIE) for n in names]), "keep": keep}
        for i, (g, names, keep) in enumerate(held)
    ]
    columns = {"object_boxes": "json", "keep": "bool", "dropped_by": "string"}
    table = Table.create(tmp_path / "t", rows, axes=["gender"], columns=columns)
    config = MaskConfig(what="object", most_correlated="gender", least=2)
    names = list(_ranks(table, config))
    assert sorted(names) == ["cup", "hat", "tie"]
    shares = object_shares([h[1] for h in held[:7]], [h[0].lower() for h in held[:7]], least=2)
    assert names == list(shares.index)
