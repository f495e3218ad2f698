"""The dossier as a folder, and the two commands, on constructed runs."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.data.runs import find_run
from equipoise.errors import InputError
from equipoise.report.dossier.people import NOBODY, read_labels_given, who_looked
from equipoise.report.dossier.policy import example_policy
from equipoise.report.dossier.writing import SECTIONS, write_dossier

from .folders import folder, of_sets, row


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A policy, a run that fails it, one that holds it, and one on too few subjects."""
    (tmp_path / "policy.toml").write_text(example_policy())
    for name, low, high in (("bad", 0.25, 0.45), ("good", 0.0, 0.05), ("small", -0.2, 0.4)):
        folder(tmp_path / name, audit_rows(low, high), model=name)
    return tmp_path


def audit_rows(low: float, high: float) -> list[dict[str, Any]]:
    """What the example policy asks for, with these intervals of the excess."""
    rows = []
    for axis in ("gender", "skin_tone", "gender x skin_tone"):
        skew = (0.2 + (low + high) / 2, 0.2 + low, 0.2 + high, 0.01)
        rows.append(row("max_skew", skew, chance=0.2, k=12, axis=axis, group=None))
    for axis in ("gender", "skin_tone"):
        rows += of_sets(axis=axis, n=6, placebo=((low + high) / 2, low, high, 0.2))
    return rows


def told(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.mark.parametrize(
    ("name", "code", "word"), [("bad", 1, "fails"), ("good", 0, "holds"), ("small", 3, "too small")]
)
def test_check_says_by_its_exit_code_whether_bounds_hold(home: Path, name: str, code: int, word: str) -> None:
    done = told("check", "--policy", home / "policy.toml", home / name)
    assert done.exit_code == code, done.output
    lines = [line for line in done.output.splitlines() if "max_skew@12" in line]
    assert len(lines) == 3
    assert all(line.startswith(word) for line in lines)
    assert "at most 0.095" in lines[0]
    data = json.loads(told("check", "--policy", home / "policy.toml", home / name, "--json").stdout)
    assert data["exit_code"] == code
    assert len(data["policy_sha256"]) == 64
    assert {"value", "low", "high", "smallest", "n", "outcome"} <= set(data["bounds"][0])


def test_the_worst_of_several_runs_gives_the_exit_code(home: Path) -> None:
    assert told("check", "--policy", home / "policy.toml", home / "good", home / "small").exit_code == 3
    assert told("check", "--policy", home / "policy.toml", home / "good", home / "small", home / "bad").exit_code == 1


def test_check_writes_an_example_and_never_over_a_policy(home: Path) -> None:
    file = home / "new.toml"
    assert told("check", "--policy", file, "--example").exit_code == 0
    assert file.read_text() == example_policy()
    for refused in (told("check", "--policy", file, "--example"), told("check", "--policy", file)):
        assert isinstance(refused.exception, InputError)
    with_runs = told("check", "--policy", home / "x.toml", "--example", home / "bad")
    assert "leave out the folders" in str(with_runs.exception)


def test_a_run_that_is_not_finished_or_not_there_is_refused(home: Path) -> None:
    about = json.loads((home / "bad" / "run.json").read_text())
    (home / "bad" / "run.json").write_text(json.dumps({**about, "state": "running"}))
    for name, why in (("bad", "not finished"), ("none", "no such folder"), ("policy.toml", "is a file")):
        assert why in str(told("check", "--policy", home / "policy.toml", home / name).exception)


class Reader(HTMLParser):
    """The ids, links and words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []
        self.links += [given["href"]] if given.get("href") else []
        assert tag != "script", "a dossier needs no script"

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_a_dossier_holds_every_section_and_the_same_as_data(home: Path) -> None:
    out = home / "dossier"
    write_dossier([home / "bad", home / "good"], home / "policy.toml", out)
    page = (out / "dossier.html").read_text()
    seen = Reader(page)
    text = " ".join(" ".join(seen.words).split())
    assert set(SECTIONS) <= set(seen.ids)
    assert all(link.startswith("#") and link[1:] in seen.ids for link in seen.links)
    assert "http" not in page.split("<body")[1].replace("http://www.w3.org/2000/svg", "")
    assert "complian" not in page.lower()
    for said in (NOBODY, "was not measured", "No remedy was tried", "does not show that a model is fair", "Annex IV"):
        assert said in text
    data = json.loads((out / "dossier.json").read_text())
    assert data["outcome"] == "fails"
    assert data["policy"]["sha256"] in page
    assert {one["run"] for one in data["runs"]} == {"bad", "good"}
    assert all(len(mark) == 64 for one in data["runs"] for mark in one["sha256"].values())
    assert str(home) not in page + (out / "dossier.json").read_text()
    assert (out / "policy.toml").read_bytes() == (home / "policy.toml").read_bytes()
    run = find_run(out)
    assert run is not None
    assert (run.kind, run.finished, run.of["policy"]) == ("dossier", True, data["policy"]["sha256"])


def test_every_heading_of_the_map_points_to_a_section(home: Path) -> None:
    contents = write_dossier([home / "good"], home / "policy.toml", home / "out")
    for framework in contents["frameworks"]:
        for heading in framework["heading"]:
            assert set(heading["at"]) <= set(SECTIONS)
            assert heading["at"] or heading["open"], "what has no section says where it has to come from"


def test_everything_that_was_given_is_told(home: Path) -> None:
    folder(home / "soft", audit_rows(0.1, 0.3), model="bad", table="soft")
    labels = home / "labels.csv"
    labels.write_text(
        "image_id,annotator,question,answer\n" + "".join(f"{i},{who},right?,yes\n" for i in range(4) for who in "ab")
    )
    (home / "rest.txt").write_text("We accept <this> & sign.")
    done = told(
        "dossier", home / "bad", "--policy", home / "policy.toml", "-o", home / "out", "--perturbed", home / "soft",
        "--before-after", home / "bad", home / "good", "--labels", labels, "--residual", home / "rest.txt",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Of 5 bounds on bad, 5 fail." in done.output
    page = (home / "out" / "dossier.html").read_text()
    assert "We accept &lt;this&gt; &amp; sign." in page
    data = json.loads((home / "out" / "dossier.json").read_text())
    assert data["sensitivity"]["measured"]
    assert data["remedies"]["rows"]
    assert data["people"]["questions"][0]["seen_by_several"] == 4
    assert {one["run"] for one in data["runs"]} == {"bad", "good", "soft"}
    assert NOBODY not in page


def test_a_dossier_is_written_again_and_never_over_something_else(home: Path) -> None:
    for _ in range(2):
        write_dossier([home / "good"], home / "policy.toml", home / "out")
    with pytest.raises(InputError, match="holds an audit"):
        write_dossier([home / "good"], home / "policy.toml", home / "bad")
    assert (home / "bad" / "results.parquet").is_file()


def test_a_remedy_among_the_runs_is_told_apart(home: Path) -> None:
    remedy = home / "remedy"
    remedy.mkdir()
    fitted = {"n": 20, "subjects": ["a", "b"], "model": "m", "table": "t" * 64}
    about = {"kind": "remedy", "state": "finished", "of": {"remedy": "projection"}, "settings": {}, "fitted_on": fitted}
    (remedy / "run.json").write_text(json.dumps(about))
    contents = write_dossier([home / "good", remedy], home / "policy.toml", home / "out")
    assert contents["remedies"]["fitted"][0]["subjects"] == 2
    assert "so what it did is not told" in contents["remedies"]["text"]


def test_what_the_table_shows_and_the_policy_leaves_out_is_told(home: Path) -> None:
    rows = [
        {"image_id": str(i), "gender": ("female", "nonbinary")[i % 2], "label_source": "annotator", "image": None}
        for i in range(4)
    ]
    table = Table.create(home / "pictures", rows, axes=["gender"])
    shutil.rmtree(home / "good")
    folder(home / "good", audit_rows(0.0, 0.05), model="good", table=table.fingerprint)
    contents = write_dossier([home / "good"], home / "policy.toml", home / "out")
    assert contents["data"][0]["groups"] == {"gender": {"female": 2, "nonbinary": 2}}
    gender = contents["coverage"][0]
    assert (gender["not_in_data"], gender["not_in_policy"]) == (["male"], ["nonbinary"])


def test_labels_come_as_a_table_a_folder_or_a_file(tmp_path: Path) -> None:
    rows = [
        {
            "image_id": f"{i}",
            "annotator": who,
            "question": "q",
            "answer": ("yes", "no")[(i + (who == "b") * (i == 0)) % 2],
        }
        for i in range(6)
        for who in "ab"
    ]
    Table.create(tmp_path / "review" / "labels", rows, kind="labels")
    as_table = read_labels_given(tmp_path / "review")
    as_table.to_csv(tmp_path / "labels.csv", index=False)
    found = [who_looked([frame]) for frame in (as_table, read_labels_given(tmp_path / "labels.csv"))]
    assert found[0] == found[1]
    question = found[0]["questions"][0]
    # six pictures, two people, one disagreement: observed 2 of 12, expected 70 of 132 (5 no, 7 yes)
    assert question["alpha"] == pytest.approx(1 - (2 / 12) / (70 / 132))
    assert found[0]["people"] == 2


@pytest.mark.parametrize(
    ("content", "why"),
    [("a,b\n1,2\n", "has no column 'image_id'"), ("", "cannot be read as CSV"), (None, "no such file")],
)
def test_labels_that_are_none_are_refused(tmp_path: Path, content: str | None, why: str) -> None:
    if content is not None:
        (tmp_path / "labels.csv").write_text(content)
    with pytest.raises(InputError, match=why):
        read_labels_given(tmp_path / "labels.csv")


def test_one_person_or_one_answer_gives_no_agreement() -> None:
    alone = pd.DataFrame(
        [("1", "a", "q", "yes"), ("2", "a", "q", "no")], columns=["image_id", "annotator", "question", "answer"]
    )
    assert who_looked([alone])["questions"][0]["alpha"] is None
    assert "cannot be checked" in who_looked([alone])["text"]
    agreed = pd.DataFrame([("1", who, "q", "yes") for who in "ab"], columns=alone.columns)
    assert who_looked([agreed])["questions"][0]["alpha"] is None
