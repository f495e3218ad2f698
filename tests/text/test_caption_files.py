"""Caption files in and out; a broken one leaves nothing behind."""

import csv
import json
import os
import subprocess
import sys

import pytest

from equipoise.errors import InputError
from equipoise.text import Lexicon
from equipoise.text.caption_files import MAX_LINE, Operation, process

WORDS = Lexicon.load("equipoise")
SWAP = Operation(lambda records: [WORDS.swap_all(texts) for texts in records])
LABEL = Operation(WORDS.label_images, "gender")


def test_lines_keep_their_endings(tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes("\ufeffA man\r\nTwo girls\nher".encode())
    summary = process(str(source), str(target), SWAP)
    assert target.read_bytes() == b"A woman\r\nTwo boys\nhim"
    assert (summary.captions, summary.changed) == (3, 3)
    process(str(source), str(target), LABEL)
    assert target.read_bytes() == b"male\tA man\r\nfemale\tTwo girls\nfemale\ther"


def test_jsonl_keeps_other_fields_and_takes_lists(tmp_path):
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given = [{"id": 1, "caption": "A man é"}, {"id": 2, "caption": ["A girl", "A child"]}]
    source.write_text("\n".join(json.dumps(r) for r in given) + "\n\n", encoding="utf-8")
    process(str(source), str(target), SWAP)
    done = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert done == [{"id": 1, "caption": "A woman é"}, {"id": 2, "caption": ["A boy", "A child"]}]
    summary = process(str(source), str(target), LABEL)
    assert [json.loads(line)["gender"] for line in target.read_text().splitlines()] == ["male", "female"]
    assert summary.groups == {"male": 1, "female": 1}


def test_csv_with_quotes_and_newlines(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text('id,text\n1,"A man, his ""dog""\nruns"\n2,A kite\n', encoding="utf-8")
    process(str(source), str(target), SWAP, column="text")
    assert rows(target) == [["id", "text"], ["1", 'A woman, her "dog"\nruns'], ["2", "A kite"]]
    process(str(source), str(target), LABEL, column="text")
    assert [row[-1] for row in rows(target)] == ["gender", "male", ""]


def rows(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_coco_labels_images_by_all_their_captions(tmp_path):
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    data = {
        "info": {"year": 2017},
        "images": [{"id": 1}, {"id": 2}, {"id": 3}],
        "annotations": [
            {"id": 1, "image_id": 1, "caption": "A man"},
            {"id": 2, "image_id": 1, "caption": "Someone"},
            {"id": 3, "image_id": 2, "caption": "A man"},
            {"id": 4, "image_id": 2, "caption": "A woman"},
        ],
    }
    source.write_text(json.dumps(data))
    summary = process(str(source), str(target), LABEL)
    done = json.loads(target.read_text())
    assert [i["gender"] for i in done["images"]] == ["male", None, None]
    assert [a["gender"] for a in done["annotations"]] == ["male", None, "male", "female"]
    assert done["info"] == {"year": 2017}
    assert summary.groups == {"male": 1, None: 2}
    assert summary.captions == 4


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in.jsonl", '{"caption": "A man", "gender": "female"}\n{"caption": "A girl", "gender": "female"}\n'),
        ("in.csv", "caption,gender\nA man,female\nA girl,female\nA boy,\n"),
        (
            "in.json",
            '{"images": [{"id": 1, "gender": "female"}], "annotations": [{"image_id": 1, "caption": "A man"}]}',
        ),
    ],
)
def test_labels_that_a_file_had_and_that_are_replaced_are_counted(tmp_path, name, text):
    source = tmp_path / name
    source.write_text(text)
    assert process(str(source), str(tmp_path / f"again_{name}"), LABEL).replaced == 1
    again = process(str(tmp_path / f"again_{name}"), str(tmp_path / f"third_{name}"), LABEL)
    assert again.replaced == 0


def test_coco_finds_the_captions_of_an_image_whether_its_id_is_text_or_a_number(tmp_path):
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    notes = [{"image_id": "1", "caption": "A man"}, {"image_id": 2.0, "caption": "A woman"}]
    source.write_text(json.dumps({"images": [{"id": 1}, {"id": "2"}], "annotations": notes}))
    process(str(source), str(target), LABEL)
    assert [(image["id"], image["gender"]) for image in json.loads(target.read_text())["images"]] == [
        (1, "male"),
        ("2", "female"),
    ]


def test_coco_captions_of_images_that_are_not_listed_are_counted(tmp_path):
    source, target = tmp_path / "in.json", tmp_path / "out.json"
    notes = [{"image_id": 1, "caption": "A man"}, {"image_id": 2, "caption": "A woman"}]
    for images, ids in (([{"id": 1}], [1, 2]), ([{"id": 7}], [7, 1, 2]), (None, [1, 2]), ([], [1, 2])):
        source.write_text(json.dumps({"images": images, "annotations": notes}))
        summary = process(str(source), str(target), LABEL)
        assert summary.captions == 2
        assert [image["id"] for image in json.loads(target.read_text())["images"]] == ids
    for images, image_id, message in (
        (None, [1], "annotation 0: 'image_id' must be a number or text, not list"),
        (None, None, "annotation 0: 'image_id' must be a number or text, not null"),
        ([{"id": {}}], 1, "image 0: 'id' must be a number or text, not dict"),
        ({"id": 1}, 1, "'images' must be a list of objects"),
        ([3], 1, "'images' must be a list of objects"),
    ):
        source.write_text(json.dumps({"images": images, "annotations": [{"image_id": image_id, "caption": "A man"}]}))
        with pytest.raises(InputError, match=message):
            process(str(source), str(target), LABEL)


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_half_an_emoji_is_written_as_it_was(tmp_path, suffix):
    source, target = tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}"
    row = '{"caption": "A man \\ud83d", "image_id": 1}'
    source.write_text(row if suffix == "jsonl" else f'{{"annotations": [{row}]}}')
    process(str(source), str(target), SWAP)
    done = json.loads(target.read_text())
    assert (done if suffix == "jsonl" else done["annotations"][0])["caption"] == "A woman \ud83d"


def test_empty_lines_at_the_end_are_no_captions(tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("A man\nA dog\n\n \n")
    assert process(str(source), str(target), LABEL).captions == 2
    assert target.read_text() == "male\tA man\n\tA dog\n"


def bad_files():
    yield "missing file", "no.txt", None, "no such file"
    yield "folder", "folder.txt", "folder", "is a directory"
    yield "wrong json", "a.json", b"{", "not valid JSON"
    yield "wrong json shape", "a.json", b"[1]", "not a COCO captions file"
    yield "coco without captions", "a.json", b'{"annotations": []}', "holds no captions"
    yield "coco wrong field", "a.json", b'{"annotations": [{"captoin": "x"}]}', "did you mean 'captoin'"
    yield "nested json", "a.json", b"[" * 100_000, "nested too deeply"
    yield "wrong json line", "a.jsonl", b'{"caption": "A man"}\n{"caption"\n', "a.jsonl:2: not valid JSON"
    yield (
        "a number without end",
        "a.jsonl",
        b'{"caption": "A man", "n": ' + b"1" * 5000 + b"}\n",
        "a.jsonl:1: not valid",
    )
    yield "json line is a list", "a.jsonl", b"[]\n", "expected a JSON object"
    yield "caption is a number", "a.jsonl", b'{"caption": 3}\n', "must be a text"
    yield "wrong encoding", "a.txt", b"A man\nA caf\xe9\n", "a.txt:2: not UTF-8"
    yield "utf-16", "a.txt", "A man".encode("utf-16"), "not UTF-8"
    yield "empty file", "a.txt", b"", "holds no captions"
    yield "empty caption", "a.txt", b"A man\n\nA dog\n", "a.txt:2: empty caption"
    yield "blank caption", "a.jsonl", b'{"caption": " "}\n', "empty caption"
    yield "ten megabytes", "a.txt", b"A man\n" + b"x" * 10_000_000, "a.txt:2: a line of more than"
    yield "no column", "a.csv", b"id,captions\n1,A man\n", "did you mean 'captions'"
    yield "short row", "a.csv", b"id,caption\n1\n", "1 fields in the row, 2 in the header"
    yield "open quote", "a.csv", b'id,caption\n1,"A man\n', "not valid CSV"
    yield "empty csv", "a.csv", b"", "empty file"
    yield "unknown kind", "a.xyz", b"A man\n", "cannot tell the format"


@pytest.mark.parametrize(("name", "content", "message"), [b[1:] for b in bad_files()], ids=[b[0] for b in bad_files()])
def test_bad_input_is_one_sentence_and_leaves_no_file(tmp_path, monkeypatch, name, content, message):
    monkeypatch.chdir(tmp_path)
    if content == "folder":
        os.mkdir(name)
    elif content is not None:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "out").mkdir()
    for operation in (SWAP, LABEL):
        with pytest.raises(InputError) as caught:
            process(name, "out/result", operation)
        assert message in str(caught.value).replace("Is a", "is a")
        assert "\n" not in str(caught.value)
        assert os.listdir("out") == []


def test_the_input_is_never_written_over_and_kinds_are_not_mixed(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("caption\nA man\n")
    with pytest.raises(InputError, match="is the input itself"):
        process(str(source), str(source), LABEL)
    with pytest.raises(InputError, match="not jsonl"):
        process(str(source), str(tmp_path / "out.jsonl"), LABEL)
    assert source.read_text() == "caption\nA man\n"


def test_a_label_column_that_is_there_is_replaced(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("gender,caption\nold,A man\nold,A kite\n")
    process(str(source), str(target), LABEL)
    assert rows(target) == [["gender", "caption"], ["male", "A man"], ["", "A kite"]]


def test_an_earlier_result_survives_a_failure(tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    target.write_text("earlier")
    source.write_bytes(b"A man\n\xff\n")
    with pytest.raises(InputError):
        process(str(source), str(target), SWAP)
    assert target.read_text() == "earlier"
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.txt"]


def test_a_line_at_the_limit_is_read(tmp_path):
    source = tmp_path / "in.txt"
    source.write_bytes(b"man " * (MAX_LINE // 4 - 1))
    assert process(str(source), str(tmp_path / "out.txt"), SWAP).changed == 1


@pytest.mark.slow
def test_a_million_captions_fit_in_a_gigabyte(tmp_path):
    code = """
import re
from pathlib import Path
from equipoise.text import Lexicon
texts = (f"A {('man', 'woman', 'dog')[i % 3]} number {i} rides a horse on the beach" for i in range(1_000_000))
labels = Lexicon.load("equipoise").label_all(texts)
peak = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
print(labels.count("male"), labels.count("female"), peak // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    male, female, megabytes = map(int, done.stdout.split())
    assert (male, female) == (333_334, 333_333)
    assert megabytes < 1000


def test_cells_that_a_spreadsheet_would_run_are_escaped_and_read_back(tmp_path):
    rows = [
        ["id", "caption"],
        ["=1", "=HYPERLINK(a man)"],
        ["-2", "-a man runs"],
        ["'+x", "'@a man"],
        ["'-5", "'tis a man"],
    ]
    source, target, again = (tmp_path / name for name in ("in.csv", "out.csv", "again.csv"))
    with source.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    swapped = Operation(lambda texts: [[text.replace("man", "woman") for text in some] for some in texts])
    process(source, target, swapped)
    with target.open(newline="") as file:
        written = list(csv.reader(file))
    assert written[1:] == [
        ["'=1", "'=HYPERLINK(a woman)"],
        ["-2", "'-a woman runs"],
        ["'+x", "'@a woman"],
        ["'-5", "'tis a woman"],
    ]
    seen = []
    process(target, again, Operation(lambda texts: seen.extend(texts) or texts))
    assert seen == [["=HYPERLINK(a woman)"], ["-a woman runs"], ["@a woman"], ["'tis a woman"]]
    assert again.read_bytes() == target.read_bytes()
