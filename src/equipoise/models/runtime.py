"""What every adapter needs from torch: device and number type, batches that shrink when memory is short, silence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.array_types import Vectors
from equipoise.errors import InputError, MissingExtraError, UnknownNameError, one_line
from equipoise.memory import free_memory, is_out_of_memory

DTYPES = ("auto", "float32", "float16", "bfloat16")


@dataclass(frozen=True)
class ModelSettings:
    """How a model is run; none of it but the number type changes what it answers."""

    device: str = "auto"
    """"auto" takes the first GPU there is."""
    dtype: str = "auto"
    """"auto" is float16 on a GPU and float32 elsewhere."""
    batch_size: int = 64
    """At most so many images or texts at a time; halved while memory is short."""
    allow_pickle: bool = False

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UnknownNameError("dtype", self.dtype, DTYPES)
        if not isinstance(self.batch_size, int) or self.batch_size < 1:
            raise InputError(f"batch_size must be a whole number above 0, not {self.batch_size!r}")


@contextmanager
def in_one_sentence(what: str, *passed_on: type[Exception]) -> Iterator[None]:
    """Say ``what`` could not be done, and why; settings of the wrong type fail in every way there is.

    What says so already, a lack of memory and errors that are ``passed_on`` stay as they are.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (InputError, MemoryError, *passed_on)):
            raise
        raise InputError(f"{what}: {one_line(error)}") from error


@contextmanager
def unbroken(weights: Path) -> Iterator[None]:
    """Say in one sentence that a safetensors file is not whole."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        raise InputError(f"{weights}: damaged or cut off ({one_line(error)}); download it again") from error


@contextmanager
def fitting_settings(name: str) -> Iterator[None]:
    """Say in one sentence that a model cannot be run; images and texts are whole, so its settings are not."""
    try:
        yield
    except (RuntimeError, IndexError, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, InputError) or is_out_of_memory(error):
            raise
        raise InputError(f"{name}: its settings do not fit its weights ({one_line(error)})") from error


def refuse_not_finite(batches: Sequence[Vectors], model: Any, what: str) -> None:
    """Refuse rows that are NaN or infinite, as 16 bits may make them: they would be taken for answers of ``model``."""
    first = 0
    for rows in batches:
        bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if bad.size:
            hint = "; try dtype='float32'" if model.settings.dtype != "float32" and "16" in str(model.dtype) else ""
            raise InputError(f"{model.name} gave {what} for item {first + int(bad[0])}{hint}")
        first += len(rows)


def torch_device(wanted: str) -> Any:
    """The torch device; "auto" is a GPU where there is one."""
    torch = _torch()
    if wanted == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        mps = getattr(torch.backends, "mps", None)
        return torch.device("mps" if mps is not None and mps.is_available() else "cpu")
    try:
        device = torch.device(wanted)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise InputError(f"device {wanted!r} cannot be used ({reason}); leave it out to take what there is") from None
    return device


def torch_dtype(wanted: str, device: Any) -> Any:
    """The torch number type; "auto" halves it on a CUDA GPU."""
    torch = _torch()
    if wanted == "auto":
        return torch.float16 if device.type == "cuda" else torch.float32
    return getattr(torch, wanted)


def from_transformers(*names: str) -> Any:
    """The named things of ``transformers``; says what to do where it, or a torchvision beside it, is at fault."""
    _torch()
    try:
        import transformers

        classes = [getattr(transformers, name) for name in names]
    except ModuleNotFoundError as error:
        if error.name in ("transformers", "tokenizers", "safetensors", "huggingface_hub"):
            raise MissingExtraError("models of Hugging Face", "models") from error
        raise explained(error) from error
    except AttributeError as error:
        raise InputError(f"this transformers ({transformers.__version__}) is too old: {error}") from error
    except (ImportError, RuntimeError) as error:
        raise explained(error) from error
    return classes[0] if len(names) == 1 else classes


def explained(error: Exception) -> Exception:
    """The torchvision hazard in words, if that is what it is: transformers does not always say so."""
    from importlib import import_module, metadata

    try:
        vision, torch = metadata.version("torchvision"), metadata.version("torch")
    except metadata.PackageNotFoundError:
        return error
    try:
        import_module("torchvision")
    except Exception:  # a build for another torch fails while it registers its operators
        from equipoise.diagnosis import HAZARD

        return InputError(HAZARD.format(vision=vision, torch=torch))
    return error


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise MissingExtraError("running a model", "models") from error
    return torch


def bfloat16_is_fast() -> bool:
    """Whether this processor multiplies bfloat16 matrices faster than float32 ones."""
    import torch

    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(supported()) if supported is not None else False


@contextmanager
def quiet() -> Iterator[None]:
    """Without the bars and warnings that loading prints; what matters is checked and raised by the adapters."""
    from_transformers("PreTrainedModel")
    from transformers.utils import logging

    with silenced(logging):
        yield


@contextmanager
def never_asking() -> Iterator[None]:
    """While another library calls ``transformers``: code that comes with a checkpoint is refused, and no one asked.

    Where ``trust_remote_code`` is not said, ``transformers`` asks on the terminal; with no time to answer it takes no.
    """
    try:
        from transformers import dynamic_module_utils
    except ImportError:
        yield
        return
    before = dynamic_module_utils.TIME_OUT_REMOTE_CODE
    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0
    try:
        yield
    finally:
        dynamic_module_utils.TIME_OUT_REMOTE_CODE = before


@contextmanager
def silenced(logging: Any) -> Iterator[None]:
    """Without the bars and warnings of a library that keeps its ``logging`` as transformers and diffusers do."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def in_batches(
    run: Callable[[Sequence[Any]], Any],
    items: Sequence[Any],
    size: int,
    *,
    weight: Callable[[Any], int] = lambda _: 0,
    most: int = 0,
) -> list[Any]:
    """``run`` of the items in batches of at most ``size``, halved each time memory runs out; one result per batch.

    With a ``weight``, a batch weighs no more than ``most``, or is a single item.

    >>> def only_two(batch):
    ...     if len(batch) > 2:
    ...         raise MemoryError
    ...     return sum(batch)
    >>> in_batches(only_two, range(5), 4)
    [1, 5, 4]
    """
    results: list[Any] = []
    start = 0
    while start < len(items):
        batch = items[start : start + size]
        batch = batch[: _fitting(map(weight, batch), most)]
        try:
            results.append(run(batch))
        except Exception as error:
            if len(batch) == 1 or not is_out_of_memory(error):
                raise
            size = (len(batch) + 1) // 2
        else:
            start += len(batch)
            continue
        # Outside the handler: the exception's frames held the memory that the retry needs.
        free_memory()
    return results


def _fitting(weights: Iterable[int], most: int) -> int:
    """How many of the items fit into ``most`` together; one at least.

    >>> _fitting([3, 3, 3], 7), _fitting([9, 1], 7), _fitting([0, 0], 0)
    (2, 1, 9223372036854775807)
    """
    total = 0
    for n, weight in enumerate(weights):
        total += weight
        if n and total > most:
            return n
    return sys.maxsize
