"""What a report is made from: result folders of any kind, tables of images, a filter's funnel; damage told in words."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise.data import Table
from equipoise.data.atomic import sha256_of
from equipoise.data.manifest import TABLE_AT
from equipoise.data.results import RANDOM_RANKING, read_results
from equipoise.data.runs import RUN
from equipoise.errors import InputError
from equipoise.measure.notes import facts_of

RESULTS, TABLE, FUNNEL = "results.parquet", "_table.json", "funnel.csv"
_CONFIGS = {"audit.json": "audit", "config.json": "captions", "dataset.json": "dataset"}
"""Where settings were before there was ``run.json``; read for one release."""


def asked_of(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that a run was asked for, of all that it says of itself."""
    asked = about.get("settings")
    return asked if isinstance(asked, Mapping) else {}


@dataclass(frozen=True)
class ResultFolder:
    """One result folder: its numbers, and whatever else of it could be read."""

    path: Path
    kind: str
    """``audit``, ``captions``, ``dataset``, ``comparison``, ``filter``; ``results`` where nothing says what made it."""
    results: pd.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    queries: pd.DataFrame | None = None
    k_told: str = ""
    """Which K was taken and why, where nobody gave it."""

    @property
    def asked(self) -> Mapping[str, Any]:
        """The settings that the run was asked for; none where the folder does not say."""
        return asked_of(self.settings)

    @property
    def fingerprint(self) -> str | None:
        """The table that was asked about, by its fingerprint; ``None`` where it is not known."""
        of = self.settings.get("of")
        return str(of["table"]) if isinstance(of, Mapping) and of.get("table") else None


@dataclass(frozen=True, eq=False)
class Series:
    """The numbers of one model in one folder, under the name that the page shows; each is only like itself."""

    label: str
    source: ResultFolder
    results: pd.DataFrame
    model: str

    @property
    def is_yardstick(self) -> bool:
        """Whether no model gave the numbers, but images ranked blindly, to hold a model against."""
        return self.model == RANDOM_RANKING


@dataclass
class Given:
    """Everything that was given, sorted; ``problems`` are sentences on what could not be used."""

    sources: list[ResultFolder] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    funnels: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def table_of(self, source: ResultFolder) -> Table | None:
        """The table that ``source`` asked about: one given, the one where its run found it, or one beside its folder.

        Whichever it is, it has the fingerprint of the one that was asked about.
        """
        if source.fingerprint is None:
            return None
        for table in self.tables:
            if table.fingerprint == source.fingerprint:
                return table
        found = _found(source)
        if found is not None:
            self.tables.append(found)
        return found

    def add_tables(self, tables: Sequence[str | Path]) -> None:
        """Take tables whose pictures are wanted; one that none of the results asked about is refused."""
        known = {source.fingerprint for source in self.sources}
        for path in tables:
            table = Table.open(path)
            if table.fingerprint not in known:
                raise InputError(
                    f"{path}: is not the table that was audited, or has changed since; give that one with --table, or "
                    "leave it out to see no pictures"
                )
            if all(table.fingerprint != other.fingerprint for other in self.tables):
                self.tables.append(table)


def folder_of(path: str | Path) -> Path:
    """The folder of results that are given as their file; any other path as it is."""
    given = Path(path)
    return given.parent if given.name == RESULTS and given.is_file() else given


def read_given(folders: str | Path | Sequence[str | Path] | Mapping[str, str | Path]) -> Given:
    """Read every folder, or the one; a mapping gives each result folder the name that the page shows.

    A folder without results, or with damaged ones, is refused in one sentence. What else is missing or damaged in a
    result folder is told in ``problems``, and the page does without it.
    """
    if isinstance(folders, str | Path):
        folders = [folders]
    named = dict(folders) if isinstance(folders, Mapping) else {}
    paths = [folder_of(p) for p in (named.values() if named else folders)]
    if not paths:
        raise InputError("a report needs at least one folder with results; give the folder of an audit")
    given = Given()
    for path in paths:
        _take(path, given)
    if not given.sources:
        shown = ", ".join(map(str, paths))
        raise InputError(f"{shown}: no results here ({RESULTS} is missing); give the folder of a finished audit")
    names = {folder_of(path): label for label, path in named.items()}
    given.series = _series(given.sources, names)
    return given


def with_names(given: Sequence[tuple[str | Path, str]]) -> dict[str, str | Path]:
    """Folders by the name to show, from ``(folder, name)``. Where the name is empty: the folder's own, and a number.

    >>> with_names([("a/clip", ""), ("b/clip", ""), ("c", "CLIP")])
    {'clip': 'a/clip', 'clip 2': 'b/clip', 'CLIP': 'c'}
    """
    names: dict[Path, str] = {}
    for path, name in sorted(given, key=lambda pair: not pair[1]):  # those that were named choose first
        home = folder_of(path).resolve()
        if name and (home in names or name in names.values()):
            raise InputError(f"{name}={path}: this name or folder is given twice; give each folder one name of its own")
        own = (folder_of(path).name + ("" if n == 1 else f" {n}") for n in itertools.count(1))
        names.setdefault(home, name or next(free for free in own if free not in names.values()))
    return {names[folder_of(path).resolve()]: path for path, _ in given}


def plain_name(model: str) -> str:
    """A model's name without the folders of the machine.

    >>> plain_name("table:/home/ada/runs/vectors"), plain_name("hf:openai/clip-vit-base-patch32")
    ('table:vectors', 'hf:openai/clip-vit-base-patch32')
    """
    kind, colon, rest = model.rpartition(":")
    return kind + colon + Path(rest).name if rest.startswith(("/", "~")) or "\\" in rest else model


def _take(path: Path, given: Given) -> None:
    if not path.exists():
        raise InputError(f"{path}: there is no such folder; give the folder of a finished audit")
    if path.is_file():
        if path.name == FUNNEL:
            given.funnels.append(path)
            return
        raise InputError(f"{path}: is a file; give the folder that holds {RESULTS}")
    known = {name for name in (RESULTS, TABLE, FUNNEL) if (path / name).is_file()}
    if not known:
        raise InputError(f"{path}: no results here ({RESULTS} is missing); give the folder of a finished audit")
    if FUNNEL in known:
        given.funnels.append(path / FUNNEL)
    if TABLE in known:
        table = Table.open(path)
        if table.kind == "images":
            given.tables.append(table)
    if RESULTS in known:
        given.sources.append(_source(path, given.problems))


def _source(path: Path, problems: list[str]) -> ResultFolder:
    results = read_results(path)
    # a page picks rows hundreds of times, which is slow with words that are Arrow's
    results = results.astype(dict.fromkeys(results.select_dtypes("str").columns, object))
    results["excess"] = results["excess"].fillna(results["value"] - results["null_mean"])
    kind, settings = _made_by(path, results, problems)
    if kind == "filter":
        return ResultFolder(path, kind, results)
    if results.empty:
        raise InputError(f"{path / RESULTS}: has no rows; run the audit again")
    if kind == "comparison":  # of its settings, which name folders, only who has seen the subjects compared on
        seen = settings.get("seen")
        return ResultFolder(path, kind, results, {"seen": seen} if isinstance(seen, list) and any(seen) else {})
    written = _json(path / "results.json", "its notes are not shown", problems) if kind != "results" else {}
    notes = written.get("notes") or []
    if not isinstance(notes, list):
        problems.append(f"{path.name}/results.json is not what an audit writes; its notes are not shown")
        notes = []
    queries, k = _queries(path, kind, problems), written.get("k")
    told = k if isinstance(k, str) else ""
    return ResultFolder(path, kind, results, settings, tuple(map(str, notes)), queries, told)


def compared_models(results: pd.DataFrame) -> tuple[str, str] | None:
    """The two models of a comparison, as its rows name them; ``None`` where the rows compare nothing.

    Older files have no codes: theirs joined the two names and had 0 as their chance level.
    """
    facts = [facts_of(row, "compared") for row in results[["codes"]].to_dict("records")]
    first = facts[0] if facts else None
    if first is not None and all(facts):
        return plain_name(str(first["first"])), plain_name(str(first["second"]))
    if results["codes"].notna().any() or not (results["null_mean"] == 0).all():
        return None
    names = [plain_name(name) for name in str(results["model"].iloc[0]).split(" - ")]
    return (names[0], names[1]) if len(names) == 2 else None


def words_masked(settings: Mapping[str, Any]) -> bool:
    """Whether words were masked, as the folder says; folders of before say what was asked for."""
    return bool(settings.get("words_masked", asked_of(settings).get("mask", True)))


def _made_by(path: Path, results: pd.DataFrame, problems: list[str]) -> tuple[str, dict[str, Any]]:
    """The kind of run that made a folder, and all that it says of itself; by its content where nothing else tells."""
    if (path / RUN).is_file():
        about = _json(path / RUN, "its settings are not shown", problems)
        if about.get("state", "finished") != "finished":
            raise InputError(f"{path}: the run here is not finished; run its command again, then the report")
        suites = set(results["suite"].dropna())
        by_suite = next((name for name in ("captions", "dataset", "filter") if suites == {name}), "audit")
        return str(about.get("kind", by_suite)), about
    if (path / "filter.json").is_file() or ((path / FUNNEL).is_file() and (results["suite"] == "filter").all()):
        return "filter", {}
    for name, known in _CONFIGS.items():
        if (path / name).is_file():
            return known, _json(path / name, "its settings are not shown", problems)
    if compared_models(results) is not None:
        return "comparison", {}
    problems.append(f"{path.name}: no settings ({RUN} is not there), so they are not shown")
    return "results", {}


def _json(path: Path, loss: str, problems: list[str]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems.append(f"{path.parent.name}/{path.name} is missing; {loss}")
        return {}
    except (OSError, ValueError):
        problems.append(f"{path.parent.name}/{path.name} is damaged or cut short; {loss}")
        return {}
    if not isinstance(content, dict):
        problems.append(f"{path.parent.name}/{path.name} is not what an audit writes; {loss}")
        return {}
    return content


def _queries(path: Path, kind: str, problems: list[str]) -> pd.DataFrame | None:
    file = path / "queries.parquet"
    if not file.is_file():
        if kind == "audit":
            problems.append(f"{path.name}/queries.parquet is missing; two audits cannot be paired subject by subject")
        return None
    try:
        frame = pd.read_parquet(file)
        return frame[["metric", "variant", "pool", "axis", "group", "k", "query", "cluster", "value"]]
    except (OSError, ValueError, KeyError, TypeError):  # TypeError: its note on types for pandas does not fit
        problems.append(f"{path.name}/queries.parquet is damaged or cut short; it is left out")
        return None


def _series(sources: Sequence[ResultFolder], names: Mapping[Path, str]) -> list[Series]:
    every: list[Series] = []
    for source in sources:
        model = source.results["model"].where(source.results["model"].notna(), "")
        for name in dict.fromkeys(model):
            mine = source.results[model == name]
            if not name and len(set(model)) > 1:
                continue  # rows about all models together (R² over models)
            given = names.get(source.path, "")
            label = given if given and len(set(model)) == 1 else plain_name(str(name)) or _own_name(source)
            every.append(Series(label, source, mine.reset_index(drop=True), str(name)))
    return _apart(_apart(every, lambda series, _: series.source.path.name), lambda _, number: str(number))


def _own_name(source: ResultFolder) -> str:
    """What results without a model are called: the dataset that they are of, else their folder."""
    of = source.settings.get("of")
    dataset = of.get("dataset") if isinstance(of, Mapping) else None
    return Path(str(dataset)).name or source.path.name if dataset else source.path.name


def _apart(every: Sequence[Series], by: Callable[[Series, int], str]) -> list[Series]:
    """The same, with what ``by`` gives (of a series and its number among its likes) where two would be called alike."""
    named = []
    for place, series in enumerate(every):
        if sum(other.label == series.label for other in every) > 1:
            number = 1 + sum(other.label == series.label for other in every[:place])
            series = replace(series, label=f"{series.label} ({by(series, number)})")
        named.append(series)
    return named


def no_table(source: ResultFolder) -> str:
    """Why the pictures of an audit cannot be shown, and what to type."""
    type_this = "to see them type: equipoise report RESULTS --table TABLE -o page.html"
    at = _recorded_at(source)
    if at is None:
        return f"no pictures are shown: the table that was audited is neither given nor beside the results; {type_this}"
    if (at / TABLE).is_file():
        return f"no pictures are shown: the table {at.name} is another one than when it was audited; {type_this}"
    return f"no pictures are shown: the table {at.name} is not where it was when it was audited; {type_this}"


def _recorded_at(source: ResultFolder) -> Path | None:
    """Where the table was when it was audited, as the run says; ``None`` of an older run."""
    at = source.settings.get(TABLE_AT)
    return (source.path.resolve() / at).resolve() if isinstance(at, str) and at else None


def _found(source: ResultFolder) -> Table | None:
    """The table with the right fingerprint, where it was, or else in the folder that holds the result folder."""
    at = _recorded_at(source)
    beside = sorted(source.path.resolve().parent.glob(f"*/{TABLE}"))
    for file in [*([] if at is None else [at / TABLE]), *beside]:
        with suppress(OSError, InputError):
            if sha256_of(file) == source.fingerprint:
                return Table.open(file.parent)
    return None
