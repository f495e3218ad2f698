"""``equipoise models``: what can be loaded, whether a model keeps its promises, and converting published ones."""

from __future__ import annotations

import json
from typing import Any

import typer

from equipoise.cli.making import OVERWRITE, one_out

app = typer.Typer(no_args_is_help=True, help="See which models there are, check one, convert a published checkpoint.")

SPEC = typer.Argument(help="A model: mini, mini:clip-fair, hf:<repo or folder>, open_clip:<arch>/<tag or file>.")
PICKLE = typer.Option(False, "--allow-pickle", help="Open weights that exist only as a pickle.")
JSON = typer.Option(False, "--json", help="Print JSON for a program to read.")


@app.command("list")
def list_models(as_json: bool = JSON) -> None:
    """List the names that models can have, the families that hf: loads, and the miniatures that are here.

    Example: [bold]equipoise models list[/bold]
    """
    from equipoise.models.loading import catalog, told

    if as_json:
        typer.echo(json.dumps(catalog(), indent=2))
    else:
        typer.echo(told(catalog()))


@app.command()
def check(
    spec: str = SPEC,
    kind: str = typer.Option(
        "encoder", "--kind", help="encoder, captioner, classifier, generator, detector or filler."
    ),
    device: str = typer.Option("auto", "--device", help="cpu, cuda, cuda:1, ...; auto takes a GPU where there is one."),
    dtype: str = typer.Option("auto", "--dtype", help="float32, float16 or bfloat16; auto is float16 on a GPU."),
    allow_pickle: bool = PICKLE,
    as_json: bool = JSON,
) -> None:
    """Load a model, say what it is, and test what everything else builds on.

    Unit vectors, the same each time, in any batch and order; greyscale and one-pixel images; long texts. Exits with 1
    when a promise is broken, with 2 when the model cannot be loaded.

    Example: [bold]equipoise models check mini[/bold]
    """
    from equipoise.models import check as checked
    from equipoise.models import load
    from equipoise.models.loading import described

    model = load(spec, kind, device=device, dtype=dtype, allow_pickle=allow_pickle)
    about, report = described(model), checked(model)
    if as_json:
        checks = [{"name": c.name, "ok": c.ok, "detail": c.detail} for c in report.checks]
        typer.echo(json.dumps({"model": about, "ok": report.ok, "checks": checks}, indent=2))
    else:
        width = max(len(name) for name in about)
        for name, value in about.items():
            typer.echo(f"{name:<{width}}  {value}")
        typer.echo(f"\n{report}")
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def convert(
    form: str = typer.Argument(help="slip, laclip, alip, openai-clip, debias-clip or clipcap."),
    source: str = typer.Argument(help="The published file."),
    out: str = typer.Argument("", metavar="[OUT]", help="The folder to write; or give it with -o."),
    out_option: str = typer.Option("", "--out", "-o", help="The folder to write.", show_default=False),
    tokenizer: str | None = typer.Option(None, "--tokenizer", help="CLIP's: a folder, a repository, or its merges."),
    clip: str | None = typer.Option(None, "--clip", help="The CLIP that debias-clip or clipcap was trained on."),
    gpt2: str | None = typer.Option(None, "--gpt2", help="The GPT-2 that clipcap was trained from."),
    vision_heads: int | None = typer.Option(None, "--vision-heads", help="Attention heads of a SLIP of another size."),
    hidden_act: str | None = typer.Option(None, "--hidden-act", help="For openai-clip: quick_gelu or gelu."),
    allow_pickle: bool = PICKLE,
    overwrite: bool = OVERWRITE,
) -> None:
    """Turn a published checkpoint into a folder that hf:<folder> loads.

    Example: [bold]equipoise models convert slip slip_base.pt slip-b16 --tokenizer openai/clip-vit-base-patch32
    --allow-pickle[/bold]
    """
    from equipoise.models.convert import converted

    given: dict[str, Any] = {
        "tokenizer": tokenizer,
        "clip": clip,
        "gpt2": gpt2,
        "vision_heads": vision_heads,
        "hidden_act": hidden_act,
    }
    options = {name: value for name, value in given.items() if value is not None}
    target = one_out(out, out_option, f"models convert {form} {source}")
    folder = converted(form, source, target, allow_pickle=allow_pickle, overwrite=overwrite, **options)
    typer.echo(f"wrote {folder}; load it as hf:{folder}")
