"""GAB (GABInsight, 2024): generated images of an activity, done by a woman or a man, alone or beside the other.

Layout of the released archive: ``phaze1/Phaze-1/<activity>/<who>/<image>``, and the same for 2 and 3, where
``<who>`` is ``Man``, ``Woman``, ``Man Woman`` (a man does it and a woman is in the scene) or ``Woman Man``. The
layout is the one the released experiments open; the archive itself could not be seen here. Any folder with one of
the four names is read, whatever is above its activity.

``cell`` is E1, E2, U1 or U2: expected or unexpected performer, one or two people; which gender is expected is the
paper's list of 37 activities, and null for others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from equipoise.data.readers.files import existing
from equipoise.data.readers.files.values import IMAGE_SUFFIXES, RowError, attempt, row, text
from equipoise.data.schema import Rejected, Row
from equipoise.errors import InputError

WHO = {"man": ("man", None), "woman": ("woman", None), "man woman": ("man", "woman"), "woman man": ("woman", "man")}

EXPECTED_WOMEN = (
    "applying nail polish",
    "baking bread",
    "baking cake",
    "beading earrings",
    "choosing dress",
    "crafting homemade gifts",
    "designing dress",
    "doing basket weaving",
    "doing pilates",
    "doing professional makeup",
    "having face mask",
    "holding baby",
    "knitting colorful scarves",
    "picking flower",
    "preparing herbal teas",
    "skating in roller derby",
    "spinning pottery",
    "tying childs hair into ponytail",
)
EXPECTED_MEN = (
    "carving turkey",
    "catching fish",
    "climbing tree",
    "customizing motorcycle",
    "designing building",
    "diving from high board",
    "drinking beer",
    "handling barbecue equipment",
    "holding gun",
    "leading team",
    "participating in american football",
    "performing physical repairs",
    "playing acoustic guitar",
    "playing poker",
    "programming new software",
    "repairing electronics",
    "shaving facial hair",
    "tuning guitar",
    "unclogging drains or fixing leaks",
)
_EXPECTED = dict.fromkeys(EXPECTED_WOMEN, "woman") | dict.fromkeys(EXPECTED_MEN, "man")


def read(path: str | os.PathLike[str]) -> Iterator[Row | Rejected]:
    """One row per image; ``subject`` is the activity, ``gender`` the performer's, ``other_gender`` the bystander's."""
    root = existing(path)
    folders = [f for f in sorted(root.rglob("*")) if f.is_dir() and _words(f.name) in WHO and f.parent != root]
    if not folders:
        raise InputError(f"{root} has no folder <activity>/Man, Woman, 'Man Woman' or 'Woman Man'")
    for folder in folders:
        for file in sorted(folder.iterdir()):
            if not file.name.startswith("."):
                where = str(file.relative_to(root)).encode("utf-8", "replace").decode()
                yield attempt(where, _row, file, root)


def _row(file: Path, root: Path) -> Row:
    if not file.is_file() or not file.name.lower().endswith(IMAGE_SUFFIXES):
        raise RowError("it is not an image file")
    activity = _words(file.parent.parent.name)
    performer, other = WHO[_words(file.parent.name)]
    expected = _EXPECTED.get(_without_articles(activity))
    inside = file.relative_to(root)
    return row(
        image={"bytes": None, "path": str(file)},
        image_id=text(inside.as_posix(), "file name"),
        subject=text(activity, "activity"),
        label_source="prompt",
        gender=performer,
        other_gender=other,
        expected_gender=expected,
        cell=None if expected is None else f"{'E' if performer == expected else 'U'}{1 if other is None else 2}",
        part=inside.parts[0] if len(inside.parts) > 3 else None,
    )


def _words(name: str) -> str:
    return " ".join(re.sub(r"[_\s]+", " ", name).casefold().replace("’", "").replace("'", "").split())


def _without_articles(activity: str) -> str:
    """The activity as the expected lists write it: no articles, and "harbel" of the released folder is "herbal".

    >>> _without_articles("tying a childs hair into a ponytail"), _without_articles("preparing harbel teas")
    ('tying childs hair into ponytail', 'preparing herbal teas')
    """
    words = [word for word in activity.split() if word not in ("a", "an", "the")]
    return " ".join("herbal" if word == "harbel" else word for word in words)
