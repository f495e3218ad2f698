"""A tournament as a table in Markdown, as rows of results, and as a page of its own.

What papers report of a model of that name stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from equipoise import __version__
from equipoise.data.atomic import write_whole
from equipoise.data.published import published_numbers
from equipoise.formatting import NOTHING, amount, csv_text, interval, markdown_table, signed
from equipoise.measure.notes import no_null
from equipoise.measure.stats.estimate import Estimate
from equipoise.mitigate.tournament.scoring import TournamentCell, TournamentRow, chance_off
from equipoise.mitigate.tournament.settings import TournamentSettings
from equipoise.report.charts import ParetoPoint, pareto_figure
from equipoise.report.svg import asset, standalone

MARK = "†"
"""Behind the name of whoever was fitted on subjects that are shown, or does not say on which."""
_TITLES = {
    "max_skew": "MaxSkew@{k} {pool}, {axis}",
    "standard_gap_size": "gap in sets, {axis}",
    "zero_shot_accuracy": "zero-shot",
    "text_to_image_recall": "text → image R@5",
    "image_to_text_recall": "image → text R@5",
}
_SHARES = ("zero_shot_accuracy", "text_to_image_recall", "image_to_text_recall")


def columns_of(rows: Sequence[TournamentRow], axis: str) -> list[tuple[str, str, str]]:
    """The columns of the table, in order: the repaired axis first, then the others, then usefulness."""
    there = {key for row in rows for key in row.cells}
    first = [("max_skew", "sets", axis), ("max_skew", "natural", axis), ("standard_gap_size", "sets", axis)]
    spill = sorted(key for key in there if key[0] == "max_skew" and key[1] == "sets" and key[2] != axis)
    useful = [(metric, "utility", "") for metric in _SHARES]
    return [key for key in (*first, *spill, *useful) if key in there]


def table_of(rows: Sequence[TournamentRow], how: TournamentSettings) -> str:
    """The table in Markdown: skews above chance, gaps as they stand, shares in percent, with their intervals."""
    columns = columns_of(rows, how.axis)
    head = ["", "remedy", "strength", *(_title(key, how) for key in columns)]
    lines = []
    for number, row in enumerate(rows):
        name = row.name + ("" if row.is_fair else f" {MARK}")
        lines.append([str(number), name, _strength(row), *(_shown(key, row.cells.get(key)) for key in columns)])
    table = markdown_table(head, lines, left=(1, 2))
    marks = [f"{MARK} {row.name}: {_why(row)}." for row in rows if not row.is_fair]
    return "\n\n".join([table, *marks])


def _title(key: tuple[str, str, str], how: TournamentSettings) -> str:
    metric, pool, axis = key
    where = {"sets": "on sets", "natural": "on natural images"}.get(pool, "")
    return _TITLES[metric].format(k=how.k, pool=where, axis=axis)


def _why(row: TournamentRow) -> str:
    if row.seen:
        return f"fitted on {len(row.seen)} of the subjects shown here, so it looks better than it is"
    return "nobody says which subjects it was fitted on"


def _strength(row: TournamentRow) -> str:
    own = [(name, value) for name, value in row.strength.items() if name != "variant"]
    settings = [f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}" for name, value in own]
    return ", ".join(settings) or NOTHING


def _shown(key: tuple[str, str, str], cell: TournamentCell | None) -> str:
    if cell is None:
        return NOTHING
    if key[0] in _SHARES:
        return f"{100 * cell.value:.1f}" + (f" ({signed(100 * cell.change, 1)})" if cell.change is not None else "")
    ends = interval(cell.low, cell.high)
    value = amount(cell.value) if key[0] == "standard_gap_size" else signed(cell.value)
    return f"{value} ({ends})" if ends else value


def result_rows(rows: Sequence[TournamentRow], model: str, how: TournamentSettings) -> list[dict[str, Any]]:
    """Every number as a row of a results table; whoever was not judged fairly has a note in each."""
    records = []
    for row in rows:
        name = model if row.kind == "model" else f"{model} + {row.name}"
        for (metric, pool, axis), cell in row.cells.items():
            off = chance_off(metric, cell.null_mean)
            notes = [] if row.is_fair else [_why(row)]
            if cell.null_mean is None:
                notes.append(no_null("a quality, not a bias"))
            if cell.change is not None:
                ends = interval(cell.change_low, cell.change_high, 3)
                notes.append(f"change from the model as it is {cell.change:+.3f}" + (f" ({ends})" if ends else ""))
            estimate = Estimate(
                cell.value + off,
                None if cell.low is None else cell.low + off,
                None if cell.high is None else cell.high + off,
                null_mean=cell.null_mean,
                p_value=cell.p_value,
                n=cell.n,
                notes=tuple(notes),
                level=how.level,
            )
            k = how.k if metric in ("max_skew", "ndkl") else None
            keys: Mapping[str, Any] = {"metric": metric, "suite": "tournament", "pool": pool, "model": name}
            records.append(estimate.row(**keys, axis=axis or None, k=k, variant="equipoise"))
    return records


def written_page(
    rows: Sequence[TournamentRow],
    sentences: Sequence[str],
    front: Sequence[str],
    best: str | None,
    model: str,
    how: TournamentSettings,
    folder: Path,
) -> None:
    """Write ``report.html``, ``pareto.svg`` and ``pareto.csv`` into ``folder``."""
    across = f"MaxSkew@{how.k} on {how.axis} above chance, counterfactual sets (lower is better)"
    svg, data = pareto_figure(_points(rows, front, how), across, "zero-shot accuracy (higher is better)")
    write_whole(folder / "pareto.svg", standalone(svg).encode())
    write_whole(folder / "pareto.csv", csv_text(data).encode())
    known = published_rows(model)
    write_whole(folder / "report.html", _page(rows, sentences, best, model, how, svg, known).encode())


def _points(rows: Sequence[TournamentRow], front: Sequence[str], how: TournamentSettings) -> list[ParetoPoint]:
    points = []
    for number, row in enumerate(rows):
        skew, useful = row.cell("max_skew", "sets", how.axis), row.cell("zero_shot_accuracy", "utility")
        if skew is None or useful is None:
            continue
        ends = (skew.low, skew.high), (useful.low, useful.high)
        points.append(
            ParetoPoint(
                number, row.name, row.kind, skew.value, ends[0], useful.value, ends[1], row.name in front, row.is_fair
            )
        )
    return points


def _page(
    rows: Sequence[TournamentRow],
    sentences: Sequence[str],
    best: str | None,
    model: str,
    how: TournamentSettings,
    svg: str,
    known: Sequence[PublishedRow],
) -> str:
    columns = columns_of(rows, how.axis)
    head = "".join(f"<th>{escape(_title(key, how))}</th>" for key in columns)
    lines = []
    for number, row in enumerate(rows):
        cells = "".join(f'<td class="num">{escape(_shown(key, row.cells.get(key)))}</td>' for key in columns)
        name = escape(row.name) + (
            "" if row.is_fair else f' <abbr title="{escape(_why(row), quote=True)}">{MARK}</abbr>'
        )
        name = f"<strong>{name}</strong>" if row.name == best else name
        lines.append(f"<tr><td>{number}</td><td>{name}</td><td>{escape(_strength(row))}</td>{cells}</tr>")
    marks = "".join(f"<p>{MARK} {escape(row.name)}: {escape(_why(row))}.</p>" for row in rows if not row.is_fair)
    style = asset("colours.css") + asset("figure.css") + asset("page.css")
    title = f"Remedies for {model}"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="generator" content="Equipoise {__version__}"><title>{escape(title)}</title><style>{style}</style></head>
<body><header><p class="brand">Equipoise <span>tournament</span></p><h1>{escape(title)}</h1></header><main>
<section id="verdict"><h2>Verdict</h2><p class="verdict">{escape(" ".join(sentences))}</p></section>
<section id="front"><h2>What is left of the bias, and of the use</h2>
<figure><div class="scroll">{svg}</div><figcaption>Numbers are those of the table. Large dots lie on the Pareto front:
no other is both less skewed and more accurate. Hollow dots were not judged fairly. Lines are {100 * how.level:.0f}%
intervals. Blue: fitted remedies; others: re-rankings, checkpoints, and the model as it is.</figcaption></figure>
</section><section id="table"><h2>Every remedy at the strength chosen for it</h2><div class="scroll"><table>
<thead><tr><th></th><th>remedy</th><th>strength</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>
<p>Skews are above chance, in nats, with {100 * how.level:.0f}% intervals; gaps in spreads between sets; shares in
percent, with the change from the model as it is. All rows are judged on the same subjects, which no remedy was fitted
on unless marked; strengths were chosen on others again: the least skew that costs at most {100 * how.most_loss:g}
points of zero-shot accuracy there. Intervals are over the subjects shown: that others might have been fitted on they do
not count, so run it with another --seed, too.</p>{marks}</section>{_published(known)}
</main></body></html>
"""


def _published(known: Sequence[PublishedRow]) -> str:
    if not known:
        return ""
    lines = "".join(
        f"<tr><td>{escape(row.table)}</td><td>{escape(row.row)}</td><td>{escape(row.column)}</td>"
        f'<td class="num">{row.value:g}</td></tr>'
        for row in known
    )
    head = "<tr><th>table</th><th>model</th><th>what</th><th>published</th></tr>"
    return (
        '<section id="published"><h2>What papers report of this model</h2><p>On other images, with other definitions: '
        f"beside ours, not against them.</p><table><thead>{head}</thead><tbody>{lines}</tbody></table></section>"
    )


_TABLES = {
    "gensynth": ("GenSynth", ("T2", "T8")),
    "socialcounterfactuals": ("SocialCounterfactuals", ("T2", "T16", "T17")),
}
"""The tables in which papers compare remedies."""
_NAMES = (
    ("debias", "DebiasCLIP"),
    ("alip", "ALIP"),
    ("flava", "FLAVA"),
    ("laion400m", "OpenCLIP (LAION 400M)"),
    ("laion2b", "OpenCLIP (LAION 2B)"),
    ("clip-vit-base-patch32", "CLIP"),
)
"""What a model's name contains, in lower case, and whom the papers mean by it; the first that fits."""


@dataclass(frozen=True)
class PublishedRow:
    """One published number."""

    table: str
    """The paper and its table."""
    row: str
    column: str
    value: float


def published_rows(model: str) -> Sequence[PublishedRow]:
    """The published numbers of a model by its name; none where no paper has it.

    >>> [(row.table, row.value) for row in published_rows("hf:openai/clip-vit-base-patch32")][:1]
    [('GenSynth T2', 0.27)]
    >>> published_rows("mini:clip")
    []
    """
    name = next((own for part, own in _NAMES if part in model.lower().replace("_", "")), None)
    if name is None:
        return []
    rows = []
    for paper, (title, tables) in _TABLES.items():
        numbers = published_numbers(paper).numbers
        for cell in numbers[numbers["table"].isin(tables)].to_dict("records"):
            row = str(cell["row"])
            base = row.removesuffix(" pretrained").removesuffix(" debiased")
            if base == name or (name == "CLIP" and base == "CLIP-clip"):
                rows.append(PublishedRow(f"{title} {cell['table']}", row, str(cell["column"]), float(cell["value"])))
    return rows
