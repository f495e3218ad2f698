"""Models of known bias over counterfactual tables of known structure, for simulations."""

from dataclasses import dataclass

import numpy as np

from equipoise.measure import retrieval as r


@dataclass
class Table:
    """Images of counterfactual sets: one row per image."""

    subject: np.ndarray
    sets: np.ndarray
    person: np.ndarray
    """The number of the set inside its subject: sets of two subjects with the same one may show the same people."""
    axes: dict[str, np.ndarray]

    def __len__(self):
        return len(self.subject)

    def groups(self, axis):
        return r.Groups(self.axes[axis], tuple(f"{axis}{level}" for level in range(self.axes[axis].max() + 1)))

    def strata(self, axis):
        code = np.zeros(len(self), dtype=np.int64)
        for name, levels in self.axes.items():
            if name != axis:
                code = code * (levels.max() + 1) + levels
        return code

    def candidates(self):
        return r.Candidates(self.subject, np.arange(self.subject.max() + 1))

    def without(self, share, rng):
        """The same table with a share of its images missing at random."""
        keep = rng.random(len(self)) >= share
        axes = {name: levels[keep] for name, levels in self.axes.items()}
        return Table(self.subject[keep], self.sets[keep], self.person[keep], axes)


def table(n_subjects, n_sets, **levels):
    """Complete sets: every combination of the levels of the axes, ``n_sets`` times for every subject."""
    grid = np.stack(np.meshgrid(*[np.arange(n) for n in levels.values()], indexing="ij"), axis=-1)
    grid = grid.reshape(-1, len(levels))
    total = n_subjects * n_sets
    axes = {name: np.tile(grid[:, place], total) for place, name in enumerate(levels)}
    sets = np.repeat(np.arange(total), len(grid))
    return Table(sets // n_sets, sets, sets % n_sets, axes)


def scores(images, rng, *, effects=None, quirks=None, set_sd=1.0, noise=1.0, person_sd=0.0):
    """(N,) scores: an effect per axis, quirks per subject, sets, noise, people shared by subjects.

    ``effects[axis]`` adds that much times a centred level. ``quirks[axis]`` is the sd of each subject's own preference.
    ``person_sd`` is the sd of what a person of a label brings to every subject that it is seen in.
    """
    values = noise * rng.standard_normal(len(images)) + set_sd * rng.standard_normal(images.sets.max() + 1)[images.sets]
    for axis, size in (effects or {}).items():
        levels = images.axes[axis]
        values += size * (levels - levels.max() / 2)
    for axis, size in (quirks or {}).items():
        levels = images.axes[axis]
        values += size * rng.standard_normal((images.subject.max() + 1, levels.max() + 1))[images.subject, levels]
    if person_sd:
        code = np.zeros(len(images), dtype=np.int64)
        for levels in images.axes.values():
            code = code * (levels.max() + 1) + levels
        values += person_sd * rng.standard_normal((images.person.max() + 1, code.max() + 1))[images.person, code]
    return values


def retrieved(images, values, axis, k, metrics=("max_skew",), *, linked=False, **more):
    """The metrics of one query per subject over its images; of ``linked`` sets without images that lack a partner."""
    tiled = np.broadcast_to(values, (images.subject.max() + 1, len(values)))
    groups = images.groups(axis)
    groups = r.with_partners(groups, images.sets, images.strata(axis), images.person) if linked else groups
    return r.evaluate(r.Scores(tiled), groups, k=k, metrics=list(metrics), candidates=images.candidates(), **more)
