"""A page that shows which words give the group away: captions with their words shaded, and the words themselves.

LIC against vocabulary and BLEU-4: do richer or better captions amplify more? (LIC, CVPR 2022, Figure 3.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats as sps

from equipoise.audit.figures import COLOURS, scatter_figure
from equipoise.data.atomic import write_whole
from equipoise.measure.notes import no_interval
from equipoise.measure.stats.estimate import Estimate

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
        notes=(f"correlation {r:+.2f} over {n} models", no_interval("models are not a sample")),
    )


def save_figure(points: pd.DataFrame, path: Path) -> None:
    """Draw ``points`` (``model lic vocabulary bleu_4``, perhaps ``lic_m`` for lic) as SVG; the same bytes each time."""
    y_name = "lic" if "lic" in points else "lic_m"
    lines = {}
    for name in ("vocabulary", "bleu_4"):
        line = r_squared(points[name].to_numpy(float), points[y_name].to_numpy(float)) if name in points else None
        if line is not None:
            lines[name] = f"R² = {line.value:.2f} (unrelated: {line.null_mean:.2f}, p = {line.p_value:.2f})"
    x_names = {name: _NAMES[name] for name in ("vocabulary", "bleu_4") if name in points}
    write_whole(path, scatter_figure(points, x_names, (y_name, _NAMES[y_name]), lines).encode())


CAPTIONS_SHOWN = 12
WORDS_SHOWN = 20
_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|\W+")

_STYLE = """
body { font: 16px/1.6 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
p.caption { margin: .2rem 0; } span.w { border-radius: 3px; padding: 0 2px; }
small { color: #555; } .key span { padding: 0 .5rem; margin-right: .5rem; border-radius: 3px; }
"""


def words_page(
    found: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]],
    axis: str,
    groups: tuple[str, ...],
    *,
    classifier: str,
    masked: bool = False,
) -> str:
    """One HTML page without scripts or links; everything that comes from a file is escaped.

    ``found``: for each model its ``per_caption`` (image_id, caption, group, score) and ``words`` (word, group, weight,
    captions) of :class:`equipoise.audit.captions.lic.Lic`; ``masked``: whether words that name a group were hidden.
    """
    colour = {group: COLOURS[number % len(COLOURS)] for number, group in enumerate(groups)}
    key = "".join(f'<span style="background:{_shade(colour[g], 0.5)}">{escape(g)}</span>' for g in groups)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>Words that give away {escape(axis)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Words that give away {escape(axis)}</h1>",
        "<p>The darker a word, the more it makes the classifier think of the group in that colour. Words that name a "
        f"group were {'masked first' if masked else 'not masked: they count as all others do'}. The colour says what a "
        "classifier learned from these captions; it says nothing about the people.</p>",
        f'<p class="key">{key} <small>classifier: {escape(classifier)}</small></p>',
    ]
    for model, (captions, words) in found.items():
        parts.append(f"<h2>{escape(model)}</h2>")
        parts += _model_part(captions, words, groups, colour)
    return "\n".join([*parts, "</body></html>"]) + "\n"


def _model_part(
    captions: pd.DataFrame, words: pd.DataFrame, groups: tuple[str, ...], colour: Mapping[str, str]
) -> list[str]:
    if words.empty:
        return ["<p>No words: the classifier gave no contributions.</p>"]
    strongest = float(words["weight"].abs().max()) or 1.0
    best = words.sort_values("weight", ascending=False).drop_duplicates("word")
    lean = {
        str(word): (str(group), float(weight) / strongest)
        for word, group, weight in zip(best["word"], best["group"], best["weight"], strict=True)
        if weight > 0
    }
    parts = []
    for group in groups:
        rank = "contribution" if "contribution" in words else "weight"
        spoken = words["word"].astype(str).str.contains(r"\w")
        top = words[(words["group"] == group) & (words["weight"] > 0) & spoken].nlargest(WORDS_SHOWN, rank)
        shown = ", ".join(
            f"{escape(str(word))} <small>{float(weight):.2f} in {int(n):,}</small>"
            for word, weight, n in zip(top["word"], top["weight"], top["captions"], strict=True)
        )
        parts.append(f"<h3>{escape(group)}</h3><p>{shown or 'no word'}</p>")
        mine = captions[captions["group"] == group].sort_values("score", ascending=False, kind="stable")
        some = mine.drop_duplicates("caption").head(CAPTIONS_SHOWN)  # models repeat themselves
        for text, score in zip(some["caption"], some["score"], strict=True):
            parts.append(f'<p class="caption">{_shaded(str(text), lean, colour)} <small>{float(score):.2f}</small></p>')
    return parts


def _shaded(text: str, lean: Mapping[str, tuple[str, float]], colour: Mapping[str, str]) -> str:
    parts = []
    for token in _TOKEN.findall(text):
        group, weight = lean.get(token.lower(), ("", 0.0))
        if weight < 0.05 or group not in colour:
            parts.append(escape(token))
        else:
            title = escape(f"{group} {weight:.2f}", quote=True)
            style = f"background:{_shade(colour[group], min(1.0, weight) * 0.8)}"
            parts.append(f'<span class="w" style="{style}" title="{title}">{escape(token)}</span>')
    return "".join(parts)


def _shade(colour: str, strength: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{strength:.2f})"
