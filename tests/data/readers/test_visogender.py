"""VisoGender: both contexts, both spellings of the columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from equipoise.data.readers import read
from equipoise.errors import InputError

OP = "IDX\tSector\tSpecialisation\tOccupation\tParticipant\tURL type (Type NA if can't find)\tLicence\t"
OP += "Occupation_Gender\tParticipant_Gender\tError codes\tAnnotator\n"
OO = "IDX\tSector\tSpecialisation\tOccupation\tObject\tURL type (Type NA if can't find)\tLICENSE OK?\t"
OO += "Occupation_perceived_gender\tError codes\tAnnotator\r\n"


def test_both_contexts(tmp_path: Path, collect: Any, touch: Any) -> None:
    (tmp_path / "OP").mkdir()
    (tmp_path / "OO").mkdir()
    (tmp_path / "US").mkdir()
    (tmp_path / "US" / "stats.tsv").write_text("Occupation\tmale_proportion\nteacher\t26\n")
    (tmp_path / "OP" / "OP_Visogender_11012024.tsv").write_text(
        OP
        + "OP_1\teducation\tinstitutional\tteacher\tstudent\thttps://x/1.jpg\tYes\tman\twoman\t\tA\n"
        + "OP_2\teducation\tinstitutional\tteacher\tstudent\tNA\tYes\tman\twoman\t\tA\n"
        + "OP_1\teducation\tinstitutional\tteacher\tstudent\thttps://x/1.jpg\tYes\tman\twoman\t\tA\n"
        + "OP_3\teducation\tinstitutional\n"
    )
    (tmp_path / "OO" / "OO_Visogender_10052025.tsv").write_bytes(
        (OO + "OO_1\toffice\tlegal\tlawyer\tdesk\thttps://x/2.jpg\tYes\tfeminine\t\tB\r\n").encode()
        + b"OO_2\toffice\tlegal\t\tdesk\thttps://x/2.jpg\tYes\tfeminine\t\tB\r\n"
        + b"OO_3\toffice\tlegal\tlawyer\tdesk\thttps://x/2.jpg\tYes\tfeminine\t\tB\r\n"
    )
    for name in ("OP_1.jpeg", "OO_1.png", "OO_2.jpg"):
        touch(tmp_path / "pictures" / name)
    good, bad = collect("visogender", tmp_path, images=tmp_path / "pictures")
    assert [(r["image_id"], r["subject"], r["gender"], r["other"], r["other_gender"], r["context"]) for r in good] == [
        ("OO_1", "lawyer", "feminine", "desk", None, "object"),
        ("OP_1", "teacher", "man", "student", "woman", "participant"),
    ]
    assert good[1]["image"]["path"].endswith("OP_1.jpeg")
    reasons = [b.reason for b in bad]
    assert reasons[0] == "the occupation is empty"
    assert "'OO_3.jpg' is not in" in reasons[1]
    assert reasons[2] == "no image was found for this entry when the dataset was made"
    assert "was given before" in reasons[3]
    assert reasons[4] == "the record has 3 fields but there are 11 columns"


def test_without_images_the_rows_have_an_address(tmp_path: Path, collect: Any) -> None:
    path = tmp_path / "OO_Visogender_10052025.tsv"
    path.write_text(OO + "OO_1\toffice\tlegal\tlawyer\tdesk\thttps://x/2.jpg\tYes\tfeminine\t\tB\n")
    good, _ = collect("visogender", path)
    assert (good[0]["image"], good[0]["url"]) == (None, "https://x/2.jpg")


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n")
    with pytest.raises(InputError, match="no TSV file with a column 'IDX'"):
        list(read("visogender", tmp_path))
    (tmp_path / "a.tsv").write_text("IDX\tOccupation\n")
    with pytest.raises(InputError, match="not a VisoGender file"):
        list(read("visogender", tmp_path))
