"""One run over the predictions of a classifier: quality, leakage, amplification, recall, Ratio and artefacts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from equipoise.audit.captions.reading import origin_name
from equipoise.audit.classify.inputs import (
    ClassifierInputs,
    ImageLabels,
    axes_of,
    predicted_on,
    read_classifier_inputs,
    read_image_labels,
)
from equipoise.audit.findings import Findings
from equipoise.audit.folders import nothing_else
from equipoise.audit.printing import table_of
from equipoise.data.atomic import sha256_of, write_whole
from equipoise.data.manifest import MANIFEST
from equipoise.data.runs import Run, check_folder, claimed
from equipoise.data.settings import Settings
from equipoise.engine.progress import Heartbeat
from equipoise.errors import InputError
from equipoise.formatting import csv_text
from equipoise.measure import classify
from equipoise.measure.captions import multi_attribute_amplification
from equipoise.measure.groups import Groups, intersect
from equipoise.pace import stages

KIND = "classification"
MASKED, INPAINTED = "person-masked", "inpainted"


@dataclass(frozen=True)
class ClassifierSettings(Settings):
    """How predictions are measured.

    >>> ClassifierSettings(reader="mlq")
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no reader named 'mlq'; did you mean 'mlp'?
    """

    what: ClassVar[str] = "setting of an audit of predictions"

    threshold: float = 0.5
    """A label is predicted from this score on."""
    reader: Literal["logistic", "mlp"] = "logistic"
    """What guesses the group from objects, for leakage."""
    weighting: Literal["confidence", "accuracy"] = "confidence"
    match: bool = False
    """Perturb the annotations to the model's F1 before their leakage is measured."""
    folds: Annotated[int, Field(ge=2)] = 5
    seeds: Annotated[int, Field(ge=1)] = 5
    """How often the balanced images are drawn and dealt into folds."""
    least: Annotated[int, Field(ge=1)] = 5
    """A label counts in recall if every group has it in so many images."""
    draws: Annotated[int, Field(ge=19)] = 499
    seed: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True)
class ClassifierAudit:
    """What was found: the numbers, and each label's own."""

    results: pd.DataFrame
    labels: pd.DataFrame
    """One row per label: how many images have it, how many it is predicted for, AP, recall by group."""
    notes: tuple[str, ...]
    folder: Path | None = None

    def __str__(self) -> str:
        return table_of(self.results, everything=True)


def audit_classifier(
    predictions: str | Path,
    labels: str | Path,
    out: str | Path | None = None,
    *,
    masked: str | Path | None = None,
    inpainted: str | Path | None = None,
    axes: Sequence[str] = (),
    pair: tuple[str, str] | None = None,
    column: str = "",
    name: str = "",
    settings: ClassifierSettings | None = None,
    overwrite: bool = False,
) -> ClassifierAudit:
    """Measure ``predictions`` of a multi-label classifier against ``labels``.

    For the shapes of files see :func:`equipoise.audit.classify.inputs.read_image_labels`.

    Args:
        predictions: what the classifier says of the images: scores or labels, and groups if it predicts them.
        labels: what is true of the images: labels and groups; it may be a table of images with ``objects``.
        out: the folder for the results, the table of labels and the report, if given.
        masked: predictions of the group on images whose person is masked.
        inpainted: predictions of the group on images of which one body part was redrawn; ``image_id``, or
            ``source_id``, names the original.
        axes: the columns that hold groups; unless given, those of the table and the usual ones (gender, race, …).
        pair: the two groups of the ratio, first over second; of an axis of two groups the larger comes first unless
            given, and an axis of more has no ratio without it.
        column: the column of ``labels`` that holds lists of labels, if it is not ``objects`` or ``labels``.
        name: what the classifier is called; the name of the file of predictions unless given.
        settings: how predictions are measured.
        overwrite: replace whatever other run ``out`` holds.

    Returns:
        The numbers, and what is known of each label; what could not be measured is in the notes.
    """
    chosen = settings or ClassifierSettings()
    if out is not None:
        check_folder(out, KIND, overwrite=overwrite)
    inputs = read_classifier_inputs(predictions, labels, axes=axes, column=column, threshold=chosen.threshold)
    known = axes_of(labels, axes)
    further = {
        pool: read_image_labels(path, known, need_labels=False)
        for pool, path in ((MASKED, masked), (INPAINTED, inpainted))
        if path is not None
    }
    for said in further.values():
        if not any(axis in said.values for axis in inputs.groups):
            raise InputError(f"{said.source}: predicts no group ({' or '.join(inputs.groups)}); give such a column")
    if pair is not None and not any(set(pair) <= set(groups.names) for groups in inputs.groups.values()):
        there = "; ".join(f"{axis}: {', '.join(groups.names)}" for axis, groups in inputs.groups.items())
        raise InputError(f"--pair {','.join(pair)}: no axis has these two groups; there are {there}")
    given = {"predictions": predictions, "labels": labels, "masked": masked, "inpainted": inpainted}
    files = {role: Path(path) for role, path in given.items() if path is not None}
    of = {**{role: str(path.resolve()) for role, path in files.items()}, "axes": list(inputs.groups)}
    claim: dict[str, Any] = {
        "of": of,
        "settings": chosen.plain(),
        "parents": {role: sha256_of(path / MANIFEST if path.is_dir() else path) for role, path in files.items()},
        "accept": nothing_else(_another, of),
        "overwrite": overwrite,
    }
    with nullcontext() if out is None else claimed(out, KIND, **claim) as home:
        measures = _Measures(inputs, chosen, Findings(KIND, name or Path(predictions).stem), pair)
        with Heartbeat(f"measuring {name or Path(predictions).stem}"):
            table = measures.run(further)
        findings = measures.findings
        done = ClassifierAudit(findings.frame(), table, tuple(findings.notes), None if home is None else home.folder)
        if home is not None:
            findings.save(home.stage)
            write_whole(home.stage / "labels.csv", csv_text(table).encode())
            write_whole(home.stage / "report.txt", f"{done}\n".encode())
            home.publish()
    return done


def _another(of: Mapping[str, Any], run: Run) -> str:
    """The audit of other predictions, in words."""
    there = run.of.get("predictions")
    return "" if there == of["predictions"] else f"the audit of other predictions ({there})"


@dataclass
class _Measures:
    inputs: ClassifierInputs
    settings: ClassifierSettings
    findings: Findings
    pair: tuple[str, str] | None

    def run(self, further: Mapping[str, ImageLabels]) -> pd.DataFrame:
        """Everything that can be measured; what cannot is noted. Returns what is known of each label."""
        inputs = self.inputs
        for note in inputs.notes:
            self.findings.note(note)
        table = pd.DataFrame(
            {
                "label": inputs.labels,
                "images": inputs.truth.sum(axis=0).astype(int),
                "predicted": inputs.predicted.sum(axis=0).astype(int),
            }
        )
        if inputs.scores is None:
            self.findings.note("predictions are labels without scores: no mAP")
        else:
            precision = classify.mean_average_precision(inputs.scores, inputs.truth, seed=self.settings.seed)
            self.findings.add(precision.estimate, metric="mean_average_precision")
            table["average_precision"] = precision.by_label
        for axis, groups in stages(list(inputs.groups.items())):
            tried = [("leakage", partial(self._leakage, axis, groups))]
            tried += [("amplification", partial(self._amplification, axis, groups))]
            tried += [("recall", partial(self._recall, axis, groups, table))]
            for what, measure in stages(tried):
                self._tried(f"{what} on {axis}", measure)
            self._ratios(axis, groups, further)
        for some in combinations(inputs.groups.values(), 2):
            both = intersect(*some)
            self._tried(f"recall on {both.axis}", partial(self._recall, both.axis, both, table))
        return table

    def _tried(self, what: str, measure: Callable[[], None]) -> None:
        try:
            measure()
        except InputError as error:
            self.findings.note(f"no {what}: {error}")

    def _leakage(self, axis: str, groups: Groups) -> None:
        how: dict[str, Any] = {
            "reader": self.settings.reader,
            "weighting": self.settings.weighting,
            "folds": self.settings.folds,
            "seeds": range(self.settings.seeds),
            "ids": self.inputs.ids,
            "clusters": self.inputs.clusters,
        }
        truth = self.inputs.truth
        leakage = classify.leakage_amplification(self.inputs.predicted, truth, groups, match=self.settings.match, **how)
        keys = {"axis": axis, "variant": "labels"}
        self.findings.add(leakage.model.estimate, metric="leakage_model", **keys)
        self.findings.add(leakage.data.estimate, metric="leakage_data", **keys)
        self.findings.add(leakage.difference, metric="leakage_amplification", **keys)
        if self.inputs.scores is not None:
            scored = classify.leakage_amplification(self.inputs.scores, truth, groups, **how)
            self.findings.add(scored.model.estimate, metric="leakage_model", axis=axis, variant="scores")

    def _amplification(self, axis: str, groups: Groups) -> None:
        guessed = self.inputs.predicted_groups.get(axis)
        how: dict[str, Any] = {"items": self.inputs.labels, "draws": self.settings.draws, "seed": self.settings.seed}
        sides: list[tuple[Any, Groups]] = [("group_to_sets", groups)]
        sides += [] if guessed is None else [("undirected", guessed), ("sets_to_group", guessed)]
        for direction, predicted in sides:
            amplification = multi_attribute_amplification(
                groups, self.inputs.truth, predicted, self.inputs.predicted, direction=direction, **how
            )
            also = "an object that is predicted too often for all groups alike counts as well"
            estimate = amplification.estimate.with_notes(also if direction == "group_to_sets" else "")
            self.findings.add(estimate, metric="multi_attribute_amplification", axis=axis, variant=direction)

    def _recall(self, axis: str, groups: Groups, table: pd.DataFrame) -> None:
        recall = classify.object_recall(
            self.inputs.predicted,
            self.inputs.truth,
            groups,
            least=self.settings.least,
            draws=self.settings.draws,
            seed=self.settings.seed,
        )
        self.findings.add(recall.gap, metric="object_recall_gap", axis=axis)
        for group, estimate in recall.by_group.items():
            self.findings.add(estimate, metric="object_recall", axis=axis, group=group)
        for group, recalls in zip(recall.groups, recall.by_label, strict=True):
            name = f"recall of {group}"  # groups of two axes may have one name
            table[f"{name} ({axis})" if name in table else name] = recalls

    def _ratios(self, axis: str, groups: Groups, further: Mapping[str, ImageLabels]) -> None:
        guessed = self.inputs.predicted_groups.get(axis)
        if guessed is None and not any(axis in said.values for said in further.values()):
            self.findings.note(f"no group on {axis} is predicted: no Ratio and no artefact test")
            return
        pair = self._pair(groups)
        if pair is None:
            self.findings.note(f"{axis} has {groups.n_groups} groups: name the two of the Ratio with --pair A,B")
            return
        if guessed is not None:
            self._ratio(guessed, pair, {"axis": axis, "variant": "raw"}, labels=groups)
        masked, inpainted = further.get(MASKED), further.get(INPAINTED)
        if masked is not None and axis in masked.values:
            seen = predicted_on(masked, axis, list(masked.values[axis]), groups.names)
            self._ratio(seen, pair, {"axis": axis, "variant": "raw", "pool": MASKED})
            self._ratio(seen, pair, {"axis": axis, "variant": "folded", "pool": MASKED}, convention="folded")
        if inpainted is not None and axis in inpainted.values:
            self._tried(f"artefact test on {axis}", partial(self._artefacts, axis, guessed, inpainted, pair))

    def _pair(self, groups: Groups) -> tuple[str, str] | None:
        present = [groups.names[g] for g in np.argsort(-groups.counts(), kind="stable") if groups.counts()[g]]
        if self.pair is not None:
            return self.pair if set(self.pair) <= set(groups.names) else None
        return (present[0], present[1]) if len(present) == 2 else None

    def _ratio(self, seen: Groups, pair: tuple[str, str], keys: dict[str, str], **how: Any) -> None:
        ratio = classify.predicted_ratio(seen, pair, **how)
        if ratio.estimate is None:
            self.findings.note(f"{keys['axis']}: {ratio.notes[0]}")
        else:
            self.findings.add(ratio.estimate, metric="ratio", group=" / ".join(pair), **keys)

    def _artefacts(self, axis: str, guessed: Groups | None, inpainted: ImageLabels, pair: tuple[str, str]) -> None:
        if guessed is None:
            raise InputError("the predictions of the original images name no group")
        places = {image: place for place, image in enumerate(self.inputs.ids)}
        said_of = {image: inpainted.sources.get(image, image) for image in inpainted.values[axis]}
        origins = {image: origin_name(origin, inpainted.source, places) for image, origin in said_of.items()}
        twins = [(image, places[origin]) for image, origin in origins.items() if origin in places]
        if not twins:
            raise InputError("no inpainted image is of an image among the predictions; compare image_id or source_id")
        if len({place for _, place in twins}) < len(twins):
            raise InputError("some original has two inpainted images; give one of each")
        after = predicted_on(inpainted, axis, [image for image, _ in twins], guessed.names)
        before = guessed.take([place for _, place in twins])
        delta = classify.artefact_delta(before, after, pair, draws=self.settings.draws, seed=self.settings.seed)
        self.findings.add(delta, metric="artefact_delta", axis=axis, group=" / ".join(pair), pool=INPAINTED)
