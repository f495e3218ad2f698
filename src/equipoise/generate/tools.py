"""What a maker works with: the model, the images of the source table, and the previews.

Contact sheets: images in a grid with a line under each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from equipoise.data.atomic import write_whole
from equipoise.data.images import decode, encode
from equipoise.data.table import Table
from equipoise.engine.job import JobError
from equipoise.errors import InputError
from equipoise.world.sheets import Font, lines_of

_GAP = 4
_LETTER = 11
_LINES = 3


def contact_sheet(
    tiles: Sequence[tuple[str, Image.Image]],
    *,
    columns: int | None = None,
    side: int = 144,
    marked: Sequence[bool] = (),
) -> Image.Image:
    """Images in a grid, each with its label under it.

    Args:
        tiles: label and image of each, at least one; of a label three lines are shown.
        columns: by default as many as make the sheet a little wider than high.
        side: of the square, in pixels, into which each image is fitted.
        marked: for each tile whether it gets a red frame; those beyond its end get none.

    Returns:
        The sheet, an RGB image.

    >>> contact_sheet([("a", Image.new("RGB", (64, 64)))] * 12).size
    (596, 565)
    """
    if not tiles:
        raise InputError("a contact sheet needs at least one image")
    across = columns or min(len(tiles), math.ceil(math.sqrt(len(tiles))))
    font = ImageFont.load_default(_LETTER)
    under = _LINES * (_LETTER + 2) if any(label for label, _ in tiles) else 0
    down = math.ceil(len(tiles) / across)
    sheet = Image.new("RGB", (across * (side + _GAP) + _GAP, down * (side + under + _GAP) + _GAP), "white")
    pen = ImageDraw.Draw(sheet)
    for i, (label, image) in enumerate(tiles):
        x, y = _GAP + (i % across) * (side + _GAP), _GAP + (i // across) * (side + under + _GAP)
        sheet.paste(_fitted(image, side), (x, y))
        if i < len(marked) and marked[i]:
            pen.rectangle((x - 2, y - 2, x + side + 1, y + side + 1), outline="#d62728", width=2)
        for j, line in enumerate(_lines(label, font, side)):
            pen.text((x, y + side + 1 + j * (_LETTER + 2)), line, fill="#22252e", font=font)
    return sheet


def _fitted(image: Image.Image, side: int) -> Image.Image:
    scale = side / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    # Small images, such as the miniatures', keep their pixels; photographs are averaged down.
    way = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS
    square = Image.new("RGB", (side, side), "#e8e8ec")
    square.paste(image.convert("RGB").resize(size, way), ((side - size[0]) // 2, (side - size[1]) // 2))
    return square


def _lines(label: str, font: Font, width: int) -> list[str]:
    lines = lines_of(label, font, width)
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], lines[_LINES - 1] + " ..."]


_SHOWN = 36


class SourceImages:
    """Images of a table by their place in it; a run of neighbours is read from disk once."""

    def __init__(self, table: Table | str | Path) -> None:
        opened = table if isinstance(table, Table) else Table.open(table)
        self._path = opened.path.absolute()
        self._layers = tuple(layer.path.absolute() for layer in opened.layers)
        self.key = "+".join(opened.fingerprints)
        """The content of the table and its layers; where it lies does not matter."""
        self._table: Table | None = None
        self._held: tuple[int, int, list[Any]] = (-1, -1, [])
        self._starts: dict[int, list[int]] = {}
        self._labels: tuple[int, list[dict[str, Any]]] = (-1, [])

    def __getstate__(self) -> dict[str, Any]:
        kept = {"_path": self._path, "_layers": self._layers, "key": self.key, "_table": None}
        return kept | {"_held": (-1, -1, []), "_starts": {}, "_labels": (-1, [])}

    def at(self, place: tuple[int, int] | list[int]) -> Image.Image:
        """The RGB image in row ``place[1]`` of shard ``place[0]``."""
        table = self._opened()
        shard, row = place
        starts = self._starts_of(shard)
        group = max(i for i, start in enumerate(starts) if start <= row)
        if self._held[:2] != (shard, group):
            with table.open_shard(shard) as file:
                values = file.read_row_group(group, columns=["image"], use_threads=False).column("image").to_pylist()
            self._held = (shard, group, values)
        return decode(self._held[2][row - starts[group]], root=table.image_root)

    def labels(self, place: tuple[int, int] | list[int]) -> dict[str, Any]:
        """All that the table says of the image at ``place``, without its pixels."""
        table = self._opened()
        shard, row = place
        if self._labels[0] != shard:
            names = [name for name, kind in table.types.items() if not kind.startswith(("image", "vector"))]
            self._labels = shard, [r for batch in table.shard_batches(shard, names) for r in batch.to_pylist()]
        return self._labels[1][row]

    def _opened(self) -> Table:
        if self._table is None:
            self._table = Table.open(self._path, layers=self._layers)
        return self._table

    def _starts_of(self, shard: int) -> list[int]:
        if shard not in self._starts:
            with self._opened().open_shard(shard) as file:
                sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            self._starts[shard] = [sum(sizes[:i]) for i in range(len(sizes))]
        return self._starts[shard]


class Previews:
    """Contact sheets in ``_previews``, one every ``every`` images; for the eye, not for data.

    While a run goes on they show what this process has made. When it is finished :meth:`settle` draws them once more
    from the table, so that a run that was stopped in between ends with the same sheets.
    """

    key = "previews"

    def __init__(self, folder: Path | None = None, every: int = 0) -> None:
        self._folder, self._every = folder, every
        self._n = 0
        self._latest: list[tuple[str, Image.Image]] = []

    def note(self, tiles: list[tuple[str, Image.Image]]) -> None:
        """Take the images of a task."""
        if self._folder is None or self._every < 1:
            return
        before, self._n = self._n, self._n + len(tiles)
        self._latest = [*self._latest, *((label, image.copy()) for label, image in tiles)][-_SHOWN:]
        if before // self._every != self._n // self._every:
            self._draw(self._n // self._every * self._every, self._latest)
            self._latest = []

    def settle(self, table: Table, label: str = "caption") -> None:
        """Draw the sheets of a finished table: each shows the images up to its number."""
        if self._folder is None or self._every < 1:
            return
        names = [name for name in ("image", label) if name in table.types]
        held: list[dict[str, Any]] = []
        for number, row in enumerate(table.rows(names), 1):
            held = [*held, row][-min(_SHOWN, self._every) :]
            if number % self._every == 0:
                tiles = [(str(row.get(label) or ""), decode(row["image"], root=table.image_root)) for row in held]
                self._draw(number, tiles)
        wanted = {self._path(number) for number in range(self._every, len(table) + 1, self._every)}
        for path in [*self._folder.glob("*.png"), *self._folder.glob(".*.png.*.tmp")]:  # also what a killed run left
            if path not in wanted:
                path.unlink(missing_ok=True)

    def _draw(self, number: int, tiles: list[tuple[str, Image.Image]]) -> None:
        assert self._folder is not None
        self._folder.mkdir(parents=True, exist_ok=True)
        drawn = BytesIO()
        contact_sheet(tiles).save(drawn, format="PNG")
        write_whole(self._path(number), drawn.getvalue())

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{number:08d}.png"


@contextmanager
def stopping_when_down() -> Iterator[None]:
    """Stop the run when a service does not answer: no prompt is to blame, so none is recorded as failed for good."""
    try:
        yield
    except ConnectionError as error:
        raise JobError(f"{error}; what is finished is kept: run it again when the service answers") from error


@dataclass
class Tools:
    """Built once for each worker."""

    generator: Any = None
    """A :class:`~equipoise.models.protocols.Generator`, or its name, which is loaded."""
    images: SourceImages | None = None
    previews: Previews | None = None
    finder: Any = None
    """A :class:`~equipoise.models.protocols.Detector` that finds faces, objects or outlines, or its name."""
    faces: SourceImages | None = None

    def __post_init__(self) -> None:
        from equipoise.models.loading import load

        if isinstance(self.generator, str):
            self.generator = load(self.generator, kind="generator")
        if isinstance(self.finder, str):
            self.finder = load(self.finder, kind="detector")

    def settled(self, how: Mapping[str, Any]) -> dict[str, Any]:
        """``how``, with the generator's own values for what was not asked for, where it says them."""
        own = getattr(self.generator, "own", {})
        return {name: own.get(name) if value is None else value for name, value in how.items()}

    def source(self, place: list[int]) -> Image.Image:
        """An image of the source table."""
        if self.images is None:
            raise InputError("this job changes images, but has no table to take them from")
        return self.images.at(place)

    def labels(self, place: list[int]) -> dict[str, Any]:
        """All that the source table says of an image."""
        if self.images is None:
            raise InputError("this job changes images, but has no table to take them from")
        return self.images.labels(place)

    def finished(self, rows: list[dict[str, Any]], label: str = "caption") -> list[dict[str, Any]]:
        """The same rows, their images noted for the previews and stored as PNG."""
        if self.previews is not None:
            self.previews.note([(str(row.get(label) or ""), row["image"]) for row in rows])
        # The fastest level: a tenth larger, and several times faster than the default.
        return [row | {"image": {"bytes": encode(row["image"], compress_level=1), "path": None}} for row in rows]
