"""``equipoise embed`` and ``caption``: what a model makes of a table's images, for other commands to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from equipoise.cli.making import CACHE, ENGINE, LAYER, LIMIT, MAX_BROKEN, OVERWRITE, SAMPLE, WORKERS, asking, opened
from equipoise.cli.report import tell_notes
from equipoise.engine.unreadable import Unreadable
from equipoise.errors import InputError

TABLE = typer.Argument(..., metavar="TABLE", help="The table of images.")
DRY_RUN = typer.Option(False, "--dry-run", help="Say how many images would be asked about; load no weights.")
DEVICE = typer.Option("", "--device", help="Where the model runs, such as cuda or cpu.")
DTYPE = typer.Option("", "--dtype", help="The model's numbers: float32, float16 or bfloat16.")
PICKLE = typer.Option(False, "--allow-pickle", help="Load weights that are not safetensors.")


def embed(
    model: str = typer.Argument(..., metavar="MODEL", help="mini, hf:<repo or folder>, open_clip:<arch>/<tag>."),
    table: str = TABLE,
    out: str = typer.Option(..., "--out", "-o", help="The folder for the table of embeddings."),
    texts: str = typer.Option("", "--texts", help="A file with texts to embed as well, one per line."),
    suite: list[str] = typer.Option(
        [], "--suite", "-s", help="Embed what this suite asks over the table as well; repeat for several."
    ),
    axis: list[str] = typer.Option([], "--axis", help="An axis that the suites ask about; repeat for several."),
    prompts: str = typer.Option(
        "", "--prompts", help="A file of prompts for --suite prompts, or of templates for the other suites without it."
    ),
    layer: list[str] = LAYER,
    limit: int = LIMIT,
    sample: int = SAMPLE,
    dry_run: bool = DRY_RUN,
    batch_size: int = typer.Option(64, "--batch-size", min=1, help="Images at a time."),
    device: str = DEVICE,
    dtype: str = DTYPE,
    allow_pickle: bool = PICKLE,
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    cache: bool = CACHE,
    max_broken: float = MAX_BROKEN,
) -> None:
    """Write a model's embeddings of a table's images, and of texts, as a table that table:<folder> opens as a model.

    A run that was stopped or killed goes on with the same command.

    Example: [bold]equipoise embed hf:openai/clip-vit-base-patch32 sets -o embeddings/clip --suite intersectional[/bold]
    """
    from equipoise.engine import embed as embedded

    how = asking(engine, workers, cache, batch_size, max_broken=max_broken)
    images = opened(table, layer, limit, sample)
    asked = [*_lines(texts), *_asked_by(suite, images, axis, prompts)]
    if dry_run:
        _tell_dry_run(images, len(set(asked)))
        return
    encoder = _loaded(model, "encoder", device, dtype, allow_pickle)
    if not hasattr(encoder, "encode_images"):
        raise InputError(f"{model} holds embeddings already; name a model that encodes")
    embeddings = embedded(encoder, images, out, texts=asked, how=how)
    n_texts = len(set(asked))
    typer.echo(f"{len(embeddings) - n_texts:,} images and {n_texts:,} texts in {out}; use them as table:{out}")
    failed: dict[str, str] = (
        dict(embeddings.errors()[["where", "reason"]].itertuples(index=False)) if embeddings.n_errors else {}
    )
    tell_notes(Unreadable(table, len(embeddings) - n_texts + len(failed), 1.0, failed).notes())


def caption(
    model: str = typer.Argument(..., metavar="MODEL", help="A captioner: mini, hf:<repo or folder>."),
    table: str = TABLE,
    out: Path = typer.Option(..., "--out", "-o", help="The file for the captions, such as captions.jsonl."),
    layer: list[str] = LAYER,
    limit: int = LIMIT,
    sample: int = SAMPLE,
    dry_run: bool = DRY_RUN,
    batch_size: int = typer.Option(32, "--batch-size", min=1, help="Images at a time."),
    seed: int = typer.Option(0, "--seed", min=0, help="Matters where a captioner samples."),
    device: str = DEVICE,
    dtype: str = DTYPE,
    allow_pickle: bool = PICKLE,
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    cache: bool = CACHE,
    max_broken: float = MAX_BROKEN,
    overwrite: bool = OVERWRITE,
) -> None:
    """Let a captioner describe a table's images: one line of JSON per image, with the table's groups beside it.

    The file is what 'equipoise captions' reads. A run that was stopped or killed goes on with the same command, unless
    --no-cache was given.

    Example: [bold]equipoise caption hf:Salesforce/blip-image-captioning-base coco -o blip.jsonl[/bold]
    """
    from equipoise.data.atomic import atomic_file
    from equipoise.data.runs import file_to_write
    from equipoise.engine import captions

    if out.suffix.lower() not in (".jsonl", ".ndjson"):
        raise InputError(f"{out}: captions are written as lines of JSON; give a name that ends in .jsonl")
    if not out.absolute().parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.absolute().parent}; make it first")
    with file_to_write(out, overwrite=overwrite):
        pass  # refused before a model is loaded
    how = asking(engine, workers, cache, batch_size, max_broken=max_broken)
    images = opened(table, layer, limit, sample, seed)
    if dry_run:
        _tell_dry_run(images)
        return
    groups = iter(images.rows(["image_id", *images.axes], only_kept="keep" in images.columns))
    captioner = _loaded(model, "captioner", device, dtype, allow_pickle)
    n_written, failed = 0, {}
    with file_to_write(out, overwrite=overwrite), atomic_file(out) as file:
        for (name, text), labels in zip(captions(captioner, images, how, seed=seed), groups, strict=True):
            if isinstance(text, InputError):
                failed[name] = str(text)
                continue
            known = {axis: value for axis, value in labels.items() if value is not None and axis != "image_id"}
            row = {"image_id": name, "caption": text, **known}
            file.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
            n_written += 1
    typer.echo(f"{n_written:,} captions in {out}")
    tell_notes(Unreadable(table, n_written + len(failed), 1.0, failed).notes())


def _loaded(model: str, kind: str, device: str, dtype: str, allow_pickle: bool) -> Any:
    from equipoise.models import load

    given = {"device": device, "dtype": dtype, "allow_pickle": allow_pickle}
    return load(model, kind, **{name: value for name, value in given.items() if value})


def _lines(path: str) -> list[str]:
    if not path:
        return []
    try:
        return [line for line in Path(path).read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise InputError(f"{path}: not a text file in UTF-8") from None


def _asked_by(suites: list[str], images: Any, axis: list[str], prompts: str) -> list[str]:
    """What the suites ask; an axis goes to all that read one, prompts to the suite of that name if it is there."""
    from equipoise.audit import texts_asked
    from equipoise.audit.asking import prompts_of
    from equipoise.audit.suites import SUITES

    of_axes = [name for name in suites if "axes" in SUITES.load(name).settings]
    for flag, value, readers in (("--axis", axis, of_axes), ("--prompts", prompts, suites)):
        if value and not readers:
            raise InputError(f"{flag} is for what a suite asks; name one that reads it with --suite, or leave it out")
    texts: list[str] = []
    for name in suites:
        given: dict[str, Any] = {"axes": axis} if axis and name in of_axes else {}
        if prompts and (name == "prompts" or "prompts" not in suites):
            given |= prompts_of(prompts)
        texts += texts_asked(name, images, config=given)
    return texts


def _tell_dry_run(images: Any, n_texts: int | None = None) -> None:
    from equipoise.engine.asking import kept_ids

    texts = "" if n_texts is None else f" and {n_texts:,} texts"
    typer.echo(f"{len(kept_ids(images)):,} images{texts} would be asked about; nothing was loaded")
