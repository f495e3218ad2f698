"""Learned tokens before every text, with an adversary (Berg et al., A Prompt Array Keeps the Bias Away, AACL 2022).

A few vectors stand before the tokens of each text; nothing else of the model is changed. They are learnt in two ways at
once: an adversary guesses the group of an image from its scores with neutral prompts, and the tokens are to leave it
with even shares; and captions still find their images (the contrastive loss), so that the model stays of use. Images
are encoded once, because their side does not change: a step costs a pass of the text encoder. The loop is that of
:mod:`equipoise.train`, so that a run which was stopped goes on to the same tokens.

What is written is a folder in the form of ``equipoise models convert debias-clip``: it opens as ``hf:DIR`` and takes
part in a tournament with ``--checkpoints``. Its ``run.json`` says which subjects it was learnt from.
"""

from __future__ import annotations

import shutil
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
from equipoise.measure.arrays import unit_vectors
from equipoise.mitigate.fitting import HELD_OUT, held_out_layer, held_out_subjects, of_test
from equipoise.models import load
from equipoise.text.labels import read_labels

_WORK = "_work"
_ADVERSARY_STEPS, _ADVERSARY_RATE = 3, 2e-3
"""Of the adversary in each step of the tokens."""


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
    save_every: int = 50
    """Steps between checkpoints; a run that was stopped goes on from the last."""

    def check(self) -> None:
        """Refuse what cannot be learnt with."""
        if (
            min(self.tokens, self.steps, self.batch, self.hidden, self.save_every) < 1
            or self.rate <= 0
            or self.weight < 0
        ):
            raise InputError("tokens, steps, batch, hidden, save_every and rate are above 0, and weight is not below")


def learn_tokens(
    model: str,
    table: Table,
    axis: str,
    out: str | Path,
    *,
    settings: TokenSettings | None = None,
    held_out: float = 0.4,
    asking: engine.Asking | None = None,
    device: str = "",
    overwrite: bool = False,
) -> tuple[Path, list[str]]:
    """Learn tokens for the CLIP ``model`` on ``table`` into the folder ``out``; gives it and the subjects held out.

    ``device`` is where the model runs and the tokens are learnt, such as ``cuda``.
    """
    how = settings or TokenSettings()
    encoder = load(model, **({"device": device} if device else {}))
    if getattr(getattr(encoder, "model", None), "text_model", None) is None or not hasattr(encoder, "tokens"):
        raise InputError(f"{model}: learned tokens go before the texts of a CLIP, such as mini:clip or hf:DIR")
    apart = held_out_subjects(table, held_out, seed=how.seed) if held_out else []
    frame = labels_of(table, ("captions",))
    frame = frame[~frame["subject"].isin(apart) & frame["subject"].notna()].reset_index(drop=True)
    tests = of_test(frame) if "split" in frame else np.zeros(len(frame), dtype=bool)
    if len(frame) and tests.all():
        raise InputError(f"{table.path}: all images left are of the split test; nothing is left to learn from")
    frame = frame[~tests].reset_index(drop=True)
    if axis not in frame:
        raise InputError(f"{table.path}: has no axis {axis!r}")
    known = known_captions(frame)
    if not any(known):
        raise InputError(f"{table.path}: has no captions, by which the model is kept of use while tokens are learnt")
    groups = read_labels(frame[axis]).names
    if len(groups) < 2:
        shown = f"only {groups[0]!r}" if groups else "no group"
        raise InputError(
            f"{table.path}: {axis} shows {shown} among the images to learn from; two groups or more are needed"
        )
    images = np.asarray(engine.vectors(encoder, table, asking, ids=frame["image_id"].tolist()), dtype=np.float32)
    subjects = sorted(map(str, frame["subject"].unique()))
    of = {"model": encoder.key, "table": list(table.fingerprints), "axis": axis, "held_out": held_out}
    if tests.any():  # a folder of tokens that learnt from these is another one
        of["without"] = "test"
    settings_kept = {name: value for name, value in how.plain().items() if name != "save_every"}
    accept = same_only("checkpoint", of, settings_kept)
    with claimed(out, "checkpoint", of=of, settings=settings_kept, accept=accept, overwrite=overwrite) as home:
        if home.before is not None and home.before.finished:
            return home.folder, apart
        work = home.folder / _WORK
        tokens = _learnt(encoder, frame, images, axis, subjects, how, work)
        _save(encoder, tokens, home.stage)
        if apart:
            held_out_layer(table, apart, home.stage / HELD_OUT)
        home.publish(fitted_on={"subjects": subjects, "table": table.fingerprint})
        shutil.rmtree(work, ignore_errors=True)
    return home.folder, apart


def _learnt(
    encoder: Any,
    frame: pd.DataFrame,
    images: NDArray[np.float32],
    axis: str,
    subjects: Sequence[str],
    how: TokenSettings,
    work: Path,
) -> Any:
    """The tokens, learnt by the loop that trains everything: a run that was stopped goes on from ``work``."""
    import torch
    from torch.nn.functional import cross_entropy, normalize

    from equipoise.models.convert.encoders import add_learned_tokens, texts_after_learned_tokens
    from equipoise.train.loop import run
    from equipoise.train.processes import Processes
    from equipoise.train.schedule import Schedule

    clip = encoder.model.eval().requires_grad_(False)
    groups = read_labels(frame[axis])
    labels = torch.from_numpy(groups.codes.astype(np.int64))
    labelled = np.flatnonzero(groups.codes >= 0)
    captions = captions_of(frame["image_id"].tolist(), known_captions(frame), "learned tokens")
    prompts = [some[0] for some in neutral_prompts(subjects, [how.prompt])]
    vectors = torch.from_numpy(unit_vectors(images, encoder.name, frame["image_id"].tolist()))
    scale = float(encoder.logit_scale or 100.0)

    def texts(words: Sequence[str]) -> Any:
        inputs = {name: value.to(clip.device) for name, value in encoder.tokens(list(words)).items()}
        return normalize(texts_after_learned_tokens(clip, inputs).cpu(), dim=1)

    def loss(learner: Any, step: int) -> Any:
        rng = np.random.default_rng([how.seed, step])
        rows = torch.from_numpy(rng.choice(labelled, min(how.batch, len(labelled)), replace=False))
        picked = rng.choice(len(captions.texts), min(how.batch, len(captions.texts)), replace=False)
        every = texts([*prompts, *(captions.texts[i] for i in picked)])
        scores = 10 * vectors[rows] @ every[: len(prompts)].T
        for _ in range(_ADVERSARY_STEPS):
            learner.adversary.learn(scores.detach(), labels[rows])
        fooled = -learner.adversary(scores).log_softmax(dim=1).mean()
        logits = scale * vectors[captions.image[picked]] @ every[len(prompts) :].T
        wanted = torch.arange(len(picked))
        useful = (cross_entropy(logits, wanted) + cross_entropy(logits.T, wanted)) / 2
        return useful + how.weight * fooled

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(how.seed)
        add_learned_tokens(clip, how.tokens)
        # they begin small, so that the model begins nearly as it was
        torch.nn.init.normal_(clip.learned_tokens.weight, std=0.01)
        clip.learned_tokens.to(clip.device).requires_grad_(True)
        sizes = [len(prompts), how.hidden, how.hidden, how.hidden, len(groups.names)]
        learner = torch.nn.ModuleDict({"tokens": clip.learned_tokens, "adversary": _adversary(sizes)})
        schedule = Schedule(
            how.steps, how.batch, how.rate, warmup=0, weight_decay=0.0, save_every=how.save_every, constant=True
        )
        run(learner, loss, schedule, work, None, processes=Processes("cpu"))
    return clip.learned_tokens.weight.detach().cpu().clone()


def _adversary(sizes: Sequence[int]) -> Any:
    """Layers of these sizes that learn by Adam inside the tokens' step.

    Its weights and the state of its optimiser are buffers: the tokens' own optimiser leaves them alone, and a
    checkpoint of the training holds them.
    """
    import torch

    class Adversary(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []
            for number, (inputs, outputs) in enumerate(pairwise(sizes)):
                layer = torch.nn.Linear(inputs, outputs)
                for kind, value in (("weight", layer.weight), ("bias", layer.bias)):
                    name = f"{kind}_{number}"
                    self.names.append(name)
                    self.register_buffer(name, value.detach().clone())
                    self.register_buffer(f"{name}_mean", torch.zeros_like(value))
                    self.register_buffer(f"{name}_square", torch.zeros_like(value))
            self.register_buffer("taken", torch.zeros((), dtype=torch.int64))

        def weights(self) -> list[Any]:
            return [getattr(self, name) for name in self.names]

        def forward(self, scores: Any, weights: Sequence[Any] | None = None) -> Any:
            held = weights or self.weights()
            for place in range(0, len(held), 2):
                scores = torch.nn.functional.linear(scores, held[place], held[place + 1])
                scores = scores.relu() if place + 2 < len(held) else scores
            return scores

        def learn(self, scores: Any, labels: Any) -> None:
            """One step of Adam on the cross-entropy of its guesses."""
            held = [weight.detach().clone().requires_grad_(True) for weight in self.weights()]
            wrong = torch.nn.functional.cross_entropy(self(scores, held), labels)
            slopes = torch.autograd.grad(wrong, held)
            self.taken += 1
            n = int(self.taken)
            for name, slope in zip(self.names, slopes, strict=True):
                mean, square = getattr(self, f"{name}_mean"), getattr(self, f"{name}_square")
                mean.mul_(0.9).add_(slope, alpha=0.1)
                square.mul_(0.999).addcmul_(slope, slope, value=0.001)
                size = (square / (1 - 0.999**n)).sqrt_().add_(1e-8)
                getattr(self, name).addcdiv_(mean / (1 - 0.9**n), size, value=-_ADVERSARY_RATE)

    return Adversary()


def _save(encoder: Any, tokens: Any, target: Path) -> None:
    """In the converter's own form."""
    from equipoise.models.convert.encoders import with_learned_tokens
    from equipoise.models.hf.checkpoint import without_padding

    words = without_padding(encoder.tokens.tokenizer)
    with_learned_tokens(encoder.model, tokens, words, encoder.processor, target)
