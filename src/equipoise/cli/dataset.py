"""``equipoise dataset``: where a dataset is lopsided, before any model is trained on it."""

from __future__ import annotations

from typing import Any

import typer

from equipoise.cli.making import CACHE, ENGINE, LAYER, LIMIT, MAX_BROKEN, OVERWRITE, SAMPLE, WORKERS, asking
from equipoise.cli.report import tell_results


def dataset(
    source: str = typer.Argument(
        ..., metavar="TABLE|CAPTIONS", help="A table, or captions: COCO .json, .jsonl, .csv, .tsv, .txt (one per line)."
    ),
    out: str = typer.Option("", "--out", "-o", help="A folder for results.parquet, CSV files and the map of captions."),
    axis: list[str] = typer.Option(
        [], "--axis", help="A column with groups, or AXIS=COLUMN; repeat for several. All unless given."
    ),
    id_column: str = typer.Option("", "--id-column", help="The column of image ids, if not image_id or id."),
    caption_column: str = typer.Option("", "--caption-column", help="The column of captions, if not caption."),
    layer: list[str] = LAYER,
    limit: int = LIMIT,
    sample: int = SAMPLE,
    lexicon: str = typer.Option("equipoise", "--lexicon", help="Whose words label captions and are made neutral."),
    features: str = typer.Option("", "--features", help="A table of embeddings of the images: the control."),
    masked_features: str = typer.Option(
        "", "--masked-features", help="A table of embeddings of the same images with the person masked."
    ),
    encoder: str = typer.Option("", "--encoder", help="A model that embeds the images, in place of --features."),
    text_encoder: str = typer.Option("", "--text-encoder", help="A model of sentences that clusters the captions."),
    engine: str = ENGINE,
    workers: int | None = WORKERS,
    cache: bool = CACHE,
    max_broken: float = MAX_BROKEN,
    overwrite: bool = OVERWRITE,
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Say how many images and captions there are; measure nothing."
    ),
    clusters: int = typer.Option(20, "--clusters", min=2, help="How many clusters of captions."),
    min_images: int = typer.Option(20, "--min-images", min=1, help="Leave out words and objects on fewer images."),
    draws: int = typer.Option(999, "--draws", min=2, help="Draws of the null; at most 99 for what captions give away."),
    page: bool = typer.Option(True, "--report/--no-report", help="Whether to write report.html into the folder."),
    seed: int = typer.Option(0, "--seed", help="Seed of nulls, clusters and the map."),
) -> None:
    """Show where a dataset is lopsided: groups, what leans to whom, clusters of captions, activities, clues.

    No model is asked, unless --encoder names one. Captions alone are enough: the lexicon reads perceived groups from
    them.

    Examples:

    [bold]equipoise dataset captions_val2017.json -o runs/coco[/bold]

    [bold]equipoise dataset captions.csv --id-column photo --caption-column text -o runs/mine[/bold]

    [bold]equipoise dataset tables/coco --axis gender --masked-features embeddings/masked[/bold]
    """
    from equipoise.audit.captions.reading import CaptionColumns
    from equipoise.audit.dataset import DatasetSettings, audit_dataset
    from equipoise.audit.dataset.source import read_dataset

    if dry_run:
        columns = CaptionColumns.named(id_column, caption_column)
        some: dict[str, Any] = {"layers": layer, "limit": limit, "sample": sample, "seed": seed}
        read = read_dataset(source, axes=axis, lexicon=lexicon, columns=columns, **some)
        asked = f"{encoder} would be asked about them" if encoder else "no model would be asked"
        typer.echo(f"{len(read):,} images with {read.n_captions:,} captions, by {', '.join(read.groups)}; {asked}")
        return
    done = audit_dataset(
        source,
        out or None,
        axes=axis,
        id_column=id_column,
        caption_column=caption_column,
        layers=layer,
        limit=limit,
        sample=sample,
        lexicon=lexicon,
        features=features or None,
        masked_features=masked_features or None,
        encoder=encoder or None,
        text_encoder=text_encoder or None,
        asking=asking(engine, workers, cache, max_broken=max_broken),
        overwrite=overwrite,
        settings=DatasetSettings(
            clusters=clusters,
            min_images=min_images,
            permutations=draws,
            probe_permutations=min(draws, 99),
            seed=seed,
        ),
    )
    tell_results(done, page)
