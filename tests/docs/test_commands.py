"""Every command in the README and the pages is one that the program has, and is run unless a reason says why not."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from equipoise.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?m)^ *```(?:console|sh|bash)\n(.*?)^ *```", re.DOTALL)

NOT_RUN = {
    r"hf:(openai|Salesforce|…|slip|runs)": "needs a model of the hub, or one that was trained before",
    r"diffusers:": "needs a generator of the hub; its dry run is in tests/generate/test_cli_generate.py",
    r"models convert": "needs a published checkpoint; tests/models/test_convert.py converts small ones",
    r"table:embeddings/clip|runs/clip\b": "needs vectors of a hub model; tests/audit/test_docs.py runs made-up ones",
    r"suite captions-tfidf": "takes minutes on COCO; tests/audit/suites/test_captions_tfidf.py runs the suite",
    r"^equipoise captions ": "needs the published captions; tests/audit/captions measures made-up ones",
    r"^equipoise libra ": "needs hundreds of captions; tests/mitigate/libra makes them and runs the command",
    r"classifier lstm": "takes an hour",
    r"--config filter.toml|^equipoise filter ": "needs made images; the tutorial make-and-filter-sets has its own",
    r"^equipoise recipe |^equipoise (demo|doctor)": "has tests of its own (tests/recipes, tests/cli)",
    r"table label photos|photos edits|--table both": "an editor takes a minute; tests/generate does the steps",
    r"import csv people.csv": "run by the tutorial my-own-photographs",
    r"import coco": "needs COCO; tests/data/readers/test_coco.py reads files of its layout",
    r"import (embeddings|scores)-csv|--from-|runs/api|suites intersectional --table": "run by tests/audit/test_docs.py",
    r"^equipoise cache ": "touches a cache; tests/engine/test_cache.py runs it on an empty one",
    r"-n (\d{4}|700|350)\b|remedies|runs/(mini|fair|after|fixed|before|tuned)": "the tutorials run such on less",
    r"runs/(sets|controlled|binding) |render tables/sets": "draws thousands of pictures; tests/world draws fewer",
    r"models check": "run by the tutorial audit-my-clip",
    r"^equipoise (train|mitigate|tournament|libra) ": "fits; tests/train and tests/mitigate use small tables",
    r"^equipoise review ": "serves until it is stopped; the tutorial people-look and tests/review run it",
    r"^equipoise (check|dossier) ": "needs audits; tests/report/dossier has made-up ones",
    r"classify-audit|runs/ties": "reads files that the page makes; tests/audit/classify runs it on others",
    r"photos inpainted|balance photos": "needs inpainted images; tests/data/test_cli_table.py runs it on small tables",
    r"dataset captions_val2017": "takes a minute on COCO; tests/audit/test_datasets.py runs it on fewer captions",
}
"""What is not run here, and where it is run instead, or why it cannot be."""


def commands_of(page: Path) -> list[str]:
    """The lines of a page's blocks that call the program, without what the shell does with them."""
    found = []
    for code in BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in code.replace("\\\n", " ").splitlines():
            text = line.strip().removeprefix("$ ")
            call = re.search(r"(?:^|\| )(equipoise .*)", text)
            if call and not re.match(r"(pip|git|make|python) ", text):
                found.append(text)
    return found


def words_of(line: str) -> list[str]:
    call = re.sub(r"^.*\| (?=equipoise )", "", line)
    return shlex.split(re.sub(r"\s>\s*\S+", "", call), comments=True)[1:]


ALL = [(page.name, line) for page in PAGES for line in commands_of(page)]


@pytest.mark.parametrize(("page", "line"), ALL)
def test_the_program_has_every_command_and_option_that_is_printed(page: str, line: str) -> None:
    words = words_of(line)
    command, parent, name = get_command(app), None, "equipoise"
    while True:
        context = command.make_context(name, list(words), parent=parent)
        if not hasattr(command, "resolve_command"):
            return
        words = [*context._protected_args, *context.args]
        name, command, words = command.resolve_command(context, words)
        assert command is not None, line
        parent = context


def test_there_are_commands_and_every_reason_is_needed() -> None:
    assert len(ALL) > 60
    for pattern in NOT_RUN:
        assert any(re.search(pattern, line) for _, line in ALL), f"no command is of the kind {pattern!r}"


RUN = {
    page.name: lines
    for page in PAGES
    if (lines := [line for line in commands_of(page) if not any(re.search(p, line) for p in NOT_RUN)])
}


def put_stand_ins(folder: Path) -> None:
    """Small files in place of those that the pages read."""
    captions = ["A man rides a horse.", "A woman reads a book.", "A dog runs.", "Two women and a man talk."]
    images = [{"id": number, "file_name": f"{number}.jpg"} for number in range(len(captions))]
    annotations = [{"id": n, "image_id": n, "caption": text} for n, text in enumerate(captions)]
    coco = {"images": images, "annotations": annotations}
    (folder / "captions_val2017.json").write_text(json.dumps(coco))
    lines = [json.dumps({"image_id": n, "caption": text}) for n, text in enumerate(captions)]
    (folder / "captions.jsonl").write_text("\n".join(lines) + "\n")
    rows = ["image_id,caption", *(f'{n},"{text}"' for n, text in enumerate(captions))]
    (folder / "captions.csv").write_text("\n".join(rows) + "\n")


@pytest.mark.parametrize("page", RUN)
def test_every_other_command_runs_as_printed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if page != "text-templates.md":  # it writes a file of that name itself
        put_stand_ins(tmp_path)
    for line in RUN[page]:
        said = re.match(r'echo "(.*)" \| ', line)
        done = CliRunner().invoke(app, words_of(line), input=f"{said[1]}\n" if said else None)
        differs = line.startswith("equipoise table diff")  # its answer is its exit code
        assert done.exit_code == (1 if differs else 0), f"{line}\n{done.output}\n{done.exception!r}"
