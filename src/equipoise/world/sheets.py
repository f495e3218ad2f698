"""Contact sheets: what the world can show, with the names under the pictures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from PIL import Image, ImageDraw, ImageFont

from equipoise.errors import InputError
from equipoise.world.catalog import (
    ACTIVITIES,
    AGES,
    AIR_OBJECTS,
    BUILDS,
    CASUAL,
    GENDERS,
    OBJECTS,
    OCCUPATIONS,
    SCENES,
    TONES,
    TRAITS,
)
from equipoise.world.config import WorldConfig, plain_world
from equipoise.world.draws import seeds_for
from equipoise.world.render import render_image
from equipoise.world.sample import draw, sample
from equipoise.world.scene import Person, Placed, Scene
from equipoise.world.scenes import GROUND
from equipoise.world.sets import counterfactual_sets

GAP = 4
COLUMNS = 14
SMALLEST = 9
INK = "#22252e"
Tile = tuple[str, Scene]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont


def contact_sheet(
    tiles: Sequence[Tile], *, size: int = 64, zoom: int = 1, columns: int = 8, title: str = ""
) -> Image.Image:
    """The pictures of ``tiles`` in a grid.

    A label is broken into lines as wide as its picture; where one word is wider still, the letters shrink and then
    the cells widen.

    Args:
        tiles: (label, scene) of each picture, at least one; the label is written below it and may be empty.
        size: pixels per side at which each is drawn, 16 to 2048.
        zoom: how many times it is then enlarged, a whole number.
        columns: the most pictures in a row.
        title: what is written above the grid.

    Returns:
        The sheet in RGB.

    >>> from equipoise.world import preset, sample
    >>> contact_sheet([("a", s) for s in sample(preset("fair"), 4)], columns=2).size
    (140, 178)
    """
    if not tiles:
        raise InputError("a contact sheet needs at least one picture")
    for name, value in (("zoom", zoom), ("columns", columns)):
        if value < 1:
            raise InputError(f"{name}={value}: a whole number from 1 up is expected")
    side = size * zoom
    letter = max(11, min(22, side // 14))
    words = [word for label, _ in tiles for word in label.split()]
    font, small = _font_for(words, side, letter)
    cell = max([side, *(math.ceil(font.getlength(word)) for word in words)])
    labels = [lines_of(label, font, cell) for label, _ in tiles]
    n_lines = max(map(len, labels))
    under = n_lines * (small + 2) + 6 if n_lines else 0
    above = letter + 14 if title else 0
    columns = min(columns, len(tiles))
    rows = math.ceil(len(tiles) / columns)
    sheet = Image.new("RGB", (columns * (cell + GAP) + GAP, rows * (side + under + GAP) + GAP + above), "white")
    pen = ImageDraw.Draw(sheet)
    if title:
        pen.text((GAP + 2, GAP), title, fill=INK, font=ImageFont.load_default(letter + 3))
    for i, ((_, scene), lines) in enumerate(zip(tiles, labels, strict=True)):
        x, y = GAP + (i % columns) * (cell + GAP), GAP + above + (i // columns) * (side + under + GAP)
        picture = render_image(scene, size).resize((side, side), Image.Resampling.NEAREST)
        sheet.paste(picture, (x + (cell - side) // 2, y))
        for j, line in enumerate(lines):
            pen.text((x + cell / 2, y + side + 2 + j * (small + 2)), line, fill=INK, font=font, anchor="ma")
    return sheet


def catalogue(config: WorldConfig | None = None, *, size: int = 64, zoom: int = 2, seed: int = 0) -> Image.Image:
    """One sheet of everything: occupations, activities, places, things, figures, tones, traits, and a sample.

    Args:
        config: the world that the sample and the counterfactual set come from; the fair one unless given.
        size: pixels per side at which each picture is drawn, 16 to 2048.
        zoom: how many times it is then enlarged, a whole number.
        seed: which scenes are drawn.

    Returns:
        The sheet in RGB.
    """
    world = config or plain_world()
    sections = [
        ("Occupations", _work(world, seed), COLUMNS),
        ("Activities: alone, and beside a bystander", _acts(world, seed), COLUMNS),
        ("Figures and ages", _figures(), COLUMNS),
        ("Skin tones (Monk scale), builds and traits", _looks(), COLUMNS),
        ("Places", _places(), COLUMNS),
        ("Things", _things(), COLUMNS),
        ("One counterfactual set", _one_set(world, seed), COLUMNS),
        (f"A sample of the world '{world.name}'", [("", scene) for scene in sample(world, 28, seed)], COLUMNS),
    ]
    return stacked([contact_sheet(t, size=size, zoom=zoom, columns=c, title=title) for title, t, c in sections])


def set_sheet(
    config: WorldConfig | None = None,
    placebos: Iterable[str] = (),
    *,
    axes: Sequence[str] = ("gender", "skin_tone"),
    subject: str = "scientist",
    size: int = 64,
    zoom: int = 2,
    seed: int = 0,
) -> Image.Image:
    """One counterfactual set: a row of the base pictures, and below it one for each of the ``placebos``.

    Args:
        config: the world that the set comes from; the fair one unless given.
        placebos: which of ``bag``, ``mirror`` and ``brightness``; the rows come in this order.
        axes: which of ``gender``, ``skin_tone`` and ``age`` vary; more than 14 combinations of groups take a second
            line.
        subject: the occupation or activity that the set is about.
        size: pixels per side at which each picture is drawn, 16 to 2048.
        zoom: how many times it is then enlarged, a whole number.
        seed: which set is drawn.

    Returns:
        The sheet in RGB.

    >>> set_sheet(placebos=["bag", "mirror"], axes=["gender"], zoom=1).width
    140
    """
    world = config or plain_world()
    members = next(iter(counterfactual_sets(world, [subject], axes, 1, seed, placebos)))
    by_change: dict[str, list[Tile]] = {}
    for groups, scene in zip(members.groups, members.scenes, strict=True):
        by_change.setdefault(scene.placebo, []).append((", ".join(groups), scene))
    titles = {"": "One counterfactual set", **{name: f"Placebo: {name}" for name in members.placebos}}
    return stacked(
        contact_sheet(tiles, size=size, zoom=zoom, columns=COLUMNS, title=titles[name])
        for name, tiles in by_change.items()
    )


def _font_for(words: Sequence[str], width: int, letter: int) -> tuple[Font, int]:
    """The largest font, from ``letter`` down to 9 pixels, in which every word is at most ``width`` wide."""
    for size in range(letter, SMALLEST, -1):
        font = ImageFont.load_default(size)
        if all(font.getlength(word) <= width for word in words):
            return font, size
    return ImageFont.load_default(SMALLEST), SMALLEST


def lines_of(label: str, font: Font, width: int) -> list[str]:
    """``label`` broken at its spaces into lines that are at most ``width`` wide."""
    lines: list[str] = []
    for word in label.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def stacked(sheets: Iterable[Image.Image]) -> Image.Image:
    """Sheets below each other."""
    images = list(sheets)
    whole = Image.new("RGB", (max(s.width for s in images), sum(s.height for s in images)), "white")
    y = 0
    for sheet in images:
        whole.paste(sheet, (0, y))
        y += sheet.height
    return whole


def _work(config: WorldConfig, seed: int) -> list[Tile]:
    plain = config.changed(strength=0.0, visible=1.0)
    tiles = []
    for i, name in enumerate(OCCUPATIONS):
        scene = draw(plain, seeds_for(seed, 1, of=f"sheet {name}"), subject=name)[0]
        person = replace(scene.people[0], gender=GENDERS[i % 2], tone=TONES[(i * 3) % 10], age=AGES[(i // 2) % 3])
        tiles.append((name, replace(scene, people=(person,))))
    return tiles


def _acts(config: WorldConfig, seed: int) -> list[Tile]:
    plain = config.changed(strength=0.0)
    tiles = []
    for name, activity in ACTIVITIES.items():
        for people in (False, True):
            scene = draw(plain, seeds_for(seed, 1, of=f"sheet {name} {people}"), subject=name, bystander=people)[0]
            tiles.append(("" if people else activity.phrase, scene))
    return tiles


def _figures() -> list[Tile]:
    return [
        (f"{gender}, {age}", _alone(i, gender=gender, age=age))
        for i, (gender, age) in enumerate((g, a) for g in GENDERS for a in AGES)
    ]


def _looks() -> list[Tile]:
    tiles = [(f"tone {tone}", _alone(0, tone=tone, gender=GENDERS[tone % 2])) for tone in TONES]
    tiles += [(build, _alone(1, build=build)) for build in BUILDS]
    return tiles + [(trait, _alone(2, gender="female", **{trait: True})) for trait in TRAITS]


def _places() -> list[Tile]:
    return [(name, replace(_alone(i), scene=name)) for i, name in enumerate(SCENES)]


def _things() -> list[Tile]:
    tiles = []
    for i, name in enumerate(OBJECTS):
        y = 0.2 if name in AIR_OBJECTS else GROUND - 1 / 64
        tiles.append((name, replace(_alone(i, x=0.62), scene=SCENES[i % 8], objects=(Placed(name, 0.2, y),))))
    sign = replace(_alone(5, x=0.62), scene="office", unsafe=(0.2, 0.2))
    return [*tiles, ("unsafe sign", sign)]


def _one_set(config: WorldConfig, seed: int) -> list[Tile]:
    members = next(iter(counterfactual_sets(config, ["scientist"], ("gender", "skin_tone"), 1, seed)))
    return [(", ".join(groups), scene) for groups, scene in zip(members.groups, members.scenes, strict=True)]


def _alone(i: int, **looks: object) -> Scene:
    person = Person("male", 5, "adult", clothes=i % len(CASUAL), x=0.5)
    return Scene((replace(person, **looks),), "park")  # type: ignore[arg-type]
