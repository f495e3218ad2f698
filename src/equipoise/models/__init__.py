"""Adapters: one way to ask any encoder, captioner, generator or detector, by name.

``load("table:folder")`` gives precomputed embeddings. A model is loaded only when asked for, from safetensors; the
error for a name that cannot be had says what was tried and what to install or download.
"""

from equipoise.models.loading import SCHEMES, load
from equipoise.models.protocols import Encoder, Precomputed, Vectors

__all__ = ["SCHEMES", "Encoder", "Precomputed", "Vectors", "load"]
