"""Results as text that a person can read."""

from __future__ import annotations

from typing import Any

import pandas as pd

from equipoise.data.results import RANDOM_RANKING, RANDOM_RANKING_TOLD
from equipoise.formatting import brackets, missing, p_plain, percent, plain, share, text_table
from equipoise.measure import METRICS
from equipoise.measure.notes import N_OF_SOURCES, corrected_p, counted, facts_of
from equipoise.measure.retrieval.single import SINGLE_METRIC
from equipoise.measure.sides import favoured, sign_told

TELLING = 5
"""How many rows a command shows unless it is asked for more."""

_TEXTS = ("metric", "variant", "pool", "model", "axis", "subject", "group", "favours")
_WIDEST = 40
_CORRECTED = "Holm p"


def table_of(
    frame: pd.DataFrame,
    *,
    everything: bool = False,
    limit: int | None = 60,
    level: float = 0.95,
    most: int | None = None,
) -> str:
    """One line per number: value, interval, chance, excess, p and n, and the published value where there is one.

    Single subjects, the shares of single groups and secondary metrics are left to the results file, unless
    ``everything`` is asked for. Columns that say nothing (one model, no groups) are left out. ``level`` is that of the
    intervals. ``limit``: the most rows to print, ``None`` for no limit. ``most``: only so many rows, the most telling:
    those that chance explains least. Rows of single prompts stand in the order of their corrected p-values.
    """
    details = {name for name in frame["metric"] if METRICS.find(name).detail}
    shown = _clearest_first(frame) if everything else frame[frame["subject"].isna() & ~frame["metric"].isin(details)]
    if shown.empty:
        shown = frame
    n_rows = len(shown)
    if most is not None and not everything and n_rows > most + 3:  # to leave out three rows would save nothing
        shown = _telling(shown, most)
    limit = len(shown) if everything or limit is None else limit
    lines = [_cells(row, f"{percent(level)} interval") for row in shown.head(limit).to_dict("records")]
    names = [name for name in lines[0] if name != "model" or frame["model"].nunique() > 1] if lines else []
    names = [name for name in names if name in ("metric", "value", "n") or any(line[name] for line in lines)]
    texts = [place for place, name in enumerate(names) if name in _TEXTS]
    text = text_table([names, *([line[name] for name in names] for line in lines)], texts, _WIDEST)
    if "model" in names and RANDOM_RANKING in set(shown.head(limit)["model"]):
        text.append(RANDOM_RANKING_TOLD)
    if "favours" in names:
        text.append("favours: the group that is shown or found more than chance gives, or that scores higher")
        text += dict.fromkeys(told for row in shown.head(limit).to_dict("records") if (told := sign_told(row)))
    if _CORRECTED in names:
        text.append(f"{_CORRECTED}: the p-value of a single prompt, corrected over the prompts of its metric")
    if any(facts_of(row, "sources") for row in shown.head(limit).to_dict("records")):
        text.append(N_OF_SOURCES)
    if len(shown) > limit:
        text.append(f"... and {len(shown) - limit} more rows in results.parquet")
    if len(shown) < n_rows:
        text.append(f"the {len(shown)} most telling of {n_rows} rows; all of them with --all-rows")
    return "\n".join(text)


def single_prompts(frame: pd.DataFrame, most: int = TELLING) -> str:
    """The prompts that are clearest after the correction, with whom they put first; empty where none was corrected.

    Of each axis the metric of single prompts, with its first definition and K, counts, as in the verdict.
    """
    single = frame[frame["subject"].notna()]
    corrected = pd.Series([corrected_p(row) for row in single.to_dict("records")], index=single.index, dtype=float)
    rows = single.assign(_p=corrected).dropna(subset="_p")
    rows = rows[rows["metric"] == SINGLE_METRIC]
    if rows.empty:
        return ""
    family = ["variant", "k"]
    of_axis = rows.groupby("axis", sort=False)[family].transform("first")
    rows = rows[(rows[family].astype(str) == of_axis.astype(str)).all(axis=1)]
    ordered = rows.assign(_size=-rows["excess"].astype(float).abs()).sort_values(["_p", "_size"], kind="stable")
    several = rows["axis"].nunique() > 1
    lines = [["prompt", *(["axis"] if several else []), "favours", "first", "k", "pool", "excess", _CORRECTED]]
    for row in ordered.head(most).to_dict("records"):
        favours = facts_of(row, "favours") or {}
        counts = (
            [str(favours["first"]), str(favours["k"]), share(favours["pool_share"])]
            if favours
            else ["", _text(row["k"]), ""]
        )
        axis = [_text(row["axis"])] if several else []
        numbers = [plain(row["excess"], sign=True), p_plain(row["_p"])]
        lines.append([_text(row["subject"]), *axis, str(favours.get("group", "")), *counts, *numbers])
    text = text_table(lines, range(3 if several else 2), _WIDEST)
    text.append(f"{_CORRECTED}: that of {METRICS.find(SINGLE_METRIC).title}, corrected over the prompts")
    text.append("first: how many of the first k images are of the group it favours; pool: the share of that group")
    if len(rows) > most:
        text.append(f"the {most} clearest of {len(rows)} rows of single prompts; all of them with --all")
    return "\n".join(text)


def _clearest_first(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows, those of single prompts in the order of their corrected p-values, metric by metric."""
    p = pd.Series([corrected_p(row) for row in frame.to_dict("records")], index=frame.index, dtype=float)
    if p.isna().all():
        return frame
    keys = frame[["metric", "variant", "axis", "group", "k"]].astype(str).assign(single=frame["subject"].notna())
    place = keys.groupby(list(keys), sort=False, dropna=False).ngroup().where(p.notna())
    # rows that were not corrected keep their places: they stand before the block that follows them
    order = {"_block": place.bfill().fillna(len(frame)), "_p": p.fillna(-1.0)}
    order["_size"] = -frame["excess"].astype(float).abs().where(p.notna(), 0.0)
    return frame.assign(**order).sort_values(list(order), kind="stable")


def _telling(frame: pd.DataFrame, most: int) -> pd.DataFrame:
    """The rows that chance explains least, each metric once on an axis, the largest excess first.

    Rows without a p-value, such as those of the random ranking, tell nothing and are left out as far as others are.
    """
    tested = frame[frame["p_value"].notna()]
    frame = tested if len(tested) else frame
    p = frame["p_value"].astype(float).fillna(1.0)
    distance = (
        (frame["excess"].astype(float) / frame["null_sd"].astype(float).replace(0.0, float("nan"))).abs().fillna(0.0)
    )
    order = frame.assign(_p=p, _distance=-distance).sort_values(["_p", "_distance"], kind="stable")
    once = order[~order.duplicated(["metric", "axis", "pool", "model"])]
    return frame.loc[[*once.index, *order.index.difference(once.index, sort=False)][:most]]


def _cells(row: dict[Any, Any], heading: str) -> dict[str, str]:
    return {
        **{name: _text(row[name]) for name in _TEXTS if name in row},
        "favours": favoured(row),
        "k": _text(row["k"]),
        "value": plain(row["value"]),
        heading: brackets(row["ci_low"], row["ci_high"]),  # beside what it is the interval of
        "chance": plain(row["null_mean"]),
        "excess": plain(row["excess"], sign=True),
        "p": p_plain(row["p_value"]),
        _CORRECTED: p_plain(corrected_p(row)),
        "n": counted(row).replace(",", ""),
        "published": plain(row["published"], 2),
    }


def _text(value: Any) -> str:
    if missing(value):
        return ""
    return str(int(value)) if isinstance(value, float) else str(value)
