"""What labels are for: errors by group before and after filtering, a detector against people, a judge calibrated.

Thresholds are learned from labels by :func:`equipoise.filters.thresholds.learned_from_people`; axes come from
:func:`equipoise.review.labels.people_layer`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from equipoise.array_types import Flags
from equipoise.data import Table
from equipoise.data.labels import origins, set_names
from equipoise.errors import InputError
from equipoise.formatting import brackets, p_plain, plain, text_table
from equipoise.measure.groups import Groups
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.agreement import cohen_kappa
from equipoise.measure.stats.bootstrap import resampling_weights
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import mostly_mixed
from equipoise.measure.stats.group_means import group_means
from equipoise.measure.stats.shares import pair_probability, share_estimate
from equipoise.review.labels import accepted_images, labels_frame, majority
from equipoise.review.preparing import sheet_of
from equipoise.review.questions import Questionnaire
from equipoise.review.store import ReviewStore
from equipoise.text.labels import read_labels

_TOGETHER = ("source_id", "set_id", "subject")
"""The columns that say which images are not independent."""


def error_rows(
    answers: pd.DataFrame,
    frame: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    kept: Any = None,
    draws: int = 999,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Rows of a results table: how often each answer was given, before filtering and after, by group.

    As Tables 6 and 8 of SocialCounterfactuals (CVPR 2024). ``answers``: one row per image, with ``image_id`` and
    ``answer`` (:func:`equipoise.review.labels.majority`). ``frame``: ``image_id`` and the columns ``by`` whose groups
    are compared. ``kept`` (n,) whether each row of ``frame`` stayed; without it there is no "after". Every gap between
    groups comes with that of shuffled labels; images of one set (``set_id``, of one ``subject``) are not independent,
    nor are, where not all have one, an image and what was made from it (``source_id``).

    >>> answers = pd.DataFrame({"image_id": [*"abcd"], "answer": ["good", "good", "bad", "good"]})
    >>> rows = error_rows(answers, pd.DataFrame({"image_id": [*"abcd"]}), kept=[True, True, False, True])
    >>> [(row["subject"], row["variant"], round(row["value"], 2)) for row in rows if row["subject"] == "bad"]
    [('bad', 'before', 0.25), ('bad', 'after', 0.0)]
    """
    stays = None if kept is None else pd.Series(np.asarray(kept, dtype=bool), index=frame["image_id"].astype(str))
    said = answers.dropna(subset=["answer"])
    joined = said.merge(frame.assign(image_id=frame["image_id"].astype(str)), on="image_id", how="inner")
    if joined.empty:
        raise InputError("no image of the table has a clear answer; are these labels of the same table?")
    stages = [("before", joined)]
    if stays is not None:
        stages.append(("after", joined[stays.reindex(joined["image_id"]).to_numpy(dtype=bool)]))
    clustered = [(stage, part, _clusters_of(frame, part["image_id"])) for stage, part in stages if len(part)]
    rows = []
    for answer in sorted(joined["answer"].unique()):
        for stage, part, clusters in clustered:
            hits = (part["answer"] == answer).to_numpy(dtype=np.float64)
            keys = {"variant": stage, "subject": str(answer)}
            rows.append(share_estimate(hits, clusters=clusters).row(metric="answer_share", **keys))
            for axis in by:
                rows += _by_group(hits, part[axis], axis, clusters, keys, draws, seed)
    return rows


def _clusters_of(frame: pd.DataFrame, ids: pd.Series[str]) -> Any:
    """What keeps the images of these ``ids`` together: their sets, or else their sources; None: each stands alone."""
    known = frame["image_id"].astype(str)
    if "set_id" in frame:
        sets = pd.Series(set_names(frame), index=known).reindex(ids)
        if sets.notna().all():
            return sets.to_numpy()
    keys = origins(frame)
    return None if keys is None else _shared(pd.Series(keys, index=known).reindex(ids).to_numpy(dtype=str))


def _by_group(
    hits: Any, labels: pd.Series[Any], axis: str, clusters: Any, keys: dict[str, str], draws: int, seed: int
) -> list[dict[str, Any]]:
    read = read_labels(labels.tolist())
    if len(read.names) < 2:
        return []
    groups = Groups(read.codes.astype(np.int32), read.names, axis=axis)
    defined = groups.defined
    paired = clusters is not None and mostly_mixed(groups.labels[defined], clusters[defined])
    within = clusters if paired else None  # sets of one group each, such as people, exchange it as wholes
    means = group_means(
        hits, groups, clusters=clusters, shuffle_within=within, share=True, permutations=draws, seed=seed
    )
    rows = [e.row(metric="answer_share", axis=axis, group=name, **keys) for name, e in means.by_group.items()]
    return [*rows, means.gap.row(metric="answer_share_gap", axis=axis, **keys)]


@dataclass(frozen=True)
class Confusion:
    """A detector against people, as Table 9 of SocialCounterfactuals (CVPR 2024)."""

    counts: pd.DataFrame
    """One row per group that people see, one column per group that the detector says."""
    by_group: pd.DataFrame
    """``group``, ``precision``, ``recall``, ``f1`` and ``support``; people are taken as right."""
    accuracy: Estimate
    """Against always saying the commonest group."""
    kappa: Estimate | None
    dropped: int
    """Images without a clear answer of either."""

    def __str__(self) -> str:
        lines = [["group", "precision", "recall", "f1", "support"]]
        for row in self.by_group.itertuples(index=False):
            numbers = [plain(float(value), 2) for value in (row.precision, row.recall, row.f1)]  # type: ignore[arg-type]
            lines.append([str(row.group), *numbers, str(row.support)])
        kappa = "" if self.kappa is None else f", kappa {plain(self.kappa.value, 2)}"
        return "\n".join([*text_table(lines), "", f"accuracy {self.accuracy}{kappa}", f"left out: {self.dropped}"])


def confusion_with_people(people: Sequence[Any], detector: Sequence[Any], *, clusters: Any = None) -> Confusion:
    """How often a detector says what people say of n images; ``None`` is no answer.

    ``clusters`` (n,) names images that are not independent, such as the edits of one source.

    >>> confusion = confusion_with_people(["f", "f", "m", "m", None], ["f", "m", "m", "m", "m"])
    >>> confusion.by_group.values.tolist()[0], confusion.dropped
    (['f', 1.0, 0.5, 0.6666666666666666, 2], 1)
    """
    if len(people) != len(detector):
        raise InputError(f"people say something of {len(people)} images, the detector of {len(detector)}")
    both = read_labels([*people, *detector])
    codes = both.codes[: len(people)], both.codes[len(people) :]
    there = (codes[0] >= 0) & (codes[1] >= 0)
    if not there.any():
        raise InputError("no image has both a clear answer of people and one of the detector")
    k = len(both.names)
    counts = np.zeros((k, k), dtype=np.int64)
    np.add.at(counts, (codes[0][there], codes[1][there]), 1)
    support, said, right = counts.sum(axis=1), counts.sum(axis=0), np.diag(counts)
    with np.errstate(invalid="ignore"):
        precision, recall = right / said, right / support
        f1 = 2 * right / (said + support)
    table = pd.DataFrame({"group": both.names, "precision": precision, "recall": recall, "f1": f1, "support": support})
    hits = (codes[0] == codes[1])[there].astype(np.float64)
    keys = None if clusters is None else _shared(np.asarray(clusters)[there])
    commonest = float(support.max() / there.sum())
    accuracy = share_estimate(hits, clusters=keys, null_value=commonest, alternative="greater")
    kappa = None
    if (support > 0).sum() > 1 or (said > 0).sum() > 1:
        kappa = cohen_kappa(codes[0][there].tolist(), codes[1][there].tolist(), clusters=keys)
    frame = pd.DataFrame(counts, index=pd.Index(both.names, name="people"), columns=list(both.names))
    return Confusion(frame, table, accuracy, kappa, int((~there).sum()))


def _shared(clusters: Any) -> Any:
    """The same ``clusters`` (n,); None where each item stands alone."""
    return None if clusters is None or len(np.unique(clusters)) == len(clusters) else np.asarray(clusters)


@dataclass(frozen=True)
class JudgeCalibration:
    """What a judge's word is worth, measured on items that people looked at."""

    accuracy: Estimate
    """Against always saying the commoner answer."""
    sensitivity: Estimate
    """The share of what people accept that the judge accepts."""
    specificity: Estimate
    """The share of what people reject that the judge rejects."""
    kappa: Estimate | None
    judged: float
    """The share that the judge accepts of all items."""
    corrected: Estimate
    """The share that people would accept of all items (Rogan and Gladen 1978)."""
    threshold: float | None = None
    """For a judge that gives scores: items of at least so much are accepted."""
    area: Estimate | None = None
    """For scores: how often an accepted item scores above a rejected one."""

    def __str__(self) -> str:
        rows = [["", "value", "95%", "chance"]]
        named = {"accuracy": self.accuracy, "sensitivity": self.sensitivity, "specificity": self.specificity}
        named |= {"accepted, corrected": self.corrected}
        for name, estimate in named.items():
            rows.append(
                [name, plain(estimate.value), brackets(estimate.ci_low, estimate.ci_high), plain(estimate.null_mean)]
            )
        lines = [*text_table(rows), "", f"the judge accepts {self.judged:.1%} of all"]
        return "\n".join(lines + ([f"threshold learned: {self.threshold:g}"] if self.threshold is not None else []))


def calibrate_judge(
    verdicts: Any, people: Any, *, everything: Any = None, clusters: Any = None, replicates: int = 1000, seed: int = 0
) -> JudgeCalibration:
    """How far a judge's ``verdicts`` (n,) can be trusted, by what ``people`` (n,) accepted of the same items.

    ``everything`` (N,): the judge's verdicts on all items, of which the n are a random part; the share that people
    would accept is (judged + specificity - 1) / (sensitivity + specificity - 1), cut at 0 and 1, with a bootstrap
    interval over items. ``clusters`` (n,) names items that are not independent, such as the edits of one source: they
    are resampled, and tested, together.

    >>> calibration = calibrate_judge([True] * 8 + [False] * 2, [True] * 7 + [False] * 3)
    >>> calibration.accuracy.value, calibration.sensitivity.value, round(calibration.corrected.value, 2)
    (0.9, 1.0, 0.7)
    """
    said, wanted = _flags(verdicts, "verdicts"), _flags(people, "people")
    if len(said) != len(wanted):
        raise InputError(f"the judge spoke of {len(said)} items, people of {len(wanted)}")
    if wanted.all() or not wanted.any():
        raise InputError("people gave one answer only; a judge is calibrated on accepted and rejected items")
    everywhere = said if everything is None else _flags(everything, "everything")
    share = float(wanted.mean())
    keys = _keys(clusters, len(said))
    kappa = None
    if said.any() and not said.all():
        kappa = cohen_kappa(said.tolist(), wanted.tolist(), clusters=keys, seed=seed)
    right = (said == wanted).astype(np.float64)
    return JudgeCalibration(
        share_estimate(right, clusters=keys, null_value=max(share, 1 - share), alternative="greater", seed=seed),
        _share_among(said, wanted, keys, seed),
        _share_among(~said, ~wanted, keys, seed),
        kappa,
        float(everywhere.mean()),
        _corrected(said, wanted, everywhere, keys, replicates, seed),
    )


def _keys(clusters: Any, n: int) -> Any:
    """``clusters`` of n items, checked; None where each stands alone."""
    if clusters is not None and np.shape(clusters) != (n,):
        raise InputError(f"clusters has shape {np.shape(clusters)} for {n} items; give one name for each")
    return _shared(clusters)


def _share_among(flags: Flags, among: Flags, clusters: Any, seed: int) -> Estimate:
    keys = None if clusters is None else _shared(clusters[among])
    return share_estimate(flags[among].astype(np.float64), clusters=keys, seed=seed)


def _corrected(said: Flags, wanted: Flags, everywhere: Flags, clusters: Any, replicates: int, seed: int) -> Estimate:
    judged = float(everywhere.mean())
    _, cluster_of = np.unique(np.arange(len(said)) if clusters is None else clusters, return_inverse=True)

    def share(weights: Any) -> Any:
        with np.errstate(invalid="ignore", divide="ignore"):
            sensitivity = (weights @ (said & wanted)) / (weights @ wanted)
            specificity = (weights @ (~said & ~wanted)) / (weights @ ~wanted)
            return np.clip((judged + specificity - 1) / (sensitivity + specificity - 1), 0, 1)

    value = float(share(np.ones((1, len(said))))[0])
    rng = np.random.default_rng(seed)
    blocks = resampling_weights(int(cluster_of.max()) + 1, replicates, rng)
    draws = np.concatenate([share(block.astype(np.float64)[:, cluster_of]) for block in blocks])
    draws = draws[np.isfinite(draws)]
    if not np.isfinite(value):
        raise InputError("the judge says the same whatever people say; its verdicts cannot be corrected")
    notes = ("no null: a share is not a bias",)
    low, high = np.quantile(draws, [0.025, 0.975])
    if low == high:
        return Estimate(value, n=len(said), notes=(*notes, no_interval("the resamples do not differ")))
    return Estimate(value, float(low), float(high), n=len(said), notes=notes)


def calibrate_scores(
    scores: Any, people: Any, *, everything: Any = None, clusters: Any = None, folds: int = 5, seed: int = 0
) -> JudgeCalibration:
    """The threshold on a judge's ``scores`` (n,) that agrees best with ``people`` (n,), and what it is worth.

    Accuracy, sensitivity and specificity are cross-fitted: each item is judged by a threshold learned without it and
    without the others of its cluster (``clusters`` as in :func:`calibrate_judge`).
    """
    numbers, wanted = np.asarray(scores, dtype=np.float64), _flags(people, "people")
    if numbers.shape != wanted.shape or not np.isfinite(numbers).all():
        raise InputError("scores must be one finite number for each item that people looked at")
    keys = _keys(clusters, len(wanted))
    _, cluster_of = np.unique(np.arange(len(wanted)) if keys is None else keys, return_inverse=True)
    n_clusters = int(cluster_of.max(initial=-1)) + 1
    if wanted.all() or not wanted.any() or n_clusters < folds:
        raise InputError(
            "a threshold is learned from accepted and rejected items, at least one for each fold"
            + (" (edits of one source, and images of one set, count as one)" if keys is not None else "")
        )
    fold = np.random.default_rng(seed).permutation(np.arange(n_clusters) % folds)[cluster_of]
    verdicts = np.zeros(len(wanted), dtype=bool)
    for f in range(folds):
        learn = fold != f
        verdicts[~learn] = numbers[~learn] >= _threshold(numbers[learn], wanted[learn])
    threshold = _threshold(numbers, wanted)
    everywhere = None if everything is None else np.asarray(everything, dtype=np.float64) >= threshold
    calibration = calibrate_judge(verdicts, wanted, everything=everywhere, clusters=keys, seed=seed)
    sides = None if keys is None else (keys[wanted], keys[~wanted])
    area = pair_probability(numbers[wanted], numbers[~wanted], clusters=sides)
    return JudgeCalibration(**{**calibration.__dict__, "threshold": threshold, "area": area})


def _threshold(numbers: Any, wanted: Flags) -> float:
    """The cut between two neighbouring scores at which most items are on the right side; the middle of the best."""
    order = np.argsort(numbers, kind="stable")
    ranked, good = numbers[order], wanted[order]
    agreeing = np.concatenate([[0], np.cumsum(~good)]) + np.concatenate([np.cumsum(good[::-1])[::-1], [0]])
    inside = np.concatenate([[True], ranked[1:] > ranked[:-1], [True]])  # equal scores are on one side
    best = np.flatnonzero(inside & (agreeing == agreeing[inside].max()))
    cut = int(best[len(best) // 2])
    if cut == 0:
        return float(ranked[0])
    return float(np.nextafter(ranked[-1], np.inf)) if cut == len(ranked) else float((ranked[cut - 1] + ranked[cut]) / 2)


def _flags(values: Any, name: str) -> Flags:
    given = np.asarray(values)
    if given.ndim != 1 or not len(given) or not np.isin(given, (0, 1)).all():
        raise InputError(f"{name} must hold yes or no for each item")
    return given.astype(bool)


def errors_in(
    store: ReviewStore, table: Table, *, question: str = "", axes: Sequence[str] = (), draws: int = 999
) -> list[dict[str, Any]]:
    """:func:`error_rows` of a review, by the axes of its table; after filtering too, with the layer of a filter.

    An answer about a whole set or source belongs to no group, so such answers are not compared by ``axes``; the item
    is there after filtering if all images that were judged in it stayed.
    """
    sheet = sheet_of(store)
    asked = sheet.first(lambda q: bool(q.accept) and q.kind == "choice", question)
    whole = sheet.of_several(asked)
    if whole and axes:
        raise InputError(
            f"{asked.name!r} was asked of each {sheet.about} as a whole, which shows several groups; leave out --axis, "
            "or compare groups in a review whose question is about each image"
        )
    by = [] if whole else list(axes) or list(table.axes)
    wanted = dict.fromkeys(("image_id", *_TOGETHER, *by, "keep"))
    columns = [name for name in wanted if name in table.columns]
    frame = table.to_pandas(columns)
    kept = frame.pop("keep").fillna(False).to_numpy(dtype=bool) if "keep" in frame else None
    if whole and kept is not None:
        kept = ~frame["image_id"].isin(_first_of_broken(store, sheet, frame["image_id"][~kept])).to_numpy()
    return error_rows(majority(labels_frame(store), asked.name), frame, by=by, kept=kept, draws=draws)


def _first_of_broken(store: ReviewStore, sheet: Questionnaire, dropped: Iterable[str]) -> set[str]:
    """The first images, where answers about the whole stand, of items of which an image was ``dropped``."""
    ids = dict(store.rows("SELECT id, image_id FROM pictures"))
    gone = set(dropped)
    items = ([ids[n] for n in json.loads(pictures)] for (pictures,) in store.rows("SELECT pictures FROM items"))
    # A source is only what its edits are compared with; a filter of edits may drop it and keep all of them
    start = 1 if sheet.about == "source" else 0
    return {images[0] for images in items if not gone.isdisjoint(images[start:])}


def errors_text(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of :func:`error_rows` for a terminal."""
    lines = [["answer", "stage", "axis", "group", "share", "95%", "chance", "p", "n"]]
    for row in rows:
        name = row["group"] or ("gap" if row["metric"].endswith("_gap") else "all")
        numbers = [plain(row["value"]), brackets(row["ci_low"], row["ci_high"]), plain(row["null_mean"])]
        keys = [str(row["subject"]), str(row["variant"]), str(row["axis"] or ""), str(name)]
        lines.append([*keys, *numbers, p_plain(row["p_value"]), str(row["n"])])
    return "\n".join(text_table(lines, left=(0, 1, 2, 3)))


def confusion_in(store: ReviewStore, table: Table, detector: str, *, question: str = "") -> Confusion:
    """:func:`confusion_with_people` for a review and the column that a ``detector`` filled."""
    sheet = sheet_of(store)
    asked = sheet.first(lambda q: bool(q.axis) and not sheet.of_several(q), question)
    if sheet.of_several(asked):
        raise InputError(
            f"people answered {asked.name!r} of each {sheet.about} as a whole, and the detector spoke of images; "
            "compare it with a review about images"
        )
    people = majority(labels_frame(store), asked.name, unsure=asked.unsure).set_index("image_id")["answer"]
    said = table.to_pandas(["image_id", detector]).set_index("image_id")[detector].reindex(people.index)
    return confusion_with_people(people.tolist(), said.tolist(), clusters=_origins(table, people.index))


def calibration_in(store: ReviewStore, table: Table, judge: str, *, question: str = "") -> JudgeCalibration:
    """A judge's column, verdicts or scores, against what people of a review accepted, image by image."""
    accepted = accepted_images(store, question)
    scores = _judged(table, judge, sheet_of(store).about)
    shared = accepted.index.intersection(scores.index)
    if shared.empty:
        raise InputError("people looked at no image that the judge spoke of; calibrate on a review about images")
    calibrated = calibrate_judge if table.types[judge] == "bool" else calibrate_scores
    said, people = scores.loc[shared].to_numpy(), accepted.loc[shared].to_numpy()
    return calibrated(said, people, everything=scores.to_numpy(), clusters=_origins(table, shared))


def _origins(table: Table, ids: pd.Index[Any]) -> Any:
    """What the images of these ``ids`` were made from, or their sets; None where each stands alone."""
    frame = table.to_pandas([name for name in ("image_id", *_TOGETHER) if name in table.columns])
    keys = origins(frame)
    return None if keys is None else pd.Series(keys, index=frame["image_id"]).reindex(ids).to_numpy(dtype=str)


def _judged(table: Table, judge: str, about: str) -> pd.Series[Any]:
    """What the judge says of each image that a review about this could ask of, by its id."""
    within = {"set": ["set_id"], "source": ["source_id"]}.get(about, [])
    frame = table.to_pandas(["image_id", judge, *within]).dropna()
    if about == "source":
        frame = frame[frame["image_id"] != frame["source_id"]]
    return frame.set_index("image_id")[judge]
