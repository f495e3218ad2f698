"""What people who audited their own data stumbled over on the page and in the verdict."""

from __future__ import annotations

from equipoise.audit.suites import SUITES
from equipoise.report.findings import PROMPTS, WITHOUT_SUBJECTS


def test_the_suites_without_subjects_are_those_that_audits_have() -> None:
    assert not SUITES.load(PROMPTS).fills_prompts
    for name in WITHOUT_SUBJECTS:
        assert "subject" not in SUITES.load(name).columns
