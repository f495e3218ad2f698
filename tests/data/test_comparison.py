from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from equipoise.data import Table, diff
from equipoise.errors import InputError

Rows = Callable[..., list[dict[str, Any]]]


def test_a_table_does_not_differ_from_its_own_rows_in_another_order(
    people: Table, tmp_path: Path, make_rows: Rows
) -> None:
    other = Table.create(tmp_path / "b", make_rows(25)[::-1], axes=["gender"], rows_per_shard=7)
    found = diff(people, other)
    assert found.same
    assert (found.n_a, found.n_b) == (25, 25)


def test_every_kind_of_difference_is_counted(people: Table, tmp_path: Path, make_rows: Rows) -> None:
    rows = make_rows(30)[2:]
    rows[0]["seed"] = None
    rows[1]["gender"] = "female"
    rows[2]["image"] = make_rows(1)[0]["image"]
    rows[3]["captions"] = ["new"]
    rows[4]["caption"] = "x" * 100
    rows[5]["score_a"] = 1.0
    rows[6] |= {"params": {"steps": 0}, "seed": 0}
    other = Table.create(tmp_path / "b", rows, axes=["gender"], columns=["score_a"])
    found = diff(people, other)
    assert not found.same
    assert (found.n_only_a, found.only_a) == (2, ("img-00000", "img-00001"))
    assert (found.n_only_b, found.only_b) == (5, tuple(f"img-{i:05d}" for i in range(25, 30)))
    assert (found.columns_only_a, found.columns_only_b) == ((), ("score_a",))
    assert found.changed == {"image": 1, "caption": 1, "captions": 1, "gender": 1, "params": 1, "seed": 2}
    assert found.examples["seed"] == "img-00002: 2 -> empty"
    assert found.examples["gender"] == "img-00003: empty -> female"
    assert found.examples["image"] == "img-00004: another image"
    assert found.examples["caption"].endswith("...")


def test_layers_are_compared_too(people: Table) -> None:
    view = people.add_layer("s", [{"image_id": "img-00001", "keep": False}], columns=["keep"])
    assert diff(people, view).columns_only_b == ("keep", "dropped_by")


def test_two_nans_are_the_same(tmp_path: Path) -> None:
    rows = [{"image_id": "a", "score_x": float("nan")}, {"image_id": "b", "score_x": 1.0}]
    a = Table.create(tmp_path / "a", rows, columns=["score_x"])
    b = Table.create(tmp_path / "b", [*rows[:1], {"image_id": "b", "score_x": float("nan")}], columns=["score_x"])
    assert diff(a, a).same
    assert diff(a, b).changed == {"score_x": 1}


def test_keys_of_two_columns(tmp_path: Path) -> None:
    def scores(name: str, rows: list[tuple[str, str, float]]) -> Table:
        return Table.create(
            tmp_path / name, [{"image_id": i, "text_id": t, "score": s} for i, t, s in rows], kind="scores"
        )

    a = scores("a", [("i", "t", 0.5), ("i", "u", 0.0), ("j", "t", 0.1)])
    b = scores("b", [("i", "u", 0.0), ("i", "t", 0.25)])
    found = diff(a, b)
    assert found.only_a == ("j, t",)
    assert found.changed == {"score": 1}
    assert found.examples == {"score": "i, t: 0.5 -> 0.25"}


def test_unlike_tables_are_not_compared(people: Table, tmp_path: Path) -> None:
    results = Table.create(tmp_path / "r", [{"metric": "m"}], kind="results")
    with pytest.raises(InputError, match="compare like with like"):
        diff(people, results)
    with pytest.raises(InputError, match="has no key"):
        diff(results, results)
