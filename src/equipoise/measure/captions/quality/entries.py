"""What the registry says of each metric of caption quality."""

from equipoise.measure.metric import MetricEntry

__all__ = ["CAPTION_QUALITY_ENTRIES"]

_HERE = "equipoise.measure.captions.quality"
_JAVA = "equipoise.audit.captions.java"


def _bleu(order: int, words: str, chance: str) -> MetricEntry:
    name = f"bleu_{order}"
    return MetricEntry(
        name,
        f"{_HERE}:{name}",
        f"Share of {words} that stand in a reference.",
        "Papineni 2002",
        "brevity penalty times the geometric mean of the clipped n-gram precisions of the summed counts",
        "[0, 1]",
        "higher is better",
        f"captions of other images: about {chance}",
        "More references give higher values; per-caption values do not average to it.",
    )


CAPTION_QUALITY_ENTRIES = (
    _bleu(1, "words", "0.31"),
    _bleu(2, "runs of up to two words", "0.13"),
    _bleu(3, "runs of up to three words", "0.05"),
    _bleu(4, "runs of up to four words", "0.03"),
    MetricEntry(
        "rouge_l",
        f"{_HERE}:rouge_l",
        "Longest common subsequence with a reference.",
        "Lin 2004",
        "mean F, beta 1.2, of the best precision and the best recall over references",
        "[0, 1]",
        "higher is better",
        "captions of other images: about 0.24",
        "Common function words alone give half of what a person reaches.",
    ),
    MetricEntry(
        "cider",
        f"{_HERE}:cider",
        "Agreement with the references in what is rare (CIDEr-D).",
        "Vedantam 2015",
        "10 mean over n of the clipped cosine of n-gram counts times log rarity, times a length penalty",
        "[0, 10]",
        "higher is better",
        "captions of other images: about 0.06",
        "Depends on which images are judged together; compare equal sets only.",
    ),
    MetricEntry(
        "meteor_approximate",
        f"{_HERE}:meteor_approximate",
        "An approximation of METEOR without Java.",
        "after Denkowski 2014",
        "(1 - 0.6 (chunks / matches)^0.2) F of matched words and stems, of the summed counts",
        "[0, 1]",
        "higher is better",
        "captions of other images: about 0.07",
        "Not METEOR: no synonyms, no paraphrases, and about 4% lower.",
    ),
    MetricEntry(
        "meteor",
        f"{_JAVA}:meteor",
        "METEOR 1.5, through Java.",
        "Denkowski 2014",
        "(1 - 0.6 (chunks / matches)^0.2) F of matched words, stems, synonyms and paraphrases",
        "[0, 1]",
        "higher is better",
        "none: depends on the references",
        "Its word lists are of one language and time.",
    ),
    MetricEntry(
        "spice",
        f"{_JAVA}:spice",
        "F of what caption and references state, through Java.",
        "Anderson 2016",
        "F of the tuples (object, attribute, relation) of the parsed captions",
        "[0, 1]",
        "higher is better",
        "none: depends on the references",
        "A parser's errors count as the caption's; ignores fluency.",
    ),
)
