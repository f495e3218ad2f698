"""An image folder with ``metadata.jsonl``: the layout that Hugging Face calls ``imagefolder``.

``<out>/<split>/metadata.jsonl`` and ``<out>/<split>/images/<id>.<suffix>``; a table without splits has them right in
``<out>``. Every column but ``image`` is a key of the line; JSON columns stay JSON text. The reader ``imagefolder``
reads it back.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TextIO

from equipoise.data.exports.card import write_card
from equipoise.data.exports.source import Exportable, file_of, kept_rows, new_folder, split_names


def export(table: Exportable, out: str | os.PathLike[str], *, rows: str = "kept", **about: Any) -> Path:
    """Write the images as files, a line of metadata each, and the dataset card; return the folder.

    ``rows``: ``"kept"`` (what no filter dropped) or ``"all"``. ``about``: title, licence, ... of the card.
    """
    columns = [name for name in table.columns if name != "image"]
    splits = split_names(table, rows)
    with new_folder(out) as folder:
        places = {split: folder if splits.keys() == {None} else folder / name for split, name in splits.items()}
        files: dict[str | None, TextIO] = {}
        try:
            for split, place in places.items():
                (place / "images").mkdir(parents=True)
                files[split] = (place / "metadata.jsonl").open("w", encoding="utf-8", newline="\n")
            for row in kept_rows(table, ["image", *columns], rows):
                split = row.get("split")
                name, data = file_of(table, row)
                (places[split] / "images" / name).write_bytes(data)
                line = {"file_name": f"images/{name}"} | {key: row[key] for key in columns}
                files[split].write(json.dumps(line, ensure_ascii=False) + "\n")
        finally:
            for file in files.values():
                file.close()
        data_files = {splits[split]: _pattern(place, folder) for split, place in places.items()}
        write_card(table, folder / "README.md", rows=rows, data_files=data_files, **about)
    return Path(out)


def _pattern(place: Path, folder: Path) -> str | list[str]:
    # without a folder of its own, the pattern must not match the card
    return f"{place.name}/**" if place != folder else ["metadata.jsonl", "images/*"]
