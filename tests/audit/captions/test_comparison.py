"""Two audits of captions of the same images, paired; two datasets, as if they were independent."""

from __future__ import annotations

import json
import random

import pytest

from equipoise.audit import compare
from equipoise.audit.captions.run import audit_captions
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.audit.dataset import DatasetSettings, audit_dataset
from equipoise.data import Table
from equipoise.data.runs import find_run
from equipoise.errors import InputError

N = 160


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    made = tmp_path_factory.mktemp("pairs")
    rng = random.Random(0)
    for name, telling in (("fair", 0.0), ("biased", 0.9)):
        rows = []
        for i in range(N):
            gender = ("female", "male")[i % 2]
            colour = ("red", "blue")[i % 2] if rng.random() < telling else rng.choice(["red", "blue"])
            person = "person" if name == "fair" else ("woman", "man")[i % 2]
            rows.append({"image_id": f"i{i}", "caption": f"a {person} with a {colour} kite {i % 5}", "gender": gender})
        (made / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        settings = CaptionSettings(seeds=4, permutations=3, quality=False)
        audit_captions([made / f"{name}.jsonl"], None, "gender", made / name, settings=settings)
    return made


def picked(frame, metric, **keys):
    some = frame[(frame["metric"] == metric) & frame["group"].isna()]
    for name, value in keys.items():
        some = some[some[name] == value]
    assert len(some) == 1, metric
    return some.iloc[0]


def test_captions_of_the_same_images_are_paired(home, tmp_path):
    found = compare(home / "biased", home / "fair", tmp_path / "out")
    frame = found.frame()
    lic = picked(frame, "lic_m")
    assert lic["model"] == "biased - fair"
    assert lic["value"] > 10
    assert lic["ci_low"] > 0
    assert lic["p_value"] < 0.05
    assert "paired over 4 splits" in lic["notes"]
    silent = picked(frame, "neutral_rate")
    assert (silent["value"], silent["n"]) == (-1.0, N)
    assert "not paired" not in silent["notes"]
    assert "not paired" in picked(frame, "vocabulary")["notes"]
    assert not frame.duplicated(["metric", "variant", "pool", "axis", "group", "k", "subject"]).any()
    run = find_run(tmp_path / "out")
    assert (run.kind, run.finished, run.settings) == ("comparison", True, {"kind": "captions"})
    back = compare(home / "fair", home / "biased").frame()
    assert picked(back, "lic_m")["value"] == pytest.approx(-lic["value"])
    assert picked(back, "lic_m")["p_value"] == pytest.approx(lic["p_value"])


def test_a_model_does_not_differ_from_itself(home):
    frame = compare(home / "fair", home / "fair").frame()
    assert (frame["value"] == 0).all()
    assert not (frame["p_value"] < 0.05).any()


def test_only_folders_of_one_kind_are_compared(home, tmp_path):
    rows = [{"image_id": f"{i}", "subject": "ab"[i % 2], "gender": "fm"[i * i % 3 > 0]} for i in range(60)]
    settings = DatasetSettings(min_images=2, permutations=9, probe_permutations=0)
    for name, n in (("one", 60), ("two", 40)):
        Table.create(tmp_path / f"{name}.table", rows[:n], axes=["gender"])
        audit_dataset(tmp_path / f"{name}.table", tmp_path / name, settings=settings)
    frame = compare(tmp_path / "one", tmp_path / "two").frame()
    assert frame["notes"].str.contains("not paired: as if the two were independent").all()
    assert len(frame) > 3
    with pytest.raises(
        InputError, match=r"holds an audit of captions and .* an audit of a dataset; compare two of one"
    ):
        compare(home / "fair", tmp_path / "one")
    with pytest.raises(InputError, match="holds an audit of a dataset; give another folder with -o, or --overwrite"):
        compare(home / "fair", home / "biased", tmp_path / "one")
    with pytest.raises(InputError, match="holds the audit of another dataset"):
        audit_dataset(tmp_path / "one.table", tmp_path / "two", settings=settings)
