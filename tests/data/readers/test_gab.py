"""GAB: the layout of the released archive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read
from equipoise.data.readers.gab import EXPECTED_MEN, EXPECTED_WOMEN
from equipoise.errors import InputError


def test_cells(tmp_path: Path, collect: Any, touch: Any) -> None:
    for name in (
        "phaze1/Phaze-1/Holding Baby/Woman/1.png",
        "phaze1/Phaze-1/Holding Baby/Man Woman/1.png",
        "phaze2/Phaze-2/tuning_a_guitar/Man/a.jpg",
        "phaze2/Phaze-2/tuning_a_guitar/Woman Man/a.jpg",
        "phaze3/Phaze-3/preparing_harbel_teas/Woman/.DS_Store",
        "phaze3/Phaze-3/preparing_harbel_teas/Woman/notes.txt",
        "phaze3/Phaze-3/preparing_harbel_teas/Woman/2.webp",
        "phaze3/Phaze-3/flying a kite/Man/2.png",
    ):
        touch(tmp_path / name)
    good, bad = collect("gab", tmp_path)
    assert [(r["subject"], r["gender"], r["other_gender"], r["cell"], r["part"]) for r in good] == [
        ("holding baby", "man", "woman", "U2", "phaze1"),
        ("holding baby", "woman", None, "E1", "phaze1"),
        ("tuning a guitar", "man", None, "E1", "phaze2"),
        ("tuning a guitar", "woman", "man", "U2", "phaze2"),
        ("flying a kite", "man", None, None, "phaze3"),
        ("preparing harbel teas", "woman", None, "E1", "phaze3"),
    ]
    assert [b.reason for b in bad] == ["it is not an image file"]


def test_the_papers_37_activities() -> None:
    assert len(set(EXPECTED_MEN) | set(EXPECTED_WOMEN)) == 37


def test_another_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Man").mkdir()
    with pytest.raises(InputError, match="has no folder <activity>/Man"):
        list(read("gab", tmp_path))
