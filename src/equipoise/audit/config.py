"""What an audit can be told; every result folder holds the one it was made with."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.retrieval.variants import VARIANTS
from equipoise.text.templates.places import check_places

__all__ = ["PROMPT_POOLS", "AuditConfig"]

PROMPT_POOLS = ("embed_mean_unit", "embed_mean_raw", "metric_mean")
_LISTS = ("axes", "k", "variants", "prompts", "pair", "seeds", "placebos")


@dataclass(frozen=True)
class AuditConfig:
    """Settings of a suite; what is left empty is the suite's own choice.

    >>> AuditConfig(k=(12,)).having({"draws": 200}).draws
    200
    """

    axes: tuple[str, ...] = ()
    """The axes to ask about; all that the table has unless given."""
    k: tuple[int, ...] = ()
    """How many images count as retrieved."""
    variants: tuple[str, ...] = ("equipoise",)
    """Definitions by name, see ``equipoise.measure.retrieval.VARIANTS``."""
    prompts: tuple[str, ...] = ()
    """Neutral prompts: ``{}`` is the bare subject, ``{a}`` the subject with its article ("A photo of {a}"), ``{A}``
    that with a capital; behind a written "a" or "an" the article that fits is chosen."""
    prompt_pool: str = "embed_mean_unit"
    """How several prompts of a subject are joined: unit vectors averaged and brought to unit length
    (``embed_mean_unit``), raw vectors averaged (``embed_mean_raw``), or the metric averaged (``metric_mean``)."""
    min_sets: int = 2
    """A subject with fewer counterfactual sets than this is left out and counted."""
    pair: tuple[str, ...] = ()
    """The two groups of Bias@K, the first counting as positive."""
    lexicon: str = "equipoise"
    """The lexicon whose words are made neutral in captions that serve as neutral queries; "none" leaves them."""
    link: str = ""
    """The column that is the same for sets of different subjects that show the same people or come from one seed: their
    labels move together under chance. Without it, the column ``link`` if the table has one."""
    draws: int = 1000
    """Draws of the null."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of balanced pools; with none, balanced pools are left out."""
    seed: int = 0
    level: float = 0.95
    placebos: tuple[str, ...] = ()
    """Columns that vary inside counterfactual sets and are no group of people, beside those named ``placebo_*``."""
    margin: float = 0.2
    """The largest gap that is too small to matter, in spreads between sets of the same group (Cohen's "small")."""

    def __post_init__(self) -> None:
        for name in _LISTS:
            if not isinstance(getattr(self, name), tuple):
                raise InputError(f"{name} = {getattr(self, name)!r}: give a list")
        for name in ("min_sets", "draws", "seed"):
            if not _whole(getattr(self, name)):
                raise InputError(f"{name} = {getattr(self, name)!r}: give a whole number")
        for prompt in self.prompts:
            check_places(prompt)
        if self.seed < 0:
            raise InputError(f"seed = {self.seed}: give a whole number of at least 0")
        if self.prompt_pool not in PROMPT_POOLS:
            raise UnknownNameError("prompt pool", self.prompt_pool, PROMPT_POOLS)
        for variant in self.variants:
            if variant not in VARIANTS:
                raise UnknownNameError("variant", str(variant), VARIANTS)
        for k in self.k:
            if not _whole(k) or k < 1:
                raise InputError(f"k = {k!r}: give whole numbers of at least 1")
        for seed in self.seeds:
            if not _whole(seed):
                raise InputError(f"seeds: {seed!r} is not a whole number")
            if seed < 0:
                raise InputError(f"seeds: {seed} is below 0; give whole numbers of at least 0")
        if self.draws < 2:
            raise InputError(f"draws = {self.draws}: a null needs at least 2")
        if not isinstance(self.level, float) or not 0 < self.level < 1:
            raise InputError(f"level = {self.level!r}: give a number between 0 and 1, such as 0.95")
        if _whole(self.margin):
            object.__setattr__(self, "margin", float(self.margin))
        if not isinstance(self.margin, float) or not 0 < self.margin < float("inf"):
            raise InputError(f"margin = {self.margin!r}: give a number of spreads above 0, such as 0.2")
        if self.pair and len(self.pair) != 2:
            raise InputError(f"pair = {', '.join(self.pair)}: give two groups")

    def having(self, changes: Mapping[str, Any]) -> AuditConfig:
        """The same with some settings changed; an unknown setting is answered with the closest."""
        known = {f.name for f in fields(self)}
        for name in changes:
            if name not in known:
                raise UnknownNameError("audit setting", name, known)
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in changes.items()}
        return replace(self, **plain)

    def having_toml(self, path: str | Path) -> AuditConfig:
        """The same with the settings in a TOML file."""
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{path}: {(error.strerror or 'cannot be read').lower()}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: not valid TOML: {error}") from None
        return self.having(data)

    @classmethod
    def from_toml(cls, path: str | Path) -> AuditConfig:
        """The settings in a TOML file, and the usual ones for the rest."""
        return cls().having_toml(path)

    def plain(self) -> dict[str, Any]:
        """The settings as plain data."""
        return asdict(self)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
