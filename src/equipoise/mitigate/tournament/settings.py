"""What a tournament can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from equipoise.data.settings import Settings
from equipoise.errors import InputError
from equipoise.text.templates.places import check_places

Share = Annotated[float, Field(gt=0, lt=1, description="a share between 0 and 1, such as 0.4")]


@dataclass(frozen=True)
class TournamentSettings(Settings):
    """Settings of a tournament.

    >>> TournamentSettings().having({"draws": 200}).draws
    200
    """

    what: ClassVar[str] = "setting of a tournament"

    axis: str = "gender"
    """The axis that is repaired; the table's others show what moves along."""
    k: Annotated[int, Field(ge=2)] = 12
    """MaxSkew looks at so many images."""
    prompt: str = "A photo of {a}"
    """The neutral prompt, with a place for the subject."""
    shown: Share = 0.4
    """The share of subjects that the table shows: those that ``equipoise mitigate`` keeps apart with the same share."""
    choosing: Share = 0.33
    """The share of the other subjects on which strengths are chosen; remedies are fitted on the rest."""
    most_loss: Annotated[float, Field(ge=0, lt=1)] = 0.03
    """A strength may cost so much zero-shot accuracy on the subjects it is chosen on."""
    draws: Annotated[int, Field(ge=2)] = 1000
    seed: Annotated[int, Field(ge=0)] = 0
    level: Share = 0.95

    def check(self) -> None:
        """Refuse a prompt without a place for the subject."""
        check_places(self.prompt)
        if not self.axis:
            raise InputError("axis: name the axis to repair, such as gender")
