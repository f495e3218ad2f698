"""A run: a table through several filters, one after the other, resumable, with a report at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data import Table, write_results
from equipoise.data.atomic import write_whole
from equipoise.data.labels import PLACEBO
from equipoise.data.runs import RUN, Run, claimed
from equipoise.data.shard_writer import is_finished
from equipoise.errors import InputError, UnknownNameError
from equipoise.filters.funnel import StepOutcome, TestedStep, bias_tests, funnel_of, report_text, result_rows
from equipoise.filters.pictures import decile_gallery
from equipoise.filters.protocol import FilterVerdict
from equipoise.filters.remaining import Models, RemainingImages, as_table
from equipoise.filters.steps import Step, check_columns
from equipoise.formatting import csv_text, one_line
from equipoise.measure.stats.estimate import RESULT_COLUMNS

LAYER = "layer"
EVIDENCE = "evidence"
EXTRAS = "steps/files"
"""Where the small tables and pictures of finished steps wait until the run is done."""
_STEP_COLUMNS = {"keep": "bool", "dropped_by": "string", "failed": "bool", "judged": "bool"}


@dataclass(frozen=True)
class FilterRun:
    """What a run found; ``str()`` is the printed report."""

    table: Table
    """The table read with the run's layer: ``score_*``, ``keep``, ``dropped_by``."""
    folder: Path
    outcomes: tuple[StepOutcome, ...]
    funnel: pd.DataFrame
    tests: tuple[TestedStep, ...]
    results: pd.DataFrame

    @property
    def alarms(self) -> tuple[TestedStep, ...]:
        """The steps that treat groups differently."""
        return tuple(test for test in self.tests if test.alarm)

    def __str__(self) -> str:
        return report_text(self.funnel, self.tests, self.outcomes)


def run(
    table: Table | str | Path,
    steps: Sequence[Step],
    out: str | Path,
    *,
    models: Models | None = None,
    axes: Sequence[str] = (),
    draws: int = 999,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
    overwrite: bool = False,
) -> FilterRun:
    """Put ``table`` through ``steps`` and write everything to the folder ``out``.

    A run that was stopped resumes when called again with the same arguments; with others it is refused.

    Args:
        table: images, as a table or its folder; those that an earlier filter dropped are not looked at again.
        steps: filters in their order, at least one.
        out: the folder: ``out/layer`` is the layer with all scores and the verdict, ``out/steps/`` has one layer per
            step, ``out/evidence/`` what models said.
        models: what filters see with, unless a step names its own.
        axes: those on which images are counted and bias is tested; the table's unless given.
        draws: shuffles for each test of bias; more where there are so many tests that none could be significant.
        seed: what filters draw, and which shuffles.
        say: told each note on labels and each step that begins.
        overwrite: begin anew in a folder that holds another run.

    Returns:
        What the run found, with the table read with its layer.
    """
    opened = as_table(table)
    if not steps:
        raise InputError("no step is given; a run needs at least one filter")
    check_columns(opened, steps)
    for axis in axes:
        if axis not in opened.types:
            raise UnknownNameError(f"axis of {opened.path}", axis, opened.axes)
    chosen = tuple(axes) or opened.axes
    models = models or Models()
    _check_means(steps, models)
    settings = _settings(opened, steps, models, chosen, seed)
    claim: dict[str, Any] = {
        "settings": settings,
        "parents": {"table": opened.fingerprint},
        "accept": _gives_way_to(settings),
    }
    with claimed(out, "filter", **claim, overwrite=overwrite) as home:
        runner = _Runner(opened, home.folder, models, chosen, seed, say)
        for note in runner.frame.attrs["label_notes"]:
            say(note)
        for number, step in enumerate(steps, 1):
            runner.take(number, step)
        frame = runner.frame
        funnel = funnel_of(frame, chosen, runner.outcomes)
        tests = bias_tests(_with_held(frame, opened), chosen, runner.outcomes, held=opened.axes, draws=draws, seed=seed)
        rows = result_rows(tests, runner.outcomes)
        results = pd.DataFrame(rows, columns=list(RESULT_COLUMNS))
        done = FilterRun(runner.combined(), home.folder, tuple(runner.outcomes), funnel, tuple(tests), results)
        write_whole(home.stage / "funnel.csv", csv_text(funnel).encode())
        write_results(home.stage / "results.parquet", rows)
        write_whole(home.stage / "report.txt", (str(done) + "\n").encode())
        if (home.folder / EXTRAS).is_dir():
            shutil.copytree(home.folder / EXTRAS, home.stage, dirs_exist_ok=True)
        home.publish(draws=draws)
    return done


def _check_means(steps: Sequence[Step], models: Models) -> None:
    """Refuse a step that will need a model nobody named, before the first step takes its time."""
    for step in steps:
        needs = step.filter.needs
        if step.name == "quality" and models.reference is None:
            continue  # without real images it compares no vectors
        if any("vectors" in need for need in needs) and not (models.encoder or getattr(step.filter, "model", "")):
            raise InputError(
                f"the step {step.label!r} needs {needs[0]}, and no encoder is named; give one with -m, such as "
                "-m hf:openai/clip-vit-large-patch14, table:<folder of embeddings> or mini"
            )
        if "a detector of faces" in needs and not (models.faces or getattr(step.filter, "faces", "")):
            raise InputError(
                f"the step {step.label!r} asks for a face, and no detector of faces is named; give one with --faces, "
                "such as --faces mediapipe:<file.tflite>, or --faces annotations if the table says where faces are"
            )


def _emptied(step: Step, layer: Table) -> str:
    """Why a step that dropped every image did so: the scores beside the settings."""
    scores = [name for name in layer.columns if name.startswith("score_")]
    frame = layer.to_pandas(scores) if scores else pd.DataFrame()
    spans = [
        f"{name.removeprefix('score_')} {frame[name].min():.3g} to {frame[name].max():.3g}"
        for name in scores
        if frame[name].notna().any()
    ]
    plain = step.plain()["settings"].items()
    numbers = [(key, value) for key, value in plain if isinstance(value, int | float) and not isinstance(value, bool)]
    set_to = ", ".join(f"{step.label}.{key}={value}" for key, value in numbers)
    seen = f"scores were {', '.join(spans)}" if spans else "no image has a score"
    change = f", and it was set to {set_to}; change that with --set" if set_to else ""
    return f"every image was dropped: {seen}{change}"


def _with_held(frame: pd.DataFrame, table: Table) -> pd.DataFrame:
    """The frame with what the test of bias holds fixed besides: further axes, placebos, and which sets are linked."""
    further = [
        name
        for name in table.types
        if name not in frame and (name in table.axes or name == "link" or name.startswith(PLACEBO))
    ]
    return frame.join(table.to_pandas(further)) if further else frame


class _Runner:
    """The state of a run between two steps."""

    def __init__(
        self, table: Table, folder: Path, models: Models, axes: tuple[str, ...], seed: int, say: Callable[[str], None]
    ) -> None:
        self.table, self.folder, self.models, self.axes, self.seed, self.say = table, folder, models, axes, seed, say
        self.outcomes: list[StepOutcome] = []
        self.layers: list[Table] = []
        self.loaded: dict[tuple[str, str], Any] = {}
        self.everything = RemainingImages(table, None, models, axes, _loaded=self.loaded)
        self.frame = self.everything.frame
        self.alive = _alive(table)
        self._some_gone = not self.alive.all()

    def take(self, number: int, step: Step) -> None:
        """Do one step, or read what it did before the run was stopped."""
        place = self.folder / "steps" / f"{number:02d}-{step.label}"
        if not is_finished(place):
            self.say(f"{step.label}: {int(self.alive.sum()):,} images")
            self._judge(step, place)
        layer = Table.open(place)
        self.layers.append(layer)
        about = _read_step(place.with_suffix(".json"))
        self._check_models(step, about["seen_by"])
        try:
            outcome = self._outcome(step, layer, about)
        except (KeyError, ValueError, TypeError) as error:  # rows of other images, or values of another kind
            raise _damaged(place, error) from None
        if outcome.before.any() and not (outcome.before & ~outcome.dropped).any():
            outcome = replace(outcome, notes=(*outcome.notes, _emptied(step, layer)))
        self.outcomes.append(outcome)
        self.alive = outcome.before & ~outcome.dropped

    def combined(self) -> Table:
        """The table with one layer that holds every score, ``keep`` and ``dropped_by``."""
        place = self.folder / LAYER
        if not is_finished(place):
            first = self.outcomes[0].before
            data = pd.DataFrame({"image_id": self.frame["image_id"][first]})
            columns: dict[str, str] = {}
            dropped_by = np.full(len(self.frame), None, dtype=object)
            for outcome, layer in zip(self.outcomes, self.layers, strict=True):
                dropped_by[outcome.dropped] = outcome.label
                scores = [name for name in layer.columns if name.startswith("score_")]
                if scores:
                    data = data.merge(layer.to_pandas(["image_id", *scores]), on="image_id", how="left")
                    columns |= dict.fromkeys(scores, "float64")
            data["keep"] = self.alive[first]
            data["dropped_by"] = dropped_by[first]
            columns |= {"keep": "bool", "dropped_by": "string"}
            uses = [layer.fingerprint for layer in (*self.table.layers, *self.layers)]
            config = {"filter": [outcome.label for outcome in self.outcomes]}
            data = _nulls(data, columns)
            self.table.add_layer(LAYER, data, columns=columns, config=config, uses=uses, path=place)
        return self.table.with_layers([*self.table.layers, place])

    def _judge(self, step: Step, place: Path) -> None:
        view = self.table.with_layers([*self.table.layers, *self.layers])
        remaining = RemainingImages(
            view,
            self.alive,
            self.models,
            self.axes,
            self.folder / EVIDENCE,
            self.seed,
            only_kept=bool(self.layers) or self._some_gone,
            _loaded=self.loaded,
        )
        if not len(remaining):
            nothing = np.zeros(0, dtype=bool)
            verdict = FilterVerdict(nothing, nothing, notes=["no image was left to judge"])
        else:
            verdict = step.filter.judge(remaining)
            verdict.notes.extend(remaining.unreadable)
        self._keep_extras(step, place, remaining, verdict)
        suffix = step.label.removeprefix(step.name).replace("-", "_")
        columns = {f"score_{name}{suffix}": "float64" for name in verdict.scores} | _STEP_COLUMNS
        data = pd.DataFrame({"image_id": remaining.frame["image_id"]})
        for name, values in verdict.scores.items():
            data[f"score_{name}{suffix}"] = values
        data["keep"], data["failed"], data["judged"] = ~verdict.dropped, verdict.failed, verdict.judged
        data["dropped_by"] = [step.label if gone else None for gone in verdict.dropped]
        uses = [layer.fingerprint for layer in (*self.table.layers, *self.layers)]
        self.table.add_layer(
            place.name, _nulls(data, columns), columns=columns, config=step.plain(), uses=uses, path=place
        )

    def _keep_extras(self, step: Step, place: Path, remaining: RemainingImages, verdict: FilterVerdict) -> None:
        """Notes, figures and small tables, written before the layer: its presence says that all is there."""
        if "knn_deciles" in verdict.files:
            gallery = decile_gallery(remaining, verdict)
            if gallery is not None:
                verdict.pictures["knn_gallery"] = gallery
        place.parent.mkdir(parents=True, exist_ok=True)
        extras = self.folder / EXTRAS
        if verdict.files or verdict.pictures:
            extras.mkdir(exist_ok=True)
        for name, frame in verdict.files.items():
            write_whole(extras / f"{_stem(step, name)}.csv", csv_text(frame).encode())
        for name, picture in verdict.pictures.items():
            picture.save(extras / f"{_stem(step, name)}.png")
        about = {"notes": verdict.notes, "rows": verdict.rows, "seen_by": remaining.seen_by}
        write_whole(place.with_suffix(".json"), json.dumps(about, default=_number).encode())

    def _check_models(self, step: Step, seen_by: dict[str, str]) -> None:
        """Refuse to go on from a step that was judged by a model which is another now, under the same name."""
        for name, key in seen_by.items():
            if self.everything.key_of(name) != key:
                raise InputError(
                    f"{self.folder}: the step {step.label!r} was judged by the {name}, which is no longer the same; "
                    "choose another folder with -o, or delete this one"
                )

    def _outcome(self, step: Step, layer: Table, about: dict[str, Any]) -> StepOutcome:
        verdicts = layer.to_pandas(["image_id", "keep", "failed", "judged"])
        n = len(self.frame)
        before = self.alive
        rows = np.flatnonzero(before)
        ids = self.frame["image_id"].to_numpy()[rows]
        if not np.array_equal(verdicts["image_id"].to_numpy(), ids):
            verdicts = verdicts.set_index("image_id").loc[ids].reset_index()
        flags = {name: np.zeros(n, dtype=bool) for name in ("keep", "failed", "judged")}
        for name, values in flags.items():
            values[rows] = verdicts[name].to_numpy(dtype=bool)
        dropped = before & ~flags["keep"]
        return StepOutcome(
            step.label, before, dropped, flags["failed"], flags["judged"], tuple(about["notes"]), tuple(about["rows"])
        )


def _read_step(path: Path) -> dict[str, Any]:
    """What a step said besides its verdict: its notes, rows of results, and which models it saw with."""
    try:
        about = json.loads(path.read_bytes())
        seen_by = about.get("seen_by", {})
        if not (isinstance(about["notes"], list) and isinstance(about["rows"], list) and isinstance(seen_by, dict)):
            raise TypeError("its parts are of another kind")
        return {
            "notes": list(map(str, about["notes"])),
            "rows": [dict(row) for row in about["rows"]],
            "seen_by": seen_by,
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: damaged ({one_line(error)}); delete the folder and run the filter again")


def _alive(table: Table) -> NDArray[np.bool_]:
    """(n,) which images no earlier filter dropped; a column without a word keeps all."""
    keep = table.to_pandas(["keep"])["keep"] if "keep" in table.types else pd.Series([None] * len(table))
    if keep.isna().all():
        return np.ones(len(table), dtype=bool)
    return keep.fillna(False).to_numpy(dtype=bool)


def _settings(table: Table, steps: Sequence[Step], models: Models, axes: Sequence[str], seed: int) -> dict[str, Any]:
    names = {name: _name(getattr(models, name)) for name in ("encoder", "detector", "faces", "classifier")}
    reference = models.reference if models.reference is None else as_table(models.reference)
    names["reference"] = _name(reference)
    return {
        "table": list(table.fingerprints),
        "steps": [step.plain() for step in steps],
        "means": names,
        "axes": list(axes),
        "seed": seed,
    }


def _name(model: Any) -> str:
    if model is None or isinstance(model, str):
        return model or ""
    if isinstance(model, Table):
        return model.fingerprint
    return str(getattr(model, "key", None) or model)


def _gives_way_to(settings: dict[str, Any]) -> Callable[[Run], None]:
    """Refuses to replace a run with other settings, unless none of its steps was finished.

    Then most often a setting was wrong, and is right now.
    """
    from equipoise.engine.job import first_difference

    wanted = json.loads(json.dumps(settings))

    def accept(run: Run) -> None:
        there = run.settings if run.file == RUN else dict(run.about)
        if not (difference := first_difference(there, wanted)):
            return
        if any(run.folder.glob("steps/*/_table.json")):
            raise InputError(
                f"{run.folder}: holds another run ({difference}); choose another folder with -o, or --overwrite"
            )
        shutil.rmtree(run.folder / "steps", ignore_errors=True)  # a step that was begun
        if not _same_images(there, wanted):
            shutil.rmtree(run.folder / EVIDENCE, ignore_errors=True)

    return accept


def _same_images(there: Any, wanted: dict[str, Any]) -> bool:
    """Whether what models said in one run holds for another; who said it is in the name of each folder."""
    if not isinstance(there, dict) or there.get("table") != wanted["table"]:
        return False
    return bool(there.get("means", {}).get("reference") == wanted["means"]["reference"])


def _nulls(data: pd.DataFrame, columns: dict[str, str]) -> Any:
    """As Arrow data, a missing score as null and not as NaN."""
    import pyarrow as pa

    arrays = {"image_id": pa.array(data["image_id"], pa.string(), from_pandas=True)}
    for name, kind in columns.items():
        type_ = {"float64": pa.float64(), "bool": pa.bool_(), "string": pa.string()}[kind]
        arrays[name] = pa.array(data[name], type_, from_pandas=True)
    return pa.table(arrays)


def _stem(step: Step, name: str) -> str:
    return name if step.label == step.name else f"{name}_{step.label}"


def _number(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not JSON")
