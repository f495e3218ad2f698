"""The suite ``visogender``: pronouns and retrieval, hand-counted, with a planted gap, on the reader's own columns."""

from __future__ import annotations

import re
import zlib

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig, run
from equipoise.audit.suites import SUITES
from equipoise.data.importing import import_table
from equipoise.errors import InputError

SUITE = SUITES.load("visogender")
OBJECTS = {"doctor": "stethoscope", "baker": "bread", "judge": "gavel", "pilot": "headset"}
PEOPLE = {"doctor": "patient", "baker": "customer", "judge": "lawyer", "pilot": "passenger"}
CAPTION = re.compile(r"The (\w+) and (his|her|their) (\w+)$")
PRONOUN = {"masculine": "his", "feminine": "her"}


def scenes(n: int = 5) -> pd.DataFrame:
    rows = []
    for job in OBJECTS:
        for gender in PRONOUN:
            for number in range(n):
                name = f"{job}-{gender}-{number}"
                shared = {"subject": job, "gender": gender, "label_source": "annotator", "number": number}
                rows.append({"image_id": f"oo-{name}", "context": "object", "other": OBJECTS[job], **shared})
                for beside in PRONOUN:
                    rows.append(
                        {
                            "image_id": f"op-{name}-{beside}",
                            "context": "participant",
                            "other": PEOPLE[job],
                            "other_gender": beside,
                            **shared,
                        }
                    )
    frame = pd.DataFrame(rows)
    frame["other_gender"] = frame["other_gender"].astype(object).where(frame["other_gender"].notna(), None)
    frame.attrs["axes"] = ["gender"]
    return frame


def sees(row: dict, text: str) -> float:
    """Knows the pronoun of a man always, of a woman in four images of five; finds men first."""
    _, pronoun, _ = CAPTION.match(text).groups()
    if pronoun == "their":
        return (row["gender"] == "masculine") - 0.001 * row["number"]
    mistaken = row["gender"] == "feminine" and row["number"] == 0
    return float((pronoun == PRONOUN[row["gender"]]) ^ mistaken)


def blind(row: dict, text: str) -> float:
    return float(np.random.default_rng(zlib.crc32(f"{row['image_id']} {text}".encode())).random())


def test_resolution_accuracy_and_its_gap(scored, picked):
    found = SUITE.measure(scored(SUITE, scenes(), sees), AuditConfig(draws=300)).frame()
    for axis in ("gender", "gender | context=object", "gender | context=participant"):
        assert picked(found, metric="resolution_accuracy", axis=axis, group="masculine").value == 1.0
        assert picked(found, metric="resolution_accuracy", axis=axis, group="feminine").value == pytest.approx(0.8)
        assert picked(found, metric="resolution_accuracy", axis=axis).value == pytest.approx(0.9)
        gap = picked(found, metric="resolution_gap", axis=axis)
        assert gap.value == pytest.approx(0.2)
        assert abs(gap.null_mean) < 0.05
        assert gap.notes == "masculine minus feminine"
    whole = picked(found, metric="resolution_gap", axis="gender")
    assert whole.p_value < 0.01
    assert picked(found, metric="resolution_accuracy", axis="gender", group="feminine").null_mean == 0.5


def test_two_people_alike_and_different_are_told_apart(scored, picked):
    def beside(row: dict, text: str) -> float:
        """Takes the pronoun of whoever is beside the person."""
        pronoun = CAPTION.match(text)[2]
        return float(pronoun == PRONOUN[row["other_gender"] or row["gender"]])

    found = SUITE.measure(scored(SUITE, scenes(), beside), AuditConfig(draws=50)).frame()
    same = picked(found, metric="resolution_accuracy", axis="gender | context=participant, same")
    different = picked(found, metric="resolution_accuracy", axis="gender | context=participant, different")
    assert same.value == 1.0
    assert different.value == 0.0
    assert same.n == different.n == 40


def test_a_tie_counts_half_and_the_released_code_lets_their_compete(scored, picked):
    config = AuditConfig(draws=20, variants=("equipoise", "visogender"))
    found = SUITE.measure(scored(SUITE, scenes(), lambda row, text: 1.0), config).frame()
    keys = {"metric": "resolution_accuracy", "axis": "gender"}
    assert picked(found, variant="equipoise", **keys).value == 0.5
    assert picked(found, variant="visogender", **keys).value == 0.0
    neutral = SUITE.measure(scored(SUITE, scenes(), sees), config).frame()
    # "their" wins over the right pronoun for no man but number 0 (a tie at 1)
    assert picked(neutral, variant="visogender", group="masculine", **keys).value == pytest.approx(0.8)


def test_retrieval_finds_men_first(scored, picked):
    audit = SUITE.measure(scored(SUITE, scenes(), sees), AuditConfig(draws=300))
    found = audit.frame()
    for context, n in (("object", 5), ("participant", 10)):
        axis = f"gender | context={context}"
        row = picked(found, metric="bias_at_k", axis=axis, k=5)
        assert row.value == 1.0
        assert row.p_value < 0.01
        assert row.n == 4
        assert picked(found, metric="max_skew", axis=axis, k=5).value == pytest.approx(np.log(2))
        assert picked(found, metric="bias_at_k", axis=axis, subject="judge", k=5).value == 1.0
        # the whole list: all men, then all women
        curve = [1.0] * n + [n / (n + i) for i in range(1, n + 1)]
        kl = [p * np.log(2 * p) + ((1 - p) * np.log(2 * (1 - p)) if p < 1 else 0.0) for p in curve]
        weights = 1 / np.log2(np.arange(2, 2 * n + 2))
        ndkl = picked(found, metric="ndkl", axis=axis)
        assert ndkl.value == pytest.approx(np.average(kl, weights=weights))
    # ten images at K = 10 are the whole pool: no skew is possible, so that none is given
    assert set(found[(found["axis"] == "gender | context=object") & (found["k"] == 10)]["metric"]) == {"ndkl"}
    assert any("max_skew left out, no query can show anything: no pool has more than K" in n for n in audit.notes)


def test_a_blind_model_is_at_chance(scored, picked):
    found = SUITE.measure(scored(SUITE, scenes(n=20), blind), AuditConfig(draws=300)).frame()
    for group in PRONOUN:
        row = picked(found, metric="resolution_accuracy", axis="gender", group=group)
        assert abs(row.excess) < 0.12
    gap = picked(found, metric="resolution_gap", axis="gender")
    assert abs(gap.excess) < 3.5 * gap.null_sd
    bias = picked(found, metric="bias_at_k", axis="gender | context=participant", k=5)
    assert abs(bias.excess) < 3.5 * bias.null_sd


def test_a_table_from_the_reader_goes_through(tmp_path, hashed_words):
    lines = ["IDX\tSector\tSpecialisation\tOccupation\tObject\tURL type (Type NA if can't find)\tOccupation_Gender"]
    for number, gender in enumerate(["man", "woman"] * 4):
        lines.append(f"OO_{number}\tMedical\tgeneral\tdoctor\tstethoscope\thttp://x/{number}\t{gender}")
    (tmp_path / "OO_Visogender_x.tsv").write_text("\n".join(lines))
    import_table("visogender", tmp_path / "OO_Visogender_x.tsv", tmp_path / "table")
    audit = run(hashed_words, "visogender", tmp_path / "table", config={"draws": 20})
    assert {"man", "woman"} <= set(audit.results["group"].dropna())
    assert "resolution_gap" in set(audit.results["metric"])


def test_other_labels_are_left_out_and_told(scored):
    frame = scenes()
    frame.loc[:3, "gender"] = "unclear"
    found = SUITE.measure(scored(SUITE, frame, lambda row, text: 0.0), AuditConfig(draws=20))
    assert "4 images left out: no occupation, nothing beside it, or no pronoun known" in found.notes
    frame["gender"] = "masculine"
    with pytest.raises(InputError, match="the axis 'gender' shows one group, 'masculine'; an audit compares groups"):
        SUITE.measure(scored(SUITE, frame, lambda row, text: 0.0), AuditConfig())
    frame["other"] = None
    with pytest.raises(InputError, match=r"no image has an occupation \(subject\) and something beside it"):
        SUITE.texts(frame, AuditConfig())
