"""Typical mistakes: each ends in one sentence that says what to type, and leaves nothing behind."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from equipoise.data import Table
from equipoise.data.mixing import join_tables

Command = Callable[..., "subprocess.CompletedProcess[str]"]
PROMPTS = ("a thief", "a nurse")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list of photographs, a table of labels, and vectors: some right, some wrong."""
    home = tmp_path_factory.mktemp("mistakes")
    (home / "photos").mkdir()
    with (home / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "sex", "job"])
        for number in range(4):
            Image.new("RGB", (8, 8), (number, 0, 0)).save(home / "photos" / f"{number}.png")
            writer.writerow([f"photos/{number}.png", "female" if number % 2 else "male", "cook"])
    (home / "urls.csv").write_text("path,sex\nhttps://example.org/1.png,female\n")
    (home / "captions.csv").write_text("photo,words\n1,a man\n2,a woman\n")
    (home / "prompts.txt").write_text("\n".join(PROMPTS) + "\n")
    boxes = {"images": [{"id": 1}], "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4]}]}
    (home / "instances_val2017.json").write_text(json.dumps(boxes))
    (home / "coco" / "val2017").mkdir(parents=True)
    (home / "coco" / "annotations").mkdir()
    Image.new("RGB", (8, 8)).save(home / "coco" / "val2017" / "1.jpg")
    (home / "coco" / "annotations" / "captions_val2017.json").write_text("{}")
    ids = [f"f{number}" for number in range(40)]
    labels = [{"image_id": name, "gender": "fm"[n % 2]} for n, name in enumerate(ids)]
    Table.create(home / "faces", labels, axes=["gender"])
    Table.create(home / "alike", [{**row, "gender": "f"} for row in labels], axes=["gender"])
    Table.create(home / "unlabelled", [{"image_id": name} for name in ids])
    said = [{"image_id": f"p{n}", "caption": f"a {'wo' * (n % 2)}man cooks"} for n in range(4)]
    captioned = Table.create(home / "captioned", said, axes=[])
    captioned.add_layer("words", [{"image_id": f"p{n}", "gender": "mf"[n % 2]} for n in range(4)], axes=["gender"])
    edits = [{"image_id": f"p{n}-{g}", "source_id": f"p{n}", "gender": g} for n in range(4) for g in "fm"]
    edited = Table.create(home / "edits", edits, axes=["gender"])
    edited.add_layer(
        "layer", [{"image_id": row["image_id"], "keep": row["image_id"] != "p0-f"} for row in edits],
        columns={"keep": "bool"}, path=home / "checked" / "layer",
    )  # fmt: skip
    join_tables([captioned, edited], home / "silent")
    rng = np.random.default_rng(0)
    images, texts = rng.normal(size=(40, 8)), rng.normal(size=(2, 8))
    holes = images.copy()
    holes[3, 2] = np.nan
    for name, given in {
        "vectors": {"image_ids": ids, "image_vectors": images, "texts": PROMPTS, "text_vectors": texts},
        "images-only": {"ids": ids, "vectors": images},
        "other-ids": {
            "image_ids": [f"x{i}" for i in ids],
            "image_vectors": images,
            "texts": PROMPTS,
            "text_vectors": texts,
        },
        "two-models": {"image_ids": ids, "image_vectors": images, "texts": PROMPTS, "text_vectors": texts[:, :5]},
        "holes": {"image_ids": ids, "image_vectors": holes, "texts": PROMPTS, "text_vectors": texts},
        "nameless": {"vectors": images},
    }.items():
        np.savez(home / f"{name}.npz", **{key: np.asarray(value) for key, value in given.items()})
    np.savez(home / "unknown-names.npz", a=ids, b=images, c=texts)
    (home / "people.xlsx").write_bytes(b"PK\x03\x04")
    (home / "spaced.csv").write_text((home / "people.csv").read_text().replace("path,sex,job", "path ,sex , job"))
    twice = [{"image_id": n % 60, "caption": f"a person, {n}", "gender": "mf"[n % 2]} for n in range(120)]
    (home / "twice.jsonl").write_text("".join(json.dumps(row) + "\n" for row in twice))
    spaced = ["image_id,caption,gender ", *(f"{n},a {'wo' * (n % 2)}man,{'mf'[n % 2]}" for n in range(60))]
    (home / "spaced-captions.csv").write_text("\n".join(spaced) + "\n")
    hats = [{**row, "hat": "no"} for row in labels]
    Table.create(home / "hats", hats, axes=["gender"], columns={"hat": "string"})
    (home / "a-file").write_text("something")
    (home / "my-clip").mkdir()
    (home / "my-clip" / "config.json").write_text("{}")
    return home


IMPORT = "table import csv"
AUDIT = "audit -s prompts --prompts prompts.txt -t faces -o out --draws 20"
MISTAKES = {
    "wrong path": ("table import csv peple.csv out", "there is nothing at 'peple.csv'; did you mean people.csv?"),
    "wrong table": (f"{AUDIT.replace('faces', 'face')} mini", "there is no table at face; did you mean faces?"),
    "a list for a table": (
        f"{AUDIT.replace('faces', 'people.csv')} mini",
        "make one of it: equipoise table import csv people.csv OUT",
    ),
    "wrong column": (f"{IMPORT} people.csv out --image pth", "no column 'pth' for 'image'; did you mean 'path'?"),
    "wrong axis": (
        f"{IMPORT} people.csv out --axis gender",
        "for 'gender'; type --axis gender=COLUMN, for example --axis gender=sex",
    ),
    "swapped arguments": (
        f"{IMPORT.replace('csv', 'people.csv')} csv out",
        "equipoise table import csv people.csv OUT",
    ),
    "no folder to write": (f"{IMPORT} people.csv", "type: equipoise table import csv people.csv OUT"),
    "web addresses": (f"{IMPORT} urls.csv out", "download the images first"),
    "wrong reader": ("table import cvs people.csv out", "there is no reader named 'cvs'; did you mean 'csv'?"),
    "wrong file kind": (f"{IMPORT} photos/0.png out", "a file that ends in one of .csv"),
    "no kind of model": (f"{AUDIT} my-clip", "type hf:my-clip"),
    "a file for a model": (f"{AUDIT} vectors.npz", "type table:vectors.npz"),
    "no model": (AUDIT, "give a MODEL (such as mini or hf:<folder>), --from-embeddings or --from-scores"),
    "wrong suite": ("audit mini -s prompt -t faces -o out", "there is no suite named 'prompt'; did you mean 'prompts'"),
    "no prompts": ("audit mini -s prompts -t faces -o out", "with --prompts FILE, or --prompt TEXT"),
    "no table": ("audit mini -s prompts --prompts prompts.txt -o out", "give a table with --table"),
    "no texts embedded": (
        f"{AUDIT} --from-embeddings images-only.npz",
        "(it has no texts); embed them too, each with the text itself as its id",
    ),
    "other images' vectors": (f"{AUDIT} --from-embeddings other-ids.npz", "equipoise table head faces -c image_id"),
    "two models' vectors": (f"{AUDIT} --from-embeddings two-models.npz", "both must come from the same model"),
    "not a number": (f"{AUDIT} --from-embeddings holes.npz", "compute it again or drop it"),
    "vectors without ids": (f"{AUDIT} --from-embeddings nameless.npz", "np.savez(FILE, ids="),
    "huge k": (f"{AUDIT} --from-embeddings vectors.npz --k 500", "give a smaller --k"),
    "one group": (f"{AUDIT.replace('faces', 'alike')} --from-embeddings vectors.npz", "so it needs two"),
    "no axis": (f"{AUDIT.replace('faces', 'unlabelled')} --from-embeddings vectors.npz", "with --axis"),
    "captions' columns": ("captions captions.csv --labels gender -o out", "--id-column"),
    "a folder for captions": ("dataset photos -o out", "and type: equipoise table import csv LIST OUT"),
    "captions mistyped": ("captions caption.csv --labels gender -o out", "no such file; did you mean captions.csv?"),
    "two outputs": ("generate mask faces out -o other", "out and -o other are two places to write"),
    "no output": ("table export csv faces", "where to write is missing; type: equipoise table export csv faces OUT"),
    "two axes where one goes": (
        "table label faces --axis gender --axis age",
        "a lexicon labels one axis; give --axis once",
    ),
    "first and drawn": ("audit mini -s faces -t faces --limit 3 --sample 3", "give one of the two"),
    "a layer of a file": ("captions captions.csv --labels gender --layer words", "only files are given; leave it out"),
    "captions without labels": ("captions captions.csv -o out", "Give --labels COLUMN"),
    "a caption column mistyped": (
        "dataset captions.csv --id-column photo --caption-column word -o out",
        "no column 'word'; it has: 'photo', 'words'; did you mean --caption-column words?",
    ),
    "an axis that no column looks like": (
        f"{IMPORT} people.csv out --axis height",
        "no column 'height' for 'height'; type --axis height=COLUMN; its columns are: job, path, sex",
    ),
    "output before input": (
        f"{IMPORT} out people.csv",
        "what is read comes first: equipoise table import csv people.csv out",
    ),
    "a table for a model": (
        "audit faces -s faces --table hf:my/clip",
        "faces is a table of images, not a model; type: equipoise audit hf:my/clip --suite faces --table faces",
    ),
    "a table beside a model": (
        "audit hf:my/clip faces -s faces",
        "faces is a table of images, not a model; type: equipoise audit hf:my/clip --suite faces --table faces",
    ),
    "other texts embedded": (
        "audit -s faces -t faces -o out --draws 20 --from-embeddings vectors.npz",
        "(it has 2 other texts, such as 'a thief' and 'a nurse': ask for these with --suite prompts --prompts FILE)",
    ),
    "boxes for captions": (
        "audit -s captions-tfidf --captions instances_val2017.json -o out",
        "instances_val2017.json: boxes of objects and no captions; give captions_val2017.json",
    ),
    "boxes for a dataset": (
        "dataset instances_val2017.json -o out",
        "instances_val2017.json: boxes of objects and no captions; give captions_val2017.json",
    ),
    "a folder of COCO": (
        "table info coco/val2017",
        "has COCO's annotations beside it; type: equipoise table import coco coco OUT --option split=val2017",
    ),
    "the whole of COCO": (
        "table info coco",
        "has COCO's annotations in it; type: equipoise table import coco coco OUT --option split=val2017",
    ),
    "a layer of another table": (
        "table join faces captioned -o out --layer checked/layer",
        "the layer checked/layer was made for none of faces, captioned; give the table that was filtered",
    ),
    "a filter for its layer": (
        "table join captioned edits -o out --layer checked",
        "none of the tables has a layer 'checked'; type --layer checked/layer, the filter's own",
    ),
    "photographs without labels": (
        "audit mini -s contrast -t silent --axis gender -o out",
        "none of the 4 images that were edited has a label on gender; join or audit with the layer that has it, such "
        "as --layer words",
    ),
    "an axis in a layer": (
        "audit mini -s faces -t captioned -o out",
        "the table names no axis; captioned has a layer 'words' with gender: add --layer words",
    ),
    "an axis by name in a layer": (
        "audit mini -s faces -t captioned --axis gender -o out",
        "the table has no axis 'gender'; captioned has a layer 'words' with gender: add --layer words",
    ),
    "no such axis": (
        "audit mini -s faces -t unlabelled --axis gender -o out",
        "the table has no axis 'gender'; it names none",
    ),
    "no subjects": (
        "audit mini -s intersectional -t faces -o out",
        "the table has no subjects, which this suite asks about; import with --subject COLUMN, or take --suite prompts",
    ),
    "a spreadsheet": (
        f"{IMPORT} people.xlsx out",
        "is a spreadsheet; save its sheet as CSV (Save As), and type: equipoise table import csv people.csv OUT",
    ),
    "photographs never imported": (
        f"{AUDIT.replace('faces', 'photos')} mini",
        "photos is a folder of pictures, not a table; list them in a CSV file with the groups that they show, and "
        "type: equipoise table import csv LIST OUT",
    ),
    "arrays of unknown names": (
        f"{AUDIT} --from-embeddings unknown-names.npz",
        "write it as np.savez(FILE, image_ids=ids, image_vectors=vectors, texts=texts, text_vectors=vectors_of_texts)",
    ),
    "a folder of a model": (f"{AUDIT} ./my-clip", "lacks the word that says what it is; type hf:./my-clip"),
    "k as large as the pool": (
        f"{AUDIT} --from-embeddings vectors.npz --k 40",
        "only 40 images have a group on 'gender', and all would be retrieved; give a smaller --k",
    ),
    "an axis of one group": (
        f"{AUDIT.replace('faces', 'hats')} --from-embeddings vectors.npz --axis hat",
        "the axis 'hat' shows one group, 'no'; an audit compares groups, so it needs two: give --axis gender",
    ),
    "several captions of one image": (
        "captions twice.jsonl --labels gender -o out",
        "60 of 60 images have several captions that differ, where a captioner has one per image; give people's "
        "captions with --references twice.jsonl, and each captioner a file of its own",
    ),
    "no such lexicon": (
        "dataset captions.csv --id-column photo --caption-column words --lexicon equipose -o out",
        "there is no lexicon named 'equipose'; did you mean 'equipoise'?",
    ),
    "no lexicon like it": (
        "dataset captions.csv --id-column photo --caption-column words --lexicon zzz -o out",
        "there is no lexicon named 'zzz'; known: age, dba, equipoise,",
    ),
    "a file for the results": (
        f"{AUDIT.replace('-o out', '-o a-file')} --from-embeddings vectors.npz",
        "a-file: is a file; give a folder with -o",
    ),
    "no suite": ("audit mini -t faces -o out", "give one of these with --suite: "),
    "no encoder": ("filter faces -s duplicates -o out", "give one with -m, such as -m hf:openai/clip"),
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
    assert not (place / "out").exists()


def test_the_right_way_works_after_all_of_them(
    place: Path, command_line: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    done = command_line(*f"{AUDIT} --from-embeddings vectors.npz --no-report".split())
    assert done.returncode == 0, done.stderr
    assert "of 40 rows" in done.stdout or "metric" in done.stdout


def test_a_space_behind_the_name_of_a_column_is_passed_over(
    place: Path, command_line: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(place)
    done = command_line(*f"{IMPORT} spaced.csv {tmp_path}/t --image path --axis gender=sex".split())
    assert done.returncode == 0, done.stderr
    assert Table.open(tmp_path / "t").to_pandas(["gender"])["gender"].tolist() == ["male", "female"] * 2
    of = f"captions spaced-captions.csv --labels gender -o {tmp_path}/c --seeds 1 --permutations 0 --no-report"
    done = command_line(*of.split())
    assert done.returncode == 0, done.stderr
    done = command_line(*"text label spaced-captions.csv --caption-column caption".split())
    assert done.returncode == 0, done.stderr
    assert (place / "a-file").read_text() == "something"  # nothing of the mistakes above wrote over it


def test_a_join_leaves_out_what_a_filter_dropped_and_tells_of_labels_left_behind(
    place: Path, command_line: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    join = "table join captioned edits --layer checked/layer"
    done = command_line(*f"{join} -o without".split())
    assert done.returncode == 0, done.stderr
    assert "captioned has a layer 'words' with gender that was not joined; add --layer words" in done.stderr
    done = command_line(*f"{join} --layer words -o both".split())
    assert done.returncode == 0, done.stderr
    assert "not joined" not in done.stderr
    both = Table.open("both").to_pandas(["image_id", "gender"]).set_index("image_id")["gender"]
    assert len(both) == 11
    assert "p0-f" not in both
    assert both.notna().all()
    assert "keep" not in Table.open("both").columns


def test_a_light_installation_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from equipoise.errors import MissingExtraError
    from equipoise.models import caption_classifiers as classifiers

    monkeypatch.setattr(classifiers, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[models\]'"):
        classifiers.classifier("lstm").read([["a"]])
