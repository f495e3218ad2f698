"""A suite: what to ask a model, over which images, with which metrics; and who asked it first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pandas as pd

from equipoise.audit.asking import check_pair
from equipoise.audit.config import AuditConfig
from equipoise.audit.evidence import Evidence
from equipoise.audit.findings import Findings
from equipoise.errors import InputError, closest
from equipoise.formatting import joined
from equipoise.text.templates.places import check_places

_FLAGS = {
    "axes": "--axis",
    "k": "--k",
    "variants": "--variant",
    "prompts": "--prompt",
    "prompt_kinds": "kinds of prompts",
    "pair": "--pair",
    "min_sets": "--min-sets",
    "placebos": "--placebo",
    "margin": "--margin",
    "link": "--link",
    "draws": "--draws",
    "seed": "--seed",
}
_WHY = dict.fromkeys(("placebos", "margin", "link"), "it measures no gaps inside sets") | {
    "prompt_kinds": "only the suite 'prompts' tells prompts of several kinds apart",
    "draws": "it shuffles nothing",
    "lexicon": "it makes no caption neutral",
    "seeds": "it draws no balanced pools",
}
EVERY_SETTING = tuple(f.name for f in fields(AuditConfig))


@dataclass(frozen=True)
class Suite:
    """One question with its source, its defaults, and two functions: which texts to ask, and how to measure."""

    name: str
    question: str
    """What the suite asks, in one sentence."""
    citation: str
    columns: tuple[str, ...]
    """The columns a table must have."""
    texts: Callable[[pd.DataFrame, AuditConfig], Sequence[str]]
    """The texts that the model must read."""
    measure: Callable[[Evidence, AuditConfig], Findings]
    """The numbers, from labels and from what the model made of images and texts."""
    axes: Callable[[pd.DataFrame, AuditConfig], Sequence[str]] | None = None
    """The axes it asks about, see :mod:`equipoise.audit.asking`; asked before the model is, so that a wrong axis
    costs nothing."""
    reads: tuple[str, ...] = ()
    """Columns of lists (``captions``) that it reads where the table has them; they are left out otherwise."""
    settings: tuple[str, ...] = tuple(name for name in EVERY_SETTING if name not in _WHY or name == "draws")
    """The settings that it reads, by name; another one is refused and not silently ignored."""
    defaults: AuditConfig = field(default_factory=AuditConfig)
    fills_prompts: bool = True
    """Whether a prompt has a place for the subject; the suite ``prompts`` asks texts as they stand."""
    advice: Callable[[AuditConfig], str] | None = None
    """What these settings will not be able to tell, and what to give instead; empty where they are well chosen. It is
    said before a model is asked."""
    own_k: str = ""
    """How it chooses K where none is given, in words; empty for a suite that ranks nothing."""
    pool_of: str = ""
    """The column each of whose values has a pool of its own to rank; without one, all images are the largest pool."""
    needs_model: bool = True
    """Whether a model is asked at all; the caption baselines bring their own."""

    def check(self, frame: pd.DataFrame, config: AuditConfig) -> None:
        """Refuse a table that lacks what the suite needs, naming it, and a setting that the suite does not read."""
        for name in EVERY_SETTING:
            if getattr(config, name) != getattr(self.defaults, name):
                self._check_read(name)
        self._check_prompts(config)
        for name in self.columns:
            if name not in frame:
                near = closest(name, map(str, frame.columns), n=1)
                raise InputError(
                    f"suite {self.name!r} needs the column {name!r}, which the table lacks"
                    + (f"; did you mean {near[0]!r}?" if near else f"; it has: {', '.join(map(str, frame.columns))}")
                )
        if frame.empty:
            raise InputError(f"suite {self.name!r}: the table has no rows")
        if self.axes is not None:
            check_pair(frame, self.axes(frame, config), config)
        self._check_k(frame, config)

    def configured(self, changes: Mapping[str, Any]) -> AuditConfig:
        """Its defaults with these settings changed; one that it does not read is refused, even as it is by default."""
        settings = self.defaults.having(changes)
        for name in changes:
            self._check_read(name)
        self._check_prompts(settings)
        return settings

    def k_told(self, config: AuditConfig, found: Iterable[int]) -> str:
        """One sentence on the K that were ``found`` in the results, where the suite chose them; empty where it did not.

        >>> from equipoise.audit.suites import SUITES
        >>> SUITES.load("contrast").k_told(AuditConfig(), [5, 1, 5])
        'No --k was given, so the suite chose K = 1 and 5: as in GenSynth.'
        >>> SUITES.load("contrast").k_told(AuditConfig(k=(5,)), [5])
        ''
        """
        ks = [f"{k:,}" for k in sorted(set(found))]
        if not self.own_k or not ks or config.k:
            return ""
        begin = "No --k was given, so the suite chose" if "k" in self.settings else "The suite takes"
        return f"{begin} K = {joined(ks)}: {self.own_k}."

    def _check_k(self, frame: pd.DataFrame, config: AuditConfig) -> None:
        """Refuse a K beyond the largest pool; one that only some pools reach is told of in the notes."""
        sizes = frame[self.pool_of].value_counts() if self.pool_of else pd.Series({"": len(frame)})
        if sizes.empty or max(config.k, default=0) <= sizes.iloc[0]:
            return
        of = f"of the largest pool, {str(sizes.index[0])!r}" if self.pool_of else "in the table"
        raise InputError(
            f"K = {max(config.k):,}, but only {sizes.iloc[0]:,} images are {of}, and all would be retrieved; give a "
            "smaller --k"
        )

    def _check_prompts(self, config: AuditConfig) -> None:
        for prompt in config.prompts if self.fills_prompts else ():
            check_places(prompt)

    def _check_read(self, name: str) -> None:
        if name not in self.settings:
            why = _WHY.get(name, "its own is fixed")
            raise InputError(f"suite {self.name!r} does not read {_FLAGS.get(name, name)}, {why}; leave it out")
