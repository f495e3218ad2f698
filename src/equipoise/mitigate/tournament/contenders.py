"""Who takes part: remedies of the registry with their strengths, remedies kept in folders, and repaired checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from equipoise.data.runs import find_run
from equipoise.errors import InputError, UnknownNameError
from equipoise.mitigate.catalog import REMEDIES
from equipoise.mitigate.keeping import load
from equipoise.mitigate.tournament.balancing import BALANCINGS, STEPS


@dataclass(frozen=True)
class Contender:
    """One row of the table, and the settings among which its strength is chosen."""

    name: str
    remedy: str = ""
    """The registered name; empty for a checkpoint."""
    strengths: tuple[Mapping[str, Any], ...] = ({},)
    folder: str = ""
    """The folder of a fitted remedy."""
    checkpoint: str = ""
    """A repaired model, as ``hf:DIR``."""
    data: str = ""
    """A data remedy, by its name among :data:`~equipoise.mitigate.tournament.balancing.BALANCINGS`."""
    seen: tuple[str, ...] | None = field(default=())
    """The subjects that it was fitted on, where others fitted it; ``None`` where nobody says."""


def contenders(remedies: str | Sequence[str], checkpoints: Sequence[str] = ()) -> list[Contender]:
    """Those that are asked for: ``all``, names such as ``leace`` or ``data:sub-sampling``, and folders of remedies.

    >>> [one.name for one in contenders(["leace", "rerank:quota"])]
    ['leace', 'rerank:quota']
    >>> len(contenders("all")) > 10
    True
    """
    requests = [remedies] if isinstance(remedies, str) else list(remedies)
    taking_part: list[Contender] = []
    for request in requests:
        if request == "all":
            taking_part += [contender for entry in REMEDIES for contender in _of_entry(entry.name)]
            taking_part += [_of_data(name) for name in BALANCINGS]
        elif request in BALANCINGS:
            taking_part.append(_of_data(request))
        elif request in REMEDIES:
            taking_part += _of_entry(request)
        elif request.partition(":")[0] in REMEDIES:
            mine = {contender.name: contender for contender in _of_entry(request.partition(":")[0])}
            if request not in mine:
                raise UnknownNameError("variant of a remedy", request, mine)
            taking_part.append(mine[request])
        elif Path(request).is_dir():
            fitted = load(request)
            assert fitted.fitted_on is not None
            seen = fitted.fitted_on.subjects or None
            taking_part.append(
                Contender(f"{fitted.name} in {Path(request).name}", fitted.name, folder=str(request), seen=seen)
            )
        else:
            raise UnknownNameError("remedy", request, ["all", *REMEDIES.names(), *BALANCINGS])
    taking_part += [Contender(spec, checkpoint=spec, seen=recorded_subjects(spec)) for spec in checkpoints]
    names = [contender.name for contender in taking_part]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice:
        raise InputError(f"{twice!r} takes part twice; name each remedy once")
    if not taking_part:
        raise InputError("name at least one remedy, or all")
    return taking_part


def _of_data(name: str) -> Contender:
    """A data remedy; its strength is how long the model learns from the balanced pool."""
    return Contender(name, strengths=tuple({"steps": steps} for steps in STEPS), data=name)


def _of_entry(name: str) -> list[Contender]:
    """The rows of a registered remedy: one, or one for each of its variants."""
    info = REMEDIES.get(name).info
    strengths = tuple(info.get("strengths", ({},)))
    variants = info.get("variants", ())
    if not variants:
        return [Contender(name, name, strengths)]
    return [
        Contender(
            f"{name}:{variant}",
            name,
            tuple({"variant": variant, **dict(strength)} for strength in _possible(name, variant, strengths)),
        )
        for variant in variants
    ]


def _possible(name: str, variant: str, strengths: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The strengths that the variant takes; one that refuses all but its own has that one."""
    maker = REMEDIES.load(name)
    possible = []
    for strength in strengths:
        try:
            maker(variant=variant, **strength)
            possible.append(strength)
        except InputError:
            continue
    return possible or [{}]


def recorded_subjects(spec: str) -> tuple[str, ...] | None:
    """The subjects that a checkpoint's folder says it was fitted on; ``None`` where it says nothing."""
    folder = Path(spec.removeprefix("hf:"))
    try:
        run = find_run(folder) if folder.is_dir() else None
    except (InputError, json.JSONDecodeError):
        return None
    about = run.about.get("fitted_on") if run is not None else None
    if not isinstance(about, dict) or not about.get("subjects"):
        return None
    return tuple(sorted({*map(str, about["subjects"]), *map(str, about.get("judged_by", ()))}))
