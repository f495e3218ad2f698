"""What the study of GenSynth shows: its tables and figures from the folders that its steps left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.audit.captions import known_captions
from equipoise.data import Table
from equipoise.data.published import models_of, published_cell
from equipoise.data.results import RANDOM_RANKING
from equipoise.errors import InputError
from equipoise.recipes.studies.common import (
    audits_of,
    followed,
    metric_table,
    paper_table,
    recovered_part,
    rows_of,
)
from equipoise.recipes.studies.frame import StudyHome, StudyOptions
from equipoise.recipes.train_mini.batches import unseen
from equipoise.report.charts import grouped_bars, scatter
from equipoise.report.study import StudyFigure, StudyPart, StudyTable, measured_cells

SIZES = {"pool": 800, "sources": 110, "even": 280, "seeds": 5}
"""How many pictures the mini study draws, how many it edits, how many of a world that does not lean, and how many
balanced pools it draws."""
DRAWN = ("pool", "sources", "probes", "even")
MINI = ("mini:clip", "mini:clip-fair")
FULL = tuple(models_of("gensynth"))
SEES = {"mini": "mini:clip-fair", "full": "hf:openai/clip-vit-base-patch32"}
BASELINES = {"tfidf": "TF-IDF", RANDOM_RANKING: "Random"}
COLUMNS = {("bias_at_k", 5): "Bias@5", ("bias_at_k", 10): "Bias@10"}
COLUMNS |= {("max_skew", 25): "MaxSkew@25", ("max_skew", 100): "MaxSkew@100"}


def pool_of(home: StudyHome) -> Table:
    """The natural pool: the one that was given, or the one that was drawn."""
    return Table.open(home.options.given.get("val") or home.step("pool") / "images")


def sources_of(home: StudyHome) -> Table:
    """The pictures that are edited."""
    return Table.open(home.options.given.get("sources") or home.step("sources"))


def drawn_seed(options: StudyOptions, what: str) -> int:
    """The seed of the world for what the mini study draws, each of another one."""
    return unseen(options.seed + DRAWN.index(what))


def draw_pictures(home: StudyHome, out: Path, what: str, n: int, world: str = "biased") -> None:
    """Draw ``n`` pictures of people at work, with the seed of ``what``."""
    from equipoise.world import preset
    from equipoise.world.tables import write_table

    config = preset(world).changed(activity_share=0.0, visible=1.0)
    write_table(out, config, n, seed=drawn_seed(home.options, what))


def captioned(table: Table, *further: str) -> pd.DataFrame:
    """``image_id``, ``captions`` and ``further`` columns; captions name genders where the table has both kinds."""
    names = [name for name in ("gendered_captions", "captions", "caption") if name in table.columns]
    if not names:
        raise InputError(f"{table.path}: a pool with captions is needed, and it has no column captions or caption")
    named = names[:1] if names[0] == "gendered_captions" else names
    frame = table.to_pandas(["image_id", *further, *named]).rename(columns={"gendered_captions": "captions"})
    return frame.assign(captions=pd.Series(known_captions(frame), frame.index))[["image_id", *further, "captions"]]


def parts_of(home: StudyHome) -> list[StudyPart]:
    """Everything that the study shows."""
    parts = []
    if home.has("baselines"):
        parts.append(_table_1_baselines(home))
    models = home.options.models or (*MINI, *FULL)
    natural, edited, gaps = (audits_of(home, name, models) for name in ("natural", "contrast", "gaps"))
    if natural:
        parts.append(_table_1_models(natural, home))
    if edited:
        parts.append(_table_2(edited))
    if home.has("filter"):
        parts += _filter_parts(home)
    if home.has("clusters"):
        parts.append(_clusters(home))
    if gaps:
        parts.append(_truth(gaps))
    return parts


def _table_1_baselines(home: StudyHome) -> StudyPart:
    rows = []
    published = False
    for row in rows_of(home.step("baselines"), ("bias_at_k", "max_skew")).to_dict("records"):
        column = COLUMNS[row["metric"], int(row["k"])]
        beside: dict[str, Any] = {}
        if not pd.isna(row["published"]):
            beside = published_cell("gensynth", "T1", BASELINES[row["model"]], f"{row['pool']} / {column}")
            published = True
        rows.append(
            {"ranker": BASELINES[row["model"]], "pool": row["pool"], "metric": column, **measured_cells(row), **beside}
        )
    text = [
        "TF-IDF reads captions without a gender word, so it cannot prefer anybody: what it shows is in the pictures. "
        "Its chance level deals the labels of the images anew.",
    ]
    if published:
        text.append(
            "The paper's random rows are one draw of vectors that served all queries, so they scatter more than "
            "independent rankings do."
        )
    else:
        text.append("These captions are not COCO's, so the paper's numbers do not belong beside them.")
    table = StudyTable("T1-baselines", "Rankers that cannot see gender", pd.DataFrame(rows))
    return StudyPart("Table 1", "What the pictures alone give", tuple(text), (table,), (), "captions")


def _table_1_models(folders: dict[str, Path], home: StudyHome) -> StudyPart:
    table = metric_table(folders, ("bias_at_k", "max_skew", "recall_at_k"), "T1", "Models over the pool")
    frame = table.frame
    if home.options.scale == "full":
        beside = [_beside_clip(row) for row in frame.to_dict("records")]
        frame = pd.concat([frame, pd.DataFrame(beside, index=frame.index)], axis=1)
        table = StudyTable(table.name, table.title, frame)
    bars = frame[frame["metric"].isin(["max_skew@25"])]
    called = {"pool": "group", "model": "series", "measured": "value"}
    shown = bars.rename(columns=called)[["group", "series", "value", "low", "high"]]
    figure = grouped_bars(shown, "MaxSkew@25", name="t1")
    by_pool = StudyFigure("T1", "MaxSkew@25 by pool", "Bars with 95% intervals.", figure, bars)
    text = ("In the natural pool Bias@K of chance is the pool's own lean; in the balanced one it is none.",)
    tables = [table]
    if home.options.scale != "full":
        tables.append(paper_table("gensynth", "T1", "The paper's rows", rows="CLIP"))
    return StudyPart("Table 1", "What models add", text, tuple(tables), (by_pool,), "the suite natural")


def _beside_clip(row: dict[Any, Any]) -> dict[str, Any]:
    """The paper's CLIP row, for the model that it is of."""
    metric, _, k = str(row["metric"]).partition("@")
    column = COLUMNS.get((metric, int(k or 0)))
    if row["model"] != FULL[0] or column is None:
        return {"published": None}
    return published_cell("gensynth", "T1", "CLIP", f"{row['pool']} / {column}")


def _table_2(folders: dict[str, Path]) -> StudyPart:
    table = metric_table(folders, ("max_skew", "bias_at_k"), "T2", "Natural, balanced and edited pools")
    text = (
        "Edits of one picture differ in the person alone: what is left in the edited pool is the model. The random "
        "ranking is no model: it is what ranking the same pool blindly gives, exactly.",
    )
    tables = (table, paper_table("gensynth", "T2"))
    return StudyPart("Tables 2 and 8", "The model apart from the pictures", text, tables, (), "the suite contrast")


def _filter_parts(home: StudyHome) -> list[StudyPart]:
    from equipoise.generate import check_pool
    from equipoise.models import load

    encoder = load(SEES["mini"], kind="encoder")
    pairs = Table.open(home.step("pairs"), layers=[home.step("filter") / "layer"])
    sources, edits, reference = sources_of(home), Table.open(home.step("edits")), pool_of(home)
    kept = Table.open(home.step("pairs"), layers=[home.step("filter") / "layer", "edits-only"])
    prompts = {"female": "a woman", "male": "a man"}
    rows = []
    pools = (
        ("original", sources, False),
        ("GenSwap", Table.open(home.step("swaps")), False),
        ("unfiltered", edits, False),
        ("filtered", kept, True),
    )
    for name, images, only in pools:
        check = check_pool(images, sources, reference, encoder, only_kept=only, prompts=prompts, pool=name)
        found = [("zero-shot gender", check.accuracy, *check.accuracy_interval, check.chance, check.n)]
        for k, recall in check.recall.items():
            found.append((f"R@{k}", recall, *check.recall_interval[k], check.recall_chance[k], check.n_captions))
        for metric, *shares, n in found:
            points = zip(("measured", "low", "high", "chance"), (100 * share for share in shares), strict=True)
            rows.append({"pool": name, "metric": metric, **dict(points), "n": n})
    table = StudyTable("T7", "Do edits show what was asked, and what the caption says?", pd.DataFrame(rows), digits=1)
    deciles = pd.read_csv(home.step("filter") / "knn_deciles.csv")
    counts = deciles.groupby(["decile", "chosen"]).size().unstack(fill_value=0).reset_index()
    pairs_in = counts.melt("decile", var_name="chosen", value_name="value")
    bars = pd.DataFrame(
        {
            "group": [f"{(d - 1) / 10:.1f} to {d / 10:.1f}" for d in pairs_in["decile"]],
            "series": ["chosen pairs" if chosen else "candidate pairs" for chosen in pairs_in["chosen"]],
            "value": pairs_in["value"],
        }
    )
    caption = "P_R, the share of real pictures among the neighbours, averaged over a pair."
    figure = StudyFigure("F4", "Pairs by how real they look", caption, grouped_bars(bars, "pairs", name="f4"), bars)
    n_edits = int((pairs.to_pandas(["source_id"])["source_id"].notna()).sum())
    text = (
        f"{n_edits:,} edits; the filter sees with {SEES['mini']}, as the accuracy here does. The miniature edits whole "
        "pictures, which is the paper's ablation: it was trained on these, and not on cut-out persons.",
    )
    tables = (table, paper_table("gensynth", "T7", digits=1))
    return [
        StudyPart("Table 7", "Quality of the edits", text, tables, (), "edits before and after the filter"),
        StudyPart("Figure 4", "Realness of pairs", (), (), (figure,), "the neighbours of each edit"),
    ]


def _clusters(home: StudyHome) -> StudyPart:
    """Table 5 and Figure 2: clusters of captions, and by how much each group is over-represented in them."""
    folder = home.step("clusters")
    table = pd.read_csv(folder / "clusters_gender.csv")
    some = table[table["group"] == "male"] if "male" in set(table["group"]) else table
    cells = {"measured": 100 * some["excess"], "p": some["p_value"], "n": some["n"]}
    frame = pd.DataFrame({"cluster": some["cluster"], "words": some["distinctive_words"], **cells})
    frame = frame.sort_values("measured", ascending=False, ignore_index=True).assign(chance=0.0)
    points = pd.read_csv(folder / "map_gender.csv").sort_values("group", kind="stable", ignore_index=True)
    svg = scatter(points.assign(label=points["image_id"]), "", "", name="f2", series="group", line=False)
    colours = ("blue", "orange", "green", "purple")
    shown = ", ".join(f"{name} {colour}" for name, colour in zip(sorted(set(points["group"])), colours, strict=False))
    text = (
        "Delta M: how many points more of a cluster's images show a man than of all images. Vectors of captions "
        "without words for a gender, averaged over an image's captions, K-means; the words set a cluster apart. The "
        "map is t-SNE of the same vectors: distances between clusters mean nothing.",
    )
    tables = [StudyTable("T5", "Clusters of captions", frame, digits=1)]
    if home.options.scale != "full":
        tables.append(paper_table("gensynth", "T5", digits=1))
    figure = StudyFigure("F2", "Captions of the pool", f"One dot per image: {shown}.", svg, points)
    return StudyPart("Table 5 and Figure 2", "Who is in which captions", text, tuple(tables), (figure,), "the pool")


def _truth(folders: dict[str, Path]) -> StudyPart:
    table, figures = recovered_part(folders, "biased", axes=("gender",))
    text = (
        "Of every edited pair: how much higher a neutral prompt of its occupation scores the feminine edit. The world "
        "that mini:clip learned from leaned by known log-odds; its fair twin's did not. The pictures that are edited "
        "here do not lean, and a judge that made none of them finds both genders in every pair. Both were decided "
        "after it was seen, on another seed, that edits into the other gender are a little worse, so that in pictures "
        "that lean the fair twin seems to lean with them.",
        *followed(table.frame),
    )
    return StudyPart("Against the truth", "Gaps inside edited pairs", text, (table,), tuple(figures), "the edits")
