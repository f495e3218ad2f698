"""One run over the captions of one or many models: bias amplification, quality, and the tables behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from equipoise.audit.captions.images import ImageScores
from equipoise.audit.captions.inputs import CaptionInputs, HumanCaptions, masked_captions, read_inputs
from equipoise.audit.captions.measures import CaptionMeasures, check_sizes, word_list
from equipoise.audit.captions.objects import read_objects
from equipoise.audit.captions.page import LEAST_MODELS, r_squared, save_figure, words_page
from equipoise.audit.captions.printing import caption_table, masked_table
from equipoise.audit.captions.reading import USUAL, CaptionColumns, read_records
from equipoise.audit.captions.settings import CaptionSettings
from equipoise.audit.captions.verdict import CaptionJudgement, adjust_over_models, judgements
from equipoise.audit.findings import Findings
from equipoise.audit.folders import nothing_else
from equipoise.data.atomic import sha256_of, write_whole
from equipoise.data.published import PublishedValues, add_published, published_values
from equipoise.data.runs import Run, check_folder, claimed
from equipoise.engine import Asking
from equipoise.engine.progress import Heartbeat
from equipoise.errors import InputError
from equipoise.formatting import csv_text
from equipoise.measure.captions.amplification import select_words
from equipoise.measure.stats.permutation import holm
from equipoise.pace import portion
from equipoise.text import Lexicon

if TYPE_CHECKING:
    from equipoise.audit.captions.lic import Lic

SUITE = "captions"
WORK = "_work"
"""Where finished classifier runs are kept, each under a name made of all that it depends on."""
_LIC_TAKES = 0.7
"""What share of the time of a captioner its classifiers take, more or less."""
_LEGEND = (
    "* best, ! worst; below each value its 95% interval. LIC = LIC_M - LIC_D in points, on the images and seeds of\n"
    "the references; the chance level of Ratio is the ratio of the labels; BA, DBA and quality are times 100"
)
_NO_LIC = (
    "* best, ! worst; below each value its 95% interval. Without references there is no LIC: LIC_M says that captions\n"
    "give the group away, not that they do so more than people's; BA, DBA and quality are times 100"
)


@dataclass(frozen=True)
class CaptionAudit:
    """What was found: the numbers, LIC of each model with its words and captions, and all of it as text."""

    results: pd.DataFrame
    lic: dict[str, Lic]
    words: pd.DataFrame
    """Log-odds of every word between the groups, by model."""
    dropped: pd.DataFrame
    notes: tuple[str, ...]
    folder: Path | None = None
    published: PublishedValues | None = field(default=None, repr=False)
    judgements: tuple[CaptionJudgement, ...] = ()
    """What may be said of each model: p-values adjusted over models, in four outcomes."""

    def __str__(self) -> str:
        has_lic = bool((self.results["metric"] == "lic").any())
        parts = [caption_table(self.results, published=self.published), _LEGEND if has_lic else _NO_LIC]
        approximate = sorted({lic.classifier for lic in self.lic.values() if lic.approximate})
        if approximate:
            parts.append(f"LIC by the classifier {', '.join(approximate)}: an approximation of the paper's LSTM")
        if self.published is not None:
            parts.append(f"published: {self.published.citation}")
        if self.judgements:
            parts.append("\nWhat may be said (p-values adjusted over models and metrics of one question)")
            parts += [f"  {judgement.sentence}" for judgement in self.judgements]
        masked = masked_table(self.results)
        if masked:
            parts.append(f"\nCaptions of masked images\n{masked}")
        lines = self.results[self.results["metric"] == "r_squared"]
        for row in lines.to_dict("records"):
            parts.append(
                f"R² of {'LIC' if has_lic else 'LIC_M'} against {row['subject']}: {row['value']:.2f} over {row['n']} "
                f"models (unrelated numbers: {row['null_mean']:.2f}, p = {row['p_value']:.2f})"
            )
        return "\n".join(parts)


def audit_captions(
    predictions: Sequence[str | Path],
    references: str | Path | None,
    labels: str | Path,
    out: str | Path | None = None,
    *,
    label_column: str | None = None,
    groups: Sequence[str] = (),
    objects: str | Path | None = None,
    images: str | Path | None = None,
    encoder: Any = None,
    masked: Sequence[str] = (),
    published: str | None = None,
    train_references: str | Path | None = None,
    settings: CaptionSettings | None = None,
    say: Callable[[str], None] | None = None,
    asking: Asking | None = None,
    overwrite: bool = False,
    id_column: str | Sequence[str] = "",
    caption_column: str | Sequence[str] = "",
    layers: Sequence[str] = (),
    limit: int = 0,
    sample: int = 0,
) -> CaptionAudit:
    """Measure the captions in ``predictions``, one file per model; write everything to the folder ``out`` if given.

    ``references`` are human captions (without them there is no LIC_D, BA or quality), ``labels`` a column's name or a
    file, see :func:`equipoise.audit.captions.inputs.read_inputs`. ``objects`` (COCO instances) adds DBA, ``images`` and
    ``encoder`` (a spec, or an object that encodes) CLIPScore. ``masked`` are captions on masked images, each as
    ``[MODEL:]KIND=FILE``. ``published`` shows that paper's values beside the measured. ``train_references`` are the
    human captions that the captioners learned from; the words of BA are then chosen from these, as the paper does.
    ``asking`` says how the encoder is asked; what the cache knows is not encoded again. ``id_column`` and
    ``caption_column`` name columns that are called otherwise than usual, several where files differ. ``layers`` are
    joined to tables among the files; ``limit`` takes the first images that have captions, ``sample`` draws so many.

    Results appear whole at the end: ``results.parquet`` and ``results.json``, ``run.json`` with settings, files and
    versions, ``dropped.csv``, ``captions.csv`` (each caption's bias score), ``words.csv``, ``words.html``,
    ``log_odds.csv``, ``runs.csv``, ``report.txt``, and with three models or more ``lic_vs_quality``. Classifier runs
    that are finished are kept in ``_work``: a run that was stopped goes on from there. A folder that holds something
    else is refused unless ``overwrite`` says so.
    """
    chosen, tell = settings or CaptionSettings(), say or (lambda text: None)
    folder = None if out is None else check_folder(out, SUITE, overwrite=overwrite)
    if images is not None and encoder is None:
        raise InputError("--images is for CLIPScore, which needs a model: give one with --encoder")
    java_notes = _java_notes() if chosen.java else []
    columns = CaptionColumns.named(id_column, caption_column, layers)
    columns.check_layers([path for path in (*predictions, references, labels, images) if path is not None])
    subset: dict[str, Any] = {"limit": limit, "sample": sample}
    inputs = read_inputs(
        predictions,
        references,
        labels,
        label_column=label_column,
        groups=groups,
        columns=columns,
        seed=chosen.seed,
        **subset,
    )
    trained = train_references is not None
    shown = None if published is None else published_values(published, inputs.axis, training_words=trained)
    further_notes = [] if shown is None else [f"published values: {shown.notes}"]
    of = {
        "predictions": {model.name: str(Path(model.file).resolve()) for model in inputs.models},
        "references": None if references is None else str(Path(references).resolve()),
        "labels": inputs.axis,
    }
    further = [masked_captions(spec, inputs, columns) for spec in masked]
    check_sizes(inputs, [captions for _, captions in further])
    words = word_list(chosen.lexicon, inputs)
    held = None if objects is None else read_objects(objects, columns)
    ba_words = None
    if train_references is not None:
        ba_words = training_words(train_references, words.lexicon, chosen.ba_least, columns)
    if ba_words is not None:
        further_notes.append(f"BA over {len(ba_words)} words, chosen from the training captions in {train_references}")
    ids = {name for model in inputs.models for name in model.captions}
    human = None if inputs.references is None else HumanCaptions.of(inputs.references, ids, words.lexicon)
    scores = None
    if encoder is not None:
        scores = ImageScores(_loaded(encoder), images, ids, inputs.dropped, tell, asking, columns)
    findings = Findings(SUITE, "")
    unfit = words.lexicon.unfit_for(text for model in inputs.models for text in model.captions.values())
    unruled = words.lexicon.warning or unfit
    findings.notes += [*inputs.notes, *words.notes, *([unruled] if unruled else []), *further_notes, *java_notes]
    lics: dict[str, Lic] = {}
    measured: list[Findings] = []
    log_odds = []
    files = [Path(model.file) for model in inputs.models]
    narrowed = {name: value for name, value in (subset | {"layers": list(layers)}).items() if value}
    claim: dict[str, Any] = {
        "of": of,
        "settings": chosen.plain() | narrowed,
        "accept": nothing_else(_another, of),
        "overwrite": overwrite,
    }
    claim["parents"] = {str(path): sha256_of(path) for path in files if path.is_file()}
    work = None if folder is None else folder / WORK
    with nullcontext() if folder is None else claimed(folder, SUITE, **claim) as home:
        for model in inputs.models:
            tell(f"{model.name}: {len(model.captions):,} captions")
            measures = CaptionMeasures(inputs, model, words, chosen, tell)
            with Heartbeat(f"measuring {model.name}"):
                with portion(_LIC_TAKES):
                    lics[model.name] = measures.lic(work)
                measures.mentions()
                measures.amplification(human, held, ba_words)
                measures.quality(human, scores)
                measures.sentiment()
                log_odds.append(measures.word_usage().assign(model=model.name))
                for kind, captions in further:
                    if captions.name == model.name:
                        measures.masked(kind, captions, lics[model.name], work)
            measured.append(measures.findings)
        _gather(findings, measured)
        if shown is not None:
            add_published(findings.rows, shown)
        adjusted = adjust_over_models(findings.rows)
        hidden = chosen.mask and words.fits and not unfit
        judged = judgements(findings.frame(), adjusted, masked=hidden)
        _relations(findings)
        for sentence in inputs.dropped.told():
            findings.note(f"{sentence} (listed in dropped.csv)" if folder is not None else sentence)
        done = CaptionAudit(
            findings.frame(),
            lics,
            _over_models(pd.concat(log_odds, ignore_index=True)),
            inputs.dropped.frame(),
            tuple(findings.notes),
            folder,
            shown,
            tuple(judged),
        )
        if home is not None:
            _save(home.stage, done, findings, inputs, hidden)
            others = {"objects": objects, "masked": list(masked), "encoder": encoder, "train": train_references}
            home.publish(
                others={
                    name: value if isinstance(value, list) else str(value) for name, value in others.items() if value
                },
                groups=_group_sizes(inputs),
                words_masked=hidden,
            )
    return done


def _another(of: dict[str, Any], run: Run) -> str:
    """A run over other files, in words; the same files may be measured again, with other settings too."""
    return next((f"a run over other {name}" for name, mine in of.items() if run.of.get(name) != mine), "")


def _java_notes() -> list[str]:
    """What METEOR and SPICE lack here; without METEOR the run is refused before it begins."""
    from equipoise.audit.captions.java import java_is_ready, meteor, spice_is_ready

    if not java_is_ready():
        meteor(["a dog"], [["a dog"]])  # says what is missing
    return [] if spice_is_ready() else ["SPICE is left out: the models of Stanford CoreNLP are not installed"]


def _loaded(encoder: Any) -> Any:
    if isinstance(encoder, str):
        from equipoise.models import load

        return load(encoder, kind="encoder")
    return encoder


def _gather(findings: Findings, measured: Sequence[Findings]) -> None:
    """Take over the rows of all models; a note that is true of every one is said once, others with the model's name."""
    for part in measured:
        findings.rows += part.rows
        findings.queries += part.queries
        for note in part.notes:
            common = all(note in other.notes for other in measured)
            findings.note(note if common else f"{part.model}: {note}")


def _relations(findings: Findings) -> None:
    """R² of LIC against vocabulary and BLEU-4 over the models."""
    points = _points(findings.frame())
    if points is None:
        return
    y = points["lic" if "lic" in points else "lic_m"].to_numpy(float)
    for name in ("vocabulary", "bleu_4"):
        line = r_squared(points[name].to_numpy(float), y) if name in points else None
        if line is not None:
            findings.rows.append(line.row(metric="r_squared", suite=SUITE, subject=name))


def _points(results: pd.DataFrame) -> pd.DataFrame | None:
    """One row per model with what the figure shows; ``None`` with fewer than three models."""
    main = results[results["group"].isna() & results["pool"].isna() & results["subject"].isna()]
    table = main.drop_duplicates(["model", "metric"]).pivot(index="model", columns="metric", values="value")
    columns = [name for name in ("lic", "lic_m", "vocabulary", "bleu_4") if name in table]
    table = table[columns].dropna(axis="columns").reset_index()
    return table if len(table) >= LEAST_MODELS and "vocabulary" in table else None


def _over_models(words: pd.DataFrame) -> pd.DataFrame:
    """All models' words with ``p_holm_models``: Holm over every word of every model, where ``p_holm`` is of one."""
    if "p_value" not in words or words["p_value"].isna().all():
        return words
    known = words["p_value"].notna()
    adjusted = pd.Series(float("nan"), index=words.index)
    adjusted[known] = holm(words.loc[known, "p_value"].to_numpy(float))
    return words.assign(p_holm_models=adjusted)


def _save(folder: Path, done: CaptionAudit, findings: Findings, inputs: CaptionInputs, masked: bool) -> None:
    findings.save(folder)
    frames = {
        "dropped": done.dropped,
        "captions": _stacked({name: lic.per_caption for name, lic in done.lic.items()}),
        "words": _stacked({name: lic.words for name, lic in done.lic.items()}),
        "runs": _stacked({name: lic.runs for name, lic in done.lic.items()}),
        "log_odds": done.words[["model", *[name for name in done.words if name != "model"]]],
    }
    points = _points(done.results)
    if points is not None:
        frames["lic_vs_quality"] = points
        save_figure(points, folder / "lic_vs_quality.svg")
    for name, frame in frames.items():
        write_whole(folder / f"{name}.csv", csv_text(frame).encode())
    shown = {name: (lic.per_caption, lic.words) for name, lic in done.lic.items()}
    classifier = ", ".join(sorted({lic.classifier for lic in done.lic.values()}))
    page = words_page(shown, inputs.axis, inputs.groups, classifier=classifier, masked=masked)
    write_whole(folder / "words.html", page.encode())
    notes = "".join(f"note: {note}\n" for note in done.notes)
    write_whole(folder / "report.txt", f"{done}\n\n{notes}".encode())


def _stacked(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    named = [frame.assign(model=name)[["model", *frame.columns]] for name, frame in frames.items()]
    return pd.concat(named, ignore_index=True)


def _group_sizes(inputs: CaptionInputs) -> dict[str, int]:
    """How many labelled images each group has."""
    ids = set().union(*(model.captions for model in inputs.models))
    return dict(sorted(Counter(str(inputs.labels[i]) for i in ids).items()))


def training_words(path: str | Path, lexicon: Lexicon, least: int, columns: CaptionColumns = USUAL) -> tuple[str, ...]:
    """Content words among the thousand commonest of these captions, at least ``least`` times with each group.

    ``columns`` names the columns of the file where they have other names than usual.

    Hirota et al. (CVPR 2022) have 290 of them from COCO's training captions, with ``least`` = 100.
    """
    captions = [(record.image_id, text) for record in read_records(path, columns=columns) for text in record.captions]
    human = HumanCaptions(tuple(name for name, _ in captions), tuple(text for _, text in captions), lexicon)
    chosen = select_words(human.tokens, human.named, content=human.content, exclude=lexicon.words(), least=least)
    if not chosen.words:
        raise InputError(
            f"{path}: no word stands in {least} training captions of each group; lower --ba-least, or leave it out"
        )
    return chosen.words
