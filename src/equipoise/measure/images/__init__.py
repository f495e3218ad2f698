"""Quality of generated images and of captions: the public door to every quality metric of this package.

Distances between sets (Fréchet, MMD, KID, CMMD), fidelity and variety (precision, recall, density, coverage, Vendi
and Inception Score), pairs of images (SSIM, perceptual distance), images and texts (CLIPScore, adherence).
"""

from equipoise.measure.images.clip_score import (
    PromptAdherence,
    clip_score,
    directional_similarity,
    prompt_adherence,
    ref_clip_score,
)
from equipoise.measure.images.frechet import Moments, frechet_distance, frechet_from_moments
from equipoise.measure.images.kernel import (
    Kernel,
    cmmd,
    gaussian_kernel,
    kernel_distance,
    kid,
    polynomial_kernel,
)
from equipoise.measure.images.manifold import (
    Manifold,
    expected_coverage,
    inception_score,
    manifold_scores,
    vendi_score,
)
from equipoise.measure.images.pairs import disjoint_pairs, perceptual_distance, ssim
from equipoise.measure.stats.shares import ItemScores

__all__ = [
    "ItemScores",
    "Kernel",
    "Manifold",
    "Moments",
    "PromptAdherence",
    "clip_score",
    "cmmd",
    "directional_similarity",
    "disjoint_pairs",
    "expected_coverage",
    "frechet_distance",
    "frechet_from_moments",
    "gaussian_kernel",
    "inception_score",
    "kernel_distance",
    "kid",
    "manifold_scores",
    "perceptual_distance",
    "polynomial_kernel",
    "prompt_adherence",
    "ref_clip_score",
    "ssim",
    "vendi_score",
]
