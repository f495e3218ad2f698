"""Where a dataset is lopsided, before any model is trained on it: every analysis on every axis, in one go.

Counts of groups; subjects, objects, words and other axes that lean to a group; clusters of neutral captions; how well
the group can be guessed from what should not tell it; activities that captions tie to a group. No model is asked.

The map of a dataset's captions: a t-SNE picture of neutral captions, by cluster and by group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise import engine
from equipoise.audit.captions.reading import CaptionColumns
from equipoise.audit.dataset.parts import (
    AxisPart,
    CaptionMap,
    DatasetSettings,
    QuestionFamily,
    captions_part,
    clusters_of,
    counts_of,
    images_part,
    joint_counts,
    leanings_of,
    table_frame,
)
from equipoise.audit.dataset.source import Dataset, read_dataset
from equipoise.audit.dataset.text import AxisFindings, activities_of, told
from equipoise.audit.figures import caption_map_figure
from equipoise.audit.findings import Findings
from equipoise.audit.folders import nothing_else
from equipoise.audit.suites._probes import stored_features
from equipoise.data import Table
from equipoise.data.atomic import sha256_of, write_whole
from equipoise.data.manifest import MANIFEST
from equipoise.data.runs import Run, check_folder, claimed
from equipoise.engine.progress import Heartbeat
from equipoise.errors import InputError
from equipoise.formatting import csv_text
from equipoise.measure.dataset import tsne_coordinates
from equipoise.pace import stages
from equipoise.report.verdict.kinds import dataset_readings, worst
from equipoise.report.verdict.outcomes import Conclusion, Reading

__all__ = ["DatasetAudit", "DatasetSettings", "audit_dataset", "caption_map", "read_dataset"]


DIMENSIONS = 50


def caption_map(
    texts: list[str],
    image_ids: list[str],
    clusters: NDArray[np.intp],
    groups: list[str],
    *,
    vectors: NDArray[np.float64] | None = None,
    seed: int = 0,
) -> pd.DataFrame | None:
    """Coordinates of each image's neutral text.

    TF-IDF, or the vectors of a text encoder, the 50 main directions, then t-SNE. For looking at: distances between
    clusters mean nothing.

    Args:
        texts: (n,) the neutral text of each image.
        image_ids: (n,) whose text it is.
        clusters: (n,) the number of its cluster.
        groups: (n,) the group of the image.
        vectors: (n, d) of the texts, by an encoder, in place of TF-IDF.
        seed: which part is drawn where there are many, and where t-SNE begins.

    Returns:
        One row per image, or of a part of them if there are many, with ``image_id x y cluster group``; ``None`` where
        the texts have only one word, for they are one point.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    dense: Any = vectors
    if vectors is None or vectors.shape[1] > DIMENSIONS:
        features = TfidfVectorizer().fit_transform(texts) if vectors is None else vectors
        width = min(DIMENSIONS, min(features.shape) - 1)
        if width < 1:
            return None
        dense = TruncatedSVD(width, random_state=seed).fit_transform(features)
    points, rows = tsne_coordinates(dense, perplexity=min(30.0, (len(texts) - 1) / 3), seed=seed)
    return pd.DataFrame(
        {
            "image_id": [image_ids[i] for i in rows],
            "x": points[:, 0],
            "y": points[:, 1],
            "cluster": clusters[rows],
            "group": [groups[i] for i in rows],
        }
    )


SUITE = "dataset"


@dataclass(frozen=True)
class DatasetAudit:
    """What was found in a dataset: the numbers, the tables behind them by axis, and all of it as text."""

    dataset: Dataset
    results: pd.DataFrame
    axes: tuple[AxisFindings, ...]
    notes: tuple[str, ...]
    folder: Path | None
    judged: tuple[Reading, ...] = ()
    """Each number about the whole dataset, held against its margin under one correction."""
    level: float = DatasetSettings.level
    """Of the intervals."""

    @property
    def lopsided(self) -> bool:
        """Whether a group's share or a kind of content leans, beyond chance (one correction) and beyond the margin."""
        return worst(self.judged) is Conclusion.LEANS

    def __str__(self) -> str:
        return told(self.dataset, self.axes, self.results, self.judged, self.level)


def audit_dataset(
    source: str | Path,
    out: str | Path | None = None,
    *,
    axes: Sequence[str] = (),
    lexicon: str = "equipoise",
    features: str | Path | None = None,
    masked_features: str | Path | None = None,
    encoder: Any = None,
    text_encoder: Any = None,
    asking: engine.Asking | None = None,
    settings: DatasetSettings | None = None,
    overwrite: bool = False,
    id_column: str = "",
    caption_column: str = "",
    layers: Sequence[str] = (),
    limit: int = 0,
    sample: int = 0,
) -> DatasetAudit:
    """Run every analysis on ``source``.

    A folder that holds something else, or the audit of another dataset, is refused.

    Args:
        source: a table's folder, or a file of captions (COCO JSON, JSONL, CSV, TSV or plain lines).
        out: the folder, if given, for ``results.parquet`` and ``results.json``, the settings, and for each axis
            ``counts``, ``leanings``, ``clusters``, ``activities`` and ``map`` as CSV, and the map of captions as SVG.
        axes: the columns that hold groups, as for :func:`read_dataset`.
        lexicon: what makes captions neutral, and reads its axis from them where no column has it.
        features: a table of embeddings of the images, from which the group is then guessed too.
        masked_features: the same of these images with the person masked.
        encoder: a model or its name, which is asked about the images of the table; it takes the place of ``features``.
        text_encoder: a model of sentences or its name, which takes the place of words in the clusters of captions
            (GenSynth: RoBERTa).
        asking: how the encoder is asked.
        settings: how the analyses are done.
        overwrite: write to such a folder all the same.
        id_column: the column of a file that names the image, if it is called otherwise than usual.
        caption_column: the same for captions.
        layers: those of a table that are joined, by name.
        limit: only the first so many images; 0 takes all.
        sample: only so many, drawn by the seed of the settings, sets of a table whole; 0 takes all.

    Returns:
        What was found, on every axis that has two groups.
    """
    chosen = settings or DatasetSettings()
    if out is not None:
        check_folder(out, SUITE, overwrite=overwrite)
    some: dict[str, Any] = {"limit": limit, "sample": sample, "seed": chosen.seed, "layers": layers}
    columns = CaptionColumns.named(id_column, caption_column)
    dataset = read_dataset(source, axes=axes, lexicon=lexicon, columns=columns, **some)
    if limit or sample:
        dataset.notes.append(f"only some images were looked at: {len(dataset):,}")
    ids = dataset.frame["image_id"].astype(str).tolist()
    masked, unmasked = (
        None if folder is None else stored_features(folder, ids) for folder in (masked_features, features)
    )
    if encoder is not None and features is not None:
        raise InputError("features come from a table or from a model; give --features or --encoder, one of them")
    of: dict[str, Any] = {"dataset": str(source), "axes": list(dataset.groups), "lexicon": lexicon}
    inputs = {"features": features, "masked_features": masked_features}
    inputs |= {"encoder": encoder, "text_encoder": text_encoder}
    of |= {name: str(getattr(given, "key", given)) for name, given in inputs.items() if given is not None}
    of |= {name: value for name, value in {"limit": limit, "sample": sample, "layers": list(layers)}.items() if value}
    file = Path(source) / MANIFEST if Path(source).is_dir() else Path(source)
    claim: dict[str, Any] = {
        "parents": {"dataset": sha256_of(file)},
        "of": of,
        "settings": chosen.plain(),
        "accept": nothing_else(_another, Path(source)),
        "overwrite": overwrite,
    }
    with nullcontext() if out is None else claimed(out, SUITE, **claim) as home:
        if encoder is not None:
            unmasked, notes = _features_by(encoder, source, ids, asking)
            dataset.notes.extend(notes)
        reads = None if text_encoder is None else _read_by(text_encoder)
        folder = None if home is None else home.folder
        done, findings = _measured(source, dataset, chosen, (masked, unmasked), folder, reads)
        if home is not None:
            findings.save(home.stage)
            for of_axis in done.axes:
                _save_tables(home.stage, dataset, of_axis, chosen)
            write_whole(home.stage / "report.txt", f"{done}\n".encode())
            home.publish()
    return done


def _another(dataset: Path, run: Run) -> str:
    """The audit of another dataset, in words; the same one may be looked at again, with other settings too."""
    there = run.of.get("dataset", run.about.get("dataset"))  # an older folder says so at the top
    same = Path(str(there)).resolve() == dataset.resolve()
    return "" if same else f"the audit of another dataset ({there})"


def _measured(
    source: str | Path,
    dataset: Dataset,
    chosen: DatasetSettings,
    features: tuple[Any, Any],
    folder: Path | None,
    reads: Callable[[list[str]], Any] | None = None,
) -> tuple[DatasetAudit, Findings]:
    findings = Findings(SUITE, "")
    findings.notes += dataset.notes
    if dataset.sources is not None:
        units = len(set(dataset.sources))
        findings.note(f"{len(dataset):,} images come from {units:,} sources or sets, which are the independent units")
    family = QuestionFamily()
    parts = [AxisPart(findings, dataset, axis, chosen, family, reads) for axis in dataset.groups]
    with Heartbeat(f"looking at {dataset.name}"):
        on_axes = [findings_of for part in stages(parts) if (findings_of := _on_axis(part, *features)) is not None]
        if not on_axes:
            raise InputError(f"{source}: no axis has two groups: " + "; ".join(findings.notes))
        if len(on_axes) > 1:
            joint_counts([part for part in parts if part.groups.n_groups > 1])
    family.note_in(findings.rows)
    results = findings.frame()
    judged = tuple(dataset_readings(results))
    return DatasetAudit(dataset, results, tuple(on_axes), tuple(findings.notes), folder, judged, chosen.level), findings


def _read_by(text_encoder: Any) -> Callable[[list[str]], Any]:
    """Texts to vectors, by a model of sentences or its name."""
    from equipoise.models import load

    model = load(text_encoder) if isinstance(text_encoder, str) else text_encoder
    encode: Callable[[list[str]], Any] = model.encode_texts
    return encode


def _features_by(
    encoder: Any, source: str | Path, ids: list[str], asking: engine.Asking | None
) -> tuple[Any, list[str]]:
    """Features (n, d) of these images of a table by a model, NaN where one cannot be read, and notes on that."""
    from equipoise.models import load

    if not Path(source).is_dir():
        raise InputError(f"{source}: holds captions and no images, which --encoder needs; give a table")
    model = load(encoder) if isinstance(encoder, str) else encoder
    unreadable = engine.Unreadable(source, len(ids), (asking or engine.Asking()).max_broken)
    features = engine.vectors(model, Table.open(source), asking, ids=ids, unreadable=unreadable)
    return np.asarray(features, dtype=np.float64), unreadable.notes()


def _on_axis(part: AxisPart, masked: Any, unmasked: Any) -> AxisFindings | None:
    counts = counts_of(part)
    if counts is None:
        return None
    has_captions = any(part.dataset.captions)
    if not has_captions:
        part.findings.note("no captions: no words, clusters, activities, nor a guess from captions")
    shown = [name for name, count in counts.counts.items() if count]
    if len(shown) < 2:
        part.findings.note(f"{part.axis}: every image with a group shows {shown[0]!r}; nothing but that is compared")
        return AxisFindings(part.axis, part.dataset.labelled_by[part.axis], part.groups.names, counts)
    return AxisFindings(
        axis=part.axis,
        labelled_by=part.dataset.labelled_by[part.axis],
        groups=part.groups.names,
        counts=counts,
        leanings=leanings_of(part),
        clusters=clusters_of(part) if has_captions else None,
        captions=captions_part(part) if has_captions else None,
        images=images_part(part, masked, unmasked),
        activities=activities_of(part) if has_captions else None,
    )


def _save_tables(folder: Path, dataset: Dataset, findings: AxisFindings, settings: DatasetSettings) -> None:
    name = re.sub(r"[^\w-]+", "_", findings.axis)
    counts = pd.DataFrame({"group": list(findings.counts.counts), "images": list(findings.counts.counts.values())})
    _csv(folder / f"counts_{name}.csv", counts)
    if findings.leanings:
        _csv(folder / f"leanings_{name}.csv", table_frame(findings.leanings))
    if findings.activities is not None:
        _csv(folder / f"activities_{name}.csv", findings.activities.table.reset_index(names="activity"))
    if findings.clusters is not None:
        table = findings.clusters.found.leaning.table.rename(columns={"item": "cluster"})
        number = table["cluster"].astype(int)
        table["words"] = [" ".join(findings.clusters.found.top_words[i]) for i in number]
        table["distinctive_words"] = [" ".join(findings.clusters.found.distinctive_words[i]) for i in number]
        _csv(folder / f"clusters_{name}.csv", table)
        _save_map(folder, name, dataset, findings, findings.clusters, settings)


def _save_map(
    folder: Path, name: str, dataset: Dataset, findings: AxisFindings, clusters: CaptionMap, settings: DatasetSettings
) -> None:
    groups = dataset.groups[findings.axis]
    rows = clusters.rows.tolist()
    points = caption_map(
        clusters.texts,
        [str(dataset.frame["image_id"].iloc[i]) for i in rows],
        clusters.found.labels,
        [groups.names[groups.labels[i]] for i in rows],
        vectors=clusters.vectors,
        seed=settings.seed,
    )
    if points is None:
        return
    _csv(folder / f"map_{name}.csv", points)
    words = {i: " ".join(some[:2]) for i, some in enumerate(clusters.found.distinctive_words)}
    figure = caption_map_figure(points, words, f"the same by {findings.axis}")
    write_whole(folder / f"map_{name}.svg", figure.encode())


def _csv(path: Path, frame: pd.DataFrame) -> None:
    write_whole(path, csv_text(frame).encode())
