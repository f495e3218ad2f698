"""One's own images as they lie about: lists with columns of any name, frames, saved datasets."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.data import Table, import_rows, import_table, importing
from equipoise.data.images import decode
from equipoise.errors import InputError

COLUMNS = {"image": "where", "caption": "words", "subject": "job"}
AXES = ["gender=sex", "age"]
ROWS = [
    {"where": "photos/a.png", "words": "a cook", "job": "cook", "sex": "female", "age": "old", "camera": "x"},
    {"where": "photos/b.png", "words": "a pilot", "job": "pilot", "sex": "male", "age": "young", "camera": "y"},
]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for name, colour in (("a", "red"), ("b", "blue")):
        Image.new("RGB", (8, 8), colour).save(tmp_path / "photos" / f"{name}.png")
    return tmp_path


def expect_both(table: Table) -> None:
    found = table.to_pandas(["image_id", "caption", "subject", "gender", "age", "camera"])
    assert found["subject"].tolist() == ["cook", "pilot"]
    assert found["gender"].tolist() == ["female", "male"]
    assert found["age"].tolist() == ["old", "young"]
    assert found["caption"].tolist() == ["a cook", "a pilot"]
    assert found["camera"].tolist() == ["x", "y"]
    assert table.axes == ("gender", "age")
    colours = [image.getpixel((0, 0)) for _, image in table.images()]
    assert colours == [(255, 0, 0), (0, 0, 255)]


def written(folder: Path, kind: str) -> Path:
    frame = pd.DataFrame(ROWS)
    path = folder / f"list.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif kind == "json":
        frame.to_json(path, orient="records")
    else:
        frame.to_parquet(path)
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_every_kind_of_list_gives_the_same_table(photos: Path, kind: str) -> None:
    found = import_table("csv", written(photos, kind), photos / "t", columns=COLUMNS, axes=AXES)
    assert (found.n_rows, found.n_rejected) == (2, 0)
    expect_both(found.table)
    assert found.table.to_pandas(["image_id"])["image_id"].tolist() == ["photos/a.png", "photos/b.png"]


def test_the_reader_parquet_takes_paths_too(photos: Path) -> None:
    columns = COLUMNS | {"gender": "sex"}
    made = import_table(
        "parquet", written(photos, "parquet"), photos / "t", columns=columns, axes=["gender", "age"], extra="camera"
    )
    expect_both(made.table)


def test_frames_and_lists_in_memory(photos: Path) -> None:
    for number, data in enumerate((pd.DataFrame(ROWS), ROWS, iter(ROWS))):
        expect_both(import_rows(data, photos / f"t{number}", columns=COLUMNS, axes=AXES, images=photos).table)
    for wrong in ({"a": 1}, 3, "photos"):
        with pytest.raises(InputError, match="rows are expected"):
            import_rows(wrong, photos / "t3")
    with pytest.raises(InputError, match="row 0 is int"):
        import_rows([1], photos / "t3")


def test_rows_in_memory_are_taken_up_only_with_the_same_rows_and_arguments(photos: Path) -> None:
    frame = pd.DataFrame(ROWS)
    arguments: dict[str, Any] = {"columns": COLUMNS, "axes": AXES, "images": photos}
    expect_both(import_rows(frame, photos / "t", **arguments).table)
    again = import_rows(frame.copy(), photos / "t", **(arguments | {"axes": iter(AXES)}))
    assert again.was_there
    others: list[tuple[Any, dict[str, Any]]] = [
        (frame, {"columns": {**COLUMNS, "subject": "sex"}, "axes": ["gender=job", "age"]}),
        (frame.assign(sex=["male", "female"]), {}),
        (frame.iloc[::-1], {}),
        (frame, {"bands": {"age": "30"}}),
    ]
    for data, changed in others:
        with pytest.raises(InputError, match="from other data; choose another folder, or replace it"):
            import_rows(data, photos / "t", **(arguments | changed))
    found = import_rows(others[1][0], photos / "t", overwrite=True, **arguments).table
    assert found.to_pandas(["gender"])["gender"].tolist() == ["male", "female"]


def test_an_interrupted_import_of_rows_is_not_finished_with_others(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "import_table", partial(import_table, rows_per_shard=1))
    pictures = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]

    class Stopped(list[dict[str, Any]]):
        """Rows of which the second is not reached when they are read to be written."""

        times_read = 0

        def __iter__(self) -> Iterator[dict[str, Any]]:
            self.times_read += 1
            yield self[0]
            if self.times_read > 1:
                raise KeyboardInterrupt
            yield self[1]

    rows = [{"id": str(i), "image": picture, "gender": "female"} for i, picture in enumerate(pictures)]
    with pytest.raises(KeyboardInterrupt):
        import_rows(Stopped(rows), photos / "t")
    swapped = [row | {"image": picture} for row, picture in zip(rows, reversed(pictures), strict=True)]
    with pytest.raises(InputError, match="made with other settings or from other data"):
        import_rows(swapped, photos / "t")
    colours = [image.getpixel((0, 0)) for _, image in import_rows(rows, photos / "t").table.images()]
    assert colours == [(255, 0, 0), (0, 0, 255)]


def test_dates_decimals_and_gaps_cost_no_row(photos: Path) -> None:
    frame = pd.DataFrame(
        {
            "path": ["photos/a.png", "photos/b.png"],
            "gender": ["f", None],
            "n": [1, None],
            "captions": [["a cook", "at work"], ["a pilot"]],
            "day": [datetime.date(2020, 5, 1), None],
            "taken": [pd.Timestamp("2020-05-01 10:00"), pd.NaT],
            "price": [Decimal("1.50"), None],
            "visits": [[{"on": datetime.date(2021, 1, 2)}], None],
        }
    )
    frame.to_parquet(photos / "list.parquet")
    columns = ["gender", "n", "captions", "day", "taken", "price", "visits"]
    read_back = pd.read_parquet(photos / "list.parquet")
    tables = [
        import_table("csv", photos / "list.parquet", photos / "file").table,
        import_rows(frame, photos / "frame", images=photos).table,
        import_rows(frame.convert_dtypes(), photos / "nullable", images=photos).table,
        import_rows(read_back, photos / "read_back", images=photos).table,
    ]
    for table in tables:
        first, second = table.rows(columns)
        assert first == {
            "gender": "f",
            "n": 1,
            "captions": ["a cook", "at work"],
            "day": "2020-05-01",
            "taken": "2020-05-01T10:00:00",
            "price": "1.50",
            "visits": '[{"on": "2021-01-02"}]',
        }
        assert second == dict.fromkeys(columns) | {"captions": ["a pilot"]}


def test_bytes_in_a_further_column_are_told(photos: Path) -> None:
    rows: list[dict[str, Any]] = [{"path": "photos/a.png", "raw": b"x"}, {"path": "photos/b.png", "raw": None}]
    found = import_rows(rows, photos / "t", images=photos)
    assert (found.n_rows, found.n_rejected) == (1, 1)
    assert "here it is bytes" in next(iter(found.reasons))
    rows = [{"path": "photos/a.png", "raw": [b"x"]}, {"path": "photos/b.png", "raw": [1]}]
    found = import_rows(rows, photos / "u", images=photos)
    assert "holds a value that is not JSON" in next(iter(found.reasons))


def test_hugging_face_datasets_in_memory_and_saved(photos: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {name: datasets.Value("string") for name in ("words", "job", "age", "camera")}
        | {"where": datasets.Image(), "sex": datasets.ClassLabel(names=["male", "female"])}
    )
    rows = [row | {"where": str(photos / row["where"])} for row in ROWS]
    made = datasets.Dataset.from_list(rows, features=features)
    expect_both(import_rows(made, photos / "memory", columns=COLUMNS, axes=AXES).table)
    made.save_to_disk(str(photos / "saved"))
    expect_both(import_table("datasets", photos / "saved", photos / "one", columns=COLUMNS, axes=AXES).table)
    datasets.DatasetDict({"test": made}).save_to_disk(str(photos / "parts"))
    parts = import_table("datasets", photos / "parts", photos / "two", columns=COLUMNS, axes=AXES).table
    expect_both(parts)
    assert set(parts.to_pandas(["split"])["split"]) == {"test"}
    (photos / "saved" / "state.json").write_text('{"_data_files": [{"filename": "../gone.arrow"}]}')
    with pytest.raises(InputError, match=r"gone\.arrow is missing"):
        import_table("datasets", photos / "saved", photos / "three")


def test_the_command_line_says_which_column_is_which(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos)
    written(photos, "csv")
    words = "table import csv list.csv table --image where --caption words --subject job --axis gender=sex --axis age"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.output
    assert "rows 2, rejected 0" in done.output
    expect_both(Table.open("table"))
    done = CliRunner().invoke(app, ["table", "import", "csv", "list.csv", "-o", "other", "--image", "where"])
    assert done.exit_code == 0, done.output
    assert Table.open("other").axes == ("age",)


def test_full_paths_other_folders_and_usual_names(photos: Path) -> None:
    listed = photos / "lists" / "mine.csv"
    listed.parent.mkdir()
    listed.write_text(f"path,gender\n{photos}/photos/a.png,female\n../photos/b.png,male\n")
    found = import_table("csv", listed, photos / "t")
    assert (found.n_rows, found.table.axes) == (2, ("gender",))
    listed.write_text("file_name,gender\na.png,female\nb.png,male\n")
    with pytest.raises(InputError, match=r"2 x the image 'a\.png' is not in .*--images"):
        import_table("csv", listed, photos / "u")
    assert not (photos / "u").exists()
    assert import_table("csv", listed, photos / "u", images=photos / "photos").n_rows == 2


def test_nothing_blocks_the_next_try(photos: Path) -> None:
    listed = written(photos, "csv")
    with pytest.raises(InputError, match=r"no column 'wher' for 'image'; did you mean 'where'"):
        import_table("csv", listed, photos / "t", columns={"image": "wher"})
    with pytest.raises(InputError, match=r"no row of .* can be used, so no table was made: 2 x the image 'a cook'"):
        import_table("csv", listed, photos / "t", columns={"image": "words"})
    assert not (photos / "t").exists()
    first = import_table("csv", listed, photos / "t", columns={"image": "where"})
    with pytest.raises(InputError, match=r"made with other settings or from other data; .* with --overwrite"):
        import_table("csv", listed, photos / "t", columns=COLUMNS, axes=AXES)
    assert Table.open(photos / "t").fingerprint == first.table.fingerprint
    expect_both(import_table("csv", listed, photos / "t", columns=COLUMNS, axes=AXES, overwrite=True).table)
    (photos / "mine").mkdir()
    (photos / "mine" / "notes.txt").write_text("do not delete")
    with pytest.raises(InputError, match="holds other files"):
        import_table("csv", listed, photos / "mine", columns=COLUMNS, overwrite=True)
    assert (photos / "mine" / "notes.txt").read_text() == "do not delete"


def test_web_addresses_are_refused_with_a_reason(photos: Path) -> None:
    listed = photos / "urls.csv"
    listed.write_text("image,gender\nhttps://example.org/a.png,female\nphotos/b.png,male\n")
    found = import_table("csv", listed, photos / "t")
    assert (found.n_rows, found.n_rejected) == (1, 1)
    assert "is a web address, and nothing is downloaded" in next(iter(found.reasons))


def test_a_list_without_images_or_lines_is_told(photos: Path) -> None:
    listed = photos / "list.csv"
    listed.write_text("sex,job\nfemale,cook\n")
    with pytest.raises(InputError, match=r"--id-column COLUMN \(columns: sex, job\)"):
        import_table("csv", listed, photos / "t")
    listed.write_text("path,job\n")
    with pytest.raises(InputError, match="holds no line below the column names"):
        import_table("csv", listed, photos / "t")
    with pytest.raises(InputError, match="use the reader 'imagefolder' or 'classfolder'"):
        import_table("csv", photos / "photos", photos / "t")
    with pytest.raises(InputError, match=r"ends in one of \.csv"):
        import_table("csv", photos / "photos" / "a.png", photos / "t")
    (photos / "coco.json").write_text(json.dumps({"annotations": []}))
    with pytest.raises(InputError, match="use the reader 'coco'"):
        import_table("csv", photos / "coco.json", photos / "t")


def test_labels_without_images_are_a_table_too(tmp_path: Path) -> None:
    (tmp_path / "faces.csv").write_text("id,gender\n1,f\n2,m\n")
    found = import_table("csv", tmp_path / "faces.csv", tmp_path / "t").table
    assert found.to_pandas(["image_id", "gender"]).to_numpy().tolist() == [["1", "f"], ["2", "m"]]


def test_an_image_folder_with_other_names(photos: Path) -> None:
    pd.DataFrame(ROWS).assign(where=["a.png", "b.png"]).to_csv(photos / "photos" / "metadata.csv", index=False)
    expect_both(import_table("imagefolder", photos / "photos", photos / "t", columns=COLUMNS, axes=AXES).table)


def test_swapped_arguments_and_flags_a_reader_does_not_have(photos: Path) -> None:
    listed = str(written(photos, "csv"))

    def said(*words: str) -> Any:
        return CliRunner().invoke(app, ["table", "import", *words]).exception

    assert "the reader comes first: equipoise table import csv " in str(said(listed, "csv", str(photos / "t")))
    assert "type: equipoise table import csv" in str(said("csv", listed))
    assert "takes no --axis" in str(said("coco", str(photos), str(photos / "t"), "--axis", "gender"))


def test_a_list_from_a_spreadsheet_is_read_by_its_semicolons(photos: Path) -> None:
    pd.DataFrame(ROWS).to_csv(photos / "list.csv", sep=";", index=False)
    expect_both(import_table("csv", photos / "list.csv", photos / "out", columns=COLUMNS, axes=AXES).table)


def test_quotes_around_a_field_of_a_tab_separated_list_are_taken_off(photos: Path) -> None:
    rows = [{**row, "words": f'{row["words"]}, "at work"'} for row in ROWS]
    pd.DataFrame(rows).to_csv(photos / "list.tsv", sep="\t", index=False)
    table = import_table("csv", photos / "list.tsv", photos / "out", columns=COLUMNS, axes=AXES).table
    assert table.to_pandas(["caption"])["caption"].tolist() == [row["words"] for row in rows]
    (photos / "stray.tsv").write_text('where\twords\nphotos/a.png\t"stray\nphotos/b.png\t"a" and "b"\n')
    table = import_table("csv", photos / "stray.tsv", photos / "again", columns={"image": "where", "caption": "words"})
    assert table.table.to_pandas(["caption"])["caption"].tolist() == ['"stray', '"a" and "b"']


def test_a_list_of_which_no_line_can_be_used_says_the_first_reason(photos: Path) -> None:
    (photos / "list.csv").write_text("where,words\nphotos/a.png,a cook,more\n")
    with pytest.raises(InputError, match=r"no line of .* can be used; list.csv line 2: the record has 3 fields but"):
        import_table("csv", photos / "list.csv", photos / "out", columns={"image": "where"})
    (photos / "list.csv").write_text("where,words\n")
    with pytest.raises(InputError, match="holds no line below the column names"):
        import_table("csv", photos / "list.csv", photos / "out", columns={"image": "where"})


def test_pictures_of_pillow_enter_upright_and_one_that_cannot_be_read_costs_its_row(tmp_path):
    """As ``Image.open`` gives them: turned by EXIF, with the inks of print, cut off, without an agreed white."""
    import io

    exif = Image.Exif()
    exif[0x0112] = 6
    files = [io.BytesIO() for _ in range(3)]
    for file, mode in zip(files, ("RGB", "CMYK", "RGB"), strict=True):
        noise = Image.effect_noise((40, 20), 90).convert(mode)
        noise.save(file, "JPEG", exif=exif if file is files[0] else b"")
    files[2] = io.BytesIO(files[2].getvalue()[:-100])
    pictures = [*map(Image.open, files), Image.new("F", (4, 4))]
    rows = [{"image": picture, "image_id": str(i), "gender": "f"} for i, picture in enumerate(pictures)]
    summary = import_rows(rows, tmp_path / "t")
    cells = summary.table.to_arrow(["image_id", "image"]).to_pylist()
    assert [(cell["image_id"], decode(cell["image"]).size) for cell in cells] == [("0", (20, 40)), ("1", (40, 20))]
    assert sorted(summary.table.errors()["where"]) == ["row 2", "row 3"]
