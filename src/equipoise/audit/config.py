"""What an audit can be told; every result folder holds the one it was made with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from equipoise.data.settings import Settings
from equipoise.errors import InputError, UnknownNameError
from equipoise.measure.retrieval.variants import VARIANTS

PromptPool = Literal["embed_mean_unit", "embed_mean_raw", "metric_mean"]
Seed = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class AuditConfig(Settings):
    """Settings of a suite; what is left empty is the suite's own choice.

    >>> AuditConfig(k=(12,)).having({"draws": 200}).draws
    200
    """

    what: ClassVar[str] = "audit setting"

    axes: tuple[str, ...] = ()
    """The axes to ask about; all that the table has unless given."""
    k: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """How many images count as retrieved."""
    variants: tuple[str, ...] = ("equipoise",)
    """Definitions by name, see ``equipoise.measure.retrieval.VARIANTS``."""
    prompts: tuple[str, ...] = ()
    """Neutral prompts: ``{}`` is the bare subject, ``{a}`` the subject with its article ("A photo of {a}"), ``{A}``
    that with a capital; behind a written "a" or "an" the article that fits is chosen. The suite ``prompts`` asks them
    as they stand."""
    prompt_kinds: tuple[str, ...] = ()
    """The kind of each prompt (a trait, a crime, a job), as many as there are prompts; for the suite ``prompts``."""
    prompt_pool: PromptPool = "embed_mean_unit"
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
    draws: Annotated[int, Field(ge=2)] = 1000
    """Draws of the null."""
    seeds: tuple[Seed, ...] = (0, 1, 2, 3, 4)
    """Seeds of balanced pools; with none, balanced pools are left out."""
    seed: Seed = 0
    level: Annotated[float, Field(gt=0, lt=1, description="a number between 0 and 1, such as 0.95")] = 0.95
    placebos: tuple[str, ...] = ()
    """Columns that vary inside counterfactual sets and are no group of people, beside those named ``placebo_*``."""
    margin: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="a number of spreads above 0, such as 0.2")
    ] = 0.2
    """The largest gap that is too small to matter, in spreads between sets of the same group (Cohen's "small")."""

    def check(self) -> None:
        """Refuse unknown variants, and a pair that is none."""
        for variant in self.variants:
            if variant not in VARIANTS:
                raise UnknownNameError("variant", variant, VARIANTS)
        if self.pair and len(self.pair) != 2:
            raise InputError(f"pair = {', '.join(self.pair)}: give two groups")
