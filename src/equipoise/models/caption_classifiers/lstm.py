"""The caption classifier of LIC (Hirota, CVPR 2022): two bidirectional LSTM layers, trained anew for each split.

Embeddings of 100 (zero for unknown words and padding), 256 hidden units, dropout .5 on embeddings, between the layers
and before the last one, Adam at 5e-5, batches of 64, 20 epochs, no validation. What differs from a plain
implementation saves time alone: captions of like length share a batch, and :func:`bilstm` gives its time to matrix
products. ``torch.nn.LSTM`` computes the same; here both directions advance in one product per step, padding is never
computed through, and the products run in bfloat16 where the processor has instructions for it (sums stay in float32).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError

PRECISIONS = ("auto", "float32", "bfloat16")
_WORDS = 25_000
_UNKNOWN, _PADDING = 0, 1


@dataclass(frozen=True)
class LstmSettings:
    """The published settings; ``precision`` is that of the matrix products ("auto": bfloat16 where it is faster)."""

    embedding: int = 100
    hidden: int = 256
    epochs: int = 20
    batch: int = 64
    rate: float = 5e-5
    precision: str = "auto"

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(f"precision={self.precision!r} is not one of {', '.join(PRECISIONS)}")

    @property
    def dtype(self) -> Any:
        """The number format of the products on this machine."""
        import torch

        from equipoise.models.runtime import bfloat16_is_fast

        fast = self.precision == "bfloat16" or (self.precision == "auto" and bfloat16_is_fast())
        return torch.bfloat16 if fast else torch.float32


def lstm_probabilities(
    train: Sequence[Sequence[str]],
    labels: NDArray[np.int64],
    test: Sequence[Sequence[str]],
    groups: int,
    seed: int,
    settings: LstmSettings | None = None,
) -> NDArray[np.float64]:
    """(n, groups) how likely each group is for each caption of ``test``, by a classifier trained on ``train``.

    ``train`` and ``test`` are captions in tokens; ``labels`` (m,) the groups of ``train`` as 0, 1, …
    """
    import torch

    chosen = settings or LstmSettings()
    index = _index(train)
    rng = np.random.default_rng([seed, 20])
    state = torch.random.get_rng_state()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    try:
        model = _Classifier(len(index) + 2, 1 if groups == 2 else groups, chosen)
        optimiser = torch.optim.Adam(model.parameters, lr=chosen.rate, fused=True)
        ids = [np.array([index.get(word, _UNKNOWN) for word in caption] or [_UNKNOWN]) for caption in train]
        targets = torch.from_numpy(np.asarray(labels, dtype=np.int64))
        for _ in range(chosen.epochs):
            for rows in _batches(ids, chosen.batch, rng):
                logits = model.logits(*_padded(ids, rows), rng)
                loss = _loss(logits, targets[torch.from_numpy(rows)])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                model.keep_zero_rows()
                optimiser.step()
        return _predict(model, test, index, chosen.batch)
    finally:
        torch.random.set_rng_state(state)
        torch.set_num_threads(threads)


def _index(train: Sequence[Sequence[str]]) -> dict[str, int]:
    counts = Counter(word for caption in train for word in caption)
    words = sorted(counts, key=lambda word: (-counts[word], word))[:_WORDS]
    return {word: i + 2 for i, word in enumerate(words)}


class _Classifier:
    """Weights of the two layers and what is around them."""

    def __init__(self, words: int, outputs: int, settings: LstmSettings) -> None:
        import torch

        h, d = settings.hidden, settings.embedding
        self.dtype = settings.dtype
        self.embedding = torch.randn(words, d)
        self.embedding[[_UNKNOWN, _PADDING]] = 0.0
        shapes = [((2, width, 4 * h), (2, h, 4 * h), (2, 4 * h)) for width in (d, 2 * h)]
        self.layers = [tuple(_uniform(shape, h) for shape in of_layer) for of_layer in shapes]
        bound = (2 * h) ** -0.5
        self.last = torch.empty(2 * h, outputs).uniform_(-bound, bound)
        self.last_bias = torch.empty(outputs).uniform_(-bound, bound)
        self.parameters = [self.embedding, *self.layers[0], *self.layers[1], self.last, self.last_bias]
        for parameter in self.parameters:
            parameter.requires_grad_()

    def logits(self, ids: Any, lengths: Any, rng: np.random.Generator | None = None) -> Any:
        """(n, outputs); with ``rng`` half of everything is dropped, as in training."""

        x = _dropped(self.embedding[ids], rng)
        states, _ = bilstm(x, self.layers[0], lengths, self.dtype)
        _, ends = bilstm(_dropped(states, rng), self.layers[1], lengths, self.dtype)
        return _dropped(ends.float(), rng) @ self.last + self.last_bias

    def keep_zero_rows(self) -> None:
        # padding is never read; an unknown word stays zero in training because every training word is known
        self.embedding.grad[[_PADDING]] = 0.0


def _uniform(shape: tuple[int, ...], h: int) -> Any:
    import torch

    bound = h**-0.5
    weight = torch.empty(shape).uniform_(-bound, bound)
    if len(shape) == 2:  # torch's LSTM has two biases that are added
        weight += torch.empty(shape).uniform_(-bound, bound)
    return weight


def _dropped(x: Any, rng: np.random.Generator | None) -> Any:
    import torch

    if rng is None:
        return x
    bits = np.unpackbits(np.frombuffer(rng.bytes(-(-x.numel() // 8)), dtype=np.uint8), count=x.numel())
    return x * (torch.from_numpy(bits).view(x.shape).to(x.dtype) * 2)


def _batches(ids: Sequence[NDArray[np.int64]], size: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Rows in batches of like length, other neighbours and another order in each epoch."""
    order = rng.permutation(len(ids))
    order = order[np.argsort([len(ids[row]) for row in order], kind="stable")]
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    return [batches[i] for i in rng.permutation(len(batches))]


def _padded(ids: Sequence[NDArray[np.int64]], rows: NDArray[np.int64]) -> tuple[Any, Any]:
    import torch

    lengths = np.array([len(ids[row]) for row in rows])
    table = np.full((int(lengths.max()), len(rows)), _PADDING, dtype=np.int64)
    for column, row in enumerate(rows):
        table[: lengths[column], column] = ids[row]
    return torch.from_numpy(table), torch.from_numpy(lengths)


def _loss(logits: Any, targets: Any) -> Any:
    from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

    if logits.shape[1] == 1:
        return binary_cross_entropy_with_logits(logits[:, 0], targets.to(logits.dtype))
    return cross_entropy(logits, targets)


def _predict(
    model: _Classifier, test: Sequence[Sequence[str]], index: dict[str, int], batch: int
) -> NDArray[np.float64]:
    import torch

    ids = [np.array([index.get(word, _UNKNOWN) for word in caption] or [_UNKNOWN]) for caption in test]
    order = np.argsort([len(row) for row in ids], kind="stable")
    outputs = model.last.shape[1]
    probabilities = np.zeros((len(ids), max(2, outputs)))
    with torch.no_grad():
        for start in range(0, len(order), 4 * batch):
            rows = order[start : start + 4 * batch]
            logits = model.logits(*_padded(ids, rows)).double()
            if outputs == 1:
                second = torch.sigmoid(logits[:, 0]).numpy()
                probabilities[rows] = np.stack([1 - second, second], axis=1)
            else:
                probabilities[rows] = logits.softmax(dim=1).numpy()
    return probabilities


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


@cache
def _function() -> Any:
    """The layer as an autograd function; made at first use, so that importing this file needs no torch."""
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
                    inside = (lengths > t)[None, :, None]
                    new_cell = torch.where(inside, new_cell, cell)
                    states[:, t + 1] = torch.where(inside, states[:, t + 1], before)
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
            factors = torch.empty(2, n, 4 * h)
            for t in reversed(range(steps)):
                s, squashed = curves[t]
                d_h = d_state + grad[:, t]
                if t >= shortest:
                    inside = (lengths > t)[None, :, None]
                    passed_h, passed_c = torch.where(inside, 0.0, d_h), torch.where(inside, 0.0, d_cell)
                    d_h, d_cell = torch.where(inside, d_h, 0.0), torch.where(inside, d_cell, 0.0)
                d_c = torch.addcmul(d_cell, d_h * s[..., 2 * h : 3 * h], squashed * squashed, value=-1)
                d_c.addcmul_(d_h, s[..., 2 * h : 3 * h])
                torch.mul(d_c, 2 * s[..., 3 * h :] - 1, out=factors[..., :h])
                torch.mul(d_c, cells[t], out=factors[..., h : 2 * h])
                torch.mul(d_h, squashed, out=factors[..., 2 * h : 3 * h])
                torch.mul(d_c, 4 * s[..., :h], out=factors[..., 3 * h :])
                d_cell = d_c.mul_(s[..., h : 2 * h])
                d_gates[:, t] = factors.mul_(torch.addcmul(s, s, s, value=-1))
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

    return Layer
