"""What the study of LIC shows: its tables and figures from the folders that its steps left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.data import read_results
from equipoise.data.published import model_key, published_cell, published_numbers
from equipoise.measure.captions.lic import lic_chance
from equipoise.measure.stats import summarise
from equipoise.recipes.studies.common import paper_table
from equipoise.recipes.studies.frame import StudyHome
from equipoise.report.charts import box_plots, scatter
from equipoise.report.study import StudyFigure, StudyPart, StudyTable, measured_cells

NAMES = {"nic": "NIC", "sat": "SAT", "fc": "FC", "transformer": "Transformer", "nic_plus": "NIC+"}
NAMES |= {"att2in": "Att2in", "updn": "UpDn", "oscar": "OSCAR", "nic_equalizer": "NIC+Equalizer"}
ST10 = "nic_st10"
"""NIC decoded without a frequency threshold: the paper's Ratio and Error of NIC are of these captions."""
HUMAN_SPLITS = {"mini": 3, "full": 10}
"""Splits of the classifiers that read human captions; the kept scores are of the first three."""
PICTURES = 2400
MASKED = {"without-object": "object", "without-person": "person", "without-both": "both"}
"""What is blacked out of the world's pictures; of objects, the one that leans most (Table 2.4)."""
CROWN = {"lic": "LIC", "lic_m": "LIC_M", "ratio": "Ratio", "error": "Error", "ba": "BA"}


def parts_of(home: StudyHome) -> list[StudyPart]:
    """Everything that the study shows."""
    return _given_parts(home) if "captions" in home.options.given else _world_parts(home)


def _main(folder: Path, metric: str) -> pd.DataFrame:
    """The first row of each model: the default definition, over all images."""
    rows = read_results(folder / "results.parquet")
    rows = rows[(rows["metric"] == metric) & rows["group"].isna() & rows["subject"].isna() & rows["pool"].isna()]
    return rows.drop_duplicates("model")


def _row(model: str, metric: str, row: dict[Any, Any], table: str, column: str, scale: float = 1.0) -> dict[str, Any]:
    name = NAMES.get(model_key(model), model)
    known = published_numbers("lic").cell(table, name, column)
    beside = {} if known is None else published_cell("lic", table, name, column)
    return {"model": name, "metric": metric, **measured_cells(row, scale), **beside}


def _given_parts(home: StudyHome) -> list[StudyPart]:
    parts = []
    if home.has("screen-gender"):
        parts.append(_table_2_1(home))
    if home.has("lstm-gender"):
        parts.append(_lic_table(home, "gender", "T2.2", "Table 2.2", "gender / LIC_M / LSTM"))
    if home.has("lstm-human"):
        parts.append(_human_table(home))
    if home.has("lstm-skin"):
        parts.append(_lic_table(home, "skin", "T2.3", "Table 2.3", "race / LIC_M / LSTM"))
    if home.has("screen-gender"):
        parts += _figure_2_2(home.step("screen-gender"))
        parts += _figure_2_3(home)
    return parts


def _table_2_1(home: StudyHome) -> StudyPart:
    folder = home.step("screen-gender")
    rows = []
    by_lstm = {"lic_m": "lstm-gender", "lic": "lstm-human"}
    for metric, head in CROWN.items():
        place = by_lstm.get(metric, "screen-gender")
        if not home.has(place):
            continue
        scale = 1.0 if metric in ("lic", "lic_m", "ratio") else 100.0
        for row in _main(home.step(place), metric).to_dict("records"):
            model = str(row["model"])
            if metric in ("ratio", "error") and model in ("nic", ST10):
                if model == "nic":
                    continue  # the paper's are of the other captions
                row, model = {**row, "model": "nic"}, "nic"
            if model == ST10:
                continue
            line = _row(model, head, row, "T2.1", f"gender / {head}", scale)
            if metric == "ba" and "train" not in home.options.given:
                line |= {"published": None, "published_sd": None, "published_at": None, "doubt": None}
            rows.append(line)
    text = [
        "Ratio is of captions that name men alone to those that name women alone; Error the share, of all captions, "
        "whose one named gender contradicts the label. Those of NIC are of its captions decoded without a frequency "
        "threshold, from which the paper has them.",
    ]
    if "train" not in home.options.given:
        text.append(
            "BA stands without the paper's number: the paper counts 290 words that COCO's training captions choose, "
            "and these captions choose others. With --from train=captions_train2014.json it is comparable."
        )
    table = StudyTable("T2.1", "Gender bias of captioning models", pd.DataFrame(rows), digits=2)
    made_from = f"{int(read_results(folder / 'results.parquet')['n'].max()):,} captions per model"
    return StudyPart("Table 2.1", "Gender bias by five metrics", tuple(text), (table,), (), made_from)


def _lic_table(home: StudyHome, axis: str, table: str, name: str, column: str) -> StudyPart:
    rows = [
        {**_row(str(row["model"]), "LIC_M", row, table, column), "classifier": "LSTM"}
        for row in _main(home.step(f"lstm-{axis}"), "lic_m").to_dict("records")
    ]
    if home.has(f"screen-{axis}"):
        for row in _main(home.step(f"screen-{axis}"), "lic_m").to_dict("records"):
            model = str(row["model"])
            label = "NIC, no threshold" if model == ST10 else NAMES.get(model_key(model), model)
            rows.append({"model": label, "metric": "LIC_M", **measured_cells(row), "classifier": "linear screen"})
    frame = pd.DataFrame(rows)
    frame = frame[["model", "classifier", *[n for n in frame.columns if n not in ("model", "classifier", "metric")]]]
    text = (
        "The chance level of the LSTM is that of a blind guess, 25 points: training it on shuffled labels would take "
        "an hour per model. That of the screen is trained on shuffled labels, and lies above 25: a classifier that has "
        "learned nothing is not unsure of itself."
    )
    made_from = (
        "ten balanced splits, masked gender words" if axis == "gender" else "ten balanced splits, nothing masked"
    )
    return StudyPart(
        name, f"LIC_M by {axis}", (text,), (StudyTable(table, f"LIC_M, {axis}", frame, digits=1),), (), made_from
    )


def _human_table(home: StudyHome) -> StudyPart:
    rows = []
    for metric, head in (("lic_d", "LIC_D"), ("lic", "LIC")):
        for row in _main(home.step("lstm-human"), metric).to_dict("records"):
            rows.append(_row(str(row["model"]), head, row, "T2.2", f"gender / {head} / LSTM"))
    n = int(_main(home.step("lstm-human"), "lic")["n"].max())
    text = (
        f"On the {n:,} images whose human captions are given; the paper has them for all 10,780. A classifier that has "
        "fewer captions to learn from scores lower, so these are not the paper's numbers over again."
    )
    table = StudyTable("T2.2-human", "LIC_D and LIC on images with human captions", pd.DataFrame(rows), digits=1)
    made_from = f"{HUMAN_SPLITS[home.options.scale]} splits, five human captions each"
    return StudyPart("Table 2.2", "The human side", (text,), (table,), (), made_from)


def _figure_2_3(home: StudyHome) -> list[StudyPart]:
    path = home.step("screen-gender") / "lic_vs_quality.csv"
    if not path.is_file():
        return []
    points = pd.read_csv(path)
    y = "lic" if "lic" in points else "lic_m"
    figures = []
    for x, say in (("vocabulary", "words in the vocabulary"), ("bleu_4", "BLEU-4")):
        if x in points:
            some = points.rename(columns={"model": "label"}).assign(x=points[x], y=points[y])
            svg = scatter(some, say, y.upper(), name=x)
            figures.append(StudyFigure(f"F2.3-{x}", f"{y.upper()} against {say}", "One point per model.", svg, points))
    return [StudyPart("Figure 2.3", "Do richer or better captions amplify more?", (), (), tuple(figures), "the screen")]


def _world_parts(home: StudyHome) -> list[StudyPart]:
    folder = home.step("audit")
    rows = []
    for metric, head in {**CROWN, "lic_d": "LIC_D", "bleu_4": "BLEU-4", "cider": "CIDEr"}.items():
        scale = 1.0 if metric.startswith("lic") or metric == "ratio" else 100.0
        records = _main(folder, metric).to_dict("records")
        rows += [{"captions": row["model"], "metric": head, **measured_cells(row, scale)} for row in records]
    text = (
        "Clear pictures show who is in them; of grainy ones the captioner has to guess. Error counts wrong guesses. "
        "LIC asks what the other words of a caption give away, which may well be less when captions get vaguer."
    )
    main = StudyTable("T2.1", "Bias and quality of the captions", pd.DataFrame(rows))
    parts = [
        StudyPart("Table 2.1", "Bias by five metrics, in miniature", (text,), (main,), (), f"{PICTURES:,} pictures")
    ]
    results = read_results(folder / "results.parquet")
    whole = _main(folder, "lic_m")
    rows = [{"images": "original", "metric": "LIC_M", **measured_cells(row)} for row in whole.to_dict("records")[:1]]
    for name in MASKED:
        some = results[(results["pool"] == name) & results["metric"].isin(["lic_m", "lic_m_change"])]
        for row in some.to_dict("records"):
            metric = "LIC_M" if row["metric"] == "lic_m" else "change"
            rows.append({"images": name.replace("-", " "), "metric": metric, **measured_cells(row)})
    text = (
        "With the person blacked out, what is left in the captions comes from the surroundings; of the objects the "
        "one is blacked out that leans most, as in the paper. In this world occupations lean and objects do not, so "
        "that an object should change nothing. Not every picture has an object: the change is measured on those that "
        "do."
    )
    table = StudyTable("T2.4", "LIC_M on masked images", pd.DataFrame(rows), digits=1)
    paper = paper_table("lic", "T2.4", digits=1)
    parts.append(StudyPart("Table 2.4", "Where does it come from?", (text,), (table, paper), (), "masked pictures"))
    return [*parts, *_figure_2_2(folder)]


def _figure_2_2(folder: Path) -> list[StudyPart]:
    """Bias scores of single captions, by model and group: how sure the classifier was of the right group."""
    scores = pd.read_csv(folder / "captions.csv")
    scores = scores[scores["score"].notna()]
    if scores.empty:
        return []
    of = ", ".join(sorted(scores["classifier"].unique()))
    guess = lic_chance(scores["group"].nunique())
    rows, boxes = [], {}
    for (model, group), some in scores.groupby(["model", "group"], sort=True):
        mean = summarise(some["score"].to_numpy(float))
        label = f"{NAMES.get(model_key(str(model)), str(model))}, {group}"
        rows.append({"model": model, "group": group, **measured_cells(mean.row(metric="bias_score")), "chance": guess})
        boxes[label] = some.set_index("image_id")["score"]
    text = (
        f"Each caption's bias score: how sure a classifier ({of}) that was trained on other captions is of the right "
        f"group, 0 where it takes another one; a blind guess gives {guess:.2f}. Captions of one group may give it away "
        "more than another's. Whether they give away anything is not tested here: a classifier that has learnt nothing "
        "and is sure of itself scores more than a blind guess, and one that prefers a group more for that group.",
    )
    svg = box_plots(boxes, "bias score", chance=dict.fromkeys(boxes, guess), name="f2-2", named=0)
    figure = StudyFigure("F2.2", "Bias scores by model and group", "Boxes over captions.", svg)
    table = StudyTable("F2.2", "Mean bias score by model and group", pd.DataFrame(rows))
    return [
        StudyPart("Figure 2.2", "Which captions give their group away", text, (table,), (figure,), "single captions")
    ]
