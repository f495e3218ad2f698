"""What studies share: an audit of a model as a step, its rows as a table, a paper's table, truth beside measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from equipoise.audit import AuditConfig, run
from equipoise.audit.folders import short_name
from equipoise.data import Table, read_results
from equipoise.data.atomic import write_whole
from equipoise.data.published import doubt_sentence, published_numbers
from equipoise.data.results import RANDOM_RANKING
from equipoise.formatting import csv_text, joined
from equipoise.measure.stats import holm
from equipoise.measure.stats.correlation import pearson
from equipoise.recipes.studies.frame import StepCost, StudyHome, StudyStep
from equipoise.report.charts import scatter
from equipoise.report.findings import axis_name
from equipoise.report.study import StudyFigure, StudyTable, measured_cells

TableOf = Callable[[StudyHome], Table]


def audit_steps(
    models: Sequence[str],
    suite: str,
    table: TableOf,
    config: Mapping[str, Any],
    *,
    name: str = "",
    needs: tuple[str, ...] = (),
    about: str = "",
    missing: str = "",
    reads: tuple[str, ...] = (),
    **cost: Any,
) -> list[StudyStep]:
    """Each model under one suite over a table, as steps that go on where they stopped; ``cost`` is that of one."""

    def step(model: str) -> StudyStep:
        def work(home: StudyHome, out: Path) -> None:
            run(model, suite, table(home), out, config=AuditConfig().having(dict(config)), page=False)

        label = f"{name or suite}-{short_name(model)}"
        title = f"{model} under {suite}" + (f", {about}" if about else "")
        settings = {"model": model, "suite": suite, **config}
        return StudyStep(label, title, work, settings, needs, True, StepCost((model,), **cost), missing, reads)

    return [step(model) for model in models]


def audits_of(home: StudyHome, name: str, models: Sequence[str]) -> dict[str, Path]:
    """The folders of those audits of :func:`audit_steps` that are done, by model."""
    steps = {model: f"{name}-{short_name(model)}" for model in models}
    return {model: home.step(step) for model, step in steps.items() if home.has(step)}


def rows_of(folder: Path, metric: str | Sequence[str] = (), **keys: Any) -> pd.DataFrame:
    """The rows of a result folder over all subjects, with these keys; ``metric`` one or several, all unless given."""
    rows = read_results(folder / "results.parquet")
    wanted = [metric] if isinstance(metric, str) else list(metric)
    if wanted:
        rows = rows[rows["metric"].isin(wanted)]
    if "subject" not in keys:
        rows = rows[rows["subject"].isna()]
    for key, value in keys.items():
        rows = rows[rows[key] == value]
    return rows


def metric_name(row: Mapping[Any, Any]) -> str:
    """The metric of a row of results, with its K where it has one.

    >>> metric_name({"metric": "max_skew", "k": 12.0}), metric_name({"metric": "ndkl", "k": None})
    ('max_skew@12', 'ndkl')
    """
    return str(row["metric"]) + ("" if pd.isna(row["k"]) else f"@{int(row['k'])}")


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write a table as CSV, whole or not at all, and the folder that it is in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, csv_text(frame).encode())


def subject_values(folder: Path, metric: str, **keys: Any) -> pd.Series:
    """The value of a metric for each subject, by its name."""
    rows = read_results(folder / "results.parquet")
    rows = rows[(rows["metric"] == metric) & rows["subject"].notna()]
    for key, value in keys.items():
        rows = rows[rows[key] == value]
    return rows.set_index("subject")["value"].astype(float)


def paper_table(paper: str, table: str, title: str = "", *, rows: str = "", digits: int = 2) -> StudyTable:
    """A table of a paper as it is printed, for where nothing could be measured that belongs beside it.

    >>> paper_table("gensynth", "T2").title
    "The paper's Table 2"
    """
    numbers = published_numbers(paper).numbers
    some = numbers[numbers["table"] == table]
    if rows:
        some = some[some["row"].str.contains(rows, regex=True)]
    frame = pd.DataFrame({"row": some["row"], "column": some["column"], "published": some["value"]})
    frame = frame.assign(published_sd=some["sd"], doubt=[doubt_sentence(codes) for codes in some["doubt"]])
    called = title or f"The paper's Table {table.removeprefix('T')}"
    return StudyTable(f"{table}-published", called, frame.reset_index(drop=True), digits=digits)


def correlation_cells(x: ArrayLike, y: ArrayLike) -> dict[str, Any]:
    """Pearson's correlation as the cells of a table, empty where one side does not vary.

    >>> correlation_cells([1.0, 2, 3, 4], [1.0, 2, 2, 4])["measured"].__round__(3)
    0.923
    """
    correlation = pearson(x, y)
    if correlation is None:
        return {"measured": None, "low": None, "high": None, "chance": 0.0, "p": None, "n": len(np.asarray(x))}
    return measured_cells(correlation.row())


def recovered_part(
    folders: Mapping[str, Path], world: str, *, axes: Sequence[str] = ()
) -> tuple[StudyTable, list[StudyFigure]]:
    """How well gaps inside sets follow what was put into a world: a table of correlations and a figure of points."""
    from equipoise.report import read_given
    from equipoise.report.truth import read_truth, recovered

    known = read_truth(f"world:{world}")
    assert known is not None
    rows, points = [], []
    for name, folder in folders.items():
        for recovery in recovered(read_given({name: folder}).series[0], known):
            if axes and recovery.axis not in axes:
                continue
            cells = correlation_cells(recovery.table["injected"], recovery.table["measured"])
            rows.append({"model": name, "axis": recovery.axis, "pair": " - ".join(recovery.pair), **cells})
            some = recovery.table.assign(model=name, axis=recovery.axis, pair=" - ".join(recovery.pair))
            points.append(some.rename(columns={"injected": "x", "measured": "y", "subject": "label"}))
    table = StudyTable("truth", "Correlation of measured gaps with what was put in, over subjects", pd.DataFrame(rows))
    figures = []
    for axis, some in pd.concat(points, ignore_index=True).groupby("axis", sort=False) if points else ():
        first = some[some["pair"] == some["pair"].iloc[0]]
        svg = scatter(first, "log-odds put in", "gap inside sets", name=f"truth-{axis}", series="model")
        caption = (
            f"One point per subject and model ({', '.join(dict.fromkeys(first['model']))}); {first['pair'].iloc[0]}."
        )
        figures.append(StudyFigure(f"truth-{axis}", f"Put in and measured, {axis}", caption, svg, first))
    return table, figures


def followed(correlations: pd.DataFrame) -> list[str]:
    """Which models are shown to follow what was put in, in words: intervals above 0, and p below .05 after Holm.

    >>> cells = {"model": ["a", "b"], "axis": "gender", "low": [0.6, -0.2], "p": [0.001, 0.4]}
    >>> followed(pd.DataFrame(cells))
    ['Gaps follow what was put in: a on gender. Not shown to follow it: b on gender.']
    """
    tested = correlations[correlations["p"].notna()] if len(correlations) else correlations
    if tested.empty:
        return []
    clear = (tested["low"] > 0) & (holm(tested["p"].to_numpy(float)) < 0.05)
    sentences = []
    for words, rows in (("Gaps follow what was put in", tested[clear]), ("Not shown to follow it", tested[~clear])):
        named = [f"{row['model']} on {axis_name(str(row['axis']))}" for row in rows.to_dict("records")]
        if named:
            sentences.append(f"{words}: {joined(named)}.")
    return [" ".join(sentences)]


def metric_table(
    folders: Mapping[str, Path], metrics: Sequence[str], name: str, title: str, *, digits: int = 2, **keys: Any
) -> StudyTable:
    """Rows of several result folders under each other: model, what, K, pool, and the measured number."""
    rows = []
    for label, folder in folders.items():
        for row in rows_of(folder, metrics, **keys).to_dict("records"):
            model = RANDOM_RANKING if row["model"] == RANDOM_RANKING else label
            what = {"model": model, "metric": metric_name(row)}
            for column in ("axis", "group", "pool"):
                if not pd.isna(row[column]):
                    what[column] = row[column]
            rows.append({**what, **measured_cells(row)})
    frame = pd.DataFrame(rows).drop_duplicates()
    texts = [column for column in ("model", "metric", "axis", "group", "pool") if column in frame]
    texts = [column for column in texts if column in ("model", "metric") or frame[column].nunique(dropna=False) > 1]
    rest = [column for column in frame.columns if column not in ("model", "metric", "axis", "group", "pool")]
    return StudyTable(name, title, frame[texts + rest], digits=digits)
