"""The ``equipoise`` command: groups, the ``--debug`` and ``--version`` flags, and errors as one sentence."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from equipoise import __version__
from equipoise.cli import (
    audit,
    cache,
    captions,
    dataset,
    doctor,
    embed,
    filter,
    generate,
    mini,
    mitigate,
    models,
    recipe,
    report,
    table,
    text,
    tournament,
    world,
)
from equipoise.cli import recipe as demo
from equipoise.errors import InputError

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
REPAIR = "Repairing"

app.add_typer(text.app, name="text", rich_help_panel=WORDS)
app.command("demo", rich_help_panel=START)(demo.demo)
app.command("doctor", rich_help_panel=START)(doctor.doctor)
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
app.command("report", rich_help_panel=AUDITS)(report.report)
app.add_typer(generate.app, name="generate", rich_help_panel=IMAGES)
app.command("filter", rich_help_panel=IMAGES)(filter.filter)
app.add_typer(recipe.app, name="recipe", rich_help_panel=IMAGES)
app.command("mitigate", rich_help_panel=REPAIR)(mitigate.mitigate)
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
    """Run the command line; a user's error becomes one sentence and exit code 2."""
    if "--debug" in sys.argv[1:]:
        # Allowed anywhere on the line: one reaches for it after a command has failed.
        sys.argv = [sys.argv[0], *(a for a in sys.argv[1:] if a != "--debug")]
        app()
    try:
        app()
    except InputError as error:
        fail(str(error))
    except BrokenPipeError:
        # The reader of our output (head, less) has gone; that is no error of ours.
        sys.stderr.close()
        sys.exit(0)
    except (
        FileNotFoundError,
        IsADirectoryError,
        NotADirectoryError,
        PermissionError,
        FileExistsError,
    ) as error:
        reason = (error.strerror or type(error).__name__).lower()
        fail(f"{error.filename}: {reason}" if error.filename else reason)
    except MemoryError:
        fail("out of memory; use a smaller batch or a machine with more")
    sys.exit(0)


def fail(sentence: str) -> NoReturn:
    """Print one sentence to standard error and exit with code 2."""
    print("equipoise: " + " ".join(sentence.split()), file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    run()
