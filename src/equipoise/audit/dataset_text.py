"""What was found in a dataset, as text that a person can read: where it is lopsided first, then the tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from equipoise.audit.dataset_family import Judged
from equipoise.audit.dataset_parts import CaptionMap
from equipoise.audit.dataset_source import Dataset
from equipoise.audit.probes import CaptionProbe, ImageProbes
from equipoise.measure.dataset import GroupCounts, Leaning
from equipoise.measure.estimate import Estimate
from equipoise.text.activity_mining import ActivityBias

__all__ = ["AxisFindings", "told"]

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
    judged: Mapping[tuple[str, str, str | None], Judged],
) -> str:
    """The whole report. An item leans where it stands out of its table at 5% over all tables of all axes."""
    lines = [f"{dataset.name}: {len(dataset):,} images, {dataset.n_captions:,} different captions", ""]
    sure = SURE / max(1, sum(one.tables for one in found))
    lopsided = any(one.lopsided for one in judged.values())
    lines += ["Where it is lopsided" if lopsided else "Nothing is lopsided, beyond chance and by enough to matter"]
    lines += [*(f"  {line}" for one in found for line in _summary(one, judged, sure)), ""]
    for one in found:
        lines += _axis_tables(one, sure)
    joint = results[(results["metric"] == "group_evenness") & results["axis"].str.contains(" x ", regex=False)]
    for row in joint.to_dict("records"):
        even = f"{row['value']:.3f} (even sampling gives {row['null_mean']:.3f}); {row['notes']}"
        lines.append(f"Evenness of {row['axis']}: {even}")
    return "\n".join(lines).rstrip()


def _summary(found: AxisFindings, judged: Mapping[tuple[str, str, str | None], Judged], level: float) -> Iterable[str]:
    largest = max(found.counts.shares, key=lambda name: found.counts.shares[name].value)
    share = found.counts.shares[largest]
    verdict = _verdict(judged["group_share", found.axis, largest])
    yield (
        f"{found.axis}: {largest} in {_percent(share.value)} {_interval(share, 100)} of {share.n:,} images "
        f"with a group; {_percent(share.null_mean)} would be even: {verdict}"
    )
    if found.counts.n_clusters < share.n:
        yield (
            f"{found.axis}: these images come from {found.counts.n_clusters:,} sources or sets and are as certain as "
            f"{found.counts.effective_n:,.0f} independent ones"
        )
    for kind, leaning in found.leanings.items():
        sure, items = leaning.lopsided(level), leaning.table["item"].nunique()
        if len(sure):
            most = ", ".join(f"{r['item']} to {r['group']} ({_points(r['excess'])})" for r in _leaders(sure, 3))
            yield f"{found.axis}: {sure['item'].nunique()} of {items} {_plural(kind)} lean beyond chance, most {most}"
        else:
            yield f"{found.axis}: none of {items} {_plural(kind)} leans beyond chance"
    if found.clusters is not None:
        leaning = found.clusters.found.leaning
        sure = leaning.lopsided(level)
        of = f"{sure['item'].nunique()} of {leaning.table['item'].nunique()} clusters of neutral captions"
        most = "; ".join(
            f"{' '.join(_words_of(found.clusters, r['item'])[:3])} to {r['group']} ({_points(r['excess'])})"
            for r in _leaders(sure, 3)
        )
        yield f"{found.axis}: {of} lean beyond chance" + (f", most {most}" if most else "")
    if found.activities is not None:
        bias = found.activities
        sure_rows = bias.table[bias.table["q_exact"] < level]
        ends = dict.fromkeys(map(str, (*sure_rows.index[:2], *sure_rows.index[:-3:-1])))
        named = f", at the ends {', '.join(ends)}" if ends else ""
        of = f"{len(sure_rows)} of {len(bias.table)} activities"
        yield f"{found.axis}: {of} lean beyond chance (q < {level:.2g}){named}"
    if found.captions is not None:
        yield f"{found.axis} guessed from neutral captions: {_auc(found.captions.auc)}"
    if found.images is not None:
        for name, probe in (("person-masked images", found.images.masked), ("whole images", found.images.unmasked)):
            if probe is not None:
                yield f"{found.axis} guessed from {name}: {_auc(probe.auc)}"


def _axis_tables(found: AxisFindings, level: float) -> list[str]:
    lines = [f"Groups on {found.axis} (labels: {found.labelled_by}; {found.counts.n_undefined:,} images undefined)"]
    rows = [
        (name, f"{found.counts.counts[name]:,}", _number(e.value), _interval(e), _number(e.null_mean), _p(e.p_value))
        for name, e in found.counts.shares.items()
    ]
    even = found.counts.evenness
    rows.append(("evenness", "", _number(even.value), _interval(even), _number(even.null_mean), _p(even.p_value)))
    lines += _table(("group", "images", "share", "95% interval", "even", "p"), rows)
    for kind, leaning in found.leanings.items():
        distance = leaning.distance
        lines += [
            f"{_plural(kind).capitalize()} by {found.axis}: mean distance from the dataset's shares "
            f"{distance.value:.3f}, by chance {_number(distance.null_mean)}, p {_p(distance.p_value)}"
        ]
        lines += _leaning_rows(leaning, kind, level)
    if found.clusters is not None:
        lines += [f"Clusters of neutral captions by {found.axis}", *_cluster_rows(found.clusters)]
    if found.activities is not None:
        lines += _activity_rows(found.activities, level)
    if found.captions is not None:
        lines += [f"{found.axis.capitalize()} from neutral captions: {_auc(found.captions.auc)}; words that tell"]
        lines += _table(("group", "words"), [(g, " ".join(words)) for g, words in found.captions.telling.items()])
    return lines


def _leaning_rows(leaning: Leaning, kind: str, level: float) -> list[str]:
    sure = leaning.lopsided(level)
    shown = _leaders(sure, ROWS) if len(sure) else []
    if not shown:
        return ["  nothing stands out after the correction for all", ""]
    rows = [
        (
            str(r["item"]),
            str(r["group"]),
            f"{r['n']:,}",
            _number(r["share"]),
            f"[{r['ci_low']:.3f}, {r['ci_high']:.3f}]",
            _number(r["even"]),
            f"{r['excess']:+.3f}",
            _p(r["p_adjusted"]),
        )
        for r in shown
    ]
    return _table(
        (kind, "leans to", "images", "share", "95% interval", "even", "excess", f"{leaning.correction} p"), rows
    )


def _cluster_rows(clusters: CaptionMap) -> list[str]:
    table, correction = clusters.found.leaning.table, clusters.found.leaning.correction
    over = table.loc[table.groupby("item")["excess"].idxmax()].sort_values("excess", ascending=False)
    rows = [
        (
            str(int(r["item"])),
            str(r["group"]),
            f"{r['n']:,}",
            _number(r["share"]),
            _points(r["excess"]),
            _p(r["p_adjusted"]),
            " ".join(_words_of(clusters, r["item"])[:6]),
        )
        for r in over.to_dict("records")
    ]
    return _table(
        ("cluster", "leans to", "images", "share", "Delta", f"{correction} p", "words that set it apart"), rows
    )


def _activity_rows(bias: ActivityBias, level: float) -> list[str]:
    lines = [
        f"Activities: ln({bias.first} / {bias.second}), by chance {bias.chance:.2f} (the whole corpus); "
        f"{'' if bias.normality_p is None else f'normality of the log ratios p {_p(bias.normality_p)}'}"
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
                _p(row["q_exact"]),
                f"{row['z_across']:+.1f}",
            )
        )
    if not rows:
        return [*lines, "  nothing stands out", ""]
    head = ("activity", bias.first, bias.second, "log ratio", "excess", "q", "z among activities")
    return [*lines, *_table(head, rows)]


def _verdict(judged: Judged) -> str:
    p = f"Holm p {_p(judged.p_adjusted)}"
    if judged.lopsided:
        return f"lopsided ({p})"
    if judged.matters:
        return f"not beyond chance ({p})"
    return f"within {100 * judged.margin:.1f} points of even ({p})"


def _leaders(rows: pd.DataFrame, count: int) -> list[dict[str, Any]]:
    """The rows of groups that are over-represented, the furthest first: of two groups one says it all."""
    return rows[rows["excess"] > 0].head(count).to_dict("records")  # type: ignore[return-value]


def _words_of(clusters: CaptionMap, item: Any) -> tuple[str, ...]:
    return clusters.found.distinctive_words[int(item)] or clusters.found.top_words[int(item)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(head[i]), *(len(row[i]) for row in rows)) for i in range(len(head))]
    right = [all(not c or c[0] in "+-[<0123456789" for c in (row[i] for row in rows)) for i in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return [*lines, ""]


def _plural(kind: str) -> str:
    return {"subject": "subjects", "object": "objects", "word": "words"}.get(kind, f"groups of {kind}")


def _auc(e: Estimate) -> str:
    return f"AUC {e.value:.3f} {_interval(e)}, by chance {_number(e.null_mean)}, p {_p(e.p_value)}, n {e.n:,}"


def _interval(e: Estimate, scale: int = 1) -> str:
    if e.ci_low is None or e.ci_high is None:
        return ""
    return f"[{e.ci_low * scale:.{1 if scale > 1 else 3}f}, {e.ci_high * scale:.{1 if scale > 1 else 3}f}]"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}%"


def _points(value: float) -> str:
    return f"{100 * value:+.1f}"


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return "<0.001" if value < 0.001 else f"{value:.3f}"
