"""Results of captioning models as text: bias on the left, quality on the right, best and worst marked.

The shape of the table in the LIC paper (CVPR 2022): one line per model, its intervals below it, and below that what was
published, where it is asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from equipoise.audit.captions.inputs import CaptionInputs
from equipoise.audit.captions.lic import SEEDS
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.data.published import PublishedValues
from equipoise.formatting import brackets, plain, text_table
from equipoise.measure import METRICS
from equipoise.measure.captions.lic import lic_chance

BIAS = ("lic", "lic_m", "lic_d", "ratio", "error", "neutral_rate", "ba", "dba_g", "dba_o")
QUALITY = ("bleu_4", "cider", "meteor", "meteor_approximate", "spice", "clip_score", "ref_clip_score")


def planned_captions(inputs: CaptionInputs, settings: CaptionSettings, encoder: str = "") -> str:
    """What a run over captions would measure, in lines for a person; nothing is trained or loaded."""
    ids = {name for model in inputs.models for name in model.captions}
    sizes = Counter(inputs.labels[name] for name in ids)
    lines = [f"{inputs.axis}: " + ", ".join(f"{group} {sizes[group]:,} images" for group in inputs.groups)]
    lines += [f"{model.name}: {len(model.captions):,} captions" for model in inputs.models]
    if inputs.references is not None:
        lines.append(f"human captions of {len(ids & set(inputs.references)):,} of {len(ids):,} images")
    how = f"{settings.folds} folds" if settings.folds else f"{settings.seeds or len(SEEDS)} splits"
    lines.append(f"LIC by the classifier {settings.classifier}, over {how} of each model's captions")
    if encoder:
        lines.append(f"{encoder} would be asked about {len(ids):,} images and their captions, for CLIPScore")
    return "\n".join([*lines, *inputs.dropped.told(), "nothing was trained or loaded"])


def caption_table(results: pd.DataFrame, *, published: PublishedValues | None = None) -> str:
    """The table of all models; ``results`` is a results table of :func:`equipoise.audit.captions.run.audit_captions`.

    ``*`` marks the best model of a column and ``!`` the worst, by value alone: whether two models differ is for the
    intervals to say.
    """
    rows = _main_rows(results)
    models = list(dict.fromkeys(rows["model"]))
    sides = [[name for name in side if (rows["metric"] == name).any()] for side in (BIAS, QUALITY)]
    if "meteor" in sides[1] and "meteor_approximate" in sides[1]:
        sides[1].remove("meteor_approximate")  # the real one takes its place; both are in the results
    columns = [name for side in sides for name in side]
    cells = {(row["model"], row["metric"]): row for row in rows.to_dict("records")}
    marks = _marks(cells, models, columns)
    lines = [["model", *(METRICS.find(name).column for name in columns)]]
    for model in models:
        lines.append(
            [model, *(_value(cells.get((model, name)), name, marks.get((model, name), " ")) for name in columns)]
        )
        lines.append(["", *(_interval(cells.get((model, name)), name) for name in columns)])
        if published is not None and any(published.of(model, name) for name in columns):
            lines.append(["  published", *(_published(published.of(model, name), name) for name in columns)])
    lines.append(["by chance", *(_chance(cells, models, name) for name in columns)])
    return _laid_out(lines, len(sides[0]) if sides[1] else 0)


def masked_table(results: pd.DataFrame) -> str:
    """LIC_M on original and masked images, and its differences to the original and to the unbiased level (100 / G²)."""
    rows = results[results["metric"].isin(["lic_m", "lic_m_change"]) & results["group"].isna()]
    masked = rows[rows["pool"].notna()]
    if masked.empty:
        return ""
    lines = [["model", "images", "LIC_M", "to original", "to unbiased"]]
    for model in dict.fromkeys(masked["model"]):
        some = rows[rows["model"] == model]
        pools: Sequence[Any] = [None, *dict.fromkeys(some["pool"].dropna())]
        for pool in pools:
            here = some[some["pool"].isna() if pool is None else some["pool"] == pool]
            by_metric = {row["metric"]: row for row in here.to_dict("records")}
            level = by_metric.get("lic_m")
            if level is None:
                continue
            change = by_metric.get("lic_m_change")
            lines.append(
                [
                    model if pool is None else "",
                    pool or "original",
                    f"{level['value']:.1f}{_brackets(level)}",
                    "" if change is None else f"{change['value']:+.1f}{_brackets(change, sign=True)}",
                    f"{level['value'] - 100 * lic_chance(int(level['n_groups'])):+.1f}",
                ]
            )
    return "\n".join(text_table(lines, (0, 1)))


def _main_rows(results: pd.DataFrame) -> pd.DataFrame:
    """The rows of whole models on the original images, the first variant of each metric."""
    main = results[results["group"].isna() & results["subject"].isna() & results["pool"].isna()]
    return main[main["metric"].isin([*BIAS, *QUALITY])].drop_duplicates(["model", "metric"])


def _marks(
    cells: Mapping[tuple[str, str], dict[Any, Any]], models: Sequence[str], columns: Sequence[str]
) -> dict[tuple[str, str], str]:
    marks = {}
    for name in columns:
        badness = {m: _badness(cells[m, name], name) for m in models if (m, name) in cells}
        known = {m: value for m, value in badness.items() if value is not None}
        if len(known) < 2 or len(set(known.values())) < 2:
            continue
        best, worst = min(known.values()), max(known.values())
        for model, value in known.items():
            if value in (best, worst):
                marks[model, name] = "*" if value == best else "!"
    return marks


def _badness(row: Mapping[Any, Any], name: str) -> float | None:
    """Lower is better; ``None`` where neither is (LIC_D, neutral rate)."""
    better = METRICS.find(name).better
    if better == "chance":
        if pd.isna(row["null_mean"]):
            return None
        # as many times too often as too seldom is as bad, whichever group is on top of the ratio
        return abs(math.log(float(row["value"]) / float(row["null_mean"])))
    value = float(row["value"])
    return {"lower": value, "higher": -value}.get(better)


def _scaled(value: float, name: str) -> str:
    metric = METRICS.find(name)
    return plain(value, metric.digits, scale=metric.scale)


def _value(row: Mapping[Any, Any] | None, name: str, mark: str) -> str:
    return "" if row is None else f"{_scaled(float(row['value']), name)}{mark}"


def _interval(row: Mapping[Any, Any] | None, name: str) -> str:
    if row is None or pd.isna(row["ci_low"]) or pd.isna(row["ci_high"]):
        return ""
    return f"[{_scaled(float(row['ci_low']), name)}, {_scaled(float(row['ci_high']), name)}]"


def _brackets(row: Mapping[Any, Any], *, sign: bool = False) -> str:
    inside = brackets(row["ci_low"], row["ci_high"], 1, sign=sign)
    return f" {inside}" if inside else ""


def _published(value: tuple[float, ...], name: str) -> str:
    # published Error and BA are in points already
    if not value:
        return ""
    digits = METRICS.find(name).digits
    return f"{value[0]:.{digits}f}" + (f"±{value[1]:.{digits}f}" if len(value) > 1 else "") + " "


def _chance(cells: Mapping[tuple[str, str], dict[Any, Any]], models: Sequence[str], name: str) -> str:
    levels = {
        _scaled(float(cells[m, name]["null_mean"]), name)
        for m in models
        if (m, name) in cells and not pd.isna(cells[m, name]["null_mean"])
    }
    if not levels:
        return ""
    low, high = min(levels, key=float), max(levels, key=float)
    return f"{low} " if low == high else f"{low} to {high}"


def _laid_out(lines: Sequence[Sequence[str]], bias: int) -> str:
    if bias:  # a line between the sides
        lines = [[*line[: bias + 1], "|", *line[bias + 1 :]] for line in lines]
    return "\n".join(line.replace("  |", " |") for line in text_table(lines))
