"""Every command that writes, on inputs so small that it takes a second: what the attacks run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

SUBJECTS = ("cook", "nurse", "pilot", "clerk")


def make_inputs(home: Path) -> None:
    """Tables with pictures and with vectors, captions of two captioners, a dataset to import, two audits."""
    from PIL import Image

    from equipoise.audit import run, texts_asked
    from equipoise.data import Table
    from equipoise.data.images import encode

    rng = np.random.default_rng(0)
    rows, vectors = [], {}
    for job in SUBJECTS:
        for number in range(4):
            for gender in ("female", "male"):
                name = f"{job}{number}{gender}"
                picture = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8))
                row = {"image_id": name, "image": encode(picture), "set_id": f"{job}{number}", "subject": job}
                shoes = "red" if gender == "female" else "blue"
                rows.append(row | {"gender": gender, "caption": f"a {gender} {job} with {shoes} shoes, {number}"})
                vectors[name] = rng.normal(size=8) + (gender == "female")
    Table.create(home / "sets", rows, axes=["gender"], rows_per_shard=12)
    for name, n in (("plain", 32), ("others", 24)):
        Table.create(home / name, [row | {"caption": None} for row in rows[:n]], axes=["gender"])
    vectors |= {text: rng.normal(size=8) for text in texts_asked("intersectional", home / "sets")}
    for name, factor in (("vectors", 1.0), ("vectors-2", 2.0)):
        made = [{"id": key, "vector": (v**factor).tolist(), "model": name} for key, v in vectors.items()]
        Table.create(home / name, made, kind="embeddings", dim=8)
    for name, words in (("good", ("a", "a")), ("bad", ("red", "blue"))):
        said = [
            {"image_id": i, "caption": f"a person with {words[i % 2]} kite {i % 7}", "gender": "fm"[i % 2]}
            for i in range(60)
        ]
        (home / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said))
    captions = [{"image_id": i, "caption": f"a {'man' if i % 2 else 'woman'} rides a bike {i}"} for i in range(60)]
    (home / "coco.json").write_text(json.dumps({"annotations": captions}))
    (home / "lines.txt").write_text("a man runs\na woman sits with her dog\n" * 20)
    (home / "photos").mkdir()
    for row in rows[:9]:
        (home / "photos" / f"{row['image_id']}.png").write_bytes(row["image"])
    lines = [f"{row['image_id']}.png,{row['gender']},a {row['subject']}" for row in rows[:9]]
    (home / "photos" / "metadata.csv").write_text("\n".join(["file_name,gender,caption", *lines]) + "\n")
    for name, k in (("one", 2), ("two", 3)):
        run(f"table:{home / 'vectors'}", "intersectional", home / "sets", home / name, config={"draws": 9, "k": [k, 4]})


def make_more_inputs(home: Path) -> None:
    """What commands read that generate, train, convert, judge predictions, and hand on what people said."""
    from safetensors.numpy import save_file

    from equipoise import world
    from equipoise.data import Table
    from equipoise.report.dossier.policy import example_policy
    from equipoise.review.preparing import prepare
    from equipoise.review.questions import preset

    fair = world.preset("fair")
    world.write_table(home / "street", fair, 2, size=64, seed=0)
    world.write_counterfactual_table(home / "pictograms", fair, 1, axes=("gender",), size=64, seed=0)
    subjects = sorted(fair.occupations)[:12]
    world.write_counterfactual_table(home / "contest", fair, 2, subjects=subjects, axes=("gender",), size=64, seed=0)
    save_file({"tokens": np.ones((2, 96), np.float32)}, home / "tokens.safetensors")
    rng = np.random.default_rng(1)
    lines = [f"{i},{'fm'[i % 2]},{'cup' if i % 3 else 'kite'}" for i in range(60)]
    (home / "objects.csv").write_text("\n".join(["image_id,gender,objects", *lines]) + "\n")
    scores = [f"{i},{a:.3f},{b:.3f}" for i, (a, b) in enumerate(rng.random((60, 2)))]
    (home / "predictions.csv").write_text("\n".join(["image_id,cup,kite", *scores]) + "\n")
    (home / "policy.toml").write_text(example_policy())
    (home / "activities.txt").write_text("riding a horse\nreading a book\n")
    said = [("man", "tie") if i % 2 else ("woman", "tie" if i % 10 == 0 else "kite") for i in range(60)]
    texts = [f"a {who} with a {what} {i}" for i, (who, what) in enumerate(said)]
    rows = [json.dumps({"image_id": i, "caption": text}) + "\n" for i, text in enumerate(texts)]
    (home / "sides.jsonl").write_text("".join(rows))
    plain = Table.open(home / "plain")
    of_each = [
        {"image_id": i, "caption": "a man who works as a nurse"} for i in plain.to_pandas(["image_id"])["image_id"]
    ]
    (home / "captioned.jsonl").write_text("".join(json.dumps(row) + "\n" for row in of_each))
    edited = [
        {"image_id": f"{row['image_id']}-{group}", "image": row["image"], "source_id": row["image_id"], "gender": group}
        for row in plain.rows()
        for group in ("female", "male")
    ]
    Table.create(home / "made", edited, axes=["gender"])
    review = prepare(plain, preset("perceived-group", axis="gender"), home / "review")
    review.add("ana", "ben")
    while (item := review.next_item("ana")) is not None:
        review.record("ana", item, {("gender", 0): "female" if item % 2 else "male"}, seconds=2.0)
    review.close()
    sets = Table.open(home / "sets")
    review = prepare(sets, preset("counterfactual-set"), home / "review-of-sets")
    review.add("ana")
    while (item := review.next_item("ana")) is not None:
        review.record("ana", item, {("same_except", 0): "yes" if item % 3 else "no"}, seconds=2.0)
    review.close()
    names = sets.to_pandas(["image_id"])["image_id"]
    seen = [{"image_id": name, "score_detect_gender": i % 3 - 1.0} for i, name in enumerate(names)]
    sets.add_layer("detect", seen, columns=["score_detect_gender"], path=home / "detect")
    faces = [{"image": row["image"], "image_id": row["image_id"], "gender": row["gender"]} for row in plain.rows()]
    Table.create(home / "faces", faces[:4], axes=["gender"])
    pairs = [row | {"biased": "a woman who works as a nurse", "original": row.pop("caption")} for row in of_each]
    (home / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pairs))


def commands_of(home: Path, other: bool = False) -> dict[str, list[Any]]:
    """Command lines by name, without where they write; ``other``: the same kinds, with other inputs or settings."""
    vectors = f"table:{home / ('vectors-2' if other else 'vectors')}"
    two = ["two", "one"] if other else ["one", "two"]
    seed = "1" if other else "0"
    sets, plain = home / "sets", home / ("others" if other else "plain")
    asked = ["-s", "intersectional", "-t", sets, "--draws", "9", "--k", "4"]
    return {
        "audit": ["audit", vectors, *asked, "-o"],
        "audit-of-a-model": ["audit", "mini:clip-fair" if other else "mini:clip", *asked, "--no-report", "-o"],
        "audit-of-captions": [
            *("audit", "-s", "captions-tfidf", "--captions", home / "coco.json", "--draws", "2", "--seed", seed),
            *("--no-report", "-o"),
        ],
        "measure": ["measure", home / two[0], "--draws", "29", "-o"],
        "compare": ["compare", home / two[0], home / two[1], "-o"],
        "report": ["report", home / two[0], "-o"],
        "dataset": ["dataset", plain, "--draws", "9", "--clusters", "2", "--min-images", "2", "-o"],
        "captions": [
            *("captions", home / ("bad.jsonl" if other else "good.jsonl"), "--labels", "gender", "--seeds", "2"),
            *("--permutations", "2", "--no-quality", "-o"),
        ],
        "mitigate": ["mitigate", "projection", vectors, "-t", sets, "--axis", "gender", "--seed", seed, "-o"],
        "filter": [
            *("filter", sets, "-s", "similarity,sharpness", "-m", vectors, "--draws", "19", "--set"),
            *("similarity.text_least=none", "--set", f"similarity.image_least=-0.{9 if other else 1}", "-o"),
        ],
        "embed": ["embed", "mini:clip-fair" if other else "mini:clip", sets, "--batch-size", "8", "-o"],
        "caption": ["caption", "mini:captioner", plain, "--batch-size", "8", "-o"],
        "import": ["table", "import", "imagefolder", home / "photos", "OUT", "--rows-per-shard", 3 + other],
        "export-folder": ["table", "export", "folder", plain],
        "export-huggingface": ["table", "export", "huggingface", plain],
        "export-webdataset": ["table", "export", "webdataset", plain],
        "export-csv": ["table", "export", "csv", plain],
        "export-card": ["table", "export", "card", plain],
        "label": ["text", "label", home / "lines.txt", "-o"],
        "swap": ["text", "swap", home / "lines.txt", "-o"],
        "caption-sets": ["text", "captions", "-p", "race-gender", "--subject", "doctor", "-f", "lines", "-o"],
        "render": ["world", "render", "OUT", "-n", "8", "--size", "16", "--seed", seed],
        "sets-of-the-world": ["world", "render", "OUT", "-n", "3", "--size", "16", "--counterfactual", "--seed", seed],
        "preview": ["world", "preview", "OUT", "--sample", "4", "--size", "16", "--seed", seed],
    }


def more_commands_of(home: Path) -> dict[str, list[Any]]:
    """As :func:`commands_of`, with what :func:`make_more_inputs` makes: commands that take longer, mostly by models."""
    street, pictograms = home / "street", home / "pictograms"
    miniatures = Path(__file__).parents[2] / "src" / "equipoise" / "models" / "mini"
    one_scene = ["--world", "fair", "--activities", "reading_book", "-n", "1"]
    on_pictograms = ["mini:clip", "-t", pictograms]
    quick = ["--steps", "2", "--device", "cpu"]
    train = [*("--steps", "3", "--batch", "4", "--save-every", "1", "--val-share", "0.4"), "--device", "cpu"]
    draw = ["generate", "sets", "OUT", "--world", "fair", "--axes", "gender", "--subjects", "nurse", "-n", "2", *quick]
    return {
        "generate-sets": draw,
        "generate-edits": ["generate", "edits", street, "OUT", "--groups", "female", "--guidance", "9.5", *quick],
        "generate-inpaint": ["generate", "inpaint", street, "OUT", "-m", "1", "--guidance", "7.5", *quick],
        "generate-scenes": ["generate", "scenes", "OUT", *one_scene, *quick],
        "generate-mask": ["generate", "mask", street, "OUT", "--preview-every", "2"],
        "generate-perturb": ["generate", "perturb", street, "OUT", "--preview-every", "2"],
        "generate-swap": [
            *("generate", "swap", street, home / "faces", "OUT", "--finder", "mini:detector", "--preview-every", "2")
        ],
        "generate-substitute": ["generate", "substitute", street, "OUT", "--alpha", "0.25,0.5", *quick],
        "convert": [
            "models",
            "convert",
            "debias-clip",
            home / "tokens.safetensors",
            "OUT",
            "--clip",
            miniatures / "clip",
        ],
        "train": ["train", "clip", pictograms, "--init", "mini:clip", *train, "-o"],
        "learned-tokens": ["mitigate", "learned-tokens", *on_pictograms, "--axis", "gender", "--set", "steps=2", "-o"],
        "tournament": [
            "tournament",
            "mini:clip",
            "-t",
            home / "contest",
            "--remedies",
            "projection",
            "--draws",
            "9",
            "--k",
            "2",
            "-o",
        ],
        "classify-audit": [
            *("classify-audit", home / "predictions.csv", "--labels", home / "objects.csv", "--axis", "gender"),
            *("--folds", "2", "--draws", "19", "-o"),
        ],
        "dossier": ["dossier", home / "one", "--policy", home / "policy.toml", "-o"],
        "example-policy": ["check", "--example", "--policy"],
        "libra": ["libra", "synthesise", home / "sides.jsonl", "--mix", "1:0:0", "--set", "margin=0.01", "-o"],
        "libra-apply": ["libra", "apply", home / "captioned.jsonl", "--images", home / "plain", "--batch", "4", "-o"],
        "libra-fit": [
            *("libra", "fit", home / "pairs.jsonl", "--images", home / "plain", "--init", "mini:dcg", "--steps", "2"),
            *("--batch", "4", "--set", "save_every=1", "--set", "val_share=0", "--device", "cpu", "-o"),
        ],
        "mini-train": [
            *("mini", "train", "detector", "--start", miniatures / "detector", "--steps", "1", "-o"),
        ],
        "counterfactual-sets": [
            *("recipe", "counterfactual-sets", "--subjects", "1", "--sets", "1", "-n", "1", "--steps", "2", "-o"),
        ],
        "chance-table": ["recipe", "chance-table", "-o"],
        "mask-words": ["text", "mask", home / "lines.txt", "-o"],
        "neutralise": ["text", "neutralise", home / "lines.txt", "-o"],
        "activities": ["text", "activities", home / "activities.txt", "-o"],
        "join": ["table", "join", home / "plain", street, "-o"],
        "combine": ["table", "combine", home / "plain", home / "made", "--axis", "gender", "-o"],
        "split-layer": ["table", "split", "OUT", "--by", "set_id"],
        "balance-layer": ["table", "balance", "OUT", "--axis", "gender"],
        "label-layer": ["table", "label", "OUT"],
        "review-to-table": ["review", "export", home / "review", "-o"],
        "review-to-csv": ["review", "export", home / "review", "--to", "csv", "-o"],
        "review-to-label-studio": ["review", "export", home / "review", "--to", "label-studio", "-o"],
        "review-to-pages": ["review", "export-static", home / "review", "-a", "ben", "-o"],
        "review-to-layer": ["review", "layer", home / "review", home / "plain", "-o"],
        "review-errors": ["review", "errors", home / "review-of-sets", home / "sets", "--draws", "19", "-o"],
        "review-thresholds": [
            *("review", "thresholds", home / "review-of-sets", home / "sets", "--layer", home / "detect", "-o"),
        ],
    }


SECONDS_LONG = (
    *("audit", "audit-of-a-model", "measure", "report", "captions", "caption", "generate-sets", "generate-edits"),
    *("generate-inpaint", "generate-scenes", "generate-substitute", "train", "learned-tokens", "tournament"),
    *("classify-audit", "dossier", "embed", "dataset", "convert", "audit-of-captions", "libra-fit", "mini-train"),
    "counterfactual-sets",
)
"""Commands that take half a second or more, models and pages mostly."""
INTO_A_TABLE = ("split-layer", "balance-layer", "label-layer")
"""Commands that write beside a table's own rows: they are given a copy of the table."""
ENDINGS = {
    "report": "page.html",
    "caption": "captions.jsonl",
    "export-csv": "table.csv",
    "export-card": "README.md",
    "label": "labelled.txt",
    "swap": "swapped.txt",
    "caption-sets": "captions.txt",
    "preview": "sheet.png",
    "example-policy": "policy.toml",
    "activities": "activities.csv",
    "review-to-csv": "labels.csv",
    "review-thresholds": "learned.toml",
    "chance-table": "chance.csv",
    "mask-words": "masked.txt",
    "neutralise": "neutral.txt",
}
"""Commands that write a file, and how it may be called; the others write a folder."""
ELSEWHERE = {
    "demo": "minutes long; its folder in tests/recipes/test_demo.py, its parts are commands of this module",
    "recipe": "minutes long; the frame of all studies, and one study as a whole, in tests/recipes/test_studies.py",
    "review serve": "people's answers, in tests/review/test_load.py: its links are random, so its bytes are",
    "mini pictures": "a minute long; tests/recipes/test_generative_figures.py",
}
"""Commands that write and are attacked in other tests."""


def line_of(command: list[Any], out: Path) -> list[Any]:
    """The words of a command that writes to ``out``."""
    return [out if word == "OUT" else word for word in command] + ([] if "OUT" in command else [out])


def all_commands_of(home: Path) -> dict[str, list[Any]]:
    """Every command that writes."""
    return commands_of(home) | more_commands_of(home)


def names() -> list[str]:
    """Of every command that writes, the quick ones first."""
    return sorted(all_commands_of(Path()), key=lambda name: name in SECONDS_LONG)


def line_into(name: str, folder: Path, home: Path) -> list[Any]:
    """The words of the command ``name`` that writes into ``folder``, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / ENDINGS.get(name, "made")
    if name in INTO_A_TABLE and not target.exists():
        shutil.copytree(home / "sets", target)
    return line_of(all_commands_of(home)[name], target)
