"""The suite ``prompts``: every prompt a query of its own over one pool, with a planted preference."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equipoise.audit import AuditConfig, measure_again, run
from equipoise.audit.asking import prompts_of
from equipoise.audit.suites import SUITES
from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.measure.notes import corrected_p

SUITE = SUITES.load("prompts")
PROMPTS = ("a thief", "a robber", "a nurse", "a pilot", "a clerk")
KINDS = ("crime", "crime", "job", "job", "job")


def faces(n: int = 120) -> pd.DataFrame:
    rows = [
        {"image_id": f"{gender}-{number}", "gender": gender, "age": ("old", "young")[number % 2]}
        for gender in ("female", "male")
        for number in range(n)
    ]
    frame = pd.DataFrame(rows)
    frame.attrs["axes"] = ["gender", "age"]
    return frame


def luck(row: dict, text: str) -> float:
    return float(np.random.default_rng(zlib.crc32(f"{row['image_id']} {text}".encode())).random())


def unfair(row: dict, text: str) -> float:
    """Crimes fit images of men; jobs and age do not matter."""
    return luck(row, text) + (0.5 if text in PROMPTS[:2] and row["gender"] == "male" else 0.0)


def config(**more: object) -> AuditConfig:
    return AuditConfig(prompts=PROMPTS, prompt_kinds=KINDS, draws=200, **more)


def test_a_planted_preference_is_found_in_its_prompts_and_kind(scored, picked):
    found = SUITE.measure(scored(SUITE, faces(), unfair, config()), config()).frame()
    by_prompt = found[(found["metric"] == "max_skew") & (found["axis"] == "gender") & found["subject"].notna()]
    assert set(by_prompt["subject"]) == set(PROMPTS)
    p = by_prompt.set_index("subject")["p_value"]
    assert (p[["a thief", "a robber"]] < 0.02).all()
    assert (p[["a nurse", "a pilot", "a clerk"]] > 0.05).all()
    whole = found[found["subject"].isna()]
    assert picked(whole, metric="max_skew", axis="gender | prompts=crime").p_value < 0.02
    assert picked(whole, metric="max_skew", axis="gender | prompts=job").p_value > 0.05
    assert picked(whole, metric="max_skew", axis="age").p_value > 0.05
    assert picked(whole, metric="closest_kind_gap", axis="gender | prompts=crime").p_value < 0.02
    assert picked(whole, metric="closest_kind_gap", axis="age | prompts=crime").p_value > 0.05
    men = picked(whole, metric="closest_kind", axis="gender | prompts=crime", group="male").value
    assert men > picked(whole, metric="closest_kind", axis="gender | prompts=crime", group="female").value + 0.2


def test_the_values_are_those_worked_by_hand(scored, picked):
    """Of the 24 first for a thief all are men where half of the pool is: ln(1 / 0.5)."""
    found = SUITE.measure(scored(SUITE, faces(), unfair, config()), config()).frame()
    thief = found[(found["subject"] == "a thief") & (found["axis"] == "gender") & (found["metric"] == "max_skew")]
    scores = [(unfair(row, "a thief"), row["gender"]) for row in faces().to_dict("records")]
    men = np.mean([gender == "male" for _, gender in sorted(scores, reverse=True)[:24]])
    assert thief["k"].iloc[0] == 24
    assert thief["value"].iloc[0] == pytest.approx(np.log(men / 0.5))


def test_the_p_values_of_single_prompts_are_corrected_over_the_prompts_of_a_metric(scored):
    from equipoise.audit.printing import table_of

    found = SUITE.measure(scored(SUITE, faces(), unfair, config()), config())
    frame = found.frame()
    single = frame[frame["subject"].notna() & frame["group"].isna()].to_dict("records")
    families = {(row["metric"], row["axis"]) for row in single}
    assert len(families) > 4
    for metric, axis in families:
        mine = {row["subject"]: row for row in single if (row["metric"], row["axis"]) == (metric, axis)}
        assert set(mine) == set(PROMPTS)
        # Holm by hand: the smallest times five, the next times four, and never below one before it
        least, least_corrected = sorted(mine.values(), key=lambda row: row["p_value"]), 0.0
        for place, row in enumerate(least):
            least_corrected = min(1.0, max(least_corrected, (5 - place) * row["p_value"]))
            assert corrected_p(row) == pytest.approx(least_corrected)
            assert f"Holm p {least_corrected:.3g} over 5 prompts" in row["notes"]
    assert frame[frame["subject"].isna()].apply(corrected_p, axis=1).isna().all()
    text = table_of(frame, everything=True)
    assert "Holm p: the p-value of a single prompt, corrected over the prompts of its metric" in text
    assert "Holm p" not in table_of(frame)  # which shows no single prompt
    assert "gender: p-values of single prompts are corrected over the prompts of each metric (Holm)" in found.notes
    assert not any("can be beyond chance" in note for note in found.notes)


def test_too_few_draws_for_so_many_prompts_are_told_with_how_many_to_type(scored):
    prompts = tuple(f"prompt {number}" for number in range(6))
    few = AuditConfig(prompts=prompts, axes=("gender",), draws=50)
    found = SUITE.measure(scored(SUITE, faces(), luck, few), few)
    assert any("no single one of 6 prompts" in note and "give --draws 300" in note for note in found.notes)
    alone = AuditConfig(prompts=prompts[:1], axes=("gender",), draws=50)
    found = SUITE.measure(scored(SUITE, faces(), luck, alone), alone)
    assert not any("corrected" in note for note in found.notes)  # one prompt needs no correction


def test_a_model_that_knows_nothing_is_not_called_biased(scored, picked):
    found = SUITE.measure(scored(SUITE, faces(), luck, config()), config()).frame()
    for axis in ("gender", "age"):
        assert picked(found[found["subject"].isna()], metric="max_skew", axis=axis).p_value > 0.05


def test_an_image_that_every_prompt_retrieves_widens_the_interval(scored, picked):
    """Twenty prompts that all rank alike are one observation, not twenty."""
    prompts = tuple(f"prompt {i}" for i in range(20))
    settings = AuditConfig(prompts=prompts, draws=200)
    same = SUITE.measure(scored(SUITE, faces(), lambda row, text: luck(row, ""), settings), settings).frame()
    own = SUITE.measure(scored(SUITE, faces(), luck, settings), settings).frame()

    def width(found: pd.DataFrame) -> float:
        row = picked(found[found["subject"].isna()], metric="max_skew", axis="gender")
        return float(row.ci_high - row.ci_low)

    assert width(same) > 2 * width(own)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "give a file with one per line with --prompts FILE"),
        ({"prompts": ["a {}"]}, "asks prompts as they stand"),
        ({"prompts": ["a", "a"]}, "'a' is given twice"),
        ({"prompts": [" "]}, "a prompt is empty"),
        ({"prompts": ["a"], "k": [500]}, "K = 500, but only 240 images .* give a smaller --k"),
        ({"prompts": ["a", "b"], "prompt_kinds": ["x"]}, "2 prompts and 1 kinds"),
    ],
)
def test_what_cannot_be_asked_is_told(settings, said, scored):
    def asked() -> None:
        given = SUITE.configured({**settings, "draws": 20})
        frame = faces()
        SUITE.check(frame, given)
        SUITE.measure(scored(SUITE, frame, luck, given), given)

    with pytest.raises(InputError, match=said):
        asked()


def test_a_prompt_without_a_place_leads_to_this_suite_from_others():
    with pytest.raises(InputError, match="take --suite prompts"):
        SUITES.load("intersectional").configured({"prompts": ["a criminal"]})
    with pytest.raises(InputError, match="only the suite 'prompts'"):
        SUITES.load("faces").configured({"prompt_kinds": ["a"], "prompts": ["{}"]})


def test_prompts_come_from_lines_or_columns(tmp_path: Path):
    (tmp_path / "p.txt").write_text("a thief\n# a remark\n\na nurse\n")
    assert prompts_of(tmp_path / "p.txt") == {"prompts": ("a thief", "a nurse")}
    (tmp_path / "p.csv").write_text("prompt,kind\na thief,crime\na nurse,job\n")
    assert prompts_of(tmp_path / "p.csv") == {"prompts": ("a thief", "a nurse"), "prompt_kinds": ("crime", "job")}
    for text, said in (("", "holds no prompt"), ("words\na\n", "no column 'prompt'")):
        (tmp_path / "q.csv").write_text(text or "prompt\n")
        with pytest.raises(InputError, match=said):
            prompts_of(tmp_path / "q.csv")
    with pytest.raises(InputError, match="no such file"):
        prompts_of(tmp_path / "gone.txt")


class Bare:
    """All that a model needs to have."""

    def encode_images(self, images):
        return np.array([[image.getpixel((0, 0))[0] + 1.0, 1.0] for image in images])

    def encode_texts(self, texts):
        return np.array([[1.0, len(text)] for text in texts], dtype=float)


def test_any_object_that_encodes_is_a_model_and_the_folder_gets_its_page(tmp_path: Path, monkeypatch):
    from PIL import Image

    from equipoise.audit import running
    from equipoise.report import write_into

    pages = []
    monkeypatch.setattr(running, "write_page_into", lambda folder: pages.append(write_into(folder)[0]))
    rows = [
        {"image_id": str(i), "image": _png(Image.new("RGB", (4, 4), (4 * i, 0, 0))), "gender": "fm"[i % 2]}
        for i in range(40)
    ]
    Table.create(tmp_path / "t", rows, axes=["gender"])
    done = run(Bare(), "prompts", tmp_path / "t", tmp_path / "run", config={"prompts": ["a", "bb"], "draws": 50})
    assert done.model == "Bare"
    assert any("has no attribute 'key'" in note for note in done.notes)
    assert pages == [tmp_path / "run" / "report.html"]
    assert done.verdict
    assert done.verdict in done._repr_html_()
    with pytest.raises(InputError, match="encode_images"):
        run(3, "prompts", tmp_path / "t", config={"prompts": ["a"]})
    with pytest.raises(InputError, match=r"a setting of the suite: config=\{'axes'"):
        run(Bare(), "prompts", tmp_path / "t", axis="gender")
    with pytest.raises(InputError, match="did you mean 'model_options'"):
        run(Bare(), "prompts", tmp_path / "t", model_option={})


class Leaning:
    """Sees the number that a picture's red stands for, and puts even ones first for a, odd ones first for b."""

    def encode_images(self, images):
        even = np.array([image.getpixel((0, 0))[0] // 4 % 2 == 0 for image in images])
        return np.stack([even, ~even], axis=1).astype(np.float32)

    def encode_texts(self, texts):
        return np.array([[1, 0.5] if text == "a" else [0.5, 1] for text in texts], dtype=np.float32)


def test_the_page_says_whom_a_prompt_favours(tmp_path: Path):
    from PIL import Image

    from equipoise.report import write_into

    rows = [
        {"image_id": str(i), "image": _png(Image.new("RGB", (4, 4), (4 * i, 0, 0))), "gender": "fm"[i % 2]}
        for i in range(60)
    ]
    Table.create(tmp_path / "t", rows, axes=["gender"])
    run(Leaning(), "prompts", tmp_path / "t", tmp_path / "run", config={"prompts": ["a", "b"], "draws": 50})
    write_into(tmp_path / "run")
    files = tmp_path / "run" / "report_files"
    shares = pd.read_csv(files / "subject_groups.csv").set_index(["subject", "group"])
    assert (shares["expected"] == 0.5).all()  # of the whole pool
    assert shares["share"].to_dict() == {("a", "f"): 1.0, ("a", "m"): 0.0, ("b", "f"): 0.0, ("b", "m"): 1.0}
    assert set(pd.read_csv(files / "subjects.csv")[["subject", "favours"]].itertuples(index=False, name=None)) == {
        ("a", "f"),
        ("b", "m"),
    }
    data = pd.read_csv(files / "subjects.csv")
    assert data["p_holm"].tolist() == pytest.approx((2 * data["p_value"]).clip(upper=1).tolist())  # both are equal
    assert data["p_holm"].tolist() == pytest.approx(pd.read_csv(files / "strip.csv")["p_holm"].tolist())
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "The p of a prompt is corrected over the prompts of its metric (Holm)." in page
    assert "Filled: p &lt; 0.05 corrected over the prompts (Holm)." in page
    assert "for this subject alone" not in page
    # measured again without the model, the page of the other folder shows the same shares
    measure_again(tmp_path / "run", config={"draws": 40}, out=tmp_path / "again")
    write_into(tmp_path / "again")
    other = tmp_path / "again" / "report_files"
    again = pd.read_csv(other / "subject_groups.csv").set_index(["subject", "group"])
    pd.testing.assert_frame_equal(again[["share", "expected"]], shares[["share", "expected"]])
    assert (other / "subject_groups.svg").is_file()
    favours = [dict(pd.read_csv(home / "subjects.csv")[["subject", "favours"]].to_numpy()) for home in (files, other)]
    assert favours[0] == favours[1] == {"a": "f", "b": "m"}
    assert not (tmp_path / "again" / "_evidence").exists()


def _png(image) -> dict:
    import io

    held = io.BytesIO()
    image.save(held, format="PNG")
    return {"bytes": held.getvalue(), "path": None}
