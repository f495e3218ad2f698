import pytest

from equipoise.errors import InputError
from equipoise.world import catalogue, contact_sheet, preset, sample


def test_a_sheet_holds_all_pictures():
    tiles = [("", scene) for scene in sample(preset("fair"), 5)]
    assert contact_sheet(tiles, size=32, columns=4).size == (4 * 36 + 4, 2 * 36 + 4)
    assert contact_sheet(tiles, size=32, zoom=2, columns=8).size == (5 * 68 + 4, 68 + 4)
    with pytest.raises(InputError, match="at least one"):
        contact_sheet([])


def test_the_catalogue_can_be_drawn_for_every_preset():
    assert catalogue(preset("strong"), size=32, zoom=1).width > 400
