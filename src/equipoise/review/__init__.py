"""People look: a small web app on this machine where people look at images and say what they see.

:func:`prepare` makes a review of a table, :func:`serve` serves it to people with personal links, :func:`labels_frame`
says what they said. Labels feed learned thresholds, error tables, calibration and axes (:mod:`equipoise.review.using`).
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use

if TYPE_CHECKING:
    from equipoise.review.labels import accepted_items, labels_frame, majority, people_layer
    from equipoise.review.preparing import ReviewSettings, open_review, prepare
    from equipoise.review.questions import Question, Questionnaire, preset, read_questionnaire
    from equipoise.review.serving import serve
    from equipoise.review.store import ReviewStore
    from equipoise.review.summary import ReviewSummary, summary_of

_HOMES = {
    "Question": "questions",
    "Questionnaire": "questions",
    "ReviewSettings": "preparing",
    "ReviewStore": "store",
    "ReviewSummary": "summary",
    "accepted_items": "labels",
    "labels_frame": "labels",
    "majority": "labels",
    "open_review": "preparing",
    "people_layer": "labels",
    "prepare": "preparing",
    "preset": "questions",
    "read_questionnaire": "questions",
    "serve": "serving",
    "summary_of": "summary",
}

__all__ = [
    "Question",
    "Questionnaire",
    "ReviewSettings",
    "ReviewStore",
    "ReviewSummary",
    "accepted_items",
    "labels_frame",
    "majority",
    "open_review",
    "people_layer",
    "prepare",
    "preset",
    "read_questionnaire",
    "serve",
    "summary_of",
]

# Imported on first use: pyarrow, fastapi and the statistics must not slow down `equipoise --help`.
__getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
