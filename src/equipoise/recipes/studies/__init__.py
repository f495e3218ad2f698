"""The papers as studies: each one a readable module of steps, tables and figures, in one registry."""

from equipoise.registry import Registry

__all__ = ["STUDIES"]

STUDIES = Registry("recipe")
for _name, _summary, _citation in (
    (
        "gensynth",
        "Is a model biased, or are the pictures? Natural, balanced and edited pools.",
        "GenSynth (Smith et al., arXiv 2305.15407)",
    ),
    (
        "lic",
        "How much captioning models amplify what human captions give away.",
        "LIC (Hirota et al., CVPR 2022)",
    ),
    (
        "libra",
        "Captions before and after a model that learnt to take the bias out of them.",
        "LIBRA (Hirota et al., CVPR 2023)",
    ),
    (
        "inpainting",
        "Classifiers and captioners trained on photographs in which everybody was drawn as every group.",
        "Resampled Datasets Are Not Enough (Hirota et al., EMNLP 2024)",
    ),
    (
        "socialcounterfactuals",
        "Whom a model retrieves, by intersections of groups, before and after filters.",
        "SocialCounterfactuals (Howard et al., CVPR 2024)",
    ),
    (
        "gabinsight",
        "Does a model know who does what, or does it guess by stereotype?",
        "GABInsight (Abdollahi et al., arXiv 2407.21001)",
    ),
    (
        "contamination",
        "What generated images do to the models that learn from them, and to the next generation.",
        "Would Deep Generative Models Amplify Bias in Future Models? (Chen et al., CVPR 2024)",
    ),
):
    _own = _name in ("libra", "inpainting", "contamination")  # studies in a package of their own
    _home = f"equipoise.recipes.{_name}.study" if _own else f"equipoise.recipes.studies.{_name}"
    STUDIES.add(
        _name,
        f"{_home}:STUDY",
        summary=_summary,
        citation=_citation,
        licence="Apache-2.0",
    )
