"""A caption classifier on any text encoder of ``transformers``: fine-tuned, or frozen with a head that learns.

As in LIC (Hirota, CVPR 2022): the first token's last state, batch normalisation, 256 units, batch normalisation, leaky
rectifier, one output per group. Fine-tuning takes 5 epochs of AdamW at 1e-5, a frozen encoder 20 at 5e-5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InputError, MissingExtraError
from equipoise.measure.captions.masking import HIDDEN, MASK
from equipoise.models.runtime import torch_device

_LENGTH, _BATCH = 64, 64


def _place(name: str) -> str:
    """The hub name or folder that ``name`` means, which may be written as models are elsewhere.

    >>> _place("hf:bert-base-uncased"), _place("mini:text").endswith("text")
    ('bert-base-uncased', True)
    """
    scheme, _, rest = name.partition(":")
    if scheme == "mini":
        from equipoise.models.miniatures import FOLDER

        return str(FOLDER / (rest or "text"))
    return rest if scheme == "hf" and rest else name


@dataclass(frozen=True)
class BertClassifier:
    """A text encoder by hub name (``name@revision``), folder, ``hf:…`` or ``mini:text``; ``frozen`` trains the head."""

    name: str = "bert-base-uncased"
    frozen: bool = False
    device: str = "cpu"
    rate: float | None = None
    """The learning rate; the paper's unless given. Encoders far smaller than BERT learn nothing at that one."""

    @property
    def id(self) -> str:
        """What a results table calls it."""
        return f"{'bert-frozen' if self.frozen else 'bert'}:{self.name}"

    approximate = False

    @cached_property
    def where(self) -> Any:
        """The torch device."""
        return torch_device(self.device)

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        try:
            from transformers import AutoModel, AutoTokenizer
        except ImportError:
            raise MissingExtraError("the bert classifier", "models") from None
        from equipoise.models.folders import find_checkpoint
        from equipoise.models.runtime import quiet

        checkpoint = find_checkpoint(_place(self.name))
        checkpoint.needs_texts()
        try:
            with quiet():
                return (
                    AutoTokenizer.from_pretrained(checkpoint.folder, local_files_only=True),
                    AutoModel.from_pretrained(checkpoint.folder, local_files_only=True, use_safetensors=True),
                )
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"the text encoder {self.name!r} cannot be loaded ({reason})") from None

    def read(self, tokens: Sequence[Sequence[str]]) -> _BertReader:
        """A frozen encoder reads every caption once."""
        import torch

        words, encoder = self._loaded
        stands = {MASK: words.mask_token or MASK, HIDDEN: words.unk_token or HIDDEN}
        texts = [" ".join(stands.get(word, word) for word in caption) for caption in tokens]
        if not self.frozen:
            return _BertReader(self, texts, None)
        encoder.to(self.where).eval()
        with torch.no_grad():
            kept = [self.states(encoder, texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)]
        return _BertReader(self, texts, torch.cat(kept))

    def states(self, body: Any, texts: list[str]) -> Any:
        """(n, width) the first token's last state of each text."""
        words, _ = self._loaded
        tokens = words(texts, padding=True, truncation=True, max_length=_LENGTH, return_tensors="pt").to(self.where)
        return body(**tokens).last_hidden_state[:, 0]


@dataclass(frozen=True)
class _BertReader:
    classifier: BertClassifier
    texts: list[str]
    kept: Any

    def probabilities(
        self,
        train: NDArray[np.intp],
        labels: NDArray[np.int64],
        test: NDArray[np.intp],
        groups: int,
        seed: int,
    ) -> NDArray[np.float64]:
        import copy

        import torch

        torch.manual_seed(seed)
        body = None if self.kept is not None else copy.deepcopy(self.classifier._loaded[1]).to(self.classifier.where)
        width = self.classifier._loaded[1].config.hidden_size
        head = _head(width, groups).to(self.classifier.where)
        self._train(body, head, train, torch.as_tensor(labels.copy(), device=self.classifier.where), seed)
        head.eval()
        if body is not None:
            body.eval()
        with torch.no_grad():
            parts = [head(self._states(body, test[i : i + _BATCH])) for i in range(0, len(test), _BATCH)]
        return np.asarray(torch.cat(parts).double().softmax(dim=1).cpu().numpy())

    def _states(self, body: Any, rows: NDArray[np.intp]) -> Any:
        if body is None:
            return self.kept[rows.tolist()]
        return self.classifier.states(body, [self.texts[row] for row in rows])

    def _train(self, body: Any, head: Any, rows: NDArray[np.intp], targets: Any, seed: int) -> None:
        import torch
        from torch.nn.functional import cross_entropy

        rate, epochs = (5e-5, 20) if body is None else (1e-5, 5)
        rate = self.classifier.rate or rate
        learned = [*head.named_parameters(), *([] if body is None else body.named_parameters())]
        decayed = [p for name, p in learned if not ("bias" in name or "norm" in name.lower())]
        plain = [p for name, p in learned if "bias" in name or "norm" in name.lower()]
        optimiser = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
            lr=rate,
            betas=(0.9, 0.98),
            eps=1e-6,
        )
        rng = np.random.default_rng([seed, 5])
        head.train()
        if body is not None:
            body.train()
        for _ in range(epochs):
            order = rng.permutation(len(rows))
            for start in range(0, len(order), _BATCH):
                chosen = order[start : start + _BATCH]
                if len(chosen) < 2:  # batch normalisation needs two
                    continue
                loss = cross_entropy(head(self._states(body, rows[chosen])), targets[chosen.tolist()])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()


def _head(width: int, groups: int) -> Any:
    from torch import nn

    return nn.Sequential(
        nn.BatchNorm1d(width), nn.Linear(width, 256), nn.BatchNorm1d(256), nn.LeakyReLU(), nn.Linear(256, groups)
    )
