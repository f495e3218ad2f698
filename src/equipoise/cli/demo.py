"""``equipoise demo``: the best end-to-end job that runs offline."""

from __future__ import annotations

import typer


def demo(
    out: str = typer.Option("runs/demo", "--out", "-o", help="The folder for what the demo makes."),
) -> None:
    """Label, neutralise and swap a small caption set, and write counterfactual caption sets; offline, in seconds.

    Example: [bold]equipoise demo -o runs/demo[/bold]
    """
    from pathlib import Path

    from equipoise.text.demo import run

    run(Path(out), typer.echo)
