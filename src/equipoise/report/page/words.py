"""Captions with their words shaded by what they tell about the group, from the folder of ``equipoise captions``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from equipoise.report.sources import ResultFolder

CAPTIONS, WORDS = 6, 12
_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|\W+")
_FAINT = 0.15


@dataclass(frozen=True)
class Token:
    """A piece of a caption: its text, and, if it tells of a group, which (by number) and how much, from 0 to 5."""

    text: str
    group: str = ""
    number: int = -1
    level: int = 0


@dataclass(frozen=True)
class CaptionWords:
    """What is shown for one model and group: the words that speak for it, and captions with their words shaded."""

    model: str
    group: str
    number: int
    words: pd.DataFrame
    captions: list[tuple[list[Token], float]]


def read_words(source: ResultFolder, problems: list[str]) -> list[CaptionWords]:
    """The words and captions of a captions folder; nothing, and a sentence, where a file is missing or damaged."""
    if source.kind != "captions":
        return []
    frames = {}
    for name, needed, numbers in (
        ("words", ("model", "word", "group"), ("weight", "captions", "contribution")),
        ("captions", ("model", "caption", "group"), ("score",)),
    ):
        file = source.path / f"{name}.csv"
        try:
            frame = pd.read_csv(
                file, keep_default_na=False, dtype={"word": str, "caption": str, "group": str, "model": str}
            )
        except (OSError, ValueError):
            state = "is damaged" if file.exists() else "is missing"
            problems.append(f"{source.path.name}/{name}.csv {state}; no caption words are shown")
            return []
        missing = [column for column in (*needed, *numbers) if column not in frame]
        if missing:
            problems.append(f"{source.path.name}/{name}.csv has no column {missing[0]!r}; no caption words are shown")
            return []
        for column in numbers:
            frame[column] = pd.to_numeric(frame[column], errors="coerce")
            if not np.isfinite(frame[column].to_numpy(float)).all():
                problem = f"{source.path.name}/{name}.csv has a {column} that is not a number"
                problems.append(f"{problem}; no caption words are shown")
                return []
        frames[name] = frame
    groups = sorted(set(frames["captions"]["group"]))
    shown = []
    for model in dict.fromkeys(frames["captions"]["model"]):
        words = frames["words"][frames["words"]["model"] == model]
        captions = frames["captions"][frames["captions"]["model"] == model]
        lean = _lean(words, groups)
        for number, group in enumerate(groups):
            shown.append(_of_group(str(model), group, number, words, captions, lean))
    return shown


def _of_group(
    model: str, group: str, number: int, words: pd.DataFrame, captions: pd.DataFrame, lean: Mapping[str, Token]
) -> CaptionWords:
    spoken = words["word"].str.contains(r"\w")
    top = words[(words["group"] == group) & (words["weight"] > 0) & spoken].nlargest(WORDS, "contribution")
    mine = captions[captions["group"] == group].sort_values("score", ascending=False, kind="stable")
    shown = mine.drop_duplicates("caption").head(CAPTIONS)
    shaded = [(_shaded(text, lean), float(score)) for text, score in zip(shown["caption"], shown["score"], strict=True)]
    return CaptionWords(model, group, number, top, shaded)


def _lean(words: pd.DataFrame, groups: list[str]) -> dict[str, Token]:
    strongest = float(words["weight"].abs().max()) if len(words) else 1.0
    lean = {}
    best = words.sort_values("weight", ascending=False).drop_duplicates("word")
    for word, group, weight in zip(best["word"], best["group"], best["weight"], strict=True):
        strength = float(weight) / (strongest or 1.0)
        if strength >= _FAINT and group in groups:
            lean[str(word)] = Token(str(word), str(group), groups.index(group), min(5, 1 + int(strength * 5)))
    return lean


def _shaded(text: str, lean: Mapping[str, Token]) -> list[Token]:
    return [replace(lean.get(piece.lower(), Token("")), text=piece) for piece in _TOKEN.findall(text)]
