"""The caption classifier of LIC (Hirota, CVPR 2022): two bidirectional LSTM layers, trained anew for each split.

Embeddings of 100 (zero for unknown words and padding), 256 hidden units, dropout .5 on embeddings, between the layers
and before the last one, Adam at 5e-5, batches of 64, 20 epochs, no validation. What differs from a plain
implementation saves time alone: captions of like length share a batch, and the layers are those of
:mod:`equipoise.models.caption_classifiers.bilstm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError

__all__ = ["LstmSettings", "lstm_probabilities"]

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
    from collections import Counter

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
        self.layers = [tuple(_uniform(shape, h) for shape in _shapes(width, h)) for width in (d, 2 * h)]
        bound = (2 * h) ** -0.5
        self.last = torch.empty(2 * h, outputs).uniform_(-bound, bound)
        self.last_bias = torch.empty(outputs).uniform_(-bound, bound)
        self.parameters = [self.embedding, *self.layers[0], *self.layers[1], self.last, self.last_bias]
        for parameter in self.parameters:
            parameter.requires_grad_()

    def logits(self, ids: Any, lengths: Any, rng: np.random.Generator | None = None) -> Any:
        """(n, outputs); with ``rng`` half of everything is dropped, as in training."""
        from equipoise.models.caption_classifiers.bilstm import bilstm

        x = _dropped(self.embedding[ids], rng)
        states, _ = bilstm(x, self.layers[0], lengths, self.dtype)
        _, ends = bilstm(_dropped(states, rng), self.layers[1], lengths, self.dtype)
        return _dropped(ends.float(), rng) @ self.last + self.last_bias

    def keep_zero_rows(self) -> None:
        # padding is never read; an unknown word stays zero in training because every training word is known
        self.embedding.grad[[_PADDING]] = 0.0


def _shapes(width: int, h: int) -> tuple[tuple[int, ...], ...]:
    return (2, width, 4 * h), (2, h, 4 * h), (2, 4 * h)


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
    found = np.zeros((len(ids), max(2, outputs)))
    with torch.no_grad():
        for start in range(0, len(order), 4 * batch):
            rows = order[start : start + 4 * batch]
            logits = model.logits(*_padded(ids, rows)).double()
            if outputs == 1:
                second = torch.sigmoid(logits[:, 0]).numpy()
                found[rows] = np.stack([1 - second, second], axis=1)
            else:
                found[rows] = logits.softmax(dim=1).numpy()
    return found
