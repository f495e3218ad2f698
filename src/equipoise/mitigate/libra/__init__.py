"""LIBRA: biased captions made from text alone, and a reviser that learns to turn them back (Hirota et al., CVPR 2023).

:func:`synthesise` makes pairs of a caption and a biased version of it; :func:`fit_reviser` trains a debiasing caption
generator on them and their pictures; :func:`revise_all` applies one to the captions of any captioner.
"""

from equipoise.mitigate.libra.applying import CaptionRow, Revised, apply_into, revise_all
from equipoise.mitigate.libra.learning import fit_reviser, pairs_in
from equipoise.mitigate.libra.pairs import MIXES, CaptionPair, SynthesisSettings, mixed
from equipoise.mitigate.libra.synthesis import Synthesis, synthesise, synthesise_into

__all__ = [
    "MIXES",
    "CaptionPair",
    "CaptionRow",
    "Revised",
    "Synthesis",
    "SynthesisSettings",
    "apply_into",
    "fit_reviser",
    "mixed",
    "pairs_in",
    "revise_all",
    "synthesise",
    "synthesise_into",
]
