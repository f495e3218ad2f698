"""A fitted remedy in a folder: settings and what it was fitted on as JSON, arrays as plain numpy, never pickle."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from equipoise import __version__
from equipoise.data.atomic import write_whole
from equipoise.errors import InputError
from equipoise.mitigate.catalog import REMEDIES
from equipoise.mitigate.protocol import FittedOn, Remedy

__all__ = ["ARRAYS", "NOTE", "fingerprint", "load", "save"]

NOTE, ARRAYS = "remedy.json", "arrays.npz"


def save(remedy: Remedy, folder: str | Path) -> Path:
    """Keep a fitted ``remedy`` in ``folder`` (new, empty, or that of a remedy, which it replaces)."""
    if remedy.fitted_on is None:
        raise InputError(f"the remedy {remedy.name!r} is not fitted; call fit before it is kept")
    if remedy.name not in REMEDIES:
        raise InputError(f"the remedy {remedy.name!r} is not registered, so that it could not be loaded again")
    home = Path(folder)
    check_free(home)
    home.mkdir(parents=True, exist_ok=True)
    arrays = _packed(remedy)
    note = {
        "remedy": remedy.name,
        "settings": remedy.settings(),
        "fitted_on": remedy.fitted_on.plain(),
        "arrays": hashlib.sha256(arrays).hexdigest(),
        "equipoise": __version__,
    }
    write_whole(home / ARRAYS, arrays)
    write_whole(home / NOTE, (json.dumps(note, indent=1, ensure_ascii=False) + "\n").encode())
    return home


def load(folder: str | Path) -> Remedy:
    """The remedy that was kept in ``folder``; a missing or damaged file is refused in one sentence."""
    home = Path(folder)
    try:
        note = json.loads((home / NOTE).read_text(encoding="utf-8"))
        name, settings, digest = note["remedy"], note["settings"], note["arrays"]
        fitted_on = FittedOn.from_plain(note["fitted_on"])
    except OSError:
        raise InputError(f"{home}: no remedy here ({NOTE} is missing); fit one with: equipoise mitigate") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{home / NOTE}: damaged or cut short; fit the remedy again") from None
    made: Remedy = REMEDIES.load(name)(**settings)
    return made.restore(_unpacked(home / ARRAYS, digest), fitted_on)


def fingerprint(remedy: Remedy) -> str:
    """What decides a remedy's answers, hashed: its name, settings and arrays.

    >>> from equipoise.mitigate import Projection
    >>> len(fingerprint(Projection().fit([[1.0, 0.0], [0.6, 0.8]], {"gender": ["a", "b"]})))
    16
    """
    digest = hashlib.sha256(json.dumps([remedy.name, remedy.settings()], sort_keys=True).encode())
    digest.update(_packed(remedy))
    return digest.hexdigest()[:16]


def check_free(home: Path) -> None:
    """Refuse a file, no name, and a folder that holds something other than a remedy."""
    if not str(home).strip() or home == Path():
        raise InputError("the folder for the remedy has no name; give one with -o")
    if home.exists() and not home.is_dir():
        raise InputError(f"{home}: is a file; give a folder with -o")
    if home.is_dir() and not (home / NOTE).exists() and any(home.iterdir()):
        raise InputError(f"{home}: holds files but no remedy ({NOTE}); give a new or an empty folder with -o")


def _packed(remedy: Remedy) -> bytes:
    out = io.BytesIO()
    state: dict[str, Any] = {name: np.ascontiguousarray(array) for name, array in sorted(remedy.state().items())}
    for name, array in state.items():
        if array.dtype.hasobject:
            raise InputError(f"the remedy {remedy.name!r} keeps Python objects in {name!r}; arrays of numbers only")
    np.savez(out, **state)
    return out.getvalue()


def _unpacked(path: Path, digest: str) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError:
        raise InputError(f"{path}: missing; fit the remedy again") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise InputError(f"{path}: not what was kept (its hash differs); fit the remedy again")
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, BadZipFile, OSError):
        raise InputError(f"{path}: damaged; fit the remedy again") from None
