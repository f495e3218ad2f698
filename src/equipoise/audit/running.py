"""Run a suite on a model and a table; measure again without the model; compare two audits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from equipoise import __version__
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.audit.gather import from_model, from_scores, labels_of
from equipoise.audit.printing import table_of
from equipoise.audit.suite import Suite
from equipoise.audit.suites import SUITES
from equipoise.data import Table
from equipoise.data.atomic import atomic_file
from equipoise.errors import InputError

if TYPE_CHECKING:
    from equipoise.models import Encoder, Precomputed

__all__ = ["Audit", "measure_again", "run", "run_captions", "texts_asked"]

CONFIG = "audit.json"


@dataclass(frozen=True)
class Audit:
    """A finished audit: its results as a table, its notes, and the folder that holds everything, if there is one."""

    suite: str
    model: str
    results: pd.DataFrame
    notes: tuple[str, ...]
    folder: Path | None

    def __str__(self) -> str:
        lines = [f"{self.suite}: {self.model}", table_of(self.results)]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def run(
    model: str | Encoder | Precomputed | None,
    suite: str | Suite,
    table: str | Path | Table,
    out: str | Path | None = None,
    *,
    config: AuditConfig | Mapping[str, Any] | None = None,
    scores: str | Path | Table | None = None,
    model_options: Mapping[str, Any] | None = None,
) -> Audit:
    """Ask ``model`` what ``suite`` asks, over the images of ``table``; write everything to the folder ``out`` if given.

    ``model`` is a spec (``"hf:…"``, ``"table:folder"``), an object that encodes, or ``None`` when ``scores`` (a table
    of scores) takes its place; ``model_options`` (``device``, ``dtype``, …) go to :func:`equipoise.models.load`. The
    folder holds ``results.parquet``, ``results.json``, ``queries.parquet``, the settings, and the evidence, from
    which :func:`measure_again` needs no model.
    """
    chosen = suite if isinstance(suite, Suite) else SUITES.load(suite)
    settings = _settings(chosen, config)
    source = table if isinstance(table, Table) else Table.open(table)
    frame = labels_of(source, chosen.reads)
    chosen.check(frame, settings)
    texts = list(chosen.texts(frame, settings))
    folder = None if out is None else Path(out)
    if scores is not None:
        given = scores if isinstance(scores, Table) else Table.open(scores)
        evidence = from_scores(given, frame, texts, model if isinstance(model, str) else f"scores:{given.path}")
    elif model is None:
        raise InputError("an audit needs a model, or scores computed before (--from-scores)")
    else:
        evidence = from_model(_loaded(model, model_options or {}), source, frame, texts, folder)
    if folder is not None:
        evidence.save(folder)
        of = {"table": source.fingerprint, "model": evidence.model}
        _save_settings(folder, chosen.name, settings, of, list(source.axes))
    return _measured(chosen, evidence, settings, folder)


def texts_asked(
    suite: str | Suite, table: str | Path | Table, *, config: AuditConfig | Mapping[str, Any] | None = None
) -> list[str]:
    """Every text that ``suite`` asks over ``table``: what a model behind an API must embed, or score, beforehand."""
    chosen: Suite = suite if isinstance(suite, Suite) else SUITES.load(suite)
    settings = _settings(chosen, config)
    frame = labels_of(table if isinstance(table, Table) else Table.open(table), chosen.reads)
    chosen.check(frame, settings)
    return list(chosen.texts(frame, settings))


def run_captions(
    suite: str | Suite,
    captions: str | Path,
    out: str | Path | None = None,
    *,
    config: AuditConfig | Mapping[str, Any] | None = None,
) -> Audit:
    """Run a suite that reads captions and needs no model (``captions-tfidf``)."""
    chosen = suite if isinstance(suite, Suite) else SUITES.load(suite)
    if chosen.needs_model:
        raise InputError(f"suite {chosen.name!r} asks a model; give MODEL and --table")
    settings = _settings(chosen, config)
    frame = caption_frame(captions)
    chosen.check(frame, settings)
    evidence = _NoModel(frame)
    folder = None if out is None else Path(out)
    if folder is not None:
        _save_settings(folder, chosen.name, settings, {"captions": str(captions), "model": None})
    return _measured(chosen, evidence, settings, folder)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _NoModel:
    """Evidence of a suite that brings its own models: the captions alone."""

    frame: pd.DataFrame
    model: str = ""


def caption_frame(path: str | Path) -> pd.DataFrame:
    """Captions of a COCO file as a table: ``image_id`` and ``caption``; an image without captions has none."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON: {error}") from None
    annotations = data.get("annotations") if isinstance(data, dict) else None
    if not isinstance(annotations, list):
        raise InputError(f"{path}: not a COCO captions file: it has no list of 'annotations'")
    rows = []
    for number, annotation in enumerate(annotations):
        if not isinstance(annotation, dict) or not isinstance(annotation.get("caption"), str):
            raise InputError(f"{path}: annotation {number} has no caption")
        rows.append((annotation.get("image_id"), annotation["caption"]))
    return pd.DataFrame(rows, columns=["image_id", "caption"])


def measure_again(
    folder: str | Path, *, config: Mapping[str, Any] | None = None, out: str | Path | None = None
) -> Audit:
    """Measure an audit's evidence again, with settings changed, without the model."""
    home = Path(folder)
    about = _read_settings(home)
    suite = SUITES.load(about["suite"])
    settings = AuditConfig().having(about["settings"]).having(config or {})
    if not suite.needs_model:
        return run_captions(suite, about["of"]["captions"], out or home, config=settings)
    evidence = Evidence.open(home)
    evidence.frame.attrs["axes"] = evidence.frame.attrs.get("axes") or about["axes"]
    suite.check(evidence.frame, settings)
    target = Path(out) if out is not None else home
    _save_settings(target, suite.name, settings, about["of"], about["axes"])
    return _measured(suite, evidence, settings, target)


def _measured(suite: Suite, evidence: Evidence, settings: AuditConfig, folder: Path | None) -> Audit:
    findings: Findings = suite.measure(evidence, settings)
    if not findings.rows:
        raise InputError(f"suite {suite.name!r} measured nothing: " + ("; ".join(findings.notes) or "no row was left"))
    if folder is not None:
        findings.save(folder)
    return Audit(suite.name, evidence.model, findings.frame(), tuple(findings.notes), folder)


def _settings(suite: Suite, config: AuditConfig | Mapping[str, Any] | None) -> AuditConfig:
    if isinstance(config, AuditConfig):
        return config
    return suite.defaults.having(config or {})


def _loaded(model: str | Encoder | Precomputed, options: Mapping[str, Any]) -> Encoder | Precomputed:
    if isinstance(model, str):
        from equipoise.models import load

        loaded: Encoder | Precomputed = load(model, **options)
        return loaded
    return model


def _save_settings(
    folder: Path, suite: str, settings: AuditConfig, of: Mapping[str, Any], axes: list[str] | None = None
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    about = {"suite": suite, "settings": settings.plain(), "of": dict(of), "equipoise": __version__, "axes": axes or []}
    with atomic_file(folder / CONFIG) as file:
        file.write(json.dumps(about, indent=1).encode())


def _read_settings(folder: Path) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"{folder}: no audit here ({CONFIG} is missing)") from None
    except ValueError as error:
        raise InputError(f"{folder / CONFIG}: damaged ({error}); run the audit again") from None
    for name in ("suite", "settings", "of", "axes"):
        if not isinstance(about, dict) or name not in about:
            raise InputError(f"{folder / CONFIG}: damaged ({name!r} is missing); run the audit again")
    return about
