"""What the study of SocialCounterfactuals shows: its tables and figures from the folders that its steps left."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.audit.folders import short_name
from equipoise.data import Table
from equipoise.data.published import models_of, published_cell
from equipoise.recipes.studies.chance import SEGMENTS, chance_part
from equipoise.recipes.studies.common import (
    audits_of,
    followed,
    metric_name,
    metric_table,
    paper_table,
    recovered_part,
    rows_of,
    subject_values,
)
from equipoise.recipes.studies.frame import StudyHome
from equipoise.recipes.studies.socialcounterfactuals_repairs import full_repair_part, repair_parts
from equipoise.report.charts import box_plots, quartiles
from equipoise.report.study import StudyFigure, StudyPart, StudyTable, measured_cells

MINI = ("mini:clip", "mini:clip-fair")
FULL = models_of("socialcounterfactuals")
GENERATOR = "mini:diffusion"
AXES = ("gender", "skin_tone")
THREE = ("gender", "skin_tone", "age")
STAGES = {"before": "as they were made", "similarity": "after similarity", "all": "after safety and detectability"}


def parts_of(home: StudyHome) -> list[StudyPart]:
    """Everything that the study shows."""
    parts = [chance_part(home.options.given.get("metadata"))]
    if home.options.scale == "full":
        return parts + _full_parts(home)
    models = home.options.models or MINI
    folders = audits_of(home, "intersectional", models)
    both = " x ".join(AXES)
    parts.append(_boxes(folders, both))
    parts.append(_quartile_part(folders, both))
    parts.append(_truth(folders))
    parts.append(_three(audits_of(home, "three", models)))
    parts += _stage_parts(home, models, both)
    parts += _threshold_part(home)
    return parts + repair_parts(home)


def _boxes(folders: Mapping[str, Path], axis: str) -> StudyPart:
    values = {model: subject_values(folder, "max_skew", axis=axis) for model, folder in folders.items()}
    chance = {model: float(rows_of(f, "max_skew", axis=axis)["null_mean"].iloc[0]) for model, f in folders.items()}
    k = int(rows_of(next(iter(folders.values())), "max_skew", axis=axis)["k"].iloc[0])
    svg = box_plots(values, f"MaxSkew@{k}", chance=chance, name="f3")
    table = metric_table(folders, ("max_skew", "ndkl", "bias_at_k"), "F3", "Over all subjects")
    caption = "Boxes over subjects, the outermost named; the coloured tick is the mean that chance gives."
    figures = (StudyFigure("F3", f"MaxSkew@{k} on {axis}, by subject", caption, svg),)
    text = ("With as many groups as ranks MaxSkew has a floor far above 0; what counts is the distance to the tick.",)
    return StudyPart("Figures 3, 4 and 6", "Intersectional skew", text, (table,), figures, "rendered sets")


def _quartile_part(folders: Mapping[str, Path], axis: str) -> StudyPart:
    tables = []
    for metric in ("ndkl", "max_skew"):
        values = {model: subject_values(folder, metric, axis=axis).tolist() for model, folder in folders.items()}
        frame = quartiles(values).rename(columns={"label": "model"})
        nulls = [float(rows_of(folder, metric, axis=axis)["null_mean"].iloc[0]) for folder in folders.values()]
        tables.append(StudyTable(f"T12-{metric}", f"{metric} over subjects", frame.assign(chance=nulls)))
    papers = [paper_table("socialcounterfactuals", name) for name in ("T12", "T13", "T14")]
    return StudyPart("Tables 12 to 14", "Quartiles over subjects", (), (*tables, *papers), (), "rendered sets")


def _truth(folders: Mapping[str, Path]) -> StudyPart:
    table, figures = recovered_part(folders, "biased")
    text = (
        "The log-odds that were put into the world that mini:clip learned from, and the gaps of scores inside sets "
        "that show everybody alike. Into the world of mini:clip-fair nothing was put: gaps that it has are its own, "
        "such as every encoder has.",
        *followed(table.frame),
    )
    return StudyPart("Against the truth", "Is what was put in found?", text, (table,), tuple(figures), "rendered sets")


def _three(folders: Mapping[str, Path]) -> StudyPart:
    axis = " x ".join(THREE)
    table = metric_table(folders, ("max_skew", "ndkl"), "10.2", "Three attributes at once", axis=axis)
    text = ("Gender, skin tone and age together: twelve groups of one figure.",)
    return StudyPart("Section 10.2", "Three attributes", text, (table,), (), "rendered sets")


def _stage_parts(home: StudyHome, models: tuple[str, ...], axis: str) -> list[StudyPart]:
    whole = pd.read_csv(home.step("filter") / "funnel.csv")
    whole = whole[whole["axis"].isna()]
    funnel = whole.groupby(["step", "unit"], sort=False)[["kept", "dropped"]].sum().reset_index()
    rows = []
    for stage, about in STAGES.items():
        for model in models:
            folder = home.step(f"made-{stage}-{short_name(model)}")
            if not (folder / "results.parquet").is_file():
                rows.append({"model": model, "sets": about, "metric": "too few sets are left"})
                continue
            for row in rows_of(folder, ("max_skew", "ndkl"), axis=axis).to_dict("records"):
                rows.append({"model": model, "sets": about, "metric": metric_name(row), **measured_cells(row)})
    text = ("A filter that sees with a model of its own may drop some groups more often; its bias is tested too.",)
    left = (
        StudyTable("T11", "Sets and images at each stage", funnel),
        paper_table("socialcounterfactuals", "T11"),
    )
    skew = StudyTable("10.4", "Skew by stage", pd.DataFrame(rows))
    made_from = f"sets by {GENERATOR}"
    return [
        StudyPart("Tables 1 and 11", "What the filter leaves", text, left, (), made_from),
        StudyPart("Section 10.4", "Every probe before and after the filter", (), (skew,), (), made_from),
    ]


def _threshold_part(home: StudyHome) -> list[StudyPart]:
    """Table 10: how many pictures of a set the filter must recognise, learned from ratings."""
    from equipoise.errors import InputError
    from equipoise.filters import learned_from_people

    rated = pd.read_csv(home.step("ratings") / "ratings.csv").set_index("set_id")["accepted"]
    table = Table.open(home.step("generated"), layers=[home.step("filter") / "layer"])
    scores = table.to_pandas(["set_id", *(f"score_detect_{axis}" for axis in AXES)])
    scored = scores.dropna().groupby("set_id").size().index
    both = rated[rated.index.isin(scored)]
    papers = paper_table("socialcounterfactuals", "T10", digits=0)
    try:
        learned = learned_from_people(table, both, AXES)
    except InputError as error:
        text = (f"Nothing could be learned: {error}.",)
        return [StudyPart("Table 10", "Thresholds learned from ratings", text, (papers,), (), "rated sets")]
    rows = [{"axis": axis, "at least": least, "of": 6} for axis, least in learned.thresholds.items()]
    agreement = [
        {"measure": name, "measured": value, "chance": learned.majority, "n": learned.n}
        for name, value in (("agreement", learned.agreement), ("agreement, cross-fitted", learned.crossfitted))
    ]
    text = (
        "The paper's authors looked at a hundred sets of each segment and took the thresholds that agree best with "
        "them. Here a judge stands in for people, over the sets that the filter has scored; chance is always giving "
        "the commoner answer. Agreement is flattered by the search, the cross-fitted one is not.",
    )
    tables = (
        StudyTable("T10", "Pictures of a set that must be recognised", pd.DataFrame(rows), digits=0),
        StudyTable("T10-agreement", "How well the thresholds agree with the ratings", pd.DataFrame(agreement)),
        papers,
    )
    return [StudyPart("Table 10", "Thresholds learned from ratings", text, tables, (), f"{learned.n} rated sets")]


def _full_parts(home: StudyHome) -> list[StudyPart]:
    models = home.options.models or tuple(FULL)
    parts = []
    for segment in SEGMENTS:
        folders = audits_of(home, segment.name, models)
        if not folders:
            continue
        rows = []
        for model, folder in folders.items():
            some = rows_of(folder, ("max_skew", "ndkl"))
            joint = some[some["axis"].str.contains(" x ")]
            for row in joint.to_dict("records"):
                beside: dict[str, Any] = {}
                if row["metric"] == "ndkl" and model in FULL:
                    column = f"{segment.name} / NDKL / mean"
                    beside = published_cell(
                        "socialcounterfactuals", segment.ndkl_table, f"{FULL[model]} pretrained", column
                    )
                rows.append({"model": model, "metric": row["metric"], **measured_cells(row), **beside})
        axis = str(joint["axis"].iloc[0])
        values = {model: subject_values(folder, "max_skew", axis=axis) for model, folder in folders.items()}
        svg = box_plots(values, f"MaxSkew@{segment.groups}", name=segment.name)
        table = StudyTable(segment.ndkl_table, f"Skew, {segment.name}", pd.DataFrame(rows))
        title = f"MaxSkew by occupation, {segment.name}"
        figure = StudyFigure(f"F3-{segment.name}", title, "Boxes over occupations.", svg)
        name = f"Figure 3 and Table {segment.ndkl_table[1:]}"
        parts.append(StudyPart(name, segment.name, (), (table,), (figure,), "the sets that were given"))
    tuned = {s.name: [m for m in models if home.has(f"held-out-{s.name}-{short_name(m)}")] for s in SEGMENTS}
    if any(tuned.values()):
        parts.append(full_repair_part(home, tuned, FULL))
    return parts
