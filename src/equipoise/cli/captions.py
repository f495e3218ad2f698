"""``equipoise captions``: how much captioning models amplify the bias of the captions they learned from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from equipoise.cli.making import CACHE, ENGINE, LAYER, LIMIT, MAX_BROKEN, OVERWRITE, SAMPLE, WORKERS, asking
from equipoise.cli.report import tell_results
from equipoise.errors import InputError


def captions(
    predictions: list[str] = typer.Argument(
        ...,
        metavar="PREDICTIONS...",
        help="Captions, one file per model: COCO results JSON, JSONL, CSV, TSV, or a table. NAME=FILE names the model.",
    ),
    references: str = typer.Option("", "--references", "-r", help="Human captions: COCO captions JSON, JSONL, CSV."),
    labels: str = typer.Option(
        "",
        "--labels",
        "-l",
        help="A column of the predictions or references, or a file with image ids and labels. Must be given.",
        show_default=False,
    ),
    out: str = typer.Option("", "--out", "-o", help="The folder for the results."),
    label_column: str = typer.Option("", "--label-column", help="The label's column in a file of labels."),
    id_column: list[str] = typer.Option(
        [], "--id-column", help="The column of image ids, if not image_id or id; repeat where files differ."
    ),
    caption_column: list[str] = typer.Option(
        [], "--caption-column", help="The column of captions, if not caption; repeat where files differ."
    ),
    layer: list[str] = LAYER,
    limit: int = LIMIT,
    sample: int = SAMPLE,
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be measured; train and load nothing."),
    group: list[str] = typer.Option([], "--group", help="Keep only these groups; repeat for several."),
    classifier: str = typer.Option(
        "fast", "--classifier", "-c", help="fast (a screen), lstm (the paper's), bert:NAME (also bert:mini:text)."
    ),
    lexicon: str = typer.Option(
        "lic", "--lexicon", help="Whose words are masked, and name a group in Ratio and Error."
    ),
    mask: bool = typer.Option(True, "--mask/--no-mask", help="Whether words that name a group are masked for LIC."),
    seeds: int | None = typer.Option(
        None, "--seeds", min=1, help="How many of the paper's ten splits; all by default."
    ),
    reference_seeds: int | None = typer.Option(
        None,
        "--reference-seeds",
        min=0,
        help="The same for human captions (five classifiers per split), so for LIC_D and LIC; 0 leaves them out.",
    ),
    folds: int | None = typer.Option(None, "--folds", min=2, help="Cross-fit over this many folds instead of splits."),
    permutations: int | None = typer.Option(
        None, "--permutations", min=0, help="Label shuffles for the chance level; 200 for fast, 3 for others."
    ),
    ba_least: int = typer.Option(
        100, "--ba-least", min=1, help="Human captions of each group that a word of BA needs."
    ),
    train_references: str = typer.Option(
        "", "--train-references", help="The captioners' training captions: BA counts the words that these select."
    ),
    objects: str = typer.Option("", "--objects", help="A COCO instances file: what the images hold, for DBA."),
    images: str = typer.Option("", "--images", help="The folder or table of images, for CLIPScore."),
    encoder: str = typer.Option(
        "", "--encoder", help="The model of CLIPScore, such as hf:openai/clip-vit-base-patch32."
    ),
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    cache: bool = CACHE,
    max_broken: float = MAX_BROKEN,
    overwrite: bool = OVERWRITE,
    masked: list[str] = typer.Option(
        [],
        "--masked",
        help="Captions of the same model on masked images, as without-person=FILE, or MODEL:without-person=FILE.",
    ),
    quality: bool = typer.Option(True, "--quality/--no-quality", help="Whether to measure BLEU, CIDEr and the like."),
    java: bool = typer.Option(False, "--java", help="Also METEOR and SPICE, which need Java."),
    published: str = typer.Option(
        "", "--published", help="Show published values beside the measured ones: lic, libra."
    ),
    page: bool = typer.Option(True, "--report/--no-report", help="Whether to write report.html into the folder."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of nulls and intervals."),
) -> None:
    """Measure bias amplification and quality of captioning models, each number with interval and chance level.

    Prints one line per model: bias on the left (LIC, Ratio, Error, BA, DBA), quality on the right; * best, ! worst.

    Examples:

    [bold]equipoise captions gender_*.jsonl --references human.jsonl --labels gender -o runs/captions[/bold]

    [bold]equipoise captions results.json -r captions_val2014.json -l labels.csv --objects instances_val2014.json[/bold]

    Long LSTM runs can be stopped: the same command resumes where it stopped.
    """
    from equipoise.audit.captions.inputs import read_inputs
    from equipoise.audit.captions.printing import planned_captions
    from equipoise.audit.captions.reading import CaptionColumns
    from equipoise.audit.captions.run import audit_captions
    from equipoise.audit.captions.settings import CaptionSettings
    from equipoise.data.published import published_values

    if not labels:
        raise InputError(
            "which group is in which picture? Give --labels COLUMN, a column of the captions file (--labels gender), "
            "or --labels FILE, a list of image ids and labels (--labels labels.csv)"
        )
    if "=" in labels and not Path(labels).exists():
        raise InputError(
            f"--labels {labels}: labels are a column or a file, and the column's name is that of the axis; type "
            f"--labels {labels.partition('=')[2] or 'COLUMN'}"
        )
    settings = CaptionSettings(
        classifier=classifier,
        lexicon=lexicon,
        mask=mask,
        seeds=seeds,
        reference_seeds=reference_seeds,
        folds=folds,
        permutations=permutations,
        ba_least=ba_least,
        quality=quality,
        java=java,
        seed=seed,
    )
    some: dict[str, Any] = {"label_column": label_column or None, "groups": group, "limit": limit, "sample": sample}
    if dry_run:
        columns = CaptionColumns.named(id_column, caption_column, layer)
        columns.check_layers([*predictions, *(path for path in (references, labels, images) if path)])
        inputs = read_inputs(predictions, references or None, labels, columns=columns, seed=seed, **some)
        if published:  # an unknown paper, or one without values for this axis, is refused now and not only in the run
            published_values(published, inputs.axis, training_words=bool(train_references))
        typer.echo(planned_captions(inputs, settings, encoder))
        return
    done = audit_captions(
        predictions,
        references or None,
        labels,
        out or None,
        **some,
        layers=layer,
        id_column=id_column,
        caption_column=caption_column,
        objects=objects or None,
        images=images or None,
        encoder=encoder or None,
        masked=masked,
        published=published or None,
        train_references=train_references or None,
        settings=settings,
        say=lambda text: typer.echo(text, err=True),
        asking=asking(engine, workers, cache, batch_size=32, max_broken=max_broken),
        overwrite=overwrite,
    )
    tell_results(done, page)
