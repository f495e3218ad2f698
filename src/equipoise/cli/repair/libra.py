"""``equipoise libra``: biased captions to learn from, a reviser that learns from them, and revised captions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from equipoise.cli.making import OVERWRITE
from equipoise.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    help="Take the bias out of captions, whoever wrote them (LIBRA): synthesise biased captions, fit a reviser that "
    "turns them back, apply it to any captioner's output.",
)


@app.command()
def synthesise(
    source: str = typer.Argument(..., metavar="CAPTIONS", help="COCO .json, .jsonl, .csv, .tsv or a table's folder."),
    out: str = typer.Option("", "--out", "-o", help="The folder for the pairs."),
    lexicon: str = typer.Option("equipoise", "--lexicon", "-l", help="A lexicon's id, or a TOML file of your own."),
    filler: str = typer.Option(
        "captions", "--filler", help="captions (words between the same neighbours), hf:<masked model or T5>, mini:text."
    ),
    classifier: str = typer.Option(
        "fast", "--classifier", help="fast, bert:NAME (the paper's), bert-frozen:NAME, lstm."
    ),
    mix: str = typer.Option("0:1:1", "--mix", help="Shares of swap, fill and merged: 1:1:0, 0:1:1, 1:2:1, ..."),
    count: int = typer.Option(
        0, "--count", min=0, help="At most this many pairs; 0 is the paper's count for its mixes."
    ),
    setting: list[str] = typer.Option(
        [], "--set", help="Another setting: share, tries, temperature, top_k, authenticity, margin, folds, synonyms."
    ),
    id_column: str = typer.Option("", "--id-column", help="The column that says which image a caption is of."),
    caption_column: str = typer.Option("", "--caption-column", help="The column that holds the caption."),
    seed: int = typer.Option(0, "--seed", min=0, help="Which words are masked and drawn, and which pairs are taken."),
    device: str = typer.Option("", "--device", help="Where the filler and a BERT classifier run, such as cuda or cpu."),
    overwrite: bool = OVERWRITE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Say how many captions can be used, and stop."),
) -> None:
    """Make biased versions of captions: pairs.jsonl with biased, original, kind and scores.

    swap: the group's word is exchanged where the other words are read as another group. fill: content words are
    replaced so that the others give the group away more. merged: filled, then exchanged.

    Examples:

    [bold]equipoise libra synthesise captions.jsonl -o pairs[/bold]

    [bold]equipoise libra synthesise captions_train2017.json --filler hf:bert-base-uncased --mix 1:2:1 -o pairs[/bold]

    [bold]equipoise libra synthesise captions.csv --lexicon libra --set margin=0.1 --set tries=8 -o pairs[/bold]
    """
    from equipoise.audit.captions.reading import CaptionColumns, read_records
    from equipoise.data.runs import check_folder
    from equipoise.mitigate.libra import SynthesisSettings, synthesise_into
    from equipoise.mitigate.libra.pairs import mix_of
    from equipoise.mitigate.libra.synthesis import named_captions
    from equipoise.text import Lexicon

    if not out and not dry_run:
        raise InputError("say where to keep the pairs with -o")
    own = {"lexicon": lexicon, "filler": filler, "classifier": classifier, "mix": mix, "count": count, "seed": seed}
    settings = SynthesisSettings().having(own | _more(setting, own))
    if out:
        check_folder(out, "pairs", overwrite=overwrite)
    columns = CaptionColumns.named(id_column, caption_column)
    records = read_records(source, columns=columns)
    columns.check(records, [source])
    captions = [(record.image_id, text) for record in records for text in record.captions]
    images, texts = [image for image, _ in captions], [text for _, text in captions]
    if dry_run:
        named = named_captions(texts, images, Lexicon.load(lexicon))
        asked = len(named.texts) * settings.tries if any(mix_of(mix)[1:]) else 0
        typer.echo(f"{len(named.texts):,} of {len(texts):,} captions name one group of {', '.join(named.groups)}")
        typer.echo(f"the filler ({filler}) would be asked for at most {asked:,} captions")
        return
    synthesis = synthesise_into(
        out,
        texts,
        images,
        settings,
        source=source,
        device=device,
        say=lambda line: typer.echo(line, err=True),
        overwrite=overwrite,
    )
    for line in _summary(synthesis.counts):
        typer.echo(line)
    typer.echo(f"{len(synthesis.pairs):,} pairs in {out}/pairs.jsonl")


@app.command()
def fit(
    pairs: str = typer.Argument(..., metavar="PAIRS", help="The folder or pairs.jsonl of libra synthesise."),
    images: str = typer.Option(..., "--images", help="The images that the captions are of: a table, or a folder."),
    out: str = typer.Option(..., "--out", "-o", help="The folder for the model."),
    init: str = typer.Option("", "--init", help="The reviser to continue from: mini:dcg, or hf:<folder of one>."),
    encoder: str = typer.Option("", "--encoder", help="With --decoder: a ViLT, such as hf:dandelin/vilt-b32-mlm."),
    decoder: str = typer.Option("", "--decoder", help="With --encoder: a GPT-2, such as hf:gpt2 or hf:distilgpt2."),
    share: float = typer.Option(0.2, "--share", min=0.0, max=1.0, help="The share of the words that are hidden."),
    originals: float = typer.Option(
        0.5, "--originals", min=0.0, help="How often the original itself is read, to be left alone."
    ),
    steps: int = typer.Option(None, "--steps", help="How many steps; or give --epochs."),
    epochs: float = typer.Option(None, "--epochs", help="Times through the images; 1 unless --steps is given."),
    batch: int = typer.Option(32, "--batch", help="Images per step."),
    rate: float = typer.Option(1e-5, "--rate", help="The learning rate at its highest."),
    seed: int = typer.Option(0, "--seed", min=0, help="The order of the rows, and new weights."),
    setting: list[str] = typer.Option([], "--set", help="NAME=VALUE: another setting of training, such as patience=3."),
    device: str = typer.Option("auto", "--device", help="Where it trains, such as cuda or cpu."),
    overwrite: bool = OVERWRITE,
) -> None:
    """Train a reviser on biased captions and their originals; a stopped run goes on with the same command.

    Examples:

    [bold]equipoise libra fit pairs --images pictures --init mini:dcg --steps 100 -o dcg[/bold]

    [bold]equipoise libra fit pairs --images jpg --encoder hf:dandelin/vilt-b32-mlm --decoder hf:gpt2 -o dcg[/bold]
    """
    from equipoise.data.atomic import lock_of, locked
    from equipoise.data.runs import beside
    from equipoise.data.settings import fitting_all
    from equipoise.mitigate.libra.learning import fit_reviser, pairs_in, start_of
    from equipoise.train.settings import TrainSettings

    if bool(init) == bool(encoder or decoder) or bool(encoder) != bool(decoder):
        raise InputError("say what to start from: --init mini:dcg (or a reviser's folder), or --encoder and --decoder")
    pair_rows = pairs_in(pairs)
    pictures = _pictures(images)
    own: dict[str, Any] = {"steps": steps, "epochs": epochs, "batch": batch, "rate": rate, "seed": seed}
    more = fitting_all(TrainSettings, _more(setting, own), what="setting of training")
    settings = {name: value for name, value in own.items() if value is not None} | more
    options = {"share": share, "originals": originals}
    pairs_place = beside(out, "pairs")
    pairs_place.parent.mkdir(parents=True, exist_ok=True)
    # What lies beside the model belongs to one run as well: another with other pairs would replace them meanwhile.
    with locked(lock_of(pairs_place), what=f"the folder {out}"):
        start = init or start_of(encoder, decoder, beside(out, "start"), share=share, seed=seed)
        trained = fit_reviser(
            pair_rows, pictures, out, init=start, options=options, device=device, overwrite=overwrite, **settings
        )
    judged = "" if trained.validation is None else f", on images that it has not seen {trained.validation:.3f}"
    typer.echo(f"{trained.steps:,} steps; the loss is {trained.loss:.3f}{judged}; apply it with --reviser hf:{out}")


@app.command()
def apply(
    source: str = typer.Argument(..., metavar="CAPTIONS", help="COCO .json, .jsonl, .csv, .tsv or a table's folder."),
    images: str = typer.Option("", "--images", help="The images that the captions are of: a table, or a folder."),
    out: str = typer.Option(..., "--out", "-o", help="The folder for the revised captions."),
    reviser: str = typer.Option("mini:dcg", "--reviser", help="mini:dcg (pictograms only), or hf:<folder>."),
    id_column: str = typer.Option("", "--id-column", help="The column that says which image a caption is of."),
    caption_column: str = typer.Option("", "--caption-column", help="The column that holds the caption."),
    seed: int = typer.Option(0, "--seed", min=0, help="Which words are hidden."),
    setting: list[str] = typer.Option(
        [], "--set", help="NAME=VALUE: num_beams, no_repeat, min_tokens, max_tokens or share."
    ),
    batch: int = typer.Option(64, "--batch", min=1, help="Captions at a time."),
    max_broken: float = typer.Option(0.05, "--max-broken", help="The share of images that may be unreadable."),
    device: str = typer.Option("", "--device", help="Where the reviser runs, such as cuda or cpu."),
    overwrite: bool = OVERWRITE,
) -> None:
    """Revise every caption of a file after a look at its image; a killed run goes on with the same command.

    The file of revised captions has the form of CAPTIONS, and [bold]equipoise captions BEFORE AFTER[/bold] compares
    them. A caption that cannot be revised stays as it was and is counted.

    Examples:

    [bold]equipoise libra apply captions.jsonl --images pictures -o revised[/bold]

    [bold]equipoise libra apply results.json --images val2014 --reviser hf:dcg -o revised[/bold]
    """
    from equipoise.audit.captions.reading import CaptionColumns, read_records, suffix_of
    from equipoise.data.runs import check_folder
    from equipoise.data.settings import fitting_all
    from equipoise.engine import Asking
    from equipoise.mitigate.libra.applying import CaptionRow, apply_into
    from equipoise.models import load
    from equipoise.models.hf.revisers import Revising

    check_folder(out, "revised", overwrite=overwrite)
    columns = CaptionColumns.named(id_column, caption_column)
    records = read_records(source, columns=columns)
    columns.check(records, [source])
    if not images:
        raise InputError("the reviser looks at the images; say where they are with --images (a table or a folder)")
    pictures = _pictures(images)
    options = fitting_all(Revising, _more(setting, {}), what="setting of a reviser")
    model = load(reviser, kind="reviser", **options, **({"device": device} if device else {}))
    rows = [CaptionRow(record.image_id, text, record.fields) for record in records for text in record.captions]
    suffix = suffix_of(source)
    revision = apply_into(
        out,
        model,
        rows,
        pictures,
        kind=suffix if suffix in (".json", ".csv", ".tsv") else ".jsonl",
        source=source,
        seed=seed,
        asking=Asking(batch_size=batch, max_broken=max_broken),
        overwrite=overwrite,
        say=lambda line: typer.echo(line, err=True),
    )
    counts = revision.counts
    unchanged = ", ".join(f"{counts[name]:,} {name}" for name in list(counts)[3:] if counts[name])
    typer.echo(f"{counts['revised']:,} of {counts['captions']:,} captions revised, {counts['changed']:,} changed")
    if unchanged:
        typer.echo(f"left as they were: {unchanged}")


def _pictures(place: str) -> Any:
    """A table of images, or the files of a folder by image id."""
    from equipoise.audit.captions.images import image_files
    from equipoise.data import Table
    from equipoise.data.manifest import MANIFEST

    return Table.open(place) if (Path(place) / MANIFEST).is_file() else image_files(place)


def _more(settings: list[str], own: Mapping[str, object]) -> dict[str, Any]:
    from equipoise.cli.repair.train import option_of

    given = dict(map(option_of, settings))
    for name in given:
        if name in own:
            raise InputError(f"--set {name}: say it with --{name}")
    return given


def _summary(counts: dict[str, Any]) -> list[str]:
    """What was found and what not, in a few lines."""
    lines = [f"{kind:8} {n:>8,} found {counts['taken'][kind]:>8,} taken" for kind, n in counts["found"].items()]
    read = counts["classifier"]
    share, chance = read["balanced_accuracy"], read["chance"]
    lines.append(f"the classifier reads the group off the other words of {share:.1%} (chance {chance:.1%})")
    for what in ("left_out", "refused"):
        some = ", ".join(f"{n:,} {reason}" for reason, n in counts[what].items() if n)
        lines += [f"{what.replace('_', ' ')}: {some}"] if some else []
    if counts["synonyms"] == "none":
        lines.append("note: synonyms were not refused, because WordNet is not installed or they are allowed")
    return lines
