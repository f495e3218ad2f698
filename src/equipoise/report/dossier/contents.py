"""Everything that a dossier says, as plain data: the page and the JSON file are made of the same.

Of where its numbers come from it says the runs with their settings, versions and hashes, and the tables that were
asked about.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from equipoise import __version__
from equipoise.data import Table
from equipoise.data.atomic import sha256_of
from equipoise.data.runs import Run, find_run, versions
from equipoise.errors import InputError
from equipoise.formatting import amount, interval, plural
from equipoise.report.dossier.bounds import BoundCheck, BoundOutcome, CheckedPolicy, check_policy
from equipoise.report.dossier.people import who_looked
from equipoise.report.dossier.policy import Policy
from equipoise.report.dossier.sensitivity import Shift, shifts
from equipoise.report.findings import axis_name
from equipoise.report.page.method import dropped, limits, public
from equipoise.report.sources import Given, ResultFolder, Series, read_given
from equipoise.report.svg import asset
from equipoise.report.verdict.judging import BiasVerdict
from equipoise.report.verdict.repair import add_repair, repair_of
from equipoise.report.verdict.whole import SERIES_NAMES, verdict

NOT_PERTURBED = (
    "How far these numbers move when objects are masked or the background is blurred was not measured. Published bias "
    "scores moved by up to 43% for CLIPs and 175% for generative models under such small changes (Hirota et al., ICCV "
    "2025): without a measurement, part of what is told here may be a reaction to the background."
)
NO_REMEDY = "No remedy was tried, or none was given for this dossier."
NOT_COMPARED = "A remedy was fitted; no audits before and after it were given, so what it did is not told."
_WORDS = {
    BoundOutcome.FAILS: ("fails", "fail"),
    BoundOutcome.OPEN: ("cannot be told from so few data", "cannot be told from so few data"),
    BoundOutcome.MISSING: ("was not measured", "were not measured"),
    BoundOutcome.HOLDS: ("holds", "hold"),
}


@dataclass
class DossierInput:
    """What was given for a dossier, read."""

    policy: Policy
    given: Given
    perturbed: list[Series] = field(default_factory=list)
    pair: tuple[Series, Series] | None = None
    """The audits before and after a remedy."""
    remedies: list[Run] = field(default_factory=list)
    labels: list[pd.DataFrame] = field(default_factory=list)
    statement: str = ""
    """What whoever signs says of the risk that remains."""

    @property
    def checked(self) -> CheckedPolicy:
        """The bounds of the policy, held against the runs."""
        return check_policy(self.policy, self.given.series)

    @property
    def sources(self) -> list[ResultFolder]:
        """Every result folder that the dossier rests on, each once."""
        others = [series.source for series in [*self.perturbed, *(self.pair or ())]]
        return list({source.path.resolve(): source for source in [*self.given.sources, *others]}.values())

    @property
    def shifts(self) -> list[Shift]:
        """What perturbed pictures change."""
        return shifts(self.given.series, self.perturbed, self.policy)


def collected(
    policy: Policy,
    runs: Sequence[str | Path],
    *,
    perturbed: Sequence[str | Path] = (),
    before_after: tuple[str | Path, str | Path] | None = None,
    labels: Sequence[pd.DataFrame] = (),
    statement: str = "",
) -> DossierInput:
    """Read all folders; folders of remedies among the runs are told apart."""
    remedies = [run for path in runs if (run := _remedy(path)) is not None]
    apart = {run.folder for run in remedies}
    given = read_given([path for path in runs if Path(path) not in apart])
    pair = None
    if before_after is not None:
        before, after = (read_given([path]).series[0] for path in before_after)
        pair = before, after
    others = [series for path in perturbed for series in read_given([path]).series]
    return DossierInput(policy, given, others, pair, remedies, list(labels), statement)


def _remedy(path: str | Path) -> Run | None:
    home = Path(path)
    run = find_run(home) if home.is_dir() else None
    return run if run is not None and run.kind == "remedy" and not (home / "results.parquet").is_file() else None


def contents_of(told: DossierInput) -> dict[str, Any]:
    """The whole dossier as plain data."""
    checked, moved = told.checked, told.shifts
    people = who_looked(told.labels)
    given = told.given
    tables = about_tables(told.sources, given)
    return {
        "title": told.policy.title or "A dossier",
        "made_with": {"equipoise": __version__, "versions": versions()},
        "policy": {name: value for name, value in told.policy.plain().items() if name != "bounds"},
        **checked.plain(given.series),
        "summary": _summary(checked),
        "deciding": [{**check.plain(), "rows": checked.beside(check)} for check in checked.deciding],
        "coverage": _coverage(told.policy, checked, given.series, tables),
        "findings": [_finding(each) for each in given.series if not each.is_yardstick],
        "sensitivity": {
            "measured": bool(moved),
            "text": "" if moved else NOT_PERTURBED,
            "rows": [shift.plain() for shift in moved],
        },
        "remedies": _remedies(told),
        "people": people,
        "data": tables,
        "left_out": dropped(given),
        "residual": {"statement": told.statement, "hazards": _residual(checked, moved, people, given.series)},
        "limits": _limits(checked, given.series),
        "frameworks": tomllib.loads(asset("frameworks.toml"))["framework"],
        "runs": about_runs(told.sources),
    }


def _summary(checked: CheckedPolicy) -> list[str]:
    """How many bounds hold, fail or are open, for each model."""
    lines = []
    for model in dict.fromkeys(check.model for check in checked.deciding):
        mine = [check for check in checked.deciding if check.model == model]
        parts = [
            f"{n} {words[n > 1]}"
            for outcome, words in _WORDS.items()
            if (n := sum(check.outcome is outcome for check in mine))
        ]
        of = f"Of {plural(len(mine), 'bound')} on {model}, {', '.join(parts)}."
        lines.append(of if model else f"{plural(len(mine), 'bound')} could not be looked at: no run has the number.")
    return lines


def _coverage(
    policy: Policy, checked: CheckedPolicy, series: Sequence[Series], tables: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """For each axis of the policy: its groups, those that only the data have, and whether it is measured and bound."""
    measured = {str(axis) for each in series for axis in each.results["axis"].dropna().unique()}
    bound = {check.axis for check in checked.checks if check.outcome is not BoundOutcome.MISSING}
    rows = []
    for axis in [*policy.groups, *policy.intersections]:
        named = list(policy.groups.get(axis, ()))
        shown = {group for table in tables for group in table.get("groups", {}).get(axis, {})} - {"unknown"}
        rows.append(
            {
                "axis": axis,
                "groups": named,
                "not_in_data": sorted(set(named) - shown) if shown else [],
                "not_in_policy": sorted(shown - set(named)) if named else [],
                "measured": axis in measured,
                "bound": axis in bound,
            }
        )
    return rows


def _finding(series: Series) -> dict[str, Any]:
    """The verdict of the report on one series, as its page has it."""
    only: dict[str, Any] = {"audits": [], SERIES_NAMES.get(series.source.kind, "audits"): [series]}
    conclusion = verdict(**only)
    return {
        "run": series.source.path.name,
        "model": series.label,
        "kind": series.source.kind,
        "lead": conclusion.lead,
        "text": " ".join(conclusion.sentences),
        "outcome": conclusion.outcome.value,
    }


def _remedies(dossier: DossierInput) -> dict[str, Any]:
    section: dict[str, Any] = {"text": "", "change": "", "fitted": about_remedies(dossier.remedies), "rows": []}
    if dossier.pair is None:
        section["text"] = NOT_COMPARED if dossier.remedies else NO_REMEDY
        return section
    before, after = dossier.pair
    repair = repair_of(before, after)
    if repair is None:
        raise InputError(
            f"{before.source.path.name} and {after.source.path.name} share no number to judge a remedy by; give two "
            "audits with the same suite"
        )
    told_of = BiasVerdict("")
    add_repair(told_of, repair)
    section["text"] = f"{before.model} before, {after.model} after."
    section["change"] = told_of.answers[-1][1]
    section["rows"] = [
        {
            "about": change.about,
            "metric": str(change.before["metric"]),
            "before": change.was.size,
            "before_low": change.was.low,
            "before_high": change.was.high,
            "after": change.left.size,
            "after_low": change.left.low,
            "after_high": change.left.high,
            "change": change.told,
            "within_margin": change.gone,
        }
        for change in repair.changes
    ]
    return section


def _residual(
    checked: CheckedPolicy, moved: Sequence[Shift], people: dict[str, Any], series: Sequence[Series]
) -> list[dict[str, Any]]:
    """What remains, by hazard: how large an effect the data leave possible; at the end what nobody looked at."""
    worst_first = sorted(checked.deciding, key=lambda check: list(BoundOutcome).index(check.outcome))
    parts = []
    for name, harm in [*((hazard.name, hazard.harm) for hazard in checked.policy.hazards), ("", "")]:
        mine = [check for check in worst_first if check.bound.hazard == name]
        lines = [{"kind": check.outcome.value, "text": _remaining(check)} for check in mine]
        if lines:
            parts.append({"hazard": name or "bounds that name no hazard", "harm": harm, "lines": lines})
    more = [f"{note[:1].upper()}{note[1:]}." for note in checked.notes(series)]
    if not moved:
        more.append("Sensitivity to masked objects or a blurred background is not known.")
    if not people["recorded"]:
        more.append("No person's judgement stands behind the labels or the pictures, as far as this dossier knows.")
    if more:
        lines = [{"kind": "not looked at", "text": text} for text in more]
        parts.append({"hazard": "what nobody looked at", "harm": "", "lines": lines})
    return parts


def _remaining(check: BoundCheck) -> str:
    what = f"{check.bound.name}{', ' + check.model if check.model else ''}"
    if check.value is None:
        return f"{what}: {check.why}."
    numbers = f"{amount(check.value, 3)}"
    if check.low is not None:
        numbers += f" ({interval(check.low, check.high, 3)})"
    text = f"{what}: {numbers}, where {check.bound.limit_text} is allowed"
    if check.outcome is BoundOutcome.FAILS:
        return f"{text}: the whole interval is beyond."
    if check.outcome is BoundOutcome.OPEN:
        finds = "" if check.smallest is None else f"; n = {check.n} finds effects from {amount(check.smallest, 3)} on"
        return f"{text}: {check.why}{finds}."
    end = check.high if check.bound.most is not None else check.low
    return f"{text}: holds; the data leave {amount(end, 3)} possible."


def _limits(checked: CheckedPolicy, series: Sequence[Series]) -> list[str]:
    """What a low score does not prove; first what concerns bounds."""
    axes = [axis_name(axis) for axis in [*checked.policy.groups, *checked.policy.intersections]]
    return [
        "That every bound holds shows that these numbers, on these pictures, lie within limits that somebody chose. It "
        "is no finding of fairness, and no judgement under any law or standard.",
        f"Only what the policy names was held to a limit: {', '.join(axes)}. Other groups, uses and kinds of harm may "
        "go wrong unseen.",
        "Test pictures are not the people whom the model will meet. Labels are perceived; whoever was mislabelled is "
        "counted in the wrong group.",
        "Intervals are those of the runs, each on its own. With many bounds, one may fail by luck.",
        *limits(series),
    ]


_HASHED = ("run.json", "results.parquet")
_SOURCES = 6


def about_runs(sources: Sequence[ResultFolder]) -> list[dict[str, Any]]:
    """What every run says of itself, without the folders of the machine, and the hashes of its files."""
    return [
        {
            "run": source.path.name,
            "kind": source.kind,
            "suites": sorted(map(str, source.results["suite"].dropna().unique())),
            "models": sorted(map(str, source.results["model"].dropna().map(public).unique())),
            "of": public(source.settings.get("of") or {}),
            "settings": public(source.settings.get("settings") or {}),
            "parents": public(source.settings.get("parents") or {}),
            "versions": source.settings.get("versions") or {},
            "sha256": files_of(source.path),
            "notes": [public(note) for note in source.notes],
        }
        for source in sources
    ]


def files_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of what says most of a folder."""
    return {name: sha256_of(folder / name) for name in _HASHED if (folder / name).is_file()}


def about_tables(sources: Sequence[ResultFolder], given: Given) -> list[dict[str, Any]]:
    """Every table that a run asked about: its size, groups and origin; of one that was not found its fingerprint."""
    runs: dict[str, list[ResultFolder]] = {}
    for source in sources:
        if source.fingerprint is not None:
            runs.setdefault(source.fingerprint, []).append(source)
    return [_table(mark, some, given.table_of(some[0])) for mark, some in runs.items()]


def _table(mark: str, sources: Sequence[ResultFolder], table: Table | None) -> dict[str, Any]:
    about: dict[str, Any] = {
        "fingerprint": mark,
        "runs": [source.path.name for source in sources],
        "found": table is not None,
    }
    if table is None:
        return about
    counts: dict[str, dict[str, int]] = {}
    for axis in table.axes:
        try:
            counts[axis] = {
                "unknown" if group is None else str(group): n for group, n in table.group_counts(axis).items()
            }
        except InputError:  # an axis that lists several groups per image
            continue
    return about | {
        "name": table.path.name,
        "images": len(table),
        "axes": list(table.axes),
        "groups": counts,
        "label_source": _values(table, "label_source"),
        "generator": _values(table, "generator"),
        "sets": _distinct(table, "set_id"),
        "parents": list(table.parents),
    }


def _values(table: Table, column: str) -> list[str]:
    if column not in table.columns:
        return []
    names = table.to_pandas([column])[column].dropna().astype(str).value_counts().index.tolist()
    return names[:_SOURCES]


def _distinct(table: Table, column: str) -> int:
    return int(table.to_pandas([column])[column].nunique()) if column in table.columns else 0


def about_remedies(folders: Sequence[Run]) -> list[dict[str, Any]]:
    """What remedies say of themselves: how they were set, and on what they were fitted."""
    remedies = []
    for run in folders:
        fitted = run.about.get("fitted_on")
        on = fitted if isinstance(fitted, dict) else {}
        remedies.append(
            {
                "remedy": str(run.of.get("remedy", run.folder.name)),
                "folder": run.folder.name,
                "settings": public(run.settings),
                "model": public(on.get("model") or ""),
                "images": on.get("n"),
                "subjects": len(on.get("subjects") or ()),
                "table": str(on.get("table") or ""),
            }
        )
    return remedies
