"""``equipoise demo``: the best end-to-end job, offline."""

from __future__ import annotations

import typer


def demo(
    out: str = typer.Option("runs/demo", "--out", "-o", help="The folder for what the demo makes."),
) -> None:
    """Everything once, offline: audit a CLIP that was taught a bias and its fair twin, check the numbers against the
    truth, repair it, audit a captioner, make and sieve sets, and write a page. Minutes on one CPU.

    Example: [bold]equipoise demo -o runs/demo[/bold]
    """
    from pathlib import Path

    from equipoise.recipes.demo import demo as run

    run(Path(out), typer.echo)
