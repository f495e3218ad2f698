"""The filters, by name."""

from equipoise.registry import Registry

__all__ = ["FILTERS"]

FILTERS = Registry("filter")
"""A target is a dataclass whose fields are the settings; see :class:`equipoise.filters.protocol.Filter`."""

for _name, _target, _summary, _citation in (
    (
        "similarity",
        "similarity:Similarity",
        "Do image and caption fit, and do the images of a set resemble each other?",
        "SocialCounterfactuals (Howard et al., CVPR 2024); InstructPix2Pix (Brooks et al., CVPR 2023)",
    ),
    (
        "knn",
        "knn:Neighbourhood",
        "Do edited people lie among real ones, and among those of their group?",
        "GenSynth (Smith et al., arXiv 2305.15407), Section 4.2",
    ),
    (
        "safety",
        "safety:Safety",
        "Does a classifier call an image unsafe, or did a safety checker blacken it?",
        "SocialCounterfactuals (Howard et al., CVPR 2024), Section 8.2",
    ),
    (
        "detectability",
        "detectability:Detectability",
        "Can the groups, and the subject, be seen in enough images of a set?",
        "SocialCounterfactuals (Howard et al., CVPR 2024), Section 8.3",
    ),
    (
        "fidelity",
        "fidelity:Fidelity",
        "Which of several edits of an image is best: prompt, objects, colours?",
        "Hirota et al., Resampled Datasets Are Not Enough (EMNLP 2024)",
    ),
    (
        "people",
        "people:People",
        "How many people are there, are they what the image shows, can a face be seen?",
        "GABInsight (Abdollahi et al., arXiv 2407.21001)",
    ),
    (
        "sharpness",
        "sharpness:Sharpness",
        "Are faces, or people, sharp?",
        "Pech-Pacheco et al., variance of the Laplacian (ICPR 2000)",
    ),
    (
        "duplicates",
        "duplicates:Duplicates",
        "Is the image nearly the same as one that is there already?",
        "Equipoise",
    ),
    (
        "quality",
        "quality:Quality",
        "How real and how varied is what is left, for each group? It drops nothing.",
        "GABInsight (Abdollahi et al., arXiv 2407.21001); FID (Heusel et al., NeurIPS 2017)",
    ),
):
    FILTERS.add(_name, f"equipoise.filters.{_target}", summary=_summary, citation=_citation, licence="Apache-2.0")
