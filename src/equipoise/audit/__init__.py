"""Questions: suites that say what to ask a model, over which pool, with which metrics, and the runner that asks.

:func:`run` asks a model over a table, :func:`measure_again` measures its evidence again without the model,
:func:`compare` pairs two audits. Results are rows of one table, each with its chance level.
"""

from typing import TYPE_CHECKING

from equipoise.first_use import on_first_use

if TYPE_CHECKING:
    from equipoise.audit.comparison import compare
    from equipoise.audit.config import AuditConfig
    from equipoise.audit.evidence import Evidence
    from equipoise.audit.findings import Findings
    from equipoise.audit.running import Audit, measure_again, run, run_captions, texts_asked
    from equipoise.audit.suite import Suite
    from equipoise.audit.suites import SUITES

__all__ = [
    "SUITES",
    "Audit",
    "AuditConfig",
    "Evidence",
    "Findings",
    "Suite",
    "compare",
    "measure_again",
    "run",
    "run_captions",
    "texts_asked",
]

_HOMES = {
    "SUITES": "suites",
    "Audit": "running",
    "AuditConfig": "config",
    "Evidence": "evidence",
    "Findings": "findings",
    "Suite": "suite",
    "compare": "comparison",
    "measure_again": "running",
    "run": "running",
    "run_captions": "running",
    "texts_asked": "running",
}


__getattr__ = on_first_use(__name__, _HOMES)
