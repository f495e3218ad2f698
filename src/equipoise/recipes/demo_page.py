"""The page of the demonstration: one self-contained HTML file with a verdict, two figures and the numbers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from equipoise.audit import Audit
    from equipoise.data import Table

__all__ = ["write_page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2b2a; --paper: #fbfaf7; --line: #d9d5ca; --soft: #5c6b69; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ece9; --paper: #161c1c; --line: #344040; --soft: #9fb0ad; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 62rem; padding: 1.5rem; }
h1 { font-size: 1.7rem; margin-bottom: .3rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
.verdict { font-size: 1.1rem; border-left: 4px solid #0f766e; padding: .3rem 0 .3rem 1rem; }
figure { margin: 1rem 0; background: #fff; border: 1px solid var(--line); border-radius: 6px; padding: .5rem; }
figure img, figure svg { max-width: 100%; height: auto; display: block; margin: auto }
figcaption { color: #44504e; font-size: .9rem; padding: .4rem .2rem 0; }
.sheet img { image-rendering: pixelated; width: 100%; }
.wide { overflow-x: auto } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { text-align: right; padding: .25rem .7rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left }
.soft { color: var(--soft) }
"""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Equipoise demonstration</title><style>{{ style }}</style></head><body><main>
<h1>An audit with known truth</h1>
<p class="soft">Pictograms are signs, not people; these numbers say nothing about anyone.</p>
<p class="verdict">{{ verdict }}</p>
<h2>What was put in, and what was found</h2>
<figure>{{ scatter|safe }}<figcaption>Each dot is an occupation. Across: the log-odds that its pictures show a woman's
figure in the biased world. Up: how much higher a model scores the woman's figure than the man's for the neutral
prompt, inside counterfactual sets.</figcaption></figure>
<h2>The numbers, beside chance</h2>
<div class="wide"><table><thead><tr><th>model</th><th>metric</th><th>axis</th><th>value</th><th>chance</th>
<th>excess</th><th>95% interval</th><th>p</th><th>n</th></tr></thead><tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
<p class="soft">MaxSkew is the log of how over-represented the most over-represented group is among the top K; a blind
ranking has MaxSkew above 0 as well, which is what "chance" says. The gap size is the mean over occupations of the score
gap between two figures of the same scene, whichever way it points. NDKL is how far the shares of the groups are from
even, averaged over all lengths of the list. On a narrow screen the table scrolls sideways.</p>
<h2>Counterfactual sets</h2>
<figure class="sheet"><img src="data:image/png;base64,{{ sheet }}"
alt="Rows of pictograms: in each row the same scene with a man's and a woman's figure in three skin tones">
<figcaption>Four sets. In a row nothing differs but the figure.</figcaption></figure>
<h2>What these numbers do not prove</h2>
<p>The two CLIPs are miniatures that know pictograms alone; they stand for no real model. A low score on this test would
not show that a model is fair: it would show that this test, on these pictures and prompts, found little.</p>
<p class="soft">Made by <code>equipoise demo</code>, version {{ version }}. Data of the figure: <code>gaps.csv</code>;
all results: <code>biased/results.parquet</code>, <code>fair/results.parquet</code>.</p>
</main></body></html>
"""


def write_page(
    folder: Path,
    audits: dict[str, Audit],
    difference: pd.DataFrame,
    gaps: pd.DataFrame,
    recovered: dict[str, float],
    table: Table,
) -> Path:
    """Write ``index.html``, ``gaps.csv`` and ``gaps.svg`` to ``folder``; return the page's path."""
    from base64 import b64encode

    from jinja2 import Environment

    from equipoise import __version__

    gaps.to_csv(folder / "gaps.csv")
    scatter = _scatter(gaps, recovered)
    (folder / "gaps.svg").write_text(scatter, encoding="utf-8")
    template = Environment(autoescape=True).from_string(_PAGE)
    page = folder / "index.html"
    page.write_text(
        template.render(
            style=_STYLE,
            version=__version__,
            verdict=_verdict(audits, difference, recovered),
            scatter=scatter,
            rows=[row for name, audit in audits.items() for row in _rows(name, audit.results)],
            sheet=b64encode(_sheet(table)).decode(),
        ),
        encoding="utf-8",
    )
    return page


def _verdict(audits: dict[str, Audit], difference: pd.DataFrame, recovered: dict[str, float]) -> str:
    """One paragraph in plain words: is it biased, how sure are we, does it match the truth."""
    sizes = {n: _one(a.results, "counterfactual_gap_size", "gender") for n, a in audits.items()}
    gap = difference[(difference["metric"] == "max_skew") & (difference["axis"] == "gender")].iloc[0]
    biased, fair = sizes["biased"], sizes["fair"]
    sure = "p < 0.001" if biased["p_value"] < 0.0005 else f"p = {biased['p_value']:.3f}"
    more = f"{gap['value']:.2f} (95% interval {gap['ci_low']:.2f} to {gap['ci_high']:.2f})"
    skew = _one(audits["fair"].results, "max_skew", "gender")
    found = "is biased by figure" if biased["p_value"] < 0.05 else "shows no bias by figure beyond chance"
    even = "is not perfectly even either" if fair["p_value"] < 0.05 else "shows nothing beyond chance"
    return (
        f"The CLIP that learnt from the biased world {found}: between two pictures that differ in nothing but the "
        f"man's or woman's figure, its score changes by {biased['value']:.3f} on average, where chance alone would "
        f"give {biased['null_mean']:.3f} ({sure}). For neutral prompts its MaxSkew is higher than the control's by "
        f"{more}. Over the occupations, its gaps correlate {recovered['biased']:.2f} with the log-odds that were put "
        f"in. The control, which learnt from the fair world, {even} (score changes {fair['value']:.3f}, chance "
        f"{fair['null_mean']:.3f}; MaxSkew {skew['value']:.2f}, chance {skew['null_mean']:.2f}), and its gaps "
        f"correlate {recovered['fair']:.2f} with what was put in."
    )


def _one(results: pd.DataFrame, metric: str, axis: str) -> pd.Series[Any]:
    chosen = results[(results["metric"] == metric) & (results["axis"] == axis) & results["subject"].isna()]
    return chosen.iloc[0]


def _rows(name: str, results: pd.DataFrame) -> list[list[str]]:
    kept = results[results["subject"].isna() & results["metric"].isin(["max_skew", "ndkl", "counterfactual_gap_size"])]
    rows = []
    for row in kept.to_dict("records"):
        interval = "" if pd.isna(row["ci_low"]) else f"{row['ci_low']:.3f} to {row['ci_high']:.3f}"
        told = row["metric"].replace("_", " ") + (f" @{int(row['k'])}" if pd.notna(row["k"]) else "")
        axis = row["axis"] + (f" ({row['group']})" if isinstance(row["group"], str) else "")
        p = "< 0.001" if row["p_value"] < 0.001 else f"{row['p_value']:.3f}"
        numbers = [
            f"{row['value']:.3f}",
            f"{row['null_mean']:.3f}",
            f"{row['excess']:+.3f}",
            interval,
            p,
            str(row["n"]),
        ]
        rows.append([name, told, axis, *numbers])
    return rows


def _scatter(gaps: pd.DataFrame, recovered: dict[str, float]) -> str:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "equipoise", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
        for axis, (name, colour) in zip(axes, (("biased", "#b45309"), ("fair", "#0f766e")), strict=True):
            axis.axhline(0, color="#999", linewidth=0.8)
            axis.scatter(gaps["injected"], gaps[name], s=22, color=colour)
            for subject in [*gaps.index[:3], *gaps.index[-3:]]:
                at = (gaps.loc[subject, "injected"], gaps.loc[subject, name])
                # Names stand towards the middle, so that none crosses the frame.
                right = at[0] > 0
                axis.annotate(
                    subject,
                    at,
                    textcoords="offset points",
                    xytext=(-5 if right else 5, 3),
                    ha="right" if right else "left",
                    fontsize=7.5,
                )
            axis.set_title(f"trained on the {name} world (r = {recovered[name]:.2f})")
            axis.set_xlabel("injected log-odds (woman's figure)")
        axes[0].set_ylabel("measured gap, woman's - man's")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
        plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]


def _sheet(table: Table) -> bytes:
    """Four counterfactual sets as rows of pictures, as PNG."""
    import numpy as np
    from PIL import Image

    frame = table.to_pandas(["image_id", "set_id"])
    chosen = frame["set_id"].drop_duplicates().iloc[:: max(1, frame["set_id"].nunique() // 4)].head(4).tolist()
    wanted = {i: s for i, s in zip(frame["image_id"], frame["set_id"], strict=True) if s in set(chosen)}
    rows: dict[str, list[Any]] = {s: [] for s in chosen}
    for image_id, image in table.images():
        if image_id in wanted:
            rows[wanted[image_id]].append(np.asarray(image))
    sheet = np.concatenate([np.concatenate(rows[s], axis=1) for s in chosen], axis=0)
    out = io.BytesIO()
    Image.fromarray(sheet).resize((sheet.shape[1] * 2, sheet.shape[0] * 2), Image.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()
