"""The ``equipoise`` command: groups, ``--debug`` and ``--version`` flags, ``doctor``, and errors as one sentence."""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from contextlib import suppress
from typing import NoReturn

import typer

from equipoise import __version__
from equipoise.cli import (
    audit,
    cache,
    captions,
    classify,
    dataset,
    dossier,
    embed,
    filter,
    generate,
    mini,
    models,
    recipe,
    report,
    review,
    table,
    text,
    world,
)
from equipoise.cli.repair import libra, mitigate, tournament, train
from equipoise.errors import InputError, one_line, system_error, system_sentence
from equipoise.formatting import shown

app = typer.Typer(
    name="equipoise",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    help="Measure social bias in vision-language models with counterfactual images and captions, always "
    "against chance; make models and data fairer; show whether it worked.\n\n"
    "New here? Try [bold]equipoise demo[/bold], then [bold]equipoise COMMAND --help[/bold]: every command "
    "shows a worked example.",
)

WORDS = "Words and captions"
START = "Start here"
TABLES = "Tables and work"
AUDITS = "Audits"
MODELS = "Models and the world"
IMAGES = "Making images"
REPAIR = "Training and repairing"
PEOPLE = "People"

app.add_typer(text.app, name="text", rich_help_panel=WORDS)
app.command("demo", rich_help_panel=START)(recipe.demo)


@app.command("doctor", rich_help_panel=START)
def doctor(as_json: bool = typer.Option(False, "--json", help="Print JSON for a program to read.")) -> None:
    """Say what is installed, what is missing with its pip line, and what would go wrong here.

    Example: [bold]equipoise doctor --json > doctor.json[/bold]
    """
    from equipoise.diagnosis import examine, tell

    diagnosis = examine()
    if as_json:
        typer.echo(json.dumps(diagnosis, indent=2))
    else:
        typer.echo(tell(diagnosis))


app.add_typer(table.app, name="table", rich_help_panel=TABLES)
app.add_typer(cache.app, name="cache", rich_help_panel=TABLES)
app.add_typer(world.app, name="world", rich_help_panel=MODELS)
app.add_typer(models.app, name="models", rich_help_panel=MODELS)
app.add_typer(mini.app, name="mini", rich_help_panel=MODELS)
app.command("embed", rich_help_panel=MODELS)(embed.embed)
app.command("caption", rich_help_panel=MODELS)(embed.caption)
app.command("audit", rich_help_panel=AUDITS)(audit.audit)
app.command("measure", rich_help_panel=AUDITS)(audit.measure)
app.command("compare", rich_help_panel=AUDITS)(audit.compare)
app.command("suites", rich_help_panel=AUDITS)(audit.suites)
app.command("dataset", rich_help_panel=AUDITS)(dataset.dataset)
app.command("captions", rich_help_panel=AUDITS)(captions.captions)
app.command("classify-audit", rich_help_panel=AUDITS)(classify.classify_audit)
app.command("report", rich_help_panel=AUDITS)(report.report)
app.command("check", rich_help_panel=AUDITS)(dossier.check)
app.command("dossier", rich_help_panel=AUDITS)(dossier.dossier)
app.add_typer(review.app, name="review", rich_help_panel=PEOPLE)
app.add_typer(generate.app, name="generate", rich_help_panel=IMAGES)
app.command("filter", rich_help_panel=IMAGES)(filter.filter)
app.add_typer(recipe.app, name="recipe", rich_help_panel=IMAGES)
app.command("train", rich_help_panel=REPAIR)(train.train)
app.command("mitigate", rich_help_panel=REPAIR)(mitigate.mitigate)
app.add_typer(libra.app, name="libra", rich_help_panel=REPAIR)
app.command("tournament", rich_help_panel=REPAIR)(tournament.tournament)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def main(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Take the options that come before the command."""


def run() -> NoReturn:
    """Run the command line; a user's error, or the system's, becomes one sentence and exit code 2."""
    _make_streams_forgiving()
    _silence_decoders()
    if "--debug" in sys.argv[1:]:
        # Allowed anywhere on the line: one reaches for it after a command has failed.
        sys.argv = [sys.argv[0], *(a for a in sys.argv[1:] if a != "--debug")]
        app()
    try:
        try:
            app()
        finally:
            _flush_output()
    except InputError as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; that is no error of ours.
        _forget_output()
        sys.exit(0)
    except OSError as error:
        fail(system_sentence(error))
    except MemoryError:
        fail("out of memory; use a smaller batch or a machine with more")
    except UnicodeEncodeError as error:
        half = error.object[error.start : error.end].encode("unicode_escape").decode()
        fail(f"a text of the input holds {half}, half of a character, which cannot be written; fix it there")
    except UnicodeDecodeError:
        fail("a file of the input holds text that is not UTF-8, so it is damaged; make it again")
    except RecursionError:
        fail("the input is nested too deeply to be read; give a flatter file")
    except RuntimeError as error:
        if "Symlink loop" not in str(error):  # as Path.resolve says it before Python 3.13
            raise
        fail(f"{one_line(error)}; give the file itself")
    except Exception as error:
        refused = system_error(error)
        if refused is None:
            raise
        fail(system_sentence(refused))
    sys.exit(0)


def _silence_decoders() -> None:
    """Pillow warns of every odd tag of every photograph; the command itself says what matters to a reader."""
    warnings.filterwarnings("ignore", module=r"PIL\.")


def _make_streams_forgiving() -> None:
    """Show what a terminal has no character for as an escape, and take a closed input for an empty one."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and (stream.encoding or "").lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="backslashreplace")
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 (it is open as long as the process)


def _flush_output() -> None:
    """Write what waits to be written while an error can still be reported, and not when the interpreter ends."""
    if sys.stdout is not None and not sys.stdout.closed:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            _forget_output()
            raise OSError(error.errno, error.strerror, "standard output") from None


def _forget_output() -> None:
    """Let nothing be written any more: the interpreter would try once more when it ends, and complain."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
            continue
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def fail(sentence: str) -> NoReturn:
    """Print one sentence to standard error and exit with code 2."""
    with suppress(OSError):  # standard error may be full, or closed
        print("equipoise: " + shown(" ".join(sentence.split())), file=sys.stderr)
    _forget_output()
    sys.exit(2)


if __name__ == "__main__":
    run()
