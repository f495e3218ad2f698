"""What there is to load, and what a loaded model is: for people and for programs."""

from __future__ import annotations

from typing import Any

from equipoise.models.hf.families import FAMILIES
from equipoise.models.loading import SCHEMES
from equipoise.models.miniatures import miniatures

__all__ = ["catalog", "described", "told"]


def catalog() -> dict[str, Any]:
    """Schemes, families of encoders, forms of captioners, and the miniatures, as plain data; no model is loaded."""
    from equipoise.models.hf.captioners import CAPTIONERS

    def rows(registry: Any) -> list[dict[str, str]]:
        return [
            {
                "name": entry.name,
                "summary": entry.summary,
                "citation": entry.citation,
                "licence": entry.licence,
                "needs": entry.needs,
                "example": str(entry.info.get("example", "")),
            }
            for entry in registry
        ]

    parts = [
        {
            "name": f"mini:{part.name}",
            "kind": part.kind,
            "summary": part.about,
            "present": part.present,
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
    lines.append("miniatures")
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
