"""Mistakes of the first day, more of them: a file of the wrong kind, a number out of range, a name mistyped."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.errors import InputError
from equipoise.models import load

Command = Callable[..., "subprocess.CompletedProcess[str]"]
PROMPTS = ("a thief", "a nurse", "a boss")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, vectors, captions and a picture."""
    home = tmp_path_factory.mktemp("first-day")
    Image.new("RGB", (8, 8), (200, 0, 0)).save(home / "photo.jpg")
    (home / "three.txt").write_text("\n".join(PROMPTS) + "\n")
    (home / "traits.csv").write_text("trait,type\na thief,bad\n")
    (home / "nohead.csv").write_text("a thief\na nurse\n")
    (home / "people.csv").write_text("path,sex\nphoto.jpg,female\n")
    (home / "broken.csv").write_text("path\n")
    rows = [
        {"image_id": f"p{n}", "subject": ("cook", "nurse")[n % 2], "gender": "fm"[n // 2 % 2], "race": "ab"[n // 4 % 2]}
        for n in range(24)
    ]
    Table.create(home / "crowd", rows, axes=["gender", "race"])
    ids = [row["image_id"] for row in rows]
    rng = np.random.default_rng(0)
    vectors, texts = rng.normal(size=(24, 4)), rng.normal(size=(3, 4))
    others = ["a bank", "a tree", "a lake"]
    np.savez(home / "crowd.npz", image_ids=ids, image_vectors=vectors, texts=others, text_vectors=texts)
    np.savez(home / "right.npz", image_ids=ids, image_vectors=vectors, texts=PROMPTS, text_vectors=texts)
    flat = {"image_vectors": np.ones((24, 4)), "text_vectors": np.ones((3, 4))}
    np.savez(home / "flat.npz", image_ids=ids, texts=PROMPTS, **flat)
    np.savez(home / "notexts.npz", ids=np.array(ids), vectors=vectors)
    captions = ["image_id,caption,who", *(f"{n},a person,{'fm'[n % 2]}" for n in range(40))]
    (home / "captions.csv").write_text("\n".join(captions) + "\n")
    (home / "labels.csv").write_text("image_id,gender\n" + "".join(f"x{n},{'fm'[n % 2]}\n" for n in range(40)))
    (home / "my-clip").mkdir()
    (home / "my-clip" / "config.json").write_text("{}")
    return home


OWN = "audit -s prompts -t crowd -o out"
VECTORS = "--from-embeddings crowd.npz"
MISTAKES = {
    "k beyond every subject": (
        f"audit -s intersectional -t crowd --k 5000 -o out {VECTORS}",
        "K = 5,000, but only 12 images are of the largest pool, 'cook', and all would be retrieved; give a smaller --k",
    ),
    "k beyond every subject, marginal": (
        f"audit -s marginal -t crowd --k 13 -o out {VECTORS}",
        "K = 13, but only 12 images are of the largest pool",
    ),
    "k beyond the table": (
        f"{OWN} --prompts three.txt --k 25 {VECTORS}",
        "K = 25, but only 24 images are in the table, and all would be retrieved; give a smaller --k",
    ),
    "a file for a prompt": (f"{OWN} --prompt three.txt {VECTORS}", "three.txt is a file; type --prompts three.txt"),
    "a picture for prompts": (
        f"{OWN} --prompts photo.jpg {VECTORS}",
        "photo.jpg is not UTF-8 text; give a text file with one prompt per line",
    ),
    "prompts under another name": (
        f"{OWN} --prompts traits.csv {VECTORS}",
        "no column 'prompt'; rename the column trait to prompt",
    ),
    "prompts without a name": (f"{OWN} --prompts nohead.csv {VECTORS}", "write prompt as its first line"),
    "no images": (f"{OWN} --prompts three.txt --limit 0 {VECTORS}", "--limit 0: give a number of at least 1, or leave"),
    "fewer than no images": ("audit mini -s faces -t crowd --sample -3", "--sample -3: give a number of at least 1"),
    "no rows": ("table import csv people.csv out --limit 0", "--limit 0: give a number of at least 1"),
    "a picture for vectors": (
        f"{OWN} --prompts three.txt --from-embeddings photo.jpg",
        "photo.jpg is a picture, not a file of vectors; these are read: .npz, .npy,",
    ),
    "labels for vectors": (
        f"{OWN} --prompts three.txt --from-embeddings people.csv",
        "people.csv holds no vectors: it has no column 'id'; a CSV file of vectors has the columns id and vector",
    ),
    "no such vectors": (
        f"{OWN} --prompts three.txt --from-embeddings nowhere.npz",
        "there is neither a file nor a table of vectors at nowhere.npz; vectors are made with",
    ),
    "own prompts not embedded": (
        f"{OWN} --prompts three.txt {VECTORS}",
        "(it has 3 other texts, such as 'a bank' and 'a tree'); embed them too, each with the text itself as its id",
    ),
    "no texts": (
        "audit -s faces -t crowd --axis gender -o out --from-embeddings notexts.npz",
        "(it has no texts); embed them too, each with the text itself as its id: equipoise suites faces --table crowd "
        "lists them",
    ),
    "vectors that are all equal": (
        f"{OWN} --prompts three.txt --from-embeddings flat.npz",
        "suite 'prompts' measured nothing: ",
    ),
    "no such image column": (
        "table import csv people.csv out --image photo",
        "no column 'photo' for 'image'; type --image COLUMN, for example --image path",
    ),
    "a guess too far": ("table import csv nofile.csv out", "there is nothing at 'nofile.csv'"),
    "a model mistyped": (
        f"{OWN} --prompts three.txt hf:./my-clp",
        "./my-clp: there is no such folder; did you mean hf:my-clip?",
    ),
    "an encoder for an editor": (
        "generate edits crowd out -g mini:clip",
        "mini:clip is an encoder, and a generator is needed here; give mini:diffusion, mini:diffusion-biased, "
        "mini:inpaint or mini:edit",
    ),
    "an axis for labels": (
        "captions captions.csv --labels gender=who -o out",
        "and the column's name is that of the axis; type --labels who",
    ),
    "no such paper": (
        "captions captions.csv --labels who --published lick --dry-run",
        "there is no",
    ),
    "other ids": (
        "captions captions.csv --labels labels.csv -o out",
        "ids look like '0', labelled ones like 'x0'; give the column of those ids with --id-column COLUMN",
    ),
    "a table for a policy": (
        "check --policy people.csv crowd",
        "type: equipoise check --example, which writes a policy to begin with",
    ),
    "a table twice": ("table join crowd crowd -o out", "crowd is given twice; give another table beside it"),
    "no edits": (
        f"audit -s contrast -t crowd --axis gender -o out {VECTORS}",
        "make some and join them: equipoise generate edits PHOTOS EDITS, and equipoise table join PHOTOS EDITS -o BOTH",
    ),
    "bands of no numbers": ("table import csv people.csv out --bands sex=a,b", "--bands sex=a,b: give numbers sep"),
    "bands of no column": ("table import csv people.csv out --bands age=30", "--bands age: there is no such column"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_in_one_sentence_that_says_what_to_type(
    mistake: str, place: Path, command_line: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    words, said = MISTAKES[mistake]
    done = command_line(*words.split())
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("equipoise: ")]
    assert len(lines) == 1
    assert "Traceback" not in done.stderr
    assert "broken.csv" not in done.stderr  # like none of the names above
    assert not (place / "out").exists()


def test_ages_are_told_of_and_can_be_put_into_bands(
    place: Path, command_line: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = ["path,age", *(f"{n}.png,{n}" for n in range(18, 66)), "66.png,unknown", "67.png,old"]
    Path("ages.csv").write_text("\n".join(lines) + "\n")
    for number in range(18, 68):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(f"{number}.png")
    done = command_line(*"table import csv ages.csv one --axis age --limit 48".split())
    assert done.returncode == 0, done.stderr
    assert "age: 49 different" not in done.stdout  # a word among the numbers: they are labels
    Path("ages.csv").write_text("\n".join(lines[:-1]) + "\n")
    done = command_line(*"table import csv ages.csv numbers --axis age".split())
    assert "note: age: 48 different numbers, each a group of its own; put them into bands" in done.stdout
    line = done.stdout.partition("as in ")[2].splitlines()[0]
    assert line == "--bands age=30,50"
    vectors = np.random.default_rng(0).normal(size=(50, 4))
    np.savez("v.npz", ids=[f"{n}.png" for n in range(18, 67)] + ["a cook"], vectors=vectors)
    audit = "audit --from-embeddings v.npz -s prompts -t numbers --no-report --draws 2 --k 5 --prompt".split()
    done = command_line(*audit, "a cook")
    assert done.stderr.count("note: age: 48 different numbers") == 1, done.stderr
    Path("ages.csv").write_text("\n".join(lines) + "\n")
    done = command_line(*f"table import csv ages.csv bands --axis age {line}".split())
    assert done.returncode == 0, done.stderr
    assert "different numbers" not in done.stdout
    assert "1 x column 'age' is put into bands, but 'old' is not a number" in done.stdout
    counts = Table.open("bands").group_counts("age")
    assert counts == {"under 30": 12, "30 to 49": 20, "50 and over": 16, None: 1}


def test_an_import_of_few_of_its_rows_says_so_with_the_first_file(
    place: Path, command_line: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(place)
    rows = "".join(f"same,photo.jpg,{'fm'[n % 2]}\n" for n in range(10))
    (place / "dup.csv").write_text("id,path,gender\n" + rows)
    done = command_line("table", "import", "csv", "dup.csv", tmp_path / "dup")
    assert done.returncode == 0, done.stderr
    assert "note: 9 of 10 rows were rejected, most often because" in done.stderr
    assert "'same' was given before" in done.stderr
    assert "--id-column COLUMN, and import again with --overwrite" in done.stderr
    (place / "empty.jpg").write_bytes(b"")
    (place / "one.csv").write_text("path,gender\nphoto.jpg,f\nempty.jpg,m\n")
    done = command_line("table", "import", "csv", "one.csv", tmp_path / "one")
    assert "empty.jpg is empty (0 bytes)" in done.stdout
    assert "…" not in done.stdout
    assert "rejected, most" not in done.stderr


def test_a_page_is_called_html(
    place: Path, command_line: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(place)
    audit = f"audit -s prompts -t crowd -o {tmp_path}/run --prompts three.txt --draws 20 --no-report"
    done = command_line(*audit.split(), "--from-embeddings", "right.npz")
    assert done.returncode == 0, done.stderr
    done = command_line("report", tmp_path / "run", "-o", tmp_path / "r3")
    assert done.returncode == 0, done.stderr
    assert f"wrote {tmp_path}/r3.html" in done.stdout
    assert (tmp_path / "r3.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not (tmp_path / "r3").exists()


def test_a_folder_mistyped_as_a_repository_is_told_of(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    def no_network(*given: object, **options: object) -> None:
        raise LocalEntryNotFoundError("no network")

    monkeypatch.chdir(place)
    monkeypatch.setattr("huggingface_hub.snapshot_download", no_network)
    with pytest.raises(InputError, match=r"my-clp: there is no such folder; did you mean hf:my-clip\?"):
        load("hf:my-clp")
    with pytest.raises(InputError, match="run: hf download some/other"):
        load("hf:some/other")
