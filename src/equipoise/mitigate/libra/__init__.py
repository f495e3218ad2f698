"""LIBRA's biased captions: pairs of a caption and a biased version of it, made from text alone.

Hirota, Nakashima and Garcia (CVPR 2023) take bias out of captions by a model that learns to turn a biased caption back
into the original. This package makes what such a model learns from; the model itself (the debiasing caption generator)
is not part of Equipoise yet.
"""

from equipoise.mitigate.libra.mixes import MIXES, mixed
from equipoise.mitigate.libra.pairs import CaptionPair
from equipoise.mitigate.libra.running import synthesise_into
from equipoise.mitigate.libra.settings import SynthesisSettings
from equipoise.mitigate.libra.synthesis import Synthesis, synthesise

__all__ = ["MIXES", "CaptionPair", "Synthesis", "SynthesisSettings", "mixed", "synthesise", "synthesise_into"]
