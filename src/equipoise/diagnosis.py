"""What this machine has: versions, extras, the torch build, the torchvision hazard, the cache, the plugins."""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

from equipoise import __version__
from equipoise.engine.cache import cache_root
from equipoise.errors import install_line
from equipoise.registry import Plugin, plugins

CORE = ("numpy", "scipy", "pandas", "scikit-learn", "pyarrow", "pillow", "typer", "jinja2", "tqdm")
EXTRAS: dict[str, tuple[str, ...]] = {
    "models": ("torch", "transformers", "diffusers", "safetensors", "sentencepiece"),
    "train": ("accelerate", "peft"),
    "open-clip": ("open_clip_torch",),
    "ray": ("ray",),
    **({"review": ("fastapi", "uvicorn")} if find_spec("equipoise.review") else {}),
    "faces": ("mediapipe",),
    "lpips": ("lpips",),
    "java-metrics": ("pycocoevalcap",),
    "docs": ("mkdocs-material", "mkdocstrings"),
    "dev": ("pytest", "hypothesis", "ruff", "mypy"),
}
REGISTRIES = {
    "captioner": "equipoise.models.hf.captioners:CAPTIONERS",
    "encoder": "equipoise.models.hf.families:FAMILIES",
    "export": "equipoise.data.exports:EXPORTS",
    "filter": "equipoise.filters.protocol:FILTERS",
    "lexicon": "equipoise.text.lexicon:LEXICONS",
    "loss": "equipoise.train.losses:LOSSES",
    "metric": "equipoise.measure:METRICS",
    "model": "equipoise.models.loading:SCHEMES",
    "reader": "equipoise.data.readers:READERS",
    "recipe": "equipoise.recipes.studies:STUDIES",
    "remedy": "equipoise.mitigate.catalog:REMEDIES",
    "suite": "equipoise.audit.suites:SUITES",
    "task": "equipoise.train.task:TASKS",
}
"""Where the names of each kind are."""
HAZARD = (
    "torchvision {vision} was built for another torch than {torch}: importing transformers' image models will fail "
    "with 'operator torchvision::nms does not exist'. Equipoise does not need torchvision: pip uninstall torchvision, "
    "or install the build that matches your torch."
)


def examine() -> dict[str, Any]:
    """Everything ``equipoise doctor`` tells, as plain data; nothing heavy is imported except torch if it is there."""
    return {
        "equipoise": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "executable": sys.executable,
        "cores": os.cpu_count(),
        "core": {name: _version(name) for name in CORE},
        "extras": {name: _extra(name, packages) for name, packages in EXTRAS.items()},
        "torch": _torch(),
        "torchvision": _torchvision(),
        "cache": _cache(),
        "plugins": [
            {"name": p.name, "adds": {k: [e.name for e in v] for k, v in p.entries.items()}, "problem": _problem(p)}
            for p in plugins()
        ],
    }


def _problem(plugin: Plugin) -> str:
    """Why what a plugin adds cannot be used; empty if all of it can."""
    problems = [plugin.problem] if plugin.problem else []
    for kind, entries in plugin.entries.items():
        module, _, name = REGISTRIES.get(kind, "").partition(":")
        taken: Any = getattr(import_module(module), name) if module else {}
        for entry in entries:
            try:
                entry.load()
            except Exception as error:  # another package's code may fail in any way
                problems.append(f"{kind} {entry.name!r} cannot be loaded: {error}")
                continue
            if entry.name in taken and taken.get(entry.name).target != entry.target:
                problems.append(f"{kind} {entry.name!r} is left out: the name is taken; choose another")
    return "; ".join(problems)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extra(name: str, packages: tuple[str, ...]) -> dict[str, Any]:
    versions = {package: _version(package) for package in packages}
    present = all(versions.values())
    return {"present": present, "packages": versions, "install": install_line(name)}


def _torch() -> dict[str, Any] | None:
    if find_spec("torch") is None:
        return None
    try:
        import torch
    except Exception as error:  # a broken install can fail in any way; the doctor reports it
        return {"version": _version("torch"), "problem": f"{type(error).__name__}: {error}"}
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": torch.cuda.device_count(),
        "threads": torch.get_num_threads(),
        "problem": "",
    }


def _torchvision() -> dict[str, Any] | None:
    """Whether torchvision is there and fits torch; told without importing it, because that may itself fail."""
    vision, torch = _version("torchvision"), _version("torch")
    if vision is None:
        return None
    return {"version": vision, "hazard": HAZARD.format(vision=vision, torch=torch) if _differ(vision, torch) else ""}


def _differ(vision: str, torch: str | None) -> bool:
    """Whether the builds differ: a torch of one kind (cpu, cu126) and a torchvision of another, or another release.

    torchvision 0.N goes with torch 2.(N-15); PyPI's Linux builds carry no suffix and are CUDA builds.
    """
    if torch is None:
        return True
    vision_release, _, vision_build = vision.partition("+")
    torch_release, _, torch_build = torch.partition("+")
    if vision_build != torch_build:
        return True
    try:
        return int(vision_release.split(".")[1]) - 15 != int(torch_release.split(".")[1])
    except (IndexError, ValueError):
        return False


def _cache() -> dict[str, Any]:
    folder = cache_root()
    size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) if folder.is_dir() else 0
    return {"folder": str(folder), "exists": folder.is_dir(), "bytes": size}


def tell(found: dict[str, Any]) -> str:
    """The findings in lines for a person."""
    lines = [
        f"equipoise {found['equipoise']}, Python {found['python']}, {found['cores']} cores",
        f"  {found['platform']}",
        "core",
        *(f"  {name:14} {version or 'MISSING: pip install equipoise'}" for name, version in found["core"].items()),
        "extras",
    ]
    for name, extra in found["extras"].items():
        have = ", ".join(f"{p} {v}" for p, v in extra["packages"].items() if v)
        lines.append(f"  {name:14} {have if extra['present'] else 'absent: ' + extra['install']}")
    torch = found["torch"]
    if torch is None:
        lines.append("torch            absent: models cannot be run, tables can be measured")
    elif torch["problem"]:
        lines.append(f"torch            {torch['version']} does not import: {torch['problem']}")
    else:
        build = f"CUDA {torch['cuda']}, {torch['gpus']} GPUs" if torch["cuda"] else "CPU build"
        lines.append(f"torch            {torch['version']}, {build}, {torch['threads']} threads")
    vision = found["torchvision"]
    if vision is None:
        lines.append("torchvision      absent, and not needed")
    else:
        lines.append(
            f"torchvision      {vision['version']}" + (f"\n  HAZARD: {vision['hazard']}" * bool(vision["hazard"]))
        )
    cache = found["cache"]
    lines.append(f"cache            {cache['folder']} ({cache['bytes'] / 1e6:.1f} MB)")
    for plugin in found["plugins"]:
        adds = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in plugin["adds"].items())
        lines.append(f"plugin           {plugin['name']}: {plugin['problem'] or adds}")
    return "\n".join(lines)
