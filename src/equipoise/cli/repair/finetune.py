"""``equipoise mitigate counterfactual-finetune``: its own settings, beside those that every remedy has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from equipoise.cli.repair.train import option_of
from equipoise.data.settings import fitting_all
from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.data import Table

NAME = "counterfactual-finetune"


def finetune_command(
    model: str,
    images: Table,
    table: str,
    layer: Sequence[str],
    axis: Sequence[str],
    out: str,
    *,
    held_out: float,
    variant: str,
    seed: int,
    device: str,
    overwrite: bool,
    settings: Sequence[str],
    dry_run: bool = False,
) -> None:
    """Fine-tune ``model`` on ``images``, the sets of ``table``; ``settings`` are NAME=VALUE of it or of training."""
    from equipoise.mitigate.finetune import finetune, prepared_finetuning
    from equipoise.mitigate.fitting import HELD_OUT
    from equipoise.train.estimate import estimated

    options = _options(dict(map(option_of, settings)), variant, seed)
    options |= {"held_out": held_out, "device": device or "auto"}
    if dry_run:
        typer.echo(str(estimated(prepared_finetuning(model, images, axis, **options)[0])))
        return
    done = finetune(model, images, axis, out, overwrite=overwrite, **options)
    n = len(done.trained.subjects)
    typer.echo(f"{done.trained.steps:,} steps on {n} subjects, loss {done.trained.loss:.4f}; the model is {done.model}")
    if not done.held_out:
        typer.echo("note: no subject is kept apart, so judge the model on another table", err=True)
        return
    typer.echo(f"kept apart to judge it by ({done.trained.folder / HELD_OUT}): {', '.join(done.held_out)}")
    layers = "".join(f" --layer {one}" for one in [*layer, str(done.trained.folder / HELD_OUT)])
    axes = "".join(f" --axis {one}" for one in axis)
    audit = f"-s intersectional -t {table}{layers}{axes}"
    typer.echo(f"now audit it before and after, on those:\n  equipoise audit {model} {audit} -o runs/before")
    typer.echo(f"  equipoise audit {done.model} {audit} -o runs/after")
    typer.echo("  equipoise report runs/before runs/after --before-after runs/before runs/after -o repair.html")


def _options(given: dict[str, Any], variant: str, seed: int) -> dict[str, Any]:
    """The settings of the remedy, its loss and its training, told apart by their names."""
    from equipoise.mitigate.finetune import VARIANTS
    from equipoise.train.settings import TrainSettings

    if "seed" in given:
        raise InputError("--set seed: say it with --seed, which also draws the subjects that are kept apart")
    chosen = variant or "equalised"
    weights = {name: given.pop(name) for name in list(given) if name in VARIANTS["equalised"]}
    own: dict[str, Any] = {
        name: given.pop(name) for name in ("preset", "tower", "prompts", "caption", "general") if name in given
    }
    mixture = given.pop("mixture", "")
    parts = [mixture] if isinstance(mixture, str) else mixture
    shares = dict(_share(part) for part in parts if part)
    if isinstance(own.get("prompts"), str):
        own["prompts"] = [own["prompts"]]
    training = fitting_all(TrainSettings, given, what=f"setting of {NAME}")
    return {"variant": chosen, "weights": weights, "mixture": shares, **own, "settings": training | {"seed": seed}}


def _share(text: str) -> tuple[str, float]:
    name, _, share = str(text).rpartition(":")
    try:
        return name, float(share)
    except ValueError:
        raise InputError(f"--set mixture={text}: give TABLE:SHARE, such as mixture=coco:0.25") from None
