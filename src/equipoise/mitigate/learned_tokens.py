"""Learned tokens before every text, with an adversary (Berg et al., A Prompt Array Keeps the Bias Away, AACL 2022).

A few vectors stand before the tokens of each text; nothing else of the model is changed. They are learnt in two ways at
once: an adversary guesses the group of an image from its scores with neutral prompts, and the tokens are to leave it
with even shares; and captions still find their images (the contrastive loss), so that the model stays of use. Images
are encoded once, because their side does not change: a step costs a pass of the text encoder.

What is written is a folder in the form of ``equipoise models convert debias-clip``: it opens as ``hf:DIR`` and takes
part in a tournament with ``--checkpoints``. Its ``run.json`` says which subjects it was learnt from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise import engine
from equipoise.audit.asking import neutral_prompts
from equipoise.audit.captions import captions_of, known_captions
from equipoise.audit.gather import labels_of
from equipoise.data import Table
from equipoise.data.runs import claimed, same_only
from equipoise.data.settings import Settings
from equipoise.errors import InputError
from equipoise.mitigate.fitting import HELD_OUT, held_out_layer, held_out_subjects
from equipoise.models import load
from equipoise.text.labels import read_labels

__all__ = ["TokenSettings", "learn_tokens"]


@dataclass(frozen=True)
class TokenSettings(Settings):
    """How the tokens are learnt."""

    what: ClassVar[str] = "setting of learned tokens"

    tokens: int = 2
    """As many as the paper's released model has."""
    steps: int = 300
    batch: int = 64
    rate: float = 0.01
    weight: float = 1.0
    """Of the adversary, beside the contrastive loss."""
    hidden: int = 32
    """The adversary has three hidden layers of so many units, as in the paper."""
    prompt: str = "A photo of {a}"
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be learnt with."""
        if min(self.tokens, self.steps, self.batch, self.hidden) < 1 or self.rate <= 0 or self.weight < 0:
            raise InputError("tokens, steps, batch, hidden and rate are above 0, and weight is not below")


def learn_tokens(
    model: str,
    table: Table,
    axis: str,
    out: str | Path,
    *,
    settings: TokenSettings | None = None,
    held_out: float = 0.4,
    asking: engine.Asking | None = None,
    overwrite: bool = False,
) -> tuple[Path, list[str]]:
    """Learn tokens for the CLIP ``model`` on ``table`` into the folder ``out``; gives it and the subjects held out."""
    how = settings or TokenSettings()
    encoder = load(model)
    if getattr(getattr(encoder, "model", None), "text_model", None) is None or not hasattr(encoder, "tokens"):
        raise InputError(f"{model}: learned tokens go before the texts of a CLIP, such as mini:clip or hf:DIR")
    apart = held_out_subjects(table, held_out, seed=how.seed) if held_out else []
    frame = labels_of(table, ("captions",))
    frame = frame[~frame["subject"].isin(apart) & frame["subject"].notna()].reset_index(drop=True)
    if axis not in frame:
        raise InputError(f"{table.path}: has no axis {axis!r}")
    known = known_captions(frame)
    if not any(known):
        raise InputError(f"{table.path}: has no captions, by which the model is kept of use while tokens are learnt")
    images = np.asarray(engine.vectors(encoder, table, asking, ids=frame["image_id"].tolist()), dtype=np.float32)
    subjects = sorted(map(str, frame["subject"].unique()))
    of = {"model": encoder.key, "table": list(table.fingerprints), "axis": axis, "held_out": held_out}
    accept = same_only("checkpoint", of, how.plain())
    with claimed(out, "checkpoint", of=of, settings=how.plain(), accept=accept, overwrite=overwrite) as home:
        tokens = _learnt(encoder, frame, images, axis, subjects, how)
        _save(encoder, tokens, home.stage)
        if apart:
            held_out_layer(table, apart, home.stage / HELD_OUT)
        home.publish(fitted_on={"subjects": subjects, "table": table.fingerprint})
    return home.folder, apart


def _learnt(
    encoder: Any,
    frame: pd.DataFrame,
    images: NDArray[np.float32],
    axis: str,
    subjects: Sequence[str],
    how: TokenSettings,
) -> Any:
    import torch
    from torch import nn
    from torch.nn.functional import cross_entropy, normalize

    from equipoise.models.convert.encoders import add_learned_tokens, texts_after_learned_tokens

    clip = encoder.model.eval().requires_grad_(False)
    groups = read_labels(frame[axis])
    labels = torch.from_numpy(groups.codes.astype(np.int64))
    labelled = np.flatnonzero(groups.codes >= 0)
    captions = captions_of(frame["image_id"].tolist(), known_captions(frame), "learned tokens")
    prompts = [some[0] for some in neutral_prompts(subjects, [how.prompt])]
    vectors = torch.from_numpy(images / np.linalg.norm(images, axis=1, keepdims=True))
    scale = float(encoder.logit_scale or 100.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(how.seed)
        add_learned_tokens(clip, how.tokens)
        # they begin small, so that the model begins nearly as it was
        nn.init.normal_(clip.learned_tokens.weight, std=0.01)
        clip.learned_tokens.weight.requires_grad_(True)
        sizes = [len(prompts), how.hidden, how.hidden, how.hidden]
        layers = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
        adversary = nn.Sequential(*layers, nn.Linear(how.hidden, len(groups.names)))
        own = torch.optim.Adam([clip.learned_tokens.weight], lr=how.rate)
        theirs = torch.optim.Adam(adversary.parameters(), lr=2e-3)
        rng = np.random.default_rng(how.seed)

        def texts(words: Sequence[str]) -> Any:
            return normalize(texts_after_learned_tokens(clip, dict(encoder.tokens(list(words)))), dim=1)

        for _ in range(how.steps):
            rows = torch.from_numpy(rng.choice(labelled, min(how.batch, len(labelled)), replace=False))
            picked = rng.choice(len(captions.texts), min(how.batch, len(captions.texts)), replace=False)
            every = texts([*prompts, *(captions.texts[i] for i in picked)])
            scores = 10 * vectors[rows] @ every[: len(prompts)].T
            for _ in range(3):
                theirs.zero_grad(set_to_none=True)
                cross_entropy(adversary(scores.detach()), labels[rows]).backward()
                theirs.step()
            fooled = -adversary(scores).log_softmax(dim=1).mean()
            logits = scale * vectors[captions.image[picked]] @ every[len(prompts) :].T
            wanted = torch.arange(len(picked))
            useful = (cross_entropy(logits, wanted) + cross_entropy(logits.T, wanted)) / 2
            own.zero_grad(set_to_none=True)
            (useful + how.weight * fooled).backward()
            own.step()
    return clip.learned_tokens.weight.detach().clone()


def _save(encoder: Any, tokens: Any, target: Path) -> None:
    """In the converter's own form."""
    from equipoise.models.convert.encoders import with_learned_tokens

    with_learned_tokens(encoder.model, tokens, encoder.tokens.tokenizer, encoder.processor, target)
