"""What the study of contamination is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from equipoise.data.settings import Settings
from equipoise.errors import InputError, UnknownNameError
from equipoise.recipes.studies.frame import StudyOptions

ARMS = {
    "biased": "pictures of a generator that learnt from the biased world",
    "placebo": "other renders of the same captions",
    "fair": "pictures of a generator that learnt from the fair world",
    "blurred": "the pictures of the biased generator, blurred",
}
MODES = ("accumulate", "replace")
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True)
class ContaminationSettings(Settings):
    """Shares, seeds and generations, and the sizes of everything at scale ``mini``.

    >>> ContaminationSettings(alphas=(0.5, 0.5))
    Traceback (most recent call last):
        ...
    equipoise.errors.InputError: alpha = 0.5, 0.5: each share once
    """

    what: ClassVar[str] = "setting of the study of contamination"

    alphas: tuple[Share, ...] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    seeds: Count = 3
    """Each seed has its own real pictures, generated pictures, draw of what is replaced and order of batches."""
    generations: Annotated[int, Field(ge=0)] = 3
    """How often the generator learns from a mixture with pictures of its own; 0 leaves this part out."""
    mode: Literal["both", "accumulate", "replace"] = "both"
    """Whether generated pictures pile up beside the real ones, or take the place of a share of them."""
    arms: tuple[str, ...] = tuple(ARMS)
    captioned: tuple[str, ...] = ("biased",)
    """The arms for which captioners are trained too."""
    pictures: Count = 560
    """Real pictures of a seed."""
    tested: Annotated[int, Field(ge=100)] = 280
    """Pictures on which the models are measured."""
    start_pictures: Count = 1200
    start_steps: Count = 300
    clip_steps: Count = 40
    """On generated pictures, more steps wear off what the text tower knows of gender (:data:`.tables.SEES`)."""
    captioner_steps: Count = 40
    again: Count = 56
    """Pictures of a generation of the generator."""
    again_steps: Count = 16
    again_alpha: Share = 0.5

    def check(self) -> None:
        """Refuse shares that are given twice, too few of them, and arms that are not there."""
        shares = ", ".join(f"{alpha:g}" for alpha in self.alphas)
        if len(set(self.alphas)) < len(self.alphas):
            raise InputError(f"alpha = {shares}: each share once")
        if not self.alphas:
            raise InputError("alpha: give at least one share, such as 0,0.5,1")
        for name in (*self.arms, *self.captioned):
            if name not in ARMS:
                raise UnknownNameError("arm", name, ARMS)
        if set(self.captioned) - set(self.arms):
            raise InputError("captioned: captioners are trained for arms that are among the arms")
        if self.again > self.pictures:
            raise InputError(f"again = {self.again}: there are {self.pictures} real pictures to draw again")

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares in rising order.

        >>> ContaminationSettings(alphas=(1, 0)).shares
        (0.0, 1.0)
        """
        return tuple(sorted(map(float, self.alphas)))

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes that are followed."""
        return MODES if self.mode == "both" else (self.mode,)


QUICK = {"alphas": (0.0, 0.5, 1.0), "seeds": 1, "generations": 1}
"""What ``--quick`` changes, unless it is given. Sizes stay: CLIPs of fewer pictures cannot tell genders apart."""


def settings_of(options: StudyOptions) -> ContaminationSettings:
    """The settings of a run: the usual or the quick ones, and what was given."""
    return ContaminationSettings().having({**(QUICK if options.quick else {}), **options.own})
