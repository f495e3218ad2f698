"""The signed gap of two groups: what its interval covers, and where there is none."""

import numpy as np
import pytest

from equipoise.audit.config import AuditConfig
from equipoise.audit.suites._counterfactual import signed_gap
from equipoise.errors import InputError


@pytest.mark.parametrize("jobs", [2, 3, 5, 10])
def test_the_interval_over_jobs_covers(jobs):
    covered = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        job, first = np.repeat(np.arange(jobs), 20), np.tile([True, False], 10 * jobs)
        gap = rng.normal(scale=0.15, size=jobs)[job]  # jobs differ; on average there is no gap
        values = (rng.random(len(job)) < 0.6 + np.where(first, gap, -gap) / 2).astype(float)
        found = signed_gap(values, first, AuditConfig(draws=19, seed=seed), blocks=job)
        covered += found.ci_low <= 0 <= found.ci_high
        assert -1 <= found.ci_low < found.ci_high <= 1
    assert covered / 300 >= 0.92


@pytest.mark.parametrize(
    ("values", "first", "blocks", "why"),
    [
        ([1, 0, 1, 0], [1, 0, 1, 0], [0, 0, 0, 0], "one of the two groups has one independent unit"),
        ([1, 0, 1, 1], [1, 0, 0, 0], [0, 0, 1, 2], "one of the two groups has one independent unit"),
    ],
)
def test_no_interval_says_why(values, first, blocks, why):
    found = signed_gap(values, first, AuditConfig(draws=19), blocks=blocks, notes=("a minus b",))
    assert (found.ci_low, found.ci_high) == (None, None)
    assert found.notes == ("a minus b", f"no interval: {why}")


def test_the_same_gap_in_every_job_is_not_certain():
    values, first = [1, 1, 1, 1, 0.5, 0.5] * 3, [True, True, True, False, False, False] * 3
    found = signed_gap(values, first, AuditConfig(draws=19), blocks=np.repeat([0, 1, 2], 6))
    assert found.notes == ()
    assert found.ci_high - found.ci_low > 0.5


def test_only_shares():
    with pytest.raises(InputError, match="between 0 and 1"):
        signed_gap([3.0, 1.0], [True, False], AuditConfig(), blocks=[0, 1])
