"""From a model's name to the model: ``scheme:rest``; what there is to load, and what a loaded model is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.models.miniatures import miniatures
from equipoise.models.protocols import KINDS
from equipoise.registry import Registry

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
    """The model that a name stands for.

    Args:
        spec: ``scheme:rest``, such as ``hf:<repo or folder>``; ``SCHEMES`` has them all.
        kind: what it is to be, one of ``KINDS``.
        **options: ``device`` ("auto", "cpu", "cuda", ...), ``dtype`` ("auto", "float32", "float16", "bfloat16"),
            ``batch_size``, ``allow_pickle``; captioners also take ``num_beams``, ``max_new_tokens``, ``temperature``,
            and ``api:`` takes ``size``, ``quality``, ``price`` and the settings of its service.

    Returns:
        The model, with what the protocol of its kind asks for (see :mod:`equipoise.models.protocols`).

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


def catalog() -> dict[str, Any]:
    """Schemes, families of encoders, forms of captioners, and the miniatures, as plain data; no model is loaded."""
    from equipoise.models.hf.captioners import CAPTIONERS
    from equipoise.models.hf.families import FAMILIES

    def rows(registry: Any) -> list[dict[str, str]]:
        told = ("name", "summary", "citation", "licence", "needs")
        return [
            {name: getattr(entry, name) for name in told} | {"example": str(entry.info.get("example", ""))}
            for entry in registry
        ]

    parts = [
        {
            "name": f"mini:{part.name}",
            "kind": part.kind,
            "summary": part.about,
            "present": part.present,
            "folder": str(part.folder),
            "bytes": part.n_bytes,
            "figures": dict(part.figures),
        }
        for part in miniatures()
    ]
    return {"schemes": rows(SCHEMES), "encoders": rows(FAMILIES), "captioners": rows(CAPTIONERS), "miniatures": parts}


def told(found: dict[str, Any]) -> str:
    """The catalogue in lines for a person."""
    lines: list[str] = []
    for title, key in (
        ("names of models", "schemes"),
        ("encoders that hf: loads, by model_type", "encoders"),
        ("captioners that hf: loads (--kind captioner)", "captioners"),
    ):
        rows = found[key]
        width = max(len(row["name"]) for row in rows)
        lines.append(title)
        for row in rows:
            example = f"  e.g. hf:{row['example']}" if row["example"] else ""
            lines.append(f"  {row['name']:<{width}}  {row['summary']}{example}")
        lines.append("")
    lines.append(f"miniatures, each in a folder of its own in {Path(found['miniatures'][0]['folder']).parent}")
    width = max(len(part["name"]) for part in found["miniatures"])
    for part in found["miniatures"]:
        size = f"{part['bytes'] / 1e6:.1f} MB" if part["present"] else "not in this installation"
        lines.append(f"  {part['name']:<{width}}  {part['summary']} ({part['kind']}, {size})")
        lines += [f"  {'':<{width}}    {name}: {value}" for name, value in part["figures"].items()]
    return "\n".join(lines)


def described(model: Any) -> dict[str, str]:
    """What a loaded model is: family, where it lies, sizes, key."""
    about = {"model": model.name, "key": model.key}
    checkpoint = getattr(model, "checkpoint", None)
    for name, value in (
        ("family", getattr(model, "family", None)),
        ("folder", checkpoint.folder if checkpoint else None),
        ("parameters", _parameters(model)),
        ("vectors", _dim(model)),
        ("text tokens", getattr(model, "context", None)),
        ("logit scale", _scale(model)),
        ("device", getattr(model, "device", None)),
        ("numbers", str(getattr(model, "dtype", "")).removeprefix("torch.") or None),
    ):
        if value is not None:
            about[name] = str(value)
    return about


def _parameters(model: Any) -> str | None:
    inner = getattr(model, "model", None) or getattr(getattr(model, "writer", None), "model", None)
    if inner is None or not hasattr(inner, "parameters"):
        return None
    return f"{sum(weight.numel() for weight in inner.parameters()):,}"


def _dim(model: Any) -> int | None:
    if not getattr(model, "reads_texts", True):
        return int(model.dim)
    return int(model.encode_texts(["a"]).shape[1]) if hasattr(model, "encode_texts") else None


def _scale(model: Any) -> str | None:
    return f"{model.logit_scale:.3g}" if hasattr(model, "logit_scale") else None
