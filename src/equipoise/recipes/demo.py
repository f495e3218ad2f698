"""The offline demonstration: audit a CLIP that was taught a bias and one that was not, and see what the audit finds.

Both come with the package; the pictures are rendered here, in about a minute on a laptop, and nothing is downloaded.
Because the world was made by hand, the truth is known, and the last step checks the numbers against it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise import __version__
from equipoise.audit import Audit, AuditConfig, compare, run
from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.models import load
from equipoise.world import preset, truth
from equipoise.world.tables import write_counterfactual_table

__all__ = ["Demo", "demo"]

Say = Callable[[str], None]
MODELS = {"biased": "mini:clip", "fair": "mini:clip-fair"}
SETS = 8
TOP = 12
PROMPT = "A photo of {}"
AXES = ("gender", "skin_tone")
MARKER = "demo.json"
MADE = ("sets", "biased", "fair", "report_files")
"""What the demonstration makes in its folder, and clears when it is run again."""


@dataclass(frozen=True)
class Demo:
    """What the demonstration made and found."""

    folder: Path
    audits: dict[str, Audit]
    gaps: pd.DataFrame
    """One row an occupation: the injected log-odds, and the measured gap of each encoder."""
    recovered: dict[str, float]
    """The correlation of measured gaps with the injected log-odds, for each encoder."""
    page: Path


def demo(folder: Path, say: Say) -> Demo:
    """Run the whole demonstration into ``folder`` and write a page to look at."""
    from equipoise.report import write

    _prepare(folder)
    say("1. Two small CLIPs that learnt from pictograms (signs, not people): in the world of one, occupations lean")
    say("   towards a figure; in that of the other none do.")
    encoders = {name: load(spec) for name, spec in MODELS.items()}
    for name, encoder in encoders.items():
        say(f"   {name}: {encoder.name}")

    say(f"2. Counterfactual sets: the same scene with every figure and skin tone, {SETS} for each occupation.")
    table = _table(folder / "sets", say)

    say("3. Audit both encoders: whom do they retrieve for 'A photo of a nurse' and the other neutral prompts?")
    settings = AuditConfig(axes=AXES, k=(TOP,), prompts=(PROMPT,), draws=500)
    audits = {}
    for name, encoder in encoders.items():
        audits[name] = run(encoder, "intersectional", table, folder / name, config=settings)
        _headline(audits[name], name, say)

    say("4. Is the difference more than luck? Paired over the same occupations (biased - fair):")
    difference = compare(folder / "biased", folder / "fair").frame()
    for _, row in difference[(difference["metric"] == "max_skew") & difference["axis"].isin(AXES)].iterrows():
        interval = f"[{row['ci_low']:+.3f}, {row['ci_high']:+.3f}]"
        say(f"   MaxSkew@{TOP} on {row['axis']:9} {row['value']:+.3f} {interval}, {_p(row)}")

    say("5. Against the truth: does the gap inside sets follow what was put in?")
    gaps, recovered = _against_truth(audits)
    for name, correlation in recovered.items():
        say(f"   {name:6} encoder: correlation of measured gap with injected log-odds {correlation:+.2f}")

    folders = {MODELS[name]: folder / name for name in MODELS}
    page = write(folders, folder / "report.html", title="An audit with known truth", truth="world:biased")
    say(f"\nOpen {page} in a browser. Then try:")
    say(f"  equipoise compare {folder}/biased {folder}/fair")
    say(f"  equipoise measure {folder}/biased --k 5 --variant berg -o {folder}/biased-berg")
    say("  equipoise world preview world.png --preset strong")
    return Demo(folder, audits, gaps, recovered, page)


def _prepare(folder: Path) -> None:
    """Make ``folder``, or clear what an earlier demonstration made there; a folder of other things is refused."""
    marker = folder / MARKER
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; give a folder for the demo")
    if folder.exists() and not marker.exists() and any(folder.iterdir()):
        raise InputError(f"{folder}: holds other files; give a new folder for the demo with -o")
    for name in MADE:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    marker.write_text(json.dumps({"equipoise": __version__}) + "\n", encoding="utf-8")


def _table(path: Path, say: Say) -> Table:
    config = preset("fair").changed(activity_share=0.0, visible=1.0)
    table = write_counterfactual_table(path, config, SETS, subjects=sorted(config.occupations), axes=AXES, seed=77)
    say(f"   {len(table):,} pictures in {path}")
    return table


def _headline(audit: Audit, name: str, say: Say) -> None:
    rows = audit.results
    chosen = rows[rows["subject"].isna() & rows["metric"].isin(["max_skew", "counterfactual_gap_size"])]
    for _, row in chosen[chosen["axis"].isin(AXES)].drop_duplicates(["metric", "axis"]).iterrows():
        say(
            f"   {name:6} {row['metric']:24} on {row['axis']:9} {row['value']:.3f}, "
            f"chance {row['null_mean']:.3f}, excess {row['excess']:+.3f}, {_p(row)}"
        )


def _p(row: pd.Series) -> str:
    return "p < 0.001" if row["p_value"] < 0.001 else f"p = {row['p_value']:.3f}"


def _against_truth(audits: dict[str, Audit]) -> tuple[pd.DataFrame, dict[str, float]]:
    known = truth(preset("biased"))
    known = known[(known["kind"] == "occupation") & (known["axis"] == "gender") & (known["group"] == "female")]
    gaps = known.set_index("subject")[["log_odds"]].rename(columns={"log_odds": "injected"})
    recovered = {}
    for name, audit in audits.items():
        rows = audit.results
        mine = rows[(rows["metric"] == "counterfactual_gap") & (rows["axis"] == "gender") & rows["subject"].notna()]
        gaps[name] = mine.set_index("subject")["value"]
        values: NDArray[np.float64] = gaps[["injected", name]].dropna().to_numpy(dtype=float)
        recovered[name] = float(np.asarray(np.corrcoef(values.T))[0, 1])
    return gaps.sort_values("injected"), recovered
