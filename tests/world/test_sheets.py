import pytest

from equipoise.errors import InputError
from equipoise.world import catalogue, contact_sheet, preset, sample


def test_a_sheet_holds_all_pictures():
    tiles = [("", scene) for scene in sample(preset("fair"), 5)]
    assert contact_sheet(tiles, size=32, columns=4).size == (4 * 36 + 4, 2 * 36 + 4)
    assert contact_sheet(tiles, size=32, zoom=2, columns=8).size == (5 * 68 + 4, 68 + 4)
    with pytest.raises(InputError, match="at least one"):
        contact_sheet([])
    for wrong in ({"columns": 0}, {"columns": -1}, {"zoom": 0}):
        with pytest.raises(InputError, match="a whole number from 1 up is expected"):
            contact_sheet(tiles, size=32, **wrong)


@pytest.mark.slow
def test_the_catalogue_can_be_drawn_for_every_preset():
    assert catalogue(preset("strong"), size=32, zoom=1).width > 400


def test_labels_stay_under_their_own_picture():
    scene = sample(preset("fair"), 1)[0]
    short, long = (
        contact_sheet([(label, scene), ("", scene)], size=64) for label in ("playing", "playing a long trumpet")
    )
    assert short.width == long.width
    assert long.height > short.height, "a long label takes more lines"
    right_half = long.crop((4 + 64 + 4, 4 + 64, long.width, long.height))
    assert right_half.getextrema() == ((255, 255),) * 3, "nothing under the picture that has no label"
    assert long.crop((0, 0, 4, long.height)).getextrema() == ((255, 255),) * 3, "nothing is cut off at the left"
    wide = contact_sheet([("extraordinarily", scene)] * 2, size=16)
    assert wide.width > 2 * 20 + 4, "cells widen where a word does not fit"
