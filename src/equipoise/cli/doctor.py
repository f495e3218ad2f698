"""``equipoise doctor``: what is installed, what is missing, and what would go wrong."""

from __future__ import annotations

import typer


def doctor(as_json: bool = typer.Option(False, "--json", help="Print JSON for a program to read.")) -> None:
    """Say what is installed, what is missing with its pip line, and what would go wrong here.

    Example: [bold]equipoise doctor --json > doctor.json[/bold]
    """
    from equipoise.diagnosis import examine, tell

    found = examine()
    if as_json:
        import json

        typer.echo(json.dumps(found, indent=2))
    else:
        typer.echo(tell(found))
