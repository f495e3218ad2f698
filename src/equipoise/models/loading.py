"""From a model's name to the model: ``scheme:rest``."""

from __future__ import annotations

from typing import Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.registry import Registry

__all__ = ["SCHEMES", "load"]

SCHEMES = Registry("model")
SCHEMES.add(
    "table",
    "equipoise.models.loading:from_table",
    summary="Embeddings computed before: table:<folder>, or table:<images>,<texts>.",
    citation="Equipoise",
    licence="Apache-2.0",
)


def load(spec: str, **options: Any) -> Any:
    """The model that ``spec`` names: ``table:<folder>``, or a scheme that another package added.

    >>> load("tabel:x")
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no kind of model named 'tabel'; did you mean 'table'?
    """
    scheme, colon, rest = spec.partition(":")
    if scheme not in SCHEMES:
        raise UnknownNameError("kind of model", scheme, SCHEMES.names())
    if not colon or not rest:
        raise InputError(f"the model {spec!r} lacks what comes after the colon, as in {scheme}:<folder>")
    return SCHEMES.load(scheme)(rest, **options)


def from_table(rest: str) -> Any:
    """Precomputed embeddings in one folder or several, parted by commas."""
    from equipoise.models.precomputed import EmbeddingTable

    return EmbeddingTable(*rest.split(","))
