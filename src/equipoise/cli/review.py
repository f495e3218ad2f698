"""``equipoise review``: people look at images and say what they see; what they say is used.

``equipoise review TABLE -o DIR`` serves a review; the other words are commands of the group. A table whose folder has
the name of one of them is given as ``./export``.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from equipoise.cli.making import OVERWRITE, listed, one_axis
from equipoise.errors import InputError, UnknownNameError
from equipoise.formatting import plural


class _LookFirst(TyperGroup):
    """A group whose first command, ``serve``, need not be named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_LookFirst,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="People look at images and say what they see, on a page served by this machine.\n\n"
    "[bold]equipoise review sets -o reviews/sets --ask counterfactual-set --annotators ana,ben[/bold] starts or "
    "resumes a review; the links are printed. Then [bold]equipoise review status reviews/sets[/bold].",
)

FOLDER = typer.Argument(..., metavar="DIR", help="The folder of a review.")
TABLE = typer.Argument(..., metavar="TABLE", help="The table of images that people looked at.")
LAYER = typer.Option([], "--layer", help="A layer of the table to read with it; repeat for several.")
QUESTION = typer.Option("", "--question", help="Which question; the first that fits unless given.")


@app.command("serve")
def serve(
    context: typer.Context,
    table: str = typer.Argument("", metavar="[TABLE]", help="The table of images; not needed to go on with a review."),
    out: str = typer.Option("", "--out", "-o", help="The folder of the review: questions, pictures, answers."),
    ask: str = typer.Option(
        "", "--ask", help="What is asked: a questionnaire of the package (equipoise review questions), or a TOML file."
    ),
    axis: list[str] = typer.Option([], "--axis", help="The axis that a questionnaire asks about, such as gender."),
    trait: str = typer.Option("", "--trait", help="The trait that replies are compared in, such as competent."),
    annotators: str = typer.Option("", "--annotators", "-a", help="Names, separated by commas; each gets a link."),
    items: int = typer.Option(0, "-n", "--items", min=0, help="How many items, drawn at random; 0 takes all."),
    raters: int = typer.Option(1, "--raters", min=1, help="How many people see each item."),
    shared: float = typer.Option(0.2, "--shared", min=0.0, max=1.0, help="The share of items that everybody sees."),
    gold: int = typer.Option(0, "--gold", min=0, help="How many items with known answers are hidden among the others."),
    gold_answers: str = typer.Option(
        "", "--gold-answers", help="A CSV of known answers: image_id or item, question, …"
    ),
    layer: list[str] = LAYER,
    blur: str = typer.Option("", "--blur", help="A column of true and false: blur such images; or all."),
    only_kept: bool = typer.Option(False, "--only-kept", help="Leave out what a filter dropped."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of choices and orders."),
    port: int = typer.Option(8321, "--port", min=0, max=65535, help="The port on 127.0.0.1; 0 takes a free one."),
    behind: list[str] = typer.Option(
        [], "--behind", help="The address of a proxy on this machine that passes requests on; repeat for several."
    ),
    prepare_only: bool = typer.Option(False, "--prepare-only", help="Make the review and print links; do not serve."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what people would be asked; write nothing."),
    overwrite: bool = OVERWRITE,
) -> None:
    """Make a review of TABLE, or go on with it, and serve it on 127.0.0.1 until Ctrl-C.

    Examples:

    [bold]equipoise review faces -o reviews/faces --ask perceived-group --axis gender -n 200 -a ana,ben --gold 20[/bold]

    [bold]equipoise review -o reviews/faces[/bold] serves it again; answers and links stay.

    Links are printed once, when somebody is added: the review keeps only their hashes. Another one is made with
    [bold]equipoise review annotators DIR --new-link NAME[/bold].
    """
    from equipoise.review.preparing import ReviewSettings, open_review, prepare, sheet_of
    from equipoise.review.questions import questionnaire_called
    from equipoise.review.serving import link
    from equipoise.review.serving import serve as listen

    if not out:
        raise InputError("say where the review is kept with -o")
    if not table:
        _refuse_making(context)
        store = open_review(out)
        if dry_run:
            [(n,)] = store.rows("SELECT count(*) FROM items")
            typer.echo(f"{sheet_of(store)}\nof a review of {plural(n, 'item')}")
            store.close()
            return
    else:
        from equipoise.data import Table

        opened = Table.open(table, layers=layer)
        sheet = questionnaire_called(
            ask, axis=one_axis(axis, "a questionnaire asks about one axis"), trait=trait, blur=blur
        )
        settings = ReviewSettings(items=items, raters=raters, shared=shared, gold=gold, only_kept=only_kept, seed=seed)
        if dry_run:
            typer.echo(f"{sheet}\nof a table of {len(opened):,} images")
            return
        known = None
        if gold_answers:
            from equipoise.review.labels import gold_of, read_labels_csv

            known = gold_of(read_labels_csv(gold_answers))
        store = prepare(opened, sheet, out, settings, gold=known, overwrite=overwrite)
    here = {person.name for person in store.annotators()}
    wanted = listed(annotators)
    tokens = store.add(*(name for name in wanted if name not in here)) if wanted else {}

    def started(at: int, organiser: str) -> None:
        home = behind[0] if behind else ""
        for name, token in tokens.items():
            typer.echo(f"{name}: {link(at, token, behind=home)}")
        if organiser:
            typer.echo(f"organiser: {link(at, organiser, page='organiser', behind=home)}")
            typer.echo(f"answers are kept in {store.path}; stop with Ctrl-C, nothing is lost", err=True)
            if not tokens and not here:
                typer.echo(f"nobody has a link yet: equipoise review annotators {out} --add NAME", err=True)

    if prepare_only:
        started(port or 8321, "")
        typer.echo(f"made {store.path.parent}; serve it with: equipoise review -o {out}", err=True)
        store.close()
        return
    listen(store, port=port, behind=behind, started=started)


_MAKING = "ask axis trait items raters shared gold gold_answers layer blur only_kept seed overwrite".split()
"""The options of ``serve`` that are read when a review is made of a table, and not when it goes on."""


def _refuse_making(context: typer.Context) -> None:
    for name in _MAKING:
        if str(context.get_parameter_source(name)).endswith("COMMANDLINE"):
            raise InputError(
                f"--{name.replace('_', '-')} is for making a review: name the table (equipoise review TABLE -o DIR "
                "--ask ...); without it a review goes on as it was made"
            )


@app.command("questions")
def questions(
    name: str = typer.Argument("", help="A questionnaire, to print its TOML as a start for your own."),
) -> None:
    """List the questionnaires of the package, or print one.

    Example: [bold]equipoise review questions matches-caption > mine.toml[/bold]
    """
    from importlib.resources import files

    from equipoise.review.questions import preset, preset_names

    if name:
        if name not in preset_names():
            raise UnknownNameError("questionnaire", name, preset_names())
        typer.echo((files("equipoise.review") / "presets" / f"{name}.toml").read_text(encoding="utf-8"), nl=False)
        return
    for preset_name in preset_names():
        sheet = preset(preset_name, axis="axis", trait="…")
        typer.echo(f"{preset_name}: {sheet.title} (about: {sheet.about})\n  from {sheet.citation}")


@app.command("annotators")
def annotators(
    folder: str = FOLDER,
    add: list[str] = typer.Option([], "--add", help="Add somebody, by a name of their own choice; repeat for several."),
    new_link: list[str] = typer.Option(
        [], "--new-link", help="A new link; the old one stops working. Repeat for several."
    ),
    revoke: list[str] = typer.Option(
        [], "--revoke", help="Stop somebody's link; the answers stay. Repeat for several."
    ),
    port: int = typer.Option(8321, "--port", help="The port of the server, for the printed links."),
    behind: str = typer.Option("", "--behind", help="The address of the proxy, for the printed links."),
) -> None:
    """List the people of a review, add somebody, or stop a link; the server may keep running.

    Example: [bold]equipoise review annotators reviews/faces --add cem --revoke ben[/bold]
    """
    from equipoise.review.serving import link

    with _opened(folder) as store:
        tokens = store.add(*add) if add else {}
        tokens |= {name: store.new_link(name) for name in new_link}
        for name in revoke:
            store.revoke(name)
        for name, token in tokens.items():
            typer.echo(f"{name}: {link(port, token, behind=behind)}")
        if not tokens:
            for person in store.annotators():
                progress = store.progress(person.name)
                state = ", link stopped" if person.revoked else ""
                typer.echo(f"{person.name}: {progress.done} of {progress.total} done{state}")


@app.command("status")
def status(folder: str = FOLDER) -> None:
    """Agreement, hidden gold, speed, and who still has what to do: the organiser's page as text.

    Example: [bold]equipoise review status reviews/faces[/bold]
    """
    from equipoise.review.summary import summary_of

    with _opened(folder) as store:
        typer.echo(str(summary_of(store)))


@app.command("export")
def export(
    folder: str = FOLDER,
    out: str = typer.Option(..., "--out", "-o", help="The table, the CSV file, or the folder to write."),
    to: str = typer.Option("table", "--to", help="table (kind labels), csv, or label-studio."),
) -> None:
    """Write what people said: a table of labels, a CSV, or tasks of Label Studio.

    Example: [bold]equipoise review export reviews/faces --to csv -o labels.csv[/bold]
    """
    from equipoise.data.runs import file_to_write
    from equipoise.review.label_studio import write_label_studio
    from equipoise.review.labels import write_labels_csv, write_labels_table

    with _opened(folder) as store:
        if to == "table":
            typer.echo(f"{len(write_labels_table(store, out))} labels in {out}")
        elif to == "csv":
            with file_to_write(out) as path:
                write_labels_csv(store, path)
            typer.echo(f"labels in {out}")
        elif to == "label-studio":
            typer.echo(f"tasks in {write_label_studio(store, out)}; the configuration is beside it")
        else:
            raise UnknownNameError("form of labels", to, ["table", "csv", "label-studio"])


@app.command("import")
def take(
    folder: str = FOLDER,
    file: str = typer.Argument(
        ..., metavar="FILE", help="A CSV of labels, an export of Label Studio, or answers.json."
    ),
) -> None:
    """Read labels from elsewhere: CSV, Label Studio's JSON, or the answers of pages without a server.

    A file is taken whole or not at all. People who are not known here are added without a link.

    Example: [bold]equipoise review import reviews/faces answers-ana.json[/bold]
    """
    from equipoise.review.label_studio import read_label_studio
    from equipoise.review.labels import read_labels_csv, take_in
    from equipoise.review.preparing import sheet_of
    from equipoise.review.static_pages import read_static

    with _opened(folder) as store:
        if file.endswith(".json"):
            with open(file, encoding="utf-8") as opened:
                beginning = opened.read(4096).lstrip()
            rows: list[Any]
            if beginning.startswith("["):
                rows = read_label_studio(file, sheet_of(store))
            else:
                rows = read_static(file, store)
        else:
            rows = list(read_labels_csv(file))
        items, people = take_in(store, rows)
        typer.echo(f"took in what {people} people said of {items} items")


@app.command("export-static")
def static(
    folder: str = FOLDER,
    out: str = typer.Option(..., "--out", "-o", help="A new folder for the pages."),
    annotator: str = typer.Option(..., "--annotator", "-a", help="Whose pages; somebody new is added."),
) -> None:
    """Write pages that need no server for one annotator, to be sent as a folder.

    The answers are downloaded as JSON on the page and read by [bold]equipoise review import[/bold].

    Example: [bold]equipoise review export-static reviews/faces -a dan -o pages-dan[/bold]
    """
    from equipoise.review.static_pages import export_static

    with _opened(folder) as store:
        if annotator not in {person.name for person in store.annotators()}:
            store.add(annotator)
        typer.echo(f"open {export_static(store, annotator, out)} in a browser")


@app.command("thresholds")
def thresholds(
    folder: str = FOLDER,
    table: str = TABLE,
    layer: list[str] = LAYER,
    axis: list[str] = typer.Option(
        [], "--axis", help="An axis to learn a threshold for; all that were scored unless given."
    ),
    question: str = QUESTION,
    out: str = typer.Option("", "--out", "-o", help="A TOML file with them, for equipoise filter --config."),
) -> None:
    """Learn the filter's thresholds, on any axes, from the sets that people accepted.

    TABLE is read with the layer of a run of the filter detectability.

    Example: [bold]equipoise review thresholds reviews/sets sets --layer runs/filter/layer -o learned.toml[/bold]
    """
    from equipoise.data import Table
    from equipoise.data.atomic import write_whole
    from equipoise.data.runs import file_to_write
    from equipoise.filters import learned_from_people
    from equipoise.review.labels import accepted_items

    with _opened(folder) as store:
        learned = learned_from_people(Table.open(table, layers=layer), accepted_items(store, question), axis)
    pairs = ", ".join(f"{name}={value}" for name, value in learned.thresholds.items())
    typer.echo(
        f"agreement {learned.agreement:.3f} on {learned.n} sets, cross-fitted {learned.crossfitted:.3f}, the commoner "
        f"answer alone {learned.majority:.3f}"
    )
    if learned.ambiguous:
        typer.echo(
            f"{plural(learned.ambiguous, 'answer')} left out: several subjects have a set of the name they give; a new "
            "review keeps such sets apart",
            err=True,
        )
    for name, value in learned.thresholds.items():
        typer.echo(f"{name}: at least {value} images of a set recognised")
    if out:
        with file_to_write(out) as path:
            write_whole(path, learned.toml().encode())
        typer.echo(f"use it: equipoise filter {table} --config {out} -m ... -o ...", err=True)
        return
    setting = f'--set "detectability.thresholds={{{pairs}}}"'
    typer.echo(f"use it: equipoise filter {table} --steps detectability {setting} -m ... -o ...", err=True)


@app.command("errors")
def errors(
    folder: str = FOLDER,
    table: str = TABLE,
    layer: list[str] = LAYER,
    axis: list[str] = typer.Option(
        [], "--axis", help="An axis to compare by; all of the table unless given, none for whole sets."
    ),
    question: str = QUESTION,
    out: str = typer.Option("", "--out", "-o", help="A folder for results.parquet as well."),
    draws: int = typer.Option(999, "--draws", min=19, help="Shuffles for the chance level of gaps."),
    overwrite: bool = OVERWRITE,
) -> None:
    """How often each failure was seen, by group, before filtering and (with the filter's layer) after.

    Example: [bold]equipoise review errors reviews/images sets --layer runs/filter/layer --axis gender[/bold]
    """
    from equipoise.data import Table
    from equipoise.data.results import write_results
    from equipoise.data.runs import claimed
    from equipoise.review.using import errors_in, errors_text

    with _opened(folder) as store:
        rows = errors_in(store, Table.open(table, layers=layer), question=question, axes=axis, draws=draws)
    typer.echo(errors_text(rows))
    if out:
        with claimed(out, "errors", of={"review": folder, "table": table}, overwrite=overwrite) as run:
            write_results(run.stage / "results.parquet", rows)
            run.publish()


@app.command("confusion")
def confusion(
    folder: str = FOLDER,
    table: str = TABLE,
    detector: str = typer.Option(..., "--detector", help="The column of TABLE (or of a layer) that a detector filled."),
    layer: list[str] = LAYER,
    question: str = QUESTION,
) -> None:
    """A detector against people: precision, recall and support of each group, accuracy against guessing, kappa.

    Example: [bold]equipoise review confusion reviews/faces faces --detector gender --layer runs/detector/layer[/bold]
    """
    from equipoise.data import Table
    from equipoise.review.using import confusion_in

    with _opened(folder) as store:
        typer.echo(str(confusion_in(store, Table.open(table, layers=layer), detector, question=question)))


@app.command("calibrate")
def calibrate(
    folder: str = FOLDER,
    table: str = TABLE,
    judge: str = typer.Option(
        ..., "--judge", help="A column of TABLE or a layer: keep, or a score such as score_match."
    ),
    layer: list[str] = LAYER,
    question: str = QUESTION,
) -> None:
    """What a judge's word is worth, by what people accepted; for scores, the threshold as well.

    Example: [bold]equipoise review calibrate reviews/captions sets --judge score_match --layer runs/filter/layer[/bold]
    """
    from equipoise.data import Table
    from equipoise.review.using import calibration_in

    with _opened(folder) as store:
        typer.echo(str(calibration_in(store, Table.open(table, layers=layer), judge, question=question)))


@app.command("layer")
def layer_of_people(
    folder: str = FOLDER,
    table: str = TABLE,
    out: str = typer.Option("", "--out", "-o", help="A folder for the layer; beside the table unless given."),
    least: int = typer.Option(1, "--least", min=1, help="How many answers an image needs."),
) -> None:
    """Write the groups that people perceive as a layer of TABLE, with label_source annotator.

    Example: [bold]equipoise review layer reviews/faces faces --least 2[/bold]
    """
    from equipoise.data import Table
    from equipoise.review.labels import people_layer

    with _opened(folder) as store:
        layer = people_layer(store, Table.open(table), least=least, path=out or None).layers[-1]
    typer.echo(f"{len(layer)} images in the layer {layer.path}; read it with --layer {out or 'people'}")


def _opened(folder: str) -> Any:
    from contextlib import closing

    from equipoise.review import open_review

    return closing(open_review(folder))
