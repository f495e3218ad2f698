"""Which weights move: all of them, the last layers of each tower, or low-rank adapters beside the matrices."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from equipoise.errors import InputError, MissingExtraError

Merge = Callable[[], None]
"""Puts what was trained beside the weights into them."""


def choose_parameters(
    model: Any, *, freeze: Sequence[str] = (), last_layers: int = 0, low_rank: int = 0, new: Sequence[str] = ()
) -> Merge:
    """Let only the chosen weights of ``model`` move, and give what makes a stock model of it afterwards.

    ``new`` names parts that begin with random weights; they are trained whatever else is.
    """
    merge = _adapters(model, low_rank) if low_rank else lambda: None
    if last_layers:
        _freeze_early(model, last_layers)
    for prefix in freeze:
        named = [p for name, p in model.named_parameters() if name == prefix or name.startswith(prefix + ".")]
        if not named:
            parts = ", ".join(sorted({name.split(".")[0] for name, _ in model.named_parameters()}))
            raise InputError(f"freeze = {prefix!r}: the model has no such part; its parts are {parts}")
        for parameter in named:
            parameter.requires_grad_(False)
    for name, parameter in model.named_parameters():
        if any(name == part or name.startswith(part + ".") for part in new):
            parameter.requires_grad_(True)
    if not any(p.requires_grad for p in model.parameters()):
        raise InputError("every weight is frozen, so that nothing could be learnt; freeze less")
    return merge


def count(model: Any) -> tuple[int, int]:
    """How many numbers move, and how many there are."""
    parameters = list(model.parameters())
    return sum(p.numel() for p in parameters if p.requires_grad), sum(p.numel() for p in parameters)


def _freeze_early(model: Any, last: int) -> None:
    """Freeze all but the ``last`` layers of every stack, and what stands before the stack in the same tower."""
    import torch

    stacks = [(n, m) for n, m in model.named_modules() if isinstance(m, torch.nn.ModuleList) and len(m) > 1]
    outer = [(n, m) for n, m in stacks if not any(n.startswith(other + ".") for other, _ in stacks if other != n)]
    if not outer:
        raise InputError("the model has no stack of layers, so its last layers cannot be found; name parts to freeze")
    names = [name for name, _ in model.named_parameters()]
    parameters = dict(model.named_parameters())
    for stack, layers in outer:
        if last >= len(layers):
            raise InputError(f"last_layers = {last}: {stack} has {len(layers)} layers; give fewer, or leave it out")
        kept = len(layers) - last
        tower = stack.split(".")[0]
        first = min(i for i, name in enumerate(names) if name.startswith(stack + "."))
        for i, name in enumerate(names):
            early = i < first and name.split(".")[0] == tower
            inside = name.startswith(stack + ".") and int(name[len(stack) + 1 :].split(".")[0]) < kept
            if early or inside:
                parameters[name].requires_grad_(False)


def _adapters(model: Any, rank: int) -> Merge:
    """Put adapters of this ``rank`` beside every matrix (Hu et al., LoRA, ICLR 2022), and freeze the rest.

    A matrix that embeds tokens as well gets none: merged, its adapter would change the embedding, which learnt without.
    """
    import torch

    try:
        from peft import LoraConfig, get_peft_model
        from transformers.pytorch_utils import Conv1D
    except ModuleNotFoundError as error:
        if error.name != "peft":
            raise
        raise MissingExtraError("training low-rank adapters", "train") from error
    torch.manual_seed(0)
    holders = Counter(id(p) for module in model.modules() for p in module.parameters(recurse=False))
    linear = [
        name
        for name, module in model.named_modules()
        if type(module) in (torch.nn.Linear, Conv1D) and module.weight.requires_grad and holders[id(module.weight)] == 1
    ]
    if not linear:
        raise InputError("the model has no linear layers to put low-rank adapters beside; train its last layers")
    config = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules=linear)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*fan_in_fan_out")  # it sees GPT-2's matrices by itself
        wrapped = get_peft_model(model, config)

    def merge() -> None:
        wrapped.merge_and_unload()  # in place

    return merge
