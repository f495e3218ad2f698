"""Metrics whose functions live in packages that may not import this one, or that need Java: named by their place."""

from __future__ import annotations

from equipoise.measure.metric import declare

declare(
    "activity_bias",
    "equipoise.text.activities:activity_bias",
    takes="captions",
    summary="Which verb-object pairs a caption corpus ties to a group.",
    citation="GABInsight, section 4.1",
    formula="ln((c_first + s) / (c_second + s))",
    range="(-inf, inf)",
    direction="0 excess: as the corpus",
    chance="ln(N_first / N_second)",
    when_it_lies="Rare pairs have wild ratios; rules assign a verb to the nearest person.",
)
declare(
    "meteor",
    "equipoise.audit.captions.java:meteor",
    takes="captions",
    title="METEOR",
    summary="METEOR 1.5, through Java.",
    citation="Denkowski 2014",
    formula="(1 - 0.6 (chunks / matches)^0.2) F of matched words, stems, synonyms and paraphrases",
    bounds=(0.0, 1.0),
    better="higher",
    chance="none: depends on the references",
    when_it_lies="Its word lists are of one language and time.",
    unit="share",
)
declare(
    "spice",
    "equipoise.audit.captions.java:spice",
    takes="captions",
    title="SPICE",
    summary="F of what caption and references state, through Java.",
    citation="Anderson 2016",
    formula="F of the tuples (object, attribute, relation) of the parsed captions",
    bounds=(0.0, 1.0),
    better="higher",
    chance="none: depends on the references",
    when_it_lies="A parser's errors count as the caption's; ignores fluency.",
    unit="share",
)
declare(
    "sentiment",
    "equipoise.text.english.sentiment:sentiment",
    takes="captions",
    summary="How kindly a caption speaks.",
    citation="Equipoise",
    formula="(kind - unkind words) / (kind + unkind words), 0 where there are none; turned round after a negation",
    bounds=(-1.0, 1.0),
    direction="the gap between groups is the bias",
    chance="none: a score; its gap between groups has one (score_gap)",
    when_it_lies="A screen of a few hundred words: it knows neither irony nor context.",
)
