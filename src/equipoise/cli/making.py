"""What commands share: their options, how a plan is carried out or estimated, and on which engine a model is asked.

Options as the command line gives them (``key=value``) become what a function's signature wants.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equipoise.errors import InputError, closest

if TYPE_CHECKING:
    from equipoise.data import Table
    from equipoise.engine import Asking
    from equipoise.generate.plans import WorkPlan

ENGINE = typer.Option("local", "--engine", help="Where the model is asked: local (this process), or ray.")
WORKERS = typer.Option(None, "--workers", min=1, help="How many workers, with --engine ray; as many as fit by default.")
CACHE = typer.Option(
    True,
    "--cache/--no-cache",
    help="Whether the model's answers are kept and not asked for again (equipoise cache info).",
)
MAX_BROKEN = typer.Option(
    0.05, "--max-broken", min=0.0, max=1.0, help="The share of images that may be unreadable before the command stops."
)
OVERWRITE = typer.Option(False, "--overwrite", help="Replace what is there, even if another command wrote it.")

LAYER = typer.Option([], "--layer", help="A layer of the table (labels, a filter); repeat for several, or say all.")


def only_some(what: str, flag: str = "--limit") -> Any:
    """An option that takes only some of what there is; without it all is taken, and 0 is refused."""

    def checked(context: typer.Context, option: typer.CallbackParam, value: int) -> int:
        given = context.get_parameter_source(option.name or "")
        if value < 1 and given is not None and given.name != "DEFAULT":
            raise InputError(f"{flag} {value}: give a number of at least 1, or leave out {flag} to take all")
        return value

    return typer.Option(0, flag, metavar="N", help=what, show_default=False, callback=checked)


LIMIT = only_some("Only the first N images, to try things out.")
SAMPLE = only_some("About N images drawn at random, sets kept whole.", "--sample")
OUT = typer.Argument("", metavar="[OUT]", help="The folder of the new table; or give it with -o.")
OUT_OPTION = typer.Option("", "--out", "-o", help="The folder of the new table.", show_default=False)


def one_out(argument: str, option: str, command: str) -> str:
    """Where to write, given as the last argument of ``command`` or with ``-o``.

    >>> one_out("", "edits", "generate edits photos")
    'edits'
    """
    if bool(argument) == bool(option):
        why = f"{argument} and -o {option} are two places to write" if argument else "where to write is missing"
        raise InputError(f"{why}; type: equipoise {command} {argument or 'OUT'}")
    return argument or option


def one_axis(axes: list[str], why: str) -> str:
    """The one axis of a command that takes no more; a second is refused, not ignored.

    >>> one_axis(["gender"], "a review asks about one axis")
    'gender'
    """
    if len(axes) > 1:
        raise InputError(f"{why}; give --axis once, not {' and '.join(axes)}")
    return axes[0] if axes else ""


def size_told(n_bytes: float, smallest: str = "B") -> str:
    """A size as people read it; ``smallest`` is what bytes are called."""
    for unit in (smallest, "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == smallest else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def opened(table: str, layers: list[str], limit: int = 0, sample: int = 0, seed: int = 0) -> Table:
    """The table with its layers, and with only some of its images where that was asked."""
    from equipoise.data import Table
    from equipoise.data.sampling import some_of

    whole = Table.open(table, layers="all" if layers == ["all"] else layers)
    return some_of(whole, limit=limit, sample=sample, seed=seed)


def asking(engine: str, workers: int | None, cache: bool, batch_size: int = 64, *, max_broken: float = 0.05) -> Asking:
    """How a command's model is asked."""
    from equipoise.engine import Asking

    return Asking(batch_size=batch_size, keep=cache, engine=engine, workers=workers, max_broken=max_broken)


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "steps": (int | None, typer.Option(None, "--steps", min=1, help="Denoising steps; the model's own by default.")),
    "seed": (int, typer.Option(0, "--seed", min=0, help="The same seed gives the same plan.")),
    "device": (
        str,
        typer.Option("auto", "--device", help="cpu, cuda, cuda:1, ...; auto takes a GPU where there is one."),
    ),
    "dtype": (
        str,
        typer.Option("auto", "--dtype", help="float32, float16 or bfloat16; auto is float16 on a GPU."),
    ),
    "price": (
        float | None,
        typer.Option(None, "--price", min=0.0, help="US dollars per image, for api: generators; --dry-run adds it up."),
    ),
    "per_minute": (
        float | None,
        typer.Option(
            None, "--per-minute", min=0.01, help="At most this many requests per minute to an api: generator."
        ),
    ),
    "preview_every": (
        int,
        typer.Option(200, "--preview-every", min=0, help="A contact sheet in OUT/_previews after this many images."),
    ),
    "out_option": (str, OUT_OPTION),
    "engine": (
        str,
        typer.Option("local", "--engine", help="Where images are made and checked: local (this process), or ray."),
    ),
    "workers": (int | None, WORKERS),
    "dry_run": (
        bool,
        typer.Option(
            False,
            "--dry-run",
            help="Say how many images, how long and how many GB; one task is made to measure, except by a service.",
        ),
    ),
}
_OPTIONS |= {"layer": (list[str], LAYER), "limit": (int, LIMIT), "sample": (int, SAMPLE)}
_EVERYWHERE = ("out_option", "preview_every", "engine", "workers", "dry_run")
SOME = ("layer", "limit", "sample")
"""The options of a maker that reads a table: with which layers, and how many of its images."""


@dataclass(frozen=True)
class Making:
    """What the shared options of a command say."""

    preview_every: int = 0
    engine: str = "local"
    workers: int | None = None
    dry_run: bool = False
    steps: int | None = None
    seed: int = 0
    device: str = "auto"
    dtype: str = "auto"
    price: float | None = None
    per_minute: float | None = None
    layer: list[str] = field(default_factory=list)
    limit: int = 0
    sample: int = 0

    def __post_init__(self) -> None:
        self.asking()  # an engine that is not there is refused before anything slow

    def asking(self) -> Asking:
        """How the encoder that checks the images is asked."""
        return asking(self.engine, self.workers, cache=True)

    def opened(self, table: Path) -> Table:
        """The table whose images are used, with the layers and only the images that were asked for."""
        return opened(str(table), self.layer, self.limit, self.sample, self.seed)

    def model(self, spec: str) -> Any:
        """The generator that ``spec`` names."""
        from equipoise.models import load

        options: dict[str, Any] = {"device": self.device, "dtype": self.dtype}
        if spec.startswith("api:"):
            options |= {"price": self.price, "per_minute": self.per_minute}
        return load(spec, kind="generator", **options)

    def refuse_other_settings(
        self, out: Path, kind: str, config: Any, source: Table | None = None, unsettled: Iterable[str] = ()
    ) -> None:
        """Refuse a folder that was begun with other settings, before anything slow; a dry run writes nothing."""
        from equipoise.generate.plans import refuse_other_settings, settings_of

        if not self.dry_run:
            refuse_other_settings(out, kind, settings_of(config), source, unsettled=tuple(unsettled))

    def encoder(self, spec: str) -> Any:
        """The encoder that ``spec`` names; ``None`` where it names none, or nothing is made."""
        from equipoise.models import load

        return load(spec, device=self.device, dtype=self.dtype) if spec and not self.dry_run else None

    def carry_out(self, plan: WorkPlan, out: Path, generator: Any, *, finder: Any = None, faces: Any = None) -> Any:
        """Make what the plan says and tell how it went; of a dry run only what it would cost."""
        from equipoise.generate import estimate, run

        if self.dry_run:
            typer.echo(str(estimate(plan, generator, finder=finder, faces=faces)))
            return None
        if plan.each:
            typer.echo(plan.each)
        for reason, n in plan.left_out.items():
            typer.echo(f"left out {n:,}: {reason}")
        with_what = {"finder": finder, "faces": faces, "engine": self.engine, "workers": self.workers}
        table = run(plan, out, generator, preview_every=self.preview_every, **with_what)
        typer.echo(f"{len(table):,} images in {out}")
        if table.n_errors:
            first = table.errors().iloc[0]
            typer.echo(f"{table.n_errors:,} tasks failed, the first of them {first['where']}: {first['reason']}")
        return table


def tell_whether_recognised(table: Table, out: Path, axis: str, encoder: Any, how: Asking) -> None:
    """Say how many new images show the group that they should; without an encoder, that nobody has looked."""
    from equipoise.generate import recognised

    name = encoder.name if encoder is not None else "ENCODER"
    command = f"equipoise filter {out} --steps detectability -m {name} -o {out}-checked"
    if encoder is None:
        typer.echo(f"nothing has checked whether they show the {axis} that was asked for; type: {command}")
        return
    recognition = recognised(table, encoder, axis=axis, asking=how)
    typer.echo(str(recognition))
    if recognition.problem:
        typer.echo(f"warning: {recognition.problem}", err=True)
    elif recognition.share.value < 1:
        typer.echo(f"to drop those that are not recognised: {command}")


def making(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the shared options ``names``, besides those of every maker; it gets them as ``how``."""
    shared = (*names, *_EVERYWHERE)

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def called(**given: Any) -> None:
            place = one_out(given["out"], given.pop("out_option"), f"generate {command.__name__} ...")
            how = Making(**{name: given.pop(name) for name in shared if name != "out_option"})
            command(**(given | {"out": Path(place)}), how=how)

        own = inspect.signature(command, eval_str=True).parameters.values()
        kept = [
            p.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=str if p.name == "out" else p.annotation)
            for p in own
            if p.name != "how"
        ]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind)
            for name, (kind, option) in ((name, _OPTIONS[name]) for name in shared)
        ]
        # Typer reads a command's options from its signature.
        called.__signature__ = inspect.Signature([*kept, *more])  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in (*kept, *more)}
        return called

    return with_options


def listed(text: str) -> list[str]:
    """The parts of a text that are separated by commas.

    >>> listed("doctor, nurse,")
    ['doctor', 'nurse']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(text: str, option: str) -> list[float]:
    """The numbers of an option, separated by commas.

    >>> numbers("9.5,15", "--guidance")
    [9.5, 15.0]
    """
    try:
        return [float(part) for part in listed(text)]
    except ValueError:
        raise InputError(f"{option} {text}: numbers separated by commas are expected") from None


def span(text: str, option: str) -> tuple[float, float] | None:
    """``LOW,HIGH`` of an option; ``None`` where it is empty.

    >>> span("0.1,0.9", "--share")
    (0.1, 0.9)
    """
    ends = numbers(text, option)
    if not ends:
        return None
    if len(ends) != 2:
        raise InputError(f"{option} {text}: LOW,HIGH is expected")
    return ends[0], ends[1]


_LISTS = ("Sequence[str]", "Iterable[str]", "Collection[str]", "list[str]", "tuple[str")


def options_from_text(function: Callable[..., Any], texts: Iterable[str]) -> dict[str, Any]:
    """The keyword arguments of ``function`` from ``key=value`` texts.

    Where the annotation is a list of text the value is split at commas; where it allows text, the value is taken
    as it is; otherwise it is read as JSON (numbers, ``true``, ``null``). A function with ``**options`` gets what its
    signature does not name as text.

    >>> def read(path, *, split: str | None = None, parts: Sequence[str] = (), limit: int = 0): ...
    >>> options_from_text(read, ["split=2017", "parts=captions,instances", "limit=5"])
    {'split': '2017', 'parts': ['captions', 'instances'], 'limit': 5}
    >>> options_from_text(read, ["splits=2017"])
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: there is no option 'splits'; did you mean 'split'?
    """
    parameters = inspect.signature(function).parameters.values()
    wanted = {p.name: str(p.annotation) for p in parameters if p.kind is p.KEYWORD_ONLY}
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise InputError(f"the option {text!r} is not of the form key=value")
        if key not in wanted and not takes_any:
            near = closest(key, wanted, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(wanted) or 'none'}"
            raise InputError(f"there is no option {key!r}; {hint}")
        options[key] = _value(key, value, wanted.get(key, "str"))
    return options


def pair_from_text(text: str, option: str) -> tuple[str, str]:
    """``("set_id", "scene")`` from ``set_id=scene``."""
    left, equals, right = (part.strip() for part in text.partition("="))
    if not (left and equals and right):
        raise InputError(f"{option} {text!r} is not of the form OURS=THEIRS, as in set_id=scene")
    return left, right


def numbers_from_text(text: str, option: str) -> dict[str, float]:
    """Numbers by name from ``name=number`` with commas between.

    >>> numbers_from_text("train=0.8, test=0.2", "--fractions")
    {'train': 0.8, 'test': 0.2}
    """
    numbers: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        try:
            numbers[name.strip()] = float(number)
        except ValueError:
            raise InputError(f"{option} {text!r}: {part.strip()!r} is not of the form name=number") from None
    return numbers


def _value(key: str, text: str, annotation: str) -> Any:
    if annotation.startswith(_LISTS):
        return listed(text)
    if "str" in annotation:
        return text
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        raise InputError(f"the option {key}={text} is not what is expected: {annotation}") from None
