"""A broken image costs its own row: it is left out, counted and named, and too many of them stop the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from equipoise.audit import measure_again, run
from equipoise.data import Table
from equipoise.data.images import encode
from equipoise.engine import Asking
from equipoise.errors import InputError
from equipoise.mitigate import Projection
from equipoise.mitigate.fitting import fit_into_folder
from equipoise.report import write_into

N = 64
QUIET = Asking(progress=False, batch_size=16)


class Colours:
    """The mean colours of the corners of a picture; texts by their letters."""

    name = key = "colours"
    logit_scale = 100.0

    def encode_images(self, images: Any) -> Any:
        return np.stack([np.asarray(image.resize((2, 2)), np.float32).ravel() + 1 for image in images])

    def encode_texts(self, texts: Any) -> Any:
        return np.array([[len(text) + ord(text[i % len(text)]) % 7 for i in range(12)] for text in texts], np.float32)


def table_with(broken: int, folder: Path) -> Table:
    """Sets of two, of which the first pictures of so many sets are cut off."""
    rng = np.random.default_rng(0)
    rows = []
    for i in range(N):
        data = encode(Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)))
        cut = i % 2 == 0 and i // 2 < broken
        row = {"image_id": f"i{i:02d}", "image": data[:-30] if cut else data, "set_id": f"set{i // 2}"}
        rows.append(row | {"subject": f"job{i % 32 // 8}", "gender": ("female", "male")[i % 2], "caption": f"cap {i}"})
    return Table.create(folder, rows, axes=["gender"], rows_per_shard=20)


NOTE = "2 of 64 images left out that cannot be read: 'i00' (cannot read"


@pytest.mark.slow
def test_an_audit_leaves_it_out_and_says_so(tmp_path: Path) -> None:
    suite = "intersectional"
    table = table_with(2, tmp_path / "in")
    out = tmp_path / "out"
    made = run(Colours(), suite, table, out, config={"draws": 20}, asking=QUIET)
    assert any(note.startswith(NOTE) for note in made.notes), made.notes
    kept = np.load(out / "_evidence" / "images.npy")
    assert len(kept) == N - 2
    assert np.isfinite(kept).all()
    alone = run(Colours(), suite, table, None, config={"draws": 20}, asking=QUIET)
    assert alone.results.equals(made.results), "in memory and on disk"
    again = measure_again(out, config={"draws": 30}, out=tmp_path / "again")
    assert any(note.startswith(NOTE) for note in again.notes)
    page, problem = write_into(out)
    assert page is not None, problem
    assert "2 of 64 images left out that cannot be read" in page.read_text()


def test_the_rows_that_stay_are_those_that_can_be_read(tmp_path: Path) -> None:
    whole = table_with(0, tmp_path / "whole")
    rows = [row for row in whole.rows() if row["image_id"] not in ("i00", "i02")]
    fewer = Table.create(tmp_path / "fewer", rows, axes=["gender"])
    broken = table_with(2, tmp_path / "broken")
    results = [
        run(Colours(), "intersectional", one, None, config={"draws": 20}, asking=QUIET) for one in (fewer, broken)
    ]
    assert results[0].results.equals(results[1].results)


def test_too_many_stop_an_audit_and_nothing_is_left(tmp_path: Path) -> None:
    table = table_with(5, tmp_path / "in")
    with pytest.raises(InputError, match=r"4 of 64 images cannot be read so far, more than 5%: 'i00' .*--max-broken"):
        run(Colours(), "intersectional", table, tmp_path / "out", config={"draws": 20}, asking=QUIET)
    assert not (tmp_path / "out").exists()
    more = Asking(progress=False, max_broken=0.2)
    assert run(Colours(), "intersectional", table, tmp_path / "out", config={"draws": 20}, asking=more).notes


def test_a_remedy_is_fitted_on_the_others(tmp_path: Path) -> None:
    table = table_with(2, tmp_path / "in")
    remedy, _ = fit_into_folder(Projection(), Colours(), table, ["gender"], tmp_path / "out", share=0, asking=QUIET)
    assert remedy.fitted_on is not None
    assert remedy.fitted_on.notes[0].startswith(NOTE)
    assert remedy.fitted_on.n == N - 4, "a picture without its partner says nothing"
    kept = json.loads((tmp_path / "out" / "run.json").read_text())
    assert kept["fitted_on"]["notes"][0].startswith(NOTE)


@pytest.mark.slow
def test_a_dataset_is_looked_at_without_it(tmp_path: Path) -> None:
    from equipoise.audit.dataset import DatasetSettings, audit_dataset

    table_with(2, tmp_path / "in")
    settings = DatasetSettings(clusters=2, min_images=2, permutations=9, probe_permutations=0)
    made = audit_dataset(tmp_path / "in", tmp_path / "out", encoder=Colours(), asking=QUIET, settings=settings)
    assert any(note.startswith(NOTE) for note in made.notes)
    probes = made.results[made.results["variant"] == "images"]
    assert set(probes["n"]) == {N - 2}


def test_a_filter_counts_it_as_failed(tmp_path: Path) -> None:
    from equipoise.filters import Models, read_steps
    from equipoise.filters import run as filtered

    table_with(2, tmp_path / "in")
    steps = read_steps("similarity", ["similarity.text_least=none", "similarity.image_least=-1"])
    made = filtered(tmp_path / "in", steps, tmp_path / "out", models=Models(encoder=Colours()), draws=19)
    ids = made.table.to_pandas(["image_id", "keep"]).set_index("image_id")["keep"]
    assert list(ids.index[~ids]) == ["i00", "i01", "i02", "i03"], "a set that is not whole goes as a whole"
    assert any(note.startswith(NOTE) for note in made.outcomes[0].notes), made.outcomes[0].notes
    table_with(5, tmp_path / "worse")
    with pytest.raises(InputError, match="4 of 64 images cannot be read so far"):
        filtered(tmp_path / "worse", steps, tmp_path / "stopped", models=Models(encoder=Colours()), draws=19)
