"""Exports: what is written opens in the tools it is for, comes back, and appears whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from equipoise.data import Table, import_table
from equipoise.data.exports import EXPORTS, export
from equipoise.data.exports.card import card
from equipoise.data.exports.source import safe_name, suffix_of
from equipoise.data.readers import read
from equipoise.data.sampling import balance_layer
from equipoise.errors import InputError, UnknownNameError

PHOTOS = Path(__file__).parents[3] / "shared" / "data" / "photos"
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def picture(colour: int, kind: str = "PNG") -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (4, 3), (colour, 0, 0)).save(target, kind)
    return target.getvalue()


class Fake:
    """The least that an export needs of a table."""

    def __init__(
        self, rows: list[dict[str, Any]], axes: tuple[str, ...] = ("gender",), path: Path = Path("fake")
    ) -> None:
        self._table = pa.Table.from_pylist(rows, schema=_schema(rows[0]))
        self.axes = axes
        self.path = path
        self.fingerprint = "f" * 64
        self.columns = self._table.column_names

    def __len__(self) -> int:
        return len(self._table)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        return iter(self._table.select(list(columns or self.columns)).to_batches(max_chunksize=2))


def _schema(row: dict[str, Any]) -> Any:
    kinds = {"image": IMAGE, "captions": pa.list_(pa.string()), "keep": pa.bool_(), "score_x": pa.float64()}
    return pa.schema([(name, kinds.get(name, pa.string())) for name in row])


def rows(n: int = 5, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "image": {"bytes": picture(i, "JPEG" if i % 2 else "PNG"), "path": None},
            "image_id": f"set/{i}.a",
            "caption": f'a "photo", no {i}\nof someone é' if i else None,
            "captions": [f"c{i}", "d"],
            "gender": ("female", "male", None)[i % 3],
            "race": ("x|y", "z")[i % 2],
            "split": ("train", "val")[i % 2],
        }
        | more
        for i in range(n)
    ]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A real table with a layer that drops one row."""
    made = Table.create(
        tmp_path / "table",
        rows(6),
        axes=["gender", "race"],
        config={"reader": "test", "source": "/home/ada/photos", "harms": "Some."},
    )
    verdicts = [{"image_id": f"set/{i}.a", "keep": i != 3, "dropped_by": "blur" if i == 3 else None} for i in range(6)]
    return made.add_layer("blur", verdicts, columns=["keep", "dropped_by"])


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("name", EXPORTS.names())
def test_an_existing_target_is_refused_and_not_touched(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    with pytest.raises(InputError, match="out exists already; give another name or remove it first"):
        export(name, Fake(rows()), out)
    assert out.read_text() == "mine"


@pytest.mark.parametrize("name", ["folder", "huggingface", "webdataset"])
def test_an_export_that_fails_leaves_nothing(name: str, tmp_path: Path) -> None:
    made = rows()
    made[4]["image"] = {"bytes": None, "path": "gone.jpg"}
    with pytest.raises(InputError, match=r"image 'set/4.a' cannot be exported: .*gone.jpg"):
        export(name, Fake(made, path=tmp_path), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", EXPORTS.names())
def test_the_same_table_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    one, two = export(name, Fake(rows()), tmp_path / "one"), export(name, Fake(rows()), tmp_path / "two")
    if one.is_dir():
        assert files_below(one) == files_below(two)
    else:
        assert one.read_bytes() == two.read_bytes()


def test_a_folder_comes_back_through_its_reader(table: Table, tmp_path: Path) -> None:
    out = export("folder", table, tmp_path / "out", title="T")
    assert (out / "train" / "metadata.jsonl").is_file()
    back = {row["image_id"]: row for row in read("imagefolder", out, axes="gender,race")}
    assert set(back) == {f"set/{i}.a" for i in range(6)} - {"set/3.a"}
    for original in rows(6):
        if original["image_id"] == "set/3.a":
            continue
        row = back[original["image_id"]]
        assert Path(row["image"]["path"]).read_bytes() == original["image"]["bytes"]
        assert Path(row["image"]["path"]).suffix == (".jpg" if original["split"] == "val" else ".png")
        for column in ("captions", "gender", "race", "split"):
            assert row[column] == original[column]
        assert row["caption"] == (original["caption"] or "c0")
        assert row["keep"] is True


def test_the_folder_opens_in_datasets(table: Table, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    out = export("folder", table, tmp_path / "out")
    found = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert {split: len(found[split]) for split in found} == {"train": 3, "val": 2}
    assert found["train"][0]["image"].size == (4, 3)
    assert found["train"][0]["gender"] == "female"
    flat = export("folder", Fake(rows(3, split=None)), tmp_path / "flat")
    found = datasets.load_dataset(str(flat), cache_dir=str(tmp_path / "cache"))
    assert {split: len(found[split]) for split in found} == {"train": 3}
    assert found["train"][1]["caption"].startswith("a ")


def test_the_parquet_folder_opens_in_datasets(table: Table, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    out = export("huggingface", table, tmp_path / "out", licence="cc-by-4.0")
    found = datasets.load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert {split: len(found[split]) for split in found} == {"train": 3, "val": 2}
    first = found["train"][0]
    assert first["image"].getpixel((0, 0)) == (0, 0, 0)
    assert first["captions"] == ["c0", "d"]
    assert "set/3.a" not in found["val"]["image_id"]
    everything = export("huggingface", table, tmp_path / "all", rows="all")
    assert sum(pq.read_metadata(p).num_rows for p in (everything / "data").iterdir()) == 6


def test_parquet_shards_are_cut_and_numbered(tmp_path: Path) -> None:
    out = export("huggingface", Fake(rows(8)), tmp_path / "out", shard_bytes=1)
    names = sorted(p.name for p in (out / "data").iterdir())
    assert names[0] == "train-00000-of-00004.parquet"
    assert len(names) == 8
    ids = [i for p in (out / "data").iterdir() for i in pq.read_table(p)["image_id"].to_pylist()]
    assert sorted(ids) == [f"set/{i}.a" for i in range(8)]
    with pytest.raises(InputError, match="shard_bytes must be a whole number from 1 up"):
        export("huggingface", Fake(rows()), tmp_path / "x", shard_bytes=0)


def test_images_that_are_paths_are_embedded(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(picture(9))
    made = rows(1, image={"bytes": None, "path": "p.png"})
    out = export("huggingface", Fake(made, path=tmp_path), tmp_path / "out")
    (file,) = (out / "data").iterdir()
    assert pq.read_table(file)["image"].to_pylist() == [{"bytes": picture(9), "path": "set%2F0%2Ea.png"}]


def test_webdataset_shards(tmp_path: Path) -> None:
    out = export("webdataset", Fake(rows(5)), tmp_path / "out", samples=2)
    assert sorted(p.name for p in out.iterdir()) == [
        "README.md",
        "train-000000.tar",
        "train-000001.tar",
        "val-000000.tar",
    ]
    with tarfile.open(out / "train-000000.tar") as shard:
        members = shard.getmembers()
        assert [m.name for m in members] == [
            "set%2F0%2Ea.png",
            "set%2F0%2Ea.json",
            "set%2F2%2Ea.png",
            "set%2F2%2Ea.json",
            "set%2F2%2Ea.txt",
        ]
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {(0, 0, 0, "", "", 0o644)}
        text = shard.extractfile("set%2F2%2Ea.txt")
        assert text is not None
        assert text.read().decode() == rows(5)[2]["caption"]
        about = shard.extractfile("set%2F0%2Ea.json")
        assert about is not None
        assert json.load(about)["captions"] == ["c0", "d"]
    back = [row for row in read("cc3m", out) if isinstance(row, dict)]
    assert [row["caption"] for row in back] == [rows(5)[i]["caption"] for i in (2, 4, 1, 3)]


def test_csv_is_quoted_and_null_is_empty(table: Table, tmp_path: Path) -> None:
    out = export("csv", table, tmp_path / "out.csv")
    with out.open(newline="", encoding="utf-8") as file:
        found = {row["image_id"]: row for row in csv.DictReader(file)}
    assert set(found) == {f"set/{i}.a" for i in (0, 1, 2, 4, 5)}
    assert found["set/1.a"]["caption"] == 'a "photo", no 1\nof someone é'
    assert found["set/0.a"]["caption"] == ""
    assert json.loads(found["set/0.a"]["captions"]) == ["c0", "d"]
    assert (found["set/2.a"]["gender"], found["set/2.a"]["keep"]) == ("", "true")
    some = export("csv", table, tmp_path / "some.csv", columns="gender,image_id", rows="all")
    assert some.read_text().splitlines()[:2] == ["gender,image_id", "female,set/0.a"]
    with pytest.raises(UnknownNameError, match="did you mean 'gender'"):
        export("csv", table, tmp_path / "x.csv", columns=["gendre"])


def test_the_card_has_the_head_the_hub_reads(table: Table) -> None:
    yaml = pytest.importorskip("yaml")
    text = card(table, title='A "set": é', licence="mit", data_files={"train": "train/**", "val": ["a", "b"]})
    _, head, body = text.split("---\n", 2)
    assert yaml.safe_load(head) == {
        "pretty_name": 'A "set": é',
        "license": "mit",
        "language": ["en"],
        "task_categories": ["text-to-image", "image-to-text", "zero-shot-image-classification"],
        "size_categories": ["n<1K"],
        "tags": ["fairness", "bias", "counterfactual"],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": "train", "path": "train/**"}, {"split": "val", "path": ["a", "b"]}],
            }
        ],
    }
    assert "| female | 1 | 20.0% |" in body  # row 3, female, was dropped
    assert "| *undefined* | 2 | 40.0% |" in body
    assert "| female / x\\|y | 1 | 20.0% |" in body
    assert "| blur | 1 | 100.0% |" in body
    assert table.fingerprint in body
    assert '"reader": "test"' in body
    assert "- Known harms: Some.\n" in body
    assert '"source": "photos"' in body  # and nothing of the machine it was made on
    assert "/home/ada" not in text
    assert "does not prove that a model is fair" in body


def test_words_of_others_are_text_in_the_card(tmp_path: Path) -> None:
    made = rows(
        3, gender="<script>alert(1)</script>", generator="a`<img src=x>", split="<b>", label_source="<i>\r\n# x"
    )
    config = {"citation": "<a href=x>", "harms": "one\n\n# two"}
    table = Table.create(tmp_path / "t", made, axes=["gender", "race"], config=config)
    body = card(table, title="<img src=x onerror=alert(1)>").split("---\n", 2)[2]
    outside_code = body.replace("`` a`<img src=x> ``", "").split("```json")[0]
    assert "<" not in outside_code
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in body
    assert "# &lt;img src=x onerror=alert(1)&gt;" in body
    assert "\n# two" not in body
    assert "\n# x" not in body


@pytest.mark.parametrize(
    ("n", "size"), [(999, "n<1K"), (1000, "1K<n<10K"), (99_999, "10K<n<100K"), (10**6, "1M<n<10M"), (10**8, "n>10M")]
)
def test_size_categories(n: int, size: str) -> None:
    from equipoise.data.exports.card import _head

    assert f'- "{size}"' in _head("t", "mit", "en", (), (), None, n)


def test_the_card_names_a_local_model_without_its_folder(tmp_path: Path) -> None:
    row = {"image_id": "a", "generator": "diffusers:/home/ada/sd"}
    made = Table.create(tmp_path / "t", [row], config={"model": "hf:~/secret/clip", "hub": "hf:openai/clip"})
    text = card(made)
    assert "/home" not in text
    assert "secret" not in text
    for name in ("diffusers:sd", '"hf:clip"', '"hf:openai/clip"'):
        assert name in text


def test_a_table_without_axes_or_rows_has_a_card(tmp_path: Path) -> None:
    empty = Table.create(tmp_path / "t")
    assert "No axis is labelled." in card(empty)
    assert export("card", empty, tmp_path).read_text().startswith("---\n")


def test_rows_without_a_split_beside_others(tmp_path: Path) -> None:
    made = rows(3)
    made[0]["split"] = None
    out = export("folder", Fake(made), tmp_path / "out")
    assert {p.name for p in out.iterdir()} == {"README.md", "train", "unassigned", "val"}
    assert 'path: "unassigned/**"' in (out / "README.md").read_text()
    made[1]["split"] = "../up"
    out = export("webdataset", Fake(made), tmp_path / "wds")
    assert "___up-000000.tar" in {p.name for p in out.iterdir()}


def test_names_of_splits_are_such_as_hugging_face_takes_and_apart(tmp_path: Path) -> None:
    made = rows(6)
    splits = ("test", "test-hard", "val/1", "val_1", "all", "")
    for row, split in zip(made, splits, strict=True):
        row["split"] = split
    out = export("huggingface", Fake(made), tmp_path / "hf", rows="all")
    names = dict(re.findall(r'split: "(.*)"\n    path: "(.*)"', (out / "README.md").read_text()))
    assert set(names) == {"test", "test_hard", "val_1", "val_1_2", "all_", "_"}
    read = {name: [pq.read_table(file)["split"].to_pylist() for file in out.glob(names[name])] for name in names}
    assert read["test"] == [["test"]]
    assert (read["val_1"], read["val_1_2"]) == ([["val_1"]], [["val/1"]])


def test_a_split_of_the_name_for_rows_without_one_stays_its_own(tmp_path: Path) -> None:
    made = rows(3)
    for row, split in zip(made, ("unassigned", None, "train"), strict=True):
        row["split"] = split
    out = export("webdataset", Fake(made), tmp_path / "wds")
    shards = {p.name for p in out.glob("*.tar")}
    assert shards == {f"{name}-000000.tar" for name in ("train", "unassigned", "unassigned_2")}
    text = (out / "README.md").read_text()
    assert "| unassigned | 1 | 33.3% |" in text
    assert "| unassigned_2 | 1 | 33.3% |" in text
    folder = export("folder", Fake(made), tmp_path / "folder")
    assert len(list(folder.glob("*/images/*"))) == 3


def test_wrong_options_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no option 'titel'; did you mean 'title'"):
        export("folder", Fake(rows()), tmp_path / "out", titel="x")
    with pytest.raises(InputError, match="use 'kept' or 'all'"):
        export("csv", Fake(rows()), tmp_path / "out", rows="some")
    with pytest.raises(InputError, match="title of the card must be text"):
        export("card", Fake(rows()), tmp_path / "out", title=5)
    with pytest.raises(UnknownNameError, match="webdataset"):
        export("webdatset", Fake(rows()), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_names_of_files() -> None:
    ids = ["a/b", "a.b", "a%2Fb", "..", ".hidden", "é", "x" * 500, "x" * 501, "con", "A"]
    names = [safe_name(i) for i in ids]
    assert len(set(names)) == len(ids)
    assert all(len(n) < 200 and "/" not in n and "." not in n for n in names)
    with pytest.raises(InputError, match="of no image format that is known"):
        suffix_of(b"<svg>")


@pytest.mark.slow
@pytest.mark.skipif(not PHOTOS.exists(), reason="the COCO photographs are not here")
def test_real_photographs_come_back_byte_for_byte(tmp_path: Path) -> None:
    table = import_table("coco", PHOTOS, tmp_path / "table", split="val2017").table
    photos = {path.stem.lstrip("0"): path.read_bytes() for path in (PHOTOS / "val2017").iterdir()}
    folder = export("folder", table, tmp_path / "folder")
    shards = export("webdataset", table, tmp_path / "shards", samples=30)
    parquet = export("huggingface", table, tmp_path / "parquet")
    back = {
        "folder": {r["image_id"]: Path(r["image"]["path"]).read_bytes() for r in read("imagefolder", folder)},
        "shards": {r["image_id"].rpartition("-")[2]: r["image"]["bytes"] for r in read("cc3m", shards)},
        "parquet": {r["image_id"]: r["image"]["bytes"] for r in read("parquet", parquet / "data")},
    }
    for name, found in back.items():
        assert len(found) == len(table) == 79, name
        assert all(photos[image_id] == data for image_id, data in found.items()), name
    people = {r["image_id"]: r["people"] for r in table.rows(["image_id", "people"])}
    assert {r["image_id"]: r["people"] for r in read("imagefolder", folder)} == people


def test_long_settings_are_shortened_in_the_card(tmp_path: Path) -> None:
    config = {
        "seed": 3,
        "truth": {"columns": ["a", "b"], "rows": [[i, i / 7] for i in range(5000)]},
        "note": "x" * 5000,
        "world": {"strength": 0.5, "leans": {f"subject {i}": "y" * 60 for i in range(50)}},
        "names": {f"name {i}": i for i in range(1000)},
    }
    text = card(Table.create(tmp_path / "t", rows(1), axes=["gender", "race"], config=config))
    shown = json.loads(text.split("```json\n")[1].split("```")[0])
    assert shown["seed"] == 3
    assert shown["truth"] == {"columns": ["a", "b"], "rows": "5000 entries, see _table.json"}
    assert shown["note"].startswith("xxx")
    assert shown["world"]["strength"] == 0.5
    assert shown["world"]["leans"] == "see _table.json"
    assert shown["names"] == "1000 entries, see _table.json"
    assert len(json.dumps(shown)) < 2000


def test_a_table_sorted_by_group_is_exported_balanced(tmp_path: Path) -> None:
    """Whole shards are left out then, which hold no row to repeat."""
    made = [{"image_id": f"i{i}", "gender": "m" if i < 8 else "f"} for i in range(10)]
    table = balance_layer(Table.create(tmp_path / "t", made, axes=["gender"], rows_per_shard=2), "gender")
    export("csv", table, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open() as file:
        assert sorted(row["gender"] for row in csv.DictReader(file)) == ["f", "f", "m", "m"]


def test_the_card_counts_spellings_of_a_group_together(tmp_path: Path) -> None:
    labels = [("Male", "A"), ("male", "a"), ("male", "A"), ("N/A", "A"), ("female", None)]
    made = [{"image_id": f"i{i}", "gender": g, "race": r} for i, (g, r) in enumerate(labels)]
    body = card(Table.create(tmp_path / "t", made, axes=["gender", "race"]))
    for line in ("| male | 3 | 60.0% |", "| *undefined* | 1 | 20.0% |", "| male / A | 3 | 60.0% |"):
        assert line in body
    assert "Male" not in body
    assert "N/A" not in body
    assert card(Table.create(tmp_path / "empty", [], axes=["gender", "race"]))
