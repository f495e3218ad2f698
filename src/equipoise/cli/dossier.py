"""``equipoise check`` and ``dossier``: does a model keep within a policy, and what to show whoever asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equipoise.cli.making import OVERWRITE
from equipoise.cli.report import BEFORE_AFTER, tell_notes
from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.report.dossier.bounds import BoundCheck, CheckedPolicy
    from equipoise.report.dossier.sensitivity import Shift

RUNS = typer.Argument(
    None, metavar="RUN...", help="Folders with results: of audit, captions, dataset, compare, filter."
)
PERTURBED = typer.Option(
    [], "--perturbed", help="The audit of the same model on perturbed pictures (generate perturb); repeat for several."
)


def check(
    runs: list[str] = RUNS,
    policy: str = typer.Option(
        "policy.toml", "--policy", "-p", help="The policy: use, groups, hazards and bounds, as TOML."
    ),
    perturbed: list[str] = PERTURBED,
    everything: bool = typer.Option(False, "--all", help="Print every row of a bound, not only the one that decides."),
    as_json: bool = typer.Option(False, "--json", help="Print everything as JSON."),
    example: bool = typer.Option(
        False, "--example", help="Write an example policy, with comments, and do nothing else."
    ),
    overwrite: bool = OVERWRITE,
) -> None:
    """Check results against a policy: one line per bound, with value, interval, limit and outcome.

    Exits with 0 when every bound holds with its interval, with 1 when one does not, and with 3 when n is too small to
    tell or a number is missing; 2 is an error in the input.

    Examples:

    [bold]equipoise check --example[/bold]

    [bold]equipoise check --policy policy.toml runs/clip[/bold]
    """
    if example:
        _write_example(policy, runs, overwrite)
        return
    if not runs:
        raise InputError("give at least one folder with results; --example writes a policy to begin with")
    from equipoise.data.settings import toml_of
    from equipoise.report.dossier.contents import collected
    from equipoise.report.dossier.policy import read_policy

    if Path(policy).is_file():
        try:
            toml_of(policy)
        except InputError as problem:
            how = "type: equipoise check --example, which writes a policy to begin with"
            raise InputError(f"{problem}; {how}") from None
    inputs = collected(read_policy(policy), runs, perturbed=perturbed)
    checked, moved = inputs.checked, inputs.shifts
    if as_json:
        data = {**checked.plain(inputs.given.series), "sensitivity": [shift.plain() for shift in moved]}
        typer.echo(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        _print(checked, moved, everything)
        tell_notes([*checked.notes(inputs.given.series), *inputs.given.problems])
    raise typer.Exit(checked.exit_code)


def dossier(
    runs: list[str] = typer.Argument(
        ..., metavar="RUN...", help="Folders with results; also tables of images and folders of remedies."
    ),
    policy: str = typer.Option(..., "--policy", "-p", help="The policy: use, groups, hazards and bounds, as TOML."),
    out: str = typer.Option(..., "--out", "-o", help="The folder for dossier.html and dossier.json."),
    perturbed: list[str] = PERTURBED,
    before_after: tuple[str, str] = BEFORE_AFTER,
    labels: list[str] = typer.Option(
        [], "--labels", help="What people said about the pictures: a table of labels or a CSV; repeat for several."
    ),
    residual: str = typer.Option(
        "", "--residual", help="A text file: what whoever signs says about the risk that remains."
    ),
    overwrite: bool = OVERWRITE,
) -> None:
    """Write a dossier: which groups, which numbers, who looked, what remains; as a page to print and as JSON.

    It holds bounds and results, smallest detectable effects, sensitivity, remedies, provenance and hashes, and a map to
    the EU AI Act, ISO/IEC TR 24027 and the NIST AI RMF. It passes no judgement under them.

    Example: [bold]equipoise dossier runs/clip --policy policy.toml -o dossiers/clip[/bold]
    """
    from equipoise.report.dossier.writing import PAGE, write_dossier

    if any(before_after) and not all(before_after):
        raise InputError("--before-after takes two folders: the audit before a remedy, and the one after it")
    contents = write_dossier(
        runs,
        policy,
        out,
        perturbed=perturbed,
        before_after=before_after if all(before_after) else None,
        labels=labels,
        statement=residual or None,
        overwrite=overwrite,
    )
    for line in contents["summary"]:
        typer.echo(line)
    typer.echo(f"wrote {Path(out) / PAGE}; print it from a browser", err=True)


def _write_example(policy: str, runs: list[str], overwrite: bool) -> None:
    from equipoise.data.atomic import write_whole
    from equipoise.data.runs import file_to_write
    from equipoise.report.dossier.policy import example_policy

    if runs:
        raise InputError("--example writes a policy and checks nothing; leave out the folders")
    with file_to_write(policy, overwrite=overwrite) as target:
        write_whole(target, example_policy().encode())
    typer.echo(f"wrote {policy}; change it to what was decided, before the audit")


def _print(checked: CheckedPolicy, moved: list[Shift], everything: bool) -> None:
    from equipoise.formatting import brackets, plain, text_table

    head = ["outcome", "bound", "model", "metric", "axis", "group", "value", "interval", "limit", "n", "smallest"]
    rows = checked.checks if everything else checked.deciding
    lines = [head, *(_line(row) for row in rows)]
    for line, row in zip(text_table(lines, left=range(6)), [None, *rows], strict=True):
        typer.echo(line)
        if row is not None and row.value is None:
            typer.echo(f"  {row.why}")
    if not everything and (more := len(checked.checks) - len(rows)):
        typer.echo(f"the deciding row of each bound; {more} more with --all")
    for shift in moved:
        change = f"{plain(shift.change, sign=True)} {brackets(shift.low, shift.high, sign=True)}".strip()
        typer.echo(
            f"sensitivity: {shift.about}{' ' + shift.group if shift.group else ''}, {shift.model}: "
            f"{plain(shift.before)} {brackets(shift.before_low, shift.before_high)} as they are, {plain(shift.after)} "
            f"{brackets(shift.after_low, shift.after_high)} perturbed{'; change ' + change if change else ''}"
        )
    typer.echo(f"policy {checked.policy.sha256}: {checked.outcome}")


def _line(check: BoundCheck) -> list[str]:
    from equipoise.formatting import brackets, plain

    numbers: list[Any] = [plain(check.value), brackets(check.low, check.high), check.bound.limit_text]
    name = check.bound.metric if check.k is None else f"{check.bound.metric}@{check.k}"
    words = [str(check.outcome), check.bound.name, check.model, name, check.axis, check.group]
    return [*words, *numbers, "" if check.n is None else f"{check.n:,}", plain(check.smallest)]
