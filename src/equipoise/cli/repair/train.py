"""``equipoise train``: train a task on a table into a folder that hf:<folder> opens."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import typer

from equipoise.cli.making import LAYER, LIMIT, OVERWRITE, SAMPLE, opened
from equipoise.errors import InputError


def train(
    context: typer.Context,
    task: str = typer.Argument("", metavar="TASK", help="What learns: clip, captioner, ... --list shows all."),
    table: str = typer.Argument("", metavar="TABLE", help="The table of images to learn from."),
    out: str = typer.Option("", "--out", "-o", help="The folder for the model."),
    init: str = typer.Option("", "--init", help="The model to start from: hf:<repo or folder>, mini:<part>."),
    preset: str = typer.Option(
        "", "--preset", help="A paper's model and settings: resnet-50, swin-t, convnext-b, clipcap, blip-2, vit-gpt2."
    ),
    layer: list[str] = LAYER,
    limit: int = LIMIT,
    sample: int = SAMPLE,
    mix: list[str] = typer.Option([], "--mix", help="TABLE=SHARE: another table and its share of every batch."),
    steps: int = typer.Option(None, "--steps", help="How many steps; or give --epochs."),
    epochs: float = typer.Option(None, "--epochs", help="Times through the table; 1 unless --steps is given."),
    batch: int = typer.Option(32, "--batch", help="Rows per step, over all processes."),
    rate: float = typer.Option(1e-5, "--rate", help="The learning rate at its highest."),
    warmup: int = typer.Option(None, "--warmup", help="Steps until it is reached; a tenth, at most 200."),
    constant: bool = typer.Option(False, "--constant", help="Keep the rate after that; else it falls as a cosine."),
    weight_decay: float = typer.Option(0.05, "--weight-decay", help="AdamW's weight decay."),
    average: float = typer.Option(0.0, "--average", help="End as a running average that keeps this much, like 0.999."),
    half: bool = typer.Option(False, "--half", help="Multiply in bfloat16."),
    seed: int = typer.Option(0, "--seed", help="The order of the rows, and which subjects judge."),
    val_share: float = typer.Option(0.1, "--val-share", help="The share of subjects that judge; 0 for none."),
    val_every: int = typer.Option(None, "--val-every", help="Steps between validations; a tenth unless given."),
    patience: int = typer.Option(
        0, "--patience", help="Stop after this many validations without a new best; 0: never."
    ),
    whole_sets: bool = typer.Option(False, "--whole-sets", help="Keep the images of a set in one batch."),
    fresh: bool = typer.Option(False, "--fresh", help="Start with new weights in the shape of --init."),
    freeze: list[str] = typer.Option([], "--freeze", help="A part that stays as it is, such as vision_model; repeat."),
    last_layers: int = typer.Option(0, "--last-layers", help="Train only this many layers at the end of each tower."),
    low_rank: int = typer.Option(0, "--low-rank", help="Train adapters of this rank (LoRA), merged at the end."),
    settings: list[str] = typer.Option([], "--set", help="NAME=VALUE: an option of the task; repeat for several."),
    save_every: int = typer.Option(100, "--save-every", help="Steps between checkpoints."),
    readers: int = typer.Option(1, "--readers", min=0, help="Threads that prepare batches ahead."),
    device: str = typer.Option("auto", "--device", help="Where it trains, such as cuda or cpu."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Measure a few steps; say steps, memory and time; stop."),
    overwrite: bool = OVERWRITE,
    names: bool = typer.Option(False, "--list", help="List the tasks, and stop."),
) -> None:
    """Train a model on a table. The same command resumes a stopped run, to the same weights.

    Examples:

    [bold]equipoise train clip sets --init mini:clip --epochs 1 -o runs/tuned[/bold]

    [bold]equipoise train clip sets --init hf:openai/clip-vit-base-patch32 --low-rank 8 --patience 3 --dry-run[/bold]

    [bold]equipoise train multilabel coco --preset resnet-50 --set labels=gender,objects --seed 0 -o runs/resnet[/bold]

    [bold]accelerate launch -m equipoise train clip coco --init hf:openai/clip-vit-base-patch32 --batch 512 -o
    runs/coco[/bold]
    """
    from equipoise.train import TASKS
    from equipoise.train.estimate import estimated
    from equipoise.train.fitting import carried_out, prepared_training
    from equipoise.train.settings import TrainSettings, preset_of

    if names:
        for entry in TASKS:
            typer.echo(f"{entry.name:12} {entry.summary}\n{'':12} {entry.citation}")
        return
    by_name = preset_of(preset, task) if preset else None
    init = init or (by_name.init if by_name else "")
    needed = ((task, "a TASK, such as clip"), (table, "a TABLE"), (init, "a model to start from with --init"))
    for value, lacking in needed:
        if not value:
            raise InputError(f"give {lacking}: equipoise train clip sets --init mini:clip -o DIR")
    if not out and not dry_run:
        raise InputError("say where to keep the model with -o")
    # every setting of training is an option of the same name
    values: dict[str, Any] = {field.name: context.params[field.name] for field in fields(TrainSettings)}
    values |= {"freeze": tuple(freeze)}
    if by_name:
        typed = {name for name in values if str(context.get_parameter_source(name)).endswith("COMMANDLINE")}
        under = {name: value for name, value in by_name.settings.items() if name not in typed}
        values |= under | ({"epochs": None} if "steps" in typed and "epochs" not in typed else {})
    how = TrainSettings(**values)
    mixture: dict[Any, float] = dict(share_of(text, "=", "--mix ", "coco=0.25") for text in mix)
    options = dict(map(option_of, settings))
    training = prepared_training(
        task,
        opened(table, layer, limit, sample, seed),
        init=init,
        mixture=mixture,
        options=options,
        device=device,
        settings=how,
    )
    first = training.processes.first
    for note in training.notes if first else ():
        typer.echo(f"note: {note}", err=True)
    if dry_run:
        estimate = str(estimated(training))
        if first:
            typer.echo(estimate)
        return
    done = carried_out(training, out, overwrite=overwrite, readers=readers)
    if first:
        judged = "" if done.validation is None else f", validation loss {done.validation:.4f}"
        typer.echo(f"{done.steps:,} steps, loss {done.loss:.4f}{judged}; the model is hf:{done.folder}")


def share_of(text: str, sign: str, option: str, example: str) -> tuple[str, float]:
    """A table and its share of every batch, which stands behind the last ``sign``."""
    name, _, share = text.rpartition(sign)
    try:
        return name, float(share)
    except ValueError:
        raise InputError(f"{option}{text}: give TABLE{sign}SHARE, such as {example}") from None


def option_of(text: str) -> tuple[str, Any]:
    """A task's option: a number, true or false where it reads as one, several where commas separate them."""
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--set {text}: give NAME=VALUE, such as caption=captions")
    parts = [_value(part.strip()) for part in value.split(",")]
    return name, parts if len(parts) > 1 else parts[0]


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
