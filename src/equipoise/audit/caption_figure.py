"""LIC against vocabulary and BLEU-4: do richer or better captions amplify more? (LIC, CVPR 2022, Figure 3.)"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats as sps

from equipoise.audit.dataset_figure import COLOURS
from equipoise.data.atomic import write_whole
from equipoise.measure.estimate import Estimate

__all__ = ["LEAST_MODELS", "r_squared", "save_figure"]

LEAST_MODELS = 3
_NAMES = {"vocabulary": "words in the vocabulary", "bleu_4": "BLEU-4", "lic": "LIC", "lic_m": "LIC_M"}


def r_squared(x: np.ndarray, y: np.ndarray) -> Estimate | None:
    """R² of a straight line through models, with the level that unrelated numbers reach, 1 / (n - 1).

    ``None`` with fewer than three models or where one side does not vary.

    >>> r_squared(np.array([1.0, 2, 3, 4]), np.array([2.0, 4, 6, 8])).value
    1.0
    """
    n = len(x)
    if n < LEAST_MODELS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    r = float(np.clip(sps.pearsonr(x, y).statistic, -1, 1))
    # under normality R² of n unrelated points is Beta(1/2, (n - 2)/2)
    null = sps.beta(0.5, (n - 2) / 2)
    value = round(r * r, 12)
    return Estimate(
        value,
        null_mean=float(null.mean()),
        null_sd=float(null.std()),
        p_value=float(null.sf(value)),
        n=n,
        notes=(f"correlation {r:+.2f} over {n} models; no interval: models are not a sample",),
    )


def save_figure(points: pd.DataFrame, path: Path) -> None:
    """Draw ``points`` (``model lic vocabulary bleu_4``, perhaps ``lic_m`` for lic) as SVG; the same bytes each time."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    y_name = "lic" if "lic" in points else "lic_m"
    x_names = [name for name in ("vocabulary", "bleu_4") if name in points]
    with mpl.rc_context({"svg.hashsalt": "equipoise", "font.size": 9, "svg.fonttype": "none"}):
        figure = Figure(figsize=(5.2 * len(x_names), 4.2), layout="constrained")
        for place, name in enumerate(x_names):
            axes = figure.add_subplot(1, len(x_names), place + 1)
            x, y = points[name].to_numpy(float), points[y_name].to_numpy(float)
            for number, model in enumerate(points["model"]):
                axes.scatter([x[number]], [y[number]], s=28, color=COLOURS[number % len(COLOURS)])
                # parse_math: a model's name may hold a dollar sign
                axes.annotate(
                    model,
                    (x[number], y[number]),
                    xytext=(4, 4),
                    textcoords="offset points",
                    fontsize=8,
                    parse_math=False,
                )
            line = r_squared(x, y)
            if line is not None:
                slope, start = np.polyfit(x, y, 1)
                ends = np.array([x.min(), x.max()])
                axes.plot(ends, slope * ends + start, color="#999999", linewidth=1)
                axes.set_title(f"R² = {line.value:.2f} (unrelated: {line.null_mean:.2f}, p = {line.p_value:.2f})")
            axes.margins(0.15)  # so that names stay inside
            axes.set_xlabel(_NAMES[name])
            axes.set_ylabel(_NAMES[y_name])
        drawn = BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    write_whole(path, drawn.getvalue())
