"""Images: counterfactual sets, person edits, inpainting, masking, face swap, substitution and scenes.

Each module turns captions or a table into a :class:`~equipoise.generate.plans.WorkPlan` (``plan_sets``, ``plan_edits``,
...), and :func:`run` carries a plan out as a resumable job over tables; :func:`estimate` says beforehand how many
images it makes, how long that takes and how much disk space it needs.
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use

if TYPE_CHECKING:
    from equipoise.generate.edits import EditsConfig, plan_edits
    from equipoise.generate.inpaint import InpaintConfig, plan_inpaint
    from equipoise.generate.jobs import Cost, estimate, run
    from equipoise.generate.mask import MaskConfig, plan_mask
    from equipoise.generate.parts import PartsConfig, plan_parts
    from equipoise.generate.perturb import PerturbConfig, plan_perturb
    from equipoise.generate.plans import WorkPlan
    from equipoise.generate.scenes import ScenesConfig, plan_scenes, plan_world_scenes
    from equipoise.generate.sets import SET_PRESETS, SetsConfig, plan_sets, world_sets
    from equipoise.generate.substitute import SubstituteConfig, contaminated, plan_substitute
    from equipoise.generate.swap import SwapConfig, plan_swap
    from equipoise.generate.tools import contact_sheet
    from equipoise.generate.verify import EditCheck, Recognised, check_pool, recognised, verify_edits

__all__ = [
    "SET_PRESETS",
    "Cost",
    "EditCheck",
    "EditsConfig",
    "InpaintConfig",
    "MaskConfig",
    "PartsConfig",
    "PerturbConfig",
    "Recognised",
    "ScenesConfig",
    "SetsConfig",
    "SubstituteConfig",
    "SwapConfig",
    "WorkPlan",
    "check_pool",
    "contact_sheet",
    "contaminated",
    "estimate",
    "plan_edits",
    "plan_inpaint",
    "plan_mask",
    "plan_parts",
    "plan_perturb",
    "plan_scenes",
    "plan_sets",
    "plan_substitute",
    "plan_swap",
    "plan_world_scenes",
    "recognised",
    "run",
    "verify_edits",
    "world_sets",
]

_NAMES = {
    "edits": ("EditsConfig", "plan_edits"),
    "inpaint": ("InpaintConfig", "plan_inpaint"),
    "jobs": ("Cost", "estimate", "run"),
    "mask": ("MaskConfig", "plan_mask"),
    "parts": ("PartsConfig", "plan_parts"),
    "perturb": ("PerturbConfig", "plan_perturb"),
    "plans": ("WorkPlan",),
    "scenes": ("ScenesConfig", "plan_scenes", "plan_world_scenes"),
    "sets": ("SET_PRESETS", "SetsConfig", "plan_sets", "world_sets"),
    "substitute": ("SubstituteConfig", "contaminated", "plan_substitute"),
    "swap": ("SwapConfig", "plan_swap"),
    "tools": ("contact_sheet",),
    "verify": ("EditCheck", "Recognised", "check_pool", "recognised", "verify_edits"),
}
"""The public names of each module."""


# Imported on first use, as in the other packages: pyarrow must not slow down `equipoise --help`.
__getattr__ = on_first_use(__name__, {name: home for home, names in _NAMES.items() for name in names})


def __dir__() -> list[str]:
    return sorted(__all__)
