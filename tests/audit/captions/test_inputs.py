"""Caption files of every kind come together on image ids, and what does not fit is listed."""

from __future__ import annotations

import json

import pytest

from equipoise.audit.captions.inputs import read_inputs
from equipoise.audit.captions.reading import CaptionColumns, read_records
from equipoise.data import Table
from equipoise.errors import InputError

CAPTIONS = {1: "a man on a bike", 2: "a woman in a kitchen", 3: "a dog", 4: "a person"}
GENDER = {1: "male", 2: "female", 3: "male", 4: "female"}


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def files(tmp_path):
    rows = [{"image_id": i, "caption": c, "gender": GENDER[i]} for i, c in CAPTIONS.items()]
    write(tmp_path / "gender_nic.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    plain = [{"image_id": i, "caption": c} for i, c in CAPTIONS.items()]
    write(tmp_path / "oscar.json", json.dumps(plain))
    write(tmp_path / "fc.csv", "image_id,caption\n" + "".join(f'{i},"{c}"\n' for i, c in CAPTIONS.items()))
    write(tmp_path / "sat.tsv", "image_id\tcaption\n" + "".join(f"{i}\t{c}\n" for i, c in CAPTIONS.items()))
    annotations = [{"id": 900 + i, "image_id": i, "caption": f"{c} {k}"} for i, c in CAPTIONS.items() for k in "ab"]
    write(tmp_path / "refs.json", json.dumps({"annotations": annotations, "images": []}))
    write(tmp_path / "labels.csv", "image_id,gender\n" + "".join(f"{i},{g}\n" for i, g in GENDER.items()))
    return tmp_path


def test_every_format_gives_the_same_captions(files):
    Table.create(
        files / "table",
        [{"image_id": str(i), "model": m, "caption": c} for m in ("up", "down") for i, c in CAPTIONS.items()],
        kind="captions",
    )
    predictions = [files / n for n in ("gender_nic.jsonl", "oscar.json", "fc.csv", "sat.tsv", "table")]
    found = read_inputs(predictions, files / "refs.json", files / "labels.csv")
    assert [m.name for m in found.models] == ["nic", "oscar", "fc", "sat", "up", "down"]
    assert all(m.captions == {str(i): c for i, c in CAPTIONS.items()} for m in found.models)
    assert found.axis == "gender"
    assert found.labels == {str(i): g for i, g in GENDER.items()}
    assert found.references["1"] == ("a man on a bike a", "a man on a bike b")
    assert found.dropped.rows == []


def test_labels_come_from_a_column_of_predictions_or_references(files):
    from_predictions = read_inputs([files / "gender_nic.jsonl"], None, "gender")
    assert from_predictions.labels == {str(i): g for i, g in GENDER.items()}
    rows = [{"image_id": i, "captions": [c, c], "gender": GENDER[i]} for i, c in CAPTIONS.items()]
    write(files / "human.jsonl", "".join(json.dumps(r) + "\n" for r in rows))
    from_references = read_inputs([files / "oscar.json"], files / "human.jsonl", "gender")
    assert from_references.labels == from_predictions.labels
    assert from_references.groups == ("female", "male")


def test_a_name_may_be_given(files):
    found = read_inputs([f"mine={files / 'oscar.json'}"], None, files / "labels.csv")
    assert [m.name for m in found.models] == ["mine"]


def test_everything_that_does_not_fit_is_listed(files):
    rows = [
        {"image_id": 1, "caption": "a"},
        {"image_id": 1, "caption": "again"},
        {"image_id": 2, "caption": "  "},
        {"image_id": 5, "caption": "unlabelled, but known to the labels' file"},
        {"image_id": 99, "caption": "of an image nobody knows"},
        {"image_id": 6, "caption": "two labels"},
        {"image_id": 7, "caption": "another group"},
        {"image_id": 4, "caption": None},
    ]
    write(files / "bad.json", json.dumps(rows))
    labels = "image_id,gender\n1,male\n2,female\n3,male\n4,female\n5,\n6,male\n6,female\n7,unsure\n"
    write(files / "more.csv", labels)
    found = read_inputs([files / "bad.json"], files / "refs.json", files / "more.csv", groups=["male", "female"])
    assert found.models[0].captions == {"1": "a"}
    reasons = {(name, reason) for _, name, reason in found.dropped.rows}
    assert reasons == {
        ("1", "duplicate id: the first is used"),
        ("2", "empty caption"),
        ("3", "labelled, but no caption"),
        ("4", "empty caption"),
        ("5", "no label"),
        ("6", "labels differ between rows or files"),
        ("7", "label is not among the groups asked for"),
        ("99", "caption for an unknown id"),
    }
    assert len(found.dropped.frame()) == 8
    assert f"{files / 'bad.json'}: 2 images, empty caption" in found.dropped.told()


def test_a_file_of_several_captions_per_image_is_no_captioners(files):
    """People's captions given for a model's: to take the first of each in silence would measure something else."""
    rows = [{"image_id": i, "caption": f"{words} {i}"} for i in range(1, 5) for words in ("a person", "somebody")]
    write(files / "people.json", json.dumps(rows))
    with pytest.raises(
        InputError, match=r"4 of 4 images have several captions that differ.*--references .*people\.json"
    ):
        read_inputs([files / "people.json"], None, files / "labels.csv")
    write(files / "again.json", json.dumps([{**row, "caption": "a person"} for row in rows]))
    found = read_inputs([files / "again.json"], None, files / "labels.csv")  # the same words twice are one caption
    assert len(found.models[0].captions) == 4


def test_images_without_references_are_listed(files):
    write(files / "few.json", json.dumps([{"image_id": 1, "caption": "x"}]))
    found = read_inputs([files / "oscar.json"], files / "few.json", files / "labels.csv")
    assert [r[1:] for r in found.dropped.rows] == [(i, "no reference captions") for i in "234"]
    assert "3 of 4 labelled images have no reference captions" in found.notes[0]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.json", '{"captions": 3}', "expected a list of {image_id, caption}"),
        ("a.json", "[1, 2]", "entry 0: expected an object"),
        ("a.json", '[{"image_id": 1, "capton": "x"}]', "'capton'; did you mean --caption-column capton"),
        ("a.json", '[{"caption": "x"}]', "entry 0: no column 'image_id' that names the image"),
        ("a.json", '[{"image_id": 1, "caption": 7}]', "'caption' must be a text"),
        ("a.json", '[{"image_id": null, "caption": "x"}]', "the image id is None"),
        ("a.json", '[\n{"image_id": 1,,}]', r"not valid JSON: .*line 2"),
        ("a.json", "[" * 100_000, "not valid JSON"),
        ("a.jsonl", '{"image_id": 1, "caption": "x"}\n[]\n', "a.jsonl:2: expected a JSON object"),
        ("a.jsonl", '{"image_id": 1, "captions": ["x", "y"]}\n', "a.jsonl:1: 2 captions of one image"),
        ("a.csv", "image_id,caption\n1,x,y\n", "a.csv:2: 3 fields in the row, 2 in the header"),
        ("a.csv", 'image_id,caption\n1,"x\n', "a.csv:2: not valid CSV"),
        ("a.csv", "", "empty file"),
        ("a.csv", "image_id,caption,caption\n", "there twice"),
        ("a.txt", "x", "cannot tell the format"),
        ("a.json", "[]", "holds no captions"),
    ],
)
def test_wrong_files_are_one_sentence(files, name, content, says):
    with pytest.raises(InputError, match=says):
        read_inputs([write(files / name, content)], None, files / "labels.csv")


def test_bytes_that_are_no_text(files):
    (files / "a.jsonl").write_bytes(b'{"image_id": 1, "caption": "x"}\n\xff\n')
    with pytest.raises(InputError, match=r"a.jsonl:2: not UTF-8"):
        read_records(files / "a.jsonl")


@pytest.mark.slow
def test_one_broken_row_of_thirty_megabytes_is_named(files):
    row = (
        '{"image_id": %d, "caption": "a person stands in a field with a kite and a very long rope", "gender": "male"}\n'
    )
    with (files / "big.jsonl").open("w") as file:
        for number in range(280_000):
            file.write(row % number if number != 271_827 else '{"image_id": 271827, "caption": "a per\n')
    assert (files / "big.jsonl").stat().st_size > 29_000_000
    with pytest.raises(InputError, match=r"big.jsonl:271828: not valid JSON"):
        read_inputs([files / "big.jsonl"], None, "gender")


def test_labels_that_cannot_be_used(files):
    predictions = [files / "gender_nic.jsonl"]
    with pytest.raises(InputError, match=r"no column 'gendre' .* did you mean 'gender'"):
        read_inputs(predictions, None, "gendre")
    write(files / "two.csv", "image_id,gender,skin\n1,male,dark\n")
    with pytest.raises(InputError, match="gender, skin; say which is the label with --label-column"):
        read_inputs(predictions, None, files / "two.csv")
    with pytest.raises(InputError, match=r"no column 'skn' .* did you mean 'skin'"):
        read_inputs(predictions, None, files / "two.csv", label_column="skn")
    with pytest.raises(InputError, match="no image is labelled 'femal'; did you mean 'female'"):
        read_inputs(predictions, None, "gender", groups=["male", "femal"])
    write(files / "one.csv", "image_id,gender\n1,male\n2,male\n")
    with pytest.raises(InputError, match=r"1 group \(male\); bias needs at least two"):
        read_inputs(predictions, None, files / "one.csv")
    write(files / "both.csv", "image_id,gender\n1,male\n1,female\n2,female\n2,male\n")
    with pytest.raises(InputError, match=r"0 groups \(none\) besides 2 images with two labels; .* with --labels"):
        read_inputs(predictions, None, files / "both.csv")
    with pytest.raises(InputError, match=r"no such file"):
        read_inputs(predictions, None, files / "none.csv")


def test_ids_that_never_meet_are_shown(files):
    rows = [{"image_id": f"COCO_val2014_{i:012d}.jpg", "caption": c} for i, c in CAPTIONS.items()]
    write(files / "names.json", json.dumps(rows))
    with pytest.raises(InputError, match=r"ids look like 'COCO_val2014_0+1.jpg', labelled ones like '1'"):
        read_inputs([files / "names.json"], None, files / "labels.csv")
    with pytest.raises(InputError, match="has captions of none of the 4 labelled images"):
        read_inputs([files / "oscar.json"], files / "names.json", files / "labels.csv")


def test_two_models_of_one_name(files):
    (files / "other").mkdir()
    write(files / "other" / "gender_nic.csv", (files / "fc.csv").read_text())
    with pytest.raises(InputError, match="a second model named 'nic'; give it another name"):
        read_inputs([files / "gender_nic.jsonl", files / "other" / "gender_nic.csv"], None, "gender")


def test_files_may_name_their_captions_differently(tmp_path):
    said, human = tmp_path / "said.csv", tmp_path / "human.csv"
    said.write_text("photo,generated text,sex\n" + "".join(f"{i},a text {i},{'mf'[i % 2]}\n" for i in range(4)))
    human.write_text("photo,sentence\n" + "".join(f"{i},a sentence {i}\n" for i in range(4)))
    both = CaptionColumns.named("photo", ["generated text", "sentence"])
    inputs = read_inputs([said], human, "sex", columns=both)
    assert inputs.models[0].captions["3"] == "a text 3"
    with pytest.raises(InputError, match=r"sentence.*name this file's own with another --caption-column"):
        read_inputs([said], human, "sex", columns=CaptionColumns.named("photo", "generated text"))
    with pytest.raises(InputError, match="--caption-column 'other': no such column"):
        read_inputs([said], human, "sex", columns=CaptionColumns.named("photo", [*both.caption, "other"]))


def test_a_row_without_the_named_caption_column_is_empty_and_never_read_from_another_column(tmp_path):
    rows = [
        {"image_id": 1, "text": "a man", "caption": "what a person wrote"},
        {"image_id": 2, "text": None, "caption": "what a person wrote"},
        {"image_id": 3, "caption": "what a person wrote"},
    ]
    path = write(tmp_path / "model.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    records = read_records(path, columns=CaptionColumns.named("", "text"))
    assert [record.captions for record in records] == [("a man",), ("",), ("",)]


def test_a_row_that_names_its_image_in_another_column_than_the_rest_of_the_file_is_refused(tmp_path):
    rows = [{"image_id": 1, "id": 10, "caption": "a man"}, {"id": 11, "caption": "a woman"}]
    path = write(tmp_path / "model.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"model\.jsonl:2: no 'image_id', by which other rows"):
        read_records(path)


def test_the_column_of_ids_may_be_that_of_the_labels_alone(files):
    write(files / "photos.csv", "photo,gender\n" + "".join(f"{i},{g}\n" for i, g in GENDER.items()))
    columns = CaptionColumns.named("photo")
    assert len(read_inputs([files / "oscar.json"], None, files / "photos.csv", columns=columns).labels) == 4
    with pytest.raises(InputError, match=r"--id-column 'foto': no such column in .*oscar\.json or .*labels\.csv"):
        read_inputs([files / "oscar.json"], None, files / "labels.csv", columns=CaptionColumns.named("foto"))


@pytest.mark.parametrize("groups", [("male", "female"), ()])
def test_labels_that_all_contradict_each_other_are_a_sentence(files, groups):
    pairs = [("male", "female"), ("female", "male")] * 2
    both = "".join(f"{i},{first}\n{i},{second}\n" for i, (first, second) in zip(CAPTIONS, pairs, strict=True))
    write(files / "both.csv", "image_id,gender\n" + both)
    with pytest.raises(InputError, match=r"0 groups \(none\) besides 4 images with two labels"):
        read_inputs([files / "oscar.json"], None, files / "both.csv", groups=groups)


def test_a_group_that_is_asked_for_twice_is_one_group(files):
    with pytest.raises(InputError, match=r"1 group \(male\); bias needs at least two"):
        read_inputs([files / "oscar.json"], None, files / "labels.csv", groups=("male", "male"))


def test_images_of_one_source_or_set_are_told(files):
    def noted(**columns):
        rows = [{"image_id": i, "caption": c, "gender": GENDER[i]} for i, c in CAPTIONS.items()]
        told = [row | {name: some[row["image_id"] - 1] for name, some in columns.items()} for row in rows]
        write(files / "twins.jsonl", "".join(json.dumps(row) + "\n" for row in told))
        return [note for note in read_inputs([files / "twins.jsonl"], None, "gender").notes if "independent" in note]

    assert "the 4 images are of 2 independent sources: LIC's splits" in noted(set_id=["a", "a", "b", "b"])[0]
    assert "are of 3 independent sources" in noted(source_id=[None, 1.0, None, None])[0]
    assert "are of 2 independent sources" in noted(source_id=[None, 1, 1, None], set_id=[None, None, None, ""])[0]
    assert "are of 3" in noted(set_id=["a"] * 4, subject=["cook", "nurse", "pilot", "cook"])[0]
    for none in (["a", "b", "c", "d"], [None] * 4, [["x"], {}, True, 1.5]):
        assert noted(set_id=none) == []
