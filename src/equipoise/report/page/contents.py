"""Everything that the page shows, gathered from what was given; each part only where there is something to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from equipoise.formatting import percent
from equipoise.measure.retrieval.single import SINGLE_METRIC
from equipoise.report.findings import (
    axis_name,
    is_of_prompts,
    main_metric,
    main_rows,
    metric_name,
    subject_rows,
    told_of_p,
)
from equipoise.report.page.asked import (
    chosen_k,
    facts,
    pictograms_told,
    said_of,
    shares_shown,
    side_told,
    title_of,
    unit_of,
)
from equipoise.report.page.explained import PageFigure, explained_change, explained_naive, explained_truth
from equipoise.report.page.figures import (
    MODELS_DRAWN,
    headline_figure,
    joint_figure,
    proportions_figure,
    strip_figure,
    subjects_figure,
)
from equipoise.report.page.funnel import funnel_figure, funnel_table, own_p_values, read_funnel
from equipoise.report.page.gallery import Gallery, Rankings, gallery, read_ranking
from equipoise.report.page.method import configs, definitions, dropped, limits, method, versions
from equipoise.report.page.naive import naive_numbers
from equipoise.report.page.tables import (
    SUBJECT_COLUMNS,
    CaptionNumbers,
    DatasetText,
    SubjectRow,
    all_rows,
    caption_numbers,
    dataset_text,
    funnel_rows,
    numbers_told,
    subject_table,
)
from equipoise.report.page.words import CaptionWords, read_words
from equipoise.report.sources import Given, Series
from equipoise.report.truth import recovered
from equipoise.report.verdict.judging import BiasVerdict, level_of, shown_metric
from equipoise.report.verdict.kinds import dataset_rows, on_nothing_dropped
from equipoise.report.verdict.outcomes import distances
from equipoise.report.verdict.repair import repair_of
from equipoise.report.verdict.whole import SERIES_NAMES, verdict

_CONTENTS = {
    "verdict": "Verdict",
    "chance": "How far from chance",
    "truth": "Against the truth",
    "change": "Before and after",
    "naive": "What a naive number says",
    "subjects": "Subject by subject",
    "groups": "Who is shown first",
    "pictures": "The pictures",
    "sets": "Counterfactual sets",
    "captions": "Captions in numbers",
    "words": "Caption words",
    "dataset": "The dataset in words",
    "funnel": "Filters by group",
    "dropped": "What was left out",
    "numbers": "All numbers",
    "method": "Method",
    "limits": "What this does not prove",
}
_JOINT_SHOWN = 3
"""So many intersections of two axes have a figure."""


@dataclass
class PageContents:
    """The parts of one page."""

    title: str
    verdict: BiasVerdict
    series: list[Series]
    figures: dict[str, list[Any]] = field(default_factory=dict)
    rows: list[SubjectRow] = field(default_factory=list)
    rows_note: str = ""
    subject_data: pd.DataFrame = field(default_factory=pd.DataFrame)
    pictures: Gallery = field(default_factory=Gallery)
    words: list[CaptionWords] = field(default_factory=list)
    caption_numbers: CaptionNumbers | None = None
    datasets: list[DatasetText] = field(default_factory=list)
    given: Given = field(default_factory=Given)
    rankings: Rankings = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """What was asked about one by one: subjects or prompts."""
        return unit_of(self.series)

    def all_figures(self) -> list[PageFigure]:
        """Every figure, once."""
        figures = []
        for some in self.figures.values():
            figures += [figure[0] if isinstance(figure, tuple) else figure for figure in some]
        return figures

    def for_template(self) -> dict[str, Any]:
        """What the page's template asks for: the parts by their names, and what is made of them."""
        by_model: dict[str, list[CaptionWords]] = {}
        for part in self.words:
            by_model.setdefault(part.model, []).append(part)
        here = {
            "chance": self.figures.get("headline"),
            "truth": self.figures.get("truth"),
            "change": self.figures.get("change"),
            "naive": self.figures.get("naive"),
            "subjects": self.rows,
            "groups": self.figures.get("groups"),
            "pictures": self.pictures.retrieved,
            "sets": self.pictures.sets,
            "captions": self.caption_numbers,
            "words": self.words,
            "dataset": self.datasets,
            "funnel": self.figures.get("funnel"),
        }
        return vars(self) | {
            "facts": facts(self.series, self.rankings),
            "unit": self.unit,
            "chosen": chosen_k(self.given.sources),
            "signs": pictograms_told(self.series),
            "contents": [
                (key, said_of(self.unit, name)) for key, name in _CONTENTS.items() if key not in here or here[key]
            ],
            "figures": {"strip": [], **self.figures},
            "p_corrected": "p_holm" in self.subject_data,
            "example": self.rows[0].subject if self.rows else "",
            "columns": SUBJECT_COLUMNS,
            "selects": _selects(self.rows),
            "words": list(by_model.items()),
            "word_groups": list(dict.fromkeys((part.group, part.number % 6) for part in self.words)),
            "several": len({row.model for row in self.rows}) > 1,
            "all_rows": all_rows(self.series),
            "numbers_told": numbers_told(self.series),
            "method": [said_of(self.unit, text) for text in method(self.series)],
            "definitions": definitions(self.series),
            "configs": configs(self.given.sources),
            "versions": versions(),
            "limits": [said_of(self.unit, text) for text in limits(self.series)],
            "dropped": dropped(self.given),
        }


def gather(
    given: Given,
    *,
    title: str | None,
    truth: pd.DataFrame | None,
    stated: bool = False,
    pair: Sequence[Series] = (),
    naive: Sequence[Series] = (),
    verdict_alone: bool = False,
) -> PageContents:
    """All parts of the page, or the verdict alone, which a terminal shows: figures and pictures take far longer."""
    series = given.series
    audits = [each for each in series if each.source.kind in ("audit", "results")]
    others = {name: [each for each in series if each.source.kind == kind] for kind, name in SERIES_NAMES.items()}
    captions, datasets = others["captions"], others["datasets"]
    metric = shown_metric(audits)
    apart = bool(pair) and any(each.model == pair[0].model for each in audits if each not in pair)
    if apart:  # the same model was audited on more subjects: that comes first, the pair on its own
        audits = [each for each in audits if each not in pair]
    elif pair:  # what is being repaired comes first
        audits = [*pair, *(each for each in audits if each not in pair)]
    found_truth = (
        []
        if truth is None
        else [each for some in [*audits, *captions] for each in recovered(some, truth, stated=stated)]
    )
    if truth is not None and not found_truth:
        given.problems.append("the truth is not compared: no subject and group of it has a score gap inside sets")
    repairs = [repair for after in pair[1:] if (repair := repair_of(pair[0], after)) is not None]
    plain = naive_numbers(naive, audits, metric, found_truth)
    contents = PageContents(
        title=title or title_of(series, given),
        verdict=verdict(audits, repairs=repairs, truths=found_truth, naive=plain, **others),
        series=series,
        given=given,
    )
    if not series and (runs := [each.path.name for each in given.sources if each.kind == "filter"]):
        contents.verdict = on_nothing_dropped(runs)
    if verdict_alone:
        return contents
    colours = {each.label: number for number, each in enumerate(series)}
    contents.figures["headline"] = [
        figure
        for number, some in enumerate((audits, captions, datasets, others["comparisons"], others["classifiers"]))
        if (figure := _headline(some, list(colours), metric if number == 0 else main_metric(some)))
    ]
    if found_truth:
        contents.figures["truth"] = [explained_truth(found_truth, colours)]
    changed = [repair for repair in repairs if repair.changes]
    if changed:
        contents.figures["change"] = [
            explained_change(repair, number) for number, repair in enumerate(changed, start=1)
        ]
    if plain:
        contents.figures["naive"] = [explained_naive(plain)]
    rankings = {each.label: ranking for each in audits if (ranking := read_ranking(each, given.problems)) is not None}
    contents.rankings = rankings
    single = SINGLE_METRIC if any(is_of_prompts(each) for each in audits) else metric
    if single is not None:
        _add_subjects(contents, audits, rankings, single, list(colours))
    contents.figures["groups"] = _groups(audits, rankings, list(colours), single)
    contents.pictures = gallery(given, audits, rankings, single)
    for source in given.sources:
        contents.words += read_words(source, given.problems)
    contents.caption_numbers = caption_numbers(captions)
    contents.datasets = [text for each in datasets if (text := dataset_text(each, given.problems)) is not None]
    contents.figures["funnel"] = _funnels(given)
    return contents


def _selects(rows: Sequence[SubjectRow]) -> list[tuple[str, str, list[str]]]:
    selects = []
    for name, label in (("axis", "Axis"), ("model", "Model"), ("metric", "Metric")):
        choices = list(dict.fromkeys(getattr(row, name) for row in rows))
        if len(choices) > 1:
            selects.append((name, label, sorted(choices)))
    return selects


def _headline(series: Sequence[Series], labels: list[str], metric: str | None) -> PageFigure | None:
    if metric is None:
        return None
    told = [dataset_rows(each) if each.source.kind == "dataset" else main_rows(each, metric) for each in series]
    rows = pd.concat([some.assign(label=e.label) for e, some in zip(series, told, strict=True)], ignore_index=True)
    rows = rows[rows["excess"].notna()] if len(rows) else rows
    if rows.empty:
        return None
    metric = str(rows["metric"].iloc[0])
    rows = rows[rows["metric"] == metric]
    svg, data = headline_figure(rows, labels)
    level = percent(level_of(series[0]))
    what = f"the {metric_name(metric)} that was measured, less what chance gives"
    kind = series[0].source.kind
    if kind == "comparison":
        what = f"the paired difference A - B in {metric_name(metric)}: right of the line the first model has more"
    caption = (
        f"The dot is {what}; the line is its {level} "
        "interval; the grey band holds 95% of what chance alone gives. A filled dot is more than chance explains (p < "
        "0.05, each row alone), a hollow one is not."
    )
    if rows["ci_low"].isna().any():
        caption += " Where there is no line, the number is bounded below by noise and has no interval."
    title = {
        "captions": "Captions",
        "dataset": "The dataset",
        "comparison": "Paired differences",
        "classification": "Predictions",
    }.get(kind, "Excess over chance by axis")
    suffix = "" if kind in ("audit", "results") else f"_{kind}"
    return PageFigure(f"headline{suffix}", title, caption, svg, data)


def _add_subjects(
    contents: PageContents, audits: Sequence[Series], rankings: Rankings, metric: str, labels: list[str]
) -> None:
    contents.rows, contents.subject_data, contents.rows_note = subject_table(audits, metric, rankings)
    parts = [subject_rows(audit, metric).assign(label=audit.label) for audit in audits]
    parts = [part for part in parts if len(part)]
    if not parts:
        return
    rows = pd.concat(parts, ignore_index=True)
    rows = rows[rows["excess"].notna()].sort_values(
        "axis", key=lambda a: a.map(list(dict.fromkeys(a)).index), kind="stable"
    )
    if rows.empty:
        return
    svg, data = strip_figure(rows, labels, unit=contents.unit)
    caption = (
        f"Each dot is a subject; {side_told(metric)}. Filled: p < 0.05 {told_of_p(rows)}. Dots of the same value are "
        "piled up. The rightmost is named; typing below marks a "
        "subject here."
    )
    title, caption = (said_of(contents.unit, text) for text in ("Subjects by axis", caption))
    contents.figures["strip"] = [PageFigure("strip", title, caption, svg, data)]


def _groups(audits: Sequence[Series], rankings: Rankings, labels: list[str], metric: str | None) -> list[PageFigure]:
    parts = []
    for audit in audits:
        mine = audit.results[(audit.results["metric"] == "representation") & audit.results["subject"].isna()]
        mine = mine[mine["group"].notna() & mine["value"].notna()].drop_duplicates(["axis", "group", "pool"])
        parts.append(mine.assign(label=audit.label))
    rows = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if rows.empty:
        return []
    figures = []
    svg, data = proportions_figure(rows, labels)
    caption = (
        "Bars are the share of each group among the first K pictures, over all subjects; the thin line is the "
        f"{percent(level_of(audits[0]))} interval and the thick mark what chance gives. * and bold: p < 0.05. Even "
        "bars here do not rule out that single subjects lean to opposite sides."
    )
    caption = said_of(unit_of(audits), caption)
    n_models = rows["label"].nunique()
    if n_models > MODELS_DRAWN:
        caption += f" The first {MODELS_DRAWN} of {n_models} models are drawn; the data has all."
    figures.append(PageFigure("proportions", "Shares of the first pictures, by group", caption, svg, data))
    joint = [a for a in dict.fromkeys(rows["axis"]) if str(a).count(" x ") == 1][:_JOINT_SHOWN]
    for number, axis in enumerate(joint):
        svg, data = joint_figure(rows[rows["axis"] == axis], labels)
        caption = (
            "Each cell is an intersection of groups: its share of the first pictures, and how many points that is "
            "above or below chance. Orange: more than chance; blue: fewer; * p < 0.05."
        )
        name = f"intersections{'' if number == 0 else number + 1}"
        figures.append(
            PageFigure(name, f"Intersections: {axis_name(axis).replace(' × ', ' and ')}", caption, svg, data)
        )
    figures += _subject_groups(audits, rankings, metric)
    return figures


def _subject_groups(audits: Sequence[Series], rankings: Rankings, metric: str | None) -> list[PageFigure]:
    audit = next((some for some in audits if some.label in rankings), None)
    if audit is None or metric is None:
        return []
    rows = main_rows(audit, metric)
    rows = rows[[all(part in rankings[audit.label].frame for part in str(a).split(" x ")) for a in rows["axis"]]]
    rows = rows[rows["k"].notna()] if len(rows) else rows
    if rows.empty:
        return []
    fitting = rows[rows["n_groups"] <= 8]
    row = (fitting if len(fitting) else rows).sort_values("n_groups", ascending=False).iloc[0]
    axes, k = str(row["axis"]).split(" x "), int(row["k"])
    shares = shares_shown(audit, rankings[audit.label], axes, k)
    unit, single = unit_of(audits), subject_rows(audit, metric)
    single = single[single["axis"] == row["axis"]].drop_duplicates("subject").set_index("subject")
    skewness = distances(metric, single["excess"])
    by_subject = {"skewness": shares["subject"].map(skewness), "p": shares["subject"].map(single["p_shown"])}
    svg, data = subjects_figure(shares.assign(**by_subject), unit=unit)
    whole = "pool" if unit == "prompt" else "subject's pictures"
    caption = said_of(
        unit,
        f"for each subject, the share of each group among its first {k} pictures, the most lopsided subject first "
        f"({metric_name(metric, k)}, as in the table above). Orange: more than the group's share of the {whole}; blue: "
        f"fewer. Single cells are noisy: * marks the subjects that are beyond chance (p < 0.05 {told_of_p(single)}).",
    )
    title = said_of(unit, "Subjects by groups")
    return [PageFigure("subject_groups", title, f"{audit.label}: {caption}", svg, data)]


def _funnels(given: Given) -> list[tuple[PageFigure, list[dict[str, Any]]]]:
    """A figure and a table for each funnel and axis."""
    own = {source.path: source.results for source in given.sources if source.kind == "filter"}
    funnels: list[tuple[PageFigure, list[dict[str, Any]]]] = []
    for path in given.funnels:
        every = read_funnel(path)
        for axis in dict.fromkeys(every["axis"]):
            frame = every[every["axis"] == axis]
            known = own_p_values(own[path.parent], str(axis)) if path.parent in own else {}
            svg, data = funnel_figure(frame)
            how = "as the filter run tested them" if known else "those of equal rates, too small where whole sets go"
            caption = (
                "Each line is a group: of its first images, the share that is left after each filter. Lines that part "
                f"mean that a filter drops one group more than another. The p-values below are {how}."
            )
            name = f"funnel{'' if not funnels else len(funnels) + 1}"
            title = "What is left after each filter" + (f", by {axis_name(axis)}" if axis else "")
            funnels.append((PageFigure(name, title, caption, svg, data), funnel_rows(funnel_table(frame, known))))
    return funnels
