"""The remedies, by name."""

from equipoise.registry import Registry

__all__ = ["REMEDIES"]

REMEDIES = Registry("remedy")
"""A target is a class whose settings are keywords; see :class:`equipoise.mitigate.protocol.Remedy`."""

REMEDIES.add(
    "projection",
    "equipoise.mitigate.projection:Projection",
    summary="Takes the directions in which groups differ out of embeddings.",
    citation="Chuang et al., Debiasing Vision-Language Models via Biased Prompts, arXiv 2302.00070",
    licence="Apache-2.0",
)
