"""One process or many: who takes which rows of a batch, and how their losses and gradients become those of one.

The rule that every loss keeps: what the processes return adds up to the loss of the whole batch. Gradients are added
up in the same way, so that many processes take the step that one would take with the same batch, to rounding.

Processes are those that ``accelerate launch`` (or ``torchrun``) starts; the model must fit on one device.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError, MissingExtraError
from equipoise.models.runtime import torch_device

_BUCKET = 8_000_000
"""Numbers that are sent at a time: few enough to need little memory, many enough not to wait for each."""


class Processes:
    """This process among those that train together; alone unless ``accelerator`` says otherwise."""

    def __init__(self, device: Any = "cpu", accelerator: Any = None) -> None:
        self.accelerator = accelerator
        self.device = torch_device(device) if isinstance(device, str) else device
        self.rank: int = accelerator.process_index if accelerator is not None else 0
        self.count: int = accelerator.num_processes if accelerator is not None else 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def share(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of a batch that this process takes; the shares stand in the order of the processes.

        >>> Processes().share(np.arange(3)).tolist()
        [0, 1, 2]
        """
        return np.array_split(rows, self.count)[self.rank]

    def gathered(self, tensor: Any) -> Any:
        """The rows (n, ...) of every process, in the order of the batch; gradients flow back to whose rows they are."""
        return tensor if self.count == 1 else _gather(self)(tensor)

    def first_row(self, n: int) -> int:
        """Where this process's ``n`` rows begin among those of :meth:`gathered`."""
        return int(sum(self._sizes(n)[: self.rank]))

    def total(self, value: float) -> float:
        """The sum of a number over the processes."""
        if self.count == 1:
            return float(value)
        import torch

        number = torch.tensor([value], dtype=torch.float64, device=self.device)
        return float(self.accelerator.reduce(number, reduction="sum")[0])

    def summed(self, tensor: Any) -> Any:
        """The sum of a tensor over the processes; no gradient."""
        return tensor if self.count == 1 else self.accelerator.reduce(tensor.detach(), reduction="sum")

    def add_up_gradients(self, parameters: Iterable[Any]) -> None:
        """Give every process the sum of the gradients; a parameter that one of them did not use counts as 0 there."""
        if self.count == 1:
            return
        import torch

        bucket: list[Any] = []
        size = 0
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            bucket.append(parameter.grad)
            size += parameter.grad.numel()
            if size >= _BUCKET:
                self._add_up(bucket)
                bucket, size = [], 0
        if bucket:
            self._add_up(bucket)

    def from_first(self, data: bytes | None) -> bytes | None:
        """The bytes that the first process has; every process must ask, and ``None`` stands for nothing."""
        if self.count == 1:
            return data
        import torch
        from torch import distributed

        size = torch.tensor([-1 if data is None else len(data)], dtype=torch.int64, device=self.device)
        distributed.broadcast(size, 0)
        n = int(size)
        if n < 0:
            return None
        content = torch.empty(n, dtype=torch.uint8)
        if self.first:
            content = torch.frombuffer(bytearray(data or b""), dtype=torch.uint8)
        content = content.to(self.device)
        distributed.broadcast(content, 0)
        received: bytes = content.cpu().numpy().tobytes()
        return received

    def wait(self) -> None:
        """Until every process is here."""
        if self.count > 1:
            self.accelerator.wait_for_everyone()

    def _add_up(self, gradients: list[Any]) -> None:
        import torch
        from torch import distributed

        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        distributed.all_reduce(flat)
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def _sizes(self, n: int) -> list[int]:
        if self.count == 1:
            return [n]
        import torch

        mine = torch.tensor([n], dtype=torch.int64, device=self.device)
        return [int(size) for size in self.accelerator.gather(mine)]


def _gather(processes: Processes) -> Any:
    """Gathering with gradients: each process gets back the sum of what all of them want of its rows."""
    import torch
    from torch import distributed

    class Gather(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, tensor: Any) -> Any:
            ctx.sizes = processes._sizes(len(tensor))
            most = max(ctx.sizes)
            padded = tensor.new_zeros((most, *tensor.shape[1:]))
            padded[: len(tensor)] = tensor
            everyone = [torch.empty_like(padded) for _ in ctx.sizes]
            distributed.all_gather(everyone, padded)
            return torch.cat([part[:n] for part, n in zip(everyone, ctx.sizes, strict=True)])

        @staticmethod
        def backward(ctx: Any, wanted: Any) -> Any:
            whole = wanted.contiguous().clone()
            distributed.all_reduce(whole)
            start = sum(ctx.sizes[: processes.rank])
            return whole[start : start + ctx.sizes[processes.rank]]

    return Gather.apply


def started_processes(device: str = "auto") -> Processes:
    """The processes that ``accelerate launch`` or ``torchrun`` started this one among; alone if neither did."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return Processes(device)
    try:
        from accelerate import Accelerator
    except ModuleNotFoundError as error:
        if error.name != "accelerate":
            raise
        raise MissingExtraError("training with several processes", "train") from error
    accelerator = Accelerator(cpu=device == "cpu")
    if accelerator.mixed_precision == "fp16":
        raise InputError(
            "fp16 is not trained with here, for its small numbers vanish; say --half, which takes bfloat16"
        )
    return Processes(accelerator.device, accelerator)
