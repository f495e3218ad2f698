"""Policies: what is read, and that what does not fit is refused in one sentence that names it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from equipoise.errors import InputError
from equipoise.report.dossier.policy import Bound, example_policy, read_policy

WHOLE = """
intended_use = "Search"
decided_by = "us"
decided_on = 2026-01-15
[groups]
gender = ["female", "male"]
[[hazard]]
name = "unseen"
harm = "Nobody finds them."
[[bound]]
name = "first"
metric = "max_skew"
axis = "gender"
most = 0.1
hazard = "unseen"
"""


def _file(home: Path, text: str) -> Path:
    file = home / "policy.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_example_is_a_policy_and_its_hash_is_that_of_the_file(tmp_path: Path) -> None:
    file = _file(tmp_path, example_policy())
    policy = read_policy(file)
    assert policy.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert {bound.hazard for bound in policy.bounds} == {hazard.name for hazard in policy.hazards}
    assert {bound.axis for bound in policy.bounds} == {*policy.groups, *policy.intersections}


def test_a_date_may_stand_without_quotes(tmp_path: Path) -> None:
    policy = read_policy(_file(tmp_path, WHOLE))
    assert policy.decided_on == "2026-01-15"
    assert policy.bounds[0].limit_text == "at most 0.1"
    assert policy.groups == {"gender": ("female", "male")}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("intended_use", "intended_us", "did you mean 'intended_use'"),
        ('decided_by = "us"', 'decided_by = " "', "leaves decided_by empty"),
        ('decided_by = "us"', "", "the policy does not say its decided_by"),
        ('decided_by = "us"', "decided_by = 3", "decided_by = 3: give a text"),
        ("[groups]\n", "", "there is no entry of a policy named 'gender'"),
        ('gender = ["female", "male"]', "gender = [1, 2]", "groups"),
        ('gender = ["female", "male"]', "", "names no groups"),
        ('metric = "max_skew"', "", "bound 1 does not say its metric"),
        ('metric = "max_skew"', "metric = 3", "bound 1.metric = 3: give a text"),
        ("most = 0.1", "", "bound 'first' names no limit"),
        ("most = 0.1", 'most = "low"', "bound 1.most = 'low': give a number"),
        ("most = 0.1", "most = nan", "bound 1.most = nan: give a number"),
        ("most = 0.1", "most = -0.1", "which can only be too large"),
        ("most = 0.1", "least = 0.1", "which can only be too large"),
        ("most = 0.1", 'of = "value"\nmost = 0.1\nleast = 0.2', "lies below least"),
        ("most = 0.1", "most = 0.1\nk = 0", "bound 1.k = 0"),
        ("most = 0.1", 'most = 0.1\nend = "left"', "there is no end named 'left'"),
        ("most = 0.1", "most = 0.1\nmargin = 2", "there is no entry of a bound named 'margin'"),
        ('hazard = "unseen"', 'hazard = "unsen"', "did you mean 'unseen'"),
        ('harm = "Nobody finds them."', "", "hazard 1 does not say its harm"),
        ("[[bound]]", "[[limit]]", "there is no entry of a policy named 'limit'"),
        ("[[bound]]", "[bound]", "write each as [[bound]]"),
        ("[groups]", 'sha256 = "0"\n[groups]', "there is no entry of a policy named 'sha256'"),
        ("[groups]", "[groups", "not valid TOML"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in WHOLE
    with pytest.raises(InputError) as refused:
        read_policy(_file(tmp_path, WHOLE.replace(old, new, 1)))
    assert said in str(refused.value)
    assert "policy.toml: " in str(refused.value)
    assert "\n" not in str(refused.value).split("not valid TOML")[0]


def test_a_policy_without_bounds_or_with_two_alike_is_refused(tmp_path: Path) -> None:
    head, bound = WHOLE.split("[[bound]]")
    with pytest.raises(InputError, match="sets no bound"):
        read_policy(_file(tmp_path, head))
    with pytest.raises(InputError, match="two bounds are called 'first'"):
        read_policy(_file(tmp_path, f"{head}[[bound]]{bound}[[bound]]{bound}"))
    with pytest.raises(InputError, match="there is no policy at"):
        read_policy(tmp_path / "none.toml")


def test_a_value_may_be_held_between_two_limits() -> None:
    assert Bound(name="b", metric="m", of="value", least=-0.1, most=0.1).limit_text == "at least -0.1 and at most 0.1"
