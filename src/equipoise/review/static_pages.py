"""Pages that need no server: a folder to send to one annotator, whose answers come back as a file.

The folder holds the page, the questions, this annotator's items in their order, and the pictures. Answers are kept in
the browser until they are downloaded as JSON, which ``equipoise review import`` reads.
"""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from equipoise.data.exports.source import alone, new_folder
from equipoise.errors import InputError, one_line
from equipoise.review.asking import shown_item, shown_sheet
from equipoise.review.preparing import sheet_of
from equipoise.review.store import ReviewStore

_FORMAT = "equipoise review answers"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'"
)


def export_static(store: ReviewStore, name: str, folder: str | Path) -> Path:
    """Write the pages of annotator ``name``, who must be known here, to a new folder; return the page to open."""
    items = store.rows(
        "SELECT item FROM assigned WHERE annotator = ?1 AND NOT EXISTS (SELECT 1 FROM done WHERE done.annotator = ?1 "
        "AND done.item = assigned.item) ORDER BY place",
        name,
    )
    if not items:
        raise InputError(
            f"{name!r} has nothing left to look at; add people with: equipoise review annotators DIR --add"
        )
    sheet = sheet_of(store)
    shown = [shown_item(store, sheet, name, number) for (number,) in items]
    with alone(folder), new_folder(folder) as target:
        _write_pages(store, name, shown, target)
    return Path(folder) / "index.html"


def _write_pages(store: ReviewStore, name: str, shown: list[dict[str, Any]], target: Path) -> None:
    sheet = sheet_of(store)
    numbers = sorted({picture["id"] for item in shown for picture in item["pictures"]})
    (target / "pictures").mkdir()
    addresses = {}
    for number in numbers:
        stored = store.picture(number)
        if stored is not None:
            addresses[number] = f"pictures/{number}.{'png' if stored[0] == 'image/png' else 'jpg'}"
            (target / addresses[number]).write_bytes(stored[1])
    contents = {
        "format": _FORMAT,
        "review": _name_of(store),
        "name": name,
        "questionnaire": shown_sheet(sheet),
        "items": shown,
        "pictures": addresses,
    }
    assets = files("equipoise.review") / "assets"
    for asset in ("review.css", "review.js", "static.js", "icon.svg"):
        (target / asset).write_bytes((assets / asset).read_bytes())
    data = json.dumps(contents, ensure_ascii=True)
    (target / "items.js").write_text(f'"use strict";\nwindow.equipoiseItems = {data};\n', encoding="utf-8")
    page = (assets / "review.html").read_text(encoding="utf-8").replace("/assets/", "")
    scripts = '<script src="items.js" defer></script>\n<script src="static.js" defer></script>\n'
    page = page.replace('<script src="review.js"', scripts + '<script src="review.js"')
    page = page.replace("kept on the organiser’s machine", "kept in this browser until you download them,")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    page = page.replace('<meta name="robots"', policy + '<meta name="robots"')
    (target / "index.html").write_text(page, encoding="utf-8")


def read_static(path: str | Path, store: ReviewStore) -> list[dict[str, Any]]:
    """Rows of labels from the file that such a page downloads, for :func:`equipoise.review.labels.take_in`."""
    try:
        download = json.loads(Path(path).read_text(encoding="utf-8"))
        if download["format"] != _FORMAT:
            raise KeyError("format")
        # pages of an earlier version name the table alone
        if download.get("review") not in (_name_of(store), store.setting("table")["fingerprint"]):
            raise InputError(f"{path}: belongs to another review")
        by_number = dict(store.rows("SELECT id, name FROM items"))
        images = dict(store.rows("SELECT id, image_id FROM pictures"))
        rows = []
        for entry in download["answers"]:
            about = {
                "annotator": str(download["name"]),
                "item": by_number[int(entry["item"])],
                "seconds": entry.get("seconds"),
            }
            for key, answer in ({} if entry.get("skip") else entry["answers"]).items():
                question, _, picture = key.partition("@")
                image = images[int(picture)] if picture else ""
                rows.append({**about, "image_id": image, "question": question, "answer": answer})
            if entry.get("skip"):
                rows.append({**about, "image_id": "", "question": "", "answer": None})
    except InputError:  # which is a ValueError as well
        raise
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: not the answers of a page of this review ({one_line(error)})") from None
    return rows


def _name_of(store: ReviewStore) -> str:
    """What tells a review from others, also of the same table: an item has another number there."""
    items = store.rows("SELECT id, name, pictures FROM items ORDER BY id")
    about = [store.setting("table")["fingerprint"], store.setting("questionnaire"), items]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
