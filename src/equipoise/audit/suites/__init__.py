"""The suites, by name."""

from equipoise.registry import Registry

__all__ = ["SUITES"]

SUITES = Registry("suite")
for _name, _summary, _citation in (
    (
        "intersectional",
        "Neutral prompts over counterfactual sets, by group and by intersection.",
        "SocialCounterfactuals (Howard et al., CVPR 2024)",
    ),
    (
        "prompts",
        "Your own prompts, each a query of its own over all images: traits, crimes, jobs over faces.",
        "Berg et al. (AACL 2022); CLIP (Radford et al., ICML 2021), section 7.1",
    ),
    (
        "marginal",
        "Neutral prompts over counterfactual sets, one axis given another.",
        "SocialCounterfactuals (Howard et al., CVPR 2024)",
    ),
    (
        "contrast",
        "Neutral captions over natural, balanced and edited images.",
        "GenSynth (Smith et al., arXiv 2305.15407)",
    ),
    (
        "natural",
        "Every caption asks for the images of its pool: Bias@K, MaxSkew@K and recall, natural and balanced.",
        "GenSynth (Smith et al., arXiv 2305.15407), Table 1",
    ),
    (
        "recall-gap",
        "Recall of images by their own captions, by group, with the gap.",
        "PHASE (Garcia et al., CVPR 2023)",
    ),
    (
        "visogender",
        "Pronoun resolution and retrieval for people at work.",
        "VisoGender (Hall et al., NeurIPS 2023)",
    ),
    (
        "pata",
        "Captions that flatter and insult, over people in scenes.",
        "DeAR (Seth et al., CVPR 2023)",
    ),
    (
        "utility",
        "Zero-shot accuracy and retrieval both ways: what a remedy costs.",
        "CLIP (Radford et al., ICML 2021)",
    ),
    (
        "captions-tfidf",
        "TF-IDF and random retrieval among captions without gender words; needs no model.",
        "GenSynth (Smith et al., arXiv 2305.15407), Table 1",
    ),
    (
        "binding",
        "Who does what: captions with performer and bystander exchanged, by expected and unexpected performer.",
        "GABInsight (Abdollahi et al., arXiv 2407.21001)",
    ),
    (
        "faces",
        "Self-similarity, person preference, zero-shot accuracy and leakage by group, on faces.",
        "Wolfe and Caliskan (2022); Would Deep Generative Models Amplify Bias in Future Models?",
    ),
):
    SUITES.add(
        _name,
        f"equipoise.audit.suites.{_name.replace('-', '_')}:SUITE",
        summary=_summary,
        citation=_citation,
        licence="Apache-2.0",
    )
