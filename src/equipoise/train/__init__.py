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

_NAMES = {
    "estimate": ("Estimated", "estimated"),
    "fitting": ("Trained", "fit"),
    "loop": ("run",),
    "schedule": ("Schedule",),
    "settings": ("TrainSettings",),
    "task": ("TASKS", "Task"),
}
"""The public names of each module."""

__getattr__ = on_first_use(__name__, {name: home for home, names in _NAMES.items() for name in names})


def __dir__() -> list[str]:
    return sorted(__all__)
