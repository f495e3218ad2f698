"""GenSynth's Table 1 from the real captions, and the same suite on captions whose skew is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from equipoise.audit import compare, measure_again, run_captions
from equipoise.audit.suites.captions_tfidf import PUBLISHED
from equipoise.data.results import RANDOM_RANKING
from equipoise.errors import InputError

METRICS = [("bias_at_k", 5), ("bias_at_k", 10), ("max_skew", 25), ("max_skew", 100)]


@pytest.fixture(scope="module")
def captions(shared_data) -> Path:
    path = shared_data / "coco" / "captions_val2017.json"
    if not path.exists():
        pytest.skip("COCO val2017 captions are not on this machine")
    return path


def values(results, model: str, pool: str) -> list[float]:
    some = results[(results["model"] == model) & (results["pool"] == pool)].set_index(["metric", "k"])["value"]
    return [float(some[key]) for key in METRICS]


@pytest.mark.slow
def test_the_natural_row_of_table_1(captions):
    audit = run_captions("captions-tfidf", captions, config={"draws": 2, "seeds": []})
    np.testing.assert_allclose(values(audit.results, "tfidf", "natural"), PUBLISHED["tfidf", "natural"], atol=0.01)
    # the published random row is one draw that all queries share
    np.testing.assert_allclose(
        values(audit.results, RANDOM_RANKING, "natural"), PUBLISHED[RANDOM_RANKING, "natural"], atol=0.03
    )
    assert "captions of 1,205 male, 513 female and 3,282 undefined images" in audit.notes[0]
    printed = str(audit)
    header = next(line for line in printed.splitlines() if "95% interval" in line)
    assert "published" in header
    assert "tfidf" in printed


@pytest.mark.slow
def test_the_whole_of_table_1(captions, tmp_path):
    audit = run_captions("captions-tfidf", captions, tmp_path)
    for pool in ("natural", "balanced"):
        np.testing.assert_allclose(values(audit.results, "tfidf", pool), PUBLISHED["tfidf", pool], atol=0.01)
    # GenSynth's random row is one draw; balanced, chance is 0 for Bias@K and .1445 and .0751 for two even groups.
    np.testing.assert_allclose(
        values(audit.results, RANDOM_RANKING, "natural"), PUBLISHED[RANDOM_RANKING, "natural"], atol=0.03
    )
    np.testing.assert_allclose(values(audit.results, RANDOM_RANKING, "balanced"), (0, 0, 0.1445, 0.0751), atol=0.02)
    blind = audit.results[audit.results["model"] == RANDOM_RANKING]
    assert (blind["excess"].abs() < 0.01).all()
    skew = audit.results[(audit.results["model"] == "tfidf") & (audit.results["metric"] == "max_skew")]
    assert (skew["excess"] > 0.05).all()
    assert (skew["p_value"] < 0.05).all()


def coco(path: Path, skew: bool, n: int = 60) -> Path:
    """Captions of men and women; with ``skew`` men surf and women read, else who does what is mixed."""
    rng = np.random.default_rng(0)
    words = {"surf": "a {} rides big waves on a board", "read": "a {} reads a thick book at home"}
    annotations = []
    for image in range(n):
        who = ("man", "woman")[image % 2]
        what = ("surf", "read")[image % 2] if skew else ("surf", "read")[int(rng.integers(2))]
        for _ in range(5):
            extra = " ".join(rng.choice(list("abcdefgh"), 3) + rng.choice(list("xyz"), 3))
            annotations.append({"image_id": image, "caption": f"{words[what].format(who)} {extra}"})
    path.write_text(json.dumps({"annotations": annotations}))
    return path


def test_a_planted_skew_is_found_and_a_mixed_one_is_not(tmp_path):
    config = {"draws": 100, "seeds": [0, 1]}
    skewed = run_captions("captions-tfidf", coco(tmp_path / "a.json", True), config=config).results
    mixed = run_captions("captions-tfidf", coco(tmp_path / "b.json", False), config=config).results
    keys = ["model", "pool", "metric", "k"]
    skewed, mixed = skewed.set_index(keys), mixed.set_index(keys)
    at = ("tfidf", "natural", "max_skew", 25)
    assert skewed.loc[at, "excess"] > 0.3
    assert skewed.loc[at, "p_value"] < 0.02
    assert abs(mixed.loc[at, "excess"]) < 3.5 * mixed.loc[at, "null_sd"]
    blind = (RANDOM_RANKING, "natural", "max_skew", 25)
    assert abs(skewed.loc[blind, "excess"]) < 0.05


def test_it_can_be_measured_again_and_compared_model_by_model(tmp_path):
    config = {"draws": 10, "seeds": [0]}
    a = run_captions("captions-tfidf", coco(tmp_path / "a.json", True), tmp_path / "a", config=config)
    b = run_captions("captions-tfidf", coco(tmp_path / "b.json", False), tmp_path / "b", config=config)
    again = measure_again(a.folder, out=tmp_path / "again")
    assert again.results["value"].tolist() == a.results["value"].tolist()
    found = compare(a.folder, b.folder).frame()
    assert set(found["model"]) == {"tfidf", RANDOM_RANKING}
    assert "published" not in str(a)
    assert not a.results["notes"].str.contains("published").any()
    row = found[(found["model"] == "tfidf") & (found["metric"] == "max_skew") & (found["k"] == 25)].iloc[0]
    assert row.value > 0.2
    assert row.n == 300


def test_captions_are_found_again_from_another_folder(tmp_path, monkeypatch):
    coco(tmp_path / "a.json", True)
    monkeypatch.chdir(tmp_path)
    before = run_captions("captions-tfidf", "a.json", "a", config={"draws": 2, "seeds": []})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    again = measure_again(tmp_path / "a")
    assert again.results["value"].tolist() == before.results["value"].tolist()


@pytest.mark.parametrize("some", [{"limit": 20}, {"sample": 20}])
def test_what_some_captions_gave_is_not_measured_again_over_all(tmp_path, some):
    path, config = coco(tmp_path / "a.json", True), {"draws": 10, "seeds": [0]}
    before = run_captions("captions-tfidf", path, tmp_path / "some", config=config, **some)
    again = measure_again(tmp_path / "some")
    assert again.results["value"].tolist() == before.results["value"].tolist()
    with pytest.raises(InputError, match=r"holds the audit of some of them \((limit|sample) 20\); give another folder"):
        run_captions("captions-tfidf", path, tmp_path / "some", config=config)
    run_captions("captions-tfidf", path, tmp_path / "all", config=config)
    with pytest.raises(InputError, match="holds the audit of all of them; give another folder"):
        run_captions("captions-tfidf", path, tmp_path / "all", config=config, **some)


def test_files_that_cannot_be_used_are_refused(tmp_path):
    path = tmp_path / "x.json"
    for text, message in (
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "it has no list of 'annotations'"),
        ('{"annotations": [{"image_id": 1}]}', "annotation 0 has no caption"),
        ('{"annotations": [{"caption": "a man"}]}', "annotation 0 has no image_id"),
        ('{"annotations": []}', "the table has no rows"),
        ('{"annotations": [{"image_id": 1, "caption": "a man"}]}', "no image is labelled 'female'"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            run_captions("captions-tfidf", path)
    with pytest.raises(InputError, match="suite 'recall-gap' asks a model; give MODEL and --table"):
        run_captions("recall-gap", path)
