"""A dossier as a folder: ``dossier.html`` to read and print, ``dossier.json`` with the same, and the policy itself.

The page shows the bounds as one picture: every interval in units of its own limit, so that all can be read on one
scale.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise import __version__
from equipoise.data.runs import claimed
from equipoise.errors import InputError
from equipoise.formatting import amount, count, cut_in_middle, interval, plural, share, shortened, signed
from equipoise.report.dossier.contents import collected, contents_of
from equipoise.report.dossier.people import read_labels_given
from equipoise.report.dossier.policy import read_policy
from equipoise.report.findings import axis_name, metric_name
from equipoise.report.svg import Scale, SvgDrawing, asset

if TYPE_CHECKING:
    from jinja2 import Template

PAGE, DATA, POLICY = "dossier.html", "dossier.json", "policy.toml"
SECTIONS = {
    "bounds": "Bounds and what came of them",
    "purpose": "What it is for, and who decided",
    "findings": "What the audits found",
    "detectable": "What could have been found",
    "sensitivity": "Sensitivity",
    "remedies": "Remedies tried",
    "people": "Who looked",
    "data": "Data and where they come from",
    "residual": "Residual risk",
    "limits": "What a low score does not prove",
    "map": "Where other frameworks find what they ask",
    "versions": "Runs, versions and hashes",
}
Paths = Sequence[str | Path]


def write_dossier(
    runs: Paths,
    policy: str | Path,
    out: str | Path,
    *,
    perturbed: Paths = (),
    before_after: tuple[str | Path, str | Path] | None = None,
    labels: Paths = (),
    statement: str | Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Write the dossier of ``runs`` into the folder ``out``, and return what it says as plain data.

    ``runs``: folders with results of any kind, tables of images (told by their own groups), and folders of remedies.
    ``policy``: the TOML file with use, groups, hazards and bounds. ``perturbed``: audits of the same models on
    perturbed pictures. ``before_after``: the audits before and after a remedy. ``labels``: what people said of the
    pictures, as tables or CSV files. ``statement``: a text file with what whoever signs says of the risk that remains.
    """
    stated = _text(statement)
    dossier = collected(
        read_policy(policy),
        runs,
        perturbed=perturbed,
        before_after=before_after,
        labels=[read_labels_given(path) for path in labels],
        statement=stated,
    )
    contents: dict[str, Any] = _plain(contents_of(dossier))
    parents = {table["fingerprint"]: table.get("name") for table in contents["data"]}
    of = {"runs": [Path(path).name for path in runs], "policy": contents["policy"]["sha256"]}
    with claimed(out, "dossier", of=of, parents=parents, overwrite=overwrite) as home:
        (home.stage / PAGE).write_text(rendered_dossier(contents), encoding="utf-8")
        (home.stage / DATA).write_text(json.dumps(contents, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        (home.stage / POLICY).write_bytes(Path(policy).read_bytes())
        home.publish(outcome=contents["outcome"])
    return contents


def rendered_dossier(contents: dict[str, Any]) -> str:
    """The page as text."""
    style = asset("colours.css") + asset("figure.css") + asset("page.css") + asset("dossier.css")
    numbers = {name: place for place, name in enumerate(SECTIONS, 1)}
    return (
        _template()
        .render(
            **contents,
            style=style,
            version=__version__,
            sections=SECTIONS,
            numbers=numbers,
            figure=bounds_figure(contents["deciding"]),
        )
        .lstrip()
    )


@cache
def _template() -> Template:
    """Compiled once: that takes longer than filling it in."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "amount": amount,
        "signed": signed,
        "count": count,
        "share": share,
        "axis": axis_name,
        "metric": metric_name,
        "slug": lambda text: text.replace(" ", "-"),
    }
    environment.globals |= {"interval": interval, "plural": plural}
    return environment.from_string(asset("dossier.html"))


def _text(path: str | Path | None) -> str:
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not text; give what is said of the residual risk as a text file") from None


def _plain(value: Any) -> Any:
    """Without numbers that JSON does not know."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value


_COLOURS = {"holds": 2, "fails": 1, "too small to tell": 5}
_MOST = 4.0
_ROW = 34


def bounds_figure(deciding: Sequence[dict[str, Any]]) -> str:
    """One line per bound on a size: its interval in units of the limit; empty where no bound can be drawn so.

    >>> bounds_figure([])
    ''
    """
    rows = [check for check in deciding if check["bound"].get("most") and check["value"] is not None]
    rows = [check for check in rows if "least" not in check["bound"]]
    if not rows:
        return ""
    several = len({check["model"] for check in rows}) > 1
    ends = [(check["high"] if check["high"] is not None else check["value"]) / check["bound"]["most"] for check in rows]
    top = min(_MOST, max(1.6, 1.05 * max(end for end in ends if math.isfinite(end))))
    low = min([0.0, *((check["low"] or 0.0) / check["bound"]["most"] for check in rows)])
    bottom = 14.0 + _ROW * len(rows)
    drawing = SvgDrawing("bounds", 720, bottom + 42)
    scale = Scale(max(low, -2.0), top, 250, 700)
    drawing.x_axis(scale, 8, bottom, "in units of the limit; right of 1 is beyond it")
    drawing.line(scale(1), 2, scale(1), bottom, "chance")
    for number, check in enumerate(rows):
        _row(drawing, check, scale, 14.0 + _ROW * number + _ROW / 2, several)
    return drawing.svg("Each bound with its interval, in units of its limit")


def _row(drawing: SvgDrawing, check: dict[str, Any], scale: Scale, y: float, several: bool) -> None:
    limit, colour = check["bound"]["most"], _COLOURS.get(check["outcome"], 5)
    drawing.text(0, y - (2 if several else -4), shortened(check["name"], 36), "bold")
    if several:
        drawing.text(0, y + 13, cut_in_middle(check["model"], 40), "soft small")
    if check["low"] is not None:
        drawing.line(scale(check["low"] / limit), y, scale(check["high"] / limit), y, f"w s{colour}")
        if check["high"] / limit > scale.high:  # it goes on beyond the picture
            drawing.text(706, y + 4, "›", f"bold c{colour}")
    kind = f"hollow s{colour}" if check["outcome"] == "too small to tell" else f"c{colour}"
    drawing.dot(scale(check["value"] / limit), y, 5, kind, f"{check['value']:.3g}, {check['outcome']}")
