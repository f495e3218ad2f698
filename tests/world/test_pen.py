import numpy as np
import pytest

from equipoise.world.pen import Canvas, box, colour, edge_of, mixed, oval


def alpha(sprite):
    return np.asarray(sprite.image)[..., 3] / 255


@pytest.mark.parametrize("size", [16, 64, 200])
def test_a_disc_has_its_area_at_every_size(size):
    sprite = Canvas().dot(0, 0, 0.3, "#ff0000", edge="").sprite(size)
    assert alpha(sprite).sum() / size**2 == pytest.approx(np.pi * 0.09, rel=0.04)


def test_edges_are_smooth_and_keep_their_colour():
    pixels = np.asarray(Canvas().dot(0, 0, 0.3, "#c08040", edge="").sprite(64).image).reshape(-1, 4).astype(int)
    half = pixels[(pixels[:, 3] > 100) & (pixels[:, 3] < 160)]
    assert len(half) > 5
    assert np.abs(half[:, :3] - [192, 128, 64]).max() <= 2


def test_mirror_scale_and_turn():
    drawing = Canvas().rect(0.1, -0.2, 0.4, 0.1, "#00ff00", edge="")
    sprite, mirrored = drawing.sprite(64), drawing.sprite(64).mirrored()
    assert mirrored.left == -sprite.left - sprite.image.width
    assert drawing.mirrored().shapes[0].points[:, 0].min() == pytest.approx(-0.4)
    assert np.ptp(drawing.scaled(2).shapes[0].points[:, 0]) == pytest.approx(0.6)
    assert drawing.turned(90).shapes[0].points[0].tolist() == pytest.approx([0.2, 0.1])


def test_a_clip_cuts():
    cut = box(0, 0, 0.25, 0.5)
    sprite = Canvas().rect(0, 0, 0.5, 0.5, "#0000ff", edge="", clip=cut).sprite(64, (0, 0, 0.5, 0.5))
    assert alpha(sprite)[:, 18:].max() == 0
    assert alpha(sprite)[:, :15].min() == 1


def test_outlines_stand_out_from_dark_and_light():
    assert sum(colour(edge_of("#292420"))) > sum(colour("#292420")) + 100
    assert sum(colour(edge_of("#f6ede4"))) < sum(colour("#f6ede4")) - 200
    assert mixed("#000000", "#ffffff", 0.0) == "#000000"


def test_an_oval_is_one():
    points = oval(0.5, 0.2, 0.3, 0.1)
    assert ((points[:, 0] - 0.5) / 0.3) ** 2 + ((points[:, 1] - 0.2) / 0.1) ** 2 == pytest.approx(np.ones(37))
    assert Canvas().sprite(64).image.size == (1, 1)
