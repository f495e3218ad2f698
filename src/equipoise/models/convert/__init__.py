"""Published checkpoints of other code, turned into folders that ``hf:<folder>`` loads.

:func:`slip`, :func:`laclip`, :func:`alip`, :func:`openai_clip` (any ViT CLIP in OpenAI's or OpenCLIP's key layout),
:func:`debias_clip` and :func:`clipcap`. A pickle is opened only with ``allow_pickle=True``, and then only by torch's
restricted reader, which builds tensors and plain values and runs no code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from equipoise.data.runs import claimed, same_only
from equipoise.errors import InputError, UnknownNameError
from equipoise.models.convert.captioners import clipcap
from equipoise.models.convert.encoders import alip, debias_clip, laclip, openai_clip, slip

__all__ = ["CONVERTERS", "alip", "clipcap", "converted", "debias_clip", "laclip", "openai_clip", "slip"]

CONVERTERS: dict[str, Callable[..., Path]] = {
    "alip": alip,
    "clipcap": clipcap,
    "debias-clip": debias_clip,
    "laclip": laclip,
    "openai-clip": openai_clip,
    "slip": slip,
}


def converted(form: str, source: str | Path, target: str | Path, *, overwrite: bool = False, **options: Any) -> Path:
    """Convert a checkpoint; an option that the converter lacks or does not take is refused by name.

    The folder appears whole or not at all, and takes the place of nothing but an earlier conversion of the same file
    with the same options.

    Args:
        form: the converter, one of ``CONVERTERS``.
        source: the checkpoint's file (of ``debias-clip``, that of its tokens).
        target: the folder to make.
        overwrite: allow a folder that holds anything but a table; what another run left there is removed.
        **options: the converter's own, such as ``tokenizer``.

    Returns:
        The folder, which ``hf:<folder>`` loads.

    >>> converted("alip", "alip.pt", "out")
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: alip needs tokenizer (--tokenizer)
    """
    if form not in CONVERTERS:
        raise UnknownNameError("converter", form, CONVERTERS)
    taken = inspect.signature(CONVERTERS[form]).parameters
    named = {name: value for name, value in taken.items() if value.kind is value.KEYWORD_ONLY}
    for name in options:
        if name not in named:
            raise InputError(f"{form} does not take {name} ({_flag(name)}); it takes {', '.join(map(_flag, named))}")
    for name, value in named.items():
        if value.default is value.empty and name not in options:
            raise InputError(f"{form} needs {name} ({_flag(name)})")
    of = {"form": form, "source": str(source)}
    settings = {name: value if isinstance(value, bool | int) else str(value) for name, value in options.items()}
    accept = same_only("conversion", of, settings)
    with claimed(target, "conversion", of=of, settings=settings, accept=accept, overwrite=overwrite) as home:
        CONVERTERS[form](source, home.stage, **options)
        home.publish()
    return home.folder


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
