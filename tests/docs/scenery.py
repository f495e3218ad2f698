"""What the pages read: small files, tables and models in the places that the printed commands name.

A page finds what :func:`common_ground` lays out, without what its own commands make, and with what its :class:`Stage`
adds. A new page needs an entry here only if it reads something else.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, chdir, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image
from tests.docs.printed import ROOT, parts_of
from typer.testing import CliRunner

from equipoise.cli.main import app
from equipoise.data import Table
from equipoise.models.miniatures import FOLDER
from equipoise.report.svg import asset

__all__ = ["FEWER", "QUICK", "STAGES", "STAND_INS", "Stage", "common_ground", "quick_ground"]

QUICK = ("data-readers.md", "text.md")
"""Pages of words and files, which take seconds together and find no models and no tables of pictures;
``make test-all`` runs the others."""

FEWER: dict[str, tuple[tuple[str, str], ...]] = {
    "README.md": ((r"(world render .*)-n 2000", r"\1-n 672"), (r"(train clip .*)( -o)", r"\1 --steps 2 --batch 8\2")),
    "captions.md": ((r" --reference-seeds 3", ""), (r"--classifier lstm", "--classifier lstm --seeds 1")),
    "mitigate.md": ((r"-n (3360|4000|6000)", "-n 672"), (r"steps=150", "steps=2")),
    "inpainting.md": ((r"(recipe inpainting) -o", r"\1 --dry-run -o"),),  # its quick form is run by the line before
    "contamination.md": (
        (r"--quick -o runs/quick", "--quick --dry-run -o runs/quick"),  # run by the test of the study
        (r"(recipe contamination) -o", r"\1 --dry-run -o"),
        (r"--alpha 0,0.5,1 --seeds 4", "--quick --dry-run --alpha 0,0.5,1 --seeds 1"),
    ),
    "recipes.md": ((r"(recipe (?:inpainting|contamination) --quick)", r"\1 --dry-run"),),  # run on pages of their own
}
"""Numbers that are lowered, so that a page takes minutes instead of a quarter of an hour: pictures, steps, splits.
With ``EQUIPOISE_AS_PRINTED=1`` nothing is lowered."""

STAND_INS = {
    "openai/clip-vit-base-patch32": "clip",
    "openai/clip-vit-large-patch14": "clip",
    "Salesforce/blip-image-captioning-base": "captioner",
    "microsoft/resnet-50": "judge",
    "sd-v1-5": "diffusion",
    "model": "clip",
}
"""Models that the pages take from the hub, and the miniature that lies in a folder of that name in their place."""


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


def put_own_files(folder: Path) -> None:
    """Photographs of one's own, and a CSV that says what is in them."""
    (folder / "photos").mkdir()
    lines = ["path,text,job,sex,age"]
    for n in range(4):
        Image.new("RGB", (8, 8)).save(folder / "photos" / f"{n}.png")
        lines.append(f"photos/{n}.png,a cook at work,cook,{('female', 'male')[n % 2]},young")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")


def put_tables(folder: Path) -> None:
    """The tables that pages name: sets, photographs, a list of one's own, and vectors."""
    from equipoise.audit import run, texts_asked
    from equipoise.world import preset, write_counterfactual_table, write_table

    sets = write_counterfactual_table(folder / "sets", preset("biased"), 4, axes=["gender"])
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
    """Pictures of 120 scenes, and what a captioner and people said of them."""
    from equipoise.world import preset, render_image, sample

    for name in ("pictures", "val2014"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()
    said, human, labels = [], [], ["image_id,gender"]
    for n, scene in enumerate(sample(preset("biased"), 120, seed=3)):
        picture = render_image(scene, 64)
        for name in ("pictures", "val2014"):
            picture.save(folder / name / f"{n}.png")
        texts, group = scene.captions(3, "gendered"), ("male", "female")[n % 2]
        said.append({"image_id": n, "caption": texts[0]})
        human += [{"image_id": n, "caption": text} for text in texts]
        labels.append(f"{n},{group}")
    (folder / "results.json").write_text(json.dumps(said))
    (folder / "human.json").write_text(json.dumps({"annotations": human}))
    (folder / "labels.csv").write_text("\n".join(labels) + "\n")
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in human))


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


def quick_ground(folder: Path) -> None:
    """What pages of words and files read."""
    put_captions(folder)
    put_own_files(folder)


def common_ground(folder: Path) -> None:
    """What most pages read: captions, tables, and miniatures in the folders of large models."""
    quick_ground(folder)
    put_tables(folder)
    for name, part in STAND_INS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(FOLDER / part)


def put_captioners(folder: Path) -> None:
    """Captions of LIC's captioners under the names of its released files; of few images, for many LSTMs learn them."""
    every = [json.loads(line) for line in (folder / "human.jsonl").read_text().splitlines()]
    chosen = [row for group in ("male", "female") for row in [r for r in every if r["gender"] == group][:24]]
    human = [{**row, "captions": row["captions"][:1]} for row in chosen]
    said = [{"image_id": r["image_id"], "caption": r["captions"][0], "gender": r["gender"]} for r in human]
    files = {"human": human, "human_captions": human}
    files |= {f"gender_{name}": said for name in ("nic", "sat", "fc", "transformer", "nic_plus")}
    skin = [{**row, "skin": ("light", "dark")[n // 2 % 2]} for n, row in enumerate(said)]
    files |= {"skin_nic": skin, "skin_fc": skin}
    (folder / "captions").mkdir()
    for name, rows in files.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        for home in (folder, folder / "captions"):
            (home / f"{name}.jsonl").write_text(text)
    (folder / "gender_lazy.jsonl").unlink(missing_ok=True)
    ids = {row["image_id"] for row in human}
    for name in ("gender_fair", "masked"):  # what the page's own Python wrote, of the same images
        if (file := folder / f"{name}.jsonl").is_file():
            lines = file.read_text().splitlines(keepends=True)
            file.write_text("".join(line for line in lines if json.loads(line)["image_id"] in ids))


def put_hats(folder: Path) -> None:
    """Sets with a column of their own that is no group: half of the pictures are said to show a hat."""
    rows, seen = [], dict[str, list[str]]()
    for row in Table.open(folder / "sets").rows(["image_id", "set_id", "subject", "gender"]):
        sets = seen.setdefault(row["subject"], [])
        if row["set_id"] not in sets:
            sets.append(row["set_id"])
        at = sets.index(row["set_id"])
        rows.append({**row, "set_id": f"{row['subject']}-{at // 2}", "hat": ("no", "yes")[at % 2]})
    shutil.rmtree(folder / "sets")
    Table.create(folder / "sets", rows, axes=["gender"], columns={"hat": "string"})


def remove_sets(folder: Path) -> None:
    """For a page that makes sets of its own in the middle."""
    shutil.rmtree(folder / "sets")


def put_larger_sets(folder: Path) -> None:
    """Sets of which MaxSkew@12 can say something: sixteen pictures of each subject."""
    from equipoise.world import preset, write_counterfactual_table

    remove_sets(folder)
    write_counterfactual_table(folder / "sets", preset("biased"), 8, axes=["gender"])


def put_natural(folder: Path) -> None:
    """Pictures as the biased world has them, beside the sets."""
    from equipoise.world import preset, write_table

    write_table(folder / "natural", preset("biased"), 300, seed=1)
    shutil.copytree(folder / "natural", folder / "tables" / "natural")


def put_checkpoints(folder: Path) -> None:
    """Weights in the published layouts of SLIP and of Berg et al.'s prompts, tiny and random."""
    import torch
    from tests.models import test_convert as layouts
    from transformers import AutoTokenizer

    words = AutoTokenizer.from_pretrained(FOLDER / "clip")
    with patch.multiple(layouts, WIDTH=768, CONTEXT=24):  # a ViT-B's width, from which its heads are known
        layouts.saved(layouts.timm_state(len(words), head_norms=False), folder / "slip_base_100ep.pt")
    (folder / "openai" / "clip-vit-base-patch16").symlink_to(FOLDER / "clip")
    width = json.loads((FOLDER / "clip" / "config.json").read_text())["text_config"]["hidden_size"]
    torch.save(torch.nn.Parameter(torch.randn(2, width)), folder / "embeddings.pt")


def put_sources(folder: Path) -> None:
    """The package's miniatures where a checkout has them."""
    (folder / "src" / "equipoise" / "models").mkdir(parents=True)
    (folder / "src" / "equipoise" / "models" / "mini").symlink_to(FOLDER)


def put_photographs_with_boxes(folder: Path) -> None:
    """Pictures with captions and a box around the one person."""
    from equipoise.world import preset, write_table

    shutil.rmtree(folder / "photos")
    write_table(folder / "photos", preset("biased"), 10)
    write_table(folder / "world", preset("fair"), 6, seed=1)
    shutil.rmtree(folder / "faces")
    write_table(folder / "faces", preset("fair"), 6, seed=2)


def type_in(folder: Path, line: str) -> None:
    """Make something as a user would have, in an earlier session."""
    with chdir(folder):
        assert CliRunner().invoke(app, line.split()).exit_code == 0, line


def put_reports(folder: Path) -> None:
    """Results to show: an audit, one of a repair, one of captions, and a filter's."""
    shutil.copytree(folder / "runs" / "clip-fair", folder / "runs" / "clip")
    shutil.copytree(folder / "runs" / "clip-fair", folder / "runs" / "fixed")
    shutil.copytree(folder / "sets", folder / "tables" / "sets")


def put_captions_and_a_filter(folder: Path) -> None:
    """Results of the other kinds that a report shows."""
    put_reports(folder)
    type_in(folder, "captions gender_nic.jsonl --labels gender --seeds 2 --permutations 5 -o runs/captions")
    type_in(folder, "filter sets --steps similarity -m mini -o filters")


def put_dossier(folder: Path) -> None:
    """The runs, labels and words that a dossier is made from."""
    put_reports(folder)
    shutil.rmtree(folder / "runs" / "clip")
    type_in(folder, "audit mini:clip --suite intersectional --table sets --draws 50 -o runs/clip")
    for name in ("before", "after", "remedy"):
        shutil.copytree(folder / "runs" / "clip-fair", folder / "runs" / name)
    shutil.copytree(folder / "sets", folder / "data" / "sets")
    (folder / "statement.txt").write_text("Small audits; nobody looked at age.\n")
    ids = Table.open(folder / "sets").to_pandas(["image_id"])["image_id"].tolist()[:8]
    lines = [f"{one},{who},gender,{said}" for one in ids for who, said in (("ana", "female"), ("ben", "male"))]
    (folder / "labels.csv").write_text("\n".join(["image_id,annotator,question,answer", *lines]) + "\n")


@contextmanager
def with_the_example_remedy() -> Iterator[None]:
    """The remedy of docs/adding-a-remedy.md, pasted and registered as that page says."""
    from equipoise.mitigate.catalog import REMEDIES

    file, line, *_ = (p.text for p in parts_of(ROOT / "docs" / "adding-a-remedy.md") if p.kind == "python")
    module = ModuleType("equipoise.mitigate.shrink")
    sys.modules[module.__name__] = module
    exec(compile(file, "shrink.py", "exec"), module.__dict__)
    exec(line, {"REMEDIES": REMEDIES})
    try:
        yield
    finally:
        del REMEDIES._built_in["shrink"]
        del sys.modules[module.__name__]


@dataclass(frozen=True)
class Stage:
    """What one page finds beside the common ground."""

    without: tuple[str, ...] = ()
    """What the page makes itself, so that it is not there before."""
    lays: tuple[Callable[[Path], None], ...] = ()
    """What lays out further files, before the first command."""
    before: tuple[tuple[str, Callable[[Path], None]], ...] = ()
    """What is laid out just before the first command, or block of Python, that matches a pattern."""
    python: str = r"\Z."
    """A pattern: Python blocks with a match write files that commands read, and are run; by default none is."""
    toml: str = ""
    """The file that the page's TOML is saved as."""
    around: Callable[[], AbstractContextManager[Any]] = nullcontext


STAGES = {
    "README.md": Stage(without=("tables/sets", "people", "captions.jsonl", "embeddings/clip"), lays=(put_natural,)),
    "adding-a-metric.md": Stage(without=("sets",)),
    "adding-a-remedy.md": Stage(lays=(put_larger_sets, put_natural), around=with_the_example_remedy),
    "audit.md": Stage(
        before=((r"--placebo hat", put_hats), (r'create\("sets"', remove_sets)),
        python=r'create\("sets"|vectors.csv|scores.csv',
    ),
    "captions.md": Stage(before=((r"classifier lstm", put_captioners),), python="gender_lazy"),
    "classify.md": Stage(lays=(put_photographs,), python="predictions.csv"),
    "data-readers.md": Stage(without=("people",)),
    "data-tables.md": Stage(without=("people",)),
    "dossier.md": Stage(without=("policy.toml",), lays=(put_dossier,)),
    "engine.md": Stage(without=("embeddings/clip",)),
    "filters.md": Stage(python='"made"', toml="filter.toml"),
    "generate.md": Stage(lays=(put_photographs_with_boxes,), python="plan_sets|plan_mask"),
    "how-a-number-is-made.md": Stage(without=("sets",)),
    "libra.md": Stage(lays=(put_captioned_pictures,)),
    "miniatures.md": Stage(lays=(put_sources,)),
    "mitigate.md": Stage(),
    "models.md": Stage(without=("slip-b16",), lays=(put_checkpoints,)),
    "recipes.md": Stage(lays=(put_captioners,)),
    "report.md": Stage(lays=(put_captions_and_a_filter,)),
    "text-templates.md": Stage(without=("captions.csv",)),
    "train.md": Stage(without=("sets",)),
}
"""Pages that read or make something of their own. A page that is not named here finds the common ground."""
