"""From a model's name to the model: ``scheme:rest``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.models.protocols import KINDS
from equipoise.registry import Registry

__all__ = ["SCHEMES", "load"]

SCHEMES = Registry("model")
"""A target is called as ``target(rest, **options)``, and with ``kind=...`` for the kinds it lists besides encoders."""

SCHEMES.add(
    "mini",
    "equipoise.models.miniatures:from_mini",
    summary="The miniatures that come with the package: mini, or mini:<part>.",
    citation="Equipoise",
    licence="Apache-2.0",
    needs="models",
    kinds=("encoder", "captioner", "classifier", "generator", "detector", "filler", "reviser"),
    alone=True,
)
SCHEMES.add(
    "hf",
    "equipoise.models.hf.adapter:from_hugging_face",
    summary="A transformers checkpoint: hf:<repo>, hf:<repo>@<revision>, or hf:<local folder>.",
    citation="Wolf et al., Transformers: State-of-the-Art Natural Language Processing, EMNLP 2020",
    licence="Apache-2.0; each checkpoint has its own",
    needs="models",
    kinds=("encoder", "captioner", "classifier", "detector", "filler", "reviser"),
)
SCHEMES.add(
    "diffusers",
    "equipoise.models.diffusers.generator:from_diffusers",
    summary="A Stable Diffusion pipeline (text to image, inpainting, editing): diffusers:<repo or local folder>.",
    citation="von Platen et al., Diffusers: State-of-the-art diffusion models, 2022",
    licence="Apache-2.0; each checkpoint has its own",
    needs="models",
    kinds=("generator",),
)
SCHEMES.add(
    "open_clip",
    "equipoise.models.open_clip_encoder:from_open_clip",
    summary="An OpenCLIP model: open_clip:<arch>/<tag or file>.",
    citation="Ilharco et al., OpenCLIP, 2021, doi:10.5281/zenodo.5143773",
    licence="MIT; each checkpoint has its own",
    needs="open-clip",
)
SCHEMES.add(
    "table",
    "equipoise.models.loading:from_table",
    summary="Embeddings computed before: table:<folder>, or table:<images>,<texts>.",
    citation="Equipoise",
    licence="Apache-2.0",
)
SCHEMES.add(
    "api",
    "equipoise.models.image_api:from_api",
    summary="An image service with OpenAI's interface: api:<url>#<model>.",
    citation="OpenAI images API",
    licence="the service's own",
    kinds=("generator",),
)
SCHEMES.add(
    "mediapipe",
    "equipoise.models.faces:from_mediapipe",
    summary="Faces by MediaPipe: mediapipe:<file.tflite>.",
    citation="Bazarevsky et al., BlazeFace, arXiv 1907.05047",
    licence="Apache-2.0",
    needs="faces",
    kinds=("detector",),
)


def load(spec: str, kind: str = "encoder", **options: Any) -> Any:
    """The model that ``spec`` names, as one of the ``kinds`` (see :mod:`equipoise.models.protocols`).

    ``options``: ``device`` ("auto", "cpu", "cuda", ...), ``dtype`` ("auto", "float32", "float16", "bfloat16"),
    ``batch_size``, ``allow_pickle``; captioners also take ``num_beams``, ``max_new_tokens``, ``temperature``.

    >>> load("tabel:x")
    Traceback (most recent call last):
        ...
    equipoise.errors.UnknownNameError: there is no kind of model named 'tabel'; did you mean 'table'?
    >>> load("table:x", kind="captioner")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: 'table:x' cannot be a captioner; a name that begins with table: gives an encoder
    """
    scheme, colon, rest = spec.partition(":")
    if scheme not in SCHEMES:
        if wanted := _meant(spec):
            raise InputError(f"the model {spec!r} lacks the word that says what it is; type {wanted}")
        raise UnknownNameError("kind of model", scheme, SCHEMES.names())
    if kind not in KINDS:
        raise UnknownNameError("kind", kind, KINDS)
    entry = SCHEMES.get(scheme)
    if not rest and (colon or not entry.info.get("alone")):
        raise InputError(f"the model {spec!r} lacks what comes after the colon, as in {scheme}:<folder>")
    kinds = entry.info.get("kinds", ("encoder",))
    if kind not in kinds:
        given = " or ".join(f"{'an' if k[0] in 'aeiou' else 'a'} {k}" for k in kinds)
        raise InputError(f"{spec!r} cannot be a {kind}; a name that begins with {scheme}: gives {given}")
    return entry.load()(rest, **options) if kind == "encoder" else entry.load()(rest, kind=kind, **options)


def _meant(spec: str) -> str:
    """The name as it should be written, of a folder or file that is there, or of what looks like a repository."""
    place = Path(spec)
    if (place / "_table.json").is_file() or (place.is_file() and place.suffix.lower() in (".npz", ".npy", ".csv")):
        return f"table:{spec}"
    if (place / "model_index.json").is_file():
        return f"diffusers:{spec}"
    looks_like_a_repository = re.fullmatch(r"[\w.-]+/[\w.-]+", spec) is not None
    return f"hf:{spec}" if place.is_dir() or looks_like_a_repository else ""


def from_table(
    rest: str, *, device: str = "auto", dtype: str = "auto", batch_size: int | None = None, allow_pickle: bool = False
) -> Any:
    """Precomputed embeddings in one folder or several, separated by commas; nothing is run, so no option matters."""
    from equipoise.models.precomputed import EmbeddingTable

    return EmbeddingTable(*rest.split(","))
