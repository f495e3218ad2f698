"""Faces (FairFace and the like): whose images look alike to a model, and who is "a person" to it?

On each axis: self-similarity of the groups, person preference over several templates with its sensitivity to their
wording, zero-shot accuracy of the group itself, and how well the group can be read off the vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.array_types import Floats
from equipoise.audit.asking import all_axes
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.subjects import names_of_sets, pool_name, sets_or_images, shuffled_cells
from equipoise.audit.suite import Suite
from equipoise.audit.suites._probes import MOST_TEMPLATES, own_text_means, prompt_sensitivity
from equipoise.errors import InputError
from equipoise.formatting import plural
from equipoise.measure.embedding import linear_probe, person_preference, self_similarity, zero_shot_accuracy
from equipoise.measure.groups import Groups
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import MOSTLY
from equipoise.measure.stats.group_means import GroupMeans, group_means
from equipoise.pace import stages
from equipoise.text.templates.persons import (
    PersonPrompts,
    group_nouns,
    group_phrases,
    person_prompts,
    worded_by_rule,
    zero_shot_prompts,
)

NAME = "faces"
PREFERENCES = ("own_label", "all_labels")
PROBE_IMAGES = 20_000
PROBE_SHUFFLES = 99
SHUFFLES = 999
TEXTS_KEPT = "chance: the same texts over everybody's images"


def _group_names(frame: pd.DataFrame, axis: str) -> list[str]:
    names = sorted(str(name) for name in frame[axis].dropna().unique())
    if len(names) < 2:
        raise InputError(f"suite {NAME!r} compares groups, but the axis {axis!r} shows {names[0] if names else 'none'}")
    return names


def _templates(config: AuditConfig) -> tuple[str, ...]:
    if len(config.prompts) > MOST_TEMPLATES:
        raise InputError(f"{len(config.prompts)} prompts: the suite {NAME!r} takes at most {MOST_TEMPLATES} templates")
    return config.prompts


def _preference_prompts(frame: pd.DataFrame, axis: str, config: AuditConfig) -> tuple[PersonPrompts, ...]:
    phrases = group_phrases(axis, _group_names(frame, axis))
    return person_prompts(axis, phrases=phrases, templates=_templates(config))


def _class_prompts(frame: pd.DataFrame, axis: str, config: AuditConfig) -> list[tuple[str, ...]]:
    nouns = group_nouns(axis, _group_names(frame, axis))
    return list(zero_shot_prompts(axis, phrases=nouns, templates=_templates(config)).values())


def _texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    wanted: dict[str, None] = {}
    for axis in all_axes(frame, config):
        for prompts in _preference_prompts(frame, axis, config):
            wanted.update(dict.fromkeys([prompts.neutral, *prompts.groups.values()]))
        wanted.update(dict.fromkeys(text for texts in _class_prompts(frame, axis, config) for text in texts))
    return list(wanted)


@dataclass(frozen=True)
class _Axis:
    """One axis of one audit: what is measured, and where the numbers go."""

    findings: Findings
    evidence: Evidence
    config: AuditConfig
    axis: str
    groups: Groups
    sets: NDArray[Any] | None
    """The counterfactual set of each image (itself, without one), or the sets that show the same people: what intervals
    and folds keep whole; ``None`` where no two images share a set."""
    clusters: NDArray[Any] | None
    """The same by name."""
    shuffled_in: NDArray[Any] | None
    """Set and levels of the other axes, where the axis varies inside the set: labels are shuffled inside these.
    Elsewhere whole sets exchange their labels (:func:`equipoise.audit.subjects.shuffled_cells`)."""

    @classmethod
    def of(cls, findings: Findings, evidence: Evidence, config: AuditConfig, axis: str) -> _Axis:
        """The axis of this name, with notes on what is left out and how it is worded."""
        groups, frame = evidence.groups([axis], NAME), evidence.frame
        if groups.n_undefined:
            findings.note(f"{axis}: {groups.n_undefined:,} images of undefined group left out")
        by_rule = worded_by_rule(axis, groups.names)
        if by_rule:
            said = ", ".join(f"{phrase!r}" for phrase in group_phrases(axis, by_rule).values())
            findings.note(
                f"{axis}: prompts made by rule, look at them: {said}; where they read badly, rename the groups in the "
                "table's source and import it again"
            )
        sets = clusters = shuffled_in = None
        if (codes := sets_or_images(frame)) is not None:
            sets, clusters = codes, names_of_sets(frame)
            shuffled_in = shuffled_cells(frame, codes, axis)
            n_sets, several = len(np.unique(codes)), int((frame.groupby(codes)[axis].nunique() > 1).sum())
            if several <= MOSTLY * n_sets:
                few = f"the group varies inside {several} of {n_sets:,} sets; the others exchange it"
                none = "the group does not vary inside the sets, so whole sets exchange it"
                findings.note(f"{axis}: {few if several else none}")
            if alone := int(frame["set_id"].isna().sum()):
                findings.note(f"{plural(alone, 'image')} of no set counted as a set each")
            if "link" in frame and frame["link"].notna().any():
                findings.note(
                    f"{axis}: sets of one link show the same people; intervals keep them together, p-values do not"
                )
                clusters = np.where(frame["link"].isna(), "set " + clusters, frame["link"])
                sets = pd.factorize(clusters)[0]
        return cls(findings, evidence, config, axis, groups, sets, clusters, shuffled_in)

    def add(self, estimate: Estimate, metric: str, variant: str, **keys: Any) -> None:
        """One number."""
        pool = pool_name(self.evidence.frame)
        self.findings.add(estimate, metric=metric, variant=variant, axis=self.axis, pool=pool, **keys)

    def add_groups(self, means: GroupMeans, metric: str, variant: str, note: str) -> None:
        """A number for each group, and the gap."""
        for group, estimate in means.by_group.items():
            self.add(estimate.with_notes(note), metric, variant, group=group)
        self.add(means.gap.with_notes(note), f"{metric}_gap", variant)

    def add_values(self, values: Floats, metric: str, variant: str) -> None:
        """Every image's value, so that two models can be compared image by image."""
        pool = pool_name(self.evidence.frame)
        for label, group in enumerate(self.groups.names):
            inside = np.flatnonzero(self.groups.labels == label)
            ids = self.evidence.frame["image_id"].iloc[inside].tolist()
            keys = {"metric": metric, "variant": variant, "group": group, "axis": self.axis, "pool": pool}
            cluster = None if self.clusters is None else self.clusters[inside]
            self.findings.add_queries(values[inside], ids, cluster=cluster, **keys)

    def options(self, rows: NDArray[np.intp] | None = None, most: int = SHUFFLES) -> dict[str, Any]:
        """What every measure of all images, or of some ``rows``, is told."""
        structure = {"clusters": self.sets, "shuffle_within": self.shuffled_in}
        if rows is not None:
            structure = {name: None if codes is None else codes[rows] for name, codes in structure.items()}
        config = self.config
        return {**structure, "permutations": min(config.draws, most), "seed": config.seed, "level": config.level}


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    if not evidence.has_vectors:
        findings.note("no self-similarity and no probe: they need embeddings, not scores")
    measures = [_preferences, _zero_shot]
    measures = [_self_similarity, *measures, _leakage] if evidence.has_vectors else measures
    for name in stages(all_axes(evidence.frame, config)):
        axis = _Axis.of(findings, evidence, config, name)
        for measure in stages(measures):
            measure(axis)
    return findings


def _self_similarity(on: _Axis) -> None:
    vectors = np.asarray(on.evidence.image_vectors(NAME))
    similarity = self_similarity(vectors, on.groups, **on.options())
    for metric, by_group in (
        ("self_similarity", similarity.by_group),
        ("self_similarity_normalised", similarity.normalised),
    ):
        for group, estimate in by_group.items():
            on.add(estimate, metric, "group_mean", group=group)
    if similarity.gap is not None:
        on.add(similarity.gap, "self_similarity_gap", "group_mean")
    for note in (*similarity.notes, *(f"{reason} ({count} images)" for reason, count in similarity.dropped.items())):
        on.findings.note(f"{on.axis}: {note}")


def _image_scores(evidence: Evidence, prompts: Sequence[Sequence[str]]) -> Floats:
    """(N, C) the score of every image with each class of prompts, up to a constant for each image.

    Taken as a point, with one direction for each class, an image lies closest to the class with the highest score:
    vectors and scores computed elsewhere can thus go through the same definitions. The constant keeps it off zero.
    """
    out = np.empty((len(evidence.frame), len(prompts)))
    for rows, scores in evidence.image_blocks(prompts, "embed_mean_unit"):
        out[rows] = scores
    return np.asarray(out - out.min(axis=1, keepdims=True) + 1.0)


def _preferences(on: _Axis) -> None:
    templates = _preference_prompts(on.evidence.frame, on.axis, on.config)
    if len(templates) < 3:
        on.findings.note(f"{len(templates)} templates: ask in three wordings or more to know how much they matter")
    won: dict[str, list[Floats]] = {variant: [] for variant in PREFERENCES}
    beaten = np.zeros((len(on.groups), on.groups.n_groups))
    # the gap of a single template is not reported
    options: dict[str, Any] = {"clusters": on.sets, "permutations": 2, "seed": on.config.seed, "level": on.config.level}
    for prompts in templates:
        texts = [prompts.neutral, *(prompts.groups[name] for name in on.groups.names)]
        scores = _image_scores(on.evidence, [(text,) for text in texts])
        directions = np.eye(len(texts))
        beaten += (scores[:, :1] > scores[:, 1:]) / len(templates)
        for variant in PREFERENCES:
            means = person_preference(scores, directions[0], directions[1:], on.groups, variant=variant, **options)
            won[variant].append(means.values)
            for group, estimate in means.by_group.items():
                on.add(estimate, "person_preference", variant, group=group, subject=prompts.neutral)
    for variant, outcomes in won.items():
        _pooled_preference(on, np.stack(outcomes, axis=1), [p.neutral for p in templates], variant)
    on.add_groups(own_text_means(beaten, on.groups, **on.options()), "person_preference", "texts_kept", TEXTS_KEPT)


def _pooled_preference(on: _Axis, outcomes: Floats, names: Sequence[str], variant: str) -> None:
    """Mean over templates by group with the gap, and how far the wording alone moves each group's share."""
    chance = 0.5 if variant == "own_label" else 1 / (on.groups.n_groups + 1)
    means = group_means(outcomes.mean(axis=1), on.groups, share=True, null_value=chance, **on.options())
    on.add_groups(means, "person_preference", variant, f"mean of {len(names)} templates")
    on.add_values(means.values, "person_preference", variant)
    if len(names) > 1:
        for label, group in enumerate(on.groups.names):
            inside = outcomes[on.groups.labels == label]
            spread = prompt_sensitivity(inside, names, seed=on.config.seed, level=on.config.level)
            on.add(spread, "prompt_sensitivity", variant, group=group)


def _zero_shot(on: _Axis) -> None:
    prompts = _class_prompts(on.evidence.frame, on.axis, on.config)
    scores = _image_scores(on.evidence, prompts)
    inside = np.flatnonzero(on.groups.defined)
    part = on.groups.take(inside)
    accuracy = zero_shot_accuracy(
        scores[inside], np.eye(len(prompts)), part.labels.astype(np.int64), part, **on.options(inside)
    )
    on.add(accuracy.overall, "zero_shot_accuracy", "equipoise")
    on.add_groups(
        accuracy.groups, "zero_shot_accuracy", "equipoise", f"mean vector of {len(prompts[0])} templates per group"
    )
    values = np.zeros(len(on.groups))
    values[inside] = accuracy.groups.values
    on.add_values(values, "zero_shot_accuracy", "equipoise")
    best = scores == scores.max(axis=1, keepdims=True)
    worth = best / best.sum(axis=1, keepdims=True)
    on.add_groups(own_text_means(worth, on.groups, **on.options()), "zero_shot_accuracy", "texts_kept", TEXTS_KEPT)


def _leakage(on: _Axis) -> None:
    rows = np.flatnonzero(on.groups.defined)
    if len(rows) > PROBE_IMAGES:
        rows = np.sort(np.random.default_rng(on.config.seed).choice(rows, PROBE_IMAGES, replace=False))
        on.findings.note(f"{on.axis}: the probe saw {PROBE_IMAGES:,} images, drawn at random")
    try:
        vectors = np.asarray(on.evidence.image_vectors(NAME)[rows])
        probe = linear_probe(vectors, on.groups.take(rows), method="ridge", **on.options(rows, PROBE_SHUFFLES))
    except InputError as error:  # groups too small to be held out leave the other metrics standing
        on.findings.note(f"{on.axis}: no probe: {error}")
        return
    on.add(probe.auc, "leakage_auc", "ridge")
    on.add(probe.balanced_accuracy, "leakage_balanced_accuracy", "ridge")


SUITE = Suite(
    name=NAME,
    question="Whose images look alike to the model, whom does it take for a person, and whom does it recognise?",
    citation="Wolfe and Caliskan (2022); Would Deep Generative Models Amplify Bias in Future Models?, Eq. 3-5",
    columns=("image_id",),
    texts=_texts,
    measure=_measure,
    axes=all_axes,
    settings=("axes", "prompts", "draws", "seed", "level"),
)
