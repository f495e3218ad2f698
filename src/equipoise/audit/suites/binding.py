"""GABInsight: does the model know who does what, or does it guess by stereotype?

Image to text: the image's caption against the one with the groups exchanged, by scenario. Text to image: the caption
of each performer over pairs of images. Neutral captions, the text encoder alone, and recognition of the activity say
where a wrong answer comes from. See :mod:`equipoise.audit.suites._scenarios` for what a table must say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import pool_name
from equipoise.audit.suite import Suite
from equipoise.audit.suites._scenarios import Contrast, binding_axis, contrasts
from equipoise.measure import binding
from equipoise.measure.arrays import unit_vectors
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate
from equipoise.pace import stages
from equipoise.text.templates.binding import BindingCaption, activity_choices, binding_captions

NAME = "binding"
RECALL_AT = (1, 3)
PAIR_REPEATS = 100


@dataclass(frozen=True)
class _Asked:
    """The captions of one activity, by what they are for."""

    expected: dict[str, str]
    """Of the expected performer, by template: "one" or "two"."""
    unexpected: dict[str, str]
    neutral: str
    choices: dict[str, tuple[str, ...]]
    """For each scenario the true activity's caption, then those of near activities."""

    def texts(self) -> list[str]:
        """Every text once."""
        some = [*self.expected.values(), *self.unexpected.values(), self.neutral]
        return list(dict.fromkeys([*some, *(text for texts in self.choices.values() for text in texts)]))


def _asked(contrast: Contrast, activity: str) -> _Asked:
    of, nouns = contrast.activities[activity], contrast.nouns
    captions: dict[tuple[str, str], BindingCaption] = {
        (caption.group, caption.people): caption for caption in binding_captions(of, words=nouns)
    }
    choices = {}
    for scenario in binding.SCENARIOS:
        caption = captions[scenario, "one" if scenario.endswith("1") else "two"]
        beside = nouns[caption.other] if scenario.endswith("2") else ""
        choices[scenario] = activity_choices(of, performer=nouns[caption.performer], other=beside)
    return _Asked(
        expected={people: captions["E2", people].text for people in ("one", "two")},
        unexpected={people: captions["U2", people].text for people in ("one", "two")},
        neutral=captions["E1", "one"].neutral,
        choices=choices,
    )


def _texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    wanted: dict[str, None] = {}
    for contrast in contrasts(frame, config):
        for activity in contrast.activities:
            wanted.update(dict.fromkeys(_asked(contrast, activity).texts()))
    return list(wanted)


@dataclass(frozen=True)
class _Scored:
    """(n,) scores of each image with the captions of its own activity; (n, m) with near activities."""

    expected: dict[str, Floats]
    unexpected: dict[str, Floats]
    neutral: Floats
    own_activity: Floats
    near: Floats
    near_exists: NDArray[np.bool_]

    def own(self, people: str, is_expected: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Scores with the image's true caption and with the one that exchanges the groups."""
        first, second = self.expected[people], self.unexpected[people]
        return np.where(is_expected, first, second), np.where(is_expected, second, first)


def _scored(evidence: Evidence, contrast: Contrast) -> _Scored:
    n = len(contrast.rows)
    widest = max(len(of.near) for of in contrast.activities.values())
    plain = {name: {people: np.empty(n) for people in ("one", "two")} for name in ("expected", "unexpected")}
    scored = _Scored(
        plain["expected"],
        plain["unexpected"],
        np.empty(n),
        np.empty(n),
        np.zeros((n, max(1, widest))),
        np.zeros((n, max(1, widest)), dtype=bool),
    )
    for activity in contrast.activities:
        asked = _asked(contrast, activity)
        here = np.flatnonzero(contrast.scenes.activity == activity)
        texts = asked.texts()
        place = {text: i for i, text in enumerate(texts)}
        scores = _scores_of(evidence, texts, contrast.rows[here])
        for people in ("one", "two"):
            scored.expected[people][here] = scores[place[asked.expected[people]]]
            scored.unexpected[people][here] = scores[place[asked.unexpected[people]]]
        scored.neutral[here] = scores[place[asked.neutral]]
        for scenario, choices in asked.choices.items():
            inside = contrast.scenes.scenario[here] == scenario
            ranked = scores[[place[text] for text in choices]][:, inside]
            scored.own_activity[here[inside]] = ranked[0]
            scored.near[here[inside], : len(choices) - 1] = ranked[1:].T
            scored.near_exists[here[inside], : len(choices) - 1] = True
    return scored


def _scores_of(evidence: Evidence, texts: Sequence[str], rows: NDArray[np.intp]) -> Floats:
    """(m, len(rows)) in double precision, so that captions with the same words are a tie and not a rounding error."""
    if not evidence.has_vectors:
        return np.asarray(evidence.scores(texts, rows), dtype=np.float64)
    vectors = unit_vectors(evidence.text_vectors(texts, NAME), "texts").astype(np.float64)
    return np.asarray(vectors @ evidence.image_vectors(NAME)[rows].astype(np.float64).T)


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    contrast_scenes = contrasts(evidence.frame, config)
    for contrast in stages(contrast_scenes):
        scored = _scored(evidence, contrast)
        pair = "" if len(contrast_scenes) == 1 else f" ({contrast.groups[0]}, {contrast.groups[1]})"
        to = _Rows(findings, contrast.scenes, {"axis": contrast.axis + pair, "pool": pool_name(evidence.frame)})
        for measure in stages([_image_to_text, _text_to_image, _recognition]):
            measure(to, contrast, scored, config)
        _text_encoder(to, contrast, evidence, config)
        counts = {name: int((contrast.scenes.scenario == name).sum()) for name in binding.SCENARIOS}
        said = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        findings.notes.append(f"{len(contrast.rows):,} images of {len(contrast.activities)} activities: {said}")
        findings.notes += [f"{count:,} images left out ({reason})" for reason, count in contrast.dropped.items()]
    return findings


@dataclass(frozen=True)
class _Rows:
    """Where rows go: one per activity, one per category, one over all."""

    findings: Findings
    scenes: binding.Scenes
    keys: dict[str, str]

    def add(self, by_activity: binding.ByActivity, **keys: Any) -> None:
        """Everything of one metric, and the activities' values for paired comparison."""
        self.findings.add(by_activity.overall, **self.keys, **keys)
        self.add_categories(by_activity.by_category, **keys)
        for activity, estimate in by_activity.by_activity.items():
            self.findings.add(estimate, subject=activity, **self.keys, **keys)
        names = list(by_activity.by_activity)
        values = [by_activity.by_activity[name].value for name in names]
        self.findings.add_queries(values, names, **self.keys, **keys)

    def add_categories(self, by_category: Any, **keys: Any) -> None:
        """A row for each category of activities, when there are several."""
        for category, estimate in by_category.items():
            if category != "all" and len(self.scenes.categories) > 1:
                self.findings.add(estimate, subject=f"category: {category}", **self.keys, **keys)


def _image_to_text(to: _Rows, contrast: Contrast, scored: _Scored, config: AuditConfig) -> None:
    scenes = contrast.scenes
    is_expected = np.char.startswith(scenes.scenario, "E")
    correct: dict[str, Floats] = {}
    for people in ("one", "two"):
        true, exchanged = scored.own(people, is_expected)
        choice = binding.image_to_text(scenes, true, exchanged, level=config.level, seed=config.seed)
        correct[people] = choice.correct
        for scenario, by_activity in choice.accuracy.items():
            if (people, scenario) != ("two", "E1"):  # nobody else is there and nobody unexpected acts
                to.add(by_activity, metric="binding_accuracy", variant=f"{people}_person", group=scenario)
        for name, drop in (("presence_drop", choice.presence_drop), ("binding_drop", choice.binding_drop)):
            if drop is not None:
                to.add(drop, metric=name, variant=f"{people}_person")
    _matching_drop(to, contrast, correct, config)


def _matching_drop(to: _Rows, contrast: Contrast, correct: dict[str, Floats], config: AuditConfig) -> None:
    """The presence drop with every image asked in the template that has as many people as it shows."""
    own = np.where(np.char.endswith(contrast.scenes.scenario, "1"), correct["one"], correct["two"])
    # an answer that is right is a margin of 1, a wrong one of -1: the same accuracies, of both templates together
    choice = binding.image_to_text(contrast.scenes, own, 1 - own, level=config.level, seed=config.seed)
    if choice.presence_drop is not None:
        to.add(choice.presence_drop, metric="presence_drop", variant="matching")


def _text_to_image(to: _Rows, contrast: Contrast, scored: _Scored, config: AuditConfig) -> None:
    scenes = contrast.scenes
    for people, template in ((1, "one"), (2, "two")):
        first, second = f"E{people}", f"U{people}"
        if not any(len(scenes.where(a, first)) and len(scenes.where(a, second)) for a in scenes.activities):
            to.findings.notes.append(f"no text-to-image choice of {first} and {second}: no activity has images of both")
            continue
        asked = {
            "expected": scored.expected[template],
            "unexpected": scored.unexpected[template],
            "neutral": scored.neutral,
        }
        for caption, scores in asked.items():
            metric = "neutral_preference" if caption == "neutral" else "text_to_image"
            group = f"{second} over {first}" if caption == "unexpected" else f"{first} over {second}"
            how: dict[str, Any] = {"caption": caption, "people": people, "level": config.level, "seed": config.seed}
            exact = binding.text_to_image(scenes, scores, **how)
            to.add(exact, metric=metric, variant="all_pairs", group=group)
            seeded = binding.sampled_pairs(scenes, scores, repeats=PAIR_REPEATS, **how)
            _add_pairs(to, seeded, metric=metric, variant="seeded", group=group)
            # the released code: pairs as the images come, a softmax of raw cosines rounded to three decimals
            man = next((name for name, noun in contrast.nouns.items() if noun == "man"), None)
            how |= {"pairing": "in_order", "variant": "round3", "tie_goes_to": man}
            coded = binding.sampled_pairs(scenes, scores, **how)
            _add_pairs(to, coded, metric=metric, variant="gab_code", group=group)


def _add_pairs(to: _Rows, pairs: binding.SampledPairs, **keys: Any) -> None:
    """Overall and by category: one pairing of an activity's images says little of the activity."""
    spread = pairs.repeats["all"]
    note = f"{pairs.n_pairs} pairs"
    if len(spread) > 1:
        note += f", {len(spread)} pairings; the pairing alone moves it by sd {spread.std(ddof=1):.3f}"
    to.findings.add(pairs.mean.overall.with_notes(note), **to.keys, **keys)
    to.add_categories(pairs.mean.by_category, **keys)


def _recognition(to: _Rows, contrast: Contrast, scored: _Scored, config: AuditConfig) -> None:
    if not scored.near_exists.any(axis=1).all():
        to.findings.notes.append("no activity recognition: an activity has no other to be told from (column 'near')")
        return
    # the paper's columns: one person (E1 and U1 together), two people (E2 and U2 together)
    first = np.where(np.char.endswith(contrast.scenes.scenario, "1"), "E1", "E2")
    columns = {"E1": "one person", "E2": "two people"}
    for scenes, groups in ((contrast.scenes, {}), (replace(contrast.scenes, scenario=first), columns)):
        recognition = binding.activity_recognition(
            scenes,
            scored.own_activity,
            scored.near,
            scored.near_exists,
            ks=RECALL_AT,
            level=config.level,
            seed=config.seed,
        )
        for scenario, metrics in recognition.by_scenario.items():
            for name, by_activity in metrics.items():
                metric, _, k = name.partition("@")
                keys: dict[str, Any] = {"k": int(k)} if k else {}
                group = groups.get(scenario, scenario)
                to.add(by_activity, metric=f"activity_{metric}", variant="equipoise", group=group, **keys)


def _text_encoder(to: _Rows, contrast: Contrast, evidence: Evidence, config: AuditConfig) -> None:
    if not evidence.has_vectors:
        to.findings.notes.append("no text-encoder bias: it needs embeddings of the texts, not scores")
        return
    names = list(contrast.activities)
    asked = [_asked(contrast, name) for name in names]
    groups = ([a.neutral for a in asked], [a.expected["one"] for a in asked], [a.unexpected["one"] for a in asked])
    neutral, expected, unexpected = (
        unit_vectors(evidence.text_vectors(texts, NAME), "texts").astype(np.float64) for texts in groups
    )
    cosines = (neutral * expected).sum(axis=1), (neutral * unexpected).sum(axis=1)
    categories = [contrast.scenes.category_of[name] for name in names]
    for variant, shown in {"raw": "equipoise", "round3": "gab_code"}.items():
        bias = binding.text_encoder_bias(*cosines, categories, variant=variant, level=config.level, seed=config.seed)
        note = f"{bias.n_ties} ties" if bias.n_ties else ""
        to.findings.add(bias.by_category["all"].with_notes(note), metric="text_encoder_bias", variant=shown, **to.keys)
        to.add_categories(bias.by_category, metric="text_encoder_bias", variant=shown)
        if variant == "raw":
            keys: dict[str, Any] = {"metric": "text_encoder_margin", "variant": shown, **to.keys}
            to.findings.add(bias.margin, **keys)
            for name, margin in zip(names, bias.margins, strict=True):
                estimate = Estimate(float(margin), null_mean=0.0, n=1, notes=(no_interval("one pair of sentences"),))
                to.findings.add(estimate, subject=name, **keys)
            to.findings.add_queries(bias.margins, names, **keys)


SUITE = Suite(
    name=NAME,
    question="Does the model know who does what, or does it take the expected group for the performer?",
    citation="GABInsight (Abdollahi et al., arXiv 2407.21001)",
    columns=("image_id",),
    texts=_texts,
    measure=_measure,
    axes=lambda frame, config: (binding_axis(frame, config),),
    settings=("axes", "pair", "seed", "level"),
)
