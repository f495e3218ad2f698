"""Contact sheets of what the generative miniatures make, failures included: a red frame where the judge disagrees."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from PIL.PngImagePlugin import PngInfo

from equipoise.array_types import Pixels
from equipoise.data.atomic import write_whole
from equipoise.data.runs import file_to_write
from equipoise.models.miniatures import FOLDER
from equipoise.recipes.train_mini.evaluate_generative import (
    STEPS,
    as_asked,
    asked_scenes,
    changes_asked,
    composited,
    judged,
    reconstructed,
    telling_prompt,
)
from equipoise.world import Scene, neutral_prompt, render_batch
from equipoise.world.catalog import OCCUPATIONS

COLUMNS = 12
ZOOM = 2
LEANING = 5
"""Occupations that the biased generator is asked for."""
_GAP = 3
_SEED = 4
OWN_SHEET = b"a contact sheet of Equipoise"
"""Stands in every sheet, which tells it from a picture of somebody else's."""


def write_sheets(out: Path, home: Path = FOLDER, *, overwrite: bool = False) -> list[Path]:
    """Sheets of samples, edits and inpaintings of the parts that are in ``home``, as PNG files in ``out``.

    A picture of that name which is no such sheet is refused, before anything is drawn, unless ``overwrite`` says so.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = []
    makers = (("diffusion", _samples), ("diffusion-biased", _leaning), ("edit", _edits), ("inpaint", _inpaints))
    for part, make in makers:
        if (home / part / "model_index.json").is_file():
            with file_to_write(out / f"miniatures-{part}.png", overwrite=overwrite, own=OWN_SHEET) as path:
                write_sheet(make(home / part), path)
            written.append(path)
    return written


def write_sheet(sheet: Image.Image, path: Path) -> None:
    """Write a sheet as a PNG that says what it is, whole or not at all."""
    about, drawn = PngInfo(), BytesIO()
    about.add_text("Description", OWN_SHEET.decode())
    sheet.save(drawn, "PNG", optimize=True, pnginfo=about)
    write_whole(path, drawn.getvalue())


def framed_sheet(rows: Sequence[Pixels], right: NDArray[np.bool_], columns: int = COLUMNS) -> Image.Image:
    """Pictures in columns; the ``rows`` of a place stand one above the other, the last framed where it is not right."""
    n, side = len(rows[0]), rows[0].shape[1] * ZOOM
    step_x, step_y = side + 2 * _GAP, len(rows) * (side + _GAP) + 2 * _GAP
    sheet = Image.new("RGB", (columns * step_x, -(-n // columns) * step_y), "white")
    draw = ImageDraw.Draw(sheet)
    for i in range(n):
        left, top = i % columns * step_x + _GAP, i // columns * step_y + _GAP
        for depth, row in enumerate(rows):
            image = Image.fromarray(row[i]).resize((side, side), Image.Resampling.NEAREST)
            sheet.paste(image, (left, top + depth * (side + _GAP)))
        if not right[i]:
            y = top + (len(rows) - 1) * (side + _GAP)
            draw.rectangle((left - 2, y - 2, left + side + 1, y + side + 1), outline="#d62728", width=2)
    return sheet


def reconstructions(folder: Path, n: int = 3 * COLUMNS) -> Image.Image:
    """Renders above, what the autoencoder in ``folder`` gives back below; framed where the judge errs."""
    scenes = asked_scenes(n)
    before = render_batch(scenes)
    after = reconstructed(folder, before)
    return framed_sheet([before, after], _as_asked(scenes, after))


def _samples(folder: Path) -> Image.Image:
    scenes = asked_scenes(4 * COLUMNS)
    drawn = _stacked(_open(folder).generate([telling_prompt(scene) for scene in scenes], seed=_SEED, steps=STEPS))
    return framed_sheet([drawn], _as_asked(scenes, drawn))


def _leaning(folder: Path) -> Image.Image:
    """One row per occupation, from the one the biased world gives most to men to the one it gives most to women."""
    from equipoise.recipes.train_mini.evaluate import injected

    in_order = [list(OCCUPATIONS)[i] for i in np.argsort(injected())]
    chosen = [in_order[i] for i in np.linspace(0, len(in_order) - 1, LEANING).round().astype(int)]
    asked = np.repeat(chosen, COLUMNS)
    drawn = _stacked(_open(folder).generate([neutral_prompt(name) for name in asked], seed=_SEED, steps=STEPS))
    return framed_sheet([drawn], np.asarray(judged(drawn)["occupation"] == asked))


def _edits(folder: Path) -> Image.Image:
    from equipoise.recipes.train_mini.edit import instructions

    _, targets, wanted, before, masks = changes_asked(2 * COLUMNS, box=True)
    texts = [instructions(target)[0] for target in targets]
    drawn = _stacked(_open(folder).edit([Image.fromarray(i) for i in before], texts, seed=_SEED, steps=STEPS))
    after = composited(before, drawn, masks)
    return framed_sheet([before, after], _as_asked(wanted, after))


def _inpaints(folder: Path) -> Image.Image:
    _, _, wanted, before, masks = changes_asked(2 * COLUMNS)
    texts = [telling_prompt(scene) for scene in wanted]
    pictures = [Image.fromarray(image) for image in before]
    drawn = _stacked(_open(folder).inpaint(pictures, masks, texts, seed=_SEED, steps=STEPS))
    after = composited(before, drawn, masks)
    return framed_sheet([before, after], _as_asked(wanted, after))


def _as_asked(scenes: Sequence[Scene], images: Pixels) -> NDArray[np.bool_]:
    """Whether the judge sees the gender, the skin tone, the occupation and the place that were asked for."""
    right = as_asked(scenes, images)
    seen: NDArray[np.bool_] = np.all([right[axis] for axis in ("gender", "skin_tone", "occupation", "scene")], axis=0)
    return seen


def _stacked(images: Sequence[Any]) -> Pixels:
    return np.stack([np.asarray(image) for image in images])


def _open(folder: Path) -> Any:
    from equipoise.models.diffusers.generator import open_pipeline

    return open_pipeline(folder, name=folder.name, device="cpu")
