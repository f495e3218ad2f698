"""Result folders to make pages from, and a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tests.chromium import browser

from equipoise.data import Table
from equipoise.data.images import encode

__all__ = ["browser"]

SUBJECTS = ("builder", "nurse", "pilot", "teacher", "chef", "judge", "web developer", "developer")
LEANING = {"nurse": 1.0, "teacher": 0.7, "chef": 0.4, "judge": -0.4, "pilot": -0.7, "builder": -1.0}
"""How strongly each subject leans to "female" in the biased model; the others do not."""


def toy_rows(subjects: tuple[str, ...] = SUBJECTS, sets: int = 6) -> list[dict]:
    rows = []
    for number, subject in enumerate(subjects):
        for place in range(sets):
            for gender in ("female", "male"):
                for tone in ("dark", "light"):
                    shade = 200 if tone == "light" else 60
                    colour = (shade, 40 * (gender == "male") + 20, (37 * number) % 255)
                    image = {"bytes": encode(Image.new("RGB", (48, 48), colour)), "path": None}
                    name = f"{subject}-{place}-{gender}-{tone}"
                    rows.append(
                        {
                            "image_id": name,
                            "set_id": f"{subject}-{place}",
                            "subject": subject,
                            "gender": gender,
                            "skin_tone": tone,
                            "label_source": "world",
                            "image": image,
                        }
                    )
    return rows


def toy_scores(rows: list[dict], strength: float, seed: int) -> list[dict]:
    """Scores of "A photo of …": noise, what the subject leans to, and the subject itself."""
    from equipoise.text.english.articles import with_article

    rng = np.random.default_rng(seed)
    subjects = sorted({row["subject"] for row in rows})
    made = []
    for subject in subjects:
        text = f"A photo of {with_article(subject)}"
        for row in rows:
            lean = LEANING.get(row["subject"], 0.0) * (1 if row["gender"] == "female" else -1)
            score = float(rng.normal()) * 0.3 + strength * lean + (row["subject"] == subject)
            made.append({"image_id": row["image_id"], "text_id": text, "score": score})
    return made


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of sets, the audit of a biased model and of a repaired one beside it, and a filter's funnel."""
    from equipoise.audit import run

    home = tmp_path_factory.mktemp("runs")
    rows = toy_rows()
    table = Table.create(home / "sets", rows, axes=["gender", "skin_tone"])
    for name, strength in (("biased", 0.6), ("repaired", 0.02)):
        scores = Table.create(home / f"{name}-scores", toy_scores(rows, strength, seed=len(name)), kind="scores")
        settings = {"prompts": ("A photo of {a}",), "k": (6,), "draws": 300}
        run(f"{name} model", "intersectional", table, home / name, config=settings, scores=scores, page=False)
    (home / "filters").mkdir()
    (home / "filters" / "funnel.csv").write_text(
        "step,group,subject,kept,dropped\n"
        "sharp,female & dark,nurse,90,10\nsharp,male & light,nurse,99,1\n"
        "person,female & dark,nurse,60,30\nperson,male & light,nurse,95,4\n"
    )
    return home


@pytest.fixture(scope="session")
def truth() -> pd.DataFrame:
    """What was put into the biased model."""
    rows = [
        {"subject": s, "axis": "gender", "group": group, "log_odds": sign * LEANING.get(s, 0.0)}
        for s in SUBJECTS
        for group, sign in (("female", 1), ("male", -1))
    ]
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def captions_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of ``equipoise captions``: a captioner that gives the group away."""
    from equipoise.audit.captions.run import audit_captions
    from equipoise.audit.captions.settings import CaptionSettings

    home = tmp_path_factory.mktemp("captions")
    rng = np.random.default_rng(0)
    captions, human = [], []
    for i in range(300):
        group = ("male", "female")[int(rng.random() < 0.5)]
        telling = "red" if (group == "female") == (rng.random() < 0.85) else "blue"
        neutral = ("red", "blue")[int(rng.random() < 0.5)]
        captions.append({"image_id": i, "caption": f"a person with a {telling} umbrella"})
        human.append({"image_id": i, "captions": [f"a person with a {neutral} umbrella"], "gender": group})
    (home / "model.json").write_text(json.dumps(captions))
    (home / "human.jsonl").write_text("".join(json.dumps(row) + "\n" for row in human))
    settings = CaptionSettings(seeds=2, permutations=10, quality=False, ba_least=5)
    audit_captions([str(home / "model.json")], home / "human.jsonl", "gender", home / "out", settings=settings)
    return home / "out"


@pytest.fixture(scope="session")
def page(runs: Path, truth: pd.DataFrame, captions_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with everything on it."""
    from equipoise.report import write

    out = tmp_path_factory.mktemp("page") / "report.html"
    folders = [runs / "biased", runs / "repaired", captions_folder, runs / "filters"]
    pair = runs / "biased", runs / "repaired"
    return write(folders, out, truth=truth, before_after=pair, naive=pair)


@pytest.fixture
def results_folder(tmp_path: Path) -> Callable[..., Path]:
    """A result folder from rows: no audit, only numbers."""
    from equipoise.data.results import write_results

    def make(rows: list[dict[str, Any]], name: str = "results") -> Path:
        write_results(tmp_path / name / "results.parquet", rows)
        return tmp_path / name

    return make
