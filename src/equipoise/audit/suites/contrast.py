"""GenSynth: is a model biased, or are the pictures? Natural, balanced and edited pools under the same queries.

An edited image shows another perceived gender in the same scene, so in the edited pool nothing but the person differs.
Pools: the edits' own source images (``natural``), those with both groups as frequent (``balanced``, over seeds), and
the edits (``edited``). Queries: every caption of every image of the pool, gender words made neutral. Metrics: Bias@K at
K = 1, 5, 10 and MaxSkew@K at K = 25, 100.

A source image without a label is dropped before anything is ranked, and so are its edits: what the source's captions
leave open, no edit can flip. A caption of a source is asked once for each of its edits. Labels are shuffled inside the
edits of one source to see what chance gives; natural images of one set, such as a person's, keep together. The rows of
the ``random ranking``, which no model gave, say what a blind ranking of the same pool gives, exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import hypergeom

from equipoise.array_types import Mask
from equipoise.audit.asking import one_axis, pair_of
from equipoise.audit.captions import Captions, captions_of, distinct, known_captions
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings, Key
from equipoise.audit.subjects import SetStructure, names_of_sets, set_structure, sets_or_images
from equipoise.audit.suite import Suite
from equipoise.audit.suites._retrieval import add_retrieval, add_values, drawn_together, metrics_of, seeded_estimate
from equipoise.data.results import RANDOM_RANKING
from equipoise.data.sampling import balance
from equipoise.errors import InputError
from equipoise.measure import METRICS
from equipoise.measure.notes import of_sources
from equipoise.measure.retrieval import Candidates, Groups, chance, evaluate, max_skew_law
from equipoise.measure.retrieval.summary import possible_range
from equipoise.measure.sides import of_pair
from equipoise.measure.stats import Estimate
from equipoise.pace import stages, steps
from equipoise.text import Lexicon

NAME = "contrast"
BIAS_K, SKEW_K = (1, 5, 10), (25, 100)


@dataclass(frozen=True)
class Pools:
    """Which images are natural, which edited, and what was left out."""

    natural: Mask
    edited: Mask
    notes: tuple[str, ...]


def pools_of(frame: pd.DataFrame, axis: str) -> Pools:
    """The source images and the edits, without the images whose source has no label.

    >>> frame = pd.DataFrame({"image_id": ["s", "t", "e"], "source_id": [None, None, "s"], "gender": ["f", "m", "m"]})
    >>> pools = pools_of(frame, "gender")
    >>> pools.natural.tolist(), pools.edited.tolist(), pools.notes
    ([True, False, False], [False, False, True], ('1 natural images are the source of no edit and were left out',))
    """
    source, ids = frame["source_id"], frame["image_id"]
    edit = (source.notna() & (source != ids)).to_numpy()
    if not edit.any():
        raise InputError(
            f"suite {NAME!r}: no row is an edit (the source_id of an edit names the image it came from); make some and "
            "join them: equipoise generate edits PHOTOS EDITS, and equipoise table join PHOTOS EDITS -o BOTH"
        )
    defined = frame[axis].notna().to_numpy()
    real = ~edit & ids.isin(set(source[edit & defined])).to_numpy()
    if not real.any():
        raise InputError(
            f"suite {NAME!r}: none of the edits' source images is in the table (for example {source[edit].iloc[0]!r}); "
            "add them: the edits are compared with their own sources"
        )
    natural = real & defined
    if not natural.any():
        raise InputError(
            f"suite {NAME!r}: none of the {int(real.sum()):,} images that were edited has a label on {axis}; join or "
            "audit with the layer that has it, such as --layer words (equipoise table label PHOTOS --name words "
            "makes one from captions)"
        )
    edited = edit & defined & source.isin(set(ids[natural])).to_numpy()
    counts = {
        "natural images are the source of no edit and were left out": int((~edit & ~real).sum()),
        "source images have no group and were left out": int((real & ~defined).sum()),
        "edits were left out with their source, or have no group": int((edit & ~edited).sum()),
    }
    return Pools(natural, edited, tuple(f"{count:,} {what}" for what, count in counts.items() if count))


def _queries(frame: pd.DataFrame, config: AuditConfig) -> Captions:
    """The captions of every image, for an edit those of its source, made neutral.

    An edit's own caption may be the instruction that made it ("Turn this person into a woman"), which describes no
    picture; it serves only where the source has none.
    """
    ids, known = frame["image_id"].tolist(), known_captions(frame)
    of = dict(zip(ids, known, strict=True))
    known = [of.get(source) or own for own, source in zip(known, frame["source_id"], strict=True)]
    if config.lexicon != "none":
        words = Lexicon.load(config.lexicon)
        known = [distinct(words.neutralise_all(some)) for some in known]
    return captions_of(ids, known, NAME)


def expected_bias(first: int, second: int, total: int, k: int) -> float:
    """Bias@K of a blind ranking: the difference of the two shares, or 0 when neither group is among the K.

    >>> expected_bias(3, 1, 4, 2), round(expected_bias(3, 1, 8, 1), 2)
    (0.5, 0.25)
    """
    both = first + second
    if both == 0:
        return 0.0
    neither = float(hypergeom.pmf(0, total, both, min(k, total)))
    return (first - second) / both * (1 - neither)


def _texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    pools_of(frame, one_axis(frame, config)[0])
    return distinct(_queries(frame, config).texts)


def _measure(evidence: Evidence, config: AuditConfig) -> Findings:
    findings = Findings(NAME, evidence.model)
    frame = evidence.frame
    axis = one_axis(frame, config)[0]
    pools = pools_of(frame, axis)
    for note in pools.notes:
        findings.note(note)
    groups = evidence.groups([axis], NAME)
    asked = _Asked(evidence, _queries(frame, config), groups, config, axis, pools.natural)
    if asked.pair is None:
        findings.note(f"no Bias@K: {axis} has {groups.n_groups} groups; name two with pair")
    if config.lexicon != "none" and Lexicon.load(config.lexicon).axis != axis:
        findings.note(f"the captions were made neutral on {Lexicon.load(config.lexicon).axis}, not on {axis}")
    for pool in stages(["natural", *(["balanced"] if config.seeds else []), "edited"]):
        if pool == "natural":
            asked.add(findings, pool, pools.natural, asked.natural_sets)
        elif pool == "edited":
            asked.add(findings, pool, pools.edited, SetStructure(np.asarray(pd.factorize(frame["source_id"])[0])))
        else:
            natural = np.flatnonzero(pools.natural)
            chosen = [balance(frame.iloc[natural], axis, method="gensynth", seed=s).positions for s in config.seeds]
            asked.add_balanced(findings, [np.isin(np.arange(len(frame)), natural[some]) for some in chosen])
    return findings


@dataclass(frozen=True)
class _Asked:
    evidence: Evidence
    captions: Captions
    groups: Groups
    config: AuditConfig
    axis: str
    natural: Mask

    @property
    def pair(self) -> tuple[str, str] | None:
        return pair_of(self.groups, self.config)

    @property
    def measures(self) -> list[tuple[str, int]]:
        config = self.config
        measures = [("bias_at_k", k) for k in config.k or BIAS_K] if self.pair is not None else []
        return measures + [("max_skew", k) for k in config.k or SKEW_K]

    def pool(self, inside: Mask) -> dict[str, Any]:
        """The queries of a pool, as the retrieval metrics take them."""
        at = self.captions.of_images(inside)
        if not len(at):
            raise InputError(f"suite {NAME!r}: the images of a pool have no caption")
        return {
            "source": self.evidence.source([self.captions.texts[i] for i in at]),
            "queries": [self.captions.names[i] for i in at],
            "tie_order": self.evidence.tie_order(self.config.seed),
            "clusters": self._origin[self.captions.image[at]],
            "candidates": Candidates(np.where(inside, 0, -1), np.zeros(len(at), dtype=np.int64)),
        }

    @cached_property
    def _origin(self) -> NDArray[Any]:
        """The source of every image, or its source's set: edits of one source, and their captions, belong together."""
        frame = self.evidence.frame
        sources = frame["source_id"].where(frame["source_id"].notna(), frame["image_id"])
        natural = frame[self.natural]
        set_of = dict(zip(natural["image_id"], names_of_sets(natural), strict=True))
        return np.array([set_of.get(source, source) for source in sources], dtype=str)

    @cached_property
    def natural_sets(self) -> SetStructure:
        """The sets of the natural images, such as one person's; none where no two of them share one."""
        frame = self.evidence.frame
        if sets_or_images(frame[self.natural]) is None:
            return SetStructure()
        return replace(set_structure(frame, self.config, [self.axis], self.natural), links=None)

    def add(self, findings: Findings, pool: str, inside: Mask, structure: SetStructure) -> None:
        part = self.pool(inside)
        for metric, k in stages(self.measures):
            add_retrieval(
                findings,
                groups=self.groups,
                config=self.config,
                k=k,
                axis=self.axis,
                pool=pool,
                structure=structure,
                metrics=[metric],
                pair=self.pair,
                subjects=False,
                **part,
            )
        self._add_random(findings, pool, inside, part["clusters"])

    def add_balanced(self, findings: Findings, chosen: list[Mask]) -> None:
        parts = [self.pool(inside) for inside in chosen]
        keys = {"pool": "balanced", "axis": self.axis}
        for variant in self.config.variants:
            for metric, k in stages(self.measures):
                if not metrics_of(variant, [metric], self.pair):
                    continue
                values, draws, shuffles = [], [], []
                for seed, part in zip(self.config.seeds, steps(parts), strict=True):
                    retrieved = evaluate(
                        part["source"],
                        self.groups,
                        k=k,
                        variant=variant,
                        metrics=[metric],
                        pair=self.pair,
                        candidates=part["candidates"],
                        tie_order=part["tie_order"],
                    )
                    if retrieved.all_equal.all():
                        break
                    values.append(float(retrieved.values[metric][~retrieved.all_equal].mean()))
                    moves = self.natural_sets.options()
                    null = chance(retrieved, draws=self.config.draws, seed=self.config.seed, **moves)
                    draws.append(null.suite[metric])
                    shuffles.append(null.shuffle)
                    # by seed: a caption of many pools must not count more in a comparison than it does here
                    names = [f"{seed}: {name}" for name in part["queries"]]
                    add_values(findings, retrieved, null, names, part["clusters"], **keys)
                if len(values) < len(parts):
                    findings.note(f"balanced, K = {k}: {metric} left out, the model gives all images the same score")
                    continue
                if max(np.ptp(some) for some in draws) <= 0:
                    findings.note(f"balanced, K = {k}: {metric} left out, no pool has more than K images of two groups")
                    continue
                estimate = seeded_estimate(
                    values,
                    draws,
                    self.config,
                    alternative=METRICS.find(metric).alternative,
                    n=len(parts[0]["queries"]),
                    n_groups=self.groups.n_groups,
                    possible=possible_range(retrieved, metric),
                )
                noted = estimate.with_notes(*of_sources(parts[0]["clusters"]))
                findings.add(noted, metric=metric, variant=variant, k=k, **of_pair(metric, self.pair), **keys)
                if all(shuffles):
                    together: dict[str, Key] = {"n": len(parts[0]["queries"]), "shuffle": " ".join(shuffles)}
                    drawn = drawn_together(draws)
                    findings.add_draws(drawn, metric=metric, variant=variant, k=k, **together, **keys)
        self._add_random(findings, "balanced", chosen[0], parts[0]["clusters"])

    def _add_random(self, findings: Findings, pool: str, inside: Mask, clusters: NDArray[Any]) -> None:
        """What a blind ranking of the pool gives, exactly; ``clusters`` (Q,): the source of each query."""
        counts = self.groups.take(inside).counts()
        for metric, k in self.measures:
            if metric == "max_skew":
                law = max_skew_law(counts, k)
                value, sd = law.mean, law.sd
            else:
                assert self.pair is not None
                first, second = (int(counts[self.groups.index(name)]) for name in self.pair)
                value, sd = expected_bias(first, second, int(counts.sum()), k), None
            estimate = Estimate(
                value,
                null_mean=value,
                null_sd=sd,
                n=len(clusters),
                n_groups=self.groups.n_groups,
                notes=("exact expectation of a blind ranking; its sd is that of one query", *of_sources(clusters)),
            )
            findings.add(
                estimate, model=RANDOM_RANKING, metric=metric, variant="equipoise", pool=pool, axis=self.axis, k=k
            )


SUITE = Suite(
    name=NAME,
    question="Does the model favour a group in natural pictures, in balanced ones, and where only the person differs?",
    citation="GenSynth (Smith et al., arXiv 2305.15407)",
    columns=("image_id", "source_id"),
    texts=_texts,
    measure=_measure,
    axes=one_axis,
    reads=("captions",),
    own_k="as in GenSynth",
    defaults=AuditConfig(draws=200),
    settings=("axes", "k", "variants", "pair", "lexicon", "seeds", "draws", "seed", "level"),
)
