"""Every command in the README and the pages is one that the program has, and is run unless a reason says why not."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.main import get_command
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.models.miniatures import FOLDER
from equipoise.report.svg import asset

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"(?m)^ *```(?:console|sh|bash)\n(.*?)^ *```", re.DOTALL)

NOT_RUN = {
    r"models convert": "needs a published checkpoint; tests/models/test_convert.py converts small ones",
    r"hf:microsoft/resnet-50": "needs a classifier of the hub; tests/train/tasks trains a small one",
    r"classifier lstm": "takes an hour; tests/audit/captions/classifiers trains small ones",
    r"^equipoise demo|runs/demo": "takes minutes; tests/recipes/test_demo.py runs it",
    r"recipe (gabinsight|lic|gensynth|counterfactual-sets)": "takes minutes; tests/recipes runs the studies",
    r"recipe contamination (?!.*dry-run)": "takes minutes; tests/recipes/test_contamination.py runs it",
    r"^equipoise tournament": "takes minutes; tests/mitigate/tournament runs it on a small table",
    r"libra synthesise captions.jsonl.* -o": "needs captions of hundreds of scenes; tests/mitigate/libra makes them",
    r"cache clear --key": "names a key of one's own cache; tests/engine/test_cache.py clears one",
    r"--placebo hat": "reads a column of one's own; tests/audit/suites/test_gap_rows.py has such columns",
    r"-g diffusers:": "needs a generator of the hub; tests/generate/test_with_diffusers.py makes small ones",
    r"counterfactual-finetune mini:clip --table tables": "takes minutes; the page mitigate.md has it with fewer steps",
}
"""What is not run here, and where it is run instead, or why it cannot be."""

ELSEWHERE = {
    r"shrink": "tests/docs/test_adding_a_remedy.py",
    r"generate edits photos|table join photos|table label photos|--table both": "tests/generate/test_docs.py",
    r"embeddings-csv|scores-csv|runs/(api|scores)|suites intersectional --table": "tests/audit/test_docs.py",
}
"""What another test runs as it is printed."""

FEWER = (
    (r"(world render .*?)-n \d{3,}", r"\1-n 336"),
    (r"(world render runs/\w+ (?!.*-n ).*)$", r"\1 -n 60"),
    (r"steps=150", "steps=2"),
    (r"--epochs 1", "--steps 2 --batch 8"),
    (r"(train clip tables/sets)", r"\1 --steps 2 --batch 8"),
    (r"^(equipoise review .*--ask .*)$", r"\1 --prepare-only"),
    (r"^(equipoise captions .*)$", r"\1 --seeds 2 --permutations 5"),
    (r"^(equipoise audit (?!--from).*intersectional.*)$", r"\1 --draws 50"),
)
"""What is made smaller, so that a page takes seconds: how many pictures, how many steps, how many draws."""

HUB = {
    "openai/clip-vit-base-patch32": "clip",
    "openai/clip-vit-large-patch14": "clip",
    "Salesforce/blip-image-captioning-base": "captioner",
    "bert-base-uncased": "text",
    "slip-b16": "clip",
    "…": "clip",
}
"""Folders of the names that the pages take from the hub: hf:<folder> opens a miniature in place of the large model."""


def commands_of(page: Path) -> list[str]:
    """The lines of a page's blocks that call the program, without what the shell does with them."""
    return [line for code in BLOCK.findall(page.read_text(encoding="utf-8")) for line in called_in(code)]


def called_in(code: str) -> list[str]:
    """The lines of a block that call the program."""
    lines = [line.strip().removeprefix("$ ") for line in code.replace("\\\n", " ").splitlines()]
    return [
        line
        for line in lines
        if re.search(r"(?:^|\| )(equipoise .*)", line) and not re.match(r"(pip|git|make|python) ", line)
    ]


def words_of(line: str) -> list[str]:
    call = re.sub(r"^.*\| (?=equipoise )", "", line)
    words = shlex.split(re.sub(r"\s>\s*\S+", "", call), comments=True)[1:]
    return [one for word in words for one in (sorted(map(str, Path().glob(word))) if "*" in word else []) or [word]]


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
    not_run = [line for _, line in ALL if any(re.search(pattern, line) for pattern in NOT_RUN)]
    assert len(not_run) < 0.2 * len(ALL), f"{len(not_run)} of {len(ALL)} commands are not run"
    for pattern in (*NOT_RUN, *ELSEWHERE):
        assert any(re.search(pattern, line) for _, line in ALL), f"no command is of the kind {pattern!r}"


def is_run(line: str) -> bool:
    return not any(re.search(pattern, line) for pattern in (*NOT_RUN, *ELSEWHERE))


RUN = {page.name: lines for page in PAGES if (lines := [line for line in commands_of(page) if is_run(line)])}


SLOW = ("README.md", "audit.md", "captions.md", "classify.md", "dataset.md", "engine.md", "filters.md", "libra.md")
SLOW += ("adding-a-metric.md", "how-a-number-is-made.md", "mitigate.md", "train.md", "models.md", "world.md")
"""Pages that ask a model; ``make test-all`` runs them."""


def put_captions(folder: Path) -> None:
    """Captions of 120 images in every form that the pages read."""
    things = [("surfboard", "book"), ("tie", "dress"), ("dog", "cat"), ("laptop", "cake")]
    rows = []
    for n in range(120):
        who, thing = ("man", "woman")[n % 2], things[n % 4][n // 4 % 3 == n % 2]
        rows += [(n, f"A {who} holding a {thing}."), (n, f"The {who} stands near a {thing} outside.")]
    images = [{"id": n, "file_name": f"{n}.jpg", "width": 8, "height": 8} for n in range(120)]
    notes = [{"id": i, "image_id": n, "caption": text} for i, (n, text) in enumerate(rows)]
    coco = json.dumps({"images": images, "annotations": notes})
    for place in ("captions_val2017.json", "annotations/captions_val2017.json"):
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(coco)
    whole = folder / "path/to/coco"
    shutil.copytree(folder / "annotations", whole / "annotations")
    for home in (folder, whole):
        (home / "val2017").mkdir()
        for n in range(120):
            Image.new("RGB", (8, 8)).save(home / "val2017" / f"{n}.jpg")
    (folder / "captions.jsonl").write_text("".join(json.dumps({"image_id": n, "caption": t}) + "\n" for n, t in rows))
    of = {name: ("male", "female")[name % 2] for name, _ in rows}
    said = [{"image_id": n, "caption": text, "gender": of[n]} for n, text in rows[::2]]
    human = [{"image_id": n, "captions": [t for m, t in rows if m == n], "gender": of[n]} for n in of]
    for name, some in (("gender_nic", said), ("human", human)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    lines = [f'{n},{n},"{t}","{t}"' for n, t in rows]
    (folder / "captions.csv").write_text("\n".join(["image_id,photo,caption,text", *lines]) + "\n")


def put_tables(folder: Path) -> None:
    """The tables that pages name: sets, photographs, a list of one's own, and vectors."""
    from equipoise.audit import run, texts_asked
    from equipoise.world import preset, write_counterfactual_table, write_table

    sets = write_counterfactual_table(folder / "sets", preset("biased"), 2, axes=["gender"])
    shutil.copytree(folder / "sets", folder / "tables" / "made")
    people = write_table(folder / "people", preset("biased"), 60, size=32)
    shutil.copytree(folder / "people", folder / "coco")
    shutil.copytree(folder / "people", folder / "faces")
    rng = np.random.default_rng(0)
    for name, table in (("whole", people), ("masked", people)):
        ids = table.to_pandas(["image_id"])["image_id"].tolist()
        rows = [{"id": one, "model": "mine", "vector": rng.normal(size=8)} for one in ids]
        Table.create(folder / "embeddings" / name, rows, kind="embeddings", dim=8)
    ids = people.to_pandas(["image_id"])["image_id"].to_numpy(str)
    traits = np.array(["a genius", "a thief", "a hero"])
    (folder / "traits.txt").write_text("\n".join(traits) + "\n")
    of = {"image_ids": ids, "image_vectors": rng.normal(size=(len(ids), 8)), "texts": traits}
    np.savez(folder / "my.npz", **of, text_vectors=rng.normal(size=(3, 8)))
    (folder / "policy.toml").write_text(asset("policy.toml"))
    (folder / "photos").mkdir()
    lines = ["path,text,job,sex,age"]
    for n in range(4):
        Image.new("RGB", (8, 8)).save(folder / "photos" / f"{n}.png")
        lines.append(f"photos/{n}.png,a cook at work,cook,{('female', 'male')[n % 2]},young")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    asked = texts_asked("intersectional", sets)
    names = [*sets.to_pandas(["image_id"])["image_id"], *asked]
    rows = [{"id": one, "model": "mine", "vector": rng.normal(size=8)} for one in names]
    Table.create(folder / "embeddings" / "clip", rows, kind="embeddings", dim=8)
    run(
        f"table:{folder / 'embeddings' / 'clip'}",
        "intersectional",
        sets,
        folder / "runs" / "clip-fair",
        config={"draws": 50},
    )


def put_captioned_pictures(folder: Path) -> None:
    """Pictures of 120 scenes, what a captioner and people said of them, and pairs to learn from."""
    from equipoise.world import preset, render_image, sample

    for name in ("pictures", "val2014", "pairs"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    said, human, labels, pairs = [], [], ["image_id,gender"], []
    for n, scene in enumerate(sample(preset("biased"), 120, seed=3)):
        picture = render_image(scene, 64)
        for name in ("pictures", "val2014"):
            picture.save(folder / name / f"{n}.png")
        texts, group = scene.captions(3, "gendered"), ("male", "female")[n % 2]
        said.append({"image_id": n, "caption": texts[0]})
        human += [{"image_id": n, "caption": text} for text in texts]
        labels.append(f"{n},{group}")
        pairs.append(json.dumps({"image_id": str(n), "biased": texts[0], "original": texts[1]}))
    (folder / "results.json").write_text(json.dumps(said))
    (folder / "human.json").write_text(json.dumps({"annotations": human}))
    (folder / "labels.csv").write_text("\n".join(labels) + "\n")
    (folder / "pairs" / "pairs.jsonl").write_text("\n".join(pairs) + "\n")


def put_photographs(folder: Path) -> None:
    """A table of photographs, and images made from them: one per group."""
    shutil.rmtree(folder / "photos")
    picture, groups = Image.new("RGB", (8, 8)), ("female", "male")
    photos = [
        {"image_id": f"p{n}", "image": picture, "gender": groups[n % 2], "objects": [("tie", "cup")[n % 3 == 0]]}
        for n in range(12)
    ]
    made = [
        {"image_id": f"p{n}-{group}", "source_id": f"p{n}", "image": picture, "gender": group}
        for n in range(12)
        for group in groups
    ]
    Table.create(folder / "photos", photos, axes=["gender"], columns={"objects": "list<string>"})
    Table.create(folder / "inpainted", made, axes=["gender"])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages read: small files, and miniatures in place of models of the hub."""
    folder = tmp_path_factory.mktemp("prepared")
    put_captions(folder)
    put_tables(folder)
    for name, part in HUB.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(FOLDER / part)
    return folder


WRITES = {
    "README.md": ["tables/sets", "people", "captions.jsonl", "embeddings/clip"],
    "adding-a-metric.md": ["sets"],
    "how-a-number-is-made.md": ["sets"],
    "engine.md": ["embeddings/clip"],
    "dossier.md": ["policy.toml"],
    "train.md": ["sets"],
    "text-templates.md": ["captions.csv"],
    "data-readers.md": ["people"],
    "data-tables.md": ["people"],
}
"""What a page makes itself, so that it is not there before."""

MAKES_FILES = {"classify.md": "predictions.csv", "captions.md": "gender_lazy", "filters.md": '"made"'}
"""Pages whose Python writes the files that their commands read, and what such a block holds."""


def blocks_of(page: str) -> list[tuple[str, str]]:
    text = (ROOT / "README.md" if page == "README.md" else ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"(?m)^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL)


@pytest.mark.parametrize("page", [pytest.param(p, marks=[pytest.mark.slow] if p in SLOW else []) for p in RUN])
def test_every_other_command_runs_as_printed(
    page: str, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(prepared, tmp_path, symlinks=True, dirs_exist_ok=True)
    for name in WRITES.get(page, []):
        path = tmp_path / name
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
    if page == "classify.md":
        put_photographs(tmp_path)
    if page == "libra.md":
        put_captioned_pictures(tmp_path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "page"}
    for kind, code in blocks_of(page):
        if kind == "python" and MAKES_FILES.get(page, "\0") in code:
            exec(compile(code, page, "exec"), names)
        elif kind == "toml" and page == "filters.md":
            (tmp_path / "filter.toml").write_text(code)
        elif kind in ("console", "sh", "bash"):
            for line in called_in(code):
                if is_run(line):
                    run_line(line)


def run_line(line: str) -> None:
    for pattern, fewer in FEWER:
        line = re.sub(pattern, fewer, re.sub(r"\s+#.*$", "", line))
    said = re.match(r'echo "(.*)" \| ', line)
    done = CliRunner().invoke(app, words_of(line), input=f"{said[1]}\n" if said else None)
    if target := re.search(r"\s>\s*(\S+)", line):
        Path(target[1]).write_text(done.stdout)
    answers = line.startswith(("equipoise table diff", "equipoise check"))  # by its exit code
    said_no = answers and done.exit_code in (1, 3) and isinstance(done.exception, SystemExit)
    assert done.exit_code == 0 or said_no, f"{line}\n{done.output}\n{done.exception!r}"
