"""A fitted remedy in a folder: settings and what it was fitted on as JSON, its state as safetensors, never pickle."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from equipoise.data.atomic import write_whole
from equipoise.data.runs import RUN, RunFolder, claimed, read_run
from equipoise.data.settings import fitting_all
from equipoise.errors import InputError
from equipoise.mitigate.catalog import REMEDIES
from equipoise.mitigate.protocol import FittedOn, Remedy

STATE = "state.safetensors"
OLD_STATE = "arrays.npz"
"""What held the state before; such folders are still read."""


def save(remedy: Remedy, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Keep a fitted ``remedy`` in ``folder``.

    Args:
        remedy: a fitted remedy of a registered kind; any other is refused.
        folder: new, empty, or that of a remedy, which it replaces.
        overwrite: take a folder that holds something else too; one with a table is refused all the same.

    Returns:
        The folder, as a path.
    """
    if remedy.fitted_on is None:
        raise InputError(f"the remedy {remedy.name!r} is not fitted; call fit before it is kept")
    if remedy.name not in REMEDIES:
        raise InputError(f"the remedy {remedy.name!r} is not registered, so that it could not be loaded again")
    of = {"remedy": remedy.name}
    with claimed(folder, "remedy", of=of, settings=remedy.settings(), overwrite=overwrite) as home:
        publish(remedy, home)
    return home.folder


def publish(remedy: Remedy, home: RunFolder) -> None:
    """Put a fitted remedy into its folder, with whatever else lies on the stage."""
    assert remedy.fitted_on is not None
    state = packed(remedy)
    write_whole(home.stage / STATE, state)
    home.publish(fitted_on=remedy.fitted_on.plain(), state_hash=hashlib.sha256(state).hexdigest())


def load(folder: str | Path) -> Remedy:
    """The remedy that was kept in ``folder``; a missing or damaged file is refused in one sentence."""
    home = Path(folder)
    try:
        run = read_run(home, "remedy")
    except InputError as error:
        if home.is_dir() and "is missing" not in str(error):
            raise
        raise InputError(f"{home}: no remedy here ({RUN} is missing); fit one with: equipoise mitigate") from None
    try:
        name = run.of.get("remedy") or run.about["remedy"]  # an older folder says so at the top
        fitted_on = FittedOn.from_plain(run.about["fitted_on"])
        is_old = "state_hash" not in run.about
        digest = run.about["arrays" if is_old else "state_hash"]
        kind = REMEDIES.load(name)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{home / run.file}: damaged or cut short; fit the remedy again") from None
    settings = fitting_all(kind, run.settings, what=f"setting of the remedy {name}", label=name)
    remedy: Remedy = kind(**settings)
    path = home / (OLD_STATE if is_old else STATE)
    state = _arrays_in(path, _bytes_of(path, digest))
    try:
        return remedy.restore(state, fitted_on)
    except KeyError as error:
        raise InputError(f"{path}: lacks {error}, which a remedy {name!r} keeps; fit the remedy again") from None


def fingerprint(remedy: Remedy) -> str:
    """What decides a remedy's answers, hashed: its name, settings and arrays.

    >>> from equipoise.mitigate import Projection
    >>> len(fingerprint(Projection().fit([[1.0, 0.0], [0.6, 0.8]], {"gender": ["a", "b"]})))
    16
    """
    digest = hashlib.sha256(json.dumps([remedy.name, remedy.settings()], sort_keys=True).encode())
    digest.update(packed(remedy))
    return digest.hexdigest()[:16]


def packed(remedy: Remedy) -> bytes:
    """A remedy's state as safetensors."""
    from safetensors.numpy import save as to_bytes

    state: dict[str, Any] = {name: np.ascontiguousarray(array) for name, array in sorted(remedy.state().items())}
    for name, array in state.items():
        if array.dtype.kind not in "biuf":
            raise InputError(f"the remedy {remedy.name!r} keeps {array.dtype} in {name!r}; arrays of numbers only")
    return bytes(to_bytes(state))


def _bytes_of(path: Path, digest: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError:
        raise InputError(f"{path}: missing; fit the remedy again") from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise InputError(f"{path}: not what was kept (its hash differs); fit the remedy again")
    return data


def unpacked(data: bytes) -> dict[str, Any]:
    """The reverse of :func:`packed`, as arrays."""
    from safetensors.numpy import load as from_bytes

    return dict(from_bytes(data))


def _arrays_in(path: Path, data: bytes) -> dict[str, Any]:
    from safetensors import SafetensorError

    try:
        if path.name == STATE:
            return unpacked(data)
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (SafetensorError, ValueError, KeyError, BadZipFile, OSError):
        raise InputError(f"{path}: damaged; fit the remedy again") from None
