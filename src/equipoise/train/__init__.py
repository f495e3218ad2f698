"""Training: one resumable loop, fed by tables.

A *task* (:data:`TASKS`) says what learns and by which loss; :func:`fit` trains it on a table into a run folder that
``hf:<folder>`` opens. :func:`run` is the loop beneath, for losses that are not fed by tables.
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use

if TYPE_CHECKING:
    from equipoise.train.estimate import Estimated, estimated
    from equipoise.train.fitting import Trained, fit
    from equipoise.train.loop import run
    from equipoise.train.schedule import Schedule
    from equipoise.train.settings import TrainSettings
    from equipoise.train.task import TASKS, Task

__all__ = ["TASKS", "Estimated", "Schedule", "Task", "TrainSettings", "Trained", "estimated", "fit", "run"]

_HOMES = {
    "TASKS": "task",
    "Estimated": "estimate",
    "Schedule": "schedule",
    "Task": "task",
    "TrainSettings": "settings",
    "Trained": "fitting",
    "estimated": "estimate",
    "fit": "fitting",
    "run": "loop",
}

__getattr__ = on_first_use(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
