"""Counterfactual fine-tuning: an encoder learns on from sets of images that differ in the person alone.

SocialCounterfactuals (Howard et al., CVPR 2024, section 5) fine-tunes CLIP contrastively for one epoch on the images
and captions of such sets, in batches of 32, and holds 20% of the occupations back to judge by. That is the variant
``contrastive``. On subjects that it has not seen it moves little; what does is said outright by ``equalised``, the
default:

``equalise``
    the squared difference of the scores that images of one set get for a text which names no group, over the prompts of
    subjects, the captions of other sets without their words for people, general phrases, and prompts of any word that
    the model knows: else it learns the words of its subjects by heart, and others keep their lean;
``distil``
    the squared distance of every vector from what it should be, by the original model: an image from the mean of the
    images that differ from it in the group alone, but for the direction in which captions of one set differ, where
    words for the groups live; a text that names no group from itself without the few directions in which images of one
    set differ. Captions that name a group stay as they were: it can still be asked for.

The weights of these two and of the contrastive loss are settings. The texts' encoder alone learns unless ``tower`` says
otherwise: what it learns of the words for some occupations carries over to others, more than what the images' encoder
learns of their pictures. Subjects are in three parts: those that are learnt from, those that decide when to stop, and
those that are held out, whose images and names are never used.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data import Table
from equipoise.data.sampling import split
from equipoise.errors import InputError, UnknownNameError
from equipoise.mitigate.fitting import HELD_OUT, held_out_layer, held_out_subjects
from equipoise.models.folders import Checkpoint
from equipoise.models.images import processed
from equipoise.text import Lexicon
from equipoise.text.templates.places import with_subject
from equipoise.train.fitting import Trained, Training, carried_out, prepared_training
from equipoise.train.processes import Processes
from equipoise.train.rows import Parts, TrainingRows
from equipoise.train.settings import TrainSettings
from equipoise.train.task import Inputs, Row, drawn_texts
from equipoise.train.tasks.clip import ClipTask, codes_of

__all__ = ["PRESETS", "VARIANTS", "CounterfactualTask", "Finetuned", "finetune", "prepared_finetuning", "set_spread"]

PRESETS: Mapping[str, float] = {"race-gender": 7e-6, "physical-gender": 5e-6, "physical-race": 9e-6}
"""The learning rates of SocialCounterfactuals for its three segments."""
VARIANTS: Mapping[str, Mapping[str, float]] = {
    "equalised": {"contrastive": 0.0, "equalise": 100.0, "distil": 1.0},
    "contrastive": {"contrastive": 1.0, "equalise": 0.0, "distil": 0.0},
}
"""The weights of the parts of the loss."""
TOWERS = ("texts", "images", "both")
"""Which encoder learns."""
TEMPLATES = ("a photo of {a}", "a picture of {a}", "this is {a}", "{a}")
GENERAL = (
    "a photo of a person",
    "a person",
    "a picture of a person at work",
    "someone who works outdoors",
    "a person indoors",
    "a worker with a tool",
    "a person standing",
    "a person sitting",
    "people at home",
    "a person in the street",
    "a person in the park",
    "a person in the kitchen",
    "a person in an office",
    "a person at the beach",
    "a person on a farm",
    "a person in uniform",
    "a person with a hat",
    "a person with a bag",
    "a person cooking",
    "a person reading",
    "a person playing music",
    "a person doing sports",
    "a person with a computer",
    "a person with an animal",
)
"""Phrases that name no group and no occupation."""


_NAMING = 1
"""Directions of each axis that are left to the words for its groups."""
_LOOKED_AT = 1200
"""Rows whose captions are compared to find them."""
_LOOKED_AT_IMAGES = 512
_DIFFERING = 1
"""Directions of each axis, in which images of a set differ most, that neutral texts are freed from."""


class CounterfactualTask(ClipTask):
    """The loss of counterfactual fine-tuning; see the module."""

    name = "counterfactual-finetune"

    def __init__(
        self,
        axes: Sequence[str],
        others: Sequence[str] = (),
        *,
        contrastive: float = 0.0,
        equalise: float = 100.0,
        distil: float = 1.0,
        tower: str = "texts",
        prompts: Sequence[str] = (),
        n_prompts: int = 64,
        n_words: int = 64,
        caption: str = "caption",
        general: bool = True,
    ) -> None:
        """``axes`` are repaired, by the ``tower`` that learns; of the ``others``, compared images agree. At each step
        ``n_prompts`` texts are drawn of the general phrases and ``prompts``, and ``n_words`` of any words that the
        model knows, beside those of the batch's own subjects and captions.
        """
        super().__init__(caption)
        parts = {"contrastive": contrastive, "equalise": equalise, "distil": distil}
        if min(parts.values()) < 0 or not max(parts.values()):
            raise InputError(f"{', '.join(parts)} are weights of at least 0, and one of them above 0")
        if tower not in TOWERS:
            raise UnknownNameError("tower", tower, TOWERS)
        self.axes, self.others, self.tower = tuple(axes), tuple(others), tower
        self.weights = parts
        self.prompts, self.n_prompts, self.n_words, self.general = tuple(prompts), n_prompts, n_words, general
        self.columns = (caption, "set_id", "subject", *self.axes, *self.others)
        self._lexicon = Lexicon.load("equipoise")
        self._teacher: Any = None
        self._naming: Any = None
        self._differing: Any = None
        self._subjects: tuple[str, ...] = ()
        self._words_known: list[str] = []

    def options(self) -> dict[str, Any]:
        """The keywords that make such a task again."""
        return {
            "axes": list(self.axes),
            "others": list(self.others),
            **self.weights,
            "tower": self.tower,
            "prompts": list(self.prompts),
            "n_prompts": self.n_prompts,
            "n_words": self.n_words,
            "caption": self.caption,
            "general": self.general,
        }

    def open(self, checkpoint: Checkpoint, rows: TrainingRows, *, fresh: bool = False) -> Any:
        """The encoder, and a copy of it that does not move, to distil from."""
        model = super().open(checkpoint, rows, fresh=fresh)
        self._teacher = copy.deepcopy(model).eval().requires_grad_(False)
        if self.tower != "both":
            self._leave_alone(model)
        return model

    def _leave_alone(self, model: Any) -> None:
        """Freeze the tower that does not learn: what a text's vector has a gradient to is of the texts."""
        self.how.texts(model, self.tokens(["a"])).sum().backward()
        for parameter in model.parameters():
            parameter.requires_grad_((parameter.grad is not None) == (self.tower == "texts"))
            parameter.grad = None

    def look_at(self, rows: TrainingRows, places: NDArray[np.int64]) -> None:
        """Learn from the rows to be trained on which words may be used, and where those for groups live."""
        every = set(map(str, rows.labels["subject"].dropna().unique()))
        self._subjects = tuple(sorted(map(str, rows.labels["subject"].iloc[places].dropna().unique())))
        never = {word for subject in every - set(self._subjects) for word in subject.lower().split()}
        self._words_known = [word for word in self._vocabulary() if word not in never]
        some = rows.rows(sorted(np.random.default_rng(0).permutation(places)[:_LOOKED_AT].tolist()), images=False)
        if self.weights["distil"]:
            self._naming = self._naming_directions(some)
            self._differing = self._differing_directions(rows, places)

    def inputs(self, rows: Sequence[Row], step: int) -> Inputs:
        """What the pairs need, and texts that name no group with the cells that must score alike on them."""
        import torch

        texts = drawn_texts(rows, self.caption, step)
        given: dict[str, Any] = dict(super().inputs(rows, step))
        given["texts"], given["codes"] = self.tokens(texts), codes_of(texts)
        given["names_group"] = torch.tensor(self._names_group(texts))
        given["prompts"] = self.tokens(self.neutral_texts(rows, texts, step))
        given["cells"] = {axis: codes_of(self._cells(rows, axis)) for axis in self.axes}
        given["twins"] = codes_of(self._cells(rows, *self.axes))
        return given

    def neutral_texts(self, rows: Sequence[Row], texts: Sequence[str], step: int) -> list[str]:
        """Texts that say nothing of the repaired axes: of the batch's subjects and captions, and some drawn."""
        rng = np.random.default_rng([step, 17])
        own = sorted({row["subject"] for row in rows if row["subject"]})
        wanted = [with_subject(template, subject) for subject in own for template in TEMPLATES]
        pool = self._pool()
        if self.axes == ("gender",):  # the lexicon knows how to say this one for anyone
            wanted += sorted(set(self._lexicon.neutralise_all(texts)))
        drawn = [pool[i] for i in rng.permutation(len(pool))[: self.n_prompts]]
        words = [self._words_known[i] for i in rng.permutation(len(self._words_known))[: self.n_words]]
        any_words = [with_subject(TEMPLATES[int(rng.integers(len(TEMPLATES)))], word) for word in words]
        return list(dict.fromkeys([*wanted, *drawn, *any_words]))

    def loss(self, model: Any, inputs: Inputs, processes: Processes) -> Any:
        """The weighted parts of the loss of the batch."""
        import torch
        from torch.nn.functional import normalize

        images, texts = self.vectors(model, inputs)
        prompts = normalize(self.how.texts(model, inputs["prompts"]).float(), dim=-1)
        total = images.new_zeros(())
        if self.weights["contrastive"]:
            contrast = self.pair_loss(model, images, texts, inputs["codes"], processes)
            total = total + self.weights["contrastive"] * contrast
        share = len(images) / processes.total(len(images))  # means over parts become the mean over the batch
        if self.weights["equalise"]:
            scores = images @ prompts.T
            spread = torch.stack([set_spread(scores, inputs["cells"][axis]) for axis in self.axes]).mean()
            total = total + self.weights["equalise"] * spread * share
        if self.weights["distil"]:
            pairs = zip((images, texts, prompts), self._wanted(inputs), strict=True)
            change = torch.stack([(now - then).square().sum(dim=1).mean() for now, then in pairs]).sum()
            total = total + self.weights["distil"] * change * share
        return total

    def _wanted(self, inputs: Inputs) -> tuple[Any, Any, Any]:
        """What the vectors of images, captions and neutral texts should be, by the original model."""
        import torch
        from torch.nn.functional import normalize

        teacher = self._teacher.to(inputs["codes"].device)
        naming, differing = (rows.to(inputs["codes"].device) for rows in (self._naming, self._differing))
        with torch.no_grad():
            images, texts = self.vectors(teacher, inputs)
            neutral = normalize(self.how.texts(teacher, inputs["prompts"]).float(), dim=-1)
            _, place, sizes = torch.unique(inputs["twins"], return_inverse=True, return_counts=True)
            common = _cell_means(images, place, sizes)[place]
            common = common + (images - common) @ naming.T @ naming
            neutral, unnamed = (each - each @ differing.T @ differing for each in (neutral, texts))
            texts = torch.where(inputs["names_group"][:, None], texts, unnamed)
        return normalize(common, dim=-1), normalize(texts, dim=-1), normalize(neutral, dim=-1)

    def _names_group(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text names a group; where no lexicon can tell, it is taken to."""
        if self.axes != ("gender",):
            return [True] * len(texts)
        return [text != plain for text, plain in zip(texts, self._lexicon.neutralise_all(texts), strict=True)]

    def _vocabulary(self) -> list[str]:
        """The whole words that the tokenizer knows and that name no group."""
        if self.axes != ("gender",):  # no lexicon could leave out words for the groups
            return []
        marked = (token.removesuffix("</w>").lstrip("Ġ▁") for token in self.words.get_vocab())
        words = sorted({token for token in marked if token.isalpha() and token.islower() and len(token) > 3})
        plain = self._lexicon.neutralise_all(words)
        return [word for word, said in zip(words, plain, strict=True) if word == said]

    def _pool(self) -> list[str]:
        """The neutral texts that are drawn from."""
        texts = [with_subject(template, subject) for subject in self._subjects for template in TEMPLATES]
        return [*texts, *(GENERAL if self.general else ()), *self.prompts]

    def _old_texts(self, texts: Sequence[str]) -> Any:
        """(n, d) unit vectors of texts by the original model."""
        import torch
        from torch.nn.functional import normalize

        parts = [texts[start : start + 64] for start in range(0, len(texts), 64)]
        with torch.no_grad():
            vectors = [self.how.texts(self._teacher, self.tokens(part)).float() for part in parts]
        return normalize(torch.cat(vectors), dim=-1)

    def _cells(self, rows: Sequence[Row], *axes: str) -> list[str]:
        """Images of one cell differ in ``axes`` alone; a row without a group or a set is a cell of its own."""
        held = [other for other in (*self.axes, *self.others) if other not in axes]
        names = []
        for row in rows:
            if row["set_id"] is None or any(row[axis] is None for axis in axes):
                names.append(f"alone {row['image_id']}")
            else:
                names.append("\t".join(str(row[name]) for name in ("subject", "set_id", *held)))
        return names

    def _differing_directions(self, rows: TrainingRows, places: NDArray[np.int64]) -> Any:
        """(r, d) orthonormal directions in which images of one cell differ most, for the original model."""
        import torch

        sets = rows.labels.iloc[places].groupby("set_id", sort=False).indices
        order = np.random.default_rng(1).permutation(len(sets))
        members = [places[index] for index in sets.values()]
        chosen = np.concatenate([members[i] for i in order])[:_LOOKED_AT_IMAGES] if members else places[:0]
        changes = []
        for start in range(0, len(chosen), 64):
            some = rows.rows(chosen[start : start + 64].tolist())
            images = processed(self.processor, [row["image"] for row in some])
            with torch.no_grad():
                vectors = torch.nn.functional.normalize(self.how.images(self._teacher, images).float(), dim=-1)
            for axis in self.axes:
                _, place, sizes = torch.unique(
                    codes_of(self._cells(some, axis)), return_inverse=True, return_counts=True
                )
                changes.append((vectors - _cell_means(vectors, place, sizes)[place])[sizes[place] > 1])
        different = torch.cat(changes)
        if not len(different):
            return self._naming[:0]
        return torch.linalg.svd(different, full_matrices=False)[2][: _DIFFERING * len(self.axes)]

    def _naming_directions(self, rows: Sequence[Row]) -> Any:
        """(r, d) orthonormal directions in which captions of one cell differ most, for the original model."""
        import torch

        texts = sorted({text for row in rows for text in _texts_of(row[self.caption])})
        vectors = self._old_texts(texts)
        place = {text: i for i, text in enumerate(texts)}
        by_cell: dict[str, list[Row]] = {}
        for row, cell in zip(rows, self._cells(rows, *self.axes), strict=True):
            by_cell.setdefault(cell, []).append(row)
        changes = []
        for first, *rest in by_cell.values():
            for other in rest:
                pairs = zip(_texts_of(first[self.caption]), _texts_of(other[self.caption]), strict=False)
                changes += [vectors[place[a]] - vectors[place[b]] for a, b in pairs if a != b]
        if not changes:
            return vectors.new_zeros((0, vectors.shape[1]))
        return torch.linalg.svd(torch.stack(changes), full_matrices=False)[2][: _NAMING * len(self.axes)]


def set_spread(scores: Any, cells: Any) -> Any:
    """The mean squared difference of two images of one cell, over cells and texts; (n, m) ``scores``, (n,) ``cells``.

    >>> import torch
    >>> round(float(set_spread(torch.tensor([[0.1], [0.4], [0.9]]), torch.tensor([7, 7, 5]))), 4)
    0.09
    """
    import torch

    _, place, sizes = torch.unique(cells, return_inverse=True, return_counts=True)
    means = _cell_means(scores, place, sizes)
    squares = scores.new_zeros((len(sizes), scores.shape[1])).index_add(0, place, (scores - means[place]).square())
    several = sizes > 1
    if not several.any():
        return scores.sum() * 0
    return (2 * squares[several] / (sizes[several, None] - 1)).mean()


def _cell_means(scores: Any, place: Any, sizes: Any) -> Any:
    sums = scores.new_zeros((len(sizes), scores.shape[1])).index_add(0, place, scores)
    return sums / sizes[:, None]


def _texts_of(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned encoder, and the subjects that it has not seen."""

    trained: Trained
    held_out: tuple[str, ...]

    @property
    def model(self) -> str:
        """Its name, as every command takes it."""
        return f"hf:{self.trained.folder}"


def prepared_finetuning(
    model: str,
    table: Table,
    axes: Sequence[str],
    *,
    variant: str = "equalised",
    preset: str = "",
    held_out: float = 0.2,
    mixture: Mapping[str | Path | Table, float] | None = None,
    weights: Mapping[str, float] | None = None,
    tower: str = "",
    prompts: Sequence[str] = (),
    general: bool = True,
    caption: str = "caption",
    device: str = "auto",
    settings: Mapping[str, Any] | None = None,
) -> tuple[Training, list[str]]:
    """The training of :func:`finetune`, and the subjects that are held out; nothing is trained or written."""
    if variant not in VARIANTS:
        raise UnknownNameError("variant of counterfactual-finetune", variant, VARIANTS)
    if preset and preset not in PRESETS:
        raise UnknownNameError("preset of counterfactual-finetune", preset, PRESETS)
    if not axes:
        raise InputError(f"name the axes to repair; {table.path} has {', '.join(table.axes) or 'none'}")
    for axis in axes:
        if axis not in table.axes:
            raise UnknownNameError(f"axis of {table.path}", axis, table.axes)
    how = TrainSettings(whole_sets=True, batch=32, val_share=0.0 if variant == "contrastive" else 0.15)
    usual: dict[str, Any] = {"rate": PRESETS[preset]} if preset else {}
    how = how.having(usual | dict(settings or {}))
    others = [axis for axis in table.axes if axis not in axes]
    parts: dict[str, Any] = dict(VARIANTS[variant])
    unknown = [name for name in weights or {} if name not in parts]
    if unknown:
        raise UnknownNameError("part of the loss", unknown[0], parts)
    task = CounterfactualTask(
        axes,
        others,
        **(parts | dict(weights or {})),
        tower=tower or ("both" if variant == "contrastive" else "texts"),
        prompts=prompts,
        general=general,
        caption=caption,
    )
    apart = held_out_subjects(table, held_out, seed=how.seed) if held_out else []
    training = prepared_training(
        task, table, init=model, mixture=mixture, device=device, settings=how, choose=partial(_parts, apart, how)
    )
    task.look_at(training.rows, training.parts.train)
    training.of |= {"held_out": {"share": held_out, "seed": how.seed}}
    return training, apart


def finetune(
    model: str, table: Table, axes: Sequence[str], out: str | Path, *, overwrite: bool = False, **options: Any
) -> Finetuned:
    """Fine-tune the encoder ``model`` on the counterfactual sets of ``table`` into the folder ``out``.

    ``out`` opens as ``hf:<out>``; the layer ``held_out`` in it keeps the subjects alone that it has not seen.
    ``options`` are those of :func:`prepared_finetuning`: ``variant`` and ``weights`` of the loss, ``preset`` (the
    paper's rates), ``held_out`` (share of the subjects), ``mixture`` (real pairs), ``settings`` of training.
    """
    training, apart = prepared_finetuning(model, table, axes, **options)

    def layer(stage: Path) -> None:
        if apart:
            held_out_layer(table, apart, stage / HELD_OUT)

    return Finetuned(carried_out(training, out, overwrite=overwrite, beside=layer), tuple(apart))


def _parts(apart: Collection[str], how: TrainSettings, rows: TrainingRows) -> Parts:
    """Rows to learn from and rows that say when to stop; those of subjects held ``apart`` are neither."""
    labels = rows.labels
    ours = np.flatnonzero((labels["subject"].notna() & ~labels["subject"].isin(list(apart))).to_numpy(dtype=bool))
    if not len(ours):
        raise InputError(f"{rows.name}: no image of a subject is left to learn from")
    if not how.val_share:
        return Parts(ours, np.zeros(0, dtype=np.int64))
    fractions = {"train": 1 - how.val_share, "val": how.val_share}
    drawn = split(labels.iloc[ours], by="subject", fractions=fractions, seed=how.seed + 1).to_numpy()
    return Parts(ours[drawn == "train"], ours[drawn == "val"])
