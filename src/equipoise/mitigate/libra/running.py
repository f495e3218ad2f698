"""A synthesis into a folder: the pairs, one per line, and how many of everything there were."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from equipoise.data.atomic import write_whole
from equipoise.data.runs import claimed
from equipoise.errors import InputError
from equipoise.mitigate.libra.settings import SynthesisSettings
from equipoise.mitigate.libra.synthesis import Synthesis, synthesise

__all__ = ["PAIRS", "filler_named", "synthesise_into"]

PAIRS = "pairs.jsonl"


def filler_named(name: str, *, device: str = "") -> Any:
    """The masked language model of this name; none for ``captions``, whose words come from the captions themselves."""
    from equipoise.models import load

    if name == "captions":
        return None
    return load(name, kind="filler", **({"device": device} if device else {}))


def synthesise_into(
    out: str | Path,
    captions: Sequence[str],
    images: Sequence[str],
    settings: SynthesisSettings | None = None,
    *,
    source: str = "",
    device: str = "",
    say: Callable[[str], None] = lambda _: None,
    overwrite: bool = False,
) -> Synthesis:
    """:func:`synthesise` into the folder ``out``: ``pairs.jsonl``, and counts and settings in ``run.json``."""
    how = settings or SynthesisSettings()
    if device and how.filler == "captions" and not how.classifier.startswith("bert"):
        raise InputError(
            f"device {device!r}: neither the filler (captions) nor the classifier ({how.classifier}) runs on a device; "
            "leave it out"
        )
    filler = filler_named(how.filler, device=device)
    told = json.dumps([list(images), list(captions)], ensure_ascii=True).encode()
    of = {"captions": source, "sha256": hashlib.sha256(told).hexdigest(), "filler": getattr(filler, "key", "captions")}
    with claimed(out, "pairs", of=of, settings=how.plain(), overwrite=overwrite) as home:
        made = synthesise(captions, images, how, filler=filler, device=device, say=say)
        if not made.pairs:
            found = ", ".join(f"{n:,} {kind}" for kind, n in made.counts["found"].items())
            raise InputError(
                f"no pairs in the mix {how.mix}: the captions give {found}; give more captions, another mix, or milder "
                "filters with --set margin=0.1 or --set authenticity=0.1"
            )
        lines = (json.dumps(pair.plain(), ensure_ascii=False) + "\n" for pair in made.pairs)
        write_whole(home.stage / PAIRS, "".join(lines).encode())
        home.publish(counts=made.counts)
    return made
