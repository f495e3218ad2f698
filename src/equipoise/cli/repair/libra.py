"""``equipoise libra``: biased captions to learn from, made from captions alone."""

from __future__ import annotations

from typing import Any

import typer

from equipoise.cli.making import OVERWRITE
from equipoise.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    help="Take the bias out of captions (LIBRA). So far: make pairs of biased and original captions; the model that "
    "learns from them is not there yet.",
)


@app.callback()
def _libra() -> None:
    """Keep ``synthesise`` a command of its own while it is the only one."""


@app.command()
def synthesise(
    source: str = typer.Argument(..., metavar="CAPTIONS", help="COCO .json, .jsonl, .csv, .tsv or a table's folder."),
    out: str = typer.Option("", "--out", "-o", help="The folder for the pairs."),
    lexicon: str = typer.Option("equipoise", "--lexicon", "-l", help="A lexicon's id, or a TOML file of your own."),
    filler: str = typer.Option(
        "captions", "--filler", help="captions (words between the same neighbours), hf:<masked model>, or mini:text."
    ),
    mix: str = typer.Option("0:1:1", "--mix", help="Shares of swap, fill and merged: 1:1:0, 0:1:1, 1:2:1, ..."),
    count: int = typer.Option(0, "--count", min=0, help="At most so many pairs; 0 is the paper's count for its mixes."),
    setting: list[str] = typer.Option(
        [], "--set", help="Another setting: share, tries, temperature, top_k, authenticity, margin, folds, synonyms."
    ),
    id_column: str = typer.Option("", "--id-column", help="The column that says which image a caption is of."),
    caption_column: str = typer.Option("", "--caption-column", help="The column that holds the caption."),
    seed: int = typer.Option(0, "--seed", min=0, help="Which words are masked and drawn, and which pairs are taken."),
    device: str = typer.Option("", "--device", help="Where a masked model runs, such as cuda or cpu."),
    overwrite: bool = OVERWRITE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Say how many captions can be used, and stop."),
) -> None:
    """Make biased versions of captions: pairs.jsonl with biased, original, kind and scores.

    swap: the group's word is exchanged where the other words are read as another group. fill: content words are
    replaced so that the others tell the group more. merged: filled, then exchanged.

    Examples:

    [bold]equipoise libra synthesise captions.jsonl -o pairs[/bold]

    [bold]equipoise libra synthesise captions_train2017.json --filler hf:bert-base-uncased --mix 1:2:1 -o pairs[/bold]

    [bold]equipoise libra synthesise captions.csv --lexicon libra --set margin=0.1 --set tries=8 -o pairs[/bold]
    """
    from equipoise.audit.captions.reading import CaptionColumns, read_records
    from equipoise.data.runs import check_folder
    from equipoise.mitigate.libra import SynthesisSettings, synthesise_into
    from equipoise.mitigate.libra.mixes import mix_of
    from equipoise.mitigate.libra.synthesis import named_captions
    from equipoise.text import Lexicon

    if not out and not dry_run:
        raise InputError("say where to keep the pairs with -o")
    own = {"lexicon": lexicon, "filler": filler, "mix": mix, "count": count, "seed": seed}
    settings = SynthesisSettings().having(own | _more(setting, own))
    if out:
        check_folder(out, "pairs", overwrite=overwrite)
    columns = CaptionColumns(id_column, caption_column)
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
    made = synthesise_into(
        out,
        texts,
        images,
        settings,
        source=source,
        device=device,
        say=lambda line: typer.echo(line, err=True),
        overwrite=overwrite,
    )
    for line in _summary(made.counts):
        typer.echo(line)
    typer.echo(f"{len(made.pairs):,} pairs in {out}/pairs.jsonl")


def _more(settings: list[str], own: dict[str, object]) -> dict[str, object]:
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
