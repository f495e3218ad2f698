from __future__ import annotations

import errno
import functools
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from equipoise import engine
from equipoise.data import Rejected, Table, schema_for
from equipoise.engine import reading
from equipoise.errors import InputError, MissingExtraError, UnknownNameError

quiet = functools.partial(engine.map, progress=False)


def captioned(rows: list[dict[str, Any]]) -> list[Any]:
    return [{"model": "m", "caption": f"{row['seed']} {row['caption']}"} for row in rows]


def sizes(rows: list[dict[str, Any]]) -> list[Any]:
    return [{"model": "m", "caption": f"{row['image'].size} {row['image'].mode}"} for row in rows]


def captions_of(table: Table) -> list[str]:
    return [str(row["caption"]) for row in table.rows(["caption"])]


class TestWhatAFunctionMayReturn:
    def test_rows_in_the_order_of_the_input_shard_for_shard(self, people: Table, tmp_path: Path) -> None:
        made = quiet(captioned, people, tmp_path / "out", schema="captions")
        assert captions_of(made) == [f"{i} a photo of person {i}" for i in range(25)]
        assert [row["image_id"] for row in made.rows()] == [f"img-{i:04d}" for i in range(25)]
        assert [(s.file, s.rows) for s in made.shards] == [(s.file, s.rows) for s in people.shards]
        made.validate()

    def test_several_rows_or_none_for_one(self, people: Table, tmp_path: Path) -> None:
        def repeated(rows: list[dict[str, Any]]) -> list[Any]:
            return [[{"model": "m", "caption": str(row["seed"])}] * (row["seed"] % 3) for row in rows]

        made = quiet(repeated, people, tmp_path / "out", schema="captions", batch_size=4)
        assert captions_of(made) == [str(i) for i in range(25) for _ in range(i % 3)]

    def test_arrow_in_and_out(self, people: Table, tmp_path: Path) -> None:
        def doubled(batch: Any) -> Any:
            ids = batch.column("image_id")
            return pa.table({"image_id": ids, "model": ["m"] * len(ids), "caption": batch.column("caption")})

        made = quiet(doubled, people, tmp_path / "out", schema="captions", form="arrow", columns=["caption"])
        assert captions_of(made) == captions_of(people)

    def test_arrow_with_decoded_images(self, people: Table, tmp_path: Path) -> None:
        def measured(batch: Any, images: list[Any]) -> list[Any]:
            assert "image" not in batch.schema.names
            return [{"model": "m", "caption": str(image.size)} for image in images]

        made = quiet(measured, people, tmp_path / "out", schema="captions", form="arrow", decode=True)
        assert captions_of(made) == ["(24, 16)"] * 25

    def test_embeddings_take_the_image_id_as_their_id(self, people: Table, tmp_path: Path) -> None:
        def embedded(rows: list[dict[str, Any]]) -> list[Any]:
            return [{"vector": np.full(3, row["seed"], np.float32), "model": "m"} for row in rows]

        made = quiet(embedded, people, tmp_path / "out", schema=schema_for("embeddings", dim=3))
        assert [row["id"] for row in made.rows()][:2] == ["img-0000", "img-0001"]
        assert [row["vector"][0] for row in made.rows()] == list(range(25))

    def test_images_are_decoded_only_when_asked_for(self, people: Table, tmp_path: Path) -> None:
        def keys(rows: list[dict[str, Any]]) -> list[Any]:
            return [{"model": "m", "caption": " ".join(row)} for row in rows]

        one = quiet(keys, people, tmp_path / "one", schema="captions", columns=["gender"])
        assert captions_of(one)[0] == "image_id gender"
        everything = quiet(keys, people, tmp_path / "all", schema="captions")
        assert "image" not in captions_of(everything)[0].split()
        encoded = quiet(
            lambda rows: [{"model": "m", "caption": str(len(row["image"]["bytes"]))} for row in rows],
            people,
            tmp_path / "encoded",
            schema="captions",
            columns=["image"],
        )
        assert captions_of(encoded)[3] == str(len(next(people.rows(["image"]))["image"]["bytes"]))
        assert (
            captions_of(quiet(sizes, people, tmp_path / "sizes", schema="captions", decode=True))[0] == "(24, 16) RGB"
        )

    def test_a_pillow_image_is_stored_as_an_image(self, people: Table, tmp_path: Path) -> None:
        def shrunk(rows: list[dict[str, Any]]) -> list[Any]:
            return [{"image": row["image"].resize((8, 8)), "subject": row["subject"]} for row in rows]

        made = quiet(shrunk, people, tmp_path / "out", decode=True, batch_size=7)
        assert [image.size for _, image in made.images()] == [(8, 8)] * 25

    @pytest.mark.parametrize(
        ("returned", "sentence"),
        [
            (None, "returned NoneType; it must return a list with one item for each row"),
            ([{"caption": "x"}], "returned 1 items for 10 rows"),
            ([7] * 10, "returned int for the row 'img-0000'; an item is a row"),
            ("text", "returned str; it must"),
        ],
    )
    def test_anything_else_is_the_jobs_fault(self, people: Table, tmp_path: Path, returned: Any, sentence: str) -> None:
        with pytest.raises(engine.JobError, match=sentence):
            quiet(lambda rows: returned, people, tmp_path / "out", schema="captions")


class TestFailures:
    @settings(max_examples=examples(25), deadline=None)
    @given(bad=st.sets(st.integers(0, 24), max_size=20), batch_size=st.integers(1, 12), how=st.sampled_from("rexv"))
    def test_a_bad_row_costs_itself(
        self, tmp_path_factory: pytest.TempPathFactory, bad: set[int], batch_size: int, how: str
    ) -> None:
        folder = tmp_path_factory.mktemp("bad")
        rows = [{"image_id": f"{i:02d}", "seed": i} for i in range(25)]
        table = Table.create(folder / "in", rows, rows_per_shard=10)

        def picky(batch: list[dict[str, Any]]) -> list[Any]:
            made: list[Any] = []
            for row in batch:
                good = {"model": "m", "caption": str(row["seed"])}
                if row["seed"] not in bad:
                    made.append(good)
                elif how == "r":
                    raise RuntimeError(f"no {row['seed']}")
                elif how == "e":
                    made.append(RuntimeError(f"no {row['seed']}"))
                elif how == "x":
                    made.append(Rejected("", f"no {row['seed']}", {"seed": row["seed"]}))
                else:
                    made.append(good | {"caption": 3.5})
            return made

        made = quiet(picky, table, folder / "out", schema="captions", batch_size=batch_size)
        assert captions_of(made) == [str(i) for i in range(25) if i not in bad]
        errors = made.errors()
        assert errors["where"].tolist() == [f"{i:02d}" for i in sorted(bad)]
        assert [json.loads(row)["seed"] for row in errors["row"]] == sorted(bad)
        wanted = {"r": "RuntimeError: no", "e": "RuntimeError: no", "x": "no", "v": "column 'caption' expects string"}
        assert all(wanted[how] in reason for reason in errors["reason"])
        assert sum(s.n_errors for s in made.shards) == len(bad)

    def test_a_broken_image_costs_its_row(self, tmp_path: Path, make_rows: Any) -> None:
        rows = make_rows(12)
        rows[3]["image"] = rows[3]["image"][:100]
        rows[7]["image"] = None
        table = Table.create(tmp_path / "in", rows, axes=["gender"], rows_per_shard=5)
        made = quiet(sizes, table, tmp_path / "out", schema="captions", decode=True, batch_size=4)
        assert len(made) == 10
        errors = made.errors()
        assert errors["where"].tolist() == ["img-0003", "img-0007"]
        assert "cannot read" in errors["reason"][0]
        assert "no image" in errors["reason"][1]
        assert json.loads(errors["row"][0])["caption"] == "a photo of person 3"

    def test_failures_are_kept_in_the_order_of_the_rows(self, tmp_path: Path, make_rows: Any) -> None:
        rows = make_rows(8)
        rows[5]["image"] = b"no image"
        table = Table.create(tmp_path / "in", rows, axes=["gender"])

        def picky(batch: list[dict[str, Any]]) -> list[Any]:
            return [ValueError("no") if row["seed"] in (2, 6) else sizes([row])[0] for row in batch]

        made = quiet(picky, table, tmp_path / "out", schema="captions", decode=True)
        assert made.errors()["where"].tolist() == ["img-0002", "img-0005", "img-0006"]

    def test_when_every_row_fails_nothing_is_written(self, people: Table, tmp_path: Path) -> None:
        def broken(rows: list[dict[str, Any]]) -> list[Any]:
            return [row["no_such_column"] for row in rows]

        with pytest.raises(engine.JobError, match=r"every row failed in .*'img-0024': KeyError: 'no_such_column'"):
            quiet(broken, people, tmp_path / "out", schema="captions")
        assert not list((tmp_path / "out").glob("part-*"))
        # The run can be repeated once the cause is gone, and nothing remembers the failures.
        made = quiet(broken, people, tmp_path / "any", schema="captions", max_failures=None)
        assert (len(made), made.n_errors) == (0, 25)

    def test_many_failures_in_a_row_stop_the_run_and_are_not_recorded(self, people: Table, tmp_path: Path) -> None:
        down = threading.Event()

        def served(rows: list[dict[str, Any]]) -> list[Any]:
            if down.is_set() and rows[0]["seed"] >= 10:
                raise ConnectionError("the server is gone")
            return captioned(rows)

        down.set()
        with pytest.raises(engine.JobError, match=r"failed for 12 rows one after the other.*ConnectionError"):
            quiet(served, people, tmp_path / "out", schema="captions", max_failures=12)
        assert [path.name for path in (tmp_path / "out").glob("part-*")] == ["part-00000.parquet"]
        down.clear()
        made = quiet(served, people, tmp_path / "out", schema="captions", max_failures=12)
        assert (len(made), made.n_errors) == (25, 0)

    def test_a_shard_of_failures_is_recorded_once_another_succeeds(self, people: Table, tmp_path: Path) -> None:
        def late(rows: list[dict[str, Any]]) -> list[Any]:
            return [ValueError("too early") if row["seed"] < 20 else {"model": "m", "caption": "x"} for row in rows]

        made = quiet(late, people, tmp_path / "out", schema="captions")
        assert [(s.rows, s.n_errors) for s in made.shards] == [(0, 10), (0, 10), (5, 0)]

    @pytest.mark.parametrize(
        ("error", "sentence"),
        [
            (SystemExit(3), r"asked to exit \(code 3\)"),
            (MissingExtraError("the model", "models"), r"pip install .*\[models\]'"),
            (OSError(errno.ENOSPC, "no space left on device"), "cannot run: OSError: .*no space left"),
            (ModuleNotFoundError("No module named 'thing'"), "cannot run: ModuleNotFoundError: No module named"),
        ],
    )
    def test_what_no_row_can_cause_stops_at_once(
        self, people: Table, tmp_path: Path, error: BaseException, sentence: str
    ) -> None:
        def quits(rows: list[dict[str, Any]]) -> list[Any]:
            if rows[0]["seed"] >= 10:
                raise error
            return captioned(rows)

        with pytest.raises(engine.JobError, match=sentence):
            quiet(quits, people, tmp_path / "out", schema="captions")
        assert (tmp_path / "out" / "part-00000.parquet").exists()

    def test_reasons_are_the_same_in_every_run(self, people: Table, tmp_path: Path, files: Any) -> None:
        def odd(rows: list[dict[str, Any]]) -> list[Any]:
            return [ValueError(object()) if row["seed"] == 3 else captioned([row])[0] for row in rows]

        for name in ("a", "b"):
            quiet(odd, people, tmp_path / name, schema="captions")
        assert files(tmp_path / "a") == files(tmp_path / "b")


class TestMemory:
    @pytest.mark.parametrize("error", ["MemoryError", "OutOfMemoryError", "RuntimeError"])
    def test_batches_halve_and_it_is_noted(self, people: Table, tmp_path: Path, error: str) -> None:
        kinds = {
            "MemoryError": MemoryError(),
            "OutOfMemoryError": type("OutOfMemoryError", (RuntimeError,), {})("CUDA"),
            "RuntimeError": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
        }
        seen: list[int] = []

        def greedy(rows: list[dict[str, Any]]) -> list[Any]:
            if len(rows) > 3:
                raise kinds[error]
            seen.append(len(rows))
            return captioned(rows)

        made = quiet(greedy, people, tmp_path / "out", schema="captions", batch_size=10)
        assert captions_of(made) == [f"{i} a photo of person {i}" for i in range(25)]
        assert made.n_errors == 0
        assert seen == [3, 3, 3, 1, 3, 3, 3, 1, 3, 2]
        notes = engine.read_notes(made.path)
        assert notes["part-00000.parquet"] == [
            {"row": 0, "out_of_memory_with": 10, "batch_size": 5},
            {"row": 0, "out_of_memory_with": 5, "batch_size": 3},
        ]
        assert len(notes) == 3
        made.validate()

    def test_a_row_that_is_too_large_alone_costs_itself(self, people: Table, tmp_path: Path) -> None:
        def huge(rows: list[dict[str, Any]]) -> list[Any]:
            if any(row["seed"] == 6 for row in rows):
                raise MemoryError
            return captioned(rows)

        made = quiet(huge, people, tmp_path / "out", schema="captions", batch_size=8)
        assert len(made) == 24
        assert made.errors()["reason"].tolist() == ["MemoryError"]

    def test_no_notes_without_incident(self, people: Table, tmp_path: Path) -> None:
        made = quiet(captioned, people, tmp_path / "out", schema="captions")
        assert engine.read_notes(made.path) == {}


class Model:
    """Counts how often it was built."""

    built = 0

    def __init__(self, name: str = "m") -> None:
        type(self).built += 1
        self.name = name

    def __call__(self, rows: list[dict[str, Any]]) -> list[Any]:
        return [{"model": self.name, "caption": str(row["seed"])} for row in rows]


def with_model(rows: list[dict[str, Any]], model: Model) -> list[Any]:
    return model(rows)


class TestModels:
    def test_a_class_is_built_once(self, people: Table, tmp_path: Path) -> None:
        Model.built = 0
        made = quiet(Model, people, tmp_path / "out", schema="captions", batch_size=3)
        assert (Model.built, len(made)) == (1, 25)
        named = quiet(functools.partial(Model, "other"), people, tmp_path / "named", schema="captions", batch_size=3)
        assert next(named.rows())["model"] == "other"
        assert Model.built == 2

    def test_setup_gives_the_last_argument(self, people: Table, tmp_path: Path) -> None:
        Model.built = 0
        setup = functools.partial(Model, "made")
        made = quiet(with_model, people, tmp_path / "out", schema="captions", batch_size=3, setup=setup)
        assert Model.built == 1
        assert next(made.rows())["model"] == "made"

    def test_a_finished_table_builds_nothing(self, people: Table, tmp_path: Path) -> None:
        first = quiet(Model, people, tmp_path / "out", schema="captions")
        Model.built = 0
        again = quiet(Model, people, tmp_path / "out", schema="captions")
        assert again.fingerprint == first.fingerprint
        assert Model.built == 0


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "sentence"),
        [
            ({"engine": "rai"}, "there is no engine named 'rai'; did you mean 'ray'"),
            ({"workers": 4}, "the local engine is one worker; use engine='ray'"),
            ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
            ({"readers": 0}, "readers must be at least 1, not 0"),
            ({"max_failures": 0}, "max_failures must be at least 1"),
            ({"form": "polars"}, "form must be 'rows' or 'arrow', not 'polars'"),
            ({"columns": ["gendr"]}, "did you mean 'gender'"),
            ({"columns": "gender"}, r"write \['gender'\]"),
            ({"config": {"engine": 1}}, "use another name"),
            ({"config": {"x": object()}}, "config cannot be stored as JSON"),
            ({"schema": "caption"}, "there is no kind of table named 'caption'"),
        ],
    )
    def test_a_wrong_one_is_named(self, people: Table, tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
        with pytest.raises(InputError, match=sentence):
            quiet(captioned, people, tmp_path / "out", **{"schema": "captions", **options})
        assert not list((tmp_path / "out").glob("part-*"))

    def test_the_input_is_not_an_output(self, people: Table) -> None:
        with pytest.raises(InputError, match="is the input; nothing is changed in place"):
            quiet(captioned, people, people.path)

    def test_decode_needs_an_image_column(self, people: Table, tmp_path: Path) -> None:
        made = quiet(captioned, people, tmp_path / "out", schema="captions")
        with pytest.raises(UnknownNameError, match="'image'"):
            quiet(captioned, made, tmp_path / "again", schema="captions", decode=True)

    def test_an_empty_table(self, tmp_path: Path) -> None:
        table = Table.create(tmp_path / "in", [])
        made = quiet(captioned, table, tmp_path / "out", schema="captions")
        assert len(made) == 0
        made.validate()

    def test_a_path_will_do(self, people: Table, tmp_path: Path) -> None:
        assert len(quiet(captioned, str(people.path), str(tmp_path / "out"), schema="captions")) == 25

    def test_a_table_without_keys_can_be_mapped(self, people: Table, tmp_path: Path) -> None:
        results = Table.create(tmp_path / "r", [{"metric": "a"}, {"metric": "b"}], kind="results")

        def bad_first(rows: list[dict[str, Any]]) -> list[Any]:
            return [ValueError("no") if row["metric"] == "a" else {"metric": row["metric"]} for row in rows]

        made = quiet(bad_first, results, tmp_path / "out", schema="results")
        assert made.errors()["where"].tolist() == ["row 0"]


def test_a_damaged_input_is_named_and_what_is_done_is_kept(people: Table, tmp_path: Path) -> None:
    shard = people.path / people.shards[2].file
    content = shard.read_bytes()
    shard.write_bytes(content[:200] + bytes(len(content) - 400) + content[-200:])
    with pytest.raises(InputError, match=r"part-00002\.parquet"):
        quiet(captioned, people, tmp_path / "out", schema="captions")
    assert len(list((tmp_path / "out").glob("part-*"))) == 2
    shard.write_bytes(content)
    assert len(quiet(captioned, people, tmp_path / "out", schema="captions")) == 25


def test_progress_counts_what_a_filter_dropped(
    people: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shard in which nothing is kept becomes an empty one."""
    verdicts = [{"image_id": row["image_id"], "keep": row["seed"] < 7} for row in people.rows(["image_id", "seed"])]
    filtered = people.add_layer("f", verdicts, columns=["keep"])
    made = engine.map(captioned, filtered, tmp_path / "out", schema="captions", only_kept=True)
    assert [shard.rows for shard in made.shards] == [7, 0, 0]
    assert "out: 25/25 rows (100%)" in capsys.readouterr().err


def test_progress_is_told(people: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine.map(captioned, people, tmp_path / "out", schema="captions")
    assert "out: 25/25 rows (100%)" in capsys.readouterr().err


def test_two_writers_do_not_mix(people: Table, tmp_path: Path) -> None:
    """While one run is at work, a second into the same output stops with a sentence."""

    def nested(rows: list[dict[str, Any]]) -> list[Any]:
        with pytest.raises(InputError, match="is being written by process"):
            quiet(nested, people, tmp_path / "out", schema="captions", max_failures=1)
        return captioned(rows)

    made = quiet(nested, people, tmp_path / "out", schema="captions", max_failures=1)
    assert len(made) == 25


def test_memory_of_readers_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The readers stop a few batches ahead of a function that is slow."""
    rows = [{"image_id": str(i), "seed": i} for i in range(400)]
    table = Table.create(tmp_path / "in", rows, rows_per_shard=400)
    ahead: list[int] = []
    read: list[int] = []

    def watching(job: Any, batch: Any, start: int) -> Any:
        read.append(start)
        return original(job, batch, start)

    def slow(rows: list[dict[str, Any]]) -> list[Any]:
        time.sleep(0.01)
        ahead.append(len(read) * 10 - rows[0]["seed"])
        return [{"model": "m", "caption": "x"} for _ in rows]

    original = reading.prepared
    monkeypatch.setattr(reading, "prepared", watching)
    quiet(slow, table, tmp_path / "out", schema="captions", batch_size=10, readers=2)
    # readers + 2 wait in the queue, one is held by the reading thread, one by the function.
    assert max(ahead) <= 10 * (2 + 2 + 2)
    assert max(ahead) > 10
