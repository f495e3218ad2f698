"""LIC of one captioner: the classifiers of :mod:`equipoise.models.caption_classifiers` on the splits of ``measure``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.captions.folds import (
    HALVES,
    REFITTED,
    TEST_SHARE,
    LeftOut,
    caption_scores,
    half_gaps,
    half_table,
    leave_two_out,
    over_folds,
    over_splits,
    scores_over_splits,
    single_auc,
    spread_of_repetitions,
    word_contributions,
)
from equipoise.audit.captions.sides import Side, reference_sides
from equipoise.data.atomic import write_whole
from equipoise.errors import InputError
from equipoise.measure.captions.cross_fitting import LEAST_FOLDS
from equipoise.measure.captions.halves import half_means
from equipoise.measure.captions.lic import in_points, lic_chance, lic_scores
from equipoise.measure.captions.masking import masked, tokens_of, vocabulary_of
from equipoise.measure.captions.splits import Split, balanced_split, cross_fit_folds
from equipoise.measure.stats.estimate import Estimate
from equipoise.models.caption_classifiers import CaptionClassifier, CaptionReader, FastClassifier
from equipoise.models.caption_classifiers import classifier as classifier_of
from equipoise.pace import portion, steps
from equipoise.text import Lexicon

SEEDS = (0, 12, 100, 200, 300, 400, 456, 500, 789, 1234)
"""The seeds of the published runs."""
SHUFFLES = {"fast": 200, "other": 3}
_NO_TEST = "no p-value: a classifier too sure of itself scores above this chance level without a lean; shuffle labels"
_RUN_COLUMNS = ["side", "seed", "split", "caption", "value", "accuracy", "auc"]


@dataclass(frozen=True)
class Lic:
    """LIC of one captioner, in points (0 to 100), with everything behind it."""

    lic_m: Estimate
    lic_d: Estimate | None
    lic: Estimate | None
    accuracy: Estimate
    auc: Estimate | None
    classifier: str
    approximate: bool
    vocabulary: int
    """How many different words the captioner says (masked words count as one)."""
    per_caption: pd.DataFrame
    """``image_id``, ``caption``, ``group``, ``score``, ``classifier``: of one that was not trained on that caption, and
    none where it was never tested. A linear one stands in where the stored runs kept no scores."""
    words: pd.DataFrame
    """Which words give the group away: see :func:`equipoise.audit.captions.folds.word_contributions`."""
    runs: pd.DataFrame
    """``side``, ``seed``, ``split``, ``caption``, ``value``, ``accuracy``, ``auc``: one row per classifier, and one per
    half of the captions (``seed``: which halving, ``split``: which half) where the interval is from halves."""
    notes: tuple[str, ...]
    out_of_fold: pd.DataFrame | None = None
    """``image_id``, ``group``, ``score``: each test of a caption when cross-fitted, by the classifier of the others."""
    refitted: tuple[LeftOut, ...] = ()
    """When cross-fitted by a quick classifier: what training on one fold less changes, by repetition."""


def measure_lic(
    captions: Mapping[Any, str],
    labels: Mapping[Any, str],
    references: Mapping[Any, Sequence[str]] | None = None,
    *,
    classifier: str | CaptionClassifier = "fast",
    mask: str | None = "lic",
    seeds: Sequence[int] = SEEDS,
    reference_seeds: Sequence[int] | None = None,
    folds: int | None = None,
    permutations: int | None = None,
    store: Path | None = None,
    say: Callable[[str], None] | None = None,
) -> Lic:
    """LIC_M of ``captions`` {image: caption} with ``labels`` {image: group}; LIC_D and LIC where ``references`` are.

    ``mask`` names the lexicon whose words are hidden (``None``: nothing is). Each seed draws one balanced split (or,
    with ``folds``, one balanced set that is cross-fitted: every caption is tested once). Interval and p-value take in
    how classifiers trained on other captions differ: from halves of these (:func:`measure.captions.halved_t`), or from
    :mod:`equipoise.audit.captions.folds`. A classifier that takes long to fit is not trained on halves; its interval is
    that of Nadeau and Bengio, over splits, and a note says that it is too narrow. References are read in
    the captioner's own vocabulary; one classifier per caption of an image. LIC is a difference on the same images and
    splits: where some images have no references the captioner is measured on the others once more. Chance is what
    classifiers trained on shuffled labels score (``permutations`` of them: 200 for ``fast``, 3 for others unless given;
    0 takes 1 / groups squared). ``store`` is a folder that keeps finished classifiers' scores: a stopped run goes on.

    >>> who = {i: ("female", "male")[i % 2] for i in range(200)}
    >>> said = {i: f"a person holds a {('red', 'blue')[i % 2] if i % 5 else 'green'} ball" for i in who}
    >>> measured = measure_lic(said, who, seeds=(0, 1), permutations=5)
    >>> sorted(measured.words["word"][:2]), bool(measured.lic_m.value > 60), measured.approximate
    (['blue', 'red'], True, True)
    """
    chosen = classifier_of(classifier)
    lexicon = None if mask is None else Lexicon.load(mask)
    ids = [i for i in captions if i in labels]
    if not ids:
        raise InputError("no caption has a label: the ids of captions and labels have nothing in common")
    names = sorted({labels[i] for i in ids})
    code = {name: n for n, name in enumerate(names)}
    texts = masked([captions[i] for i in ids], lexicon)
    ours = Side("model", ids, tokens_of(texts), np.array([code[labels[i]] for i in ids]))
    vocabulary = vocabulary_of(ours.tokens)
    work = _Work(chosen, len(names), folds, store, say)
    with portion(0.3):
        main = work.runs(ours, seeds)
    with portion(0.3 if references is not None else 0.7):
        shuffled, notes = _shuffles(work, ours, seeds, permutations)
    runs = [main]
    null = lic_chance(len(names)) if shuffled is None else float(shuffled["value"].mean())
    n = len(ids)
    refitted: tuple[LeftOut, ...] = ()
    halves = work.halves(ours)
    if folds is None:
        estimate_m = over_splits(main["value"], half_table(halves), null_value=null, n=n, n_groups=len(names))
    else:
        refitted = work.refitted(ours, seeds, main)
        estimate_m = _over_captions(ours, [main], [refitted], null, (0.0, 1.0))
    if shuffled is not None and chosen.approximate:
        # one shuffle is one split and so spreads more than the mean over splits does: the p-value errs to the safe side
        draws = shuffled["value"].to_numpy(float)
        if folds is not None:
            draws = spread_of_repetitions(draws, main.groupby("seed")["value"].mean().to_numpy(float))
        beaten = int((draws >= estimate_m.value).sum())
        estimate_m = _with_null(estimate_m, draws, (1 + beaten) / (1 + len(draws)))
    if shuffled is None:
        estimate_m = replace(estimate_m, p_value=None, null_sd=None).with_notes(_NO_TEST)
    estimate_d = estimate = None
    if references is not None:
        theirs, both = reference_sides(ours, references, lexicon, vocabulary)
        again = tuple(seeds if reference_seeds is None else reference_seeds)
        paired = main if both is ours and again == tuple(seeds) else work.runs(both, again)
        human = [work.runs(side, again) for side in steps(theirs)]
        runs += [*([] if paired is main else [paired]), *human]
        null_d = _reference_chance(work, theirs[0], again, 0 if shuffled is None else len(shuffled))
        if folds is None:
            by_split = np.stack([side["value"].to_numpy() for side in human], axis=1).mean(axis=1)
            of_both = halves if both is ours else work.halves(both)
            of_theirs = pd.concat([work.halves(side) for side in steps(theirs)])
            runs += [*([] if both is ours else [of_both]), of_theirs]
            gaps = half_gaps(half_table(of_both), half_table(of_theirs))
            how: dict[str, Any] = {"n": len(both.ids), "n_groups": len(names)}
            estimate_d = over_splits(by_split, half_table(of_theirs), null_value=null_d, **how)
            difference = paired["value"].to_numpy() - by_split
            estimate = over_splits(difference, gaps, null_value=0.0, bounds=(-1.0, 1.0), **how)
        else:
            of_human = [work.refitted(side, again, run) for side, run in zip(theirs, human, strict=True)]
            of_model = refitted if paired is main else work.refitted(both, again, paired)
            estimate_d = _over_captions(both, human, of_human, null_d, (0.0, 1.0))
            estimate = _over_captions(both, human, of_human, 0.0, (-1.0, 1.0), minuend=(paired, of_model))
        if null_d == lic_chance(len(names)):
            estimate_d = replace(estimate_d, p_value=None, null_sd=None).with_notes(_NO_TEST)
        if chosen.approximate:
            notes.append("LIC_D of a linear classifier lies above the LSTM's: compare LIC only within this classifier")
        if again != tuple(seeds):
            notes.append(
                f"LIC = LIC_M - LIC_D on the {len(again)} seeds of the references (--reference-seeds); the LIC_M shown "
                f"is a mean over {len(seeds)}"
            )
        if len(both.ids) < n:
            notes.append(f"LIC is measured on the {len(both.ids)} of {n} images that have references")
    accuracy = _classifier_score("accuracy", ours, main, refitted, halves, folds, 1 / len(names))
    auc = _classifier_score("auc", ours, main, refitted, halves, folds, 0.5) if len(names) == 2 else None
    if chosen.approximate:
        notes.insert(0, "classifier fast: a linear screen, an approximation of the published LSTM")
    scores, scored_by = None if chosen.approximate else scores_over_splits(main, n), chosen.id
    if scores is None:
        linear = FastClassifier()
        reader = work.reader(ours) if chosen == linear else linear.read(ours.tokens)
        scores, scored_by = caption_scores(reader, ours.labels, len(names), ids), linear.id
    per_caption = pd.DataFrame(
        {
            "image_id": ids,
            "caption": [captions[i] for i in ids],
            "group": [labels[i] for i in ids],
            "score": scores,
            "classifier": scored_by,
        }
    )
    return Lic(
        in_points(estimate_m),
        None if estimate_d is None else in_points(estimate_d),
        None if estimate is None else in_points(estimate),
        in_points(accuracy),
        None if auc is None else in_points(auc),
        chosen.id,
        chosen.approximate,
        len(vocabulary),
        per_caption,
        word_contributions(ours.tokens, ours.labels, names, ids),
        pd.concat([*runs, halves, *([] if shuffled is None else [shuffled])], ignore_index=True)[_RUN_COLUMNS],
        tuple(notes),
        None if folds is None else _out_of_fold(ours, main, names),
        refitted,
    )


def _with_null(estimate: Estimate, null: NDArray[np.float64], p_value: float) -> Estimate:
    low, high = np.quantile(null, [0.025, 0.975])
    spread = float(null.std(ddof=1)) if len(null) > 1 else None
    return replace(estimate, null_sd=spread, null_low=float(low), null_high=float(high), p_value=float(p_value))


@dataclass(frozen=True)
class _Work:
    """Trains and tests one classifier per split, and remembers what is done."""

    chosen: CaptionClassifier
    groups: int
    folds: int | None
    store: Path | None
    say: Callable[[str], None] | None
    last: list[Any] = field(default_factory=list)
    """The side that was read last, and its reader."""

    def reader(self, side: Side) -> CaptionReader:
        """The reader of one side's captions; one side after another is measured, so the last reader is kept."""
        if not self.last or self.last[0] is not side:
            self.last[:] = [side, self.chosen.read(side.tokens)]
        reader: CaptionReader = self.last[1]
        return reader

    def splits(self, side: Side, seed: int) -> tuple[Split, ...]:
        if self.folds is None:
            return (balanced_split(side.labels.tolist(), seed, TEST_SHARE, ids=side.ids),)
        return cross_fit_folds(side.labels.tolist(), self.folds, seed, ids=side.ids)

    def runs(self, side: Side, seeds: Sequence[int]) -> pd.DataFrame:
        """One row per classifier of this side; when cross-fitted, with the captions it was tested on and their
        scores."""
        rows: list[dict[str, Any]] = []
        for seed in steps(seeds):
            for number, split in enumerate(steps(self.splits(side, seed))):
                scores = self._scores(side, side.labels, split, seed)
                row = {"side": side.name, "seed": seed, "split": number, "caption": side.caption, **scores}
                rows.append({**row, "tested": split.test})
            if self.say is not None and not self.chosen.approximate:
                self.say(f"{side.name} {side.caption}, seed {seed}: {100 * rows[-1]['value']:.1f}")
        return pd.DataFrame(rows)

    def refitted(self, side: Side, seeds: Sequence[int], runs: pd.DataFrame) -> tuple[LeftOut, ...]:
        """What training on one fold less changes, for the first seeds; nothing where a classifier takes long to fit."""
        if not self.chosen.approximate or self.folds is None or self.folds < LEAST_FOLDS:
            return ()
        reader = self.reader(side)
        return tuple(
            leave_two_out(reader, side.labels, self.splits(side, seed), self.groups, seed, runs[runs["seed"] == seed])
            for seed in seeds[:REFITTED]
        )

    def halves(self, side: Side) -> pd.DataFrame:
        """A row for each half of the captions, cross-fitted on its own; none where a classifier takes long to fit."""
        if not self.chosen.approximate or self.folds is not None:
            return pd.DataFrame(columns=_RUN_COLUMNS)

        def means(splits: Sequence[Split]) -> list[float]:
            return list(_means([self._scores(side, side.labels, split, 0) for split in splits]).values())

        table = half_means(means, side.labels.tolist(), ids=side.ids)
        places = [(turn, half) for turn in range(len(table)) for half in (0, 1)]
        rows = [(side.name + HALVES, turn, half, side.caption, *table[turn, half]) for turn, half in places]
        return pd.DataFrame(rows, columns=_RUN_COLUMNS)

    def shuffled(self, side: Side, seeds: Sequence[int], times: int, *, whole: bool = False) -> pd.DataFrame:
        """The same with labels dealt anew each time: what a classifier scores that has nothing to learn.

        One split at a time; with ``whole`` all folds of a cross-fitting, as one mean.
        """
        rows = []
        splits = {seed: self.splits(side, seed) for seed in seeds[:times]}
        for turn in steps(range(times)):
            seed = seeds[turn % len(seeds)]
            some, rng = splits[seed] if whole else splits[seed][:1], np.random.default_rng([turn, 1])
            labels = side.labels.copy()
            parts = [split.test for split in some] if whole else [some[0].train, some[0].test]
            for part in parts:  # each stays balanced
                labels[part] = rng.permutation(labels[part])
            means = _means([self._scores(side, labels, split, seed) for split in some])
            rows.append({"side": "shuffled labels", "seed": turn, "split": 0, "caption": 0, **means})
        return pd.DataFrame(rows)

    def _scores(self, side: Side, labels: NDArray[np.int64], split: Split, seed: int) -> dict[str, Any]:
        """What one classifier scores: kept from an earlier run, or trained now."""
        path = self._kept(side, labels, split, seed)
        if path is not None and path.exists():
            kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return kept
        train, right = split.train, labels[split.test]
        probabilities = self.reader(side).probabilities(train, labels[train], split.test, self.groups, seed)
        by_caption = lic_scores(probabilities, right)
        scores: dict[str, Any] = {
            "value": float(by_caption.mean()),
            "accuracy": float((probabilities.argmax(axis=1) == right).mean()),
            "auc": single_auc(probabilities, right),
            "scores": by_caption.tolist(),
        }
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(scores).encode())
        return scores

    def _kept(self, side: Side, labels: NDArray[np.int64], split: Split, seed: int) -> Path | None:
        """Where these scores are kept: the name is a fingerprint of all that they depend on."""
        if self.store is None or isinstance(self.chosen, FastClassifier):
            return None
        settings = asdict(self.chosen) if is_dataclass(self.chosen) else {"id": self.chosen.id}
        kind = [settings, seed, self.groups, *(() if self.folds is None else ("scores",))]
        digest = blake2b(json.dumps(kind, sort_keys=True).encode(), digest_size=16)
        for rows in (split.train, split.test):
            digest.update(b"\x01".join(" ".join(side.tokens[row]).encode() for row in rows))
            digest.update(labels[rows].astype("<i8").tobytes())
        return self.store / f"{digest.hexdigest()}.json"


def _means(scores: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The means of several classifiers' scores."""
    return {name: float(np.mean([of[name] for of in scores])) for name in ("value", "accuracy", "auc")}


def _over_captions(
    side: Side,
    runs: Sequence[pd.DataFrame],
    refitted: Sequence[Sequence[LeftOut]],
    null: float,
    bounds: tuple[float, float],
    *,
    minuend: tuple[pd.DataFrame, Sequence[LeftOut]] | None = None,
) -> Estimate:
    """The mean out-of-fold score of cross-fitted ``runs`` (averaged, if several), or what ``minuend``'s exceeds it by;
    all were tested on the same captions in the same order.
    """
    rows = np.concatenate(runs[0]["tested"].tolist())
    scores = np.mean([np.concatenate(run["scores"].tolist()) for run in runs], axis=0)
    tables = [[left_out["value"] for left_out in some] for some in refitted]
    means = [np.mean(some, axis=0) for some in zip(*tables, strict=True)]  # by repetition, over sides
    if minuend is not None:
        scores = np.concatenate(minuend[0]["scores"].tolist()) - scores
        means = [left_out["value"] - m for left_out, m in zip(minuend[1], means, strict=True)]
    return over_folds(
        scores,
        rows,
        side.labels[rows],
        means,
        folds=int(runs[0]["split"].max()) + 1,
        null_value=null,
        bounds=bounds,
    )


def _classifier_score(
    metric: str,
    side: Side,
    runs: pd.DataFrame,
    refitted: Sequence[LeftOut],
    halves: pd.DataFrame,
    folds: int | None,
    null: float,
) -> Estimate:
    """Accuracy or AUC of the classifiers, the captions being the unit (AUC, cross-fitted: the folds)."""
    groups, n = int(side.labels.max()) + 1, len(side.ids)
    if folds is None:
        return over_splits(runs[metric], half_table(halves, metric), null_value=null, n=n, n_groups=groups)
    if metric == "accuracy":  # a caption's score is above 0 exactly where its group was chosen
        rows = np.concatenate(runs["tested"].tolist())
        values = (np.concatenate(runs["scores"].tolist()) > 0).astype(float)
        unit, of = rows, side.labels[rows]
    else:
        values, unit, of = runs[metric].to_numpy(float), np.arange(len(runs)), np.zeros(len(runs), dtype=np.int64)
    tables = [left_out[metric] for left_out in refitted]
    estimate = over_folds(values, unit, of, tables, folds=folds, null_value=null, bounds=(0.0, 1.0))
    return replace(estimate, n=n, n_groups=groups)


def _out_of_fold(side: Side, runs: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    rows = np.concatenate(runs["tested"].tolist())
    return pd.DataFrame(
        {
            "image_id": [side.ids[row] for row in rows],
            "group": [names[code] for code in side.labels[rows]],
            "score": np.concatenate(runs["scores"].tolist()),
        }
    )


def _reference_chance(work: _Work, side: Side, seeds: Sequence[int], times: int) -> float:
    """What a classifier scores on the references when their labels are dealt anew; fifty shuffles are enough to say."""
    if not times or not work.chosen.approximate:
        return lic_chance(work.groups)
    return float(work.shuffled(side, seeds, min(times, 50))["value"].mean())


def _shuffles(
    work: _Work, ours: Side, seeds: Sequence[int], permutations: int | None
) -> tuple[pd.DataFrame | None, list[str]]:
    usual = SHUFFLES["fast" if work.chosen.approximate else "other"]
    times = usual if permutations is None else permutations
    if not times:
        chance = f"{100 * lic_chance(work.groups):.4g}, that of a classifier that knows it knows nothing"
        return None, [f"chance is {chance}"]
    whole = work.folds is not None and work.chosen.approximate
    what = f"cross-fittings of shuffled labels, each of {work.folds} folds"
    what = what if whole else "classifiers trained on shuffled labels"
    return work.shuffled(ours, seeds, times, whole=whole), [f"chance is the mean of {times} {what}"]
