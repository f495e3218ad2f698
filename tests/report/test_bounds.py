"""Constructed runs, and the outcome that each bound must have in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.data.results import RANDOM_RANKING, write_results
from equipoise.errors import InputError
from equipoise.report.dossier.bounds import BoundOutcome, CheckedPolicy, check_policy, outcome_of_bound
from equipoise.report.dossier.policy import Bound, Hazard, Policy
from equipoise.report.dossier.sensitivity import shifts
from equipoise.report.sources import read_given

from .folders import folder, of_sets, row


def policy(*bounds: Bound, **more: Any) -> Policy:
    told = {"intended_use": "search", "decided_by": "us", "decided_on": "today", "groups": {"gender": ("f", "m")}}
    return Policy(**{**told, **more}, bounds=bounds)


def skew(low: float | None, high: float | None, **keys: Any) -> dict[str, Any]:
    """MaxSkew with this interval of its excess, where chance gives 0.2."""
    ends = [None if end is None else 0.2 + end for end in (low, high)]
    value = 0.3 if low is None or high is None else 0.2 + (low + high) / 2
    return row("max_skew", (value, *ends, 0.01), chance=0.2, k=12, **keys)


def checked(home: Path, rows: list[dict[str, Any]], *bounds: Bound) -> CheckedPolicy:
    return check_policy(policy(*bounds), read_given([folder(home / "run", rows)]).series)


BOUND = Bound(name="b", metric="max_skew", suite="intersectional", axis="gender", most=0.1)


@pytest.mark.parametrize(
    ("rows", "changes", "outcome", "code", "why"),
    [
        ([skew(0.0, 0.09)], {}, "holds", 0, "within the limit"),
        ([skew(0.11, 0.4)], {}, "fails", 1, "beyond the limit"),
        ([skew(0.05, 0.4)], {}, "too small to tell", 3, "reaches across"),
        ([skew(0.05, 0.4)], {"end": "near"}, "too small to tell", 3, "could not have been found"),
        ([skew(0.05, 0.11)], {"end": "near"}, "holds", 0, "not beyond"),
        ([skew(0.11, 0.12)], {"end": "near"}, "fails", 1, "beyond the limit"),
        ([skew(None, None)], {}, "too small to tell", 3, "no interval"),
        ([skew(0.0, 0.05, n=1)], {}, "too small to tell", 3, "one unit"),
        # the excess lies within the limit, the value does not
        ([skew(0.0, 0.09)], {"of": "value"}, "fails", 1, "beyond the limit"),
        ([skew(0.0, 0.09)], {"of": "value", "most": 0.3, "least": 0.15}, "holds", 0, "within the limit"),
        ([skew(0.0, 0.09)], {"of": "value", "most": None, "least": 0.25}, "too small to tell", 3, "across"),
        ([skew(0.0, 0.09)], {"metric": "max_skw"}, "missing", 3, "the metric 'max_skw'; there is max_skew"),
        ([skew(0.0, 0.09)], {"axis": "age"}, "missing", 3, "no axis 'age'; there is gender"),
        ([skew(0.0, 0.09)], {"suite": "marginal"}, "missing", 3, "the suite 'marginal'; there is intersectional"),
        ([skew(0.0, 0.09)], {"k": 5}, "missing", 3, "no k 5; there is 12"),
        ([skew(0.0, 0.09)], {"k": 12}, "holds", 0, "within"),
        ([skew(0.0, 0.09)], {"group": "female"}, "missing", 3, "no group 'female'"),
        ([skew(0.0, 0.09)], {"pool": "natural"}, "missing", 3, "no pool 'natural'; there is rendered"),
        ([skew(0.0, 0.09)], {"variant": "berg"}, "missing", 3, "no variant 'berg'; there is equipoise"),
    ],
)
def test_each_interval_has_its_outcome(
    tmp_path: Path, rows: list[dict[str, Any]], changes: dict[str, Any], outcome: str, code: int, why: str
) -> None:
    done = checked(tmp_path, rows, BOUND.having(changes))
    assert (done.outcome.value, done.exit_code) == (outcome, code)
    assert why in done.checks[0].why
    assert json.loads(json.dumps(done.plain()))["bounds"][0]["outcome"] == outcome


def test_every_row_must_hold_and_the_worst_is_shown(tmp_path: Path) -> None:
    rows = [skew(0.0, 0.05), skew(0.2, 0.3, axis="age"), skew(0.0, 0.3, axis="skin_tone")]
    done = checked(tmp_path, rows, BOUND.having({"axis": ""}))
    assert [check.outcome for check in done.checks] == ["holds", "fails", "too small to tell"]
    assert [(check.axis, done.beside(check)) for check in done.deciding] == [("age", 3)]
    assert done.exit_code == 1


def test_one_that_fails_weighs_more_than_one_that_is_missing(tmp_path: Path) -> None:
    done = checked(tmp_path, [skew(0.2, 0.3)], BOUND, BOUND.having({"name": "c", "axis": "age"}))
    assert done.exit_code == 1
    done = checked(tmp_path / "more", [skew(0.0, 0.05)], BOUND, BOUND.having({"name": "c", "axis": "age"}))
    assert done.exit_code == 3


def test_pairs_are_found_whichever_group_comes_first_and_signs_do_not_matter(tmp_path: Path) -> None:
    rows = of_sets(gap=(-0.5, -0.6, -0.4, 0.001), size=(0.5, 0.4, 0.6, 0.001))
    for pair in ("female - male", "male - female"):
        bound = Bound(name=pair, metric="standard_gap", axis="gender", group=pair, most=0.2)
        check = checked(tmp_path / pair, rows, bound).checks[0]
        assert (check.value, check.low, check.high) == pytest.approx((0.5, 0.4, 0.6))
        assert check.outcome is BoundOutcome.FAILS
    whole = checked(tmp_path / "whole", rows, Bound(name="s", metric="standard_gap_size", axis="gender", most=0.7))
    assert [check.outcome for check in whole.checks] == ["holds"], "subjects are not rows of a bound"


def test_less_than_a_placebo_is_nothing_to_hold_against_a_model(tmp_path: Path) -> None:
    bound = Bound(name="p", metric="placebo_excess", axis="gender", most=0.2)
    done = checked(tmp_path, of_sets(placebo=(-0.6, -0.9, -0.3, 0.01)), bound)
    assert done.exit_code == 0
    assert done.checks[0].value == pytest.approx(-0.6)


def test_axes_of_placebos_are_left_out_unless_named(tmp_path: Path) -> None:
    rows = of_sets(size=(0.02, 0.0, 0.1, 0.6), placebo=(0.0, -0.1, 0.1, 0.9))
    every = checked(tmp_path / "a", rows, Bound(name="s", metric="standard_gap_size", most=0.2))
    assert {check.axis for check in every.checks} == {"gender"}
    named = checked(tmp_path / "b", rows, Bound(name="s", metric="standard_gap_size", axis="placebo_bag", most=0.2))
    assert named.exit_code == 1


def test_each_model_is_held_to_each_bound(tmp_path: Path) -> None:
    fine = folder(tmp_path / "fine", [skew(0.0, 0.05)], model="fine")
    bad = folder(tmp_path / "bad", [skew(0.3, 0.5)], model="bad")
    lacking = folder(tmp_path / "lacking", [skew(0.0, 0.05, axis="age")], model="lacking")
    done = check_policy(policy(BOUND), read_given([fine, bad, lacking]).series)
    assert {check.model: check.outcome.value for check in done.deciding} == {
        "fine": "holds",
        "bad": "fails",
        "lacking": "missing",
    }


def test_what_the_policy_names_and_nothing_looks_at_is_told(tmp_path: Path) -> None:
    series = read_given([folder(tmp_path / "run", [skew(0.0, 0.05), skew(0.0, 0.05, axis="age")])]).series
    told = policy(
        BOUND,
        groups={"gender": ("f",), "age": ("old",), "skin_tone": ("dark",)},
        hazards=(Hazard(name="h", harm="bad"),),
    )
    notes = check_policy(told, series).notes(series)
    assert notes == [
        "the policy names age, and sets no bound on it",
        "the policy names skin_tone, and no run has numbers on it",
        "no bound watches the hazard 'h'",
    ]


def test_results_without_settings_and_of_older_files_are_held_too(tmp_path: Path) -> None:
    rows = [{**skew(0.11, 0.4), "suite": "intersectional", "model": "m"}]
    later = ("dropped", "published", "side", "codes")
    old = [{name: value for name, value in one.items() if name not in later} for one in rows]
    write_results(tmp_path / "old" / "results.parquet", old)
    assert check_policy(policy(BOUND), read_given([tmp_path / "old"]).series).exit_code == 1


ENDS = st.floats(-1, 1)


@given(ENDS, ENDS, st.floats(0, 1))
def test_an_interval_is_within_beyond_or_across(one: float, other: float, most: float) -> None:
    low, high = sorted((one, other))
    far = outcome_of_bound(low, high, most=most, least=None)
    assert (far is BoundOutcome.HOLDS) == (high <= most)
    assert (far is BoundOutcome.FAILS) == (low > most)
    mirrored = outcome_of_bound(-high, -low, most=None, least=-most)
    assert mirrored is far
    near = outcome_of_bound(low, high, most=most, least=None, end="near", smallest=most)
    assert near is (BoundOutcome.FAILS if low > most else BoundOutcome.HOLDS)


def test_sensitivity_pairs_the_same_subjects(tmp_path: Path) -> None:
    keys = {"model": "m"}
    each = [0.1, 0.3, 0.5, 0.7]
    shares = [0.5, 1.5, 0.8, 1.2]  # the change of each subject, of the mean change

    def rows(shift: float) -> list[dict[str, Any]]:
        made = [skew(0.3 + shift, 0.5 + shift)]
        for number, value in enumerate(each):
            one = row(
                "max_skew",
                (0.2 + value + shares[number] * shift, None, None, 0.1),
                chance=0.2,
                sd=0.1,
                k=12,
                subject=f"s{number}",
            )
            made.append(one)
        return made

    plain = folder(tmp_path / "plain", rows(0.0), **keys)
    soft = folder(tmp_path / "soft", rows(-0.1), table="soft", **keys)
    found = shifts(read_given([plain]).series, read_given([soft]).series, policy(BOUND))
    assert len(found) == 1
    assert (found[0].before, found[0].after) == pytest.approx((0.4, 0.3))
    assert (found[0].change, found[0].share, found[0].n) == pytest.approx((-0.1, -0.25, 4))
    assert found[0].low is not None
    assert found[0].high is not None
    assert found[0].low < -0.1 < found[0].high


def test_an_audit_that_cannot_stand_beside_another_is_refused(tmp_path: Path) -> None:
    plain = read_given([folder(tmp_path / "plain", [skew(0.0, 0.1)], model="m")]).series
    same = read_given([folder(tmp_path / "same", [skew(0.0, 0.1)], model="m")]).series
    other = read_given([folder(tmp_path / "other", [skew(0.0, 0.1)], model="o", table="soft")]).series
    with pytest.raises(InputError, match="same pictures as plain"):
        shifts(plain, same, policy(BOUND))
    with pytest.raises(InputError, match="no run that was given is"):
        shifts(plain, other, policy(BOUND))


def test_rows_without_a_chance_level_have_a_value_and_no_size(tmp_path: Path) -> None:
    rows = [{**skew(0.0, 0.05), "null_mean": None, "null_sd": None, "p_value": None, "excess": None}]
    sized = checked(tmp_path / "a", rows, BOUND).checks[0]
    assert sized.outcome is BoundOutcome.OPEN
    assert "no chance level" in sized.why
    valued = checked(tmp_path / "b", rows, BOUND.having({"of": "value", "most": 0.3})).checks[0]
    assert valued.outcome is BoundOutcome.HOLDS
    assert pd.notna(valued.value)


def test_a_pool_ranked_blindly_is_not_held_to_a_bound(tmp_path):
    """Audits of the suite contrast have it beside the model, without an interval: no bound could ever hold."""
    blind = row("max_skew", (0.2, None, None, None), chance=0.2, sd=0.05, k=12, model=RANDOM_RANKING)
    found = checked(tmp_path, [skew(0.0, 0.09), blind], BOUND)
    assert [(check.model, check.outcome.value) for check in found.checks] == [("m", "holds")]
    assert found.exit_code == 0
