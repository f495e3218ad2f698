"""What is measured of one model's captions: LIC, whom they name, what they amplify, how good and how kind they are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import pandas as pd

from equipoise.audit.captions.images import ImageScores
from equipoise.audit.captions.inputs import CaptionInputs, HumanCaptions, ModelCaptions
from equipoise.audit.captions.objects import ObjectMatcher
from equipoise.audit.findings import Findings
from equipoise.errors import InputError
from equipoise.measure import captions as measure
from equipoise.measure.captions.mentions import ErrorDefinition
from equipoise.measure.captions.quality import CaptionPairs, caption_quality, pair_captions
from equipoise.measure.captions.ratio import RatioConvention
from equipoise.measure.groups import Groups
from equipoise.measure.metric import METRICS, Scope
from equipoise.measure.notes import no_interval, note
from equipoise.measure.stats import summarise
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.group_means import group_means
from equipoise.measure.stats.shares import ItemScores
from equipoise.text import Lexicon
from equipoise.text.english.ptb import ptb_tokens
from equipoise.text.english.sentiment import SENTIMENT_LIST, sentiment_all

if TYPE_CHECKING:
    from equipoise.audit.captions.lic import Lic
    from equipoise.audit.captions.settings import CaptionSettings

SUITE = "captions"
OBJECTS = "--objects"
OWN_SCORES = "mean of the captions' own scores, which is not the score of all of them at once"
_SHUFFLES = 199
MANY_MODELS = 10
"""Beyond so many models 200 shuffles could not show one of them beyond chance, adjusted for all."""


@dataclass(frozen=True)
class WordList:
    """The lexicon that says whom a caption names, and which of its groups each label is."""

    lexicon: Lexicon
    group_of: Mapping[str, str]
    """The lexicon's group of each label; labels that it has no words for are not in it."""
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it names at least two of the groups, as two."""
        return len(set(self.group_of.values())) > 1

    def groups(self, labels: Iterable[str]) -> Groups:
        """Labels as groups of the lexicon; undefined where it has no words."""
        named = np.array([self.group_of.get(label) for label in labels], dtype=object)
        return Groups.from_values(named, self.lexicon.groups)


def word_list(name: str, inputs: CaptionInputs) -> WordList:
    """The lexicon called ``name`` for the labels of ``inputs``.

    A label is a group by its name in any case, by its first letter where no other group begins so, or by a word of the
    group's: with a lexicon of male and female, "Male", "M" and "man" are one.
    """
    lexicon = Lexicon.load(name)
    known = {group: _group_of(group, lexicon) for group in inputs.groups}
    group_of = {label: group for label, group in known.items() if group is not None}
    notes: tuple[str, ...] = ()
    if not WordList(lexicon, group_of).fits:
        notes = (
            f"the lexicon {lexicon.id!r} names {', '.join(lexicon.groups)}, the labels are {', '.join(inputs.groups)}: "
            "nothing is masked, and Ratio, Error, BA and DBA_G are left out; rename the labels, or give a lexicon that "
            "names them with --lexicon",
        )
    elif len(group_of) < len(inputs.groups):
        unnamed = [label for label in inputs.groups if label not in group_of]
        notes = (f"the lexicon {lexicon.id!r} has no words for {', '.join(unnamed)}: Error and Ratio leave them out",)
    return WordList(lexicon, group_of, notes)


def _group_of(label: str, lexicon: Lexicon) -> str | None:
    """The group of the lexicon that a label means, or ``None``."""
    plain = {group.casefold(): group for group in lexicon.groups}
    initials = [group for group in lexicon.groups if group.casefold().startswith(label.casefold())]
    if len(label) == 1 and len(initials) == 1:
        return initials[0]
    return plain.get(label.casefold()) or lexicon.label(label)


def check_sizes(inputs: CaptionInputs, further: Sequence[ModelCaptions] = ()) -> None:
    """Refuse groups that are too small for a split into training and test captions."""
    for model in (*inputs.models, *further):
        counts = Counter(inputs.labels[name] for name in model.captions)
        for group in inputs.groups:
            if counts[group] < measure.LEAST_TO_SPLIT:
                raise InputError(
                    f"{model.file}: group {group!r} has too few to split: {counts[group]}, need "
                    f"{measure.LEAST_TO_SPLIT}; get more captions, or name the other groups with --group"
                )


class CaptionMeasures:
    """Measures one model, and gathers the rows in ``findings``."""

    def __init__(
        self,
        inputs: CaptionInputs,
        model: ModelCaptions,
        words: WordList,
        settings: CaptionSettings,
        say: Callable[[str], None],
    ) -> None:
        self.inputs, self.model, self.words, self.settings, self.say = inputs, model, words, settings, say
        self.findings = Findings(SUITE, model.name)
        self.ids = list(model.captions)
        self.texts = [model.captions[name] for name in self.ids]
        self.labels = [inputs.labels[name] for name in self.ids]
        self.groups = Groups.from_values(self.labels, inputs.groups, axis=inputs.axis)
        self.with_references = [name for name in self.ids if name in (inputs.references or {})]

    def _add(self, estimate: Estimate, metric: str, **keys: Any) -> None:
        low, high = METRICS.find(metric).bounds_in(Scope(estimate.n_groups or 2))
        if estimate.ci_low is not None and estimate.ci_high is not None:
            # a t interval over few splits reaches beyond what a score can be
            estimate = replace(estimate, ci_low=max(low, estimate.ci_low), ci_high=min(high, estimate.ci_high))
            if estimate.ci_low == estimate.ci_high:  # would pass for certainty
                estimate = replace(estimate, ci_low=None, ci_high=None).with_notes(no_interval("nothing varies"))
        self.findings.add(estimate, metric=metric, axis=self.inputs.axis, **keys)

    def _by_image(self, values: Any, ids: Iterable[str], metric: str, variant: str | None = None) -> None:
        """The value of each image, so that two audits of captions of the same images can be paired."""
        self.findings.add_queries(values, list(ids), metric=metric, variant=variant, axis=self.inputs.axis)

    # LIC

    def lic(self, store: Path | None) -> Lic:
        """LIC_M and, with references, LIC_D and LIC; the vocabulary; how well the classifier tells the groups."""
        measured = self._measured(self.model.captions, self._references(), store)
        variant = self._variant(measured)
        found = {"lic": measured.lic, "lic_m": measured.lic_m, "lic_d": measured.lic_d}
        found |= {"caption_accuracy": measured.accuracy, "caption_auc": measured.auc}
        for metric, estimate in found.items():
            if estimate is not None:
                self._add(estimate, metric, variant=variant)
        size = Estimate(float(measured.vocabulary), n=len(self.ids), notes=("a count of words, not a bias",))
        self._add(size, "vocabulary")
        for problem in measured.notes:
            self.findings.note(problem)
        return measured

    def masked(self, kind: str, captions: ModelCaptions, original: Lic, store: Path | None) -> None:
        """LIC_M of captions of masked images, and how it differs from the original's on the same images and splits.

        Where not all images were masked the original is measured on these once more: fewer captions to train on alone
        lower LIC_M.
        """
        self.say(f"{self.model.name}, {kind}: {len(captions.captions):,} captions")
        from equipoise.audit.captions.objects import change_of_lic_m

        measured = self._measured(captions.captions, None, store)
        self._add(measured.lic_m, "lic_m", variant=self._variant(measured), pool=kind)
        if len(captions.captions) < len(self.ids):
            self.findings.note(
                f"{kind}: captions of {len(captions.captions):,} of the {len(self.ids):,} images; "
                "the original captions of these images were measured once more for the change"
            )
            same = {name: self.model.captions[name] for name in captions.captions}
            original = self._measured(same, None, store, permutations=0)
        self._add(change_of_lic_m(measured, original), "lic_m_change", variant=self._variant(measured), pool=kind)

    def _variant(self, lic: Lic) -> str:
        return lic.classifier if self.settings.folds is None else f"{lic.classifier}, cross-fitted"

    def _measured(
        self,
        captions: Mapping[str, str],
        references: Mapping[str, Sequence[str]] | None,
        store: Path | None,
        *,
        permutations: int | None = None,
    ) -> Lic:
        from equipoise.audit.captions.lic import SEEDS, measure_lic

        chosen = self.settings
        masks = chosen.lexicon if chosen.mask and self.words.fits else None
        shuffles = chosen.permutations if permutations is None else permutations
        models = len(self.inputs.models)
        if shuffles is None and chosen.classifier == "fast" and models > MANY_MODELS:
            shuffles = 20 * models
        return measure_lic(
            captions,
            {name: self.inputs.labels[name] for name in captions},
            references,
            classifier=chosen.classifier,
            mask=masks,
            seeds=SEEDS[: chosen.seeds],
            reference_seeds=None if chosen.reference_seeds is None else SEEDS[: chosen.reference_seeds],
            folds=chosen.folds,
            permutations=shuffles,
            store=store,
            say=self.say,
        )

    def _references(self) -> dict[str, Sequence[str]] | None:
        if self.inputs.references is None or self.settings.reference_seeds == 0:
            return None
        return {name: self.inputs.references[name] for name in self.with_references}

    # Whom captions name

    def mentions(self) -> None:
        """Ratio, Error, neutral rate and outcome divergence, each in all its definitions."""
        if not self.words.fits:
            return
        everyone = measure.Mentions.of(self.texts, self.words.lexicon)
        known = self.words.groups(self.labels)
        said, labels = everyone.take(known.defined), known.take(known.defined)
        without = {"the lexicon has no words for their group": known.n_undefined}

        def add(estimate: Estimate, metric: str, **keys: Any) -> None:
            self._add(replace(estimate, dropped={**estimate.dropped, **without}), metric, **keys)

        pair = self._pair()
        seed = self.settings.seed
        for convention in get_args(RatioConvention):
            ratio = measure.ratio(said, pair, labels=labels, convention=convention, seed=seed)
            if ratio.estimate is None:
                self.findings.note("; ".join(ratio.notes))
                break
            first, second = pair if convention != "burns" else pair[::-1]
            add(ratio.estimate.with_notes(note("named_pair", first=first, second=second)), "ratio", variant=convention)
        for definition in get_args(ErrorDefinition):
            wrong = measure.error(said, labels, definition=definition, seed=seed)
            if wrong is not None:
                add(wrong, "error", variant=definition)
            flags, counted = measure.error_flags(said, labels, definition=definition)
            if counted.all():
                self._by_image(flags, np.array(self.ids)[known.defined], "error", definition)
        if not said.named.any():
            self.findings.note(
                "no caption names any group: Error is 0 because nothing was said, and that is no merit; look at LIC "
                "and at the quality"
            )
        self._add(measure.neutral_rate(everyone), "neutral_rate")
        self._by_image(~everyone.named.any(axis=1), self.ids, "neutral_rate")
        add(measure.outcome_divergence(said, labels, seed=seed), "outcome_divergence")
        self._gap(~everyone.named.any(axis=1), self.groups, "neutral_rate", share=True)

    def _pair(self) -> tuple[str, str]:
        """The two groups of the ratio: the largest two, in the lexicon's order, so that it is men over women."""
        captioned = set().union(*(model.captions for model in self.inputs.models))
        images = Counter(self.inputs.labels[name] for name in captioned)
        sizes: Counter[str] = Counter()
        for label in self.inputs.groups:
            if label in self.words.group_of:  # several labels may be one group: man and boy
                sizes[self.words.group_of[label]] += images[label]
        largest = [group for group, _ in sizes.most_common(2)]
        first, second = sorted(largest, key=self.words.lexicon.groups.index)
        return first, second

    # What captions amplify

    def amplification(
        self,
        human: HumanCaptions | None,
        objects: Mapping[str, frozenset[str]] | None,
        training_words: Sequence[str] | None = None,
    ) -> None:
        """BA of words against ``human`` captions, and with ``objects`` DBA in both directions.

        The words of BA are ``training_words``, or chosen from the human captions.
        """
        if human is not None and self.with_references and self.words.fits:
            self._ba(human, training_words)
        if objects is not None:
            self._dba(objects)

    def _ba(self, human: HumanCaptions, training_words: Sequence[str] | None) -> None:
        rows = human.rows_of(self.with_references)
        said = [self.model.captions[name] for name in self.with_references]
        try:
            amplification = measure.ba_of_captions(
                [human.tokens[row] for row in rows],
                human.named.take(rows),
                [ptb_tokens(text) for text in said],
                measure.Mentions.of(said, self.words.lexicon).groups,
                words=training_words,
                content=human.content,
                exclude=self.words.lexicon.words(),
                least=self.settings.ba_least,
                reference_images=[human.owners[row] for row in rows],
                predicted_images=self.with_references,
                seed=self.settings.seed,
            )
        except InputError as error:
            self.findings.note(f"BA is left out: {error}; another least number of captions: --ba-least")
            return
        words = f"least {self.settings.ba_least}" + ("" if training_words is None else ", words of training captions")
        self._add(amplification.estimate, "ba", variant=words)

    def _dba(self, objects: Mapping[str, frozenset[str]]) -> None:
        ids = [name for name in self.ids if name in objects]
        listed = {image for file, image, _ in self.inputs.dropped.rows if file == OBJECTS}  # once for all models
        for name in self.ids:
            if name not in objects and name not in listed:
                self.inputs.dropped.add(OBJECTS, name, "no objects known")
        if not ids:
            raise InputError(f"{OBJECTS}: knows none of the labelled images; the ids have nothing in common")
        names = sorted(set().union(*(objects[name] for name in ids)))
        if not names:
            self.findings.note("DBA is left out: no image holds an object besides persons")
            return
        matcher = ObjectMatcher(names)
        held = np.array([[name in objects[i] for name in names] for i in ids])
        texts = [self.model.captions[i] for i in ids]
        said = [matcher.found(text) for text in texts]
        mentioned = np.array([[name in some for name in names] for some in said])
        seed = self.settings.seed
        if self.words.fits:
            labels = self.words.groups(self.inputs.labels[i] for i in ids)
            named = measure.Mentions.of(texts, self.words.lexicon).groups
            self._add(measure.dba_g(labels, held, named, items=names, seed=seed).estimate, "dba_g", variant="sign")
        amplification = measure.dba_o(self._groups_of(ids), held, mentioned, items=names, seed=seed)
        self._add(amplification.estimate, "dba_o", variant="sign")

    # How good and how kind

    def quality(self, human: HumanCaptions | None, scores: ImageScores | None) -> None:
        """BLEU, ROUGE-L, CIDEr-D, METEOR, CLIPScore, and for each the gap between groups."""
        if self.settings.quality and human is not None and self.with_references:
            pairs = pair_captions(
                [self.model.captions[name] for name in self.with_references],
                [human.by_image[name] for name in self.with_references],
            )
            groups = self._groups_of(self.with_references)
            for metric, scored in _scores(pairs, self.settings).items():
                self._add(scored.estimate, metric)
                notes: tuple[str, ...] = (OWN_SCORES,)  # BLEU is of all captions at once
                if math.isclose(float(np.mean(scored.values)), scored.estimate.value):
                    self._by_image(scored.values, np.array(self.with_references)[scored.kept], metric)
                    notes = ()
                self._gap(scored.values, groups.take(scored.kept), metric, notes=notes)
        if scores is not None:
            ids, plain, with_references = scores.of(self.model, self.inputs.references)
            self._add(plain.estimate, "clip_score")
            self._by_image(plain.values, ids, "clip_score")
            self._gap(plain.values, self._groups_of(ids), "clip_score")
            if with_references is not None:
                self._add(with_references.estimate, "ref_clip_score")

    def sentiment(self) -> None:
        """How kindly captions speak, and the gap between groups."""
        values = np.array(sentiment_all(self.texts))
        note = f"word list {SENTIMENT_LIST}: a screen, not a sentiment model"
        self._add(summarise(values, notes=(note,)), "sentiment", variant=SENTIMENT_LIST)
        self._by_image(values, self.ids, "sentiment", SENTIMENT_LIST)
        self._gap(values, self.groups, "sentiment", variant=SENTIMENT_LIST)

    def word_usage(self) -> pd.DataFrame:
        """Log-odds of every word between the groups of the images; the groups' own words are left out."""
        tokens = [ptb_tokens(text) for text in self.texts]
        own = self.words.lexicon.words() if self.words.fits else ()
        try:
            usage = measure.word_log_odds(
                tokens, self.groups, exclude=own, permutations=_SHUFFLES, seed=self.settings.seed
            )
        except InputError as error:
            self.findings.note(f"word usage is left out: {error}")
            return pd.DataFrame(columns=["word", "group"])
        self._add(usage.estimate, "word_log_odds", variant="largest z")
        return usage.table

    def _groups_of(self, ids: Sequence[str]) -> Groups:
        return Groups.from_values([self.inputs.labels[i] for i in ids], self.inputs.groups, axis=self.inputs.axis)

    def _gap(
        self,
        values: Any,
        groups: Groups,
        metric: str,
        *,
        variant: str | None = None,
        share: bool = False,
        notes: tuple[str, ...] = (),
    ) -> None:
        """The mean of each group, and the gap between the highest and the lowest; ``notes`` stand at all of them."""
        if np.count_nonzero(groups.counts()) < 2:
            self.findings.note(f"{metric}: no gap, only one group has values")
            return
        numbers = np.asarray(values, dtype=float)
        means = group_means(numbers, groups, share=share, permutations=_SHUFFLES, seed=self.settings.seed)
        for group, estimate in means.by_group.items():
            self._add(estimate.with_notes(*notes), metric, variant=variant, group=group)
        self._add(means.gap.with_notes(*notes), f"{metric}_gap", variant=variant)


def _scores(pairs: CaptionPairs, settings: CaptionSettings) -> dict[str, ItemScores]:
    """Every metric of quality by name."""
    by_metric = caption_quality(pairs, seed=settings.seed)
    if settings.java:
        from equipoise.audit.captions.java import meteor, spice, spice_is_ready

        by_metric["meteor"] = meteor(pairs, seed=settings.seed)
        if spice_is_ready():
            by_metric["spice"] = spice(pairs)
    return by_metric
