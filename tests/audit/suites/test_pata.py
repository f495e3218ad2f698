"""The suite ``pata``: captions that flatter and insult, with a planted preference, through the reader's own columns."""

from __future__ import annotations

import json
import zlib

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig, run
from equipoise.audit.suites import SUITES
from equipoise.audit.suites.pata import scene_captions
from equipoise.data.importing import import_table
from equipoise.errors import InputError

SUITE = SUITES.load("pata")
SCENES = ("office", "garden", "lab", "gym", "car", "hotel")
RACES = ("black", "caucasian", "indian")


def people(n: int = 12) -> pd.DataFrame:
    rows = []
    for scene in SCENES:
        positive = {"gender": [f"photo of a good {scene} person"], "race": [f"photo of a fine {scene} person"]}
        negative = {"gender": [f"photo of a bad {scene} person"], "race": [f"photo of a poor {scene} person"]}
        for race in RACES:
            for gender in ("female", "male"):
                for number in range(n):
                    rows.append(
                        {
                            "image_id": f"{scene}-{race}-{gender}-{number}",
                            "subject": scene,
                            "race": race,
                            "gender": gender,
                            "positive": json.dumps(positive),
                            "negative": json.dumps(negative),
                        }
                    )
    frame = pd.DataFrame(rows)
    frame.attrs["axes"] = ["gender", "race"]
    return frame


def luck(row: dict, text: str) -> float:
    return float(np.random.default_rng(zlib.crc32(f"{row['image_id']} {text}".encode())).random())


def unfair(row: dict, text: str) -> float:
    """Insults fit images of one race, praise those of another; gender does not matter."""
    lean = {("poor", "black"): 0.5, ("fine", "caucasian"): 0.5}
    return luck(row, text) + lean.get((text.split()[3], row["race"]), 0.0)


def test_a_planted_association_is_found_on_its_axis(scored, picked):
    found = SUITE.measure(scored(SUITE, people(), unfair), AuditConfig(draws=300)).frame()
    negative, positive = (f"race | caption={kind}" for kind in ("negative", "positive"))
    for axis, group in ((negative, "black"), (positive, "caucasian")):
        assert picked(found, metric="max_skew", axis=axis, k=10).p_value < 0.01
        share = picked(found, metric="representation", axis=axis, group=group, k=10)
        assert share.value > 0.5 > share.null_mean
    for kind in ("negative", "positive"):
        assert picked(found, metric="max_skew", axis=f"gender | caption={kind}", k=10).p_value > 0.02
    shares = [picked(found, metric="negative_association", axis="race", group=race).value for race in RACES]
    assert shares[0] > shares[2] > shares[1]
    gap = picked(found, metric="negative_association_gap", axis="race")
    assert gap.value == pytest.approx(shares[0] - shares[1])
    assert gap.notes == "black minus caucasian"
    assert gap.p_value < 0.01


def test_without_bias_the_excess_is_within_its_error(scored, picked):
    found = SUITE.measure(scored(SUITE, people(), luck), AuditConfig(draws=300)).frame()
    for axis in ("race", "gender"):
        for kind in ("negative", "positive"):
            row = picked(found, metric="max_skew", axis=f"{axis} | caption={kind}", k=10)
            assert abs(row.excess) < 3.5 * row.null_sd
        gap = picked(found, metric="negative_association_gap", axis=axis)
        assert abs(gap.excess) < 3.5 * gap.null_sd


def test_a_caption_is_asked_only_of_its_scene(scored):
    def elsewhere(row: dict, text: str) -> float:
        """Scores high wherever the caption was not written for: nothing of that may count."""
        return luck(row, text) + 5.0 * (row["subject"] not in text and row["race"] == "black")

    fair = SUITE.measure(scored(SUITE, people(), luck), AuditConfig(draws=20)).frame()
    same = SUITE.measure(scored(SUITE, people(), elsewhere), AuditConfig(draws=20)).frame()
    np.testing.assert_allclose(fair["value"].astype(float), same["value"].astype(float))


def test_captions_come_by_scene_kind_and_axis():
    found = scene_captions(people(), "gender")
    assert len(found) == 12
    assert {caption.scene for caption in found} == set(SCENES)
    assert scene_captions(people(), "age") == []


def test_a_table_from_the_reader_goes_through(tmp_path, hashed_words, picked):
    rng = np.random.default_rng(0)
    lines = [f"gun_range_{rng.choice(RACES)}_{rng.choice(['male', 'female'])}_young|http://x/{i}" for i in range(60)]
    (tmp_path / "pata_fairness.files.lst").write_text("\n".join(lines))
    captions = [
        {
            "short": "gun_range",
            "pos": {"races": ["photo of a sports shooter"], "gender": ["photo of an expert"], "age": []},
            "neg": {"races": ["photo of a gun-runner"], "gender": ["photo of a toy gun"], "age": []},
        }
    ]
    (tmp_path / "pata_fairness.captions.json").write_text(json.dumps(captions))
    import_table("pata", tmp_path, tmp_path / "table")
    audit = run(hashed_words, "pata", tmp_path / "table", config={"draws": 20})
    assert "age: no scene has captions for it" in audit.notes
    assert picked(audit.results, metric="max_skew", axis="race | caption=negative", k=10).n == 1
    assert set(audit.results["axis"]) == {
        f"{axis}{kind}" for axis in ("gender", "race") for kind in ("", " | caption=positive", " | caption=negative")
    }


def test_what_is_missing_or_broken_is_said(scored):
    frame = people(2)
    with pytest.raises(InputError, match="the axis 'hair' shows one group, 'red'; an audit compares groups"):
        SUITE.texts(frame.assign(hair="red"), AuditConfig(axes=("hair",)))
    with pytest.raises(InputError, match="column 'negative' holds 'rude'; JSON from axis to a list of captions"):
        SUITE.texts(frame.assign(negative="rude"), AuditConfig())
