"""Files of captions, one JSON object on each line: as a captioner writes them, as a reviser does, and as people did."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from equipoise.data import Table
from equipoise.data.atomic import write_whole

HUMAN = "gendered_captions"
"""The column of a world's table with the captions that name the gender, as people's do."""


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write one JSON object on each line, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "".join(json.dumps(row) + "\n" for row in rows).encode())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """What :func:`write_lines` wrote."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_people(path: Path, table: Table, axes: Sequence[str] = ("gender",)) -> None:
    """Write the human captions of every picture of a world's table, and who is in it."""
    frame = table.to_pandas(["image_id", *axes, HUMAN])
    people = (
        {"image_id": row["image_id"], "captions": list(row[HUMAN])} | {axis: row[axis] for axis in axes}
        for row in frame.to_dict("records")
    )
    write_lines(path, people)


def write_captions(path: Path, captioner: Any, table: Table, seed: int = 0) -> None:
    """Write what ``captioner``, a model or the name of one, says of every picture that can be read."""
    from equipoise.engine.answers import captions
    from equipoise.models import load

    model = load(captioner, kind="captioner") if isinstance(captioner, str) else captioner
    said = captions(model, table, seed=seed)
    write_lines(path, ({"image_id": name, "caption": text} for name, text in said if isinstance(text, str)))


def write_revised(path: Path, reviser: str, captions: Path, table: Table, seed: int) -> None:
    """Write the captions of a file as ``reviser`` puts them when it sees the pictures of ``table``."""
    from equipoise.engine import Asking
    from equipoise.mitigate.libra.applying import CaptionRow, revise_all
    from equipoise.models import load

    rows = [CaptionRow(row["image_id"], row["caption"]) for row in read_lines(captions)]
    revision = revise_all(load(reviser, kind="reviser"), rows, table, Asking(), seed=seed)
    write_lines(path, ({"image_id": row.image_id, "caption": row.caption} for row in revision.rows))
