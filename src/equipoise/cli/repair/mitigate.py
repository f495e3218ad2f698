"""``equipoise mitigate``: fit a remedy on some subjects, keep it, and keep the other subjects apart to judge it by.

``equipoise mitigate counterfactual-finetune`` has settings of its own, beside those that every remedy has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from equipoise.cli.making import CACHE, ENGINE, LAYER, LIMIT, MAX_BROKEN, OVERWRITE, SAMPLE, WORKERS, asking, opened
from equipoise.cli.repair.train import option_of, share_of
from equipoise.cli.report import tell_notes
from equipoise.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from equipoise.data import Table


NAME = "counterfactual-finetune"
_UNREAD: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    NAME: {
        "reads no file of prompts (--set prompts=TEXT gives it a neutral text)": ("prompts",),
        "trains by a loop that uses neither the engine nor the cache": ("engine", "workers", "cache"),
        "stops at the first image that cannot be read": ("max_broken",),
    },
    "learned-tokens": {
        "has no variants": ("variant",),
        "learns from images and captions, not from prompts": ("prompts",),
        "stops at the first image that cannot be read": ("max_broken",),
    },
}
"""What the remedies that write a model do not read of the options of all, each with the reason."""


def mitigate(
    context: typer.Context,
    remedy: str = typer.Argument("", metavar="REMEDY", help="Which remedy; --list shows all. Or: check NAME."),
    model: str = typer.Argument("", metavar="MODEL", help="mini:clip, hf:<repo or folder>, table:<folder>, ..."),
    table: str = typer.Option("", "--table", "-t", help="The table of images to fit it on, preferably of sets."),
    layer: list[str] = LAYER,
    limit: int = LIMIT,
    sample: int = SAMPLE,
    axis: list[str] = typer.Option([], "--axis", help="An axis to repair; repeat for several."),
    out: str = typer.Option("", "--out", "-o", help="The folder for the remedy."),
    held_out: float | None = typer.Option(
        None,
        "--held-out",
        help="The share of subjects kept apart: 0.5, or 0.2 for counterfactual-finetune, as in its paper; 0 for none.",
        show_default=False,
    ),
    variant: str = typer.Option("", "--variant", help="Which variant of projection: differences, prompts, ..."),
    prompts: str = typer.Option(
        "",
        "--prompts",
        help="A CSV file of prompts (set, text, and a column for each axis) for what learns from texts.",
    ),
    setting: list[str] = typer.Option(
        [], "--set", help="A setting of the remedy, such as m=100 or estimator=ksg; repeat for several."
    ),
    seed: int = typer.Option(0, "--seed", min=0, help="Which subjects are kept apart."),
    device: str = typer.Option("", "--device", help="Where the model runs, such as cuda or cpu."),
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    cache: bool = CACHE,
    max_broken: float = MAX_BROKEN,
    overwrite: bool = OVERWRITE,
    dry_run: bool = typer.Option(
        False,
        "--dry-run",
        help="Say how many images of which subjects; load no model (counterfactual-finetune measures a few steps).",
    ),
    names: bool = typer.Option(False, "--list", help="List the remedies, and stop."),
) -> None:
    """Fit a remedy for an encoder; audit with --remedy, on the subjects that it has not seen.

    Examples:

    [bold]equipoise mitigate projection mini:clip --table sets --axis gender -o remedies/gender[/bold]

    [bold]equipoise mitigate clip-clip mini:clip -t sets --axis gender --set m=12 -o remedies/clipped[/bold]

    [bold]equipoise mitigate projection mini:clip -t sets --axis gender --variant calibrated --prompts pairs.csv -o DIR
    [/bold]

    [bold]equipoise mitigate learned-tokens mini:clip -t sets --axis gender --held-out 0.4 -o tuned[/bold]: a new
    model, hf:tuned

    [bold]equipoise audit mini:clip --remedy remedies/gender --layer remedies/gender/held_out -s intersectional -t sets
    -o runs/fixed[/bold]

    [bold]equipoise mitigate counterfactual-finetune mini:clip --table sets --axis gender -o runs/tuned[/bold]: writes a
    model, hf:runs/tuned.

    [bold]equipoise mitigate check leace[/bold]: does a remedy, yours too, keep the rules that all must keep?
    """
    from equipoise.data.runs import check_folder
    from equipoise.mitigate import REMEDIES
    from equipoise.mitigate.fitting import HELD_OUT, fit_into_folder
    from equipoise.mitigate.prompts import read_prompts
    from equipoise.models import load

    if names:
        for entry in REMEDIES:
            typer.echo(f"{entry.name:16} {entry.summary}\n{'':16} {entry.citation}")
        typer.echo(f"{NAME:16} A whole encoder trained on counterfactual sets; writes a model.")
        typer.echo(f"{'':16} Howard et al., SocialCounterfactuals, CVPR 2024")
        typer.echo(f"{'learned-tokens':16} Vectors before every text of a CLIP, learnt against an adversary.")
        typer.echo(f"{'':16} Berg et al., A Prompt Array Keeps the Bias Away, AACL 2022, arXiv 2203.11933")
        return
    if remedy == "check":
        _check(model)
        return
    if remedy == "libra":
        raise InputError("libra repairs captions, not an encoder: equipoise libra synthesise CAPTIONS -o DIR")
    for value, lacking in (
        (remedy, "a REMEDY, such as projection"),
        (model, "a MODEL"),
        (table, "a table with --table"),
    ):
        if not value:
            raise InputError(
                f"give {lacking}: equipoise mitigate projection mini:clip --table sets --axis gender -o DIR"
            )
    if not out and not dry_run:
        raise InputError("say where to keep the remedy with -o")
    _refuse_unread(context, remedy)
    images = opened(table, layer, limit, sample, seed)
    apart_share = held_out if held_out is not None else 0.2 if remedy == NAME else 0.5
    common: dict[str, Any] = {"held_out": apart_share, "seed": seed, "device": device, "overwrite": overwrite}
    if remedy == NAME:
        finetune_command(
            model, images, table, layer, axis, out, variant=variant, settings=setting, dry_run=dry_run, **common
        )
        return
    how = asking(engine, workers, cache, max_broken=max_broken)
    if remedy == "learned-tokens":
        if dry_run:
            _tell_dry_run(images, axis, apart_share, seed)
            return
        _learn_tokens(model, images, axis, out, setting, asking=how, **common)
        return
    method = _made(remedy, setting, variant)
    if prompts and method.learns_from != "texts":
        raise InputError(f"--prompts: {remedy} learns from images, not from prompts; leave it out")
    if dry_run:
        _tell_dry_run(images, axis, apart_share, seed, texts=method.learns_from == "texts")
        return
    home = check_folder(out, "remedy", overwrite=overwrite)
    encoder = load(model, **({"device": device} if device else {}))
    pairs = read_prompts(prompts, axis) if prompts else None
    method, apart = fit_into_folder(
        method,
        encoder,
        images,
        axis,
        home,
        share=apart_share,
        seed=seed,
        asking=how,
        prompts=pairs,
        overwrite=overwrite,
    )
    about = method.fitted_on
    assert about is not None
    what = "texts" if about.learnt_from == "texts" else "images"
    of = f" of {len(about.subjects)} subjects" if about.subjects else ""
    left = f"; {about.n_left_out:,} {what} could not be used" if about.n_left_out else ""
    sets = f" in {about.n_sets:,} sets" if about.n_sets else ""
    typer.echo(f"{method.name} fitted on {about.n:,} {what}{sets}{of}, in {home}{left}")
    tell_notes(about.notes)
    if not apart:
        typer.echo("note: no subject is kept apart, so judge the remedy on another table", err=True)
        return
    typer.echo(f"kept apart to judge it by ({home / HELD_OUT}): {', '.join(apart)}")
    layers = "".join(f" --layer {name}" for name in [*layer, str(home / HELD_OUT)])
    axes = "".join(f" --axis {name}" for name in axis)
    audit = f"equipoise audit {model} -s intersectional -t {table}{layers}{axes}"
    typer.echo(f"now audit the model before and after it, on those:\n  {audit} -o runs/before")
    typer.echo(f"  {audit} --remedy {home} -o runs/after")
    typer.echo("  equipoise report runs/before runs/after --before-after runs/before runs/after -o repair.html")


def _refuse_unread(context: typer.Context, remedy: str) -> None:
    """Refuse what was typed and would not be read by a remedy that writes a model."""
    for why, options in _UNREAD.get(remedy, {}).items():
        for name in options:
            if str(context.get_parameter_source(name)).endswith("COMMANDLINE"):
                flag = "--no-cache" if name == "cache" and not context.params[name] else f"--{name.replace('_', '-')}"
                raise InputError(f"{remedy} {why}; leave out {flag}")


def _learn_tokens(
    model: str, images: Any, axis: list[str], out: str, setting: list[str], *, seed: int, **how: Any
) -> None:
    """Learn tokens into a folder that opens as a model of its own; ``how``: its further options."""
    from equipoise.mitigate.learned_tokens import TokenSettings, learn_tokens

    if len(axis) != 1:
        raise InputError("learned tokens repair one axis; name it with --axis")
    settings = TokenSettings(seed=seed).having(_settings(setting))
    folder, apart = learn_tokens(model, images, axis[0], out, settings=settings, **how)
    typer.echo(f"tokens learnt in {folder}; it opens as hf:{folder}")
    typer.echo(f"kept apart to judge it by: {', '.join(apart) or 'nobody, so judge it on another table'}")


def _tell_dry_run(images: Any, axes: list[str], held_out: float, seed: int, *, texts: bool = False) -> None:
    """What a remedy would be fitted on, without the model."""
    from equipoise.mitigate.fitting import held_out_subjects

    for axis in axes:
        if axis not in images.types:
            raise UnknownNameError(f"axis of {images.path}", axis, images.axes)
    apart = list(held_out_subjects(images, held_out, seed=seed)) if held_out else []
    subjects = images.to_pandas(["subject"], only_kept="keep" in images.columns)["subject"]
    n = 0 if texts else int((~subjects.isin(apart)).sum())
    typer.echo(f"{n:,} images would be looked at{' (it learns from texts)' * texts}; nothing was loaded")
    typer.echo(f"kept apart to judge it by: {', '.join(apart) or 'nobody'}")


def _made(remedy: str, settings: list[str], variant: str) -> Any:
    """The remedy that is asked for, not fitted yet."""
    from equipoise.data.settings import fitting_all
    from equipoise.mitigate import REMEDIES

    given: dict[str, Any] = {"variant": variant} if variant else {}
    given |= _settings(settings)
    chosen = REMEDIES.load(remedy)
    return chosen(**fitting_all(chosen, given, what=f"setting of the remedy {remedy}", label=remedy))


def _settings(settings: list[str]) -> dict[str, Any]:
    """What ``--set name=value`` says; a value is JSON, or else a text."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise InputError(f"--set {setting}: give name=value, such as m=100")
        try:
            values[name.strip()] = json.loads(text)
        except ValueError:
            values[name.strip()] = text.strip()
    return values


def _check(name: str) -> None:
    """Run the conformance suite on a registered remedy; exit with 1 if it fails."""
    from equipoise.mitigate.conformance import check

    if not name:
        raise InputError("give the name of a registered remedy: equipoise mitigate check projection")
    results = check(name)
    for result in results:
        typer.echo(f"{'failed' if result.problem else 'ok':7} {result.name:24} {result.problem or result.what}")
    if any(result.problem for result in results):
        raise typer.Exit(1)


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
        training, _ = prepared_finetuning(model, images, axis, **options)
        tell_notes(training.notes)
        typer.echo(str(estimated(training)))
        return
    done = finetune(model, images, axis, out, overwrite=overwrite, **options)
    tell_notes(done.notes)
    n = len(done.trained.subjects)
    typer.echo(f"{done.trained.steps:,} steps on {n} subjects, loss {done.trained.loss:.4f}; the model is {done.model}")
    if not done.held_out:
        typer.echo("note: no subject is kept apart, so judge the model on another table", err=True)
        return
    typer.echo(f"kept apart to judge it by ({done.trained.folder / HELD_OUT}): {', '.join(done.held_out)}")
    layers = "".join(f" --layer {name}" for name in [*layer, str(done.trained.folder / HELD_OUT)])
    axes = "".join(f" --axis {name}" for name in axis)
    audit = f"-s intersectional -t {table}{layers}{axes}"
    typer.echo(f"now audit it before and after, on those:\n  equipoise audit {model} {audit} -o runs/before")
    typer.echo(f"  equipoise audit {done.model} {audit} -o runs/after")
    typer.echo("  equipoise report runs/before runs/after --before-after runs/before runs/after -o repair.html")


def _options(given: dict[str, Any], variant: str, seed: int) -> dict[str, Any]:
    """The settings of the remedy, its loss and its training, told apart by their names."""
    from equipoise.data.settings import fitting_all
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
    shares = dict(share_of(str(part), ":", "--set mixture=", "mixture=coco:0.25") for part in parts if part)
    if isinstance(own.get("prompts"), str):
        own["prompts"] = [own["prompts"]]
    training = fitting_all(TrainSettings, given, what=f"setting of {NAME}")
    return {"variant": chosen, "weights": weights, "mixture": shares, **own, "settings": training | {"seed": seed}}
