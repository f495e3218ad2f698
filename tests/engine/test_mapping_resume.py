from __future__ import annotations

import functools
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from equipoise import engine
from equipoise.data import Table
from equipoise.data.images import decode
from equipoise.errors import InputError

quiet = functools.partial(engine.map, progress=False)


def captioned(rows: list[dict[str, Any]]) -> list[Any]:
    return [{"model": "m", "caption": f"{row['seed']} {row['caption']}"} for row in rows]


def sizes(rows: list[dict[str, Any]]) -> list[Any]:
    return [{"model": "m", "caption": f"{row['image'].size} {row['image'].mode}"} for row in rows]


def captions_of(table: Table) -> list[str]:
    return [str(row["caption"]) for row in table.rows(["caption"])]


class TestResume:
    def test_finished_shards_are_not_done_again(self, people: Table, tmp_path: Path, files: Any) -> None:
        seen: list[int] = []
        stop = [20]

        def counted(rows: list[dict[str, Any]]) -> list[Any]:
            if rows[0]["seed"] >= stop[0]:
                raise SystemExit
            seen.extend(row["seed"] for row in rows)
            return captioned(rows)

        with pytest.raises(engine.JobError):
            quiet(counted, people, tmp_path / "out", schema="captions")
        stop[0] = 99
        made = quiet(counted, people, tmp_path / "out", schema="captions")
        assert seen == list(range(25))
        whole = quiet(counted, people, tmp_path / "whole", schema="captions")
        assert files(whole.path) == files(made.path)

    def test_batch_size_and_threads_do_not_change_the_bytes(self, people: Table, tmp_path: Path, files: Any) -> None:
        def shrunk(rows: list[dict[str, Any]]) -> list[Any]:
            return [{"image": row["image"].resize((8, 8))} for row in rows]

        found = [
            files(quiet(shrunk, people, tmp_path / f"o{b}{r}", decode=True, batch_size=b, readers=r).path)
            for b, r in ((1, 1), (4, 3), (10, 2), (64, 1))
        ]
        assert all(other == found[0] for other in found[1:])

    @pytest.mark.parametrize("finished", [False, True])
    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"config": {"steps": 30}}, "config.steps was 20, is now 30"),
            ({"columns": ["seed"]}, "config.engine.columns was"),
            ({"fn": "other"}, "config.engine.function.name was .*captioned.*, is now .*sizes"),
            ({"schema": "labels"}, "columns was .*"),
            ({"input": "other"}, "it was made from another input table"),
        ],
    )
    def test_another_run_is_refused(
        self, people: Table, tmp_path: Path, finished: bool, change: dict[str, Any], sentence: str
    ) -> None:
        out = tmp_path / "out"
        common: dict[str, Any] = {"schema": "captions", "config": {"steps": 20}}
        quiet(captioned, people, out, **common)
        if not finished:
            head = json.loads((out / "_table.json").read_bytes())
            del head["shards"], head["errors"]
            (out / "_writing.json").write_text(json.dumps(head | {"plan": {"batch_size": 32}}))
            (out / "_table.json").unlink()
        fn, table = captioned, people
        if "fn" in change:
            fn = sizes
        if "input" in change:
            table = Table.create(tmp_path / "others", [{"image_id": "z", "caption": "a"}], axes=["gender"])
        rest = {k: v for k, v in change.items() if k not in ("fn", "input")}
        with pytest.raises(InputError, match=sentence) as caught:
            quiet(fn, table, out, **{**common, **rest})
        assert ("a finished table" if finished else "an unfinished table") in str(caught.value)

    def test_another_batch_size_cannot_continue_a_run(self, people: Table, tmp_path: Path) -> None:
        def quits(rows: list[dict[str, Any]]) -> list[Any]:
            raise SystemExit

        with pytest.raises(engine.JobError):
            quiet(quits, people, tmp_path / "out", schema="captions", batch_size=8)
        with pytest.raises(InputError, match=r"plan.batch_size was 8, is now 16"):
            quiet(quits, people, tmp_path / "out", schema="captions", batch_size=16)

    def test_a_function_that_was_edited_is_another_one(self, people: Table, tmp_path: Path) -> None:
        def version(text: str) -> Any:
            scope: dict[str, Any] = {}
            exec(f"def made(rows):\n    return [{{'model': 'm', 'caption': {text!r}}} for row in rows]\n", scope)
            return scope["made"]

        quiet(version("one"), people, tmp_path / "out", schema="captions")
        quiet(version("one"), people, tmp_path / "out", schema="captions")
        with pytest.raises(InputError, match=r"the source of config.engine.function has changed"):
            quiet(version("two"), people, tmp_path / "out", schema="captions")


class TestLayers:
    def test_a_layer_is_joined_and_only_kept_rows_go_on(self, people: Table, tmp_path: Path) -> None:
        def judged(rows: list[dict[str, Any]]) -> list[Any]:
            return [{"score_seed": float(row["seed"]), "keep": row["seed"] % 4 == 0} for row in rows]

        filtered = engine.map_layer(judged, people, "four", new_columns=["score_seed", "keep"], progress=False)
        assert filtered.layer_names() == ["four"]
        made = quiet(captioned, filtered, tmp_path / "kept", schema="captions", only_kept=True, batch_size=2)
        assert captions_of(made) == [f"{i} a photo of person {i}" for i in range(0, 25, 4)]
        assert made.parents == filtered.fingerprints
        assert len(made.parents) == 2
        # The second layer sees the first one's columns.
        further = engine.map_layer(
            lambda rows: [{"score_half": row["score_seed"] / 2} for row in rows],
            filtered,
            "half",
            new_columns=["score_half"],
            progress=False,
        )
        assert further.to_pandas(["score_half"])["score_half"].tolist() == [i / 2 for i in range(25)]
        further.validate()

    def test_a_layer_row_for_another_image_is_the_jobs_fault(self, people: Table) -> None:
        with pytest.raises(engine.JobError, match="one row or none for each image"):
            engine.map_layer(
                lambda rows: [{"image_id": "img-0001", "keep": True} for _ in rows],
                people,
                "bad",
                new_columns=["keep"],
                progress=False,
            )
        with pytest.raises(engine.JobError, match="images that it was not given"):
            engine.map_layer(
                lambda batch: pa.table({"image_id": ["strange"], "keep": [True]}),
                people,
                "worse",
                new_columns=["keep"],
                form="arrow",
                progress=False,
            )

    def test_a_name_that_leaves_the_folder_of_layers_is_refused(self, people: Table) -> None:
        with pytest.raises(InputError, match=r"layer name '../odd name' is not usable"):
            engine.map_layer(captioned, people, "../odd name", new_columns=["keep"], progress=False)
        assert not (people.path / "odd name").exists()

    def test_only_kept_needs_a_verdict(self, people: Table, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="has no column 'keep'"):
            quiet(captioned, people, tmp_path / "out", schema="captions", only_kept=True)

    def test_relative_image_paths_are_handed_on_with_their_root(self, tmp_path: Path) -> None:
        from PIL import Image

        (tmp_path / "photos").mkdir()
        Image.new("RGB", (5, 6)).save(tmp_path / "photos" / "a.png")
        rows = [{"image": "a.png", "image_id": "a"}]
        table = Table.create(tmp_path / "in", rows, config={"image_root": str(tmp_path / "photos")})

        def same(rows: list[dict[str, Any]]) -> list[Any]:
            return [{"image": row["image"]} for row in rows]

        made = quiet(same, table, tmp_path / "out", columns=["image"])
        assert [image.size for _, image in made.images()] == [(5, 6)]

    @pytest.mark.parametrize("form", ["rows", "arrow"])
    def test_image_paths_that_start_from_the_table_are_handed_on(self, tmp_path: Path, form: Any) -> None:
        from PIL import Image

        Image.new("RGB", (5, 6)).save(tmp_path / "b.png")
        data = (tmp_path / "b.png").read_bytes()
        images = ["a.png", {"bytes": data, "path": "b.png"}, None, str(tmp_path / "b.png")]
        table = Table.create(tmp_path / "in", [{"image": v, "image_id": str(i)} for i, v in enumerate(images)])
        Image.new("RGB", (7, 8)).save(tmp_path / "in" / "a.png")

        def same(given: Any) -> Any:
            return pa.Table.from_batches([given]) if form == "arrow" else list(given)

        made = quiet(same, table, tmp_path / "out", columns=["image"], form=form)
        cells = [row["image"] for row in made.rows(["image"])]
        assert cells[1:3] == [{"bytes": data, "path": "b.png"}, None]
        assert [decode(cell, root=made.image_root).size for cell in cells if cell] == [(7, 8), (5, 6), (5, 6)]


class TestInterrupts:
    def test_the_first_finishes_the_shard_and_says_how_to_resume(
        self, people: Table, tmp_path: Path, files: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        seen: list[int] = []

        def interrupted(rows: list[dict[str, Any]]) -> list[Any]:
            if rows[0]["seed"] == 12 and 12 not in seen:
                os.kill(os.getpid(), signal.SIGINT)
            seen.extend(row["seed"] for row in rows)
            return captioned(rows)

        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(engine.Interrupted, match=r"stopped with 2 of 3 shards of .*out done; go on with: "):
            quiet(interrupted, people, tmp_path / "out", schema="captions", batch_size=2)
        assert signal.getsignal(signal.SIGINT) is before
        assert seen == list(range(20))
        told = capsys.readouterr().err
        assert "finishing the shard in hand; press Ctrl-C again" in told
        assert "go on with: " in told
        made = quiet(interrupted, people, tmp_path / "out", schema="captions", batch_size=2)
        assert seen == list(range(25))
        assert made.fingerprint == quiet(interrupted, people, tmp_path / "b", schema="captions").fingerprint

    def test_the_second_stops_at_once(self, people: Table, tmp_path: Path) -> None:
        seen: list[int] = []

        def impatient(rows: list[dict[str, Any]]) -> list[Any]:
            seen.extend(row["seed"] for row in rows)
            os.kill(os.getpid(), signal.SIGINT)
            return captioned(rows)

        with pytest.raises(KeyboardInterrupt):
            quiet(impatient, people, tmp_path / "out", schema="captions", batch_size=2, on_interrupt=lambda s: None)
        assert seen == [0, 1, 2, 3]
        assert not list((tmp_path / "out").glob("part-*"))

    def test_outside_the_main_thread_it_runs_too(self, people: Table, tmp_path: Path) -> None:
        found: list[Any] = []
        thread = threading.Thread(
            target=lambda: found.append(quiet(captioned, people, tmp_path / "out", schema="captions"))
        )
        thread.start()
        thread.join()
        assert len(found[0]) == 25
