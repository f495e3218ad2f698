from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from equipoise.data import Rejected, Table, import_table
from equipoise.data.readers import ReaderShape
from equipoise.errors import InputError, UnknownNameError

Png = Callable[..., bytes]
SHAPE = ReaderShape(axes=("gender",), columns={"width": "int64"})


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def photos(tmp_path: Path, make_png: Png) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(6):
        (folder / f"{i}.png").write_bytes(make_png((i, 0, 0)))
    (folder / "empty.png").write_bytes(b"")
    (folder / "text.png").write_text("not an image")
    return folder


def bad_and_good(path: str) -> Iterator[Any]:
    """Six good rows among every kind of bad one."""
    at = Path(path)

    def row(image_id: Any, name: str | None, **more: Any) -> dict[str, Any]:
        return {"image_id": image_id, "image": None if name is None else str(at / name), **more}

    yield row("0", "0.png", gender="female", width=4)
    yield Rejected("labels.csv line 2", "the record has 3 fields but there are 4 columns", {"line": "x"})
    yield row("1", "1.png", gender=None)
    yield row("0", "2.png")
    yield row("9", "missing.png")
    yield row("9", "3.png")
    yield row("10", "empty.png")
    yield row("11", "text.png")
    yield row("12", "4.png", width="wide")
    yield row("13", "4.png", colour="red")
    yield row(14, "4.png")
    yield "nonsense"
    yield row("15", None)
    yield {"image_id": "16", "image": {"bytes": (at / "5.png").read_bytes(), "path": "archive/5.png"}}


def test_bad_rows_are_kept_with_a_reason_and_good_ones_enter(photos: Path, tmp_path: Path) -> None:
    summary = import_table(bad_and_good, photos, tmp_path / "t", shape=SHAPE, rows_per_shard=5)
    table = summary.table
    assert (summary.n_rows, summary.n_rejected) == (5, 9)
    assert [shard.rows for shard in table.shards] == [2, 1, 2]
    rows = list(table.rows(["image_id", "image", "gender", "width"]))
    assert [row["image_id"] for row in rows] == ["0", "1", "9", "15", "16"]
    assert [row["image"] and row["image"]["path"] for row in rows] == ["0.png", "1.png", "3.png", None, "5.png"]
    assert rows[0]["image"]["bytes"] == (photos / "0.png").read_bytes()
    assert rows[0]["gender"] == "female"
    reasons = table.errors()["reason"].tolist()
    for part in (
        "the record has 3 fields",
        "image_id '0' was given before; the first row stays",
        "missing.png is missing",
        "empty.png is empty (0 bytes)",
        "text.png as an image: it is not a known format",
        "column 'width' expects int64 but found 'wide' (str)",
        "column 'colour' is not in the table's schema",
        "column 'image_id' expects string but found 14 (int)",
        "a row is a mapping",
    ):
        assert sum(part in reason for reason in reasons) == 1, part
    assert sum(summary.reasons.values()) == 9
    assert "rows 5, rejected 9" in str(summary)
    table.validate(decode=True)


def test_images_can_stay_where_they_are(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = import_table(bad_and_good, "photos", "t", shape=SHAPE, store="paths").table
    images = [row["image"] for row in table.rows(["image"])]
    assert images[0] == {"bytes": None, "path": str(photos / "0.png")}
    assert images[-1]["bytes"] is not None, "an image inside an archive has no path of its own"
    monkeypatch.chdir("/")
    opened = Table.open(tmp_path / "t")
    table = opened.with_layers([])
    assert [image.getpixel((0, 0)) for _, image in zip(range(2), (i for _, i in table.images()), strict=False)] == [
        (0, 0, 0),
        (1, 0, 0),
    ]


@pytest.mark.parametrize("store", ["bytes", "paths"])
def test_a_dataset_may_be_given_by_a_path_that_goes_up(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    for name in ("2.png", "3.png", "4.png", "5.png", "empty.png", "text.png"):
        (photos / name).unlink()
    (photos / "metadata.csv").write_text("file_name,gender\n0.png,female\n1.png,male\n")
    summary = import_table("imagefolder", "../photos", "t", axes="gender", store=store)
    assert (summary.n_rows, summary.n_rejected) == (2, 0), str(summary)
    summary.table.validate(decode=True)
    (photos / "metadata.csv").write_text("file_name\n../photos/0.png\n1.png\n")
    assert import_table("imagefolder", "../photos", "u", store=store).n_rows == 1, "a name may still not leave"


def test_a_finished_import_says_that_nothing_was_read_again(photos: Path, tmp_path: Path) -> None:
    first = import_table(bad_and_good, photos, tmp_path / "t", shape=SHAPE)
    again = import_table(bad_and_good, photos, tmp_path / "t", shape=SHAPE)
    assert (first.was_there, again.was_there) == (False, True)
    assert "nothing was read again" in str(again)
    assert "nothing was read again" not in str(first)


def test_like_reasons_are_counted_together(tmp_path: Path) -> None:
    def reader(path: str) -> Iterator[Any]:
        for i in range(30):
            yield {"image_id": f"a{i}", "image": f"/nowhere/{i}.jpg"}
        yield Rejected("x", "the caption is empty")
        if path == "one":
            yield {"image_id": "good"}

    with pytest.raises(InputError, match=r"no row of \. can be used, so no table was made: 30 x the image /nowhere/0"):
        import_table(reader, ".", tmp_path / "t", shape=ReaderShape())
    assert not (tmp_path / "t").exists()
    summary = import_table(reader, "one", tmp_path / "t", shape=ReaderShape())
    assert summary.reasons == {"the image … is missing": 30, "the caption is empty": 1}
    assert (summary.n_rows, summary.n_rejected) == (1, 31)


def test_a_registered_reader_brings_its_columns_and_its_licence(tmp_path: Path, make_png: Png) -> None:
    folder = tmp_path / "Caltech"
    for label in ("cat", "dog"):
        (folder / label).mkdir(parents=True)
        (folder / label / "1.png").write_bytes(make_png())
    summary = import_table("classfolder", folder, tmp_path / "t")
    assert summary.n_rows == 2
    assert summary.table.config["reader"] == "classfolder"
    assert summary.table.config["licence"]
    assert "class_id" in summary.table.columns


def test_what_cannot_be_read_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is nothing at"):
        import_table("classfolder", tmp_path / "nowhere", tmp_path / "t")
    with pytest.raises(UnknownNameError, match="no reader named 'coca'; did you mean 'coco'"):
        import_table("coca", tmp_path, tmp_path / "t")
    with pytest.raises(InputError, match="needs shape="):
        import_table(bad_and_good, tmp_path, tmp_path / "t")
    with pytest.raises(InputError, match="store='links' is not known"):
        import_table("coco", tmp_path, tmp_path / "t", store="links")
    with pytest.raises(InputError, match="rows_per_shard must be at least 1"):
        import_table("coco", tmp_path, tmp_path / "t", rows_per_shard=0)
    assert not (tmp_path / "t").exists()


CHILD = """
import sys
from equipoise.data import Rejected, import_table
from equipoise.data.readers import ReaderShape

def reader(path):
    for i in range(95):
        if i % 10 == 3:
            yield Rejected(f"line {i}", "bad luck")
        else:
            yield {"image_id": f"{i // 2 if i > 80 else i}", "caption": f"caption {i}"}

import_table(reader, sys.argv[1], sys.argv[2], shape=ReaderShape(), rows_per_shard=10)
"""


@pytest.mark.slow
def test_an_interrupted_import_goes_on_and_ends_with_the_same_files(tmp_path: Path) -> None:
    def run(out: str, failpoint: str = "") -> int:
        environment = {**os.environ, "EQUIPOISE_FAILPOINT": failpoint}
        return subprocess.run(
            [sys.executable, "-c", CHILD, str(tmp_path), str(tmp_path / out)], env=environment, timeout=60, check=False
        ).returncode

    assert run("whole") == 0
    assert run("broken", "shard.before_rename:4") == -signal.SIGKILL
    first = (tmp_path / "broken" / "part-00000.parquet").stat().st_mtime_ns
    assert run("broken", "shard.after_rename:3") == -signal.SIGKILL
    assert run("broken") == 0
    assert (tmp_path / "broken" / "part-00000.parquet").stat().st_mtime_ns == first, "what was done is not done again"
    assert files_of(tmp_path / "broken") == files_of(tmp_path / "whole")
    table = Table.open(tmp_path / "broken")
    assert len(table) + table.n_errors == 95
    assert table.errors()["reason"].str.contains("was given before").sum() == 11
    assert run("broken") == 0, "a finished import is accepted as it is"


def test_an_interrupted_import_of_another_file_is_not_continued(tmp_path: Path) -> None:
    source = tmp_path / "list.txt"
    source.write_text("1\n2\n")

    def reader(path: str) -> Iterator[Any]:
        for line in Path(path).read_text().split():
            if line == "2":
                raise RuntimeError("the disk was pulled out")
            yield {"image_id": line}

    with pytest.raises(RuntimeError, match="pulled out"):
        import_table(reader, source, tmp_path / "t", shape=ReaderShape(), rows_per_shard=1)
    assert (tmp_path / "t" / "part-00000.parquet").exists()
    source.write_text("7\n8\n9\n")
    with pytest.raises(InputError, match="made with other settings"):
        import_table(reader, source, tmp_path / "t", shape=ReaderShape(), rows_per_shard=1)


def test_an_interrupted_import_of_a_folder_is_not_continued_with_other_labels(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the labels would be the old ones and half the new, which no file ever said."""
    from equipoise.data import importing

    def labelled(gender: str) -> None:
        lines = [f"{i}.png,{gender}" for i in range(6)]
        (photos / "metadata.csv").write_text("\n".join(["file_name,gender", *lines]) + "\n")

    def interrupted_at_the_third(image: Any) -> bytes:
        looked.append(image)
        if len(looked) == 3:
            raise KeyboardInterrupt
        return whole(image)

    def imported() -> Table:
        return import_table("imagefolder", photos, photos / "table", rows_per_shard=2).table

    whole = importing.image_bytes
    looked: list[Any] = []
    labelled("f")
    with monkeypatch.context() as patched:
        patched.setattr(importing, "image_bytes", interrupted_at_the_third)
        with pytest.raises(KeyboardInterrupt):
            imported()
    assert (photos / "table" / "part-00000.parquet").exists()
    unchanged = (photos / "metadata.csv").stat()
    labelled("m")
    with pytest.raises(InputError, match="made with other settings or from other data"):
        imported()
    labelled("f")
    os.utime(photos / "metadata.csv", ns=(unchanged.st_atime_ns, unchanged.st_mtime_ns))
    assert imported().to_pandas(["gender"])["gender"].tolist() == ["f"] * 6
