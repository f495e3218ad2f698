"""A bidirectional LSTM layer whose time goes to matrix products alone, for short sequences on a CPU.

``torch.nn.LSTM`` computes the same; here both directions advance in one product a step, padding is never computed
through, and the products run in bfloat16 where the processor has instructions for it (sums stay in float32).
"""

from __future__ import annotations

from typing import Any

__all__ = ["backwards", "bilstm"]


def backwards(lengths: Any, steps: int) -> Any:
    """(steps, n) for each place of a reversed sequence the place it comes from; padding stays at the end.

    >>> import torch
    >>> backwards(torch.tensor([3, 2]), 3).T.tolist()
    [[2, 1, 0], [1, 0, 2]]
    """
    import torch

    at = torch.arange(steps)[:, None]
    return torch.where(at < lengths[None, :], lengths[None, :] - 1 - at, at)


def bilstm(x: Any, weights: tuple[Any, Any, Any], lengths: Any, dtype: Any) -> tuple[Any, Any]:
    """Hidden states (steps, n, 2 h) of both directions, and their last ones (n, 2 h).

    ``x`` (steps, n, d) is padded at the end, ``lengths`` (n,) says where. ``weights`` are (2, d, 4 h) from the input,
    (2, h, 4 h) from the last state and (2, 4 h) the bias; the gates come in the order input, forget, output, cell.
    ``dtype`` is that of the products.
    """
    import torch

    steps, n, _ = x.shape
    back = backwards(lengths, steps)
    rows = torch.arange(n)[None, :].expand(steps, n)
    turned = torch.stack([x, x[back, rows]])
    hidden = _function().apply(turned, *weights, lengths, dtype)
    last = torch.cat([hidden[0, -1], hidden[1, -1]], dim=1)
    return torch.cat([hidden[0], hidden[1][back, rows]], dim=2), last


_made: Any = None


def _function() -> Any:
    """The layer as an autograd function; made at first use, so that importing this file needs no torch."""
    global _made
    if _made is not None:
        return _made
    import torch

    class Layer(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, w_in: Any, w_state: Any, bias: Any, lengths: Any, dtype: Any) -> Any:
            _, steps, n, d = x.shape
            h = w_state.shape[1]
            wi, ws = w_in.to(dtype), w_state.to(dtype)
            flat = x.reshape(2, steps * n, d).to(dtype)
            gates = torch.baddbmm(bias.to(dtype)[:, None, :], flat, wi).view(2, steps, n, 4 * h)
            states = torch.zeros(2, steps + 1, n, h, dtype=dtype)
            cells, curves = [torch.zeros(2, n, h)], []
            shortest = int(lengths.min())
            for t in range(steps):
                before, cell = states[:, t], cells[t]
                s = torch.baddbmm(gates[:, t], before, ws).float()
                # tanh(z) = 2 sigmoid(2 z) - 1: one sigmoid serves all four gates
                s[..., 3 * h :].mul_(2)
                s.sigmoid_()
                new_cell = torch.addcmul(s[..., h : 2 * h] * cell, s[..., :h], 2 * s[..., 3 * h :] - 1)
                squashed = (2 * new_cell).sigmoid_().mul_(2).sub_(1)
                states[:, t + 1] = s[..., 2 * h : 3 * h] * squashed
                if t >= shortest:
                    there = (lengths > t)[None, :, None]
                    new_cell = torch.where(there, new_cell, cell)
                    states[:, t + 1] = torch.where(there, states[:, t + 1], before)
                cells.append(new_cell)
                curves.append((s, squashed))
            ctx.save_for_backward(flat, wi, ws, lengths)
            ctx.kept = (states, cells, curves, (steps, n, d, h), dtype, shortest)
            return states[:, 1:]

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            grad = grads[0]
            flat, wi, ws, lengths = ctx.saved_tensors
            states, cells, curves, (steps, n, d, h), dtype, shortest = ctx.kept
            back_ws = ws.transpose(1, 2).contiguous()
            d_gates = torch.empty(2, steps, n, 4 * h, dtype=dtype)
            d_state = torch.zeros(2, n, h)
            d_cell = torch.zeros(2, n, h)
            made = torch.empty(2, n, 4 * h)
            for t in reversed(range(steps)):
                s, squashed = curves[t]
                d_h = d_state + grad[:, t]
                if t >= shortest:
                    there = (lengths > t)[None, :, None]
                    passed_h, passed_c = torch.where(there, 0.0, d_h), torch.where(there, 0.0, d_cell)
                    d_h, d_cell = torch.where(there, d_h, 0.0), torch.where(there, d_cell, 0.0)
                d_c = torch.addcmul(d_cell, d_h * s[..., 2 * h : 3 * h], squashed * squashed, value=-1)
                d_c.addcmul_(d_h, s[..., 2 * h : 3 * h])
                torch.mul(d_c, 2 * s[..., 3 * h :] - 1, out=made[..., :h])
                torch.mul(d_c, cells[t], out=made[..., h : 2 * h])
                torch.mul(d_h, squashed, out=made[..., 2 * h : 3 * h])
                torch.mul(d_c, 4 * s[..., :h], out=made[..., 3 * h :])
                d_cell = d_c.mul_(s[..., h : 2 * h])
                d_gates[:, t] = made.mul_(torch.addcmul(s, s, s, value=-1))
                d_state = torch.bmm(d_gates[:, t], back_ws).float()
                if t >= shortest:
                    d_state, d_cell = d_state + passed_h, d_cell + passed_c
            g = d_gates.view(2, steps * n, 4 * h)
            earlier = states[:, :-1].reshape(2, steps * n, h)
            d_w_in = torch.bmm(flat.transpose(1, 2), g).float()
            d_w_state = torch.bmm(earlier.transpose(1, 2), g).float()
            d_bias = torch.bmm(torch.ones(2, 1, steps * n, dtype=dtype), g)[:, 0].float()
            d_x = torch.bmm(g, wi.transpose(1, 2)).view(2, steps, n, d).float()
            return d_x, d_w_in, d_w_state, d_bias, None, None

    _made = Layer
    return _made
