"""GABInsight as a study: does a model know who does what, or does it guess by stereotype?

Scenes of one or two people; the expected or the unexpected gender performs the activity. A caption is set against the
one with the genders exchanged (image to text), and two pictures against each other under one caption (text to image).
On the pictogram world the expectation was put into the captions that the miniature learned from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.data import Table, read_results
from equipoise.data.published import models_of, published_cell, published_numbers
from equipoise.recipes.studies.common import (
    audit_steps,
    audits_of,
    correlation_cells,
    metric_name,
    metric_table,
    paper_table,
    rows_of,
    subject_values,
)
from equipoise.recipes.studies.frame import Covered, StepCost, Study, StudyHome, StudyOptions, StudyStep, outside_step
from equipoise.report.charts import box_plots, grouped_bars, scatter
from equipoise.report.study import StudyFigure, StudyPart, StudyTable, measured_cells

WORLD = "binding"
SIZES = {"sets": 40}
"""Scenes of each activity, each in the four cells."""
FULL = models_of("gabinsight")
CATEGORIES = {"T5": "stereotypical", "T6": "everyday", "T7": "LAION-400M"}
SCENARIOS = {"E2": "expected acts, both there", "U2": "unexpected acts, both there", "U1": "unexpected acts alone"}
SCENARIOS |= {"E1": "expected acts alone"}
RECOGNITION = {"activity_mrr": "MRR", "activity_recall@1": "Recall@1", "activity_recall@3": "Recall@3"}


def _mini_models() -> tuple[str, ...]:
    """The biased miniature and its fair twin; the one with a known binding bias where it is there."""
    from equipoise.models.miniatures import FOLDER

    own = ("mini:clip-binding",) if (FOLDER / "clip-binding").is_dir() else ()
    return (*own, "mini:clip", "mini:clip-fair")


def _steps(options: StudyOptions) -> list[StudyStep]:
    if options.scale == "full":
        return _full(options)
    models = options.models or _mini_models()
    settings = {**SIZES, "seed": options.seed, "world": WORLD, "given": options.given.get("scenes")}
    scenes = StudyStep(
        "scenes",
        f"Scenes of who does what, of the world {WORLD}",
        _draw,
        settings,
        resumes=False,
        cost=StepCost(images=SIZES["sets"] * 4 * 12, cpu_minutes=0.8, disk_gb=0.02),
    )
    first = [] if "scenes" in options.given else [scenes]
    needs = () if "scenes" in options.given else ("scenes",)
    about: dict[str, Any] = {"needs": needs, "images": SIZES["sets"] * 48, "cpu_minutes": 0.6, "reads": ("scenes",)}
    return first + audit_steps(models, "binding", _scenes, {"seed": options.seed}, **about)


def _full(options: StudyOptions) -> list[StudyStep]:
    models = options.models or tuple(FULL)
    need = (
        ""
        if "scenes" in options.given
        else ("a table of GAB's images is needed (equipoise generate scenes makes one): --from scenes=TABLE")
    )
    data = ("GAB: 5,757 images of 37 activities",)
    steps = []
    if need:
        made_by = ("api: an image service such as DALL-E 3", "a chat model for the prompts")
        cost: dict[str, Any] = {"models": made_by, "data": data, "images": 5757, "disk_gb": 9}
        steps.append(outside_step("scenes", "Scenes by an image service, filtered", need, **cost))
    for model in models:
        large = any(word in model for word in ("g-14", "L-14", "RN50x64", "large", "flava", "Alt"))
        about: dict[str, Any] = {
            "gpu_hours": 0.15 if large else 0.04,
            "disk_gb": 4.0 if large else 1.0,
            "missing": need,
        }
        about |= {"data": data, "images": 5757, "reads": ("scenes",)}
        steps += audit_steps([model], "binding", _scenes, {"seed": options.seed}, **about)
    return steps


def _draw(home: StudyHome, out: Path) -> None:
    from equipoise.world import preset
    from equipoise.world.tables import write_binding_table

    write_binding_table(out, preset(WORLD), SIZES["sets"], seed=home.options.seed)


def _scenes(home: StudyHome) -> Table:
    return Table.open(home.options.given.get("scenes") or home.step("scenes"))


def _parts(home: StudyHome) -> list[StudyPart]:
    models = home.options.models or (tuple(FULL) if home.options.scale == "full" else _mini_models())
    folders = audits_of(home, "binding", models)
    parts = [_figure_2(folders), _figure_3(folders), _table_1(folders), *_recognition(folders)]
    if home.options.scale == "mini" and "scenes" not in home.options.given:
        parts.append(_truth(folders))
    return parts


def _figure_2(folders: dict[str, Path]) -> StudyPart:
    """Accuracy by scenario, and the two drops."""
    rows, boxes = [], {}
    for model, folder in folders.items():
        accuracy = rows_of(folder, "binding_accuracy", variant="two_person")
        alone = rows_of(folder, "binding_accuracy", variant="one_person")
        accuracy = pd.concat([accuracy, alone[alone["group"].isin(["U1", "E1"])]])
        accuracy = accuracy.drop_duplicates("group")
        for row in accuracy.to_dict("records"):
            rows.append(
                {"model": model, "scenario": row["group"], "what": SCENARIOS[row["group"]], **measured_cells(row)}
            )
        for metric, variant in (("binding_drop", "two_person"), ("presence_drop", "matching")):
            for row in rows_of(folder, metric, variant=variant).to_dict("records"):
                rows.append(
                    {"model": model, "scenario": metric.replace("_", " "), "what": DROPS[metric], **measured_cells(row)}
                )
        boxes[model] = subject_values(folder, "binding_drop", variant="two_person")
        boxes[model] = boxes[model][~boxes[model].index.str.startswith("category: ")]
    frame = pd.DataFrame(rows)
    shown = frame[frame["scenario"].isin(list(SCENARIOS))]
    bars = shown.rename(columns={"scenario": "group", "model": "series", "measured": "value"})
    columns = ["group", "series", "value", "low", "high"]
    svg = grouped_bars(bars[columns], "accuracy", chance=0.5, name="f2", percent=True)
    accuracies = StudyFigure("F2", "Which caption fits", "Chance is one half.", svg, bars)
    what, none = "binding drop, acc(E2) - acc(U2), by activity", dict.fromkeys(boxes, 0.0)
    caption = "Boxes over activities, extremes named; the tick is no drop."
    svg = box_plots(boxes, what, chance=none, name="f2-drops")
    drops = StudyFigure("F2-drops", "The binding drop over activities", caption, svg)
    numbers = published_numbers("gabinsight").numbers
    printed = numbers[numbers["table"].isin(["1", "5.2.1"]) & (numbers["unit"] == "percent")]
    text = (
        "Printed in the paper, over its twelve models: "
        + "; ".join(f"{row.row}, {row.column}: {row.value:g}%" for row in printed.itertuples())
        + ". Its bars have no printed values.",
    )
    table = StudyTable("F2", "Accuracy by scenario", frame)
    figures = (accuracies, drops)
    return StudyPart("Figures 2, 5 and 6", "Image to text, by scenario", text, (table,), figures, "the suite binding")


DROPS = {
    "binding_drop": "accuracy lost when the unexpected gender acts, both there",
    "presence_drop": "accuracy lost when the expected gender comes into the scene",
}


def _figure_3(folders: dict[str, Path]) -> StudyPart:
    table = metric_table(
        folders, ("text_to_image", "neutral_preference"), "F3", "Which picture fits the caption", variant="all_pairs"
    )
    text = ("All pairs of pictures of an activity, ties counted half; chance is one half.",)
    return StudyPart(
        "Figures 3, 4, 7 and 8", "Text to image, and neutral captions", text, (table,), (), "the suite binding"
    )


def _table_1(folders: dict[str, Path]) -> StudyPart:
    rows = []
    for model, folder in folders.items():
        for row in rows_of(folder, "text_encoder_bias", variant="equipoise").to_dict("records"):
            rows.append({"model": model, "activities": "all", **measured_cells(row)})
        some = read_results(folder / "results.parquet")
        some = some[
            (some["metric"] == "text_encoder_bias") & (some["variant"] == "equipoise") & some["subject"].notna()
        ]
        for row in some.to_dict("records"):
            category = str(row["subject"]).removeprefix("category: ")
            beside: dict[str, Any] = {}
            if model in FULL and category in CATEGORIES.values():
                beside = published_cell("gabinsight", "T1", FULL[model], category)
            rows.append({"model": model, "activities": category, **measured_cells(row), **beside})
    title = "Share of activities whose neutral sentence is nearer to the expected gender"
    tables = [StudyTable("T1", title, pd.DataFrame(rows))]
    if not any(model in FULL for model in folders):
        tables.append(paper_table("gabinsight", "T1"))
    return StudyPart("Table 1", "The text encoder alone", (), tuple(tables), (), "texts alone")


def _recognition(folders: dict[str, Path]) -> list[StudyPart]:
    rows = []
    for model, folder in folders.items():
        some = rows_of(folder, ("activity_mrr", "activity_recall"))
        some = some[some["group"].isin(["one person", "two people"])]
        for row in some.to_dict("records"):
            what = {"model": model, "shown": row["group"], "metric": RECOGNITION[metric_name(row)]}
            rows.append({**what, **measured_cells(row)})
    if not rows:
        return []
    table = StudyTable("T5-7", "Activity among near ones", pd.DataFrame(rows), digits=3)
    text = ("One person: E1 and U1 together; two people: E2 and U2 together, as in the paper.",)
    return [StudyPart("Tables 5 to 7", "Recognising the activity", text, (table,), (), "the suite binding")]


def _truth(folders: dict[str, Path]) -> StudyPart:
    """Per activity: how much the model favours the expected performer, beside the log-odds that were put in."""
    from equipoise.world import preset, truth

    known = truth(preset(WORLD))
    known = known[(known["axis"] == "gender") & (known["kind"] == "binding")]
    put_in = known[known["group"] == "female"].set_index("subject")["log_odds"]
    rows, points = [], []
    for model, folder in folders.items():
        lean = _lean(folder, put_in)
        both = pd.DataFrame({"x": put_in, "y": lean}).dropna()
        cells = correlation_cells(both["x"], both["y"])
        if cells["measured"] is None:
            continue
        rows.append({"model": model, **cells})
        points.append(both.rename_axis("label").reset_index().assign(model=model))
    title = "Correlation over activities of what was put in with what is measured"
    table = StudyTable("truth", title, pd.DataFrame(rows))
    figures: tuple[StudyFigure, ...] = ()
    if points:
        every = pd.concat(points, ignore_index=True)
        x, y = "log-odds of a woman, put in", "lean to the caption that says woman"
        svg = scatter(every, x, y, name="truth", series="model")
        caption = f"One point per activity and model ({', '.join(folders)})."
        figures = (StudyFigure("truth", "Put in and measured", caption, svg, every),)
    text = (
        "In two-person scenes that show each gender performing equally often: how much more often the caption with a "
        "woman performing is chosen. ",
    )
    return StudyPart(
        "Against the truth", "Does the lean follow what was put in?", text, (table,), figures, "two-person scenes"
    )


def _lean(folder: Path, put_in: pd.Series) -> pd.Series:
    """By activity, the share of two-person scenes captioned as a woman performing, less one half.

    An activity expected of women is captioned so in all of E2 that is right and in all of U2 that is wrong.
    """
    accuracy = {g: subject_values(folder, "binding_accuracy", variant="two_person", group=g) for g in ("E2", "U2")}
    both = pd.DataFrame(accuracy).dropna()
    toward_expected = (both["E2"] + (1 - both["U2"])) / 2 - 0.5
    expects_woman = put_in.reindex(both.index) > 0
    return toward_expected.where(expects_woman, -toward_expected)


COVERS = (
    Covered("F2, F5, F6", "accuracy by scenario and category, drops", "scenes of who does what (suite binding)"),
    Covered("F3, F4, F7, F8", "text to image, neutral captions", "scenes of who does what (suite binding)"),
    Covered("T1", "the text encoder alone", "texts (suite binding)"),
    Covered("T5 to T7", "activities among near ones", "scenes; the near activities are our own, 17.7 on average"),
    Covered("T2 to T4", "counts of images by activity", "published numbers; equipoise table info of GAB's images"),
    Covered("F2 to F8: bars", "values of the bars", why_not="the paper prints averages in the text only"),
    Covered(
        "4.3",
        "FID, SSIM, LPIPS of the images",
        why_not="needs GAB's images: equipoise filter quality",
    ),
)

STUDY = Study(
    name="gabinsight",
    title="GABInsight: who does what?",
    citation="Abdollahi et al., GABInsight: Exploring Gender-Activity Binding Bias in Vision-Language Models, arXiv "
    "2407.21001",
    question="Does a model know who performs an activity, or does it take the expected gender for the performer?",
    covers=COVERS,
    steps=_steps,
    parts=_parts,
    takes={"scenes": "a table of scenes: activity, gender, cell, caption, reversed_caption"},
    limits=(
        "'Expected' is a stereotype as language models have it, and says nothing about who should or does do a thing.",
        "The benchmark knows two perceived genders.",
        "The world's figures are signs; numbers over them say nothing about photographs.",
    ),
)
