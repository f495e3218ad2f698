"""The analyses of a dataset on one axis; each adds its numbers to the findings and gives back a table to read.

One correction for everything that is asked about a dataset as a whole, and how large a lean must be to matter.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from equipoise.audit.captions.reading import items_of
from equipoise.audit.dataset.source import Dataset
from equipoise.audit.findings import Findings
from equipoise.audit.suites._probes import CaptionProbe, ImageProbes, caption_probe, image_probes, neutral_texts
from equipoise.data.settings import Settings
from equipoise.errors import InputError
from equipoise.measure.dataset import (
    Clusters,
    GroupCounts,
    Leaning,
    caption_clusters,
    cooccurrence,
    group_counts,
    presence_of,
)
from equipoise.measure.groups import Groups, intersect
from equipoise.measure.notes import add_notes, no_interval, note
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.permutation import holm
from equipoise.report.verdict.outcomes import margin_of


@dataclass
class QuestionFamily:
    """Everything that is asked about the dataset as a whole: are the shares even, and does content lean?

    Of each axis (and of their intersection) the smallest p-value of its shares that holds for all its groups, and of
    each kind of content its distance; Holm over all of them.
    """

    shares: dict[str, Mapping[str, float]] = field(default_factory=dict)
    """By axis and group."""

    def note_in(self, rows: list[dict[str, Any]]) -> None:
        """Note in each row its p-value corrected for all of them, and whether its size matters.

        >>> row = {"metric": "group_share", "axis": "sex", "group": "f", "p_value": 0.01, "excess": 0.2, "n_groups": 2}
        >>> rows = [row | {"notes": ""}]
        >>> QuestionFamily({"sex": {"f": 0.01, "m": 0.01}}).note_in(rows)
        >>> rows[0]["notes"]
        'Holm p 0.01 over 1 questions about the dataset; beyond the margin of 0.05'
        """
        contents = [row for row in rows if str(row["metric"]).endswith("_distance") and row["p_value"] is not None]
        axes = list(self.shares)
        place = {id(row): len(axes) + number for number, row in enumerate(contents)}
        asked = [min(self.shares[axis].values()) for axis in axes] + [float(row["p_value"]) for row in contents]
        for row in rows:
            metric, axis, group = str(row["metric"]), str(row["axis"]), row["group"]
            if metric == "group_share":
                at, p = axes.index(axis), self.shares[axis][str(group)]
            elif metric == "group_evenness":
                at, p = axes.index(axis), max(float(row["p_value"]), asked[axes.index(axis)])
            elif id(row) in place:
                at = place[id(row)]
                p = asked[at]
            else:
                continue
            adjusted = float(holm([*asked[:at], p, *asked[at + 1 :]])[at])
            add_notes(row, note("holm_over", p=adjusted, tests=len(asked), unit="questions about the dataset"))
            if metric != "group_evenness":
                margin = margin_of(metric, n_groups=int(row["n_groups"])) or 0.0
                size = abs(float(row["excess"])) if metric == "group_share" else float(row["excess"])
                add_notes(row, note("margin", side="beyond" if size > margin else "within", margin=margin))


AtLeastOne = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class DatasetSettings(Settings):
    """What the analyses can be told."""

    what: ClassVar[str] = "setting of dataset"

    clusters: Annotated[int, Field(ge=2)] = 20
    """GenSynth's M."""
    min_images: AtLeastOne = 20
    """Words, objects and subjects on fewer images are left out and counted."""
    min_activities: AtLeastOne = 10
    """Activities named less often are left out and counted."""
    permutations: Annotated[int, Field(ge=2)] = 999
    probe_permutations: Annotated[int, Field(ge=0)] = 99
    most_images: AtLeastOne = 20_000
    """Clusters, probes and the map use a random part of a larger dataset."""
    seed: Annotated[int, Field(ge=0)] = 0
    level: Annotated[float, Field(gt=0, lt=1, description="a number between 0 and 1, such as 0.95")] = 0.95


@dataclass(frozen=True)
class AxisPart:
    """Where an analysis puts its numbers, and for which axis."""

    findings: Findings
    dataset: Dataset
    axis: str
    settings: DatasetSettings
    family: QuestionFamily
    embed: Callable[[list[str]], Any] | None = None
    """Texts to vectors, (n, d), by the text encoder that was named; captions are clustered by their words without."""

    @property
    def groups(self) -> Groups:
        """The groups on the axis."""
        return self.dataset.groups[self.axis]

    def add(self, estimate: Estimate, metric: str, variant: str = "equipoise", **keys: Any) -> None:
        """One number about the dataset: no model is asked."""
        self.findings.add(
            estimate,
            metric=metric,
            variant=variant,
            model=None,
            pool=self.dataset.pool,
            **({"axis": self.axis} | keys),
        )

    def options(self, permutations: int, rows: NDArray[np.intp] | None = None) -> dict[str, Any]:
        """What every measure of all images, or of some ``rows``, is told; ``clusters``: their sources or sets."""
        sources = self.dataset.sources
        clusters = sources if sources is None or rows is None else sources[rows]
        settings = self.settings
        return {"clusters": clusters, "permutations": permutations, "seed": settings.seed, "level": settings.level}

    def chosen_rows(self) -> NDArray[np.intp]:
        """The images of a defined group with a caption, or a random part of them where there are too many."""
        has_caption = np.array([bool(some) for some in self.dataset.captions])
        rows = np.flatnonzero(self.groups.defined & has_caption)
        if len(rows) > self.settings.most_images:
            rng = np.random.default_rng(self.settings.seed)
            rows = np.sort(rng.choice(rows, self.settings.most_images, replace=False))
            self.findings.note(f"clusters and probes saw {len(rows):,} images, drawn at random")
        return rows

    def neutral(self, rows: NDArray[np.intp]) -> list[str]:
        """One text per image, its captions together, without the words of the axis where a lexicon has them."""
        captions = [self.dataset.captions[i] for i in rows]
        lexicon = self.dataset.lexicons.get(self.axis)
        if lexicon is None:
            self.findings.note(f"captions may name the groups of {self.axis!r}: no lexicon makes them neutral there")
            return [" ".join(some).lower() for some in captions]
        return neutral_texts(captions, lexicon)

    def text_vectors(self, rows: NDArray[np.intp]) -> NDArray[np.float64] | None:
        """(n, d) the mean vector of an image's neutral captions; ``None`` where no text encoder was named."""
        if self.embed is None:
            return None
        lexicon = self.dataset.lexicons.get(self.axis)
        captions = [list(self.dataset.captions[i]) for i in rows]
        said = [text for some in captions for text in some]
        texts = said if lexicon is None else list(lexicon.neutralise_all(said))
        different = list(dict.fromkeys(texts))
        place = {text: i for i, text in enumerate(different)}
        vectors = np.asarray(self.embed(different), dtype=np.float64)[[place[text] for text in texts]]
        counts = np.array([len(some) for some in captions])
        return np.asarray(np.add.reduceat(vectors, np.cumsum(counts) - counts) / counts[:, None])


def counts_of(part: AxisPart) -> GroupCounts | None:
    """Shares of the groups and their evenness."""
    if part.groups.n_groups < 2:
        part.findings.note(f"{part.axis}: only one group, {part.groups.names[0]!r}; nothing is compared")
        return None
    counts = group_counts(
        part.groups, clusters=part.dataset.sources, seed=part.settings.seed, level=part.settings.level
    )
    for group, share in counts.shares.items():
        part.add(share, "group_share", group=group)
    part.add(counts.evenness, "group_evenness")
    part.family.shares[part.axis] = counts.p_together
    return counts


def joint_counts(parts: Sequence[AxisPart]) -> None:
    """Evenness over the intersection of all axes: even margins can hide an empty corner."""
    groups = intersect(*(part.groups for part in parts))
    if groups.counts().any():
        settings = parts[0].settings
        counts = group_counts(groups, clusters=parts[0].dataset.sources, seed=settings.seed, level=settings.level)
        axis = " x ".join(part.axis for part in parts)
        parts[0].family.shares[axis] = counts.p_together
        note = f"{int((groups.counts() == 0).sum())} of {groups.n_groups} groups empty"
        parts[0].add(counts.evenness.with_notes(note), "group_evenness", axis=axis)
        for group, share in counts.shares.items():
            parts[0].add(share, "group_share", group=group, axis=axis)


def leanings_of(part: AxisPart) -> dict[str, Leaning]:
    """How far subjects, objects, words of the captions and groups of other axes lean to each group."""
    frame, leanings = part.dataset.frame, {}
    if "subject" in frame and frame["subject"].nunique() > 1:
        subjects = frame["subject"].astype(object).where(frame["subject"].notna(), None)
        leanings["subject"] = _leaning(part, [() if s is None else (s,) for s in subjects], "subjects")
    if "objects" in frame and frame["objects"].notna().any():
        cells = zip(frame["objects"], frame["image_id"], strict=True)
        objects = [items_of(cell, f"{part.dataset.name}: the objects of {image!r}") for cell, image in cells]
        leanings["object"] = _leaning(part, objects, "objects")
    if any(part.dataset.captions):
        leanings["word"] = _leaning(part, _words(part), "words")
    for other, groups in part.dataset.groups.items():
        if other != part.axis:
            values = [() if g < 0 else (groups.names[g],) for g in groups.labels]
            leanings[other] = _leaning(part, values, f"groups of {other}")
    kept = {kind: leaning for kind, leaning in leanings.items() if leaning is not None}
    for kind, leaning in kept.items():
        _add_leaning(part, leaning, kind)
    return kept


_ENOUGH_ITEMS = 20
"""Where fewer words or objects are compared, it is told what a lower --min-images would keep."""
_LEAST_IMAGES = 5
"""What is on fewer images can hardly lean beyond chance, so that no lower --min-images is proposed."""


def _leaning(part: AxisPart, items: Iterable[Iterable[str]], what: str) -> Leaning | None:
    matrix, names = presence_of(items)
    _tell_rare(part, np.asarray(matrix[part.groups.defined].sum(axis=0)).ravel()[: len(names)], what)
    try:
        how = part.options(part.settings.permutations)
        return cooccurrence(part.groups, matrix, names, min_images=part.settings.min_images, **how)
    except InputError:  # nothing is on enough images: said by the note
        return None


def _tell_rare(part: AxisPart, images: NDArray[np.float64], what: str) -> None:
    """Say how many items are on too few ``images`` to be compared, where few are left, and what would keep more."""
    least = part.settings.min_images
    kept, seen = int((images >= least).sum()), int((images > 0).sum())
    if kept >= min(_ENOUGH_ITEMS, seen):
        return
    of = f"{int(part.groups.defined.sum()):,} images with a label"
    sentence = f"{part.axis}: {seen - kept:,} of {seen:,} {what} are on fewer than {least} of {of} and were left out"
    # the highest that keeps enough of them, for the more images the more can be told
    lower = int(np.sort(images)[::-1][min(_ENOUGH_ITEMS, seen) - 1])
    lower = max(lower, _LEAST_IMAGES)
    keeps = int((images >= lower).sum())
    part.findings.note(
        f"{sentence}; --min-images {lower} keeps {keeps:,}" if lower < least and keeps > kept else sentence
    )


def _words(part: AxisPart) -> list[set[str]]:
    """The content words of each image's neutral captions; words that stand in for a group's own are no finding."""
    from sklearn.feature_extraction.text import CountVectorizer

    rows = np.flatnonzero(part.groups.defined)
    analyse = CountVectorizer(stop_words="english").build_analyzer()
    lexicon = part.dataset.lexicons.get(part.axis)
    stand_ins = {word for row in lexicon.rows for word in row.neutral.values()} if lexicon else set()
    words: list[set[str]] = [set() for _ in range(len(part.dataset))]
    for row, text in zip(rows, part.neutral(rows), strict=True):
        words[row] = set(analyse(text)) - stand_ins
    return words


def _add_leaning(part: AxisPart, leaning: Leaning, kind: str) -> None:
    part.add(leaning.distance, f"{kind}_distance")
    for row in leaning.table.to_dict("records"):
        lone = bool(np.isnan(row["ci_low"]))
        estimate = Estimate(
            row["share"],
            None if lone else row["ci_low"],
            None if lone else row["ci_high"],
            null_mean=row["even"],
            null_sd=row["null_sd"],
            p_value=row["p_value"],
            n=int(row["n"]),
            n_groups=part.groups.n_groups,
            notes=_row_notes(row, leaning.correction, lone),
        )
        part.add(estimate, f"{kind}_share", subject=row["item"], group=row["group"])


def _row_notes(row: dict[Any, Any], correction: str, lone: bool) -> tuple[str, ...]:
    notes = [f"{correction} p {row['p_adjusted']:.2g}"]
    if correction != "Holm":
        notes.append(f"from {row['sources']:,} sources or sets")
    if lone:
        notes.append(no_interval("one source or set has them all"))
    return tuple(notes)


@dataclass(frozen=True)
class CaptionMap:
    """Clusters of neutral captions and the images they were made from."""

    found: Clusters
    rows: NDArray[np.intp]
    texts: list[str]
    vectors: NDArray[np.float64] | None = None
    """Of a text encoder, where one was named."""


def clusters_of(part: AxisPart) -> CaptionMap | None:
    """K-means clusters of neutral captions, and who is over-represented in each."""
    rows = part.chosen_rows()
    texts = part.neutral(rows)
    different = len({frozenset(text.split()) for text in texts})
    count = min(part.settings.clusters, len(rows) // 5, different)
    said = f"{len(rows):,} images have a group and a caption, {different:,} of them different"
    if count < 2:
        part.findings.note(f"{part.axis}: no clusters of captions: {said}")
        return None
    vectors = part.text_vectors(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captions that are alike may fill fewer clusters than asked for
        how = part.options(part.settings.permutations, rows)
        clustering = caption_clusters(part.groups.take(rows), texts, vectors, n_clusters=count, **how)
    if vectors is not None:
        part.findings.note(f"{part.axis}: captions are clustered by the vectors of a text encoder, not by their words")
    if count < part.settings.clusters:
        part.findings.note(f"{part.axis}: {count} clusters, because only {said}")
    _add_leaning(part, clustering.leaning, "cluster")
    return CaptionMap(clustering, rows, texts, vectors)


def captions_part(part: AxisPart) -> CaptionProbe | None:
    """How well neutral captions tell the group."""
    rows = part.chosen_rows()
    how = part.options(part.settings.probe_permutations, rows)
    try:
        probe = caption_probe(part.neutral(rows), part.groups.take(rows), **how)
    except InputError as error:
        part.findings.note(f"{part.axis}: no guess from captions: {error}")
        return None
    part.add(probe.auc, "attribute_auc", "captions_tfidf")
    return probe


def images_part(part: AxisPart, masked: Any, unmasked: Any) -> ImageProbes | None:
    """How well person-masked images, and unmasked ones as the control, tell the group.

    An image that could not be read has features of NaN, and is left out of both.
    """
    if masked is None and unmasked is None:
        return None
    groups, read = part.groups, None
    if unmasked is not None and np.isnan(unmasked[:, 0]).any():
        read = np.flatnonzero(~np.isnan(unmasked[:, 0]))
        groups, unmasked = groups.take(read), unmasked[read]
        masked = None if masked is None else masked[read]
    how = part.options(part.settings.probe_permutations, read)
    probes = image_probes(groups, masked=masked, unmasked=unmasked, **how)
    for variant, probe in (("images_masked", probes.masked), ("images", probes.unmasked)):
        if probe is not None:
            part.add(probe.auc, "attribute_auc", variant)
            part.add(probe.balanced_accuracy, "attribute_balanced_accuracy", variant)
    if probes.person_adds is not None:
        part.add(probes.person_adds, "attribute_balanced_accuracy", "images_minus_masked")
    return probes


def table_frame(found: dict[str, Leaning]) -> pd.DataFrame:
    """All leanings as one table with the kind of item in front."""
    parts = [leaning.table.assign(kind=kind) for kind, leaning in found.items()]
    together = pd.concat(parts, ignore_index=True)
    return together[["kind", *(c for c in together.columns if c != "kind")]]
