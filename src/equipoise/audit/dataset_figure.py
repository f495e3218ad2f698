"""The map of a dataset's captions: a t-SNE picture of neutral captions, by cluster and by group."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.atomic import write_whole
from equipoise.measure.dataset import tsne_coordinates

__all__ = ["caption_map", "save_map"]

DIMENSIONS = 50
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000")
"""Told apart by people who see colours differently (Okabe and Ito)."""


def caption_map(
    texts: list[str], image_ids: list[str], clusters: NDArray[np.intp], groups: list[str], *, seed: int = 0
) -> pd.DataFrame:
    """Coordinates of each image's neutral text: ``image_id x y cluster group``; a part of them if there are many.

    TF-IDF, its 50 main directions, then t-SNE. For looking at: distances between clusters mean nothing.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    features = TfidfVectorizer().fit_transform(texts)
    width = min(DIMENSIONS, min(features.shape) - 1)
    dense = TruncatedSVD(width, random_state=seed).fit_transform(features)
    points, rows = tsne_coordinates(dense, perplexity=min(30.0, (len(texts) - 1) / 3), seed=seed)
    return pd.DataFrame(
        {
            "image_id": [image_ids[i] for i in rows],
            "x": points[:, 0],
            "y": points[:, 1],
            "cluster": clusters[rows],
            "group": [groups[i] for i in rows],
        }
    )


def save_map(points: pd.DataFrame, words: dict[int, str], path: Path, title: str) -> None:
    """Draw the map as SVG: left by cluster with its number and ``words``, right by group; the same bytes each time."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "equipoise", "font.size": 8, "svg.fonttype": "none"}):
        figure = Figure(figsize=(14, 7), layout="constrained")
        left, right = figure.subplots(1, 2)
        palette = mpl.colormaps["tab20"]
        for cluster in sorted(set(points["cluster"].tolist())):
            some = points[points["cluster"] == cluster]
            left.scatter(some["x"], some["y"], s=5, color=palette(cluster % 20), linewidths=0)
            place = (some["x"].median(), some["y"].median())
            left.annotate(f"{cluster} {words.get(cluster, '')}", place, ha="center", fontsize=7, color="#222222")
        for number, group in enumerate(sorted(set(points["group"]))):
            some, colour = points[points["group"] == group], COLOURS[number % len(COLOURS)]
            right.scatter(some["x"], some["y"], s=5, color=colour, linewidths=0, label=f"{group} ({len(some):,})")
        right.legend(loc="upper right", markerscale=3)
        for axes, name in ((left, "clusters of neutral captions"), (right, title)):
            axes.set_title(name)
            axes.set_xticks([])
            axes.set_yticks([])
        drawn = BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    write_whole(path, drawn.getvalue())
