"""What the study of contamination shows."""

from __future__ import annotations

from equipoise.recipes.studies.frame import StudyHome
from equipoise.report.study import StudyPart

__all__ = ["parts_of"]


def parts_of(home: StudyHome) -> list[StudyPart]:
    """Everything that the study shows."""
    return []
