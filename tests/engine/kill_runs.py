"""The jobs of the kill tests that leave results in a folder: one of every kind, each a second or less."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

SUBJECTS = ("cook", "nurse", "pilot", "clerk")


def make_inputs(home: Path) -> None:
    """Everything that the jobs read: a table with vectors, captions of two models, and two audits to compare."""
    from equipoise.audit import run, texts_asked
    from equipoise.data import Table

    rng = np.random.default_rng(0)
    rows, vectors = [], {}
    for job in SUBJECTS:
        for number in range(4):
            for gender in ("female", "male"):
                name = f"{job}{number}{gender}"
                rows.append({"image_id": name, "set_id": f"{job}{number}", "subject": job, "gender": gender})
                rows[-1]["caption"] = f"a {gender} {job} with {'red' if gender == 'female' else 'blue'} shoes, {number}"
                vectors[name] = rng.normal(size=8) + (gender == "female")
    Table.create(home / "sets", rows, axes=["gender"])
    plain = [{name: value for name, value in row.items() if name != "caption"} for row in rows]  # captions take long
    for name, n in (("plain", 32), ("others", 24)):
        Table.create(home / name, plain[:n], axes=["gender"])
    vectors |= {text: rng.normal(size=8) for text in texts_asked("intersectional", home / "sets")}
    for name, factor in (("vectors", 1.0), ("vectors-2", 2.0)):
        made = [{"id": key, "vector": (v**factor).tolist(), "model": name} for key, v in vectors.items()]
        Table.create(home / name, made, kind="embeddings", dim=8)
    for name, words in (("good", ("a", "a")), ("bad", ("red", "blue"))):
        said = [
            {"image_id": i, "caption": f"a person with {words[i % 2]} kite {i % 7}", "gender": "fm"[i % 2]}
            for i in range(120)
        ]
        (home / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said))
    for name, k in (("one", 2), ("two", 3)):
        run(f"table:{home / 'vectors'}", "intersectional", home / "sets", home / name, config={"draws": 9, "k": [k, 4]})


def import_everything() -> None:
    """Import what the jobs need, so that a child that is forked begins at once."""
    import sklearn.decomposition
    import sklearn.feature_extraction.text
    import sklearn.linear_model
    import sklearn.manifold  # noqa: F401


def run_audit(home: Path, out: Path, other: bool) -> None:
    from equipoise.audit import run

    model = f"table:{home / ('vectors-2' if other else 'vectors')}"
    run(model, "intersectional", home / "sets", out, config={"draws": 9, "k": [4]})


def run_measure(home: Path, out: Path, other: bool) -> None:
    from equipoise.audit import measure_again

    measure_again(home / ("two" if other else "one"), config={"draws": 19 if other else 29}, out=out)


def run_captions(home: Path, out: Path, other: bool) -> None:
    from equipoise.audit.captions.run import CaptionSettings, audit_captions

    settings = CaptionSettings(seeds=2, permutations=2, quality=False)
    audit_captions([home / ("bad.jsonl" if other else "good.jsonl")], None, "gender", out, settings=settings)


def run_dataset(home: Path, out: Path, other: bool) -> None:
    from equipoise.audit.dataset import DatasetSettings, audit_dataset

    settings = DatasetSettings(clusters=2, min_images=2, permutations=9, probe_permutations=0)
    audit_dataset(home / ("others" if other else "plain"), out, settings=settings)


def run_mitigate(home: Path, out: Path, other: bool) -> None:
    from equipoise.data import Table
    from equipoise.mitigate import Projection
    from equipoise.mitigate.fitting import fit_into_folder
    from equipoise.models import load

    model = load(f"table:{home / 'vectors'}")
    fit_into_folder(Projection(), model, Table.open(home / "sets"), ["gender"], out, seed=int(other))


def run_compare(home: Path, out: Path, other: bool) -> None:
    from equipoise.audit import compare

    pair = (home / "two", home / "one") if other else (home / "one", home / "two")
    compare(*pair, out)


def run_filter(home: Path, out: Path, other: bool) -> None:
    from equipoise.filters import Models, read_steps
    from equipoise.filters import run as filtered

    steps = read_steps(
        "similarity", ["similarity.text_least=none", f"similarity.image_least={-0.9 if other else -0.1}"]
    )
    filtered(home / "sets", steps, out, models=Models(encoder=f"table:{home / 'vectors'}"), draws=19)


def run_report(home: Path, out: Path, other: bool) -> None:
    from equipoise.cli.report import report

    page = str(out / "page.html")
    report([str(home / ("two" if other else "one"))], page, "", "", ("", ""), [], False)


KINDS: dict[str, Any] = {
    "audit": run_audit,
    "measure": run_measure,
    "captions": run_captions,
    "dataset": run_dataset,
    "mitigate": run_mitigate,
    "compare": run_compare,
    "filter": run_filter,
    "report": run_report,
}


def run_kind(kind: str, home: str, out: str, other: bool = False) -> None:
    """The job called ``kind``; ``other`` is one of the same kind that must not share its folder."""
    with redirect_stdout(StringIO()):  # what the server says there is its answer
        KINDS[kind](Path(home), Path(out), other)
