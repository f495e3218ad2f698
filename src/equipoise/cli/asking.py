"""What the commands that ask a model share: on which engine it runs, and whether what it gave is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from equipoise.engine import Asking

__all__ = ["CACHE", "ENGINE", "WORKERS", "asking"]

ENGINE = typer.Option("local", "--engine", help="Where the model is asked: local (this process), or ray.")
WORKERS = typer.Option(None, "--workers", min=1, help="How many workers, with --engine ray; as many as fit by default.")
CACHE = typer.Option(
    True, "--cache/--no-cache", help="Whether what the model gives is kept, and not asked again (equipoise cache info)."
)


def asking(engine: str, workers: int | None, cache: bool, batch_size: int = 64) -> Asking:
    """How a command's model is asked."""
    from equipoise.engine import Asking

    return Asking(batch_size=batch_size, keep=cache, engine=engine, workers=workers)
