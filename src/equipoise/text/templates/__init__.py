"""Captions, instructions and prompts that say the same thing of different groups of people.

:func:`caption_sets` makes counterfactual caption sets from any axes; :func:`caption_preset` gives those of
SocialCounterfactuals and our own. The other functions give edit instructions (:func:`edit_instructions`), binding
captions (:func:`binding_captions`), prompts about a person (:func:`person_prompts`) and inpainting prompts
(:func:`inpainting_prompt`). The words are data, in ``equipoise/text/presets``, each file with its source and harms.
"""

from equipoise.text.english.articles import agreed, article, with_article
from equipoise.text.templates.binding import (
    BINDING_GROUPS,
    Activity,
    BindingCaption,
    activities,
    activity,
    activity_choices,
    binding_captions,
)
from equipoise.text.templates.captions import (
    BARE,
    PREFIXES,
    SUBJECT,
    Axis,
    Caption,
    CaptionPlan,
    CaptionSet,
    caption_sets,
)
from equipoise.text.templates.edits import EditInstruction, edit_groups, edit_instructions, edit_templates
from equipoise.text.templates.files import CaptionFile, shipped
from equipoise.text.templates.inpainting import InpaintingPrompt, Swapper, inpainting_prompt, inpainting_prompts
from equipoise.text.templates.persons import (
    PersonPrompts,
    detectability_prompts,
    person_axes,
    person_prompts,
    person_span,
    zero_shot_prompts,
)
from equipoise.text.templates.presets import (
    CAPTION_PRESETS,
    CaptionPreset,
    Occupation,
    caption_preset,
    captions_from_file,
    occupations,
)
from equipoise.text.templates.wording import Wording, read_wording, shipped_wording

__all__ = [
    "BARE",
    "BINDING_GROUPS",
    "CAPTION_PRESETS",
    "PREFIXES",
    "SUBJECT",
    "Activity",
    "Axis",
    "BindingCaption",
    "Caption",
    "CaptionFile",
    "CaptionPlan",
    "CaptionPreset",
    "CaptionSet",
    "EditInstruction",
    "InpaintingPrompt",
    "Occupation",
    "PersonPrompts",
    "Swapper",
    "Wording",
    "activities",
    "activity",
    "activity_choices",
    "agreed",
    "article",
    "binding_captions",
    "caption_preset",
    "caption_sets",
    "captions_from_file",
    "detectability_prompts",
    "edit_groups",
    "edit_instructions",
    "edit_templates",
    "inpainting_prompt",
    "inpainting_prompts",
    "occupations",
    "person_axes",
    "person_prompts",
    "person_span",
    "read_wording",
    "shipped",
    "shipped_wording",
    "with_article",
    "zero_shot_prompts",
]
