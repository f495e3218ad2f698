"""A tournament from beginning to end, into a folder; one that was killed goes on with the contender it was at."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise import engine
from equipoise.data import Table
from equipoise.data.atomic import write_whole
from equipoise.data.labels import set_numbers
from equipoise.data.results import write_results
from equipoise.data.runs import Run, RunFolder, claimed, find_run
from equipoise.data.sampling import split
from equipoise.errors import InputError
from equipoise.measure.stats.exchange import LEAST_VARYING, share_mixed
from equipoise.mitigate.catalog import REMEDIES
from equipoise.mitigate.fitting import fit_on_table, held_out_subjects
from equipoise.mitigate.keeping import load as load_remedy
from equipoise.mitigate.tournament.balancing import trained_on_balanced, why_not
from equipoise.mitigate.tournament.contenders import Contender, contenders
from equipoise.mitigate.tournament.judging import AppliedRepair, JudgedRepair, judged, repair_by
from equipoise.mitigate.tournament.pools import Encoded, encoded
from equipoise.mitigate.tournament.scoring import TournamentRow, best_training_free, cells_of, finding, front
from equipoise.mitigate.tournament.settings import TournamentSettings
from equipoise.mitigate.tournament.showing import result_rows, table_of, written_page
from equipoise.mitigate.wrapping import check_model

Say = Callable[[str], None]
WORK = "_work"
ROWS = 3
"""The edition of what a row holds: rows that a run of another edition kept are judged again."""


@dataclass(frozen=True)
class Splits:
    """Which subjects remedies are fitted on, strengths are chosen on, and the table shows."""

    fitted: tuple[str, ...]
    choosing: tuple[str, ...]
    shown: tuple[str, ...]


@dataclass(frozen=True)
class Tournament:
    """What was found."""

    rows: tuple[TournamentRow, ...]
    sentences: tuple[str, ...]
    only_natural: tuple[str, ...]
    best: str | None
    front: tuple[str, ...]
    splits: Splits
    table: str
    folder: Path | None


def splits_of(table: Table, settings: TournamentSettings) -> Splits:
    """The three parts; those shown are what ``mitigate --held-out`` keeps apart with the same share and seed."""
    frame = table.to_pandas(["image_id", "subject"], only_kept="keep" in table.columns)
    frame = frame[frame["subject"].notna()].reset_index(drop=True)
    shown = held_out_subjects(table, settings.shown, seed=settings.seed)
    rest = frame[~frame["subject"].isin(shown)].reset_index(drop=True)
    fractions = {"fit": 1 - settings.choosing, "choose": settings.choosing}
    parts = split(rest, by="subject", fractions=fractions, seed=settings.seed + 1)
    fitted, choosing = (tuple(sorted(map(str, rest["subject"][parts == name].unique()))) for name in ("fit", "choose"))
    if min(len(fitted), len(choosing), len(shown)) < 2:
        raise InputError(f"{table.path}: too few subjects for three parts; a tournament needs about ten")
    return Splits(fitted, choosing, tuple(map(str, shown)))


def tournament(
    model: Any,
    table: Table,
    out: str | Path,
    *,
    remedies: str | Sequence[str] = "all",
    natural: Table | None = None,
    checkpoints: Sequence[str] = (),
    settings: TournamentSettings | None = None,
    asking: engine.Asking | None = None,
    device: str = "",
    say: Say = lambda _: None,
    overwrite: bool = False,
) -> Tournament:
    """Run a tournament of ``remedies`` for ``model`` into the folder ``out``.

    Args:
        model: the model to repair, open; data remedies train it further, where its name is that of a checkpoint.
        table: images in counterfactual sets, of about ten subjects or more.
        out: the folder; a run that was killed there goes on with the contender it was at.
        remedies: ``all``, or names such as ``leace`` or ``data:sub-sampling``, and folders of fitted remedies.
        natural: a pool of natural images of the same subjects, from which data remedies learn; ``all`` leaves those out
            where they cannot take part, and says why.
        checkpoints: repaired models, as ``hf:DIR``.
        settings: the axis, the prompt, how subjects are parted, and what a strength may cost.
        asking: how models are asked; what the cache knows is not encoded again.
        device: where ``checkpoints`` and what data remedies train run; ``model`` is where it is.
        say: told who takes part or is left out, and what was found of each contender.
        overwrite: take a folder that holds something else too, such as a tournament of another model; one with a table
            is refused all the same.

    Returns:
        The rows of the table, what they say in sentences, and the three parts of the subjects.
    """
    how = settings or TournamentSettings()
    if how.axis not in table.axes and how.axis not in table.columns:
        raise InputError(f"{table.path}: has no axis {how.axis!r}; it has {', '.join(table.axes)}")
    parts = splits_of(table, how)
    subjects = {"fitted on": parts.fitted, "chosen on": parts.choosing, "shown": parts.shown}
    taking_part = _able(contenders(remedies, checkpoints), remedies, why_not(model.name, natural, subjects), say)
    of = {
        "model": model.key,
        "name": model.name,
        "table": list(table.fingerprints),
        "natural": None if natural is None else list(natural.fingerprints),
        "remedies": [contender.name for contender in taking_part],
    }
    parents = {"table": table.fingerprint}
    claim = claimed(
        out, "tournament", of=of, settings=how.plain(), parents=parents, accept=_only_of(of), overwrite=overwrite
    )
    with claim as home:
        say(
            f"{len(taking_part)} contenders; fitted on {len(parts.fitted)} subjects, strengths chosen on "
            f"{len(parts.choosing)}, shown on {len(parts.shown)}"
        )
        field = _Field(model, table, natural, how, parts, asking, home, say, device)
        rows = [field.base_row(), *(field.row(contender) for contender in taking_part)]
        outcome = _outcome(rows, how, parts, home)
        _write(outcome, model.name, how, home)
    return outcome


def _able(taking_part: Sequence[Contender], remedies: str | Sequence[str], problem: str, say: Say) -> list[Contender]:
    """Those that can take part, where a ``problem`` keeps data remedies from it."""
    if not problem or not any(contender.data for contender in taking_part):
        return list(taking_part)
    wanted = [remedies] if isinstance(remedies, str) else remedies
    if "all" not in wanted:
        raise InputError(problem)
    say(f"left out, the data remedies: {problem}")
    return [contender for contender in taking_part if not contender.data]


def _only_of(of: Mapping[str, Any]) -> Callable[[Run], None]:
    def accept(run: Run) -> None:
        for name in ("model", "table", "natural"):
            if run.of.get(name) != of[name]:
                raise InputError(f"{run.folder}: holds a tournament of another {name}; give another folder with -o")

    return accept


class _Field:
    """The model and its images, against which contenders are judged."""

    def __init__(
        self,
        model: Any,
        table: Table,
        natural: Table | None,
        how: TournamentSettings,
        parts: Splits,
        asking: engine.Asking | None,
        home: RunFolder,
        say: Say,
        device: str,
    ) -> None:
        self.device = device
        self.table, self.natural, self.how, self.parts, self.asking, self.say = table, natural, how, parts, asking, say
        self.model = model
        self.work = home.folder / WORK
        self.encoded = encoded(model, table, natural, how.prompt, how.axis, asking)
        others = [axis for axis in table.axes if axis != how.axis]
        self.axes = [how.axis, *varying_axes(self.encoded.sets.frame, others)]
        self.before = self._judged(self.encoded, AppliedRepair(), parts.shown)
        self.chosen_before = self._judged(self.encoded, AppliedRepair(), parts.choosing, briefly=True)

    def base_row(self) -> TournamentRow:
        return TournamentRow("as it is", {}, cells_of(self.before, self.before, self.how.level), kind="model")

    def row(self, contender: Contender) -> TournamentRow:
        """The row of a contender: from an earlier run that was killed, or judged now."""
        path = self.work / f"{self._hash(contender)}.json"
        if path.is_file():
            try:
                return TournamentRow.from_plain(json.loads(path.read_text(encoding="utf-8")))
            except (ValueError, KeyError, TypeError):
                path.unlink()
        row = self._row(contender)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(row.plain(), ensure_ascii=False).encode())
        cell = row.cell("max_skew", "sets", self.how.axis)
        skew = "" if cell is None else f"MaxSkew above chance {cell.value:+.3f}"
        self.say(f"{row.name:28} {_setting(row.strength):20} {skew}" + ("" if row.is_fair else "  (not judged fairly)"))
        return row

    def _row(self, contender: Contender) -> TournamentRow:
        if contender.checkpoint:
            return self._checkpoint_row(contender)
        if contender.data:
            return self._data_row(contender)
        if contender.folder:
            remedy = load_remedy(contender.folder)
            check_model(remedy, self.model)
            return self._shown_row(contender, remedy, remedy.settings())
        return self._shown_row(contender, *self._strongest(contender))

    def _strongest(self, contender: Contender) -> tuple[Any, Mapping[str, Any]]:
        """The strength with the least skew on the choosing subjects that costs no more than allowed there."""
        maker = REMEDIES.load(contender.remedy)
        apart = [*self.parts.choosing, *self.parts.shown]
        tried = []
        for place, strength in enumerate(contender.strengths):
            try:
                remedy = fit_on_table(
                    maker(**strength), self.encoded.stored, self.table, [self.how.axis], held_out=apart
                )
            except InputError as error:
                raise InputError(f"{contender.name}: {error}") from None
            now = self._judged(self.encoded, repair_by(remedy, self.encoded), self.parts.choosing, briefly=True)
            tried.append((self._loss(now) > self.how.most_loss, self._skew(now), place, strength, remedy))
        *_, strength, remedy = _chosen(tried)
        return remedy, strength

    def _shown_row(self, contender: Contender, remedy: Any, strength: Mapping[str, Any]) -> TournamentRow:
        now = self._judged(self.encoded, repair_by(remedy, self.encoded), self.parts.shown)
        kind = "remedy" if hasattr(remedy, "transform") else "ranking"
        return self._told(contender, now, kind, strength, remedy.fitted_on.subjects)

    def _told(
        self, contender: Contender, now: JudgedRepair, kind: str, strength: Mapping[str, Any], fitted_on: Sequence[str]
    ) -> TournamentRow:
        seen, cells = set(fitted_on) & set(self.parts.shown), cells_of(now, self.before, self.how.level)
        tried, unknown = len(contender.strengths), contender.seen is None
        return TournamentRow(
            contender.name, dict(strength), cells, tried, kind, tuple(sorted(seen)), unknown, tuple(now.notes)
        )

    def _data_row(self, contender: Contender) -> TournamentRow:
        """The model trained further on balanced data, for as long as the choosing subjects say."""
        assert self.natural is not None
        tried = []
        work = self.work / self._hash(contender)
        for place, strength in enumerate(contender.strengths):
            folder = trained_on_balanced(
                contender.data,
                self.model.name,
                self.natural,
                self.how.axis,
                self.parts.fitted,
                work / str(place),
                steps=strength["steps"],
                seed=self.how.seed,
                device=self.device or "auto",
            )
            now = self._judged_model(folder, self.parts.choosing, briefly=True)
            tried.append((self._loss(now) > self.how.most_loss, self._skew(now), place, strength, folder))
        *_, strength, folder = _chosen(tried)
        now = self._judged_model(folder, self.parts.shown)
        shutil.rmtree(work, ignore_errors=True)
        return self._told(contender, now, "data", strength, ())

    def _judged_model(self, folder: Path, subjects: Sequence[str], *, briefly: bool = False) -> JudgedRepair:
        """A checkpoint, asked about some subjects alone."""
        return self._judged(self._asked(f"hf:{folder}", subjects), AppliedRepair(), subjects, briefly=briefly)

    def _checkpoint_row(self, contender: Contender) -> TournamentRow:
        now = self._judged(self._asked(contender.checkpoint), AppliedRepair(), self.parts.shown)
        return self._told(contender, now, "checkpoint", {}, contender.seen or ())

    def _asked(self, model: str, subjects: Sequence[str] | None = None) -> Encoded:
        from equipoise.models import load

        other = load(model, **({"device": self.device} if self.device else {}))
        return encoded(other, self.table, self.natural, self.how.prompt, self.how.axis, self.asking, subjects=subjects)

    def _judged(
        self, asked: Encoded, repair: AppliedRepair, subjects: Sequence[str], *, briefly: bool = False
    ) -> JudgedRepair:
        return judged(asked, repair, subjects, self.how, self.axes, briefly=briefly)

    def _skew(self, now: JudgedRepair) -> float:
        key = ("max_skew", "sets", self.how.axis)
        if key not in now.estimates:
            raise InputError(
                f"{self.table.path}: MaxSkew@{self.how.k} says nothing about the subjects on which strengths are "
                f"chosen; lower --k, or give more images of each subject"
            )
        return now.estimates[key].value

    def _loss(self, now: JudgedRepair) -> float:
        key = ("zero_shot_accuracy", "utility", "")
        if key not in now.estimates or key not in self.chosen_before.estimates:
            return 0.0
        return self.chosen_before.estimates[key].value - now.estimates[key].value

    def _hash(self, contender: Contender) -> str:
        identity = [contender.name, list(map(dict, contender.strengths)), contender.folder, contender.checkpoint]
        own = [self.model.key, self.table.fingerprint, self.how.plain(), self.natural and self.natural.fingerprint]
        identity += _contents(contender)
        return hashlib.sha256(json.dumps([ROWS, identity, own], sort_keys=True).encode()).hexdigest()[:20]


def varying_axes(frame: pd.DataFrame, axes: Sequence[str]) -> list[str]:
    """Those of the axes whose groups differ inside a tenth of the sets or more, and not by a few wrong labels.

    >>> frame = pd.DataFrame({"subject": ["s"] * 4, "set_id": [*"aabb"], "gender": [*"fmfm"], "age": [*"ooyy"]})
    >>> varying_axes(frame, ["gender", "age", "tone"])
    ['gender']
    """
    sets = set_numbers(frame)
    varying = []
    for axis in axes:
        labels = pd.factorize(frame[axis])[0] if axis in frame else np.full(len(frame), -1)
        known = (labels >= 0) & (sets >= 0)
        if share_mixed(labels[known], sets[known]) >= LEAST_VARYING:
            varying.append(axis)
    return varying


def _contents(contender: Contender) -> list[str]:
    """What tells the remedy or the model in a contender's folder from another that is put there later."""
    from equipoise.models.folders import key_of, open_checkpoint

    said: list[str] = []
    for place in (contender.folder, contender.checkpoint.removeprefix("hf:")):
        home = Path(place)
        if not place or not home.is_dir():
            continue
        with suppress(InputError, json.JSONDecodeError):  # what is damaged is refused where it is opened
            run = find_run(home)
            said += [] if run is None else [(home / run.file).read_text(encoding="utf-8")]
        if contender.checkpoint:  # weights need not say where they come from; to hash them costs less than to load them
            with suppress(InputError):
                found = open_checkpoint(home)
                said.append(key_of(found.model_type, found.weights, found.config))
    return said


def _chosen(tried: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Of (costs too much, skew, place, ...) the least skew that does not cost too much, or else the mildest."""
    cheap = [attempt for attempt in tried if not attempt[0]]
    return min(cheap, key=lambda attempt: (attempt[1], attempt[2])) if cheap else tried[0]


def _setting(strength: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in strength.items() if name != "variant")


def _outcome(rows: Sequence[TournamentRow], how: TournamentSettings, parts: Splits, home: RunFolder) -> Tournament:
    verdict = finding(rows, how.axis, how.k, how.most_loss)
    best = best_training_free(rows, how.axis, how.most_loss)
    on_front = tuple(front(rows, how.axis))
    return Tournament(
        tuple(rows), verdict.sentences, verdict.only_natural, best, on_front, parts, table_of(rows, how), home.folder
    )


def _write(outcome: Tournament, model: str, how: TournamentSettings, home: RunFolder) -> None:
    stage = home.stage
    write_results(stage / "results.parquet", result_rows(outcome.rows, model, how))
    about = {
        "rows": [row.plain() for row in outcome.rows],
        "sentences": list(outcome.sentences),
        "only_natural": list(outcome.only_natural),
        "best": outcome.best,
        "front": list(outcome.front),
    }
    write_whole(stage / "tournament.json", (json.dumps(about, indent=1, ensure_ascii=False) + "\n").encode())
    write_whole(stage / "table.md", (outcome.table + "\n").encode())
    written_page(outcome.rows, outcome.sentences, outcome.front, outcome.best, model, how, stage)
    parts = {name: list(getattr(outcome.splits, name)) for name in ("fitted", "choosing", "shown")}
    home.publish(subjects=parts)
