"""Faces (FairFace and the like): whose images look alike to a model, and who is "a person" to it?

On each axis: self-similarity of the groups, person preference over several templates with its sensitivity to their
wording, zero-shot accuracy of the group itself, and how well the group can be read off the vectors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.axes import all_axes
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.own_text import MOST_TEMPLATES, own_text_means, prompt_sensitivity
from equipoise.audit.subjects import pool_name
from equipoise.audit.suite import Suite
from equipoise.audit.wording import group_nouns, group_phrases, worded_by_rule
from equipoise.errors import InputError
from equipoise.measure.embedding import linear_probe, person_preference, self_similarity, zero_shot_accuracy
from equipoise.measure.group_means import GroupMeans, group_means
from equipoise.measure.groups import Groups
from equipoise.text.templates.persons import PersonPrompts, person_prompts, zero_shot_prompts

__all__ = ["SUITE"]

NAME = "faces"
PREFERENCES = ("own_label", "all_labels")
PROBE_IMAGES = 20_000
PROBE_SHUFFLES = 99
SHUFFLES = 999
_ARTICLE = re.compile(r"\b(a|an|the|a/an) \{\}", re.IGNORECASE)
Floats = NDArray[np.float64]


def _group_names(frame: pd.DataFrame, axis: str) -> list[str]:
    names = sorted(str(name) for name in frame[axis].dropna().unique())
    if len(names) < 2:
        raise InputError(f"suite {NAME!r} compares groups, but the axis {axis!r} shows {names[0] if names else 'none'}")
    return names


def _templates(config: AuditConfig) -> tuple[str, ...]:
    if len(config.prompts) > MOST_TEMPLATES:
        raise InputError(f"{len(config.prompts)} prompts: the suite {NAME!r} takes at most {MOST_TEMPLATES} templates")
    return tuple(p if _ARTICLE.search(p) else p.replace("{}", "a/an {}") for p in config.prompts)


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


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    if not evidence.has_vectors:
        findings.notes.append("no self-similarity and no probe: they need embeddings, not scores")
    for axis in all_axes(evidence.frame, config):
        groups = evidence.groups([axis], NAME)
        keys = {"axis": axis, "pool": pool_name(evidence.frame)}
        if groups.n_undefined:
            findings.notes.append(f"{axis}: {groups.n_undefined:,} images of undefined group left out")
        by_rule = worded_by_rule(axis, groups.names)
        if by_rule:
            said = ", ".join(f"{phrase!r}" for phrase in group_phrases(axis, by_rule).values())
            findings.notes.append(f"{axis}: prompts made by rule, look at them: {said}")
        if evidence.has_vectors:
            _self_similarity(findings, evidence, groups, config, keys)
        _preferences(findings, evidence, groups, config, keys)
        _zero_shot(findings, evidence, groups, config, keys)
        if evidence.has_vectors:
            _leakage(findings, evidence, groups, config, keys)
    return findings


def _sets(frame: pd.DataFrame) -> NDArray[Any] | None:
    """The counterfactual set of each image: labels are shuffled inside sets where every image has one."""
    if "set_id" in frame and frame["set_id"].notna().all() and frame["set_id"].duplicated().any():
        return frame["set_id"].to_numpy(dtype=object)
    return None


def _self_similarity(
    findings: Findings, evidence: Evidence, groups: Groups, config: AuditConfig, keys: dict[str, Any]
) -> None:
    found = self_similarity(
        np.asarray(evidence.image_vectors(NAME)),
        groups,
        clusters=_sets(evidence.frame),
        permutations=min(config.draws, SHUFFLES),
        seed=config.seed,
        level=config.level,
    )
    for metric, by_group in (
        ("self_similarity", found.by_group),
        ("self_similarity_normalised", found.normalised),
    ):
        for group, estimate in by_group.items():
            findings.add(estimate, metric=metric, variant="group_mean", group=group, **keys)
    if found.gap is not None:
        findings.add(found.gap, metric="self_similarity_gap", variant="group_mean", **keys)
    findings.notes += [f"{keys['axis']}: {note}" for note in found.notes]
    findings.notes += [f"{keys['axis']}: {reason} ({count} images)" for reason, count in found.dropped.items()]


def _image_scores(evidence: Evidence, prompts: Sequence[Sequence[str]]) -> Floats:
    """(N, C) the score of every image with each class of prompts, up to a constant for each image.

    Taken as a point, with one direction for each class, an image lies closest to the class with the highest score:
    vectors and scores computed elsewhere can thus go through the same definitions. The constant keeps it off zero.
    """
    out = np.empty((len(evidence.frame), len(prompts)))
    for rows, scores in evidence.image_blocks(prompts, "embed_mean_unit"):
        out[rows] = scores
    return np.asarray(out - out.min(axis=1, keepdims=True) + 1.0)


def _preferences(
    findings: Findings, evidence: Evidence, groups: Groups, config: AuditConfig, keys: dict[str, Any]
) -> None:
    templates = _preference_prompts(evidence.frame, keys["axis"], config)
    won: dict[str, list[Floats]] = {variant: [] for variant in PREFERENCES}
    beaten = np.zeros((len(evidence.frame), groups.n_groups))
    for prompts in templates:
        texts = [prompts.neutral, *(prompts.groups[name] for name in groups.names)]
        scores = _image_scores(evidence, [(text,) for text in texts])
        axes = np.eye(len(texts))
        beaten += (scores[:, :1] > scores[:, 1:]) / len(templates)
        for variant in PREFERENCES:
            found = person_preference(
                scores, axes[0], axes[1:], groups, variant=variant, permutations=2, seed=config.seed, level=config.level
            )
            won[variant].append(found.values)
            for group, estimate in found.by_group.items():
                findings.add(
                    estimate, metric="person_preference", variant=variant, group=group, subject=prompts.neutral, **keys
                )
    for variant, outcomes in won.items():
        _pooled_preference(findings, np.stack(outcomes, axis=1), templates, variant, evidence, groups, config, keys)
    _against_everyone(findings, beaten, evidence, groups, config, "person_preference", keys)


def _against_everyone(
    findings: Findings,
    worth: Floats,
    evidence: Evidence,
    groups: Groups,
    config: AuditConfig,
    metric: str,
    keys: dict[str, Any],
) -> None:
    """The same shares with what the texts alone would give as chance."""
    found = own_text_means(
        worth,
        groups,
        clusters=_sets(evidence.frame),
        permutations=min(config.draws, SHUFFLES),
        seed=config.seed,
        level=config.level,
    )
    note = "chance: the same texts over everybody's images"
    _add_groups(findings, found, metric, "texts_kept", note, keys)


def _pooled_preference(
    findings: Findings,
    outcomes: Floats,
    templates: Sequence[PersonPrompts],
    variant: str,
    evidence: Evidence,
    groups: Groups,
    config: AuditConfig,
    keys: dict[str, Any],
) -> None:
    """Mean over templates by group with the gap, and how far the wording alone moves each group's share."""
    sets = _sets(evidence.frame)
    found = group_means(
        outcomes.mean(axis=1),
        groups,
        clusters=sets,
        shuffle_within=sets,
        share=True,
        null_value=0.5 if variant == "own_label" else 1 / (groups.n_groups + 1),
        permutations=min(config.draws, SHUFFLES),
        seed=config.seed,
        level=config.level,
    )
    note = f"mean of {len(templates)} templates"
    _add_groups(findings, found, "person_preference", variant, note, keys)
    _add_values(findings, found, evidence, groups, "person_preference", variant, keys)
    if len(templates) > 1:
        for label, group in enumerate(groups.names):
            inside = outcomes[groups.labels == label]
            spread = prompt_sensitivity(inside, [p.neutral for p in templates], seed=config.seed, level=config.level)
            findings.add(spread, metric="prompt_sensitivity", variant=variant, group=group, **keys)


def _add_groups(
    findings: Findings, found: GroupMeans, metric: str, variant: str, note: str, keys: dict[str, Any]
) -> None:
    for group, estimate in found.by_group.items():
        findings.add(estimate.with_notes(note), metric=metric, variant=variant, group=group, **keys)
    findings.add(found.gap.with_notes(note), metric=f"{metric}_gap", variant=variant, **keys)


def _add_values(
    findings: Findings,
    found: GroupMeans,
    evidence: Evidence,
    groups: Groups,
    metric: str,
    variant: str,
    keys: dict[str, Any],
) -> None:
    """Every image's value, so that two models can be compared image by image."""
    for label, group in enumerate(groups.names):
        inside = np.flatnonzero(groups.labels == label)
        ids = evidence.frame["image_id"].iloc[inside].tolist()
        findings.add_queries(found.values[inside], ids, metric=metric, variant=variant, group=group, **keys)


def _zero_shot(
    findings: Findings, evidence: Evidence, groups: Groups, config: AuditConfig, keys: dict[str, Any]
) -> None:
    prompts = _class_prompts(evidence.frame, keys["axis"], config)
    scores = _image_scores(evidence, prompts)
    inside = np.flatnonzero(groups.defined)
    sets = _sets(evidence.frame)
    part = groups.take(inside)
    found = zero_shot_accuracy(
        scores[inside],
        np.eye(len(prompts)),
        part.labels.astype(np.int64),
        part,
        clusters=None if sets is None else sets[inside],
        permutations=min(config.draws, SHUFFLES),
        seed=config.seed,
        level=config.level,
    )
    findings.add(found.overall, metric="zero_shot_accuracy", variant="equipoise", **keys)
    note = f"mean vector of {len(prompts[0])} templates a group"
    _add_groups(findings, found.groups, "zero_shot_accuracy", "equipoise", note, keys)
    for label, group in enumerate(part.names):
        here = part.labels == label
        ids = evidence.frame["image_id"].iloc[inside[here]].tolist()
        findings.add_queries(
            found.groups.values[here], ids, metric="zero_shot_accuracy", variant="equipoise", group=group, **keys
        )
    best = scores == scores.max(axis=1, keepdims=True)
    _against_everyone(
        findings, best / best.sum(axis=1, keepdims=True), evidence, groups, config, "zero_shot_accuracy", keys
    )


def _leakage(findings: Findings, evidence: Evidence, groups: Groups, config: AuditConfig, keys: dict[str, Any]) -> None:
    rows = np.flatnonzero(groups.defined)
    if len(rows) > PROBE_IMAGES:
        rows = np.sort(np.random.default_rng(config.seed).choice(rows, PROBE_IMAGES, replace=False))
        findings.notes.append(f"{keys['axis']}: the probe saw {PROBE_IMAGES:,} images, drawn at random")
    sets = _sets(evidence.frame)
    try:
        found = linear_probe(
            np.asarray(evidence.image_vectors(NAME)[rows]),
            groups.take(rows),
            method="ridge",
            clusters=None if sets is None else sets[rows],
            shuffle_within=None if sets is None else sets[rows],
            permutations=min(config.draws, PROBE_SHUFFLES),
            seed=config.seed,
            level=config.level,
        )
    except InputError as error:  # groups too small to be held out leave the other metrics standing
        findings.notes.append(f"{keys['axis']}: no probe: {error}")
        return
    findings.add(found.auc, metric="leakage_auc", variant="ridge", **keys)
    findings.add(found.balanced_accuracy, metric="leakage_balanced_accuracy", variant="ridge", **keys)


SUITE = Suite(
    name=NAME,
    question="Whose images look alike to the model, whom does it take for a person, and whom does it recognise?",
    citation="Wolfe and Caliskan (2022); Would Deep Generative Models Amplify Bias in Future Models?, Eq. 3-5",
    columns=("image_id",),
    texts=_texts,
    measure=_measure,
    axes=all_axes,
)
