"""The pictogram world: pictures of signs in which every correlation was put in on purpose, and is known exactly.

It renders scenes with one or two pictogram people, with captions, masks and labels, from a :class:`WorldConfig` that
says who is how common and what leans towards whom; :func:`truth` gives the log-odds that follow. These are signs, not
people, and they say nothing about anyone.
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use
from equipoise.world.captions import captions, neutral_prompt, prompts, vocabulary
from equipoise.world.config import PRESETS, WorldConfig, load, preset
from equipoise.world.placebos import PLACEBOS
from equipoise.world.render import Truth, body_parts, render, render_batch, render_image, what_is_where
from equipoise.world.sample import SceneArrays, draw, sample
from equipoise.world.scene import Person, Placed, Scene
from equipoise.world.sets import (
    BindingScene,
    CounterfactualSet,
    ResolutionScene,
    binding_sets,
    counterfactual_sets,
    resolution_sets,
)
from equipoise.world.truth import truth

if TYPE_CHECKING:
    from equipoise.world.sheets import catalogue, contact_sheet, set_sheet
    from equipoise.world.tables import (
        row_of,
        scene_of,
        truth_of,
        write_binding_table,
        write_counterfactual_table,
        write_pata_table,
        write_table,
        write_visogender_table,
    )

__all__ = [
    "PLACEBOS",
    "PRESETS",
    "BindingScene",
    "CounterfactualSet",
    "Person",
    "Placed",
    "ResolutionScene",
    "Scene",
    "SceneArrays",
    "Truth",
    "WorldConfig",
    "binding_sets",
    "body_parts",
    "captions",
    "catalogue",
    "contact_sheet",
    "counterfactual_sets",
    "draw",
    "load",
    "neutral_prompt",
    "preset",
    "prompts",
    "render",
    "render_batch",
    "render_image",
    "resolution_sets",
    "row_of",
    "sample",
    "scene_of",
    "set_sheet",
    "truth",
    "truth_of",
    "vocabulary",
    "what_is_where",
    "write_binding_table",
    "write_counterfactual_table",
    "write_pata_table",
    "write_table",
    "write_visogender_table",
]

_HOMES = {
    **dict.fromkeys(("catalogue", "contact_sheet", "set_sheet"), "sheets"),
    **dict.fromkeys(
        (
            "row_of",
            "scene_of",
            "truth_of",
            "write_binding_table",
            "write_counterfactual_table",
            "write_pata_table",
            "write_table",
            "write_visogender_table",
        ),
        "tables",
    ),
}


# Imported on first use: drawing pictures needs no Arrow.
__getattr__ = on_first_use(__name__, _HOMES)
