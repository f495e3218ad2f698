"""The tables of ``captions.md`` on the paper's captioners, from ``docs/results``: run it after a long run was added.

python docs/captions_table.py       # writes the tables into docs/captions.md
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from equipoise.audit.captions.folds import TEST_SHARE
from equipoise.data.published import published_values
from equipoise.measure.captions import corrected_resampled_t, lic, lic_d
from equipoise.measure.stats.estimate import Estimate

PAGE = Path(__file__).with_name("captions.md")
RESULTS = Path(__file__).with_name("results")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
MODELS = {"nic": "NIC", "sat": "SAT", "fc": "FC", "transformer": "Transformer", "nic_plus": "NIC+"}


def runs() -> pd.DataFrame:
    """One row per LSTM: model, axis, side, seed, caption, value in points."""
    found = pd.read_csv(RESULTS / "lic_lstm_runs.csv")
    return found.assign(value=100 * found["value"])


def screen() -> pd.DataFrame:
    """The linear screen's LIC, one row per model, axis and metric."""
    return pd.read_csv(RESULTS / "lic_screen.csv").set_index(["axis", "model", "metric"])


def lstm_m(axis: str, model: str) -> Estimate:
    """LIC_M by the LSTM over all its splits."""
    of = runs().query("axis == @axis and model == @model and side == 'model'")
    return corrected_resampled_t(of["value"], test_share=TEST_SHARE, null_value=25.0)


def lstm_d(model: str) -> tuple[Estimate, Estimate]:
    """LIC_D and LIC by the LSTM, on the images that have human captions."""
    of = runs().query("axis == 'gender' and model == @model")
    human = of[of["side"] == "references"].pivot(index="seed", columns="caption", values="value")
    paired = of[of["side"] == "model on images with references"].set_index("seed")["value"].reindex(human.index)
    return (
        lic_d(human / 100, n_groups=2, test_share=TEST_SHARE),
        lic(paired / 100, human / 100, test_share=TEST_SHARE, n_groups=2),
    )


def m_table(axis: str) -> str:
    """LIC_M: published, by the LSTM, by the screen; of a model that neither ran on, the published value alone."""
    told = published_values("lic", axis)
    ran = set(runs().query("axis == @axis and side == 'model'")["model"])
    rows = [
        "| model | published | LSTM, ours | less published | linear screen | less LSTM | screen's chance |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for model, name in MODELS.items():
        given = told.of(model, "lic_m")
        if not given:
            continue
        if model not in ran:
            rows.append(f"| {name} | {given[0]} ± {given[1]} |  |  |  |  |  |")
            continue
        ours, fast = lstm_m(axis, model), screen().loc[(axis, model, "lic_m")]
        rows.append(
            f"| {name} | {given[0]} ± {given[1]} | {_with_interval(ours.value, ours.ci_low, ours.ci_high)} "
            f"| {ours.value - given[0]:+.1f} | {_with_interval(fast['value'], fast['ci_low'], fast['ci_high'])} "
            f"| {fast['value'] - ours.value:+.1f} | {fast['null_mean']:.1f} |"
        )
    return "\n".join(rows)


def d_table() -> str:
    """LIC_D and LIC: published, by the LSTM where it ran, by the screen."""
    told = published_values("lic", "gender")
    rows = [
        "| model | LIC_D, published | LSTM | linear screen | LIC, published | LSTM | linear screen |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    ran = set(runs().query("side == 'references'")["model"])
    for model, name in MODELS.items():
        cells = []
        found = lstm_d(model) if model in ran else (None, None)
        for metric, one in zip(("lic_d", "lic"), found, strict=True):
            given, fast = told.of(model, metric), screen().loc[("gender", model, metric)]
            cells += [
                " ± ".join(f"{number}" for number in given),
                "" if one is None else _with_interval(100 * one.value, 100 * one.ci_low, 100 * one.ci_high),
                _with_interval(fast["value"], fast["ci_low"], fast["ci_high"]),
            ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def order() -> float:
    """Spearman's correlation of the five captioners' published LIC_M with the LSTM's of ours."""
    told = published_values("lic", "gender")
    pairs = [(told.of(model, "lic_m")[0], lstm_m("gender", model).value) for model in MODELS]
    return float(pd.DataFrame(pairs).rank().corr().iloc[0, 1])


def _with_interval(value: float, low: float | None, high: float | None) -> str:
    return f"{value:.1f}" if low is None or high is None else f"{value:.1f} [{low:.1f}, {high:.1f}]"


def tables() -> str:
    """All of it."""
    return "\n\n".join(
        [
            "Perceived gender, LIC_M:",
            m_table("gender"),
            f"Spearman's correlation of the published means with those of our LSTM is {order():.2f}.",
            "Perceived skin tone, LIC_M (no words masked). Captions were available for NIC and FC only; the others "
            "have the published value and no number of ours:",
            m_table("skin"),
            "Perceived gender, LIC_D and LIC, on the images that have human captions. The LSTM ran three splits, five "
            "classifiers per split, for NIC and Transformer; the others are by the screen only, an approximation:",
            d_table(),
        ]
    )


def page(text: str) -> str:
    """The page with the tables of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
