"""``equipoise classify-audit``: what the predictions of an image classifier give away, and whom they miss."""

from __future__ import annotations

from typing import Any

import typer

from equipoise.cli.making import OVERWRITE
from equipoise.cli.report import tell_results
from equipoise.errors import InputError


def classify_audit(
    predictions: str = typer.Argument(
        ...,
        metavar="PREDICTIONS",
        help="CSV, TSV, JSONL or Parquet: image_id, label, score; or one column per label; or lists in 'objects'.",
    ),
    labels: str = typer.Option(
        ..., "--labels", "-l", help="A table of images with objects, or a file as above; with the groups of each image."
    ),
    masked: str = typer.Option("", "--masked", help="Predicted groups on images whose person is masked, for Ratio."),
    inpainted: str = typer.Option(
        "", "--inpainted", help="Predicted groups on images of which a body part was redrawn, for the artefact test."
    ),
    out: str = typer.Option("", "--out", "-o", help="The folder for the results."),
    axis: list[str] = typer.Option([], "--axis", help="A column of the labels that holds groups; repeat for several."),
    pair: str = typer.Option("", "--pair", help="The groups of the Ratio, first over second, as in male,female."),
    label_column: str = typer.Option("", "--label-column", help="The column of lists of labels, if not objects."),
    name: str = typer.Option("", "--name", help="What to call the classifier; the file's name unless given."),
    threshold: float = typer.Option(0.5, "--threshold", help="A label is predicted from this score on."),
    reader: str = typer.Option("logistic", "--reader", help="What guesses the group from objects: logistic or mlp."),
    weighting: str = typer.Option("confidence", "--weighting", help="Leakage by confidence or by accuracy."),
    match: bool = typer.Option(False, "--match", help="Perturb the annotations to the model's F1 first (Wang 2019)."),
    folds: int = typer.Option(5, "--folds", min=2, help="Folds of each draw of balanced images, for leakage."),
    seeds: int = typer.Option(5, "--seeds", min=1, help="Draws of balanced images, for leakage."),
    least: int = typer.Option(5, "--least", min=1, help="Images of each group that a label needs in recall."),
    draws: int = typer.Option(499, "--draws", min=19, help="Draws of the nulls."),
    seed: int = typer.Option(0, "--seed", min=0, help="Seed of nulls and intervals."),
    overwrite: bool = OVERWRITE,
    page: bool = typer.Option(True, "--report/--no-report", help="Whether to write report.html into the folder."),
) -> None:
    """Measure a multi-label classifier by its predictions: mAP, leakage, amplification, recall by group, Ratio.

    No model is asked. Every number about bias stands beside its chance level, with interval and p.

    Examples:

    [bold]equipoise classify-audit predictions.csv --labels tables/coco --axis gender -o runs/resnet[/bold]

    [bold]equipoise classify-audit predictions.csv --labels labels.csv --masked masked.csv --inpainted parts.csv
    --pair male,female -o runs/resnet[/bold]
    """
    from equipoise.audit.classify import ClassifierSettings, audit_classifier

    two = tuple(part.strip() for part in pair.split(",")) if pair else ()
    if pair and (len(two) != 2 or len(set(two)) != 2):
        raise InputError(f"--pair {pair}: two groups with a comma are expected, as in male,female")
    given: dict[str, Any] = {"reader": reader, "weighting": weighting}
    settings = ClassifierSettings(
        **given, threshold=threshold, match=match, folds=folds, seeds=seeds, least=least, draws=draws, seed=seed
    )
    done = audit_classifier(
        predictions,
        labels,
        out or None,
        masked=masked or None,
        inpainted=inpainted or None,
        axes=axis,
        pair=(two[0], two[1]) if two else None,
        column=label_column,
        name=name,
        settings=settings,
        overwrite=overwrite,
    )
    tell_results(done, page)
