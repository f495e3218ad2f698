"""What models say of images, as text: captions, detections as JSON, revised captions. Asked once, kept by content."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from equipoise.data.atomic import write_whole
from equipoise.data.table import Table
from equipoise.engine.asking import (
    Asking,
    answered,
    fill_by_ray,
    image_batches,
    image_name,
    kept_ids,
    progress_of,
    ray_folder,
)
from equipoise.engine.cache import MARKER, StoreInfo, cache_root, read_marker
from equipoise.engine.content import image_ids, text_ids
from equipoise.engine.ray_engine import needs_of
from equipoise.engine.store import folder_name
from equipoise.engine.unreadable import Unreadable
from equipoise.errors import InputError

_FILE = "answers.sqlite"
_FORMAT = "equipoise answer store"
_LONGEST_WAIT = 600.0


class AnswerStore:
    """Texts by content, for the model and question that ``key`` names: one SQLite file in a folder below ``root``.

    What is added is on disk, whole, when :meth:`add` returns. Several processes may use one store.

    >>> import tempfile
    >>> store = AnswerStore(tempfile.mkdtemp(), "toy captioner")
    >>> store.add({b"a": "a dog"})
    >>> store.get([b"a", b"b"])
    {b'a': 'a dog'}
    """

    def __init__(self, root: str | Path | None, key: str) -> None:
        if not key:
            raise InputError("answers are kept by the model's key, a text that names its weights; this model has none")
        self.key = key
        self.root = Path(root) if root is not None else default_answer_root()
        self.path = self.root / folder_name(key)

    def get(self, ids: Sequence[bytes]) -> dict[bytes, str]:
        """The answers that are known, by id."""
        if not ids or not (self.path / _FILE).exists():
            return {}
        with closing(self._opened()) as file:
            if not _has_table(file):
                return {}
            marks = ",".join("?" * len(ids))
            return dict(file.execute(f"SELECT id, answer FROM answers WHERE id IN ({marks})", list(ids)).fetchall())

    def add(self, answers: Mapping[bytes, str]) -> None:
        """Keep ``answers``; one that is there stays."""
        self.path.mkdir(parents=True, exist_ok=True)
        with closing(self._opened()) as file, file:
            file.execute("BEGIN IMMEDIATE")
            if not (self.path / MARKER).exists():
                for left in self.path.glob(f".{MARKER}.*.tmp"):  # of one that was killed: others wait for this one
                    left.unlink(missing_ok=True)
                write_whole(self.path / MARKER, json.dumps({"format": _FORMAT, "key": self.key}).encode())
            file.execute("CREATE TABLE IF NOT EXISTS answers (id BLOB PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID")
            file.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", answers.items())

    def answers(self, images: Sequence[Any], ask: Callable[[list[Any]], Sequence[str]]) -> list[str]:
        """What is known of each decoded image, and what ``ask`` says of the others, which is kept.

        >>> import tempfile
        >>> from PIL import Image
        >>> store = AnswerStore(tempfile.mkdtemp(), "toy detector")
        >>> asked = []
        >>> def sizes(images):
        ...     asked.extend(images)
        ...     return [str(image.size) for image in images]
        >>> small, large = Image.new("RGB", (2, 2)), Image.new("RGB", (9, 9))
        >>> store.answers([small, large, small], sizes), store.answers([large], sizes), len(asked)
        (['(2, 2)', '(9, 9)', '(2, 2)'], ['(9, 9)'], 2)
        """
        names = [row.tobytes() for row in image_ids(images)]
        known = self.get(names)
        new = {name: image for name, image in zip(names, images, strict=True) if name not in known}
        if new:
            said = dict(zip(new, ask(list(new.values())), strict=True))
            self.add(said)
            known |= said
        return [known[name] for name in names]

    def __len__(self) -> int:
        if not (self.path / _FILE).exists():
            return 0
        with closing(self._opened()) as file:
            return int(file.execute("SELECT count(*) FROM answers").fetchone()[0]) if _has_table(file) else 0

    def info(self) -> StoreInfo:
        """How much is in the store."""
        sizes = [path.stat().st_size for path in self.path.glob("*") if path.is_file()]
        return StoreInfo(self.key, self.path, len(self), None, 1, sum(sizes))

    def delete(self) -> None:
        """Delete the store; a folder that holds anything else is refused."""
        others = [path.name for path in self.path.iterdir() if not path.name.startswith((_FILE, MARKER, "."))]
        if others:
            raise InputError(f"{self.path} holds {others[0]!r}, which is not part of a store; move it away first")
        shutil.rmtree(self.path)

    def _opened(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path / _FILE, timeout=_LONGEST_WAIT)


def _has_table(file: sqlite3.Connection) -> bool:
    """Whether anything was ever added: a process may have been killed when the file was there and empty."""
    return file.execute("SELECT 1 FROM sqlite_master WHERE name = 'answers'").fetchone() is not None


def default_answer_root() -> Path:
    """The folder of the answer stores in the cache."""
    return cache_root() / "answers"


def answer_stores(root: str | Path | None = None) -> list[AnswerStore]:
    """The answer stores below ``root`` (default: the cache), by key."""
    place = Path(root) if root is not None else default_answer_root()
    stores = []
    for folder in sorted(place.iterdir()) if place.is_dir() else ():
        about = read_marker(folder, _FORMAT)
        if about is not None and not folder.is_symlink():
            stores.append(AnswerStore(place, about["key"]))
    return sorted(stores, key=lambda store: store.key)


def captions(
    captioner: Any, table: Table | str | Path, how: Asking | None = None, *, seed: int = 0
) -> Iterator[tuple[str, str | InputError]]:
    """The captions of the images of a table, each asked for once.

    Captions are kept: an image that a captioner has seen with this ``seed`` is not asked about again, and a killed run
    goes on. Too many images that cannot be read (``how.max_broken``) are an InputError with the first names.

    Args:
        captioner: has a ``key`` and ``caption(images, seed=...)``.
        table: of images, or its folder; what a filter dropped is left out.
        how: size of the batches, store, engine; by default those of :class:`Asking`.
        seed: which captions are drawn, where the captioner samples them.

    Returns:
        ``(image_id, caption)`` of each image, in order; an InputError with the reason takes the place of the caption
        where an image cannot be read.
    """
    chosen = how or Asking()
    opened = table if isinstance(table, Table) else Table.open(table)
    wanted = kept_ids(opened)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(ray_folder()))
        root = Path(chosen.store) if chosen.store is not None else default_answer_root()
        chosen = replace(chosen, store=root.absolute() if chosen.keep else folder / "answers")
        question = _Question(captioner, "caption", seed, chosen.store, opened.image_root.absolute())
        if chosen.engine == "ray":
            fill_by_ray(question.answers, opened, wanted, chosen, folder / "captions", needs_of(captioner))
        name = str(getattr(captioner, "name", captioner.key))
        unreadable = Unreadable(opened.path, len(wanted), chosen.max_broken)
        bar = stack.enter_context(progress_of(f"captions by {name}", len(wanted), chosen))
        for names, images in image_batches(opened, chosen.batch_size, frozenset(wanted)):
            for image_id, said in zip(names, question.answers(images), strict=True):
                if isinstance(said, InputError):
                    unreadable.add(image_id, said)
                yield image_id, said
            bar.advance(len(names))


@dataclass(frozen=True)
class _Question:
    """A captioner or reviser with the store before it; every batch is kept at once, for a caption takes long."""

    model: Any
    task: str
    """The method that is asked, ``caption`` or ``revise``."""
    seed: int
    store_root: str | Path | None = field(compare=False)
    image_root: str | Path = field(compare=False)
    keep: bool = True

    @cached_property
    def store(self) -> AnswerStore:
        return AnswerStore(self.store_root, f"{self.model.key} {self.task} seed {self.seed}")

    def answers(self, images: Sequence[Any], captions: Sequence[str] | None = None) -> list[str | InputError]:
        """One answer for each image, or for each image with its caption."""
        names = [image_name(image, self.image_root) for image in images]
        if captions is not None:
            pairs = zip(names, text_ids(captions), strict=True)
            names = [name + text.tobytes() if isinstance(name, bytes) else name for name, text in pairs]
        told = dict(zip(names, captions or (), strict=False))

        def ask(new: dict[bytes, Any]) -> dict[bytes, str]:
            given = [list(new.values())] if captions is None else [list(new.values()), [told[name] for name in new]]
            said = list(getattr(self.model, self.task)(*given, seed=self.seed))
            if len(said) != len(new):
                raise InputError(f"{self.model.key} gave {len(said)} captions for {len(new)} images")
            answers = dict(zip(new, map(str, said), strict=True))
            if self.keep:
                self.store.add(answers)
            return answers

        return answered(names, images, self.image_root, self.store.get if self.keep else lambda _: {}, ask)


@dataclass(frozen=True)
class Asked:
    """A caption and where its image is."""

    image_id: str
    image: Any
    """A path, or a cell of a table."""
    caption: str


def revisions(
    reviser: Any,
    items: Iterable[Asked],
    how: Asking | None = None,
    *,
    total: int,
    root: str | Path = ".",
    seed: int = 0,
) -> Iterator[tuple[Asked, str | InputError]]:
    """Each item and its revised caption, in order; of an image that cannot be read the reason.

    ``reviser`` has a ``key`` and ``revise(images, captions, seed=...)``. Batches are the same in every run and each is
    kept as a whole when it is done, so that a killed run goes on and ends with the same captions. ``root`` is the
    folder that paths are relative to, ``total`` how many items there are.
    """
    chosen = how or Asking()
    if chosen.engine != "local":
        raise InputError("captions are revised by the local engine; leave the engine out")
    question = _Question(reviser, "revise", seed, chosen.store, root, chosen.keep)
    with progress_of(f"captions by {reviser.name}", total, chosen) as bar:
        rest = iter(items)
        while batch := list(islice(rest, chosen.batch_size)):
            said = question.answers([item.image for item in batch], [item.caption for item in batch])
            yield from zip(batch, said, strict=True)
            bar.advance(len(batch))
