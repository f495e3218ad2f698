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
        "captions-tfidf",
        "TF-IDF and random retrieval among captions without gender words; needs no model.",
        "GenSynth (Smith et al., arXiv 2305.15407), Table 1",
    ),
):
    SUITES.add(
        _name,
        f"equipoise.audit.suites.{_name.replace('-', '_')}:SUITE",
        summary=_summary,
        citation=_citation,
        licence="Apache-2.0",
    )
