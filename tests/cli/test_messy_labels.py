"""Labels as people type them, from the file to the numbers: the clean and the messy spelling give the same audit."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.data import Table, read_results

JOBS = ("artist", "nurse")
CLEAN = {"male": "male", "female": "female", "nobody": ""}
MESSY = {
    "male": ("male", "male", "Male", "MALE", " male "),
    "female": ("female", "female", "Female"),
    "nobody": ("N/A", "unknown", "nan", ""),
}


def folder_of_images(home: Path, spell) -> Path:
    """An image folder with ``metadata.csv``; ``spell(group, number)`` writes the label."""
    home.mkdir()
    Image.new("RGB", (4, 4)).save(home / "p.png")
    with (home / "metadata.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["file_name", "image_id", "subject", "set_id", "gender"])
        for number in range(48):
            group = ("male", "female", "nobody")[number % 3]
            Image.new("RGB", (4, 4), (number, 0, 0)).save(home / f"{number}.png")
            out.writerow(
                [f"{number}.png", f"i{number}", JOBS[number % 2], f"s{number // 6}-{number % 2}", spell(group, number)]
            )
    (home / "p.png").unlink()
    return home


def done(*arguments) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def scores(home: Path, prompt_texts) -> Path:
    rng = np.random.default_rng(0)
    rows = [
        {"image_id": f"i{n}", "text_id": text, "score": float(rng.normal() + (n % 3 == 0))}
        for text in prompt_texts
        for n in range(48)
    ]
    return Table.create(home, rows, kind="scores").path


@pytest.fixture
def imported(tmp_path) -> dict[str, Path]:
    places = {}
    for name, spell in (
        ("clean", lambda group, n: CLEAN[group]),
        ("messy", lambda group, n: MESSY[group][n % len(MESSY[group])]),
        ("coded", lambda group, n: {"female": "0", "male": "1.0", "nobody": ""}[group]),
    ):
        source = folder_of_images(tmp_path / f"{name}-folder", spell)
        said = done("table", "import", "imagefolder", source, tmp_path / name)
        places[name] = tmp_path / name
        if name == "messy":
            assert "read as 'male'" in said
            assert "read as unknown" in said
            assert "'N/A'" in said
    return places


def audited(table: Path, home: Path) -> tuple[pd.DataFrame, str]:
    asked = [f"a photo of {'an' if job[0] == 'a' else 'a'} {job}" for job in JOBS]
    common = ["--table", table, "--prompt", "a photo of a {}"]
    assert done("suites", "intersectional", *common).split("\n")[:2] == asked
    told = done(
        *(
            "audit",
            "-s",
            "intersectional",
            *common,
            "--from-scores",
            scores(home / "scores", asked),
            "-o",
            home / "out",
        ),
        *("--k", "4", "--draws", "50", "--no-report"),
    )
    return pd.DataFrame(read_results(home / "out")), told


def test_a_messy_table_gives_the_numbers_of_the_clean_one(imported, tmp_path):
    frames = {}
    for name, table in imported.items():
        (tmp_path / f"audit-{name}").mkdir()
        frames[name], _ = audited(table, tmp_path / f"audit-{name}")
    columns = ["metric", "axis", "group", "subject", "k", "value", "null_mean", "p_value", "n"]
    clean = frames["clean"][columns]
    pd.testing.assert_frame_equal(clean, frames["messy"][columns])
    assert set(clean["group"].dropna()) <= {"female", "male", "female - male", "male - female"}
    coded = frames["coded"]["group"].replace({"0": "female", "1": "male", "0 - 1": "female - male"})
    assert coded.fillna("").tolist() == clean["group"].fillna("").tolist()
    # Of two genders the masculine one counts as positive; of two codes the first, which here stands for female.
    turned = clean["metric"].isin(["bias_at_k", "bias_count_at_k"])
    assert turned.any()
    values = clean["value"].where(~turned, -clean["value"])
    assert np.allclose(frames["coded"]["value"], values, equal_nan=True)


def test_a_table_written_as_it_was_is_joined_when_it_is_read(tmp_path):
    rows = [
        {"image_id": f"i{n}", "subject": JOBS[n % 2], "set_id": f"s{n // 6}-{n % 2}", "gender": label}
        for n in range(48)
        for label in [(MESSY["male"], MESSY["female"], MESSY["nobody"])[n % 3][n % 3]]
    ]
    rows[3]["gender"], rows[6]["gender"] = float("nan"), " MALE"
    table = Table.create(tmp_path / "raw", rows, axes=["gender"])
    before = table.fingerprint
    assert table.group_counts("gender") == {"female": 16, "male": 15, None: 17}
    frame, told = audited(table.path, tmp_path)
    assert set(frame["group"].dropna()) <= {"female", "male", "female - male", "male - female"}
    assert "note: gender: " in told
    assert "read as 'male'" in told
    assert "16 'nan' read as unknown" in told
    assert Table.open(table.path).fingerprint == before
    again = done("measure", tmp_path / "out", "--draws", "60", "-o", tmp_path / "again", "--no-report")
    assert "read as 'male'" in again


@pytest.mark.parametrize("value", [1, 1.0, np.int64(1), np.float32(1)])
def test_records_and_frames_take_whole_numbers_and_nan_alike(tmp_path, value):
    rows = [{"image_id": "a", "gender": value}, {"image_id": "b", "gender": float("nan"), "caption": float("nan")}]
    of_records = Table.create(tmp_path / "records", rows, axes=["gender"]).to_arrow()
    of_frame = Table.create(tmp_path / "frame", pd.DataFrame(rows), axes=["gender"]).to_arrow()
    assert of_records["gender"].to_pylist() == of_frame["gender"].to_pylist() == ["1", None]
    assert of_records["caption"].to_pylist() == of_frame["caption"].to_pylist() == [None, None]


def test_messy_labels_in_a_caption_file(tmp_path):
    rng = random.Random(0)
    with (tmp_path / "captions.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["image_id", "caption", "gender"])
        for n in range(120):
            group = ("male", "female", "nobody")[n % 3]
            colour = rng.choice(["blue", "red"])
            out.writerow([n, f"a person with a {colour} kite in the park", MESSY[group][n // 3 % len(MESSY[group])]])
    told = done(
        *("captions", tmp_path / "captions.csv", "--labels", "gender", "-o", tmp_path / "out"),
        *("--seeds", "2", "--permutations", "20"),
    )
    assert "gender: 'Female' read as 'female'; ' male ', 'MALE' and 'Male' read as 'male'" in told
    assert "10 'N/A', 10 'nan' and 10 'unknown' read as unknown" in told
    results = pd.DataFrame(read_results(tmp_path / "out"))
    assert {"male", "female"} >= set(results["group"].dropna()) & {"Male", "MALE", "N/A", "nan", "unknown", "male"}


def test_help_says_what_braces_mean():
    said = " ".join(done("audit", "--help").replace("│", " ").split())
    assert "{} for the bare subject, {a} for it with its article" in said


def test_a_suite_with_texts_of_its_own_refuses_prompts(imported, tmp_path):
    result = CliRunner().invoke(app, ["suites", "recall-gap", "-t", str(imported["clean"]), "--prompt", "{a}"])
    assert result.exit_code != 0
    assert "does not read --prompt" in str(result.exception or result.output)
