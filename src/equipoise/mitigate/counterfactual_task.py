"""The loss of counterfactual fine-tuning, as a task; :mod:`equipoise.mitigate.finetune` says what it is for."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.labels import set_names
from equipoise.errors import InputError, UnknownNameError
from equipoise.models.folders import Checkpoint
from equipoise.models.images import processed
from equipoise.text import Lexicon
from equipoise.text.templates.places import with_subject
from equipoise.train.processes import Processes
from equipoise.train.rows import TrainingRows
from equipoise.train.task import Inputs, Row, drawn_texts
from equipoise.train.tasks.clip import ClipTask, codes_of

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

        names = pd.Series(set_names(rows.labels)[places])
        sets = names.groupby(names, sort=False).indices
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
