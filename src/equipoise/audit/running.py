"""Run a suite on a model and a table; measure again without the model; compare two audits."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from equipoise.audit.captions.reading import refuse_boxes
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import EVIDENCE, Evidence
from equipoise.audit.findings import LABELS, Findings, write_frame
from equipoise.audit.folders import AuditOf, audit_folder, read_audit
from equipoise.audit.gather import from_model, from_scores, joined, labels_of, name_of, scores_table
from equipoise.audit.printing import TELLING, single_prompts, table_of
from equipoise.audit.subjects import n_unchecked_edits
from equipoise.audit.suite import EVERY_SETTING, Suite
from equipoise.audit.suites import SUITES
from equipoise.data import Table
from equipoise.data.atomic import sha256_of
from equipoise.data.labels import without_twins
from equipoise.data.manifest import TABLE_AT
from equipoise.data.readers.files.bands import numbers_note
from equipoise.data.runs import RunFolder, check_folder, find_run
from equipoise.data.sampling import some_ids
from equipoise.engine.progress import Heartbeat
from equipoise.errors import InputError, closest
from equipoise.measure.notes import add_notes, joined_over_k, note

if TYPE_CHECKING:
    from equipoise.engine import Asking
    from equipoise.models import Encoder, Precomputed


@dataclass(frozen=True)
class Audit:
    """A finished audit: its results as a table, its notes, and the folder that holds everything, if there is one."""

    suite: str
    model: str
    results: pd.DataFrame
    notes: tuple[str, ...]
    folder: Path | None
    level: float = 0.95
    """That of the intervals."""
    k_told: str = ""
    """Which K the suite chose and why, in one sentence; empty where somebody gave it."""

    def __str__(self) -> str:
        begin = [f"{self.suite}: {self.model}", *([self.k_told] if self.k_told else [])]
        lines = [*begin, self.table(), *(f"note: {note}" for note in joined_over_k(self.notes))]
        return "\n".join([*lines, *([self.verdict] if self.verdict else [])])

    def table(self, *, everything: bool = False, most: int | None = None, limit: int | None = 60) -> str:
        """The results as text, the clearest prompts below; see :func:`equipoise.audit.printing.table_of`."""
        text = table_of(self.results, everything=everything, level=self.level, most=most, limit=limit)
        single = "" if everything else single_prompts(self.results)
        return f"{text}\n\n{single}" if single else text

    @cached_property
    def verdict(self) -> str:
        """What the results say, in plain words, as on the page; empty without a folder."""
        from equipoise.report import verdict_of

        return "" if self.folder is None else verdict_of([self.folder]).text

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, the most telling rows, the notes."""
        verdict = [f"<p>{escape(self.verdict)}</p>"] if self.verdict else []
        notes = [f"<p><small>note: {escape(note)}</small></p>" for note in joined_over_k(self.notes)]
        table = f"<pre>{escape(self.table(most=TELLING))}</pre>"
        verdict += [f"<p>{escape(self.k_told)}</p>"] if self.k_told else []
        return f"<h4>{escape(self.suite)}: {escape(self.model)}</h4>" + "".join([*verdict, table, *notes])


def run(
    model: str | Encoder | Precomputed | None,
    suite: str | Suite,
    table: str | Path | Table,
    out: str | Path | None = None,
    *,
    config: AuditConfig | Mapping[str, Any] | None = None,
    scores: str | Path | Table | None = None,
    model_options: Mapping[str, Any] | None = None,
    asking: Asking | None = None,
    overwrite: bool = False,
    page: bool = True,
    **unknown: Any,
) -> Audit:
    """Ask ``model`` what ``suite`` asks, over the images of ``table``, and measure what it answers.

    What the cache knows is not encoded again. A refused audit leaves nothing behind, except what an encoder spent time
    on. A folder that holds something else, or the audit of another model, suite or table, is refused.

    Args:
        model: a spec (``"hf:…"``, ``"table:folder"``), or an object with ``encode_images`` and ``encode_texts``, or
            with vectors computed before (``image_vectors``). An object's ``name`` is shown, and without a ``key`` that
            tells it from other models nothing it gives is kept in the cache. With ``scores``, ``None`` or the name to
            show.
        suite: its name, or a suite of your own.
        table: the images and their labels, as a table or its folder; what a filter dropped is left out.
        out: the folder, if given, for ``results.parquet``, ``results.json``, ``queries.parquet``, the settings and the
            evidence, from which :func:`measure_again` needs no model.
        config: the settings, as they stand; or a mapping of those that differ from the suite's own.
        scores: a table or file of scores computed before, which takes the place of the model.
        model_options: what :func:`equipoise.models.load` is told beside a spec (``device``, ``dtype``, …).
        asking: how the model is asked (:class:`equipoise.engine.Asking`).
        overwrite: write to such a folder all the same.
        page: also write ``report.html`` into the folder.
        **unknown: refused by name, with a hint at what was probably meant.

    Returns:
        The finished audit.
    """
    _refuse_unknown(unknown)
    chosen = suite if isinstance(suite, Suite) else SUITES.load(suite)
    settings = _settings(chosen, config)
    if out is not None:
        check_folder(out, "audit", overwrite=overwrite)  # before a model is loaded
    source = table if isinstance(table, Table) else Table.open(table)
    frame = labels_of(source, chosen.reads, settings.axes)
    chosen.check(frame, settings)
    texts = list(chosen.texts(frame, settings))
    notes = frame.attrs.setdefault("label_notes", [])
    axes = chosen.axes(frame, settings) if chosen.axes else ()
    notes += filter(None, (numbers_note(axis, frame[axis].unique()) for axis in axes))
    asked: Encoder | Precomputed | Table
    if scores is not None:
        asked = scores if isinstance(scores, Table) else scores_table(scores)
        name = model if isinstance(model, str) else f"scores:{asked.path if isinstance(scores, Table) else scores}"
    elif model is None:
        raise InputError("an audit needs a model, or scores computed before (--from-scores)")
    else:
        from equipoise.models.precomputed import EmbeddingTable

        asked = _loaded(model, model_options or {})
        if isinstance(asked, EmbeddingTable):
            asked.asked_by = (chosen.name, str(source.path))
        name = name_of(asked)
        if hasattr(asked, "encode_images") and not getattr(asked, "key", ""):
            notes.append(f"{name} has no attribute 'key', so what it gives is not kept in the cache")
    of: dict[str, Any] = {"table": source.fingerprint, "model": name}
    if subset := _only_some(source):
        of["images"] = subset
        notes.append(f"only some images were asked about: {subset}")
    if not isinstance(asked, Table) and hasattr(asked, "remedy"):  # two remedies of one kind have one name
        of["remedy"] = asked.key
    of |= fitted_on(asked)  # whoever reads the audit can see whether the model had seen these subjects
    if seen_note := _seen(of, frame, hasattr(asked, "remedy")):
        notes.append(seen_note)
    about = AuditOf(chosen.name, of, settings, list(source.axes), {"table": source.fingerprint}, source.path)
    with nullcontext() if out is None else audit_folder(out, about, overwrite=overwrite) as home:
        if isinstance(asked, Table):
            evidence = from_scores(asked, frame, texts, name)
        else:
            evidence = from_model(asked, source, frame, texts, None if home is None else home.stage, asking)
            if len(evidence.frame) < len(frame):  # without the images that cannot be read, a group may be gone
                chosen.check(evidence.frame, settings)
        if home is not None:
            evidence.save(home.stage)
            home.kept_if_refused = (EVIDENCE,) if hasattr(asked, "encode_images") else ()
        findings = _found(chosen, evidence, settings)
        done = _written(findings, evidence.model, about, home)
    if page and done.folder is not None:
        write_page_into(done.folder)
    return done


def write_page_into(folder: Path) -> None:
    """Write the page beside the results; if it cannot be made, a warning says why, for the results are there."""
    from equipoise.report import write_into

    written, problem = write_into(folder)
    if written is None:
        warnings.warn(f"no report was written: {problem}", stacklevel=3)


def _refuse_unknown(unknown: Mapping[str, Any]) -> None:
    for name in unknown:
        settings = [*EVERY_SETTING, *(setting.removesuffix("s") for setting in EVERY_SETTING)]
        if name in settings or name == "axis":
            setting = {"axis": "axes"}.get(name, name if name in EVERY_SETTING else f"{name}s")
            raise InputError(f"run() takes no {name!r}; it is a setting of the suite: config={{{setting!r}: ...}}")
        near = closest(
            name, ("model_options", "scores", "asking", "overwrite", "page", "config", "device", "dtype"), n=1
        )
        near = ["model_options"] if near in (["device"], ["dtype"]) else near
        raise InputError(f"run() takes no {name!r}" + (f"; did you mean {near[0]!r}?" if near else "; see help(run)"))


def _only_some(table: Table) -> str:
    """How ``--limit`` or ``--sample`` chose among the images; empty where all are asked about."""
    configs = [layer.config for layer in table.layers if {"limit", "sample"} & set(layer.config)]
    return ", ".join(f"{name} {value}" for config in configs for name, value in config.items())


def fitted_on(asked: Any) -> dict[str, Any]:
    """The subjects that a model's remedy was fitted on, or that it was trained on here; nothing where no folder says.

    Of a training, those that decided when to stop count as well.
    """
    about = getattr(getattr(asked, "remedy", None), "fitted_on", None)
    if about is not None and about.subjects:
        return {"fitted_on": {"subjects": list(about.subjects), "table": about.table}}
    checkpoint = getattr(asked, "checkpoint", None)
    run = None if checkpoint is None else find_run(checkpoint.folder)
    seen = run.about.get("fitted_on") if run is not None and run.kind in ("training", "checkpoint") else None
    if not isinstance(seen, dict):
        return {}
    subjects = sorted({*map(str, seen.get("subjects", [])), *map(str, seen.get("judged_by", []))})
    return {"fitted_on": {"subjects": subjects, "table": str(seen.get("table", ""))}} if subjects else {}


def _seen(of: Mapping[str, Any], frame: pd.DataFrame, is_remedy: bool) -> str:
    """The note on a model that is judged on subjects which it, or its remedy, has learnt from; empty if it is not."""
    if "fitted_on" not in of or "subject" not in frame:
        return ""
    asked = set(frame["subject"].dropna().astype(str))
    seen = asked & set(of["fitted_on"]["subjects"])
    who = "the remedy" if is_remedy else "the model"
    return f"{who} has seen {len(seen)} of {len(asked)} subjects, and looks better on them than it is" if seen else ""


def texts_asked(
    suite: str | Suite, table: str | Path | Table, *, config: AuditConfig | Mapping[str, Any] | None = None
) -> list[str]:
    """Every text that ``suite`` asks over ``table``: what a model behind an API must embed, or score, beforehand.

    Args:
        suite: its name, or a suite of your own.
        table: a table of images or its folder; what the suite needs of it (subjects, captions) goes into the texts.
        config: the settings, as for :func:`run`; prompts of your own are among them.

    Returns:
        The texts, as the model must read them.
    """
    chosen: Suite = suite if isinstance(suite, Suite) else SUITES.load(suite)
    settings = _settings(chosen, config)
    frame = labels_of(table if isinstance(table, Table) else Table.open(table), chosen.reads, settings.axes)
    chosen.check(frame, settings)
    return list(chosen.texts(frame, settings))


def run_captions(
    suite: str | Suite,
    captions: str | Path,
    out: str | Path | None = None,
    *,
    config: AuditConfig | Mapping[str, Any] | None = None,
    overwrite: bool = False,
    limit: int = 0,
    sample: int = 0,
) -> Audit:
    """Run a suite that reads captions and needs no model (``captions-tfidf``), over some images or over all.

    Args:
        suite: its name, or a suite of your own; one that asks a model is refused.
        captions: a COCO file of captions, each with its ``image_id``.
        out: the folder for the results, if given.
        config: the settings, as for :func:`run`.
        overwrite: write to ``out`` even if it holds something else, or the audit of other captions.
        limit: only the captions of the first so many images; 0 takes all.
        sample: only those of so many images, drawn by the setting ``seed``; 0 takes all.

    Returns:
        The finished audit.
    """
    chosen = suite if isinstance(suite, Suite) else SUITES.load(suite)
    if chosen.needs_model:
        raise InputError(f"suite {chosen.name!r} asks a model; give MODEL and --table")
    settings = _settings(chosen, config)
    frame = captions_of_images(captions)
    of: dict[str, Any] = {"captions": str(Path(captions).resolve()), "model": None}
    if limit or sample:
        ids = frame["image_id"].astype(str)  # COCO's are numbers, and a draw is by name
        names = ids.drop_duplicates().tolist()
        frame = frame[ids.isin(some_ids(names, limit=limit, sample=sample, seed=settings.seed))]
        frame = frame.reset_index(drop=True)
        of |= {"limit": limit} if limit else {"sample": sample}
    chosen.check(frame, settings)
    about = AuditOf(chosen.name, of, settings, [], {"captions": sha256_of(Path(captions))})
    with nullcontext() if out is None else audit_folder(out, about, overwrite=overwrite) as home:
        # it brings its own models: the evidence is the captions alone
        evidence = Evidence(frame, [], model="", scores=np.empty((0, len(frame))))
        findings = _found(chosen, evidence, settings)
        return _written(findings, "", about, home)


def caption_frame(path: str | Path) -> pd.DataFrame:
    """Captions of a COCO file as a table: ``image_id`` and ``caption``; an image without captions has none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    except (ValueError, RecursionError) as error:  # the second of lists in lists in lists
        raise InputError(f"{path}: not valid JSON: {error}") from None
    annotations = data.get("annotations") if isinstance(data, dict) else None
    if not isinstance(annotations, list):
        raise InputError(f"{path}: not a COCO captions file: it has no list of 'annotations'")
    refuse_boxes(annotations, path)
    rows = []
    for number, annotation in enumerate(annotations):
        if not isinstance(annotation, dict) or not isinstance(annotation.get("caption"), str):
            raise InputError(f"{path}: annotation {number} has no caption")
        if isinstance(annotation.get("image_id"), list | dict):
            raise InputError(f"{path}: annotation {number}: 'image_id' must be a number or text")
        rows.append((annotation.get("image_id"), annotation["caption"]))
    return pd.DataFrame(rows, columns=["image_id", "caption"])


def captions_of_images(path: str | Path) -> pd.DataFrame:
    """:func:`caption_frame` of a file in which every caption says which image it is of."""
    frame = caption_frame(path)
    nameless = frame["image_id"].isna()
    if nameless.any():
        raise InputError(f"{path}: annotation {int(nameless.argmax())} has no image_id")
    return frame


def measure_again(
    folder: str | Path,
    *,
    config: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    replace: bool = False,
    overwrite: bool = False,
) -> Audit:
    """Measure an audit's evidence again, with settings changed, without the model.

    Args:
        folder: that of the audit, with its evidence; an audit of captions reads their file again.
        config: the settings to change; all others stay as they were in the audit.
        out: the folder for the results; without one they take the place of the audit's own.
        replace: let them do so with other settings too.
        overwrite: let them take the place of anything else that ``out`` holds.

    Returns:
        The audit with its new results.
    """
    home = Path(folder)
    run = read_audit(home)
    suite = SUITES.load(run.about["suite"])
    before = AuditConfig().having(run.settings)
    settings = before.having(config or {})
    target = home if out is None else check_folder(out, "audit", overwrite=overwrite)
    in_place = target.resolve() == home.resolve()
    if settings != before and not replace and in_place:
        raise InputError(f"{home}: holds results with other settings; give another folder with -o, or --replace")
    if not suite.needs_model:
        some = {name: int(run.of.get(name) or 0) for name in ("limit", "sample")}
        over = overwrite and not in_place
        return run_captions(suite, run.of["captions"], target, config=settings, overwrite=over, **some)
    at = run.about.get(TABLE_AT)
    at = home / at if isinstance(at, str) else None
    about = AuditOf(suite.name, run.of, settings, run.about["axes"], {"table": run.of.get("table")}, at)
    state = "measuring" if in_place else "running"
    with audit_folder(target, about, overwrite=overwrite and not in_place, state=state) as claimed:
        evidence = Evidence.open(home)
        evidence.frame.attrs["axes"] = evidence.frame.attrs.get("axes") or about.axes
        evidence.frame = joined(evidence.frame, settings.axes)
        suite.check(evidence.frame, settings)
        findings = _found(suite, evidence, settings)
        if findings.rankings and not in_place:  # the page counts the groups of what was ranked, and reads no vectors
            write_frame(claimed.stage / LABELS, evidence.frame)
        return _written(findings, evidence.model, about, claimed)


def _found(suite: Suite, evidence: Evidence, settings: AuditConfig) -> Findings:
    n_twins = 0
    if suite.needs_model and "placebos" not in suite.settings:
        # It counts images, and a picture with its placebo twins is one observation; the others pick for themselves.
        usual = without_twins(evidence.frame)
        n_twins = int((~usual).sum())
        evidence = evidence.some(np.flatnonzero(usual)) if n_twins else evidence
    with Heartbeat(f"measuring {suite.name}"):
        findings: Findings = suite.measure(evidence, settings)
    if n_twins:
        findings.note(f"{n_twins:,} images left out that are another one with a placebo changed")
    if not findings.rows:
        raise InputError(f"suite {suite.name!r} measured nothing: " + ("; ".join(findings.notes) or "no row was left"))
    for text in evidence.frame.attrs.get("label_notes", ()):
        findings.note(text)
    if suite.needs_model and (unchecked := n_unchecked_edits(evidence.frame)):
        pools = {row["pool"] for row in findings.rows}
        of_edits = {"edited"} & pools or pools
        for row in findings.rows:
            if row["subject"] is None and row["pool"] in of_edits:
                add_notes(row, note("unchecked_edits", edits=unchecked))
    of_groups = (row for row in findings.rows if row["metric"] != "recall_at_k")  # whose K are its own
    findings.k_told = suite.k_told(settings, [int(row["k"]) for row in of_groups if row["k"]])
    return findings


def _written(findings: Findings, model: str, about: AuditOf, home: RunFolder | None) -> Audit:
    """The audit, in its folder if it has one: everything was measured before the first file is there."""
    folder = None
    if home is not None:
        findings.save(home.stage)
        home.publish()
        folder = home.folder
    told = (about.settings.level, findings.k_told)
    return Audit(about.suite, model, findings.frame(), tuple(findings.notes), folder, *told)


def _settings(suite: Suite, config: AuditConfig | Mapping[str, Any] | None) -> AuditConfig:
    if isinstance(config, AuditConfig):
        return config
    return suite.configured(config or {})


def _loaded(model: str | Encoder | Precomputed, options: Mapping[str, Any]) -> Encoder | Precomputed:
    if isinstance(model, str):
        from equipoise.models import load

        loaded: Encoder | Precomputed = load(model, **options)
        return loaded
    if not hasattr(model, "image_vectors") and not (hasattr(model, "encode_images") and hasattr(model, "encode_texts")):
        raise InputError(
            f"the model is {type(model).__name__}; a name such as 'hf:openai/clip-vit-base-patch32' is expected, or an "
            "object with encode_images(images) and encode_texts(texts)"
        )
    return model
