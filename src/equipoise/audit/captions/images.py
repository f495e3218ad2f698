"""CLIPScore and RefCLIPScore of captions: images found by id, embedded once, however many models there are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import engine
from equipoise.audit.captions.inputs import Dropped, ModelCaptions
from equipoise.audit.captions.reading import USUAL, CaptionColumns
from equipoise.data import Table
from equipoise.data.manifest import MANIFEST
from equipoise.engine.asking import file_vectors, kept_ids
from equipoise.errors import InputError
from equipoise.measure.images import clip_score, ref_clip_score
from equipoise.measure.stats.shares import ItemScores

PROMPT = "A photo depicts "
"""What CLIPScore puts before a caption (Hessel et al., EMNLP 2021)."""
IMAGE_MISSING = "image file missing"
_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
_DIGITS = re.compile(r"(\d+)$")
_BATCH = 32


def image_files(folder: str | Path) -> dict[str, Path]:
    """The images in ``folder`` (and below) by id: the file's name, its stem, and the number the stem ends in.

    So "COCO_val2014_000000000042.jpg" is found as that name, without ".jpg", and as 42. An id that two files could
    have is of neither.
    """
    home = Path(folder)
    if not home.is_dir():
        raise InputError(f"{home}: no folder of images; give one with --images")
    paths: dict[str, Path | None] = {}
    for path in sorted(home.rglob("*")):
        if path.suffix.lower() not in _ENDINGS or path.name.startswith("."):
            continue
        number = _DIGITS.search(path.stem)
        for name in {path.name, path.stem, *([str(int(number[1]))] if number else [])}:
            paths[name] = path if name not in paths else None
    files = {name: path for name, path in paths.items() if path is not None}
    if not files:
        raise InputError(f"{home}: holds no images ({', '.join(_ENDINGS[:3])}, ...)")
    return files


class ImageScores:
    """Scores of captions against their images by one encoder."""

    def __init__(
        self,
        encoder: Any,
        images: str | Path | None,
        ids: Iterable[str],
        dropped: Dropped,
        say: Callable[[str], None],
        asking: engine.Asking | None = None,
        columns: CaptionColumns = USUAL,
    ) -> None:
        self._encoder = encoder
        self._asking = asking or engine.Asking(batch_size=_BATCH)
        wanted = sorted(set(ids))
        if hasattr(encoder, "encode_images"):
            if images is None:
                raise InputError("--encoder needs the images themselves: give their folder with --images")
            self._vectors = _encoded(encoder, Path(images), wanted, dropped, say, self._asking, columns)
        else:
            self._vectors = dict(zip(wanted, encoder.image_vectors(wanted), strict=True))
        if not self._vectors:
            raise InputError(f"{images}: holds none of the {len(wanted):,} images; an id looks like {wanted[0]!r}")

    def of(
        self, model: ModelCaptions, references: Mapping[str, Sequence[str]] | None
    ) -> tuple[list[str], ItemScores, ItemScores | None]:
        """Image ids, CLIPScore, and RefCLIPScore where every one of them has references."""
        ids = [name for name in model.captions if name in self._vectors]
        if not ids:
            raise InputError(f"{model.file}: no caption has its image")
        images = np.stack([self._vectors[name] for name in ids])
        texts = self._texts([model.captions[name] for name in ids])
        plain = clip_score(images, texts)
        with_references = [i for i, name in enumerate(ids) if references is not None and name in references]
        if references is None or not with_references:
            return ids, plain, None
        human = [text for i in with_references for text in references[ids[i]]]
        owner = np.repeat(np.arange(len(with_references)), [len(references[ids[i]]) for i in with_references])
        scored = ref_clip_score(images[with_references], texts[with_references], self._texts(human), owner)
        return ids, plain, scored

    def _texts(self, texts: Sequence[str]) -> np.ndarray:
        distinct = list(dict.fromkeys(PROMPT + text.strip() for text in texts))
        place = {text: i for i, text in enumerate(distinct)}
        vectors = engine.vectors(self._encoder, distinct, self._asking)
        return vectors[[place[PROMPT + text.strip()] for text in texts]]


def _encoded(
    encoder: Any,
    folder: Path,
    wanted: Sequence[str],
    dropped: Dropped,
    say: Callable[[str], None],
    asking: engine.Asking,
    columns: CaptionColumns,
) -> dict[str, np.ndarray]:
    if (folder / MANIFEST).is_file():
        return _of_table(encoder, columns.opened(folder), wanted, dropped, asking)
    files = image_files(folder)
    vectors: dict[str, np.ndarray] = {}
    there = [name for name in wanted if name in files]
    for name in wanted:
        if name not in files:
            dropped.add(folder, name, IMAGE_MISSING)
    done = 0
    unreadable = engine.Unreadable(folder, len(there), asking.max_broken)
    for at, some, errors in file_vectors(encoder, [files[name] for name in there], asking):
        for place, error in errors.items():
            dropped.add(folder, there[place], f"image cannot be read: {error}")
            unreadable.add(there[place], error)
        vectors |= {there[place]: vector for place, vector in zip(at, some, strict=True)}
        done += len(at) + len(errors)
        say(f"images: {done:,} of {len(there):,} embedded")
    return vectors


def _of_table(
    encoder: Any, table: Table, wanted: Sequence[str], dropped: Dropped, asking: engine.Asking
) -> dict[str, np.ndarray]:
    """The vectors of those images of a table that have captions, by their ids."""
    known = set(kept_ids(table))
    for name in wanted:
        if name not in known:
            dropped.add(table.path, name, IMAGE_MISSING)
    there = [name for name in wanted if name in known]
    if not there:
        return {}
    return dict(zip(there, engine.vectors(encoder, table, asking, ids=there), strict=True))
