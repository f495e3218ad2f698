"""What was found in a dataset, as text that a person can read: where it is lopsided first, then the tables.

Activities that captions tie to a group, image by image or source by source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy import stats as sps

from equipoise.audit.dataset.parts import AxisPart, CaptionMap
from equipoise.audit.dataset.source import Dataset
from equipoise.audit.suites._probes import CaptionProbe, ImageProbes
from equipoise.errors import InputError
from equipoise.formatting import brackets, p_plain, percent, plain, share, text_table
from equipoise.measure.dataset import GroupCounts, Leaning
from equipoise.measure.dataset.lean import item_lean
from equipoise.measure.stats import benjamini_hochberg
from equipoise.measure.stats.estimate import Estimate
from equipoise.measure.stats.exchange import in_clusters
from equipoise.measure.stats.laws import normal_quantile, t_quantile
from equipoise.report.verdict.kinds import worst
from equipoise.report.verdict.outcomes import Conclusion, Reading
from equipoise.text.activities import ActivityBias, ActivityCounts, activity_bias, count_activities

LEAST_DRAWS = 4999
"""Draws of the null by source: enough that the smallest p-value survives the correction for a few hundred."""


def activities_of(part: AxisPart) -> ActivityBias | None:
    """Verb-object pairs by group, with log ratios and tails; of the two largest groups where there are more.

    An activity counts once per image and group, since the captions of one image are not independent. The table has
    columns more than the corpus gives: ``p_exact``, binomial against the corpus's own share, ``q_exact``, and
    ``error``, the standard error of the log ratio. Where images come from sources or sets, ``p_exact`` is that of
    labels exchanged between them (:func:`equipoise.measure.dataset.lean.item_lean`), and the error is larger by
    what the images of a source have in common.
    """
    texts = [". ".join(some) for some in part.dataset.captions]
    lexicon = part.dataset.lexicons.get(part.axis)
    counts = None
    if lexicon is not None and set(lexicon.groups) >= set(part.groups.names):
        counts = count_activities(texts, label=lexicon.label)
    if counts is None or len(counts.groups) < 2:  # "a young woman riding": the word for who acts tells no age
        labels = [None if g < 0 else part.groups.names[g] for g in part.groups.labels]
        counts = count_activities(texts, labels)
        part.findings.note(f"{part.axis}: an activity goes to the group of its image, not of the word for who acts")
    sizes = {name: int(counts.table[name].sum()) for name in counts.groups}
    if len(sizes) < 2:
        part.findings.note(f"{part.axis}: no activities to compare: captions tell them of fewer than two groups")
        return None
    first, second, *others = sorted(sizes, key=lambda name: -sizes[name])
    if others:
        part.findings.note(f"{part.axis}: activities compare the two groups with most, {first} and {second}")
    try:
        bias = activity_bias(counts, first, second, min_count=part.settings.min_activities)
    except InputError as error:
        part.findings.note(f"{part.axis}: no activities: {error}")
        return None
    if part.dataset.sources is None:
        bias = _with_exact_p(bias, sizes[first] / (sizes[first] + sizes[second]))
    else:
        bias = _with_clusters(part, counts, bias)
    _add_activities(part, bias)
    return bias


def _with_exact_p(bias: ActivityBias, share: float) -> ActivityBias:
    """The normal approximation calls 46 to 0 uncertain; the binomial law does not."""
    pairs = list(zip(bias.table[bias.first], bias.table[bias.second], strict=True))
    exact = [min(1.0, float(sps.binomtest(int(a), int(a + b), share).pvalue)) for a, b in pairs]
    error = [float(np.sqrt(1 / (a + 0.5) + 1 / (b + 0.5))) for a, b in pairs]
    return replace(bias, table=bias.table.assign(p_exact=exact, q_exact=benjamini_hochberg(exact), error=error))


def _with_clusters(part: AxisPart, counts: ActivityCounts, bias: ActivityBias) -> ActivityBias:
    """Mentions of one source exchange their group as one, or inside the source where it shows both."""
    sides = {bias.first: 0, bias.second: 1}
    kept = [(image, activity, sides[group]) for image, activity, group in counts.mentions if group in sides]
    rows, row_of = np.unique(np.array([(image, side) for image, _, side in kept]), axis=0, return_inverse=True)
    row_of = row_of.ravel()
    sources = np.unique(np.asarray(part.dataset.sources), return_inverse=True)[1][rows[:, 0]]
    place = {str(name): column for column, name in enumerate(bias.table.index)}
    inside = np.array([activity in place for _, activity, _ in kept])
    columns = np.array([place.get(activity, -1) for _, activity, _ in kept])
    matrix = sparse.csr_matrix(
        (np.ones(int(inside.sum())), (row_of[inside], columns[inside])), shape=(len(rows), len(place))
    )
    weights = np.bincount(row_of, minlength=len(rows)).astype(np.float64)
    lean = item_lean(
        matrix,
        weights,
        in_clusters(rows[:, 1].astype(np.intp), sources),
        n_groups=2,
        permutations=max(part.settings.permutations, LEAST_DRAWS),
        seed=part.settings.seed,
    )
    p_value = lean.p_value[:, 0]
    first, second = (bias.table[name].to_numpy(float) for name in (bias.first, bias.second))
    error = np.sqrt(1 / (first + 0.5) + 1 / (second + 0.5)) * _inflation(
        matrix, rows[:, 1], sources, part.settings.level
    )
    return replace(bias, table=bias.table.assign(p_exact=p_value, q_exact=benjamini_hochberg(p_value), error=error))


def _inflation(matrix: Any, sides: NDArray[Any], sources: NDArray[Any], level: float) -> NDArray[np.float64]:
    """(L,) how much larger the error of each activity's share is by source than by mention, never below 1.

    Where the sources of an activity do not differ, each counts as one mention; with one source, by its size. Few
    sources make it larger by Student's t over the normal law at ``level``, that of the intervals.
    """
    gather = sparse.csr_matrix((np.ones(len(sources)), (sources, np.arange(len(sources)))))
    every = sparse.csr_matrix(gather @ matrix)
    own = sparse.csr_matrix(gather @ sparse.diags((sides == 0).astype(np.float64)) @ matrix)
    n, hits, units = (np.asarray(x.sum(axis=0), dtype=np.float64).ravel() for x in (every, own, every > 0))
    share = hits / n
    squares, products, sizes = (
        np.asarray(x.sum(axis=0), dtype=np.float64).ravel()
        for x in (own.multiply(own), own.multiply(every), every.multiply(every))
    )
    scatter = np.clip(squares - 2 * share * products + share**2 * sizes, 0, None) * units / np.maximum(units - 1, 1)
    binomial = n * share * (1 - share)
    ratio = np.divide(scatter, binomial, out=sizes / n, where=binomial * scatter > 0)
    upper = 0.5 + level / 2
    widened = t_quantile(upper, np.maximum(units - 1, 1)) / normal_quantile(upper)
    return np.asarray(np.sqrt(np.maximum(1.0, ratio)) * widened)


def _add_activities(part: AxisPart, bias: ActivityBias) -> None:
    reach = float(normal_quantile(0.5 + part.settings.level / 2))
    for row in bias.table.reset_index(names="activity").to_dict("records"):
        side = f"{bias.first} over {bias.second}"
        estimate = Estimate(
            row["log_ratio"],
            row["log_ratio"] - reach * row["error"],
            row["log_ratio"] + reach * row["error"],
            null_mean=bias.chance,
            null_sd=row["error"],
            p_value=min(1.0, row["p_exact"]),
            n=int(row[bias.first] + row[bias.second]),
            n_groups=2,
            notes=(f"{side}; q {row['q_exact']:.2g}; z among activities {row['z_across']:.2f}",),
        )
        part.add(estimate, "activity_log_ratio", subject=row["activity"], group=bias.first)


ROWS = 12
"""How many of the most lopsided rows a table shows; the others are in the CSV files."""
SURE = 0.05


@dataclass(frozen=True)
class AxisFindings:
    """Everything that was found on one axis."""

    axis: str
    labelled_by: str
    groups: tuple[str, ...]
    counts: GroupCounts
    leanings: dict[str, Leaning] = field(default_factory=dict)
    """By what leans: ``subject``, ``object``, ``word``, or another axis."""
    clusters: CaptionMap | None = None
    captions: CaptionProbe | None = None
    images: ImageProbes | None = None
    activities: ActivityBias | None = None

    @property
    def tables(self) -> int:
        """How many tables of items were searched for what leans."""
        return len(self.leanings) + (self.clusters is not None) + (self.activities is not None)


def told(
    dataset: Dataset,
    found: Sequence[AxisFindings],
    results: pd.DataFrame,
    judged: Sequence[Reading],
    level: float,
) -> str:
    """The whole report. An item leans where it stands out of its table at 5% over all tables of all axes.

    ``level`` is that of the intervals.
    """
    lines = [f"{dataset.name}: {len(dataset):,} images, {dataset.n_captions:,} different captions", ""]
    sure = SURE / max(1, sum(of_axis.tables for of_axis in found))
    lines += [_HEADS.get(worst(judged), "Nothing is lopsided, beyond chance and by enough to matter")]
    lines += [*(f"  {line}" for of_axis in found for line in _summary(of_axis, judged, sure)), ""]
    for of_axis in found:
        lines += _axis_tables(of_axis, sure, f"{percent(level)} interval")
    joint = results[(results["metric"] == "group_evenness") & results["axis"].str.contains(" x ", regex=False)]
    for row in joint.to_dict("records"):
        even = f"{row['value']:.3f} (even sampling gives {row['null_mean']:.3f}); {row['notes']}"
        lines.append(f"Evenness of {row['axis']}: {even}")
    return "\n".join(lines).rstrip()


_HEADS = {
    Conclusion.LEANS: "Where it is lopsided",
    Conclusion.CANNOT_TELL: "Whether it is lopsided cannot be told",
}


def _summary(findings: AxisFindings, judged: Sequence[Reading], level: float) -> Iterable[str]:
    largest = max(findings.counts.shares, key=lambda name: findings.counts.shares[name].value)
    estimate = findings.counts.shares[largest]
    key = ("group_share", findings.axis, largest)
    verdict = _verdict(next((r for r in judged if (r.metric, r.row["axis"], r.row["group"]) == key), None))
    yield (
        f"{findings.axis}: {largest} in {share(estimate.value, 1)} {_interval(estimate, 100)} of {estimate.n:,} images "
        f"with a group; {share(estimate.null_mean, 1)} would be even: {verdict}"
    )
    if findings.counts.n_clusters < estimate.n:
        yield (
            f"{findings.axis}: these images come from {findings.counts.n_clusters:,} sources or sets and are as "
            f"certain as {findings.counts.effective_n:,.0f} independent ones"
        )
    for kind, leaning in findings.leanings.items():
        sure, items = leaning.lopsided(level), leaning.table["item"].nunique()
        if len(sure):
            most = ", ".join(f"{r['item']} to {r['group']} ({_points(r['excess'])})" for r in _leaders(sure, 3))
            of = f"{sure['item'].nunique()} of {items} {_plural(kind)}"
            yield f"{findings.axis}: {of} lean beyond chance, most {most}"
        elif leaning.least_p >= level:
            yield f"{findings.axis}: whether any of {items} {_plural(kind)} leans cannot be told: {_more_draws(level)}"
        else:
            yield f"{findings.axis}: none of {items} {_plural(kind)} leans beyond chance"
    if findings.clusters is not None:
        leaning = findings.clusters.found.leaning
        sure = leaning.lopsided(level)
        of = f"{sure['item'].nunique()} of {leaning.table['item'].nunique()} clusters of neutral captions"
        most = "; ".join(
            f"{' '.join(_words_of(findings.clusters, r['item'])[:3])} to {r['group']} ({_points(r['excess'])})"
            for r in _leaders(sure, 3)
        )
        if leaning.least_p >= level:
            any_of = f"any of {leaning.table['item'].nunique()} clusters of neutral captions"
            yield f"{findings.axis}: whether {any_of} leans cannot be told: {_more_draws(level)}"
        else:
            yield f"{findings.axis}: {of} lean beyond chance" + (f", most {most}" if most else "")
    if findings.activities is not None:
        bias = findings.activities
        sure_rows = bias.table[bias.table["q_exact"] < level]
        ends = dict.fromkeys(map(str, (*sure_rows.index[:2], *sure_rows.index[:-3:-1])))
        named = f", at the ends {', '.join(ends)}" if ends else ""
        of = f"{len(sure_rows)} of {len(bias.table)} activities"
        yield f"{findings.axis}: {of} lean beyond chance (q < {level:.2g}){named}"
    if findings.captions is not None:
        yield f"{findings.axis} guessed from neutral captions: {_auc(findings.captions.auc)}"
    if findings.images is not None:
        for name, probe in (
            ("person-masked images", findings.images.masked),
            ("whole images", findings.images.unmasked),
        ):
            if probe is not None:
                yield f"{findings.axis} guessed from {name}: {_auc(probe.auc)}"


def _axis_tables(findings: AxisFindings, level: float, interval: str) -> list[str]:
    lines = [
        f"Groups on {findings.axis} (labels: {findings.labelled_by}; {findings.counts.n_undefined:,} images undefined)"
    ]
    counts = findings.counts
    counted = [(name, f"{counts.counts[name]:,}", estimate) for name, estimate in counts.shares.items()]
    rows = [
        (name, images, plain(e.value), _interval(e), plain(e.null_mean), p_plain(e.p_value))
        for name, images, e in [*counted, ("evenness", "", counts.evenness)]
    ]
    lines += _table(("group", "images", "share", interval, "even", "p"), rows)
    for kind, leaning in findings.leanings.items():
        distance = leaning.distance
        lines += [
            f"{_plural(kind).capitalize()} by {findings.axis}: mean distance from the dataset's shares "
            f"{distance.value:.3f}, by chance {plain(distance.null_mean)}, p {p_plain(distance.p_value)}"
        ]
        lines += _leaning_rows(leaning, kind, level, interval)
    if findings.clusters is not None:
        lines += [f"Clusters of neutral captions by {findings.axis}", *_cluster_rows(findings.clusters)]
    if findings.activities is not None:
        lines += _activity_rows(findings.activities, level)
    if findings.captions is not None:
        lines += [f"{findings.axis.capitalize()} from neutral captions: {_auc(findings.captions.auc)}; words that tell"]
        lines += _table(("group", "words"), [(g, " ".join(words)) for g, words in findings.captions.telling.items()])
    return lines


def _more_draws(level: float) -> str:
    """What would tell: in so many tables a p-value must be below ``level``, which few draws of the null never give."""
    return f"over all tables it takes p < {level:.2g}, which --draws {int(2 / level)} can give"


def _leaning_rows(leaning: Leaning, kind: str, level: float, interval: str) -> list[str]:
    sure = leaning.lopsided(level)
    shown = _leaders(sure, ROWS) if len(sure) else []
    if not shown and leaning.least_p >= level:
        return [f"  cannot be told: {_more_draws(level)}", ""]
    if not shown:
        return ["  nothing stands out after the correction for all", ""]
    rows = [
        (
            str(r["item"]),
            str(r["group"]),
            f"{r['n']:,}",
            plain(r["share"]),
            brackets(r["ci_low"], r["ci_high"]),
            plain(r["even"]),
            f"{r['excess']:+.3f}",
            p_plain(r["p_adjusted"]),
        )
        for r in shown
    ]
    return _table((kind, "leans to", "images", "share", interval, "even", "excess", f"{leaning.correction} p"), rows)


def _cluster_rows(clusters: CaptionMap) -> list[str]:
    table, correction = clusters.found.leaning.table, clusters.found.leaning.correction
    over = table.loc[table.groupby("item")["excess"].idxmax()].sort_values("excess", ascending=False)
    rows = [
        (
            str(int(r["item"])),
            str(r["group"]) if r["excess"] > 1e-12 else "–",
            f"{r['n']:,}",
            plain(r["share"]),
            _points(r["excess"]),
            p_plain(r["p_adjusted"]),
            " ".join(_words_of(clusters, r["item"])[:6]),
        )
        for r in over.to_dict("records")
    ]
    return _table(
        ("cluster", "leans to", "images", "share", "Delta", f"{correction} p", "words that set it apart"), rows
    )


def _activity_rows(bias: ActivityBias, level: float) -> list[str]:
    lines = [
        f"Activities: ln({bias.first} / {bias.second}), by chance {bias.chance:.2f} (the whole corpus)"
        f"{'' if bias.normality_p is None else f'; normality of the log ratios p {p_plain(bias.normality_p)}'}"
    ]
    rows = []
    sure = bias.table[bias.table["q_exact"] < level].sort_values("p_exact", kind="stable")
    sides = [sure[sure["excess"] > 0].index[: ROWS // 2], sure[sure["excess"] < 0].index[: ROWS // 2]]
    for name in [*sides[0], *sides[1]]:
        row: Any = bias.table.loc[name]
        rows.append(
            (
                str(name),
                f"{int(row[bias.first]):,}",
                f"{int(row[bias.second]):,}",
                f"{row['log_ratio']:+.2f}",
                f"{row['excess']:+.2f}",
                p_plain(row["q_exact"]),
                f"{row['z_across']:+.1f}",
            )
        )
    if not rows:
        return [*lines, "  nothing stands out", ""]
    head = ("activity", bias.first, bias.second, "log ratio", "excess", "q", "z among activities")
    return [*lines, *_table(head, rows)]


def _verdict(reading: Reading | None) -> str:
    """What may be said of a share, as the verdict on the dataset says it."""
    if reading is None:
        return "chance was not measured"
    p, margin = f"Holm p {p_plain(reading.p)}", 100 * (reading.margin or 0.0)
    return {
        Conclusion.LEANS: f"lopsided ({p})",
        Conclusion.TOO_SMALL: f"within {margin:.1f} points of even ({p})",
        Conclusion.NOTHING: f"not beyond chance ({p})",
        Conclusion.CANNOT_TELL: f"whether by more than {margin:.1f} points cannot be told ({p})",
    }[reading.outcome]


def _leaders(rows: pd.DataFrame, count: int) -> list[dict[str, Any]]:
    """The rows of groups that are over-represented, the furthest first: of two groups one says it all."""
    return rows[rows["excess"] > 0].head(count).to_dict("records")  # type: ignore[return-value]


def _words_of(clusters: CaptionMap, item: Any) -> tuple[str, ...]:
    return clusters.found.distinctive_words[int(item)] or clusters.found.top_words[int(item)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    number = [all(not row[i] or row[i][0] in "+-[<0123456789" for row in rows) for i in range(len(head))]
    left = [place for place, is_number in enumerate(number) if not is_number]
    return [*(f"  {line}".rstrip() for line in text_table([head, *rows], left)), ""]


def _plural(kind: str) -> str:
    return {"subject": "subjects", "object": "objects", "word": "words"}.get(kind, f"groups of {kind}")


def _auc(e: Estimate) -> str:
    about = f"AUC {e.value:.3f} {_interval(e)}".rstrip()
    return f"{about}, by chance {plain(e.null_mean)}, p {p_plain(e.p_value)}, n {e.n:,}"


def _interval(e: Estimate, scale: int = 1) -> str:
    return brackets(e.ci_low, e.ci_high, 1 if scale > 1 else 3, scale=scale)


def _points(value: float) -> str:
    return plain(value, 1, scale=100, sign=True)
