"""Who looked: what people said of the pictures, how many they were, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.data import Table
from equipoise.errors import InputError, one_line
from equipoise.measure.stats.agreement import krippendorff_alpha

COLUMNS = ("image_id", "annotator", "question", "answer")
NOBODY = "Nobody's judgement of the pictures was recorded: no labels were given for this dossier."


def read_labels_given(path: str | Path) -> pd.DataFrame:
    """The labels in a table of kind ``labels``, in a folder with ``labels.csv``, or in a CSV file."""
    home = Path(path)
    if not home.exists():
        raise InputError(f"{home}: there is no such file or folder; give labels as a table or a CSV file")
    if home.is_dir() and not (home / "_table.json").is_file():
        inside = [home / name for name in ("labels", "labels.csv") if (home / name).exists()]
        if not inside:
            raise InputError(f"{home}: no labels here; give a table of labels, or a CSV with {', '.join(COLUMNS)}")
        return read_labels_given(inside[0])
    if home.is_dir():
        table = Table.open(home)
        if table.kind != "labels":
            raise InputError(f"{home}: is a table of {table.kind}, not of labels; give what a review wrote")
        return table.to_pandas(list(COLUMNS)).astype(object)
    try:
        frame = pd.read_csv(home, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{home}: cannot be read as CSV ({one_line(error)})") from None
    lacking = [name for name in COLUMNS if name not in frame]
    if lacking:
        raise InputError(f"{home}: has no column {lacking[0]!r}; labels have {', '.join(COLUMNS)}")
    return frame[list(COLUMNS)].astype(object)


def who_looked(labels: Sequence[pd.DataFrame]) -> dict[str, Any]:
    """How many people answered which questions on how many pictures, and their agreement."""
    frames = [frame for frame in labels if len(frame)]
    if not frames:
        return {"recorded": False, "text": NOBODY, "questions": []}
    every = pd.concat(frames, ignore_index=True)
    every = every[every["answer"].notna() & (every["answer"].astype(str).str.strip() != "")]
    questions = [_question(str(name), some) for name, some in every.groupby("question", sort=True)]
    people = int(every["annotator"].nunique())
    images = int(every["image_id"].nunique())
    said = "person" if people == 1 else "people"
    text = f"{people:,} {said} gave {len(every):,} answers on {images:,} pictures."
    if people == 1:
        text += " One person's judgement cannot be checked against another's."
    return {"recorded": True, "text": text, "people": people, "answers": len(every), "questions": questions}


def _question(name: str, rows: pd.DataFrame) -> dict[str, Any]:
    answers = rows.drop_duplicates(["image_id", "annotator"], keep="last")
    counts = answers["answer"].value_counts()
    summary: dict[str, Any] = {
        "question": name,
        "people": int(answers["annotator"].nunique()),
        "images": int(answers["image_id"].nunique()),
        "answers": {str(answer): int(n) for answer, n in counts.head(8).items()},
        "other_answers": int(counts.iloc[8:].sum()),
    }
    wide = answers.pivot(index="image_id", columns="annotator", values="answer")
    twice = int((wide.notna().sum(axis=1) > 1).sum())
    summary |= {"seen_by_several": twice, "alpha": None, "low": None, "high": None}
    if twice:
        try:
            alpha = krippendorff_alpha(wide.astype(object).where(wide.notna(), None).to_numpy())
        except InputError as error:
            summary["no_alpha"] = str(error)
        else:
            summary |= {"alpha": alpha.value, "low": alpha.ci_low, "high": alpha.ci_high}
    return summary
