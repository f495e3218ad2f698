"""Contact sheets: images in a grid with a line under each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from equipoise.errors import InputError

__all__ = ["contact_sheet"]

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
    """The images of ``tiles`` (label, image), each fitted into a square of ``side`` pixels.

    ``columns``: by default as many as make the sheet a little wider than high. ``marked``: which get a red frame.

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


def _lines(label: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> list[str]:
    lines: list[str] = []
    for word in label.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], lines[_LINES - 1] + " ..."]
    return lines
