"""Who does what in a picture (GABInsight): the public door to every binding metric of this package.

Image-to-text accuracy by scenario with presence drop and binding drop, text-to-image choices over all pairs or
sampled ones, preference of neutral captions, bias of the text encoder alone, recognition of the activity.
"""

from equipoise.measure.binding.pairs import (
    SampledPairs,
    neutral_preference,
    rounded_choice,
    sampled_pairs,
    text_to_image,
)
from equipoise.measure.binding.scenes import SCENARIOS, ByActivity, ImageToText, Scenes, image_to_text, over_activities
from equipoise.measure.binding.text import (
    Recognition,
    TextEncoderBias,
    activity_recognition,
    reciprocal_rank_chance,
    text_encoder_bias,
)

__all__ = [
    "SCENARIOS",
    "ByActivity",
    "ImageToText",
    "Recognition",
    "SampledPairs",
    "Scenes",
    "TextEncoderBias",
    "activity_recognition",
    "image_to_text",
    "neutral_preference",
    "over_activities",
    "reciprocal_rank_chance",
    "rounded_choice",
    "sampled_pairs",
    "text_encoder_bias",
    "text_to_image",
]
