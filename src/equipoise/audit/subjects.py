"""Queries that name a subject and nobody else, and the images of each subject as their pool.

What must stay fixed when the labels of one axis are shuffled: the levels of the others that vary inside sets.

Which columns are placebo axes: things that vary inside counterfactual sets and are no group of people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.audit.asking import NOT_AXES, SOCIALCF_PROMPTS, neutral_prompts
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.data.labels import set_names, set_numbers
from equipoise.errors import InputError, closest
from equipoise.measure.retrieval import Groups, with_partners
from equipoise.measure.retrieval.blocks import Source
from equipoise.measure.stats.exchange import LEAST_VARYING, MOSTLY, share_mixed

PLACEBO = "placebo_"
"""Columns with this beginning vary inside sets and are no group of people: a mirrored picture, a bag."""


def strata(frame: pd.DataFrame, axes: Sequence[str], asked: Sequence[str]) -> NDArray[np.int64]:
    """(N,) the combination of levels of the other axes of each image, -1 where such a level is missing.

    The other axes are those of ``axes`` and the columns ``placebo_*`` that are not in ``asked`` and that take more
    than one value inside at least one set (``subject``, ``set_id``). Those that do in fewer than a tenth of the sets
    have levels in these alone: a few wrong labels do not leave out all images whose level is not known. Shuffling
    labels inside a set only among images of the same code keeps a strong effect of one axis out of the null of another.
    All 0 where nothing else varies; a table without sets has nothing that varies inside them.

    >>> frame = pd.DataFrame({"set_id": ["s"] * 5, "gender": [*"fmfmf"], "race": ["x", "x", "y", "y", None]})
    >>> strata(frame, ["gender", "race"], ["gender"]).tolist()
    [0, 0, 1, 1, -1]
    """
    codes = np.zeros(len(frame), dtype=np.int64)
    placebos = [name for name in map(str, frame.columns) if name.startswith(PLACEBO)]
    others = [axis for axis in dict.fromkeys([*axes, *placebos]) if axis in frame and axis not in asked]
    if "set_id" not in frame:
        return codes
    missing = np.zeros(len(frame), dtype=bool)
    for axis in others:
        if not _varies(frame, axis):
            continue
        levels, names = pd.factorize(frame[axis], sort=True)
        rare = _sets_of_several(frame, axis)
        if rare is not None:
            levels = np.where(rare, levels, 0)
        missing |= levels < 0
        codes = codes * len(names) + levels
    codes[missing] = -1
    kept = ~missing
    codes[kept] = np.unique(codes[kept], return_inverse=True)[1]
    return codes


def _sets_of_several(frame: pd.DataFrame, axis: str) -> NDArray[np.bool_] | None:
    """(N,) the images of sets that show several levels; ``None`` where a tenth of the sets or more do."""
    sets = set_numbers(frame)
    if _vary_inside(frame, axis, sets):
        return None
    kinds = frame[axis].groupby(sets).nunique()
    return np.isin(sets, kinds.index[(kinds > 1) & (kinds.index >= 0)])


def _vary_inside(frame: pd.DataFrame, axis: str, sets: NDArray[np.int64]) -> bool:
    """Whether levels of ``axis`` differ inside a tenth of ``sets`` (N,) or more; -1 is no set."""
    levels = pd.factorize(frame[axis])[0]
    known = (levels >= 0) & (sets >= 0)
    return share_mixed(levels[known], sets[known]) >= LEAST_VARYING


def placebo_axes(frame: pd.DataFrame, config: AuditConfig, axes: Sequence[str]) -> tuple[str, ...]:
    """The columns ``placebo_*`` that vary inside sets, and those that the settings name.

    A named column that the table lacks, that is itself asked about, or that never varies inside a set is refused.

    >>> frame = pd.DataFrame({"set_id": ["s", "s"], "gender": ["f", "m"], "placebo_bag": ["no", "yes"]})
    >>> placebo_axes(frame, AuditConfig(), ["gender"])
    ('placebo_bag',)
    >>> placebo_axes(frame, AuditConfig(placebos=("placebo_bags",)), ["gender"])
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: the table has no placebo column 'placebo_bags'; did you mean 'placebo_bag'?
    """
    columns = [str(name) for name in frame.columns]
    for name in config.placebos:
        if name not in columns:
            near = closest(name, columns, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(columns)}"
            raise InputError(f"the table has no placebo column {name!r}; {hint}")
        if name in axes:
            raise InputError(f"{name!r} is asked about as an axis and named as a placebo; it can be one of the two")
        if name in NOT_AXES or not _varies(frame, name):
            raise InputError(f"the placebo column {name!r} does not vary inside sets; name one that does")
    usual = [name for name in columns if name.startswith(PLACEBO) and name not in axes and _varies(frame, name)]
    return tuple(dict.fromkeys([*usual, *config.placebos]))


def _varies(frame: pd.DataFrame, name: str) -> bool:
    """Whether an axis takes more than one value inside a set; sets without a subject are sets too."""
    if "set_id" not in frame:
        return False
    inside = frame[frame["set_id"].notna()]
    keys = [inside[column] for column in ("subject", "set_id") if column in inside]
    try:
        return bool((inside[name].groupby(keys, dropna=False).nunique() > 1).any())
    except TypeError:  # a column of lists
        return False


@dataclass(frozen=True)
class SubjectQueries:
    """Neutral queries: their scores, the subject of each, and the number of that subject (its pool)."""

    source: Source
    names: list[str]
    pools: NDArray[np.int64]
    one_each: bool
    """Whether each subject has one query; with ``metric_mean`` it has one for each prompt."""


def subject_texts(frame: pd.DataFrame, config: AuditConfig) -> Sequence[str]:
    """All neutral prompts of all subjects."""
    _refuse_no_subjects(frame)
    subjects = sorted(frame["subject"].dropna().unique())
    prompts = neutral_prompts(subjects, config.prompts or SOCIALCF_PROMPTS)
    return list(dict.fromkeys(text for some in prompts for text in some))


def subjects_with_sets(frame: pd.DataFrame, min_sets: int) -> tuple[list[str], list[str]]:
    """The subjects with at least ``min_sets`` counterfactual sets, and those with fewer.

    >>> frame = pd.DataFrame({"subject": ["cook", "cook", "nurse"], "set_id": ["1", "2", "3"]})
    >>> subjects_with_sets(frame, 2)
    (['cook'], ['nurse'])
    """
    if "set_id" in frame and frame["set_id"].notna().any():
        sizes = frame.groupby("subject")["set_id"].nunique()
    else:
        sizes = frame.groupby("subject").size()
    return sorted(sizes[sizes >= min_sets].index), sorted(sizes[sizes < min_sets].index)


def subjects_asked(frame: pd.DataFrame, config: AuditConfig, findings: Findings) -> list[str]:
    """The subjects with enough sets; the others are noted."""
    _refuse_no_subjects(frame)
    subjects, dropped = subjects_with_sets(frame, config.min_sets)
    if dropped:
        findings.notes.append(
            f"{len(dropped)} subjects left out with fewer than {config.min_sets} sets: {', '.join(dropped[:10])}"
            + (" …" if len(dropped) > 10 else "")
        )
    if not subjects:
        raise InputError(
            f"no subject has {config.min_sets} counterfactual sets; give a table with more sets of each subject, or "
            "take fewer with --min-sets"
        )
    return subjects


def _refuse_no_subjects(frame: pd.DataFrame) -> None:
    if "subject" not in frame or not frame["subject"].notna().any():
        raise InputError(
            "the table has no subjects, which this suite asks about; import with --subject COLUMN, or take "
            "--suite prompts or --suite faces"
        )


def subject_queries(evidence: Evidence, subjects: Sequence[str], config: AuditConfig) -> SubjectQueries:
    """The neutral queries of ``subjects``, their prompts joined as the settings say."""
    templates = config.prompts or SOCIALCF_PROMPTS
    prompts = neutral_prompts(subjects, templates)
    if config.prompt_pool == "metric_mean":
        source = evidence.source([text for some in prompts for text in some])
        names = [subject for subject in subjects for _ in templates]
    else:
        source = evidence.pooled_source(prompts, config.prompt_pool)
        names = list(subjects)
    pools = pd.Index(list(subjects)).get_indexer(pd.Index(names))
    return SubjectQueries(source, names, pools, config.prompt_pool != "metric_mean")


def joined_prompts(config: AuditConfig) -> str:
    """How several prompts of a subject become one query where there must be one: unit vectors for ``metric_mean``."""
    return "embed_mean_unit" if config.prompt_pool == "metric_mean" else config.prompt_pool


def set_codes(frame: pd.DataFrame, inside: NDArray[np.bool_], asked: Sequence[str]) -> NDArray[np.int64] | None:
    """(N,) the counterfactual set of each image as a number; ``None`` if no image ``inside`` the pool has one.

    The images of a subject that belong to no set share a number where the ``asked`` axes vary inside sets: they are
    nobody's twins, and chance may exchange their labels with each other's, but not with those of a set. Where they
    hardly do, as with people, whole sets exchange their labels, and such an image is a set of its own.

    >>> frame = pd.DataFrame({"set_id": ["p", "p", None, "q", "q", None], "gender": [*"fmfmff"]})
    >>> set_codes(frame, np.ones(6, dtype=bool), ["gender"]).tolist()
    [0, 0, 2, 1, 1, 2]
    >>> set_codes(frame.assign(gender=[*"ffmmmf"]), np.ones(6, dtype=bool), ["gender"]).tolist()
    [0, 0, 2, 1, 1, 3]
    """
    codes = set_numbers(frame)
    if (codes[inside] < 0).all():
        return None
    alone = codes < 0
    if not alone.any():
        return codes
    vary = any(_vary_inside(frame, axis, np.where(inside, codes, -1)) for axis in asked if axis in frame)
    if vary:
        owner = frame.loc[alone, "subject"] if "subject" in frame else pd.Series(0, index=frame.index[alone])
    else:
        owner = pd.Series(np.arange(alone.sum()))
    codes[alone] = codes.max() + 1 + pd.factorize(owner, use_na_sentinel=False)[0]
    return codes


def sets_or_images(frame: pd.DataFrame) -> NDArray[np.int64] | None:
    """(N,) what is independent, as a number: the set of each image, or itself without one; ``None``: all are.

    >>> sets_or_images(pd.DataFrame({"set_id": ["p", None, "p", None]})).tolist()
    [0, 1, 0, 2]
    >>> sets_or_images(pd.DataFrame({"set_id": ["p", "q"]})) is None
    True
    """
    numbers = set_numbers(frame)
    numbers = np.where(numbers < 0, len(frame) + np.arange(len(frame)), numbers)
    sources, codes = np.unique(numbers, return_inverse=True)
    return codes.astype(np.int64) if len(sources) < len(frame) else None


def names_of_sets(frame: pd.DataFrame) -> NDArray[np.object_]:
    """(N,) the name of each image's set, or its own without one: what :func:`sets_or_images` numbers."""
    own = frame["image_id"].to_numpy(dtype=object)
    if sets_or_images(frame) is None:
        return own
    names = set_names(frame)
    return np.where(pd.isna(names), own, names)


@dataclass(frozen=True)
class SetStructure:
    """How labels may move under the null, see :mod:`equipoise.measure.stats.exchange`; all ``None`` without sets."""

    sets: NDArray[np.int64] | None = None
    strata: NDArray[np.int64] | None = None
    links: NDArray[np.int64] | None = None

    def options(self) -> dict[str, Any]:
        """As :func:`equipoise.measure.retrieval.chance` takes them."""
        return {"sets": self.sets, "strata": self.strata, "links": self.links}


def set_structure(
    frame: pd.DataFrame, config: AuditConfig, asked: Sequence[str], inside: NDArray[np.bool_]
) -> SetStructure:
    """The sets of images ``inside`` a pool, what stays fixed while ``asked`` axes move, and which sets are linked."""
    sets = set_codes(frame, inside, asked)
    if sets is None:
        return SetStructure()
    known = [*frame.attrs.get("axes", ()), *config.axes, *config.placebos]
    return SetStructure(sets, strata(frame, list(dict.fromkeys(known)), asked), links_of(frame, config))


def moving_cells(frame: pd.DataFrame, sets: NDArray[np.int64], axis: str) -> NDArray[np.int64]:
    """(N,) inside which labels of ``axis`` may move: one set, and the same levels of the other axes that vary in sets.

    Gender labels that moved across skin tones would measure skin tone. An image whose other level is not known stays.
    """
    others = strata(frame, tuple(frame.attrs.get("axes", ())), (axis,))
    cells = sets * (int(others.max(initial=0)) + 1) + others
    alone = others < 0
    cells[alone] = cells.max(initial=0) + 1 + np.arange(int(alone.sum()))
    return np.asarray(np.unique(cells, return_inverse=True)[1], dtype=np.int64)


def shuffled_cells(frame: pd.DataFrame, sets: NDArray[np.int64], axis: str) -> NDArray[np.int64] | None:
    """:func:`moving_cells`, or ``None`` where whole sets are to exchange their labels: few or none show two groups.

    Labels then move inside the few. Where other axes vary in these, the few keep their cells, so that gender does not
    move across tones, and all others share one number: with the sets as clusters, they exchange their labels whole.
    """
    alone = frame["set_id"].isna().to_numpy(dtype=bool)  # nobody's twins: their labels move among themselves
    cells = moving_cells(frame, np.where(alone, sets.max(initial=0) + 1, sets), axis)
    by_set = pd.DataFrame({"group": frame[axis].to_numpy(), "cell": cells}).groupby(sets).nunique()
    varied = by_set["group"] > 1
    if varied.mean() > MOSTLY:
        return cells
    if not (varied & (by_set["cell"] > 1)).any():
        return None
    return np.where(np.isin(sets, varied.index[varied]), cells, -1)


def groups_to_rank(groups: Groups, structure: SetStructure, inside: NDArray[np.bool_], findings: Findings) -> Groups:
    """``groups``, in linked sets without the images that have no partner: the null needs that."""
    if structure.links is None or structure.sets is None:
        return groups
    kept = with_partners(groups, structure.sets, structure.strata, structure.links)
    lost = int((groups.defined & ~kept.defined & inside).sum())
    if lost:
        why = "a set or a level without every group that its link shows"
        findings.note(f"{groups.axis}: {lost:,} images of linked sets left out: {why}")
    return kept


def links_of(frame: pd.DataFrame, config: AuditConfig) -> NDArray[np.int64] | None:
    """(N,) which sets show the same people, or were made from the same seed; ``None`` where none do.

    The column ``link``, or the one that the setting ``link`` names, has the same value in sets of different subjects
    that are linked; an image without one is linked to its own set alone.

    >>> frame = pd.DataFrame({"subject": [*"aabb"], "set_id": [*"1212"], "link": ["x", "y", "x", "z"]})
    >>> links_of(frame, AuditConfig()).tolist()
    [0, 1, 0, 2]
    """
    column = config.link or "link"
    if column not in frame:
        if config.link:
            near = closest(config.link, map(str, frame.columns), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InputError(f"the table has no column {config.link!r} that could link its sets{hint}")
        return None
    if "set_id" not in frame:
        raise InputError(f"the column {column!r} links counterfactual sets, but the table has no set_id")
    keys_of_set = [name for name in ("subject", "set_id") if name in frame]
    sets = frame.groupby(keys_of_set, sort=False, dropna=False).ngroup()
    given = frame[column]
    keys = pd.Series(np.where(given.isna(), "set " + sets.astype(str), "link " + given.astype(str)), index=frame.index)
    links = np.asarray(pd.factorize(keys)[0], dtype=np.int64)
    several = sets.groupby(links).nunique() > 1
    return links if several.any() else None


def n_unchecked_edits(frame: pd.DataFrame) -> int:
    """How many images are edits of others whose groups were only asked for: no filter and no person has looked at them.

    >>> frame = pd.DataFrame({"image_id": ["a", "b", "c"], "source_id": [None, "a", "a"]})
    >>> n_unchecked_edits(frame), n_unchecked_edits(frame.assign(keep=True))
    (2, 0)
    >>> n_unchecked_edits(frame.assign(label_source=["caption", "prompt", "annotator"]))
    1
    """
    if "keep" in frame or "source_id" not in frame:
        return 0
    edit = frame["source_id"].notna() & (frame["source_id"] != frame["image_id"])
    asked_for = frame["label_source"].fillna("prompt") == "prompt" if "label_source" in frame else True
    return int((edit & asked_for).sum())


def pool_name(frame: pd.DataFrame) -> str:
    """What the images are: the one source of labels tells rendered and generated pools from natural ones."""
    if "label_source" not in frame:
        return "natural"
    sources = set(frame["label_source"].dropna().unique())
    if sources == {"world"}:
        return "rendered"
    return "generated" if sources == {"prompt"} else "natural"
