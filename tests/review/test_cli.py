"""``equipoise review``: the commands, and what they say when something is wrong."""

from __future__ import annotations

import pytest

from equipoise.data import Table
from equipoise.review import labels_frame, open_review
from equipoise.review.questions import preset


@pytest.fixture
def made(command_line, table, tmp_path):
    folder = tmp_path / "r"
    done = command_line(
        *("review", table.path, "-o", folder, "--ask", "perceived-group", "--axis", "gender"),
        *("-a", "ana,ben", "--gold", 2, "--shared", 1, "--prepare-only"),
    )
    assert done.returncode == 0, done.stderr
    return folder, done


def test_making_one_prints_links_once(made, command_line, table):
    folder, done = made
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["ana", "ben"]
    assert all("http://127.0.0.1:8321/#" in line for line in lines)
    assert "equipoise review -o" in done.stderr
    again = command_line("review", "-o", folder, "--prepare-only")
    assert again.returncode == 0
    assert again.stdout == ""
    listed = command_line("review", "annotators", folder)
    assert listed.stdout.splitlines() == ["ana: 0 of 12 done", "ben: 0 of 12 done"]


def test_people_come_and_go(made, command_line):
    folder, _ = made
    assert "cem: http" in command_line("review", "annotators", folder, "--add", "cem", "--port", 9000).stdout
    assert command_line("review", "annotators", folder, "--revoke", "ben").returncode == 0
    assert "ben: 0 of 0 done, link stopped" in command_line("review", "annotators", folder).stdout
    wrong = command_line("review", "annotators", folder, "--revoke", "bem")
    assert wrong.returncode == 2
    assert "no annotator named 'bem'" in wrong.stderr


def test_labels_go_out_and_come_in(made, command_line, table, tmp_path):
    folder, _ = made
    store = open_review(folder)
    for name in ("ana", "ben"):
        while (item := store.next_item(name)) is not None:
            store.record(name, item, {("gender", 0): store.item(item)["name"].split("-")[0]}, seconds=2.0)
    store.close()
    status = command_line("review", "status", folder).stdout
    assert "12 of 12 items are finished" in status
    for kind, place in (("table", "labels"), ("csv", "labels.csv"), ("label-studio", "studio")):
        done = command_line("review", "export", folder, "--to", kind, "-o", tmp_path / place)
        assert done.returncode == 0, done.stderr
    assert len(Table.open(tmp_path / "labels")) == 24
    other = tmp_path / "other"
    command_line("review", table.path, "-o", other, "--ask", "perceived-group", "--axis", "gender", "--prepare-only")
    for file in (tmp_path / "labels.csv", tmp_path / "studio" / "tasks.json"):
        done = command_line("review", "import", other, file)
        assert done.stdout == "took in what 2 people said of 24 items\n", done.stderr
    taken = open_review(other)
    assert len(labels_frame(taken)) == 24
    taken.close()
    assert "12 images in the layer" in command_line("review", "layer", folder, table.path, "--least", 2).stdout
    found = command_line("review", "confusion", folder, table.path, "--detector", "gender", "--layer", "people")
    assert "accuracy 1 [" in found.stdout
    pages = command_line("review", "export-static", other, "-a", "dan", "-o", tmp_path / "pages")
    assert pages.returncode == 0, pages.stderr
    assert (tmp_path / "pages" / "index.html").is_file()


def test_questionnaires_are_listed_and_printed(command_line):
    assert "which-reply:" in command_line("review", "questions").stdout
    assert command_line("review", "questions", "monk-skin-tone").stdout.startswith('title = "Perceived skin tone"')
    assert "did you mean 'monk-skin-tone'" in command_line("review", "questions", "monk").stderr


def test_dry_run_writes_nothing(command_line, table, tmp_path):
    done = command_line("review", table.path, "-o", tmp_path / "r", "--ask", "matches-caption", "--dry-run")
    assert "Does the picture show what the caption says? [yes, partly, no, unsure]" in done.stdout
    assert not (tmp_path / "r").exists()


def test_dry_run_adds_nobody_to_a_review_that_is_there(made, command_line):
    folder, _ = made
    done = command_line("review", "-o", folder, "-a", "cem", "--prepare-only", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "(about: image)" in done.stdout
    assert done.stdout.endswith("of a review of 12 items\n")
    store = open_review(folder)
    assert [person.name for person in store.annotators()] == ["ana", "ben"]
    store.close()


def test_options_that_a_review_is_made_with_are_refused_when_it_goes_on(made, command_line):
    folder, _ = made
    words = "--axis gender, --trait kind, -n 3, --raters 3, --shared 0.2, --gold-answers g.csv, --layer l, --blur all"
    for given in [*words.split(", "), "--only-kept", "--seed 0", "--overwrite"]:
        done = command_line("review", "-o", folder, "-a", "cem", "--prepare-only", *given.split())
        assert (done.returncode, "name the table" in done.stderr) == (2, True), (given, done.stderr)
    assert "cem" not in command_line("review", "annotators", folder).stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("{table}",), "say where the review is kept with -o"),
        (("{table}", "-o", "{out}"), "say what is asked with --ask"),
        (("{table}", "-o", "{out}", "--ask", "matches-captions"), "did you mean 'matches-caption'"),
        (("{table}", "-o", "{out}", "--ask", "perceived-group"), "leaves the axis open"),
        (("{table}", "-o", "{out}", "--ask", "perceived-group", "--axis", "race"), "has no column 'race'"),
        (("-o", "{out}"), "no review here"),
        (("-o", "{out}", "--ask", "matches-caption"), "name the table"),
        (("nothing", "-o", "{out}", "--ask", "matches-caption"), "nothing"),
        (("status", "{table}"), "no review here"),
        (("{table}", "-o", "{table}", "--ask", "matches-caption", "--prepare-only"), "holds a table"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(command_line, table, tmp_path, words, why):
    done = command_line("review", *(w.format(table=table.path, out=tmp_path / "none") for w in words))
    assert done.returncode == 2
    assert why in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_said(made, command_line):
    import socket

    folder, _ = made
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = command_line("review", "-o", folder, "--port", taken.getsockname()[1])
    assert done.returncode == 2
    assert "choose another with --port" in done.stderr


def test_counted_errors_replace_nobodys_results(command_line, review_of, table, tmp_path):
    store = review_of(table, preset("counterfactual-set"))
    store.add("ana")
    while (item := store.next_item("ana")) is not None:
        store.record("ana", item, {("same_except", 0): "yes"}, seconds=2.0)
    line = ["review", "errors", store.path.parent, table.path, "--draws", 19]
    assert command_line(*line, "-o", tmp_path / "counted").returncode == 0
    made = (tmp_path / "counted" / "results.parquet").read_bytes()
    assert command_line(*line, "-o", tmp_path / "counted").returncode == 0, "its own are made again"
    assert (tmp_path / "counted" / "results.parquet").read_bytes() == made
    audit = tmp_path / "audit"
    audit.mkdir()
    (audit / "run.json").write_text('{"kind": "audit", "state": "finished"}')
    (audit / "results.parquet").write_bytes(b"an audit's")
    refused = command_line(*line, "-o", audit)
    assert (refused.returncode, "holds an audit" in refused.stderr) == (2, True), refused.stderr
    assert (audit / "results.parquet").read_bytes() == b"an audit's"
