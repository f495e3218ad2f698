"""The pictogram world: pictures of signs in which every correlation was put in on purpose, and is known exactly.

It renders scenes with one or two pictogram people, with captions, masks and labels, from a :class:`WorldConfig` that
says who is how common and what leans towards whom; :func:`truth` gives the log-odds that follow. These are signs, not
people, and they say nothing about anyone.
"""

from equipoise.world.captions import captions, neutral_prompt, vocabulary
from equipoise.world.config import PRESETS, WorldConfig, load, preset
from equipoise.world.render import Truth, render, render_batch, render_image, what_is_where
from equipoise.world.sample import Scenes, draw, sample
from equipoise.world.scene import Person, Placed, Scene
from equipoise.world.truth import truth

__all__ = [
    "PRESETS",
    "Person",
    "Placed",
    "Scene",
    "Scenes",
    "Truth",
    "WorldConfig",
    "captions",
    "draw",
    "load",
    "neutral_prompt",
    "preset",
    "render",
    "render_batch",
    "render_image",
    "sample",
    "truth",
    "vocabulary",
    "what_is_where",
]
