"""Every caption of a file is revised, nothing is lost, and a run that was killed ends with the same bytes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.audit.captions.images import image_files
from equipoise.data import Table
from equipoise.engine import Asking
from equipoise.errors import InputError
from equipoise.formatting import from_spreadsheet
from equipoise.mitigate.libra.applying import CaptionRow, apply_into, revise_all, written


class Shouting:
    """Says every caption in capitals, and counts what it was asked."""

    name = key = "shouting"

    def __init__(self, stop_at=None):
        self.asked, self.stop_at = [], stop_at

    def revise(self, images, captions, *, seed=0):
        if self.stop_at is not None and len(self.asked) >= self.stop_at:
            raise KeyboardInterrupt
        self.asked += captions
        return [f"{text.upper()} {image.size[0]} {seed}" for image, text in zip(images, captions, strict=True)]


def rows_of(*pairs):
    return [CaptionRow(image, text) for image, text in pairs]


def test_a_stopped_run_goes_on_to_the_same_bytes(pictures, tmp_path):
    rows = [CaptionRow(str(i % 12), f"caption {i}", {"gender": "female"}) for i in range(30)]
    how = Asking(batch_size=4, progress=False, store=tmp_path / "store")
    files = image_files(pictures)
    with pytest.raises(KeyboardInterrupt):
        apply_into(tmp_path / "out", Shouting(stop_at=12), rows, files, asking=how)
    second = Shouting()
    made = apply_into(tmp_path / "out", second, rows, files, asking=how)
    assert len(second.asked) == 30 - 12, "what was done before is not asked again"
    fresh = Asking(batch_size=4, progress=False, store=tmp_path / "other")
    apply_into(tmp_path / "whole", Shouting(), rows, files, asking=fresh)
    assert (tmp_path / "out/captions.jsonl").read_bytes() == (tmp_path / "whole/captions.jsonl").read_bytes()
    first = json.loads((tmp_path / "out/captions.jsonl").read_text().splitlines()[0])
    assert first == {"image_id": "0", "caption": "CAPTION 0 32 0", "gender": "female"}
    assert made.counts["changed"] == 30


def test_what_cannot_be_revised_stays_as_it_was(pictures, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes((pictures / "0.png").read_bytes()[:50])
    files = {**image_files(pictures), "broken": broken}
    rows = rows_of(("0", "a"), ("1", "  "), ("nowhere", "b"), ("broken", "c"), ("2", "d"))
    made = revise_all(Shouting(), rows, files, Asking(progress=False, keep=False, max_broken=0.5))
    assert [row.caption for row in made.rows] == ["A 32 0", "  ", "b", "c", "D 48 0"]
    assert made.counts == {
        "captions": 5,
        "revised": 2,
        "changed": 2,
        "empty caption": 1,
        "image missing": 1,
        "image cannot be read": 1,
    }
    assert "broken" in made.notes[0]
    with pytest.raises(InputError, match="more than 5%"):
        revise_all(Shouting(), rows, files, Asking(progress=False, keep=False))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (rows_of(("x", "a man")), "none of the 1 captions has its image; a caption's image id looks like 'x'"),
        (rows_of(("0", " ")), "all 1 captions are empty"),
    ],
)
def test_nothing_to_revise_is_one_sentence(rows, told, pictures):
    with pytest.raises(InputError, match=told):
        revise_all(Shouting(), rows, image_files(pictures), Asking(progress=False, keep=False))


def test_a_table_gives_the_same_captions_in_the_order_of_the_file(pictures, tmp_path):
    cells = [{"image_id": str(i), "image": {"path": str(pictures / f"{i}.png")}} for i in range(12)]
    table = Table.create(tmp_path / "table", cells)
    rows = rows_of(("7", "x"), ("2", "y"), ("7", "z"), ("2", "y"))
    how = Asking(progress=False, keep=False)
    of_files = revise_all(Shouting(), rows, image_files(pictures), how)
    assert revise_all(Shouting(), rows, table, how) == of_files


@given(
    st.lists(st.tuples(st.integers(0, 99), st.text(max_size=12)), max_size=5),
    st.sampled_from([".json", ".jsonl", ".csv"]),
)
def test_a_file_reads_back_as_it_was_written(pairs, kind):
    import csv
    import io

    text = written([CaptionRow(str(image), caption) for image, caption in pairs], kind)
    if kind == ".csv":
        lines = csv.DictReader(io.StringIO(text, newline=""))
        rows = [{name: from_spreadsheet(cell) for name, cell in line.items()} for line in lines]
    else:
        rows = json.loads(text) if kind == ".json" else [json.loads(line) for line in text.split("\n") if line]
    assert [(int(row["image_id"]), row["caption"]) for row in rows] == pairs


def test_the_command_says_what_is_missing(command_line, pictures, tmp_path):
    captions = tmp_path / "captions.jsonl"
    captions.write_text('{"image_id": 1, "caption": "a man"}\n')
    answer = command_line("libra", "apply", captions, "-o", tmp_path / "out")
    assert answer.returncode == 2
    assert "say where they are with --images" in answer.stderr
    answer = command_line("libra", "fit", captions, "--images", pictures, "-o", tmp_path / "out")
    assert answer.returncode == 2
    assert "say what to start from: --init mini:dcg" in answer.stderr


def test_a_field_of_the_file_never_replaces_the_image_and_cells_stay_safe():
    rows = [CaptionRow("p1", "=HYPERLINK(1)", {"image_id": "7", "who": "me"})]
    assert json.loads(written(rows, ".jsonl")) == {"image_id": "p1", "caption": "=HYPERLINK(1)", "who": "me"}
    assert written(rows, ".csv") == "image_id,caption,who\np1,'=HYPERLINK(1),me\n"
