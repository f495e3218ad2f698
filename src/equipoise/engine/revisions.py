"""What a reviser makes of captions and their images, asked once and kept by the content of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from equipoise.data.images import decode
from equipoise.engine.answers import AnswerStore
from equipoise.engine.asking import Asking, progress_of
from equipoise.engine.content import image_ids, text_ids
from equipoise.errors import InputError

__all__ = ["Asked", "revisions"]


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
    question = _Revision(reviser, seed, chosen, Path(root))
    with progress_of(f"captions by {reviser.name}", total, chosen) as bar:
        rest = iter(items)
        while batch := list(islice(rest, chosen.batch_size)):
            yield from zip(batch, question.answers(batch), strict=True)
            bar.advance(len(batch))


@dataclass(frozen=True)
class _Revision:
    """A reviser with the store before it."""

    reviser: Any
    seed: int
    how: Asking
    root: Path

    @cached_property
    def store(self) -> AnswerStore:
        return AnswerStore(self.how.store, f"{self.reviser.key} revise seed {self.seed}")

    def answers(self, items: Sequence[Asked]) -> list[str | InputError]:
        names = [self._name(item) for item in items]
        kept = self.how.keep
        known: dict[bytes, Any] = dict(self.store.get([n for n in names if isinstance(n, bytes)])) if kept else {}
        new: dict[bytes, Any] = {}
        texts: dict[bytes, str] = {}
        for item, name in zip(items, names, strict=True):
            if isinstance(name, bytes) and name not in known and name not in new:
                new[name], texts[name] = self._decoded(item), item.caption
        ready = {name: image for name, image in new.items() if not isinstance(image, InputError)}
        if ready:
            said = self.reviser.revise(list(ready.values()), [texts[name] for name in ready], seed=self.seed)
            answers = dict(zip(ready, map(str, said), strict=True))
            if kept:
                self.store.add(answers)
            new |= answers
        known |= new
        return [known[name] if isinstance(name, bytes) else name for name in names]

    def _name(self, item: Asked) -> bytes | InputError:
        try:
            image = image_ids([item.image], root=self.root)[0].tobytes()
        except InputError as error:
            return error
        return bytes(image + text_ids([item.caption])[0].tobytes())

    def _decoded(self, item: Asked) -> Any:
        try:
            return decode(item.image, root=self.root)
        except InputError as error:
            return error
