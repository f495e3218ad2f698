"""The remedies, by name.

``strengths`` are the settings among which a tournament chooses, from mild to strong; ``variants`` stand in it as rows
of their own; ``check_with`` are the settings with which the conformance suite makes one.
"""

from __future__ import annotations

from equipoise.registry import Registry

REMEDIES = Registry("remedy")
"""A target is a class whose settings are keywords; see :class:`equipoise.mitigate.protocol.Remedy`."""

_SHARES = tuple({"share": share} for share in (0.25, 0.5, 0.75, 1.0))

REMEDIES.add(
    "projection",
    "equipoise.mitigate.projection:Projection",
    summary="Takes the directions in which groups differ out of embeddings.",
    citation="Chuang et al., Debiasing Vision-Language Models via Biased Prompts, arXiv 2302.00070",
    licence="Apache-2.0",
    variants=("differences", "prompts", "calibrated", "equalised"),
    strengths=_SHARES,
)
REMEDIES.add(
    "leace",
    "equipoise.mitigate.leace:Leace",
    summary="Erases all that a linear function can tell of the groups, with the smallest change.",
    citation="Belrose et al., LEACE: Perfect linear concept erasure in closed form, NeurIPS 2023, arXiv 2306.03819",
    licence="Apache-2.0",
    strengths=_SHARES,
)
REMEDIES.add(
    "inlp",
    "equipoise.mitigate.inlp:Inlp",
    summary="Takes out the direction of the best linear guess at the group, again and again.",
    citation="Ravfogel et al., Null It Out, ACL 2020, arXiv 2004.07667",
    licence="Apache-2.0",
    strengths=tuple({"rounds": rounds} for rounds in (1, 2, 4, 8)),
)
REMEDIES.add(
    "clip-clip",
    "equipoise.mitigate.clip_clip:ClipClip",
    summary="Drops the numbers of an embedding that tell most about the group.",
    citation="Wang et al., Are Gender-Neutral Queries Really Gender-Neutral?, EMNLP 2021, arXiv 2109.05433",
    licence="Apache-2.0",
    strengths=tuple({"m": m} for m in (0.05, 0.1, 0.2, 0.4)),
    check_with={"m": 8},
)
REMEDIES.add(
    "bend",
    "equipoise.mitigate.bend:Bend",
    summary="Moves each query to where reference images of all groups are equally near; nothing else is changed.",
    citation="Gerych et al., BendVLM: Test-Time Debiasing of Vision-Language Embeddings, NeurIPS 2024",
    licence="Apache-2.0",
    strengths=tuple({"nearest": nearest} for nearest in (400, 100, 25)),
)
REMEDIES.add(
    "residual",
    "equipoise.mitigate.residual:Residual",
    summary="Adds a learned vector to each image's, so that an adversary cannot tell its group.",
    citation="Seth et al., DeAR: Debiasing Vision-Language Models with Additive Residuals, CVPR 2023",
    licence="Apache-2.0",
    needs="models",
    strengths=tuple({"weight": weight} for weight in (0.01, 0.03, 0.1, 0.3)),
    check_with={"steps": 40},
)
REMEDIES.add(
    "neutraliser",
    "equipoise.mitigate.neutraliser:Neutraliser",
    summary="Adds a learned vector to each text's, unless the text names a group itself.",
    citation="Hirota et al., SANER: Annotation-free Societal Attribute Neutralizer for Debiasing CLIP, ICLR 2025",
    licence="Apache-2.0",
    needs="models",
    strengths=_SHARES,
    check_with={"steps": 40},
)
REMEDIES.add(
    "rerank",
    "equipoise.mitigate.rerank:Rerank",
    summary="Gives every prefix of a ranking its share of each group; vectors stay as they are.",
    citation="Geyik et al., Fairness-Aware Ranking in Search & Recommendation Systems, KDD 2019, arXiv 1905.01989",
    licence="Apache-2.0",
    variants=("det_greedy", "det_const_sort", "quota"),
    strengths=tuple({"share": share} for share in (0.5, 0.75, 1.0)),
)
