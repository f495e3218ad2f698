"""Fit a remedy on some subjects of a table, images or prompts of them; keep the others apart to judge it by."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise import engine
from equipoise.data import Table
from equipoise.data.labels import set_names, with_joined_labels
from equipoise.data.runs import claimed, same_only
from equipoise.data.sampling import split
from equipoise.engine.progress import Heartbeat
from equipoise.errors import InputError, UnknownNameError
from equipoise.mitigate.keeping import load, publish
from equipoise.mitigate.prompts import PromptSets, default_prompts
from equipoise.mitigate.protocol import Remedy
from equipoise.models.protocols import Encoder, Precomputed
from equipoise.train.rows import sharing

HELD_OUT = "held_out"
"""The layer in a remedy's folder that keeps the subjects alone which it has not seen."""

UNNAMED = "unnamed"
"""The group of a prompt on an axis of which it says nothing, though it names a group on another."""


def held_out_subjects(table: Table, share: float = 0.5, *, seed: int = 0) -> list[str]:
    """The subjects to keep apart: a ``share`` of the table's, drawn by ``seed``, never a part of a subject."""
    if not 0 < share < 1:
        raise InputError(f"share={share}: a share of the subjects between 0 and 1 is kept apart, such as 0.5")
    frame = _labels(table, [])
    frame = frame[frame["subject"].notna()].reset_index(drop=True)
    parts = split(frame, by="subject", fractions={"fit": 1 - share, "held_out": share}, seed=seed)
    return sorted(frame["subject"][parts == "held_out"].unique())


def fit_on_table(
    remedy: Remedy,
    model: Encoder | Precomputed,
    table: Table,
    axes: Sequence[str],
    *,
    held_out: Collection[str] = (),
    asking: engine.Asking | None = None,
    prompts: PromptSets | None = None,
) -> Remedy:
    """Fit ``remedy`` on the images of ``table`` whose subject is not ``held_out``, and record what it has seen.

    What a filter dropped is not used, nor is what the table's ``split`` calls ``test``. An image that cannot be read is
    left out; too many of them are refused. Test images and unreadable ones are noted (``fitted_on.notes``).

    Args:
        remedy: what is fitted, in place.
        model: whose vectors it learns from; the remedy is for this model alone then.
        table: images, which are compared with the others of their ``set_id`` where the table has sets.
        axes: whose groups are told apart; at least one.
        held_out: subjects to judge the remedy by. Images without a subject that share a set or a source image with
            theirs are left out too, and noted.
        asking: how the model is asked; what the cache knows is not encoded again.
        prompts: for a remedy that learns from texts, and refused by others; unless given, the usual ones for the
            groups, and for the subjects that are not held out where the remedy names subjects
            (:func:`equipoise.mitigate.prompts.default_prompts`).

    Returns:
        The same ``remedy``, fitted.
    """
    if not axes:
        raise InputError(f"name the axes to repair; {table.path} has {', '.join(table.axes) or 'none'}")
    frame = _labels(table, axes)
    unknown = sorted(set(held_out) - set(frame["subject"].dropna()))
    if unknown:
        raise UnknownNameError(f"subject in {table.path}", unknown[0], frame["subject"].dropna().unique())
    apart = frame["subject"].isin(list(held_out)).to_numpy(dtype=bool)
    edits = np.zeros(len(frame), dtype=bool)
    edits[~apart] = frame["subject"][~apart].isna() & sharing(frame[~apart], frame[apart])
    use = ~apart & ~edits
    if not use.any():
        raise InputError(f"{table.path}: all subjects are held out; nothing is left to fit the remedy on")
    tests = use & of_test(frame)
    if (tests == use).all():
        raise InputError(f"{table.path}: all images left are of the split test; nothing is left to fit the remedy on")
    notes = [f"{int(tests.sum()):,} images of the split test are not used"] if tests.any() else []
    if edits.any():
        shared = "share a set or a source image with held-out subjects and are not used"
        notes.append(f"{int(edits.sum()):,} images without a subject {shared}")
    mine = frame.assign(set_id=set_names(frame))[use & ~tests].reset_index(drop=True)
    subjects = tuple(sorted(map(str, mine["subject"].dropna().unique())))
    if remedy.learns_from == "texts":
        groups = {axis: sorted(map(str, mine[axis].dropna().unique())) for axis in axes}
        named = subjects if getattr(remedy, "names_subjects", False) else ()
        fit_on_prompts(remedy, model, prompts or _usual_prompts(remedy, groups, named), asking=asking)
        assert remedy.fitted_on is not None
        if prompts is None:
            remedy.fitted_on = replace(remedy.fitted_on, table=table.fingerprint, subjects=subjects, notes=tuple(notes))
        return remedy
    if prompts is not None:
        raise InputError(f"the remedy {remedy.name!r} learns from images, not from prompts; leave them out")
    unreadable = engine.Unreadable(table.path, len(mine), (asking or engine.Asking()).max_broken)
    vectors = engine.vectors(model, table, asking, ids=mine["image_id"].tolist(), unreadable=unreadable)
    if unreadable.reasons:
        read = ~mine["image_id"].isin(list(unreadable.reasons)).to_numpy(dtype=bool)
        vectors, mine = vectors[read], mine[read].reset_index(drop=True)
        subjects = tuple(sorted(map(str, mine["subject"].dropna().unique())))
    sets = None
    if mine["set_id"].notna().any():
        sets = [None if pd.isna(name) else str(name) for name in mine["set_id"]]
    with Heartbeat(f"fitting {remedy.name}"):
        remedy.fit(vectors, {axis: mine[axis].tolist() for axis in axes}, sets=sets)
    assert remedy.fitted_on is not None
    remedy.fitted_on = replace(
        remedy.fitted_on,
        model=model.name,
        key=model.key,
        table=table.fingerprint,
        notes=(*notes, *unreadable.notes()),
        subjects=subjects,
    )
    return remedy


def _usual_prompts(remedy: Remedy, groups: Mapping[str, Sequence[str]], subjects: Sequence[str]) -> PromptSets:
    apart = remedy.settings().get("variant") == "calibrated"
    return default_prompts(groups, subjects, people_apart=apart)


def fit_on_prompts(
    remedy: Remedy, model: Encoder | Precomputed, prompts: PromptSets, *, asking: engine.Asking | None = None
) -> Remedy:
    """Fit a ``remedy`` that learns from texts on the vectors of ``prompts``.

    Args:
        remedy: what is fitted, in place; one that learns from images is refused.
        model: what gives the vectors; the remedy is for this model alone then.
        prompts: texts with their groups and sets. One that names a group on some axis is "unnamed" on the others; one
            that names none is neutral.
        asking: how the model is asked; what the cache knows is not encoded again.

    Returns:
        The same ``remedy``, fitted.
    """
    if remedy.learns_from != "texts":
        raise InputError(f"the remedy {remedy.name!r} learns from images, not from prompts; give it a table")
    vectors = engine.vectors(model, list(prompts.texts), asking)
    remedy.fit(vectors, _filled(prompts), sets=list(prompts.sets))
    assert remedy.fitted_on is not None
    remedy.fitted_on = replace(remedy.fitted_on, model=model.name, key=model.key)
    return remedy


def _filled(prompts: PromptSets) -> dict[str, list[str | None]]:
    """The groups of each prompt; one that names a group on some axis is "unnamed" on the others, not neutral.

    A remedy that needs a group on every axis would otherwise drop whatever names a group on one axis alone.
    """
    named = [any(groups[i] is not None for groups in prompts.groups.values()) for i in range(len(prompts.texts))]
    several = len(prompts.groups) > 1
    return {
        axis: [
            UNNAMED if several and said and group is None else group for group, said in zip(groups, named, strict=True)
        ]
        for axis, groups in prompts.groups.items()
    }


def fit_into_folder(
    remedy: Remedy,
    model: Encoder | Precomputed,
    table: Table,
    axes: Sequence[str],
    out: str | Path,
    *,
    share: float = 0.5,
    seed: int = 0,
    asking: engine.Asking | None = None,
    prompts: PromptSets | None = None,
    overwrite: bool = False,
) -> tuple[Remedy, list[str]]:
    """Fit ``remedy``, keep it in the folder ``out`` with the layer ``held_out``; gives it and the subjects kept apart.

    A ``share`` of the subjects, drawn by ``seed``, is kept apart; 0 keeps none. A remedy that is there already is given
    back if it was fitted in the same way, and another one is refused unless ``overwrite`` says so.
    """
    of: dict[str, Any] = {
        "remedy": remedy.name,
        "model": model.key,
        "table": list(table.fingerprints),
        "axes": list(axes),
    }
    of |= {"held_out": {"share": share, "seed": seed}}
    if of_test(_labels(table, [])).any():
        of |= {"without": "test"}
    if prompts is not None:
        groups = {axis: list(names) for axis, names in prompts.groups.items()}
        of |= {"prompts": [list(prompts.texts), list(prompts.sets), groups]}
    apart = held_out_subjects(table, share, seed=seed) if share else []
    claim: dict[str, Any] = {"of": of, "settings": remedy.settings(), "parents": {"table": table.fingerprint}}
    accept = same_only("remedy", of, remedy.settings())
    with claimed(out, "remedy", **claim, accept=accept, overwrite=overwrite) as home:
        if home.before is not None and home.before.finished:
            return load(home.folder), apart
        fit_on_table(remedy, model, table, axes, held_out=apart, asking=asking, prompts=prompts)
        if apart:
            held_out_layer(table, apart, home.stage / HELD_OUT)
        publish(remedy, home)
    return remedy, apart


def held_out_layer(table: Table, held_out: Collection[str], path: str | Path) -> Path:
    """A layer that keeps the images of ``held_out`` subjects alone: audit with it, and the remedy is judged fairly.

    ``dropped_by`` says ``fitted_on`` of images of the other subjects, but not of those that no remedy learns from: what
    a filter dropped, and the split test. It says nothing of images without a subject, which some remedies learn from.

    Args:
        table: the table that the remedy was fitted on; what its filters dropped stays dropped.
        held_out: the subjects that the remedy has not seen.
        path: the folder that the layer is written to.

    Returns:
        The layer's folder, as a path.
    """
    frame = table.to_pandas(["image_id", "subject", "split"])
    keep = frame["subject"].isin(list(held_out)).to_numpy(dtype=bool)
    seen = ~keep & frame["subject"].notna().to_numpy(dtype=bool) & ~of_test(frame)
    if "keep" in table.columns:
        kept = set(table.to_pandas(["image_id"], only_kept=True)["image_id"])
        there = frame["image_id"].isin(kept).to_numpy(dtype=bool)
        keep, seen = keep & there, seen & there
    reasons = pd.Series(["fitted_on" if learnt else None for learnt in seen], dtype=object)
    rows = pd.DataFrame({"image_id": frame["image_id"], "keep": keep, "dropped_by": reasons})
    config = {"held_out": sorted(held_out)}
    columns = {"keep": "bool", "dropped_by": "string"}
    table.add_layer("held_out", rows, columns=columns, config=config, uses=table.fingerprints[1:], path=path)
    return Path(path)


def seen_subjects(remedy: Remedy, table: Table) -> list[str]:
    """The subjects of ``table`` that ``remedy`` was fitted on; empty if it was judged fairly or cannot be known."""
    if remedy.fitted_on is None or "subject" not in table.columns:
        return []
    there = set(_labels(table, [])["subject"].dropna().astype(str))
    return sorted(there & set(remedy.fitted_on.subjects))


def _labels(table: Table, axes: Sequence[str]) -> pd.DataFrame:
    for axis in axes:
        if axis not in table.types:
            raise UnknownNameError(f"axis of {table.path}", axis, table.axes)
    names = list(dict.fromkeys(["image_id", "set_id", "subject", "source_id", "split", *axes]))
    frame = table.to_pandas(names, only_kept="keep" in table.columns).reset_index(drop=True)
    return with_joined_labels(frame, axes)[0]


def of_test(frame: pd.DataFrame) -> NDArray[np.bool_]:
    """(n,) which rows are kept for tests, by the table's ``split``."""
    return np.asarray(frame["split"].astype("string").str.lower().eq("test").fillna(False), dtype=bool)
