"""Which columns are placebo axes: things that vary inside counterfactual sets and are no group of people."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from equipoise.audit.axes import NOT_AXES
from equipoise.audit.config import AuditConfig
from equipoise.audit.strata import PLACEBO
from equipoise.errors import InputError, closest

__all__ = ["placebo_axes"]


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
    if "set_id" not in frame:
        return False
    keys = [frame[column] for column in ("subject", "set_id") if column in frame]
    try:
        return bool((frame[name].groupby(keys).nunique() > 1).any())
    except TypeError:  # a column of lists
        return False
